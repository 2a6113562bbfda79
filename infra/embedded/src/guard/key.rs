//! The key of a stack, and the passes that follow from it: what a browser brings instead, for one purpose and a while.

use std::{fmt, sync::Arc};

use groupage_core::domain::Timestamp;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// What a program must know to speak to a stack.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(Arc<str>);

/// What a pass opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opens {
    /// The console's first page, which gives the other two for it: the pass in the link.
    Console,
    /// Its pages: the pass in the cookie. Browsers send a cookie to all ports of a host.
    Pages,
    /// Its acts: the pass that a page's script keeps, which browsers give to no other port.
    Acts,
}

impl Key {
    /// Hex digits of a random key.
    pub(crate) const CHARACTERS: usize = 32;

    /// A new one that nobody can guess.
    pub fn random() -> Self {
        Self::from(uuid::Uuid::new_v4().simple().to_string())
    }

    /// As it is written into files and sent.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// A pass that ends at `until`. Nobody can tell the key, or another pass, from it.
    pub fn pass(&self, opens: Opens, until: Timestamp) -> String {
        let digest =
            Sha256::new().chain_update(format!("{opens:?} {}\0", until.0)).chain_update(self.reveal()).finalize();
        let secret: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        format!("{}-{secret}", until.0)
    }

    /// Whether this is a pass of the key's for `opens` that has not ended.
    pub fn admits(&self, opens: Opens, brought: &str, now: Timestamp) -> bool {
        let until = brought.split_once('-').and_then(|(until, _)| until.parse().ok().map(Timestamp));
        until.is_some_and(|until| now < until && is_same(brought, &self.pass(opens, until)))
    }

    /// Whether somebody brought it.
    pub(super) fn is(&self, brought: &str) -> bool {
        is_same(brought, self.reveal())
    }
}

/// Compares in a time that does not depend on where they differ.
fn is_same(brought: &str, secret: &str) -> bool {
    brought.as_bytes().ct_eq(secret.as_bytes()).into()
}

impl From<String> for Key {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Key(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_opens_one_thing_until_its_end() {
        let (key, until) = (Key::from("secret".to_owned()), Timestamp(1_000));
        let pass = key.pass(Opens::Pages, until);
        assert!(key.admits(Opens::Pages, &pass, Timestamp(999)));
        assert!(!key.admits(Opens::Pages, &pass, until), "it has ended");
        for opens in [Opens::Console, Opens::Acts] {
            assert!(!key.admits(opens, &pass, Timestamp(0)), "{opens:?}");
        }
        let longer = pass.replacen("1000", "2000", 1);
        for wrong in [longer.as_str(), "", "-", "1000-", "secret", &pass[1..]] {
            assert!(!key.admits(Opens::Pages, wrong, Timestamp(0)), "{wrong}");
        }
        assert!(!Key::from("other".to_owned()).admits(Opens::Pages, &pass, Timestamp(0)));
    }

    #[test]
    fn a_key_is_not_printed_by_accident() {
        let key = Key::random();
        assert!(!format!("{key:?}").contains(key.reveal()));
        assert_eq!(key.reveal().len(), Key::CHARACTERS);
    }
}
