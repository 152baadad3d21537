//! An event in the layout of the host (fanotify(7)): metadata, followed by records that name directories
//! by handles.

use std::os::fd::BorrowedFd;

use volume::Name;
use wire::Cursor;

use crate::sys::Handle;

/// The size of the longest event: metadata, twice a header, a file system, a handle and a name, and once the
/// same without a name.
pub(super) const LONGEST: usize = METADATA + 2 * (RECORD + 256 + 8) + RECORD;
/// A record without a name: header, file system, header of the handle, handle.
const RECORD: usize = 4 + 8 + 8 + 128;
/// Bytes of an event before its records.
const METADATA: usize = 24;
/// The version of the event layout.
const VERSION: u8 = 3;

/// The identity of a directory or of another node in an event.
// fanotify(7), struct fanotify_event_info_fid
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Fid {
    pub file_system: u64,
    pub handle: Handle,
}

impl Fid {
    /// The identity of an open directory, as events have it.
    pub fn of(directory: BorrowedFd<'_>) -> rustix::io::Result<Fid> {
        let file_system = rustix::fs::fstatvfs(directory)?.f_fsid;
        Ok(Fid { file_system, handle: Handle::of(directory)? })
    }

    /// The bytes by which a record names this directory.
    pub fn key(&self) -> Box<[u8]> {
        let Handle { kind, bytes } = &self.handle;
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        [&self.file_system.to_ne_bytes()[..], &len.to_ne_bytes(), &kind.to_ne_bytes(), bytes].concat().into()
    }
}

/// A directory and a name in it. `None` for the directory itself.
pub(super) type FidAndName = (Fid, Option<Name>);

/// The metadata of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EventHeader {
    /// The bytes of the event with its records.
    pub len: usize,
    pub mask: u64,
    pub pid: i32,
    /// The bytes before the records.
    metadata: usize,
}

/// One event.
pub(super) struct RawEvent {
    pub mask: u64,
    pub pid: i32,
    /// The directory and name of the event, unless it is a rename in one event.
    pub parent_and_name: Option<FidAndName>,
    /// The node that the name led to when its data or attributes changed.
    pub child: Option<Fid>,
    /// The old name of a rename, if its directory is watched.
    pub old: Option<FidAndName>,
    /// The new name of a rename, if its directory is watched.
    pub new: Option<FidAndName>,
}

impl EventHeader {
    /// Reads the metadata at the start of `bytes`. `None` if the event is incomplete.
    pub fn parse(bytes: &[u8]) -> Option<EventHeader> {
        let mut head = Cursor::new(bytes);
        let len = usize::try_from(u32::from_ne_bytes(head.array().ok()?)).ok()?;
        let (version, _reserved, metadata) = (head.u8().ok()?, head.u8().ok()?, head.array().ok()?);
        let mask = u64::from_ne_bytes(head.array().ok()?);
        let _descriptor: [u8; 4] = head.array().ok()?;
        let pid = i32::from_ne_bytes(head.array().ok()?);
        let metadata = usize::from(u16::from_ne_bytes(metadata)).max(METADATA);
        let is_whole = version == VERSION && (metadata..=bytes.len()).contains(&len);
        is_whole.then_some(EventHeader { len, mask, pid, metadata })
    }

    /// The [keys](Fid::key) of the directories whose marks have caused the event at the start of `bytes`.
    pub fn directories<'a>(&self, bytes: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        let mut records = Cursor::new(bytes.get(self.metadata..self.len).unwrap_or_default());
        std::iter::from_fn(move || next_record(&mut records)).filter_map(|(kind, record)| match kind {
            libc::FAN_EVENT_INFO_TYPE_DFID_NAME
            | libc::FAN_EVENT_INFO_TYPE_OLD_DFID_NAME
            | libc::FAN_EVENT_INFO_TYPE_NEW_DFID_NAME => key(record),
            _ => None,
        })
    }
}

impl RawEvent {
    /// Reads the event at the start of `bytes`, which has this header. `None` if it is incomplete.
    pub fn parse(header: EventHeader, bytes: &[u8]) -> Option<RawEvent> {
        let EventHeader { len, mask, pid, metadata } = header;
        let mut records = Cursor::new(bytes.get(metadata..len)?);
        let mut event = RawEvent { mask, pid, parent_and_name: None, child: None, old: None, new: None };
        while let Some((kind, record)) = next_record(&mut records) {
            match kind {
                libc::FAN_EVENT_INFO_TYPE_DFID_NAME => event.parent_and_name = named(record),
                libc::FAN_EVENT_INFO_TYPE_FID => event.child = named(record).map(|(fid, _)| fid),
                libc::FAN_EVENT_INFO_TYPE_OLD_DFID_NAME => event.old = named(record),
                libc::FAN_EVENT_INFO_TYPE_NEW_DFID_NAME => event.new = named(record),
                _ => {}
            }
        }
        Some(event)
    }
}

fn next_record<'a>(records: &mut Cursor<'a>) -> Option<(u8, Cursor<'a>)> {
    let (kind, _pad) = (records.u8().ok()?, records.u8().ok()?);
    let len = usize::from(u16::from_ne_bytes(records.array().ok()?));
    Some((kind, records.sub(len.checked_sub(4)?).ok()?))
}

/// The start of a record as [`Fid::key`] has it.
fn key(mut record: Cursor<'_>) -> Option<&[u8]> {
    let all = record.rest();
    record.skip(8).ok()?;
    let len = usize::try_from(u32::from_ne_bytes(record.array().ok()?)).ok()?;
    all.get(..len.checked_add(16)?)
}

fn named(mut record: Cursor<'_>) -> Option<FidAndName> {
    let file_system = u64::from_ne_bytes(record.array().ok()?);
    let len = usize::try_from(u32::from_ne_bytes(record.array().ok()?)).ok()?;
    let kind = i32::from_ne_bytes(record.array().ok()?);
    let bytes = record.bytes(len).ok()?.into();
    let name = record.rest().split(|&b| b == 0).next()?;
    // For the directory itself the host writes ".", which is not a valid name.
    Some((Fid { file_system, handle: Handle { kind, bytes } }, Name::new(name).ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One event in the layout of Linux, with a record for each name in a directory with an 8-byte
    /// handle.
    fn event(mask: u64, records: &[(u8, &[u8; 4])]) -> Vec<u8> {
        let mut out = Vec::new();
        let record_len = 4_u16 + 8 + 8 + 8 + 4;
        let len = 24 + usize::from(record_len) * records.len();
        out.extend_from_slice(&u32::try_from(len).unwrap().to_ne_bytes());
        out.extend_from_slice(&[VERSION, 0]);
        out.extend_from_slice(&24_u16.to_ne_bytes());
        out.extend_from_slice(&mask.to_ne_bytes());
        out.extend_from_slice(&(-1_i32).to_ne_bytes());
        out.extend_from_slice(&77_i32.to_ne_bytes());
        for (kind, name) in records {
            out.extend_from_slice(&[*kind, 0]);
            out.extend_from_slice(&record_len.to_ne_bytes());
            out.extend_from_slice(&5_u64.to_ne_bytes());
            out.extend_from_slice(&8_u32.to_ne_bytes());
            out.extend_from_slice(&1_i32.to_ne_bytes());
            out.extend_from_slice(b"12345678");
            out.extend_from_slice(*name);
        }
        out
    }

    /// A file `a` was created.
    fn made() -> Vec<u8> {
        event(libc::FAN_CREATE, &[(libc::FAN_EVENT_INFO_TYPE_DFID_NAME, b"a\0\0\0")])
    }

    /// A file `a` was renamed to `b`.
    fn renamed() -> Vec<u8> {
        let records: [(u8, &[u8; 4]); 2] = [
            (libc::FAN_EVENT_INFO_TYPE_OLD_DFID_NAME, b"a\0\0\0"),
            (libc::FAN_EVENT_INFO_TYPE_NEW_DFID_NAME, b"b\0\0\0"),
        ];
        event(libc::FAN_RENAME, &records)
    }

    /// The event at the start of these bytes, as a queue is read.
    fn parsed(bytes: &[u8]) -> Option<(EventHeader, RawEvent)> {
        let header = EventHeader::parse(bytes)?;
        Some((header, RawEvent::parse(header, bytes)?))
    }

    #[test]
    fn an_event_is_read() {
        let bytes = made();
        let (header, seen) = parsed(&bytes).unwrap();
        assert_eq!((header.len, header.mask, header.pid), (bytes.len(), libc::FAN_CREATE, 77));
        assert_eq!((seen.mask, seen.pid), (header.mask, header.pid));
        let (parent_and_name, name) = seen.parent_and_name.unwrap();
        assert_eq!(header.directories(&bytes).collect::<Vec<_>>(), [&*parent_and_name.key()]);
        assert_eq!(parent_and_name.file_system, 5);
        assert_eq!(&*parent_and_name.handle.bytes, b"12345678");
        assert_eq!(name.unwrap().as_bytes(), b"a");
        assert_eq!((seen.old, seen.new), (None, None));
    }

    /// The data of a file `a` changed.
    fn modified() -> Vec<u8> {
        let records: [(u8, &[u8; 4]); 2] =
            [(libc::FAN_EVENT_INFO_TYPE_DFID_NAME, b"a\0\0\0"), (libc::FAN_EVENT_INFO_TYPE_FID, b"\0\0\0\0")];
        event(libc::FAN_MODIFY, &records)
    }

    #[test]
    fn a_change_of_data_is_read_with_the_handle_of_the_file() {
        let bytes = modified();
        let (header, seen) = parsed(&bytes).unwrap();
        assert_eq!(header.directories(&bytes).count(), 1);
        assert_eq!(seen.parent_and_name.unwrap().1.unwrap().as_bytes(), b"a");
        assert_eq!(&*seen.child.unwrap().handle.bytes, b"12345678");
    }

    #[test]
    fn a_rename_is_read_with_both_names() {
        let bytes = renamed();
        let (header, seen) = parsed(&bytes).unwrap();
        assert_eq!(header.directories(&bytes).count(), 2);
        assert_eq!((seen.mask, &seen.parent_and_name), (libc::FAN_RENAME, &None));
        assert_eq!(seen.old.unwrap().1.unwrap().as_bytes(), b"a");
        assert_eq!(seen.new.unwrap().1.unwrap().as_bytes(), b"b");
    }

    #[test]
    fn a_cut_or_changed_event_is_survived() {
        for bytes in [made(), renamed(), modified()] {
            for cut in 0..bytes.len() {
                assert!(parsed(&bytes[..cut]).is_none(), "cut at {cut}");
            }
            for at in 0..bytes.len() {
                for value in [0, 1, 0x7f, 0xff] {
                    let mut changed = bytes.clone();
                    changed[at] = value;
                    if let Some((header, _)) = parsed(&changed) {
                        assert!(header.directories(&changed).count() <= 2);
                        assert!(header.len >= METADATA && header.len <= changed.len());
                    }
                }
            }
        }
    }
}
