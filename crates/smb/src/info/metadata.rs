//! A file in the information classes of fixed size.

use share::Info;
use smb_wire::create::FileInfo;
use smb_wire::fscc::directory::ListingEntry;
use smb_wire::fscc::file::{AttributeTag, Basic, Compression, Internal, NetworkOpen, Standard};
use smb_wire::fscc::{FileAttributes, FileTime, ReparseTag};
use volume::{NodeKind, Time};

use crate::time::to_file_time;

/// The metadata of a file, ready for any class.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileMetadata {
    info: Info,
    is_directory: bool,
}

fn time(time: Time) -> FileTime {
    FileTime(i64::try_from(to_file_time(time)).unwrap_or(i64::MAX))
}

impl FileMetadata {
    /// An entry of a directory.
    pub fn of_entry(info: &Info) -> FileMetadata {
        FileMetadata { info: *info, is_directory: info.kind == NodeKind::Directory }
    }

    /// The object of an Open: the file, or one of its named streams. A stream is never a directory.
    pub fn of_open(info: &Info, open: &share::Open) -> FileMetadata {
        FileMetadata { info: *info, is_directory: open.is_directory() }
    }

    /// The engine's metadata.
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// The attributes, as shown for a stream or a directory.
    // MS-FSA 2.1.5.12.6
    pub fn attributes(&self) -> FileAttributes {
        let mut attributes = FileAttributes::from_bits_retain(self.info.attributes.bits());
        attributes.set(FileAttributes::DIRECTORY, self.is_directory);
        attributes.shown()
    }

    /// The reparse tag, or 0 without the attribute.
    pub fn tag(&self) -> ReparseTag {
        ReparseTag(self.info.reparse_tag)
    }

    /// Size in bytes. It is 0 for a directory, as on Windows: the host's size of a directory has no meaning
    /// for clients.
    pub fn size(&self) -> u64 {
        if self.is_directory { 0 } else { self.info.size }
    }

    /// Bytes on the volume. It is 0 for a directory too.
    pub fn allocated(&self) -> u64 {
        if self.is_directory { 0 } else { self.info.allocated }
    }

    /// The 64-bit file ID, as in the QFid context.
    pub fn file_id(&self) -> u64 {
        self.info.number()
    }

    /// The 128-bit file ID.
    pub fn file_id_128(&self) -> u128 {
        self.info.wide_number()
    }

    /// The times, sizes and attributes in the responses of CREATE and CLOSE.
    pub fn file_info(&self) -> FileInfo {
        FileInfo {
            creation_time: to_file_time(self.info.created),
            last_access_time: to_file_time(self.info.accessed),
            last_write_time: to_file_time(self.info.modified),
            change_time: to_file_time(self.info.changed),
            allocation_size: self.allocated(),
            end_of_file: self.size(),
            file_attributes: self.attributes().bits(),
        }
    }

    /// FileBasicInformation.
    pub fn basic(&self) -> Basic {
        Basic {
            creation_time: time(self.info.created),
            last_access_time: time(self.info.accessed),
            last_write_time: time(self.info.modified),
            change_time: time(self.info.changed),
            file_attributes: self.attributes(),
        }
    }

    /// FileStandardInformation.
    // MS-FSA 2.1.5.12.27
    pub fn standard(&self) -> Standard {
        Standard {
            allocation_size: self.allocated(),
            end_of_file: self.size(),
            // A directory has one name. The host also counts the names inside its subdirectories.
            number_of_links: if self.is_directory { self.info.links.min(1) } else { self.info.links },
            delete_pending: self.info.delete_pending || self.info.links == 0,
            directory: self.is_directory,
        }
    }

    /// FileInternalInformation.
    pub fn internal(&self) -> Internal {
        Internal { index_number: self.file_id() }
    }

    /// FileNetworkOpenInformation.
    pub fn network_open(&self) -> NetworkOpen {
        let basic = self.basic();
        NetworkOpen {
            creation_time: basic.creation_time,
            last_access_time: basic.last_access_time,
            last_write_time: basic.last_write_time,
            change_time: basic.change_time,
            allocation_size: self.allocated(),
            end_of_file: self.size(),
            file_attributes: basic.file_attributes,
        }
    }

    /// FileAttributeTagInformation.
    pub fn attribute_tag(&self) -> AttributeTag {
        AttributeTag { file_attributes: self.attributes(), reparse_tag: self.tag() }
    }

    /// FileCompressionInformation: no file is compressed.
    // MS-FSA 2.1.5.12.8
    pub fn compression(&self) -> Compression {
        Compression { compressed_file_size: self.allocated(), ..Compression::default() }
    }

    /// An entry for any directory class.
    pub fn entry(&self) -> ListingEntry {
        let basic = self.basic();
        ListingEntry {
            // MS-FSCC 2.4.8: positions in a directory are not fixed.
            file_index: 0,
            creation_time: basic.creation_time,
            last_access_time: basic.last_access_time,
            last_write_time: basic.last_write_time,
            change_time: basic.change_time,
            end_of_file: self.size(),
            allocation_size: self.allocated(),
            file_attributes: basic.file_attributes,
            ea_size: self.info.extended_size,
            reparse_tag: self.tag(),
            file_id: self.file_id(),
            file_id_128: self.file_id_128(),
            apple: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use share::Attributes;
    use volume::NodeId;

    use super::*;

    fn info(kind: NodeKind, attributes: Attributes) -> Info {
        let at = |secs| Time { secs, nanos: 100 };
        Info {
            id: NodeId { device: 7, inode: 0x1_0000_0002 },
            file_system: 0,
            kind,
            attributes,
            created: at(0),
            accessed: at(1),
            modified: at(2),
            changed: at(3),
            size: 4097,
            allocated: 8192,
            links: 1,
            delete_pending: false,
            mode: 0o644,
            uid: 1,
            gid: 2,
            extended_size: 24,
            reparse_tag: 0,
            rdev: 0,
            version: 0,
        }
    }

    #[test]
    fn a_directory_shows_no_size_and_always_its_attribute() {
        let shown = FileMetadata::of_entry(&info(NodeKind::Directory, Attributes::HIDDEN));
        assert_eq!(shown.attributes().bits(), 0x12);
        let standard = shown.standard();
        assert_eq!((standard.end_of_file, standard.allocation_size, standard.directory), (0, 0, true));
        assert_eq!(shown.network_open().end_of_file, 0);
    }

    #[test]
    fn a_stream_of_a_directory_is_no_directory() {
        let info = info(NodeKind::Directory, Attributes::DIRECTORY);
        let shown = FileMetadata { info, is_directory: false };
        assert_eq!(shown.attributes(), FileAttributes::NORMAL);
        assert_eq!((shown.size(), shown.standard().directory), (4097, false));
    }

    #[test]
    fn a_file_without_a_link_is_about_to_go() {
        let info = Info { links: 0, ..info(NodeKind::File, Attributes::ARCHIVE) };
        assert!(FileMetadata::of_entry(&info).standard().delete_pending);
    }

    #[test]
    fn the_ids_of_another_file_system_are_no_ids_of_the_shares_own() {
        let own = info(NodeKind::File, Attributes::ARCHIVE);
        let shown = |file_system| FileMetadata::of_entry(&Info { file_system, ..own });
        let ids = |shown: FileMetadata| (shown.file_id(), shown.file_id_128());
        assert_eq!(ids(shown(0)), (0x1_0000_0002, 0x1_0000_0002));
        assert_eq!(ids(shown(7)), (0xd135_44f7_1fdd_e111, 7 << 64 | 0x1_0000_0002));
        assert_ne!(ids(shown(8)), ids(shown(7)));
        let entry = shown(7).entry();
        assert_eq!((entry.file_id, entry.file_id_128), ids(shown(7)));
        assert_eq!(shown(7).internal().index_number, shown(7).file_id());
    }

    #[test]
    fn all_four_times_keep_their_places() {
        let basic = FileMetadata::of_entry(&info(NodeKind::File, Attributes::ARCHIVE)).basic();
        let steps = |time: FileTime| time.0 - 116_444_736_000_000_000;
        let times = [basic.creation_time, basic.last_access_time, basic.last_write_time, basic.change_time];
        assert_eq!(times.map(steps), [1, 10_000_001, 20_000_001, 30_000_001]);
    }
}
