//! Frames that the credits of a connection do not cover. Their requests go one after the other, READ and
//! WRITE in pieces.
//!
//! A server may never grant more than a few credits. It then accepts no compound of more requests, and no
//! READ or WRITE of more than 64 KiB for each credit (MS-SMB2 3.2.4.1.5). [`Series::send`] returns the
//! replies of a server that stops at a failure (MS-SMB2 3.3.5.2.7.2). The requests after the failure are not
//! sent, except for the CLOSE of an open file.

use smb_wire::create_context::{Contexts, RequestContext};
use smb_wire::header::{self, Header};
use smb_wire::{
    FileId, Malformed, NtStatus, SmbCommand, close, create, error, ioctl, query_directory, query_info, read,
    set_info, write,
};

use super::call::{FrameReplies, RequestOptions};
use crate::Error;
use crate::error::Result;
use crate::smb::buffer::Reply;
use crate::smb::link::FrameRequest;
use crate::smb::negotiate::CREDIT;
use crate::smb::session::state::SessionInner;

/// The requests of one frame.
pub(crate) struct Series<'a> {
    session: &'a SessionInner,
    terms: RequestOptions,
    /// The bytes that the credits cover in one request, as far as is known.
    room: u32,
    /// Whether the server may have seen the frame on a lost channel.
    was_seen: bool,
    /// Whether the server may have carried out any of the requests before.
    replayed: bool,
    /// The open of the requests.
    file_id: Option<FileId>,
    /// Whether one of them has opened it, and none has closed it.
    is_open: bool,
}

/// The bytes that `credits` cover.
fn paid(credits: u32) -> u32 {
    credits.saturating_mul(CREDIT)
}

impl<'a> Series<'a> {
    /// A series on connections of which one has granted no more than `granted` credits. `was_seen` says that
    /// the server may have seen the frame on a lost channel.
    pub(crate) fn new(
        session: &'a SessionInner,
        terms: RequestOptions,
        granted: u32,
        was_seen: bool,
    ) -> Series<'a> {
        let (room, replayed) = (paid(granted), was_seen);
        Series { session, terms, room, was_seen, replayed, file_id: None, is_open: false }
    }

    /// Sends the requests of a frame, each after the reply to the previous one.
    ///
    /// # Errors
    /// The error that ended the last channel, or [`Error::Credits`] for a request that cannot be made
    /// smaller. An open made by the series is closed then.
    pub(crate) async fn send<const N: usize>(
        mut self,
        parts: [FrameRequest<'_>; N],
    ) -> Result<FrameReplies<N>> {
        let mut replies = [const { None }; N];
        let mut failed = None;
        for (reply, part) in replies.iter_mut().zip(parts) {
            let closes = part.command == SmbCommand::Close && self.file_id.is_some();
            let got = match failed {
                Some(status) if !closes => {
                    Reply::made(part.command, status, |out| error::Response::default().write(out))
                }
                _ => match self.send_part(part).await {
                    Ok(got) => got,
                    Err(error) => {
                        self.give_up().await;
                        return Err(error);
                    }
                },
            };
            if got.status().is_error() {
                failed.get_or_insert(got.status());
            }
            *reply = Some(got);
        }
        let replies = replies.map(|reply| reply.expect("every place was just filled"));
        Ok(FrameReplies { replies, replayed: self.replayed })
    }

    /// Sends one request of the frame, for the open that earlier requests have made or named.
    async fn send_part(&mut self, part: FrameRequest<'_>) -> Result<Reply> {
        let mut message = Vec::with_capacity(header::SIZE + 256);
        Header::request(part.command, 0).push(&mut message);
        (part.body)(&mut message);
        match part.command {
            SmbCommand::TreeConnect => {
                let reply = self.carry(part).await?;
                self.terms.tree_id = reply.header().tree_id();
                Ok(reply)
            }
            SmbCommand::Create => self.create(part, create::Request::parse(&message)?).await,
            SmbCommand::Close => {
                let asked = close::Request::parse(&message)?;
                let file_id = self.name(asked.file_id);
                self.close(close::Request { file_id, ..asked }).await
            }
            SmbCommand::SetInfo => {
                let asked = set_info::Request::parse(&message)?;
                let asked = set_info::Request { file_id: self.name(asked.file_id), ..asked };
                self.carry(FrameRequest { body: &|out| asked.write(out), ..part }).await
            }
            SmbCommand::Read => self.read(read::Request::parse(&message)?).await,
            SmbCommand::Write => self.write(write::Request::parse(&message)?).await,
            SmbCommand::QueryInfo | SmbCommand::QueryDirectory | SmbCommand::Ioctl => {
                self.query(part.command, &message).await
            }
            _ => self.carry(part).await,
        }
    }

    /// The open that `id` names in the frame.
    fn name(&mut self, id: FileId) -> FileId {
        match self.file_id {
            Some(named) if id.is_related() => named,
            _ => {
                self.file_id = Some(id);
                id
            }
        }
    }

    /// Sends a CREATE. In a compound it has no CreateGuid, because the open is used at once. Here it may have
    /// to be repeated alone.
    async fn create(&mut self, part: FrameRequest<'_>, asked: create::Request<'_>) -> Result<Reply> {
        let contexts: std::result::Result<Vec<_>, _> = asked.contexts.requests().collect();
        let mut contexts = contexts?;
        contexts.extend(self.session.create_contexts().into_iter().flatten());
        // The server recognises it by its CreateGuid (MS-SMB2 3.3.5.9.10). Without it, an open whose reply is
        // lost would stay behind.
        let is_named = contexts.iter().any(|it| matches!(it, RequestContext::DurableHandleRequestV2 { .. }));
        let terms = RequestOptions { again: self.terms.again || is_named, ..self.terms };
        let asked = create::Request { contexts: Contexts::Requests(&contexts), ..asked };
        let reply = self.carry_by(terms, FrameRequest { body: &|out| asked.write(out), ..part }).await?;
        if reply.status().is_success() {
            self.file_id = Some(create::Response::parse(reply.message())?.file_id);
            self.is_open = true;
        }
        Ok(reply)
    }

    /// Sends one request unchanged.
    async fn carry(&mut self, part: FrameRequest<'_>) -> Result<Reply> {
        self.carry_by(self.terms, part).await
    }

    async fn carry_by(&mut self, terms: RequestOptions, part: FrameRequest<'_>) -> Result<Reply> {
        let mut replayed = self.was_seen;
        let carried = self.session.carry(terms, [part], &mut replayed).await;
        self.replayed |= replayed;
        let [reply] = carried?;
        Ok(reply)
    }

    /// Sends one request for `wanted` bytes, or as many of them as the credits cover. `body` appends the
    /// request for a number of bytes. Returns the reply and that number.
    async fn carry_some(
        &mut self,
        command: SmbCommand,
        wanted: u32,
        body: impl Fn(u32, &mut Vec<u8>) + Send + Sync,
    ) -> Result<(Reply, u32)> {
        loop {
            let size = wanted.min(self.room);
            let body = |out: &mut Vec<u8>| body(size, out);
            match self.carry(FrameRequest { command, payload: size, body: &body }).await {
                Err(Error::Credits { granted, .. }) if granted > 0 && paid(granted) < size => {
                    self.room = paid(granted);
                }
                carried => return carried.map(|reply| (reply, size)),
            }
        }
    }

    /// Sends a READ in pieces, up to the first short one.
    async fn read(&mut self, whole: read::Request<'_>) -> Result<Reply> {
        let file_id = self.name(whole.file_id);
        let mut data: Vec<u8> = Vec::new();
        loop {
            let done = data.len() as u32;
            let offset = whole.offset.saturating_add(done.into());
            let body = |length: u32, out: &mut Vec<u8>| {
                read::Request { file_id, offset, length, ..whole }.write(out);
            };
            let (reply, size) = self.carry_some(SmbCommand::Read, whole.length - done, body).await?;
            let is_end = done > 0 && reply.status() == NtStatus::END_OF_FILE;
            if !is_end && !reply.status().is_success() {
                return Ok(reply);
            }
            let got = if is_end { &[] } else { read::Response::parse(reply.message())?.data };
            if got.len() > size as usize {
                return Err(Malformed::new("READ response", "DataLength").into());
            }
            data.extend_from_slice(got);
            if got.len() < size as usize || data.len() >= whole.length as usize {
                let all = read::Response { data_remaining: 0, flags: 0, data: &data };
                return Ok(Reply::made(SmbCommand::Read, NtStatus::SUCCESS, |out| all.write(out)));
            }
        }
    }

    /// Sends a WRITE in pieces, up to the first short one.
    async fn write(&mut self, whole: write::Request<'_>) -> Result<Reply> {
        let file_id = self.name(whole.file_id);
        let mut done = 0;
        loop {
            let (rest, offset) = (&whole.data[done..], whole.offset.saturating_add(done as u64));
            let body = |size: u32, out: &mut Vec<u8>| {
                write::Request { file_id, offset, data: &rest[..size as usize], ..whole }.write(out);
            };
            let (reply, size) = self.carry_some(SmbCommand::Write, rest.len() as u32, body).await?;
            if !reply.status().is_success() {
                return Ok(reply);
            }
            let count = write::Response::parse(reply.message())?.count;
            if count > size {
                return Err(Malformed::new("WRITE response", "Count").into());
            }
            done += count as usize;
            if count < size || done >= whole.data.len() {
                let all = write::Response { count: done as u32 };
                return Ok(Reply::made(SmbCommand::Write, NtStatus::SUCCESS, |out| all.write(out)));
            }
        }
    }

    /// Sends a query with no more room for its reply than the credits cover. Its own data is short.
    async fn query(&mut self, command: SmbCommand, message: &[u8]) -> Result<Reply> {
        let answered = match command {
            SmbCommand::QueryInfo => {
                let asked = query_info::Request::parse(message)?;
                let asked = query_info::Request { file_id: self.name(asked.file_id), ..asked };
                self.carry_some(command, asked.output_buffer_length, |output_buffer_length, out| {
                    query_info::Request { output_buffer_length, ..asked }.write(out);
                })
                .await
            }
            SmbCommand::QueryDirectory => {
                let asked = query_directory::Request::parse(message)?;
                let asked = query_directory::Request { file_id: self.name(asked.file_id), ..asked };
                self.carry_some(command, asked.output_buffer_length, |output_buffer_length, out| {
                    query_directory::Request { output_buffer_length, ..asked }.write(out);
                })
                .await
            }
            _ => {
                let asked = ioctl::Request::parse(message)?;
                let asked = ioctl::Request { file_id: self.name(asked.file_id), ..asked };
                self.carry_some(command, asked.max_output_response, |max_output_response, out| {
                    ioctl::Request { max_output_response, ..asked }.write(out);
                })
                .await
            }
        };
        answered.map(|(reply, _)| reply)
    }

    /// Sends a CLOSE. It may be repeated, whatever the frame is. If a repetition finds the open closed, the
    /// first copy has closed it.
    async fn close(&mut self, request: close::Request) -> Result<Reply> {
        let mut replayed = false;
        let body = |out: &mut Vec<u8>| request.write(out);
        let part = FrameRequest { command: SmbCommand::Close, payload: 0, body: &body };
        let carried =
            self.session.carry(RequestOptions { again: true, ..self.terms }, [part], &mut replayed).await;
        (self.replayed, self.is_open) = (self.replayed || replayed, false);
        let [reply] = carried?;
        if replayed && reply.status() == NtStatus::FILE_CLOSED {
            let closed = close::Response::default();
            return Ok(Reply::made(SmbCommand::Close, NtStatus::SUCCESS, |out| closed.write(out)));
        }
        Ok(reply)
    }

    /// Closes the open, because nobody else will know it.
    async fn give_up(&mut self) {
        if let Some(file_id) = self.file_id.filter(|_| self.is_open) {
            // The caller gets the error that ended the series, not this one.
            let _ = self.close(close::Request { flags: close::CloseFlags::empty(), file_id }).await;
        }
    }
}
