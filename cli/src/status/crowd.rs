//! The whole stack: how full the queues are, and for people what waits and why.

use anyhow::Result;
use groupage_aws::Connection;
use groupage_aws::System;
use groupage_aws::desk::{Depth, REJECTED};
use groupage_console::words::{counted, relative, why};
use groupage_core::domain::Timestamp;
use groupage_core::ports::Env;
use groupage_core::steps::look::{Crowd, Group};

use crate::output::Output;
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
    let targets: Vec<_> = crowd.groups.iter().take(LISTED).map(|group| row(group, crowd.is_all, now)).collect();
    let stopped = crowd.stopped.iter().map(|lane| {
        vec![lane.route().as_str().into(), lane.key().into(), Cell::new("a person: `groupage lane show`", Tone::Bad)]
    });
    let sheet = sheet
        .with_table("What waits, and why", &["Target", "tasks", "since", "waits for"], targets)
        .with_table("Order keys that stand still", &["route", "key", "waits for"], stopped.collect());
    let listed = match crowd.groups.len().saturating_sub(LISTED) {
        0 => String::new(),
        more => format!("{} Targets are not listed. ", counted(more, crowd.is_all)),
    };
    let note = match (crowd.is_all, crowd.groups.is_empty() && crowd.stopped.is_empty()) {
        (true, true) => Cell::new("Nothing waits for its time, a batch or a call.", Tone::Good),
        (true, false) if listed.is_empty() => return sheet,
        (true, false) => Cell::new(listed.trim_end(), Tone::Soft),
        (false, _) => Cell::new(format!("{listed}A sample: not all that waits was looked at."), Tone::Soft),
    };
    sheet.with_line("").with_line(note)
}

fn row(group: &Group, is_all: bool, now: Timestamp) -> Vec<Cell> {
    let oldest = group.oldest.into_iter().chain(group.batches.iter().map(|one| one.batch.created_at)).min();
    let reasons: Vec<String> = group.reasons().into_iter().map(|reason| why(reason, now)).collect();
    vec![
        group.target.as_str().into(),
        counted(group.tasks(), is_all).into(),
        oldest.map(|oldest| relative(oldest, now)).unwrap_or_default().into(),
        Cell::new(reasons.join("\n"), Tone::Wary),
    ]
}

#[cfg(test)]
mod tests {
    use groupage_core::domain::why::Why;
    use groupage_core::domain::{LaneId, RouteName, Target};

    use super::*;

    #[test]
    fn each_target_says_how_many_of_its_tasks_wait_since_when_and_for_what() {
        let (oldest, why) = (Some(Timestamp(1_000)), Some(Why::Window { until: Timestamp(9_000) }));
        let hot = Group { waiting: 1_200, oldest, why, ..Group::empty(Target::new("r:hot")) };
        let stopped = vec![LaneId::of(&RouteName::new("r"), "key-7")];
        let crowd = Crowd { groups: vec![hot], stopped, is_all: false };
        let depth = |queue: &str, ready| Depth { queue: queue.to_owned(), ready, in_flight: 0, delayed: 0 };
        let text = waiting(queues(&[depth("tasks", 7), depth("rejected", 3)]), &crowd, Timestamp(4_000)).text(false);
        let row = text.lines().find(|line| line.contains("r:hot")).unwrap();
        let words: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(words[..7], ["r:hot", "at", "least", "1,200", "3", "s", "ago"]);
        assert!(text.contains("key-7  a person: `groupage lane show`"), "{text}");
        assert!(row.ends_with("more tasks: its batch's window is open for 5 s"), "{row}");
        assert!(text.ends_with("A sample: not all that waits was looked at."), "{text}");
        let nothing = waiting(queues(&[depth("tasks", 0)]), &Crowd { is_all: true, ..Crowd::default() }, Timestamp(0));
        assert!(nothing.text(false).ends_with("Nothing waits for its time, a batch or a call."));
    }
}
