//! Whether the tables keep what they should, and no longer.

use crate::finding::{Check, Finding, Found, findings};
use crate::seen::Seen;

/// The attribute by which items expire.
const TTL: &str = "Ttl";

pub(super) fn expiry(seen: &Seen) -> Vec<Finding> {
    let expiring = seen.tables.iter().filter(|table| table.expires);
    let found = expiring.map(|table| {
        let found = match &table.expires_by {
            Err(unread) => unread.into(),
            Ok(by) => Found::well_if(by.as_deref() == Some(TTL), || {
                let todo =
                    "turn time to live on for the attribute Ttl, as template.yaml does: the table grows for ever";
                match by {
                    Some(by) => Found::wrong(format!("items expire by `{by}`, which none has"), todo),
                    None => Found::wrong("nothing in it expires", todo),
                }
            }),
        };
        (table.name, found)
    });
    findings(Check::Expiry, "what is settled expires", found)
}

/// `None` where no table can be restored, on a machine of one's own.
pub(super) fn recovery(seen: &Seen) -> Option<Vec<Finding>> {
    let kept = seen.tables.iter().filter_map(|table| Some((table.name, table.is_recoverable.as_ref()?)));
    let found: Vec<_> = kept
        .map(|(name, is_recoverable)| {
            let found = match is_recoverable {
                Err(unread) => unread.into(),
                Ok(is_on) => Found::well_if(*is_on, || {
                    Found::wrong(
                        "it cannot be restored to an earlier second",
                        "turn point-in-time recovery on, as template.yaml does",
                    )
                }),
            };
            (name, found)
        })
        .collect();
    (!found.is_empty()).then(|| findings(Check::Recovery, "each table can be restored to any second", found))
}
