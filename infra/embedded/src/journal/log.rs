//! Whether the write-ahead log of an SQLite file was read to its end.
//!
//! SQLite ends the log at the first frame whose checksum is wrong. After a kill that is right: the frame was being
//! written, and nobody had its answer. But if whole transactions lie behind it, it was damaged later, and SQLite would
//! drop them without a word. The format is <https://www.sqlite.org/fileformat2.html#the_write_ahead_log>.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;

use rusqlite::Connection;

const HEADER: u64 = 32;
const FRAME_HEADER: u64 = 24;
/// The last bit of the magic number says in which order the checksums take the bytes of a word.
const MAGIC: u32 = 0x377f_0682;

/// What cannot be done with a journal's file, and why.
pub(super) type Reason = String;

/// The frames that end a transaction, by their numbers from 1, as they stand in the log of `database`.
pub(super) fn commits(database: &Path) -> Result<Vec<u64>, Reason> {
    let mut name = database.as_os_str().to_owned();
    name.push("-wal");
    match File::open(&name).and_then(read) {
        Ok(commits) => Ok(commits),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(format!("its write-ahead log {}: {error}", Path::new(&name).display())),
    }
}

/// Fails if whole transactions lie behind what `connection` read of the log. Nothing must have been written since.
pub(super) fn check(connection: &Connection, commits: Vec<u64>) -> Result<(), Reason> {
    let read: i64 = connection
        .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get(1))
        .map_err(|error| error.to_string())?;
    let lost = commits.into_iter().filter(|commit| i64::try_from(*commit).is_ok_and(|commit| commit > read)).count();
    // One may be the transaction that was being written.
    if lost <= 1 { Ok(()) } else { Err(format!("its write-ahead log is damaged: {lost} transactions cannot be read")) }
}

fn read(mut file: File) -> io::Result<Vec<u64>> {
    let length = file.metadata()?.len();
    let mut header = [0; HEADER as usize];
    if length < HEADER {
        return Ok(Vec::new());
    }
    file.read_exact(&mut header)?;
    let (magic, page, salt) = (word(&header, 0), word(&header, 8), &header[16..24]);
    if magic & !1 != MAGIC || checksum(&header[..24], magic & 1 == 1) != (word(&header, 24), word(&header, 28)) {
        return Err(io::Error::new(ErrorKind::InvalidData, "its header is damaged"));
    }
    let size = FRAME_HEADER + u64::from(page);
    let mut commits = Vec::new();
    for number in 1..=(length - HEADER) / size {
        let mut frame = [0; FRAME_HEADER as usize];
        file.seek(SeekFrom::Start(HEADER + (number - 1) * size))?;
        file.read_exact(&mut frame)?;
        // Behind the last frame those of an earlier round may lie, with another salt.
        if frame[8..16] == *salt && word(&frame, 4) != 0 {
            commits.push(number);
        }
    }
    Ok(commits)
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().fold(0, |word, byte| word << 8 | u32::from(*byte))
}

fn checksum(bytes: &[u8], is_big_endian: bool) -> (u32, u32) {
    let (mut first, mut second) = (0_u32, 0_u32);
    for pair in bytes.chunks_exact(8) {
        let [left, right] =
            [word(pair, 0), word(pair, 4)].map(|word| if is_big_endian { word } else { word.swap_bytes() });
        first = first.wrapping_add(left).wrapping_add(second);
        second = second.wrapping_add(right).wrapping_add(first);
    }
    (first, second)
}
