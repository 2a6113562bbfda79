//! A list as a plain queue: what its real one must show.

use groupage_lab::prelude::*;
use std::collections::{BTreeMap, VecDeque};

/// What a call must be answered with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// It did something, or found it done.
    Done,
    /// These tokens were given, or taken: the first one, and how many.
    Range(u64, u64),
    /// These tasks wait next.
    Next(Vec<String>),
    Unknown,
    Closed,
    OpenedOtherwise,
    KeyUsed,
}

impl Expected {
    pub const fn is_refused(&self) -> bool {
        match self {
            Self::Done | Self::Range(..) | Self::Next(_) => false,
            Self::Unknown | Self::Closed | Self::OpenedOtherwise | Self::KeyUsed => true,
        }
    }
}

/// What was put or taken under a key: what was asked for, and the range.
type Under<T> = BTreeMap<String, (T, u64, u64)>;

/// The list; `None` where it is not there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Model {
    pub list: Option<Queue>,
    /// The tasks of every release.
    pub releases: Vec<Vec<String>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    pub ttl_ms: Option<u64>,
    pub is_closed: bool,
    pub waiting: VecDeque<String>,
    pub given: u64,
    pub taken: u64,
    pub discarded: u64,
    puts: Under<Vec<String>>,
    /// `None` is a discard.
    takes: Under<Option<u64>>,
    pub active_at: Timestamp,
}

impl Model {
    pub fn open(&mut self, ttl_ms: Option<u64>, now: Timestamp) -> Expected {
        match &mut self.list {
            None => self.list = Some(Queue { ttl_ms, active_at: now, ..Queue::default() }),
            Some(queue) if queue.ttl_ms != ttl_ms => return Expected::OpenedOtherwise,
            Some(queue) => {
                if queue.is_closed {
                    queue.active_at = now;
                }
                queue.is_closed = false;
            }
        }
        Expected::Done
    }

    pub fn put(&mut self, key: &str, ids: &[String], now: Timestamp) -> Expected {
        let queue = self.list.get_or_insert_with(|| Queue { active_at: now, ..Queue::default() });
        match queue.puts.get(key) {
            Some((before, start, count)) if before == ids => return Expected::Range(*start, *count),
            Some(_) => return Expected::KeyUsed,
            None if queue.is_closed => return Expected::Closed,
            None => {}
        }
        let (start, count) = (queue.given, ids.len() as u64);
        queue.puts.insert(key.to_owned(), (ids.to_vec(), start, count));
        queue.waiting.extend(ids.iter().cloned());
        queue.given += count;
        queue.active_at = now;
        Expected::Range(start, count)
    }

    /// Releases this many, or discards everything.
    pub fn take(&mut self, key: &str, asked: Option<u64>, now: Timestamp) -> Expected {
        let Some(queue) = &mut self.list else { return Expected::Unknown };
        match queue.takes.get(key) {
            Some((before, start, count)) if *before == asked => return Expected::Range(*start, *count),
            Some(_) => return Expected::KeyUsed,
            None if queue.is_closed && asked.is_some() => return Expected::Closed,
            None => {}
        }
        let start = queue.taken;
        let waiting = queue.waiting.len() as u64;
        let count = asked.map_or(waiting, |asked| asked.min(waiting));
        if count > 0 {
            queue.takes.insert(key.to_owned(), (asked, start, count));
            queue.active_at = now;
        }
        let tasks: Vec<String> = queue.waiting.drain(..usize::try_from(count).unwrap()).collect();
        queue.taken += count;
        match asked {
            Some(_) => self.releases.push(tasks),
            None => queue.discarded += count,
        }
        Expected::Range(start, count)
    }

    pub fn close(&mut self, now: Timestamp) -> Expected {
        let Some(queue) = &mut self.list else { return Expected::Unknown };
        if !queue.is_closed {
            queue.active_at = now;
        }
        queue.is_closed = true;
        Expected::Done
    }

    pub fn peek(&self, limit: usize) -> Expected {
        match &self.list {
            None => Expected::Unknown,
            Some(queue) => Expected::Next(queue.waiting.iter().take(limit).cloned().collect()),
        }
    }

    /// Every task that was released.
    pub fn released(&self) -> impl Iterator<Item = &String> {
        self.releases.iter().flatten()
    }

    /// Whether sweep removes it now.
    pub fn is_over(&self, idle_ms: u64, now: Timestamp) -> bool {
        self.list.as_ref().is_some_and(|queue| {
            let may_go = queue.ttl_ms.is_some() || queue.waiting.is_empty();
            may_go && now.since(queue.active_at) >= queue.ttl_ms.unwrap_or(idle_ms)
        })
    }
}
