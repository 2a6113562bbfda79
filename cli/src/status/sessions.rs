//! The workers: who has a session, until when, and what it has claimed.

use anyhow::Result;
use groupage_aws::{Dynamo, System};
use groupage_console::words::moment;
use groupage_core::domain::{BatchId, Pool, Session, SessionId, Timestamp};
use groupage_core::ports::{Env, Sessions};
use groupage_core::routes::Routes;
use serde::Serialize;

use crate::output::Output;
use crate::sheet::{Cell, Sheet, Tone};

#[derive(Serialize)]
struct Shown {
    worker: String,
    /// `handlers`, or the route whose batches it pulls.
    works_on: String,
    session: SessionId,
    expires_at_ms: u64,
    /// Others may take its claims over.
    expired: bool,
    claims: Vec<BatchId>,
}

/// This many sessions of one pool are shown.
const MOST: usize = 1_000;

/// Prints all sessions: those of the batch-handler, then those of each route that is pulled.
pub async fn show(store: &Dynamo, routes: Option<&Routes>, output: &Output) -> Result<()> {
    let pulled = routes.into_iter().flat_map(Routes::iter).filter(|route| route.is_pulled());
    let mut found = Vec::new();
    for pool in Pool::of_handlers().chain(pulled.map(|route| Pool::of_route(&route.name))) {
        found.extend(store.sessions(&pool, None, MOST).await?.all());
    }
    let now = System.now();
    let shown: Vec<Shown> = found.into_iter().map(|session| shown(session, now)).collect();
    output.sheet(&shown, || {
        if shown.is_empty() {
            return Sheet::line("nobody works");
        }
        Sheet::table(
            "",
            &["worker", "works on", "trusted until", "claims"],
            shown.iter().map(|one| one.row(now)).collect(),
        )
    });
    Ok(())
}

fn shown(session: Session, now: Timestamp) -> Shown {
    let pool = session.id.pool();
    let works_on = if pool.as_str().starts_with('#') { "handlers" } else { pool.as_str() }.to_owned();
    Shown {
        worker: session.worker,
        works_on,
        session: session.id,
        expires_at_ms: session.expires_at.0,
        expired: session.expires_at <= now,
        claims: session.claims,
    }
}

impl Shown {
    fn row(&self, now: Timestamp) -> Vec<Cell> {
        let until = moment(Timestamp(self.expires_at_ms), now);
        let until = if self.expired { Cell::new(format!("expired {until}"), Tone::Bad) } else { until.into() };
        let claims = match self.claims.as_slice() {
            [] => "none".to_owned(),
            claims => claims.iter().map(BatchId::as_str).collect::<Vec<_>>().join("\n"),
        };
        vec![self.worker.as_str().into(), self.works_on.as_str().into(), until, claims.into()]
    }
}

#[cfg(test)]
mod tests {
    use groupage_core::domain::session::Timing;

    use super::*;

    #[test]
    fn a_session_shows_who_it_is_and_what_it_holds() {
        let claims = vec![BatchId::new("b1")];
        let session = |id| Session::open(id, "host/7".to_owned(), claims.clone(), Timestamp(0), Timing::default());
        let handler = shown(session(SessionId::of_handler("x")), Timestamp(500));
        let until = "in 4.5 s (1970-01-01T00:00:05.000Z)".into();
        assert_eq!(handler.row(Timestamp(500)), ["host/7".into(), "handlers".into(), until, "b1".into()]);
        let worker = shown(session(SessionId::new("labels/x")), Timestamp(5_000));
        let until = Cell::new("expired just now (1970-01-01T00:00:05.000Z)", Tone::Bad);
        assert_eq!(worker.row(Timestamp(5_000))[1..3], ["labels".into(), until]);
    }
}
