//! Small files whole, in compounds: one that is read in one round trip, and one that is written under a name of its own
//! and then gets its final name, so that nobody ever finds a part of it in the place of another.
//!
//! A server that follows MS-SMB2 3.3.5.2.7.2 would carry out the whole of the latter in one compound, and stop where
//! something fails. Samba goes on behind a WRITE that has failed, so a name that another file may have is asked for once
//! the data is known to be there. One that nobody has is another matter: [`Tree::deliver`].

use std::sync::Arc;

use smb_wire::create::{self, Access, FileInfo};
use smb_wire::fscc::file::{Basic, RenameFlags, RenameLayout, RenameRequest};
use smb_wire::fscc::{FileAttributes, FileInfoClass, FileTime};
use smb_wire::query_info::InfoType;
use smb_wire::{Malformed, NtStatus, SmbCommand, Utf16, close, query_info, read, set_info, write};

use crate::Error;
use crate::error::Result;
use crate::smb::beside::read_streams;
use crate::smb::link::{Part, RELATED};
use crate::smb::tree::{CLOSE_RELATED, create_request, wire_path};
use crate::smb::{Data, File, OpenOptions, Reply, Tree};

/// What is set with a file; what is zero stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settings {
    /// When its data was last written, as a FILETIME.
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

/// A file that was read whole.
#[derive(Debug)]
pub struct Fetched {
    /// What is in it.
    pub data: Data,
    /// What is known of it after it was read.
    pub info: FileInfo,
    /// Whether it has named streams, if it was asked.
    pub has_streams: bool,
}

/// Whether a query found named streams, and whether it was refused.
fn found_streams(queried: Option<&Reply>) -> Result<(bool, bool)> {
    match queried {
        None => Ok((false, false)),
        // There are more of them than there is room for.
        Some(reply) if reply.status() == NtStatus::BUFFER_OVERFLOW => Ok((true, true)),
        // A server that knows no streams has none.
        Some(reply) if !reply.status().is_success() => Ok((false, true)),
        Some(reply) => {
            let found = query_info::Response::parse(reply.message())?;
            Ok((!read_streams(found.output_buffer)?.is_empty(), false))
        }
    }
}

/// Room for the names of streams when only their being there matters, in bytes.
const STREAMS_ROOM: u32 = 4096;

/// FileRenameInformation.
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
    /// Reads a file of at most `length` bytes, which one READ can carry, in one round trip: CREATE, READ and CLOSE; with
    /// `streams` it is also asked for its named streams.
    ///
    /// # Errors
    /// [`Error::Status`] with what the server has against it.
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
        let create = Part { command: SmbCommand::Create, payload: 0, body: &create_body };
        let read = Part { command: SmbCommand::Read, payload: request.length, body: &read_body };
        let query = Part { command: SmbCommand::QueryInfo, payload: STREAMS_ROOM, body: &query_body };
        let close = Part { command: SmbCommand::Close, payload: 0, body: &close_body };
        let (opened, queried, got, closed) = if streams {
            // The READ stands behind the query: one that finds nothing ends the chain.
            let [opened, queried, got, closed] = self.inner.call([create, query, read, close]).await?.replies;
            (opened, Some(queried), got, closed)
        } else {
            let [opened, got, closed] = self.inner.call([create, read, close]).await?.replies;
            (opened, None, got, closed)
        };
        let opened = opened.success()?;
        let opened = create::Response::parse(opened.message())?;
        if !closed.status().is_success() {
            // What fails takes the CLOSE with it.
            let file = File::new(Arc::clone(&self.inner), opened.file_id, opened.info);
            file.close().await?;
        }
        let (has_streams, refused) = found_streams(queried.as_ref())?;
        if refused && !got.status().is_success() && got.status() != NtStatus::END_OF_FILE {
            // It took the READ with it.
            let plain = Box::pin(self.fetch(path, length, false)).await?;
            return Ok(Fetched { has_streams, ..plain });
        }
        if got.status() == NtStatus::END_OF_FILE {
            let data = Data { reply: got, range: 0..0 };
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
        Ok(Fetched { data: Data { reply: got, range }, info, has_streams })
    }

    /// Makes a file with `data` in it and leaves it open, in one round trip: CREATE, WRITE and SET_INFO. `data` is at
    /// most what one WRITE can carry. It is not repeated when a channel is lost: the file may then be there, in
    /// whole or in part, so its name should be one that nobody looks for.
    ///
    /// # Errors
    /// [`Error::Status`] with what the server has against it. The file is closed then, and may be left.
    pub async fn stage(&self, path: &str, how: &OpenOptions, data: &[u8], with: Settings) -> Result<File> {
        let name = wire_path(path);
        let settings = with.buffer();
        let request = write::Request::new(RELATED, 0, data);
        let setting = set(FileInfoClass::BASIC, RELATED, &settings);
        let create_body = |out: &mut Vec<u8>| create_request(&name, how, &None).write(out);
        let write_body = |out: &mut Vec<u8>| request.write(out);
        let set_body = |out: &mut Vec<u8>| setting.write(out);
        let create = Part { command: SmbCommand::Create, payload: 0, body: &create_body };
        let write = Part { command: SmbCommand::Write, payload: request.payload_len(), body: &write_body };
        let set = Part { command: SmbCommand::SetInfo, payload: setting.payload_len(), body: &set_body };
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
                // What matters is why it was refused.
                let _ = file.close().await;
                Err(error)
            }
        }
    }

    /// The file that a CREATE has opened.
    pub(crate) fn opened(&self, reply: Reply) -> Result<File> {
        let reply = reply.success()?;
        let opened = create::Response::parse(reply.message())?;
        Ok(File::new(Arc::clone(&self.inner), opened.file_id, opened.info))
    }
}

/// Whether a WRITE of `length` bytes, if there was one, was done.
pub(crate) fn is_whole(written: Option<Reply>, length: usize) -> Result<()> {
    let Some(written) = written else { return Ok(()) };
    let count = write::Response::parse(written.success()?.message())?.count;
    if count as usize == length { Ok(()) } else { Err(Error::Protocol("a WRITE was done in part")) }
}

impl Tree {
    /// Sets times and attributes of the file or directory `path`: CREATE, SET_INFO and CLOSE in one round trip.
    ///
    /// # Errors
    /// [`Error::Status`] with what the server has against it.
    pub async fn settle(&self, path: &str, with: Settings) -> Result<()> {
        let name = wire_path(path);
        let how = OpenOptions { access: SETTLING, ..OpenOptions::attributes() };
        let buffer = with.buffer();
        let setting = set(FileInfoClass::BASIC, RELATED, &buffer);
        let create_body = |out: &mut Vec<u8>| create_request(&name, &how, &None).write(out);
        let set_body = |out: &mut Vec<u8>| setting.write(out);
        let create = Part { command: SmbCommand::Create, payload: 0, body: &create_body };
        let set = Part { command: SmbCommand::SetInfo, payload: setting.payload_len(), body: &set_body };
        let [opened, set, closed] = self.inner.call([create, set, CLOSE_RELATED]).await?.replies;
        self.close_behind(opened, &closed).await?;
        set.success().map(drop)
    }

    /// Gives the file or directory `path` the path `new_path`, which nothing may have, and then sets times and attributes:
    /// CREATE, two SET_INFO and CLOSE in one round trip. Answers whether the latter was done too.
    ///
    /// It is not repeated when a channel is lost: it may have the one path or the other then.
    ///
    /// # Errors
    /// [`Error::Status`] with what the server has against it: [`NtStatus::OBJECT_NAME_COLLISION`] where something is at
    /// `new_path`.
    pub async fn rename(&self, path: &str, new_path: &str, with: Settings) -> Result<bool> {
        let name = wire_path(path);
        let how = OpenOptions { access: SETTLING | Access::DELETE, ..OpenOptions::attributes() };
        let (new_name, settings) = (rename_buffer(new_path, RenameFlags::empty()), with.buffer());
        let naming = set(FileInfoClass::RENAME, RELATED, &new_name);
        let setting = set(FileInfoClass::BASIC, RELATED, &settings);
        let create_body = |out: &mut Vec<u8>| create_request(&name, &how, &None).write(out);
        let name_body = |out: &mut Vec<u8>| naming.write(out);
        let create = Part { command: SmbCommand::Create, payload: 0, body: &create_body };
        let rename = Part { command: SmbCommand::SetInfo, payload: naming.payload_len(), body: &name_body };
        let set_body = |out: &mut Vec<u8>| setting.write(out);
        let set = Part { command: SmbCommand::SetInfo, payload: setting.payload_len(), body: &set_body };
        let parts = [create, rename, set, CLOSE_RELATED];
        let [opened, renamed, set, closed] = self.inner.call_once(parts).await?.replies;
        self.close_behind(opened, &closed).await?;
        renamed.success()?;
        Ok(set.status().is_success())
    }

    /// Closes what was opened where what stands between the two was refused and has taken the CLOSE with it.
    pub(crate) async fn close_behind(&self, opened: Reply, closed: &Reply) -> Result<()> {
        let opened = opened.success()?;
        if !closed.status().is_success() {
            let opened = create::Response::parse(opened.message())?;
            self.inner.close(opened.file_id).await?;
        }
        Ok(())
    }
}

/// What setting times and attributes needs.
const SETTLING: Access = Access::WRITE_ATTRIBUTES.union(Access::READ_ATTRIBUTES).union(Access::SYNCHRONIZE);

impl File {
    /// Sets times and attributes.
    ///
    /// # Errors
    /// [`Error::Status`] when the server refuses.
    pub async fn settle(&self, with: Settings) -> Result<()> {
        self.set(InfoType::File, FileInfoClass::BASIC.0, &with.buffer()).await
    }

    /// Gives the file the path `path`, in the place of another file there may be, and closes it: SET_INFO and CLOSE
    /// in one round trip. It must be open with the right to delete it.
    ///
    /// # Errors
    /// [`Error::Status`] when the server refuses. It is closed then, and has its old name.
    pub async fn close_as(self, path: &str) -> Result<()> {
        let buffer = rename_buffer(path, RenameFlags::REPLACE_IF_EXISTS);
        self.set_and_close(FileInfoClass::RENAME, &buffer).await
    }

    /// Deletes it, whatever its name is by now, and closes it: SET_INFO and CLOSE in one round trip. It must be open with
    /// the right to delete it.
    ///
    /// # Errors
    /// [`Error::Status`] when the server refuses. It is closed then, and stays.
    pub async fn discard(self) -> Result<()> {
        // MS-FSCC 2.4.11
        self.set_and_close(FileInfoClass::DISPOSITION, &[1]).await
    }

    /// SET_INFO and CLOSE in one round trip; it is closed also where the first is refused.
    async fn set_and_close(self, class: FileInfoClass, buffer: &[u8]) -> Result<()> {
        let setting = set(class, self.id, buffer);
        let set_body = |out: &mut Vec<u8>| setting.write(out);
        let set = Part { command: SmbCommand::SetInfo, payload: setting.payload_len(), body: &set_body };
        let [done, closed] = self.tree.call([set, CLOSE_RELATED]).await?.replies;
        if !closed.status().is_success() {
            // A refusal of the first takes the second with it.
            let _ = self.tree.close(self.id).await;
        }
        done.success().map(drop)
    }
}
