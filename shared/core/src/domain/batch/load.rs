//! What a batch carries.

use std::collections::HashMap;

use super::{Batch, Member};
use crate::domain::id::TaskId;
use crate::domain::task::Candidate;
use crate::domain::traits::{Collapse, Traits};

/// The most members of a batch, those that it is called without included: its item must hold their ids.
pub const MAX_MEMBERS: usize = 1_000;

/// What a batch carries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Load {
    members: usize,
    /// Members that its call has: of those with one collapse key only the newest.
    called: usize,
    bytes: u64,
    weight: u64,
    closes: bool,
    /// By its collapse key: the newest so far.
    newest: HashMap<u128, Newest>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Newest {
    id: TaskId,
    collapse: Collapse,
    bytes: u64,
    weight: u64,
}

/// What a candidate means to a batch.
struct Adds<'a> {
    candidate: &'a Candidate,
    /// The member that has its collapse key.
    meets: Option<(&'a Newest, Collapse)>,
}

impl Adds<'_> {
    /// Whether it is called itself.
    fn is_called(&self) -> bool {
        let id = &self.candidate.id;
        self.meets.as_ref().is_none_or(|(newest, own)| own.replaces(id, (&newest.collapse, &newest.id)))
    }
}

impl Load {
    /// What an open batch carries of which these candidates have joined, with the bytes of each. Those whose size is
    /// not known count with all others as the batch says, whether they are called or not.
    #[must_use]
    pub fn of(batch: &Batch, joined: &[Member], sizes: &HashMap<TaskId, u32>) -> Self {
        let mut load = Self::default();
        for Member { id, round } in joined {
            let (bytes, traits) = (sizes.get(id).copied().unwrap_or_default(), batch.traits_of(id));
            load.add(&Candidate { id: id.clone(), round: *round, bytes, traits });
        }
        let are_known = joined.iter().all(|member| sizes.contains_key(&member.id));
        Self { bytes: if are_known { load.bytes } else { batch.bytes }, ..load }
    }

    /// Members that its call has.
    pub const fn called(&self) -> usize {
        self.called
    }

    /// Bytes of payloads.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What its members weigh.
    pub const fn weight(&self) -> u64 {
        self.weight
    }

    /// All members.
    pub const fn members(&self) -> usize {
        self.members
    }

    /// Whether a member has the collapse key of this candidate.
    pub fn meets(&self, candidate: &Candidate) -> bool {
        self.adds(candidate).meets.is_some()
    }

    /// Its bytes and its weight with this candidate: more only if that one is called.
    pub fn beside(&self, candidate: &Candidate) -> (u64, u64) {
        if self.adds(candidate).is_called() { self.with(candidate) } else { (self.bytes, self.weight) }
    }

    /// Whether it has a member that closes it.
    pub const fn closes(&self) -> bool {
        self.closes
    }

    /// Adds a candidate, whether it fits or not.
    pub fn add(&mut self, candidate: &Candidate) {
        let adds = self.adds(candidate);
        let (is_called, meets) = (adds.is_called(), adds.meets.is_some());
        let Candidate { id, bytes, traits, .. } = candidate;
        let (bytes, weight) = (u64::from(*bytes), u64::from(traits.weight));
        self.members += 1;
        self.closes |= traits.closes;
        if !is_called {
            return;
        }
        self.called += usize::from(!meets);
        (self.bytes, self.weight) = self.with(candidate);
        if let Some(collapse) = traits.collapse {
            self.newest.insert(collapse.key, Newest { id: id.clone(), collapse, bytes, weight });
        }
    }

    /// What a candidate means to it.
    fn adds<'a>(&'a self, candidate: &'a Candidate) -> Adds<'a> {
        let meets = candidate.traits.collapse.and_then(|own| Some((self.newest.get(&own.key)?, own)));
        Adds { candidate, meets }
    }

    /// Bytes and weight with a candidate that is called, in the place of the one that it replaces.
    fn with(&self, candidate: &Candidate) -> (u64, u64) {
        let of = self.adds(candidate).meets.map_or((0, 0), |(newest, _)| (newest.bytes, newest.weight));
        let Candidate { bytes, traits: Traits { weight, .. }, .. } = candidate;
        let with = |load: u64, gone: u64, more: u32| load.saturating_sub(gone).saturating_add(u64::from(more));
        (with(self.bytes, of.0, *bytes), with(self.weight, of.1, *weight))
    }
}
