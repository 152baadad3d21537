//! Small files in compounds. One is read in one round trip. One is written under a temporary name and then
//! renamed to its final name, so that nobody ever finds an incomplete file in the place of another.
//!
//! A server that follows MS-SMB2 3.3.5.2.7.2 would carry out the whole write in one compound and stop at a
//! failure. Samba goes on after a failed WRITE. So a rename to a name that another file may have is only
//! requested when the data is known to be written. For a name that no file has, see [`Tree::deliver`].

use std::sync::Arc;

use smb_wire::create::{self, Access, FileInfo};
use smb_wire::fscc::file::{Basic, RenameFlags, RenameLayout, RenameRequest};
use smb_wire::fscc::{FileAttributes, FileInfoClass, FileTime};
use smb_wire::query_info::InfoType;
use smb_wire::{Malformed, NtStatus, SmbCommand, Utf16, close, query_info, read, set_info, write};

use crate::Error;
use crate::error::Result;
use crate::smb::link::{FrameRequest, RELATED};
use crate::smb::sidecar::read_streams;
use crate::smb::tree::{CLOSE_RELATED, create_request, wire_path};
use crate::smb::{File, OpenOptions, ReadPayload, Reply, Tree};

/// The times and attributes to set. Zero leaves a value as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settings {
    /// The time of the last write, as a FILETIME.
    pub last_write_time: i64,
    /// FILE_ATTRIBUTE bits.
    pub attributes: u32,
}

impl Settings {
    /// As FileBasicInformation.
    pub(crate) fn buffer(self) -> Vec<u8> {
        let basic = Basic {
            last_write_time: FileTime(self.last_write_time),
            file_attributes: FileAttributes::from_bits_retain(self.attributes),
            ..Basic::default()
        };
        let mut buffer = Vec::with_capacity(40);
        basic.write(&mut buffer);
        buffer
    }
}

/// The content of a small file.
#[derive(Debug)]
pub struct Fetched {
    /// The data of the file.
    pub data: ReadPayload,
    /// Its attributes after it was read.
    pub info: FileInfo,
    /// Whether it has named streams, if that was queried.
    pub has_streams: bool,
}

/// Whether a query found named streams, and whether it was refused.
fn found_streams(queried: Option<&Reply>) -> Result<(bool, bool)> {
    match queried {
        None => Ok((false, false)),
        // There are more streams than there is room for.
        Some(reply) if reply.status() == NtStatus::BUFFER_OVERFLOW => Ok((true, true)),
        // A server that does not know streams has none.
        Some(reply) if !reply.status().is_success() => Ok((false, true)),
        Some(reply) => {
            let found = query_info::Response::parse(reply.message())?;
            Ok((!read_streams(found.output_buffer)?.is_empty(), false))
        }
    }
}

/// The room for the names of streams, in bytes, when only their existence matters.
const STREAMS_ROOM: u32 = 4096;

/// Encodes FileRenameInformation.
pub(crate) fn rename_buffer(path: &str, flags: RenameFlags) -> Vec<u8> {
    let name = wire_path(path);
    let name = Utf16::new(&name).unwrap_or_default();
    let request = RenameRequest { flags, root_directory: 0, name };
    let mut buffer = Vec::with_capacity(24 + name.as_bytes().len());
    request.write(RenameLayout::Type2, &mut buffer);
    buffer
}

pub(crate) fn set(class: FileInfoClass, file_id: smb_wire::FileId, buffer: &[u8]) -> set_info::Request<'_> {
    set_info::Request::of_file(class, file_id, buffer)
}

impl Tree {
    /// Reads a file of at most `length` bytes, which one READ can carry, in one round trip: CREATE, READ and
    /// CLOSE. With `streams` it also queries the named streams.
    ///
    /// # Errors
    /// [`Error::Status`] when the server refuses.
    pub async fn fetch(&self, path: &str, length: u32, streams: bool) -> Result<Fetched> {
        let name = wire_path(path);
        let how = OpenOptions::read();
        let request = read::Request::new(RELATED, 0, length.min(self.inner.limits().0));
        let query = query_info::Request {
            info_type: InfoType::File,
            file_info_class: FileInfoClass::STREAM.0,
            output_buffer_length: STREAMS_ROOM,
            additional_information: 0,
            flags: query_info::QueryInfoFlags::empty(),
            file_id: RELATED,
            input_buffer: &[],
        };
        let closing = close::Request { flags: close::CloseFlags::POSTQUERY_ATTRIB, file_id: RELATED };
        let create_body = |out: &mut Vec<u8>| create_request(&name, &how, &None).write(out);
        let read_body = |out: &mut Vec<u8>| request.write(out);
        let query_body = |out: &mut Vec<u8>| query.write(out);
        let close_body = |out: &mut Vec<u8>| closing.write(out);
        let create = FrameRequest { command: SmbCommand::Create, payload: 0, body: &create_body };
        let read = FrameRequest { command: SmbCommand::Read, payload: request.length, body: &read_body };
        let query = FrameRequest { command: SmbCommand::QueryInfo, payload: STREAMS_ROOM, body: &query_body };
        let close = FrameRequest { command: SmbCommand::Close, payload: 0, body: &close_body };
        let (opened, queried, got, closed) = if streams {
            // The READ follows the query, because a READ that finds nothing ends the chain.
            let [opened, queried, got, closed] = self.inner.call([create, query, read, close]).await?.replies;
            (opened, Some(queried), got, closed)
        } else {
            let [opened, got, closed] = self.inner.call([create, read, close]).await?.replies;
            (opened, None, got, closed)
        };
        let opened = opened.success()?;
        let opened = create::Response::parse(opened.message())?;
        if !closed.status().is_success() {
            // A failed operation makes the CLOSE fail too.
            let file = File::new(Arc::clone(&self.inner), opened.file_id, opened.info);
            file.close().await?;
        }
        let (has_streams, refused) = found_streams(queried.as_ref())?;
        if refused && !got.status().is_success() && got.status() != NtStatus::END_OF_FILE {
            // The refused query made the READ fail too.
            let plain = Box::pin(self.fetch(path, length, false)).await?;
            return Ok(Fetched { has_streams, ..plain });
        }
        if got.status() == NtStatus::END_OF_FILE {
            let data = ReadPayload { reply: got, range: 0..0 };
            return Ok(Fetched { data, info: opened.info, has_streams });
        }
        let got = got.success()?;
        let closed = closed.success()?;
        let info = close::Response::parse(closed.message())?.info.unwrap_or(opened.info);
        let data = read::Response::parse(got.message())?.data;
        if data.len() > request.length as usize {
            return Err(Malformed::new("READ response", "DataLength").into());
        }
        let range = got.range_of(data);
        Ok(Fetched { data: ReadPayload { reply: got, range }, info, has_streams })
    }

    /// Creates a file with the content `data` and leaves it open, in one round trip: CREATE, WRITE and
    /// SET_INFO. One WRITE must be able to carry `data`. The request is not repeated when a channel is lost.
    /// The file may then exist, complete or not, so its name should be one that nobody looks for.
    ///
    /// # Errors
    /// [`Error::Status`] when the server refuses. The file is closed then, and may be left.
    pub async fn stage(&self, path: &str, how: &OpenOptions, data: &[u8], with: Settings) -> Result<File> {
        let name = wire_path(path);
        let settings = with.buffer();
        let request = write::Request::new(RELATED, 0, data);
        let setting = set(FileInfoClass::BASIC, RELATED, &settings);
        let create_body = |out: &mut Vec<u8>| create_request(&name, how, &None).write(out);
        let write_body = |out: &mut Vec<u8>| request.write(out);
        let set_body = |out: &mut Vec<u8>| setting.write(out);
        let create = FrameRequest { command: SmbCommand::Create, payload: 0, body: &create_body };
        let write =
            FrameRequest { command: SmbCommand::Write, payload: request.payload_len(), body: &write_body };
        let set =
            FrameRequest { command: SmbCommand::SetInfo, payload: setting.payload_len(), body: &set_body };
        let (opened, written, set) = if data.is_empty() {
            let [opened, set] = self.inner.call_once([create, set]).await?.replies;
            (opened, None, set)
        } else {
            let [opened, written, set] = self.inner.call_once([create, write, set]).await?.replies;
            (opened, Some(written), set)
        };
        let file = self.opened(opened)?;
        let done = is_whole(written, data.len()).and_then(|()| set.success().map(drop));
        match done {
            Ok(()) => Ok(file),
            Err(error) => {
                // The caller gets the first error.
                let _ = file.close().await;
                Err(error)
            }
        }
    }

    /// The open of a CREATE reply.
    pub(crate) fn opened(&self, reply: Reply) -> Result<File> {
        let reply = reply.success()?;
        let opened = create::Response::parse(reply.message())?;
        Ok(File::new(Arc::clone(&self.inner), opened.file_id, opened.info))
    }
}

/// Whether a WRITE of `length` bytes, if there was one, was complete.
pub(crate) fn is_whole(written: Option<Reply>, length: usize) -> Result<()> {
    let Some(written) = written else { return Ok(()) };
    let count = write::Response::parse(written.success()?.message())?.count;
    if count as usize == length { Ok(()) } else { Err(Error::Protocol("a WRITE was done in part")) }
}

impl Tree {
    /// Sets times and attributes of the file or directory `path`: CREATE, SET_INFO and CLOSE in one round
    /// trip.
    ///
    /// # Errors
    /// [`Error::Status`] when the server refuses.
    pub async fn settle(&self, path: &str, with: Settings) -> Result<()> {
        let name = wire_path(path);
        let how = OpenOptions { access: SETTLING, ..OpenOptions::attributes() };
        let buffer = with.buffer();
        let setting = set(FileInfoClass::BASIC, RELATED, &buffer);
        let create_body = |out: &mut Vec<u8>| create_request(&name, &how, &None).write(out);
        let set_body = |out: &mut Vec<u8>| setting.write(out);
        let create = FrameRequest { command: SmbCommand::Create, payload: 0, body: &create_body };
        let set =
            FrameRequest { command: SmbCommand::SetInfo, payload: setting.payload_len(), body: &set_body };
        let [opened, set, closed] = self.inner.call([create, set, CLOSE_RELATED]).await?.replies;
        self.close_behind(opened, &closed).await?;
        set.success().map(drop)
    }

    /// Renames the file or directory `path` to `new_path`, which must not exist, and then sets times and
    /// attributes: CREATE, two SET_INFO and CLOSE in one round trip. Returns whether the times and attributes
    /// were set.
    ///
    /// The request is not repeated when a channel is lost. It may have either path then.
    ///
    /// # Errors
    /// [`Error::Status`] when the server refuses: [`NtStatus::OBJECT_NAME_COLLISION`] if `new_path` exists.
    pub async fn rename(&self, path: &str, new_path: &str, with: Settings) -> Result<bool> {
        let name = wire_path(path);
        let how = OpenOptions { access: SETTLING | Access::DELETE, ..OpenOptions::attributes() };
        let (new_name, settings) = (rename_buffer(new_path, RenameFlags::empty()), with.buffer());
        let naming = set(FileInfoClass::RENAME, RELATED, &new_name);
        let setting = set(FileInfoClass::BASIC, RELATED, &settings);
        let create_body = |out: &mut Vec<u8>| create_request(&name, &how, &None).write(out);
        let name_body = |out: &mut Vec<u8>| naming.write(out);
        let create = FrameRequest { command: SmbCommand::Create, payload: 0, body: &create_body };
        let rename =
            FrameRequest { command: SmbCommand::SetInfo, payload: naming.payload_len(), body: &name_body };
        let set_body = |out: &mut Vec<u8>| setting.write(out);
        let set =
            FrameRequest { command: SmbCommand::SetInfo, payload: setting.payload_len(), body: &set_body };
        let parts = [create, rename, set, CLOSE_RELATED];
        let [opened, renamed, set, closed] = self.inner.call_once(parts).await?.replies;
        self.close_behind(opened, &closed).await?;
        renamed.success()?;
        Ok(set.status().is_success())
    }

    /// Closes the open if a refused request in between made the CLOSE fail.
    pub(crate) async fn close_behind(&self, opened: Reply, closed: &Reply) -> Result<()> {
        let opened = opened.success()?;
        if !closed.status().is_success() {
            let opened = create::Response::parse(opened.message())?;
            self.inner.close(opened.file_id).await?;
        }
        Ok(())
    }
}

/// The access needed to set times and attributes.
const SETTLING: Access = Access::WRITE_ATTRIBUTES.union(Access::READ_ATTRIBUTES).union(Access::SYNCHRONIZE);

impl File {
    /// Sets times and attributes.
    ///
    /// # Errors
    /// [`Error::Status`] when the server refuses.
    pub async fn settle(&self, with: Settings) -> Result<()> {
        self.set(InfoType::File, FileInfoClass::BASIC.0, &with.buffer()).await
    }

    /// Renames the file to `path`, replacing another file, and closes it: SET_INFO and CLOSE in one round
    /// trip. It must be open with the right to delete.
    ///
    /// # Errors
    /// [`Error::Status`] when the server refuses. The file is closed then, and has its old name.
    pub async fn close_as(self, path: &str) -> Result<()> {
        let buffer = rename_buffer(path, RenameFlags::REPLACE_IF_EXISTS);
        self.set_and_close(FileInfoClass::RENAME, &buffer).await
    }

    /// Deletes the file, whatever its name is by now, and closes it: SET_INFO and CLOSE in one round trip. It
    /// must be open with the right to delete.
    ///
    /// # Errors
    /// [`Error::Status`] when the server refuses. The file is closed then, and stays.
    pub async fn discard(self) -> Result<()> {
        // MS-FSCC 2.4.11
        self.set_and_close(FileInfoClass::DISPOSITION, &[1]).await
    }

    /// Sends SET_INFO and CLOSE in one round trip. The file is closed even if the first is refused.
    async fn set_and_close(self, class: FileInfoClass, buffer: &[u8]) -> Result<()> {
        let setting = set(class, self.id, buffer);
        let set_body = |out: &mut Vec<u8>| setting.write(out);
        let set =
            FrameRequest { command: SmbCommand::SetInfo, payload: setting.payload_len(), body: &set_body };
        let [done, closed] = self.tree.call([set, CLOSE_RELATED]).await?.replies;
        if !closed.status().is_success() {
            // A refusal of the first request makes the second fail too.
            let _ = self.tree.close(self.id).await;
        }
        done.success().map(drop)
    }
}
