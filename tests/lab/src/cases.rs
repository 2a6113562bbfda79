//! Random cases, each in virtual time; of one that fails, proptest looks for the smallest.

use std::cell::RefCell;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::effort;
use crate::prelude::*;

/// What a check of a case comes to.
pub type Checked<T = ()> = Result<T, TestCaseError>;

/// What a case came to, by name.
pub type Came<const N: usize> = [(&'static str, u32); N];

/// Tries as many cases as `GROUPAGE_CASES` says, or else `default`: a seed and what `steps` makes. Prints how many
/// there were and what they came to, so that they show that they try what they say.
///
/// # Panics
/// A case failed, `GROUPAGE_CASES` is no number, or no case came to one of the things that all of them may come to.
pub fn run<S: Strategy, const N: usize>(default: u32, steps: S, case: impl AsyncFn(u64, S::Value) -> Checked<Came<N>>) {
    let cases = effort::number("GROUPAGE_CASES").unwrap_or(default);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let all: RefCell<Option<Came<N>>> = RefCell::default();
    let run = TestRunner::new(config).run(&(any::<u64>(), steps), |(seed, steps)| {
        let came = in_virtual_time(case(seed, steps))?;
        let mut all = all.borrow_mut();
        match &mut *all {
            None => *all = Some(came),
            Some(all) => all.iter_mut().zip(came).for_each(|(all, (_, more))| all.1 += more),
        }
        Ok(())
    });
    if let Err(error) = run {
        panic!("{error}");
    }
    let all = all.into_inner().into_iter().flatten();
    let shown: Vec<String> = all.clone().map(|(what, count)| format!("{count} {what}")).collect();
    println!("{cases} cases: {}", shown.join(", "));
    let none: Vec<&str> = all.filter(|(_, count)| *count == 0).map(|(what, _)| what).collect();
    assert!(none.is_empty(), "the cases do not show all that they should: no {none:?}");
}

/// A call with what befalls it, and whether it is repeated then.
#[derive(Clone, Debug)]
pub struct Step<C> {
    /// The call.
    pub call: C,
    /// At which of its calls to a port what happens.
    fault: Option<(usize, Side, Fault)>,
    repeated: bool,
}

/// What became of a step's call.
#[derive(Debug)]
pub struct Made<A> {
    /// Its answer; `None` if something befell it and nobody repeated it.
    pub answer: Option<A>,
    /// Whether something befell it.
    pub faulted: bool,
}

impl<C> Step<C> {
    /// A call that nothing befalls.
    pub const fn unharmed(call: C) -> Self {
        Self { call, fault: None, repeated: false }
    }

    /// Makes the call as a process that goes by a plan, and once more with nothing befalling it if it is to be
    /// repeated. `call` answers with what a process that lived was told, and whether something befell it.
    ///
    /// # Panics
    /// A call that nothing befell was not answered.
    #[allow(clippy::expect_used, reason = "a test's set-up")]
    pub async fn make<A, E: std::fmt::Debug>(
        &self,
        call: impl AsyncFn(Plan) -> (Option<Result<A, E>>, bool),
    ) -> Made<A> {
        let plan = self.fault.map_or(Plan::Nothing, |(at, side, fault)| Plan::At(at, side, fault));
        let (mut answer, faulted) = call(plan).await;
        if faulted && self.repeated {
            (answer, _) = call(Plan::Nothing).await;
        }
        let answered = || answer.expect("nothing befell it").expect("nothing was refused to it");
        Made { answer: (!faulted || self.repeated).then(answered), faulted }
    }
}

/// Runs a call as a process to which happens what the plan says: its answer if it lived, and whether something befell
/// it.
pub async fn in_process<T>(env: &TestEnv, plan: Plan, work: impl AsyncFnOnce(&Process) -> T) -> (Option<T>, bool) {
    let fate = Arc::new(Fate::new(plan, env.clone(), false));
    let process = Process::new("call", env.clone(), Arc::clone(&fate), 5);
    let answer = process.run(work(&process), || {}).await;
    (answer, !fate.faults().is_empty())
}

/// A call that crashes, or gets an error, at one of its calls to a port, as often as not, and is repeated then or not.
pub fn step<C: std::fmt::Debug>(
    call: impl Strategy<Value = C>,
    at: impl Strategy<Value = usize>,
) -> impl Strategy<Value = Step<C>> {
    let fault = (at, any::<bool>(), any::<bool>()).prop_map(|(at, before, dies)| {
        (at, if before { Side::Before } else { Side::After }, if dies { Fault::Death } else { Fault::Error })
    });
    let step = (call, prop::option::weighted(0.4, fault), prop::bool::weighted(0.4));
    step.prop_map(|(call, fault, repeated)| Step { call, fault, repeated })
}
