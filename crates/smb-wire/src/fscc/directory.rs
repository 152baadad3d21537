//! The output of QUERY_DIRECTORY: one builder for all directory classes.
//!
//! [`Listing::push`] is on the fast path. It allocates nothing as long as the output buffer has capacity for
//! its limit. The server decides what to return if an entry does not fit (MS-FSA 2.1.5.6.3):
//!
//! - a limit below [`DirectoryClass::fixed_len`]: STATUS_INFO_LENGTH_MISMATCH, before the directory is read;
//! - the first entry does not fit: [`Listing::push_cut`] writes it with as much of its name as fits, and the
//!   status is STATUS_BUFFER_OVERFLOW;
//! - a later entry does not fit: the status is STATUS_SUCCESS, and the next request begins with that entry.

use super::chain::{Chain, Entries, Full, entries};
use super::layout::layout;
use super::names::{Syntax, to_wire};
use super::{BadBuffer, FileAttributes, FileInfoClass, FileTime, ReparseTag, text};
use crate::Utf16;
use wire::Cursor;

/// The classes of QUERY_DIRECTORY in the order of their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DirectoryClass {
    /// MS-FSCC 2.4.10
    Directory,
    /// MS-FSCC 2.4.15
    FullDirectory,
    /// MS-FSCC 2.4.8
    BothDirectory,
    /// MS-FSCC 2.4.33
    Names,
    /// MS-FSCC 2.4.22
    IdBothDirectory,
    /// MS-FSCC 2.4.24
    IdFullDirectory,
    /// MS-FSCC 2.4.23
    IdExtdDirectory,
    /// As [`DirectoryClass::IdExtdDirectory`], with a short name.
    IdExtdBothDirectory,
    /// MS-FSCC 2.4.19
    Id64ExtdDirectory,
    /// MS-FSCC 2.4.18
    Id64ExtdBothDirectory,
    /// MS-FSCC 2.4.21
    IdAllExtdDirectory,
    /// MS-FSCC 2.4.20
    IdAllExtdBothDirectory,
}

impl DirectoryClass {
    /// The class with this number, if it is a directory class.
    #[must_use]
    pub const fn from_class(class: FileInfoClass) -> Option<DirectoryClass> {
        Some(match class {
            FileInfoClass::DIRECTORY => DirectoryClass::Directory,
            FileInfoClass::FULL_DIRECTORY => DirectoryClass::FullDirectory,
            FileInfoClass::BOTH_DIRECTORY => DirectoryClass::BothDirectory,
            FileInfoClass::NAMES => DirectoryClass::Names,
            FileInfoClass::ID_BOTH_DIRECTORY => DirectoryClass::IdBothDirectory,
            FileInfoClass::ID_FULL_DIRECTORY => DirectoryClass::IdFullDirectory,
            FileInfoClass::ID_EXTD_DIRECTORY => DirectoryClass::IdExtdDirectory,
            FileInfoClass::ID_EXTD_BOTH_DIRECTORY => DirectoryClass::IdExtdBothDirectory,
            FileInfoClass::ID_64_EXTD_DIRECTORY => DirectoryClass::Id64ExtdDirectory,
            FileInfoClass::ID_64_EXTD_BOTH_DIRECTORY => DirectoryClass::Id64ExtdBothDirectory,
            FileInfoClass::ID_ALL_EXTD_DIRECTORY => DirectoryClass::IdAllExtdDirectory,
            FileInfoClass::ID_ALL_EXTD_BOTH_DIRECTORY => DirectoryClass::IdAllExtdBothDirectory,
            _ => return None,
        })
    }

    /// Bytes before the name in each entry.
    #[inline]
    #[must_use]
    pub const fn fixed_len(self) -> usize {
        let shape = self.shape();
        let mut len = if shape.common_fields { Common::SIZE } else { 12 };
        len += if shape.ea_size { 4 } else { 0 };
        len += if shape.tag { 4 } else { 0 };
        len += match shape.id {
            Ids::None => 0,
            Ids::Padded64 => 12,
            Ids::Behind64 => 10,
            Ids::Plain64 => 8,
            Ids::Wide => 16,
            Ids::Both => 24,
        };
        len + if shape.short_name { 26 } else { 0 }
    }

    const fn shape(self) -> Shape {
        const fn shape(ea_size: bool, tag: bool, id: Ids, short_name: bool) -> Shape {
            Shape { common_fields: true, ea_size, tag, id, short_name }
        }
        match self {
            DirectoryClass::Directory => shape(false, false, Ids::None, false),
            DirectoryClass::FullDirectory => shape(true, false, Ids::None, false),
            DirectoryClass::BothDirectory => shape(true, false, Ids::None, true),
            DirectoryClass::Names => Shape { common_fields: false, ..shape(false, false, Ids::None, false) },
            DirectoryClass::IdBothDirectory => shape(true, false, Ids::Behind64, true),
            DirectoryClass::IdFullDirectory => shape(true, false, Ids::Padded64, false),
            DirectoryClass::IdExtdDirectory => shape(true, true, Ids::Wide, false),
            DirectoryClass::IdExtdBothDirectory => shape(true, true, Ids::Wide, true),
            DirectoryClass::Id64ExtdDirectory => shape(true, true, Ids::Plain64, false),
            DirectoryClass::Id64ExtdBothDirectory => shape(true, true, Ids::Plain64, true),
            DirectoryClass::IdAllExtdDirectory => shape(true, true, Ids::Both, false),
            DirectoryClass::IdAllExtdBothDirectory => shape(true, true, Ids::Both, true),
        }
    }
}

/// The fields between FileNameLength and FileName, in this order.
#[derive(Clone, Copy)]
struct Shape {
    common_fields: bool,
    ea_size: bool,
    tag: bool,
    id: Ids,
    short_name: bool,
}

/// The file IDs of a class and their position.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ids {
    None,
    /// Four reserved bytes, then 64 bits.
    Padded64,
    /// Two reserved bytes, then 64 bits, both after the short name.
    Behind64,
    Plain64,
    Wide,
    /// 64 bits, then 128 bits.
    Both,
}

layout! {
    /// The first fields of all classes but FileNamesInformation.
    pub struct Common {
        /// Written when the next entry is.
        next_entry_offset: u32,
        /// The position of the entry in the directory, or 0 if positions are not fixed.
        file_index: u32,
        /// When the file was created.
        creation_time: FileTime,
        /// When it was last read.
        last_access_time: FileTime,
        /// When its data last changed.
        last_write_time: FileTime,
        /// When the file was last changed in any way.
        change_time: FileTime,
        /// Size in bytes.
        end_of_file: u64,
        /// Bytes of its allocation.
        allocation_size: u64,
        /// Its attributes.
        file_attributes: FileAttributes,
        /// Bytes of the name.
        file_name_length: u32,
    }
}

/// One file or directory with the fields of all directory classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ListingEntry {
    /// The position of the entry in the directory, or 0 if positions are not fixed.
    pub file_index: u32,
    /// When the file was created.
    pub creation_time: FileTime,
    /// When it was last read.
    pub last_access_time: FileTime,
    /// When its data last changed.
    pub last_write_time: FileTime,
    /// When the file was last changed in any way.
    pub change_time: FileTime,
    /// Size in bytes.
    pub end_of_file: u64,
    /// Bytes of its allocation.
    pub allocation_size: u64,
    /// Its attributes. They are written in the form of [`FileAttributes::shown`].
    pub file_attributes: FileAttributes,
    /// Bytes of its extended attributes, as FileEaInformation counts them.
    pub ea_size: u32,
    /// Its reparse tag, if the attributes say that there is one.
    pub reparse_tag: ReparseTag,
    /// Its 64-bit file ID.
    pub file_id: u64,
    /// Its 128-bit file ID.
    pub file_id_128: u128,
    /// The values that macOS reads in the place of the short name of FileIdBothDirectoryInformation.
    pub apple: Option<AppleEntry>,
}

/// The fields of Apple's kAAPL_SUPPORTS_READ_DIR_ATTR in FileIdBothDirectoryInformation. They replace the EA
/// size, the short name and the two bytes after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct AppleEntry {
    /// The maximal access of the caller.
    pub max_access: u32,
    /// Bytes of the resource fork.
    pub resource_fork_size: u64,
    /// The Finder's type, creator, flags, extended flags and date, 16 bytes.
    pub finder_info: [u8; 16],
    /// The mode bits, or 0 if they are unknown.
    pub unix_mode: u16,
}

/// The name of an entry, in the form that the caller has.
#[derive(Debug, Clone, Copy)]
pub enum EntryName<'a> {
    /// The host's bytes, mapped by [`to_wire`].
    Host(&'a [u8], Syntax),
    /// A name in wire form.
    Wire(Utf16<'a>),
    /// A name in wire form, as units.
    Units(&'a [u16]),
}

impl EntryName<'_> {
    /// The most bytes of the name in wire form.
    #[inline]
    fn most_bytes(&self) -> usize {
        match self {
            EntryName::Host(name, _) => name.len() * 2,
            EntryName::Wire(name) => name.as_bytes().len(),
            EntryName::Units(units) => units.len() * 2,
        }
    }

    #[inline]
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            EntryName::Host(name, syntax) => to_wire(name, *syntax, out),
            EntryName::Wire(name) => out.extend_from_slice(name.as_bytes()),
            EntryName::Units(units) => {
                units.iter().for_each(|unit| out.extend_from_slice(&unit.to_le_bytes()))
            }
        }
    }

    /// The bytes of the name in wire form. A host name that is not plain ASCII takes a pass over it.
    fn bytes(&self) -> usize {
        match self {
            EntryName::Host(name, syntax) => super::names::host::wire_units(name, *syntax) * 2,
            _ => self.most_bytes(),
        }
    }
}

/// A directory listing that is being built.
#[derive(Debug)]
pub struct Listing<'a> {
    chain: Chain<'a>,
    class: DirectoryClass,
}

impl<'a> Listing<'a> {
    /// A listing of `class` at the end of `out`, of at most `limit` bytes.
    pub fn new(out: &'a mut Vec<u8>, class: DirectoryClass, limit: usize) -> Self {
        // MS-FSCC 2.4 (the entries of every directory class are aligned to 8 bytes)
        Listing { chain: Chain::new(out, limit, 8), class }
    }

    /// Whether nothing has been written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.chain.is_empty()
    }

    /// Bytes written.
    #[must_use]
    pub fn len(&self) -> usize {
        self.chain.len()
    }

    /// Appends an entry.
    ///
    /// # Errors
    /// [`Full`] if it does not fit. Nothing is changed then.
    #[inline]
    pub fn push(&mut self, entry: &ListingEntry, name: EntryName<'_>) -> Result<(), Full> {
        let fixed = self.class.fixed_len();
        let most = fixed + name.most_bytes();
        let len = if most <= self.chain.room() { most } else { fixed + name.bytes() };
        let out = self.chain.begin(len)?;
        let start = out.len();
        write_fixed(self.class, entry, out);
        name.write(out);
        let length = (out.len() - start - fixed) as u32;
        patch_name_length(self.class, &mut out[start..], length);
        Ok(())
    }

    /// Writes the first entry with as much of its name as fits, for STATUS_BUFFER_OVERFLOW. FileNameLength
    /// has the length of the whole name.
    ///
    /// # Errors
    /// [`Full`] if the fixed part does not fit, or if the listing is not empty.
    pub fn push_cut(&mut self, entry: &ListingEntry, name: EntryName<'_>) -> Result<(), Full> {
        let fixed = self.class.fixed_len();
        let room = self.chain.room();
        if !self.is_empty() || room < fixed {
            return Err(Full);
        }
        let mut whole = Vec::with_capacity(name.most_bytes());
        name.write(&mut whole);
        let kept = whole.len().min((room - fixed) & !1);
        let out = self.chain.begin(fixed + kept)?;
        let start = out.len();
        write_fixed(self.class, entry, out);
        out.extend_from_slice(&whole[..kept]);
        patch_name_length(self.class, &mut out[start..], whole.len() as u32);
        Ok(())
    }
}

/// FileNameLength is at byte 60, or at byte 8 in FileNamesInformation.
#[inline]
fn patch_name_length(class: DirectoryClass, entry: &mut [u8], length: u32) {
    let at = if class == DirectoryClass::Names { 8 } else { Common::SIZE - 4 };
    entry[at..at + 4].copy_from_slice(&length.to_le_bytes());
}

/// Writes the fields before the name, with a FileNameLength of 0.
#[inline]
fn write_fixed(class: DirectoryClass, entry: &ListingEntry, out: &mut Vec<u8>) {
    let shape = class.shape();
    if !shape.common_fields {
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&entry.file_index.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        return;
    }
    let common = Common {
        next_entry_offset: 0,
        file_index: entry.file_index,
        creation_time: entry.creation_time,
        last_access_time: entry.last_access_time,
        last_write_time: entry.last_write_time,
        change_time: entry.change_time,
        end_of_file: entry.end_of_file,
        allocation_size: entry.allocation_size,
        file_attributes: entry.file_attributes.shown(),
        file_name_length: 0,
    };
    common.write(out);
    let apple = entry.apple.filter(|_| class == DirectoryClass::IdBothDirectory);
    let is_reparse_point = entry.file_attributes.contains(FileAttributes::REPARSE_POINT);
    let tag = if is_reparse_point { entry.reparse_tag.0 } else { 0 };
    if shape.ea_size {
        // MS-FSA 2.1.5.6.3.1 (a class without a field for the reparse tag has it in EaSize)
        let in_ea_size = if is_reparse_point && !shape.tag { tag } else { entry.ea_size };
        let value = apple.map_or(in_ea_size, |apple| apple.max_access);
        out.extend_from_slice(&value.to_le_bytes());
    }
    if shape.tag {
        out.extend_from_slice(&tag.to_le_bytes());
    }
    match shape.id {
        Ids::None | Ids::Behind64 => {}
        Ids::Padded64 => {
            out.extend_from_slice(&[0; 4]);
            out.extend_from_slice(&entry.file_id.to_le_bytes());
        }
        Ids::Plain64 => out.extend_from_slice(&entry.file_id.to_le_bytes()),
        Ids::Wide => out.extend_from_slice(&entry.file_id_128.to_le_bytes()),
        Ids::Both => {
            out.extend_from_slice(&entry.file_id.to_le_bytes());
            out.extend_from_slice(&entry.file_id_128.to_le_bytes());
        }
    }
    if shape.short_name {
        write_short_name(apple.as_ref(), out);
    }
    if shape.id == Ids::Behind64 {
        out.extend_from_slice(&apple.map_or(0, |apple| apple.unix_mode).to_le_bytes());
        out.extend_from_slice(&entry.file_id.to_le_bytes());
    }
}

/// Writes ShortNameLength, a reserved byte and ShortName. No file has a short name, so all are zero, unless
/// macOS asked for other values in their place.
fn write_short_name(apple: Option<&AppleEntry>, out: &mut Vec<u8>) {
    out.extend_from_slice(&[0; 2]);
    match apple {
        None => out.extend_from_slice(&[0; 24]),
        Some(apple) => {
            out.extend_from_slice(&apple.resource_fork_size.to_le_bytes());
            out.extend_from_slice(&apple.finder_info);
        }
    }
}

/// Reads a listing, for a client.
#[must_use]
pub fn read(data: &[u8], class: DirectoryClass) -> Reader<'_> {
    Reader { entries: entries(data, 8), class }
}

/// The entries of a listing; see [`read`].
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    entries: Entries<'a>,
    class: DirectoryClass,
}

impl<'a> Iterator for Reader<'a> {
    /// The entry and its name. If a class has the reparse tag in EaSize, the value is in both fields.
    type Item = Result<(ListingEntry, Utf16<'a>), BadBuffer>;

    fn next(&mut self) -> Option<Self::Item> {
        let data = self.entries.next()?;
        Some(data.and_then(|data| parse_entry(data, self.class)))
    }
}

fn parse_entry(data: &[u8], class: DirectoryClass) -> Result<(ListingEntry, Utf16<'_>), BadBuffer> {
    let shape = class.shape();
    let mut c = Cursor::new(data);
    let mut entry = ListingEntry::default();
    let name_length;
    if shape.common_fields {
        let common = Common::parse(c.bytes(Common::SIZE)?)?;
        name_length = common.file_name_length;
        entry = ListingEntry {
            file_index: common.file_index,
            creation_time: common.creation_time,
            last_access_time: common.last_access_time,
            last_write_time: common.last_write_time,
            change_time: common.change_time,
            end_of_file: common.end_of_file,
            allocation_size: common.allocation_size,
            file_attributes: common.file_attributes,
            ..entry
        };
    } else {
        c.skip(4)?;
        entry.file_index = c.u32_le()?;
        name_length = c.u32_le()?;
    }
    if shape.ea_size {
        entry.ea_size = c.u32_le()?;
    }
    if shape.tag {
        entry.reparse_tag = ReparseTag(c.u32_le()?);
    } else if entry.file_attributes.contains(FileAttributes::REPARSE_POINT) {
        entry.reparse_tag = ReparseTag(entry.ea_size);
    }
    match shape.id {
        Ids::None | Ids::Behind64 => {}
        Ids::Padded64 => {
            c.skip(4)?;
            entry.file_id = c.u64_le()?;
        }
        Ids::Plain64 => entry.file_id = c.u64_le()?,
        Ids::Wide => entry.file_id_128 = c.u128_le()?,
        Ids::Both => {
            entry.file_id = c.u64_le()?;
            entry.file_id_128 = c.u128_le()?;
        }
    }
    if shape.short_name {
        c.skip(26)?;
    }
    if shape.id == Ids::Behind64 {
        c.skip(2)?;
        entry.file_id = c.u64_le()?;
    }
    let length = usize::try_from(name_length).map_err(|_| BadBuffer::Length)?;
    Ok((entry, text::parse(c.bytes(length)?)?))
}

#[cfg(test)]
mod tests {
    use super::super::testing::hex;
    use super::*;
    use crate::utf16;
    use proptest::prelude::*;

    const ALL: [DirectoryClass; 12] = [
        DirectoryClass::Directory,
        DirectoryClass::FullDirectory,
        DirectoryClass::BothDirectory,
        DirectoryClass::Names,
        DirectoryClass::IdBothDirectory,
        DirectoryClass::IdFullDirectory,
        DirectoryClass::IdExtdDirectory,
        DirectoryClass::IdExtdBothDirectory,
        DirectoryClass::Id64ExtdDirectory,
        DirectoryClass::Id64ExtdBothDirectory,
        DirectoryClass::IdAllExtdDirectory,
        DirectoryClass::IdAllExtdBothDirectory,
    ];

    fn entry() -> ListingEntry {
        ListingEntry {
            creation_time: FileTime(0x01d5_c119_4ad6_d700),
            last_access_time: FileTime(0x01d6_e0b3_edf4_8080),
            last_write_time: FileTime(0x01d7_ff85_66bb_4080),
            change_time: FileTime(0x01d9_1e56_df82_0080),
            end_of_file: 0x1234,
            allocation_size: 0x2000,
            file_attributes: FileAttributes::ARCHIVE,
            ea_size: 0x55,
            file_id: 0x0102_0304_0506_0708,
            file_id_128: 0xA0 << 120 | 0x0102_0304_0506_0708,
            ..ListingEntry::default()
        }
    }

    fn listing(class: DirectoryClass, entry: &ListingEntry, name: &str) -> Vec<u8> {
        let mut out = Vec::new();
        Listing::new(&mut out, class, 4096)
            .push(entry, EntryName::Host(name.as_bytes(), Syntax::Windows))
            .unwrap();
        out
    }

    /// The bytes that the Python package smbprotocol 1.17 packs for the same values.
    #[test]
    fn entries_are_those_of_another_implementation() {
        let common = "0000000000000000 00d7d64a19c1d501 8080f4edb3e0d601 8040bb6685ffd701 800082df561ed901
            3412000000000000 0020000000000000 20000000 08000000";
        let short = "0000 000000000000000000000000000000000000000000000000";
        let name = "610062002e00e900";
        for (class, middle) in [
            (DirectoryClass::Directory, String::new()),
            (DirectoryClass::FullDirectory, "55000000".to_string()),
            (DirectoryClass::BothDirectory, format!("55000000 {short}")),
            (DirectoryClass::IdBothDirectory, format!("55000000 {short} 0000 0807060504030201")),
            (DirectoryClass::IdFullDirectory, "55000000 00000000 0807060504030201".to_string()),
        ] {
            let wanted = hex(&format!("{common} {middle} {name}"));
            assert_eq!(listing(class, &entry(), "ab.é"), wanted, "{class:?}");
        }
        let names = hex("00000000 00000000 08000000 610062002e00e900");
        assert_eq!(listing(DirectoryClass::Names, &entry(), "ab.é"), names);
    }

    /// The offsets of FileName in the diagrams of MS-FSCC 2.4.18 to 2.4.24, in bits.
    #[test]
    fn names_begin_where_the_diagrams_say() {
        for (class, bits) in [
            (DirectoryClass::Directory, 512),
            (DirectoryClass::FullDirectory, 544),
            (DirectoryClass::Names, 96),
            (DirectoryClass::IdFullDirectory, 640),
            (DirectoryClass::IdExtdDirectory, 704),
            (DirectoryClass::Id64ExtdDirectory, 640),
            (DirectoryClass::IdAllExtdDirectory, 768),
        ] {
            assert_eq!(class.fixed_len() * 8, bits, "{class:?}");
        }
        for class in ALL {
            assert_eq!(listing(class, &entry(), "x").len(), class.fixed_len() + 2, "{class:?}");
        }
    }

    #[test]
    fn a_reparse_tag_takes_the_place_of_the_ea_size_where_there_is_no_other() {
        let link = ListingEntry {
            file_attributes: FileAttributes::REPARSE_POINT,
            reparse_tag: ReparseTag::SYMLINK,
            ..entry()
        };
        for class in ALL.into_iter().filter(|c| c.shape().ea_size) {
            let bytes = listing(class, &link, "l");
            let (read, _) = read(&bytes, class).next().unwrap().unwrap();
            assert_eq!(read.reparse_tag, ReparseTag::SYMLINK, "{class:?}");
            assert_eq!(read.ea_size == 0x55, class.shape().tag, "{class:?}");
        }
    }

    #[test]
    fn apple_attributes_replace_the_short_name() {
        let apple = AppleEntry {
            max_access: 0x001F_01FF,
            resource_fork_size: 0x0102,
            finder_info: *b"TEXTttxt01234567",
            unix_mode: 0o644,
        };
        let of_apple = ListingEntry { apple: Some(apple), ..entry() };
        let bytes = listing(DirectoryClass::IdBothDirectory, &of_apple, "x");
        assert_eq!(bytes[64..68], 0x001F_01FFu32.to_le_bytes());
        assert_eq!(bytes[70..78], 0x0102u64.to_le_bytes());
        assert_eq!(&bytes[78..94], b"TEXTttxt01234567");
        assert_eq!(bytes[94..96], 0o644u16.to_le_bytes());
        let plain = listing(DirectoryClass::BothDirectory, &of_apple, "x");
        assert_eq!(plain, listing(DirectoryClass::BothDirectory, &entry(), "x"));
    }

    #[test]
    fn a_listing_stops_where_its_limit_is() {
        for class in ALL {
            let mut out = b"header".to_vec();
            let first = class.fixed_len() + 6;
            let limit = first.next_multiple_of(8) + class.fixed_len() + 3;
            let mut list = Listing::new(&mut out, class, limit);
            assert_eq!(
                list.push(&entry(), EntryName::Host("x".repeat(300).as_bytes(), Syntax::Windows)),
                Err(Full)
            );
            list.push(&entry(), EntryName::Units(&[0x61, 0x62, 0x63])).unwrap();
            assert_eq!(list.push(&entry(), EntryName::Units(&[0x61, 0x62])), Err(Full));
            assert_eq!(list.len(), first);
            // Three bytes on the host are one unit on the wire. The name fits although the first estimate is
            // too large.
            list.push(&entry(), EntryName::Host("€".as_bytes(), Syntax::Windows)).unwrap();
            assert!(list.len() <= limit);
            let names: Vec<String> =
                read(&out[6..], class).map(|entry| entry.unwrap().1.to_string_lossy()).collect();
            assert_eq!(names, ["abc", "€"], "{class:?}");
        }
    }

    #[test]
    fn a_first_entry_that_does_not_fit_is_cut() {
        let mut out = Vec::new();
        let fixed = DirectoryClass::Directory.fixed_len();
        let mut list = Listing::new(&mut out, DirectoryClass::Directory, fixed + 5);
        list.push_cut(&entry(), EntryName::Host(b"abcdef", Syntax::Windows)).unwrap();
        assert_eq!(list.push_cut(&entry(), EntryName::Units(&[])), Err(Full));
        assert_eq!((out.len(), &out[60..64]), (fixed + 4, &[12u8, 0, 0, 0][..]));
        let mut small = Vec::new();
        let mut list = Listing::new(&mut small, DirectoryClass::Directory, fixed - 1);
        assert_eq!(list.push_cut(&entry(), EntryName::Units(&[])), Err(Full));
    }

    #[test]
    fn pushing_into_a_buffer_with_room_allocates_nothing() {
        let mut out = Vec::with_capacity(8192);
        let before = out.as_ptr();
        let mut list = Listing::new(&mut out, DirectoryClass::IdBothDirectory, 8192);
        let mut count = 0;
        while list.push(&entry(), EntryName::Host("naïve file.txt".as_bytes(), Syntax::Windows)).is_ok() {
            count += 1;
        }
        assert_eq!((out.as_ptr(), out.capacity()), (before, 8192));
        assert_eq!(count, 8192 / 136);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(
            data in proptest::collection::vec(any::<u8>(), 0..300), n in 0usize..12,
        ) {
            for found in read(&data, ALL[n]) {
                let _ = found;
            }
        }

        #[test]
        fn what_was_written_is_read(
            names in proptest::collection::vec("[^\u{0}/]{1,20}", 1..8), n in 0usize..12,
        ) {
            let class = ALL[n];
            let mut out = Vec::new();
            let mut list = Listing::new(&mut out, class, 65536);
            for (i, name) in names.iter().enumerate() {
                let wire = utf16::encode(name);
                let entry = ListingEntry { file_index: i as u32, ..entry() };
                list.push(&entry, EntryName::Wire(Utf16::new(&wire).unwrap())).unwrap();
            }
            let found: Vec<(u32, String)> = read(&out, class)
                .map(|e| e.map(|(entry, name)| (entry.file_index, name.to_string_lossy())).unwrap())
                .collect();
            let wanted: Vec<(u32, String)> = (0u32..).zip(names).collect();
            prop_assert_eq!(found, wanted);
        }
    }
}
