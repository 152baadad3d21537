//! FILE_NOTIFY_INFORMATION: the changes in a response of CHANGE_NOTIFY.

use super::chain::{Chain, Entries, Full, entries};
use super::{BadBuffer, text};
use crate::Utf16;
use wire::Cursor;

/// MS-FSCC 2.7.1: the kind of a change. Numbers without a name are values too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Action(pub u32);

impl Action {
    /// The name was added.
    pub const ADDED: Action = Action(0x0000_0001);
    /// The name was removed.
    pub const REMOVED: Action = Action(0x0000_0002);
    /// Data or attributes changed.
    pub const MODIFIED: Action = Action(0x0000_0003);
    /// Renamed in its directory: the old name. The new one follows at once.
    pub const RENAMED_OLD_NAME: Action = Action(0x0000_0004);
    /// Renamed in its directory: the new name.
    pub const RENAMED_NEW_NAME: Action = Action(0x0000_0005);
    /// A named stream was added.
    pub const ADDED_STREAM: Action = Action(0x0000_0006);
    /// A named stream was removed.
    pub const REMOVED_STREAM: Action = Action(0x0000_0007);
    /// A named stream changed.
    pub const MODIFIED_STREAM: Action = Action(0x0000_0008);
    /// An object ID was removed with its file.
    pub const REMOVED_BY_DELETE: Action = Action(0x0000_0009);
    /// An object ID was not carried over.
    pub const ID_NOT_TUNNELLED: Action = Action(0x0000_000A);
    /// A file already had an object ID.
    pub const TUNNELLED_ID_COLLISION: Action = Action(0x0000_000B);
}

/// A list of changes that is being built. If a change does not fit, the list is dropped, and the status is
/// STATUS_NOTIFY_ENUM_DIR without data.
#[derive(Debug)]
pub struct NotifyBuffer<'a> {
    chain: Chain<'a>,
}

impl<'a> NotifyBuffer<'a> {
    /// A list at the end of `out`, of at most `limit` bytes.
    pub fn new(out: &'a mut Vec<u8>, limit: usize) -> Self {
        NotifyBuffer { chain: Chain::new(out, limit, 4) }
    }

    /// Whether nothing has been written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.chain.is_empty()
    }

    /// Appends a change. `name` is the path from the watched directory, with backslashes, in UTF-16LE.
    ///
    /// # Errors
    /// [`Full`] if it does not fit. Nothing is changed then.
    pub fn push(&mut self, action: Action, name: &[u8]) -> Result<(), Full> {
        let length = u32::try_from(name.len()).map_err(|_| Full)?;
        // MS-FSCC 2.7.1 (a name is padded to 4 bytes, the last one too if there is space)
        let padded = (12 + name.len()).next_multiple_of(4);
        let len = if padded <= self.chain.room() { padded } else { 12 + name.len() };
        let out = self.chain.begin(len)?;
        let end = out.len() + len;
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&action.0.to_le_bytes());
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(name);
        out.resize(end, 0);
        Ok(())
    }
}

/// Reads a list of changes, for a client.
#[must_use]
pub fn read(data: &[u8]) -> NotifyReader<'_> {
    NotifyReader { entries: entries(data, 4) }
}

/// The changes of a list. See [`read`].
#[derive(Debug, Clone)]
pub struct NotifyReader<'a> {
    entries: Entries<'a>,
}

impl<'a> Iterator for NotifyReader<'a> {
    type Item = Result<(Action, Utf16<'a>), BadBuffer>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.entries.next()?;
        Some(entry.and_then(|entry| {
            let mut c = Cursor::new(entry);
            c.skip(4)?;
            let action = Action(c.u32_le()?);
            let length = c.u32_le()? as usize;
            Ok((action, text::parse(c.bytes(length)?)?))
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::hex;
    use super::*;
    use crate::utf16;
    use proptest::prelude::*;

    #[test]
    fn a_rename_is_two_linked_entries() {
        let mut out = Vec::new();
        let mut report = NotifyBuffer::new(&mut out, 100);
        report.push(Action::RENAMED_OLD_NAME, &utf16::encode("a")).unwrap();
        report.push(Action::RENAMED_NEW_NAME, &utf16::encode("d\\bc")).unwrap();
        assert_eq!(
            out,
            hex("10000000 04000000 02000000 6100 0000  00000000 05000000 08000000 64005c0062006300")
        );
        let read: Vec<_> = read(&out).map(|c| c.map(|(a, n)| (a, n.to_string_lossy())).unwrap()).collect();
        assert_eq!(
            read,
            [(Action::RENAMED_OLD_NAME, "a".to_string()), (Action::RENAMED_NEW_NAME, "d\\bc".to_string())]
        );
    }

    #[test]
    fn a_report_never_passes_its_limit() {
        for limit in 0..80 {
            let mut out = Vec::new();
            let mut report = NotifyBuffer::new(&mut out, limit);
            while report.push(Action::ADDED, &utf16::encode("abc")).is_ok() {}
            assert!(out.len() <= limit);
            assert_eq!(read(&out).filter(Result::is_ok).count(), (limit + 2) / 20);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(data in proptest::collection::vec(any::<u8>(), 0..80)) {
            prop_assert!(read(&data).count() <= data.len());
        }
    }
}
