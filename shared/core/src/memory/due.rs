//! What is due, in memory.

use std::fmt::Display;

use crate::domain::shelf::Position;
use crate::domain::time::Timestamp;
use crate::ports::{Entries, Entry, Look, Segment};

/// What an index in memory shows to a look at its entries, those that have been due for longest first.
pub fn due<'a, Id: Ord + Clone + Display + 'a>(
    entries: impl Iterator<Item = (Timestamp, &'a Id)>,
    look: Look<'_>,
) -> Entries<Id> {
    let due = entries.filter(|(due, _)| *due < look.before);
    in_order(due.map(|(due, id)| Entry { at: position(due, id), what: id.clone() }), look.after, look.limit)
}

/// Where an entry with this due time lies.
fn position(due: Timestamp, id: &impl Display) -> Position {
    Position(format!("{:020} {id}", due.0))
}

/// What a scan in memory shows of a segment, in the order of the entries' positions.
pub fn in_segment<T>(
    entries: impl Iterator<Item = Entry<T>>,
    Segment { index, of }: Segment,
    after: Option<&Position>,
    limit: usize,
) -> Entries<T> {
    in_order(entries.filter(|entry| segment_of(&entry.at.0, of) == index), after, limit)
}

/// The segment that an item lies in when a scan is split into `of`.
pub(super) fn segment_of(id: &str, of: u8) -> u8 {
    id.bytes().fold(0_u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte)) % of.max(1)
}

/// The first entries behind a position, in their order.
pub(super) fn in_order<T>(
    entries: impl Iterator<Item = Entry<T>>,
    after: Option<&Position>,
    limit: usize,
) -> Entries<T> {
    let mut found: Vec<Entry<T>> = entries.filter(|entry| after.is_none_or(|after| entry.at > *after)).collect();
    found.sort_by(|a, b| a.at.cmp(&b.at));
    let are_last = found.len() <= limit;
    found.truncate(limit);
    Entries { found, are_last }
}
