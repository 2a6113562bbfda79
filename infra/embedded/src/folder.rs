//! The data folder: who may use it, and what its files survive.
//!
//! A folder belongs to one process at a time: the lock on it dies with its holder, however that ends.

use std::{
    fs::{self, File, TryLockError},
    path::{Path, PathBuf},
};

use crate::Error;

const LOCK_FILE: &str = "lock";

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
        let failed = |source| Error::Folder { path: path.to_owned(), source };
        fs::create_dir_all(path).map_err(failed)?;
        let lock = File::create(path.join(LOCK_FILE)).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path: path.to_owned(), durability, _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(Error::FolderInUse(path.to_owned())),
            Err(TryLockError::Error(source)) => Err(failed(source)),
        }
    }

    /// The path of a file in it.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}
