//! The checks of a mapping before it is used.

use super::format::Format;
use super::mapping::ResponseMapping;
use crate::routes::expression::Expression;

impl ResponseMapping {
    /// Returns what makes the mapping contradict itself, as the end of a sentence about the route's `response`.
    pub(in crate::routes) fn contradiction(&self) -> Option<&'static str> {
        let has_entries = self.results.is_some() || self.failures.is_some();
        let of_entries = self.of_entry().iter().any(|(_, expression)| expression.is_some());
        let lists_an_object = self.results.as_ref().is_some_and(Expression::lists_an_object);
        if self.results.is_some() && self.failures.is_some() {
            Some("has both `results` and `failures`: one list says what became of each member")
        } else if self.results.is_some() && self.succeeded.is_none() {
            Some("has `results` without `succeeded`: no member could ever succeed")
        } else if !has_entries && (of_entries || self.unmentioned.is_some()) {
            Some("says how to read an entry, and has neither `results` nor `failures`")
        } else if self.id.is_some() && self.index.is_some() {
            Some("has both `id` and `index`: one of them says which member an entry is for")
        } else if lists_an_object && self.id.is_none() && self.index.is_none() {
            Some(
                "has `results` that lists what an object has, which is in no order: say in `id` which member an entry \
                 is for",
            )
        } else if self.ignore_body && (has_entries || self.format != Format::Json) {
            Some("has `ignore_body` beside a field that needs the body")
        } else if self.format != Format::Json && !has_entries && self.all_succeeded.is_none() {
            Some("has a `format` without `results`, `failures` or `all_succeeded`: what became of the members?")
        } else {
            None
        }
    }

    /// Returns what is allowed and surely not meant: fields of the mapping, each with what is wrong.
    pub(in crate::routes) fn doubts(&self) -> Vec<(&'static str, String)> {
        let written = |(field, expression): (_, &Option<Expression>)| Some((field, expression.clone()?));
        let mut found = Vec::new();
        for (field, expression) in self.of_whole().into_iter().filter_map(written) {
            found.extend(Self::doubts_of_whole(&expression).into_iter().map(|what| (field, what)));
        }
        for (field, expression) in self.of_entry().into_iter().filter_map(written) {
            found.extend(expression.doubts().into_iter().map(|what| (field, what)));
        }
        found
    }

    /// Returns what is surely not meant of an expression that sees the whole answer.
    pub(in crate::routes) fn doubts_of_whole(expression: &Expression) -> Vec<String> {
        let (text, names) = (expression.as_str(), ["status", "headers", "body"]);
        let mut found = Vec::new();
        if !text.starts_with(['`', '\'']) && !names.iter().any(|name| text.contains(name)) {
            let what = "it sees `status`, `headers` and `body`, and names none of these: write `body.NAME`";
            found.push(what.to_owned());
        }
        found.extend(expression.doubts());
        found
    }
}
