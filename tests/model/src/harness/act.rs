//! One I/O: what a call asks of the tables, and what it is told.

use std::any::Any;
use std::fmt::{self, Debug};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use groupage_core::domain::time::Timestamp;
use groupage_core::ports::{Env, Outbox, Outgoing, Result, Unasked};

use super::kept::{Kept, Names};
use super::recorder::Recorder;
use super::{Mishaps, Role, Subject};

/// The calls of one process.
pub type Ports<S> = Recorder<Io<S>, Answer>;

/// The tables, in the hands of one who acts on them.
pub struct Act<'a, S: Subject> {
    /// The tables.
    pub world: &'a mut S::World,
    /// What may still go wrong.
    pub left: &'a mut Mishaps,
    /// The first promise that was broken.
    pub broken: &'a mut Option<S::Promise>,
    /// The setting.
    pub of: &'a S,
    /// The rule that is not kept.
    pub removed: Option<S::Rule>,
    /// Who acts, if it is a process.
    pub role: Option<Role>,
    /// How a read comes out.
    pub shown: S::Shown,
    /// Whether the process dies after this.
    pub dies: bool,
}

impl<S: Subject> Act<'_, S> {
    /// A promise is broken.
    pub fn breaks(&mut self, promise: S::Promise) {
        *self.broken = self.broken.or(Some(promise));
    }

    /// Whether this rule is not kept.
    pub fn without(&self, rule: S::Rule) -> bool {
        self.removed == Some(rule)
    }

    /// The place of who acts, if it is not sweep.
    pub const fn place(&self) -> Option<usize> {
        match self.role {
            Some(Role::One(place)) => Some(place),
            Some(Role::Sweep(_)) | None => None,
        }
    }
}

impl<S: Subject> Deref for Act<'_, S> {
    type Target = S::World;

    fn deref(&self) -> &S::World {
        self.world
    }
}

impl<S: Subject> DerefMut for Act<'_, S> {
    fn deref_mut(&mut self) -> &mut S::World {
        self.world
    }
}

/// What a call asks for.
pub struct Io<S: Subject> {
    kind: Kind,
    asks: Arc<dyn Asks<S>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Read,
    Write,
    Send,
}

impl<S: Subject> Io<S> {
    /// Whether it writes or sends something.
    pub fn writes(&self) -> bool {
        self.kind != Kind::Read
    }

    /// Whether it sends something: no table shows that.
    pub fn sends(&self) -> bool {
        self.kind == Kind::Send
    }

    /// How it may come out.
    pub fn shown(&self, world: &S::World, left: &Mishaps, removed: Option<S::Rule>) -> Vec<S::Shown> {
        self.asks.shown(world, left, removed)
    }

    /// Carries it out.
    pub fn carry_out(&self, mut act: Act<'_, S>) -> Answer {
        let answer = self.asks.carry_out(&mut act);
        if self.kind == Kind::Write {
            S::judge_write(&mut act);
        }
        answer
    }
}

impl<S: Subject> Clone for Io<S> {
    fn clone(&self) -> Self {
        Self { kind: self.kind, asks: Arc::clone(&self.asks) }
    }
}

impl<S: Subject> Debug for Io<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.asks.tell(f)
    }
}

/// What a call is told: any value, compared by its fingerprint.
#[derive(Clone, Debug)]
pub struct Answer {
    fingerprint: u64,
    /// The fresh names that occur in it.
    pub names: Names,
    value: Arc<dyn Any + Send + Sync>,
}

impl Answer {
    /// That it is this value.
    pub fn of<P: Plain>(value: P) -> Self {
        let mut hasher = DefaultHasher::new();
        value.hash(&mut hasher);
        Self { fingerprint: hasher.finish(), names: value.names(), value: Arc::new(value) }
    }

    /// The value, if it is of this kind.
    pub fn get<P: 'static>(&self) -> Option<&P> {
        self.value.downcast_ref()
    }

    /// The value as the port gives it.
    pub fn plain<P: Plain>(&self) -> Result<P::Of> {
        self.get::<P>().cloned().map(P::plain).ok_or_else(|| Unasked::was_asked("another answer"))
    }
}

impl Hash for Answer {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.fingerprint);
    }
}

/// A call: its name, what it asks about, and what it does.
struct Asked<A, V, F> {
    name: &'static str,
    about: A,
    shown: V,
    does: F,
}

trait Asks<S: Subject>: Send + Sync {
    fn tell(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
    fn shown(&self, world: &S::World, left: &Mishaps, removed: Option<S::Rule>) -> Vec<S::Shown>;
    fn carry_out(&self, act: &mut Act<'_, S>) -> Answer;
}

impl<S: Subject, A, V, F, T> Asks<S> for Asked<A, V, F>
where
    A: Debug + Send + Sync,
    V: Fn(&S::World, &A, &Mishaps, Option<S::Rule>) -> Vec<S::Shown> + Send + Sync,
    F: Fn(&mut Act<'_, S>, &A) -> T + Send + Sync,
    T: Plain,
{
    fn tell(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.name, self.about)
    }

    fn shown(&self, world: &S::World, left: &Mishaps, removed: Option<S::Rule>) -> Vec<S::Shown> {
        (self.shown)(world, &self.about, left, removed)
    }

    fn carry_out(&self, act: &mut Act<'_, S>) -> Answer {
        Answer::of((self.does)(act, &self.about))
    }
}

/// An answer as the port gives it.
pub trait Plain: Clone + Hash + Send + Sync + 'static {
    /// Without fingerprints.
    type Of;

    /// Without fingerprints.
    fn plain(self) -> Self::Of;

    /// The fresh names that occur in it.
    fn names(&self) -> Names {
        0
    }
}

impl Plain for () {
    type Of = ();

    fn plain(self) {}
}

impl<T: Clone + Send + Sync + 'static> Plain for Kept<T> {
    type Of = T;

    fn plain(self) -> T {
        (*self).clone()
    }

    fn names(&self) -> Names {
        Self::names(self)
    }
}

impl<P: Plain> Plain for Option<P> {
    type Of = Option<P::Of>;

    fn plain(self) -> Self::Of {
        self.map(P::plain)
    }

    fn names(&self) -> Names {
        self.as_ref().map_or(0, P::names)
    }
}

impl<P: Plain> Plain for Vec<P> {
    type Of = Vec<P::Of>;

    fn plain(self) -> Self::Of {
        self.into_iter().map(P::plain).collect()
    }

    fn names(&self) -> Names {
        self.iter().fold(0, |names, one| names | one.names())
    }
}

impl<P: Plain, Q: Plain> Plain for (P, Q) {
    type Of = (P::Of, Q::Of);

    fn plain(self) -> Self::Of {
        (self.0.plain(), self.1.plain())
    }
}

impl<S: Subject> Ports<S> {
    /// Reads; the answer is kept in the tables, or is made here.
    pub(crate) async fn read<A, P: Plain>(
        &self,
        name: &'static str,
        about: A,
        does: impl Fn(&mut Act<'_, S>, &A) -> P + Send + Sync + 'static,
    ) -> Result<P::Of>
    where
        A: Debug + Send + Sync + 'static,
    {
        self.read_old(name, about, |_, _, _, _| vec![S::Shown::default()], does).await
    }

    /// Reads what may be old: `shown` says how.
    pub(crate) async fn read_old<A, P: Plain>(
        &self,
        name: &'static str,
        about: A,
        shown: impl Fn(&S::World, &A, &Mishaps, Option<S::Rule>) -> Vec<S::Shown> + Send + Sync + 'static,
        does: impl Fn(&mut Act<'_, S>, &A) -> P + Send + Sync + 'static,
    ) -> Result<P::Of>
    where
        A: Debug + Send + Sync + 'static,
    {
        self.told::<P>(Kind::Read, Asked { name, about, shown, does }).await
    }

    /// Writes.
    pub(crate) async fn write<A, T>(
        &self,
        name: &'static str,
        about: A,
        does: impl Fn(&mut Act<'_, S>, &A) -> T + Send + Sync + 'static,
    ) -> Result<T>
    where
        A: Debug + Send + Sync + 'static,
        T: Clone + Debug + Send + Sync + 'static,
    {
        let does = move |act: &mut Act<'_, S>, about: &A| Kept::new(does(act, about));
        let shown = |_: &S::World, _: &A, _: &Mishaps, _| vec![S::Shown::default()];
        self.told::<Kept<T>>(Kind::Write, Asked { name, about, shown, does }).await
    }

    /// Sends.
    pub(crate) async fn post(&self, sent: S::Sent) {
        let shown = |_: &S::World, _: &S::Sent, _: &Mishaps, _| vec![S::Shown::default()];
        let does = |act: &mut Act<'_, S>, sent: &S::Sent| S::send(act, sent);
        self.ask(Io { kind: Kind::Send, asks: Arc::new(Asked { name: "send", about: sent, shown, does }) }).await;
    }

    async fn told<P: Plain>(&self, kind: Kind, asks: impl Asks<S> + 'static) -> Result<P::Of> {
        self.ask(Io { kind, asks: Arc::new(asks) }).await.plain::<P>()
    }
}

impl<S: Subject> Outbox for Ports<S> {
    async fn send(&self, messages: Vec<Outgoing>) -> Vec<Result<()>> {
        let mut answers = Vec::new();
        for message in &messages {
            let Some(sent) = S::parse(message) else { return vec![Err(Unasked::was_asked("send"))] };
            self.post(sent).await;
            answers.push(Ok(()));
        }
        answers
    }
}

/// Time stands still for each process. Nobody waits: a pause after a lost race is over at once.
impl<S: Subject> Env for Ports<S> {
    fn now(&self) -> Timestamp {
        Timestamp(self.now())
    }

    fn random(&self) -> f64 {
        0.5
    }

    fn fresh_id(&self) -> String {
        String::new()
    }

    async fn sleep(&self, _: u64) {}
}
