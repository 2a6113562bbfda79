//! The workers: who has a session, until when, and what it has claimed.

use anyhow::Result;
use groupage_aws::{Dynamo, System};
use groupage_core::domain::{BatchId, Pool, Session, SessionId, Timestamp};
use groupage_core::ports::{Env, Sessions};
use groupage_core::routes::Routes;
use serde::Serialize;

use crate::output::{Output, summary};

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
    output.result(&shown, || {
        if shown.is_empty() { "nobody works".to_owned() } else { summary(shown.iter().map(|one| one.row(now))) }
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
    fn row(&self, now: Timestamp) -> (&str, String) {
        let left_s = Timestamp(self.expires_at_ms).since(now) as f64 / 1e3;
        let until = if self.expired { "expired".to_owned() } else { format!("expires in {left_s:.1} s") };
        let claims = match self.claims.as_slice() {
            [] => "no claims".to_owned(),
            claims => claims.iter().map(BatchId::as_str).collect::<Vec<_>>().join(" "),
        };
        (self.worker.as_str(), format!("{}  {until}  {claims}", self.works_on))
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
        assert_eq!(handler.row(Timestamp(500)), ("host/7", "handlers  expires in 4.5 s  b1".to_owned()));
        let worker = shown(session(SessionId::new("labels/x")), Timestamp(5_000));
        assert_eq!(worker.row(Timestamp(5_000)).1, "labels  expired  b1");
    }
}
