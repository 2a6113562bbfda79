//! What a task's route reads out of its payload for the one that groups it: how much the task weighs, whether it closes
//! its batch, how urgent it is, and which other tasks it replaces.
//!
//! All of it is computed once, at registration. A leader must know it without reading the tasks, and the index of
//! waiting tasks projects no attribute for it. So it stands in the index's sort key, behind the word for a waiting
//! task. A task of which nothing is to be said has the bare word, which is as long as it always was.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::id::{TaskId, digest};
use super::time::Timestamp;

/// What grouping needs to know of a task beside its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
pub struct Traits {
    /// How urgent it is: tasks with a higher number fill batches first.
    pub priority: u8,
    /// Which tasks it replaces, if any.
    pub collapse: Option<Collapse>,
    /// How much of its route's `max_weight` it takes.
    pub weight: u32,
    /// Whether its batch waits for no more.
    pub closes: bool,
}

/// Of waiting tasks with one key only the newest is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Collapse {
    /// A digest of what the route's `collapse` gave.
    pub key: u128,
    /// When the task came: a task replaces those that came before it.
    pub came: u64,
}

/// The stored word for a task that waits for a batch.
pub const CREATED: &str = "created";
/// The highest priority.
pub const MAX_PRIORITY: u8 = 9;
/// The highest weight.
pub const MAX_WEIGHT: u32 = 1_000_000;
/// Tasks of one millisecond whose order is kept.
const PLACES: u64 = 10_000;

impl Default for Traits {
    /// Those of a task whose route says nothing of them.
    fn default() -> Self {
        Self { priority: 0, collapse: None, weight: 1, closes: false }
    }
}

impl Traits {
    /// The words of tasks that are more urgent than this lie between these, and no others.
    pub fn urgent_words(above: u8) -> [String; 2] {
        // What comes behind a 9.
        [format!("{CREATED} {}", above.saturating_add(1)), format!("{CREATED} :")]
    }

    /// The word under which a task with these traits waits.
    pub fn waiting_word(&self) -> String {
        if *self == Self::default() { CREATED.to_owned() } else { format!("{CREATED} {self}") }
    }

    /// The traits of a task that waits under this word; `None` if it is no word for a waiting task.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        let rest = word.strip_prefix(CREATED)?;
        if rest.is_empty() { Some(Self::default()) } else { rest.strip_prefix(' ').map(Self::parse) }
    }

    /// The same, of a task that came then, behind this many others of its event.
    #[must_use]
    pub fn came(mut self, now: Timestamp, behind: usize) -> Self {
        if let Some(collapse) = &mut self.collapse {
            let behind = u64::try_from(behind).unwrap_or(u64::MAX).min(PLACES - 1);
            collapse.came = now.0.saturating_mul(PLACES).saturating_add(behind);
        }
        self
    }

    /// Reads the text of traits. What a later version may have added is passed over.
    fn parse(text: &str) -> Self {
        let mut words = text.split(' ');
        let priority = words.next().and_then(|first| first.parse().ok()).unwrap_or_default();
        let mut traits = Self { priority: MAX_PRIORITY.min(priority), ..Self::default() };
        for word in words {
            match word.split_at_checked(1) {
                Some(("k", rest)) => traits.collapse = Collapse::parse(rest),
                Some(("w", rest)) => traits.weight = rest.parse().unwrap_or(1),
                Some(("c", "")) => traits.closes = true,
                Some(_) | None => {}
            }
        }
        traits
    }
}

/// The canonical text. The priority comes first and the key next, so an index that is sorted by the text has the usual
/// tasks in front, the most urgent last, and the tasks of one key side by side.
impl fmt::Display for Traits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.priority)?;
        if let Some(Collapse { key, came }) = self.collapse {
            write!(f, " k{key:032x}.{came:017}")?;
        }
        if self.weight != 1 {
            write!(f, " w{}", self.weight)?;
        }
        if self.closes { f.write_str(" c") } else { Ok(()) }
    }
}

impl From<Traits> for String {
    fn from(traits: Traits) -> Self {
        traits.to_string()
    }
}

impl From<String> for Traits {
    fn from(text: String) -> Self {
        Self::parse(&text)
    }
}

/// Whether a stored form can do without them.
pub fn are_usual(traits: &Traits) -> bool {
    *traits == Traits::default()
}

impl Collapse {
    /// The key that a payload says; when its task came is not known yet.
    #[must_use]
    pub fn of(key: &str) -> Self {
        let key = u128::from_str_radix(&digest(&["collapse", key]), 16).unwrap_or_default();
        Self { key, came: 0 }
    }

    /// Whether this task, of that id, replaces another one with the same key.
    pub fn replaces(&self, id: &TaskId, (other, of): (&Self, &TaskId)) -> bool {
        self.key == other.key && (self.came, id) > (other.came, of)
    }

    fn parse(text: &str) -> Option<Self> {
        let (key, came) = text.split_once('.')?;
        Some(Self { key: u128::from_str_radix(key, 16).ok()?, came: came.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_task_of_which_nothing_is_said_waits_under_the_bare_word() {
        assert_eq!(Traits::default().waiting_word(), "created");
        assert_eq!(Traits::of_word("created"), Some(Traits::default()));
        for other in ["batched", "failed", "createdness", ""] {
            assert_eq!(Traits::of_word(other), None, "{other}");
        }
        let heavy = Traits { weight: 5, closes: true, ..Traits::default() };
        assert_eq!(heavy.waiting_word(), "created 0 w5 c");
    }

    #[test]
    fn what_a_later_version_adds_is_passed_over() {
        assert_eq!(Traits::of_word("created 3 z9 w5 kx"), Some(Traits { priority: 3, weight: 5, ..Traits::default() }));
        assert_eq!(Traits::of_word("created é"), Some(Traits::default()));
    }

    #[test]
    fn of_one_key_the_one_that_came_last_replaces_the_others() {
        let [first, second] = [0, 1].map(|behind| {
            let traits = Traits { collapse: Some(Collapse::of("7")), ..Traits::default() };
            traits.came(Timestamp(5), behind).collapse.unwrap()
        });
        let [a, b] = ["a", "b"].map(TaskId::new);
        assert!(second.replaces(&a, (&first, &b)) && !first.replaces(&b, (&second, &a)));
        assert!(first.replaces(&b, (&first, &a)) && !first.replaces(&a, (&first, &b)), "the id decides at last");
        assert!(!second.replaces(&a, (&Collapse { key: 1, ..first }, &b)), "another key");
        let later = Traits { collapse: Some(first), ..Traits::default() }.came(Timestamp(6), 0).collapse.unwrap();
        assert!(later.replaces(&a, (&second, &b)));
    }

    prop_compose! {
        fn traits()(
            priority in 0..=MAX_PRIORITY, key in proptest::option::of((any::<u128>(), 0..10_u64.pow(17))),
            weight in 0..=MAX_WEIGHT, closes: bool,
        ) -> Traits {
            Traits { priority, collapse: key.map(|(key, came)| Collapse { key, came }), weight, closes }
        }
    }

    proptest! {
        #[test]
        fn traits_survive_their_text(traits in traits()) {
            prop_assert_eq!(Traits::of_word(&traits.waiting_word()), Some(traits));
            prop_assert_eq!(Traits::from(String::from(traits)), traits);
            prop_assert!(traits.waiting_word().len() <= 80);
        }

        #[test]
        fn an_index_by_the_text_has_the_urgent_last_and_a_key_side_by_side_in_order(
            one in traits(), other in traits(), came in 0..10_u64.pow(17),
        ) {
            if one.priority != other.priority {
                prop_assert_eq!(one.waiting_word() < other.waiting_word(), one.priority < other.priority);
            }
            for above in 0..MAX_PRIORITY {
                let [first, last] = Traits::urgent_words(above);
                let is_urgent = (first..=last).contains(&one.waiting_word());
                prop_assert_eq!(is_urgent, one.priority > above);
            }
            if let Some(collapse) = one.collapse {
                let later = Traits { collapse: Some(Collapse { came, ..collapse }), ..one };
                prop_assert_eq!(one.waiting_word() < later.waiting_word(), collapse.came < came);
            }
        }
    }
}
