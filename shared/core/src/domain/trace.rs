//! Traces: what a task's sender says that the task belongs to, and what a batch's call does.
//!
//! A sender gives a trace context as W3C's `traceparent` has it (<https://www.w3.org/TR/trace-context/>). It is carried
//! to the notices of the task, and no decision depends on it. So a malformed one is ignored.
//!
//! A batch has tasks of many senders, so its calls are in a trace of the batch's own, with links to those of its
//! members. That trace follows from the batch's id. Each process and each attempt know it without a read or a write.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::id::{BatchId, TaskId, digest, stored_as_text};
use super::time::Timestamp;

/// The name of a trace context: as a message attribute, as an HTTP header, and as a task message's field.
pub const TRACEPARENT: &str = "traceparent";

/// A call is linked to this many of its members' traces at most.
pub const MAX_LINKS: usize = 128;

/// Bytes of a trace context of version 00.
const BYTES: usize = 55;
/// The flags that are known: whether it is sampled, and whether its trace's id is random.
const KNOWN_FLAGS: u8 = 0b11;
const SAMPLED: u8 = 0b01;

/// A trace context: a trace, a span in it, and whether the trace is sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, derive_more::Display)]
#[display("00-{trace:032x}-{span:016x}-{flags:02x}")]
#[serde(try_from = "String", into = "String")]
#[must_use]
pub struct TraceParent {
    trace: u128,
    span: u64,
    flags: u8,
}

impl TraceParent {
    /// Reads a `traceparent`. One of a later version counts as far as version 00 knows it.
    ///
    /// # Errors
    /// It is malformed.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        const WRONG: &str = "must be a W3C traceparent: 00-TRACE-SPAN-FLAGS";
        let is_hex = |part: &str| part.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
        let mut parts = text.splitn(5, '-');
        let mut next = |digits: usize| parts.next().filter(|part| part.len() == digits && is_hex(part)).ok_or(WRONG);
        let (version, trace, span, flags) = (next(2)?, next(32)?, next(16)?, next(2)?);
        // Later versions may say more behind it.
        if version == "ff" || (version == "00" && text.len() != BYTES) {
            return Err(WRONG);
        }
        let trace = u128::from_str_radix(trace, 16).map_err(|_| WRONG)?;
        let span = u64::from_str_radix(span, 16).map_err(|_| WRONG)?;
        let flags = u8::from_str_radix(flags, 16).map_err(|_| WRONG)? & KNOWN_FLAGS;
        if trace == 0 || span == 0 { Err(WRONG) } else { Ok(Self { trace, span, flags }) }
    }

    /// What follows from these texts: the trace from the first ones, the span from all.
    fn derived(of: &[&str], span: &[&str], is_sampled: bool) -> Self {
        let hash = |parts: &[&str]| u128::from_str_radix(&digest(parts), 16).unwrap_or_default().max(1);
        #[expect(clippy::cast_possible_truncation, reason = "half of a hash is a hash")]
        let span = (hash(&[of, span].concat()) as u64).max(1);
        Self { trace: hash(of), span, flags: u8::from(is_sampled) }
    }

    /// The context of a step's own span, in a trace of its own: that of a workflow, or of an event.
    pub fn of_step(step: &str, of: &str, unique: &str) -> Self {
        Self::derived(&["step", of], &[step, unique], true)
    }

    /// The context of a span within this one's trace, told apart from others by these texts.
    pub fn within(self, unique: &[&str]) -> Self {
        let parent = format!("{:016x}", self.span);
        let Self { span, .. } = Self::derived(&[&parent], unique, true);
        Self { span, ..self }
    }

    /// The trace's id.
    pub const fn trace(self) -> u128 {
        self.trace
    }

    /// The span's id.
    pub const fn span(self) -> u64 {
        self.span
    }

    /// Whether the sender keeps the trace.
    pub const fn is_sampled(self) -> bool {
        self.flags & SAMPLED != 0
    }
}

stored_as_text!(TraceParent, &'static str);

/// The trace contexts of tasks whose senders gave one.
pub type Traces = BTreeMap<TaskId, TraceParent>;

/// The trace of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallTrace {
    /// The call's own context, which goes to the downstream.
    pub context: TraceParent,
    /// The contexts of its members, up to [`MAX_LINKS`].
    pub links: Vec<TraceParent>,
    /// Members that have one, beyond these.
    pub unlinked: usize,
}

impl CallTrace {
    /// The trace of a batch's call; `None` if nobody asks for one. Some member has a trace, or somebody collects them.
    #[must_use]
    pub fn of(call: CallOf<'_>, members: impl IntoIterator<Item = TraceParent>, is_collected: bool) -> Option<Self> {
        let mut links: Vec<TraceParent> = members.into_iter().collect();
        if links.is_empty() && !is_collected {
            return None;
        }
        // Of tasks without a trace, nobody has said that it is not to be kept.
        let is_sampled = links.is_empty() || links.iter().any(|link| link.is_sampled());
        let unlinked = links.len().saturating_sub(MAX_LINKS);
        links.truncate(MAX_LINKS);
        Some(Self { context: call.context(is_sampled), links, unlinked })
    }
}

/// Which call it is.
#[derive(Clone, Copy, Debug)]
pub struct CallOf<'a> {
    /// The batch.
    pub batch: &'a BatchId,
    /// The call's key: the batch, or a part of it.
    pub key: &'a BatchId,
    /// Calls made for the batch, this one included.
    pub attempt: u32,
}

impl CallOf<'_> {
    /// Its context.
    pub fn context(self, is_sampled: bool) -> TraceParent {
        let Self { batch, key, attempt } = self;
        TraceParent::derived(&["batch", batch.as_str()], &[key.as_str(), &attempt.to_string()], is_sampled)
    }
}

/// What there is to tell of a follow-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Followed {
    /// The call whose outcome it follows.
    pub call: TraceParent,
    /// When it began and ended.
    pub took: (Timestamp, Timestamp),
    /// Members with a trace that settled: each one's context, and whether it succeeded.
    pub settled: Vec<(TaskId, TraceParent, bool)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIVEN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn given(n: u8, flags: u8) -> TraceParent {
        TraceParent::parse(&format!("00-{n:032x}-{n:016x}-{flags:02x}")).unwrap()
    }

    fn call(batch: &BatchId, attempt: u32) -> CallOf<'_> {
        CallOf { batch, key: batch, attempt }
    }

    #[test]
    fn a_context_is_read_as_w3c_has_it_and_shown_as_it_came() {
        let context = TraceParent::parse(GIVEN).unwrap();
        assert_eq!(context.to_string(), GIVEN);
        assert_eq!(
            (context.trace(), context.span()),
            (0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736, 0x00f0_67aa_0ba9_02b7)
        );
        assert!(context.is_sampled());
        assert_eq!(serde_json::from_value::<TraceParent>(GIVEN.into()).unwrap(), context);
        assert_eq!(serde_json::to_value(context).unwrap(), GIVEN);
    }

    #[test]
    fn a_later_version_counts_as_far_as_it_is_known() {
        for later in [GIVEN.replacen("00", "01", 1), format!("{}-more", GIVEN.replacen("00", "cc", 1))] {
            assert_eq!(TraceParent::parse(&later).unwrap().to_string(), GIVEN, "{later}");
        }
        let flags = GIVEN.replace("-01", "-fe");
        assert_eq!(
            TraceParent::parse(&flags).unwrap().to_string(),
            GIVEN.replace("-01", "-02"),
            "an unknown flag is off"
        );
        assert!(!TraceParent::parse(&flags).unwrap().is_sampled());
    }

    #[test]
    fn what_is_malformed_is_no_context() {
        let zero_trace = GIVEN.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32));
        let zero_span = GIVEN.replace("00f067aa0ba902b7", &"0".repeat(16));
        let (upper, long) = (GIVEN.to_uppercase(), format!("{GIVEN}-more"));
        let (ff, short) = (GIVEN.replacen("00", "ff", 1), &GIVEN[..54]);
        for wrong in ["", "-", "00", &zero_trace, &zero_span, &upper, &long, &ff, short, &GIVEN.replace('-', "_"), "é"]
        {
            assert!(TraceParent::parse(wrong).is_err(), "{wrong}");
        }
        for extra in [format!(" {GIVEN}"), format!("{GIVEN} "), format!("{GIVEN}x"), GIVEN.replacen('-', "--", 1)] {
            assert!(TraceParent::parse(&extra).is_err(), "{extra}");
        }
    }

    #[test]
    fn all_calls_of_a_batch_are_in_one_trace_and_each_is_a_span_of_its_own() {
        let (batch, other) = (BatchId::new("b1"), BatchId::new("b2"));
        let part = BatchId::new("b1/0-1");
        let first = call(&batch, 1).context(true);
        assert_eq!(first, call(&batch, 1).context(true), "every process knows it");
        for span in [call(&batch, 2).context(true), CallOf { key: &part, ..call(&batch, 1) }.context(true)] {
            assert_eq!(span.trace(), first.trace());
            assert_ne!(span.span(), first.span());
        }
        assert_ne!(call(&other, 1).context(true).trace(), first.trace());
        assert_eq!(TraceParent::parse(&first.to_string()), Ok(first));
    }

    #[test]
    fn a_call_without_traces_says_none_unless_somebody_collects_them() {
        let batch = BatchId::new("b");
        assert_eq!(CallTrace::of(call(&batch, 1), [], false), None);
        let collected = CallTrace::of(call(&batch, 1), [], true).unwrap();
        assert!(collected.context.is_sampled() && collected.links.is_empty());
    }

    #[test]
    fn a_call_is_sampled_with_any_of_its_members_and_linked_to_the_first_of_them() {
        let batch = BatchId::new("b");
        let of = |members: Vec<TraceParent>| CallTrace::of(call(&batch, 1), members, true).unwrap();
        assert!(of(vec![given(1, 0), given(2, 1)]).context.is_sampled());
        assert!(!of(vec![given(1, 0), given(2, 0)]).context.is_sampled());
        let many: Vec<TraceParent> = (1..=200).map(|n| given(n, u8::from(n == 200))).collect();
        let linked = of(many.clone());
        assert_eq!((&linked.links[..], linked.unlinked), (&many[..MAX_LINKS], 200 - MAX_LINKS));
        assert!(linked.context.is_sampled(), "by one that is not linked");
    }

    #[test]
    fn a_step_within_a_trace_stays_in_it() {
        let sender = given(7, 0);
        let within = sender.within(&["register", "t"]);
        assert_eq!((within.trace(), within.is_sampled()), (sender.trace(), false));
        assert_ne!(within.span(), sender.span());
        assert_ne!(within, sender.within(&["register", "u"]));
        let [elect, group] = ["elect", "group"].map(|step| TraceParent::of_step(step, "workflow", "m"));
        assert_eq!(elect.trace(), group.trace());
        assert_ne!(elect.span(), group.span());
    }
}
