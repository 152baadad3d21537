//! Creates a new small file in one round trip. [`Tree::deliver`] creates it under a temporary name, writes
//! it, sets its time, renames it to its final name and closes it. [`Tree::make_whole`] omits the temporary
//! name, for a place where nobody looks yet.
//!
//! A server that fails in the middle leaves the file under the first name. A server that follows MS-SMB2
//! 3.3.5.2.7.2 carries out nothing after a failed operation, so only a complete file gets its final name.
//! Samba goes on after a failed operation. A file that it renamed after a failed WRITE is deleted at once. To
//! make that rare, the CREATE tells the server the needed space, and the server refuses it if there is no
//! space.

use smb_wire::create_context::RequestContext;
use smb_wire::fscc::FileInfoClass;
use smb_wire::fscc::file::RenameFlags;
use smb_wire::{NtStatus, SmbCommand, write};

use crate::error::Result;
use crate::smb::link::{FrameRequest, RELATED};
use crate::smb::small_file::{is_whole, rename_buffer, set};
use crate::smb::tree::{CLOSE_RELATED, create_request, wire_path};
use crate::smb::{File, OpenOptions, Settings, Tree};

/// A file to create.
#[derive(Clone, Copy)]
struct NewFileSpec<'a> {
    /// The name under which it is created.
    name: &'a str,
    /// Its final name, if that differs.
    new_name: Option<&'a str>,
    how: &'a OpenOptions,
    data: &'a [u8],
    with: Settings,
}

/// The outcome after the CREATE.
struct DeliveryOutcome {
    file: File,
    /// Whether it has its final name.
    is_named: bool,
    is_closed: bool,
    /// The result of the rest.
    done: Result<()>,
}

impl Tree {
    /// Creates the file `path` with the content `data`, under the name `part` first, in one round trip:
    /// CREATE, WRITE, two SET_INFO and CLOSE. One WRITE must be able to carry `data`. Nobody finds an
    /// incomplete file at `path`, whenever the server fails, and no existing file is harmed. `how` must ask
    /// for the right to delete.
    ///
    /// The request is not repeated when a channel is lost. The file may then be complete at `path`, or at
    /// `part`.
    ///
    /// # Errors
    /// [`Error::Status`] when the server refuses. The new file is removed again. The status is
    /// [`NtStatus::OBJECT_NAME_COLLISION`] if a file `path` exists by now. The file may be left at `part`
    /// then.
    ///
    /// [`Error::Status`]: crate::Error::Status
    pub async fn deliver(
        &self,
        part: &str,
        path: &str,
        how: &OpenOptions,
        data: &[u8],
        with: Settings,
    ) -> Result<()> {
        self.make_and_see(NewFileSpec { name: part, new_name: Some(path), how, data, with }).await
    }

    /// Does the same without a temporary name: CREATE, WRITE, SET_INFO and CLOSE. A server that fails in the
    /// middle leaves an incomplete file, so this is for a place where nobody looks yet.
    ///
    /// The request is not repeated when a channel is lost. The file may then exist, complete or not.
    ///
    /// # Errors
    /// [`Error::Status`](crate::Error::Status) when the server refuses. The new file is removed again.
    pub async fn make_whole(&self, path: &str, how: &OpenOptions, data: &[u8], with: Settings) -> Result<()> {
        self.make_and_see(NewFileSpec { name: path, new_name: None, how, data, with }).await
    }

    async fn make_and_see(&self, wanted: NewFileSpec<'_>) -> Result<()> {
        let DeliveryOutcome { file, is_named, is_closed, done } = self.make(wanted).await?;
        let Err(error) = done else { return Ok(()) };
        // A file that can neither be closed nor removed is left. The caller gets the first error.
        if !is_named && error.status() == Some(NtStatus::OBJECT_NAME_COLLISION) {
            if !is_closed {
                let _ = file.close().await;
            }
            return Err(error);
        }
        if is_closed || file.discard().await.is_err() {
            let name = wanted.new_name.filter(|_| is_named).unwrap_or(wanted.name);
            let _ = self.touch(name, &OpenOptions::delete()).await;
        }
        Err(error)
    }

    async fn make(
        &self,
        NewFileSpec { name, new_name, how, data, with }: NewFileSpec<'_>,
    ) -> Result<DeliveryOutcome> {
        let (name, settings) = (wire_path(name), with.buffer());
        let new_name = new_name.map(|path| rename_buffer(path, RenameFlags::empty()));
        // MS-SMB2 2.2.13.2.2
        let room = (!data.is_empty()).then_some([RequestContext::AllocationSize(data.len() as u64)]);
        let request = write::Request::new(RELATED, 0, data);
        let setting = set(FileInfoClass::BASIC, RELATED, &settings);
        let naming = set(FileInfoClass::RENAME, RELATED, new_name.as_deref().unwrap_or_default());
        let create_body = |out: &mut Vec<u8>| create_request(&name, how, &room).write(out);
        let write_body = |out: &mut Vec<u8>| request.write(out);
        let set_body = |out: &mut Vec<u8>| setting.write(out);
        let name_body = |out: &mut Vec<u8>| naming.write(out);
        let create = FrameRequest { command: SmbCommand::Create, payload: 0, body: &create_body };
        let write =
            FrameRequest { command: SmbCommand::Write, payload: request.payload_len(), body: &write_body };
        let set =
            FrameRequest { command: SmbCommand::SetInfo, payload: setting.payload_len(), body: &set_body };
        let rename =
            FrameRequest { command: SmbCommand::SetInfo, payload: naming.payload_len(), body: &name_body };
        let (opened, written, set, renamed, closed) = match (data.is_empty(), new_name.is_some()) {
            (false, true) => {
                let parts = [create, write, set, rename, CLOSE_RELATED];
                let [opened, written, set, renamed, closed] = self.inner.call_once(parts).await?.replies;
                (opened, Some(written), set, Some(renamed), closed)
            }
            (false, false) => {
                let parts = [create, write, set, CLOSE_RELATED];
                let [opened, written, set, closed] = self.inner.call_once(parts).await?.replies;
                (opened, Some(written), set, None, closed)
            }
            (true, true) => {
                let parts = [create, set, rename, CLOSE_RELATED];
                let [opened, set, renamed, closed] = self.inner.call_once(parts).await?.replies;
                (opened, None, set, Some(renamed), closed)
            }
            (true, false) => {
                let [opened, set, closed] = self.inner.call_once([create, set, CLOSE_RELATED]).await?.replies;
                (opened, None, set, None, closed)
            }
        };
        let file = self.opened(opened)?;
        let is_named = renamed.as_ref().is_some_and(|reply| reply.status().is_success());
        let is_closed = closed.status().is_success();
        let rest = [Some(set), renamed, Some(closed)];
        let all = || rest.into_iter().flatten().try_for_each(|reply| reply.success().map(drop));
        Ok(DeliveryOutcome {
            file,
            is_named,
            is_closed,
            done: is_whole(written, data.len()).and_then(|()| all()),
        })
    }
}
