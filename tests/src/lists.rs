//! Handing lists through to the store inside: what wraps a store and says nothing of lists.

/// Implements `Lists` by the store in a field.
macro_rules! hand_lists_through {
    ([$($generics:tt)*] $store:ty, $inner:ident) => {
        impl<$($generics)*> shared::ports::Lists for $store {
            async fn list(
                &self,
                id: &shared::domain::id::ListId,
            ) -> shared::ports::Result<Option<shared::domain::list::List>> {
                self.$inner.list(id).await
            }

            async fn put_on_list(
                &self,
                put: &shared::domain::list::Put,
            ) -> shared::ports::Result<shared::ports::PutOn> {
                self.$inner.put_on_list(put).await
            }

            async fn additions(
                &self,
                life: &shared::domain::list::Life,
                keys: &[String],
            ) -> shared::ports::Result<Vec<shared::domain::list::Addition>> {
                self.$inner.additions(life, keys).await
            }

            async fn move_head(
                &self,
                life: &shared::domain::list::Life,
                next: &shared::domain::list::Move,
            ) -> shared::ports::Result<shared::ports::Moved> {
                self.$inner.move_head(life, next).await
            }

            async fn record(
                &self,
                life: &shared::domain::list::Life,
                key: &str,
            ) -> shared::ports::Result<Option<shared::domain::list::Record>> {
                self.$inner.record(life, key).await
            }

            async fn store_record(
                &self,
                life: &shared::domain::list::Life,
                record: &shared::domain::list::Record,
                now: shared::domain::time::Timestamp,
            ) -> shared::ports::Result<shared::ports::Stored> {
                self.$inner.store_record(life, record, now).await
            }

            async fn slots(
                &self,
                life: &shared::domain::list::Life,
                from: shared::domain::id::Token,
                to: shared::domain::id::Token,
                limit: usize,
            ) -> shared::ports::Result<Vec<shared::domain::list::Slot>> {
                self.$inner.slots(life, from, to, limit).await
            }

            async fn remove_slots(
                &self,
                life: &shared::domain::list::Life,
                tokens: &[shared::domain::id::Token],
            ) -> shared::ports::Result<()> {
                self.$inner.remove_slots(life, tokens).await
            }

            async fn store_tail(
                &self,
                tail: &shared::domain::list::Tail,
            ) -> shared::ports::Result<shared::ports::Stored> {
                self.$inner.store_tail(tail).await
            }

            async fn due_lists(
                &self,
                part: shared::domain::id::Part,
                before: shared::domain::time::Timestamp,
                limit: usize,
            ) -> shared::ports::Result<Vec<shared::domain::id::ListId>> {
                self.$inner.due_lists(part, before, limit).await
            }

            async fn clear_list(
                &self,
                id: &shared::domain::id::ListId,
            ) -> shared::ports::Result<shared::ports::Cleared> {
                self.$inner.clear_list(id).await
            }

            async fn remove_list(
                &self,
                tail: &shared::domain::list::Tail,
            ) -> shared::ports::Result<shared::ports::Stored> {
                self.$inner.remove_list(tail).await
            }
        }
    };
}
use shared::ports::{Env, Lists};

use crate::lag::Lagging;
use crate::witness::Witness;

hand_lists_through!([S: Lists, E: Env] Lagging<S, E>, inner);
hand_lists_through!([] Witness, tables);
