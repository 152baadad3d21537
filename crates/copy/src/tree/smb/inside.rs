//! Copies inside an SMB server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use client::remote::Attributes;
use client::smb::{CopySource, OpenOptions, Tree};
use smb_wire::fscc::{FileInfoClass, FsInfoClass};
use smb_wire::query_info::InfoType;

use super::{File, Smb};
use crate::error::{Done, Fault};

/// What is a multiple of the clusters of every file system.
const ALIGNED: u64 = 64 * 1024;
/// Room for what a server says of a volume, its label included.
const VOLUME_ROOM: u32 = 1024;

/// A file of the source that is open in the session of the target.
#[derive(Debug)]
pub(crate) struct Inside {
    file: client::smb::File,
    key: CopySource,
    clones: Arc<AtomicBool>,
}

/// The marks of a directory by which it is told from those of other servers: its number, its volume and its times.
#[derive(Debug, PartialEq, Eq)]
struct Identity {
    file: Vec<u8>,
    volume: Vec<u8>,
    times: [u64; 3],
}

async fn identity(tree: &Tree, path: &str) -> Done<Identity> {
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
        let who = |it: &Smb| (it.remote.user.to_lowercase(), it.remote.domain.to_lowercase());
        self.live().is_at_server_of(&source.live()) && who(self) == who(source)
    }

    pub(in crate::tree) async fn has_root_of(&self, source: &Smb) -> Done<bool> {
        let (beside, root) = (self.live().beside(&source.remote.share).await?, source.path(""));
        let tree = source.tree();
        let (here, there) = tokio::try_join!(identity(&beside, &root), identity(&tree, &root))?;
        Ok(here == there)
    }

    pub(in crate::tree) async fn open_inside(&self, source: &Smb, path: &str) -> Done<Inside> {
        let tree = self.live().beside(&source.remote.share).await?;
        let file = tree.open(&source.path(path), &OpenOptions::read()).await?;
        match file.copy_source().await {
            Ok(key) => Ok(Inside { file, key, clones: Arc::clone(&self.clones) }),
            Err(error) => {
                // What counts is why it cannot be copied.
                let _ = file.close().await;
                Err(error.into())
            }
        }
    }
}

impl Inside {
    pub(in crate::tree) async fn copy(&self, writer: &File, at: u64, length: u64) -> Done<()> {
        if self.clone(writer, at, length).await? {
            return Ok(());
        }
        writer.reach.note(at + length).await;
        Ok(writer.file.copy_from(self.key, at, length).await?)
    }

    /// Has the two files share storage. False where they cannot.
    async fn clone(&self, writer: &File, at: u64, length: u64) -> Done<bool> {
        if !self.clones.load(Ordering::Relaxed) {
            return Ok(false);
        }
        // MS-FSCC 2.3.8: the target must reach so far.
        let end = at + length;
        let _turn = writer.reach.extend(end, async || Ok(writer.file.set_length(end).await?)).await?;
        if !self.clones.load(Ordering::Relaxed) {
            return Ok(false);
        }
        match writer.file.share_storage_of(&self.file, at, length).await.map_err(Fault::from) {
            Ok(()) => Ok(true),
            Err(fault) if fault.is_interruption() => Err(fault),
            // Only whole clusters can be shared; the end of a file may be none.
            Err(_) if !length.is_multiple_of(ALIGNED) => Ok(false),
            Err(_) => {
                self.clones.store(false, Ordering::Relaxed);
                Ok(false)
            }
        }
    }

    pub(in crate::tree) fn opened(&self) -> Attributes {
        Attributes::from(self.file.info())
    }

    pub(in crate::tree) async fn facts(&self) -> Done<Attributes> {
        Ok(Attributes::from(&self.file.stat().await?))
    }

    pub(in crate::tree) async fn close(self) -> Done<()> {
        Ok(self.file.close().await?)
    }
}
