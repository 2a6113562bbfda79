//! JSON from outside: what no part of it may hold, and the form in which it travels on.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt::{self, Write};

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// What is wrong somewhere in a JSON text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, derive_more::Display)]
pub enum Flaw {
    /// An object has two fields of one name: readers differ in which of them counts.
    #[display("is there twice")]
    DuplicateField,
    /// A string, or a field's name, holds the character NUL, which the arguments and the environment of a process
    /// cannot carry.
    #[display("holds the character NUL")]
    Nul,
    /// A string, or a field's name, holds half of a surrogate pair, which is no character.
    #[display("holds half of a surrogate pair")]
    UnpairedSurrogate,
    /// A number is larger than any that a reader of JSON can be expected to take.
    #[display("is a number out of range")]
    NumberOutOfRange,
    /// Arrays and objects lie within each other more than [`MAX_DEPTH`] deep.
    #[display("lies more than {MAX_DEPTH} levels deep")]
    TooDeep,
}

/// How deep arrays and objects may lie within each other: not so deep that a reader of JSON refuses it, serde_json at
/// 128.
pub const MAX_DEPTH: usize = 100;

/// Looks for flaws in what is JSON by its syntax.
///
/// # Errors
/// The first flaw and its place, such as `payload.items[3].name`. The place is short, and its names are escaped: they
/// come from outside. No value is in it.
pub fn check(json: &str) -> Result<(), (Flaw, String)> {
    let walk = Walk { place: Cell::new(Vec::new()), flaw: Cell::new(None) };
    let mut deserializer = serde_json::Deserializer::from_str(json);
    (&walk).deserialize(&mut deserializer).map_err(|error| {
        let flaw = walk.flaw.get().unwrap_or_else(|| unnamed(&error));
        (flaw, shown(&walk.place.take()))
    })
}

/// Which flaw it is that serde_json found itself: its syntax is good, so it is a number or a string.
fn unnamed(error: &serde_json::Error) -> Flaw {
    if error.to_string().starts_with("number") { Flaw::NumberOutOfRange } else { Flaw::UnpairedSurrogate }
}

/// One step into a JSON text.
enum Step {
    Field(String),
    Element(usize),
}

/// A walk through all of a JSON text. After an error its place is that of the flaw.
struct Walk {
    place: Cell<Vec<Step>>,
    flaw: Cell<Option<Flaw>>,
}

impl Walk {
    fn found<T, E: Error>(&self, flaw: Flaw) -> Result<T, E> {
        self.flaw.set(Some(flaw));
        Err(E::custom(flaw))
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Step>)) -> usize {
        let mut place = self.place.take();
        change(&mut place);
        let depth = place.len();
        self.place.set(place);
        depth
    }

    fn enter<E: Error>(&self, step: Step) -> Result<(), E> {
        if self.change(|place| place.push(step)) > MAX_DEPTH { self.found(Flaw::TooDeep) } else { Ok(()) }
    }

    fn leave(&self) {
        self.change(|place| drop(place.pop()));
    }
}

impl<'de> DeserializeSeed<'de> for &Walk {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &Walk {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        if text.contains('\0') { self.found(Flaw::Nul) } else { Ok(()) }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        for index in 0.. {
            self.enter(Step::Element(index))?;
            let is_there = elements.next_element_seed(self)?.is_some();
            self.leave();
            if !is_there {
                break;
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        let mut names = BTreeSet::new();
        while let Some(name) = fields.next_key::<String>()? {
            self.enter(Step::Field(name.clone()))?;
            self.visit_str(&name)?;
            if !names.insert(name) {
                return self.found(Flaw::DuplicateField);
            }
            fields.next_value_seed(self)?;
            self.leave();
        }
        Ok(())
    }
}

/// A place for people. Only the first levels and the beginnings of names are shown: it travels in a message's
/// attributes.
fn shown(place: &[Step]) -> String {
    const MOST_LEVELS: usize = 8;
    const MOST_CHARACTERS: usize = 64;
    let mut text = String::new();
    for step in place.iter().take(MOST_LEVELS) {
        // Writing to a string cannot fail.
        let _ = match step {
            Step::Element(index) => write!(text, "[{index}]"),
            Step::Field(name) => {
                let name = name.chars().take(MOST_CHARACTERS).flat_map(char::escape_debug).collect::<String>();
                write!(text, "{}{name}", if text.is_empty() { "" } else { "." })
            }
        };
    }
    if place.len() > MOST_LEVELS {
        text.push('…');
    }
    text
}

/// JSON as every queue takes it: two characters that JSON may hold are refused by SQS, or replaced, and stand as
/// escapes here. They occur within strings only.
pub fn sendable(json: String) -> String {
    if !json.contains(UNSENDABLE) {
        return json;
    }
    json.replace(UNSENDABLE[0], "\\ufffe").replace(UNSENDABLE[1], "\\uffff")
}

/// By the API reference of SQS, `SendMessage`, a message holds #x9, #xA, #xD, #x20 to #xD7FF, #xE000 to #xFFFD and
/// #x10000 to
/// #x10FFFF; the control characters below these are escaped in any JSON.
const UNSENDABLE: [char; 2] = ['\u{fffe}', '\u{ffff}'];

/// The same JSON without insignificant white space, and [sendable]. Numbers and strings stay as they were written: a
/// payload may hold numbers that no float can carry, and the downstream must see the sender's.
pub fn compact(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let (mut in_string, mut escaped) = (false, false);
    for c in json.chars() {
        if in_string {
            out.push(c);
            in_string = escaped || c != '"';
            escaped = !escaped && c == '\\';
        } else if !c.is_ascii_whitespace() {
            in_string = c == '"';
            out.push(c);
        }
    }
    sendable(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn flaw(json: &str) -> (Flaw, String) {
        check(json).expect_err(json)
    }

    #[test]
    fn each_flaw_is_found_where_it_lies() {
        for (json, flawed, place) in [
            (r#"{"a":1,"b":2,"a":1}"#, Flaw::DuplicateField, "a"),
            (r#"{"a":1,"\u0061":1}"#, Flaw::DuplicateField, "a"),
            (r#"{"p":{"items":[{},{"n":1,"n":1}]}}"#, Flaw::DuplicateField, "p.items[1].n"),
            (r#"{"p":["","x\u0000"]}"#, Flaw::Nul, "p[1]"),
            (r#"{"p":{"x\u0000":1}}"#, Flaw::Nul, r"p.x\0"),
            (r#"{"p":"\ud800"}"#, Flaw::UnpairedSurrogate, "p"),
            (r#"{"p":"\udc00x"}"#, Flaw::UnpairedSurrogate, "p"),
            (r#"{"p":"\ud800\ud800"}"#, Flaw::UnpairedSurrogate, "p"),
            (r#"{"p":[1,-1e400]}"#, Flaw::NumberOutOfRange, "p[1]"),
            (r#""\u0000""#, Flaw::Nul, ""),
        ] {
            assert_eq!(flaw(json), (flawed, place.to_owned()), "{json}");
        }
    }

    #[test]
    fn what_is_sound_passes_to_any_reasonable_depth() {
        for json in [
            r#"{"a":{"n":1},"b":{"n":1}}"#,
            r#""\ud83d\ude00""#,
            "12345678901234567890123",
            "1e308",
            "[null,true,-1,0.5]",
        ] {
            assert_eq!(check(json), Ok(()), "{json}");
        }
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert_eq!(check(&nested(MAX_DEPTH)), Ok(()));
        assert_eq!(flaw(&nested(MAX_DEPTH + 1)), (Flaw::TooDeep, "[0][0][0][0][0][0][0][0]…".to_owned()));
        // Far deeper than any stack.
        assert_eq!(flaw(&nested(100_000)).0, Flaw::TooDeep);
    }

    #[test]
    fn a_place_stays_short_and_holds_no_control_character() {
        let (_, place) = flaw(&format!(r#"{{"\u001b[2J{}":"\u0000"}}"#, "x".repeat(100_000)));
        assert!(place.len() < 200 && !place.chars().any(char::is_control), "{place}");
    }

    proptest! {
        #[test]
        fn compacting_keeps_the_value_and_is_idempotent(key in ".*", text in ".*", number in any::<f64>()) {
            let value = serde_json::json!({ key: { "s": text, "n": number }, "l": [1, null, true] });
            let pretty = serde_json::to_string_pretty(&value).unwrap();
            let compacted = compact(&pretty);
            prop_assert_eq!(&compacted, &sendable(value.to_string()));
            prop_assert_eq!(compact(&compacted), compacted.clone());
        }
    }
}
