//! Which tasks a leader considers next, and which it need not consider again.

use std::collections::{HashMap, VecDeque};

use super::batch::Room;
use super::id::{Round, TaskId};
use super::task::Candidate;

/// A leader's walk over the waiting tasks of its Target.
///
/// Its own tasks come first, without the index, which may not show them yet. Then come the index's pages, behind a
/// cursor: an entry that was seen is not considered again in its round, since a lagging index goes on showing tasks
/// that have long been moved, and each would cost a failed write.
#[derive(Debug)]
pub struct Drain<C> {
    queue: VecDeque<Candidate>,
    /// The latest round each task was considered in.
    seen: HashMap<TaskId, Round>,
    position: Position<C>,
    /// Whether candidates are read before they are moved: a read costs a fifth of a refused write. A move that was
    /// refused shows that the index is stale, candidates that all prove to be waiting show that it is not.
    verify: bool,
}

#[derive(Debug)]
enum Position<C> {
    Start,
    After(C),
    End,
}

/// Where to read the index next.
#[derive(Debug, PartialEq, Eq)]
pub enum NextPage<'a, C> {
    /// From the beginning.
    First,
    /// Behind this cursor.
    After(&'a C),
}

impl<C> Drain<C> {
    /// A walk that begins with `own` tasks.
    pub fn new(own: impl IntoIterator<Item = Candidate>, verify: bool) -> Self {
        let mut drain = Self { queue: VecDeque::new(), seen: HashMap::new(), position: Position::Start, verify };
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

    /// The page to read to have `room` filled, or `None` if enough is queued or the index has no more.
    pub fn wants(&self, room: Room) -> Option<NextPage<'_, C>> {
        if self.queue.len() >= room.items {
            return None;
        }
        match &self.position {
            Position::Start => Some(NextPage::First),
            Position::After(cursor) => Some(NextPage::After(cursor)),
            Position::End => None,
        }
    }

    /// Adds a page of the index.
    pub fn add_page(&mut self, candidates: impl IntoIterator<Item = Candidate>, next: Option<C>) {
        self.offer(candidates);
        self.position = next.map_or(Position::End, Position::After);
    }

    /// Takes what fits; also says whether that fills the batch.
    pub fn take(&mut self, room: Room) -> (Vec<Candidate>, bool) {
        room.take(&mut self.queue)
    }

    /// Whether candidates must be read before they are moved.
    #[must_use]
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

    /// Walks the index once more from its beginning: new entries may sort before the cursor.
    pub fn start_over(&mut self) {
        self.position = Position::Start;
    }

    /// What is queued and not yet used, at most `most`; the leader's own tasks come first.
    #[must_use]
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

    fn candidate(id: &str, round: u32) -> Candidate {
        Candidate { id: TaskId::new(id), round: Round(round), bytes: 1 }
    }

    fn room(items: usize) -> Room {
        Room { items, bytes: 1_000, empty: true }
    }

    #[test]
    fn an_entry_that_was_tried_is_not_tried_again_when_the_index_still_shows_it() {
        let mut drain = Drain::<u8>::new([candidate("a", 0)], false);
        drain.add_page([candidate("a", 0), candidate("b", 0)], None);
        assert_eq!(drain.take(room(9)).0.len(), 2);
        drain.start_over();
        drain.add_page([candidate("a", 0), candidate("b", 0)], None);
        assert!(drain.take(room(9)).0.is_empty());
    }

    #[test]
    fn a_task_that_returned_in_its_next_round_is_considered() {
        let mut drain = Drain::<u8>::new([candidate("a", 0)], false);
        drain.take(room(1));
        drain.add_page([candidate("a", 1)], None);
        assert_eq!(drain.take(room(1)).0, vec![candidate("a", 1)]);
    }

    #[test]
    fn a_task_is_not_considered_in_a_round_that_it_has_left() {
        let mut drain = Drain::<u8>::new([candidate("a", 1)], false);
        drain.add_page([candidate("a", 0)], None);
        assert_eq!(drain.take(room(9)).0, vec![candidate("a", 1)]);
    }

    #[test]
    fn tasks_of_a_batch_that_is_taken_up_again_are_not_taken_into_it_twice() {
        let mut drain = Drain::<u8>::new([candidate("a", 0), candidate("b", 1), candidate("c", 0)], false);
        drain.skip([(TaskId::new("a"), Round(0)), (TaskId::new("b"), Round(0))]);
        assert_eq!(drain.take(room(9)).0, vec![candidate("b", 1), candidate("c", 0)]);
    }

    #[test]
    fn own_tasks_come_before_the_index() {
        let mut drain = Drain::<u8>::new([candidate("own", 0)], false);
        assert_eq!(drain.wants(room(1)), None);
        assert_eq!(drain.wants(room(2)), Some(NextPage::First));
        drain.add_page([candidate("other", 0)], Some(7));
        assert_eq!(drain.rest(1), vec![candidate("own", 0)]);
        assert_eq!(drain.wants(room(3)), Some(NextPage::After(&7)));
    }
}
