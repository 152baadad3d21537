//! A small file where there is none, in one round trip. [`Tree::deliver`] makes it under a name of its own, writes
//! it, gives it its time and then its final name, and closes it; [`Tree::make_whole`] does without the other name, for what
//! nobody looks for yet.
//!
//! A server that is gone in the middle leaves what it has under the first name. One that follows MS-SMB2 3.3.5.2.7.2
//! carries out nothing behind what has failed, so a name is only given to what is whole. Samba goes on: what it has named
//! behind a WRITE that has failed is taken away again at once. So that there is hardly ever such a thing, the server
//! is told in the CREATE how much room is wanted, and refuses that where it has none.

use smb_wire::create_context::RequestContext;
use smb_wire::fscc::FileInfoClass;
use smb_wire::fscc::file::RenameFlags;
use smb_wire::{NtStatus, SmbCommand, write};

use crate::error::Result;
use crate::smb::link::{Part, RELATED};
use crate::smb::tree::{CLOSE_RELATED, create_request, wire_path};
use crate::smb::whole::{is_whole, rename_buffer, set};
use crate::smb::{File, OpenOptions, Settings, Tree};

/// A file that is to be made.
#[derive(Clone, Copy)]
struct Wanted<'a> {
    /// The name that it is made under.
    name: &'a str,
    /// The one that it gets when it is whole, if that is another.
    new_name: Option<&'a str>,
    how: &'a OpenOptions,
    data: &'a [u8],
    with: Settings,
}

/// What came of a file behind its CREATE.
struct Made {
    file: File,
    /// Whether it has its new name.
    is_named: bool,
    is_closed: bool,
    /// Whether all was done.
    done: Result<()>,
}

impl Tree {
    /// Makes the file `path` with `data` in it, by way of `part`, in one round trip: CREATE, WRITE, two SET_INFO and CLOSE.
    /// `data` is at most what one WRITE can carry. Nobody finds a part of it at `path`, whenever the server fails, and
    /// nothing is harmed that is there. `how` must ask for the right to delete.
    ///
    /// It is not repeated when a channel is lost: the file may then be at `path`, whole, or at `part`.
    ///
    /// # Errors
    /// [`Error::Status`] with what the server has against it, and what was made is removed again. It is
    /// [`NtStatus::OBJECT_NAME_COLLISION`] where there is a file `path` by now: `part` may be left then.
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
        self.make_and_see(Wanted { name: part, new_name: Some(path), how, data, with }).await
    }

    /// As [`Tree::deliver`] without a name of its own: CREATE, WRITE, SET_INFO and CLOSE. A server that fails in the
    /// middle leaves a part of it there, so this is for a place where nobody looks yet.
    ///
    /// It is not repeated when a channel is lost: the file may then be there, in whole or in part.
    ///
    /// # Errors
    /// [`Error::Status`](crate::Error::Status) with what the server has against it, and what was made is removed again.
    pub async fn make_whole(&self, path: &str, how: &OpenOptions, data: &[u8], with: Settings) -> Result<()> {
        self.make_and_see(Wanted { name: path, new_name: None, how, data, with }).await
    }

    async fn make_and_see(&self, wanted: Wanted<'_>) -> Result<()> {
        let Made { file, is_named, is_closed, done } = self.make(wanted).await?;
        let Err(error) = done else { return Ok(()) };
        // There is nothing more to be done about one that cannot be closed or removed either; what counts is why.
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

    async fn make(&self, Wanted { name, new_name, how, data, with }: Wanted<'_>) -> Result<Made> {
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
        let create = Part { command: SmbCommand::Create, payload: 0, body: &create_body };
        let write = Part { command: SmbCommand::Write, payload: request.payload_len(), body: &write_body };
        let set = Part { command: SmbCommand::SetInfo, payload: setting.payload_len(), body: &set_body };
        let rename = Part { command: SmbCommand::SetInfo, payload: naming.payload_len(), body: &name_body };
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
        Ok(Made { file, is_named, is_closed, done: is_whole(written, data.len()).and_then(|()| all()) })
    }
}
