//! `groupage check`: is a routes file right, and how would it read an answer?

mod answer;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use groupage_aws::dollars;
use groupage_aws::entry::mapping::LONG_HANDLE;
use groupage_core::routes::{self, Allowed, Doubt, Route, Routes};
use serde::Serialize;

use crate::output::{Ending, Output};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The routes file (YAML).
    #[arg(value_name = "FILE", default_value = "routes.yaml")]
    pub file: PathBuf,
    /// Exit with 1 if something is allowed and surely not meant.
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    answer: answer::Recorded,
}

/// A routes file that cannot be used; a mistake is told as compilers point at one.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read {}: {source}", file.display())]
    Unreadable { file: PathBuf, source: io::Error },
    #[error("{}{}: {}", file.display(), place(error), error.what)]
    Wrong { file: PathBuf, error: routes::Error },
    #[error("{}:{}: {refused}", file.display(), refused.line)]
    Refused { file: PathBuf, refused: routes::Refused },
    #[error(transparent)]
    Answer(#[from] answer::Error),
}

/// Line and column of a mistake; nothing if the file as a whole is meant.
fn place(error: &routes::Error) -> String {
    if error.line == 0 { String::new() } else { format!(":{}:{}", error.line, error.column) }
}

/// The file is right.
#[derive(Serialize)]
struct Right {
    valid: bool,
    /// By route: when its calls are made again, and when it gives up.
    retries: BTreeMap<String, String>,
    /// By route with long calls: what one costs.
    long_calls: BTreeMap<String, String>,
    /// What is allowed and surely not meant.
    warnings: Vec<Doubt>,
}

/// Checks a routes file, up to its first mistake, warns of what is surely not meant, and says when calls are made
/// again and what long ones cost; or shows how a route reads a recorded answer.
pub fn run(options: &Args, output: &Output) -> Result<Ending, Error> {
    let (_, routes) = read_routes(&options.file)?;
    if let Some(file) = &options.answer.answer {
        return Ok(answer::run(&options.answer, file, &routes, output)?);
    }
    let in_words = |route: &Route| (route.name.to_string(), route.retry.in_words());
    let warnings = doubts(&routes);
    let long_calls = routes.iter().filter_map(|route| Some((route.name.to_string(), price(route)?))).collect();
    let right = Right { valid: true, retries: routes.iter().map(in_words).collect(), long_calls, warnings };
    warn(&options.file, &right.warnings, *output);
    output.result(&right, || {
        let lines = right.retries.iter().chain(&right.long_calls);
        let lines = lines.map(|(route, words)| format!("\nroute {route}: {words}"));
        format!("{} is right{}", options.file.display(), lines.collect::<String>())
    });
    Ok(if options.strict && !right.warnings.is_empty() { Ending::Badly } else { Ending::Well })
}

/// Says what the longest call of a route with long calls costs: its function waits, and renews its session each second.
fn price(route: &Route) -> Option<String> {
    let timeout_ms = route.downstream.timeout_ms().filter(|_| route.downstream.is_long())?;
    let (seconds, memory_mb) = (timeout_ms.div_ceil(1_000), LONG_HANDLE.memory_mb);
    let gigabytes = f64::from(memory_mb) / 1_024.0;
    #[expect(clippy::cast_precision_loss, reason = "840 at most")]
    let dollars = seconds as f64 * (gigabytes * dollars::GB_SECOND + dollars::WRITE) / 1e6;
    let what = format!("a call of all its {seconds} s costs ${dollars:.4} on AWS at {memory_mb} MB");
    Some(format!("its calls are long, which the parameter LongCalls allows; {what}"))
}

/// Reads a routes file and makes sure that it is right, as far as that holds for every stack. Warns of what is surely
/// not meant, and returns its text.
pub fn read(file: &Path, output: Output) -> Result<String, Error> {
    let (yaml, routes) = read_routes(file)?;
    warn(file, &doubts(&routes), output);
    Ok(yaml)
}

/// The same for the routes themselves.
pub fn routes(file: &Path, output: Output) -> Result<Routes, Error> {
    let (_, routes) = read_routes(file)?;
    warn(file, &doubts(&routes), output);
    Ok(routes)
}

/// What is allowed and surely not meant, if calls are made with this process's environment.
fn doubts(routes: &Routes) -> Vec<Doubt> {
    routes.doubts(|name| env::var_os(name).is_some_and(|value| !value.is_empty()))
}

fn warn(file: &Path, doubts: &[Doubt], output: Output) {
    for Doubt { line, route, field, what } in doubts {
        output.warning(&format!("{}:{line}: route `{route}`: `{field}`: {what}", file.display()));
    }
}

fn read_routes(file: &Path) -> Result<(String, Routes), Error> {
    let yaml = fs::read_to_string(file).map_err(|source| Error::Unreadable { file: file.to_owned(), source })?;
    let routes = judge(file, &yaml, &Allowed::by_some_stack())?;
    Ok((yaml, routes))
}

/// Makes sure that a text is a routes file, and does nothing that is not allowed.
pub fn judge(file: &Path, yaml: &str, allowed: &Allowed) -> Result<Routes, Error> {
    let parsed = Routes::parse(yaml).and_then(|routes| routes.tried().map(|()| routes));
    let routes = parsed.map_err(|error| Error::Wrong { file: file.to_owned(), error })?;
    match allowed.check(&routes) {
        Ok(()) => Ok(routes),
        Err(refused) => Err(Error::Refused { file: file.to_owned(), refused }),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_mistake_is_told_with_file_line_and_field() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        write!(file, "version: 1\nroutes:\n  - name: parcels\n    colour: red\n").unwrap();
        let text = read_routes(file.path()).unwrap_err().to_string();
        assert!(text.starts_with(&format!("{}:4:", file.path().display())), "{text}");
        assert!(text.contains("colour"), "{text}");
    }

    #[test]
    fn a_file_that_takes_more_than_its_budget_is_refused_before_it_is_pushed() {
        let grows = "{% set x = 'ab' %}".to_owned() + &"{% set x = x ~ x %}".repeat(40);
        let http = format!("{{ http: {{ url: 'https://a.example/', body: \"{grows}\" }} }}");
        for (when, downstream, says) in [
            ("to".to_owned(), http.as_str(), "route `b`: `body` takes more than its budget"),
            ("[@,@][]|".repeat(30) + "@", "pull", "its value could become over 32 times as large"),
        ] {
            let b = format!("  - {{ name: b, when: '{when}', target: to, downstream: {downstream} }}\n");
            let yaml = format!("version: 1\nroutes:\n  - {{ name: a, when: a, target: to, downstream: pull }}\n{b}");
            let told = judge(Path::new("r.yaml"), &yaml, &Allowed::by_some_stack()).unwrap_err().to_string();
            assert!(told.starts_with("r.yaml:4:") && told.contains(says), "{told}");
        }
    }

    #[test]
    fn a_mistake_is_told_in_words_and_at_its_line() {
        let route = |name: &str, more: &str| format!("  - {{ name: {name}, target: b, {more} }}\n");
        let file = |routes: &[String]| format!("version: 1\nroutes:\n{}", routes.concat());
        let pull = || route("a", "downstream: pull");
        let cases = [
            (String::new(), "", "the file is empty"),
            ("# routes\n\n  # of mine\n".to_owned(), "", "the file is empty"),
            (file(&[pull(), pull()]), ":4:5", "two routes are named `a`"),
            (file(&[pull()]).replace("version: 1", "version: 2"), ":1:10", "must be 1, not 2"),
            (file(&[route("a", "downstream: { http: 'http://x' }")]), ":3", "`{ url: … }`"),
            (
                file(&[route("a", "downstream: { http: { url: 'http://x', headers: { A: [1] } } }")]),
                ":3",
                "{ secret: { env: NAME } }",
            ),
            ("version: 1\nroutes: []\n".to_owned(), ": ", "no task could ever be accepted"),
        ];
        for (yaml, place, words) in cases {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            write!(file, "{yaml}").unwrap();
            let text = read_routes(file.path()).unwrap_err().to_string();
            assert!(text.starts_with(&format!("{}{place}", file.path().display())) && text.contains(words), "{text}");
        }
    }

    #[test]
    fn what_a_long_call_costs_is_said_of_long_calls_only() {
        let of = |timeout_ms: u64| {
            let http = format!("http: {{ url: 'https://a.example/', timeout_ms: {timeout_ms} }}");
            let yaml = format!("version: 1\nroutes: [{{ name: r, target: t, downstream: {{ {http} }} }}]");
            Routes::parse(&yaml).unwrap().iter().find_map(price)
        };
        assert_eq!(of(30_000), None);
        // 210 GB seconds and 840 write units.
        assert!(of(840_000).is_some_and(|told| told.contains("840 s costs $0.0033 on AWS at 256 MB")));
    }

    #[test]
    fn a_missing_file_is_named() {
        let text = read_routes(Path::new("no/such/routes.yaml")).unwrap_err().to_string();
        assert!(text.contains("no/such/routes.yaml"), "{text}");
    }
}
