//! Queries: items of one partition of a table, or of one of its indexes, in the order of their sort keys.

use aws_sdk_dynamodb::types::ReturnConsumedCapacity;
use futures::FutureExt;
use groupage_core::ports::{Entries, Entry, Freshness, Look, Result, Segment};

use crate::dynamo::expression::{Clause, Terms};
use crate::dynamo::item::{Item, nonsense, number, text, text_in};
use crate::dynamo::position::{keys_at, position_of};
use crate::dynamo::{Dynamo, Key};
use crate::fault::failed;
use crate::meter::Place;

/// A page of a query.
pub(crate) struct Query<'a> {
    /// What is looked for, for errors.
    what: &'static str,
    /// The table; the partition, and the first sort key if it matters.
    key: Key<'a>,
    index: Option<&'static str>,
    /// What the key condition says of the sort key.
    sort: Option<Clause>,
    /// The only attributes that are wanted, if not all are.
    only: &'static [&'static str],
    after: Option<Item>,
    /// Whether the items come from the last to the first.
    backwards: bool,
    freshness: Freshness,
    limit: usize,
}

impl<'a> Query<'a> {
    /// The first items of a partition.
    pub(crate) const fn of(what: &'static str, key: Key<'a>, limit: usize) -> Self {
        let (backwards, freshness) = (false, Freshness::Eventual);
        Self { what, key, index: None, sort: None, only: &[], after: None, backwards, freshness, limit }
    }

    /// Of an index, which lags behind its table.
    pub(crate) fn by(self, index: &'static str) -> Self {
        Self { index: Some(index), ..self }
    }

    /// Only those of which this holds.
    pub(crate) fn only_if(self, sort: Clause) -> Self {
        Self { sort: Some(sort), ..self }
    }

    /// From the last to the first.
    pub(crate) fn backwards(self) -> Self {
        Self { backwards: true, ..self }
    }

    /// From where another page ended.
    pub(crate) fn after(self, after: Option<Item>) -> Self {
        Self { after, ..self }
    }
}

/// Items of a table, or of one of its indexes, in no order.
pub(crate) struct Scan<'a> {
    /// What is looked for, for errors.
    pub(crate) what: &'static str,
    pub(crate) table: &'a str,
    pub(crate) place: Place,
    pub(crate) index: Option<&'static str>,
    /// The only part that is read, if not all is.
    pub(crate) segment: Option<Segment>,
    /// Conditions on the items that are wanted.
    pub(crate) filter: &'a [Clause],
    /// The only attributes that are wanted, if not all are.
    pub(crate) only: &'static [&'static str],
    pub(crate) after: Option<Item>,
    pub(crate) freshness: Freshness,
    pub(crate) limit: Option<usize>,
}

impl<'a> Scan<'a> {
    /// All items; may miss the latest writes.
    pub(crate) fn of(what: &'static str, table: &'a str, place: Place) -> Self {
        let (index, segment, after, limit) = (None, None, None, None);
        Self {
            what,
            table,
            place,
            index,
            segment,
            filter: &[],
            only: &[],
            after,
            freshness: Freshness::Eventual,
            limit,
        }
    }
}

impl Dynamo {
    /// Returns a page of a scan, and where the next one begins.
    pub(crate) async fn scanned(&self, scan: Scan<'_>) -> Result<(Vec<Item>, Option<Item>)> {
        let Scan { what, table, place, index, segment, filter, only, after, freshness, limit } = scan;
        let mut terms = Terms::default();
        let filter = (!filter.is_empty()).then(|| terms.condition(filter));
        let only = terms.projection(only);
        let (names, values) = terms.into_parts();
        let output = self
            .client
            .scan()
            .table_name(table)
            .set_index_name(index.map(str::to_owned))
            .set_segment(segment.map(|segment| i32::from(segment.index)))
            .set_total_segments(segment.map(|segment| i32::from(segment.of)))
            .set_filter_expression(filter)
            .set_projection_expression(only)
            .set_expression_attribute_names(names)
            .set_expression_attribute_values(values)
            .consistent_read(freshness == Freshness::Latest)
            .set_limit(limit.map(page_size))
            .set_exclusive_start_key(after)
            .return_consumed_capacity(ReturnConsumedCapacity::Indexes)
            .send()
            .boxed()
            .await
            .map_err(|error| failed(what, error))?;
        self.meter.count_read(place, output.consumed_capacity());
        Ok((output.items.unwrap_or_default(), output.last_evaluated_key))
    }

    /// A page's items, and where the next one begins.
    pub(crate) async fn query(&self, query: Query<'_>) -> Result<(Vec<Item>, Option<Item>)> {
        let Query { what, key, index, sort, only, after, backwards, freshness, limit } = query;
        let mut terms = Terms::default();
        let keys: Vec<Clause> = [Clause::Equals(key.attribute, text(key.id))].into_iter().chain(sort).collect();
        let condition = terms.condition(&keys);
        let only = terms.projection(only);
        let (names, values) = terms.into_parts();
        let output = self
            .client
            .query()
            .table_name(key.table)
            .set_index_name(index.map(str::to_owned))
            .key_condition_expression(condition)
            .set_projection_expression(only)
            .set_expression_attribute_names(names)
            .set_expression_attribute_values(values)
            .consistent_read(freshness == Freshness::Latest)
            .scan_index_forward(!backwards)
            .limit(page_size(limit))
            .set_exclusive_start_key(after)
            .return_consumed_capacity(ReturnConsumedCapacity::Indexes)
            .send()
            .boxed()
            .await
            .map_err(|error| failed(what, error))?;
        self.meter.count_read(key.place, output.consumed_capacity());
        Ok((output.items.unwrap_or_default(), output.last_evaluated_key))
    }

    /// Up to `limit` items whose sort keys lie between that of `from` and `last`, both included, the first ones. None
    /// come only if there are none: a page of a query ends at a megabyte, and no item is that large.
    pub(crate) async fn range(
        &self,
        what: &'static str,
        (from, last): (Key<'_>, &str),
        limit: usize,
        freshness: Freshness,
    ) -> Result<Vec<Item>> {
        let query = Query { sort: between(&from, last), freshness, ..Query::of(what, from, limit) };
        Ok(self.query(query).await?.0)
    }

    /// The same, of each item only these attributes, which are its key.
    pub(crate) async fn keys_in(
        &self,
        what: &'static str,
        (from, last): (Key<'_>, &str),
        only: &'static [&'static str],
        limit: usize,
    ) -> Result<Vec<Item>> {
        let sort = between(&from, last);
        let query = Query { sort, only, freshness: Freshness::Latest, ..Query::of(what, from, limit) };
        Ok(self.query(query).await?.0)
    }

    /// The ids of up to `limit` entries of a sparse index that are due before `before` and come `after` that one, those
    /// that have been so for longest first. The index holds keys only, and lags behind its table.
    pub(crate) async fn due<Id>(
        &self,
        what: &'static str,
        part: Key<'_>,
        (index, id, named): (&'static str, &'static str, fn(String) -> Id),
        look: Look<'_>,
    ) -> Result<Entries<Id>> {
        let due = Clause::Below("Due", number(look.before.0));
        let query = Query::of(what, part, look.limit).by(index).only_if(due);
        let query = query.after(look.after.map(keys_at).transpose()?);
        let (found, next) = self.query(query).await?;
        let entry = |item: Item| Ok(Entry { what: named(id_of(what, &item, id)?), at: position_of(&item)? });
        Ok(Entries { found: found.into_iter().map(entry).collect::<Result<_>>()?, are_last: next.is_none() })
    }

    /// The ids in a page of an index.
    pub(crate) async fn ids(&self, query: Query<'_>, id: &'static str) -> Result<Vec<String>> {
        let what = query.what;
        self.query(query).await?.0.iter().map(|item| id_of(what, item, id)).collect()
    }
}

fn id_of(what: &'static str, item: &Item, id: &'static str) -> Result<String> {
    text_in(item, id).map(str::to_owned).ok_or_else(|| nonsense(what, "", id, "is missing, or no text"))
}

/// How many items a page has, as a request wants it.
fn page_size(limit: usize) -> i32 {
    i32::try_from(limit.max(1)).unwrap_or(i32::MAX)
}

fn between(from: &Key<'_>, last: &str) -> Option<Clause> {
    from.sort.map(|(sort, from)| Clause::Between(sort, text(from), text(last)))
}
