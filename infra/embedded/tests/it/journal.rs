//! What queues hold in a folder, after the process that held them has died.
//!
//! A copy of the folder, taken while its stack runs, is what `kill -9` leaves at that moment.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::{
    Message, MessageAttributeValue, MessageSystemAttributeName as System, QueueAttributeName as Name,
    SendMessageBatchRequestEntry,
};
use embedded::{Durability, Error, Ports, Stack, Storage};
use tempfile::TempDir;

/// A stack on a folder.
struct Place {
    stack: Stack,
    client: Client,
    folder: TempDir,
}

impl Place {
    async fn new() -> Self {
        Self::on(tempfile::tempdir().unwrap()).await.unwrap()
    }

    async fn on(folder: TempDir) -> Result<Self, Error> {
        let storage = Storage::Folder(folder.path().to_owned(), Durability::Process);
        let stack = Stack::start(storage, Ports::default()).await?;
        Ok(Self { client: Client::new(stack.sdk_config()), stack, folder })
    }

    /// What a kill would leave now.
    fn image(&self) -> TempDir {
        let image = tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o700)).tempdir().unwrap();
        for file in fs::read_dir(self.folder.path()).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), image.path().join(file.file_name())).unwrap();
        }
        image
    }

    /// Killed now, and started again.
    async fn killed(self) -> Self {
        let image = self.image();
        self.stack.shutdown().await;
        Self::on(image).await.unwrap()
    }

    /// The URL of one of its queues.
    fn queue(&self, name: &str) -> String {
        let tasks = &self.stack.queues().tasks;
        format!("{}/{name}", tasks.rsplit_once('/').unwrap().0)
    }

    fn tasks(&self) -> String {
        self.stack.queues().tasks.clone()
    }

    async fn send(&self, body: &str) -> String {
        let sent = self.client.send_message().queue_url(self.tasks()).message_body(body).send().await.unwrap();
        sent.message_id.unwrap()
    }

    async fn send_in_order(&self, group: &str, key: &str, body: &str) -> String {
        let queue = &self.stack.queues().in_order;
        let send = self.client.send_message().queue_url(queue).message_group_id(group).message_deduplication_id(key);
        send.message_body(body).send().await.unwrap().message_id.unwrap()
    }

    /// Up to ten messages, hidden for so long.
    async fn receive(&self, queue: &str, hidden_s: i32) -> Vec<Message> {
        let receive = self.client.receive_message().queue_url(queue).max_number_of_messages(10);
        let receive = receive.visibility_timeout(hidden_s).message_attribute_names("All");
        receive.message_system_attribute_names(System::All).send().await.unwrap().messages.unwrap_or_default()
    }

    async fn delete(&self, queue: &str, message: &Message) {
        let receipt = message.receipt_handle.clone().unwrap();
        self.client.delete_message().queue_url(queue).receipt_handle(receipt).send().await.unwrap();
    }

    /// Receives all there is, one after the other.
    async fn drain(&self, queue: &str) -> Vec<String> {
        let mut bodies = Vec::new();
        loop {
            let messages = self.receive(queue, 60).await;
            if messages.is_empty() {
                return bodies;
            }
            for message in messages {
                self.delete(queue, &message).await;
                bodies.push(message.body.unwrap());
            }
        }
    }

    /// Ready, out with a receiver, delayed.
    async fn counts(&self, queue: &str) -> [usize; 3] {
        let names = [
            Name::ApproximateNumberOfMessages,
            Name::ApproximateNumberOfMessagesNotVisible,
            Name::ApproximateNumberOfMessagesDelayed,
        ];
        let request = self.client.get_queue_attributes().queue_url(queue).set_attribute_names(Some(names.to_vec()));
        let found = request.send().await.unwrap().attributes.unwrap();
        names.map(|name| found[&name].parse().unwrap())
    }
}

fn receives(message: &Message) -> &str {
    &message.attributes.as_ref().unwrap()[&System::ApproximateReceiveCount]
}

#[tokio::test]
async fn an_acknowledged_message_outlives_a_kill_as_it_was_sent() {
    let place = Place::new().await;
    let reason = MessageAttributeValue::builder().data_type("String").string_value("no_route").build().unwrap();
    let rejected = place.queue("groupage-rejected");
    let send =
        place.client.send_message().queue_url(&rejected).message_body("a").message_attributes("Reason", reason.clone());
    let id = send.send().await.unwrap().message_id.unwrap();
    let place = place.killed().await.killed().await;
    let found = place.receive(&place.queue("groupage-rejected"), 60).await;
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].message_id.as_deref(), found[0].body.as_deref()), (Some(id.as_str()), Some("a")));
    assert_eq!(found[0].message_attributes.as_ref().unwrap()["Reason"], reason);
    assert_eq!(receives(&found[0]), "1");
}

#[tokio::test]
async fn messages_of_one_request_outlive_a_kill_and_consumed_ones_do_not_come_again() {
    let place = Place::new().await;
    let entry = |number: usize| {
        let body = number.to_string();
        SendMessageBatchRequestEntry::builder().id(&body).message_body(body).build().unwrap()
    };
    let entries = (0..10).map(entry).collect();
    place.client.send_message_batch().queue_url(place.tasks()).set_entries(Some(entries)).send().await.unwrap();
    for message in &place.receive(&place.tasks(), 60).await[..7] {
        place.delete(&place.tasks(), message).await;
    }
    let place = place.killed().await;
    assert_eq!(place.counts(&place.tasks()).await, [3, 0, 0]);
    assert_eq!(place.drain(&place.tasks()).await, ["7", "8", "9"]);
    assert_eq!(place.killed().await.stack.sqs_requests().receive, 0);
}

#[tokio::test]
async fn a_message_in_hand_comes_back_at_once_and_counts_its_receives() {
    let place = Place::new().await;
    let id = place.send("a").await;
    assert_eq!(receives(&place.receive(&place.tasks(), 600).await[0]), "1");
    let place = place.killed().await;
    let again = place.receive(&place.tasks(), 600).await;
    assert_eq!((again[0].message_id.as_deref(), receives(&again[0])), (Some(id.as_str()), "2"));
    let place = place.killed().await;
    assert_eq!(receives(&place.receive(&place.tasks(), 600).await[0]), "3");
}

#[tokio::test]
async fn a_message_that_kills_each_process_ends_in_the_dead_letter_queue() {
    let mut place = Place::new().await;
    let id = place.send("poison").await;
    for _ in 0..10 {
        assert_eq!(place.receive(&place.tasks(), 600).await.len(), 1);
        place = place.killed().await;
    }
    assert!(place.receive(&place.tasks(), 600).await.is_empty());
    let dead = place.receive(&place.queue("groupage-task-dead"), 600).await;
    assert_eq!((dead[0].message_id.as_deref(), receives(&dead[0])), (Some(id.as_str()), "1"));
    let source = &dead[0].attributes.as_ref().unwrap()[&System::DeadLetterQueueSourceArn];
    assert_eq!(source, "arn:aws:sqs:us-east-1:000000000000:groupage-task");
}

#[tokio::test]
async fn a_message_that_was_dead_lettered_is_still_so_after_a_kill() {
    let place = Place::new().await;
    place.send("poison").await;
    for _ in 0..10 {
        assert_eq!(place.receive(&place.tasks(), 0).await.len(), 1);
    }
    assert!(place.receive(&place.tasks(), 0).await.is_empty(), "it moves");
    let place = place.killed().await;
    assert_eq!(place.counts(&place.tasks()).await, [0, 0, 0]);
    let dead = place.queue("groupage-task-dead");
    assert_eq!(receives(&place.receive(&dead, 0).await[0]), "1");
    let place = place.killed().await;
    assert_eq!(receives(&place.receive(&dead, 0).await[0]), "2");
    assert_eq!(place.drain(&dead).await, ["poison"]);
    assert_eq!(place.killed().await.counts(&dead).await, [0, 0, 0]);
}

#[tokio::test]
async fn a_fifo_queue_keeps_its_order_its_groups_and_what_it_has_seen() {
    let place = Place::new().await;
    let first = place.send_in_order("g", "k1", "1").await;
    place.send_in_order("g", "k2", "2").await;
    place.send_in_order("h", "k1", "other group").await;
    let queue = place.stack.queues().in_order.clone();
    let heads = place.receive(&queue, 600).await;
    assert_eq!(heads.len(), 2, "one of each group");
    place.delete(&queue, heads.iter().find(|head| head.body.as_deref() == Some("1")).unwrap()).await;

    let place = place.killed().await;
    let queue = place.stack.queues().in_order.clone();
    place.send_in_order("g", "k1", "a repeat of what was consumed").await;
    let repeat = place.send_in_order("g", "k2", "a repeat of what waits").await;
    assert_ne!(repeat, first);
    place.send_in_order("g", "k3", "3").await;
    let found = place.receive(&queue, 600).await;
    assert_eq!(found.len(), 2);
    let keys: Vec<_> =
        found.iter().map(|message| &message.attributes.as_ref().unwrap()[&System::MessageGroupId]).collect();
    assert_eq!(keys, ["g", "h"]);
    assert_eq!((found[0].body.as_deref(), receives(&found[0])), (Some("2"), "1"));
    assert_eq!((found[1].body.as_deref(), receives(&found[1])), (Some("other group"), "2"));
    let place = place.killed().await;
    let mut bodies = place.drain(&place.stack.queues().in_order).await;
    bodies.sort_unstable();
    assert_eq!(bodies, ["2", "3", "other group"]);
}

#[tokio::test]
async fn a_delayed_message_is_still_delayed() {
    let place = Place::new().await;
    place.client.send_message().queue_url(place.tasks()).message_body("later").delay_seconds(900).send().await.unwrap();
    place.send("now").await;
    let place = place.killed().await;
    assert_eq!(place.counts(&place.tasks()).await, [1, 0, 1]);
}

#[tokio::test]
async fn queues_of_ones_own_and_what_was_purged_are_as_they_were() {
    let place = Place::new().await;
    let create = place.client.create_queue().queue_name("mine").attributes(Name::VisibilityTimeout, "7");
    let mine = create.send().await.unwrap().queue_url.unwrap();
    place.client.send_message().queue_url(&mine).message_body("a").send().await.unwrap();
    place.send("purged").await;
    place.client.purge_queue().queue_url(place.tasks()).send().await.unwrap();
    let place = place.killed().await;
    assert_eq!(place.counts(&place.tasks()).await, [0, 0, 0]);
    let mine = place.queue("mine");
    let asked = place.client.get_queue_attributes().queue_url(&mine).attribute_names(Name::VisibilityTimeout);
    assert_eq!(asked.send().await.unwrap().attributes.unwrap()[&Name::VisibilityTimeout], "7");
    assert_eq!(place.drain(&mine).await, ["a"]);
    place.client.delete_queue().queue_url(&mine).send().await.unwrap();
    assert!(place.killed().await.client.get_queue_url().queue_name("mine").send().await.is_err());
}

#[tokio::test]
async fn a_clean_end_keeps_everything_too() {
    let Place { stack, client, folder } = Place::new().await;
    client.send_message().queue_url(&stack.queues().tasks).message_body("a").send().await.unwrap();
    assert!(stack.has_new_queues());
    stack.shutdown().await;
    let place = Place::on(folder).await.unwrap();
    assert!(!place.stack.has_new_queues());
    assert_eq!(place.drain(&place.tasks()).await, ["a"]);
}

fn journal(folder: &TempDir) -> (PathBuf, PathBuf) {
    (folder.path().join("queues.sqlite"), folder.path().join("queues.sqlite-wal"))
}

/// What a start on a damaged folder says.
async fn refused(folder: TempDir) -> String {
    let error = Place::on(folder).await.map(|_| ()).expect_err("it is damaged");
    assert!(matches!(error, Error::Journal { .. }), "{error}");
    error.to_string()
}

/// A kill after twenty sends, each a transaction of its own at the end of the write-ahead log.
async fn image_of_twenty() -> TempDir {
    let place = Place::new().await;
    for number in 0..20 {
        place.send(&number.to_string()).await;
    }
    place.image()
}

fn overwrite(file: &Path, at: u64, bytes: &[u8]) {
    let mut content = fs::read(file).unwrap();
    let at = usize::try_from(at).unwrap();
    content[at..at + bytes.len()].copy_from_slice(bytes);
    fs::write(file, content).unwrap();
}

#[tokio::test]
async fn a_write_that_a_kill_cut_short_does_not_count() {
    let image = image_of_twenty().await;
    let (_, log) = journal(&image);
    let length = fs::metadata(&log).unwrap().len();
    fs::File::options().write(true).open(&log).unwrap().set_len(length - 1_000).unwrap();
    let place = Place::on(image).await.unwrap();
    assert_eq!(place.counts(&place.tasks()).await, [19, 0, 0]);
}

#[tokio::test]
async fn a_damaged_log_is_refused_and_named() {
    let image = image_of_twenty().await;
    let (file, log) = journal(&image);
    let length = fs::metadata(&log).unwrap().len();
    overwrite(&log, length / 2, b"damage");
    let said = refused(image).await;
    assert!(said.contains(file.to_str().unwrap()) && said.contains("transactions cannot be read"), "{said}");

    let image = image_of_twenty().await;
    overwrite(&journal(&image).1, 16, b"other salt");
    let said = refused(image).await;
    assert!(said.contains("-wal") && said.contains("header"), "{said}");
}

#[tokio::test]
async fn a_journal_that_is_none_or_is_newer_is_refused_and_named() {
    let place = Place::new().await;
    place.send("a").await;
    let Place { stack, folder, .. } = place;
    stack.shutdown().await;
    let (file, _) = journal(&folder);
    let good = fs::read(&file).unwrap();

    fs::write(&file, "no database at all, but text that is long enough to look like one".repeat(100)).unwrap();
    let copy = |folder: &TempDir| {
        let copy = tempfile::tempdir().unwrap();
        fs::copy(journal(folder).0, journal(&copy).0).unwrap();
        copy
    };
    assert!(refused(copy(&folder)).await.contains("queues.sqlite"));

    fs::write(&file, &good).unwrap();
    // SQLite's user version, where this file's own version is.
    overwrite(&file, 60, &99_u32.to_be_bytes());
    assert!(refused(copy(&folder)).await.contains("version is 99"));
}

#[tokio::test]
async fn a_message_that_is_not_what_was_sent_is_refused_and_named() {
    let place = Place::new().await;
    let id = place.send("a body that a failing disk will change").await;
    let Place { stack, folder, .. } = place;
    stack.shutdown().await;
    let (file, _) = journal(&folder);
    let content = fs::read(&file).unwrap();
    let at = content.windows(12).position(|bytes| bytes == b"failing disk").unwrap();
    overwrite(&file, at as u64, b"Failing");
    let said = refused(folder).await;
    assert!(said.contains(&id) && said.contains("not what its sender sent"), "{said}");
}
