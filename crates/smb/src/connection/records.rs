//! Records of sampled requests: the values that a record has beside the counts. They are collected only for
//! a request that is sampled. The request itself is read at the start, since a CLOSE leaves nothing to read
//! later. The result of a CREATE is read from its response.

use share::counts::{CompletedTransaction, RequestDescription, Sampled, path_text, range_text};
use smb_wire::close;
use smb_wire::create::{self, CreateAction};
use smb_wire::fscc::FileInfoClass;
use smb_wire::negotiate::Dialect;
use smb_wire::query_info::{self, InfoType};
use smb_wire::{
    FileId, Header, NtStatus, SmbCommand, change_notify, flush, header, ioctl, lock, oplock_break,
    query_directory, read, set_info, tree_connect, write,
};

use super::Connection;
use crate::exchange::Request;
use crate::exchange::transaction::Sample;

/// The values from the request itself.
#[derive(Debug, Default)]
struct RequestSummary {
    file_id: Option<FileId>,
    /// The path in the request.
    name: Option<String>,
    minor: Option<String>,
    detail: Option<String>,
}

impl Connection {
    /// Samples a new request, and collects its values if it is chosen.
    #[inline]
    pub(crate) fn sample(&mut self, request: &mut Request<'_>) {
        if !request.resumed
            && let Some(sampled) = self.desk.sample(1)
        {
            request.transaction.sample = Some(self.sample_of(sampled, request));
        }
    }

    #[cold]
    fn sample_of(&self, sampled: Sampled, request: &Request<'_>) -> Box<Sample> {
        let (header, message, inherited) = (request.header, request.message, request.related.file_id);
        let mut sample = Sample::unseen(sampled);
        let is_311 = self.dialect() == Some(Dialect::Smb311);
        let summary = summarize(header.command(), message, is_311, sample.with_paths).unwrap_or_default();
        (sample.minor, sample.detail) = (summary.minor, summary.detail);
        sample.path = summary.name;
        let id = summary.file_id.and_then(|id| if id.is_related() { inherited } else { Some(id) });
        if let Some(id) = id {
            let goes = self.add_object(&mut sample, id);
            if header.command() == SmbCommand::Close {
                let kind = if sample.is_directory { "Directory" } else { "File" };
                sample.minor = Some(format!("{kind}Close{}", if goes { "AndDelete" } else { "" }));
            }
        }
        sample
    }

    /// Adds the result of a CREATE from its response.
    #[cold]
    pub(crate) fn sample_create(&self, sample: &mut Sample, answer: &[u8]) {
        let Ok(response) = create::Response::parse(answer) else { return };
        self.add_object(sample, response.file_id);
        let kind = if sample.is_directory { "Directory" } else { "File" };
        let did = match response.create_action {
            CreateAction::Superseded => "Superseded",
            CreateAction::Opened => "Opened",
            CreateAction::Created => "Created",
            CreateAction::Overwritten => "Overwritten",
            CreateAction::Unknown(_) => return,
        };
        sample.minor = Some(format!("{kind}{did}"));
    }

    /// Adds the object of an Open. Returns whether the object is deleted when its last Open is closed.
    fn add_object(&self, sample: &mut Sample, id: FileId) -> bool {
        sample.file_id = Some(id);
        let open = self.server.opens.get(id.volatile).filter(|open| open.id == id);
        let Some((engine, file)) = open.as_ref().and_then(|open| open.file()) else { return false };
        sample.file = Some(file.node_id().inode);
        sample.is_directory = file.is_directory();
        if sample.with_paths {
            sample.path = Some(path_text(&engine.path_of(file), file.stream().as_ref()));
        }
        engine.deletes_on_close(file)
    }

    /// The values of a record beside the counts.
    #[cold]
    pub(crate) fn details(
        &self,
        header: &Header,
        status: NtStatus,
        noted: &CompletedTransaction,
        sample: Sample,
    ) -> RequestDescription {
        let sizes = |all: u64| (all.min(header::SIZE as u64), all.saturating_sub(header::SIZE as u64));
        let (request, response) = (sizes(noted.ingress), sizes(noted.egress));
        let mut numbers = vec![
            ("requestHeaderSize", request.0),
            ("requestBodySize", request.1),
            ("responseHeaderSize", response.0),
            ("responseBodySize", response.1),
            ("smbSessionID", header.session_id()),
            ("smbTreeConnectID", header.tree_id().into()),
            ("smbMessageID", header.message_id()),
            ("smbCreditsConsumed", header.credit_charge().into()),
            ("smbCommandMajor", header.command().get().into()),
        ];
        if let Some(id) = sample.file_id {
            numbers.push(("smbPersistentHandleID", id.persistent));
            numbers.push(("smbVolatileHandleID", id.volatile));
        }
        numbers.extend(sample.file.map(|file| ("smbFileId", file)));
        let minor = sample.minor.map(|minor| ("smbCommandMinor", minor));
        let words = minor.into_iter().chain(sample.detail.map(|detail| ("smbCommandDetail", detail)));
        RequestDescription {
            client: self.handle.peer.remote,
            server: self.handle.peer.local,
            version: self.dialect().and_then(Dialect::name),
            path: sample.path,
            status: status.0,
            status_text: status.to_string(),
            numbers,
            words: words.collect(),
        }
    }

    fn dialect(&self) -> Option<Dialect> {
        self.negotiated.as_ref().map(|negotiated| negotiated.protection.dialect)
    }
}

/// The values from a request. `None` if it cannot be parsed.
fn summarize(command: SmbCommand, message: &[u8], is_311: bool, with_paths: bool) -> Option<RequestSummary> {
    let of = |file_id: FileId| RequestSummary { file_id: Some(file_id), ..RequestSummary::default() };
    let named = |text: smb_wire::Utf16<'_>| with_paths.then(|| text.to_string_lossy().replace('\\', "/"));
    Some(match command {
        SmbCommand::TreeConnect => {
            let request = tree_connect::Request::parse(message, is_311).ok()?;
            RequestSummary { detail: named(request.path), ..RequestSummary::default() }
        }
        SmbCommand::Create => {
            let it = create::Request::parse(message).ok()?;
            let detail = format!(
                "{:?}, access {:#x}, share access {:#x}, options {:#x}",
                it.create_disposition,
                it.desired_access.bits(),
                it.share_access.bits(),
                it.create_options.bits()
            );
            RequestSummary { name: named(it.name), detail: Some(detail), ..RequestSummary::default() }
        }
        SmbCommand::Close => of(close::Request::parse(message).ok()?.file_id),
        SmbCommand::Flush => of(flush::Request::parse(message).ok()?.file_id),
        SmbCommand::Read => {
            let it = read::Request::parse(message).ok()?;
            RequestSummary { detail: Some(range_text(it.length.into(), it.offset)), ..of(it.file_id) }
        }
        SmbCommand::Write => {
            let it = write::Request::parse(message).ok()?;
            RequestSummary { detail: Some(range_text(it.data.len() as u64, it.offset)), ..of(it.file_id) }
        }
        SmbCommand::Lock => lock_summary(&lock::Request::parse(message).ok()?),
        SmbCommand::Ioctl => {
            let it = ioctl::Request::parse(message).ok()?;
            RequestSummary { minor: Some(format!("{:?}", it.ctl_code)), ..of(it.file_id) }
        }
        SmbCommand::QueryDirectory => {
            let it = query_directory::Request::parse(message).ok()?;
            let minor = Some(class(InfoType::File, it.file_information_class));
            RequestSummary { minor, detail: named(it.file_name), ..of(it.file_id) }
        }
        SmbCommand::ChangeNotify => of(change_notify::Request::parse(message).ok()?.file_id),
        SmbCommand::QueryInfo => {
            let it = query_info::Request::parse(message).ok()?;
            RequestSummary { minor: Some(class(it.info_type, it.file_info_class)), ..of(it.file_id) }
        }
        SmbCommand::SetInfo => {
            let it = set_info::Request::parse(message).ok()?;
            let minor = Some(class(it.info_type, it.file_info_class));
            RequestSummary { minor, detail: length_that_is_set(&it), ..of(it.file_id) }
        }
        SmbCommand::OplockBreak => match oplock_break::Request::parse(message).ok()? {
            oplock_break::Request::Oplock(it) => {
                RequestSummary { minor: Some("Oplock".to_owned()), ..of(it.file_id) }
            }
            oplock_break::Request::Lease(_) => {
                RequestSummary { minor: Some("Lease".to_owned()), ..RequestSummary::default() }
            }
        },
        _ => RequestSummary::default(),
    })
}

fn lock_summary(request: &lock::Request<'_>) -> RequestSummary {
    let mut all = request.locks.iter();
    let Some(first) = all.next() else { return RequestSummary::default() };
    let minor = if first.flags.contains(lock::LockFlags::UNLOCK) { "Unlock" } else { "Lock" };
    let (detail, more) = (range_text(first.length, first.offset), all.count());
    let detail = if more == 0 { detail } else { format!("{detail} and {more} more") };
    RequestSummary {
        file_id: Some(request.file_id),
        name: None,
        minor: Some(minor.to_owned()),
        detail: Some(detail),
    }
}

/// The type and number of an information class.
fn class(info_type: InfoType, number: u8) -> String {
    format!("{info_type:?} {number}")
}

/// The length in a FileEndOfFileInformation or FileAllocationInformation (MS-FSCC 2.4.14 and 2.4.4).
fn length_that_is_set(request: &set_info::Request<'_>) -> Option<String> {
    let sets = [FileInfoClass::END_OF_FILE.0, FileInfoClass::ALLOCATION.0];
    let is_one = request.info_type == InfoType::File && sets.contains(&request.file_info_class);
    let bytes = request.buffer.first_chunk().filter(|_| is_one)?;
    Some(format!("{:#x} bytes", u64::from_le_bytes(*bytes)))
}
