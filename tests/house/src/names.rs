//! What one module's source names: what it defines, imports, re-exports and mentions.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, ItemUse, Meta, UseTree, Visibility};

/// A path as it is written: `["crate", "domain", "id", "Target"]`.
pub type Path = Vec<String>;

/// A name that a `use` brings in.
#[derive(Clone)]
pub struct Import {
    /// What it stands for.
    pub path: Path,
    /// Whether it hands the name on (`pub use`, `pub(super) use`).
    pub public: bool,
}

/// What a module's own source names, without its child modules and without what is compiled for its tests only.
#[derive(Default)]
pub struct Names {
    /// Names that `use` brings in, by the name under which they are known here.
    pub imports: BTreeMap<String, Import>,
    /// Every path that the code mentions, in macros too.
    pub mentions: BTreeSet<Path>,
    /// Child modules.
    pub children: Vec<Child>,
}

/// A `mod`: with a body, with a `#[path]`, or in the file that its name leads to.
pub struct Child {
    pub name: String,
    pub inline: Option<Names>,
    pub path: Option<String>,
}

impl Names {
    pub fn of(items: &[Item]) -> Self {
        let mut names = Self::default();
        items.iter().for_each(|item| names.visit_item(item));
        names
    }

    fn import(&mut self, tree: &UseTree, mut prefix: Path, public: bool) {
        match tree {
            UseTree::Path(path) => {
                prefix.push(path.ident.to_string());
                self.import(&path.tree, prefix, public);
            }
            UseTree::Name(name) => self.bring_in(prefix, &name.ident.to_string(), None, public),
            UseTree::Rename(name) => {
                self.bring_in(prefix, &name.ident.to_string(), Some(name.rename.to_string()), public);
            }
            // No name is brought in that could be looked for. The house has none but in tests.
            UseTree::Glob(_) => {}
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.import(tree, prefix.clone(), public)),
        }
    }

    fn bring_in(&mut self, mut path: Path, name: &str, rename: Option<String>, public: bool) {
        let known_as = match (name, path.last()) {
            ("self", Some(last)) => last.clone(),
            _ => {
                path.push(name.to_owned());
                name.to_owned()
            }
        };
        self.imports.insert(rename.unwrap_or(known_as), Import { path, public });
    }

    /// Macros are not parsed: every run of names joined by `::` in them counts as a path.
    fn mention_tokens(&mut self, tokens: TokenStream) {
        let mut path = Path::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                TokenTree::Ident(name) if colons == 2 && !path.is_empty() => {
                    path.push(name.to_string());
                    colons = 0;
                }
                other => {
                    self.mentions.insert(std::mem::take(&mut path));
                    colons = 0;
                    match other {
                        TokenTree::Ident(name) => path.push(name.to_string()),
                        TokenTree::Group(group) => self.mention_tokens(group.stream()),
                        TokenTree::Punct(_) | TokenTree::Literal(_) => {}
                    }
                }
            }
        }
        self.mentions.insert(path);
    }
}

impl<'ast> Visit<'ast> for Names {
    fn visit_item(&mut self, item: &'ast Item) {
        if !attributes(item).iter().any(for_tests_only) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        self.import(&item.tree, Path::new(), !matches!(item.vis, Visibility::Inherited));
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        let inline = item.content.as_ref().map(|(_, items)| Self::of(items));
        self.children.push(Child { name: item.ident.to_string(), inline, path: path_attribute(&item.attrs) });
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            self.mentions.insert(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        self.mention_tokens(called.tokens.clone());
        visit::visit_macro(self, called);
    }
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Const(item) => &item.attrs,
        _ => &[],
    }
}

fn for_tests_only(attribute: &Attribute) -> bool {
    match &attribute.meta {
        Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string() == "test",
        _ => false,
    }
}

fn path_attribute(attributes: &[Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    })
}
