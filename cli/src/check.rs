//! `groupage check`: is a routes file right?

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use groupage_core::routes::{self, Routes};
use serde::Serialize;

use crate::output::{Ending, Output};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The routes file (YAML).
    #[arg(value_name = "FILE", default_value = "routes.yaml")]
    pub file: PathBuf,
}

/// A routes file that cannot be used; a mistake is told as compilers point at one.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read {}: {source}", file.display())]
    Unreadable { file: PathBuf, source: io::Error },
    #[error("{}:{}:{}: {}", file.display(), error.line, error.column, error.what)]
    Wrong { file: PathBuf, error: routes::Error },
}

/// The file is right.
#[derive(Serialize)]
struct Right {
    valid: bool,
}

/// Checks a routes file, up to its first mistake.
pub fn run(options: &Args, output: &Output) -> Result<Ending, Error> {
    read(&options.file)?;
    output.result(&Right { valid: true }, || format!("{} is right", options.file.display()));
    Ok(Ending::Well)
}

/// Reads a routes file and makes sure that it is right. Returns its text.
pub fn read(file: &Path) -> Result<String, Error> {
    let yaml = fs::read_to_string(file).map_err(|source| Error::Unreadable { file: file.to_owned(), source })?;
    match Routes::parse(&yaml) {
        Ok(_) => Ok(yaml),
        Err(error) => Err(Error::Wrong { file: file.to_owned(), error }),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_mistake_is_told_with_file_line_and_field() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        write!(file, "version: 1\nroutes:\n  - name: parcels\n    colour: red\n").unwrap();
        let text = read(file.path()).unwrap_err().to_string();
        assert!(text.starts_with(&format!("{}:4:", file.path().display())), "{text}");
        assert!(text.contains("colour"), "{text}");
    }

    #[test]
    fn a_missing_file_is_named() {
        let text = read(Path::new("no/such/routes.yaml")).unwrap_err().to_string();
        assert!(text.contains("no/such/routes.yaml"), "{text}");
    }
}
