//! Which tasks a leader considers next, and which it need not consider again.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};

use super::batch::{Room, urgency};
use super::id::{Round, Target, TaskId};
use super::task::Candidate;
use super::traits::MAX_PRIORITY;

/// A leader's walk over the waiting tasks of the shards that it gathers from.
///
/// Its own tasks come first, without the index, which may not show them yet. Then come the index's pages, behind a
/// cursor for each shard: an entry that was seen is not considered again in its round, since a lagging index goes on
/// showing tasks that have long been moved, and each would cost a failed write. The shards take turns page by page, so
/// that none waits for another to be empty.
#[derive(Debug)]
pub struct Drain<C> {
    queue: VecDeque<Candidate>,
    /// The latest round each task was considered in.
    seen: HashMap<TaskId, Round>,
    /// The walk through each shard; the next to be read comes first.
    walks: VecDeque<Walk<C>>,
    /// Whether candidates are read before they are moved: a read costs a fifth of a refused write. A move that was
    /// refused shows that the index is stale, candidates that all prove to be waiting show that it is not.
    verify: bool,
    /// Where tasks have priorities: how many places have gone by urgency since one was left for others.
    passed: usize,
}

/// The walk through one shard, whose index has the usual tasks in front and the most urgent last.
#[derive(Debug)]
struct Walk<C> {
    of: Target,
    position: Position<C>,
    /// What lies behind the position is at least so urgent.
    least: u8,
    /// How far the urgent were read from the end, and how urgent the last of these was.
    seen_at_the_end: Option<(C, u8)>,
}

impl<C> Walk<C> {
    const fn of(of: Target) -> Self {
        Self { of, position: Position::Start, least: 0, seen_at_the_end: None }
    }
}

#[derive(Debug)]
enum Position<C> {
    Start,
    After(C),
    End,
}

/// Where to read the index next.
#[derive(Debug, PartialEq, Eq)]
pub struct NextPage<C> {
    /// The shard.
    pub of: Target,
    /// The cursor behind which the page begins; `None` is the beginning.
    pub after: Option<C>,
}

impl<C: Clone> Drain<C> {
    /// A walk that begins with `own` tasks and then goes through `shards`.
    pub fn new(
        own: impl IntoIterator<Item = Candidate>,
        shards: impl IntoIterator<Item = Target>,
        verify: bool,
    ) -> Self {
        let walks = shards.into_iter().map(Walk::of).collect();
        let mut drain = Self { queue: VecDeque::new(), seen: HashMap::new(), walks, verify, passed: 0 };
        drain.offer(own);
        drain
    }

    /// Marks tasks as considered, for example the candidates of a batch that is taken up again.
    pub fn skip(&mut self, tasks: impl IntoIterator<Item = (TaskId, Round)>) {
        for (id, round) in tasks {
            self.queue.retain(|queued| queued.id != id || queued.round > round);
            let seen = self.seen.entry(id).or_insert(round);
            *seen = round.max(*seen);
        }
    }

    /// The pages to read to have `room` filled, each of another shard and at most `most`: none if enough is queued or
    /// the index has no more.
    pub fn wants(&self, room: &Room, most: usize) -> Vec<NextPage<C>> {
        let wants = room.wants();
        let is_short = self.queue.len() < wants;
        // Else the most urgent alone would fill all batches.
        let lacks_below = if room.urgent_first() { self.lacks_others_below(wants) } else { None };
        if room.is_full() || !(is_short || lacks_below.is_some()) {
            return Vec::new();
        }
        let next = |Walk { of, position, .. }: &Walk<C>| match position {
            Position::Start => Some(NextPage { of: of.clone(), after: None }),
            Position::After(cursor) => Some(NextPage { of: of.clone(), after: Some(cursor.clone()) }),
            Position::End => None,
        };
        let walks = self.walks.iter().filter(|walk| is_short || lacks_below.is_some_and(|most| walk.least < most));
        walks.filter_map(next).take(most).collect()
    }

    /// The priority of the most urgent that are queued, if there are too few below it for the places that are left to
    /// such.
    fn lacks_others_below(&self, wants: usize) -> Option<u8> {
        let priorities = || self.queue.iter().map(|queued| queued.traits.priority);
        let most = priorities().max()?;
        (priorities().filter(|own| *own < most).count() < urgency::for_others(wants)).then_some(most)
    }

    /// Adds a page of the index. The shard's next one comes after those of the others.
    pub fn add_page(&mut self, of: &Target, candidates: impl IntoIterator<Item = Candidate>, next: Option<C>) {
        let mut last = None;
        self.offer(candidates.into_iter().inspect(|candidate| last = Some(candidate.traits.priority)));
        if let Some(at) = self.walks.iter().position(|walk| walk.of == *of)
            && let Some(mut walk) = self.walks.remove(at)
        {
            walk.least = last.unwrap_or(walk.least);
            walk.position = next.map_or(Position::End, Position::After);
            self.walks.push_back(walk);
        }
    }

    /// Takes what fits; also says whether that fills the batch.
    pub fn take(&mut self, room: &Room) -> (Vec<Candidate>, bool) {
        if !room.urgent_first() {
            return room.take(&mut self.queue);
        }
        let turns = urgency::in_turn(std::mem::take(&mut self.queue), self.passed);
        let places: HashMap<TaskId, usize> = turns.iter().map(|turn| (turn.candidate.id.clone(), turn.place)).collect();
        let passed: Vec<usize> = turns.iter().map(|turn| turn.passed).collect();
        let mut ordered = turns.into_iter().map(|turn| turn.candidate).collect();
        let (taken, full) = room.take(&mut ordered);
        self.passed = taken.len().checked_sub(1).and_then(|last| passed.get(last)).copied().unwrap_or(self.passed);
        // What is left stays in the order in which it came to be known.
        self.queue = ordered;
        self.queue.make_contiguous().sort_by_key(|left| places.get(&left.id).copied());
        (taken, full)
    }

    /// The shards that it walks.
    pub fn shards(&self) -> Vec<Target> {
        self.walks.iter().map(|walk| walk.of.clone()).collect()
    }

    /// Above which priority tasks would go before those that are queued for this room: it is asked for them before each
    /// batch, whatever pages have been read. `None` if there can be none.
    pub fn urgent_above(&self, room: &Room) -> Option<u8> {
        let mut priorities: Vec<u8> = self.queue.iter().map(|queued| queued.traits.priority).collect();
        priorities.sort_unstable_by_key(|priority| Reverse(*priority));
        let last = room.wants().checked_sub(1)?;
        Some(priorities.get(last).copied().unwrap_or_default()).filter(|above| *above < MAX_PRIORITY)
    }

    /// Adds the most urgent tasks of a shard, all of a priority `above` this. If all of them were known and there are
    /// more, returns behind what the next page is to be read: where an earlier one ended, as far as that is known.
    pub fn add_urgent(&mut self, of: &Target, above: u8, candidates: Vec<Candidate>, next: Option<C>) -> Option<C> {
        let before = self.seen_at_the_end(of).and_then(Option::take);
        let is_new = self.offer_urgent(of, candidates, next.clone());
        let after = before.filter(|(_, reached)| *reached > above);
        if is_new { None } else { next.map(|next| after.map_or(next, |(after, _)| after)) }
    }

    /// Adds urgent tasks of a shard that come behind others, and keeps how far they go. Returns whether one of them is
    /// new.
    pub fn offer_urgent(&mut self, of: &Target, candidates: Vec<Candidate>, next: Option<C>) -> bool {
        let reached = next.zip(candidates.last().map(|last| last.traits.priority));
        let before = self.queue.len();
        self.offer(candidates);
        if let Some(seen_at_the_end) = self.seen_at_the_end(of) {
            *seen_at_the_end = reached;
        }
        self.queue.len() > before
    }

    fn seen_at_the_end(&mut self, of: &Target) -> Option<&mut Option<(C, u8)>> {
        self.walks.iter_mut().find(|walk| walk.of == *of).map(|walk| &mut walk.seen_at_the_end)
    }

    /// Whether candidates must be read before they are moved.
    pub const fn verifies(&self) -> bool {
        self.verify
    }

    /// From now on, reads candidates before they are moved.
    pub const fn distrust(&mut self) {
        self.verify = true;
    }

    /// From now on, moves candidates without reading them first.
    pub const fn trust(&mut self) {
        self.verify = false;
    }

    /// Walks the index once more from its beginning: new entries may sort before the cursors.
    pub fn start_over(&mut self) {
        for walk in &mut self.walks {
            *walk = Walk::of(walk.of.clone());
        }
    }

    /// What is queued and not yet used, at most `most`; the leader's own tasks come first.
    pub fn rest(&self, most: usize) -> Vec<Candidate> {
        self.queue.iter().take(most).cloned().collect()
    }

    fn offer(&mut self, candidates: impl IntoIterator<Item = Candidate>) {
        for candidate in candidates {
            // A lagging index may show a task in a round that it has left, beside or after its present one.
            if self.seen.get(&candidate.id).is_none_or(|seen| *seen < candidate.round) {
                self.seen.insert(candidate.id.clone(), candidate.round);
                self.queue.push_back(candidate);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::batch::Limits;
    use crate::domain::id::{RouteName, Shard};
    use crate::domain::traits::Traits;

    fn candidate(id: &str, round: u32) -> Candidate {
        Candidate { id: TaskId::new(id), round: Round(round), bytes: 1, traits: Traits::default() }
    }

    fn home() -> Target {
        Target::of(&RouteName::new("r"), "t")
    }

    fn page(shard: u8, after: Option<u8>) -> NextPage<u8> {
        NextPage { of: home().in_shard(Shard(shard)), after }
    }

    fn room(items: usize) -> Room {
        Limits { max_items: items, ..Limits::default() }.room()
    }

    #[test]
    fn an_entry_that_was_tried_is_not_tried_again_when_the_index_still_shows_it() {
        let mut drain = Drain::<u8>::new([candidate("a", 0)], [home()], false);
        drain.add_page(&home(), [candidate("a", 0), candidate("b", 0)], None);
        assert_eq!(drain.take(&room(9)).0.len(), 2);
        drain.start_over();
        drain.add_page(&home(), [candidate("a", 0), candidate("b", 0)], None);
        assert!(drain.take(&room(9)).0.is_empty());
    }

    #[test]
    fn a_task_that_returned_in_its_next_round_is_considered() {
        let mut drain = Drain::<u8>::new([candidate("a", 0)], [home()], false);
        drain.take(&room(1));
        drain.add_page(&home(), [candidate("a", 1)], None);
        assert_eq!(drain.take(&room(1)).0, vec![candidate("a", 1)]);
    }

    #[test]
    fn a_task_is_not_considered_in_a_round_that_it_has_left() {
        let mut drain = Drain::<u8>::new([candidate("a", 1)], [home()], false);
        drain.add_page(&home(), [candidate("a", 0)], None);
        assert_eq!(drain.take(&room(9)).0, vec![candidate("a", 1)]);
    }

    #[test]
    fn tasks_of_a_batch_that_is_taken_up_again_are_not_taken_into_it_twice() {
        let mut drain = Drain::<u8>::new([candidate("a", 0), candidate("b", 1), candidate("c", 0)], [home()], false);
        drain.skip([(TaskId::new("a"), Round(0)), (TaskId::new("b"), Round(0))]);
        assert_eq!(drain.take(&room(9)).0, vec![candidate("b", 1), candidate("c", 0)]);
    }

    #[test]
    fn own_tasks_come_before_the_index() {
        let mut drain = Drain::<u8>::new([candidate("own", 0)], [home()], false);
        assert_eq!(drain.wants(&room(1), 9), []);
        assert_eq!(drain.wants(&room(2), 9), [page(0, None)]);
        drain.add_page(&home(), [candidate("other", 0)], Some(7));
        assert_eq!(drain.rest(1), vec![candidate("own", 0)]);
        assert_eq!(drain.wants(&room(3), 9), [page(0, Some(7))]);
    }

    #[test]
    fn what_a_leader_last_learnt_of_the_index_says_whether_candidates_are_read_first() {
        for verify in [false, true] {
            let mut drain = Drain::<u8>::new([], [home()], verify);
            assert_eq!(drain.verifies(), verify);
            drain.distrust();
            assert!(drain.verifies(), "a move was refused");
            drain.trust();
            assert!(!drain.verifies(), "a whole set proved to be waiting");
        }
    }

    fn urgent(id: &str, priority: u8) -> Candidate {
        Candidate { traits: Traits { priority, ..Traits::default() }, ..candidate(id, 0) }
    }

    fn urgent_first(max_items: usize) -> Room {
        Limits { max_items, urgent_first: true, ..Limits::default() }.room()
    }

    #[test]
    fn urgent_tasks_fill_a_batch_first_and_are_looked_for_beside_less_urgent_ones() {
        let room = urgent_first(3);
        let mut drain = Drain::<u8>::new([candidate("a", 0)], [home()], false);
        let of = |ids: &[&str]| ids.iter().map(|id| urgent(id, 5)).collect::<Vec<_>>();
        assert_eq!(drain.urgent_above(&room), Some(0), "it knows too few");
        drain.add_urgent(&home(), 0, of(&["u", "v", "w"]), None);
        assert_eq!(drain.wants(&room, 1), [], "one is there for the place that is left");
        assert_eq!(drain.take(&room), (of(&["u", "v", "w"]), true));
        drain.add_urgent(&home(), 0, of(&["u", "x"]), None);
        assert_eq!(drain.take(&room), ([of(&["x"]), vec![candidate("a", 0)]].concat(), false), "each comes once");
        let many: Vec<String> = (0..20).map(|n| format!("y{n:02}")).collect();
        drain.add_urgent(&home(), 0, many.iter().map(|id| urgent(id, 5)).collect(), None);
        assert_eq!(drain.wants(&room, 1), [page(0, None)], "the urgent alone would fill all batches");
        drain.add_page(&home(), [candidate("b", 0)], Some(1));
        assert_eq!(drain.wants(&room, 1), []);
        let taken: Vec<_> = (0..6).flat_map(|_| drain.take(&room).0).collect();
        assert_eq!((taken.len(), taken.iter().position(|taken| *taken == candidate("b", 0))), (18, Some(4)));
        assert_eq!(drain.wants(&room, 1), [page(0, Some(1))]);
        drain.add_page(&home(), [urgent("y00", 5)], Some(2));
        drain.add_urgent(&home(), 0, of(&["z"]), None);
        assert_eq!(drain.wants(&room, 1), [], "none that is less urgent lies behind");
        drain.start_over();
        assert_eq!(drain.wants(&room, 1), [page(0, None)], "but one may have come since");
    }

    #[test]
    fn only_those_are_asked_for_that_would_go_before_the_ones_that_are_known() {
        let known = [urgent("a", 3), urgent("b", 9), urgent("c", 9), candidate("d", 0)];
        let drain = Drain::<u8>::new(known, [home()], false);
        let above = |items| drain.urgent_above(&urgent_first(items));
        assert_eq!([2, 3, 4, 5].map(above), [None, Some(3), Some(0), Some(0)]);
    }

    #[test]
    fn a_leader_that_knows_the_most_urgent_reads_on_where_it_ended() {
        let mut drain = Drain::<u8>::new([], [home()], false);
        let [a, b, c, d] = ["a", "b", "c", "d"].map(|id| vec![urgent(id, 5)]);
        assert_eq!(drain.add_urgent(&home(), 0, a.clone(), Some(1)), None, "it is new");
        assert_eq!(drain.add_urgent(&home(), 0, a.clone(), Some(1)), Some(1));
        assert!(drain.offer_urgent(&home(), b, Some(2)));
        assert_eq!(drain.add_urgent(&home(), 0, a.clone(), Some(1)), Some(2));
        assert!(drain.offer_urgent(&home(), c, Some(3)));
        assert_eq!(drain.add_urgent(&home(), 5, a.clone(), Some(1)), Some(1), "those behind are not above");
        assert!(drain.offer_urgent(&home(), d, None));
        assert_eq!(drain.add_urgent(&home(), 0, a.clone(), Some(1)), Some(1), "nothing lies behind the end");
        assert_eq!(drain.add_urgent(&home(), 0, a, None), None, "there are no more");
    }

    #[test]
    fn shards_take_turns_until_each_is_walked() {
        let mut drain = Drain::<u8>::new([], home().shards(3), false);
        assert_eq!(drain.wants(&room(9), 1), [page(0, None)]);
        drain.add_page(&home(), [candidate("a", 0)], Some(1));
        assert_eq!(drain.wants(&room(9), 2), [page(1, None), page(2, None)]);
        drain.add_page(&home().in_shard(Shard(1)), [], None);
        drain.add_page(&home().in_shard(Shard(2)), [], None);
        assert_eq!(drain.wants(&room(9), 9), [page(0, Some(1))]);
        drain.add_page(&home(), [], None);
        assert_eq!(drain.wants(&room(9), 9), []);
        drain.start_over();
        assert_eq!(drain.wants(&room(9), 9).len(), 3);
    }
}
