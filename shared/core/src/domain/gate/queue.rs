//! Wait queue: self-clocked fair queueing (Golestani, "A self-clocked fair queueing scheme", INFOCOM 1994).
//!
//! A batch that must wait takes a *ticket*: a tag on a virtual time scale. The tags of a flow lie one stride apart, and
//! the stride is the inverse of the flow's weight. The virtual time is the highest tag that was served. A flow that
//! begins to wait starts there, so it waits for about one turn of each other flow. A flow is a Target, where Targets
//! share a limit, a class of urgency, or all batches.
//!
//! A ticket takes as many tags as its batch's size, and goes by the last of them. The item holds three numbers for each
//! flow, however many batches wait: a batch's place is the number of tags between the virtual time and its own. Tickets
//! are no promise. A batch computes from its place when to come back, and asks again then. A ticket that no batch comes
//! with is passed over as soon as a later one is served.
//!
//! The flows are bounded. A ticket that finds no room for a flow joins the one whose last tag is the highest.

use std::collections::BTreeMap;

use crate::domain::id::digest;
use crate::domain::time::Timestamp;

/// Which flow a batch belongs to, and its weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    key: u64,
    weight: u64,
    /// It begins no flow where there are as many.
    most: usize,
    /// The size of its batch: how many tags its ticket takes.
    pub(super) size: u64,
}

/// A flow that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The first tag of its first ticket.
    pub first: u64,
    /// The tag of its last ticket.
    pub last: u64,
    /// The distance between its tags.
    pub stride: u64,
}

/// Tickets of batches that wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitQueue {
    /// The virtual time: the highest tag that was served.
    pub served: u64,
    /// When the queue last moved, or a permit came back.
    pub moved: Timestamp,
    /// Those that wait.
    pub flows: BTreeMap<u64, Flow>,
}

/// The largest weight of a Target.
pub const MOST_WEIGHT: u64 = 1_000;
/// Flows of a queue, at most. Each is some 50 bytes of an item that is written with every call.
pub(super) const MOST_FLOWS: usize = 96;
/// The stride of the weight 1.
const UNIT: u64 = 1 << 20;

impl Share {
    /// The flow of all batches, where they are called in order of arrival.
    pub(super) const ALL: Self = Self { key: 0, weight: 1, most: usize::MAX, size: 1 };

    /// The flow of this name with this weight. A changed weight is another flow.
    pub(super) fn of(name: &[&str], weight: u64, most: usize) -> Self {
        let weight = weight.clamp(1, UNIT);
        let hash = digest(&[name, &[weight.to_string().as_str()]].concat());
        let key = hash.get(..8).and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or_default();
        Self { key: 1 + key, weight, most, size: 1 }
    }

    /// Returns this share for a batch of this size.
    pub(super) const fn sized(self, size: u64) -> Self {
        Self { size, ..self }
    }
}

impl Flow {
    /// Adds a ticket of this size.
    const fn one_more(self, size: u64) -> Self {
        Self { last: self.last.saturating_add(self.stride.saturating_mul(size)), ..self }
    }

    /// Counts the tags after `tag`.
    fn after(self, tag: u64) -> u64 {
        let stride = self.stride.max(1);
        let all = (self.last.saturating_sub(self.first)) / stride + 1;
        self.last.saturating_sub(tag).div_ceil(stride).min(all)
    }

    /// Counts the tags after `from` and before `to`.
    fn between(self, from: u64, to: u64) -> u64 {
        self.after(from).saturating_sub(self.after(to.saturating_sub(1)))
    }
}

impl WaitQueue {
    /// Sums the sizes of the batches that wait.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        self.flows.values().map(|flow| flow.after(self.served)).sum()
    }

    /// Sums the sizes of the batches that wait before this ticket of a share. Of other flows a batch counts if all of
    /// it is before, as far as the mean size of batches tells.
    #[must_use]
    pub fn ahead(&self, tag: u64, share: Share, mean_size: u64) -> u64 {
        let of = |(key, flow): (&u64, &Flow)| {
            let all = flow.between(self.served, tag);
            if *key == share.key { all.saturating_sub(share.size - 1) } else { all - all % mean_size.max(1) }
        };
        self.flows.iter().map(of).sum()
    }

    /// Returns how many turns ago the queue passed over this ticket, at least.
    pub(super) const fn passed_over(&self, tag: u64) -> u64 {
        self.served.saturating_sub(tag) / UNIT
    }

    /// Returns where a flow begins. Tickets of an item that expired are before those of the next one.
    fn virtual_time(&self, now: Timestamp) -> u64 {
        if self.flows.is_empty() { self.served.max(now.0.saturating_mul(UNIT)) } else { self.served }
    }

    /// Returns the flow of the next ticket of `share`, with that ticket in it.
    pub(super) fn next(&self, share: Share, now: Timestamp) -> (u64, Flow) {
        let has_room = self.flows.len() < share.most;
        let own = self.flows.get_key_value(&share.key);
        let joined = own.or_else(|| self.flows.iter().max_by_key(|(_, flow)| flow.last).filter(|_| !has_room));
        if let Some((key, flow)) = joined {
            return (*key, flow.one_more(share.size));
        }
        let stride = UNIT / share.weight;
        let first = self.virtual_time(now).saturating_add(stride);
        (share.key, Flow { first, last: first, stride }.one_more(share.size - 1))
    }

    /// Hands out the next ticket of `share`.
    pub(super) fn take(&mut self, share: Share, now: Timestamp) -> u64 {
        let (key, flow) = self.next(share, now);
        if self.flows.is_empty() {
            (self.served, self.moved) = (self.virtual_time(now), now);
        }
        self.flows.insert(key, flow);
        flow.last
    }

    /// Hands out the next ticket of a flow that waits, this far behind its last one.
    pub(super) fn take_behind(&mut self, key: u64, behind: u64) -> Option<u64> {
        let flow = self.flows.get_mut(&key)?;
        flow.last = flow.last.saturating_add(behind);
        Some(flow.last)
    }

    /// The batch with this ticket is called.
    pub(super) fn serve(&mut self, tag: u64, now: Timestamp) {
        self.served = self.served.max(tag);
        self.moved = now;
        let served = self.served;
        self.flows.retain(|_, flow| flow.last > served);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: Timestamp = Timestamp(1_000);

    fn share(name: u64, weight: u64) -> Share {
        Share::of(&[name.to_string().as_str()], weight, MOST_FLOWS)
    }

    /// The flow of each call, in the order in which a queue of these flows, each with that many batches, is served.
    fn order(flows: &[(u64, usize)]) -> Vec<usize> {
        let mut queue = WaitQueue::default();
        let mut tags: Vec<(u64, usize)> = Vec::new();
        for (n, (weight, batches)) in flows.iter().enumerate() {
            tags.extend((0..*batches).map(|_| (queue.take(share(n as u64, *weight), NOW), n)));
        }
        tags.sort_unstable();
        for (before, (tag, _)) in (0..).zip(&tags) {
            // Two flows may have one tag.
            assert!(queue.ahead(*tag, Share::ALL, 1).abs_diff(before) <= flows.len() as u64);
        }
        tags.into_iter().map(|(_, flow)| flow).collect()
    }

    #[test]
    fn a_flow_with_one_batch_comes_after_one_turn_of_each_other() {
        let order = order(&[(1, 10_000), (1, 10_000), (1, 1)]);
        assert!(order.iter().position(|flow| *flow == 2).unwrap() <= 2);
    }

    #[test]
    fn ten_flows_share_by_their_weights() {
        let flows: Vec<(u64, usize)> = (1..=10).map(|weight| (weight, 1_000)).collect();
        let served = &order(&flows)[..1_100];
        for (n, (weight, _)) in flows.iter().enumerate() {
            let share = served.iter().filter(|flow| **flow == n).count() as f64 / 1_100.0;
            let due = *weight as f64 / 55.0;
            assert!((share / due - 1.0).abs() < 0.05, "{weight}: {share} of {due}");
        }
    }

    #[test]
    fn a_ticket_that_finds_no_room_is_the_last_one() {
        let mut queue = WaitQueue::default();
        for n in 0..5_000 {
            let highest = queue.flows.values().map(|flow| flow.last).max();
            let is_known = queue.flows.contains_key(&share(n % 300, 1 + n % 9).key);
            let has_room = queue.flows.len() < MOST_FLOWS;
            let tag = queue.take(share(n % 300, 1 + n % 9), NOW);
            assert!(is_known || has_room || Some(tag) > highest, "{n}");
        }
        assert_eq!((queue.flows.len(), queue.waiting()), (MOST_FLOWS, 5_000));
        queue.serve(u64::MAX, NOW);
        assert!(queue.flows.is_empty(), "those that come no more leave their room to others");
    }

    #[test]
    fn tickets_of_a_queue_that_was_forgotten_are_before_those_of_the_new_one() {
        let old: Vec<u64> = std::iter::repeat_with({
            let mut queue = WaitQueue::default();
            move || queue.take(Share::ALL, NOW)
        })
        .take(500)
        .collect();
        let mut anew = WaitQueue::default();
        let first = anew.take(Share::ALL, NOW.plus_ms(900_000));
        assert!(old.iter().all(|tag| *tag < first && anew.ahead(*tag, Share::ALL, 1) == 0));
    }

    proptest! {
        #[test]
        fn a_flow_is_served_in_order_and_a_ticket_waits_for_those_before_it(
            events in proptest::collection::vec((0_u64..12, 1_u64..4, any::<bool>()), 1..200),
        ) {
            let (mut queue, mut waiting): (WaitQueue, Vec<(u64, u64)>) = (WaitQueue::default(), Vec::new());
            for (name, weight, serves) in events {
                if serves && !waiting.is_empty() {
                    waiting.sort_unstable();
                    let (tag, _) = waiting.remove(0);
                    prop_assert_eq!(queue.ahead(tag, Share::ALL, 1), 0);
                    queue.serve(tag, NOW);
                } else {
                    let own = share(name, weight);
                    let tag = queue.take(own, NOW);
                    prop_assert!(waiting.iter().all(|(other, key)| *key != own.key || *other < tag));
                    prop_assert!(tag > queue.served);
                    waiting.push((tag, own.key));
                }
                // What shares a tag with one that was served has its turn with it.
                let later = waiting.iter().filter(|(tag, _)| *tag > queue.served).count();
                prop_assert_eq!(queue.waiting(), later as u64);
            }
        }
    }
}
