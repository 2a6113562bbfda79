//! `groupage redrive`: what ended in the rejected and dead-letter queues: list it, show why, send it again, delete it.

use anyhow::{Result, bail};
use clap::Subcommand;
use groupage_aws::desk::{Depth, Desk, Dropped, Ended, Left, Queue, Sent};
use indicatif::ProgressBar;

use crate::output::{Ending, Output, grouped};
use crate::sheet::{Cell, Sheet, Tone};
use crate::stack;

/// List what ended in the rejected and dead-letter queues, show why, send it again, or delete it.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the queues and how many messages each holds. This is what `redrive` alone does.
    List,
    /// Show messages, the tasks or batches that they are about, and why they ended here. They are hidden from others
    /// while it runs.
    Show {
        /// For example rejected, or handle-dlq.
        queue: String,
        /// How many at most.
        #[arg(long, value_name = "N", default_value_t = 10)]
        most: u64,
        /// Print the bodies too. Those of rejected messages hold payloads.
        #[arg(long)]
        body: bool,
    },
    /// Send messages again to the queue they came from. A notice that its queue refused goes to that queue.
    Send {
        /// For example rejected, or handle-dlq.
        queue: String,
        /// How many at most; all that are there now if not given.
        #[arg(long, value_name = "N")]
        most: Option<u64>,
    },
    /// Delete messages, for ever. A task that was rejected, or never registered, is gone with its message.
    Drop {
        /// For example rejected, or handle-dlq.
        queue: String,
        /// Ids of messages, or of the tasks or batches that they are about, as `show` prints them; all that are there
        /// now if none is given.
        #[arg(value_name = "ID")]
        ids: Vec<String>,
        /// Yes, for ever.
        #[arg(long)]
        yes: bool,
    },
}

/// How many ids of one message are shown to people.
const IDS: usize = 10;

/// Lists, shows or sends again. Messages that cannot be sent again stay where they are.
pub async fn run(options: &Args, stack: Option<&str>, output: &Output) -> Result<Ending> {
    let desk = stack::open(stack).await?.desk();
    match &options.command {
        None | Some(Command::List) => list(&desk, output).await,
        Some(Command::Show { queue, most, body }) => show(&desk, desk.find(queue).await?, *most, *body, output).await,
        Some(Command::Send { queue, most }) => send(&desk, desk.find(queue).await?, *most, output).await,
        Some(Command::Drop { queue, ids, yes }) => drop(&desk, desk.find(queue).await?, ids, *yes, output).await,
    }
}

async fn list(desk: &Desk, output: &Output) -> Result<Ending> {
    let depths = desk.depths_of(desk.ended().await?).await?;
    output.sheet(&depths, || {
        let row = |depth: &Depth| vec![depth.queue.as_str().into(), Cell::bad_number(depth.ready + depth.in_flight)];
        Sheet::table("", &["queue", "messages"], depths.iter().map(row).collect())
    });
    Ok(Ending::Well)
}

async fn show(desk: &Desk, queue: &Queue, most: u64, body: bool, output: &Output) -> Result<Ending> {
    let shown = desk.look(queue, most, body).await?;
    output.sheet(&shown, || {
        if shown.is_empty() {
            return Sheet::line(format!("{} is empty", queue.name));
        }
        let row = |ended: &Ended| {
            let body = ended.body.as_ref().map(|body| format!("\n{body}")).unwrap_or_default();
            let why = Cell::new(format!("{}{body}", ended.why()), Tone::Bad);
            vec![ended.about.names(IDS).join("\n").into(), why, Cell::number(ended.received.into())]
        };
        Sheet::table("", &["task", "why", "received"], shown.iter().map(row).collect())
    });
    Ok(Ending::Well)
}

async fn send(desk: &Desk, queue: &Queue, most: Option<u64>, output: &Output) -> Result<Ending> {
    // Draws on a terminal only.
    let progress = ProgressBar::new_spinner().with_message(format!("sending {} again", queue.name));
    let sent = desk.send_again(queue, most, |sent| progress.set_position(sent)).await?;
    progress.finish_and_clear();
    output.result(&sent, || text(&sent));
    Ok(if sent.left.is_empty() { Ending::Well } else { Ending::Badly })
}

async fn drop(desk: &Desk, queue: &Queue, ids: &[String], confirmed: bool, output: &Output) -> Result<Ending> {
    let there =
        desk.depths_of(std::slice::from_ref(queue)).await?.iter().map(|depth| depth.ready + depth.in_flight).sum();
    if !confirmed && there > 0 {
        match ids.len() {
            0 => bail!("this deletes {} messages from {} for ever: say --yes", grouped(there), queue.name),
            named => bail!("this deletes the messages of {named} ids from {} for ever: say --yes", queue.name),
        }
    }
    let progress = ProgressBar::new_spinner().with_message(format!("deleting from {}", queue.name));
    let dropped = desk.drop_ended(queue, ids, |dropped| progress.set_position(dropped)).await?;
    progress.finish_and_clear();
    output.result(&dropped, || {
        let Dropped { queue, dropped, missing, hidden } = &dropped;
        let missing: String = missing.iter().map(|id| format!("\n  {id}: no message of it was found")).collect();
        format!("{} deleted from {queue}{}{missing}", grouped(*dropped), in_other_hands(*hidden))
    });
    Ok(if dropped.missing.is_empty() { Ending::Well } else { Ending::Badly })
}

fn in_other_hands(hidden: u64) -> String {
    match hidden {
        0 => String::new(),
        hidden => format!("; {} more are hidden, try again in a minute", grouped(hidden)),
    }
}

fn text(sent: &Sent) -> String {
    let hidden = in_other_hands(sent.hidden);
    let left = match sent.left.len() as u64 {
        0 => String::new(),
        left => format!("; {} cannot be sent again and stay:", grouped(left)),
    };
    let line = |left: &Left| format!("\n  {}: {}", left.about.names(IDS).join(" "), left.reason);
    let each: String = sent.left.iter().map(line).collect();
    format!("{} sent again from {}{hidden}{left}{each}", grouped(sent.sent), sent.queue)
}
