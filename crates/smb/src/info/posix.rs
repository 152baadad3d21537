//! The POSIX extensions' metadata of a file, for QUERY_INFO and QUERY_DIRECTORY.

use share::{Info, Share};
use smb_wire::posix::{CreateResponse, FileInfo, FileType};
use volume::NodeKind;
use wire::Writer;

use super::FileMetadata;

/// Owner and group as SIDs. A listing reuses one value, so that an entry allocates no memory.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    bytes: Vec<u8>,
    group_at: usize,
}

impl Owners {
    /// The owner and group of a file.
    pub fn of(info: &Info, engine: &Share) -> Owners {
        let mut owners = Owners::default();
        owners.set(info, engine);
        owners
    }

    /// Sets the owner and group of another file.
    pub fn set(&mut self, info: &Info, engine: &Share) {
        let config = engine.config();
        self.bytes.clear();
        config.accounts.user_sid(info.uid).encode(&mut Writer::new(&mut self.bytes));
        self.group_at = self.bytes.len();
        config.accounts.group_sid(info.gid).encode(&mut Writer::new(&mut self.bytes));
    }

    /// Bytes of both SIDs.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The response context of CREATE for a file with these owners.
    pub fn answer(&self, info: &Info) -> CreateResponse<'_> {
        let (owner, group) = self.bytes.split_at(self.group_at);
        let mode = info.mode | file_type(info.kind).bits();
        CreateResponse { nlink: info.links, reparse_tag: info.reparse_tag, mode, owner, group }
    }

    /// The POSIX file information of a file with these owners.
    pub fn view(&self, shown: &FileMetadata) -> FileInfo<'_> {
        let info = shown.info();
        let basic = shown.basic();
        FileInfo {
            creation_time: basic.creation_time.0 as u64,
            last_access_time: basic.last_access_time.0 as u64,
            last_write_time: basic.last_write_time.0 as u64,
            change_time: basic.change_time.0 as u64,
            end_of_file: shown.size(),
            allocation_size: shown.allocated(),
            dos_attributes: basic.file_attributes.bits(),
            inode: shown.file_id(),
            device_id: match info.file_system {
                0 => info.id.device as u32,
                other => (other ^ other >> 32) as u32,
            },
            posix: self.answer(info),
        }
    }
}

/// The file type beside the mode. A directory has its attribute instead. Clients without types (Linux before
/// 6.12) take these bits for bits of the mode and add the type from the attributes, so a directory would
/// become a named pipe.
fn file_type(kind: NodeKind) -> FileType {
    match kind {
        NodeKind::File | NodeKind::Directory => FileType::File,
        NodeKind::Link => FileType::SymbolicLink,
        NodeKind::Pipe => FileType::Fifo,
        NodeKind::Socket => FileType::Socket,
        NodeKind::CharDevice => FileType::CharacterDevice,
        NodeKind::BlockDevice => FileType::BlockDevice,
    }
}
