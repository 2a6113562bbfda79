//! What people are told of an act: before it, and after it.

use maud::{Markup, html};

use crate::page::{Page, id, table};
use crate::words::grouped;

/// What an act will touch.
pub struct Preview {
    /// What it does, in one sentence.
    pub what: String,
    /// What it touches, one by one, as far as that is known before.
    pub touches: Markup,
    /// How many things that is.
    pub count: u64,
}

/// What an act came to.
pub struct Report {
    /// How many it was done of.
    pub done: u64,
    /// What that is: `tasks run again`.
    pub what: &'static str,
    /// What became of each, or of each that it was not done of.
    pub each: Vec<(String, String)>,
}

impl Report {
    /// As a page.
    pub fn page(&self) -> Page {
        let rows = self.each.iter().map(|(what, became)| vec![id(what), html! { (became) }]).collect();
        let still = html! {
            h1 { "Done" }
            p.result role="status" { strong { (grouped(self.done)) } " " (self.what) "." }
            (table("What became of each", &["what", "became"], rows, "There is nothing to say of single ones."))
        };
        Page::still("Done", still)
    }
}
