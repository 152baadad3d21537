//! Holes of files of a share: those of a file that is read, and the mark of a file that keeps its holes.

use client::smb::{File, OpenOptions, Tree};
use smb_wire::NtStatus;
use smb_wire::create::Access;
use smb_wire::fscc::FileAttributes;

use super::settings;
use crate::error::{Fault, FileResult};
use crate::tree::holes::{Holes, between};
use crate::tree::target_attributes::TargetAttributes;

/// Samba does not answer at all when it finds more ranges than there is room for. The query is then made this
/// many times smaller, down to a length that cannot have so many ranges (4,096 ranges with a hole of a block
/// after each).
const LESS: u64 = 8;
const LEAST: u64 = 32 * 1024 * 1024;

/// Makes the file `path`, which was marked as sparse before it got that name, as `like` says. Samba removes
/// the mark when it renames a file or sets its attributes. It also keeps with the mark that a file was hidden
/// because its name began with a dot.
pub(super) async fn settle(tree: &Tree, path: &str, like: &TargetAttributes) -> FileResult<()> {
    let like =
        TargetAttributes { attributes: like.attributes.or(Some(FileAttributes::ARCHIVE.bits())), ..*like };
    let access = Access::WRITE_ATTRIBUTES | Access::READ_ATTRIBUTES | Access::SYNCHRONIZE;
    let file = tree.open(path, &OpenOptions { access, ..OpenOptions::attributes() }).await?;
    let settled = match file.settle(settings(&like)).await {
        Ok(()) => file.set_sparse().await,
        Err(error) => Err(error),
    };
    file.close().await?;
    Ok(settled?)
}

/// The first byte at or after `offset` that may not be in a hole.
pub(in crate::tree) async fn data_from(file: &File, holes: &Holes, offset: u64) -> FileResult<u64> {
    let info = file.info();
    let size = info.end_of_file;
    // MS-FSCC 2.6: a server tells of no holes in a file without this attribute.
    if offset >= size || info.file_attributes & FileAttributes::SPARSE_FILE.bits() == 0 {
        return Ok(offset);
    }
    if let Some(data) = holes.data_from(offset) {
        return Ok(data);
    }
    let mut length = size - offset;
    let found = loop {
        match file.allocated(offset..offset + length).await {
            Err(error) if error.status() == Some(NtStatus::BUFFER_TOO_SMALL) && length > LEAST => {
                length = (length / LESS).max(LEAST);
            }
            Err(error) if error.status().is_some() && !Fault::from(error.clone()).is_interruption() => {
                // The server does not tell. All is data.
                holes.learn(offset..size, Vec::new());
                return Ok(offset);
            }
            other => break other?,
        }
    };
    let known = offset..found.known;
    let ranges = between(&known, &found.ranges, size);
    holes.learn(known, ranges);
    Ok(holes.data_from(offset).unwrap_or(offset))
}
