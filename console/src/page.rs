//! What all pages have in common: the frame, links, ids, times and tables.

use axum::http::StatusCode;
use groupage_core::domain::why::Why;
use groupage_core::domain::{BatchId, Target, TaskId, Timestamp};
use maud::{DOCTYPE, Markup, html};

use crate::backend::Trouble;
use crate::view::{Kind, ROOT, View};
use crate::words::{clock, on_one_line, relative, why};

/// What a page shows.
pub struct Page {
    /// Its title.
    pub title: String,
    /// What is made anew while somebody looks.
    pub live: Markup,
    /// What stays as it is: forms, in which somebody may have begun to write.
    pub still: Markup,
    /// Whether anything is live.
    pub is_live: bool,
    /// HTTP's status.
    pub status: StatusCode,
}

impl Page {
    /// A page that is live as a whole.
    pub fn live(title: impl Into<String>, live: Markup) -> Self {
        Self { title: title.into(), live, still: html! {}, is_live: true, status: StatusCode::OK }
    }

    /// A page that stays as it is.
    pub fn still(title: impl Into<String>, still: Markup) -> Self {
        Self { title: title.into(), live: html! {}, still, is_live: false, status: StatusCode::OK }
    }

    /// The same with a part that stays.
    pub fn with_still(self, still: Markup) -> Self {
        Self { still, ..self }
    }

    /// A page that says what is wrong.
    pub fn trouble(status: StatusCode, what: &str) -> Self {
        let still = html! { h1 { "Not possible" } p.problem role="alert" { (on_one_line(what)) } };
        Self { status, ..Self::still("Not possible", still) }
    }

    /// A page that cannot be shown, or an act that cannot be done.
    pub fn refused(trouble: &Trouble) -> Self {
        let status = match trouble {
            Trouble::Unknown(_) => StatusCode::NOT_FOUND,
            Trouble::Refused(_) => StatusCode::CONFLICT,
            Trouble::Step(_) | Trouble::Desk(_) | Trouble::Routes(_) => StatusCode::BAD_GATEWAY,
        };
        Self::trouble(status, &trouble.to_string())
    }

    /// The whole document. Without scripts a page shows what was there when it was asked for.
    pub fn document(&self, view: &View, stack: &str) -> Markup {
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (on_one_line(&self.title)) " · Groupage" }
                    link rel="stylesheet" href={ (ROOT) "/console.css" };
                    link rel="icon" href="data:,";
                    script src={ (ROOT) "/console.js" } {}
                }
                body {
                    a.skip href="#main" { "To the content" }
                    header {
                        a.brand href=(View::of(Kind::Overview).address()) { "Groupage" }
                        nav aria-label="Pages" {
                            @for kind in Kind::IN_MENU {
                                a href=(View::of(kind).address()) aria-current=[(kind == view.kind).then_some("page")] {
                                    (kind.title())
                                }
                            }
                        }
                        form.search role="search" action=(View::of(Kind::Search).address()) {
                            label.hidden for="find" { "Any id" }
                            input #find type="search" name="id" placeholder="task, batch, Target, …" autocomplete="off" spellcheck="false";
                            button { "Find" }
                        }
                    }
                    main #main tabindex="-1" {
                        @if self.is_live { div #live data-updates=(view.updates()) { (self.live) } }
                        (self.still)
                    }
                    footer {
                        p { "Stack " bdi { (on_one_line(stack)) } ". Times are UTC." }
                        p #state aria-live="polite" { noscript { "Without scripts, reload the page to see what is new; to act takes scripts." } }
                    }
                }
            }
        }
    }
}

/// An id as text: on one line, and with nothing hidden in it.
pub fn id(text: &str) -> Markup {
    html! { bdi.id { (on_one_line(text)) } }
}

/// A text from outside.
pub fn text(text: &str) -> Markup {
    html! { (on_one_line(text)) }
}

/// An id that leads to its page.
pub fn link(kind: Kind, text: &str) -> Markup {
    html! { a href=(View::of(kind).with("id", text).address()) { (id(text)) } }
}

/// A task, by its id.
pub fn task(task: &TaskId) -> Markup {
    link(Kind::Task, task.as_str())
}

/// A batch, by its id.
pub fn batch(batch: &BatchId) -> Markup {
    link(Kind::Batch, batch.as_str())
}

/// A Target, by its name.
pub fn target(target: &Target) -> Markup {
    link(Kind::Target, target.whole().as_str())
}

/// A moment: how long ago, with the clock's time to be seen on demand.
pub fn time(at: Timestamp, now: Timestamp) -> Markup {
    html! { time datetime=(clock(at)) title=(clock(at)) { (relative(at, now)) } }
}

/// What something waits for.
pub fn reason(reason: &Why, now: Timestamp) -> Markup {
    html! { span.why { (why(reason, now)) } }
}

/// A number of things.
pub fn count(number: usize) -> String {
    crate::words::grouped(number as u64)
}

/// Names and values, one below the other.
pub fn facts(rows: Vec<(&str, Markup)>) -> Markup {
    html! { dl { @for (name, value) in rows { div { dt { (name) } dd { (value) } } } } }
}

/// A table with a title. A narrow screen scrolls it by itself; the keyboard reaches it.
pub fn table(title: &str, columns: &[&str], rows: Vec<Vec<Markup>>, none: &str) -> Markup {
    html! {
        h2 { (title) }
        @if rows.is_empty() {
            p.none { (none) }
        } @else {
            div.scroll tabindex="0" role="region" aria-label=(title) {
                table {
                    thead { tr { @for column in columns { th scope="col" { (column) } } } }
                    tbody { @for row in rows { tr { @for cell in row { td { (cell) } } } } }
                }
            }
        }
    }
}

/// How full something is.
pub fn bar(value: usize, most: usize, label: &str) -> Markup {
    html! { progress value=(value) max=(most.max(1)) aria-label=(label) { (value) " of " (most) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_full_of_markup_is_text() {
        let evil = "<script>alert(1)</script>\"'&\u{202e}\r\n";
        let shown = task(&TaskId::new(evil)).into_string();
        assert!(!shown.contains("<script") && !shown.contains("\"'&\""), "{shown}");
        assert!(shown.contains("&lt;script&gt;") && shown.contains("\\u{202e}"), "{shown}");
        assert!(
            !shown.contains('\r') && !shown.contains('\n'),
            "an event of a live page has no line of its own: {shown}"
        );
    }

    #[test]
    fn a_document_has_no_script_or_style_of_its_own() {
        let page = Page::live("Title", html! { p { "x" } });
        let document = page.document(&View::of(Kind::Task).with("id", "\"><img src=x>"), "stack").into_string();
        assert!(
            !document.contains("<style") && !document.contains(" style=") && !document.contains("<img"),
            "{document}"
        );
        assert_eq!(document.matches("<script").count(), 1);
        assert!(document.contains("<script src=\"/console/console.js\"></script>"));
    }
}
