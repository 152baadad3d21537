//! The records of opens that outlive the process, as values and as bytes.
//!
//! A record is one byte for its kind and its fields, little-endian. Lists and bytes are preceded by their
//! length. Records that a crash must not separate are in one record of the journal, one behind the other.
//! Fields are never added to a kind: a new kind is made, and [`VERSION`] is incremented.

use volume::security::Sid;
use volume::{Name, Time};
use wire::cursor::{Cursor, Truncated, Writer};

use crate::caching::grants::Holder;
use crate::{CacheKey, Caching, ClientKey, LockOwner, LockRule, RangeKind, RangeRequest};

/// The version in the first record.
pub const VERSION: u32 = 2;
/// The oldest version that can be read.
pub const OLDEST: u32 = 1;

/// The recorded state of a caching right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordedRight {
    pub state: Caching,
    pub epoch: u16,
    /// Whether the client counts epochs.
    pub counts: bool,
    pub parent: Option<CacheKey>,
}

/// The removal of a name: with its last open, or with the open that requested it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemovalMark {
    WithLast,
    WithOpen,
}

/// The record of a new open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenRecord {
    pub id: u64,
    pub client: ClientKey,
    pub user: Sid,
    /// The file, by its number and birth. Its device may have another number after a restart.
    pub inode: u64,
    pub born: Option<Time>,
    /// The paths of the file: one, or two while it is being moved.
    pub paths: Vec<Vec<Name>>,
    pub stream: Option<Name>,
    pub granted: u32,
    pub deny: u8,
    pub options: u32,
    pub opened_at: Time,
    /// The key of its caching right, and whether opens share it.
    pub key: Option<(CacheKey, bool)>,
    /// The key of the right on its directory that it does not break.
    pub parent: Option<CacheKey>,
    /// The right that it held when it was recorded.
    pub right: Option<RecordedRight>,
    pub goes: Option<RemovalMark>,
    pub keep_ns: u64,
    pub note: Vec<u8>,
    /// The address by which the volume finds its file again, wherever that is. Empty: it is found by its
    /// paths. It is in a record of its own, [`JournalRecord::Address`].
    pub address: Vec<u8>,
}

/// One record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JournalRecord {
    /// Always the first.
    Version(u32),
    Made(Box<OpenRecord>),
    /// Byte ranges were locked.
    Taken {
        id: u64,
        owner: LockOwner,
        rule: LockRule,
        ranges: Vec<RangeRequest>,
    },
    /// A byte range was released.
    Released {
        id: u64,
        owner: LockOwner,
        rule: LockRule,
        range: RangeRequest,
    },
    /// A caching right has changed.
    Right {
        holder: Holder,
        right: RecordedRight,
    },
    /// It belongs to another client, and so does its own caching right.
    Moved {
        id: u64,
        client: ClientKey,
    },
    Note {
        id: u64,
        note: Vec<u8>,
    },
    Paths {
        id: u64,
        paths: Vec<Vec<Name>>,
    },
    Goes {
        id: u64,
        goes: Option<RemovalMark>,
    },
    Closed {
        id: u64,
    },
    /// The address of the file of an open.
    Address {
        id: u64,
        address: Vec<u8>,
    },
    /// Files that the host changed last in such a span may have got a version ahead of it.
    Ahead(AheadSpan),
}

/// A span of time in which versions ran ahead of the host's clock, in nanoseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AheadSpan {
    pub since: u64,
    /// None: the span was not over when the process ended.
    pub until: Option<u64>,
}

/// The reason why a record cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordError {
    Kind(u8),
    Content,
}

impl From<Truncated> for RecordError {
    fn from(_: Truncated) -> RecordError {
        RecordError::Content
    }
}

impl JournalRecord {
    /// The bytes of the record.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut out = Writer::new(&mut bytes);
        match self {
            JournalRecord::Version(version) => {
                out.u8(0);
                out.u32_le(*version);
            }
            JournalRecord::Made(made) => {
                out.u8(1);
                put_made(&mut out, made);
            }
            JournalRecord::Taken { id, owner, rule, ranges } => {
                out.u8(2);
                put_owned(&mut out, *id, *owner, *rule);
                put_list(&mut out, ranges, put_range);
            }
            JournalRecord::Released { id, owner, rule, range } => {
                out.u8(3);
                put_owned(&mut out, *id, *owner, *rule);
                put_range(&mut out, range);
            }
            JournalRecord::Right { holder: (client, key, keyed), right } => {
                out.u8(4);
                out.u128_le(client.0);
                out.u128_le(key.0);
                out.u8(u8::from(*keyed));
                put_right(&mut out, right);
            }
            JournalRecord::Moved { id, client } => {
                out.u8(5);
                out.u64_le(*id);
                out.u128_le(client.0);
            }
            JournalRecord::Note { id, note } => {
                out.u8(6);
                out.u64_le(*id);
                put_bytes(&mut out, note);
            }
            JournalRecord::Paths { id, paths } => {
                out.u8(7);
                out.u64_le(*id);
                put_paths(&mut out, paths);
            }
            JournalRecord::Goes { id, goes } => {
                out.u8(8);
                out.u64_le(*id);
                out.u8(goes_byte(*goes));
            }
            JournalRecord::Closed { id } => {
                out.u8(9);
                out.u64_le(*id);
            }
            JournalRecord::Address { id, address } => {
                out.u8(10);
                out.u64_le(*id);
                put_bytes(&mut out, address);
            }
            JournalRecord::Ahead(ahead) => {
                out.u8(11);
                out.u64_le(ahead.since);
                put_option(&mut out, ahead.until.as_ref(), |out, until| out.u64_le(*until));
            }
        }
        bytes
    }

    /// Reads one or more records that fill `bytes`.
    pub fn decode_all(bytes: &[u8]) -> Result<Vec<JournalRecord>, RecordError> {
        let mut from = Cursor::new(bytes);
        let mut records = vec![JournalRecord::decode(&mut from)?];
        while from.remaining() > 0 {
            records.push(JournalRecord::decode(&mut from)?);
        }
        Ok(records)
    }

    fn decode(from: &mut Cursor<'_>) -> Result<JournalRecord, RecordError> {
        Ok(match from.u8()? {
            0 => JournalRecord::Version(from.u32_le()?),
            1 => JournalRecord::Made(Box::new(made(from)?)),
            2 => {
                let (id, owner, rule) = owned(from)?;
                JournalRecord::Taken { id, owner, rule, ranges: list(from, range)? }
            }
            3 => {
                let (id, owner, rule) = owned(from)?;
                JournalRecord::Released { id, owner, rule, range: range(from)? }
            }
            4 => {
                let holder = (ClientKey(from.u128_le()?), CacheKey(from.u128_le()?), flag(from)?);
                JournalRecord::Right { holder, right: right(from)? }
            }
            5 => JournalRecord::Moved { id: from.u64_le()?, client: ClientKey(from.u128_le()?) },
            6 => JournalRecord::Note { id: from.u64_le()?, note: bytes_of(from)? },
            7 => JournalRecord::Paths { id: from.u64_le()?, paths: paths(from)? },
            8 => JournalRecord::Goes { id: from.u64_le()?, goes: goes_of(from.u8()?)? },
            9 => JournalRecord::Closed { id: from.u64_le()? },
            10 => JournalRecord::Address { id: from.u64_le()?, address: bytes_of(from)? },
            11 => JournalRecord::Ahead(AheadSpan {
                since: from.u64_le()?,
                until: option(from, |from| Ok(from.u64_le()?))?,
            }),
            kind => return Err(RecordError::Kind(kind)),
        })
    }
}

fn put_made(out: &mut Writer<'_>, made: &OpenRecord) {
    out.u64_le(made.id);
    out.u128_le(made.client.0);
    made.user.encode(out);
    out.u64_le(made.inode);
    put_option(out, made.born.as_ref(), put_time);
    put_paths(out, &made.paths);
    put_option(out, made.stream.as_ref(), put_name);
    out.u32_le(made.granted);
    out.u8(made.deny);
    out.u32_le(made.options);
    put_time(out, &made.opened_at);
    put_option(out, made.key.as_ref(), |out, (key, keyed)| {
        out.u128_le(key.0);
        out.u8(u8::from(*keyed));
    });
    put_option(out, made.parent.as_ref(), |out, key| out.u128_le(key.0));
    put_option(out, made.right.as_ref(), put_right);
    out.u8(goes_byte(made.goes));
    out.u64_le(made.keep_ns);
    put_bytes(out, &made.note);
}

fn made(from: &mut Cursor<'_>) -> Result<OpenRecord, RecordError> {
    Ok(OpenRecord {
        id: from.u64_le()?,
        client: ClientKey(from.u128_le()?),
        user: Sid::parse(from).map_err(|_| RecordError::Content)?,
        inode: from.u64_le()?,
        born: option(from, time)?,
        paths: paths(from)?,
        stream: option(from, name)?,
        granted: from.u32_le()?,
        deny: from.u8()?,
        options: from.u32_le()?,
        opened_at: time(from)?,
        key: option(from, |from| Ok((CacheKey(from.u128_le()?), flag(from)?)))?,
        parent: option(from, |from| Ok(CacheKey(from.u128_le()?)))?,
        right: option(from, right)?,
        goes: goes_of(from.u8()?)?,
        keep_ns: from.u64_le()?,
        note: bytes_of(from)?,
        address: Vec::new(),
    })
}

fn put_right(out: &mut Writer<'_>, right: &RecordedRight) {
    out.u8(right.state.bits());
    out.u16_le(right.epoch);
    out.u8(u8::from(right.counts));
    put_option(out, right.parent.as_ref(), |out, key| out.u128_le(key.0));
}

fn right(from: &mut Cursor<'_>) -> Result<RecordedRight, RecordError> {
    Ok(RecordedRight {
        state: Caching::from_bits(from.u8()?).ok_or(RecordError::Content)?,
        epoch: from.u16_le()?,
        counts: flag(from)?,
        parent: option(from, |from| Ok(CacheKey(from.u128_le()?)))?,
    })
}

fn put_owned(out: &mut Writer<'_>, id: u64, owner: LockOwner, rule: LockRule) {
    out.u64_le(id);
    out.u128_le(owner.client.0);
    out.u128_le(owner.owner);
    out.u8(u8::from(rule == LockRule::Merging));
}

fn owned(from: &mut Cursor<'_>) -> Result<(u64, LockOwner, LockRule), RecordError> {
    let id = from.u64_le()?;
    let owner = LockOwner { client: ClientKey(from.u128_le()?), owner: from.u128_le()? };
    let rule = if flag(from)? { LockRule::Merging } else { LockRule::Exact };
    Ok((id, owner, rule))
}

fn put_range(out: &mut Writer<'_>, range: &RangeRequest) {
    out.u64_le(range.start);
    out.u64_le(range.len);
    out.u8(u8::from(range.kind == RangeKind::Exclusive));
}

fn range(from: &mut Cursor<'_>) -> Result<RangeRequest, RecordError> {
    let (start, len) = (from.u64_le()?, from.u64_le()?);
    let kind = if flag(from)? { RangeKind::Exclusive } else { RangeKind::Shared };
    Ok(RangeRequest { start, len, kind })
}

fn goes_byte(goes: Option<RemovalMark>) -> u8 {
    match goes {
        None => 0,
        Some(RemovalMark::WithLast) => 1,
        Some(RemovalMark::WithOpen) => 2,
    }
}

fn goes_of(byte: u8) -> Result<Option<RemovalMark>, RecordError> {
    match byte {
        0 => Ok(None),
        1 => Ok(Some(RemovalMark::WithLast)),
        2 => Ok(Some(RemovalMark::WithOpen)),
        _ => Err(RecordError::Content),
    }
}

fn put_time(out: &mut Writer<'_>, time: &Time) {
    out.u64_le(time.secs.cast_unsigned());
    out.u32_le(time.nanos);
}

fn time(from: &mut Cursor<'_>) -> Result<Time, RecordError> {
    Ok(Time { secs: from.u64_le()?.cast_signed(), nanos: from.u32_le()? })
}

fn put_paths(out: &mut Writer<'_>, paths: &[Vec<Name>]) {
    put_list(out, paths, |out, path| put_list(out, path, put_name));
}

fn paths(from: &mut Cursor<'_>) -> Result<Vec<Vec<Name>>, RecordError> {
    list(from, |from| list(from, name))
}

fn put_name(out: &mut Writer<'_>, name: &Name) {
    put_bytes(out, name.as_bytes());
}

fn name(from: &mut Cursor<'_>) -> Result<Name, RecordError> {
    Name::new(&bytes_of(from)?).map_err(|_| RecordError::Content)
}

fn flag(from: &mut Cursor<'_>) -> Result<bool, RecordError> {
    match from.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(RecordError::Content),
    }
}

fn put_bytes(out: &mut Writer<'_>, bytes: &[u8]) {
    out.u32_le(bytes.len() as u32);
    out.bytes(bytes);
}

fn bytes_of(from: &mut Cursor<'_>) -> Result<Vec<u8>, RecordError> {
    let len = from.u32_le()?;
    Ok(from.bytes(len as usize)?.to_vec())
}

fn put_list<T>(out: &mut Writer<'_>, list: &[T], put: impl Fn(&mut Writer<'_>, &T)) {
    out.u32_le(list.len() as u32);
    for item in list {
        put(out, item);
    }
}

fn list<T>(
    from: &mut Cursor<'_>,
    item: impl Fn(&mut Cursor<'_>) -> Result<T, RecordError>,
) -> Result<Vec<T>, RecordError> {
    let count = from.u32_le()?;
    // An item takes at least a byte, so a wild number ends with the record.
    (0..count).map(|_| item(from)).collect()
}

fn put_option<T>(out: &mut Writer<'_>, value: Option<&T>, put: impl Fn(&mut Writer<'_>, &T)) {
    out.u8(u8::from(value.is_some()));
    if let Some(value) = value {
        put(out, value);
    }
}

fn option<T>(
    from: &mut Cursor<'_>,
    item: impl Fn(&mut Cursor<'_>) -> Result<T, RecordError>,
) -> Result<Option<T>, RecordError> {
    if flag(from)? { item(from).map(Some) } else { Ok(None) }
}
