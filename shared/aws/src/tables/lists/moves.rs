//! A move of a list's head as one update: what it changes, and on which conditions.

use groupage_core::domain::list::{Life, MAX_RESERVATIONS, Move, Reserve, Strand};

use super::head::{forgotten_attribute, start_attribute, what_attribute};
use super::stored::what;
use super::{CLOSED, DUE, OPEN, OPENED_AT, TAKEN};
use crate::dynamo::expression::{Change, Clause};
use crate::dynamo::item::{number, text};

/// A move of the head as a change with its preconditions, which are those of [`Head::after`].
pub(super) fn moving(life: &Life, next: &Move) -> (Change, Vec<Clause>) {
    let mut clauses = vec![Clause::Equals(OPENED_AT, number(life.opened_at.0))];
    let change = match next {
        Move::Reserve(reserve) => {
            let Reserve { key, purpose, count, at, most_taken, seen } = reserve;
            clauses.extend([
                Clause::KeyAbsent(what_attribute(key)),
                Clause::AtMost(TAKEN, number(most_taken.0)),
                Clause::AbsentOrBelow(forgotten_attribute(Strand::of(key)), number(seen.next().0)),
                Clause::Below(OPEN, number(MAX_RESERVATIONS)),
            ]);
            let change = Change::default()
                .set_to(&start_attribute(key), TAKEN)
                .set(&what_attribute(key), text(what(*count, *purpose, *at)))
                .increase(TAKEN, number(count))
                .increase(OPEN, number(1))
                .set("ActiveAt", number(at.0))
                .set_if_absent(DUE, number(reserve.due().0));
            if purpose.is_discard() {
                change.increase("Discarded", number(count))
            } else {
                clauses.push(Clause::Absent(CLOSED));
                change
            }
        }
        Move::Forget { key, end, below } => {
            clauses.push(Clause::KeyPresent(what_attribute(key)));
            let change =
                Change::default().remove(&start_attribute(key)).remove(&what_attribute(key)).increase(OPEN, number(-1));
            let forgotten = forgotten_attribute(Strand::of(key));
            if *below {
                clauses.push(Clause::AtLeast(forgotten, number(end.0)));
                change
            } else {
                clauses.push(Clause::AbsentOrBelow(forgotten, number(end.0)));
                change.set(forgotten, number(end.0))
            }
        }
        Move::Look { was, reservations, due } => {
            clauses.push(Clause::unchanged(DUE, was.map(|was| number(was.0))));
            clauses.push(Clause::Equals(OPEN, number(reservations)));
            Change::default().set_or_remove(DUE, due.map(|due| number(due.0)))
        }
    };
    (change, clauses)
}
