//! Copies inside an NFS server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use client::nfs::{self, Directory, OpenOptions};
use client::remote::Attributes;

use super::{File, Nfs, NfsFile, split};
use crate::error::{Done, Fault};

/// A file of the source that is open by the client of the target.
#[derive(Debug)]
pub(crate) struct Inside {
    file: NfsFile,
    clones: Arc<AtomicBool>,
}

impl Nfs {
    // RFC 8881 18.35.3
    pub(in crate::tree) fn is_at_server_of(&self, source: &Nfs) -> bool {
        let (this, source) = (self.client.about(), source.client.about());
        !this.owner.is_empty() && this.owner == source.owner && this.scope == source.scope
    }

    /// The export of `source` as the client of this target sees it.
    async fn export_of(&self, source: &Nfs) -> Done<&Directory> {
        Ok(self.inside.get_or_try_init(|| self.client.directory(&source.share)).await?)
    }

    pub(in crate::tree) async fn has_root_of(&self, source: &Nfs) -> Done<bool> {
        let root = source.path("");
        let (here, there) =
            (self.export_of(source).await?.directory(&root).await?, source.directory(&root).await?);
        let (here, there) = tokio::try_join!(here.known(), there.known())?;
        let who = |it: nfs::Attributes| (it.file_system, it.file_id, it.change);
        Ok(who(here) == who(there))
    }

    pub(in crate::tree) async fn open_inside(&self, source: &Nfs, path: &str) -> Done<Inside> {
        let export = self.export_of(source).await?;
        let whole = source.path(path);
        let (above, name) = split(&whole);
        let file = export.directory(above).await?.open(name, &OpenOptions::read()).await?;
        Ok(Inside { file, clones: Arc::clone(&self.clones) })
    }
}

impl Inside {
    pub(in crate::tree) async fn copy(&self, writer: &File, at: u64, length: u64) -> Done<()> {
        if self.clones.load(Ordering::Relaxed) {
            match writer.file.share_storage_of(&self.file, at, length).await.map_err(Fault::from) {
                Ok(()) => return Ok(()),
                Err(fault) if fault.is_interruption() => return Err(fault),
                Err(_) => self.clones.store(false, Ordering::Relaxed),
            }
        }
        let mut done = 0;
        while done < length {
            let (count, verifier) = writer.file.copy_from(&self.file, at + done, length - done).await?;
            writer.hold_against(verifier)?;
            if count == 0 {
                return Err(Fault::Changed);
            }
            done += count;
        }
        Ok(())
    }

    pub(in crate::tree) async fn facts(&self) -> Done<Attributes> {
        Ok(Attributes::from(&self.file.stat().await?))
    }

    pub(in crate::tree) async fn close(self) -> Done<()> {
        Ok(self.file.close().await?)
    }
}
