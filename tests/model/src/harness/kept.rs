//! Values with a fingerprint that is computed once, so that a state of many of them is cheap to compare and to store.

use std::fmt::{self, Debug, Write};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// Which fresh names occur somewhere: a bit for each, see [`fresh_name`].
pub type Names = u32;

/// Names that the model gives out; no more are ever in use at once.
pub const NAMES: u8 = 32;

/// The `n`-th fresh name. It can be recognised inside any value that was made from it.
pub fn fresh_name(n: u8) -> String {
    format!("~{}", char::from(b'A' + n % NAMES))
}

/// A value that is shared and compared by its fingerprint: a hash over all that its debug form shows.
pub struct Kept<T>(Arc<Inner<T>>);

struct Inner<T> {
    fingerprint: u64,
    names: Names,
    value: T,
}

impl<T: Debug> Kept<T> {
    /// Keeps a value.
    pub fn new(value: T) -> Self {
        let (fingerprint, names) = fingerprint(&value);
        Self(Arc::new(Inner { fingerprint, names, value }))
    }
}

impl<T> Kept<T> {
    /// The value's fingerprint.
    pub fn fingerprint(&self) -> u64 {
        self.0.fingerprint
    }

    /// The fresh names that occur in it.
    pub fn names(&self) -> Names {
        self.0.names
    }
}

/// A hash over a value's debug form, and the fresh names that occur in it.
pub fn fingerprint(value: &impl Debug) -> (u64, Names) {
    let mut reader = Reader { hasher: DefaultHasher::new(), names: 0 };
    // Writing into a hasher cannot fail.
    let _ = write!(reader, "{value:?}");
    (reader.hasher.finish(), reader.names)
}

struct Reader {
    hasher: DefaultHasher,
    names: Names,
}

impl Write for Reader {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let bytes = text.as_bytes();
        self.hasher.write(bytes);
        for pair in bytes.windows(2) {
            if let [b'~', letter] = pair {
                self.names |= 1 << (letter.wrapping_sub(b'A') % NAMES);
            }
        }
        Ok(())
    }
}

impl<T> Clone for Kept<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Deref for Kept<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.value
    }
}

impl<T> Hash for Kept<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.fingerprint);
    }
}

impl<T> PartialEq for Kept<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0.fingerprint == other.0.fingerprint
    }
}

impl<T> Eq for Kept<T> {}

impl<T: Debug> Debug for Kept<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.value.fmt(f)
    }
}
