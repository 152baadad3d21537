//! Entries of a listing, written where the reply wants them.

use share::{Info, Share};
use smb_wire::Utf16;
use smb_wire::fscc::chain::Chain;
use smb_wire::fscc::directory::{DirectoryClass, Entry, EntryName, Listing};
use smb_wire::fscc::names::{Syntax, to_wire};
use smb_wire::fscc::{FileInfoClass, Full};
use smb_wire::posix::{DirectoryEntry, FILE_POSIX_INFORMATION};

use crate::info::Shown;
use crate::info::posix::Owners;

/// Bytes of a POSIX entry before the owner's SID, and those of the shortest two SIDs behind it: links,
/// times, sizes, mode, and the length of the name at the end.
const POSIX_FIXED: usize = 8 + 80 + 4;
const SHORTEST_SIDS: usize = 2 * 8;

/// In which form entries are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// A class of MS-FSCC 2.4.
    Class(DirectoryClass),
    /// That of the POSIX extensions.
    Posix,
}

impl Form {
    /// The form with this number; none when no server lists directories in it.
    pub fn of(class: u8, posix: bool) -> Option<Form> {
        if class == FILE_POSIX_INFORMATION {
            return posix.then_some(Form::Posix);
        }
        DirectoryClass::from_class(FileInfoClass(class)).map(Form::Class)
    }

    /// Bytes that an entry takes without its name.
    pub fn fixed_len(self) -> usize {
        match self {
            Form::Class(class) => class.fixed_len(),
            Form::Posix => POSIX_FIXED + SHORTEST_SIDS,
        }
    }
}

/// Takes the entries of one reply.
pub(super) struct Sink<'a> {
    to: To<'a>,
    syntax: Syntax,
}

enum To<'a> {
    Class(Listing<'a>, DirectoryClass),
    Posix { chain: Chain<'a>, engine: &'a Share, owners: Owners, name: Vec<u8> },
}

impl<'a> Sink<'a> {
    /// Entries at the end of `body`, in at most `limit` bytes.
    pub fn new(
        body: &'a mut Vec<u8>,
        form: Form,
        limit: usize,
        engine: &'a Share,
        syntax: Syntax,
    ) -> Sink<'a> {
        let to = match form {
            Form::Class(class) => To::Class(Listing::new(body, class, limit), class),
            Form::Posix => To::Posix {
                chain: Chain::new(body, limit, 8),
                engine,
                owners: Owners::default(),
                name: Vec::new(),
            },
        };
        Sink { to, syntax }
    }

    /// Whether nothing was put in.
    pub fn is_empty(&self) -> bool {
        match &self.to {
            To::Class(listing, _) => listing.is_empty(),
            To::Posix { chain, .. } => chain.is_empty(),
        }
    }

    /// Whether entries tell more than names.
    pub fn needs_info(&self) -> bool {
        !matches!(self.to, To::Class(_, DirectoryClass::Names))
    }

    /// Puts an entry in.
    ///
    /// # Errors
    /// [`Full`] when it does not fit; nothing is changed then.
    pub fn push(&mut self, host_name: &[u8], info: Option<&Info>) -> Result<(), Full> {
        let shown = info.map(Shown::of_entry);
        match &mut self.to {
            To::Class(listing, _) => {
                let entry = shown.map_or_else(Entry::default, |shown| shown.entry());
                listing.push(&entry, EntryName::Host(host_name, self.syntax))
            }
            To::Posix { chain, engine, owners, name } => {
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

    /// Puts the first entry in with as much of its name as fits. The POSIX form has no such entry.
    ///
    /// # Errors
    /// [`Full`] when not even that fits.
    pub fn push_cut(&mut self, host_name: &[u8], info: Option<&Info>) -> Result<(), Full> {
        let entry = info.map_or_else(Entry::default, |info| Shown::of_entry(info).entry());
        match &mut self.to {
            To::Class(listing, _) => listing.push_cut(&entry, EntryName::Host(host_name, self.syntax)),
            To::Posix { .. } => Err(Full),
        }
    }
}
