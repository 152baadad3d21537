//! The bytes of a journal's file, and the complete records in a damaged one.
//!
//! ```text
//! "TLJRNL2\n" | salt 8 | salt 8
//! length 4 | number 4 | checksum 4 | record        the first record is written twice
//! 0xffff_ffff | number 4 | checksum 4              the end mark
//! ```
//!
//! A record's number is its place among all records. The checksum covers the salt and everything else, so
//! bytes that a client had written into a record are never taken for a record. Each append writes its
//! record over the end mark, and then a new end mark. So a truncated file is detected because it has
//! none.
//!
//! The earlier format had records of a length, a checksum over length and bytes, and the bytes.

use std::fmt;

use volume::journal::MAX_RECORD;
use volume::{Failure, Result};

/// The first bytes of a file. The number is the version of the format.
pub(super) const MAGIC: &[u8; 8] = b"TLJRNL2\n";
/// The first bytes of a file in the earlier format.
const EARLIER: &[u8; 8] = b"TLJRNL1\n";
/// Bytes in front of the first record.
pub(super) const HEAD: usize = 24;
/// Bytes in front of each record.
const PREFIX: usize = 12;
/// Bytes in front of each record in the earlier format.
const EARLIER_PREFIX: usize = 8;
/// Bytes of the end mark.
pub(super) const END: usize = PREFIX;
/// The value that marks the end in place of a length.
const END_MARK: u32 = u32::MAX;

/// Bytes that are neither a record nor the end mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damage {
    /// Their offset in the file.
    pub offset: u64,
    /// Their number. 0 if bytes are missing.
    pub bytes: u64,
    /// The number of records that they held, if it is known.
    pub records: Option<u32>,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Damage { offset, bytes, records } = self;
        match (bytes, records) {
            (0, _) => write!(f, "it ends at byte {offset}, before its last record or behind it"),
            (_, None) => write!(f, "{bytes} bytes at byte {offset}: all records from there on"),
            (_, Some(0)) => write!(f, "{bytes} bytes at byte {offset}: no record"),
            (_, Some(1)) => write!(f, "{bytes} bytes at byte {offset}: 1 record"),
            (_, Some(records)) => write!(f, "{bytes} bytes at byte {offset}: {records} records"),
        }
    }
}

/// The content of a file.
#[derive(Debug, Default)]
pub(super) struct JournalContent {
    pub records: Vec<Vec<u8>>,
    pub damage: Vec<Damage>,
    pub salt: u64,
    /// The number of the next record.
    pub next: u32,
    /// The offset of the next record.
    pub length: usize,
    /// Whether the file is in the earlier format.
    pub is_earlier: bool,
}

/// A record or the end mark at an offset.
enum Piece<'a> {
    Record { number: u32, record: &'a [u8], after: usize },
    End { number: u32 },
}

/// Reads a file. `None` if it is not a journal.
pub(super) fn read(bytes: &[u8]) -> Option<JournalContent> {
    if bytes.starts_with(EARLIER) {
        return Some(read_earlier(bytes));
    }
    let is_begun =
        |magic: &[u8]| bytes.len() < HEAD && (bytes.starts_with(magic) || magic.starts_with(bytes));
    if is_begun(MAGIC) || is_begun(EARLIER) {
        let damage = vec![Damage { offset: bytes.len() as u64, bytes: 0, records: None }];
        return Some(JournalContent { damage, ..JournalContent::default() });
    }
    let salts = [8, 16].map(|at| number_at(bytes, at).map(u64::from_le_bytes));
    let [Some(first), Some(second)] = salts else { return None };
    let mut content = scan(bytes, first);
    if second != first {
        let other = scan(bytes, second);
        if other.records.len() > content.records.len() {
            content = other;
        }
    }
    let is_ours = bytes.starts_with(MAGIC);
    if !is_ours && content.records.is_empty() {
        // A damaged bit may have turned the head of the earlier format into another.
        return Some(read_earlier(bytes)).filter(|content| !content.records.is_empty());
    }
    if !is_ours || first != second {
        content.damage.insert(0, Damage { offset: 0, bytes: HEAD as u64, records: Some(0) });
    }
    Some(content)
}

/// Reads the records of a file with this salt.
fn scan(bytes: &[u8], salt: u64) -> JournalContent {
    let mut content = JournalContent { salt, ..JournalContent::default() };
    let mut at = HEAD;
    loop {
        content.length = at;
        match piece(bytes, at, salt) {
            // The first record is there twice.
            Some(Piece::Record { number, after, .. }) if number < content.next => at = after,
            Some(Piece::Record { number, record, after }) if number == content.next => {
                content.records.push(record.to_vec());
                content.next += 1;
                at = after;
            }
            Some(Piece::End { number }) if number == content.next && at + END == bytes.len() => {
                return content;
            }
            _ => match whole_behind(bytes, at, &content) {
                Some((next, number)) => {
                    let records = Some(number - content.next);
                    content.damage.push(Damage { offset: at as u64, bytes: (next - at) as u64, records });
                    content.next = number;
                    at = next;
                }
                None => {
                    let rest = (bytes.len() - at) as u64;
                    content.damage.push(Damage { offset: at as u64, bytes: rest, records: None });
                    return content;
                }
            },
        }
    }
}

/// The offset of the next complete record or end mark behind `at`, and its number.
fn whole_behind(bytes: &[u8], at: usize, content: &JournalContent) -> Option<(usize, u32)> {
    (at + 1..bytes.len()).find_map(|start| {
        // The largest number of records that fit between the two. An impossible number needs no checksum.
        let most = (start - at) / PREFIX + 1;
        let number = u32::from_le_bytes(number_at(bytes, start + 4)?);
        let skipped = number.checked_sub(content.next)?;
        if skipped as usize > most {
            return None;
        }
        match piece(bytes, start, content.salt)? {
            Piece::Record { number, .. } => Some((start, number)),
            Piece::End { number } => (start + END == bytes.len()).then_some((start, number)),
        }
    })
}

fn piece(bytes: &[u8], at: usize, salt: u64) -> Option<Piece<'_>> {
    let length = u32::from_le_bytes(number_at(bytes, at)?);
    let number = u32::from_le_bytes(number_at(bytes, at + 4)?);
    let sum = u32::from_le_bytes(number_at(bytes, at + 8)?);
    if length == END_MARK {
        return (checksum(salt, length, number, &[]) == sum).then_some(Piece::End { number });
    }
    let (begin, length_here) = (at + PREFIX, length as usize);
    let after = begin.checked_add(length_here).filter(|_| length_here <= MAX_RECORD)?;
    let record = bytes.get(begin..after)?;
    (checksum(salt, length, number, record) == sum).then_some(Piece::Record { number, record, after })
}

/// The head of a file.
pub(super) fn head(salt: u64) -> Vec<u8> {
    [*MAGIC, salt.to_le_bytes(), salt.to_le_bytes()].concat()
}

/// A record with its prefix.
///
/// # Errors
/// [`Failure::Invalid`] when it is too long.
pub(super) fn framed(salt: u64, number: u32, record: &[u8]) -> Result<Vec<u8>> {
    if record.len() > MAX_RECORD {
        return Err(Failure::Invalid);
    }
    Ok(with_prefix(salt, record.len() as u32, number, record))
}

/// The end behind `number` records.
pub(super) fn end(salt: u64, number: u32) -> Vec<u8> {
    with_prefix(salt, END_MARK, number, &[])
}

fn with_prefix(salt: u64, length: u32, number: u32, record: &[u8]) -> Vec<u8> {
    let mut framed = Vec::with_capacity(PREFIX + record.len() + END);
    framed.extend_from_slice(&length.to_le_bytes());
    framed.extend_from_slice(&number.to_le_bytes());
    framed.extend_from_slice(&checksum(salt, length, number, record).to_le_bytes());
    framed.extend_from_slice(record);
    framed
}

fn checksum(salt: u64, length: u32, number: u32, record: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&salt.to_le_bytes());
    hasher.update(&length.to_le_bytes());
    hasher.update(&number.to_le_bytes());
    hasher.update(record);
    hasher.finalize()
}

fn number_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

/// Reads the earlier format, which had no numbers and no end mark.
fn read_earlier(bytes: &[u8]) -> JournalContent {
    let mut content = JournalContent { is_earlier: true, ..JournalContent::default() };
    if !bytes.starts_with(EARLIER) {
        content.damage.push(Damage { offset: 0, bytes: EARLIER.len() as u64, records: Some(0) });
    }
    let mut at = EARLIER.len();
    while at < bytes.len() {
        match earlier_record(bytes, at) {
            Some((record, after)) => {
                content.records.push(record.to_vec());
                at = after;
            }
            None => {
                let next = (at + 1..bytes.len()).find(|start| earlier_record(bytes, *start).is_some());
                let end = next.unwrap_or(bytes.len());
                content.damage.push(Damage { offset: at as u64, bytes: (end - at) as u64, records: None });
                at = end;
            }
        }
    }
    content
}

fn earlier_record(bytes: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let length = number_at::<4>(bytes, at)?;
    let sum = u32::from_le_bytes(number_at(bytes, at + 4)?);
    let begin = at + EARLIER_PREFIX;
    let length_here = u32::from_le_bytes(length) as usize;
    let record = bytes.get(begin..begin.checked_add(length_here).filter(|_| length_here <= MAX_RECORD)?)?;
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&length);
    hasher.update(record);
    (hasher.finalize() == sum).then_some((record, begin + length_here))
}

/// A file in the earlier format.
#[cfg(test)]
pub(super) fn earlier(records: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = EARLIER.to_vec();
    for record in records {
        let length = (record.len() as u32).to_le_bytes();
        let sum = crc32fast::hash(&[&length, record.as_slice()].concat());
        bytes.extend_from_slice(&length);
        bytes.extend_from_slice(&sum.to_le_bytes());
        bytes.extend_from_slice(record);
    }
    bytes
}
