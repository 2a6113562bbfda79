//! The search of a JMESPath expression in a value, within a budget of steps, and with integers that are compared
//! exactly.
//!
//! The crate's own interpreter has no bounds: `[@,@][]|` thirty times makes a list of a billion entries. Here each node
//! of the expression, each element that is listed, and each value that is compared or written takes a step, so memory
//! and time are bounded by [`Steps`]. The crate still parses, and evaluates the functions that take no expression.
//!
//! The crate compares numbers as doubles, which do not tell apart integers from 2^53 on. Integers up to 64 bits are
//! compared exactly here. What only a double holds, or what a function would round, is [`Failed::Inexact`].

use std::cmp::Ordering;
use std::sync::LazyLock;

use jmespath::ast::{Ast, Comparator, KeyValuePair};
use jmespath::{Context, DEFAULT_RUNTIME, Rcvar, Variable};
use serde_json::Number;

/// The steps that an expression may take for one payload, or all expressions of a mapping for one answer.
pub(super) const MAX_STEPS: usize = 2_000_000;
/// Bytes of text that are read or written in one step.
const BYTES_A_STEP: usize = 8;
/// Steps that a list, and an object, take beside those of their parts: for the memory that each allocates.
const STEPS_A_LIST: usize = 4;
const STEPS_AN_OBJECT: usize = 16;
/// From here on a double does not tell integers apart.
const EXACT: u64 = 1 << 53;

/// The functions that compute with numbers as doubles.
const ROUNDING: [&str; 11] =
    ["abs", "avg", "ceil", "floor", "max", "max_by", "min", "min_by", "sort", "sort_by", "sum"];

/// The steps that are left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steps(usize);

/// Why a search has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failed {
    /// It takes more steps than it may.
    OverBudget,
    /// The result depends on a number beyond 2^53 that is known as a double only.
    Inexact,
    /// The expression does not fit the value: a wrong type, an unknown function.
    Misfit,
}

type Found<T = Rcvar> = Result<T, Failed>;

impl Default for Steps {
    fn default() -> Self {
        Self(MAX_STEPS)
    }
}

impl Steps {
    fn take(&mut self, steps: usize) -> Found<()> {
        let left = self.0.checked_sub(steps);
        self.0 = left.unwrap_or_default();
        left.map(drop).ok_or(Failed::OverBudget)
    }

    fn take_text(&mut self, text: &str) -> Found<()> {
        self.take(1 + text.len() / BYTES_A_STEP)
    }

    /// Takes a step for each value within `value`; whether one is an integer, or else a number, that doubles round.
    fn take_all(&mut self, value: &Variable, is_rounded: fn(&Number) -> bool) -> Found<bool> {
        self.take(1)?;
        let mut found = false;
        match value {
            Variable::Array(items) => {
                for item in items {
                    found |= self.take_all(item, is_rounded)?;
                }
            }
            Variable::Object(fields) => {
                for (name, field) in fields {
                    self.take_text(name)?;
                    found |= self.take_all(field, is_rounded)?;
                }
            }
            Variable::String(text) => self.take_text(text)?,
            Variable::Number(number) => found = is_rounded(number),
            Variable::Null | Variable::Bool(_) | Variable::Expref(_) => {}
        }
        Ok(found)
    }

    /// Evaluates an expression.
    pub(super) fn search(&mut self, data: &Rcvar, ast: &Ast) -> Found {
        self.take(1)?;
        match ast {
            Ast::Identity { .. } => Ok(data.clone()),
            Ast::Literal { value, .. } => Ok(value.clone()),
            Ast::Field { name, .. } => {
                Ok(data.as_object().and_then(|fields| fields.get(name)).cloned().unwrap_or_else(null))
            }
            Ast::Index { idx, .. } => Ok(at(data, *idx)),
            Ast::Slice { start, stop, step, .. } => self.slice(data, *start, *stop, *step),
            Ast::Subexpr { lhs, rhs, .. } => {
                let left = self.search(data, lhs)?;
                self.search(&left, rhs)
            }
            Ast::Or { lhs, rhs, .. } => {
                let left = self.search(data, lhs)?;
                if left.is_truthy() { Ok(left) } else { self.search(data, rhs) }
            }
            Ast::And { lhs, rhs, .. } => {
                let left = self.search(data, lhs)?;
                if left.is_truthy() { self.search(data, rhs) } else { Ok(left) }
            }
            Ast::Not { node, .. } => Ok(bool(!self.search(data, node)?.is_truthy())),
            Ast::Condition { predicate, then, .. } => {
                if self.search(data, predicate)?.is_truthy() {
                    self.search(data, then)
                } else {
                    Ok(null())
                }
            }
            Ast::Comparison { comparator, lhs, rhs, .. } => {
                let (left, right) = (self.search(data, lhs)?, self.search(data, rhs)?);
                Ok(self.compare(comparator, &left, &right)?.map_or_else(null, bool))
            }
            Ast::Projection { lhs, rhs, .. } => self.project(data, lhs, rhs),
            Ast::Flatten { node, .. } => self.flatten(data, node),
            Ast::ObjectValues { node, .. } => {
                let subject = self.search(data, node)?;
                let Some(fields) = subject.as_object() else { return Ok(null()) };
                self.take(fields.len())?;
                Ok(list(fields.values().cloned().collect()))
            }
            Ast::MultiList { .. } | Ast::MultiHash { .. } if data.is_null() => Ok(null()),
            Ast::MultiList { elements, .. } => {
                self.take(STEPS_A_LIST)?;
                elements.iter().map(|node| self.search(data, node)).collect::<Found<_>>().map(list)
            }
            Ast::MultiHash { elements, .. } => {
                self.take(STEPS_AN_OBJECT)?;
                let field = |KeyValuePair { key, value }: &KeyValuePair| {
                    self.take_text(key)?;
                    Ok((key.clone(), self.search(data, value)?))
                };
                Ok(Rcvar::new(Variable::Object(elements.iter().map(field).collect::<Found<_>>()?)))
            }
            Ast::Function { name, args, .. } => self.call(data, name, args),
            // As a value it would be copied with all that is in it; functions read it where it is written.
            Ast::Expref { .. } => Err(Failed::Misfit),
        }
    }

    fn project(&mut self, data: &Rcvar, of: &Ast, each: &Ast) -> Found {
        let of = self.search(data, of)?;
        let Some(items) = of.as_array() else { return Ok(null()) };
        let mut found = Vec::new();
        for item in items {
            let one = self.search(item, each)?;
            if !one.is_null() {
                found.push(one);
            }
        }
        Ok(list(found))
    }

    fn flatten(&mut self, data: &Rcvar, of: &Ast) -> Found {
        let of = self.search(data, of)?;
        let Some(items) = of.as_array() else { return Ok(null()) };
        let mut found = Vec::new();
        for item in items {
            let within = item.as_array().map_or(std::slice::from_ref(item), Vec::as_slice);
            self.take(1 + within.len())?;
            found.extend_from_slice(within);
        }
        Ok(list(found))
    }

    fn slice(&mut self, data: &Rcvar, start: Option<i32>, stop: Option<i32>, step: i32) -> Found {
        let Some(items) = data.as_array() else { return Ok(null()) };
        self.take(items.len())?;
        let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
        let (first, last) = if step < 0 { (-1, length - 1) } else { (0, length) };
        let end = |end: i32| (i64::from(end) + if end < 0 { length } else { 0 }).clamp(first, last);
        let (from, to) = match step {
            0 => return Err(Failed::Misfit),
            ..0 => (stop.map_or(first, end) + 1, start.map_or(last, end) + 1),
            _ => (start.map_or(first, end), stop.map_or(last, end)),
        };
        let index = |at: i64| usize::try_from(at).unwrap_or_default();
        let within = items.get(index(from)..index(to)).unwrap_or_default();
        let each = usize::try_from(step.unsigned_abs()).unwrap_or(usize::MAX);
        Ok(list(match step {
            ..0 => within.iter().rev().step_by(each).cloned().collect(),
            _ => within.iter().step_by(each).cloned().collect(),
        }))
    }

    fn call(&mut self, data: &Rcvar, name: &str, args: &[Ast]) -> Found {
        match (name, args) {
            ("map", [Ast::Expref { ast, .. }, of]) => {
                let of = self.search(data, of)?;
                let items = of.as_array().ok_or(Failed::Misfit)?;
                items.iter().map(|item| self.search(item, ast)).collect::<Found<_>>().map(list)
            }
            ("sort_by" | "max_by" | "min_by", [of, Ast::Expref { ast, .. }]) => {
                let of = self.search(data, of)?;
                let items = of.as_array().ok_or(Failed::Misfit)?;
                let keyed = |item: &Rcvar| Ok(list(vec![self.search(item, ast)?, item.clone()]));
                let keyed = items.iter().map(keyed).collect::<Found<Vec<_>>>()?;
                for pair in &keyed {
                    self.take_exact(&at(pair, 0))?;
                }
                let key = Rcvar::new(Variable::Expref(Ast::Index { offset: 0, idx: 0 }));
                let found = evaluate(name, &[list(keyed), key])?;
                Ok(match found.as_array() {
                    Some(pairs) if name == "sort_by" => list(pairs.iter().map(|pair| at(pair, 1)).collect()),
                    Some(_) | None => at(&found, 1),
                })
            }
            _ => {
                let args = args.iter().map(|arg| self.search(data, arg)).collect::<Found<Vec<_>>>()?;
                self.plain(name, &args)
            }
        }
    }

    /// Calls a function whose arguments are values.
    fn plain(&mut self, name: &str, args: &[Rcvar]) -> Found {
        match (name, args) {
            ("contains", [within, sought]) => {
                if let Some(items) = within.as_array() {
                    for item in items {
                        if self.equals(item, sought)? {
                            return Ok(bool(true));
                        }
                    }
                    return Ok(bool(false));
                }
                self.take_all(within, |_| false)?;
            }
            ("join", [glue, of]) => {
                let glue = glue.as_string().map_or(0, String::len);
                let count = of.as_array().map_or(0, Vec::len);
                self.take(count.saturating_mul(glue) / BYTES_A_STEP)?;
                self.take_all(of, |_| false)?;
            }
            ("to_string", [value]) => {
                if self.take_all(value, |number| number.is_f64() && is_rounded(number))? {
                    return Err(Failed::Inexact);
                }
            }
            _ if ROUNDING.contains(&name) => args.iter().try_for_each(|arg| self.take_exact(arg))?,
            _ => {
                let length = |arg: &Rcvar| match &**arg {
                    Variable::Array(items) => items.len(),
                    Variable::Object(fields) => fields.keys().map(|name| 1 + name.len() / BYTES_A_STEP).sum(),
                    Variable::String(text) => text.len() / BYTES_A_STEP,
                    Variable::Null | Variable::Bool(_) | Variable::Number(_) | Variable::Expref(_) => 0,
                };
                self.take(args.iter().map(length).sum())?;
            }
        }
        evaluate(name, args)
    }

    /// Takes a step for each value within one that a function reads as doubles.
    fn take_exact(&mut self, value: &Variable) -> Found<()> {
        if self.take_all(value, is_rounded)? { Err(Failed::Inexact) } else { Ok(()) }
    }

    fn compare(&mut self, comparator: &Comparator, left: &Variable, right: &Variable) -> Found<Option<bool>> {
        let order = match (comparator, left, right) {
            (Comparator::Equal, ..) => return self.equals(left, right).map(Some),
            (Comparator::NotEqual, ..) => return self.equals(left, right).map(|same| Some(!same)),
            (_, Variable::Number(left), Variable::Number(right)) => order(left, right)?,
            _ => return Ok(None),
        };
        Ok(Some(match comparator {
            Comparator::LessThan => order.is_lt(),
            Comparator::LessThanEqual => order.is_le(),
            Comparator::GreaterThan => order.is_gt(),
            Comparator::GreaterThanEqual => order.is_ge(),
            Comparator::Equal | Comparator::NotEqual => order.is_eq(),
        }))
    }

    fn equals(&mut self, left: &Variable, right: &Variable) -> Found<bool> {
        self.take(1)?;
        match (left, right) {
            (Variable::Number(left), Variable::Number(right)) => order(left, right).map(Ordering::is_eq),
            (Variable::String(left), Variable::String(right)) => {
                self.take_text(left)?;
                Ok(left == right)
            }
            (Variable::Array(left), Variable::Array(right)) => {
                let mut same = left.len() == right.len();
                for (left, right) in left.iter().zip(right) {
                    same = same && self.equals(left, right)?;
                }
                Ok(same)
            }
            (Variable::Object(left), Variable::Object(right)) => {
                let mut same = left.len() == right.len();
                for ((name, left), (other, right)) in left.iter().zip(right) {
                    self.take_text(name)?;
                    same = same && name == other && self.equals(left, right)?;
                }
                Ok(same)
            }
            (Variable::Bool(left), Variable::Bool(right)) => Ok(left == right),
            _ => Ok(left.is_null() && right.is_null()),
        }
    }
}

/// The order of two numbers: of integers exactly, else as doubles, of which neighbours are the same.
fn order(left: &Number, right: &Number) -> Found<Ordering> {
    if let (Some(left), Some(right)) = (left.as_i128(), right.as_i128()) {
        return Ok(left.cmp(&right));
    }
    let (a, b) = (left.as_f64().unwrap_or(f64::NAN), right.as_f64().unwrap_or(f64::NAN));
    let is_same = (a - b).abs() <= f64::EPSILON * (a.abs() + b.abs());
    match a.partial_cmp(&b) {
        Some(_) if is_same && (is_rounded(left) || is_rounded(right)) => Err(Failed::Inexact),
        Some(_) if is_same => Ok(Ordering::Equal),
        order => order.ok_or(Failed::Misfit),
    }
}

/// Whether a double does not tell this number from its neighbours.
fn is_rounded(number: &Number) -> bool {
    number.as_f64().is_none_or(|number| number.abs() >= EXACT as f64)
}

fn evaluate(name: &str, args: &[Rcvar]) -> Found {
    let function = DEFAULT_RUNTIME.get_function(name).ok_or(Failed::Misfit)?;
    function.evaluate(args, &mut Context::new("", &DEFAULT_RUNTIME)).map_err(|_| Failed::Misfit)
}

fn at(value: &Variable, index: i32) -> Rcvar {
    let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
    let back = usize::try_from(index.unsigned_abs()).unwrap_or(usize::MAX);
    let index = if index < 0 { items.len().checked_sub(back) } else { Some(back) };
    index.and_then(|index| items.get(index)).cloned().unwrap_or_else(null)
}

fn list(items: Vec<Rcvar>) -> Rcvar {
    Rcvar::new(Variable::Array(items))
}

fn bool(value: bool) -> Rcvar {
    Rcvar::new(Variable::Bool(value))
}

/// One for all: a search may meet millions.
fn null() -> Rcvar {
    static NULL: LazyLock<Rcvar> = LazyLock::new(|| Rcvar::new(Variable::Null));
    NULL.clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(source: &str, json: &str) -> Found<String> {
        let ast = jmespath::parse(source).unwrap();
        Steps::default().search(&Rcvar::new(Variable::from_json(json).unwrap()), &ast).map(|found| found.to_string())
    }

    #[test]
    fn an_expression_that_grows_without_bound_is_stopped() {
        let (flat, deep) = ("[@,@][]|".repeat(30), "[@,@]|".repeat(60));
        for source in [
            format!("{flat}@"),
            format!("{deep}to_string(@)"),
            format!("{deep}(@ == [@[0],@[1]])"),
            format!("{deep}contains([@], @)"),
            format!("{flat}[*].{{a: @, b: @}}"),
            format!("{}[*].keys(@)", "[@,@][]|".repeat(19)),
            format!("{}map(&[@,@], @)", "[@,@][]|".repeat(19)),
            format!("{}sort_by(@, &to_string(@))", "[@,@][]|".repeat(19)),
            format!("{}join(to_string(@), @[*].to_string(@))", "[@,@][]|".repeat(12)),
        ] {
            assert_eq!(search(&source, r#"{"a":1}"#), Err(Failed::OverBudget), "{source}");
        }
    }

    #[test]
    fn integers_are_compared_exactly_or_not_at_all() {
        let (one, other, beyond) = ("9007199254740992", "9007199254740993", "18446744073709551616");
        for (source, json, found) in [
            (format!("@ == `{one}`"), other, Ok("false")),
            (format!("@ != `{one}`"), other, Ok("true")),
            (format!("@ > `{one}`"), other, Ok("true")),
            (format!("[@] == [`{one}`]"), other, Ok("false")),
            (format!("contains([`{one}`], @)"), other, Ok("false")),
            (format!("to_string(@) == '{other}'"), other, Ok("true")),
            ("@ == `9223372036854775807`".to_owned(), "9223372036854775808", Ok("false")),
            (format!("@ > `{other}`"), beyond, Ok("true")),
            ("@ == `18446744073709551617`".to_owned(), beyond, Err(Failed::Inexact)),
            ("@ >= `18446744073709551617`".to_owned(), beyond, Err(Failed::Inexact)),
            ("to_string(@)".to_owned(), beyond, Err(Failed::Inexact)),
            (format!("max([@, `{one}`]) == @"), other, Err(Failed::Inexact)),
            (format!("max_by([{{n: @}}, {{n: `{one}`}}], &n)"), other, Err(Failed::Inexact)),
            (format!("sum([@]) == `{one}`"), other, Err(Failed::Inexact)),
            ("@ == `0.3`".to_owned(), "0.30000000000000004", Ok("true")),
            ("@ == `7.0`".to_owned(), "7", Ok("true")),
        ] {
            assert_eq!(search(&source, json), found.map(str::to_owned), "{source} of {json}");
        }
    }

    /// The crate's own interpreter is the reference for all that is small.
    #[test]
    fn what_is_within_its_budget_is_found_as_ever() {
        let json =
            r#"{"a":[3,1,2],"b":{"x":"q","y":null},"c":[{"n":2,"s":"b"},{"n":1,"s":"a"}],"d":[[1],[2,[3]]],"e":""}"#;
        let data = Rcvar::new(Variable::from_json(json).unwrap());
        let mut sources: Vec<String> = [
            "a",
            "a[0]",
            "a[-1]",
            "a[-4]",
            "a[9]",
            "b.x",
            "b.*",
            "*",
            "c[*].n",
            "c[?n > `1`].s | [0]",
            "d[]",
            "d[][]",
            "a[?@ >= `2`]",
            "[a, b.x]",
            "nope.[a]",
            "{p: a[0], q: e}",
            "nope.{p: a}",
            "e || b.x",
            "e && b.x",
            "!e",
            "a == `[3,1,2]`",
            "b == `{\"x\":\"q\",\"y\":null}`",
            "b.x < b.x",
            "b.y == nope",
            "&a",
            "length(a)",
            "length(e)",
            "sort(a)",
            "reverse(a)",
            "reverse('abc')",
            "sort_by(c, &n)[*].s",
            "sort_by(c, &s)",
            "max_by(c, &n).s",
            "min_by(c, &s)",
            "sort_by(a, &nope)",
            "max_by(`[]`, &n)",
            "sort_by(`[]`, &n)",
            "sort_by(e, &n)",
            "map(&n, c)",
            "map(&nope, c)",
            "map(&n, b)",
            "contains(a, `1`)",
            "contains(a, `9`)",
            "contains('abc', 'b')",
            "contains('abc', `1`)",
            "contains(b, 'x')",
            "join(',', c[*].s)",
            "sum(a)",
            "avg(a)",
            "abs(`-1`)",
            "keys(b)",
            "values(b)",
            "merge(b, {z: e})",
            "not_null(nope, e)",
            "to_array(e)",
            "to_number('7')",
            "type(a)",
            "starts_with(b.x, 'q')",
            "max(a)",
            "min(c[*].s)",
            "nope(a)",
            "length(`1`)",
            "a[::0]",
        ]
        .map(str::to_owned)
        .to_vec();
        let ends = ["", "0", "1", "2", "5", "-1", "-2", "-9"];
        for (start, stop) in ends.iter().flat_map(|start| ends.map(|stop| (start, stop))) {
            sources.extend(["", "1", "2", "-1", "-2", "-7"].map(|step| format!("a[{start}:{stop}:{step}]")));
        }
        for source in sources {
            let expression = jmespath::compile(&source).unwrap();
            let found = Steps::default().search(&data, expression.as_ast()).ok();
            let expected = expression.search(&data).ok().filter(|value| !value.is_expref());
            assert_eq!(found.map(|value| value.to_string()), expected.map(|value| value.to_string()), "{source}");
        }
        // The crate's own slice would leave 32 bits behind here.
        assert_eq!(search("[1::2147483647]", "[1,2]"), Ok("[2]".to_owned()));
    }
}
