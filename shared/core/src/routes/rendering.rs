//! A template's instructions, run within a budget.
//!
//! The engine counts instructions, but not what each of them makes: forty times `{% set x = x ~ x %}` is a terabyte,
//! and `'%2000000000d' | format(1)` two gigabytes. So a filter goes before each instruction that reads, makes or
//! compares a value. It charges the value's size here, before the engine makes anything of it. Each turn of a loop
//! stores a value, so time is bounded as memory is.
//!
//! Text and lists are not multiplied, as in `'-' * 80`: a number of the template would say how large a value becomes.

use std::cell::Cell;
use std::collections::{BTreeMap, HashSet};

use minijinja::machinery::{self, Instruction, Instructions, Span, Token};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Rest, ValueKind, ValueOrKwargs};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Output, State, Value, context, escape_formatter};

use super::secrets::{Marks, Uses};

/// What a value takes of the budget beside its bytes.
const A_VALUE: usize = 8;
/// How deep lists and maps lie within each other at most: what walks through them calls itself.
const MAX_DEPTH: usize = 200;
/// The engine remembers filters by this number; here it looks each up.
const BY_NAME: u8 = u8::MAX;

/// Filters and tests that stand in for instructions. No template can name them.
const READ: &str = "(read)";
const CHARGED: &str = "(charged)";
const STORED: &str = "(stored)";
const NUMBER: &str = "(number)";
const MAP: &str = "(map)";
const CALLED: &str = "(called)";

type Made<T = Value> = Result<T, Error>;
type Args = Rest<ValueOrKwargs>;

thread_local! {
    /// What is left for the template that this thread renders. `None`: it has used up more than it had.
    static LEFT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// What a rendering came to.
pub(super) struct Rendered {
    pub(super) text: String,
    pub(super) result: Made<()>,
    pub(super) is_over_budget: bool,
}

/// A value as the budget sees it that is not walked through.
pub(super) fn opaque_bytes(value: &Value) -> Option<usize> {
    super::members::bytes_of(value)
}

/// Adds what the instructions of guarded templates call.
pub(super) fn prepare(environment: &mut Environment<'_>) {
    environment.set_formatter(emit);
    environment.add_filter(READ, |value: ValueOrKwargs| read(value.into()));
    environment.add_filter(CHARGED, |value: ValueOrKwargs| charge(&value).map(|_| Value::from(value)));
    environment.add_filter(STORED, |value: ValueOrKwargs| store(value.into()));
    environment.add_filter(NUMBER, |value: ValueOrKwargs| number(value.into()));
    environment.add_filter(MAP, |pairs: Args| map(&pairs.into_values()));
    environment.add_filter(CALLED, |state: &mut State<'_, '_>, args: Args| called(state, &args.into_values(), filter));
    environment.add_test(CALLED, |state: &mut State<'_, '_>, args: Args| called(state, &args.into_values(), test));
}

/// Runs a template with this budget, and with marks in place of its secrets.
pub(super) fn render(
    environment: &Environment<'_>,
    name: &str,
    context: Value,
    budget: usize,
    marks: &Marks,
) -> Made<Rendered> {
    let template = environment.get_template(name)?;
    let guarded = guarded(&machinery::get_compiled_template(&template).instructions, marks);
    let mut text = String::new();
    LEFT.set(Some(budget));
    let mut output = machinery::make_string_output(&mut text);
    let none = BTreeMap::new();
    let result = machinery::eval(environment, &guarded, context, &none, &mut output, AutoEscape::None).map(drop);
    let is_over_budget = LEFT.take().is_none();
    Ok(Rendered { text, result, is_over_budget })
}

/// Finds the secrets that a template writes, or says what else it does with one.
pub(super) fn secrets(environment: &Environment<'_>, name: &str) -> Result<Uses, String> {
    let template = environment.get_template(name).map_err(|error| error.to_string())?;
    Uses::of(&machinery::get_compiled_template(&template).instructions)
}

/// What a template calls that is not there, in words.
pub(super) fn unknown(environment: &Environment<'_>, name: &str) -> Option<String> {
    let template = environment.get_template(name).ok()?;
    let instructions = &machinery::get_compiled_template(&template).instructions;
    let all = || (0..).map_while(|at| Some((instructions.get(at)?, instructions.get_line(at).unwrap_or_default())));
    let mut known: HashSet<&str> = environment.globals().map(|(name, _)| name).chain(["loop"]).collect();
    known.extend(all().filter_map(|(one, _)| if let Instruction::StoreLocal(name) = one { Some(*name) } else { None }));
    let is_there = |what: &str, name: &str| {
        let asked = environment.compile_expression_owned(format!("name is {what}"));
        asked.and_then(|asked| asked.eval(context! { name })).is_ok_and(|there| there.is_true())
    };
    let what = |one: &Instruction<'_>| match one {
        Instruction::ApplyFilter(name, ..) if !is_there("filter", name) => Some(format!("there is no filter `{name}`")),
        Instruction::PerformTest(name, ..) if !is_there("test", name) => Some(format!("there is no test `{name}`")),
        Instruction::CallFunction(name, _) if !known.contains(name) => Some(format!("there is no function `{name}`")),
        Instruction::UnpackLists(_) => Some("no argument is unpacked by `*`".to_owned()),
        _ => None,
    };
    all().find_map(|(one, line)| Some(format!("{} (in line {line})", what(one)?)))
}

/// The line in which a template multiplies text or a tuple that are constants: its compiler would make what results.
pub(super) fn multiplied(source: &str) -> Option<u16> {
    const CONSTANT: [&str; 10] = ["and", "False", "false", "in", "None", "none", "not", "or", "True", "true"];
    let read = machinery::tokenize(source, false, SyntaxConfig::default());
    let tokens: Vec<(Token<'_>, Span)> = read.map_while(Result::ok).collect();
    let is_text = |token: &Token<'_>| matches!(token, Token::Str(_) | Token::String(_));
    let is_constant = |group: &mut dyn Iterator<Item = &(Token<'_>, Span)>| {
        let (mut depth, mut has_many, mut has_names) = (0_i32, false, false);
        for (token, _) in group {
            match token {
                Token::ParenOpen => depth += 1,
                Token::ParenClose => depth -= 1,
                Token::Ident(name) => has_names |= depth != 0 && !CONSTANT.contains(name),
                Token::Comma => has_many = true,
                other => has_many |= is_text(other),
            }
            if depth == 0 {
                break;
            }
        }
        has_many && !has_names
    };
    (0..tokens.len()).filter(|at| matches!(tokens[*at].0, Token::Mul)).find_map(|at| {
        let (left, right) = (&tokens[..at], &tokens[at + 1..]);
        (is_constant(&mut left.iter().rev()) || is_constant(&mut right.iter())).then(|| tokens[at].1.start_line)
    })
}

/// The instructions with what charges their values. Those behind move, and with them where loops and branches lead.
fn guarded<'a>(written: &Instructions<'a>, marks: &Marks) -> Instructions<'a> {
    let of = |at, one| match marks.get(&at) {
        Some(mark) => mark.iter().map(|mark| Instruction::LoadConst(Value::from(mark.as_str()))).collect(),
        None => with_charges(one),
    };
    let all: Vec<_> = (0..).map_while(|at| Some(of(at, written.get(at)?))).collect();
    let mut begins = vec![0_u32];
    for one in &all {
        begins.push(begins.last().copied().unwrap_or_default() + u32::try_from(one.len()).unwrap_or_default());
    }
    let to =
        |target: u32| usize::try_from(target).ok().and_then(|target| begins.get(target)).copied().unwrap_or(u32::MAX);
    let mut guarded = Instructions::new(written.name(), written.source());
    for (at, these) in (0..).zip(all) {
        for one in these {
            let moved = match one {
                Instruction::Iterate(target) => Instruction::Iterate(to(target)),
                Instruction::Jump(target) => Instruction::Jump(to(target)),
                Instruction::JumpIfFalse(target) => Instruction::JumpIfFalse(to(target)),
                Instruction::JumpIfFalseOrPop(target) => Instruction::JumpIfFalseOrPop(to(target)),
                Instruction::JumpIfTrueOrPop(target) => Instruction::JumpIfTrueOrPop(to(target)),
                other => other,
            };
            let line = written.get_line(at).and_then(|line| u16::try_from(line).ok());
            guarded.add_with_line(moved, line.unwrap_or_default());
        }
    }
    guarded
}

fn with_charges<'a>(one: &Instruction<'a>) -> Vec<Instruction<'a>> {
    let call = |name, arguments| Instruction::ApplyFilter(name, Some(arguments), BY_NAME);
    let both = |name| vec![call(name, 1), Instruction::Swap, call(name, 1), Instruction::Swap, one.clone()];
    match one {
        Instruction::EmitRaw(text) => vec![Instruction::LoadConst(Value::from(*text)), Instruction::Emit],
        Instruction::Lookup(_) | Instruction::GetAttr(_) => vec![one.clone(), call(READ, 1)],
        Instruction::GetItem => vec![call(CHARGED, 1), one.clone(), call(READ, 1)],
        Instruction::Slice => vec![one.clone(), call(STORED, 1)],
        Instruction::StoreLocal(_) => vec![call(STORED, 1), one.clone()],
        Instruction::Mul | Instruction::Pow => both(NUMBER),
        Instruction::Add
        | Instruction::StringConcat
        | Instruction::Eq
        | Instruction::Ne
        | Instruction::Gt
        | Instruction::Gte
        | Instruction::Lt
        | Instruction::Lte
        | Instruction::In
        | Instruction::CompareAndPreserve(_) => both(CHARGED),
        Instruction::BuildMap(pairs) => vec![call(MAP, u16::try_from(2 * pairs).unwrap_or(u16::MAX))],
        Instruction::ApplyFilter(name, Some(arguments), _) => {
            vec![Instruction::LoadConst(Value::from(*name)), call(CALLED, arguments + 1)]
        }
        Instruction::PerformTest(name, Some(arguments), _) => {
            let test = Instruction::PerformTest(CALLED, Some(arguments + 1), BY_NAME);
            vec![Instruction::LoadConst(Value::from(*name)), test]
        }
        other => vec![other.clone()],
    }
}

fn take(size: usize) -> Made<()> {
    let left = LEFT.get().and_then(|left| left.checked_sub(size));
    LEFT.set(left);
    left.map(drop).ok_or_else(|| Error::new(ErrorKind::InvalidOperation, "over its budget"))
}

/// Charges all that is within a value, and returns how much that is.
fn charge(value: &Value) -> Made<usize> {
    charge_within(value, 0)
}

fn charge_within(value: &Value, depth: usize) -> Made<usize> {
    if depth > MAX_DEPTH {
        return Err(Error::new(ErrorKind::InvalidOperation, "nested too deeply"));
    }
    let bytes =
        value.as_str().map(str::len).or_else(|| value.as_bytes().map(<[u8]>::len)).or_else(|| opaque_bytes(value));
    let own = A_VALUE + bytes.unwrap_or_default();
    take(own)?;
    let mut size = own;
    if bytes.is_none() && matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable | ValueKind::Map) {
        for item in value.try_iter()? {
            size += charge_within(&item, depth + 1)?;
            if value.kind() == ValueKind::Map {
                size += charge_within(&value.get_item(&item)?, depth + 1)?;
            }
        }
    }
    Ok(size)
}

/// Charges the length of what was looked up: what comes next may go through all of it, though not into it.
fn read(value: Value) -> Made {
    let length = value.as_str().map(str::len).or_else(|| value.len());
    take(A_VALUE + length.unwrap_or_default()).map(|()| value)
}

/// Charges what a variable or a filter holds. What would be made anew each time it is read is made once.
fn store(value: Value) -> Made {
    charge(&value)?;
    if value.kind() == ValueKind::Iterable && opaque_bytes(&value).is_none() {
        return Ok(value.try_iter()?.collect());
    }
    Ok(value)
}

fn number(value: Value) -> Made {
    match value.kind() {
        ValueKind::Number | ValueKind::Bool | ValueKind::Undefined => Ok(value),
        _ => Err(Error::new(ErrorKind::InvalidOperation, "only numbers are multiplied")),
    }
}

fn map(pairs: &[Value]) -> Made {
    let mut map = BTreeMap::new();
    for pair in pairs.chunks_exact(2) {
        charge(&pair[0])?;
        map.insert(pair[0].clone(), pair[1].clone());
    }
    Ok(Value::from_object(map))
}

fn emit(output: &mut Output<'_>, state: &mut State<'_, '_>, value: &Value) -> Made<()> {
    // The engine has refused what is missing. What comes here undefined is an `if` without its `else`, which is empty.
    charge(value)?;
    escape_formatter(output, state, value)
}

type Call = fn(&mut State<'_, '_>, &str, &[Value]) -> Made;

/// Calls the filter or test whose name is the last argument.
fn called(state: &mut State<'_, '_>, args: &[Value], call: Call) -> Made {
    let (name, args) = args.split_last().ok_or(ErrorKind::MissingArgument)?;
    let name = name.as_str().unwrap_or_default();
    call(state, name, args)
}

fn test(state: &mut State<'_, '_>, name: &str, args: &[Value]) -> Made {
    args.iter().try_for_each(|arg| charge(arg).map(drop))?;
    state.perform_test(name, args).map(Value::from)
}

fn filter(state: &mut State<'_, '_>, name: &str, args: &[Value]) -> Made {
    let Some((first, others)) = args.split_first() else { return state.apply_filter(name, args) };
    if let ("map", Some(each)) = (name, others.first().and_then(Value::as_str)) {
        let rest = others.get(1..).unwrap_or_default();
        let of = |item: Value| filter(state, each, &[&[item], rest].concat());
        return first.try_iter()?.map(of).collect::<Made<Vec<Value>>>().map(Value::from);
    }
    let size = charge(first)?;
    let mut besides = 0_usize;
    for other in others {
        charge(other)?;
        besides = besides.saturating_add(extent(other));
    }
    take(match name {
        // Each value, or character, may get as much as is asked for.
        "indent" | "join" | "replace" | "tojson" => size.saturating_mul(besides),
        "batch" | "slice" => besides.saturating_mul(A_VALUE),
        "select" | "reject" | "selectattr" | "rejectattr" => first.len().unwrap_or_default().saturating_mul(besides),
        "format" => {
            let widths = first.as_str().unwrap_or_default().split(|c: char| !c.is_ascii_digit());
            widths.fold(0, |sum, width| {
                sum.saturating_add(width.parse().unwrap_or(if width.is_empty() { 0 } else { usize::MAX }))
            })
        }
        _ => 0,
    })?;
    store(state.apply_filter(name, args)?)
}

/// How much an argument may make of each value: its length, or the number that it is.
fn extent(value: &Value) -> usize {
    match value.kind() {
        ValueKind::Number => value.as_usize().unwrap_or_default(),
        ValueKind::Map => {
            let of = |key: Value| value.get_item(&key).map_or(0, |value| extent(&value));
            value.try_iter().into_iter().flatten().map(of).fold(0, usize::saturating_add)
        }
        _ => value.len().unwrap_or_default(),
    }
}
