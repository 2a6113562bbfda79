use proptest::prelude::*;

use super::*;
use crate::domain::id::{BatchId, RouteName, Target};
use crate::routes::body::{Body, Item, MAX_BODY_BYTES};
use crate::routes::{Route, Routes};

const SECRET: &str = "s3 \"<&é";

/// The routes of one API with this template, and with the secrets `key` and `other`.
fn routes(template: &str) -> Result<Routes, String> {
    let secrets = serde_json::json!({ "key": { "env": "GROUPAGE_SECRET_A" }, "other": { "env": "GROUPAGE_SECRET_B" } });
    let http = serde_json::json!({ "url": "https://a.example/", "secrets": secrets, "body": template });
    of(&serde_json::json!({ "http": http }))
}

fn of(downstream: &Value) -> Result<Routes, String> {
    let route = serde_json::json!({ "name": "r", "target": "'t'", "downstream": downstream });
    // JSON is YAML.
    let yaml = serde_json::json!({ "version": 1, "routes": [route] }).to_string();
    Routes::parse(&yaml).map_err(|error| error.what)
}

fn body(template: &str, payloads: &[&str]) -> Body {
    let routes = routes(template).unwrap();
    let route: &Route = routes.iter().next().unwrap();
    let items: Vec<Item<'_>> =
        payloads.iter().map(|payload| Item { id: "a", payload: serde_json::from_str(payload).unwrap() }).collect();
    route.body(&BatchId::new("b"), &Target::of(&RouteName::new("r"), "t"), &items).unwrap()
}

fn fill(body: &Body, secret: &str) -> Option<String> {
    let secrets = [("key", secret), ("other", "another")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    filled(&body.text, &body.secrets, &BTreeMap::from(secrets), MAX_BODY_BYTES).map(|filled| filled.text)
}

fn sent(template: &str, payloads: &[&str]) -> String {
    fill(&body(template, payloads), SECRET).unwrap()
}

#[test]
fn a_secret_is_written_as_its_filter_says() {
    for (template, expected) in [
        ("<{{ secrets.key }}>", r#"<s3 "<&é>"#),
        (r#"{"k":{{ secrets.key | tojson }}}"#, r#"{"k":"s3 \"<&é"}"#),
        ("k={{ secrets.key | urlencode }}&t={{ target }}", "k=s3%20%22%3C%26%C3%A9&t=t"),
        ("<k>{{ secrets.key | xmlescape }}</k>", "<k>s3 &quot;&lt;&amp;é</k>"),
        ("{{ secrets.key|base64 }}", "czMgIjwmw6k="),
        ("{{ secrets.key }}{{ secrets.other }}{{ secrets.key }}", r#"s3 "<&éanothers3 "<&é"#),
    ] {
        assert_eq!(sent(template, &[]), expected, "{template}");
    }
}

#[test]
fn each_turn_of_a_loop_and_a_branch_may_write_a_secret() {
    let template = "{% for i in items %}{{ i.payload }}:{% if i.payload %}{{ secrets.key }}{% else %}\
                    {{ secrets.other | tojson }}{% endif %}{{ \";\" if not loop.last }}{% endfor %}";
    assert_eq!(sent(template, &["1", "0", "2"]), r#"1:s3 "<&é;0:"another";2:s3 "<&é"#);
}

#[test]
fn the_core_renders_no_secret_and_the_same_body_each_time() {
    let made = body("a{{ secrets.key }}b{{ items[0].payload }}", &["7"]);
    assert_eq!((made.text.as_str(), made.secrets.len(), made.secrets[0].at), ("ab7", 1, 1));
    assert_eq!(made, body("a{{ secrets.key }}b{{ items[0].payload }}", &["7"]));
}

#[test]
fn a_secret_is_only_written() {
    for template in [
        "{{ secrets }}",
        "{{ secrets | tojson }}",
        "{{ secrets['key'] }}",
        "{{ secrets.key.more }}",
        "{{ secrets.key[0:1] }}",
        "{{ secrets.key | upper }}",
        "{{ secrets.key | tojson | base64 }}",
        "{{ secrets.key | tojson(indent=2) }}",
        "{{ secrets.key | default('x') }}",
        "{{ secrets.key ~ 'x' }}",
        "{{ 'x' ~ secrets.key }}",
        "{{ [secrets.key] | tojson }}",
        "{{ {'k': secrets.key} | tojson }}",
        "{{ items[0].payload.get(secrets.key) }}",
        "{{ 'a' | replace('a', secrets.key) }}",
        "{{ secrets.key or 'x' }}",
        "{{ 'x' if secrets.key else 'y' }}",
        "{{ secrets.key if target else secrets.other }}",
        "{{ (items[0].payload or secrets).key }}",
        "{{ (items[0].payload or secrets.key) | tojson }}",
        "{{ items[0].payload or secrets.key }}",
        "{% if secrets.key == 'x' %}{% endif %}",
        "{% for c in secrets.key %}{{ c }}{% endfor %}",
        "{% for secrets in items %}{{ secrets.id }}{% endfor %}",
        "{% set s = secrets.key %}{{ s }}",
        "{% set s %}{{ secrets.key }}{% endset %}{{ s | upper }}",
        "{% with s = secrets.key %}{{ s }}{% endwith %}",
        "{% filter upper %}{{ secrets.key }}{% endfilter %}",
        "{% autoescape 'json' %}{{ secrets.key }}{% endautoescape %}",
        "{% for a in [[]] recursive %}{{ secrets.key }}{% set s = loop(a) %}{{ s | upper }}{% endfor %}",
    ] {
        let told = routes(template).err();
        assert!(told.as_deref().is_some_and(|told| told.contains("a secret is only written")), "{template}: {told:?}");
    }
    let told = routes("\n\n{{ secrets.key | upper }}").unwrap_err();
    assert!(told.contains("in line 3"), "{told}");
}

#[test]
fn a_secret_that_the_route_does_not_have_is_refused() {
    for template in ["{{ secrets.nope }}", "{{ secrets.key }}{{ secrets.nope | tojson }}"] {
        let told = routes(template).unwrap_err();
        assert!(told.contains("`{secrets.nope}`") && told.contains("have no `nope`"), "{told}");
    }
    let queue = serde_json::json!({ "queue": "https://sqs.eu-west-1.amazonaws.com/1/q", "body": "{{ secrets.key }}" });
    let told = of(&serde_json::json!({ "sqs": queue })).unwrap_err();
    assert!(told.contains("have no `key`"), "{told}");
}

#[test]
fn a_body_that_secrets_make_too_large_is_not_sent() {
    let each = body("{% for i in items %}{{ secrets.key }}{% endfor %}", &["1"; 100]);
    let fits = "x".repeat(MAX_BODY_BYTES / 100);
    assert_eq!(fill(&each, &fits).map(|text| text.len()), Some(fits.len() * 100));
    assert_eq!(fill(&each, &format!("{fits}x")), None);
}

#[test]
fn a_secret_is_looked_for_in_answers_as_it_was_written() {
    let made = body("{{ secrets.key | base64 }}{{ secrets.key }}{{ secrets.key | tojson }}", &[]);
    let secrets = BTreeMap::from([("key".to_owned(), SECRET.to_owned())]);
    let filled = filled(&made.text, &made.secrets, &secrets, MAX_BODY_BYTES).unwrap();
    assert_eq!(filled.secrets, [SECRET, "czMgIjwmw6k="]);
}

#[test]
fn a_mark_that_was_once_used_means_nothing_in_a_payload() {
    let uses = Uses(vec![Use { at: 0, count: 2, secret: written() }]);
    let once = uses.mark(["b", "t", "a", "1"].into_iter()).unwrap() + "0;";
    let template = "{{ items[0].payload }}|{{ secrets.key }}";
    assert_eq!(sent(template, &[&Value::from(once.as_str()).to_string()]), format!("{once}|{SECRET}"));
}

fn written() -> Arc<Written> {
    Arc::new(Written { name: "key".to_owned(), encoding: Encoding::Plain })
}

proptest! {
    /// Whatever payloads say, they arrive as they are, and the secret stands where the template writes it.
    #[test]
    fn no_payload_moves_a_secret(
        texts in prop::collection::vec("\\PC{0,20}|[0-9a-f;]{1,64}|\\{\\{ ?secrets.key ?\\}\\}", 1..4),
    ) {
        let payloads: Vec<String> = texts.iter().map(|text| Value::from(text.as_str()).to_string()).collect();
        let payloads: Vec<&str> = payloads.iter().map(String::as_str).collect();
        let template = "{% for i in items %}{{ i.payload }}{{ secrets.key }}{{ i.payload }}{% endfor %}";
        let expected: String = texts.iter().map(|text| format!("{text}{SECRET}{text}")).collect();
        prop_assert_eq!(sent(template, &payloads), expected);
    }
}
