//! Files that stay open when the server ends and starts again (persistent handles).
//!
//! [`Tree::open_lasting`] opens one and gives with it what names it; after a new log-on [`Tree::take_up`]
//! goes on with it.

use std::sync::Arc;

use smb_wire::create_context::{DurableFlags, RequestContext, ResponseContext};
use smb_wire::{FileId, Guid, SmbCommand, create};

use crate::Error;
use crate::error::Result;
use crate::smb::link::Part;
use crate::smb::ranges::Ranges;
use crate::smb::tree::{create_request, wire_path};
use crate::smb::{File, OpenOptions, Tree};

/// What names a file that outlives the server.
#[derive(Debug, Clone)]
pub struct Lasting {
    path: String,
    how: OpenOptions,
    id: FileId,
    create_guid: Guid,
    /// Its byte ranges: the server keeps them, and the numbers of their LOCKs, as long as it has the file.
    ranges: Arc<Ranges>,
    /// For how long the server keeps it while nobody is there, in milliseconds.
    pub timeout_ms: u32,
}

impl Tree {
    /// Opens or makes `path` so that it stays open over the server's end.
    ///
    /// # Errors
    /// [`Error::NotOffered`] when the server keeps no files there; [`Error::Status`].
    // MS-SMB2 3.2.4.3.5
    pub async fn open_lasting(&self, path: &str, how: &OpenOptions) -> Result<(File, Lasting)> {
        let create_guid = Guid(auth::crypto::random());
        let flags = DurableFlags::PERSISTENT;
        let asked = RequestContext::DurableHandleRequestV2 { timeout: 0, flags, create_guid };
        let (file, timeout) = self.create_with(path, how, asked).await?;
        let Some(timeout_ms) = timeout else {
            file.close().await?;
            return Err(Error::NotOffered("files that outlive the server"));
        };
        let (path, how, id, ranges) = (path.to_owned(), *how, file.id(), Arc::clone(&file.ranges));
        Ok((file, Lasting { path, how, id, create_guid, ranges, timeout_ms }))
    }

    /// Goes on with a file that was opened by a session that is lost.
    ///
    /// # Errors
    /// [`Error::Status`] when the server has it no more.
    // MS-SMB2 3.2.4.4
    pub async fn take_up(&self, lasting: &Lasting) -> Result<File> {
        let Lasting { path, how, id, create_guid, ranges, .. } = lasting;
        let (file_id, create_guid, flags) = (*id, *create_guid, DurableFlags::PERSISTENT);
        let asked = RequestContext::DurableHandleReconnectV2 { file_id, create_guid, flags };
        let mut file = self.create_with(path, how, asked).await?.0;
        file.ranges = Arc::clone(ranges);
        Ok(file)
    }

    /// The file, and for how long it is kept if it outlives the server.
    async fn create_with(
        &self,
        path: &str,
        how: &OpenOptions,
        asked: RequestContext<'static>,
    ) -> Result<(File, Option<u32>)> {
        let (name, contexts) = (wire_path(path), Some([asked]));
        let body = |out: &mut Vec<u8>| create_request(&name, how, &contexts).write(out);
        let part = Part { command: SmbCommand::Create, payload: 0, body: &body };
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
