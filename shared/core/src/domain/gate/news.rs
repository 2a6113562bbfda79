//! What people are told of an outage: that it began, and that it has ended.
//!
//! The write that begins or ends an outage puts down here what is to be told. A worker sends it, and then writes that
//! it is told. If that worker dies in between, the next call behind the gate tells: twice perhaps, under one id.

use serde::{Deserialize, Serialize};

use crate::domain::outcome::Reason;
use crate::domain::time::Timestamp;

/// Of one outage: what happened, and how much of it is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct News {
    /// When the first call failed that it began with. With the scope of its gate it names the outage.
    pub since: Timestamp,
    /// When the downstream began to count as away.
    pub began: Timestamp,
    /// Why the call failed that it began with.
    pub reason: Reason,
    /// Whether its beginning is told.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_told: bool,
    /// When a call was answered, or a person let calls go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
    /// The queue has refused it: not before this time again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again: Option<Timestamp>,
}

/// One thing to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A downstream counts as away.
    Began,
    /// It answers again.
    Ended,
}

/// So much is kept to be told, in outages; if there are more, the oldest is left out.
const MOST: usize = 16;
/// What a queue has refused is sent again after so long at the earliest, in milliseconds.
const AGAIN_MS: u64 = 60_000;

impl News {
    pub(super) const fn began(since: Timestamp, reason: Reason, now: Timestamp) -> Self {
        Self { since, began: now, reason, is_told: false, ended: None, again: None }
    }

    /// When that happened.
    #[must_use]
    pub fn at(&self, event: Event) -> Timestamp {
        match event {
            Event::Began => self.began,
            Event::Ended => self.ended.unwrap_or(self.began),
        }
    }

    /// What is to be told now, the beginning first.
    pub fn due(&self, now: Timestamp) -> impl Iterator<Item = Event> + use<> {
        let is_due = self.again.is_none_or(|again| again <= now);
        let began = (is_due && !self.is_told).then_some(Event::Began);
        began.into_iter().chain((is_due && self.ended.is_some()).then_some(Event::Ended))
    }
}

/// With one more outage.
pub(super) fn with(news: &[News], next: News) -> Vec<News> {
    let all = news.iter().cloned().chain([next]);
    all.skip((news.len() + 1).saturating_sub(MOST)).collect()
}

/// With the end of the outage that lasts, if people are to hear of it.
pub(super) fn ended(news: &[News], now: Timestamp) -> Vec<News> {
    news.iter().map(|of| News { ended: of.ended.or(Some(now)), ..of.clone() }).collect()
}

/// Without what is told: these events of these outages. The rest is due later, since its queue has refused it.
/// `None`: nothing of it is news.
pub(super) fn announced(news: &[News], told: &[(Timestamp, Event)], now: Timestamp) -> Option<Vec<News>> {
    let next = |of: &News| {
        let is_told = |event| told.contains(&(of.since, event));
        if of.ended.is_some() && is_told(Event::Ended) && (of.is_told || is_told(Event::Began)) {
            return None;
        }
        let refused = of.due(now).any(|event| !is_told(event));
        let again = if refused { Some(now.plus_ms(AGAIN_MS)) } else { of.again };
        Some(News { is_told: of.is_told || is_told(Event::Began), again, ..of.clone() })
    };
    let next: Vec<News> = news.iter().filter_map(next).collect();
    (next != news).then_some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn began(since: u64) -> News {
        News::began(Timestamp(since), Reason::new("http_503"), Timestamp(since + 5))
    }

    fn due(news: &[News], now: u64) -> Vec<(u64, Event)> {
        news.iter().flat_map(|of| of.due(Timestamp(now)).map(|event| (of.since.0, event))).collect()
    }

    #[test]
    fn a_beginning_is_told_once_and_then_an_end() {
        let news = with(&[], began(1));
        assert_eq!(due(&news, 10), [(1, Event::Began)]);
        let told = announced(&news, &[(Timestamp(1), Event::Began)], Timestamp(10)).expect("it is news");
        assert_eq!(due(&told, 11), []);
        assert_eq!(announced(&told, &[(Timestamp(1), Event::Began)], Timestamp(11)), None);
        let over = ended(&told, Timestamp(20));
        assert_eq!((due(&over, 20), over[0].at(Event::Ended)), (vec![(1, Event::Ended)], Timestamp(20)));
        assert_eq!(ended(&over, Timestamp(30)), over, "it has ended once");
        assert_eq!(announced(&over, &[(Timestamp(1), Event::Ended)], Timestamp(21)), Some(Vec::new()));
    }

    #[test]
    fn what_nobody_told_in_time_is_told_in_its_order() {
        let news = with(&ended(&with(&[], began(1)), Timestamp(20)), began(30));
        assert_eq!(due(&news, 40), [(1, Event::Began), (1, Event::Ended), (30, Event::Began)]);
        let first = announced(&news, &[(Timestamp(1), Event::Began), (Timestamp(1), Event::Ended)], Timestamp(40));
        assert_eq!(first.expect("it is news").iter().map(|of| of.since.0).collect::<Vec<_>>(), [30]);
    }

    #[test]
    fn what_a_queue_refuses_is_sent_again_later() {
        let refused = announced(&[began(1)], &[], Timestamp(10)).expect("it is news");
        assert_eq!((due(&refused, 10 + AGAIN_MS - 1), due(&refused, 10 + AGAIN_MS)), (vec![], vec![(1, Event::Began)]));
        // An end that is told before its beginning does not take the beginning's place.
        let over = ended(&refused, Timestamp(20));
        let half = announced(&over, &[(Timestamp(1), Event::Ended)], Timestamp(AGAIN_MS + 20)).expect("it is news");
        assert_eq!(half.len(), 1);
    }

    #[test]
    fn a_gate_has_room_for_some() {
        let news = (0..MOST as u64 + 3).fold(Vec::new(), |news, n| with(&news, began(n)));
        assert_eq!((news.len(), news[0].since), (MOST, Timestamp(3)));
    }
}
