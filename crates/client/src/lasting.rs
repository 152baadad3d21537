//! Files that stay open when the server ends and starts again (persistent handles), and byte ranges of files.
//!
//! [`Tree::open_lasting`] opens one and gives with it what names it; after a new log-on [`Tree::take_up`]
//! goes on with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use smb_wire::create;
use smb_wire::create_context::{DurableFlags, RequestContext, ResponseContext};
use smb_wire::lock::{self, Flags, LockElement};
use smb_wire::{Command, FileId, Guid, List};

use crate::link::Part;
use crate::tree::{create_request, wire_path};
use crate::{Error, File, OpenOptions, Result, Tree};

/// Places for sequence numbers of LOCK that a server has for each open.
const LOCK_PLACES: u32 = 64;

/// What names a file that outlives the server.
#[derive(Debug, Clone)]
pub struct Lasting {
    path: String,
    how: OpenOptions,
    id: FileId,
    create_guid: Guid,
    /// Those made over it: the server remembers their numbers as long as it has the file.
    locks: Arc<AtomicU32>,
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
        let (path, how, id, locks) = (path.to_owned(), *how, file.id(), Arc::clone(&file.locks));
        Ok((file, Lasting { path, how, id, create_guid, locks, timeout_ms }))
    }

    /// Goes on with a file that was opened by a session that is lost.
    ///
    /// # Errors
    /// [`Error::Status`] when the server has it no more.
    // MS-SMB2 3.2.4.4
    pub async fn take_up(&self, lasting: &Lasting) -> Result<File> {
        let Lasting { path, how, id, create_guid, locks, .. } = lasting;
        let (file_id, create_guid, flags) = (*id, *create_guid, DurableFlags::PERSISTENT);
        let asked = RequestContext::DurableHandleReconnectV2 { file_id, create_guid, flags };
        let mut file = self.create_with(path, how, asked).await?.0;
        file.locks = Arc::clone(locks);
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
        let part = Part { command: Command::Create, payload: 0, body: &body };
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

impl File {
    /// Takes `len` bytes from `offset` on for this open alone, or fails at once.
    ///
    /// # Errors
    /// [`Error::Status`] when somebody else has some of them.
    pub async fn lock(&self, offset: u64, len: u64) -> Result<()> {
        self.change_range(offset, len, Flags::EXCLUSIVE_LOCK | Flags::FAIL_IMMEDIATELY).await
    }

    /// Gives a range back just as it was taken.
    ///
    /// # Errors
    /// [`Error::Status`] when it is not held.
    pub async fn unlock(&self, offset: u64, len: u64) -> Result<()> {
        self.change_range(offset, len, Flags::UNLOCK).await
    }

    /// Index and number by which a server knows the next LOCK when it is sent again over another channel, and does it once:
    /// each of the places in turn with the number behind that of its last use. Zeros where that cannot happen.
    // MS-SMB2 3.2.4.19
    fn next_lock(&self) -> (u32, u8) {
        if !self.tree.session.channels_matter() {
            return (0, 0);
        }
        let count = self.locks.fetch_add(1, Ordering::Relaxed);
        (count % LOCK_PLACES + 1, (count / LOCK_PLACES % 16) as u8)
    }

    async fn change_range(&self, offset: u64, length: u64, flags: Flags) -> Result<()> {
        let elements = [LockElement { offset, length, flags }];
        let (file_id, locks) = (self.id(), List::Values(&elements));
        let (lock_sequence_index, lock_sequence_number) = self.next_lock();
        let request = lock::Request { lock_sequence_number, lock_sequence_index, file_id, locks };
        let reply = self.call(Command::Lock, 0, &|out| request.write(out)).await?;
        lock::Response::parse(reply.message())?;
        Ok(())
    }
}
