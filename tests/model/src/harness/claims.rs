//! Promises, and the rules that keep them: each is written once, with what breaks it.

use std::fmt::Debug;
use std::hash::Hash;

use stateright::{Model, Property};

/// What must hold. The first promise that a run breaks is kept in the state.
pub trait Promises: Copy + Debug + Hash + Eq + Send + Sync + 'static {
    /// Every promise.
    const ALL: &'static [Self];

    /// What a run that breaks it has done.
    fn broken(self) -> &'static str;

    /// A property for each promise: stateright takes functions, not closures.
    fn properties<M: Checked<Promise = Self>>() -> Vec<Property<M>>;
}

/// A rule that can be removed. Removing one changes what the tables or the queues do, never a step's code.
pub trait Rules: Copy + Debug + Eq + Send + Sync + 'static {
    /// A run of the model.
    type Run;
    /// What the rules keep.
    type Promise: Promises;

    /// Every rule.
    const ALL: &'static [Self];

    /// Where its removal shows, and what it breaks.
    fn shows(self) -> (Self::Run, Self::Promise);
}

/// A model that can be checked.
pub trait Checked:
    Model<State: Clone + Hash + PartialEq + Send + Sync, Action: Copy + PartialEq + Send + Sync>
    + Send
    + Sync
    + Sized
    + 'static
{
    /// What is checked at a time.
    type Run: Copy + 'static;
    /// What can be removed.
    type Rule: Rules<Run = Self::Run, Promise = Self::Promise>;
    /// What must hold.
    type Promise: Promises;

    /// What every check visits.
    const QUICK: &'static [Self::Run];
    /// What a long check visits as well.
    const LONG: &'static [Self::Run];
    /// What takes hours, or more memory than most machines have.
    const LARGEST: &'static [Self::Run] = &[];

    /// The model of a run, perhaps without a rule.
    fn of(run: Self::Run, removed: Option<Self::Rule>) -> Self;

    /// What a run is about.
    fn title(run: &Self::Run) -> String;

    /// The promise that is broken in a state.
    fn broken(state: &Self::State) -> Option<Self::Promise>;

    /// What an action does, in words.
    fn tell(&self, state: &Self::State, action: Self::Action) -> String;
}

/// `/// What must hold. Name: "what a run that breaks it has done"`.
macro_rules! promises {
    ($($(#[$doc:meta])+ $promise:ident: $told:literal),+ $(,)?) => {
        /// What must hold.
        #[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
        pub enum Promise {
            $($(#[$doc])+ $promise,)+
        }

        impl $crate::harness::claims::Promises for Promise {
            const ALL: &'static [Self] = &[$(Self::$promise),+];

            fn broken(self) -> &'static str {
                match self {
                    $(Self::$promise => $told,)+
                }
            }

            fn properties<M: $crate::harness::claims::Checked<Promise = Self>>() -> Vec<stateright::Property<M>> {
                vec![$(stateright::Property::always($told, |_, state| M::broken(state) != Some(Self::$promise))),+]
            }
        }
    };
}

/// `/// The rule. Name: where its removal shows => what it breaks`.
macro_rules! rules {
    ($run:ty; $($(#[$doc:meta])+ $rule:ident: $shows:expr => $promise:ident),+ $(,)?) => {
        /// A rule that can be removed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Rule {
            $($(#[$doc])+ $rule,)+
        }

        impl $crate::harness::claims::Rules for Rule {
            type Run = $run;
            type Promise = Promise;

            const ALL: &'static [Self] = &[$(Self::$rule),+];

            fn shows(self) -> ($run, Promise) {
                match self {
                    $(Self::$rule => ($shows, Promise::$promise),)+
                }
            }
        }
    };
}

pub(crate) use {promises, rules};
