//! A connected share and the operations on names in it.

use std::sync::Arc;

use smb_wire::create::{self, Access, CreateOptions, Disposition, FileInfo, ShareAccess};
use smb_wire::create_context::{Contexts, RequestContext};
use smb_wire::fscc::FileInfoClass;
use smb_wire::ioctl::body::{ValidateNegotiateInfoRequest, ValidateNegotiateInfoResponse};
use smb_wire::ioctl::interfaces::{self, NetworkInterfaceInfo};
use smb_wire::ioctl::{self, CtlCode};
use smb_wire::negotiate::Dialect;
use smb_wire::tree_connect::{self, ShareFlags, ShareType};
use smb_wire::{
    FileId, NtStatus, SmbCommand, Utf16, WireList, close, query_info, tree_disconnect, utf16, write,
};

use crate::Error;
use crate::error::Result;
use crate::retry::answered;
use crate::smb::link::{Envelope, FrameRequest, RELATED};
use crate::smb::protection::Protection;
use crate::smb::session::SessionInner;
use crate::smb::session::call::FrameReplies;
use crate::smb::{File, Reply, negotiate};

/// The options of a CREATE. The constructors cover the usual cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenOptions {
    /// The requested access.
    pub access: Access,
    /// The FILE_ATTRIBUTE bits of a new file.
    pub attributes: u32,
    /// The access that others may have meanwhile.
    pub share: ShareAccess,
    /// The action if it exists or does not.
    pub disposition: Disposition,
    /// Further options.
    pub options: CreateOptions,
}

impl OpenOptions {
    /// Opens a file to read and write. `disposition` says whether it is created.
    #[must_use]
    pub fn file(disposition: Disposition) -> OpenOptions {
        OpenOptions {
            access: Access::FILE_GENERIC_READ | Access::FILE_GENERIC_WRITE,
            attributes: 0,
            share: ShareAccess::READ | ShareAccess::WRITE | ShareAccess::DELETE,
            disposition,
            options: CreateOptions::NON_DIRECTORY_FILE,
        }
    }

    /// Opens an existing file to read.
    #[must_use]
    pub fn read() -> OpenOptions {
        OpenOptions { access: Access::FILE_GENERIC_READ, ..OpenOptions::file(Disposition::Open) }
    }

    /// Opens an existing file or directory to read its attributes.
    #[must_use]
    pub fn attributes() -> OpenOptions {
        let access = Access::READ_ATTRIBUTES | Access::SYNCHRONIZE;
        OpenOptions { access, options: CreateOptions::empty(), ..OpenOptions::file(Disposition::Open) }
    }

    /// Opens a directory to list it. `disposition` says whether it is created.
    #[must_use]
    pub fn directory(disposition: Disposition) -> OpenOptions {
        OpenOptions {
            access: Access::FILE_GENERIC_READ,
            options: CreateOptions::DIRECTORY_FILE,
            ..OpenOptions::file(disposition)
        }
    }

    /// Opens a file or an empty directory to delete it on close.
    #[must_use]
    pub fn delete() -> OpenOptions {
        OpenOptions {
            access: Access::DELETE | Access::READ_ATTRIBUTES,
            options: CreateOptions::DELETE_ON_CLOSE,
            ..OpenOptions::file(Disposition::Open)
        }
    }
}

/// A tree connect: a share in a session. Copies share it.
#[derive(Debug, Clone)]
pub struct Tree {
    pub(crate) inner: Arc<TreeInner>,
}

#[derive(Debug)]
pub(crate) struct TreeInner {
    pub(crate) session: Arc<SessionInner>,
    id: u32,
    /// The protection that the share requires.
    protection: Protection,
    response: tree_connect::Response,
}

/// The name of the step in errors while a share is connected.
const TREE_CONNECT: &str = "TREE_CONNECT";

/// The UNC path of the share `share`.
fn share_path(session: &SessionInner, share: &str) -> Vec<u8> {
    utf16::encode(&format!("\\\\{}\\{share}", session.host))
}

fn connect_request(path: &[u8]) -> tree_connect::Request<'_> {
    tree_connect::Request::new(Utf16::new(path).unwrap_or_default())
}

/// The least protection of a TREE_CONNECT. In 3.1.1 its signature proves to the server that nobody changed
/// the negotiation.
fn at_least(session: &SessionInner) -> Protection {
    // MS-SMB2 3.2.4.1.1
    let is_311 = session.negotiated.dialect == Dialect::Smb311;
    if is_311 { Protection::Signed } else { Protection::None }
}

impl TreeInner {
    /// Sends one frame and waits for all its replies.
    pub(crate) async fn call<const N: usize>(&self, parts: [FrameRequest<'_>; N]) -> Result<FrameReplies<N>> {
        self.session.call(self.id, self.protection, parts).await
    }

    /// Sends one frame that must not be sent twice, because nothing in it lets the server recognise a
    /// repetition.
    pub(crate) async fn call_once<const N: usize>(
        &self,
        parts: [FrameRequest<'_>; N],
    ) -> Result<FrameReplies<N>> {
        self.session.call_again(self.id, self.protection, parts, false).await
    }

    /// Closes an open. If a repetition finds it closed, the first copy has closed it.
    pub(crate) async fn close(&self, file_id: FileId) -> Result<()> {
        let request = close::Request { flags: close::CloseFlags::empty(), file_id };
        let body = |out: &mut Vec<u8>| request.write(out);
        let answer =
            self.call([FrameRequest { command: SmbCommand::Close, payload: 0, body: &body }]).await?;
        if let [reply] = &answer.replies
            && reply.status().is_success()
        {
            close::Response::parse(reply.message())?;
        }
        answer.success_or(NtStatus::FILE_CLOSED)
    }

    /// The largest READ, WRITE and other buffer, in bytes.
    pub(crate) fn limits(&self) -> (u32, u32, u32) {
        let negotiated = &self.session.negotiated;
        (negotiated.max_read_size, negotiated.max_write_size, negotiated.max_transact_size)
    }
}

impl Tree {
    /// Connects a share, with [`Options::connect_timeout`](crate::smb::Options::connect_timeout) for each
    /// step.
    pub(crate) async fn connect(session: Arc<SessionInner>, share: &str) -> Result<Tree> {
        let time = session.options.connect_timeout;
        let path = share_path(&session, share);
        let body = |out: &mut Vec<u8>| connect_request(&path).write(out);
        let part = FrameRequest { command: SmbCommand::TreeConnect, payload: 0, body: &body };
        let connecting = session.call(0, at_least(&session), [part]);
        let [reply] = answered(TREE_CONNECT, time, connecting).await?.success()?;
        Tree::connected(session, &reply).await
    }

    pub(crate) async fn connect_and_look(
        session: Arc<SessionInner>,
        share: &str,
        path: &str,
    ) -> Result<(Tree, Result<FileInfo>)> {
        if session.negotiated.dialect != Dialect::Smb311 {
            // The negotiation must be validated first.
            let tree = Tree::connect(session, share).await?;
            let found = tree.stat(path).await;
            return Ok((tree, found));
        }
        let time = session.options.connect_timeout;
        let (share, name, how) = (share_path(&session, share), wire_path(path), OpenOptions::attributes());
        let connect_body = |out: &mut Vec<u8>| connect_request(&share).write(out);
        let create_body = |out: &mut Vec<u8>| create_request(&name, &how, &None).write(out);
        let parts = [
            FrameRequest { command: SmbCommand::TreeConnect, payload: 0, body: &connect_body },
            FrameRequest { command: SmbCommand::Create, payload: 0, body: &create_body },
            CLOSE_RELATED,
        ];
        let connecting = session.call(0, at_least(&session), parts);
        let [connected, opened, closed] = answered(TREE_CONNECT, time, connecting).await?.replies;
        let was_sealed = session.protect(at_least(&session)) == Protection::Sealed;
        let tree = Tree::connected(session, &connected.success()?).await?;
        let found = match opened.status() {
            NtStatus::OBJECT_NAME_NOT_FOUND | NtStatus::OBJECT_PATH_NOT_FOUND => {
                Some(Err(Error::Status { command: SmbCommand::Create, status: opened.status() }))
            }
            status if status.is_success() => {
                let opened = create::Response::parse(opened.message())?;
                if !closed.status().is_success() {
                    tree.inner.close(opened.file_id).await?;
                }
                Some(Ok(opened.info))
            }
            // The status may not be about the file at all.
            _ => None,
        };
        // A result from a share that demands encryption counts only if it was sealed.
        let found = match found.filter(|_| was_sealed || !tree.demands_encryption()) {
            Some(found) => found,
            None => tree.stat(path).await,
        };
        Ok((tree, found))
    }

    /// The tree of a successful TREE_CONNECT.
    async fn connected(session: Arc<SessionInner>, reply: &Reply) -> Result<Tree> {
        let time = session.options.connect_timeout;
        let response = tree_connect::Response::parse(reply.message())?;
        // MS-SMB2 3.2.5.5
        let must_encrypt = response.share_flags.contains(ShareFlags::ENCRYPT_DATA);
        if must_encrypt && !session.can_seal() {
            return Err(Error::NotOffered("encryption, which the share demands"));
        }
        let protection = if must_encrypt { Protection::Sealed } else { Protection::None };
        let id = reply.header().tree_id();
        let tree = Tree { inner: Arc::new(TreeInner { session, id, protection, response }) };
        answered("FSCTL_VALIDATE_NEGOTIATE_INFO", time, tree.validate_negotiation()).await?;
        Ok(tree)
    }

    /// Before 3.1.1, asks the server in a signed message for the negotiated values, because nothing protected
    /// the negotiation.
    async fn validate_negotiation(&self) -> Result<()> {
        // MS-SMB2 3.2.5.5
        let session = &self.inner.session;
        let channel = session.channels.first()?;
        let (negotiated, options) = (&channel.connection.negotiated, &channel.connection.options);
        let offers_smb3 = options.dialects.iter().any(|dialect| dialect.is_smb3());
        if negotiated.dialect == Dialect::Smb311 || !offers_smb3 {
            return Ok(());
        }
        let mut input = Vec::new();
        ValidateNegotiateInfoRequest {
            capabilities: negotiate::capabilities(options),
            guid: options.client_guid,
            security_mode: negotiate::security_mode(options),
            dialects: WireList::Values(&options.dialects),
        }
        .write(&mut input);
        let file_id = FileId { persistent: u64::MAX, volatile: u64::MAX };
        let request = ioctl::Request::fsctl(CtlCode::ValidateNegotiateInfo, file_id, &input, 24);
        let body = |out: &mut Vec<u8>| request.write(out);
        let part = FrameRequest { command: SmbCommand::Ioctl, payload: request.payload_len(), body: &body };
        let envelope = Envelope {
            session_id: session.id,
            tree_id: self.inner.id,
            protection: session.protect(Protection::Signed),
            keys: Some(channel.keys.as_ref()),
            ..Envelope::PLAIN
        };
        // The request is about this connection, and so it uses this connection whatever becomes of it.
        let [pending] = channel.connection.link.send(envelope, [part], None).await?;
        // MS-SMB2 3.2.5.14.12
        // The reply is signed, whatever its status. So the refusal of a server that does not know the code is
        // genuine. Some servers of 3.0 do not know it.
        let reply = pending.await?;
        let unknown = [NtStatus::NOT_SUPPORTED, NtStatus::INVALID_DEVICE_REQUEST, NtStatus::FILE_CLOSED];
        if unknown.contains(&reply.status()) {
            return Ok(());
        }
        let reply = reply.success()?;
        let response = ioctl::Response::parse(reply.message())?;
        let said = ValidateNegotiateInfoResponse::parse(response.output)?;
        let same = said.capabilities == negotiated.capabilities
            && said.guid == negotiated.server_guid
            && said.security_mode == negotiated.security_mode
            && said.dialect == negotiated.dialect;
        if same { Ok(()) } else { Err(Error::Protocol("the negotiation was changed in transit")) }
    }

    /// Queries the server's network interfaces, to which further connections can be opened.
    ///
    /// # Errors
    /// [`Error::Status`] when the server refuses.
    pub async fn interfaces(&self) -> Result<Vec<NetworkInterfaceInfo>> {
        // MS-SMB2 3.2.4.20.10
        const ROOM: u32 = 64 * 1024;
        let file_id = FileId { persistent: u64::MAX, volatile: u64::MAX };
        let request = ioctl::Request::fsctl(CtlCode::QueryNetworkInterfaceInfo, file_id, &[], ROOM);
        let body = |out: &mut Vec<u8>| request.write(out);
        let part = FrameRequest { command: SmbCommand::Ioctl, payload: request.payload_len(), body: &body };
        let [reply] = self.inner.call([part]).await?.success()?;
        let list = interfaces::parse(ioctl::Response::parse(reply.message())?.output);
        Ok(list.collect::<std::result::Result<_, _>>()?)
    }

    /// The type of the share.
    #[must_use]
    pub fn share_type(&self) -> ShareType {
        self.inner.response.share_type
    }

    /// Whether the share requires sealed messages.
    #[must_use]
    pub fn demands_encryption(&self) -> bool {
        self.inner.response.share_flags.contains(ShareFlags::ENCRYPT_DATA)
    }

    /// The most access that the share's permissions allow.
    #[must_use]
    pub fn maximal_access(&self) -> Access {
        self.inner.response.maximal_access
    }

    /// Opens or creates `path`. Its parts are divided by `/` or `\`. An empty path is the root of the share.
    ///
    /// # Errors
    /// [`Error::Status`] when the server refuses.
    pub async fn open(&self, path: &str, how: &OpenOptions) -> Result<File> {
        let (name, contexts) = (wire_path(path), self.inner.session.create_contexts());
        let body = |out: &mut Vec<u8>| create_request(&name, how, &contexts).write(out);
        let part = FrameRequest { command: SmbCommand::Create, payload: 0, body: &body };
        let [reply] = self.inner.call([part]).await?.success()?;
        let response = create::Response::parse(reply.message())?;
        Ok(File::new(Arc::clone(&self.inner), response.file_id, response.info))
    }

    /// Queries the sizes, times and attributes of `path`: CREATE, QUERY_INFO and CLOSE in one round trip.
    ///
    /// # Errors
    /// [`Error::Status`] when the server refuses.
    pub async fn stat(&self, path: &str) -> Result<FileInfo> {
        let name = wire_path(path);
        let how = OpenOptions::attributes();
        let query = query_info::Request {
            info_type: query_info::InfoType::File,
            file_info_class: FileInfoClass::NETWORK_OPEN.0,
            output_buffer_length: NETWORK_OPEN_SIZE,
            additional_information: 0,
            flags: query_info::QueryInfoFlags::empty(),
            file_id: RELATED,
            input_buffer: &[],
        };
        let create_body = |out: &mut Vec<u8>| create_request(&name, &how, &None).write(out);
        let query_body = |out: &mut Vec<u8>| query.write(out);
        let parts = [
            FrameRequest { command: SmbCommand::Create, payload: 0, body: &create_body },
            FrameRequest { command: SmbCommand::QueryInfo, payload: query.payload_len(), body: &query_body },
            CLOSE_RELATED,
        ];
        let [_, queried, _] = self.inner.call(parts).await?.success()?;
        let buffer = query_info::Response::parse(queried.message())?.output_buffer;
        network_open(buffer)
    }

    /// Creates a file with the content `data`: CREATE, WRITE and CLOSE in one round trip. In a session of
    /// several channels it takes three, so that each request can be repeated when a channel is lost. One
    /// WRITE must be able to carry `data`.
    ///
    /// # Errors
    /// [`Error::Status`] when the server refuses.
    pub async fn put(&self, path: &str, how: &OpenOptions, data: &[u8]) -> Result<()> {
        let in_part = || Error::Protocol("a WRITE was done in part");
        if self.inner.session.channels.are_several() {
            let file = self.open(path, how).await?;
            let written = file.write(0, data).await;
            file.close().await?;
            return if written? as usize == data.len() { Ok(()) } else { Err(in_part()) };
        }
        let name = wire_path(path);
        let request = write::Request::new(RELATED, 0, data);
        let create_body = |out: &mut Vec<u8>| create_request(&name, how, &None).write(out);
        let write_body = |out: &mut Vec<u8>| request.write(out);
        let parts = [
            FrameRequest { command: SmbCommand::Create, payload: 0, body: &create_body },
            FrameRequest { command: SmbCommand::Write, payload: request.payload_len(), body: &write_body },
            CLOSE_RELATED,
        ];
        let [_, written, _] = self.inner.call(parts).await?.success()?;
        let count = write::Response::parse(written.message())?.count as usize;
        if count == data.len() { Ok(()) } else { Err(in_part()) }
    }

    /// Opens `path` and closes it again in one round trip, or in two where [`Tree::put`] takes three. With
    /// [`OpenOptions::delete`] this deletes it.
    ///
    /// # Errors
    /// [`Error::Status`] when the server refuses.
    pub async fn touch(&self, path: &str, how: &OpenOptions) -> Result<()> {
        if self.must_be_alone(how) {
            return self.open(path, how).await?.close().await;
        }
        let name = wire_path(path);
        let create_body = |out: &mut Vec<u8>| create_request(&name, how, &None).write(out);
        let create = FrameRequest { command: SmbCommand::Create, payload: 0, body: &create_body };
        self.inner.call([create, CLOSE_RELATED]).await?.success()?;
        Ok(())
    }

    /// Whether a CREATE that may create, empty or delete a file must go without the requests that follow it.
    /// When it is repeated, the server must recognise it, or it may carry it out twice: after the other
    /// requests, or as a late request of the lost channel long after them. The server recognises it only
    /// until the open has been used.
    fn must_be_alone(&self, how: &OpenOptions) -> bool {
        // MS-SMB2 3.3.1.10
        let changes =
            how.disposition != Disposition::Open || how.options.contains(CreateOptions::DELETE_ON_CLOSE);
        changes && self.inner.session.channels.are_several()
    }

    /// Disconnects the share.
    ///
    /// # Errors
    /// When the server did not confirm it.
    pub async fn disconnect(self) -> Result<()> {
        let body = |out: &mut Vec<u8>| tree_disconnect::Request.write(out);
        let part = FrameRequest { command: SmbCommand::TreeDisconnect, payload: 0, body: &body };
        self.inner.call([part]).await?.success_or(NtStatus::NETWORK_NAME_DELETED)
    }
}

/// Closes the open of the previous request.
pub(crate) const CLOSE_RELATED: FrameRequest<'static> = FrameRequest {
    command: SmbCommand::Close,
    payload: 0,
    body: &|out| close::Request { flags: close::CloseFlags::empty(), file_id: RELATED }.write(out),
};

/// The size of FileNetworkOpenInformation (MS-FSCC 2.4.34), in bytes.
pub(crate) const NETWORK_OPEN_SIZE: u32 = 56;

/// Parses FileNetworkOpenInformation.
pub(crate) fn network_open(buffer: &[u8]) -> Result<FileInfo> {
    let wrong = |_| smb_wire::Malformed::new("FileNetworkOpenInformation", "length");
    let mut cursor = wire::Cursor::new(buffer);
    let mut next = || cursor.u64_le().map_err(wrong);
    let (creation_time, last_access_time, last_write_time, change_time) =
        (next()?, next()?, next()?, next()?);
    let (allocation_size, end_of_file) = (next()?, next()?);
    let file_attributes = cursor.u32_le().map_err(wrong)?;
    Ok(FileInfo {
        creation_time,
        last_access_time,
        last_write_time,
        change_time,
        allocation_size,
        end_of_file,
        file_attributes,
    })
}

/// A path in the form of CREATE: UTF-16, divided by backslashes, without a leading one.
pub(crate) fn wire_path(path: &str) -> Vec<u8> {
    let path = path.trim_start_matches(['/', '\\']);
    let mut out = Vec::with_capacity(path.len() * 2);
    let units = path.encode_utf16().map(|unit| if unit == u16::from(b'/') { u16::from(b'\\') } else { unit });
    out.extend(units.flat_map(u16::to_le_bytes));
    out
}

pub(crate) fn create_request<'a>(
    name: &'a [u8],
    how: &OpenOptions,
    contexts: &'a Option<[RequestContext<'a>; 1]>,
) -> create::Request<'a> {
    create::Request {
        requested_oplock_level: create::OplockLevel::None,
        impersonation_level: create::ImpersonationLevel::Impersonation,
        desired_access: how.access,
        file_attributes: how.attributes,
        share_access: how.share,
        create_disposition: how.disposition,
        create_options: how.options,
        name: Utf16::new(name).unwrap_or_default(),
        contexts: contexts.as_ref().map_or(Contexts::EMPTY, |it| Contexts::Requests(it)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_divided_by_backslashes_and_begin_with_a_name() {
        assert_eq!(wire_path("/a/b\\c"), utf16::encode("a\\b\\c"));
        assert!(wire_path("/").is_empty());
    }

    #[test]
    fn network_open_information_must_be_whole() {
        let mut buffer: Vec<u8> = (1..=6u64).flat_map(u64::to_le_bytes).collect();
        buffer.extend([0x20, 0, 0, 0, 0, 0, 0, 0]);
        let info = network_open(&buffer).unwrap();
        assert_eq!((info.creation_time, info.end_of_file, info.file_attributes), (1, 6, 0x20));
        assert!(network_open(&buffer[..50]).is_err());
    }
}
