//! From an admitted request to its command: the checks that all commands share, in the order of the
//! specification (MS-SMB2 3.3.5.2).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use share::{Caller, Cause, ClientKey, Identity, Origin, Waiter};
use smb_wire::error::{self, ErrorId};
use smb_wire::header::Flags;
use smb_wire::negotiate::Dialect;
use smb_wire::{Command, FileId, Header, NtStatus, read};
use wire::{FileRange, Now, Output};

use crate::changing::Named;
use crate::cmd;
use crate::connection::{Connection, Negotiated};
use crate::counting;
use crate::event::Event;
use crate::exchange::UnderWay;
use crate::exchange::compound::{Compound, Related};
use crate::exchange::outcome::{Answered, Aside, Handled, Outcome, Stop};
use crate::index::Claim;
use crate::limits::MAX_IO;
use crate::open::Open;
use crate::sequence::Outstanding;
use crate::session::{Session, State};
use crate::tree::{Target, Tree};

/// One request on its way to its command.
pub struct Request<'m> {
    /// What its exchange knows of it, whether it is put aside or not.
    pub under_way: &'m mut UnderWay,
    /// The whole message from its header on, with the signature field zero.
    pub message: &'m [u8],
    /// The signature that was taken out.
    pub signature: [u8; 16],
    /// Its session, with what a related request inherits.
    pub session_id: u64,
    /// Its tree, with what a related request inherits.
    pub tree_id: u32,
    /// Where its session is among the connection's channels.
    pub channel: Option<usize>,
    /// Whether it came sealed.
    pub sealed: bool,
    /// What a request behind it may inherit.
    pub related: Related,
    /// The Open on which it counts, by its volatile id; under the request's ChannelSequence.
    pub counted: Option<u64>,
    /// The answer is signed although the request was not (a log-on's last answer).
    pub sign_answer: bool,
    /// Whether the answer is all that its frame holds, and neither signed nor sealed.
    pub bare: bool,
    /// What a bare answer ends with.
    pub attached: Option<FileRange>,
    /// What it has begun, if it is a CREATE that has waited or is about to.
    pub claim: Option<Claim>,
    /// The connection, for the engine.
    pub origin: Origin,
    /// The time.
    pub now: Now,
}

impl std::ops::Deref for Request<'_> {
    type Target = UnderWay;

    #[inline]
    fn deref(&self) -> &UnderWay {
        self.under_way
    }
}

impl std::ops::DerefMut for Request<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut UnderWay {
        self.under_way
    }
}

impl<'m> Request<'m> {
    /// A request behind those that `compound` has answered.
    pub(crate) fn new(
        under_way: &'m mut UnderWay,
        message: &'m [u8],
        compound: &mut Compound,
        (origin, now): (Origin, Now),
    ) -> Request<'m> {
        let (mut related, header) = (compound.related, &under_way.header);
        let (mut session_id, mut tree_id) = (header.session_id(), header.tree_id());
        if header.is_related() && related.any {
            // MS-SMB2 3.3.5.2.7.2
            if session_id == u64::MAX {
                session_id = related.session_id;
            }
            if tree_id == u32::MAX {
                tree_id = related.tree_id;
            }
        } else {
            related = Related { any: related.any, ..Related::default() };
        }
        (related.session_id, related.tree_id) = (session_id, tree_id);
        Request {
            under_way,
            message,
            signature: [0; 16],
            session_id,
            tree_id,
            channel: None,
            sealed: compound.sealed_by.is_some(),
            related,
            counted: None,
            sign_answer: false,
            bare: false,
            attached: None,
            claim: compound.claim.take(),
            origin,
            now,
        }
    }

    /// When it is asked for, and over which connection.
    pub(crate) fn cause(&self) -> Cause {
        Cause { now: self.now, origin: Some(self.origin) }
    }

    /// Who asks the engine for it; without `waiter` it waits for nothing.
    pub(crate) fn caller<'a>(
        &self,
        identity: &'a Arc<Identity>,
        client: ClientKey,
        waiter: Option<&'a Waiter>,
    ) -> Caller<'a> {
        Caller { identity, client, waiter, now: self.now, origin: Some(self.origin) }
    }

    /// The FileId of a request, with what a related one inherits (MS-SMB2 3.3.5.2.7.2).
    ///
    /// # Errors
    /// The status with which the request before failed to make one.
    pub fn file_id(&self, id: FileId) -> Result<FileId, Stop> {
        // Clients set all of it (3.2.4.1.4); one half says as much, since no Open has such an id.
        let inherits = id.is_related() || id.persistent == u64::MAX || id.volatile == u64::MAX;
        if !(self.header.is_related() && inherits) {
            return Ok(id);
        }
        match (self.related.file_id, self.related.failed) {
            (Some(inherited), _) => Ok(inherited),
            (None, Some(status)) => Err(Stop::Fail(status)),
            (None, None) => Err(Stop::Fail(NtStatus::INVALID_PARAMETER)),
        }
    }
}

impl Connection {
    /// The session of a request that was checked to have one.
    pub(crate) fn session(&self, request: &Request<'_>) -> Result<&Arc<Session>, Stop> {
        let channel = request.channel.and_then(|at| self.channels.get(at));
        channel.map(|channel| &channel.session).ok_or(Stop::Fail(NtStatus::USER_SESSION_DELETED))
    }

    /// A request is of no session of this connection: the log has a line where it is one of others.
    pub(crate) fn complain_of_stolen(&self, request: &Request<'_>) {
        if self.server.session(request.session_id).is_some() {
            let what =
                format!("{:?} refused: the session is one of other connections", request.header.command());
            self.complain(request.session_id, NtStatus::USER_SESSION_DELETED, &what, request.now);
        }
    }

    /// The tree of a request.
    pub(crate) fn tree(&mut self, request: &mut Request<'_>) -> Result<Arc<Tree>, Stop> {
        // MS-SMB2 3.3.5.2.7.2
        if request.header.is_related() && request.tree_id == u32::MAX {
            return Err(Stop::Fail(NtStatus::INVALID_PARAMETER));
        }
        // MS-SMB2 3.3.5.2.11
        let tree = self.session(request)?.tree(request.tree_id);
        let tree = tree.ok_or(Stop::Fail(NtStatus::NETWORK_NAME_DELETED))?;
        self.is_for(request, &tree);
        check_protection(&tree, request)?;
        Ok(tree)
    }

    /// The Open that a request names, found without a lock. Requests behind it inherit its id.
    pub(crate) fn open(&mut self, request: &mut Request<'_>, id: FileId) -> Result<Named, Stop> {
        let id = request.file_id(id)?;
        let session = self.session(request)?;
        let found =
            self.server.opens.get(id.volatile).filter(|open| {
                open.id == id && open.session_id == session.id && open.tree.id == request.tree_id
            });
        match found {
            Some(open) if open.object().is_some() => {
                self.is_for(request, &open.tree);
                check_protection(&open.tree, request)?;
                request.related.file_id = Some(id);
                self.check_sequence(request, &open)?;
                // MS-SMB2 3.3.5.11 to 3.3.5.22
                open.used();
                self.pace_metadata(request, &open.tree)?;
                Named::new(open, request.header.command()).ok_or(Stop::Fail(NtStatus::FILE_CLOSED))
            }
            _ => {
                self.tree(request)?;
                Err(Stop::Fail(NtStatus::FILE_CLOSED))
            }
        }
    }

    /// Says for the counts which share a request is for.
    fn is_for(&mut self, request: &mut Request<'_>, tree: &Tree) {
        if let Target::Disk { engine, .. } = &tree.target {
            request.course.place = self.desk.place(engine);
        }
    }

    /// Whether a request comes in time for the Open, on which it counts from now on.
    fn check_sequence(&self, request: &mut Request<'_>, open: &Open) -> Result<(), Stop> {
        // MS-SMB2 3.3.5.2.10
        let is_known = request.resumed || request.counted.is_some();
        if is_known || !self.negotiated.is_some_and(|settled| settled.protection.dialect.is_smb3()) {
            return Ok(());
        }
        let is_replay = request.header.flags().contains(Flags::REPLAY_OPERATION);
        if open.moving.sequence.begin(request.header.channel_sequence(), is_replay) {
            request.counted = Some(open.id.volatile);
            return Ok(());
        }
        let command = request.header.command();
        if !matches!(command, Command::Write | Command::SetInfo | Command::Ioctl) {
            return Ok(());
        }
        let why = match is_replay {
            true => "an earlier one is still under way",
            false => "its ChannelSequence is an older one, as of a channel that was lost",
        };
        let (what, status) = (format!("{command:?} refused: {why}"), NtStatus::FILE_NOT_AVAILABLE);
        self.complain(request.session_id, status, &what, request.now);
        Err(Stop::Fail(status))
    }

    /// What keeps a request counted that is put aside.
    pub(crate) fn outstanding(&self, counted: Option<u64>, header: &Header) -> Option<Outstanding> {
        let open = self.server.opens.get(counted?)?.share();
        Some(Outstanding { open, sequence: header.channel_sequence() })
    }

    /// How the engine wakes a request that may be about to wait.
    pub(crate) fn waiter_for(&self, request: &mut Request<'_>) -> Waiter {
        self.waiter(self.async_id(request))
    }

    /// The number of a request that is about to wait.
    pub(crate) fn async_id(&self, request: &mut Request<'_>) -> u64 {
        *request.async_id.get_or_insert_with(|| self.new_async_id())
    }
}

/// A share may ask for more protection than the session (MS-SMB2 3.3.5.2.11).
fn check_protection(tree: &Tree, request: &Request<'_>) -> Result<(), Stop> {
    let unsealed = tree.sealed && !request.sealed;
    let unsigned = tree.signed && !request.sealed && !request.header.is_signed();
    if unsealed || unsigned { Err(Stop::Fail(NtStatus::ACCESS_DENIED)) } else { Ok(()) }
}

/// Checks what all commands share, and hands the request to its own.
pub(crate) fn handle(
    connection: &mut Connection,
    request: &mut Request<'_>,
    body: &mut Vec<u8>,
    out: &mut Output<Event>,
) -> Outcome {
    let mut outcome = checked(connection, request, body, out).unwrap_or_else(Outcome::from);
    if let Outcome::Answered(Answered::Failed(status, _)) = &mut outcome
        && request.announced
    {
        *status = ended(request.header.command(), *status);
    }
    let goes_on = matches!(&outcome, Outcome::Aside(aside) if !matches!(aside, Aside::Answer(..)));
    if !goes_on && let Some(open) = request.counted.take().and_then(|id| connection.server.opens.get(id)) {
        // MS-SMB2 3.3.4.1
        open.moving.sequence.end(request.header.channel_sequence());
    }
    match &outcome {
        Outcome::Answered(Answered::Failed(status, _)) => {
            // MS-SMB2 3.3.5.2.7.2: what stands behind it has no tree.
            if request.header.command() == Command::TreeConnect {
                request.related.tree_id = u32::MAX;
            }
            // MS-SMB2 3.3.5.2.7.2: only a request that would have made an Open fails those behind it.
            if request.header.command() == Command::Create || request.related.file_id.is_none() {
                request.related.failed = Some(*status);
            }
        }
        Outcome::Answered(Answered::Done(_)) | Outcome::Aside(Aside::Answer(..)) => {
            request.related.failed = None;
        }
        Outcome::Aside(_) | Outcome::Silent | Outcome::Disconnect(_) => {}
    }
    outcome
}

/// What a request that waits is told when its Open, tree or session goes away.
fn ended(command: Command, status: NtStatus) -> NtStatus {
    let gone = [NtStatus::FILE_CLOSED, NtStatus::NETWORK_NAME_DELETED, NtStatus::USER_SESSION_DELETED];
    match command {
        _ if !gone.contains(&status) => status,
        // MS-FSA 2.1.5.8
        Command::Lock => NtStatus::RANGE_NOT_LOCKED,
        // MS-FSA 2.1.5.5
        Command::ChangeNotify => NtStatus::NOTIFY_CLEANUP,
        _ => status,
    }
}

fn checked(
    connection: &mut Connection,
    request: &mut Request<'_>,
    body: &mut Vec<u8>,
    out: &mut Output<Event>,
) -> Result<Outcome, Stop> {
    let command = request.header.command();
    if !request.resumed {
        connection.handle.counters.request();
    }
    // MS-SMB2 3.3.5.2.7.2: the first request of a frame has nothing to be related to.
    let alone = !request.related.any && !request.resumed && command != Command::Cancel;
    if request.header.is_related() && (alone || request.related.invalid) {
        request.related.invalid = true;
        return Err(Stop::Fail(NtStatus::INVALID_PARAMETER));
    }
    request.channel = connection.channel_of(request.session_id);
    if command == Command::Negotiate {
        return Ok(cmd::negotiate::handle(connection, request, body, out).into());
    }
    let settled = &connection.negotiated.ok_or(Stop::Disconnect("a request before NEGOTIATE"))?;
    let handled = match command {
        Command::SessionSetup => cmd::session_setup::handle(connection, settled, request, body),
        Command::Echo => cmd::echo::handle(request, body),
        Command::Cancel => {
            cmd::cancel::handle(connection, request, out);
            return Ok(Outcome::Silent);
        }
        Command::Ioctl if request.channel.is_none() && cmd::ioctl::torture::is_asked(connection, request) => {
            cmd::ioctl::torture::handle(connection, request, body)
        }
        _ => in_session(connection, settled, request, body),
    };
    Ok(handled.into())
}

/// The same for commands of a session.
fn in_session(
    connection: &mut Connection,
    settled: &Negotiated,
    request: &mut Request<'_>,
    body: &mut Vec<u8>,
) -> Handled {
    // MS-SMB2 3.3.5.2.9
    if request.channel.is_none() && request.header.is_related() {
        // What it is related to had no session either, so there is nothing to inherit.
        return Err(Stop::Fail(NtStatus::INVALID_PARAMETER));
    }
    if request.channel.is_none() {
        connection.complain_of_stolen(request);
    }
    let session = connection.session(request)?;
    if session.state() != State::Valid {
        return Err(Stop::Fail(NtStatus::USER_SESSION_DELETED));
    }
    if session.proved().is_some_and(|proved| !proved.anonymous) {
        let by_key = session.standing().is_some_and(|standing| standing.by_key);
        request.course.authentication = if by_key { counting::BY_KEY } else { counting::PROVED };
    }
    if session.sealing_required.load(Ordering::Relaxed) && !request.sealed {
        return Err(Stop::Fail(NtStatus::ACCESS_DENIED));
    }
    match request.header.command() {
        Command::Read => cmd::read::handle(connection, settled, request, body),
        Command::Write => cmd::write::handle(connection, settled, request, body),
        Command::Logoff => cmd::logoff::handle(connection, request, body),
        Command::TreeConnect => cmd::tree_connect::handle(connection, settled, request, body),
        Command::TreeDisconnect => cmd::tree_disconnect::handle(connection, request, body),
        Command::Create => cmd::create::handle(connection, settled, request, body),
        Command::Close => cmd::close::handle(connection, request, body),
        Command::Flush => cmd::flush::handle(connection, request, body),
        Command::Lock => cmd::lock::handle(connection, settled, request, body),
        Command::Ioctl => cmd::ioctl::handle(connection, settled, request, body),
        Command::QueryDirectory => cmd::query_directory::handle(connection, settled, request, body),
        Command::ChangeNotify => cmd::change_notify::handle(connection, settled, request, body),
        Command::QueryInfo => cmd::query_info::handle(connection, settled, request, body),
        Command::SetInfo => cmd::set_info::handle(connection, settled, request, body),
        Command::OplockBreak => cmd::oplock_break::handle(connection, request, body),
        Command::ServerToClientNotification | Command::Unknown(_) => {
            Err(Stop::Fail(NtStatus::INVALID_PARAMETER))
        }
        Command::Negotiate | Command::SessionSetup | Command::Echo | Command::Cancel => {
            Err(Stop::Fail(NtStatus::INVALID_PARAMETER))
        }
    }
}

/// Holds the payload of a request against the credits it was charged (MS-SMB2 3.3.5.2.5).
pub(crate) fn check_charge(settled: &Negotiated, request: &Request<'_>, payload: u32) -> Result<(), Stop> {
    let paid = if settled.multi_credit() { request.header.credit_charge().max(1) } else { 1 };
    let needed = payload.saturating_sub(1) / 65536 + 1;
    let small = settled.protection.dialect == Dialect::Smb202;
    if needed > u32::from(paid) && !small { Err(Stop::Fail(NtStatus::INVALID_PARAMETER)) } else { Ok(()) }
}

/// The body of an error with its data (MS-SMB2 2.2.2).
pub(crate) fn error_body(data: &[u8], negotiated: Option<&Negotiated>, out: &mut Vec<u8>) {
    if data.is_empty() {
        return out.extend_from_slice(&error::EMPTY);
    }
    let is_311 = negotiated.is_some_and(|settled| settled.protection.dialect == Dialect::Smb311);
    error::Response::write_with(out, is_311, ErrorId::Default, |out| out.extend_from_slice(data));
}

/// How much room the answers to a frame are likely to take, so that READ data needs no second buffer.
pub(crate) fn expected_size(messages: &[u8]) -> usize {
    const SMALL: usize = 900;
    let Ok(header) = Header::parse(messages) else { return SMALL };
    let wanted = match header.command() {
        Command::Read => {
            let length = messages.get(68..72).and_then(|bytes| bytes.first_chunk());
            length.map_or(0, |bytes| u32::from_le_bytes(*bytes)).min(MAX_IO) as usize
                + read::RESPONSE_FIXED
                + smb_wire::header::SIZE
        }
        Command::QueryDirectory | Command::Ioctl => 16 * 1024,
        _ => SMALL,
    };
    wanted.max(SMALL)
}
