//! What an operator does: each act is the step that the command and the API take, too.
//!
//! An act that touches more than one thing is shown first, with all that it will touch, and done when it is confirmed.
//! Its result says what became of each. Every act may be repeated: what is done already is refused, or done no second
//! time.

mod cancel;
mod failed;
mod form;
mod held;
pub mod hold;
mod queues;
mod report;

use axum::http::StatusCode;
use groupage_core::domain::gate::Scope;
use groupage_core::domain::{ListId, RouteName, StreamId};
use maud::html;

use crate::backend::{Console, Trouble, Visit};
use crate::page::Page;
use crate::view::ROOT;
use crate::words::grouped;

pub use failed::How;
pub use form::{Fields, because, button, hidden, refusal};

use failed::Which;
use form::{Refused, text};
use report::{Preview, Report};

/// An act, as a form asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Run failed tasks again, or take them off the list.
    Failed {
        /// What is done with them.
        how: How,
        /// Which.
        which: Which,
    },
    /// End tasks that wait, before any call.
    Cancel(cancel::Which),
    /// Send what ended in a queue again.
    Redrive {
        /// The queue's name.
        queue: String,
    },
    /// Delete what ended in a queue.
    Delete {
        /// The queue's name.
        queue: String,
        /// The id of the message; empty for all that are there.
        message: String,
    },
    /// Release the next tasks of a list.
    Release {
        /// The list.
        list: ListId,
        /// How many.
        count: u64,
        /// Makes a repeat of this act safe.
        key: String,
    },
    /// Let a stopped order key go on.
    Resume {
        /// Its route.
        route: RouteName,
        /// The key.
        key: String,
    },
    /// Hold calls back, or let them go on.
    Hold {
        /// Whose calls.
        scope: Scope,
        /// What the person says; to let them go on says nothing.
        held: Option<String>,
    },
    /// Commit what is settled of a stream at once.
    Commit {
        /// The stream.
        stream: StreamId,
    },
}

impl Act {
    /// Reads a form. `fresh` makes an act safe to repeat that brings no key of its own.
    pub fn read(fields: &Fields, fresh: impl FnOnce() -> String) -> Result<Self, Refused> {
        let wrong = |why: &str| Refused::Field(why.to_owned());
        let parsed = |parsed: Result<_, &'static str>| parsed.map_err(wrong);
        match text(fields, "act") {
            "retry" => Ok(Self::Failed { how: How::Retry, which: failed::which(fields)? }),
            "drop" => Ok(Self::Failed { how: How::Drop, which: failed::which(fields)? }),
            "cancel" => Ok(Self::Cancel(cancel::which(fields)?)),
            "redrive" => Ok(Self::Redrive { queue: text(fields, "queue").to_owned() }),
            "delete" => {
                let [queue, message] = ["queue", "message"].map(|name| text(fields, name).to_owned());
                Ok(Self::Delete { queue, message })
            }
            "release" => {
                let list = ListId::parse(text(fields, "list")).map_err(wrong)?;
                let count =
                    text(fields, "count").trim().parse().map_err(|_| wrong("say how many tasks: a whole number"))?;
                let key = Some(text(fields, "key")).filter(|key| !key.is_empty()).map_or_else(fresh, str::to_owned);
                Ok(Self::Release { list, count, key })
            }
            "resume" => {
                let route = parsed(RouteName::parse(text(fields, "route")))?;
                Ok(Self::Resume { route, key: text(fields, "key").to_owned() })
            }
            "pause" => Ok(Self::Hold { scope: hold::scope(fields)?, held: Some(text(fields, "reason").to_owned()) }),
            "go-on" => Ok(Self::Hold { scope: hold::scope(fields)?, held: None }),
            "commit" => Ok(Self::Commit { stream: StreamId::parse(text(fields, "stream")).map_err(wrong)? }),
            _ => Err(wrong("the form names no act")),
        }
    }

    /// Whether it is confirmed though it touches one thing: that thing is gone then.
    const fn is_final(&self) -> bool {
        matches!(self, Self::Delete { .. })
    }

    /// The fields that say it again, once it is confirmed.
    fn fields(&self) -> Fields {
        let pairs: Vec<(&str, String)> = match self {
            Self::Failed { how, which } => {
                let mut pairs = vec![("act", how.word().to_owned())];
                pairs.extend(failed::fields(which));
                pairs
            }
            Self::Cancel(which) => {
                let mut pairs = vec![("act", "cancel".to_owned())];
                pairs.extend(cancel::fields(which));
                pairs
            }
            Self::Redrive { queue } => vec![("act", "redrive".to_owned()), ("queue", queue.clone())],
            Self::Delete { queue, message } => {
                vec![("act", "delete".to_owned()), ("queue", queue.clone()), ("message", message.clone())]
            }
            Self::Release { list, count, key } => vec![
                ("act", "release".to_owned()),
                ("list", list.to_string()),
                ("count", count.to_string()),
                ("key", key.clone()),
            ],
            Self::Resume { route, key } => {
                vec![("act", "resume".to_owned()), ("route", route.to_string()), ("key", key.clone())]
            }
            Self::Hold { scope, held } => {
                let act = if held.is_some() { "pause" } else { "go-on" };
                let mut pairs = vec![("act", act.to_owned()), ("gate", scope.key())];
                pairs.extend(held.iter().map(|reason| ("reason", reason.clone())));
                pairs
            }
            Self::Commit { stream } => vec![("act", "commit".to_owned()), ("stream", stream.to_string())],
        };
        pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

/// Previews an act, or does it: at once if it touches one thing, else once it is confirmed.
pub async fn act(console: &Console, fields: &Fields) -> Page {
    if !(console.pass.may_act)(text(fields, "form")) {
        return Page::trouble(StatusCode::FORBIDDEN, &Refused::Foreign.to_string());
    }
    let act = match Act::read(fields, || console.fresh_id()) {
        Ok(act) => act,
        Err(refused) => return Page::trouble(StatusCode::UNPROCESSABLE_ENTITY, &refused.to_string()),
    };
    let done = async {
        let visit = console.visit().await?;
        let act = match act {
            Act::Cancel(which) => Act::Cancel(cancel::Which::These(cancel::named(&visit, which).await?)),
            other => other,
        };
        let preview = preview(&visit, &act).await?;
        if (preview.count > 1 || act.is_final()) && text(fields, "confirmed") != "yes" {
            return Ok(confirm(&act, &preview));
        }
        Ok::<_, Trouble>(perform(&visit, &act).await?.page())
    };
    done.await.unwrap_or_else(|trouble| Page::refused(&trouble))
}

async fn preview(visit: &Visit<'_>, act: &Act) -> Result<Preview, Trouble> {
    match act {
        Act::Failed { how, which } => failed::preview(visit, *how, which).await,
        Act::Cancel(which) => Ok(cancel::preview(&cancel::named(visit, which.clone()).await?)),
        Act::Redrive { queue } => queues::preview(visit, queue).await,
        Act::Delete { queue, message } => queues::preview_drop(visit, queue, message).await,
        Act::Release { list, count, .. } => held::preview_release(visit, list, *count).await,
        Act::Resume { key, .. } => Ok(one(format!("let the order key {key} go on"))),
        Act::Hold { scope, .. } => Ok(one(format!("change the gate {}", scope.key()))),
        Act::Commit { stream } => Ok(one(format!("commit what is settled of the stream {stream}"))),
    }
}

fn one(what: String) -> Preview {
    Preview { what, touches: html! {}, count: 1 }
}

async fn perform(visit: &Visit<'_>, act: &Act) -> Result<Report, Trouble> {
    match act {
        Act::Failed { how, which } => failed::perform(visit, *how, which).await,
        Act::Cancel(which) => cancel::perform(visit, &cancel::named(visit, which.clone()).await?).await,
        Act::Redrive { queue } => queues::perform(visit, queue).await,
        Act::Delete { queue, message } => queues::drop(visit, queue, message).await,
        Act::Release { list, count, key } => held::release(visit, list, *count, key).await,
        Act::Resume { route, key } => held::resume(visit, route, key).await,
        Act::Hold { scope, held } => hold::perform(visit, scope, held.as_deref()).await,
        Act::Commit { stream } => held::commit(visit, stream).await,
    }
}

fn confirm(act: &Act, preview: &Preview) -> Page {
    let still = html! {
        h1 { "To be confirmed" }
        p { "This will " (preview.what) "." }
        form method="post" action={ (ROOT) "/act" } {
            (hidden(&act.fields()))
            input type="hidden" name="confirmed" value="yes";
            button.danger { "Yes, " (grouped(preview.count)) " of them" }
        }
        (preview.touches)
    };
    Page::still("To be confirmed", still)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(pairs: &[(&str, &str)]) -> Fields {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn read(pairs: &[(&str, &str)]) -> Result<Act, Refused> {
        Act::read(&fields(pairs), || "fresh".to_owned())
    }

    #[test]
    fn what_is_confirmed_is_what_was_shown() {
        for pairs in [
            &[("act", "retry"), ("id", "a"), ("id", "b")][..],
            &[("act", "drop"), ("all", "yes"), ("route", "r"), ("reason", "http_422"), ("until", "7")],
            &[("act", "cancel"), ("id", "a"), ("id", "b")],
            &[("act", "cancel"), ("target", "r:t ")],
            &[("act", "redrive"), ("queue", "handle-dlq")],
            &[("act", "delete"), ("queue", "rejected"), ("message", "m-1")],
            &[("act", "release"), ("list", "l"), ("count", "3"), ("key", "k")],
            &[("act", "resume"), ("route", "r"), ("key", "a: <b> ")],
            &[("act", "pause"), ("gate", "#route:r"), ("reason", "deploy")],
            &[("act", "go-on"), ("gate", "#target:r:t")],
            &[("act", "commit"), ("stream", "s")],
        ] {
            let act = read(pairs).unwrap();
            assert_eq!(act.fields(), fields(pairs), "to the last space");
            assert_eq!(Act::read(&act.fields(), || "other".to_owned()).unwrap(), act);
        }
    }

    #[test]
    fn a_release_without_a_key_gets_one_that_its_repeat_has_too() {
        let act = read(&[("act", "release"), ("list", "l"), ("count", "3")]).unwrap();
        assert_eq!(act, Act::Release { list: ListId::new("l"), count: 3, key: "fresh".to_owned() });
        assert!(act.fields().contains(&("key".to_owned(), "fresh".to_owned())));
    }

    #[test]
    fn a_form_that_makes_no_sense_says_why() {
        for pairs in [
            &[("act", "explode")][..],
            &[("act", "retry")],
            &[("act", "retry"), ("id", "a b")],
            &[("act", "cancel")],
            &[("act", "release"), ("list", "a b"), ("count", "3")],
            &[("act", "release"), ("list", "l"), ("count", "many")],
            &[("act", "resume"), ("route", "R")],
            &[("act", "pause"), ("gate", "everything")],
        ] {
            assert!(matches!(read(pairs), Err(Refused::Field(_))), "{pairs:?}");
        }
    }
}
