//! The console: what waits, why, and what failed, in the browser.
//!
//! Pages are made here on the server; they read without scripts. A script of ours replaces what has changed, which
//! comes by server-sent events, made once for all that look at the same page. Nothing is fetched from elsewhere. The
//! console keeps nothing of its own: it reads the tables and queues as the commands do, by the same steps.
//!
//! Whether a request may come at all is asked before it comes here, see the guard of the embedded stack. Here the link
//! is exchanged for a cookie, and every answer says that it runs no script but ours and is shown in no other page.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod acts;
mod backend;
mod chart;
mod history;
mod live;
mod page;
mod pages;
mod recorded;
pub mod states;
mod view;
pub mod words;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use axum::{Form, Router};
use futures::stream::{self, Stream};

pub use backend::{Console, Enter, Entry, Pass, Work, Worked};
use history::History;
use page::Page;
use pages::Shown;
pub use recorded::Recorded;
use view::{Kind, ROOT, View};

/// What a browser may do with an answer: run our script and style, send forms to us, and show it in no frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The console's pages.
pub fn router(console: Arc<Console>) -> Router {
    Router::new()
        .route(ROOT, get(enter))
        .route("/console/console.css", get(|| asset("text/css", include_str!("../assets/console.css"))))
        .route("/console/console.js", get(|| asset("text/javascript", include_str!("../assets/console.js"))))
        .route("/console/live/{page}", get(updates))
        .route("/console/act", post(act))
        .route("/console/{page}", get(show))
        .layer(middleware::map_response(keep_in))
        .with_state(console)
}

/// What every answer says to the browser.
async fn keep_in(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        // With none at all, forms of ours would come without an origin.
        (header::REFERRER_POLICY, "same-origin"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// A file that is part of the program.
async fn asset(media_type: &'static str, text: &'static str) -> Response {
    ([(header::CONTENT_TYPE, media_type)], text).into_response()
}

/// The way in: the link's secret is exchanged for a cookie and for what acts must bring, and does not stay in the
/// address. What acts must bring goes into the fragment, which browsers send to no server; the page's script keeps it.
async fn enter(State(console): State<Arc<Console>>, headers: HeaderMap, Query(query): Query<Parameters>) -> Response {
    let overview = View::of(Kind::Overview).address();
    let entry = query.get("key").and_then(|link| (console.pass.enter)(link));
    let Some((entry, cookie)) = entry.and_then(|entry| cookie(&headers, &entry).map(|cookie| (entry, cookie))) else {
        return Redirect::to(&overview).into_response();
    };
    ([(header::SET_COOKIE, cookie)], Redirect::to(&format!("{overview}#act={}", entry.act))).into_response()
}

/// No other site's page has it sent along, no script reads it. It bears the port's number: browsers do not tell ports
/// apart.
fn cookie(headers: &HeaderMap, entry: &Entry) -> Option<HeaderValue> {
    let port = headers.get(header::HOST)?.to_str().ok()?.rsplit(':').next()?.parse::<u16>().ok()?;
    let Entry { cookie, seconds, .. } = entry;
    let value = format!("groupage-{port}={cookie}; HttpOnly; SameSite=Strict; Path={ROOT}; Max-Age={seconds}");
    HeaderValue::from_str(&value).ok()
}

type Parameters = BTreeMap<String, String>;

async fn show(
    State(console): State<Arc<Console>>,
    Path(page): Path<String>,
    Query(parameters): Query<Parameters>,
) -> Response {
    let Some(view) = View::new(&page, parameters) else {
        let page = Page::trouble(StatusCode::NOT_FOUND, "there is no such page");
        return respond(&page, &View::of(Kind::Overview), &console);
    };
    match pages::show(&console, &view).await {
        Shown::Page(page) => respond(&page, &view, &console),
        Shown::Elsewhere(view) => Redirect::to(&view.address()).into_response(),
    }
}

/// An act: what it will touch, or what it came to.
async fn act(State(console): State<Arc<Console>>, Form(fields): Form<acts::Fields>) -> Response {
    let page = acts::act(&console, &fields).await;
    respond(&page, &View::of(Kind::Overview), &console)
}

fn respond(page: &Page, view: &View, console: &Console) -> Response {
    (page.status, Html(page.document(view, &console.name).into_string())).into_response()
}

/// What a page shows, whenever that has changed.
async fn updates(
    State(console): State<Arc<Console>>,
    Path(page): Path<String>,
    Query(parameters): Query<Parameters>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, StatusCode> {
    let view = View::new(&page, parameters).ok_or(StatusCode::NOT_FOUND)?;
    let watched = console.watched.clone();
    let shown = watched.watch(view, move |view| {
        let console = Arc::clone(&console);
        async move {
            match pages::show(&console, &view).await {
                Shown::Page(page) => page.live.into_string(),
                Shown::Elsewhere(_) => String::new(),
            }
        }
    });
    let events = stream::unfold(shown, |mut shown| async move {
        shown.changed().await.ok()?;
        let live = shown.borrow_and_update().to_string();
        Some((Ok(Event::default().data(live)), shown))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cookie_is_for_this_port_and_for_no_other_site_or_script() {
        let entry = Entry { cookie: "secret".to_owned(), act: String::new(), seconds: 60 };
        let headers = HeaderMap::from_iter([(header::HOST, HeaderValue::from_static("127.0.0.1:8080"))]);
        let cookie = cookie(&headers, &entry).unwrap();
        assert_eq!(cookie, "groupage-8080=secret; HttpOnly; SameSite=Strict; Path=/console; Max-Age=60");
        assert_eq!(super::cookie(&HeaderMap::new(), &entry), None);
    }

    #[tokio::test]
    async fn no_answer_runs_a_script_of_somebody_elses() {
        let answer = keep_in("x".into_response()).await;
        let policy = answer.headers()[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(
            policy.starts_with("default-src 'none'") && !policy.contains("unsafe") && !policy.contains('*'),
            "{policy}"
        );
    }
}
