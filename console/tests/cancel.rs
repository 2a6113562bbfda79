//! Cancelling all that wait for a Target: what was shown is what is done. Tasks are written straight into the table,
//! since with steps at work none waits for long.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use embedded::{Ports, Stack, Storage};
use groupage_aws::{Dynamo, System};
use groupage_console::{Console, Entry, Pass, router};
use groupage_core::domain::task::Status;
use groupage_core::domain::{Target, Task, TaskId};
use groupage_core::ports::{Env, Freshness, Tasks};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const ROUTES: &str = "version: 1\nroutes: [{ name: r, target: t, downstream: pull, notify: { failure: none } }]";

struct Stand {
    stack: Stack,
    store: Dynamo,
    address: SocketAddr,
}

impl Stand {
    async fn start() -> Self {
        let stack = Stack::start(Storage::Memory, Ports::default()).await.unwrap();
        let connection = stack.connection();
        connection.routes(&Arc::default()).push(ROUTES, "a test", System.now()).await.unwrap();
        let store = connection.store(86_400_000, &Arc::default());
        let entry = || Entry { cookie: "paper".to_owned(), act: "secret".to_owned(), seconds: 60 };
        let enter = move |link: &str| (link == "link").then(entry);
        let pass = Pass { enter: Box::new(enter), may_act: Box::new(|brought| brought == "secret") };
        let pages = router(Arc::new(Console::new(connection, "test".to_owned(), pass, None)));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, pages).await });
        Self { stack, store, address }
    }

    async fn register(&self, id: &str, target: &str) {
        let task = Task::new(TaskId::new(id), Target::new(target), "{}".to_owned(), String::new(), System.now());
        self.store.register(&task).await.unwrap();
    }

    async fn is_cancelled(&self, id: &str) -> bool {
        let found = self.store.read(&[TaskId::new(id)], Freshness::Latest).await.unwrap();
        matches!(&found[0].status, Status::Failed { reason, .. } if reason.as_str() == "cancelled")
    }

    async fn ask(&self, head: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let length = body.len();
        let request = format!(
            "{head} HTTP/1.1\r\nHost: x:80\r\nConnection: close\r\nContent-Type: application/x-www-form-urlencoded\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    async fn act(&self, body: &str) -> String {
        self.ask("POST /console/act", body).await
    }
}

/// What the form of a page sends if its button is pressed.
fn form_of(page: &str) -> String {
    let fields = page.split("<input type=\"hidden\" ").skip(1).map(|field| {
        let value = |name: &str| field.split(&format!("{name}=\"")).nth(1).unwrap().split('"').next().unwrap();
        format!("{}={}", value("name"), value("value"))
    });
    fields.collect::<Vec<_>>().join("&")
}

#[tokio::test]
async fn all_that_wait_for_a_target_are_shown_and_exactly_these_are_cancelled() {
    let stand = Stand::start().await;
    for id in ["a", "b", "c"] {
        stand.register(id, "r:full").await;
    }
    stand.register("other", "r:other").await;
    let page = stand.ask("GET /console/target?id=r%3Afull", "").await;
    assert!(page.contains("Cancel all that wait for a batch"), "{page}");

    let shown = stand.act("form=secret&act=cancel&target=r%3Afull").await;
    assert!(shown.contains("It cannot be undone") && shown.contains("Yes, 3 of them"), "{shown}");
    assert!(!stand.is_cancelled("a").await, "nothing is done before it is confirmed");
    stand.register("late", "r:full").await;
    let form = form_of(&shown);
    assert!(form.starts_with("form=&"), "a page that is had for the cookie holds no secret: {form}");
    assert!(stand.act(&form).await.contains("to act takes scripts") && !stand.is_cancelled("a").await);
    let done = stand.act(&form.replacen("form=", "form=secret", 1)).await;
    assert!(done.contains("<strong>3</strong> tasks are cancelled"), "{done}");
    let expected = BTreeMap::from([("a", true), ("b", true), ("c", true), ("late", false), ("other", false)]);
    for (id, is_cancelled) in expected {
        assert_eq!(stand.is_cancelled(id).await, is_cancelled, "{id}");
    }
    // One task alone needs no second question, and to repeat it is safe.
    for _ in 0..2 {
        assert!(stand.act("form=secret&act=cancel&id=late").await.contains("<strong>1</strong> tasks are cancelled"));
    }
    stand.stack.shutdown().await;
}

#[tokio::test]
async fn what_acts_must_bring_is_given_for_the_link_alone_and_to_no_other_port() {
    let stand = Stand::start().await;
    let entered = stand.ask("GET /console?key=link", "").await;
    assert!(entered.contains("location: /console/overview#act=secret"), "browsers send no fragment: {entered}");
    let cookie = entered.split("set-cookie: ").nth(1).unwrap().lines().next().unwrap();
    assert!(cookie.starts_with("groupage-80=paper; ") && cookie.ends_with("; Max-Age=60"), "{cookie}");
    for head in ["GET /console?key=other", "GET /console", "GET /console/overview", "GET /console/console.js"] {
        let answer = stand.ask(head, "").await;
        assert!(!answer.contains("secret") && !answer.contains("paper"), "{head}: {answer}");
    }
    stand.stack.shutdown().await;
}
