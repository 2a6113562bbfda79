//! What a request to a table is about: the limits go by it, and the price.

use groupage_aws::Place;

/// One item that a write is about, and its entry in the table's index, for the limits of their partitions.
#[derive(Clone, Copy, Debug)]
pub struct Keys<'a> {
    place: Place,
    item: &'a str,
    entry: Option<&'a str>,
}

impl<'a> Keys<'a> {
    /// An item of a table by its key, and its entry's key.
    pub const fn of(place: Place, item: &'a str, entry: Option<&'a str>) -> Self {
        Self { place, item, entry }
    }

    pub(crate) const fn place(&self) -> Place {
        self.place
    }

    pub(crate) const fn item(&self) -> &'a str {
        self.item
    }

    pub(crate) const fn entry(&self) -> Option<&'a str> {
        self.entry
    }
}
