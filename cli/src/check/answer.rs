//! `groupage check --answer`: how would a route read this answer?

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use groupage_aws::{judged, recorded_answer};
use groupage_console::words::visible;
use groupage_core::domain::outcome::{self, Begun, Failure, Fault, NO_RESULT, Reply, Said};
use groupage_core::domain::{self, BatchId, RouteName, Target, TaskId};
use groupage_core::routes::{Earlier, Route, Routes};
use serde::Serialize;

use crate::output::{Ending, Output};
use crate::sheet::{Cell, Sheet, Tone};

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "How an answer is read")]
pub struct Recorded {
    /// Show how a route reads this recorded answer: what `curl --include` prints, or a body alone.
    #[arg(long, value_name = "FILE")]
    pub answer: Option<PathBuf>,
    /// The route whose call was answered. Not needed if the file has one route.
    #[arg(long, value_name = "NAME", requires = "answer")]
    route: Option<String>,
    /// The ids of the call's items, in their order.
    #[arg(long, value_name = "ID", value_delimiter = ',', requires = "answer", default_values = ["a", "b"])]
    items: Vec<String>,
    /// An earlier call of the same batch may have been carried out.
    #[arg(long, requires = "answer")]
    repeated: bool,
    /// The answer holds the results of a job that the call has begun.
    #[arg(long, requires = "answer")]
    results: bool,
}

/// An answer that cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read {}: {source}", file.display())]
    Unreadable { file: PathBuf, source: io::Error },
    #[error("{}:{line}: this is no line of an HTTP answer. Record one with `curl --include`", file.display())]
    NoAnswer { file: PathBuf, line: usize },
    #[error("say with --route which of these routes was answered: {0}")]
    WhichRoute(String),
    #[error("no route is named `{0}`. There are: {1}")]
    NoRoute(String, String),
}

/// The reading of an answer by a route.
#[derive(Serialize)]
struct Reading {
    route: String,
    status: u16,
    #[serde(flatten)]
    verdict: Verdict,
}

#[derive(Serialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
enum Verdict {
    /// Each item as it says.
    Answered { items: Vec<Item> },
    /// The call is refused for good.
    Refused { reason: String },
    /// It has begun a job, which has this URL.
    Begun { job: String },
    /// The same call is made again later.
    Unavailable {
        reason: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        pause_ms: Option<u64>,
        /// What to change in the routes file, if this answer is a usual one.
        #[serde(skip_serializing_if = "Option::is_none")]
        change: Option<&'static str>,
    },
}

#[derive(Serialize)]
struct Item {
    id: String,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    /// Its output, as it would be kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<domain::output::Output>,
    /// The size of an output that is too large to be kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    output_omitted_bytes: Option<u64>,
}

/// Shows how a route reads a recorded answer. Ends badly if the answer is a fault of the route's settings.
pub fn run(options: &Recorded, file: &Path, routes: &Routes, output: &Output) -> Result<Ending, Error> {
    let (reading, ending) = reading(options, file, routes)?;
    output.sheet(&reading, || reading.sheet());
    Ok(ending)
}

fn reading(options: &Recorded, file: &Path, routes: &Routes) -> Result<(Reading, Ending), Error> {
    let text = fs::read(file).map_err(|source| Error::Unreadable { file: file.to_owned(), source })?;
    let answer = recorded_answer(&text).map_err(|line| Error::NoAnswer { file: file.to_owned(), line })?;
    let route = route(options, routes)?;
    let (status, items) = (answer.status, options.items.iter().map(TaskId::new).collect::<Vec<_>>());
    let earlier = if options.repeated { Earlier::OfAll } else { Earlier::OfNone };
    let answer = judged(&route.downstream, answer);
    let read = if options.results {
        route.read_results(answer, &items, earlier)
    } else {
        match route.begun(&answer, &BatchId::new("BATCH"), &Target::of(&route.name, "TARGET")) {
            None => route.read(answer, &items, earlier),
            Some(Ok(url)) => Reply::Begun(Begun { url, uncalled: BTreeMap::new() }).into(),
            Some(Err(reason)) => Reply::Refused(reason).into(),
        }
    };
    let is_fault = matches!(&read.reply, Reply::Unavailable(Failure { fault: Fault::Settings, .. }));
    let reading = Reading { route: route.name.to_string(), status, verdict: verdict(read, &items) };
    Ok((reading, if is_fault { Ending::Badly } else { Ending::Well }))
}

fn route<'a>(options: &Recorded, routes: &'a Routes) -> Result<&'a Route, Error> {
    let names = || routes.iter().map(|route| route.name.as_str()).collect::<Vec<_>>().join(", ");
    match &options.route {
        Some(name) => routes.get(&RouteName::new(name)).ok_or_else(|| Error::NoRoute(name.clone(), names())),
        None => {
            let mut all = routes.iter();
            all.next().filter(|_| all.next().is_none()).ok_or_else(|| Error::WhichRoute(names()))
        }
    }
}

fn verdict(outcome::Reading { reply, outputs }: outcome::Reading, items: &[TaskId]) -> Verdict {
    match reply {
        Reply::PerMember(said) => {
            let item = |id: &TaskId| item(id, said.get(id), outputs.get(id));
            Verdict::Answered { items: items.iter().map(item).collect() }
        }
        Reply::Refused(reason) => Verdict::Refused { reason: reason.to_string() },
        Reply::Begun(Begun { url, .. }) => Verdict::Begun { job: url },
        Reply::Unavailable(Failure { reason, retry_after_ms, fault }) => Verdict::Unavailable {
            change: reason.remedy().filter(|_| fault == Fault::Settings),
            reason: reason.to_string(),
            pause_ms: retry_after_ms,
        },
    }
}

fn item(id: &TaskId, said: Option<&Said>, output: Option<&domain::output::Output>) -> Item {
    let (outcome, reason, retry_after_ms) = match said {
        Some(Said::Succeeded) => ("succeeded", None, None),
        Some(Said::Failed(reason)) => ("failed", Some(reason.to_string()), None),
        Some(Said::Retry { reason, asked_ms }) => ("retry", Some(reason.to_string()), *asked_ms),
        None => ("retry", Some(NO_RESULT.to_owned()), None),
    };
    let omitted = output.and_then(domain::output::Output::omitted_bytes);
    let output = output.filter(|_| omitted.is_none()).cloned();
    Item { id: id.to_string(), outcome, reason, retry_after_ms, output, output_omitted_bytes: omitted }
}

impl Reading {
    fn sheet(&self) -> Sheet {
        let seconds = |ms: &Option<u64>| ms.map_or_else(String::new, |ms| format!("{} s", ms as f64 / 1_000.0));
        match &self.verdict {
            Verdict::Answered { items } => {
                let row = |item: &Item| {
                    let tone = match item.outcome {
                        "succeeded" => Tone::Good,
                        "failed" => Tone::Bad,
                        _ => Tone::Wary,
                    };
                    let reason = item.reason.clone().unwrap_or_default();
                    let outcome = Cell::new(item.outcome, tone);
                    let output = item.output.as_ref().and_then(|output| serde_json::to_string(output).ok());
                    let omitted = || item.output_omitted_bytes.map(|bytes| format!("{bytes} bytes, too large"));
                    let output = output.or_else(omitted).unwrap_or_default();
                    let wait = seconds(&item.retry_after_ms);
                    vec![item.id.clone().into(), outcome, reason.into(), wait.into(), output.into()]
                };
                let columns = &["item", "outcome", "reason", "not before", "output"];
                Sheet::table("", columns, items.iter().map(row).collect())
            }
            Verdict::Refused { reason } => Sheet::line(format!(
                "The call is refused: every item fails with the reason {reason}, or the batch is taken apart"
            )),
            Verdict::Begun { job } => Sheet::line(format!(
                "The call has begun a job. The batch waits for its end, and looks at {}",
                visible(job)
            )),
            Verdict::Unavailable { reason, pause_ms, change } => {
                let pause = pause_ms.map_or_else(String::new, |_| format!(", after {} at least", seconds(pause_ms)));
                let change = change.map_or_else(String::new, |change| format!(". To change: {change}"));
                Sheet::line(format!("The same call is made again later{pause}. The reason: {reason}{change}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const YAML: &str = "version: 1\nroutes: [{ name: r, target: t, downstream: { http: { url: 'https://a.example/', \
                        response: { results: body.rows, succeeded: ok, retryable: wait, retry_after: wait, \
                        reason: why } } } }]";

    fn read(recorded: &str) -> (Value, Ending) {
        read_by(YAML, recorded)
    }

    fn read_by(yaml: &str, recorded: &str) -> (Value, Ending) {
        read_as(yaml, recorded, false)
    }

    fn read_as(yaml: &str, recorded: &str, results: bool) -> (Value, Ending) {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        std::io::Write::write_all(&mut file, recorded.as_bytes()).unwrap();
        let items = ["a", "b", "c"].map(str::to_owned).to_vec();
        let options = Recorded { answer: None, route: None, items, repeated: false, results };
        let (reading, ending) = reading(&options, file.path(), &Routes::parse(yaml).unwrap()).unwrap();
        assert!(!reading.sheet().text(false).is_empty());
        (serde_json::to_value(reading).unwrap(), ending)
    }

    #[test]
    fn a_code_of_aws_counts_as_it_does_for_calls() {
        let signed = YAML.replace("response:", "auth: { sigv4: { service: kinesis } }, response:");
        let said = |code: &str| format!("HTTP/1.1 400 Bad Request\r\n\r\n{{\"__type\":\"{code}\"}}");
        let reason = |yaml: &str, code: &str| read_by(yaml, &said(code)).0["reason"].clone();
        assert_eq!(reason(&signed, "ThrottlingException"), "http_429");
        assert_eq!(reason(&signed, "AccessDeniedException"), "AccessDeniedException");
        assert_eq!(reason(YAML, "ThrottlingException"), "http_400");
    }

    #[test]
    fn a_call_that_begins_a_job_is_told_from_the_results_of_the_job() {
        let yaml = YAML.replace("response:", "job: { url: headers.location, ended: body.rows }, response:");
        let begun = json!({ "route": "r", "status": 202, "verdict": "begun", "job": "https://a.example/jobs/7" });
        let accepted = "HTTP/1.1 202 Accepted\r\nLocation: /jobs/7\r\n\r\n";
        assert_eq!(read_by(&yaml, accepted), (begun, Ending::Well));
        let missing = read_by(&yaml, "HTTP/1.1 202 Accepted\r\n\r\n").0;
        assert_eq!((&missing["verdict"], &missing["reason"]), (&json!("refused"), &json!("job_url_missing")));
        let results = read_as(&yaml, r#"{"rows":[{"ok":1},{"ok":1},{"ok":1}]}"#, true).0;
        assert_eq!(results["verdict"], "answered");
    }

    #[test]
    fn each_verdict_is_shown_with_its_reason() {
        let body = r#"{"rows":[{"ok":1},{"why":"no"},{"wait":2.5,"why":"full"}]}"#;
        let (shown, ending) = read(&format!("HTTP/2 200\r\n\r\n{body}"));
        let items = json!([
            { "id": "a", "outcome": "succeeded" },
            { "id": "b", "outcome": "failed", "reason": "no" },
            { "id": "c", "outcome": "retry", "reason": "full", "retry_after_ms": 2_500 },
        ]);
        assert_eq!(shown, json!({ "route": "r", "status": 200, "verdict": "answered", "items": items }));
        assert_eq!((read(body).0, ending), (shown, Ending::Well));
        let refused = json!({ "route": "r", "status": 404, "verdict": "refused", "reason": "http_404" });
        assert_eq!(read("HTTP/1.1 404 Not Found\n\n"), (refused, Ending::Well));
        let (shown, ending) = read("HTTP/1.1 503 X\nRetry-After: 7\n\n");
        assert_eq!(
            (&shown["verdict"], &shown["pause_ms"], ending),
            (&json!("unavailable"), &json!(7_000), Ending::Well)
        );
        let (shown, ending) = read("{}");
        assert_eq!((&shown["reason"], ending), (&json!("answer_without_results"), Ending::Badly));
        assert!(shown["change"].as_str().unwrap().contains("response.results"));
    }

    #[test]
    fn a_route_that_is_not_there_or_not_said_is_told_with_the_names_of_all() {
        let two = YAML.replace("}]", "}, { name: s, target: t, downstream: pull }]");
        let routes = Routes::parse(&two).unwrap();
        let options = |name: Option<&str>| Recorded {
            answer: None,
            route: name.map(str::to_owned),
            items: Vec::new(),
            repeated: false,
            results: false,
        };
        let told = |name| {
            route(&options(name), &routes).map(|route| route.name.to_string()).map_err(|error| error.to_string())
        };
        assert_eq!(told(Some("s")), Ok("s".to_owned()));
        assert!(told(None).unwrap_err().ends_with("answered: r, s"));
        assert!(told(Some("x")).unwrap_err().contains("`x`"));
    }
}
