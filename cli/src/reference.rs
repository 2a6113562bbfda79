//! `docs/reference/cli.md`: every command and option, as `--help` has them. A command with commands of its own has a
//! page, and so has one of which there is much to say.
//!
//! `GROUPAGE_REWRITE=1 cargo test -p groupage reference` writes the pages anew.

use std::fmt::Write as _;
use std::path::Path;

use clap::{Arg, Command, CommandFactory};

const HEAD: &str = "\
# Command line

Every command and option of `groupage`, as `groupage COMMAND --help` shows them. The exit code is 0 if all went well, 1
if something did not, and 2 if the command line is wrong.

## For every command

";
/// A command with a longer section has a page of its own.
const MOST_LINES: usize = 22;
/// A line's length in the docs.
const WIDTH: usize = 120;

/// The pages, each with its file's name.
fn pages() -> Vec<(String, String)> {
    let mut root = crate::Args::command();
    root.build();
    let mut first = HEAD.to_owned() + &table(root.get_arguments().filter(|arg| arg.is_global_set()));
    let mut pages = Vec::new();
    for command in root.get_subcommands().filter(|command| is_ours(command)) {
        let parts: Vec<_> = command.get_subcommands().filter(|command| is_ours(command)).collect();
        let mut alone = String::new();
        section(command, &mut alone);
        if parts.is_empty() && alone.lines().count() <= MOST_LINES {
            first.push_str(&alone);
            continue;
        }
        let name = command.get_name();
        let (file, mut own) = (
            format!("cli-{name}.md"),
            format!("# groupage {name}\n\nFor the options of every command see [Command line](cli.md).\n"),
        );
        own.push_str(&alone);
        parts.iter().for_each(|command| section(command, &mut own));
        let names = parts.iter().map(|part| format!("`{}`", part.get_name())).collect::<Vec<_>>().join(", ");
        let names = if names.is_empty() { names } else { format!(": {names}") };
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let about = about.trim_end_matches('.');
        let _ = write!(
            first,
            "\n## groupage {name}\n\n{}\nIt has [a page of its own]({file}){names}.\n",
            wrapped(&format!("{about}."))
        );
        pages.push((file, own));
    }
    pages.push(("cli.md".to_owned(), first));
    pages
}

fn is_ours(command: &Command) -> bool {
    command.get_name() != "help"
}

fn section(command: &Command, page: &mut String) {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let about = command.get_long_about().or_else(|| command.get_about()).map(ToString::to_string).unwrap_or_default();
    let usage = command.clone().render_usage().to_string();
    let usage = usage.strip_prefix("Usage: ").unwrap_or(&usage);
    let _ = write!(page, "\n## {name}\n\n{}\nUsage: `{usage}`\n", wrapped(&about));
    let arguments: Vec<_> = command.get_arguments().filter(|arg| !is_everywhere(arg) && !is_builtin(arg)).collect();
    if !arguments.is_empty() {
        let _ = write!(page, "\n{}", table(arguments.into_iter()));
    }
    if let Some(after) = command.get_after_help() {
        let _ = write!(page, "\n```text\n{after}\n```\n");
    }
}

/// Whether every command has it: the first page tells of it once.
fn is_everywhere(arg: &Arg) -> bool {
    crate::Args::command().get_arguments().any(|global| global.is_global_set() && global.get_id() == arg.get_id())
}

fn is_builtin(arg: &Arg) -> bool {
    ["help", "version"].contains(&arg.get_id().as_str())
}

fn table<'a>(arguments: impl Iterator<Item = &'a Arg>) -> String {
    let mut rows = "| argument or option | default | meaning |\n|---|---|---|\n".to_owned();
    for arg in arguments.filter(|arg| !is_builtin(arg)) {
        let default: Vec<_> = arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
        let default = if default.is_empty() || !arg.get_action().takes_values() {
            String::new()
        } else {
            format!("`{}`", default.join(" "))
        };
        let help = arg.get_long_help().or_else(|| arg.get_help()).map(ToString::to_string).unwrap_or_default();
        let cells = [format!("`{}`", arg.to_string().trim_matches('"')), default, help + &values(arg) + &variable(arg)];
        let cells = cells.map(|cell| cell.replace('|', "\\|").split_whitespace().collect::<Vec<_>>().join(" "));
        let _ = writeln!(rows, "| {} |", cells.join(" | "));
    }
    rows
}

/// The words that an option takes, if there are few.
fn values(arg: &Arg) -> String {
    let values = arg.get_possible_values();
    if !arg.get_action().takes_values() || values.is_empty() {
        return String::new();
    }
    let meaning =
        |value: &clap::builder::PossibleValue| value.get_help().map(|help| format!(" ({help})")).unwrap_or_default();
    let names = values.iter().map(|value| format!("`{}`{}", value.get_name(), meaning(value)));
    format!(". One of {}", names.collect::<Vec<_>>().join(", "))
}

fn variable(arg: &Arg) -> String {
    arg.get_env().map(|name| format!(". Or the variable `{}`", name.to_string_lossy())).unwrap_or_default()
}

/// Paragraphs in lines of at most [`WIDTH`].
fn wrapped(text: &str) -> String {
    let mut lines = String::new();
    for line in text.lines() {
        let mut length = 0;
        for word in line.split(' ') {
            let needs = word.chars().count();
            if length > 0 {
                let breaks = length + 1 + needs > WIDTH;
                lines.push(if breaks { '\n' } else { ' ' });
                length = if breaks { 0 } else { length + 1 };
            }
            lines.push_str(word);
            length += needs;
        }
        lines.push('\n');
    }
    lines
}

#[test]
fn the_reference_of_the_command_line_is_what_help_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference");
    let pages = pages();
    let commands: usize = pages.iter().map(|(_, page)| page.matches("\n## groupage ").count()).sum();
    assert!(commands > 25, "only {commands} commands");
    for (name, made) in pages {
        let file = folder.join(&name);
        if std::env::var_os("GROUPAGE_REWRITE").is_some() {
            std::fs::write(&file, made).unwrap();
        } else {
            let written = std::fs::read_to_string(&file).unwrap_or_default();
            assert!(made == written, "docs/reference/{name} is stale: GROUPAGE_REWRITE=1 writes it");
        }
    }
}
