//! The whole stack: how full the queues are, and for people what waits and why.

use anyhow::Result;
use groupage_aws::Connection;
use groupage_aws::System;
use groupage_aws::desk::{Depth, REJECTED};
use groupage_console::words::{relative, why};
use groupage_core::domain::Timestamp;
use groupage_core::ports::Env;
use groupage_core::steps::look::{Crowd, Group};

use crate::output::{Output, grouped};
use crate::sheet::{Cell, Sheet, Tone};
use crate::stack::{self, Access};

/// Targets that are listed.
const LISTED: usize = 20;

/// Prints it. Programs get the queues alone: what they do not ask for is not read. Who may see the queues and no table
/// is told so below the queues.
pub async fn show(connection: &Connection, access: &Access, output: &Output) -> Result<()> {
    let depths = connection.desk().depths().await?;
    if output.is_json() {
        output.sheet(&depths, Sheet::default);
        return Ok(());
    }
    let crowd = async {
        let routes = stack::routes(connection).await?;
        Ok::<_, anyhow::Error>(access.looking(routes.as_ref()).crowd(None).await?)
    };
    let crowd = crowd.await;
    output.sheet(&depths, || match &crowd {
        Ok(crowd) => waiting(queues(&depths), crowd, System.now()),
        Err(error) => {
            let text = format!("What waits, and why, cannot be read: {error:#}");
            queues(&depths).with_line("").with_line(Cell::new(text, Tone::Wary))
        }
    });
    Ok(())
}

fn queues(depths: &[Depth]) -> Sheet {
    let queues = depths.iter().map(|depth| {
        let needs_a_person = (depth.queue == REJECTED || depth.queue.ends_with("-dlq")) && depth.all() > 0;
        let name = Cell::new(&depth.queue, if needs_a_person { Tone::Bad } else { Tone::Plain });
        vec![name, Cell::number(depth.ready), Cell::number(depth.in_flight), Cell::number(depth.delayed)]
    });
    Sheet::table("", &["queue", "ready", "in flight", "delayed"], queues.collect())
}

fn waiting(sheet: Sheet, crowd: &Crowd, now: Timestamp) -> Sheet {
    let targets: Vec<_> = crowd.groups.iter().take(LISTED).map(|group| row(group, now)).collect();
    let is_empty = targets.is_empty();
    let sheet = sheet.with_table("What waits, and why", &["Target", "tasks", "since", "waits for"], targets);
    if is_empty {
        return sheet.with_line("").with_line(Cell::new("Nothing waits for a batch or a call.", Tone::Good));
    }
    let listed = match crowd.groups.len().saturating_sub(LISTED) {
        0 => String::new(),
        more => format!("{} more Targets are not listed. ", grouped(more as u64)),
    };
    let sample = match crowd.is_all {
        true => String::new(),
        false => format!("A sample of what waits: {} tasks were looked at.", grouped(crowd.tasks as u64)),
    };
    match listed + &sample {
        nothing if nothing.is_empty() => sheet,
        note => sheet.with_line(Cell::new(note.trim_end(), Tone::Soft)),
    }
}

fn row(group: &Group, now: Timestamp) -> Vec<Cell> {
    let oldest = group.oldest.into_iter().chain(group.batches.iter().map(|one| one.batch.created_at)).min();
    let reasons: Vec<String> = group.reasons().into_iter().map(|reason| why(reason, now)).collect();
    vec![
        group.target.as_str().into(),
        Cell::number(group.tasks() as u64),
        oldest.map(|oldest| relative(oldest, now)).unwrap_or_default().into(),
        Cell::new(reasons.join("\n"), Tone::Wary),
    ]
}

#[cfg(test)]
mod tests {
    use groupage_core::domain::Target;
    use groupage_core::domain::why::Why;

    use super::*;

    #[test]
    fn each_target_says_how_many_of_its_tasks_wait_since_when_and_for_what() {
        let group = |target: &str, waiting| Group {
            target: Target::new(target),
            waiting,
            oldest: Some(Timestamp(1_000)),
            why: Some(Why::Window { until: Timestamp(9_000) }),
            batches: Vec::new(),
        };
        let crowd = Crowd { groups: vec![group("r:hot", 1_200)], tasks: 1_200, is_all: false };
        let depth = |queue: &str, ready| Depth { queue: queue.to_owned(), ready, in_flight: 0, delayed: 0 };
        let text = waiting(queues(&[depth("tasks", 7), depth("rejected", 3)]), &crowd, Timestamp(4_000)).text(false);
        let row = text.lines().find(|line| line.contains("r:hot")).unwrap();
        let words: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(words[..5], ["r:hot", "1,200", "3", "s", "ago"]);
        assert!(row.ends_with("more tasks: its batch's window is open for 5 s"), "{row}");
        assert!(text.ends_with("A sample of what waits: 1,200 tasks were looked at."), "{text}");
        let nothing = waiting(queues(&[depth("tasks", 0)]), &Crowd { is_all: true, ..Crowd::default() }, Timestamp(0));
        assert!(nothing.text(false).ends_with("Nothing waits for a batch or a call."));
    }
}
