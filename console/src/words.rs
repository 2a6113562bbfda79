//! Times, numbers and reasons as people read them, in the browser and on a terminal.

use std::fmt::Write as _;

pub use groupage_aws::dollars::grouped;
use groupage_core::domain::Timestamp;
use groupage_core::domain::gate::Scope;
use groupage_core::domain::time::DAY_MS;
use groupage_core::domain::why::Why;

const SECOND_MS: u64 = 1_000;
const MINUTE_MS: u64 = 60 * SECOND_MS;
const HOUR_MS: u64 = 60 * MINUTE_MS;

/// A length of time in one unit: `3 s`, `2 min`.
pub fn span(ms: u64) -> String {
    match ms {
        0..SECOND_MS => format!("{ms} ms"),
        SECOND_MS..10_000 => {
            let tenths = ms / 100;
            if tenths.is_multiple_of(10) {
                format!("{} s", tenths / 10)
            } else {
                format!("{}.{} s", tenths / 10, tenths % 10)
            }
        }
        10_000..MINUTE_MS => format!("{} s", ms / SECOND_MS),
        MINUTE_MS..HOUR_MS => format!("{} min", ms / MINUTE_MS),
        HOUR_MS..DAY_MS => format!("{} h", ms / HOUR_MS),
        DAY_MS.. => format!("{} d", ms / DAY_MS),
    }
}

/// A moment as it lies before or behind now: `3 s ago`, `in 2 min`.
pub fn relative(at: Timestamp, now: Timestamp) -> String {
    match (at.since(now), now.since(at)) {
        (0, 0..SECOND_MS) => "just now".to_owned(),
        (0, ago) => format!("{} ago", span(ago)),
        (ahead, _) => format!("in {}", span(ahead)),
    }
}

/// A moment on the clock, in UTC.
pub fn clock(at: Timestamp) -> String {
    at.shown()
}

/// Both: `3 s ago (2026-11-24T12:00:00.000Z)`.
pub fn moment(at: Timestamp, now: Timestamp) -> String {
    format!("{} ({})", relative(at, now), clock(at))
}

/// A number of things that were counted; a count that looked at a part only says "at least".
pub fn counted(number: usize, are_all: bool) -> String {
    format!("{}{}", if are_all { "" } else { "at least " }, grouped(number as u64))
}

/// What something waits for, to be read behind "waits for".
pub fn why(why: &Why, now: Timestamp) -> String {
    let whose = |of: &Scope| match of {
        Scope::Route(_) => "its route".to_owned(),
        Scope::Target(_) => "its Target".to_owned(),
        Scope::Limit(limit) => format!("the limit {limit}"),
    };
    match why {
        Why::NotBefore { due } => format!("its time: not before {} ({})", clock(*due), relative(*due, now)),
        Why::Turn => "its turn: a task before it in its lane is not settled".to_owned(),
        Why::Route => "its route, which the routes file does not have: put it back, or cancel the task".to_owned(),
        Why::Election => "a leader: its election is on the way".to_owned(),
        Why::Leader { .. } => "its leader, which is at work".to_owned(),
        Why::LostLeader { since } => format!("another leader: the last one was lost {}", relative(*since, now)),
        Why::Window { until } if *until > now => {
            format!("more tasks: its batch's window is open for {}", span(until.since(now)))
        }
        Why::Window { .. } => "its batch to be closed: the window is over".to_owned(),
        Why::Freezing => "its batch's members to be fixed".to_owned(),
        Why::Handler => "the batch-handler".to_owned(),
        Why::Worker => "a worker that pulls".to_owned(),
        Why::Held { of, since, reason } => {
            let said = reason.as_ref().map(|reason| format!(", {}", on_one_line(reason))).unwrap_or_default();
            format!("a person to let the calls of {} go on: held {}{said}", whose(of), relative(*since, now))
        }
        Why::Away { of, since, reason, next_probe } => format!(
            "the downstream of {} to be back: away since {} ({reason}), next probe {}",
            whose(of),
            relative(*since, now),
            relative(*next_probe, now)
        ),
        Why::Pause { of, until } => format!("the end of a pause of {}, {}", whose(of), relative(*until, now)),
        Why::Places { of, most: 1 } => format!("the one place in flight of {}", whose(of)),
        Why::Places { of, most } => format!("one of the {most} places in flight of {}", whose(of)),
        Why::Rate { of, at } => format!("its time under the rate of {}, {}", whose(of), relative(*at, now)),
        Why::Retry { at } => format!("its next attempt, {}", relative(*at, now)),
        Why::Job { since, next_look, deadline, failed } => {
            let failed = failed.as_ref().map_or_else(String::new, |reason| format!(" (the last came to {reason})"));
            format!(
                "its job at the downstream, under way since {}: next look {}{failed}, at most until {}",
                relative(*since, now),
                relative(*next_look, now),
                clock(*deadline)
            )
        }
        Why::Call { .. } => "the answer to its call".to_owned(),
        Why::FollowUp => "statuses and notices to be written".to_owned(),
        Why::Return => "members that failed alone to be put back".to_owned(),
    }
}

/// A text with what a terminal would obey, or a browser or terminal would hide, shown by its number. Ids, Targets and
/// answers come from outside: they must not clear a screen, change a title or turn the writing round. Line breaks stay.
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c != '\n' && obeys(c) { shown.extend(c.escape_unicode()) } else { shown.push(c) }
    }
    shown
}

/// A value that must not look like two.
pub fn on_one_line(value: &str) -> String {
    visible(value).replace('\n', "\\n")
}

/// JSON, in which only strings hold such characters: as JSON itself escapes them.
pub fn visible_json(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for c in json.chars() {
        if c != '\n' && obeys(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // A string takes whatever is written to it.
                let _ = write!(shown, "\\u{unit:04x}");
            }
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Whether a terminal takes the character for a command, or shows nothing for it: control characters, separators of
/// lines, and those that turn the direction of writing or have no width.
pub fn obeys(c: char) -> bool {
    const UNSEEN: [std::ops::RangeInclusive<char>; 8] = [
        '\u{ad}'..='\u{ad}',
        '\u{61c}'..='\u{61c}',
        '\u{180e}'..='\u{180e}',
        '\u{200b}'..='\u{200f}',
        '\u{2028}'..='\u{202e}',
        '\u{2060}'..='\u{206f}',
        '\u{feff}'..='\u{feff}',
        // Tags: a whole text of ASCII that nobody sees.
        '\u{e0000}'..='\u{e007f}',
    ];
    c.is_control() || UNSEEN.iter().any(|range| range.contains(&c))
}

#[cfg(test)]
mod tests {
    use groupage_core::domain::id::{LimitName, RouteName};

    use super::*;

    #[test]
    fn a_moment_is_told_in_one_unit_before_or_behind_now() {
        let now = Timestamp(10 * DAY_MS);
        let ago = |ms| relative(Timestamp(now.0 - ms), now);
        for (ms, text) in [
            (0, "just now"),
            (999, "just now"),
            (1_000, "1 s ago"),
            (3_456, "3.4 s ago"),
            (59_999, "59 s ago"),
            (60_000, "1 min ago"),
            (2 * HOUR_MS, "2 h ago"),
            (3 * DAY_MS, "3 d ago"),
        ] {
            assert_eq!(ago(ms), text);
        }
        assert_eq!(relative(now.plus_ms(90_000), now), "in 1 min");
        assert_eq!(moment(Timestamp(0), Timestamp(2_000)), "2 s ago (1970-01-01T00:00:00.000Z)");
    }

    #[test]
    fn long_numbers_are_grouped() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn a_reason_says_how_long_it_lasts_and_whose_it_is() {
        let now = Timestamp(1_000);
        let said = |reason| why(&reason, now);
        assert_eq!(said(Why::Window { until: Timestamp(3_500) }), "more tasks: its batch's window is open for 2.5 s");
        assert_eq!(said(Why::Window { until: now }), "its batch to be closed: the window is over");
        let pause = Why::Pause { of: Scope::Route(RouteName::new("r")), until: Timestamp(31_000) };
        assert_eq!(said(pause), "the end of a pause of its route, in 30 s");
        assert_eq!(
            said(Why::Places { of: Scope::Limit(LimitName::new("gpu")), most: 1 }),
            "the one place in flight of the limit gpu"
        );
    }

    #[test]
    fn what_a_terminal_would_obey_is_shown_by_its_number() {
        let clears = "truck\u{1b}[2J\u{7}\u{9b}31m\r\u{202e}7\u{200b}\u{61c}\u{ad}\u{e0041}";
        let shown = visible(clears);
        assert_eq!(shown, "truck\\u{1b}[2J\\u{7}\\u{9b}31m\\u{d}\\u{202e}7\\u{200b}\\u{61c}\\u{ad}\\u{e0041}");
        assert_eq!(visible(&shown), shown, "a text that passes twice is the same");
        assert_eq!(visible("Überraschung 🚚\nzwei"), "Überraschung 🚚\nzwei");
        assert_eq!(on_one_line("a\nstatus  succeeded"), "a\\nstatus  succeeded");
    }
}
