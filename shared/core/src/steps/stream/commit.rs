//! Reading the watermark off the bits, writing it down, and telling it.

use super::Streaming;
use crate::domain::notice::{self, NotificationQueue};
use crate::domain::stream::{Bits, Count, Life, MAX_FED, Offset, Run, State, Stream, Watermark, path};
use crate::domain::tracker::{MAX_LEVEL, NodeId, Place};
use crate::ports::{Destination, Env, Outbox, Outgoing, Stored, Streams, send_all};
use crate::steps::Error;
use crate::steps::cas::Tries;

/// Nodes counted, or dropped, at once.
const NODES: usize = 100;

/// When a commit is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// If it is time.
    Due,
    /// At once.
    Now,
}

impl<S: Streams, Q: Outbox, E: Env> Streaming<'_, S, Q, E> {
    /// Commits what is settled, and tells it; the stream as it is then. Somebody else may do so at the same time: one
    /// of both does.
    pub(super) async fn commit(&self, mut stream: Stream, when: When) -> Result<Stream, Error> {
        let mut tries = Tries::of("committing a watermark", self.env);
        loop {
            let life = stream.life.clone();
            let reached = self.reach(&stream).await?;
            let now = self.env.now();
            if when == When::Due && !stream.may_commit(reached, now) {
                return Ok(stream);
            }
            let before = stream.watermark.number;
            let (settled, failed) = self.count(&stream).await?;
            if let Some(offset) = self.offset_before(&stream, reached).await? {
                let found = Watermark { number: reached, offset, settled, failed, at: now };
                let Some(next) = stream.reached(found) else {
                    if when == When::Now {
                        // The process that committed that may have died before it did this.
                        self.forget(&life, 0, before).await?;
                    }
                    return self.tell(stream).await;
                };
                if self.store.commit(&next).await? == Stored::Yes {
                    self.forget(&life, before, next.watermark.number).await?;
                    return self.tell(next).await;
                }
            }
            tries.give_way().await?;
            match self.store.stream(&life.id).await? {
                Some(now) if now.life == life => stream = now,
                Some(_) | None => return Ok(stream),
            }
        }
    }

    /// The end of the leading run of settled events. Nodes that are full and not reported are reported on the way.
    pub(super) async fn reach(&self, stream: &Stream) -> Result<u64, Error> {
        let mut at = stream.watermark.number;
        while at < stream.next
            && let Some(path) = path(at)
        {
            let bits = self.store.see(&stream.life, &path).await?.bits;
            match bits.run(at) {
                Run::Stops(number) => return Ok(number.min(stream.next)),
                Run::Goes(number) => at = number,
                Run::Full(id) => self.report(&stream.life, bits.node(id)).await?,
            }
        }
        Ok(at.min(stream.next))
    }

    /// How many events are settled, and how many of them failed.
    pub(super) async fn count(&self, stream: &Stream) -> Result<(u64, u64), Error> {
        let mut count = Count::default();
        for level in (0..=MAX_LEVEL).rev() {
            // Groups before the watermark's are reported all, or were made anew by somebody late.
            let first = if level == 0 { Place::of(stream.watermark.number).map_or(0, |place| place.group) } else { 0 };
            let mut from = Some(NodeId { level, index: first });
            while let Some(id) = from {
                let nodes = self.store.stream_nodes(&stream.life, id, NODES).await?;
                from = nodes.last().and_then(|last| Some(NodeId { level, index: last.id.index.checked_add(1)? }));
                nodes.into_iter().for_each(|node| count.add(node));
            }
        }
        Ok((count.settled, count.failed))
    }

    /// The offset of the event before this number; `None` if it is not to be found: then more is settled by now, or
    /// somebody else has committed it.
    async fn offset_before(&self, stream: &Stream, number: u64) -> Result<Option<Option<Offset>>, Error> {
        if number == stream.watermark.number {
            return Ok(Some(stream.watermark.offset.clone()));
        }
        if number == stream.next {
            return Ok(Some(stream.last.clone()));
        }
        let first = number.saturating_sub(MAX_FED as u64);
        let pages = self.store.pages(&stream.life, first, number, MAX_FED).await?;
        let trace = pages.iter().rev().find_map(|page| page.trace(number.checked_sub(1)?));
        Ok(trace.map(|trace| Some(trace.offset.clone())))
    }

    /// Drops what is not needed any more after the watermark rose: pages before it, and groups that somebody late made
    /// anew. A process that dies before leaves it to the next, or to sweep.
    async fn forget(&self, life: &Life, before: u64, reached: u64) -> Result<(), Error> {
        let (Some(old), Some(new)) = (Place::of(before), Place::of(reached)) else { return Ok(()) };
        self.drop_pages(life, (0, reached), |page| page.end() <= reached).await?;
        if old.group < new.group {
            let above = Place::of(u64::from(new.group)).map_or(0, |place| place.group);
            // All of them are reported: the watermark has passed them.
            self.drop_nodes(life, 0, |id| id.index < new.group).await?;
            self.drop_nodes(life, 1, |id| id.index < above).await?;
        }
        Ok(())
    }

    /// Drops the first nodes of a level, as long as this holds of them.
    pub(super) async fn drop_nodes(
        &self,
        life: &Life,
        level: u8,
        is_over: impl Fn(&NodeId) -> bool,
    ) -> Result<(), Error> {
        loop {
            let nodes = self.store.stream_nodes(life, NodeId { level, index: 0 }, NODES).await?;
            let over: Vec<NodeId> = nodes.iter().map(|node| node.id).filter(&is_over).collect();
            if over.is_empty() {
                return Ok(());
            }
            self.store.drop_nodes(life, &over).await?;
        }
    }

    /// Tells the last commit, unless that is done. A queue that does not answer keeps nobody waiting: sweep tells it
    /// then.
    pub(super) async fn tell(&self, stream: Stream) -> Result<Stream, Error> {
        Ok(self.tell_now(&stream).await.unwrap_or(stream))
    }

    /// Tells the last commit, unless that is done, and writes down that it is.
    pub(super) async fn tell_now(&self, stream: &Stream) -> Result<Stream, Error> {
        if stream.is_told || stream.options.notify == NotificationQueue::None {
            return Ok(stream.clone());
        }
        let to = Destination::Notification(stream.options.notify.clone());
        send_all(self.outbox, vec![Outgoing::json(to, &notice::of_stream(stream), 0)]).await?;
        let told = stream.told();
        match self.store.commit(&told).await? {
            Stored::Yes => Ok(told),
            // Another commit came in between, and tells itself.
            Stored::Conflict => Ok(stream.clone()),
        }
    }

    /// Whether an event is settled.
    pub(super) fn is_settled(stream: &Stream, bits: &Bits, number: u64) -> bool {
        number < stream.watermark.number || stream.state == State::Completed || bits.is_settled(number)
    }
}
