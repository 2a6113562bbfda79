//! The versions of the routes file: who put which in force, and when.

use groupage_aws::StoredRoutes;
use maud::{Markup, html};

use crate::backend::{Trouble, Visit};
use crate::page::{id, table, text, time};

/// Versions that are listed.
const LISTED: u64 = 10;
/// Of a digest, as much as is shown.
const DIGITS: usize = 12;

/// The one in force and those before it, as many as the page may read: each is read with its file.
pub async fn show(visit: &Visit<'_>, now: StoredRoutes) -> Result<Markup, Trouble> {
    let (mut versions, mut spending) = (Vec::new(), visit.spending(0.0));
    let mut before = (now.version.saturating_sub(LISTED)..now.version).rev();
    versions.push(now);
    while spending.affords_one()
        && let Some(version) = before.next()
    {
        // The first have no former ones.
        versions.extend(visit.routes_of(version).await?);
    }
    let rows = versions.iter().map(|version| row(visit, version)).collect();
    Ok(html! {
        (table("Versions", &["version", "pushed", "by", "digest", "again"], rows, ""))
        p.note {
            "To go back: " code { "groupage push --rollback=VERSION" }
            @if spending.ran_out() { ". Older ones: " code { "groupage push --history" } }
        }
    })
}

fn row(visit: &Visit<'_>, stored: &StoredRoutes) -> Vec<Markup> {
    let digest: String = stored.digest.chars().take(DIGITS).collect();
    vec![
        html! { (stored.version) },
        time(stored.pushed_at, visit.now),
        html! { (text(stored.pushed_by.as_deref().unwrap_or("unknown"))) },
        id(&digest),
        html! { @if let Some(version) = stored.restores { "version " (version) } },
    ]
}
