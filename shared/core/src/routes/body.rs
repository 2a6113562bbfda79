//! The body of a call: the default JSON, or the route's own template.
//!
//! A body is the same on every attempt, since an API may refuse another body under the `Idempotency-Key` of an earlier
//! one. So the members that cannot be in one, and the parts that a body that is too large falls into, follow from the
//! batch and its route alone.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::MutexGuard;

use super::Route;
use super::secrets::SecretPlace;
use crate::domain::{BatchId, Reason, Target};

/// One member as the downstream sees it.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Item<'a> {
    /// The task's id.
    pub id: &'a str,
    /// Its payload, as the sender wrote it.
    pub payload: &'a RawValue,
}

/// A body without its secrets, and the places where they belong, from its beginning to its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Body {
    /// All but its secrets.
    pub text: String,
    /// The places of its secrets.
    pub secrets: Vec<SecretPlace>,
}

/// What a body says; also what a template sees. The attempt's number goes into a header, so that the body stays the
/// same.
#[derive(Debug, Serialize)]
struct DefaultBody<'a> {
    batch: &'a str,
    target: &'a str,
    items: &'a [Item<'a>],
}

/// Why there is no body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unmade {
    /// The template failed on these members. The reason names the template's line and the kind of its error; the error
    /// itself could quote a payload and is not passed on.
    Template(Reason),
    /// It would be larger than its downstream takes.
    TooLarge,
}

impl Unmade {
    /// The reason for which a member fails that cannot be in any body.
    pub fn reason(self) -> Reason {
        match self {
            Self::Template(reason) => reason,
            Self::TooLarge => Reason::new("body_too_large"),
        }
    }
}

/// Members that can be in a body together, and those that cannot be in any. Positions count from 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Renderable {
    /// Those that can, in their order.
    pub sound: Vec<usize>,
    /// Those on which the template fails, and why.
    pub broken: Vec<(usize, Reason)>,
}

/// The largest body of a call, in bytes: what Lambda takes in one invocation, and a small part of batch-handler's
/// memory. Some kinds of downstream take less.
pub const MAX_BODY_BYTES: usize = 6 * 1024 * 1024;

impl Route {
    /// The body of a call under this key with these members.
    ///
    /// # Errors
    /// [`Unmade`]: the template failed or is over its budget, or the body is too large. No more than the budget, or the
    /// limit, is held in memory either way.
    pub fn body(&self, key: &BatchId, target: &Target, items: &[Item<'_>]) -> Result<Body, Unmade> {
        self.body_of(key, target, items, 1)
    }

    /// Waits for a turn to render the body's template, if the route has one. A template may compute for long: the calls
    /// of its route render one after the other, so that those of other routes find a processor.
    pub async fn rendering(&self) -> Option<MutexGuard<'_, ()>> {
        match &self.body {
            Some(template) => Some(template.turn().await),
            None => None,
        }
    }

    fn body_of(&self, key: &BatchId, target: &Target, items: &[Item<'_>], share: usize) -> Result<Body, Unmade> {
        let limit = self.downstream.max_body_bytes();
        if let Some(template) = &self.body {
            return template.render(key.as_str(), target.value(), items, limit, share);
        }
        let mut bounded = Bounded::new(limit);
        let body = DefaultBody { batch: key.as_str(), target: target.value(), items };
        // Strings and JSON that was read before can always be written.
        let made = serde_json::to_writer(&mut bounded, &body).map_err(|_| Reason::new("body_unwritable"));
        Ok(Body { text: bounded.finish(made)?, secrets: Vec::new() })
    }

    /// Finds the members on which the template fails alone, after it failed on all of these together. If it fails on
    /// none of them alone, or on the others still, it is the template that is wrong, and every member is broken for
    /// `reason`.
    pub fn renderable(&self, key: &BatchId, target: &Target, items: &[Item<'_>], reason: &Reason) -> Renderable {
        let mut found = Renderable::default();
        if items.len() == 1 {
            found.broken.push((0, reason.clone()));
            return found;
        }
        for (position, item) in items.iter().enumerate() {
            match self.body_of(key, target, std::slice::from_ref(item), items.len()) {
                Err(Unmade::Template(reason)) => found.broken.push((position, reason)),
                Ok(_) | Err(Unmade::TooLarge) => found.sound.push(position),
            }
        }
        let sound: Vec<Item<'_>> = found.sound.iter().filter_map(|position| items.get(*position).copied()).collect();
        let still_fails = match self.body(key, target, &sound) {
            Err(Unmade::Template(reason)) => Some(reason),
            Ok(_) | Err(Unmade::TooLarge) => None,
        };
        if let Some(why) = still_fails.or_else(|| found.broken.is_empty().then(|| reason.clone())) {
            found.broken.extend(found.sound.drain(..).map(|position| (position, why.clone())));
        }
        found
    }
}

/// A writer that takes this many bytes and no more.
struct Bounded {
    bytes: Vec<u8>,
    limit: usize,
    is_over: bool,
}

impl Bounded {
    const fn new(limit: usize) -> Self {
        Self { bytes: Vec::new(), limit, is_over: false }
    }

    /// What was written, unless it was too much or `made` says that its writer failed.
    fn finish(self, made: Result<(), Reason>) -> Result<String, Unmade> {
        if self.is_over {
            return Err(Unmade::TooLarge);
        }
        made.map_err(Unmade::Template)?;
        // Both kinds of body are written from strings.
        String::from_utf8(self.bytes).map_err(|_| Unmade::Template(Reason::new("body_unwritable")))
    }
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.limit {
            self.is_over = true;
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::id::RouteName;
    use crate::routes::Routes;

    /// A route with this template.
    fn route(template: &str) -> Route {
        let yaml = serde_json::json!({
            "version": 1,
            "routes": [{
                "name": "r",
                "target": "'t'",
                "downstream": { "http": { "url": "http://downstream.invalid/", "body": template } },
            }],
        });
        // JSON is YAML.
        Routes::parse(&yaml.to_string()).unwrap().get(&RouteName::new("r")).unwrap().clone()
    }

    fn place() -> (BatchId, Target) {
        (BatchId::new("b"), Target::of(&RouteName::new("r"), "t"))
    }

    fn items<'a>(payloads: &'a [&'a str]) -> Vec<Item<'a>> {
        payloads.iter().map(|payload| Item { id: "a", payload: serde_json::from_str(payload).unwrap() }).collect()
    }

    fn body(template: &str, payloads: &[&str]) -> Result<String, Unmade> {
        let (key, target) = place();
        route(template).body(&key, &target, &items(payloads)).map(|body| body.text)
    }

    fn failed(reason: &str) -> Result<String, Unmade> {
        Err(Unmade::Template(Reason::new(reason)))
    }

    #[test]
    fn what_is_missing_fails_wherever_it_is_used_unless_the_template_has_a_default() {
        for missing in [
            "{{ items[0].payload.nope }}",
            "{{ items[0].payload.nope | tojson }}",
            "{{ items[0].payload.nope | tojson(indent=2) }}",
            "{{ {'a': [items[0].payload.nope]} | tojson }}",
            "{{ nope | tojson }}",
        ] {
            assert_eq!(body(missing, &["{}"]), failed("template_error:1:undefined"), "{missing}");
        }
        assert_eq!(body("{{ items[0].payload.nope | default(7) | tojson }}", &["{}"]), Ok("7".to_owned()));
        assert_eq!(body("{{ items[0].payload.n | tojson }}", &[r#"{"n":null}"#]), Ok("null".to_owned()));
    }

    #[test]
    fn the_reason_names_the_line_and_quotes_no_payload() {
        assert_eq!(
            body("\n\n{{ items[0].payload.n + 1 }}", &[r#"{"n":"secret"}"#]),
            failed("template_error:3:operation")
        );
        let deep = format!("{}{}", "[".repeat(500), "]".repeat(500));
        assert_eq!(body("{{ items[0].payload | tojson }}", &[&deep]), failed("template_error:1:payload"));
    }

    #[test]
    fn a_template_sees_batch_target_and_every_item() {
        let template = "{{ batch }} {{ target }} {{ items | length }}{% for i in items %} {{ loop.index }}{{ i.id }}{{ i.payload }}{% endfor %}";
        assert_eq!(body(template, &["1", "2"]), Ok("b t 2 1a1 2a2".to_owned()));
        assert_eq!(body("{{ items | tojson }}", &["[1]"]), Ok(r#"[{"id": "a", "payload": [1]}]"#.to_owned()));
        assert_eq!(body("{{ items[-1].payload }}", &["1", "2"]), Ok("2".to_owned()));
    }

    #[test]
    fn a_body_is_cut_off_at_its_limit_while_it_is_made() {
        let grown = "{% for n in range(100000) %}{{ items[0].payload }}{% endfor %}";
        let payload = serde_json::to_string(&"x".repeat(1_000)).unwrap();
        assert_eq!(body(grown, &[&payload]), Err(Unmade::TooLarge));
        let mut bounded = Bounded::new(3);
        assert!(bounded.write_all(b"abc").is_ok() && bounded.write_all(b"d").is_err());
        assert_eq!(bounded.bytes, b"abc");
    }

    #[test]
    fn a_body_that_is_too_large_for_its_downstream_is_not_made() {
        let of = |downstream: &str, bytes: usize| {
            let yaml = format!("version: 1\nroutes: [{{ name: r, target: t, downstream: {{ {downstream} }} }}]");
            let routes = Routes::parse(&yaml).unwrap();
            let (key, target) = place();
            let around =
                routes.get(&RouteName::new("r")).unwrap().body(&key, &target, &items(&["\"\""])).unwrap().text.len();
            let payload = serde_json::to_string(&"x".repeat(bytes - around)).unwrap();
            routes
                .get(&RouteName::new("r"))
                .unwrap()
                .body(&key, &target, &items(&[&payload]))
                .map(|body| body.text.len())
        };
        for (downstream, most) in [
            ("lambda: { function: f }", MAX_BODY_BYTES),
            ("lambda: { function: f, mode: async }", 1_000_000),
            ("sqs: { queue: 'https://sqs.eu-west-1.amazonaws.com/1/q' }", 1_000_000),
            ("eventbridge: { bus: b }", 1_000_000),
            ("step_functions: { state_machine: 'arn:aws:states:eu-west-1:1:stateMachine:m' }", 262_144),
        ] {
            assert_eq!(of(downstream, most), Ok(most), "{downstream}");
            assert_eq!(of(downstream, most + 1), Err(Unmade::TooLarge), "{downstream}");
        }
    }

    #[test]
    fn only_members_on_which_a_template_fails_are_broken() {
        let (key, target) = place();
        let route = route("{% for i in items %}{{ i.payload.n }}{% endfor %}");
        let payloads = [r#"{"n":1}"#, "{}", r#"{"n":3}"#];
        let items = items(&payloads);
        let Err(Unmade::Template(reason)) = route.body(&key, &target, &items) else { panic!("it has no field") };
        let broken = vec![(1, Reason::new("template_error:1:undefined"))];
        assert_eq!(route.renderable(&key, &target, &items, &reason), Renderable { sound: vec![0, 2], broken });
    }

    #[test]
    fn a_template_that_fails_on_sound_members_together_breaks_them_all() {
        let (key, target) = place();
        let payloads = ["1", "2"];
        let items = items(&payloads);
        let route = route("{% if items | length > 1 %}{{ nope }}{% endif %}");
        let Err(Unmade::Template(reason)) = route.body(&key, &target, &items) else { panic!("it fails on two") };
        let broken = vec![(0, reason.clone()), (1, reason.clone())];
        assert_eq!(route.renderable(&key, &target, &items, &reason), Renderable { sound: vec![], broken });
    }
}
