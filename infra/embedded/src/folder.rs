//! The data folder: who may use it, and what its files survive.
//!
//! A folder belongs to one process at a time: the lock on it dies with its holder, however that ends. It is its owner's
//! alone, and so is each of its files: they hold payloads, and the key with which a stack is used.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::{Error, guard::Key};

const LOCK_FILE: &str = "lock";
const KEY_FILE: &str = "key";
/// What SQLite puts beside a database.
const BESIDE: [&str; 2] = ["-wal", "-shm"];

/// What an acknowledged write survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Any end of the process, `kill -9` too: the operating system has it. A power cut may take the last moment before
    /// it, never the files' consistency.
    #[default]
    Process,
    /// A power cut, too: the disk has it. Each answer waits for the disk.
    Machine,
}

/// A data folder that this process holds.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    pub(crate) durability: Durability,
    _lock: File,
}

impl Folder {
    /// Makes it if it is not there, and takes it.
    ///
    /// # Errors
    /// [`Error::Folder`] if it cannot be made or written, [`Error::FolderInUse`] if another process has it.
    pub(crate) fn take(path: &Path, durability: Durability) -> Result<Self, Error> {
        let failed = failed(path);
        make_private_folder(path).map_err(&failed)?;
        let mut lock = private_file(&path.join(LOCK_FILE)).map_err(&failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // Its holder may be about to write it.
                let _ = lock.read_to_string(&mut holder);
                return Err(Error::FolderInUse { path: path.to_owned(), holder: holder.trim().to_owned() });
            }
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        lock.set_len(0).and_then(|()| writeln!(lock, "{}", std::process::id())).map_err(&failed)?;
        Ok(Self { path: path.to_owned(), durability, _lock: lock })
    }

    /// The path of a file in it, which is there from now on and its owner's alone, as is what SQLite puts beside it.
    pub(crate) fn file(&self, name: &str) -> Result<PathBuf, Error> {
        let path = self.path.join(name);
        private_file(&path).map_err(failed(&self.path))?;
        for beside in BESIDE.map(|suffix| self.path.join(format!("{name}{suffix}"))) {
            if beside.exists() {
                private_file(&beside).map_err(failed(&self.path))?;
            }
        }
        Ok(path)
    }

    /// The key with which the stack on this folder is used; made when it is first asked for.
    pub(crate) fn key(&self) -> Result<Key, Error> {
        let failed = failed(&self.path);
        let mut file = private_file(&self.path.join(KEY_FILE)).map_err(&failed)?;
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(&failed)?;
        if !text.trim().is_empty() {
            return Ok(Key::from(text.trim().to_owned()));
        }
        let key = Key::random();
        writeln!(file, "{}", key.reveal()).map_err(&failed)?;
        Ok(key)
    }
}

/// Writes a file that only its owner may read.
///
/// # Errors
/// What the operating system says.
pub fn write_privately(path: &Path, content: &str) -> io::Result<()> {
    let mut file = private_file(path)?;
    file.set_len(0)?;
    file.write_all(content.as_bytes())
}

fn failed(path: &Path) -> impl Fn(io::Error) -> Error + use<'_> {
    |source| Error::Folder { path: path.to_owned(), source }
}

#[cfg(unix)]
fn make_private_folder(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    // One that an earlier version made may be open to others.
    fs::set_permissions(path, fs::Permissions::from_mode(0o700))
}

#[cfg(not(unix))]
fn make_private_folder(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

/// Opens a file for reading and writing, and makes it if it is not there.
#[cfg(unix)]
fn private_file(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
    file.set_permissions(fs::Permissions::from_mode(0o600))?;
    Ok(file)
}

#[cfg(not(unix))]
fn private_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)
}
