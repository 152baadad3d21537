//! Samba's `idmap_autorid`: ranges of equal size, given to domains in the order in which winbindd met them.
//!
//! The number of a range stands only in `autorid.tdb`, so the formula needs that file. [`Autorid::read`]
//! takes the file itself, the output of `tdbdump`, or that of `net idmap dump`.
//!
//! A SID `domain-rid` lies in the range of the pair (domain, rid / size), and its id is
//! `rid % size + low + number * size`. Well-known SIDs have single ids from a range of their own.

use std::collections::HashMap;

use volume::security::Sid;

use super::tdb::{self, TdbError};
use super::{IdKind, IdRange};

/// The owner of the range from which single ids are taken.
const POOL: &str = "ALLOC";

/// The reason why a database of `autorid` cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AutoridError {
    /// The file is damaged.
    #[error("autorid.tdb: {0}")]
    Tdb(#[from] TdbError),
    /// Neither a TDB file nor a dump.
    #[error("neither autorid.tdb nor the output of `tdbdump` or `net idmap dump`")]
    Format,
    /// The record `CONFIG` is missing or wrong.
    #[error("the record CONFIG, which has the smallest id and the size of a range, is missing or wrong")]
    Config,
    /// A record that contradicts another or itself.
    #[error("the record `{0}` is wrong or contradicts another one")]
    Record(String),
}

/// The ranges and single ids of a database of `autorid`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Autorid {
    low: u32,
    size: u32,
    /// The number of ranges.
    count: u32,
    numbers: HashMap<(Sid, u32), u32>,
    owners: HashMap<u32, (Sid, u32)>,
    single: HashMap<Sid, (IdKind, u32)>,
    single_ids: HashMap<(IdKind, u32), Sid>,
}

impl Autorid {
    /// Reads a database or its dump.
    ///
    /// # Errors
    /// [`AutoridError`].
    pub fn read(bytes: &[u8]) -> Result<Autorid, AutoridError> {
        if bytes.starts_with(b"TDB file") {
            let records = tdb::records(bytes)?;
            let texts = records.iter().filter_map(|(key, value)| from_record(key, value));
            return Autorid::from_lines(texts.collect());
        }
        let text = std::str::from_utf8(bytes).map_err(|_| AutoridError::Format)?;
        let is_tdbdump = text.trim_start().starts_with('{');
        let lines = if is_tdbdump { tdbdump(text)? } else { idmap_dump(text) };
        Autorid::from_lines(lines)
    }

    fn from_lines(lines: Vec<Line>) -> Result<Autorid, AutoridError> {
        let config = lines.iter().find_map(|line| match line {
            Line::Config(text) => Some(text.as_str()),
            _ => None,
        });
        let mut autorid = config.and_then(Autorid::configured).ok_or(AutoridError::Config)?;
        for line in lines {
            let shown = format!("{line:?}");
            if !autorid.add(line) {
                return Err(AutoridError::Record(shown));
            }
        }
        Ok(autorid)
    }

    /// A database without ranges from `minvalue:100000 rangesize:100000 maxranges:19`.
    fn configured(text: &str) -> Option<Autorid> {
        let value = |name: &str| {
            let mut words = text.trim_end_matches('\0').split_whitespace();
            words.find_map(|word| word.strip_prefix(name)?.strip_prefix(':')?.parse::<u32>().ok())
        };
        let (low, size, count) = (value("minvalue")?, value("rangesize")?, value("maxranges")?);
        let end = u64::from(low) + u64::from(size) * u64::from(count);
        let is_usable = low > 0 && size > 0 && end <= u64::from(u32::MAX);
        is_usable.then(|| Autorid {
            low,
            size,
            count,
            numbers: HashMap::new(),
            owners: HashMap::new(),
            single: HashMap::new(),
            single_ids: HashMap::new(),
        })
    }

    /// Takes a record. False if it contradicts another one.
    fn add(&mut self, line: Line) -> bool {
        match line {
            Line::Config(_) => true,
            Line::Range { number, owner } if owner == POOL => number < self.count,
            Line::Range { number, owner } => {
                let Some((domain, index)) = range_owner(&owner) else { return false };
                number < self.count
                    && self.numbers.insert((domain, index), number).is_none_or(|other| other == number)
                    && self
                        .owners
                        .insert(number, (domain, index))
                        .is_none_or(|other| other == (domain, index))
            }
            Line::Single { sid, kind, id } => {
                self.covers(id)
                    && self.single.insert(sid, (kind, id)).is_none_or(|other| other == (kind, id))
                    && self.single_ids.insert((kind, id), sid).is_none_or(|other| other == sid)
            }
        }
    }

    fn covers(&self, id: u32) -> bool {
        id.checked_sub(self.low).is_some_and(|offset| offset / self.size < self.count)
    }

    /// All ids that the database may give.
    #[must_use]
    pub fn range(&self) -> IdRange {
        let last = u64::from(self.low) + u64::from(self.size) * u64::from(self.count) - 1;
        IdRange { low: self.low, high: u32::try_from(last).unwrap_or(u32::MAX - 1) }
    }

    pub(super) fn id(&self, sid: &Sid, kind: IdKind) -> Option<u32> {
        if let Some((own, id)) = self.single.get(sid) {
            return (*own == kind).then_some(*id);
        }
        let (rid, front) = sid.subs().split_last()?;
        let domain = Sid::new(sid.authority(), front);
        let number = self.numbers.get(&(domain, rid / self.size))?;
        Some(self.low + number * self.size + rid % self.size)
    }

    pub(super) fn sid(&self, id: u32, kind: IdKind) -> Option<Sid> {
        if let Some(sid) = self.single_ids.get(&(kind, id)) {
            return Some(*sid);
        }
        let offset = id.checked_sub(self.low)?;
        let (domain, index) = self.owners.get(&(offset / self.size))?;
        domain.child(index.checked_mul(self.size)?.checked_add(offset % self.size)?)
    }
}

/// The meaning of one record.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Line {
    Config(String),
    Range { number: u32, owner: String },
    Single { sid: Sid, kind: IdKind, id: u32 },
}

/// `S-1-5-21-1-2-3` or, for a further range of a domain, `S-1-5-21-1-2-3#1`.
fn range_owner(text: &str) -> Option<(Sid, u32)> {
    match text.split_once('#') {
        Some((domain, index)) => Some((domain.parse().ok()?, index.parse().ok()?)),
        None => Some((text.parse().ok()?, 0)),
    }
}

/// The meaning of a key and a value. Each range and each single id has two records, one for each direction.
/// Counters mean nothing here.
fn from_record(key: &[u8], value: &[u8]) -> Option<Line> {
    let key = std::str::from_utf8(key).ok()?.trim_end_matches('\0');
    let text = || Some(std::str::from_utf8(value).ok()?.trim_end_matches('\0').to_owned());
    if key == "CONFIG" {
        return Some(Line::Config(text()?));
    }
    if let Ok(number) = key.parse() {
        return Some(Line::Range { number, owner: text()? });
    }
    if let Some((kind, id)) = kind_and_id(key) {
        return Some(Line::Single { sid: text()?.parse().ok()?, kind, id });
    }
    if let (Ok(sid), Some((kind, id))) = (key.parse(), text().as_deref().and_then(kind_and_id)) {
        return Some(Line::Single { sid, kind, id });
    }
    range_owner(key)?;
    let number = u32::from_le_bytes(value.try_into().ok()?);
    Some(Line::Range { number, owner: key.to_owned() })
}

/// `UID 5` or `GID 5`.
fn kind_and_id(text: &str) -> Option<(IdKind, u32)> {
    let (kind, id) = text.split_once(' ')?;
    let kind = match kind {
        "UID" => IdKind::User,
        "GID" => IdKind::Group,
        _ => return None,
    };
    Some((kind, id.parse().ok()?))
}

/// The output of `net idmap dump`: `RANGE 2: S-1-5-21-1-2-3`, `CONFIG: ...`, `GID 5: S-1-1-0`.
fn idmap_dump(text: &str) -> Vec<Line> {
    let line = |line: &str| {
        let (key, value) = line.split_once(": ")?;
        match key.strip_prefix("RANGE ") {
            Some(number) => {
                Some(Line::Range { number: number.parse().ok()?, owner: value.trim().to_owned() })
            }
            None => from_record(key.as_bytes(), value.trim().as_bytes()),
        }
    };
    text.lines().filter_map(line).collect()
}

/// The output of `tdbdump`: `key(2) = "1\00"` and `data(9) = "S-1-5-32\00"` for each record.
fn tdbdump(text: &str) -> Result<Vec<Line>, AutoridError> {
    let mut lines = Vec::new();
    let mut key = None;
    for line in text.lines() {
        let quoted = |line: &str| {
            let (_, rest) = line.split_once(" = \"")?;
            unescape(rest.strip_suffix('"')?)
        };
        let bad = || AutoridError::Record(line.to_owned());
        if line.starts_with("key(") {
            key = Some(quoted(line).ok_or_else(bad)?);
        } else if line.starts_with("data(") {
            let value = quoted(line).ok_or_else(bad)?;
            lines.extend(from_record(&key.take().ok_or_else(bad)?, &value));
        }
    }
    Ok(lines)
}

/// Bytes with `\` and two hexadecimal digits for all that cannot be printed.
fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut bytes = text.bytes();
    let mut out = Vec::new();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let mut digit = || char::from(bytes.next()?).to_digit(16);
        let (high, low) = (digit()?, digit()?);
        out.push(u8::try_from(high << 4 | low).ok()?);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Made with Debian's `net idmap set range` (Samba 4.17.12), dumped with its tools, and shortened by
    /// `tdbrestore` to a smaller hash table.
    const FILE: &[u8] = include_bytes!("../../tests/data/autorid.tdb");
    const TDBDUMP: &[u8] = include_bytes!("../../tests/data/autorid.tdbdump");
    const IDMAP_DUMP: &[u8] = include_bytes!("../../tests/data/autorid.idmap-dump");

    #[test]
    fn the_file_and_both_dumps_say_the_same() {
        let autorid = Autorid::read(FILE).unwrap();
        assert_eq!(Autorid::read(TDBDUMP).unwrap(), autorid);
        assert_eq!(Autorid::read(IDMAP_DUMP).unwrap(), autorid);
        assert_eq!(autorid.range(), IdRange { low: 100_000, high: 1_999_999 });
        let sid = |text: &str| text.parse::<Sid>().unwrap();
        let id = |text: &str| autorid.id(&sid(text), IdKind::User);
        // idmap_autorid(8): id = rid % size + low + number * size, with the ranges 2 and 4 for this domain.
        assert_eq!(id("S-1-5-21-111-222-333-1104"), Some(301_104));
        assert_eq!(id("S-1-5-21-111-222-333-101104"), Some(501_104));
        assert_eq!(id("S-1-5-21-7-8-9-500"), Some(400_500));
        assert_eq!(id("S-1-5-32-544"), Some(200_544));
        assert_eq!((id("S-1-5-21-111-222-333-201104"), id("S-1-5-21-9-9-9-500")), (None, None));
        assert_eq!(autorid.sid(501_104, IdKind::Group), Some(sid("S-1-5-21-111-222-333-101104")));
        assert_eq!((autorid.sid(99_999, IdKind::User), autorid.sid(600_000, IdKind::User)), (None, None));
        // The range of single ids belongs to no domain.
        assert_eq!(autorid.sid(100_000, IdKind::Group), None);
    }

    #[test]
    fn single_ids_are_of_one_kind() {
        let text =
            "CONFIG: minvalue:100000 rangesize:1000 maxranges:9\nRANGE 0: ALLOC\nGID 100003: S-1-1-0\n";
        let autorid = Autorid::read(text.as_bytes()).unwrap();
        let everyone = Sid::new(1, &[0]);
        assert_eq!(autorid.id(&everyone, IdKind::Group), Some(100_003));
        assert_eq!(autorid.id(&everyone, IdKind::User), None);
        assert_eq!(autorid.sid(100_003, IdKind::Group), Some(everyone));
    }

    #[test]
    fn a_database_that_contradicts_itself_is_refused() {
        let config = "CONFIG: minvalue:100000 rangesize:1000 maxranges:9\n";
        let error = |text: &str| Autorid::read(format!("{config}{text}").as_bytes()).unwrap_err();
        for bad in [
            "RANGE 2: S-1-5-21-1-2-3\nRANGE 3: S-1-5-21-1-2-3\n",
            "RANGE 2: S-1-5-21-1-2-3\nRANGE 2: S-1-5-21-1-2-4\n",
            "RANGE 9: S-1-5-21-1-2-3\n",
            "GID 99999: S-1-1-0\n",
        ] {
            assert!(matches!(error(bad), AutoridError::Record(_)), "{bad}");
        }
        assert_eq!(Autorid::read(b"hello").unwrap_err(), AutoridError::Config);
        let full = b"CONFIG: minvalue:4294967000 rangesize:1000 maxranges:9\n";
        assert_eq!(Autorid::read(full).unwrap_err(), AutoridError::Config);
        assert_eq!(Autorid::read(&FILE[..60]).unwrap_err(), AutoridError::Tdb(TdbError::Damaged(172)));
    }

    proptest! {
        #[test]
        fn damaged_files_never_panic(
            at in 0..FILE.len(),
            bytes in proptest::collection::vec(any::<u8>(), 0..9),
            cut in 0..FILE.len(),
        ) {
            let mut file = FILE.to_vec();
            let end = (at + bytes.len()).min(file.len());
            file[at..end].copy_from_slice(&bytes[..end - at]);
            let _ = Autorid::read(&file);
            let _ = Autorid::read(&file[..cut]);
            let _ = Autorid::read(&bytes);
        }
    }

    #[test]
    fn a_circle_of_records_ends() {
        let mut file = FILE.to_vec();
        let heads = (0..131).map(|chain| 172 + 4 * chain);
        let head = |file: &[u8], at: usize| u32::from_le_bytes(*file[at..].first_chunk().unwrap());
        let at = heads.map(|at| head(&file, at)).find(|at| *at != 0).unwrap() as usize;
        file[at..at + 4].copy_from_slice(&(at as u32).to_le_bytes());
        assert_eq!(tdb::records(&file), Err(TdbError::Damaged(at)));
    }
}
