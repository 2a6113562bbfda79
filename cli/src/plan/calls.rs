//! When calls begin behind the limits of their route, and in which order.
//!
//! The gates are asked as on a stack ([`Gate::admit`]): a batch that may not go gets a ticket, and comes back for its
//! time. Steps take no time here. So the batches that wait for a place in flight look at the gate as soon as a call
//! ends, in the order of their tickets.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use groupage_core::domain::gate::{Admission, Asks, Class, Limits, Scope, Unit};
use groupage_core::domain::{BatchId, Gate, Target, Timestamp};
use groupage_core::routes::Routes;

use super::forecast::Batch;

/// Says of each batch when its call begins, if a call takes so long. Batches come in the order in which they end.
pub fn begin(routes: &Routes, batches: &mut [Batch], call_ms: u64) {
    let mut calls = Calls { call_ms, ..Calls::default() };
    for (n, batch) in batches.iter().enumerate() {
        let route = routes.iter().find(|route| route.name.as_str() == batch.route);
        // Nobody knows how fast workers pull.
        let gates = route.filter(|route| !route.is_pulled()).map_or_else(Vec::new, |route| {
            let cost = |of| match of {
                Unit::Calls => 1,
                Unit::Items => (batch.tasks - batch.superseded) as u64,
                Unit::Bytes => batch.bytes,
                Unit::Weight => batch.weight,
            };
            let of_call = |(scope, limits): (Scope, Limits)| {
                let share = route.share(&scope, &batch.target, batch.priority);
                (scope, Limits { share, rates: limits.rates.costing(cost), ..limits })
            };
            let own = (Scope::Target(batch.target.clone()), route.limits_of(&batch.target));
            let of_all = (Scope::Route(route.name.clone()), route.limits());
            let named = route.named.iter().map(|named| (Scope::Limit(named.name.clone()), named.limits));
            [own, of_all].into_iter().chain(named).map(of_call).collect()
        });
        calls.come(Timestamp(batch.ended_ms), n);
        calls.batches.push(Comer {
            id: BatchId::new(n.to_string()),
            own: (batch.target.clone(), Class::of(batch.priority) == Class::Urgent),
            gates: gates.into_iter().filter(|(_, limits)| *limits != Limits::default()).collect(),
            ticket: None,
            next: Timestamp(0),
            begins: None,
        });
    }
    calls.run();
    for (batch, Comer { begins, .. }) in batches.iter_mut().zip(&calls.batches) {
        batch.called_ms = begins.map_or(batch.ended_ms, |at| at.0);
    }
}

/// Batches whose tickets of a gate follow each other: those of a Target, the urgent ones and the usual ones.
type Own = (Target, bool);

/// A batch on its way through its gates.
#[derive(Debug)]
struct Comer {
    id: BatchId,
    own: Own,
    /// Those that limit anything, in the order in which it passes them.
    gates: Vec<(Scope, Limits)>,
    ticket: Option<(Scope, u64)>,
    /// When it asks next.
    next: Timestamp,
    /// When its call begins, once that is known.
    begins: Option<Timestamp>,
}

/// All batches, their gates, and what happens next.
#[derive(Debug, Default)]
struct Calls {
    call_ms: u64,
    batches: Vec<Comer>,
    gates: BTreeMap<Scope, Gate>,
    /// Those with a ticket of a gate, by whose they are, in the order of their tickets.
    waiting: BTreeMap<Scope, BTreeMap<Own, VecDeque<usize>>>,
    coming: BinaryHeap<Reverse<(Timestamp, usize)>>,
    /// Which call ends when.
    ends: BinaryHeap<Reverse<(Timestamp, usize)>>,
}

/// A lease that no call outlasts here.
const LEASE_MS: u64 = 1 << 50;

impl Calls {
    fn come(&mut self, at: Timestamp, n: usize) {
        self.coming.push(Reverse((at, n)));
    }

    fn run(&mut self) {
        while let Some(Reverse((now, n))) = self.coming.pop() {
            while let Some(Reverse((end, over))) = self.ends.peek().copied().filter(|Reverse((end, _))| *end <= now) {
                self.ends.pop();
                self.end(over, end);
            }
            if self.batches.get(n).is_some_and(|batch| batch.begins.is_none() && batch.next <= now) {
                self.ask(n, now);
            }
        }
    }

    /// A call ends: those that wait for its places look at the gates.
    fn end(&mut self, over: usize, now: Timestamp) {
        let Some(Comer { id, gates, .. }) = self.batches.get(over) else { return };
        let (id, gates) = (id.clone(), gates.clone());
        for (scope, _) in gates.into_iter().filter(|(_, limits)| limits.in_flight.is_some()) {
            let left = self.gates.get(&scope).and_then(|gate| gate.without(&id));
            self.gates.extend(left.map(|gate| (scope.clone(), gate)));
            while let Some(first) = self.first(&scope) {
                self.ask(first, now);
                if self.first(&scope) == Some(first) {
                    break;
                }
            }
        }
    }

    /// The batch whose turn at this gate comes first of all that wait there.
    fn first(&self, scope: &Scope) -> Option<usize> {
        let first = self.waiting.get(scope)?.values().filter_map(|queue| queue.front().copied());
        let time = |n: &usize| {
            let ticket = self.batches.get(*n).and_then(|batch| batch.ticket.as_ref());
            (ticket.map(|(_, tag)| *tag), *n)
        };
        first.min_by_key(time)
    }

    /// A batch asks its gates, one after the other: it goes, or waits at one of them.
    fn ask(&mut self, n: usize, now: Timestamp) {
        let Some(Comer { id, gates, ticket, .. }) = self.batches.get(n) else { return };
        let (id, gates, ticket) = (id.clone(), gates.clone(), ticket.clone());
        let mut begins = now;
        for (scope, limits) in gates {
            let number = ticket.as_ref().filter(|(of, _)| *of == scope).map(|(_, number)| *number);
            let gate = self.gates.entry(scope.clone()).or_default();
            let asks = number.map_or(Asks::Anew, Asks::With);
            let (next, number, at) = match gate.admit(&id, asks, limits, now, now.plus_ms(LEASE_MS)) {
                Admission::Admitted(next, start) => {
                    begins = begins.max(start);
                    next.into_iter().for_each(|next| *gate = next);
                    continue;
                }
                Admission::LinesUp { flow, behind } => {
                    let next = gate.with_ticket(flow, behind);
                    let tag = next.as_ref().and_then(|next| Some(next.queue.flows.get(&flow)?.last));
                    let told = next.as_ref().zip(tag);
                    let at = told.and_then(|(next, tag)| next.time_of(tag, limits, now.plus_ms(LEASE_MS), now));
                    (next, tag, at.unwrap_or(now))
                }
                Admission::Later { gate: next, ticket, at } => (next, ticket, at),
                // No call has failed here, and nobody holds any back.
                Admission::Away { back: (from, _), .. } => (None, None, from),
            };
            next.into_iter().for_each(|next| *gate = next);
            self.wait(n, number.map(|number| (scope, number)), at.max(now.plus_ms(1)));
            return;
        }
        self.wait(n, None, begins);
        if let Some(batch) = self.batches.get_mut(n) {
            batch.begins = Some(begins);
            self.ends.push(Reverse((begins.plus_ms(self.call_ms), n)));
        }
    }

    /// A batch has this ticket from now on, and comes back then.
    fn wait(&mut self, n: usize, ticket: Option<(Scope, u64)>, back: Timestamp) {
        let Some(batch) = self.batches.get_mut(n) else { return };
        let (before, own) = (std::mem::replace(&mut batch.ticket, ticket.clone()), batch.own.clone());
        batch.next = back;
        if before != ticket {
            before.into_iter().for_each(|(scope, _)| self.leave(&scope, &own, n));
            if let Some((scope, _)) = ticket {
                self.waiting.entry(scope).or_default().entry(own).or_default().push_back(n);
            }
        }
        self.come(back, n);
    }

    /// A batch waits at this gate no more. It mostly is the first of its queue.
    fn leave(&mut self, scope: &Scope, own: &Own, n: usize) {
        let Some(queues) = self.waiting.get_mut(scope) else { return };
        let Some(queue) = queues.get_mut(own) else { return };
        match queue.front() {
            Some(first) if *first == n => _ = queue.pop_front(),
            _ => queue.retain(|other| *other != n),
        }
        if queue.is_empty() {
            queues.remove(own);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::forecast::Why;
    use super::*;

    /// When calls begin whose batches all end at 0, for these Targets in turn and with these priorities. Each lasts
    /// 100 ms.
    fn begin_of(route: &str, batches: &[(&str, u8)]) -> Vec<u64> {
        let http = "downstream: { http: { url: 'https://x' } }";
        let yaml = format!("version: 1\nroutes:\n  - {{ name: a, target: t, {http}, {route} }}\n");
        let batch = |(target, priority): &(&str, u8)| Batch {
            route: "a".to_owned(),
            target: Target::new(*target),
            tasks: 1,
            superseded: 0,
            priority: *priority,
            bytes: 2,
            weight: 30,
            came_ms: 0,
            began_ms: 0,
            ended_ms: 0,
            why: Why::Full,
            called_ms: 0,
            is_express: false,
        };
        let mut batches: Vec<Batch> = batches.iter().map(batch).collect();
        begin(&Routes::parse(&yaml).unwrap(), &mut batches, 100);
        batches.iter().map(|batch| batch.called_ms).collect()
    }

    fn of(route: &str, targets: &[&str]) -> Vec<u64> {
        begin_of(route, &targets.iter().map(|target| (*target, 0)).collect::<Vec<_>>())
    }

    #[test]
    fn calls_begin_as_soon_as_every_limit_lets_them() {
        let one = ["a:t"; 4];
        assert_eq!(of("limits: {}", &one), [0, 0, 0, 0]);
        assert_eq!(of("limits: { calls_per_second: 20 }", &one), [0, 50, 100, 150]);
        let tokens = "limits: { rates: [{ amount: 600, per: minute, of: weight, burst: 60 }] }";
        assert_eq!(of(tokens, &one), [0, 0, 3_000, 6_000]);
        assert_eq!(of("limits: { in_flight: 2 }", &one), [0, 0, 100, 100]);
        assert_eq!(of("limits: { in_flight: 1, calls_per_second: 20 }", &one), [0, 100, 200, 300]);
        let two = ["a:t", "a:u", "a:t", "a:u"];
        assert_eq!(of("limits: { in_flight_per_target: 1 }", &two), [0, 0, 100, 100]);
        assert_eq!(of("limits: { in_flight_per_target: 1, in_flight: 1 }", &two), [0, 100, 200, 300]);
    }

    /// A hundred batches of one Target come before one of another.
    #[test]
    fn where_targets_share_one_does_not_wait_for_all_of_another() {
        let targets: Vec<&str> = [vec!["a:much"; 100], vec!["a:one"]].concat();
        for limit in ["calls_per_second: 10", "in_flight: 1"] {
            let alone = of(&format!("limits: {{ {limit} }}"), &targets)[100];
            let shared = of(&format!("limits: {{ {limit}, share: {{ by: target }} }}"), &targets);
            assert_eq!(alone, 10_000, "{limit}");
            assert!(shared[100] <= 3_300, "{limit}: {} ms", shared[100]);
            let mut all = shared;
            all.sort_unstable();
            assert_eq!(all, (0..101).map(|n| n * 100).collect::<Vec<_>>(), "the limit is used whole");
        }
    }

    #[test]
    fn urgent_batches_go_before_usual_ones_that_wait_at_a_limit() {
        let batches: Vec<(&str, u8)> = [vec![("a:t", 0); 100], vec![("a:t", 3); 3]].concat();
        for limit in ["calls_per_second: 10", "in_flight: 1"] {
            let begins = begin_of(&format!("priority: p, limits: {{ {limit} }}"), &batches);
            assert!(begins[100..].iter().all(|at| *at <= 3_600), "{limit}: {:?}", &begins[100..]);
            assert_eq!(begins.iter().max(), Some(&10_200), "{limit}");
        }
    }

    #[test]
    fn thousands_of_batches_take_no_longer_than_their_limit() {
        let names: Vec<String> = (0..2_000).map(|n| format!("a:t{}", n % 40)).collect();
        let targets: Vec<&str> = names.iter().map(String::as_str).collect();
        let begins = of("limits: { in_flight: 10, share: { by: target } }", &targets);
        assert_eq!(begins.iter().max(), Some(&19_900));
    }
}
