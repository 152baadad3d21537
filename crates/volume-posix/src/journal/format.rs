//! The bytes of a journal's file, and what is whole in one that is damaged.
//!
//! ```text
//! "TLJRNL2\n" | salt 8 | salt 8
//! length 4 | number 4 | checksum 4 | record        the first one stands here twice
//! 0xffff_ffff | number 4 | checksum 4              the end
//! ```
//!
//! A record's number is its place among all. The checksum is over the salt and everything else, so that nothing that a
//! client had written into a record is taken for one. Each append writes its record over the end and the end anew, so that a
//! file that was cut is known by its lack of one.
//!
//! The form before had records of a length, a checksum over length and bytes, and the bytes.

use std::fmt;

use volume::journal::MAX_RECORD;
use volume::{Failure, Result};

/// What a file begins with; the number is the format's version.
pub(super) const MAGIC: &[u8; 8] = b"TLJRNL2\n";
/// The same of the form before.
const EARLIER: &[u8; 8] = b"TLJRNL1\n";
/// Bytes in front of the first record.
pub(super) const HEAD: usize = 24;
/// Bytes in front of each record.
const PREFIX: usize = 12;
/// The same of the form before.
const EARLIER_PREFIX: usize = 8;
/// Bytes of the end.
pub(super) const END: usize = PREFIX;
/// Stands in the place of a length.
const END_MARK: u32 = u32::MAX;

/// Bytes that are no record and no end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damage {
    /// Where they begin.
    pub offset: u64,
    /// How many there are; none where something is missing.
    pub bytes: u64,
    /// How many records stood there, if that is known.
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

/// What a file has.
#[derive(Debug, Default)]
pub(super) struct Content {
    pub records: Vec<Vec<u8>>,
    pub damage: Vec<Damage>,
    pub salt: u64,
    /// The number of the next record.
    pub next: u32,
    /// Where that one goes.
    pub length: usize,
    /// It is of the form before.
    pub is_earlier: bool,
}

/// What stands at a place.
enum Piece<'a> {
    Record { number: u32, record: &'a [u8], after: usize },
    End { number: u32 },
}

/// Reads a file; none when it is something else.
pub(super) fn read(bytes: &[u8]) -> Option<Content> {
    if bytes.starts_with(EARLIER) {
        return Some(read_earlier(bytes));
    }
    let is_begun =
        |magic: &[u8]| bytes.len() < HEAD && (bytes.starts_with(magic) || magic.starts_with(bytes));
    if is_begun(MAGIC) || is_begun(EARLIER) {
        let damage = vec![Damage { offset: bytes.len() as u64, bytes: 0, records: None }];
        return Some(Content { damage, ..Content::default() });
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
        // One bit of the older beginning may be another.
        return Some(read_earlier(bytes)).filter(|content| !content.records.is_empty());
    }
    if !is_ours || first != second {
        content.damage.insert(0, Damage { offset: 0, bytes: HEAD as u64, records: Some(0) });
    }
    Some(content)
}

/// Reads the records of a file with this salt.
fn scan(bytes: &[u8], salt: u64) -> Content {
    let mut content = Content { salt, ..Content::default() };
    let mut at = HEAD;
    loop {
        content.length = at;
        match piece(bytes, at, salt) {
            // The first one stands there twice.
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

/// Where the next whole record or the end is behind `at`, and its number.
fn whole_behind(bytes: &[u8], at: usize, content: &Content) -> Option<(usize, u32)> {
    (at + 1..bytes.len()).find_map(|place| {
        // So many can have been between; what is not possible needs no checksum.
        let most = (place - at) / PREFIX + 1;
        let number = u32::from_le_bytes(number_at(bytes, place + 4)?);
        let skipped = number.checked_sub(content.next)?;
        if skipped as usize > most {
            return None;
        }
        match piece(bytes, place, content.salt)? {
            Piece::Record { number, .. } => Some((place, number)),
            Piece::End { number } => (place + END == bytes.len()).then_some((place, number)),
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

/// Reads the form before, which had no numbers and no end.
fn read_earlier(bytes: &[u8]) -> Content {
    let mut content = Content { is_earlier: true, ..Content::default() };
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
                let next = (at + 1..bytes.len()).find(|place| earlier_record(bytes, *place).is_some());
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

/// A file as the form before wrote it.
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
