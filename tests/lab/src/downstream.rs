//! A downstream that keeps a ledger and answers by a script.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use groupage_core::domain::RouteName;
use groupage_core::domain::trace::CallTrace;
use groupage_core::ports::{Answer, Call, Downstream, NoAnswer};
use tokio::time::Instant;

/// One call as the downstream saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// `Idempotency-Key`.
    pub key: String,
    /// The route that it is of.
    pub route: RouteName,
    /// The body's `target`.
    pub target: String,
    /// The items' ids.
    pub items: Vec<String>,
    /// `Groupage-Fence`.
    pub fence: u64,
    /// `Groupage-Attempt`.
    pub attempt: u32,
    /// In how many other batches its first item came before.
    pub batches_before: usize,
    /// When it came.
    pub at: Instant,
    /// What it belongs to.
    pub trace: Option<CallTrace>,
}

impl Seen {
    /// Returns an output of an item that no other item has, and no other call gives.
    pub fn output(&self, id: &str) -> String {
        format!("{}#{} {id}", self.key, self.attempt)
    }
}

/// Answers a call, given what was seen of it and how many calls came before with its key.
pub type Script = Box<dyn Fn(&Seen, usize) -> Result<Answer, NoAnswer> + Send + Sync>;

/// Answers a look at the job that a call has begun, given what was seen of the last such call, how long ago the first
/// came, in milliseconds, and how many looks came before.
pub type Look = Box<dyn Fn(&Seen, u64, usize) -> Result<Answer, NoAnswer> + Send + Sync>;

/// A look at a job: the last call that had begun it, when the look came, and its answer.
type Looked = (Seen, Instant, Result<Answer, NoAnswer>);

/// The jobs of a downstream, whose calls are answered by [`begun`].
struct Jobs {
    /// How long a job takes, in milliseconds.
    takes_ms: u64,
    look: Look,
    /// Every look, in order: the call, when it came, and its answer.
    looks: Mutex<Vec<Looked>>,
}

/// How long a call takes, in milliseconds.
type Duration = Box<dyn Fn() -> u64 + Send + Sync>;

/// The downstream.
pub struct Scripted {
    script: Script,
    takes_ms: Duration,
    ledger: Mutex<Vec<(Seen, Result<Answer, NoAnswer>)>>,
    /// When each call of the ledger ended, however that came.
    ended: Mutex<BTreeMap<usize, Instant>>,
    jobs: Option<Jobs>,
}

/// One call in flight, by its place in the ledger; over when it is dropped, however that comes.
struct InFlight<'a>(&'a Mutex<BTreeMap<usize, Instant>>, usize);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(self.1, Instant::now());
    }
}

impl Scripted {
    /// Accepts everything at once.
    pub fn accepting() -> Self {
        Self::new(Box::new(|_, _| Ok(ok(""))))
    }

    /// Answers by `script`, at once.
    pub fn new(script: Script) -> Self {
        Self { script, takes_ms: Box::new(|| 0), ledger: Mutex::default(), ended: Mutex::default(), jobs: None }
    }

    /// Takes its time: a call is in the ledger when it comes, and answered after this many milliseconds.
    pub fn taking(self, takes_ms: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self { takes_ms: Box::new(takes_ms), ..self }
    }

    /// Begins jobs that take so long, in milliseconds, and answers looks at them so.
    pub fn with_jobs(
        self,
        takes_ms: u64,
        look: impl Fn(&Seen, u64, usize) -> Result<Answer, NoAnswer> + Send + Sync + 'static,
    ) -> Self {
        Self { jobs: Some(Jobs { takes_ms, look: Box::new(look), looks: Mutex::default() }), ..self }
    }

    /// Every look at a job, in order: the last call that had begun it, when the look came, and its answer.
    pub fn looks(&self) -> Vec<(Seen, Instant, Result<Answer, NoAnswer>)> {
        let looks = |jobs: &Jobs| jobs.looks.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.jobs.as_ref().map(looks).unwrap_or_default()
    }

    fn look(&self, url: &str) -> Result<Answer, NoAnswer> {
        let (jobs, key) = (self.jobs.as_ref().ok_or(NoAnswer::Connection)?, url.rsplit('/').next().unwrap_or_default());
        let ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        let calls = || ledger.iter().enumerate().filter(|(_, (seen, _))| seen.key == key);
        let Some(((_, (first, _)), (number, (last, _)))) = calls().next().zip(calls().next_back()) else {
            return Ok(status(404, None));
        };
        let now = Instant::now();
        // A look shows that the job is known: the call is in flight until the job is over.
        let end = first.at + std::time::Duration::from_millis(jobs.takes_ms);
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).insert(number, end);
        let since_ms = u64::try_from(now.duration_since(first.at).as_millis()).unwrap_or(u64::MAX);
        let mut looks = jobs.looks.lock().unwrap_or_else(PoisonError::into_inner);
        let before = looks.iter().filter(|(seen, ..)| seen.key == key).count();
        let answer = (jobs.look)(last, since_ms, before);
        looks.push((last.clone(), now, answer.clone()));
        answer
    }

    /// Every call, in order.
    pub fn ledger(&self) -> Vec<Seen> {
        self.answered().into_iter().map(|(seen, _)| seen).collect()
    }

    /// The calls that were in flight when each began, itself first, the latest before others; calls of one batch count
    /// as one.
    pub fn in_flight(&self) -> Vec<Vec<Seen>> {
        let (ledger, ended) = (self.ledger(), self.ended.lock().unwrap_or_else(PoisonError::into_inner).clone());
        let beside = |n: usize| {
            let lasts = |m: &usize| ended.get(m).is_none_or(|end| *end > ledger[n].at);
            let mut batches = BTreeSet::new();
            let others = (0..=n).rev().filter(lasts).map(|m| &ledger[m]);
            others.filter(|seen| batches.insert(batch_of(&seen.key))).cloned().collect()
        };
        (0..ledger.len()).map(beside).collect()
    }

    /// The most batches that were in flight at once, for each Target and (`None`) for all.
    pub fn most_in_flight(&self) -> BTreeMap<Option<String>, usize> {
        let mut most = BTreeMap::new();
        for beside in self.in_flight() {
            for target in [None, beside.first().map(|seen| seen.target.clone())] {
                let of = |seen: &&Seen| target.as_ref().is_none_or(|target| seen.target == *target);
                let count = beside.iter().filter(of).count();
                most.entry(target).and_modify(|most| *most = count.max(*most)).or_insert(count);
            }
        }
        most
    }

    /// Every call, in order, with what was answered.
    pub fn answered(&self) -> Vec<(Seen, Result<Answer, NoAnswer>)> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// An answer without a body.
pub fn status(status: u16, retry_after_ms: Option<u64>) -> Answer {
    Answer { status, retry_after_ms, ..Answer::default() }
}

/// A good answer with this body.
pub fn ok(body: &str) -> Answer {
    Answer { status: 200, body: body.as_bytes().to_vec(), ..Answer::default() }
}

/// An answer to a call that has begun a job, whose URL is in the header `Location`.
pub fn begun(seen: &Seen, body: &str) -> Answer {
    let headers = [("location".to_owned(), format!("/jobs/{}", seen.key))].into();
    Answer { status: 202, headers, body: body.as_bytes().to_vec(), ..Answer::default() }
}

/// An answer to a look at a job that runs.
pub fn running() -> Answer {
    ok(r#"{"state":"running"}"#)
}

/// A script: `p1` fails for good, `p2` as long as it is one of three.
pub fn fails_alone(seen: &Seen, _: usize) -> Result<Answer, NoAnswer> {
    let result = |id: &String| match (id.as_str(), seen.items.len()) {
        ("p1", _) => {
            serde_json::json!({ "id": id, "status": "failed", "reason": "too_heavy", "output": seen.output(id) })
        }
        ("p2", 3) => serde_json::json!({ "id": id, "status": "retry", "reason": "busy" }),
        _ => serde_json::json!({ "id": id, "status": "succeeded", "output": seen.output(id) }),
    };
    let results: Vec<_> = seen.items.iter().map(result).collect();
    Ok(ok(&serde_json::json!({ "results": results }).to_string()))
}

/// The batch that a key is of: parts of one that is taken apart count as it.
fn batch_of(key: &str) -> &str {
    key.split('.').next().unwrap_or_default()
}

/// In how many other batches a call's first item came before.
fn batches_before(ledger: &[(Seen, Result<Answer, NoAnswer>)], seen: &Seen) -> usize {
    let has_it = |other: &&Seen| other.items.iter().any(|item| seen.items.first() == Some(item));
    let batches = ledger.iter().map(|(other, _)| other).filter(has_it).map(|other| batch_of(&other.key));
    batches.filter(|batch| *batch != batch_of(&seen.key)).collect::<BTreeSet<_>>().len()
}

impl Downstream for Scripted {
    async fn call(&self, call: &Call<'_>) -> Result<Answer, NoAnswer> {
        if let Some(url) = call.look {
            return self.look(url);
        }
        let body: serde_json::Value = serde_json::from_str(&call.body).map_err(|_| NoAnswer::Connection)?;
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let items = body["items"].as_array().into_iter().flatten().map(|item| text(&item["id"])).collect();
        let (key, target) = (call.batch.to_string(), text(&body["target"]));
        let (route, fence, attempt, at) = (call.target.route(), call.fence.0, call.attempt, Instant::now());
        let mut seen =
            Seen { key, route, target, items, fence, attempt, batches_before: 0, at, trace: call.trace.clone() };
        let (_in_flight, answer) = {
            let mut ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
            seen.batches_before = batches_before(&ledger, &seen);
            let before = ledger.iter().filter(|(earlier, _)| earlier.key == seen.key).count();
            let answer = (self.script)(&seen, before);
            ledger.push((seen, answer.clone()));
            (InFlight(&self.ended, ledger.len() - 1), answer)
        };
        tokio::time::sleep(std::time::Duration::from_millis((self.takes_ms)())).await;
        answer
    }
}
