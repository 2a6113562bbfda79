//! The reasons for which the code lets tasks fail: whatever it makes a `Reason` of, tests apart.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// What a `Reason` is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Given {
    /// This word.
    Word(String),
    /// A text that begins so.
    Start(String),
    /// The constant of this name.
    Constant(String),
    /// What this expression comes to.
    Other(String),
}

/// What a source makes reasons of. A source that cannot be read gives none.
pub fn given(source: &str) -> Vec<Given> {
    let mut found = Vec::new();
    walk(source.parse().unwrap_or_default(), false, &mut found);
    found
}

/// `Self` is a reason inside of `impl Reason`.
fn walk(tokens: TokenStream, is_self: bool, found: &mut Vec<Given>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        let rest = &tokens[at..];
        if is_for_tests(rest) {
            at += rest.iter().position(ends_an_item).map_or(rest.len(), |end| end + 1);
            continue;
        }
        let is_type = at > 0 && is_word(&tokens[at - 1], "struct");
        if !is_type && is_word(token, "Reason") || is_self && is_word(token, "Self") {
            found.extend(argument(&rest[1..]).map(|argument| read(&argument)));
        }
        if let TokenTree::Group(group) = token {
            let is_impl = at > 1 && is_word(&tokens[at - 2], "impl") && is_word(&tokens[at - 1], "Reason");
            walk(group.stream(), is_self || is_impl, found);
        }
        at += 1;
    }
}

fn is_word(token: &TokenTree, word: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident == word)
}

/// Whether an attribute begins here that keeps an item for tests.
fn is_for_tests(tokens: &[TokenTree]) -> bool {
    let [TokenTree::Punct(mark), TokenTree::Group(attribute), ..] = tokens else { return false };
    let text: String = attribute.stream().to_string().split_whitespace().collect();
    mark.as_char() == '#' && (text == "test" || text.starts_with("cfg(test") || text.starts_with("cfg(all(test"))
}

fn ends_an_item(token: &TokenTree) -> bool {
    match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        TokenTree::Punct(mark) => mark.as_char() == ';',
        TokenTree::Ident(_) | TokenTree::Literal(_) => false,
    }
}

/// What stands in the brackets after `Reason` or `Reason::new`, if that is what stands here.
fn argument(after: &[TokenTree]) -> Option<TokenStream> {
    let after = match after {
        [TokenTree::Punct(_), TokenTree::Punct(_), new, after @ ..] if is_word(new, "new") => after,
        after => after,
    };
    match after.first()? {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Parenthesis => Some(group.stream()),
        TokenTree::Group(_) | TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => None,
    }
}

fn read(argument: &TokenStream) -> Given {
    let tokens: Vec<TokenTree> = argument.clone().into_iter().collect();
    let other = Given::Other(argument.to_string().split_whitespace().collect());
    match tokens.as_slice() {
        [TokenTree::Literal(word), ..] => Given::Word(text(&word.to_string())),
        [TokenTree::Ident(name)] if name.to_string().chars().all(|c| c.is_ascii_uppercase() || c == '_') => {
            Given::Constant(name.to_string())
        }
        [TokenTree::Ident(format), TokenTree::Punct(_), TokenTree::Group(of)] if format == "format" => {
            let literal = of.stream().into_iter().next().map(|token| text(&token.to_string())).unwrap_or_default();
            match literal.split('{').next() {
                Some(start) if !start.is_empty() => Given::Start(start.to_owned()),
                _ => other,
            }
        }
        _ => other,
    }
}

fn text(literal: &str) -> String {
    literal.trim_matches('"').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_found_in_all_their_forms_and_those_of_tests_are_not() {
        let source = r#"
            struct Reason(String);
            impl Reason { fn a() -> Self { Self("a".to_owned()) } fn b() -> Self { Self::new(B) } }
            impl Other { fn c() -> Self { Self::new("no") } }
            fn d(n: u8) -> Reason { f(|_| Reason::new("d")); Reason::new(format!("e_{n}")) }
            fn e(f: &F) -> Reason { Reason::new(f.reason()) }
            fn g(n: u8) -> Reason { Reason(format!("{n}_g")) }
            #[cfg(test)] mod tests { fn h() { Reason::new("no"); } }
            #[cfg(all(test, unix))] mod more; #[test] fn i() { Reason::new("no"); }
        "#;
        let word = |word: &str| Given::Word(word.to_owned());
        let other = |text: &str| Given::Other(text.to_owned());
        let expected = [
            word("a"),
            Given::Constant("B".to_owned()),
            word("d"),
            Given::Start("e_".to_owned()),
            other("f.reason()"),
            other("format!(\"{n}_g\")"),
        ];
        assert_eq!(given(source), expected);
    }
}
