//! The meaning of HTTP statuses.

use std::collections::BTreeSet;

use crate::domain::outcome::Reason;

/// The meaning of an HTTP status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The body says what became of each member.
    Answer,
    /// The downstream is away for now, whatever is sent to it.
    Outage,
    /// This call is refused for good.
    Refusal,
    /// This call is refused for good, unless an earlier one under its key may run still, or was carried out.
    Conflict,
}

impl Class {
    /// Returns the meaning of a status, unless the route says otherwise.
    #[must_use]
    pub const fn of(status: u16) -> Self {
        match status {
            200..=299 => Self::Answer,
            // Who may call is a matter of the secret, which may just be replaced; when to call, of the moment.
            401 | 403 | 408 | 425 | 429 | 500..=599 => Self::Outage,
            409 => Self::Conflict,
            // A redirect would carry payloads and secrets to an address that no route names: it is never followed.
            _ => Self::Refusal,
        }
    }

    /// Returns a status as a reason.
    pub(in crate::routes) fn reason(status: u16) -> Reason {
        let word = if (300..=399).contains(&status) { "redirect" } else { "http" };
        Reason::new(format!("{word}_{status}"))
    }
}

/// The statuses of which a route says otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::routes) struct Otherwise {
    /// These are outages.
    pub(in crate::routes) outages: BTreeSet<u16>,
    /// These are refusals.
    pub(in crate::routes) refusals: BTreeSet<u16>,
}

impl Otherwise {
    pub(in crate::routes) fn class(&self, status: u16) -> Class {
        if self.outages.contains(&status) {
            Class::Outage
        } else if self.refusals.contains(&status) {
            Class::Refusal
        } else {
            Class::of(status)
        }
    }
}
