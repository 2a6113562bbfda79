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

/// What came of telling one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tried {
    /// Of the outage that [began](News::since) then.
    pub since: Timestamp,
    /// What was told.
    pub event: Event,
    /// Whether it was: its queue may have refused it.
    pub is_told: bool,
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

    /// What is to be told next: first that it began, and then that it has ended.
    #[must_use]
    pub fn next(&self) -> Option<Event> {
        if self.is_told { self.ended.map(|_| Event::Ended) } else { Some(Event::Began) }
    }

    /// What is to be told now.
    #[must_use]
    pub fn due(&self, now: Timestamp) -> Option<Event> {
        self.next().filter(|_| self.again.is_none_or(|again| again <= now))
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

/// Once somebody has tried to tell these. `None`: nothing of it is news.
pub(super) fn announced(news: &[News], tried: &[Tried], now: Timestamp) -> Option<Vec<News>> {
    let next = |of: &News| match tried.iter().find(|tried| tried.since == of.since && Some(tried.event) == of.next()) {
        None => Some(of.clone()),
        Some(Tried { is_told: false, .. }) => Some(News { again: Some(now.plus_ms(AGAIN_MS)), ..of.clone() }),
        Some(Tried { event: Event::Began, .. }) => Some(News { is_told: true, again: None, ..of.clone() }),
        Some(Tried { event: Event::Ended, .. }) => None,
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
        news.iter().filter_map(|of| Some((of.since.0, of.due(Timestamp(now))?))).collect()
    }

    fn told(since: u64, event: Event) -> [Tried; 1] {
        [Tried { since: Timestamp(since), event, is_told: true }]
    }

    #[test]
    fn a_beginning_is_told_once_and_then_an_end() {
        let news = with(&[], began(1));
        assert_eq!(due(&news, 10), [(1, Event::Began)]);
        let once = announced(&news, &told(1, Event::Began), Timestamp(10)).expect("it is news");
        assert_eq!(due(&once, 11), []);
        assert_eq!(announced(&once, &told(1, Event::Began), Timestamp(11)), None);
        let over = ended(&once, Timestamp(20));
        assert_eq!((due(&over, 20), over[0].at(Event::Ended)), (vec![(1, Event::Ended)], Timestamp(20)));
        assert_eq!(ended(&over, Timestamp(30)), over, "it has ended once");
        assert_eq!(announced(&over, &told(1, Event::Ended), Timestamp(21)), Some(Vec::new()));
    }

    #[test]
    fn what_nobody_told_in_time_is_told_in_its_order() {
        let news = with(&ended(&with(&[], began(1)), Timestamp(20)), began(30));
        assert_eq!(due(&news, 40), [(1, Event::Began), (30, Event::Began)]);
        let first = announced(&news, &told(1, Event::Began), Timestamp(40)).expect("it is news");
        assert_eq!(due(&first, 40), [(1, Event::Ended), (30, Event::Began)]);
        let rest = announced(&first, &told(1, Event::Ended), Timestamp(40)).expect("it is news");
        assert_eq!(due(&rest, 40), [(30, Event::Began)]);
    }

    #[test]
    fn what_a_queue_refuses_is_sent_again_later_and_what_nobody_has_tried_is_not() {
        let refused = [Tried { since: Timestamp(1), event: Event::Began, is_told: false }];
        let later = announced(&[began(1)], &refused, Timestamp(10)).expect("it is news");
        assert_eq!((due(&later, 10 + AGAIN_MS - 1), due(&later, 10 + AGAIN_MS)), (vec![], vec![(1, Event::Began)]));
        // It has ended while somebody told that it began.
        let over = ended(&[began(1)], Timestamp(20));
        let once = announced(&over, &told(1, Event::Began), Timestamp(21)).expect("it is news");
        assert_eq!(due(&once, 21), [(1, Event::Ended)]);
    }

    #[test]
    fn a_gate_has_room_for_some() {
        let news = (0..MOST as u64 + 3).fold(Vec::new(), |news, n| with(&news, began(n)));
        assert_eq!((news.len(), news[0].since), (MOST, Timestamp(3)));
    }
}
