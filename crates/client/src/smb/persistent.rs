//! Persistent handles: files that stay open when the server ends and starts again.
//!
//! [`Tree::open_persistent`] opens one and returns its identity with it. After a new log-on
//! [`Tree::reconnect`] reconnects it.

use std::sync::Arc;

use smb_wire::create_context::{DurableFlags, RequestContext, ResponseContext};
use smb_wire::{FileId, Guid, SmbCommand, create};

use crate::Error;
use crate::error::Result;
use crate::smb::link::FrameRequest;
use crate::smb::ranges::Ranges;
use crate::smb::tree::{create_request, wire_path};
use crate::smb::{File, OpenOptions, Tree};

/// The identity of a persistent handle.
#[derive(Debug, Clone)]
pub struct PersistentHandle {
    path: String,
    how: OpenOptions,
    id: FileId,
    create_guid: Guid,
    /// Its byte ranges. The server keeps them, and the sequence numbers of their LOCKs, as long as it has the
    /// file.
    ranges: Arc<Ranges>,
    /// The time in milliseconds for which the server keeps it without a client.
    pub timeout_ms: u32,
}

impl Tree {
    /// Opens or creates `path` so that it stays open over a restart of the server.
    ///
    /// # Errors
    /// [`Error::NotOffered`] when the server grants no persistent handle there. [`Error::Status`] when it
    /// refuses.
    // MS-SMB2 3.2.4.3.5
    pub async fn open_persistent(&self, path: &str, how: &OpenOptions) -> Result<(File, PersistentHandle)> {
        let create_guid = Guid(auth::crypto::random());
        let flags = DurableFlags::PERSISTENT;
        let asked = RequestContext::DurableHandleRequestV2 { timeout: 0, flags, create_guid };
        let (file, timeout) = self.create_with(path, how, asked).await?;
        let Some(timeout_ms) = timeout else {
            file.close().await?;
            return Err(Error::NotOffered("files that outlive the server"));
        };
        let (path, how, id, ranges) = (path.to_owned(), *how, file.id(), Arc::clone(&file.ranges));
        Ok((file, PersistentHandle { path, how, id, create_guid, ranges, timeout_ms }))
    }

    /// Reconnects a file that a lost session has opened.
    ///
    /// # Errors
    /// [`Error::Status`] when the server does not have it any more.
    // MS-SMB2 3.2.4.4
    pub async fn reconnect(&self, lasting: &PersistentHandle) -> Result<File> {
        let PersistentHandle { path, how, id, create_guid, ranges, .. } = lasting;
        let (file_id, create_guid, flags) = (*id, *create_guid, DurableFlags::PERSISTENT);
        let asked = RequestContext::DurableHandleReconnectV2 { file_id, create_guid, flags };
        let mut file = self.create_with(path, how, asked).await?.0;
        file.ranges = Arc::clone(ranges);
        Ok(file)
    }

    /// Opens the file. Returns it with the timeout of its persistent handle, if it is one.
    async fn create_with(
        &self,
        path: &str,
        how: &OpenOptions,
        asked: RequestContext<'static>,
    ) -> Result<(File, Option<u32>)> {
        let (name, contexts) = (wire_path(path), Some([asked]));
        let body = |out: &mut Vec<u8>| create_request(&name, how, &contexts).write(out);
        let part = FrameRequest { command: SmbCommand::Create, payload: 0, body: &body };
        let [reply] = self.inner.call([part]).await?.success()?;
        let response = create::Response::parse(reply.message())?;
        let mut timeout_ms = None;
        for context in response.contexts.responses() {
            if let ResponseContext::DurableHandleV2 { timeout, flags } = context? {
                timeout_ms = flags.contains(DurableFlags::PERSISTENT).then_some(timeout);
            }
        }
        Ok((File::new(Arc::clone(&self.inner), response.file_id, response.info), timeout_ms))
    }
}
