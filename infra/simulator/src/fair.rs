//! Fair queues: a standard queue hands out the messages of quiet tenants before those of noisy ones.
//!
//! A tenant is noisy while it has over a tenth of the messages in flight, and at least 30 of them (SQS developer guide,
//! *Amazon SQS fair queues*). A message without a tenant is quiet.

use std::collections::{HashMap, VecDeque};

use crate::message::Message;

const LEAST_IN_HAND: usize = 30;
const SHARE: usize = 10;

/// How many messages of each tenant are in flight.
#[derive(Debug, Default)]
pub(crate) struct Fair(HashMap<String, usize>);

impl Fair {
    pub(crate) fn handed_out(&mut self, message: &Message) {
        if let Some(group) = &message.group {
            *self.0.entry(group.clone()).or_default() += 1;
        }
    }

    pub(crate) fn given_back(&mut self, message: &Message) {
        let Some(group) = &message.group else { return };
        if let Some(count) = self.0.get_mut(group) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(group);
            }
        }
    }

    /// Takes up to `most` messages: the first of quiet tenants, then the first of all.
    pub(crate) fn take(&self, ready: &mut VecDeque<Message>, most: usize, in_hand: usize) -> Vec<Message> {
        let is_much = |count: usize| count >= LEAST_IN_HAND && count * SHARE > in_hand;
        let is_noisy = |message: &Message| {
            message.group.as_ref().and_then(|group| self.0.get(group)).is_some_and(|count| is_much(*count))
        };
        let mut taken = Vec::new();
        if self.0.values().any(|count| is_much(*count)) {
            let mut at = 0;
            while taken.len() < most && at < ready.len() {
                if ready.get(at).is_some_and(is_noisy) {
                    at += 1;
                } else {
                    taken.extend(ready.remove(at));
                }
            }
        }
        let rest = ready.len().min(most - taken.len());
        taken.extend(ready.drain(..rest));
        taken
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use groupage_aws::Meter;
    use groupage_core::ports::{Destination, Outbox, Outgoing};
    use tokio::time::Instant;

    use crate::clock::TestEnv;
    use crate::machine::Machine;
    use crate::message::{Chain, Step};
    use crate::queues::{Queues, Wired};

    /// Where the other's one comes, if 100 of one Target's come before it and 40 of these are in hand.
    async fn place_of_the_other(names_tenants: bool) -> usize {
        let (queues, env) = (Arc::new(Queues::new(Arc::new(Meter::new()))), TestEnv::new(1));
        let machine = Machine::of_memory(env, 1_769);
        let wired = Wired { queues: Arc::clone(&queues), machine, chain: Chain::default() };
        let of = |target: &str| Outgoing {
            to: Destination::Handle,
            body: target.to_owned(),
            delay_ms: 0,
            attributes: Vec::new(),
            tenant: names_tenants.then(|| target.to_owned()),
        };
        let receive = || queues.receive(Step::BatchHandler, 10, Instant::now(), Duration::from_secs(450));
        wired.send((0..100).map(|_| of("much")).collect()).await;
        for _ in 0..4 {
            assert_eq!(receive().await.len(), 10);
        }
        wired.send(vec![of("little")]).await;
        let mut place = 0;
        loop {
            let received = receive().await;
            assert!(!received.is_empty());
            match received.iter().position(|message| message.body == "little") {
                Some(at) => return place + at,
                None => place += received.len(),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_targets_many_do_not_delay_anothers_one_if_messages_say_whose_they_are() {
        assert_eq!((place_of_the_other(true).await, place_of_the_other(false).await), (0, 60));
    }
}
