//! Holes of files of a share: those that a file to be read is known to have, and those that one to be written shall keep.

use client::smb::{OpenOptions, Tree};
use smb_wire::NtStatus;
use smb_wire::create::Access;
use smb_wire::fscc::FileAttributes;

use super::{File, settings};
use crate::error::{Done, Fault};
use crate::tree::holes::between;
use crate::tree::like::Like;

/// Samba does not answer at all when more ranges are found than there is room for: then less is asked about, down to what
/// cannot have so many (4,096 ranges with a hole of a block behind each).
const LESS: u64 = 8;
const LEAST: u64 = 32 * 1024 * 1024;

/// Makes the file `path`, which was marked as sparse before it had that name, as `like` says. Samba takes the mark away when it
/// gives a file a name, or attributes, and keeps with the mark that a file was hidden because its name began with a dot.
pub(super) async fn settle(tree: &Tree, path: &str, like: &Like) -> Done<()> {
    let like = Like { attributes: like.attributes.or(Some(FileAttributes::ARCHIVE.bits())), ..*like };
    let access = Access::WRITE_ATTRIBUTES | Access::READ_ATTRIBUTES | Access::SYNCHRONIZE;
    let file = tree.open(path, &OpenOptions { access, ..OpenOptions::attributes() }).await?;
    let settled = match file.settle(settings(&like)).await {
        Ok(()) => file.set_sparse().await,
        Err(error) => Err(error),
    };
    file.close().await?;
    Ok(settled?)
}

impl File {
    /// The first byte at or behind `offset` that may not be in a hole.
    pub(in crate::tree) async fn data_from(&self, offset: u64) -> Done<u64> {
        let info = self.file.info();
        let size = info.end_of_file;
        // MS-FSCC 2.6: others have no holes that a server would tell of.
        if offset >= size || info.file_attributes & FileAttributes::SPARSE_FILE.bits() == 0 {
            return Ok(offset);
        }
        if let Some(data) = self.holes.data_from(offset) {
            return Ok(data);
        }
        let mut length = size - offset;
        let found = loop {
            match self.file.allocated(offset..offset + length).await {
                Err(error) if error.status() == Some(NtStatus::BUFFER_TOO_SMALL) && length > LEAST => {
                    length = (length / LESS).max(LEAST);
                }
                Err(error) if error.status().is_some() && !Fault::from(error.clone()).is_interruption() => {
                    // It does not tell: all is data.
                    self.holes.learn(offset..size, Vec::new());
                    return Ok(offset);
                }
                other => break other?,
            }
        };
        let known = offset..found.known;
        let holes = between(&known, &found.ranges, size);
        self.holes.learn(known, holes);
        Ok(self.holes.data_from(offset).unwrap_or(offset))
    }

    /// Whether it has been marked as sparse, in this copy or in the one that this one goes on with.
    pub(super) fn is_marked(&self) -> bool {
        let was_marked = self.file.info().file_attributes & FileAttributes::SPARSE_FILE.bits() != 0;
        was_marked || self.keeps_holes.get() == Some(&true)
    }

    /// Has the server keep holes. False where it does not, as on a file system that has none: nobody promises then that
    /// what is not written reads as zeros.
    pub(in crate::tree) async fn keeps_holes(&self) -> Done<bool> {
        let ask = || async {
            match self.file.set_sparse().await.map_err(Fault::from) {
                Ok(()) => Ok(true),
                Err(fault) if fault.is_interruption() => Err(fault),
                Err(_) => Ok(false),
            }
        };
        self.keeps_holes.get_or_try_init(ask).await.copied()
    }
}
