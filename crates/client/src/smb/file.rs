//! An open file or directory.

use std::ops::{Deref, Range};
use std::sync::Arc;

use smb_wire::create::FileInfo;
use smb_wire::fscc::directory::{self, DirectoryClass};
use smb_wire::query_info::InfoType;
use smb_wire::{
    FileId, Malformed, NtStatus, SmbCommand, Utf16, flush, query_directory, query_info, read, set_info,
    utf16, write,
};

use crate::Error;
use crate::error::Result;
use crate::smb::buffer::Reply;
use crate::smb::link::FrameRequest;
use crate::smb::ranges::Ranges;
use crate::smb::tree::{NETWORK_OPEN_SIZE, TreeInner, network_open};

/// An open file or directory. Any number of its operations can be pending at once.
///
/// Dropping it does not close it on the server. It stays open there until the session ends. Use
/// [`File::close`] to close it.
#[derive(Debug)]
pub struct File {
    pub(crate) tree: Arc<TreeInner>,
    pub(crate) id: FileId,
    info: FileInfo,
    pub(crate) ranges: Arc<Ranges>,
}

/// The bytes of a READ, in the buffer in which they arrived.
#[derive(Debug)]
pub struct ReadPayload {
    pub(crate) reply: Reply,
    pub(crate) range: Range<usize>,
}

impl AsRef<[u8]> for ReadPayload {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Deref for ReadPayload {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.reply.message()[self.range.clone()]
    }
}

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedEntry {
    /// Its name. Invalid UTF-16 is replaced.
    pub name: String,
    /// Its times, sizes and attributes.
    pub entry: directory::ListingEntry,
}

/// The class in which directories are listed, and the most bytes of a listing in one request.
const LIST_CLASS: DirectoryClass = DirectoryClass::IdBothDirectory;
const LIST_CLASS_NUMBER: u8 = smb_wire::fscc::FileInfoClass::ID_BOTH_DIRECTORY.0;
const LIST_STEP: u32 = 64 * 1024;
/// The most replies in a row without an entry, after which the listing fails.
const MOST_BARREN: u32 = 1000;

impl File {
    pub(crate) fn new(tree: Arc<TreeInner>, id: FileId, info: FileInfo) -> File {
        File { tree, id, info, ranges: Arc::default() }
    }

    /// The server's ID of the open.
    #[must_use]
    pub fn id(&self) -> FileId {
        self.id
    }

    /// Its sizes, times and attributes when it was opened.
    #[must_use]
    pub fn info(&self) -> &FileInfo {
        &self.info
    }

    /// Sends one request and waits for its success.
    pub(crate) async fn call(
        &self,
        command: SmbCommand,
        payload: u32,
        body: &(dyn Fn(&mut Vec<u8>) + Sync),
    ) -> Result<Reply> {
        let [reply] = self.tree.call([FrameRequest { command, payload, body }]).await?.success()?;
        Ok(reply)
    }

    /// Reads up to `length` bytes at `offset`. There are fewer at the end of the file, and none after it. A
    /// length above the server's limit is cut to the limit.
    ///
    /// # Errors
    /// [`Error::Status`] when the server refuses.
    pub async fn read(&self, offset: u64, length: u32) -> Result<ReadPayload> {
        let request = read::Request::new(self.id, offset, length.min(self.tree.limits().0));
        let body = |out: &mut Vec<u8>| request.write(out);
        let part = FrameRequest { command: SmbCommand::Read, payload: request.length, body: &body };
        let [reply] = self.tree.call([part]).await?.replies;
        if reply.status() == NtStatus::END_OF_FILE {
            return Ok(ReadPayload { reply, range: 0..0 });
        }
        let reply = reply.success()?;
        let data = read::Response::parse(reply.message())?.data;
        if data.len() > request.length as usize {
            return Err(Malformed::new("READ response", "DataLength").into());
        }
        let range = reply.range_of(data);
        Ok(ReadPayload { reply, range })
    }

    /// Writes `data` at `offset`. Returns the number of bytes written, which is less than all if the server's
    /// limit is lower.
    ///
    /// # Errors
    /// [`Error::Status`] when the server refuses.
    pub async fn write(&self, offset: u64, data: &[u8]) -> Result<u32> {
        let data = &data[..data.len().min(self.tree.limits().1 as usize)];
        let request = write::Request::new(self.id, offset, data);
        let body = |out: &mut Vec<u8>| request.write(out);
        let reply = self.call(SmbCommand::Write, request.payload_len(), &body).await?;
        let count = write::Response::parse(reply.message())?.count;
        if count as usize > data.len() {
            return Err(Malformed::new("WRITE response", "Count").into());
        }
        Ok(count)
    }

    /// Waits until the written data is on the server's stable storage.
    ///
    /// # Errors
    /// [`Error::Status`] when the server refuses.
    pub async fn flush(&self) -> Result<()> {
        let request = flush::Request { reserved1: 0, file_id: self.id };
        let reply = self.call(SmbCommand::Flush, 0, &|out| request.write(out)).await?;
        flush::Response::parse(reply.message())?;
        Ok(())
    }

    /// Queries an information class. The result is the buffer as it arrived.
    ///
    /// # Errors
    /// [`Error::Status`] when the server refuses, or when the buffer is longer than `length`.
    pub async fn query(&self, info_type: InfoType, class: u8, length: u32) -> Result<Vec<u8>> {
        self.query_with(info_type, class, 0, length).await
    }

    /// Does the same as [`File::query`], with AdditionalInformation.
    pub(crate) async fn query_with(
        &self,
        info_type: InfoType,
        class: u8,
        additional_information: u32,
        length: u32,
    ) -> Result<Vec<u8>> {
        let request = query_info::Request {
            info_type,
            file_info_class: class,
            output_buffer_length: length.min(self.tree.limits().2),
            additional_information,
            flags: query_info::QueryInfoFlags::empty(),
            file_id: self.id,
            input_buffer: &[],
        };
        let reply =
            self.call(SmbCommand::QueryInfo, request.payload_len(), &|out| request.write(out)).await?;
        Ok(query_info::Response::parse(reply.message())?.output_buffer.to_vec())
    }

    /// Queries its present sizes, times and attributes.
    ///
    /// # Errors
    /// [`Error::Status`] when the server refuses.
    pub async fn stat(&self) -> Result<FileInfo> {
        let class = smb_wire::fscc::FileInfoClass::NETWORK_OPEN.0;
        network_open(&self.query(InfoType::File, class, NETWORK_OPEN_SIZE).await?)
    }

    /// Sets an information class.
    ///
    /// # Errors
    /// [`Error::Status`] when the server refuses.
    pub async fn set(&self, info_type: InfoType, class: u8, buffer: &[u8]) -> Result<()> {
        self.set_with(info_type, class, 0, buffer).await
    }

    /// Does the same as [`File::set`], with AdditionalInformation.
    pub(crate) async fn set_with(
        &self,
        info_type: InfoType,
        class: u8,
        additional_information: u32,
        buffer: &[u8],
    ) -> Result<()> {
        let request = set_info::Request {
            info_type,
            file_info_class: class,
            additional_information,
            file_id: self.id,
            buffer,
        };
        let reply = self.call(SmbCommand::SetInfo, request.payload_len(), &|out| request.write(out)).await?;
        set_info::Response::parse(reply.message())?;
        Ok(())
    }

    /// Sets the size of the file to `length` bytes.
    ///
    /// # Errors
    /// [`Error::Status`] when the server refuses.
    pub async fn set_length(&self, length: u64) -> Result<()> {
        let class = smb_wire::fscc::FileInfoClass::END_OF_FILE.0;
        self.set(InfoType::File, class, &length.to_le_bytes()).await
    }

    /// Lists all entries of a directory that match `pattern` (`*` for all), in the server's order, without
    /// `.` and `..`.
    ///
    /// # Errors
    /// [`Error::Status`] when the server refuses. [`Error::Protocol`] when the listing goes on without
    /// anything new.
    pub async fn list(&self, pattern: &str) -> Result<Vec<NamedEntry>> {
        let pattern = utf16::encode(pattern);
        let mut entries = Vec::new();
        // The start of the reply before the last one, and the number of empty replies in a row.
        let (mut before, mut barren) = (0, 0);
        let mut flags = query_directory::QueryDirectoryFlags::RESTART_SCANS;
        loop {
            let request = query_directory::Request {
                file_information_class: LIST_CLASS_NUMBER,
                flags,
                file_index: 0,
                file_id: self.id,
                file_name: Utf16::new(&pattern).unwrap_or_default(),
                output_buffer_length: LIST_STEP.min(self.tree.limits().2),
            };
            let body = |out: &mut Vec<u8>| request.write(out);
            let part = FrameRequest {
                command: SmbCommand::QueryDirectory,
                payload: request.payload_len(),
                body: &body,
            };
            let answer = self.tree.call([part]).await?;
            if answer.replayed && flags.is_empty() {
                // The server may have advanced over a part of the listing that never arrived.
                flags = query_directory::QueryDirectoryFlags::RESTART_SCANS;
                entries.clear();
                before = 0;
                continue;
            }
            let reply = match answer.success() {
                Err(Error::Status { status: NtStatus::NO_MORE_FILES | NtStatus::NO_SUCH_FILE, .. }) => {
                    return Ok(entries);
                }
                other => {
                    let [reply] = other?;
                    reply
                }
            };
            let begin = entries.len();
            let listing = query_directory::Response::parse(reply.message())?.output_buffer;
            for found in directory::read(listing, LIST_CLASS) {
                let (entry, name) =
                    found.map_err(|_| Malformed::new("QUERY_DIRECTORY response", "Buffer"))?;
                let name = name.to_string_lossy();
                if name != "." && name != ".." {
                    entries.push(NamedEntry { name, entry });
                }
            }
            // MS-SMB2 3.2.5.15
            // Entries that the user may not see can leave a reply empty that is not the last one.
            barren = if entries.len() > begin { 0 } else { barren + 1 };
            let is_again = before < begin && entries[before..begin] == entries[begin..];
            if is_again || barren > MOST_BARREN {
                return Err(Error::Protocol("a listing that does not go on"));
            }
            before = begin;
            flags = query_directory::QueryDirectoryFlags::empty();
        }
    }

    /// Closes the open.
    ///
    /// # Errors
    /// [`Error::Status`] when the server refuses.
    pub async fn close(self) -> Result<()> {
        self.tree.close(self.id).await
    }
}
