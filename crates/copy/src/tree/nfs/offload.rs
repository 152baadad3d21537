//! Copies inside an NFS server.

use std::sync::Arc;

use client::nfs::{self, OpenOptions, StableHow};
use client::remote::{Directory, MountOptions, RemoteFile};

use super::Nfs;
use crate::error::FileResult;
use crate::name::split;
use crate::tree::offload::OffloadSource;

impl Nfs {
    // RFC 8881 18.35.3
    pub(in crate::tree) fn is_at_server_of(&self, source: &Nfs) -> bool {
        let (this, source) = (self.client.about(), source.client.about());
        !this.owner.is_empty() && this.owner == source.owner && this.scope == source.scope
    }

    /// The export of `source` in the session of this target.
    async fn export_of(&self, source: &Nfs) -> FileResult<&Directory> {
        let find = || async {
            let export = self.client.directory(&source.share).await?;
            Ok::<_, client::Error>(Directory::nfs(export, MountOptions::default()))
        };
        Ok(self.source_export.get_or_try_init(find).await?)
    }

    pub(in crate::tree) async fn has_root_of(&self, source: &Nfs) -> FileResult<bool> {
        let root = source.path("");
        let here = self.export_of(source).await?.export_directory(&root).await?;
        let there = source.export.export_directory(&root).await?;
        let (here, there) = tokio::try_join!(here.known(), there.known())?;
        let identity = |it: nfs::Attributes| (it.file_system, it.file_id, it.change);
        Ok(identity(here) == identity(there))
    }

    pub(in crate::tree) async fn open_offload(&self, source: &Nfs, path: &str) -> FileResult<OffloadSource> {
        let export = self.export_of(source).await?;
        let whole = source.path(path);
        let (above, name) = split(&whole);
        let file = export.export_directory(above).await?.open(name, &OpenOptions::read()).await?;
        let (file, clones) = (RemoteFile::Nfs(file, StableHow::Unstable), Arc::clone(&self.clones));
        Ok(OffloadSource { file, key: None, clones })
    }
}
