//! Copies inside an SMB server.

use std::sync::Arc;

use client::remote::RemoteFile;
use client::smb::{OpenOptions, Tree};
use smb_wire::fscc::{FileInfoClass, FsInfoClass};
use smb_wire::query_info::InfoType;

use super::Smb;
use crate::error::{Fault, FileResult};
use crate::tree::File;
use crate::tree::offload::OffloadSource;

/// A multiple of the cluster size of every file system.
const ALIGNED: u64 = 64 * 1024;
/// The room for the server's answer about a volume, including its label.
const VOLUME_ROOM: u32 = 1024;

/// The properties that tell a directory from those of other servers: its number, its volume and its times.
#[derive(Debug, PartialEq, Eq)]
struct Identity {
    file: Vec<u8>,
    volume: Vec<u8>,
    times: [u64; 3],
}

async fn identity(tree: &Tree, path: &str) -> FileResult<Identity> {
    let directory = tree.open(path, &OpenOptions::attributes()).await?;
    let (file, volume) = tokio::join!(
        directory.query(InfoType::File, FileInfoClass::INTERNAL.0, 8),
        directory.query(InfoType::Filesystem, FsInfoClass::VOLUME.0, VOLUME_ROOM),
    );
    let info = directory.info();
    let times = [info.creation_time, info.last_write_time, info.change_time];
    let identity = file.and_then(|file| Ok(Identity { file, volume: volume?, times }));
    directory.close().await?;
    Ok(identity?)
}

impl Smb {
    pub(in crate::tree) fn is_at_server_of(&self, source: &Smb) -> bool {
        let user = |it: &Smb| (it.remote.user.to_lowercase(), it.remote.domain.to_lowercase());
        self.live().is_at_server_of(&source.live()) && user(self) == user(source)
    }

    pub(in crate::tree) async fn has_root_of(&self, source: &Smb) -> FileResult<bool> {
        let (beside, root) = (self.live().source_share(&source.remote.share).await?, source.path(""));
        let tree = source.tree();
        let (here, there) = tokio::try_join!(identity(&beside, &root), identity(&tree, &root))?;
        Ok(here == there)
    }

    pub(in crate::tree) async fn open_offload(&self, source: &Smb, path: &str) -> FileResult<OffloadSource> {
        let tree = self.live().source_share(&source.remote.share).await?;
        let file = tree.open(&source.path(path), &OpenOptions::read()).await?;
        match file.copy_source().await {
            Ok(key) => {
                let (file, clones) = (RemoteFile::Smb(file), Arc::clone(&self.clones));
                Ok(OffloadSource { file, key: Some(key), clones })
            }
            Err(error) => {
                // The caller gets the error of the copy, not this one.
                let _ = file.close().await;
                Err(error.into())
            }
        }
    }
}

/// Makes the two files share storage. Returns false if they cannot.
pub(in crate::tree) async fn clone(
    offload: &OffloadSource,
    source: &client::smb::File,
    writer: &File,
    target: &client::smb::File,
    at: u64,
    length: u64,
) -> FileResult<bool> {
    if !offload.can_clone() {
        return Ok(false);
    }
    // MS-FSCC 2.3.8: the target must be that long.
    let end = at + length;
    let _turn = writer.length.extend(end, async || Ok(target.set_length(end).await?)).await?;
    if !offload.can_clone() {
        return Ok(false);
    }
    match target.share_storage_of(source, at, length).await.map_err(Fault::from) {
        Ok(()) => Ok(true),
        Err(fault) if fault.is_interruption() => Err(fault),
        // Only whole clusters can be shared. The end of a file may be none.
        Err(_) if !length.is_multiple_of(ALIGNED) => Ok(false),
        Err(_) => {
            offload.cannot_clone();
            Ok(false)
        }
    }
}
