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
use crate::smb::link::Part;
use crate::smb::ranges::Ranges;
use crate::smb::tree::{NETWORK_OPEN_SIZE, TreeInner, network_open};

/// A file or directory that is open. All operations can be under way at once, in any number.
///
/// Dropping it does not close it on the server, where it stays open until the session ends; use
/// [`File::close`].
#[derive(Debug)]
pub struct File {
    pub(crate) tree: Arc<TreeInner>,
    pub(crate) id: FileId,
    info: FileInfo,
    pub(crate) ranges: Arc<Ranges>,
}

/// The bytes that a READ brought, in the buffer in which they came.
#[derive(Debug)]
pub struct Data {
    pub(crate) reply: Reply,
    pub(crate) range: Range<usize>,
}

impl AsRef<[u8]> for Data {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Deref for Data {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.reply.message()[self.range.clone()]
    }
}

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// Its name; what is no character of UTF-16 is replaced.
    pub name: String,
    /// Its times, sizes and attributes.
    pub entry: directory::ListingEntry,
}

/// The class in which directories are listed, and how much of a listing is asked for at once.
const LIST_CLASS: DirectoryClass = DirectoryClass::IdBothDirectory;
const LIST_CLASS_NUMBER: u8 = smb_wire::fscc::FileInfoClass::ID_BOTH_DIRECTORY.0;
const LIST_STEP: u32 = 64 * 1024;
/// How many replies in a row may be without an entry before it is no listing any more.
const MOST_BARREN: u32 = 1000;

impl File {
    pub(crate) fn new(tree: Arc<TreeInner>, id: FileId, info: FileInfo) -> File {
        File { tree, id, info, ranges: Arc::default() }
    }

    /// The number by which the server knows the open.
    #[must_use]
    pub fn id(&self) -> FileId {
        self.id
    }

    /// Sizes, times and attributes when it was opened.
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
        let [reply] = self.tree.call([Part { command, payload, body }]).await?.success()?;
        Ok(reply)
    }

    /// Reads up to `length` bytes at `offset`: fewer at the end of the file, and none behind it. A length
    /// above what the server allows is cut to that.
    ///
    /// # Errors
    /// [`Error::Status`] when the server refuses.
    pub async fn read(&self, offset: u64, length: u32) -> Result<Data> {
        let request = read::Request::new(self.id, offset, length.min(self.tree.limits().0));
        let body = |out: &mut Vec<u8>| request.write(out);
        let part = Part { command: SmbCommand::Read, payload: request.length, body: &body };
        let [reply] = self.tree.call([part]).await?.replies;
        if reply.status() == NtStatus::END_OF_FILE {
            return Ok(Data { reply, range: 0..0 });
        }
        let reply = reply.success()?;
        let data = read::Response::parse(reply.message())?.data;
        if data.len() > request.length as usize {
            return Err(Malformed::new("READ response", "DataLength").into());
        }
        let range = reply.range_of(data);
        Ok(Data { reply, range })
    }

    /// Writes `data` at `offset`; answers how many bytes of it were written, which is less than all when the
    /// server allows less at once.
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

    /// Waits until what was written is on the server's store.
    ///
    /// # Errors
    /// [`Error::Status`] when the server refuses.
    pub async fn flush(&self) -> Result<()> {
        let request = flush::Request { reserved1: 0, file_id: self.id };
        let reply = self.call(SmbCommand::Flush, 0, &|out| request.write(out)).await?;
        flush::Response::parse(reply.message())?;
        Ok(())
    }

    /// Asks for an information class; the answer is the buffer as it came.
    ///
    /// # Errors
    /// [`Error::Status`] when the server refuses, or when the answer is longer than `length`.
    pub async fn query(&self, info_type: InfoType, class: u8, length: u32) -> Result<Vec<u8>> {
        self.query_with(info_type, class, 0, length).await
    }

    /// As [`File::query`], with AdditionalInformation.
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

    /// Sizes, times and attributes now.
    ///
    /// # Errors
    /// [`Error::Status`] when the server refuses.
    pub async fn stat(&self) -> Result<FileInfo> {
        let class = smb_wire::fscc::FileInfoClass::NETWORK_OPEN.0;
        network_open(&self.query(InfoType::File, class, NETWORK_OPEN_SIZE).await?)
    }

    /// Changes an information class.
    ///
    /// # Errors
    /// [`Error::Status`] when the server refuses.
    pub async fn set(&self, info_type: InfoType, class: u8, buffer: &[u8]) -> Result<()> {
        self.set_with(info_type, class, 0, buffer).await
    }

    /// As [`File::set`], with AdditionalInformation.
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

    /// Cuts or extends the file to `length` bytes.
    ///
    /// # Errors
    /// [`Error::Status`] when the server refuses.
    pub async fn set_length(&self, length: u64) -> Result<()> {
        let class = smb_wire::fscc::FileInfoClass::END_OF_FILE.0;
        self.set(InfoType::File, class, &length.to_le_bytes()).await
    }

    /// All entries of a directory that match `pattern` (`*` for all), in the server's order, without `.` and
    /// `..`.
    ///
    /// # Errors
    /// [`Error::Status`] when the server refuses; [`Error::Protocol`] when it goes on and on without anything new.
    pub async fn list(&self, pattern: &str) -> Result<Vec<DirectoryEntry>> {
        let pattern = utf16::encode(pattern);
        let mut entries = Vec::new();
        // Where the reply before the last one begins, and how many in a row brought nothing.
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
            let part =
                Part { command: SmbCommand::QueryDirectory, payload: request.payload_len(), body: &body };
            let answer = self.tree.call([part]).await?;
            if answer.replayed && flags.is_empty() {
                // The server may have gone on with a part of the listing that never came.
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
                    entries.push(DirectoryEntry { name, entry });
                }
            }
            // MS-SMB2 3.2.5.15
            // What the user may not see can leave a reply empty without being the end.
            barren = if entries.len() > begin { 0 } else { barren + 1 };
            let is_again = before < begin && entries[before..begin] == entries[begin..];
            if is_again || barren > MOST_BARREN {
                return Err(Error::Protocol("a listing that does not go on"));
            }
            before = begin;
            flags = query_directory::QueryDirectoryFlags::empty();
        }
    }

    /// Closes it.
    ///
    /// # Errors
    /// [`Error::Status`] when the server refuses.
    pub async fn close(self) -> Result<()> {
        self.tree.close(self.id).await
    }
}
