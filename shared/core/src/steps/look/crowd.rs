//! What waits, seen from above: some of the waiting and scheduled tasks and of the unfinished batches, by Target.
//!
//! There is no list of Targets, and a stack may have millions of waiting tasks. So a look takes the first entries of
//! each segment of the index of waiting tasks, the tasks of each part that fall due next, and those batches of each
//! route that have been due for longest. On a stack on which little waits that is all of it; on any other it is a
//! sample, and says so.

use std::collections::BTreeMap;

use futures::{StreamExt, TryStreamExt, stream};

use super::{Allowance, CONCURRENCY, Error, Looking, OneBatch};
use crate::domain::lane::missing_since;
use crate::domain::why::Why;
use crate::domain::{BatchId, LaneId, Part, RouteName, Target, Timestamp};
use crate::ports::{Batches, Entries, Env, Gates, Lanes, Locks, Look, Scheduled, Segment, Tasks, WaitingPage};
use crate::routes::{Route, Routes};

/// The index of waiting tasks is looked at in this many places.
const SEGMENTS: u8 = 8;
/// This many of the entries in each.
const OF_SEGMENT: usize = 125;
/// The same of what is asked about the routes that are gone.
const OF_SEGMENT_GONE: usize = 2_000;
/// This many of the scheduled tasks of each part.
const OF_DUE: usize = 20;
/// This many of the order keys that stand still are named, for each of this many routes.
const STOPPED: usize = 20;
/// Parts of the index of unfinished batches that are looked at, over all routes: each costs half a read unit. A stack
/// with few routes is looked at whole.
pub(super) const PARTS: usize = 128;
/// The same of a stack of which the waiting tasks have cost their part already.
const PARTS_OF_MANY: usize = 48;
/// This many of the batches in each.
const OF_PART: usize = 4;
/// This many batches are read.
const BATCHES: usize = 8;
/// This many Targets have their locks read: those that have most tasks.
const LOCKS: usize = 6;

/// Later than any time.
const ANY_TIME: Timestamp = Timestamp(u64::MAX);

/// What waits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Crowd {
    /// By Target, those first that have most tasks.
    pub groups: Vec<Group>,
    /// The order keys that a failed task stopped or that have missed a number for a minute, of each route those first
    /// that have stood still for longest.
    pub stopped: Vec<LaneId>,
    /// Whether this is all that waits.
    pub is_all: bool,
}

/// What waits of one Target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The Target.
    pub target: Target,
    /// Its waiting tasks, of those that were looked at.
    pub waiting: usize,
    /// Its scheduled tasks, of those that were looked at.
    pub scheduled: usize,
    /// When the next of them falls due.
    pub due: Option<Why>,
    /// Since when the first of its waiting tasks has waited.
    pub oldest: Option<Timestamp>,
    /// What they wait for, if that was looked into.
    pub why: Option<Why>,
    /// Its unfinished batches, of those that were looked at.
    pub batches: Vec<OneBatch>,
}

impl<S: Tasks + Batches + Locks + Gates + Lanes, E: Env> Looking<'_, S, E> {
    /// What waits of one route, or of all.
    pub async fn crowd(&self, of: Option<&RouteName>) -> Result<Crowd, Error> {
        let is_wanted = |name: &RouteName| of.is_none_or(|of| of == name);
        let routes: Vec<&Route> = self.routes.into_iter().flat_map(Routes::iter).collect();
        let gone = self.routes.map(Routes::gone).unwrap_or_default();
        let names =
            routes.iter().map(|route| (&route.name, route.is_pulled())).chain(gone.iter().map(|gone| (gone, true)));
        let names: Vec<(&RouteName, bool)> = names.filter(|(name, _)| is_wanted(name)).collect();
        let mut crowd = self.crowd_of(&is_wanted, &names, OF_SEGMENT).await?;
        for route in routes.iter().filter(|route| route.is_ordered() && is_wanted(&route.name)).take(STOPPED) {
            // A number can be missing only where tasks bring theirs along; for other routes the query would be wasted.
            let since = if route.is_numbered() { missing_since(self.env.now()) } else { Timestamp::default() };
            crowd.stopped.extend(self.store.stopped(&route.name, since, STOPPED).await?);
        }
        Ok(crowd)
    }

    /// What waits of routes that are gone from the routes file: how many tasks of each, and whether that is all.
    pub async fn unrouted(&self) -> Result<(BTreeMap<RouteName, usize>, bool), Error> {
        let gone = self.routes.map(Routes::gone).unwrap_or_default();
        let names: Vec<(&RouteName, bool)> = gone.iter().map(|name| (name, true)).collect();
        if names.is_empty() {
            return Ok((BTreeMap::new(), true));
        }
        let crowd = self.crowd_of(&|name| gone.contains(name), &names, OF_SEGMENT_GONE).await?;
        Ok((crowd.unrouted(), crowd.is_all))
    }

    /// What waits of the routes that are wanted, of which these have batches that may be pulled.
    async fn crowd_of(
        &self,
        is_wanted: &impl Fn(&RouteName) -> bool,
        names: &[(&RouteName, bool)],
        of_segment: usize,
    ) -> Result<Crowd, Error> {
        let mut groups = Groups::new();
        let are_all_waiting = self.waiting(is_wanted, of_segment, &mut groups).await?;
        let are_all_scheduled = self.scheduled(is_wanted, &mut groups).await?;
        let parts = if are_all_waiting { PARTS } else { PARTS_OF_MANY };
        let (ids, are_all) = self.unfinished(names, parts).await?;
        let mut allowance = Allowance::default();
        let (batches, are_read) = self.batches(&ids, &mut allowance).await?;
        for batch in batches {
            group_of(&mut groups, &batch.batch.target).batches.push(batch);
        }
        let mut groups: Vec<Group> = groups.into_values().collect();
        groups.sort_by_key(|group| (std::cmp::Reverse(group.tasks()), group.oldest, group.target.clone()));
        let (gone, known) = groups.iter_mut().partition::<Vec<_>, _>(|group| self.is_gone(&group.target));
        gone.into_iter().for_each(|group| group.why = Some(Why::Route));
        for group in known.into_iter().filter(|group| group.waiting > 0).take(LOCKS) {
            let (lock, open) = self.lock_within(&group.target, &mut allowance).await?;
            group.why = Some(self.waits_for(&group.target, lock.as_ref(), open.as_ref()));
        }
        let is_all = are_all_waiting && are_all_scheduled && are_all && are_read;
        Ok(Crowd { groups, stopped: Vec::new(), is_all })
    }

    async fn waiting(
        &self,
        is_wanted: &impl Fn(&RouteName) -> bool,
        of_segment: usize,
        groups: &mut Groups,
    ) -> Result<bool, Error> {
        let reading = (0..SEGMENTS)
            .map(|index| self.store.waiting_long(Look::at(Segment { index, of: SEGMENTS }, ANY_TIME, of_segment)));
        let reading: Vec<_> = reading.collect();
        let pages: Vec<WaitingPage> = stream::iter(reading).buffered(CONCURRENCY).try_collect().await?;
        let are_all = pages.iter().all(|page| page.next.is_none());
        let waiting = pages.into_iter().flat_map(|page| page.tasks);
        for waiting in waiting.filter(|waiting| is_wanted(&waiting.target.route())) {
            let group = group_of(groups, &waiting.target);
            group.waiting += 1;
            group.oldest = Some(group.oldest.map_or(waiting.since, |oldest| oldest.min(waiting.since)));
        }
        Ok(are_all)
    }

    /// Adds the scheduled tasks that fall due next; returns whether these are all.
    pub(super) async fn scheduled(
        &self,
        is_wanted: &impl Fn(&RouteName) -> bool,
        groups: &mut Groups,
    ) -> Result<bool, Error> {
        let reading: Vec<_> = Part::all().map(|part| self.store.due(Look::at(part, ANY_TIME, OF_DUE))).collect();
        let parts: Vec<Entries<Scheduled>> = stream::iter(reading).buffered(CONCURRENCY).try_collect().await?;
        let are_all = parts.iter().all(|part| part.are_last);
        let mut found: Vec<Scheduled> = parts.into_iter().flat_map(Entries::all).collect();
        found.sort_by_key(|scheduled| scheduled.due);
        for Scheduled { target, due, .. } in found.into_iter().filter(|one| is_wanted(&one.target.route())) {
            let group = group_of(groups, &target);
            group.scheduled += 1;
            group.due.get_or_insert(Why::NotBefore { due });
        }
        Ok(are_all)
    }

    /// Unfinished batches, of each route those that have been due for longest. Every route has its first before any has
    /// its second. Of more routes than parts the first are looked at.
    pub(super) async fn unfinished(
        &self,
        routes: &[(&RouteName, bool)],
        parts: usize,
    ) -> Result<(Vec<BatchId>, bool), Error> {
        let shelves = routes
            .iter()
            .flat_map(|(name, is_pulled)| [(*name, false)].into_iter().chain(is_pulled.then_some((*name, true))));
        let shelves: Vec<(&RouteName, bool)> = shelves.collect();
        let of_each = (parts / shelves.len().max(1)).clamp(1, usize::from(Part::COUNT));
        let looked_at = shelves.iter().take(parts).flat_map(|(route, is_pulled)| {
            Part::all().take(of_each).map(move |part| (*route, if *is_pulled { part.pulled() } else { part }))
        });
        let reading = looked_at.map(|(route, part)| async move {
            Ok::<_, Error>((route, self.store.unfinished(route, Look::at(part, ANY_TIME, OF_PART)).await?))
        });
        let reading: Vec<_> = reading.collect();
        let found: Vec<_> = stream::iter(reading).buffered(CONCURRENCY).try_collect().await?;
        let are_looked_at = of_each == usize::from(Part::COUNT) && shelves.len() <= parts;
        let mut are_all = are_looked_at && found.iter().all(|(_, part)| part.are_last);
        let mut of_route: BTreeMap<&RouteName, Vec<(usize, BatchId)>> = BTreeMap::new();
        for (route, part) in found {
            of_route.entry(route).or_default().extend(part.all().into_iter().enumerate());
        }
        let mut ranked: Vec<(usize, BatchId)> = Vec::new();
        for mut batches in of_route.into_values() {
            // The first of each part come before the second of any.
            batches.sort();
            ranked.extend(batches.into_iter().enumerate().map(|(rank, (_, id))| (rank, id)));
        }
        ranked.sort();
        are_all &= ranked.len() <= BATCHES;
        Ok((ranked.into_iter().take(BATCHES).map(|(_, id)| id).collect(), are_all))
    }

    /// As many of these batches as the allowance covers, those first that come first; and whether that is all.
    pub(super) async fn batches(
        &self,
        ids: &[BatchId],
        allowance: &mut Allowance,
    ) -> Result<(Vec<OneBatch>, bool), Error> {
        let (mut read, mut are_all) = (Vec::new(), true);
        for id in ids {
            are_all &= allowance.covers_one();
            if are_all && let Some(batch) = self.store.batch(id).await? {
                allowance.take(&batch);
                read.push(batch);
            }
        }
        let reading = read.into_iter().map(|batch| async move {
            let why = self.why(&batch).await?;
            Ok::<_, Error>(OneBatch { batch, why })
        });
        let reading: Vec<_> = reading.collect();
        let mut found: Vec<OneBatch> = stream::iter(reading).buffered(CONCURRENCY).try_collect().await?;
        // The index lags behind what is done.
        found.retain(|one| one.why.is_some());
        found.sort_by_key(|one| one.batch.created_at);
        Ok((found, are_all))
    }
}

impl Crowd {
    /// How many tasks wait for each route that the routes file does not have.
    pub fn unrouted(&self) -> BTreeMap<RouteName, usize> {
        let mut tasks = BTreeMap::new();
        for group in self.groups.iter().filter(|group| group.reasons().contains(&&Why::Route)) {
            *tasks.entry(group.target.route()).or_default() += group.tasks();
        }
        tasks
    }
}

/// What waits, by Target.
pub(super) type Groups = BTreeMap<Target, Group>;

fn group_of<'a>(groups: &'a mut Groups, target: &Target) -> &'a mut Group {
    let target = target.whole();
    groups.entry(target.clone()).or_insert_with(|| Group::empty(target))
}

impl Group {
    /// Nothing that waits for this Target.
    #[must_use]
    pub const fn empty(target: Target) -> Self {
        Self { target, waiting: 0, scheduled: 0, due: None, oldest: None, why: None, batches: Vec::new() }
    }

    /// Its tasks, waiting, scheduled or in a batch, of what was looked at.
    pub fn tasks(&self) -> usize {
        self.waiting + self.scheduled + self.batches.iter().map(|one| one.batch.members.len()).sum::<usize>()
    }

    /// All that its tasks wait for, each once: first what the waiting ones do, then its batches, then their time.
    pub fn reasons(&self) -> Vec<&Why> {
        let mut reasons: Vec<&Why> = Vec::new();
        let of_batches = self.batches.iter().filter_map(|one| one.why.as_ref());
        for why in self.why.iter().chain(of_batches).chain(&self.due) {
            if !reasons.contains(&why) {
                reasons.push(why);
            }
        }
        reasons
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::batch::Assumes;
    use crate::domain::gate::Scope;
    use crate::domain::lane::{self, Lane, Numbering};
    use crate::domain::{Batch, Candidate, Gate, Revision, Round, Task, TaskId};
    use crate::memory::MemoryStore;
    use crate::steps::still::Still;

    const NOW: Timestamp = Timestamp(10_000);
    const STILL: Still = Still(NOW.0);

    fn routes() -> Routes {
        routes_of(&["r", "s"])
    }

    fn routes_of(names: &[&str]) -> Routes {
        let route =
            |name| format!("  - {{ name: {name}, target: truck, downstream: pull, limits: {{ pause: route }} }}\n");
        let routes: String = names.iter().map(route).collect();
        Routes::parse(&format!("version: 1\nroutes:\n{routes}")).unwrap()
    }

    fn on(target: &str, id: &str, at: u64) -> Task {
        Task::new(TaskId::new(id), Target::new(target), "{}".to_owned(), String::new(), Timestamp(at))
    }

    async fn filled() -> MemoryStore {
        let store = MemoryStore::new();
        for (target, id, at) in [("r:hot", "a", 30), ("r:hot", "b", 20), ("r:cold", "c", 10), ("s:other", "d", 40)] {
            store.register(&on(target, id, at)).await.unwrap();
        }
        let batch =
            Batch::express(BatchId::new("b"), Target::new("r:called"), &[on("r:called", "e", 1).candidate()], NOW);
        store.store(&batch, Assumes::Absent).await.unwrap();
        store
    }

    #[tokio::test]
    async fn the_target_with_most_tasks_comes_first_and_each_says_what_it_waits_for() {
        let (store, routes) = (filled().await, routes());
        let looking = Looking { store: &store, env: &STILL, routes: Some(&routes) };
        let crowd = looking.crowd(None).await.unwrap();
        let shown: Vec<_> =
            crowd.groups.iter().map(|group| (group.target.as_str(), group.waiting, group.oldest)).collect();
        let at = |ms| Some(Timestamp(ms));
        assert_eq!(shown, [("r:hot", 2, at(20)), ("r:called", 0, None), ("r:cold", 1, at(10)), ("s:other", 1, at(40))]);
        assert!(crowd.is_all);
        let why: Vec<_> = crowd.groups.iter().map(Group::reasons).collect();
        assert_eq!(why[0], [&Why::Election]);
        assert_eq!(why[1], [&Why::Handler], "a batch that is no worker's yet");
        let of_one = looking.crowd(Some(&RouteName::new("s"))).await.unwrap();
        assert_eq!(of_one.groups.iter().map(|group| group.target.as_str()).collect::<Vec<_>>(), ["s:other"]);
    }

    #[tokio::test]
    async fn a_batch_of_a_paused_route_waits_for_the_pause_to_end() {
        let (store, routes) = (filled().await, routes());
        let gate = Gate { revision: Revision(1), paused_until: Timestamp(20_000), ..Gate::default() };
        store.store_gate(&Scope::Route(RouteName::new("r")), &gate, NOW).await.unwrap();
        let looking = Looking { store: &store, env: &STILL, routes: Some(&routes) };
        let crowd = looking.crowd(Some(&RouteName::new("r"))).await.unwrap();
        let called = crowd.groups.iter().find(|group| group.target.as_str() == "r:called").unwrap();
        assert_eq!(called.reasons(), [&Why::Pause { of: Scope::Route(RouteName::new("r")), until: Timestamp(20_000) }]);
    }

    #[tokio::test]
    async fn a_route_with_many_batches_hides_none_of_another() {
        let (store, routes) = (filled().await, routes());
        for n in 0..40 {
            let id = BatchId::new(format!("{n:032x}"));
            let batch = Batch::express(id, Target::new("r:busy"), &[on("r:busy", "x", 1).candidate()], NOW);
            store.store(&batch, Assumes::Absent).await.unwrap();
        }
        let alone = [on("s:alone", "y", 1).candidate()];
        let batch = Batch::express(BatchId::new("f".repeat(32)), Target::new("s:alone"), &alone, NOW);
        store.store(&batch, Assumes::Absent).await.unwrap();
        let crowd = Looking { store: &store, env: &STILL, routes: Some(&routes) }.crowd(None).await.unwrap();
        assert!(crowd.groups.iter().any(|group| group.target.as_str() == "s:alone"), "{:?}", crowd.groups);
        assert!(!crowd.is_all);
    }

    /// A batch as large as there may be.
    fn large(id: &str, target: &str) -> Batch {
        let member = |n| Candidate {
            id: TaskId::new(format!("{n:0>128}")),
            round: Round(0),
            bytes: 1,
            traits: crate::domain::Traits::default(),
        };
        Batch::express(BatchId::new(id), Target::new(target), &(0..1_000).map(member).collect::<Vec<_>>(), NOW)
    }

    #[tokio::test]
    async fn of_large_batches_one_is_read_and_the_others_are_said_to_be_left_out() {
        let (store, routes) = (MemoryStore::new(), routes());
        for n in 0..4 {
            store.store(&large(&format!("{n:032x}"), &format!("r:t{n}")), Assumes::Absent).await.unwrap();
        }
        let crowd = Looking { store: &store, env: &STILL, routes: Some(&routes) }.crowd(None).await.unwrap();
        assert_eq!(crowd.groups.len(), 1, "{:?}", crowd.groups.iter().map(|group| &group.target).collect::<Vec<_>>());
        assert!(!crowd.is_all);
    }

    #[tokio::test]
    async fn of_more_tasks_than_are_looked_at_a_sample_is_shown_and_called_one() {
        let store = MemoryStore::new();
        for n in 0..2_000 {
            store.register(&on(&format!("r:t{}", n % 7), &format!("t{n}"), n)).await.unwrap();
        }
        let crowd = Looking { store: &store, env: &STILL, routes: None }.crowd(None).await.unwrap();
        assert!(!crowd.is_all);
        let tasks: usize = crowd.groups.iter().map(Group::tasks).sum();
        assert!((1..=OF_SEGMENT * usize::from(SEGMENTS)).contains(&tasks), "{tasks}");
    }

    #[tokio::test]
    async fn scheduled_tasks_and_all_that_waits_for_a_route_that_is_gone_are_shown() {
        let store = filled().await;
        for (id, due) in [("later", 90_000), ("soon", 70_000)] {
            store.register(&on("s:other", id, 1).scheduled(Timestamp(due))).await.unwrap();
        }
        let routes = routes_of(&["s"]).without(vec![RouteName::new("r")]);
        let looking = Looking { store: &store, env: &STILL, routes: Some(&routes) };
        let crowd = looking.crowd(None).await.unwrap();
        let of = |target: &str| crowd.groups.iter().find(|group| group.target.as_str() == target).unwrap();
        assert_eq!((of("s:other").scheduled, of("s:other").tasks()), (2, 3));
        assert_eq!(of("s:other").reasons(), [&Why::Election, &Why::NotBefore { due: Timestamp(70_000) }]);
        for gone in ["r:hot", "r:called"] {
            assert_eq!(of(gone).reasons(), [&Why::Route]);
        }
        assert!(crowd.is_all);
        assert_eq!(looking.unrouted().await.unwrap(), ([(RouteName::new("r"), 4)].into(), true));
    }

    #[tokio::test]
    async fn order_keys_that_a_failed_task_stopped_are_named() {
        let (store, id) = (MemoryStore::new(), LaneId::of(&RouteName::new("r"), "k"));
        let lane = Lane::open(id.clone(), Numbering::ByArrival, NOW);
        let held = Lane { state: lane::State::Held(TaskId::new("failed")), ..lane };
        store.line_up(&held, true, &[]).await.unwrap();
        let routes =
            Routes::parse("version: 1\nroutes:\n  - { name: r, target: truck, ordered_by: truck, downstream: pull }\n")
                .unwrap();
        let crowd = Looking { store: &store, env: &STILL, routes: Some(&routes) }.crowd(None).await.unwrap();
        assert_eq!(crowd.stopped, [id]);
    }
}
