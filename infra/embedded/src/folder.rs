//! The data folder: who may use it, and what its files survive.
//!
//! A folder belongs to one process at a time: the lock on it dies with its holder, however that ends. It is its owner's
//! alone, and so is each of its files: they hold payloads, and the key with which a stack is used. What another user
//! has put where such a file belongs, or a repository that was cloned, is neither followed nor adopted.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::{Error, guard::Key};

const LOCK_FILE: &str = "lock";
const KEY_FILE: &str = "key";
const IGNORE_FILE: &str = ".gitignore";
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
        // A payload or a key is committed by nobody.
        write_privately(&path.join(IGNORE_FILE), "*\n").map_err(&failed)?;
        Ok(Self { path: path.to_owned(), durability, _lock: lock })
    }

    /// The path of a file in it, which is there from now on and its owner's alone, as is what SQLite puts beside it.
    pub(crate) fn file(&self, name: &str) -> Result<PathBuf, Error> {
        let path = self.path.join(name);
        private_file(&path).map_err(failed(&self.path))?;
        for beside in BESIDE.map(|suffix| self.path.join(format!("{name}{suffix}"))) {
            if beside.symlink_metadata().is_ok() {
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
        let text = text.trim();
        if text.len() == Key::CHARACTERS && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Ok(Key::from(text.to_owned()));
        }
        if !text.is_empty() {
            return Err(failed(io::Error::other("`key` in it holds no key: delete it, and there will be a new one")));
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
    let found = path.metadata()?;
    if !is_own(&path.symlink_metadata()?) || !is_own(&found) {
        return Err(io::Error::other("it belongs to another user"));
    }
    if is_open(&found) && [KEY_FILE, LOCK_FILE].iter().any(|name| path.join(name).symlink_metadata().is_ok()) {
        return Err(io::Error::other("a stack's files lie in it, and others may read it: chmod 700 if all is yours"));
    }
    fs::set_permissions(path, fs::Permissions::from_mode(0o700))
}

#[cfg(unix)]
fn is_own(found: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    found.uid() == rustix::process::geteuid().as_raw()
}

#[cfg(unix)]
fn is_open(found: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    found.mode() & 0o077 != 0
}

#[cfg(not(unix))]
fn make_private_folder(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

/// Opens a file for reading and writing, and makes it if it is not there. It must be a file of the owner's alone, by
/// one name, and no link.
#[cfg(unix)]
fn private_file(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
    let name = path.file_name().unwrap_or_default().display();
    let refused = |why: &str| io::Error::other(format!("`{name}` in it {why}"));
    if path.symlink_metadata().is_ok_and(|found| !found.is_file()) {
        return Err(refused("is no file"));
    }
    // Should a link have come there meanwhile, it is not followed.
    let no_link = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(no_link);
    let file = options.open(path)?;
    let found = file.metadata()?;
    if !is_own(&found) || found.nlink() != 1 {
        return Err(refused("belongs to another user, or has another name, too"));
    }
    if is_open(&found) {
        return Err(refused("is open to others: delete it, or chmod 600 if it is yours"));
    }
    Ok(file)
}

#[cfg(not(unix))]
fn private_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn open(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Why a folder is not taken, or its key not had, after `spoil` has put something into it.
    fn refusal(spoil: impl FnOnce(&Path)) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        make_private_folder(&path).unwrap();
        spoil(&path);
        let taken = Folder::take(&path, Durability::Process);
        taken.and_then(|folder| folder.file("dynamodb.sqlite").and_then(|_| folder.key())).unwrap_err().to_string()
    }

    #[test]
    fn what_lies_where_a_file_of_the_folder_belongs_is_neither_followed_nor_adopted() {
        let outside = tempfile::tempdir().unwrap();
        let victim = outside.path().join("victim");
        for name in [LOCK_FILE, KEY_FILE, IGNORE_FILE, "dynamodb.sqlite", "dynamodb.sqlite-wal"] {
            let why = refusal(|path| symlink(&victim, path.join(name)).unwrap());
            assert!(why.ends_with(&format!("`{name}` in it is no file")), "{why}");
        }
        assert!(!victim.exists(), "nothing was written through a link");
        assert!(write_privately(&outside.path().join("env"), "x").is_ok());
        fs::hard_link(outside.path().join("env"), &victim).unwrap();
        assert!(write_privately(&victim, "y").is_err(), "a file of another name");
        // As git writes a key of somebody's: readable by all.
        let why = refusal(|path| {
            fs::write(path.join(KEY_FILE), "k").unwrap();
            open(&path.join(KEY_FILE), 0o644);
        });
        assert!(why.contains("`key` in it is open to others"), "{why}");
        let why = refusal(|path| {
            fs::write(path.join(KEY_FILE), "k").unwrap();
            open(path, 0o755);
        });
        assert!(why.contains("others may read it"), "{why}");
        let why = refusal(|path| private_file(&path.join(KEY_FILE)).unwrap().write_all(b"short").unwrap());
        assert!(why.contains("no key"), "{why}");
    }

    #[test]
    fn a_folder_is_made_its_owners_alone_and_committed_by_nobody() {
        let folder = tempfile::tempdir().unwrap();
        open(folder.path(), 0o755);
        fs::write(folder.path().join("routes.yaml"), "").unwrap();
        let key = Folder::take(folder.path(), Durability::Process).unwrap().key().unwrap();
        assert_eq!(folder.path().metadata().unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(fs::read_to_string(folder.path().join(IGNORE_FILE)).unwrap(), "*\n");
        assert_eq!(Folder::take(folder.path(), Durability::Process).unwrap().key().unwrap(), key);
    }
}
