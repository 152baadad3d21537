//! An NFSv4.1 server with one directory and one file. It counts its operations and plays tricks on request.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use nfs_wire::attr::{Attr, AttrWriter, Bitmap};
use nfs_wire::callback;
use nfs_wire::compound::{CallWriter, CompoundArgs, ReplyWriter, Target};
use nfs_wire::op::bind_conn_to_session::{self, FromServer};
use nfs_wire::op::create_session::{self, SessionFlags};
use nfs_wire::op::exchange_id::{self, ExchangeFlags, ServerOwner, StateProtectRes};
use nfs_wire::op::open::{self, Claim, Delegation, DelegationType, ReadDelegation, ResultFlags, ShareAccess};
use nfs_wire::op::readdir::EntriesWriter;
use nfs_wire::op::sequence::{self, StatusFlags};
use nfs_wire::op::{Args, OpNum, close, commit, filehandle, names, read, write};
use nfs_wire::rpc::record::{Assembler, MARK, RecordMark};
use nfs_wire::rpc::{Accepted, Credential, Message, PROC_NULL, RpcReply};
use nfs_wire::types::{ChangeInfo, FileHandle, FileType, Identity, SessionId, StableHow, StateId};
use nfs_wire::{NfsStat, attr};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use wire::Frame;

/// A trick of the server on the next COMPOUND with this operation, once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trick {
    /// Answers the operation with this status.
    Refuse(OpNum, NfsStat),
    /// Carries everything out, and ends the connection instead of answering.
    CutAfter(OpNum),
    /// Ends the connection and carries nothing out.
    CutBefore(OpNum),
    /// Forgets all sessions.
    ForgetSessions(OpNum),
    /// Forgets all sessions and client IDs.
    ForgetClients(OpNum),
    /// Restarts, and keeps sessions and client IDs.
    Restart(OpNum),
    /// Carries everything out, and answers when the test says so.
    Hold(OpNum),
}

impl Trick {
    fn operation(self) -> OpNum {
        match self {
            Trick::Refuse(operation, _)
            | Trick::CutAfter(operation)
            | Trick::CutBefore(operation)
            | Trick::ForgetSessions(operation)
            | Trick::ForgetClients(operation)
            | Trick::Restart(operation)
            | Trick::Hold(operation) => operation,
        }
    }
}

/// A received COMPOUND.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedCompound {
    /// The connection, counted from zero.
    pub connection: usize,
    /// The slot and the number of its SEQUENCE.
    pub slot: Option<(u32, u32)>,
    /// The operations, without SEQUENCE.
    pub operations: Vec<OpNum>,
    /// Whether the reply came from the cache.
    pub again: bool,
}

#[derive(Default)]
pub struct ScriptedState {
    pub tricks: VecDeque<Trick>,
    pub seen: Vec<RecordedCompound>,
    /// The number of times that each operation was carried out.
    pub done: HashMap<OpNum, usize>,
    /// The content of the file.
    pub content: Vec<u8>,
    /// The requested stability of each WRITE.
    pub stable: Vec<StableHow>,
    /// The stability to report for each WRITE, instead of stable storage.
    pub committed: Option<StableHow>,
    /// The number of granted slots.
    pub slots: u32,
    /// The most operations of a COMPOUND.
    pub operations: usize,
    /// The lease time in seconds.
    pub lease_s: u32,
    /// Whether it speaks NFSv4.0 only.
    pub is_old: bool,
    /// Whether replies come in many fragments.
    pub fragments: bool,
    /// Whether every OPEN gets a delegation that does not refuse it.
    pub delegates: bool,
    /// The scope in which its filehandles have one meaning.
    pub scope: &'static [u8],
    /// The reclaimed opens: the owner and the access.
    pub claimed: Vec<(Vec<u8>, ShareAccess)>,
    /// The number of restarts. State from before is void.
    restarts: u8,
    /// Whether it has restarted and received no RECLAIM_COMPLETE.
    in_grace: bool,
    /// Whether it asks for reclaims in every reply.
    pub is_always_in_need: bool,
    /// The number of entries after which a listing returns to its first entry.
    pub circle: u64,
    clients: Vec<u64>,
    sessions: HashMap<SessionId, HashMap<u32, (u32, Vec<u8>)>>,
    connections: usize,
    made: u64,
    held: Vec<(usize, Vec<u8>)>,
    senders: HashMap<usize, tokio::sync::mpsc::UnboundedSender<Vec<u8>>>,
    /// Whether it answers no sign of life any more.
    pub is_mute: bool,
    /// The number of requests for a sign of life.
    pub nulls: usize,
    /// Whether it ends every new connection.
    pub is_dead: bool,
    /// Messages of the client that are not calls.
    pub replies: Vec<Vec<u8>>,
}

/// The server of a test.
#[derive(Clone)]
pub struct NfsTestServer {
    pub address: SocketAddr,
    state: Arc<Mutex<ScriptedState>>,
}

const DELEGATION: StateId = StateId { seqid: 1, other: [4; 12] };

/// The treatment of a COMPOUND.
enum Fate {
    Answer(Vec<u8>),
    Hold(Vec<u8>),
    Nothing,
    Cut,
}

impl NfsTestServer {
    pub async fn start() -> NfsTestServer {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = NfsTestServer { address, state: Arc::default() };
        {
            let mut state = server.state();
            (state.slots, state.operations, state.lease_s) = (64, 64, 90);
            state.scope = b"peer";
        }
        let accepting = server.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                if accepting.state().is_dead {
                    continue;
                }
                let serving = accepting.clone();
                tokio::spawn(async move { serving.serve(stream).await });
            }
        });
        server
    }

    pub fn state(&self) -> MutexGuard<'_, ScriptedState> {
        self.state.lock().unwrap()
    }

    pub fn play(&self, trick: Trick) {
        self.state().tricks.push_back(trick);
    }

    /// The received COMPOUNDs with this operation.
    pub fn seen(&self, operation: OpNum) -> Vec<RecordedCompound> {
        self.state().seen.iter().filter(|it| it.operations.contains(&operation)).cloned().collect()
    }

    /// The number of times that `operation` was carried out.
    pub fn done(&self, operation: OpNum) -> usize {
        self.state().done.get(&operation).copied().unwrap_or(0)
    }

    /// Sends the held replies.
    pub fn release(&self) {
        let mut state = self.state();
        for (connection, reply) in std::mem::take(&mut state.held) {
            let _gone = state.senders[&connection].send(reply);
        }
    }

    /// The number of held replies.
    pub fn held(&self) -> usize {
        self.state().held.len()
    }

    /// Recalls the delegation over the first connection.
    pub fn recall(&self, sequenceid: u32, file: &[u8]) {
        let state = self.state();
        let sessionid = *state.sessions.keys().next().unwrap();
        let target = Target::Client { program: 0x4000_0000, callback_ident: 0 };
        let mut writer = CallWriter::begin(Frame::with_capacity(256), target, 77, &Credential::None, b"", 1);
        writer.push(&callback::Args::Sequence(callback::SequenceArgs {
            sessionid,
            sequenceid,
            slotid: 0,
            highest_slotid: 0,
            cachethis: false,
            referring_call_lists: nfs_wire::xdr::List::EMPTY,
        }));
        let fh = FileHandle(file);
        writer.push(&callback::Args::Recall(callback::RecallArgs {
            stateid: DELEGATION,
            truncate: false,
            fh,
        }));
        state.senders[&0].send(writer.finish().bytes().to_vec()).unwrap();
    }

    async fn serve(&self, mut stream: TcpStream) {
        let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
        let connection = {
            let mut state = self.state();
            let connection = state.connections;
            state.connections += 1;
            state.senders.insert(connection, sender);
            connection
        };
        let (mut assembler, mut held) = (Assembler::new(8 << 20), Vec::new());
        loop {
            let mut part = vec![0; 65536];
            tokio::select! {
                count = stream.read(&mut part) => match count {
                    Ok(count) if count > 0 => held.extend_from_slice(&part[..count]),
                    _ => return,
                },
                Some(message) = receiver.recv() => stream.write_all(&message).await.unwrap(),
            }
            while let Some(message) = assembler.take(&mut held).unwrap() {
                match self.answer(connection, &message) {
                    Some(Fate::Answer(reply)) => {
                        let reply = if self.state().fragments { in_fragments(&reply) } else { reply };
                        if stream.write_all(&reply).await.is_err() {
                            return;
                        }
                    }
                    Some(Fate::Hold(reply)) => self.state().held.push((connection, reply)),
                    Some(Fate::Nothing) => {}
                    Some(Fate::Cut) => return,
                    None => self.state().replies.push(message),
                }
            }
        }
    }

    fn answer(&self, connection: usize, message: &[u8]) -> Option<Fate> {
        let Message::Call(call) = Message::parse(message).unwrap() else { return None };
        let call = call.unwrap();
        if call.procedure == PROC_NULL {
            let mut state = self.state();
            state.nulls += 1;
            let mut reply = vec![0; MARK];
            RpcReply::accepted(call.xid, Accepted::Success(&[])).write(&mut reply);
            let mark = RecordMark::whole(reply.len() - MARK);
            reply[..MARK].copy_from_slice(&mark);
            return Some(if state.is_mute { Fate::Nothing } else { Fate::Answer(reply) });
        }
        let compound = CompoundArgs::parse(call.body).unwrap();
        assert_eq!(compound.minorversion, 1);
        let operations: Vec<Args<'_>> = compound.operations().map(Result::unwrap).collect();
        let mut state = self.state();
        let trick = state.tricks.front().copied();
        let trick = trick.filter(|it| operations.iter().any(|args| args.number() == it.operation()));
        if trick.is_some() {
            state.tricks.pop_front();
        }
        let slot = match operations.first() {
            Some(Args::Sequence(args)) => Some((args.slotid, args.sequenceid)),
            _ => None,
        };
        let numbers = operations.iter().map(Args::number).filter(|it| *it != OpNum::Sequence).collect();
        state.seen.push(RecordedCompound { connection, slot, operations: numbers, again: false });
        match trick {
            Some(Trick::CutBefore(_)) => return Some(Fate::Cut),
            Some(Trick::ForgetSessions(_)) => state.sessions.clear(),
            Some(Trick::ForgetClients(_)) => {
                state.sessions.clear();
                state.clients.clear();
                state.restart();
            }
            Some(Trick::Restart(_)) => state.restart(),
            _ => {}
        }
        let reply = state.compound(call.xid, &operations, trick);
        Some(match trick {
            Some(Trick::CutAfter(_)) => Fate::Cut,
            Some(Trick::Hold(_)) => Fate::Hold(reply),
            _ => Fate::Answer(reply),
        })
    }
}

impl ScriptedState {
    fn restart(&mut self) {
        self.restarts += 1;
        self.in_grace = true;
    }

    /// The reply to an OPEN by `owner`.
    fn stateid(&self, owner: &[u8]) -> StateId {
        let mut other = [3; 12];
        other[0] = self.restarts;
        other[1..5].copy_from_slice(owner);
        StateId { seqid: 1, other }
    }

    /// Whether a stateid was issued after the last restart.
    fn is_valid(&self, stateid: StateId) -> bool {
        stateid == StateId::CURRENT || stateid.seqid <= 1 && stateid.other[0] == self.restarts
    }

    fn open(&mut self, args: &open::Args<'_>, writer: &mut ReplyWriter) -> NfsStat {
        // RFC 8881 8.4.2.1
        match args.claim {
            Claim::Previous(DelegationType::None) if self.in_grace => {
                self.claimed.push((args.owner.owner.0.to_vec(), args.share_access));
            }
            Claim::Previous(_) => return NfsStat::NoGrace,
            _ if self.in_grace => return NfsStat::Grace,
            _ => {}
        }
        let permissions = attr::Ace {
            ace_type: attr::AceType::Allowed,
            flag: attr::AceFlags::empty(),
            access_mask: attr::AceMask::empty(),
            who: b"EVERYONE@",
        };
        let read = ReadDelegation { stateid: DELEGATION, recall: false, permissions };
        let is_wanted = !args.share_access.contains(ShareAccess::WANT_NO_DELEG);
        let delegation = if self.delegates && is_wanted { Delegation::Read(read) } else { Delegation::None };
        let stateid = self.stateid(args.owner.owner.0);
        let cinfo = ChangeInfo { atomic: true, before: 1, after: 2 };
        let rflags = ResultFlags::empty();
        let opened = open::ResOk { stateid, cinfo, rflags, attrset: Bitmap::EMPTY, delegation };
        writer.put(OpNum::Open, &Ok::<_, NfsStat>(opened));
        NfsStat::Ok
    }

    fn compound(&mut self, xid: u32, operations: &[Args<'_>], trick: Option<Trick>) -> Vec<u8> {
        let mut writer = ReplyWriter::begin(Frame::with_capacity(1024), xid, b"");
        let mut status = NfsStat::Ok;
        let mut slot = None;
        if self.is_old {
            return writer.finish(NfsStat::MinorVersMismatch).bytes().to_vec();
        }
        for operation in operations {
            status = match (trick, operation) {
                (Some(Trick::Refuse(number, status)), _) if number == operation.number() => status,
                (_, Args::Sequence(_)) if operations.len() > self.operations => NfsStat::TooManyOps,
                (_, Args::Sequence(args)) => match self.sequence(args) {
                    Ok(Some(mut reply)) => {
                        self.seen.last_mut().unwrap().again = true;
                        reply[4..8].copy_from_slice(&xid.to_be_bytes());
                        return reply;
                    }
                    Ok(None) => {
                        slot = Some(*args);
                        writer.put(OpNum::Sequence, &Ok::<_, NfsStat>(self.sequenced(args)));
                        continue;
                    }
                    Err(status) => status,
                },
                _ => self.operation(operation, &mut writer),
            };
            if !status.is_ok() {
                writer.put_status(operation.number(), status);
                break;
            }
            *self.done.entry(operation.number()).or_default() += 1;
        }
        let reply = writer.finish(status).bytes().to_vec();
        if let Some(args) = slot
            && let Some(session) = self.sessions.get_mut(&args.sessionid)
        {
            session.insert(args.slotid, (args.sequenceid, reply.clone()));
        }
        reply
    }

    fn sequenced(&self, args: &sequence::Args) -> sequence::ResOk {
        let needed = StatusFlags::RESTART_RECLAIM_NEEDED;
        sequence::ResOk {
            sessionid: args.sessionid,
            sequenceid: args.sequenceid,
            slotid: args.slotid,
            highest_slotid: self.slots - 1,
            target_highest_slotid: self.slots - 1,
            status_flags: if self.in_grace || self.is_always_in_need { needed } else { StatusFlags::empty() },
        }
    }

    /// The reply in the cache, if this is a retry (RFC 8881 2.10.6.1).
    fn sequence(&mut self, args: &sequence::Args) -> Result<Option<Vec<u8>>, NfsStat> {
        let session = self.sessions.get(&args.sessionid).ok_or(NfsStat::BadSession)?;
        if args.slotid >= self.slots || args.highest_slotid >= self.slots {
            return Err(NfsStat::BadSlot);
        }
        let (last, reply) = session.get(&args.slotid).map_or((0, None), |(last, reply)| (*last, Some(reply)));
        match args.sequenceid {
            number if number == last + 1 => Ok(None),
            number if number == last => Ok(reply.cloned()),
            _ => Err(NfsStat::SeqMisordered),
        }
    }

    /// Appends the result of an operation that succeeded. Returns the status of one that did not.
    fn operation(&mut self, operation: &Args<'_>, writer: &mut ReplyWriter) -> NfsStat {
        match operation {
            Args::ExchangeId(_) => {
                self.made += 1;
                self.clients.push(self.made);
                let made = exchange_id::ResOk {
                    clientid: self.made,
                    sequenceid: 1,
                    flags: ExchangeFlags::USE_NON_PNFS,
                    state_protect: StateProtectRes::None,
                    server_owner: ServerOwner { minor_id: 0, major_id: Identity(b"peer") },
                    server_scope: Identity(self.scope),
                    server_impl_id: None,
                };
                writer.put(OpNum::ExchangeId, &Ok::<_, NfsStat>(made));
            }
            Args::CreateSession(args) => {
                if !self.clients.contains(&args.clientid) {
                    return NfsStat::StaleClientId;
                }
                self.made += 1;
                let mut sessionid = [0; 16];
                sessionid[..8].copy_from_slice(&self.made.to_be_bytes());
                self.sessions.insert(sessionid, HashMap::new());
                let mut fore_chan_attrs = args.fore_chan_attrs;
                fore_chan_attrs.maxrequests = fore_chan_attrs.maxrequests.min(self.slots);
                fore_chan_attrs.maxoperations = fore_chan_attrs.maxoperations.min(self.operations as u32);
                let made = create_session::ResOk {
                    sessionid,
                    sequence: args.sequence,
                    flags: args.flags & SessionFlags::CONN_BACK_CHAN,
                    fore_chan_attrs,
                    back_chan_attrs: args.back_chan_attrs,
                };
                writer.put(OpNum::CreateSession, &Ok::<_, NfsStat>(made));
            }
            Args::BindConnToSession(args) => {
                let (sessid, dir) = (args.sessid, FromServer::Both);
                let bound = bind_conn_to_session::ResOk { sessid, dir, use_conn_in_rdma_mode: false };
                writer.put(OpNum::BindConnToSession, &Ok::<_, NfsStat>(bound));
            }
            Args::DestroySession(args) => {
                if self.sessions.remove(&args.sessionid).is_none() {
                    return NfsStat::BadSession;
                }
                writer.put_status(OpNum::DestroySession, NfsStat::Ok);
            }
            _ => return self.on_file(operation, writer),
        }
        NfsStat::Ok
    }

    /// Does the same for operations on the directory and its file.
    fn on_file(&mut self, operation: &Args<'_>, writer: &mut ReplyWriter) -> NfsStat {
        let cinfo = ChangeInfo { atomic: true, before: 1, after: 2 };
        match operation {
            Args::GetFh => {
                writer
                    .put(OpNum::GetFh, &Ok::<_, NfsStat>(filehandle::GetResOk { object: FileHandle(b"fh") }));
            }
            Args::GetAttr(args) => {
                attributes(args.attr_request, self.content.len() as u64, self.lease_s, writer);
            }
            Args::ReadDir(args) if self.circle > 0 => {
                let out = writer.begin_result(OpNum::ReadDir, NfsStat::Ok);
                let mut entries = EntriesWriter::begin(out, [0; 8], 4096).expect("there is room");
                entries.entry(args.cookie % self.circle + 1, b"name", args.attr_request, |attributes| {
                    for attribute in [Attr::Type(FileType::Reg), Attr::Change(1), Attr::Size(0)] {
                        attributes.put(&attribute);
                    }
                });
                entries.finish(false);
            }
            Args::Rename(_) => {
                let renamed = names::RenameResOk { source_cinfo: cinfo, target_cinfo: cinfo };
                writer.put(OpNum::Rename, &Ok::<_, NfsStat>(renamed));
            }
            Args::Remove(_) => writer.put(OpNum::Remove, &Ok::<_, NfsStat>(names::Changed { cinfo })),
            Args::ReclaimComplete(_) => {
                self.in_grace = false;
                writer.put_status(OpNum::ReclaimComplete, NfsStat::Ok);
            }
            Args::Open(args) => return self.open(args, writer),
            Args::Read(read::Args { stateid, .. }) | Args::Write(write::Args { stateid, .. })
                if !self.is_valid(*stateid) =>
            {
                return NfsStat::BadStateId;
            }
            Args::Close(args) if self.is_valid(args.open_stateid) => {
                writer.put(OpNum::Close, &Ok::<_, NfsStat>(close::ResOk { open_stateid: StateId::INVALID }));
            }
            Args::Close(_) => return NfsStat::BadStateId,
            Args::Commit(_) => {
                let done = commit::ResOk { writeverf: [self.restarts + 1; 8] };
                writer.put(OpNum::Commit, &Ok::<_, NfsStat>(done));
            }
            Args::Read(args) => {
                let from = (args.offset as usize).min(self.content.len());
                let to = (from + args.count as usize).min(self.content.len());
                let got = read::ResOk { eof: to == self.content.len(), data: &self.content[from..to] };
                writer.put(OpNum::Read, &Ok::<_, NfsStat>(got));
            }
            Args::Write(args) => {
                let end = args.offset as usize + args.data.len();
                self.content.resize(self.content.len().max(end), 0);
                self.content[args.offset as usize..end].copy_from_slice(args.data);
                let count = args.data.len() as u32;
                self.stable.push(args.stable);
                let committed = self.committed.unwrap_or(StableHow::FileSync);
                let done = write::ResOk { count, committed, writeverf: [self.restarts + 1; 8] };
                writer.put(OpNum::Write, &Ok::<_, NfsStat>(done));
            }
            other => writer.put_status(other.number(), NfsStat::Ok),
        }
        NfsStat::Ok
    }
}

fn attributes(wanted: Bitmap, size: u64, lease_s: u32, writer: &mut ReplyWriter) {
    let out = writer.begin_result(OpNum::GetAttr, NfsStat::Ok);
    let mut attributes = AttrWriter::begin(out, wanted);
    for attribute in [Attr::Type(FileType::Dir), Attr::Change(1), Attr::Size(size), Attr::LeaseTime(lease_s)]
    {
        attributes.put(&attribute);
    }
    attributes.finish();
}

/// The same message in fragments of growing length (RFC 5531 11).
fn in_fragments(reply: &[u8]) -> Vec<u8> {
    let (mut rest, mut out) = (&reply[MARK..], Vec::new());
    let mut length = 1;
    while !rest.is_empty() {
        let (fragment, behind) = rest.split_at(length.min(rest.len()));
        let mut mark = RecordMark::whole(fragment.len());
        if !behind.is_empty() {
            mark[0] &= 0x7f;
        }
        out.extend_from_slice(&mark);
        out.extend_from_slice(fragment);
        (rest, length) = (behind, length * 3);
    }
    out
}
