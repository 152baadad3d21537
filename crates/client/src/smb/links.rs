//! Symbolic links of a share, which are reparse points (MS-FSCC 2.1.2), and hard links.
//!
//! Each operation acts on the link itself, never on its target.

use smb_wire::create::{self, Access, CreateOptions, FileInfo};
use smb_wire::fscc::FileInfoClass;
use smb_wire::fscc::file::RenameFlags;
use smb_wire::ioctl::{self, CtlCode};
use smb_wire::query_info::InfoType;
use smb_wire::{NtStatus, SmbCommand};

use crate::error::Result;
use crate::smb::link::{FrameRequest, RELATED};
use crate::smb::small_file::rename_buffer;
use crate::smb::tree::{CLOSE_RELATED, create_request, wire_path};
use crate::smb::{File, OpenOptions, Tree};

/// The room for a reparse point, in bytes (MS-FSCC 2.1.2.2).
const ROOM: u32 = 16 * 1024;

impl OpenOptions {
    /// The same options for a link itself.
    #[must_use]
    pub fn of_link(self) -> OpenOptions {
        OpenOptions { options: self.options | CreateOptions::OPEN_REPARSE_POINT, ..self }
    }
}

impl Tree {
    /// Reads the attributes and the buffer of the reparse point `path`: CREATE, FSCTL_GET_REPARSE_POINT and
    /// CLOSE in one round trip. Returns none if it is not a reparse point.
    ///
    /// # Errors
    /// [`Error::Status`](crate::Error::Status) when the server refuses.
    pub async fn reparse_point(&self, path: &str) -> Result<Option<(FileInfo, Vec<u8>)>> {
        let (name, how) = (wire_path(path), OpenOptions::attributes().of_link());
        let request = ioctl::Request::fsctl(CtlCode::GetReparsePoint, RELATED, &[], ROOM);
        let create_body = |out: &mut Vec<u8>| create_request(&name, &how, &None).write(out);
        let get_body = |out: &mut Vec<u8>| request.write(out);
        let parts = [
            FrameRequest { command: SmbCommand::Create, payload: 0, body: &create_body },
            FrameRequest { command: SmbCommand::Ioctl, payload: request.payload_len(), body: &get_body },
            CLOSE_RELATED,
        ];
        let [opened, got, closed] = self.inner.call(parts).await?.replies;
        let info = match opened.status().is_success() {
            true => Some(create::Response::parse(opened.message())?.info),
            false => None,
        };
        self.close_behind(opened, &closed).await?;
        if got.status() == NtStatus::NOT_A_REPARSE_POINT {
            return Ok(None);
        }
        let got = got.success()?;
        let buffer = ioctl::Response::parse(got.message())?.output.to_vec();
        Ok(info.map(|info| (info, buffer)))
    }

    /// Gives the file `path` a further name. `replaces` says whether it may replace a file of that name.
    ///
    /// # Errors
    /// [`Error::Status`](crate::Error::Status) when the server refuses, for example because its files have
    /// one name each.
    pub async fn link(&self, path: &str, new_path: &str, replaces: bool) -> Result<()> {
        let access = Access::WRITE_ATTRIBUTES | Access::READ_ATTRIBUTES | Access::SYNCHRONIZE;
        let file = self.open(path, &OpenOptions { access, ..OpenOptions::attributes() }).await?;
        let flags = if replaces { RenameFlags::REPLACE_IF_EXISTS } else { RenameFlags::empty() };
        // MS-FSCC 2.4.27: the layout is that of a rename.
        let buffer = rename_buffer(new_path, flags);
        let linked = file.set(InfoType::File, FileInfoClass::LINK.0, &buffer).await;
        let closed = file.close().await;
        linked.and(closed)
    }
}

impl File {
    /// Makes it a reparse point. It must be empty, and open with the right to write attributes. Close it
    /// afterwards, because the server may know something else by its name.
    ///
    /// # Errors
    /// [`Error::Status`](crate::Error::Status) when the server refuses.
    pub async fn set_reparse_point(&self, buffer: &[u8]) -> Result<()> {
        self.control(CtlCode::SetReparsePoint, buffer, 0).await?.success().map(drop)
    }
}
