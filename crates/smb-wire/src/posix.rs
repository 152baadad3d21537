//! The SMB 3.1.1 POSIX extensions: modes, owners and links of a POSIX system.
//!
//! They are in effect on a connection if both sides sent the POSIX negotiate context, and for an Open if its
//! CREATE had the POSIX create context. MS-SMB2 has no section for them. The layouts are those of the Linux
//! client.

use crate::malformed::Malformed;
use crate::reader::FieldReader;
use crate::utf16::Utf16;
use wire::Writer;

/// The information class of [`FileInfo`] in QUERY_INFO and of [`DirectoryEntry`] in QUERY_DIRECTORY.
pub const FILE_POSIX_INFORMATION: u8 = 0x64;

/// The information class of [`FilesystemInfo`] in QUERY_INFO.
pub const FS_POSIX_INFORMATION: u8 = 0x64;

/// A value of [`FilesystemInfo`] that the server does not know.
pub const UNKNOWN: u64 = u64::MAX;

/// The file type in the four bits of a mode above the permissions. Zero is a regular file, or comes from a
/// server without types. The attributes then tell a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum FileType {
    /// A regular file.
    File = 0,
    /// A directory.
    Directory = 1,
    /// A symbolic link.
    SymbolicLink = 2,
    /// A character device.
    CharacterDevice = 3,
    /// A block device.
    BlockDevice = 4,
    /// A named pipe.
    Fifo = 5,
    /// A socket.
    Socket = 6,
}

impl FileType {
    /// The bits in [`CreateResponse::mode`].
    pub fn bits(self) -> u32 {
        (self as u32) << 12
    }
}

/// The POSIX create context of a response. [`FileInfo`] ends with it too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreateResponse<'a> {
    /// The number of hard links.
    pub nlink: u32,
    /// The reparse tag (MS-FSCC 2.1.2.1), or zero for a file or directory.
    pub reparse_tag: u32,
    /// Permission bits with set-uid, set-gid and sticky. A [`FileType`] is above them.
    pub mode: u32,
    /// The owner, as a SID (MS-DTYP 2.4.2.2).
    pub owner: &'a [u8],
    /// The group, as a SID.
    pub group: &'a [u8],
}

impl<'a> CreateResponse<'a> {
    /// Parses the data of the context.
    ///
    /// # Errors
    /// [`Malformed`] if a field is missing or a SID is incomplete.
    pub fn parse(data: &'a [u8]) -> Result<Self, Malformed> {
        Self::read(&mut FieldReader::new(data, "POSIX create context"))
    }

    fn read(r: &mut FieldReader<'a>) -> Result<Self, Malformed> {
        Ok(CreateResponse {
            nlink: r.u32("nlink")?,
            reparse_tag: r.u32("reparse_tag")?,
            mode: r.u32("mode")?,
            owner: sid(r, "owner")?,
            group: sid(r, "group")?,
        })
    }

    pub(crate) fn write(&self, w: &mut Writer<'_>) {
        w.u32_le(self.nlink);
        w.u32_le(self.reparse_tag);
        w.u32_le(self.mode);
        w.bytes(self.owner);
        w.bytes(self.group);
    }
}

/// The bytes of one SID: revision 1, a count of at most 15, six bytes of authority, and that many numbers.
fn sid<'a>(r: &mut FieldReader<'a>, field: &'static str) -> Result<&'a [u8], Malformed> {
    match *r.rest() {
        [1, count @ 0..=15, ..] => r.bytes(8 + 4 * usize::from(count), field),
        _ => Err(r.wrong(field)),
    }
}

/// The POSIX metadata of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileInfo<'a> {
    /// When the file was created, as a FILETIME.
    pub creation_time: u64,
    /// When it was last read.
    pub last_access_time: u64,
    /// When its data was last written.
    pub last_write_time: u64,
    /// When the file was last changed in any way.
    pub change_time: u64,
    /// Its size in bytes.
    pub end_of_file: u64,
    /// Bytes of its allocation.
    pub allocation_size: u64,
    /// FILE_ATTRIBUTE bits (MS-FSCC 2.6).
    pub dos_attributes: u32,
    /// Its inode number on its device.
    pub inode: u64,
    /// Its device.
    pub device_id: u32,
    /// Links, mode and owners.
    pub posix: CreateResponse<'a>,
}

impl<'a> FileInfo<'a> {
    /// Parses the output of a QUERY_INFO.
    ///
    /// # Errors
    /// [`Malformed`] if a field is missing or a SID is incomplete.
    pub fn parse(data: &'a [u8]) -> Result<Self, Malformed> {
        Self::read(&mut FieldReader::new(data, "POSIX file information"))
    }

    fn read(r: &mut FieldReader<'a>) -> Result<Self, Malformed> {
        let info = FileInfo {
            creation_time: r.u64("CreationTime")?,
            last_access_time: r.u64("LastAccessTime")?,
            last_write_time: r.u64("LastWriteTime")?,
            change_time: r.u64("ChangeTime")?,
            end_of_file: r.u64("EndOfFile")?,
            allocation_size: r.u64("AllocationSize")?,
            dos_attributes: r.u32("DosAttributes")?,
            inode: r.u64("Inode")?,
            device_id: r.u32("DeviceId")?,
            posix: {
                r.skip(4, "Reserved")?;
                CreateResponse::read(r)?
            },
        };
        Ok(info)
    }

    /// Appends the output of a QUERY_INFO.
    pub fn write(&self, out: &mut Vec<u8>) {
        self.put(&mut Writer::new(out));
    }

    fn put(&self, w: &mut Writer<'_>) {
        w.u64_le(self.creation_time);
        w.u64_le(self.last_access_time);
        w.u64_le(self.last_write_time);
        w.u64_le(self.change_time);
        w.u64_le(self.end_of_file);
        w.u64_le(self.allocation_size);
        w.u32_le(self.dos_attributes);
        w.u64_le(self.inode);
        w.u32_le(self.device_id);
        w.u32_le(0);
        self.posix.write(w);
    }
}

/// An entry of a directory. The first eight bytes link the entries as in all classes of MS-FSCC 2.4:
/// NextEntryOffset, and an index that clients ignore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirectoryEntry<'a> {
    /// The file.
    pub info: FileInfo<'a>,
    /// Its name.
    pub name: Utf16<'a>,
}

impl<'a> DirectoryEntry<'a> {
    /// Parses one entry from its NextEntryOffset on.
    ///
    /// # Errors
    /// [`Malformed`] if a field is missing, a SID is incomplete or the name points outside.
    pub fn parse(entry: &'a [u8]) -> Result<Self, Malformed> {
        let mut r = FieldReader::new(entry, "POSIX directory entry");
        r.skip(8, "NextEntryOffset")?;
        let info = FileInfo::read(&mut r)?;
        let length = r.u32("FileNameLength")? as usize;
        let name = Utf16::new(r.bytes(length, "FileName")?).ok_or(r.wrong("FileName"))?;
        Ok(DirectoryEntry { info, name })
    }

    /// Appends the entry with a NextEntryOffset of zero, unpadded.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut w = Writer::new(out);
        w.u64_le(0);
        self.info.put(&mut w);
        w.u32_le(self.name.as_bytes().len() as u32);
        w.bytes(self.name.as_bytes());
    }
}

/// A volume in the form of statfs. [`UNKNOWN`] stands for an unknown value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilesystemInfo {
    /// The best size of a transfer, in bytes.
    pub optimal_transfer_size: u32,
    /// The size of a block, in bytes.
    pub block_size: u32,
    /// All blocks.
    pub total_blocks: u64,
    /// Free blocks.
    pub blocks_available: u64,
    /// Blocks that users may take.
    pub user_blocks_available: u64,
    /// The most files.
    pub total_file_nodes: u64,
    /// The number of files that can still be created.
    pub free_file_nodes: u64,
    /// The id of the volume.
    pub file_system_identifier: u64,
}

impl FilesystemInfo {
    /// Parses the output of a QUERY_INFO.
    ///
    /// # Errors
    /// [`Malformed`] if a field is missing.
    pub fn parse(data: &[u8]) -> Result<Self, Malformed> {
        let mut r = FieldReader::new(data, "POSIX file system information");
        Ok(FilesystemInfo {
            optimal_transfer_size: r.u32("OptimalTransferSize")?,
            block_size: r.u32("BlockSize")?,
            total_blocks: r.u64("TotalBlocks")?,
            blocks_available: r.u64("BlocksAvail")?,
            user_blocks_available: r.u64("UserBlocksAvail")?,
            total_file_nodes: r.u64("TotalFileNodes")?,
            free_file_nodes: r.u64("FreeFileNodes")?,
            file_system_identifier: r.u64("FileSysIdentifier")?,
        })
    }

    /// Appends the output of a QUERY_INFO.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut w = Writer::new(out);
        w.u32_le(self.optimal_transfer_size);
        w.u32_le(self.block_size);
        w.u64_le(self.total_blocks);
        w.u64_le(self.blocks_available);
        w.u64_le(self.user_blocks_available);
        w.u64_le(self.total_file_nodes);
        w.u64_le(self.free_file_nodes);
        w.u64_le(self.file_system_identifier);
    }
}
