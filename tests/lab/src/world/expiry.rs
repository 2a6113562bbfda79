//! Records that expire while a world runs, some of them long after they are due.

use super::World;
use crate::prelude::*;
use crate::setting::Expires;

/// How often what is due is deleted, in milliseconds.
const LOOK_MS: u64 = 60_000;

impl World {
    pub(super) async fn expire_for_ever(&self, expires: Expires) {
        loop {
            self.env.sleep(LOOK_MS).await;
            let held = self.held();
            self.store.forget(&self.tables().expire(self.env.now(), || self.env.chance(expires.late)));
            let still = self.held();
            for scope in held.iter().filter(|scope| !still.contains(scope)) {
                self.store.inner().note(format!("limits hold: it expired that a person holds {scope:?}"));
            }
        }
    }

    fn held(&self) -> Vec<Scope> {
        let gates = self.tables().gates().into_iter();
        gates.filter(|(_, gate)| gate.pauses.all.is_some()).map(|(scope, _)| scope).collect()
    }
}
