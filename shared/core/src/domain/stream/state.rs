//! Where a stream stands, and how its source comes to an end.

/// Where a stream stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Events are fed. Its owner ends it.
    Open,
    /// No more events come; those unsettled still settle. The commit that finds none left completes it.
    Ended,
    /// Its source gave up: no more events come, and it is never complete. Those unsettled still settle. Final.
    Failed,
    /// It was ended, and all is settled. Final.
    Completed,
}

/// In which way a source comes to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// All of it was fed.
    Ended,
    /// It gave up.
    Failed,
}

impl State {
    /// All states.
    pub const ALL: [Self; 4] = [Self::Open, Self::Ended, Self::Failed, Self::Completed];

    /// The word stored in the `State` attribute, and shown.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Ended => "ended",
            Self::Failed => "failed",
            Self::Completed => "completed",
        }
    }

    /// The state of this word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.word() == word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_has_a_word_of_its_own() {
        for state in State::ALL {
            assert_eq!(State::parse(state.word()), Some(state));
        }
        assert_eq!(State::parse("melted"), None);
    }
}
