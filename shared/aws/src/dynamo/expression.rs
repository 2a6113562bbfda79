//! Preconditions and changes, and the one place where they become DynamoDB expressions.
//!
//! Every attribute goes in by a placeholder, so none can collide with a reserved word.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;

/// One clause of a precondition; a write's clauses must all hold.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Clause {
    /// The attribute is not there, perhaps because the item is not.
    Absent(&'static str),
    /// The attribute has this value.
    Equals(&'static str, AttributeValue),
    /// The attribute has one of these values.
    OneOf(&'static str, Vec<AttributeValue>),
    /// The attribute, a text, begins with this, or has one of these values, if there are any.
    Begins(&'static str, AttributeValue, Vec<AttributeValue>),
    /// The attribute is there.
    Present(&'static str),
    /// The attribute is not there or has this value.
    AbsentOrEquals(&'static str, AttributeValue),
    /// The attribute, a number, is not there or lower than this.
    AbsentOrBelow(&'static str, AttributeValue),
    /// The attribute, a number, is lower than this.
    Below(&'static str, AttributeValue),
    /// The attribute, a number, is this or lower.
    AtMost(&'static str, AttributeValue),
    /// The attribute, a number, is this or higher.
    AtLeast(&'static str, AttributeValue),
    /// The attribute lies between these two, both included.
    Between(&'static str, AttributeValue, AttributeValue),
    /// The attribute, which some caller's key names, is not there.
    KeyAbsent(String),
    /// The attribute, which some caller's key names, is there.
    KeyPresent(String),
    /// The attribute is a map that has this key.
    PresentWithin(&'static str, String),
    /// The attribute is a map that has this key, with this number or a lower one.
    AtMostWithin(&'static str, String, AttributeValue),
}

impl Clause {
    /// The attribute is as it was seen: this value, or not there.
    pub(crate) fn unchanged(attribute: &'static str, seen: Option<AttributeValue>) -> Self {
        match seen {
            Some(value) => Self::Equals(attribute, value),
            None => Self::Absent(attribute),
        }
    }
}

/// Attribute names by placeholder.
type Names = HashMap<String, String>;
/// Values by placeholder.
type Values = HashMap<String, AttributeValue>;

/// The placeholders of one request.
#[derive(Debug, Default)]
pub(crate) struct Terms {
    names: Names,
    values: Values,
}

impl Terms {
    /// The condition (or filter) that all clauses hold; there must be one at least.
    pub(crate) fn condition(&mut self, clauses: &[Clause]) -> String {
        let clauses: Vec<String> = clauses.iter().map(|clause| self.clause(clause)).collect();
        clauses.join(" AND ")
    }

    /// The only attributes that a read is to return, unless it is to return all.
    pub(crate) fn projection(&mut self, attributes: &[&'static str]) -> Option<String> {
        let names: Vec<String> = attributes.iter().map(|attribute| self.name(attribute)).collect();
        (!names.is_empty()).then(|| names.join(", "))
    }

    fn clause(&mut self, clause: &Clause) -> String {
        match clause {
            Clause::Absent(attribute) => format!("attribute_not_exists({})", self.name(attribute)),
            Clause::Present(attribute) => format!("attribute_exists({})", self.name(attribute)),
            Clause::Equals(attribute, value) => format!("{} = {}", self.name(attribute), self.value(value.clone())),
            Clause::OneOf(attribute, values) => {
                let values: Vec<String> = values.iter().map(|value| self.value(value.clone())).collect();
                format!("{} IN ({})", self.name(attribute), values.join(", "))
            }
            Clause::Begins(attribute, beginning, values) => {
                let (name, beginning) = (self.name(attribute), self.value(beginning.clone()));
                let begins = format!("begins_with({name}, {beginning})");
                let values: Vec<String> = values.iter().map(|value| self.value(value.clone())).collect();
                match values.is_empty() {
                    true => begins,
                    false => format!("({begins} OR {name} IN ({}))", values.join(", ")),
                }
            }
            Clause::AbsentOrEquals(attribute, value) => {
                let (name, value) = (self.name(attribute), self.value(value.clone()));
                format!("(attribute_not_exists({name}) OR {name} = {value})")
            }
            Clause::AbsentOrBelow(attribute, value) => {
                let (name, value) = (self.name(attribute), self.value(value.clone()));
                format!("(attribute_not_exists({name}) OR {name} < {value})")
            }
            Clause::Below(attribute, value) => format!("{} < {}", self.name(attribute), self.value(value.clone())),
            Clause::AtMost(attribute, value) => format!("{} <= {}", self.name(attribute), self.value(value.clone())),
            Clause::AtLeast(attribute, value) => format!("{} >= {}", self.name(attribute), self.value(value.clone())),
            Clause::Between(attribute, from, last) => {
                let (name, from) = (self.name(attribute), self.value(from.clone()));
                format!("{name} BETWEEN {from} AND {}", self.value(last.clone()))
            }
            Clause::KeyAbsent(attribute) => format!("attribute_not_exists({})", self.name(attribute)),
            Clause::KeyPresent(attribute) => format!("attribute_exists({})", self.name(attribute)),
            Clause::AtMostWithin(map, key, value) => {
                format!("{} <= {}", self.path(&[map, key]), self.value(value.clone()))
            }
            Clause::PresentWithin(map, key) => format!("attribute_exists({})", self.path(&[map, key])),
        }
    }

    fn name(&mut self, attribute: &str) -> String {
        if let Some((placeholder, _)) = self.names.iter().find(|(_, named)| *named == attribute) {
            return placeholder.clone();
        }
        // A placeholder takes letters and digits; an attribute that a caller's key names may hold anything.
        let is_plain = attribute.chars().all(|c| c.is_ascii_alphanumeric());
        let placeholder = if is_plain { format!("#{attribute}") } else { format!("#n_{}", self.names.len()) };
        self.names.insert(placeholder.clone(), attribute.to_owned());
        placeholder
    }

    /// The way to what lies in maps within an attribute.
    fn path(&mut self, path: &[&str]) -> String {
        let names: Vec<String> = path.iter().map(|part| self.name(part)).collect();
        names.join(".")
    }

    fn value(&mut self, value: AttributeValue) -> String {
        let placeholder = format!(":v{}", self.values.len());
        self.values.insert(placeholder.clone(), value);
        placeholder
    }

    /// Names and values as a request takes them: `None` instead of an empty map, which DynamoDB refuses.
    pub(crate) fn into_parts(self) -> (Option<Names>, Option<Values>) {
        let Self { names, values } = self;
        ((!names.is_empty()).then_some(names), (!values.is_empty()).then_some(values))
    }
}

/// A write that is made only if all clauses hold. The SDK's writes have these methods alike, but share no trait.
macro_rules! on_condition {
    ($write:expr, $terms:expr, $clauses:expr) => {{
        let mut terms: $crate::dynamo::expression::Terms = $terms;
        let condition = terms.condition($clauses);
        let (names, values) = terms.into_parts();
        $write
            .condition_expression(condition)
            .set_expression_attribute_names(names)
            .set_expression_attribute_values(values)
    }};
}
pub(crate) use on_condition;

/// A change to one item.
#[derive(Debug, Default)]
pub(crate) struct Change {
    sets: Vec<String>,
    adds: Vec<String>,
    removes: Vec<String>,
    pub(crate) terms: Terms,
}

impl Change {
    /// Gives an attribute a value.
    pub(crate) fn set(mut self, attribute: &str, value: AttributeValue) -> Self {
        let assignment = format!("{} = {}", self.terms.name(attribute), self.terms.value(value));
        self.sets.push(assignment);
        self
    }

    /// Gives an attribute a value if it has none.
    pub(crate) fn set_if_absent(mut self, attribute: &'static str, value: AttributeValue) -> Self {
        let (name, value) = (self.terms.name(attribute), self.terms.value(value));
        self.sets.push(format!("{name} = if_not_exists({name}, {value})"));
        self
    }

    /// Gives an attribute a value, or takes it away.
    pub(crate) fn set_or_remove(self, attribute: &'static str, value: Option<AttributeValue>) -> Self {
        match value {
            Some(value) => self.set(attribute, value),
            None => self.remove(attribute),
        }
    }

    /// Gives an attribute the value that another one has before this change.
    pub(crate) fn set_to(mut self, attribute: &str, other: &'static str) -> Self {
        let assignment = format!("{} = {}", self.terms.name(attribute), self.terms.name(other));
        self.sets.push(assignment);
        self
    }

    /// Adds to a number that is there; others may be set to what it was.
    pub(crate) fn increase(mut self, attribute: &'static str, value: AttributeValue) -> Self {
        let (name, value) = (self.terms.name(attribute), self.terms.value(value));
        self.sets.push(format!("{name} = {name} + {value}"));
        self
    }

    /// Adds to a number that is there, in maps within an attribute.
    pub(crate) fn increase_within(mut self, path: [&str; 3], value: AttributeValue) -> Self {
        let (name, value) = (self.terms.path(&path), self.terms.value(value));
        self.sets.push(format!("{name} = {name} + {value}"));
        self
    }

    /// Adds to a number; one that is not there counts as zero.
    pub(crate) fn add(mut self, attribute: &'static str, value: AttributeValue) -> Self {
        let addition = format!("{} {}", self.terms.name(attribute), self.terms.value(value));
        self.adds.push(addition);
        self
    }

    /// Takes an attribute away.
    pub(crate) fn remove(mut self, attribute: &str) -> Self {
        let name = self.terms.name(attribute);
        self.removes.push(name);
        self
    }

    /// Takes away what lies in a map.
    pub(crate) fn remove_within(mut self, path: [&str; 2]) -> Self {
        let path = self.terms.path(&path);
        self.removes.push(path);
        self
    }

    /// The update expression.
    pub(crate) fn expression(&self) -> String {
        [("SET", &self.sets), ("ADD", &self.adds), ("REMOVE", &self.removes)]
            .into_iter()
            .filter(|(_, actions)| !actions.is_empty())
            .map(|(keyword, actions)| format!("{keyword} {}", actions.join(", ")))
            .collect::<Vec<_>>()
            .join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dynamo::item::{number, text};

    #[test]
    fn a_precondition_is_the_conjunction_of_its_clauses() {
        let mut terms = Terms::default();
        let clauses = [
            Clause::Absent("LockHolder"),
            Clause::AbsentOrBelow("Fence", number(7_u64)),
            Clause::unchanged("OpenBatch", Some(text("b"))),
        ];
        assert_eq!(
            terms.condition(&clauses),
            "attribute_not_exists(#LockHolder) AND (attribute_not_exists(#Fence) OR #Fence < :v0) AND #OpenBatch = :v1"
        );
        assert_eq!(terms.names["#Fence"], "Fence");
        assert_eq!(terms.values[":v0"], number(7_u64));
    }

    #[test]
    fn an_attribute_that_a_key_names_gets_a_placeholder_of_its_own() {
        let change = Change::default().set_to("s:a-b#c", "Taken").increase("Taken", number(3_u64)).remove("s:a-b#c");
        assert_eq!(change.expression(), "SET #n_0 = #Taken, #Taken = #Taken + :v0 REMOVE #n_0");
        assert_eq!(change.terms.names["#n_0"], "s:a-b#c");
    }

    #[test]
    fn what_lies_in_maps_is_named_by_its_way() {
        let change = Change::default().increase_within(["Shares", "12", "N"], number(1_u64));
        assert_eq!(change.expression(), "SET #Shares.#12.#N = #Shares.#12.#N + :v0");
        let clause = Clause::PresentWithin("Shares", "12".to_owned());
        assert_eq!(Terms::default().condition(&[clause]), "attribute_exists(#Shares.#12)");
    }

    #[test]
    fn a_change_names_each_kind_of_action_once() {
        let change = Change::default().set("A", text("a")).remove("B").add("C", number(1_u64)).remove("D");
        assert_eq!(change.expression(), "SET #A = :v0 ADD #C :v1 REMOVE #B, #D");
    }
}
