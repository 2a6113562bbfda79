//! What is looked at: a page, and what of it.

use std::collections::BTreeMap;

use url::form_urlencoded::Serializer;

/// Where the pages are.
pub const ROOT: &str = "/console";

/// The pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// What waits, and what needs a person.
    Overview,
    /// The routes in force.
    Routes,
    /// What waits, by Target.
    Targets,
    /// One Target.
    Target,
    /// One batch.
    Batch,
    /// One task.
    Task,
    /// Failed tasks.
    Failed,
    /// What ended in the rejected and dead-letter queues.
    Ended,
    /// Fan-outs.
    Trackers,
    /// One fan-out.
    Tracker,
    /// Lists, lanes and streams.
    Held,
    /// One list.
    List,
    /// One order key.
    Lane,
    /// One stream.
    Stream,
    /// Whatever has an id.
    Search,
}

impl Kind {
    /// All of them.
    const ALL: [Self; 15] = [
        Self::Overview,
        Self::Routes,
        Self::Targets,
        Self::Target,
        Self::Batch,
        Self::Task,
        Self::Failed,
        Self::Ended,
        Self::Trackers,
        Self::Tracker,
        Self::Held,
        Self::List,
        Self::Lane,
        Self::Stream,
        Self::Search,
    ];
    /// Those that every page leads to.
    pub const IN_MENU: [Self; 7] =
        [Self::Overview, Self::Routes, Self::Targets, Self::Failed, Self::Ended, Self::Trackers, Self::Held];

    /// Its name in an address.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Overview => "overview",
            Self::Routes => "routes",
            Self::Targets => "targets",
            Self::Target => "target",
            Self::Batch => "batch",
            Self::Task => "task",
            Self::Failed => "failed",
            Self::Ended => "dead-letters",
            Self::Trackers => "trackers",
            Self::Tracker => "tracker",
            Self::Held => "held",
            Self::List => "list",
            Self::Lane => "lane",
            Self::Stream => "stream",
            Self::Search => "search",
        }
    }

    /// Its name for people.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Overview => "Overview",
            Self::Routes => "Routes",
            Self::Targets => "Targets",
            Self::Target => "Target",
            Self::Batch => "Batch",
            Self::Task => "Task",
            Self::Failed => "Failed",
            Self::Ended => "Dead letters",
            Self::Trackers => "Trackers",
            Self::Tracker => "Tracker",
            Self::Held => "Lists, lanes, streams",
            Self::List => "List",
            Self::Lane => "Order key",
            Self::Stream => "Stream",
            Self::Search => "Search",
        }
    }
}

/// A page and what it shows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub struct View {
    /// Which page.
    pub kind: Kind,
    /// What of it, by the names of its parameters.
    parameters: BTreeMap<String, String>,
}

impl View {
    /// The page of this name, if there is one.
    #[must_use]
    pub fn new(word: &str, parameters: BTreeMap<String, String>) -> Option<Self> {
        let kind = Kind::ALL.into_iter().find(|kind| kind.word() == word)?;
        Some(Self { kind, parameters })
    }

    /// A page without parameters.
    pub const fn of(kind: Kind) -> Self {
        Self { kind, parameters: BTreeMap::new() }
    }

    /// The same page with one parameter more.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.parameters.insert(name.to_owned(), value.to_owned());
        self
    }

    /// What a parameter says, to the last space: a Target may end with one. None if it is absent or empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.parameters.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The id that it is about.
    pub fn id(&self) -> &str {
        self.get("id").unwrap_or_default()
    }

    /// Where it is.
    pub fn address(&self) -> String {
        self.below(ROOT)
    }

    /// Where its updates come from.
    pub fn updates(&self) -> String {
        self.below(&format!("{ROOT}/live"))
    }

    fn below(&self, folder: &str) -> String {
        let address = format!("{folder}/{}", self.kind.word());
        if self.parameters.is_empty() {
            return address;
        }
        let mut query = Serializer::new(String::new());
        query.extend_pairs(&self.parameters);
        format!("{address}?{}", query.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_is_found_by_its_name_and_says_where_it_is() {
        for kind in Kind::ALL {
            let view = View::new(kind.word(), BTreeMap::new()).unwrap();
            assert_eq!((view.kind, view.address()), (kind, format!("/console/{}", kind.word())));
        }
        assert_eq!(View::new("nothing", BTreeMap::new()), None);
    }

    #[test]
    fn an_id_survives_its_address_whatever_it_holds() {
        let view = View::of(Kind::Task).with("id", " a&b=\"<c>?#/ü % ");
        let (path, query) =
            view.address().split_once('?').map(|(path, query)| (path.to_owned(), query.to_owned())).unwrap();
        assert_eq!(path, "/console/task");
        assert!(query.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"=&%+*-._".contains(&byte)), "{query}");
        let read: BTreeMap<String, String> = url::form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        let read = View::new("task", read).unwrap();
        assert_eq!((&read, read.id()), (&view, " a&b=\"<c>?#/ü % "), "`acme ` is another Target than `acme`");
    }
}
