//! The modules of one target, and who uses whom.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::names::{self, Names};

/// All modules of one target; the first is its root.
pub struct Modules(Vec<Module>);

/// One module: a file, or a `mod` with a body.
pub struct Module {
    /// Its path from the root: `["steps", "group"]`. The root's is empty.
    pub path: Vec<String>,
    parent: usize,
    children: BTreeMap<String, usize>,
    names: Names,
}

/// One module mentions a name that another one defines.
pub struct Use {
    /// Who mentions it.
    pub from: Vec<String>,
    /// Who defines it.
    pub to: Vec<String>,
    /// The name, as its definer knows it.
    pub name: String,
}

/// Where a path leads.
enum Place<'a> {
    /// To a module itself.
    Module(usize),
    /// To something that a module defines, by this name.
    Item(usize, &'a str),
}

impl Modules {
    /// Reads the module tree that starts at `root`, file by file.
    pub fn read(root: &Path) -> Result<Self, String> {
        let mut modules = Self(Vec::new());
        let folder = root.parent().unwrap_or(root).to_path_buf();
        modules.read_file(root, &folder, Vec::new(), 0)?;
        Ok(modules)
    }

    /// Every use of one module by another. Names that are handed on (`pub use`) lead to who defines them. To hand on
    /// what a child defines is no use of the child; to mention it besides is.
    pub fn uses(&self) -> Vec<Use> {
        let mut uses = Vec::new();
        for (from, module) in self.0.iter().enumerate() {
            for path in self.used_paths(from) {
                if let Some(Place::Item(to, name)) = self.resolve(from, &path)
                    && to != from
                {
                    let to = self.0[to].path.clone();
                    uses.push(Use { from: module.path.clone(), to, name: name.to_owned() });
                }
            }
        }
        uses
    }

    fn used_paths(&self, module: usize) -> BTreeSet<names::Path> {
        let names = &self.0[module].names;
        let imports = names.imports.iter().filter(|(_, import)| !import.public || !self.is_below(module, &import.path));
        imports.map(|(_, import)| import.path.clone()).chain(names.mentions.iter().cloned()).collect()
    }

    fn is_below(&self, module: usize, path: &names::Path) -> bool {
        match self.resolve(module, path) {
            Some(Place::Item(to, _) | Place::Module(to)) => self.0[to].path.starts_with(&self.0[module].path),
            None => false,
        }
    }

    /// `None`: another crate's, a local name's or one of the language.
    fn resolve<'a>(&'a self, module: usize, path: &'a [String]) -> Option<Place<'a>> {
        let (first, rest) = path.split_first()?;
        let here = &self.0[module];
        match first.as_str() {
            "crate" => self.walk(0, rest),
            "self" => self.walk(module, rest),
            "super" => self.walk(here.parent, rest),
            name => {
                if let (Some(child), false) = (here.children.get(name), rest.is_empty()) {
                    return self.walk(*child, rest);
                }
                let import = here.names.imports.get(name)?;
                if import.path.first().is_some_and(|first| first == name) {
                    let child = here.children.get(name)?;
                    return self.walk(*child, &import.path[1..]);
                }
                self.onward(module, &import.path, rest)
            }
        }
    }

    fn walk<'a>(&'a self, module: usize, path: &'a [String]) -> Option<Place<'a>> {
        let Some((first, rest)) = path.split_first() else { return Some(Place::Module(module)) };
        let here = &self.0[module];
        if first == "super" {
            return self.walk(here.parent, rest);
        }
        // `steps::register` is a module and the function that the module is named for, handed on: the last name of a
        // path is the function.
        match (here.children.get(first), here.names.imports.get(first)) {
            (Some(child), None) => self.walk(*child, rest),
            (Some(child), Some(_)) if !rest.is_empty() => self.walk(*child, rest),
            (_, Some(import)) => self.onward(module, &import.path, rest),
            (None, None) => Some(Place::Item(module, first)),
        }
    }

    fn onward<'a>(&'a self, module: usize, import: &'a [String], rest: &'a [String]) -> Option<Place<'a>> {
        match self.resolve(module, import)? {
            Place::Module(to) => self.walk(to, rest),
            item @ Place::Item(..) => Some(item),
        }
    }

    fn read_file(&mut self, file: &Path, below: &Path, path: Vec<String>, parent: usize) -> Result<usize, String> {
        let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
        let parsed = syn::parse_file(&text).map_err(|error| format!("{}: {error}", file.display()))?;
        self.add(Names::of(&parsed.items), &Folders::of(file, below), path, parent)
    }

    fn add(&mut self, mut names: Names, at: &Folders, path: Vec<String>, parent: usize) -> Result<usize, String> {
        let module = self.0.len();
        let children = std::mem::take(&mut names.children);
        self.0.push(Module { path: path.clone(), parent, children: BTreeMap::new(), names });
        for child in children {
            let path = [&path[..], std::slice::from_ref(&child.name)].concat();
            let below = at.below.join(&child.name);
            let id = match (child.inline, child.path) {
                (Some(names), _) => self.add(names, &Folders { beside: at.beside.clone(), below }, path, module)?,
                (None, Some(written)) => {
                    let file = at.beside.join(written);
                    self.read_file(&file, &Folders::of(&file, &below).beside, path, module)?
                }
                (None, None) => self.read_file(&file_of(&at.below, &child.name), &below, path, module)?,
            };
            self.0[module].children.insert(child.name, id);
        }
        Ok(module)
    }
}

/// Where a file's child modules are.
struct Folders {
    /// Where a `#[path]` starts: the folder in which the file lies.
    beside: PathBuf,
    /// Where the others lie.
    below: PathBuf,
}

impl Folders {
    fn of(file: &Path, below: &Path) -> Self {
        Self { beside: file.parent().unwrap_or(file).to_path_buf(), below: below.to_path_buf() }
    }
}

fn file_of(folder: &Path, name: &str) -> PathBuf {
    let flat = folder.join(format!("{name}.rs"));
    if flat.exists() { flat } else { folder.join(name).join("mod.rs") }
}
