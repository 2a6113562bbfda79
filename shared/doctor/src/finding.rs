//! What a check comes to.

use serde::{Serialize, Serializer};

use crate::seen::Unread;

/// A check, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Check {
    /// Stack and command are of one version.
    Version,
    /// The routes in force can be used, and do nothing that the stack does not allow.
    Routes,
    /// The secrets that routes name are there.
    Secrets,
    /// Each function can be invoked.
    Functions,
    /// Messages may come back to the functions to which they do.
    Loops,
    /// Functions may run, and enough of them at once.
    Concurrency,
    /// Each queue's messages reach their function.
    Mappings,
    /// A message stays hidden while it is handled.
    Visibility,
    /// What nobody can handle is put aside.
    Redrive,
    /// Nothing is put aside that a person should look at.
    DeadLetters,
    /// No message is old.
    Oldest,
    /// No task waits without somebody that comes for it.
    Waiting,
    /// What is settled expires.
    Expiry,
    /// Tables can be restored.
    Recovery,
    /// Nothing that died still holds a lock.
    Locks,
    /// Nothing that died still has a session.
    Sessions,
    /// Alarms are there and tell somebody.
    Alarms,
    /// No alarm is off.
    Ringing,
    /// This machine's clock is right.
    Clock,
    /// Canary tasks settle once each. Only made if it is asked for.
    Exercise,
}

impl Check {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 20] = [
        Self::Version,
        Self::Routes,
        Self::Secrets,
        Self::Functions,
        Self::Loops,
        Self::Concurrency,
        Self::Mappings,
        Self::Visibility,
        Self::Redrive,
        Self::DeadLetters,
        Self::Oldest,
        Self::Waiting,
        Self::Expiry,
        Self::Recovery,
        Self::Locks,
        Self::Sessions,
        Self::Alarms,
        Self::Ringing,
        Self::Clock,
        Self::Exercise,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Version => "version",
            Self::Routes => "routes",
            Self::Secrets => "secrets",
            Self::Functions => "functions",
            Self::Loops => "loops",
            Self::Concurrency => "concurrency",
            Self::Mappings => "mappings",
            Self::Visibility => "visibility",
            Self::Redrive => "redrive",
            Self::DeadLetters => "dead-letters",
            Self::Oldest => "oldest",
            Self::Waiting => "waiting",
            Self::Expiry => "expiry",
            Self::Recovery => "recovery",
            Self::Locks => "locks",
            Self::Sessions => "sessions",
            Self::Alarms => "alarms",
            Self::Ringing => "ringing",
            Self::Clock => "clock",
            Self::Exercise => "exercise",
        }
    }

    /// The check of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|check| check.name() == name)
    }

    /// Where the documentation says more.
    pub fn page(self) -> String {
        format!("docs/guides/doctor.md#{}", self.name())
    }
}

impl Serialize for Check {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// How something was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// As it should be.
    Well,
    /// Not as it should be: somebody must do something.
    Wrong,
    /// Unknown. That is never taken for well.
    Unread,
}

/// What a check found of one part, or of several of which it found the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Which check.
    pub check: Check,
    /// Of what, by name; nothing if it is the stack as a whole.
    pub of: Vec<String>,
    /// How it was found.
    pub verdict: Verdict,
    /// What was found.
    pub what: String,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub todo: Option<String>,
    /// Where the documentation says more.
    pub see: String,
}

/// What was found of one part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Well,
    Wrong { what: String, todo: String },
    Unread(Unread),
}

impl Found {
    pub(crate) fn wrong(what: impl Into<String>, todo: impl Into<String>) -> Self {
        Self::Wrong { what: what.into(), todo: todo.into() }
    }

    /// Well if it is so.
    pub(crate) fn well_if(is_well: bool, wrong: impl FnOnce() -> Self) -> Self {
        if is_well { Self::Well } else { wrong() }
    }
}

impl From<&Unread> for Found {
    fn from(unread: &Unread) -> Self {
        Self::Unread(unread.clone())
    }
}

/// What a check found: one finding for all that is well, if nothing else was found; or one for each kind of trouble.
pub(crate) fn findings<'a>(
    check: Check,
    well: impl Into<String>,
    found: impl IntoIterator<Item = (&'a str, Found)>,
) -> Vec<Finding> {
    let mut troubles: Vec<Finding> = Vec::new();
    for (of, found) in found {
        let Some(mut trouble) = trouble(check, found) else { continue };
        let is_same = |other: &&mut Finding| {
            (other.verdict, &other.what, &other.todo) == (trouble.verdict, &trouble.what, &trouble.todo)
        };
        let of = (!of.is_empty()).then(|| of.to_owned());
        match troubles.iter_mut().find(is_same) {
            Some(same) => same.of.extend(of),
            None => {
                trouble.of.extend(of);
                troubles.push(trouble);
            }
        }
    }
    if troubles.is_empty() {
        let (verdict, what, todo) = (Verdict::Well, well.into(), None);
        troubles.push(Finding { check, of: Vec::new(), verdict, what, todo, see: check.page() });
    }
    troubles
}

fn trouble(check: Check, found: Found) -> Option<Finding> {
    let (verdict, what, todo) = match found {
        Found::Well => return None,
        Found::Wrong { what, todo } => (Verdict::Wrong, what, todo),
        Found::Unread(Unread(why)) => {
            let name = check.name();
            let todo = format!("give your role the stack's DoctorPolicy, or leave the check out: --skip {name}");
            (Verdict::Unread, format!("could not be read: {why}"), todo)
        }
    };
    Some(Finding { check, of: Vec::new(), verdict, what, todo: Some(todo), see: check.page() })
}
