//! Where the lines come from: a regular file, which may be read twice, or anything else, which may not.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek};
use std::path::Path;

use anyhow::{Result, anyhow};
use sha2::{Digest, Sha256};

/// An input that is open and not read yet.
#[derive(Debug)]
pub struct Input {
    source: Source,
}

#[derive(Debug)]
enum Source {
    Stdin,
    /// A regular file, and its size in bytes when it was opened.
    File(File, u64),
    /// A named pipe, a process substitution, a device: what was read is gone.
    Pipe(File),
}

impl Input {
    /// Opens a file; `-` is standard input.
    pub fn open(path: &Path) -> Result<Self> {
        if path == Path::new("-") {
            return Ok(Self { source: Source::Stdin });
        }
        let opened = File::open(path).and_then(|file| Ok((file.metadata()?, file)));
        let (metadata, file) = opened.map_err(|error| anyhow!("cannot open {}: {error}", path.display()))?;
        let source = if metadata.is_file() { Source::File(file, metadata.len()) } else { Source::Pipe(file) };
        Ok(Self { source })
    }

    /// Its size in bytes; `None` for a stream, which has none that means anything.
    pub const fn bytes(&self) -> Option<u64> {
        match self.source {
            Source::File(_, bytes) => Some(bytes),
            Source::Stdin | Source::Pipe(_) => None,
        }
    }

    /// The first 128 bits of SHA-256 over a regular file's content, as 32 hex digits; the file is read from its
    /// beginning afterwards. `None` for a stream, of which nothing is read.
    pub fn digest(&mut self) -> io::Result<Option<String>> {
        let Source::File(file, _) = &mut self.source else { return Ok(None) };
        let mut hash = Sha256::new();
        io::copy(file, &mut hash)?;
        file.rewind()?;
        Ok(Some(hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()))
    }

    /// For reading it from its beginning to its end.
    pub fn into_reader(self) -> Box<dyn BufRead + Send> {
        match self.source {
            Source::Stdin => Box::new(BufReader::new(io::stdin())),
            Source::File(file, _) | Source::Pipe(file) => Box::new(BufReader::new(file)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(input: Input) -> String {
        io::read_to_string(input.into_reader()).unwrap()
    }

    #[test]
    fn a_file_is_read_whole_after_its_digest_was_taken() {
        let folder = tempfile::tempdir().unwrap();
        let digest_of = |text: &str| {
            let path = folder.path().join("tasks.ndjson");
            std::fs::write(&path, text).unwrap();
            let mut input = Input::open(&path).unwrap();
            let digest = input.digest().unwrap().unwrap();
            assert_eq!((input.bytes(), read(input)), (Some(text.len() as u64), text.to_owned()));
            digest
        };
        assert_eq!(digest_of("one\n"), digest_of("one\n"));
        assert_ne!(digest_of("one\n"), digest_of("two\n"));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn of_a_pipe_nothing_is_read_for_a_digest() {
        use std::io::Write;
        use std::os::fd::AsRawFd;

        let (reader, mut writer) = io::pipe().unwrap();
        writer.write_all(b"one\n").unwrap();
        drop(writer);
        // What a shell passes for `<(…)`.
        let mut input = Input::open(Path::new(&format!("/dev/fd/{}", reader.as_raw_fd()))).unwrap();
        assert_eq!((input.digest().unwrap(), input.bytes()), (None, None));
        assert_eq!(read(input), "one\n");
    }
}
