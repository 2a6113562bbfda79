//! What a replica or an index shows of something, version by version.

use groupage_core::domain::time::Timestamp;

/// Versions, each with the moment from which it is shown.
pub(super) type Versions<T> = Vec<(Timestamp, T)>;

/// Versions are shown in their order, none before its forerunner.
pub(super) fn push<T>(versions: &mut Versions<T>, at: Timestamp, version: T) {
    let at = versions.last().map_or(at, |(earlier, _)| at.max(*earlier));
    versions.push((at, version));
}

pub(super) fn shown<T>(versions: &Versions<T>, now: Timestamp) -> Option<&T> {
    versions.iter().rfind(|(at, _)| *at <= now).map(|(_, version)| version)
}
