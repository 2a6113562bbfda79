//! An ordered file as a source of events: each line that is not blank is one, and its offset is where it ends.
//!
//! So a file that may be read anywhere is resumed by going to the watermark's offset; of a pipe, what is behind the
//! watermark is read and dropped.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use groupage_core::domain::stream::{Offset, Watermark};
use groupage_core::steps::stream::Event;

/// The longest line that is kept whole; what is longer is no task, and its beginning says so.
const MAX_LINE_BYTES: u64 = 1024 * 1024;

/// A source that is open.
pub struct Source {
    reader: Box<dyn BufRead + Send>,
    /// Bytes read so far.
    at: u64,
    /// The next line's number among those that are not blank, counted from 0.
    next: u64,
    /// Its size in bytes, of a regular file.
    bytes: Option<u64>,
}

/// The file is not the one that was fed before.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("it ends before the stream's watermark: this is not what was fed, or it was cut off")]
    Short,
    #[error("the watermark's offset `{0}` is no position in a file: something else feeds this stream")]
    Foreign(Offset),
}

impl Source {
    /// Opens a file at the watermark; `-` is standard input.
    pub fn open(path: &Path, watermark: &Watermark) -> Result<Self, Error> {
        let wanted = match &watermark.offset {
            None => 0,
            Some(offset) => offset.as_str().parse().map_err(|_| Error::Foreign(offset.clone()))?,
        };
        if path == Path::new("-") {
            return Self::skipping(Box::new(BufReader::new(io::stdin())), watermark.number);
        }
        let mut file = File::open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Self::skipping(Box::new(BufReader::new(file)), watermark.number);
        }
        if metadata.len() < wanted {
            return Err(Error::Short);
        }
        file.seek(SeekFrom::Start(wanted))?;
        let reader = Box::new(BufReader::new(file));
        Ok(Self { reader, at: wanted, next: watermark.number, bytes: Some(metadata.len()) })
    }

    /// Reads from the beginning on, and drops this many events.
    fn skipping(reader: Box<dyn BufRead + Send>, events: u64) -> Result<Self, Error> {
        let mut source = Self { reader, at: 0, next: 0, bytes: None };
        while source.next < events {
            source.event()?.ok_or(Error::Short)?;
        }
        Ok(source)
    }

    /// Its size in bytes; `None` for a pipe.
    pub const fn bytes(&self) -> Option<u64> {
        self.bytes
    }

    /// Bytes before the next line.
    pub const fn at(&self) -> u64 {
        self.at
    }

    /// The next event; `None` at the end. A last line that does not end yet is an event, too.
    pub fn event(&mut self) -> Result<Option<Event>, Error> {
        loop {
            let mut line = Vec::new();
            let mut read = (&mut self.reader).take(MAX_LINE_BYTES).read_until(b'\n', &mut line)? as u64;
            if read == 0 {
                return Ok(None);
            }
            if read == MAX_LINE_BYTES && line.last() != Some(&b'\n') {
                read += self.reader.skip_until(b'\n')? as u64;
            }
            let is_first = self.at == 0;
            self.at += read;
            let text = String::from_utf8_lossy(&line);
            // Some editors begin a file with a byte order mark.
            let text = text.strip_prefix('\u{feff}').filter(|_| is_first).unwrap_or(&text).trim();
            if !text.is_empty() {
                self.next += 1;
                let offset = Offset::parse(&self.at.to_string()).map_err(io::Error::other)?;
                return Ok(Some(Event { offset, body: text.to_owned() }));
            }
        }
    }

    /// Up to this many events.
    pub fn events(&mut self, most: usize) -> Result<Vec<Event>, Error> {
        let mut events = Vec::new();
        while events.len() < most
            && let Some(event) = self.event()?
        {
            events.push(event);
        }
        Ok(events)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\u{feff}{\"a\":1}\n\n  \nbad\r\n{\"a\":3}";

    fn watermark(number: u64, offset: &str) -> Watermark {
        Watermark { number, offset: Offset::parse(offset).ok(), ..Watermark::default() }
    }

    fn bodies(source: &mut Source) -> Vec<String> {
        source.events(99).unwrap().into_iter().map(|event| event.body).collect()
    }

    #[test]
    fn a_file_is_resumed_at_any_of_its_events() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.ndjson");
        std::fs::write(&path, TEXT).unwrap();
        let all = Source::open(&path, &Watermark::default()).unwrap().events(99).unwrap();
        let wanted: Vec<&str> = all.iter().map(|event| event.body.as_str()).collect();
        assert_eq!(wanted, ["{\"a\":1}", "bad", "{\"a\":3}"]);
        for (settled, last) in (1..).zip(&all) {
            let mut source = Source::open(&path, &watermark(settled, last.offset.as_str())).unwrap();
            assert_eq!(bodies(&mut source), wanted[usize::try_from(settled).unwrap()..]);
            assert_eq!(source.at(), TEXT.len() as u64);
            let mut pipe = Source::skipping(Box::new(TEXT.as_bytes()), settled).unwrap();
            assert_eq!(bodies(&mut pipe), wanted[usize::try_from(settled).unwrap()..]);
        }
    }

    #[test]
    fn a_file_that_ends_before_the_watermark_is_another() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.ndjson");
        std::fs::write(&path, TEXT).unwrap();
        assert!(matches!(Source::open(&path, &watermark(9, "999")), Err(Error::Short)));
        assert!(matches!(Source::open(&path, &watermark(9, "0/16B37")), Err(Error::Foreign(_))));
        assert!(matches!(Source::skipping(Box::new(TEXT.as_bytes()), 4), Err(Error::Short)));
    }

    #[test]
    fn a_line_that_is_too_long_is_one_event() {
        let text = format!("{}\n{{}}\n", "x".repeat(3 * 1024 * 1024));
        let mut source = Source::skipping(Box::new(io::Cursor::new(text.into_bytes())), 1).unwrap();
        assert_eq!(bodies(&mut source), ["{}"]);
    }
}
