//! Counts each operation when it ends, and gathers the details of an operation that is recorded. The details
//! come from memory only; nothing is looked up for them. Operations that are not recorded gather none.

use nfs_wire::NfsStat;
use nfs_wire::op::lock::Locker;
use nfs_wire::op::open::Claim;
use nfs_wire::op::{Args, OpNum};
use nfs_wire::types::StateId;
use share::counts::{CompletedTransaction, Sampled, path_text, range_text};
use share::limits::ResponseType;

use super::Run;
use crate::compound::transactions::{CountedOperation, Sample};
use crate::config::Export;
use crate::counting::OPERATIONS;

impl Run {
    /// Counts an operation that ended with the current status of the COMPOUND. `ingress` and `egress` are the
    /// bytes of its arguments and of its result.
    pub(crate) fn note(&mut self, number: OpNum, args: Option<&Args<'_>>, ingress: usize, egress: usize) {
        let export = self.current.as_ref().and_then(|current| current.export());
        let share = export.map_or(0, |export| export.engine.number());
        let met = self.throttle.take_met();
        let kind = self.transactions.kind(number);
        let response = response(self.status, met);
        let data = std::mem::take(&mut self.transactions.data);
        let known = usize::try_from(number.get()).is_ok_and(|number| number < OPERATIONS);
        let noted = CompletedTransaction {
            operation: if known { number.get() as u8 } else { 0 },
            authentication: self.transactions.authentication,
            kind,
            response,
            ingress: ingress as u64,
            egress: egress as u64,
            data: if response.is_success() { data as u64 } else { 0 },
        };
        let at = self.transactions.done.len() as u64;
        let sampled = self.transactions.sampled.filter(|sampled| sampled.takes(at));
        let sample = sampled.map(|sampled| self.sample(sampled, args));
        self.transactions.done.push(CountedOperation { share, noted, status: self.status, sample });
    }

    /// Gathers the details of an operation for its record. `args` is none if they could not be read.
    #[cold]
    fn sample(&self, sampled: Sampled, args: Option<&Args<'_>>) -> Box<Sample> {
        let version = if self.minor == 2 { "4.2" } else { "4.1" };
        let mut sample = Box::new(Sample { version: Some(version), ..Sample::default() });
        if let (Some(serving), Some(session)) = (&self.serving, &self.session) {
            sample.words.push(("nfsSessionID", hex(&session.id)));
            sample.numbers.push(("nfsSlotID", serving.slot.into()));
            sample.numbers.push(("nfsSequenceID", serving.sequence.into()));
        }
        let stateid = args.and_then(|args| self.stateid_of(args));
        if let Some(id) = stateid {
            sample.words.push(("nfsStateID", format!("{}:{}", id.seqid, hex(&id.other))));
        }
        self.sample_place(&mut sample, sampled, stateid);
        let detail = args.and_then(|args| detail(args, sampled.with_paths));
        sample.words.extend(detail.map(|detail| ("nfsOperationDetail", detail)));
        sample
    }

    /// NFS4ERR_ADMIN_REVOKED, if an administrator has revoked the state while an operation used it. The
    /// operation then met a closed open.
    // RFC 8881 8.5
    #[cold]
    pub(super) fn revoked_meanwhile(&self, args: &Args<'_>, status: NfsStat) -> Option<NfsStat> {
        let saved = |id| if id == StateId::CURRENT { self.saved_stateid } else { Some(id) };
        let (named, source) = match args {
            Args::Lock(it) if matches!(status, NfsStat::Stale | NfsStat::BadStateId) => match &it.locker {
                Locker::Existing(known) => (Some(known.lock_stateid), None),
                Locker::New(new) => (Some(new.open_stateid), None),
            },
            _ if status != NfsStat::Stale => return None,
            Args::Copy(it) => (self.stateid_of(args), saved(it.src_stateid)),
            Args::Clone(it) => (self.stateid_of(args), saved(it.src_stateid)),
            _ => (self.stateid_of(args), None),
        };
        let client = self.session.as_ref()?.client.id;
        let mut ids = named.into_iter().chain(source);
        ids.any(|id| self.server.is_admin_revoked(client, &id)).then_some(NfsStat::AdminRevoked)
    }

    /// The stateid that an operation named or returned.
    fn stateid_of(&self, args: &Args<'_>) -> Option<StateId> {
        let named = match args {
            Args::Read(it) => it.stateid,
            Args::ReadPlus(it) => it.stateid,
            Args::Write(it) => it.stateid,
            Args::SetAttr(it) => it.stateid,
            Args::Allocate(it) | Args::Deallocate(it) => it.stateid,
            Args::Seek(it) => it.stateid,
            Args::Copy(it) => it.dst_stateid,
            Args::Clone(it) => it.dst_stateid,
            Args::Close(it) => it.open_stateid,
            Args::OpenDowngrade(it) => it.open_stateid,
            Args::LockU(it) => it.lock_stateid,
            Args::DelegReturn(it) => it.deleg_stateid,
            Args::FreeStateId(it) => it.stateid,
            Args::Open(_) | Args::Lock(_) if self.status.is_ok() => StateId::CURRENT,
            _ => return None,
        };
        if named == StateId::CURRENT { self.stateid } else { Some(named) }
    }

    /// Adds the current filehandle, its file and its path.
    fn sample_place(&self, sample: &mut Sample, sampled: Sampled, stateid: Option<StateId>) {
        let Some(current) = &self.current else { return };
        let handle = current.known_handle();
        if let Some(handle) = handle {
            sample.words.push(("nfsFileHandle", hex(handle.bytes())));
        }
        let client = self.session.as_ref().map(|session| session.client.id);
        let state = stateid.zip(client).and_then(|(id, client)| self.server.live_state(client, &id.other));
        let open = state.as_ref().map(|state| state.holding());
        let item = current.known_item().or_else(|| self.server.known_item(handle?));
        let node = open.as_ref().map(|holding| holding.open.node_id()).or_else(|| Some(item.as_ref()?.id()));
        sample.numbers.extend(node.map(|node| ("nfsFileId", node.inode)));
        if sampled.with_paths {
            let of_open = |export: &Export, open: &share::Open| export.engine.path_of(open);
            let path = match (current.export(), &open) {
                (Some(export), Some(holding)) => Some(of_open(export, &holding.open)),
                _ => item.and_then(|item| item.path()),
            };
            sample.path = path.map(|path| path_text(&path, None));
        }
    }
}

/// The response type of an operation with this status that had met this limit before.
fn response(status: NfsStat, met: ResponseType) -> ResponseType {
    match status {
        NfsStat::Ok => met,
        NfsStat::Access | NfsStat::Perm | NfsStat::RoFs => ResponseType::AuthorizationError,
        NfsStat::WrongSec | NfsStat::BadSession | NfsStat::StaleClientId => ResponseType::AuthenticationError,
        NfsStat::Io | NfsStat::ServerFault => ResponseType::ServerOtherError,
        _ => ResponseType::ClientOtherError,
    }
}

/// A text that describes the arguments, except those with a field of their own.
fn detail(args: &Args<'_>, with_names: bool) -> Option<String> {
    let name = |name: &[u8]| with_names.then(|| String::from_utf8_lossy(name).into_owned());
    Some(match args {
        Args::Read(it) => range_text(it.count.into(), it.offset),
        Args::ReadPlus(it) => range_text(it.count.into(), it.offset),
        Args::Write(it) => format!("{}, {:?}", range_text(it.data.len() as u64, it.offset), it.stable),
        Args::Commit(it) => range_text(it.count.into(), it.offset),
        Args::Allocate(it) | Args::Deallocate(it) => range_text(it.length, it.offset),
        Args::Lock(it) => format!("{:?}, {}", it.locktype, range_text(it.length, it.offset)),
        Args::LockT(it) => format!("{:?}, {}", it.locktype, range_text(it.length, it.offset)),
        Args::LockU(it) => range_text(it.length, it.offset),
        Args::Copy(it) => format!("{} from offset {:#x}", range_text(it.count, it.dst_offset), it.src_offset),
        Args::Clone(it) => {
            format!("{} from offset {:#x}", range_text(it.count, it.dst_offset), it.src_offset)
        }
        Args::Seek(it) => format!("{:?} from offset {:#x}", it.what, it.offset),
        Args::Lookup(it) => name(it.objname)?,
        Args::Remove(it) => name(it.target)?,
        Args::Create(it) => name(it.objname)?,
        Args::Link(it) => name(it.newname)?,
        Args::Rename(it) => format!("{} to {}", name(it.oldname)?, name(it.newname)?),
        Args::Open(it) => {
            let bits = format!("access {:#x}, deny {:#x}", it.share_access.bits(), it.share_deny.bits());
            match it.claim {
                Claim::Null(file) => name(file).map_or(bits.clone(), |file| format!("{bits}, {file}")),
                _ => bits,
            }
        }
        _ => return None,
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
