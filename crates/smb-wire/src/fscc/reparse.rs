//! Reparse points: the buffers of SET, GET and DELETE_REPARSE_POINT.
//!
//! [`RawReparse`] has the fields that all of them share and checks them. [`Reparse`] has the contents of the
//! known tags.

use super::ReparseTag;
use crate::Utf16;
use wire::{Cursor, Truncated, Writer};

/// MS-FSCC 2.3.82: the most bytes of a reparse point, including its head.
pub const MAX_REPARSE: usize = 16_384;

/// The reason why a reparse buffer was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum BadReparse {
    /// The lengths do not match, or the data does not match its tag: STATUS_IO_REPARSE_DATA_INVALID.
    #[error("the reparse data is not what it should be")]
    Data,
    /// A reserved tag: STATUS_IO_REPARSE_TAG_INVALID.
    #[error("the reparse tag is reserved")]
    Tag,
}

impl From<Truncated> for BadReparse {
    fn from(_: Truncated) -> Self {
        BadReparse::Data
    }
}

/// MS-FSCC 2.1.2.2 and 2.1.2.3: a tag with the data of its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RawReparse<'a> {
    /// The tag, which identifies the owner of the data.
    pub tag: ReparseTag,
    /// The owner's GUID, for a tag that does not belong to Microsoft.
    pub guid: Option<[u8; 16]>,
    /// The data.
    pub data: &'a [u8],
}

impl<'a> RawReparse<'a> {
    /// Reads the buffer of SET_REPARSE_POINT, the reply to GET_REPARSE_POINT, or (with empty data) the
    /// buffer of DELETE_REPARSE_POINT.
    ///
    /// # Errors
    /// [`BadReparse`], which gives the status.
    pub fn parse(buffer: &'a [u8]) -> Result<Self, BadReparse> {
        // MS-FSCC 2.3.82
        if buffer.len() > MAX_REPARSE {
            return Err(BadReparse::Data);
        }
        let mut c = Cursor::new(buffer);
        let tag = ReparseTag(c.u32_le()?);
        let length = usize::from(c.array::<2>().map(u16::from_le_bytes)?);
        c.skip(2)?;
        let guid = if tag.is_microsoft() { None } else { Some(c.array()?) };
        if c.remaining() != length {
            return Err(BadReparse::Data);
        }
        if tag.is_reserved() {
            return Err(BadReparse::Tag);
        }
        Ok(RawReparse { tag, guid, data: c.rest() })
    }

    /// Appends the buffer. Data beyond 65,535 bytes is cut, since the length field has 16 bits.
    /// [`MAX_REPARSE`] is far below that.
    pub fn write(&self, out: &mut Vec<u8>) {
        let length = self.data.len().min(usize::from(u16::MAX));
        let mut w = Writer::new(out);
        w.u32_le(self.tag.0);
        w.u16_le(length as u16);
        w.u16_le(0);
        if let Some(guid) = self.guid {
            w.bytes(&guid);
        }
        w.bytes(&self.data[..length]);
    }
}

/// The contents of a reparse point, for the tags that this crate knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reparse<'a> {
    /// MS-FSCC 2.1.2.4: a symbolic link.
    Symlink {
        /// The target for programs.
        substitute_name: Utf16<'a>,
        /// The target for display.
        print_name: Utf16<'a>,
        /// Whether the target is relative to the directory of the link.
        relative: bool,
    },
    /// MS-FSCC 2.1.2.5: a mount point.
    MountPoint {
        /// The target for programs.
        substitute_name: Utf16<'a>,
        /// The target for display.
        print_name: Utf16<'a>,
    },
    /// MS-FSCC 2.1.2.6: a special file of the Windows NFS server.
    Nfs(NfsFile<'a>),
    /// MS-FSCC 2.1.2.7: a symbolic link of WSL; the target is UTF-8.
    LxSymlink(&'a [u8]),
    /// A socket, FIFO or device of WSL. Its numbers are in extended attributes.
    Lx(ReparseTag),
    /// Any other tag. It is kept unchanged.
    Other(RawReparse<'a>),
}

/// MS-FSCC 2.1.2.6: the kinds of special files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NfsFile<'a> {
    /// A symbolic link, with its target.
    Link(Utf16<'a>),
    /// A character device.
    Char {
        /// Its major number.
        major: u32,
        /// Its minor number.
        minor: u32,
    },
    /// A block device.
    Block {
        /// Its major number.
        major: u32,
        /// Its minor number.
        minor: u32,
    },
    /// A FIFO.
    Fifo,
    /// A socket.
    Socket,
}

const NFS_LNK: u64 = 0x014B_4E4C;
const NFS_CHR: u64 = 0x0052_4843;
const NFS_BLK: u64 = 0x004B_4C42;
const NFS_FIFO: u64 = 0x4F46_4946;
const NFS_SOCK: u64 = 0x4B43_4F53;
const SYMLINK_FLAG_RELATIVE: u32 = 1;
const LX_SYMLINK_VERSION: u32 = 2;

impl<'a> Reparse<'a> {
    /// Reads a whole buffer.
    ///
    /// # Errors
    /// [`BadReparse`], which gives the status.
    pub fn parse(buffer: &'a [u8]) -> Result<Self, BadReparse> {
        Self::of(RawReparse::parse(buffer)?)
    }

    /// The contents of `raw`.
    ///
    /// # Errors
    /// [`BadReparse::Data`] if the data of a known tag is invalid.
    pub fn of(raw: RawReparse<'a>) -> Result<Self, BadReparse> {
        let mut c = Cursor::new(raw.data);
        Ok(match raw.tag {
            ReparseTag::SYMLINK => {
                let places = c.array::<8>()?;
                let relative = c.u32_le()? & SYMLINK_FLAG_RELATIVE != 0;
                let (substitute_name, print_name) = names(places, c.rest())?;
                Reparse::Symlink { substitute_name, print_name, relative }
            }
            ReparseTag::MOUNT_POINT => {
                let (substitute_name, print_name) = names(c.array()?, c.rest())?;
                Reparse::MountPoint { substitute_name, print_name }
            }
            ReparseTag::NFS => Reparse::Nfs(nfs(c)?),
            ReparseTag::LX_SYMLINK => {
                if c.u32_le()? != LX_SYMLINK_VERSION {
                    return Err(BadReparse::Data);
                }
                Reparse::LxSymlink(c.rest())
            }
            ReparseTag::AF_UNIX | ReparseTag::LX_FIFO | ReparseTag::LX_CHR | ReparseTag::LX_BLK
                if raw.data.is_empty() =>
            {
                Reparse::Lx(raw.tag)
            }
            _ => Reparse::Other(raw),
        })
    }

    /// The tag.
    #[must_use]
    pub fn tag(&self) -> ReparseTag {
        match self {
            Reparse::Symlink { .. } => ReparseTag::SYMLINK,
            Reparse::MountPoint { .. } => ReparseTag::MOUNT_POINT,
            Reparse::Nfs(_) => ReparseTag::NFS,
            Reparse::LxSymlink(_) => ReparseTag::LX_SYMLINK,
            Reparse::Lx(tag) => *tag,
            Reparse::Other(raw) => raw.tag,
        }
    }

    /// Appends a whole buffer. Names that together are longer than [`MAX_REPARSE`] do not fit. The caller
    /// must check that before.
    pub fn write(&self, out: &mut Vec<u8>) {
        if let Reparse::Other(raw) = self {
            return raw.write(out);
        }
        let mut w = Writer::new(out);
        w.u32_le(self.tag().0);
        w.u32_le(0);
        match *self {
            Reparse::Symlink { substitute_name, print_name, relative } => {
                put_places(&mut w, substitute_name, print_name);
                w.u32_le(if relative { SYMLINK_FLAG_RELATIVE } else { 0 });
                w.bytes(substitute_name.as_bytes());
                w.bytes(print_name.as_bytes());
            }
            Reparse::MountPoint { substitute_name, print_name } => {
                // Readers of mount points expect a zero after both names.
                put_places_apart(&mut w, substitute_name, print_name, 2);
                w.bytes(substitute_name.as_bytes());
                w.zeros(2);
                w.bytes(print_name.as_bytes());
                w.zeros(2);
            }
            Reparse::Nfs(file) => put_nfs(&mut w, file),
            Reparse::LxSymlink(target) => {
                w.u32_le(LX_SYMLINK_VERSION);
                w.bytes(target);
            }
            Reparse::Lx(_) | Reparse::Other(_) => {}
        }
        let length = w.position() - 8;
        w.patch_u16_le(4, length as u16);
    }
}

/// The substitute and the print name, from their offsets and lengths and the text after them.
fn names(places: [u8; 8], text: &[u8]) -> Result<(Utf16<'_>, Utf16<'_>), BadReparse> {
    let number = |at: usize| usize::from(u16::from_le_bytes([places[at], places[at + 1]]));
    let window = |at: usize, len: usize| {
        let bytes = Cursor::new(text).window(at, len)?;
        Utf16::new(bytes).ok_or(BadReparse::Data)
    };
    let substitute_name = window(number(0), number(2))?;
    if substitute_name.is_empty() {
        return Err(BadReparse::Data);
    }
    Ok((substitute_name, window(number(4), number(6))?))
}

fn put_places(w: &mut Writer<'_>, substitute_name: Utf16<'_>, print_name: Utf16<'_>) {
    put_places_apart(w, substitute_name, print_name, 0);
}

/// Writes offsets and lengths of two names. The second one starts `gap` bytes after the first.
fn put_places_apart(w: &mut Writer<'_>, substitute_name: Utf16<'_>, print_name: Utf16<'_>, gap: u16) {
    let first = substitute_name.as_bytes().len() as u16;
    w.u16_le(0);
    w.u16_le(first);
    w.u16_le(first.wrapping_add(gap));
    w.u16_le(print_name.as_bytes().len() as u16);
}

fn nfs(mut c: Cursor<'_>) -> Result<NfsFile<'_>, BadReparse> {
    Ok(match c.u64_le()? {
        NFS_LNK => NfsFile::Link(Utf16::new(c.rest()).filter(|t| !t.is_empty()).ok_or(BadReparse::Data)?),
        NFS_CHR => NfsFile::Char { major: c.u32_le()?, minor: c.u32_le()? },
        NFS_BLK => NfsFile::Block { major: c.u32_le()?, minor: c.u32_le()? },
        NFS_FIFO => NfsFile::Fifo,
        NFS_SOCK => NfsFile::Socket,
        _ => return Err(BadReparse::Data),
    })
}

fn put_nfs(w: &mut Writer<'_>, file: NfsFile<'_>) {
    match file {
        NfsFile::Link(target) => {
            w.u64_le(NFS_LNK);
            w.bytes(target.as_bytes());
        }
        NfsFile::Char { major, minor } => {
            w.u64_le(NFS_CHR);
            w.u32_le(major);
            w.u32_le(minor);
        }
        NfsFile::Block { major, minor } => {
            w.u64_le(NFS_BLK);
            w.u32_le(major);
            w.u32_le(minor);
        }
        NfsFile::Fifo => w.u64_le(NFS_FIFO),
        NfsFile::Socket => w.u64_le(NFS_SOCK),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::hex;
    use super::*;
    use crate::utf16;
    use proptest::prelude::*;

    fn round(reparse: &Reparse<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        reparse.write(&mut out);
        assert_eq!(Reparse::parse(&out), Ok(*reparse));
        out
    }

    #[test]
    fn a_symbolic_link_is_laid_out_as_the_diagram_says() {
        let name = utf16::encode("..\\b");
        let name = Utf16::new(&name).unwrap();
        let link = Reparse::Symlink { substitute_name: name, print_name: name, relative: true };
        assert_eq!(
            round(&link),
            hex("0c0000a0 1c00 0000  0000 0800 0800 0800 01000000  2e002e005c006200 2e002e005c006200")
        );
    }

    #[test]
    fn a_junction_keeps_its_names_apart() {
        let (there, shown) = (utf16::encode("\\??\\C:\\a"), utf16::encode("C:\\a"));
        let (substitute_name, print_name) = (Utf16::new(&there).unwrap(), Utf16::new(&shown).unwrap());
        let bytes = round(&Reparse::MountPoint { substitute_name, print_name });
        assert_eq!(&bytes[..16], hex("030000a0 2400 0000 0000 1000 1200 0800"));
        assert_eq!(bytes.len(), 8 + 0x24);
    }

    /// The types are the first bytes that Linux's fs/smb/client/reparse.c writes for mkfifo and mknod.
    #[test]
    fn special_files_of_nfs_and_wsl() {
        assert_eq!(round(&Reparse::Nfs(NfsFile::Fifo)), hex("14000080 0800 0000 4649464f00000000"));
        assert_eq!(
            round(&Reparse::Nfs(NfsFile::Char { major: 1, minor: 3 })),
            hex("14000080 1000 0000 4348520000000000 01000000 03000000")
        );
        round(&Reparse::Nfs(NfsFile::Block { major: 8, minor: 1 }));
        round(&Reparse::Nfs(NfsFile::Socket));
        let target = utf16::encode("/a/b");
        round(&Reparse::Nfs(NfsFile::Link(Utf16::new(&target).unwrap())));
        assert_eq!(round(&Reparse::LxSymlink(b"a/b")), hex("1d0000a0 0700 0000 02000000 612f62"));
        assert_eq!(round(&Reparse::Lx(ReparseTag::LX_FIFO)), hex("24000080 0000 0000"));
    }

    #[test]
    fn foreign_tags_come_with_a_guid_and_come_back() {
        let bytes = hex("34120000 0300 0000 000102030405060708090a0b0c0d0e0f 616263");
        let raw = RawReparse::parse(&bytes).unwrap();
        assert_eq!((raw.tag, raw.data), (ReparseTag(0x1234), &b"abc"[..]));
        assert_eq!(round(&Reparse::Other(raw)), bytes);
    }

    #[test]
    fn lengths_must_agree() {
        assert_eq!(RawReparse::parse(&hex("0c0000a0 0500 0000 00")), Err(BadReparse::Data));
        assert_eq!(RawReparse::parse(&hex("0c0000a0 0000 0000 00")), Err(BadReparse::Data));
        assert_eq!(RawReparse::parse(&hex("0c0000a0 0000")), Err(BadReparse::Data));
        assert_eq!(RawReparse::parse(&[0; 24]), Err(BadReparse::Tag));
        let mut large = hex("1d0000a0 f93f 0000");
        large.resize(MAX_REPARSE + 1, 0);
        assert_eq!(RawReparse::parse(&large), Err(BadReparse::Data));
        assert_eq!(
            Reparse::parse(&hex("0c0000a0 0e00 0000 0000 0400 0000 0000 00000000 6100")),
            Err(BadReparse::Data)
        );
        assert_eq!(Reparse::parse(&hex("1d0000a0 0500 0000 01000000 61")), Err(BadReparse::Data));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(tag in prop_oneof![Just(0xA000_000Cu32), Just(0xA000_0003),
            Just(0x8000_0014), Just(0xA000_001D), any::<u32>()],
            data in proptest::collection::vec(any::<u8>(), 0..60))
        {
            let raw = RawReparse { tag: ReparseTag(tag), guid: None, data: &data };
            if let Ok(found) = Reparse::of(raw) {
                let mut out = Vec::new();
                found.write(&mut out);
                if found.tag().is_microsoft() {
                    prop_assert_eq!(Reparse::parse(&out), Ok(found));
                }
            }
            let _ = Reparse::parse(&data);
        }
    }
}
