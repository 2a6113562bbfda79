//! What the tables must say, compared with what has become of the events.

use groupage_core::domain::stream::State;

use super::setting::{Does, Promise, Setting, offset};
use super::world::World;
use crate::prelude::*;

/// What a settled event may count as.
struct Settled {
    must_fail: bool,
    may_fail: bool,
}

impl World {
    /// Whether an event was sent.
    pub(super) fn is_sent(&self, number: u64, setting: &Setting) -> bool {
        number < setting.fed || self.sent.contains(&number)
    }

    /// Whether nobody is lost, once everybody has done what they had to.
    pub(super) fn is_whole(&self, setting: &Setting) -> bool {
        let (stream, watermark) = (&self.stream, &self.stream.watermark);
        let mut reached = setting.done;
        while self.settled(reached, setting).is_some() {
            reached += 1;
        }
        let (settled, must_fail, may_fail) = self.count(setting);
        let is_complete = match stream.state {
            State::Open | State::Failed => true,
            State::Ended => reached < stream.next,
            State::Completed => reached == stream.next,
        };
        let is_told = stream.is_told && (!setting.told || self.told == watermark.number);
        (0..stream.next).rev().all(|number| self.is_sent(number, setting) || self.settled(number, setting).is_some())
            && (watermark.number, watermark.settled) == (reached, settled)
            && (must_fail..=may_fail).contains(&watermark.failed)
            && is_complete
            && is_told
    }

    /// What became of an event, if it is settled.
    fn settled(&self, number: u64, setting: &Setting) -> Option<Settled> {
        if number < setting.done {
            return Some(Settled { must_fail: false, may_fail: false });
        }
        if self.rejected.contains(&number) {
            return Some(Settled { must_fail: true, may_fail: true });
        }
        let outcomes = || {
            self.acking.iter().filter_map(|place| match setting.who.get(*place)? {
                Does::Acks(from, to, outcome) => (*from..*to).contains(&number).then_some(*outcome),
                Does::Feeds { .. } => None,
            })
        };
        outcomes().next()?;
        let fails = |outcome| outcome == Outcome::Failed;
        Some(Settled { must_fail: outcomes().all(fails), may_fail: outcomes().any(fails) })
    }

    /// How many events are settled, and how many failed at least and at most.
    fn count(&self, setting: &Setting) -> (u64, u64, u64) {
        let known = (setting.done..self.stream.next).filter_map(|number| self.settled(number, setting));
        known.fold((setting.done, 0, 0), |(settled, must, may), event| {
            (settled + 1, must + u64::from(event.must_fail), may + u64::from(event.may_fail))
        })
    }
}

impl Act<'_, Setting> {
    /// What a commit breaks.
    pub(super) fn judge_commit(&mut self, old: &Stream, new: &Stream) {
        let (before, after) = (&old.watermark, &new.watermark);
        let falls = after.number < before.number || after.settled < before.settled || after.failed < before.failed;
        let is_over = matches!(old.state, State::Completed | State::Failed);
        if falls || is_over && new.state != old.state || old.state != State::Open && new.state == State::Open {
            self.breaks(Promise::NeverBack);
        }
        if (before.number..after.number).any(|number| self.settled(number, self.of).is_none()) {
            self.breaks(Promise::OnlySettled);
        }
        let (settled, _, may_fail) = self.count(self.of);
        if after.settled > settled || after.failed > may_fail {
            self.breaks(Promise::CountsSettled);
        }
        if after.offset != after.number.checked_sub(1).map(offset) {
            self.breaks(Promise::OffsetKnown);
        }
    }

    /// What the tables break, by any process.
    pub(super) fn judge(&mut self) {
        let stream = self.stream.clone();
        let is_over = (self.of.done..stream.next).all(|number| self.settled(number, self.of).is_some());
        if stream.state == State::Completed && (stream.watermark.number != stream.next || !is_over) {
            self.breaks(Promise::CompleteIsComplete);
        }
        let bits = self.bits();
        let mut reached = stream.watermark.number;
        while reached < stream.next && bits.is_settled(reached) {
            reached += 1;
        }
        let has_page = self.pages.values().any(|page| page.start < reached && reached <= page.end());
        if reached != stream.watermark.number && reached != stream.next && !has_page {
            self.breaks(Promise::OffsetKnown);
        }
    }
}
