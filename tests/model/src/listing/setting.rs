//! What takes part.

/// A list's name.
pub(super) const NAME: &str = "l";

/// What somebody does, under a key of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Does {
    /// Puts so many tasks.
    Puts(u64),
    /// Releases so many.
    Releases(u64),
    /// Discards all that wait.
    Discards,
    /// Closes the list.
    Closes,
}

/// One setting.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// What it is about.
    pub name: &'static str,
    /// Tasks that wait at the beginning.
    pub waiting: u64,
    /// Those who take part.
    pub who: &'static [Does],
    /// How often a process may die.
    pub crashes: u8,
    /// How often a copy of a taking may come.
    pub copies: u8,
    /// How often a read of tasks may miss those that were put last.
    pub lags: u8,
    /// Whether sweep comes in between as well.
    pub sweeps: bool,
}

const NONE: Setting = Setting { name: "", waiting: 0, who: &[], crashes: 0, copies: 0, lags: 0, sweeps: false };

/// Two who put at once, onto a list that is not there.
pub const PUTTERS: Setting = Setting { name: "two who put", who: &[Does::Puts(1), Does::Puts(2)], ..NONE };

/// Two who release what waits.
pub const RELEASERS: Setting =
    Setting { name: "two who release", waiting: 3, who: &[Does::Releases(2), Does::Releases(2)], ..NONE };

/// One who puts, and one who releases at the same time.
pub const BOTH: Setting =
    Setting { name: "one who puts and one who releases", waiting: 1, who: &[Does::Puts(1), Does::Releases(2)], ..NONE };

/// One who releases, and one who discards the rest.
pub const DISCARD: Setting =
    Setting { name: "a release and a discard", waiting: 3, who: &[Does::Releases(1), Does::Discards], ..NONE };

/// One who releases while another closes.
pub const CLOSING: Setting =
    Setting { name: "a release and a closing", waiting: 2, who: &[Does::Releases(1), Does::Closes], ..NONE };

/// One release alone.
pub const ALONE: Setting = Setting { name: "a release", waiting: 2, who: &[Does::Releases(1)], ..NONE };

/// Three who release single tasks.
pub const THREE: Setting = Setting {
    name: "three who release",
    waiting: 3,
    who: &[Does::Releases(1), Does::Releases(1), Does::Releases(1)],
    ..NONE
};

/// Those of every run, and larger ones if that is asked for.
#[must_use]
pub fn chosen() -> Vec<Setting> {
    let mut chosen = vec![
        PUTTERS.with(2, 0, 0),
        RELEASERS.with(2, 1, 0),
        RELEASERS.with(1, 0, 0).swept(),
        BOTH.with(2, 1, 2).swept(),
        DISCARD.with(2, 1, 0),
        DISCARD.with(1, 0, 0).swept(),
        CLOSING.with(2, 1, 0).swept(),
        ALONE.with(3, 2, 0).swept(),
        THREE.with(1, 0, 0),
    ];
    if std::env::var("GROUPAGE_MODEL").is_ok_and(|model| model == "full") {
        chosen.extend([RELEASERS.with(2, 1, 0).swept(), DISCARD.with(2, 1, 0).swept(), THREE.with(1, 1, 0)]);
    }
    chosen
}

impl Setting {
    /// With so many deaths, copies and lagging reads.
    #[must_use]
    pub const fn with(self, crashes: u8, copies: u8, lags: u8) -> Self {
        Self { crashes, copies, lags, ..self }
    }

    /// With a sweep in between.
    #[must_use]
    pub const fn swept(self) -> Self {
        Self { sweeps: true, ..self }
    }
}
