//! Secrets in a body: `{{ secrets.NAME }}`.
//!
//! The core renders a body without them and says where each belongs, and the adapter that makes the call, which reads
//! their values, fills them in. So the core holds no secret, and a body on its way there has nothing in it that
//! somebody's payload could imitate: a place is a position.
//!
//! While a template renders, a mark stands where a secret belongs. The mark is a digest of all that the template is
//! given, and no payload holds a digest of itself. What a template may do with a mark is decided when it is compiled:
//! write it, and nothing else.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use minijinja::machinery::{Instruction, Instructions};
use serde_json::Value;

use super::encoding::{base64, urlencode, xmlescape};
use crate::domain::id::digest;

/// The name by which templates know the secrets of their route.
const SECRETS: &str = "secrets";
/// The engine's flag of a loop that may call itself.
const RECURSIVE: u8 = 2;

/// The form in which a secret is written, by the name of its filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Encoding {
    /// Without a filter, as it is.
    Plain,
    /// `base64`.
    Base64,
    /// `tojson`: a string of JSON with its quotes.
    Json,
    /// `urlencode`.
    Url,
    /// `xmlescape`.
    Xml,
}

impl Encoding {
    fn of_filter(name: &str) -> Option<Self> {
        match name {
            "base64" => Some(Self::Base64),
            "tojson" => Some(Self::Json),
            "urlencode" => Some(Self::Url),
            "xmlescape" => Some(Self::Xml),
            _ => None,
        }
    }

    fn encode(self, secret: &str) -> String {
        match self {
            Self::Plain => secret.to_owned(),
            Self::Base64 => base64(secret),
            Self::Json => Value::from(secret).to_string(),
            Self::Url => urlencode(secret),
            Self::Xml => xmlescape(secret),
        }
    }
}

/// A secret as a template writes it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Written {
    name: String,
    encoding: Encoding,
}

/// The place of a secret in a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretPlace {
    /// Its offset from the beginning, in bytes.
    at: usize,
    secret: Arc<Written>,
}

/// A body with its secrets. It has no `Debug`, so that nothing shows them.
pub struct Filled {
    /// The body.
    pub text: String,
    /// Each secret in it as it is written there, unless JSON writes it: every secret is looked for as JSON has it.
    pub secrets: Vec<String>,
}

/// Fills secrets, by their names, into a body. Every name is there: a routes file with another is refused. Returns
/// `None` if the body has over `limit` bytes with them.
pub fn filled(body: &str, places: &[SecretPlace], secrets: &BTreeMap<String, String>, limit: usize) -> Option<Filled> {
    let mut values = BTreeMap::new();
    let mut bytes = body.len();
    for SecretPlace { secret, .. } in places {
        let encoded = || secret.encoding.encode(secrets.get(&secret.name).map_or("", String::as_str));
        bytes += values.entry(&**secret).or_insert_with(encoded).len();
    }
    if bytes > limit {
        return None;
    }
    let (mut text, mut from) = (String::with_capacity(bytes), 0);
    for SecretPlace { at, secret } in places {
        text.push_str(&body[from..*at]);
        text.push_str(values.get(&**secret).map_or("", String::as_str));
        from = *at;
    }
    text.push_str(&body[from..]);
    let is_json = |secret: &Written| secret.encoding == Encoding::Json;
    let secrets = values.into_iter().filter(|(secret, _)| !is_json(secret)).map(|(_, value)| value).collect();
    Some(Filled { text, secrets })
}

/// The places where a template writes secrets.
#[derive(Debug)]
pub(super) struct Uses(Vec<Use>);

#[derive(Debug)]
struct Use {
    /// Its first instruction.
    at: u32,
    /// The instructions up to the one that writes it.
    count: u32,
    secret: Arc<Written>,
}

/// The replacements of a template's instructions, by their numbers: a mark, or nothing.
pub(super) type Marks = BTreeMap<u32, Option<String>>;

impl Uses {
    /// Finds the secrets of a template.
    ///
    /// # Errors
    /// The line in which it does anything with one but write it, in words.
    pub(super) fn of(written: &Instructions<'_>) -> Result<Self, String> {
        let all: Vec<_> = (0..).map_while(|at| Some((at, written.get(at)?))).collect();
        // A value that comes from elsewhere would take the secret's way.
        let targets: HashSet<u32> = all.iter().filter_map(|(_, one)| leads_to(one)).collect();
        let recurses = all.iter().any(|(_, one)| matches!(one, Instruction::PushLoop(flags) if flags & RECURSIVE != 0));
        let (mut uses, mut within) = (Vec::new(), 0_u32);
        for (at, one) in &all {
            match one {
                Instruction::BeginCapture(_) | Instruction::PushAutoEscape => within += 1,
                Instruction::EndCapture | Instruction::PopAutoEscape => within = within.saturating_sub(1),
                Instruction::Lookup(SECRETS) | Instruction::StoreLocal(SECRETS) => {
                    let used = Use::at(written, *at).filter(|used| used.is_entered_at(&targets));
                    let is_written = within == 0 && !recurses;
                    let line = || written.get_line(*at).unwrap_or_default();
                    uses.push(used.filter(|_| is_written).ok_or_else(|| {
                        let filters = "`base64`, `tojson`, `urlencode` or `xmlescape`";
                        let forms = format!("`{{{{ secrets.NAME }}}}`, with {filters} or no filter");
                        let nowhere = "not within `set`, `filter` or `autoescape` blocks, nor beside recursive loops";
                        format!("a secret is only written, as {forms}, {nowhere} (in line {})", line())
                    })?);
                }
                _ => {}
            }
        }
        Ok(Self(uses))
    }

    /// Lists the names of the secrets.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|one| one.secret.name.as_str())
    }

    /// Makes the mark of a rendering that is given these texts; `None` if there are no secrets.
    pub(super) fn mark<'a>(&self, given: impl Iterator<Item = &'a str>) -> Option<String> {
        (!self.0.is_empty()).then(|| digest(&given.collect::<Vec<_>>()))
    }

    /// Returns what stands in place of their instructions.
    pub(super) fn marks(&self, mark: Option<&str>) -> Marks {
        let mut marks = Marks::new();
        let Some(mark) = mark else { return marks };
        for (number, one) in self.0.iter().enumerate() {
            marks.extend((one.at..one.at + one.count).map(|at| (at, None)));
            marks.insert(one.at, Some(format!("{mark}{number};")));
        }
        marks
    }

    /// Takes the marks out of what was rendered, and returns the places where they stood.
    pub(super) fn places(&self, rendered: String, mark: Option<&str>) -> (String, Vec<SecretPlace>) {
        let Some(mark) = mark else { return (rendered, Vec::new()) };
        let (mut text, mut places) = (String::with_capacity(rendered.len()), Vec::new());
        for (n, part) in rendered.split(mark).enumerate() {
            let of_mark = |(number, _): &(&str, &str)| self.0.get(number.parse::<usize>().ok()?);
            let behind = part.split_once(';').filter(|_| n > 0);
            match behind.as_ref().and_then(of_mark).zip(behind) {
                Some((used, (_, behind))) => {
                    places.push(SecretPlace { at: text.len(), secret: Arc::clone(&used.secret) });
                    text.push_str(behind);
                }
                // Only the first part has no mark before it.
                None => text.push_str(part),
            }
        }
        (text, places)
    }
}

impl Use {
    /// Reads the secret that is looked up here, if all that follows is to write it.
    fn at(written: &Instructions<'_>, at: u32) -> Option<Self> {
        let (Instruction::Lookup(_), Instruction::GetAttr(name)) = (written.get(at)?, written.get(at + 1)?) else {
            return None;
        };
        let (encoding, count) = match written.get(at + 2)? {
            Instruction::ApplyFilter(filter, Some(1), _) => (Encoding::of_filter(filter)?, 3),
            _ => (Encoding::Plain, 2),
        };
        let is_written = matches!(written.get(at + count)?, Instruction::Emit);
        let secret = Arc::new(Written { name: (*name).to_owned(), encoding });
        is_written.then_some(Self { at, count, secret })
    }

    /// Returns whether no jump leads behind its first instruction.
    fn is_entered_at(&self, targets: &HashSet<u32>) -> bool {
        (self.at + 1..=self.at + self.count).all(|at| !targets.contains(&at))
    }
}

fn leads_to(one: &Instruction<'_>) -> Option<u32> {
    match one {
        Instruction::Iterate(target)
        | Instruction::Jump(target)
        | Instruction::JumpIfFalse(target)
        | Instruction::JumpIfFalseOrPop(target)
        | Instruction::JumpIfTrueOrPop(target) => Some(*target),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
