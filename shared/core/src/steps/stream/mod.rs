//! Streams: opened, fed in the source's order, settled in any, and committed as far as all is settled.
//!
//! Every call may be repeated. Numbers are given together with what tells a repeat (one transaction), then the events
//! are sent: a feeder that dies in between feeds the same again, from the watermark on, and what is settled is not sent
//! again. Settling sets bits, and says so upwards when a node is full; what a process that dies in between left undone
//! is done by the next that looks there: a repeat, a commit, or sweep ([`look_after`](Streaming::look_after)). The
//! watermark is read off the bits, so nothing is lost with a commit that was not made.

mod ack;
mod commit;
mod feed;
mod look_after;
mod report;

use super::cas::{self, Tries, handle, unless_refused};
use crate::domain::id::StreamId;
use crate::domain::stream::{Ending, Options, State, Stream};
use crate::ports::{Env, Outbox, Stored, StreamOpened, Streams};

pub use feed::{Event, Fed};
pub use look_after::Report;

handle! {
    /// Streams, over their ports.
    Streaming
}

/// A call that can never succeed as things are. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// There is no such stream (any more).
    #[error("no stream `{0}` is known: open it first; those that are over are forgotten after their retention time")]
    Unknown(StreamId),
    /// A stream with this name was opened with other options.
    #[error("a stream with this name was opened with other options: feed it with the same, or take another name")]
    OpenedOtherwise,
    /// An option is out of its range.
    #[error("{0}")]
    BadOption(&'static str),
    /// No more events come.
    #[error("the stream is {}: it takes no more events", .0.word())]
    Over(State),
    /// None, or too many at once.
    #[error("1 to {} events are fed at once", crate::domain::stream::MAX_FED)]
    BadCount,
    /// A stream has no more numbers.
    #[error("a stream has at most {} events", crate::domain::stream::MAX_NUMBER)]
    TooMany,
    /// Events between the last one fed and the first of these are missing.
    #[error("the first event has number {from}, but the next is {next}: feed those in between first")]
    Gap {
        /// The first event's number.
        from: u64,
        /// The number that comes next.
        next: u64,
    },
    /// Events before the watermark are known no more.
    #[error(
        "the first event has number {from}, but all before the watermark {watermark} is settled: resume from there"
    )]
    Behind {
        /// The first event's number.
        from: u64,
        /// The watermark.
        watermark: u64,
    },
    /// An event's offset is that of the event before it.
    #[error("event {0} has the offset of the one before it")]
    SameOffset(u64),
    /// An event was fed before, with another offset or another content.
    #[error("event {0} was fed before with another offset or content: a source must not change what it has fed")]
    Changed(u64),
    /// Too many events are not settled.
    #[error(
        "the window is full: {unsettled} of the {window} events that may be unsettled are, so {room} more can be fed; \
         wait until some settle"
    )]
    WindowFull {
        /// Events that are not settled.
        unsettled: u64,
        /// The most of them.
        window: u64,
        /// How many more can be fed now.
        room: u64,
    },
}

/// The outcome of a call.
pub type Outcome<T> = cas::Outcome<T, Refused>;

impl<S: Streams, Q: Outbox, E: Env> Streaming<'_, S, Q, E> {
    /// Opens a stream, or finds it if it was opened like this before; says whether it is new.
    pub async fn open(&self, id: StreamId, options: Options) -> Outcome<(Stream, bool)> {
        if let Err(why) = options.check() {
            return Ok(Err(Refused::BadOption(why)));
        }
        let stream = Stream::open(id, options, self.env.now());
        Ok(match self.store.open_stream(&stream).await? {
            StreamOpened::New => Ok((stream, true)),
            StreamOpened::Existing(before) if before.options == stream.options => Ok((*before, false)),
            StreamOpened::Existing(_) => Err(Refused::OpenedOtherwise),
        })
    }

    /// A stream as it was committed last.
    pub async fn stream(&self, id: &StreamId) -> Outcome<Stream> {
        Ok(self.store.stream(id).await?.ok_or_else(|| Refused::Unknown(id.clone())))
    }

    /// Ends a stream, and commits what is settled. Ending it again the same way changes nothing.
    pub async fn end(&self, id: &StreamId, how: Ending) -> Outcome<Stream> {
        let mut tries = Tries::of("ending a stream", self.env);
        loop {
            let stream = unless_refused!(self.stream(id).await?);
            let ended = match (stream.state, how) {
                (State::Open, _) => {
                    let ended = stream.ended(how, self.env.now());
                    match self.store.commit(&ended).await? {
                        Stored::Yes => tries.again()?,
                        Stored::Conflict => tries.give_way().await?,
                    }
                    // Read anew: events may have been fed since it was read, and only from now on none are.
                    continue;
                }
                // Who ended it may have died before it committed what was settled.
                (State::Ended | State::Completed, Ending::Ended) | (State::Failed, Ending::Failed) => stream,
                (State::Ended | State::Completed | State::Failed, _) => return Ok(Err(Refused::Over(stream.state))),
            };
            return Ok(Ok(self.commit(ended, commit::When::Now).await?));
        }
    }

    /// Commits what is settled, however long ago the last commit was.
    pub async fn commit_now(&self, id: &StreamId) -> Outcome<Stream> {
        let stream = unless_refused!(self.stream(id).await?);
        Ok(Ok(self.commit(stream, commit::When::Now).await?))
    }

    /// Commits what is settled, if it is time.
    pub async fn commit_if_due(&self, id: &StreamId) -> Outcome<Stream> {
        let stream = unless_refused!(self.stream(id).await?);
        Ok(Ok(self.commit(stream, commit::When::Due).await?))
    }
}
