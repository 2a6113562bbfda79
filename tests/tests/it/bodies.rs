//! Bodies that a template makes: members on which it fails, and bodies that are too large.

use groupage_core::domain::task::Status;
use groupage_lab::prelude::*;

/// The default body's shape, with a required field `n` and as many kilobytes of padding as a payload asks for.
const ROUTES: &str = r#"
version: 1
routes:
  - name: parcels
    target: truck
    batch: { max_items: 10, wait_ms: 1000, express: false }
    downstream:
      http:
        url: "http://downstream.invalid/load"
        body: >-
          {"target":{{ target | tojson }},"items":[{% for i in items -%}
          {"id":{{ i.id | tojson }},"payload":{{ i.payload.n | tojson }},
          "pad":"{% for _ in range(i.payload.kb | default(0)) %}{{ kilobyte }}{% endfor %}"}
          {%- if not loop.last %},{% endif %}{% endfor %}]}
"#;

/// Ten parcels of one truck become one batch; each payload is what `payload` says of its number.
async fn ten(payload: impl Fn(usize) -> String) -> World {
    ten_for(Scripted::accepting(), payload).await
}

async fn ten_for(downstream: Scripted, payload: impl Fn(usize) -> String) -> World {
    let routes = ROUTES.replace("{{ kilobyte }}", &"x".repeat(1024));
    let world = World::new(Setting::default(), &routes, downstream);
    let message = |n| format!(r#"{{"id":"p{n}","payload":{}}}"#, payload(n));
    let messages: Vec<String> = (0..10).map(message).collect();
    assert!(world.register(&messages).await.failed.is_empty());
    world.run_to_rest().await.unwrap();
    world
}

/// The failed tasks, with why.
fn failed(world: &World) -> Vec<(String, String)> {
    let tasks = world.tables().tasks().into_iter();
    let failed = tasks.filter_map(|task| match &task.status {
        Status::Failed { reason, .. } => Some((task.id.to_string(), reason.to_string())),
        Status::Succeeded { .. } => None,
        other => panic!("{} is {other:?}", task.id),
    });
    failed.collect()
}

/// How many members each call had.
fn calls(world: &World) -> Vec<usize> {
    world.downstream.ledger().iter().map(|seen| seen.items.len()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_member_on_which_the_template_fails_fails_alone_and_its_neighbours_are_called_together() {
    let world =
        ten(|n| if n == 3 { r#"{"truck":"t"}"#.to_owned() } else { format!(r#"{{"truck":"t","n":{n}}}"#) }).await;
    let [(id, reason)] = &failed(&world)[..] else { panic!("one fails: {:?}", failed(&world)) };
    assert!(id == "p3" && reason.starts_with("template_error:") && reason.ends_with(":undefined"), "{id}: {reason}");
    assert_eq!(calls(&world), [9]);
}

#[tokio::test(start_paused = true)]
async fn a_batch_all_of_whose_members_break_the_template_is_not_called() {
    let world = ten(|_| r#"{"truck":"t"}"#.to_owned()).await;
    assert_eq!((failed(&world).len(), calls(&world).len()), (10, 0));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_too_large_goes_in_smaller_calls_each_with_a_key_of_its_own() {
    let world = ten(|n| format!(r#"{{"truck":"t","n":{n},"kb":1024}}"#)).await;
    assert_eq!((failed(&world), calls(&world)), (vec![], vec![5, 5]));
    let keys = world.calls_by_key();
    assert!(keys.keys().any(|key| key.ends_with(".1-5")) && keys.keys().any(|key| key.ends_with(".6-10")), "{keys:?}");
}

#[tokio::test(start_paused = true)]
async fn a_member_that_is_too_large_alone_fails_by_name() {
    let world = ten(|n| format!(r#"{{"truck":"t","n":{n},"kb":{}}}"#, if n == 7 { 7_000 } else { 0 })).await;
    assert_eq!(failed(&world), [("p7".to_owned(), "body_too_large".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn what_only_the_downstream_knows_to_be_too_large_goes_in_smaller_calls_on_any_route() {
    let too_large = || Err(NoAnswer::Oversized(Reason::new("RequestTooLargeException")));
    let takes_three = Scripted::new(Box::new(move |seen, _| {
        let is_too_large = seen.items.len() > 3 || seen.items.iter().any(|id| id == "p7");
        if is_too_large { too_large() } else { Ok(ok("")) }
    }));
    let world = ten_for(takes_three, |n| format!(r#"{{"truck":"t","n":{n}}}"#)).await;
    assert_eq!(
        failed(&world),
        [("p7".to_owned(), "RequestTooLargeException".to_owned())],
        "alone it is too large, too"
    );
    assert!(
        calls(&world).iter().filter(|members| **members > 3).count() == 3,
        "ten and twice five: {:?}",
        calls(&world)
    );
}
