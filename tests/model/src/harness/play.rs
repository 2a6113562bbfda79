//! The model that stateright visits: everything that those who take part may do, in every order.

use std::sync::Arc;

use stateright::{Model, Property};

use super::act::{Act, Answer, Io, Ports};
use super::claims::{Checked, Promises};
use super::histories::{After, Calls, Known, Place, Process, Running};
use super::{Mishaps, Role, Run, Subject};

/// The calls of a setting.
#[derive(Debug)]
pub struct Cast<S>(S);

impl<S: Subject> Calls for Cast<S> {
    type Role = Role;
    type Op = Io<S>;
    type Answer = Answer;
    type Learnt = ();

    fn ports(&self, role: &Role) -> Ports<S> {
        Ports::new(String::new(), self.0.now(*role))
    }

    async fn call(&self, role: Role, ports: &Ports<S>) -> bool {
        self.0.call(role, ports).await;
        true
    }

    fn begin(&self, _: &Role) {}
}

/// A state of a setting.
pub type State<S> = StateOf<<S as Subject>::World, <S as Subject>::Promise, Running<Cast<S>>>;

/// A state.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub struct StateOf<W, P, R> {
    /// The tables.
    pub world: W,
    /// The first promise that was broken.
    pub broken: Option<P>,
    /// Those of the setting in their order, and the sweep.
    pub places: Vec<Place<R>>,
    /// Sweeps that have come so far.
    pub sweeps: u8,
    /// What may still go wrong.
    pub left: Mishaps,
}

/// What may happen.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub enum Action<H, E> {
    /// The process at a place does its next I/O, which comes out so, and may be its last.
    Io(usize, H, After),
    /// Something happens by itself.
    Happens(E),
}

/// One setting, perhaps with a rule removed.
pub struct Play<S: Subject> {
    run: Run<S>,
    removed: Option<S::Rule>,
    calls: Known<Cast<S>>,
}

impl<S: Subject> Play<S> {
    /// The process at a place, if it may act.
    fn actor(&self, state: &State<S>, place: usize) -> Option<Arc<Process<Cast<S>>>> {
        match state.places.get(place)? {
            Place::Runs(running) => Some(Arc::clone(&running.0)),
            Place::Waits => self.begins(state, place).map(|role| self.calls.start(role)),
            Place::Ended => None,
        }
    }

    /// What would begin at a place, if it may.
    fn begins(&self, state: &State<S>, place: usize) -> Option<Role> {
        let Run { of, sweeps, .. } = &self.run;
        if place < of.places() {
            return of.may_begin(place, &state.world, &state.left).then_some(Role::One(place));
        }
        let is_left = || {
            S::most_sweeps(&self.run).is_some_and(|most| state.sweeps < most)
                && self.others_rest(state)
                && !of.is_at_rest(&state.world)
        };
        (*sweeps && state.sweeps == 0 || is_left()).then_some(Role::Sweep(state.sweeps))
    }

    /// Whether everybody but sweep has done what can be done.
    fn others_rest(&self, state: &State<S>) -> bool {
        state.places.iter().take(self.run.of.places()).enumerate().all(|(place, stands)| match stands {
            Place::Runs(_) => false,
            Place::Ended => true,
            Place::Waits => self.run.of.may_stay_away(place) || self.begins(state, place).is_none(),
        })
    }

    fn act<'a>(&'a self, state: &'a mut State<S>, role: Option<Role>, shown: S::Shown, dies: bool) -> Act<'a, S> {
        let StateOf { world, broken, left, .. } = state;
        Act { world, left, broken, of: &self.run.of, removed: self.removed, role, shown, dies }
    }

    /// A process does its next I/O.
    fn step(&self, state: &mut State<S>, place: usize, shown: S::Shown, after: After) -> Option<()> {
        let process = self.actor(state, place)?;
        let (call, io) = process.next_io()?;
        let is_sweep = place >= self.run.of.places();
        if !is_sweep && state.places[place] == Place::Waits {
            self.run.of.begin(place, &mut state.world, &mut state.left);
        }
        let dies = after != After::GoesOn;
        let answer = io.carry_out(self.act(state, Some(process.role), shown, dies));
        let next = match after {
            After::GoesOn => self.go_on(state, self.calls.next(&process, *call, answer)),
            After::Dies if S::COMES_BACK_AT_ONCE => Place::Runs(Running(self.calls.start(process.role))),
            After::Dies => Place::Waits,
            After::DiesForGood if !is_sweep && self.run.of.is_written(place, &state.world) => Place::Ended,
            After::DiesForGood => return None,
        };
        state.left.deaths -= u8::from(dies);
        let is_over = !matches!(next, Place::Runs(_));
        // The next sweep takes its place.
        state.places[place] = if is_sweep && is_over { Place::Waits } else { next };
        state.sweeps += u8::from(is_sweep && is_over);
        Some(())
    }

    /// Where a process stands after an answer. When nobody dies any more, nobody can tell when it sends.
    fn go_on(&self, state: &mut State<S>, mut process: Arc<Process<Cast<S>>>) -> Place<Running<Cast<S>>> {
        while state.left.deaths == 0
            && let Some((call, io)) = process.next_io()
            && io.sends()
        {
            let answer = io.carry_out(self.act(state, Some(process.role), S::Shown::default(), false));
            process = self.calls.next(&process, *call, answer);
        }
        if process.end.is_some() { Place::Ended } else { Place::Runs(Running(process)) }
    }

    /// Promises about what was left undone.
    fn judge(&self, state: &mut State<S>) {
        S::judge(&self.run, self.removed, state);
        let most = S::most_sweeps(&self.run);
        let sweep_waits = most.is_none() || state.places.last() == Some(&Place::Waits);
        let of = &self.run.of;
        if sweep_waits
            && most.is_none_or(|most| state.sweeps == most || of.is_at_rest(&state.world))
            && self.others_rest(state)
            && !of.is_whole(&state.world)
        {
            state.broken = state.broken.or(Some(S::LOST));
        }
    }
}

impl<S: Subject> Model for Play<S> {
    type State = State<S>;
    type Action = Action<S::Shown, S::Event>;

    fn init_states(&self) -> Vec<State<S>> {
        let Run { of, left, .. } = self.run;
        let places = of.places() + usize::from(S::most_sweeps(&self.run).is_some());
        vec![StateOf { world: of.world(), broken: None, places: vec![Place::Waits; places], sweeps: 0, left }]
    }

    fn actions(&self, state: &State<S>, actions: &mut Vec<Self::Action>) {
        if state.broken.is_some() {
            return;
        }
        for place in 0..state.places.len() {
            let Some(process) = self.actor(state, place) else { continue };
            let Some((_, io)) = process.next_io() else { continue };
            let deaths = if state.left.deaths > 0 { S::deaths(io.writes()) } else { &[] };
            for shown in io.shown(&state.world, &state.left, self.removed) {
                actions.push(Action::Io(place, shown, After::GoesOn));
                actions.extend(deaths.iter().map(|after| Action::Io(place, shown, *after)));
            }
        }
        actions.extend(self.run.of.events(&state.world, &state.left).into_iter().map(Action::Happens));
    }

    fn next_state(&self, last: &State<S>, action: Self::Action) -> Option<State<S>> {
        let mut state = last.clone();
        match action {
            Action::Io(place, shown, after) => self.step(&mut state, place, shown, after)?,
            Action::Happens(event) => S::happen(&mut self.act(&mut state, None, S::Shown::default(), false), event),
        }
        self.judge(&mut state);
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        S::Promise::properties()
    }
}

impl<S: Subject> Checked for Play<S> {
    type Run = Run<S>;
    type Rule = S::Rule;
    type Promise = S::Promise;

    const QUICK: &'static [Run<S>] = S::QUICK;
    const LONG: &'static [Run<S>] = S::LONG;

    fn of(run: Run<S>, removed: Option<S::Rule>) -> Self {
        Self { run, removed, calls: Known::new(Cast(run.of)) }
    }

    fn title(Run { of, left: Mishaps { deaths, copies, lags }, sweeps }: &Run<S>) -> String {
        let name = of.name();
        format!("{name}, {deaths} deaths, {copies} copies, {lags} lagging reads, swept {sweeps}")
    }

    fn broken(state: &State<S>) -> Option<S::Promise> {
        state.broken
    }

    fn tell(&self, state: &State<S>, action: Self::Action) -> String {
        match action {
            Action::Io(place, shown, after) => {
                let process = self.actor(state, place);
                format!("{} {shown:?} {after:?}", process.map_or_else(String::new, |process| process.told()))
            }
            Action::Happens(event) => format!("{event:?}"),
        }
    }
}
