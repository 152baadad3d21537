//! Writes the entries of a listing into the reply.

use share::{Info, Share};
use smb_wire::Utf16;
use smb_wire::fscc::chain::Chain;
use smb_wire::fscc::directory::{DirectoryClass, EntryName, Listing, ListingEntry};
use smb_wire::fscc::names::{Syntax, to_wire};
use smb_wire::fscc::{FileInfoClass, Full};
use smb_wire::posix::{DirectoryEntry, FILE_POSIX_INFORMATION};

use crate::info::FileMetadata;
use crate::info::posix::Owners;

/// Bytes of a POSIX entry before the owner's SID: links, times, sizes, mode, and the length of the name at
/// the end. The two shortest SIDs follow.
const POSIX_FIXED: usize = 8 + 80 + 4;
const SHORTEST_SIDS: usize = 2 * 8;

/// The form of the entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryForm {
    /// A class of MS-FSCC 2.4.
    Class(DirectoryClass),
    /// The form of the POSIX extensions.
    Posix,
}

impl EntryForm {
    /// The form with this number. `None` if it is not a class for directories.
    pub fn of(class: u8, posix: bool) -> Option<EntryForm> {
        if class == FILE_POSIX_INFORMATION {
            return posix.then_some(EntryForm::Posix);
        }
        DirectoryClass::from_class(FileInfoClass(class)).map(EntryForm::Class)
    }

    /// Bytes of an entry without its name.
    pub fn fixed_len(self) -> usize {
        match self {
            EntryForm::Class(class) => class.fixed_len(),
            EntryForm::Posix => POSIX_FIXED + SHORTEST_SIDS,
        }
    }
}

/// The entries of one reply.
pub(super) struct Sink<'a> {
    to: SinkTarget<'a>,
    syntax: Syntax,
}

enum SinkTarget<'a> {
    Class(Listing<'a>, DirectoryClass),
    Posix { chain: Chain<'a>, engine: &'a Share, owners: Owners, name: Vec<u8> },
}

impl<'a> Sink<'a> {
    /// Appends entries to `body`, in at most `limit` bytes.
    pub fn new(
        body: &'a mut Vec<u8>,
        form: EntryForm,
        limit: usize,
        engine: &'a Share,
        syntax: Syntax,
    ) -> Sink<'a> {
        let to = match form {
            EntryForm::Class(class) => SinkTarget::Class(Listing::new(body, class, limit), class),
            EntryForm::Posix => SinkTarget::Posix {
                chain: Chain::new(body, limit, 8),
                engine,
                owners: Owners::default(),
                name: Vec::new(),
            },
        };
        Sink { to, syntax }
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        match &self.to {
            SinkTarget::Class(listing, _) => listing.is_empty(),
            SinkTarget::Posix { chain, .. } => chain.is_empty(),
        }
    }

    /// Whether entries have more than names.
    pub fn needs_info(&self) -> bool {
        !matches!(self.to, SinkTarget::Class(_, DirectoryClass::Names))
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// [`Full`] if it does not fit. Nothing is changed then.
    pub fn push(&mut self, host_name: &[u8], info: Option<&Info>) -> Result<(), Full> {
        let shown = info.map(FileMetadata::of_entry);
        match &mut self.to {
            SinkTarget::Class(listing, _) => {
                let entry = shown.map_or_else(ListingEntry::default, |shown| shown.entry());
                listing.push(&entry, EntryName::Host(host_name, self.syntax))
            }
            SinkTarget::Posix { chain, engine, owners, name } => {
                let Some(shown) = shown else { return Err(Full) };
                owners.set(shown.info(), engine);
                name.clear();
                to_wire(host_name, self.syntax, name);
                let out = chain.begin(POSIX_FIXED + owners.len() + name.len())?;
                let name = Utf16::new(name).unwrap_or_default();
                DirectoryEntry { info: owners.view(&shown), name }.write(out);
                Ok(())
            }
        }
    }

    /// Adds the first entry with as much of its name as fits. The POSIX form has no such entry.
    ///
    /// # Errors
    /// [`Full`] if not even that fits.
    pub fn push_cut(&mut self, host_name: &[u8], info: Option<&Info>) -> Result<(), Full> {
        let entry = info.map_or_else(ListingEntry::default, |info| FileMetadata::of_entry(info).entry());
        match &mut self.to {
            SinkTarget::Class(listing, _) => {
                listing.push_cut(&entry, EntryName::Host(host_name, self.syntax))
            }
            SinkTarget::Posix { .. } => Err(Full),
        }
    }
}
