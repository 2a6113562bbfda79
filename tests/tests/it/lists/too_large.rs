//! Tasks that are too large to be fed on: refused at the door, and set aside where one is on a list all the same.

use groupage_aws::entry::mapping::TASKS;
use groupage_core::domain::list::{Addition, Put, Slot};
use groupage_core::domain::task_message::MAX_MESSAGE_BYTES;
use groupage_core::ports::{Error, Result};
use groupage_lab::prelude::*;

use super::calls::id;

const ROUTES: &str = parcels_route![];

/// Queues that refuse what SQS refuses for its size, as the template sets them.
#[derive(Default)]
struct Strict(MemoryQueues);

impl Outbox for Strict {
    async fn send(&self, messages: Vec<Outgoing>) -> Vec<Result<()>> {
        let mut answers = Vec::new();
        for message in messages {
            let most = if message.to == Destination::Rejected { 262_144 } else { MAX_MESSAGE_BYTES };
            let attributes = message.attributes.iter().map(|(name, value)| name.len() + "String".len() + value.len());
            if message.body.len() + attributes.sum::<usize>() > most {
                answers.push(Err(Error::Broken { what: "send messages", why: "the message is too large".to_owned() }));
            } else {
                answers.extend(self.0.send(vec![message]).await);
            }
        }
        answers
    }
}

impl Inbox for Strict {
    async fn postpone(&self, from: &Destination, receipts: Vec<String>, delay_ms: u64) -> Vec<Result<()>> {
        self.0.postpone(from, receipts, delay_ms).await
    }
}

/// A task for the list without an id, of this many bytes.
fn nameless(bytes: usize) -> String {
    let body = |filler: &str| format!(r#"{{"list":"l","payload":{{"truck":"7","a":"{filler}"}}}}"#);
    body(&"x".repeat(bytes - body("").len()))
}

fn reasons(queues: &Strict) -> Vec<Vec<String>> {
    let said = |message: Outgoing| message.attributes.into_iter().take(2).map(|(_, value)| value).collect();
    queues.0.messages(&Destination::Rejected).into_iter().map(said).collect()
}

#[tokio::test(start_paused = true)]
async fn a_task_that_could_not_be_fed_on_with_its_id_is_refused_at_the_door() {
    let (store, queues, env) = (&MemoryStore::new(), &Strict::default(), &TestEnv::new(1));
    let routes = &Routes::parse(ROUTES).unwrap();
    let bodies = [nameless(90), nameless(MAX_MESSAGE_BYTES), nameless(91)];
    // As long as SQS's are: it becomes the task's id, and takes more room than the list's name did.
    let message_id = |n| format!("6f9619ff-8b86-d011-b42d-00c04fc964f{n}");
    let records = bodies.iter().enumerate().map(|(n, body)| first(&message_id(n), body)).collect();
    let deadline = env.now().plus_ms(TASKS.budget_ms());
    let report =
        Register { store, queues, env, routes, deadline, rations: &Rations::default(), asked: &Asked::default() }
            .run(records)
            .await;
    assert_eq!((report.listed, report.rejected, report.failed.len()), (2, 1, 0));
    assert_eq!(reasons(queues), [["too_large", "with its id the message is over 256000 bytes"]]);
    let released = Listing { store, outbox: queues, env }.release(&id(), "r", 9).await;
    assert_eq!(released.unwrap().unwrap().count, 2);
    assert_eq!(queues.0.messages(&Destination::Tasks).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_slot_that_cannot_go_on_is_set_aside_while_its_neighbours_go() {
    let (store, outbox, env) = (&MemoryStore::new(), &Strict::default(), &TestEnv::new(1));
    let tracking = Tracking { store, outbox, env };
    let tracked = track(tracking, "t", 1).await;
    let lists = Listing { store, outbox, env };
    let good = |n| vec![format!(r#"{{"id":"p{n}","payload":{{"truck":"7"}}}}"#)];
    lists.put(&id(), "k0", &good(0)).await.unwrap().unwrap();
    // As it was stored before anybody looked at the door.
    let tail = store.list(&id()).await.unwrap().unwrap().tail;
    let body = format!(r#"{{"id":"p1","payload":{{"a":"{}"}},"item":"t:0:0"}}"#, "x".repeat(MAX_MESSAGE_BYTES));
    let digest = String::new();
    let additions = vec![Addition { key: "k1".to_owned(), start: tail.given, count: 1, digest, item: None }];
    let slots = vec![Slot { token: tail.given, body }];
    let put = store.put_on_list(&Put { tail: tail.grown(1, false, env.now()), additions, slots }).await.unwrap();
    assert_eq!(put, PutOn::Yes);
    lists.put(&id(), "k2", &good(2)).await.unwrap().unwrap();

    let released = lists.release(&id(), "r", 9).await.unwrap().unwrap();
    assert_eq!((released.count, released.left), (3, 0));
    let sent = outbox.0.messages(&Destination::Tasks);
    assert_eq!(sent.iter().map(|message| &message.body).collect::<Vec<_>>(), [&good(0)[0], &good(2)[0]]);
    assert_eq!(reasons(outbox), [["too_large", "token 1 of list l is over 256000 bytes"]]);
    assert_eq!(tracking.progress(&tracked).await.unwrap().unwrap().failed, 1, "no tracker waits for it");
}
