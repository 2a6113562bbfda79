//! The calls of a route or a Target are held back by hand, and let go on.

use groupage_core::domain::Timestamp;
use groupage_core::domain::gate::{CallState, Scope};
use groupage_core::domain::why::Seen;
use groupage_core::steps::hold::MAX_REASON_BYTES;
use maud::{Markup, html};

use super::form::{Fields, Refused, because, button, hidden, refusal, text};
use super::report::Report;
use crate::backend::{Trouble, Visit};
use crate::view::ROOT;

/// Whose calls a form names.
pub fn scope(fields: &Fields) -> Result<Scope, Refused> {
    Scope::of_key(text(fields, "gate"))
        .filter(|scope| scope.route().is_some())
        .ok_or_else(|| Refused::Field("the form names no route and no Target".to_owned()))
}

/// A form that holds calls back, or one that lets them go on.
pub fn form(visit: &Visit<'_>, scope: &Scope, gates: &[Seen], now: Timestamp) -> Markup {
    let gate = scope.key();
    let own = gates.iter().find(|seen| seen.of == *scope);
    let is_held = own.is_some_and(|seen| matches!(seen.gate.call_state(now), CallState::Held { .. }));
    let is_closed = own.is_some_and(|seen| seen.closed(now).is_some());
    let fields = vec![("act".to_owned(), "pause".to_owned()), ("gate".to_owned(), gate.clone())];
    let refusal = refusal(visit, "pause");
    html! {
        div.acts {
            @if !is_held {
                form.act method="post" action={ (ROOT) "/act" } {
                    (hidden(&fields))
                    label { "Why " input name="reason" maxlength=(MAX_REASON_BYTES); }
                    " " button disabled[refusal.is_some()] { "Hold calls back" } (because(refusal))
                }
            }
            @if is_closed { (button(visit, &[("act", "go-on"), ("gate", &gate)], "Let calls go on")) }
        }
    }
}

/// Does it. A call that is being made ends as ever.
pub async fn perform(visit: &Visit<'_>, scope: &Scope, held: Option<&str>) -> Result<Report, Trouble> {
    let routes = visit.routes()?;
    let Some(route) = scope.route().and_then(|route| routes.get(&route)) else {
        return Err(Trouble::Unknown(format!("{} is of no route", scope.key())));
    };
    let (gate, what) = match held {
        Some(reason) => {
            let held = visit.holding().pause(scope, Some(reason).filter(|reason| !reason.is_empty())).await?;
            (held.map_err(|refused| Trouble::Refused(refused.to_string()))?, "gates are closed by hand")
        }
        None => {
            let resumed = visit.holding().resume(scope).await?;
            visit.waker(route).wake_behind(scope).await?;
            (resumed, "gates let calls go on")
        }
    };
    let standing = gate.call_state(visit.now);
    Ok(Report { done: 1, what, each: vec![(scope.key(), format!("stands as {}", standing.word()))] })
}
