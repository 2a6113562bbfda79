//! `groupage doctor`: looks a stack over, and says of each part whether it is well, and what to do if it is not.

mod exercise;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use anyhow::Result;
use groupage_doctor::{Check, Finding, Site, Verdict, examine, judge};
use serde::Serialize;

use crate::output::{Ending, Output};
use crate::stack;

/// What the examples teach.
const EXAMPLES: &str = "\
Examples:
  groupage doctor                                   the stack that the environment names
  groupage doctor --stack groupage                  a deployed stack
  groupage doctor --stack groupage --skip alarms    without a check that is not to be made
  groupage doctor --exercise                        the same, and canary tasks through the whole stack
  groupage doctor --json | jq '.findings[] | select(.verdict != \"well\")'";

/// Look a stack over: is it set as it must be, and is anything stuck?
///
/// It reads settings, queues and tables, and changes nothing. Each line is a check:
///
///   ✓ well
///
///   ✗ wrong; below it stands what to do, and where the documentation says more
///
///   ? could not be read, for want of a permission or of a call that the engine lacks. That is not taken for well
///
/// The exit code is 0 only if every check is well. A deployed stack needs its DoctorPolicy. The lock table is read
/// once from end to end: half a read unit for each 4 KB.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Leave this check out; may be given several times.
    #[arg(long, value_name = "CHECK", value_parser = known)]
    skip: Vec<Check>,
    /// Send canary tasks, too, work on them, and check that each settles once. That takes more than two
    /// minutes.
    ///
    /// A burst, one that is refused, one that is retried, and a batch whose wait takes more than 20 invocations in one
    /// chain.
    /// They go by a route named `canary`, which must be in force: without it this says which lines your routes file
    /// needs.
    /// The doctor is their worker, so nothing is called. It needs the policies Sender and Worker as well. What
    /// it leaves expires within a day.
    #[arg(long)]
    exercise: bool,
}

/// A check by its name.
fn known(name: &str) -> Result<Check, String> {
    let names = || Check::ALL.map(Check::name).join(", ");
    Check::named(name).ok_or_else(|| format!("there is no such check; there are {}", names()))
}

/// What was found.
#[derive(Serialize)]
struct Report {
    /// Whether every check is well.
    well: bool,
    findings: Vec<Finding>,
    /// What the exercise cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    costs: Option<exercise::Costs>,
}

/// Examines the stack and prints what was found.
pub async fn run(options: &Args, name: Option<&str>, output: &Output) -> Result<Ending> {
    let stack::Opened { connection, allowed, deployed } = stack::open_wholly(name).await?;
    let own_version = env!("CARGO_PKG_VERSION");
    let site = Site { connection: &connection, allowed, deployed, own_version };
    // Boxed: the futures of all the reads are larger than a thread's stack likes.
    let seen = Box::pin(examine(&site)).await;
    let mut findings: Vec<Finding> =
        judge(&seen).into_iter().filter(|found| !options.skip.contains(&found.check)).collect();
    let mut costs = None;
    if options.exercise {
        let (found, cost) = Box::pin(exercise::run(&connection, output)).await?;
        findings.extend(found);
        costs = Some(cost);
    }
    Ok(print(Report::of(findings, costs), output))
}

impl Report {
    fn of(findings: Vec<Finding>, costs: Option<exercise::Costs>) -> Self {
        let well = findings.iter().all(|finding| finding.verdict == Verdict::Well);
        Self { well, findings, costs }
    }
}

fn print(report: Report, output: &Output) -> Ending {
    output.result(&report, || text(&report.findings));
    if report.well { Ending::Well } else { Ending::Badly }
}

/// One line for each finding, what to do below it, and a line that counts.
fn text(findings: &[Finding]) -> String {
    let mut text = String::new();
    let width = findings.iter().map(|finding| finding.check.name().len()).max().unwrap_or_default();
    for finding in findings {
        let (mark, name) = (mark(finding.verdict), finding.check.name());
        let of = if finding.of.is_empty() { String::new() } else { format!("{}: ", finding.of.join(", ")) };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{mark} {name:width$}  {of}{}", finding.what);
        if let Some(todo) = &finding.todo {
            let _ = writeln!(text, "  {:width$}  {todo}; see {}", "", finding.see);
        }
    }
    text + &tally(findings)
}

fn tally(findings: &[Finding]) -> String {
    let of = |verdict| {
        let checks = findings.iter().filter(|finding| finding.verdict == verdict).map(|finding| finding.check);
        checks.collect::<BTreeSet<Check>>().len()
    };
    let counts = [Verdict::Well, Verdict::Wrong, Verdict::Unread].map(|verdict| (mark(verdict), of(verdict)));
    counts.map(|(mark, count)| format!("{mark} {count}")).join("  ")
}

const fn mark(verdict: Verdict) -> char {
    match verdict {
        Verdict::Well => '✓',
        Verdict::Wrong => '✗',
        Verdict::Unread => '?',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(check: Check, verdict: Verdict, todo: Option<&str>) -> Finding {
        let (what, todo, see) = ("as it is".to_owned(), todo.map(str::to_owned), check.page());
        Finding { check, of: vec!["elect".to_owned(), "group".to_owned()], verdict, what, todo, see }
    }

    #[test]
    fn a_line_says_what_was_found_and_the_next_what_to_do() {
        let found = [
            finding(Check::Loops, Verdict::Well, None),
            finding(Check::Visibility, Verdict::Wrong, Some("mend it")),
            finding(Check::Clock, Verdict::Unread, Some("ask")),
        ];
        let expected = "\
✓ loops       elect, group: as it is
✗ visibility  elect, group: as it is
              mend it; see docs/guides/doctor.md#visibility
? clock       elect, group: as it is
              ask; see docs/guides/doctor.md#clock
✓ 1  ✗ 1  ? 1";
        assert_eq!(text(&found), expected);
    }

    #[test]
    fn only_what_is_well_throughout_ends_well() {
        let output = Output::new(true, crate::output::Color::Never);
        let ending = |verdict| print(Report::of(vec![finding(Check::Clock, verdict, None)], None), &output);
        assert_eq!(ending(Verdict::Well), Ending::Well);
        assert_eq!(ending(Verdict::Wrong), Ending::Badly);
        assert_eq!(ending(Verdict::Unread), Ending::Badly, "unknown is not well");
    }
}
