//! A bound of what an expression makes of the value that it reads, and of the work that this takes.
//!
//! The interpreter has no bounds: `[@,@][]|` thirty times makes a list of a billion entries. But JMESPath has no
//! variables, so the parts of an expression say how large each value becomes. [`check`] goes through them once, when
//! the routes file is read, with a value of [`INPUT`] bytes in mind whose lists have items of [`ITEM`] bytes. No part's
//! value grows faster than what it reads (`join` with a text of the payload would), so a bound that holds for small
//! items holds for large ones, and one that holds for this value holds in proportion for every larger one.

use jmespath::Variable;
use jmespath::ast::{Ast, KeyValuePair};
use serde_json::Number;

/// The bytes of the value that is read.
const INPUT: u64 = 4096;
/// The bytes of the smallest item: `1,`.
const ITEM: u64 = 2;
/// The most times its input that a value may become.
const MAX_GROWTH: u64 = 32;
/// The work for each byte of its input: a step of the interpreter, a byte compared, or eight bytes of memory.
const MAX_WORK: u64 = 128;
/// A number, a boolean or the name of a type.
const SCALAR: u64 = 8;
/// The work that a list or an object takes for its memory, beside that of its parts.
const A_LIST: u64 = 16;
const AN_OBJECT: u64 = 96;
/// The largest size that is counted, so that none overflows.
const TOO_MUCH: u64 = 1 << 32;
/// The first step with which slices of the interpreter overflow.
const MAX_STEP: u32 = 1 << 30;
/// The first integer that the interpreter, which takes doubles for equal that are close, does not tell from others.
const EXACT: f64 = (1_u64 << 51) as f64;

/// Returns whether the interpreter tells a number from its neighbours.
pub(super) fn is_exact(number: &Number) -> bool {
    number.as_f64().is_some_and(|number| number.abs() < EXACT)
}

/// Refuses an expression that could make too much of what it reads.
pub(super) fn check(ast: &Ast) -> Result<(), String> {
    let mut growth = Growth::default();
    growth.of(ast, INPUT);
    growth.refused.map_or(Ok(()), Err)
}

#[derive(Default)]
struct Growth {
    work: u64,
    refused: Option<String>,
}

impl Growth {
    /// Returns the most bytes that an expression makes of `input` bytes.
    fn of(&mut self, ast: &Ast, input: u64) -> u64 {
        let (size, work) = match ast {
            Ast::Identity { .. } | Ast::Field { .. } => (input, 1),
            Ast::Index { idx, .. } if idx.unsigned_abs() < MAX_STEP => (input, 1),
            Ast::Slice { step, .. } if step.unsigned_abs() < MAX_STEP => (input, input),
            Ast::Index { .. } | Ast::Slice { .. } => self.refuse("an index, or a step, is out of range"),
            Ast::Literal { value, .. } => (self.written(value), 1),
            Ast::Subexpr { lhs, rhs, .. } => {
                let left = self.of(lhs, input);
                (self.of(rhs, left), 1)
            }
            Ast::Or { lhs, rhs, .. } | Ast::And { lhs, rhs, .. } => (self.of(lhs, input).max(self.of(rhs, input)), 1),
            Ast::Condition { predicate, then, .. } => {
                self.of(predicate, input);
                (self.of(then, input), 1)
            }
            Ast::Not { node, .. } => {
                self.of(node, input);
                (SCALAR, SCALAR)
            }
            Ast::Comparison { lhs, rhs, .. } => (SCALAR, SCALAR + self.of(lhs, input).min(self.of(rhs, input))),
            Ast::Flatten { node, .. } | Ast::ObjectValues { node, .. } => {
                let size = self.of(node, input);
                (size, size)
            }
            Ast::Projection { lhs, rhs, .. } => {
                let of = self.of(lhs, input);
                (self.each(rhs, of), of)
            }
            Ast::MultiList { elements, .. } => {
                (elements.iter().fold(ITEM, |size, element| size + 1 + self.of(element, input)), A_LIST)
            }
            Ast::MultiHash { elements, .. } => {
                let field = |size, KeyValuePair { key, value }: &_| size + 4 + length(key) + self.of(value, input);
                (elements.iter().fold(ITEM, field), AN_OBJECT + A_LIST * elements.len() as u64)
            }
            Ast::Function { name, args, .. } => self.function(name, args, input),
            Ast::Expref { .. } => self.refuse("`&` is for an argument of `map`, `max_by`, `min_by` and `sort_by`"),
        };
        self.work = self.work.saturating_add(work);
        if size > MAX_GROWTH * INPUT || self.work > MAX_WORK * INPUT {
            self.refuse(
                "its value could become over 32 times as large as what it reads, or take over 128 steps for each byte",
            );
        }
        size.min(TOO_MUCH)
    }

    /// Notes the first thing that is wrong.
    fn refuse(&mut self, what: &str) -> (u64, u64) {
        self.refused.get_or_insert_with(|| what.to_owned());
        (0, 0)
    }

    /// Returns the most bytes that an expression makes of all items of a list.
    fn each(&mut self, ast: &Ast, list: u64) -> u64 {
        let (before, items) = (std::mem::take(&mut self.work), list.div_ceil(ITEM));
        let size = self.of(ast, ITEM);
        self.work = items.saturating_mul(self.work + 1).saturating_add(before);
        items.saturating_mul(size)
    }

    /// Returns the most bytes that a function makes, and its work.
    fn function(&mut self, name: &str, args: &[Ast], input: u64) -> (u64, u64) {
        match (name, args) {
            ("map", [Ast::Expref { ast, .. }, of]) => {
                let of = self.of(of, input);
                return (self.each(ast, of), of);
            }
            ("sort_by" | "max_by" | "min_by", [of, Ast::Expref { ast, .. }]) => {
                let of = self.of(of, input);
                return (of, self.each(ast, of).saturating_mul(SCALAR));
            }
            ("join", [Ast::Literal { value, .. }, of]) => {
                let size = self.of(of, input);
                let items = if let Ast::MultiList { elements, .. } = of { elements.len() as u64 } else { size / ITEM };
                let size = size + items * (self.written(value) - ITEM);
                return (size, size);
            }
            ("join", [_, _]) => return self.refuse("`join` takes a literal text between the others"),
            _ => {}
        }
        let size = args.iter().fold(SCALAR, |size, arg| size + self.of(arg, input));
        match name {
            "abs" | "avg" | "ceil" | "contains" | "ends_with" | "floor" | "length" | "starts_with" | "sum" | "type" => {
                (SCALAR, size)
            }
            // Each byte may need an escape.
            "to_string" => (6 * size, size),
            "sort" => (size, SCALAR * size),
            _ => (size, size),
        }
    }

    /// Returns the bytes of a literal.
    fn written(&mut self, value: &Variable) -> u64 {
        let within = match value {
            Variable::Number(number) if !is_exact(number) => self.refuse(&format!("write {number} as text")).0,
            Variable::Array(items) => items.iter().map(|item| self.written(item)).sum(),
            Variable::Object(fields) => fields.iter().map(|(name, field)| 4 + length(name) + self.written(field)).sum(),
            Variable::String(text) => length(text),
            Variable::Null | Variable::Bool(_) | Variable::Number(_) | Variable::Expref(_) => 0,
        };
        ITEM + within
    }
}

const fn length(text: &str) -> u64 {
    text.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(source: &str) -> Result<(), String> {
        check(&jmespath::parse(source).unwrap())
    }

    #[test]
    fn an_expression_that_could_grow_without_bound_is_refused() {
        let (flat, deep) = ("[@,@][]|".repeat(30), "[@,@]|".repeat(60));
        for (source, says) in [
            (format!("{flat}@"), "32 times"),
            (format!("{deep}to_string(@)"), "32 times"),
            (format!("{deep}(@ == [@[0],@[1]])"), "32 times"),
            ("{a: @, b: @}|".repeat(8) + "@", "32 times"),
            ("to_string(@) | ".repeat(3) + "@", "32 times"),
            ("n[*].{a: {a: {a: @}}}".to_owned(), "128 steps"),
            ("map(&[[[[[[@]]]]]], n)[*].[[[[@]]]]".to_owned(), "128 steps"),
            ("sort_by(n, &to_string([@,@,@]))".to_owned(), "128 steps"),
            ("join(to_string(@), @[*].to_string(@))".to_owned(), "literal text"),
            (format!("join('{}', n)", "x".repeat(100)), "32 times"),
            ("[&n]".to_owned(), "`&` is for an argument"),
            ("to_string(&n)".to_owned(), "`&` is for an argument"),
            ("n[1::2147483647]".to_owned(), "out of range"),
            ("n == `2251799813685248`".to_owned(), "as text"),
            ("n == `[{\"a\":1e300}]`".to_owned(), "as text"),
        ] {
            let told = checked(&source).expect_err(&source);
            assert!(told.contains(says), "{source}: {told}");
        }
    }

    #[test]
    fn an_expression_as_routes_need_it_is_accepted() {
        let countries = "'xx', ".repeat(30);
        for source in [
            "type == 'parcel' && contains(tags, 'x') && !(weight > `2251799813685247`)",
            "items[*].{id: index._id, ok: index.status < `300`}",
            "items[?a == 'b' && c == 'd' || starts_with(e, 'f')].{id: id} | [0]",
            "join('/', [a, to_string(b), c])",
            "sort_by(items, &at)[-1].id",
            "values(map(&to_string(id), rows) | [0])",
            &format!("contains([{countries}'yy'], country)"),
            &format!("items[?contains([{countries}'yy'], country)]"),
            &format!("{}n{}", "reverse(".repeat(20), ")".repeat(20)),
        ] {
            assert_eq!(checked(source), Ok(()), "{source}");
        }
    }
}
