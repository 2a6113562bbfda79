//! Putting the tasks of a file on a list, in the order of its lines.
//!
//! As many lines go together as one transaction takes, under a key that follows from their content: putting the same
//! file again finds what is there.

use std::io;
use std::path::Path;

use anyhow::Result;
use groupage_core::domain::id::{ListId, digest};
use groupage_core::domain::list::{MAX_PUT, MAX_PUT_BYTES};
use indicatif::ProgressBar;
use serde::Serialize;

use super::Shelf;
use crate::output::{Ending, grouped, summary};
use crate::send::input::Input;
use crate::send::lines::{Content, Line, Lines};
use crate::send::{self, report::BadLine};

/// What became of the lines.
#[derive(Debug, Serialize)]
struct Report {
    list: ListId,
    lines: u64,
    /// Tasks put by this call.
    put: u64,
    /// Tasks that were put before.
    known: u64,
    /// Lines that repeat an earlier line.
    repeated: u64,
    bad: Vec<BadLine>,
    /// Why it ended before the input did. Put the same input again to go on.
    stopped: Option<String>,
}

/// Puts every good line. It fails before anything is put; what goes wrong later is in the report.
pub async fn run(shelf: &Shelf, file: &Path) -> Result<Ending> {
    let input = Input::open(file)?;
    let bar = send::progress(input.bytes());
    let report =
        Report { list: shelf.id.clone(), lines: 0, put: 0, known: 0, repeated: 0, bad: Vec::new(), stopped: None };
    let mut putter = Putter { shelf, bar, report, bodies: Vec::new(), bytes: 0 };
    for line in Lines::new(input.into_reader()) {
        if let Err(why) = putter.line(line).await {
            putter.report.stopped = Some(why);
            break;
        }
    }
    if putter.report.stopped.is_none() {
        putter.report.stopped = putter.put().await.err();
    }
    putter.bar.finish_and_clear();
    let report = putter.report;
    shelf.output.result(&report, || report.text());
    Ok(if report.bad.is_empty() && report.stopped.is_none() { Ending::Well } else { Ending::Badly })
}

struct Putter<'a> {
    shelf: &'a Shelf,
    bar: ProgressBar,
    report: Report,
    /// What goes together.
    bodies: Vec<String>,
    bytes: usize,
}

impl Putter<'_> {
    async fn line(&mut self, line: io::Result<Line>) -> Result<(), String> {
        let Line { number, bytes, content } = line.map_err(|error| format!("cannot read on: {error}"))?;
        self.report.lines += 1;
        match content {
            Content::Task(message) => match &message.list {
                Some(list) if *list != self.shelf.id => self.bad(number, format!("bad_list: it names the list {list}")),
                Some(_) | None => {
                    let body = message.body();
                    if self.bodies.len() >= MAX_PUT || self.bytes + body.len() > MAX_PUT_BYTES {
                        self.put().await?;
                    }
                    self.bytes += body.len();
                    self.bodies.push(body);
                }
            },
            Content::Repeated => self.report.repeated += 1,
            Content::Bad(why) => self.bad(number, why),
        }
        self.bar.inc(bytes);
        Ok(())
    }

    async fn put(&mut self) -> Result<(), String> {
        if self.bodies.is_empty() {
            return Ok(());
        }
        let parts: Vec<&str> = self.bodies.iter().map(String::as_str).collect();
        let answer = self.shelf.steps().put(&self.shelf.id, &digest(&parts), &self.bodies).await;
        let (addition, is_new) = answer.map_err(|error| error.to_string())?.map_err(|why| why.to_string())?;
        *(if is_new { &mut self.report.put } else { &mut self.report.known }) += addition.count;
        self.bodies.clear();
        self.bytes = 0;
        Ok(())
    }

    fn bad(&mut self, line: u64, why: String) {
        self.shelf.output.bad_line(&self.bar, line, &why);
        self.report.bad.push(BadLine { line, why });
    }
}

impl Report {
    fn text(&self) -> String {
        let mut rows = vec![
            ("lines", grouped(self.lines)),
            ("put", grouped(self.put)),
            ("put before", grouped(self.known)),
            ("repeat an earlier line", grouped(self.repeated)),
            ("bad", grouped(self.bad.len() as u64)),
        ];
        rows.extend(self.stopped.clone().map(|why| ("stopped", format!("{why}; put the same input again to go on"))));
        summary(rows)
    }
}
