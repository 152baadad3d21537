//! CREATE: opens or creates a file, a directory or a pipe (MS-SMB2 2.2.13 and 2.2.14).
//!
//! The create contexts are in [`crate::create_context`].

use crate::create_context::Contexts;
use crate::id::FileId;
use crate::macros::{wire_enum, wire_flags};
use crate::malformed::Malformed;
use crate::reader::{FieldReader, HEADER};
use crate::utf16::Utf16;
use wire::Writer;

wire_enum! {
    /// An oplock level (MS-SMB2 2.2.13).
    pub enum OplockLevel: u8 {
        None = 0x00,
        LevelII = 0x01,
        Exclusive = 0x08,
        Batch = 0x09,
        /// A lease: the create context has its state.
        Lease = 0xff,
    }
}

wire_enum! {
    /// How far the server may act for the user (MS-SMB2 2.2.13).
    pub enum ImpersonationLevel: u32 {
        Anonymous = 0x0000_0000,
        Identification = 0x0000_0001,
        Impersonation = 0x0000_0002,
        Delegate = 0x0000_0003,
    }
}

wire_flags! {
    /// An access mask (MS-SMB2 2.2.13.1). Bits 0 to 8 have a second name on a directory.
    pub struct Access: u32 {
        /// FILE_READ_DATA, or FILE_LIST_DIRECTORY.
        READ_DATA = 0x0000_0001,
        /// FILE_WRITE_DATA, or FILE_ADD_FILE.
        WRITE_DATA = 0x0000_0002,
        /// FILE_APPEND_DATA, or FILE_ADD_SUBDIRECTORY.
        APPEND_DATA = 0x0000_0004,
        READ_EA = 0x0000_0008,
        WRITE_EA = 0x0000_0010,
        /// FILE_EXECUTE, or FILE_TRAVERSE.
        EXECUTE = 0x0000_0020,
        DELETE_CHILD = 0x0000_0040,
        READ_ATTRIBUTES = 0x0000_0080,
        WRITE_ATTRIBUTES = 0x0000_0100,
        DELETE = 0x0001_0000,
        READ_CONTROL = 0x0002_0000,
        WRITE_DAC = 0x0004_0000,
        WRITE_OWNER = 0x0008_0000,
        SYNCHRONIZE = 0x0010_0000,
        ACCESS_SYSTEM_SECURITY = 0x0100_0000,
        MAXIMUM_ALLOWED = 0x0200_0000,
        GENERIC_ALL = 0x1000_0000,
        GENERIC_EXECUTE = 0x2000_0000,
        GENERIC_WRITE = 0x4000_0000,
        GENERIC_READ = 0x8000_0000,
    }
}

impl Access {
    /// All rights on a file or directory: the mapping of GENERIC_ALL.
    pub const FILE_ALL: Access = Access::from_bits_retain(0x001f_01ff);
    /// The mapping of GENERIC_READ on a file.
    pub const FILE_GENERIC_READ: Access = Access::from_bits_retain(0x0012_0089);
    /// The mapping of GENERIC_WRITE on a file.
    pub const FILE_GENERIC_WRITE: Access = Access::from_bits_retain(0x0012_0116);
    /// The mapping of GENERIC_EXECUTE on a file.
    pub const FILE_GENERIC_EXECUTE: Access = Access::from_bits_retain(0x0012_00a0);

    /// The mask with each generic bit replaced by its rights on a file or directory.
    #[must_use]
    pub fn map_generic(self) -> Access {
        let generic =
            Access::GENERIC_ALL | Access::GENERIC_EXECUTE | Access::GENERIC_WRITE | Access::GENERIC_READ;
        let mut mapped = self - generic;
        for (bit, stands_for) in [
            (Access::GENERIC_ALL, Access::FILE_ALL),
            (Access::GENERIC_EXECUTE, Access::FILE_GENERIC_EXECUTE),
            (Access::GENERIC_WRITE, Access::FILE_GENERIC_WRITE),
            (Access::GENERIC_READ, Access::FILE_GENERIC_READ),
        ] {
            if self.contains(bit) {
                mapped |= stands_for;
            }
        }
        mapped
    }
}

wire_flags! {
    /// The access that an Open allows to other Opens (MS-SMB2 2.2.13).
    pub struct ShareAccess: u32 {
        READ = 0x0000_0001,
        WRITE = 0x0000_0002,
        DELETE = 0x0000_0004,
    }
}

wire_enum! {
    /// The action for an existing file and for a missing one (MS-SMB2 2.2.13).
    pub enum Disposition: u32 {
        Supersede = 0x0000_0000,
        Open = 0x0000_0001,
        Create = 0x0000_0002,
        OpenIf = 0x0000_0003,
        Overwrite = 0x0000_0004,
        OverwriteIf = 0x0000_0005,
    }
}

wire_flags! {
    /// Options of a CREATE (MS-SMB2 2.2.13).
    pub struct CreateOptions: u32 {
        DIRECTORY_FILE = 0x0000_0001,
        WRITE_THROUGH = 0x0000_0002,
        SEQUENTIAL_ONLY = 0x0000_0004,
        NO_INTERMEDIATE_BUFFERING = 0x0000_0008,
        SYNCHRONOUS_IO_ALERT = 0x0000_0010,
        SYNCHRONOUS_IO_NONALERT = 0x0000_0020,
        NON_DIRECTORY_FILE = 0x0000_0040,
        COMPLETE_IF_OPLOCKED = 0x0000_0100,
        NO_EA_KNOWLEDGE = 0x0000_0200,
        OPEN_REMOTE_INSTANCE = 0x0000_0400,
        RANDOM_ACCESS = 0x0000_0800,
        DELETE_ON_CLOSE = 0x0000_1000,
        OPEN_BY_FILE_ID = 0x0000_2000,
        OPEN_FOR_BACKUP_INTENT = 0x0000_4000,
        NO_COMPRESSION = 0x0000_8000,
        OPEN_REQUIRING_OPLOCK = 0x0001_0000,
        DISALLOW_EXCLUSIVE = 0x0002_0000,
        RESERVE_OPFILTER = 0x0010_0000,
        OPEN_REPARSE_POINT = 0x0020_0000,
        OPEN_NO_RECALL = 0x0040_0000,
        OPEN_FOR_FREE_SPACE_QUERY = 0x0080_0000,
    }
}

wire_enum! {
    /// The action that a CREATE took (MS-SMB2 2.2.14).
    pub enum CreateAction: u32 {
        Superseded = 0x0000_0000,
        Opened = 0x0000_0001,
        Created = 0x0000_0002,
        Overwritten = 0x0000_0003,
    }
}

wire_flags! {
    /// Flags of a response (MS-SMB2 2.2.14).
    pub struct ResponseFlags: u8 {
        /// The last component of the path is a reparse point (3.x).
        REPARSEPOINT = 0x01,
    }
}

/// CREATE request (MS-SMB2 2.2.13).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    /// The requested oplock.
    pub requested_oplock_level: OplockLevel,
    /// How far the server may act for the user.
    pub impersonation_level: ImpersonationLevel,
    /// The requested access.
    pub desired_access: Access,
    /// FILE_ATTRIBUTE bits (MS-FSCC 2.6) of a new file.
    pub file_attributes: u32,
    /// The access that other Opens may have.
    pub share_access: ShareAccess,
    /// The action for an existing file and for a missing one.
    pub create_disposition: Disposition,
    /// Its options.
    pub create_options: CreateOptions,
    /// The path from the share's root, with backslashes.
    pub name: Utf16<'a>,
    /// The create contexts.
    pub contexts: Contexts<'a>,
}

impl<'a> Request<'a> {
    /// Parses a message from its header on. The contexts are checked when they are read.
    ///
    /// # Errors
    /// [`Malformed`] if a field is missing or points outside, or the name has half a character.
    pub fn parse(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut r = FieldReader::body(message, "CREATE request", 57)?;
        r.skip(1, "SecurityFlags")?;
        let requested_oplock_level = OplockLevel::new(r.u8("RequestedOplockLevel")?);
        let impersonation_level = ImpersonationLevel::new(r.u32("ImpersonationLevel")?);
        r.skip(16, "SmbCreateFlags")?;
        let desired_access = Access::from_bits_retain(r.u32("DesiredAccess")?);
        let file_attributes = r.u32("FileAttributes")?;
        let share_access = ShareAccess::from_bits_retain(r.u32("ShareAccess")?);
        let create_disposition = Disposition::new(r.u32("CreateDisposition")?);
        let create_options = CreateOptions::from_bits_retain(r.u32("CreateOptions")?);
        let name_offset = r.u16("NameOffset")?;
        let name_length = r.u16("NameLength")?;
        let contexts_offset = r.u32("CreateContextsOffset")? as usize;
        let contexts_length = r.u32("CreateContextsLength")? as usize;
        let name = r.name(name_offset.into(), name_length.into(), "NameOffset")?;
        let contexts = r.window(contexts_offset, contexts_length, "CreateContextsOffset")?;
        Ok(Request {
            requested_oplock_level,
            impersonation_level,
            desired_access,
            file_attributes,
            share_access,
            create_disposition,
            create_options,
            name,
            contexts: Contexts::Wire(contexts),
        })
    }

    /// Appends the body.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut w = Writer::new(out);
        w.u16_le(57);
        w.u8(0);
        w.u8(self.requested_oplock_level.get());
        w.u32_le(self.impersonation_level.get());
        w.zeros(16);
        w.u32_le(self.desired_access.bits());
        w.u32_le(self.file_attributes);
        w.u32_le(self.share_access.bits());
        w.u32_le(self.create_disposition.get());
        w.u32_le(self.create_options.bits());
        w.u16_le(HEADER as u16 + 56);
        w.u16_le(self.name.as_bytes().len() as u16);
        w.u64_le(0);
        let empty = self.name.is_empty() && self.contexts.is_empty();
        // The variable part has at least one byte.
        w.bytes(if empty { &[0] } else { self.name.as_bytes() });
        write_contexts(&mut w, &self.contexts, 48);
    }

    /// The bytes that count for the credit charge: none.
    #[must_use]
    pub fn payload_len(&self) -> u32 {
        0
    }
}

/// Appends the contexts and writes their offset and length at `offset_field`.
fn write_contexts(w: &mut Writer<'_>, contexts: &Contexts<'_>, offset_field: usize) {
    if contexts.is_empty() {
        return;
    }
    w.align(8);
    let start = w.position();
    contexts.write(w);
    w.patch_u32_le(offset_field, (HEADER + start) as u32);
    w.patch_u32_le(offset_field + 4, (w.position() - start) as u32);
}

/// Times, sizes and attributes in the order of CREATE and CLOSE responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FileInfo {
    /// When the file was created, as a FILETIME.
    pub creation_time: u64,
    /// When it was last read.
    pub last_access_time: u64,
    /// When its data was last written.
    pub last_write_time: u64,
    /// When the file was last changed in any way.
    pub change_time: u64,
    /// Bytes of its allocation.
    pub allocation_size: u64,
    /// Its size in bytes.
    pub end_of_file: u64,
    /// FILE_ATTRIBUTE bits (MS-FSCC 2.6).
    pub file_attributes: u32,
}

impl FileInfo {
    pub(crate) fn read(r: &mut FieldReader<'_>) -> Result<Self, Malformed> {
        Ok(FileInfo {
            creation_time: r.u64("CreationTime")?,
            last_access_time: r.u64("LastAccessTime")?,
            last_write_time: r.u64("LastWriteTime")?,
            change_time: r.u64("ChangeTime")?,
            allocation_size: r.u64("AllocationSize")?,
            end_of_file: r.u64("EndofFile")?,
            file_attributes: r.u32("FileAttributes")?,
        })
    }

    pub(crate) fn write(&self, w: &mut Writer<'_>) {
        w.u64_le(self.creation_time);
        w.u64_le(self.last_access_time);
        w.u64_le(self.last_write_time);
        w.u64_le(self.change_time);
        w.u64_le(self.allocation_size);
        w.u64_le(self.end_of_file);
        w.u32_le(self.file_attributes);
    }
}

/// CREATE response (MS-SMB2 2.2.14).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Response<'a> {
    /// The granted oplock.
    pub oplock_level: OplockLevel,
    /// Whether the path ended at a reparse point.
    pub flags: ResponseFlags,
    /// The action that was taken.
    pub create_action: CreateAction,
    /// Times, sizes and attributes.
    pub info: FileInfo,
    /// The new Open.
    pub file_id: FileId,
    /// The response contexts.
    pub contexts: Contexts<'a>,
}

impl<'a> Response<'a> {
    /// Parses a message from its header on. The contexts are checked when they are read.
    ///
    /// # Errors
    /// [`Malformed`] if a field is missing or points outside.
    pub fn parse(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut r = FieldReader::body(message, "CREATE response", 89)?;
        let oplock_level = OplockLevel::new(r.u8("OplockLevel")?);
        let flags = ResponseFlags::from_bits_retain(r.u8("Flags")?);
        let create_action = CreateAction::new(r.u32("CreateAction")?);
        let info = FileInfo::read(&mut r)?;
        r.skip(4, "Reserved2")?;
        let file_id = r.file_id("FileId")?;
        let offset = r.u32("CreateContextsOffset")? as usize;
        let length = r.u32("CreateContextsLength")? as usize;
        let contexts = Contexts::Wire(r.window(offset, length, "CreateContextsOffset")?);
        Ok(Response { oplock_level, flags, create_action, info, file_id, contexts })
    }

    /// Appends the body.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut w = Writer::new(out);
        w.u16_le(89);
        w.u8(self.oplock_level.get());
        w.u8(self.flags.bits());
        w.u32_le(self.create_action.get());
        self.info.write(&mut w);
        w.u32_le(0);
        self.file_id.write(&mut w);
        w.u64_le(0);
        write_contexts(&mut w, &self.contexts, 80);
    }
}
