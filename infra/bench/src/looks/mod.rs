//! What a look at the console costs on a stack on which much waits: read units, and the time to the first byte.
//!
//! The tables are filled directly, without messages and steps. Then each page is asked for over HTTP, as a browser
//! does. Read units do not depend on the machine; times do.

mod browser;
mod crowd;

use std::sync::Arc;

use anyhow::{Result, ensure};
use groupage_console::{Console, Pass};

use browser::Browser;
use crowd::Crowd;

use crate::prelude::*;

/// What each page of the console costs on a stack on which much waits: read units, and the time to the first byte.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Tasks that wait. A tenth of them waits for one Target.
    #[arg(long, value_name = "NUMBER", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1_000..))]
    tasks: u64,
    /// Targets that they wait for.
    #[arg(long, value_name = "NUMBER", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(10..))]
    targets: u64,
    /// Routes of these Targets; a fourth of them is ordered.
    #[arg(long, value_name = "NUMBER", default_value_t = 40, value_parser = clap::value_parser!(u64).range(4..))]
    routes: u64,
    /// How often each page is asked for.
    #[arg(long, value_name = "NUMBER", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    looks: u64,
}

/// What all pages came to.
#[derive(Debug, Serialize)]
struct Figures {
    tasks: u64,
    targets: u64,
    routes: u64,
    pages: Vec<PageCost>,
}

/// What one page came to.
#[derive(Debug, Serialize)]
struct PageCost {
    page: String,
    read_units: f64,
    /// Of all looks, the middle one and the slowest.
    first_byte_ms: f64,
    slowest_ms: f64,
    bytes: usize,
}

/// Fills the tables, and looks at each page.
pub async fn run(options: &Args, output: Output) -> Result<()> {
    let stack = Stack::start(Storage::Memory, Ports::default()).await?;
    let pages = look(options, &stack).await?;
    let Args { tasks, targets, routes, .. } = *options;
    let figures = Figures { tasks, targets, routes, pages };
    output.result(&figures, &tables(&figures));
    stack.shutdown().await;
    Ok(())
}

async fn look(options: &Args, stack: &Stack) -> Result<Vec<PageCost>> {
    let crowd = Crowd::fill(options, stack).await?;
    let pass = Pass { enter: Box::new(|_| None), may_act: Box::new(|_| false) };
    let console = Arc::new(Console::new(stack.connection(), "bench".to_owned(), pass, None));
    let browser = Browser::open(groupage_console::router(console)).await?;
    let mut pages = Vec::new();
    for page in crowd.pages() {
        let mut looks = Vec::new();
        for _ in 0..options.looks {
            let look = browser.get(&page).await?;
            ensure!(look.status == 200, "{page}: {}", look.text);
            looks.push(look);
        }
        looks.sort_by(|a, b| a.first_byte_ms.total_cmp(&b.first_byte_ms));
        let (middle, slowest) = (&looks[looks.len() / 2], &looks[looks.len() - 1]);
        let read_units = looks.iter().map(|look| look.read_units).fold(0.0, f64::max);
        pages.push(PageCost {
            page,
            read_units,
            first_byte_ms: middle.first_byte_ms,
            slowest_ms: slowest.first_byte_ms,
            bytes: middle.text.len(),
        });
    }
    Ok(pages)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Enough to fill whatever a page reads at most.
    #[tokio::test(flavor = "multi_thread")]
    async fn no_page_reads_more_than_a_hundred_units_however_much_waits() {
        let stack = Stack::start(Storage::Memory, Ports::default()).await.unwrap();
        let pages = look(&Args { tasks: 4_000, targets: 400, routes: 40, looks: 1 }, &stack).await.unwrap();
        assert!(pages.len() >= 15, "{pages:#?}");
        for page in &pages {
            assert!(page.read_units > 0.0 || page.page.contains("dead-letters"), "{page:?} states nothing");
            assert!(page.read_units <= 100.0, "{page:?}");
        }
        stack.shutdown().await;
    }
}
