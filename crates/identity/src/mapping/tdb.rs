//! The records of a TDB file (Samba's trivial database), read only.
//!
//! A file is a header, a table of hash chains, and records that point at the next one of their chain. The
//! bytes are hostile: a chain may form a circle, and a length may lie outside of the file.

use std::collections::HashSet;

/// The bytes at the beginning of a file.
const MAGIC: &[u8] = b"TDB file\n";
const VERSION: u32 = 0x2601_1967 + 6;
const RECORD: u32 = 0x2601_1999;
/// A record that is deleted but still in its chain.
const DEAD_RECORD: u32 = 0xfee1_dead;
/// The size of the header, behind which the head of the free list and those of the chains stand.
const HEADER: usize = 32 + 4 * 34;
/// The beginning of the hash chains.
const CHAINS: usize = HEADER + 4;

/// The reason why bytes are no TDB file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TdbError {
    /// Another kind of file.
    #[error("not a TDB file")]
    Magic,
    /// A version or a byte order that is not known.
    #[error("a TDB file of another version or byte order")]
    Version,
    /// A record outside of the file, or a circle of records.
    #[error("the TDB file is damaged at byte {0}")]
    Damaged(usize),
}

/// A key and its value.
pub type TdbRecord<'a> = (&'a [u8], &'a [u8]);

/// All records of a file.
///
/// # Errors
/// [`TdbError`].
pub fn records(file: &[u8]) -> Result<Vec<TdbRecord<'_>>, TdbError> {
    if !file.starts_with(MAGIC) {
        return Err(TdbError::Magic);
    }
    if word(file, 32)? != VERSION {
        return Err(TdbError::Version);
    }
    let chains = word(file, 36)? as usize;
    let mut seen = HashSet::new();
    let mut records = Vec::new();
    for chain in 0..chains {
        let head = chain.checked_mul(4).and_then(|offset| offset.checked_add(CHAINS));
        let mut at = word(file, head.ok_or(TdbError::Damaged(CHAINS))?)? as usize;
        while at != 0 {
            if !seen.insert(at) {
                return Err(TdbError::Damaged(at));
            }
            records.extend(record(file, at)?);
            at = word(file, at)? as usize;
        }
    }
    Ok(records)
}

/// The record at an offset, unless it is dead.
fn record(file: &[u8], at: usize) -> Result<Option<TdbRecord<'_>>, TdbError> {
    let field = |number: usize| word(file, at.checked_add(4 * number).ok_or(TdbError::Damaged(at))?);
    match field(5)? {
        RECORD => {}
        DEAD_RECORD => return Ok(None),
        _ => return Err(TdbError::Damaged(at)),
    }
    let rest = file.get(at + 24..).ok_or(TdbError::Damaged(at))?;
    let (key, rest) = rest.split_at_checked(field(2)? as usize).ok_or(TdbError::Damaged(at))?;
    let value = rest.get(..field(3)? as usize).ok_or(TdbError::Damaged(at))?;
    Ok(Some((key, value)))
}

fn word(file: &[u8], at: usize) -> Result<u32, TdbError> {
    let bytes = file.get(at..).and_then(|rest| rest.first_chunk()).ok_or(TdbError::Damaged(at))?;
    Ok(u32::from_le_bytes(*bytes))
}
