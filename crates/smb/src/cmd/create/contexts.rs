//! The contexts of CREATE: what is asked beside the fixed fields, and what is answered (MS-SMB2 3.3.5.9.1
//! to 3.3.5.9.14).

use share::{Attributes, CacheKey, Caching, CachingRequest, Grant, Info};
use smb_wire::create::{self, Access, CreateAction, OplockLevel, ResponseFlags};
use smb_wire::create_context::{
    Contexts, Lease, LeaseFlags, LeaseState, LeaseV2, RequestContext, ResponseContext, aapl,
};
use smb_wire::fscc::ea;
use smb_wire::id::LeaseKey;
use smb_wire::negotiate::{Capabilities, Dialect};
use smb_wire::{FileId, NtStatus, Utf16, utf16};
use volume::security::Descriptor;

use super::durability::Durability;
use crate::connection::Negotiated;
use crate::exchange::{Handled, Stop};
use crate::info::Shown;
use crate::info::numbers::Numbers;
use crate::info::posix::Owners;
use crate::state::Open;
use crate::state::durable::{Durable, Instance};
use crate::state::open::oplock_key;

/// What Linux sends where it has no mode: with `idsfromsid` alone, and with the empty file of which it makes a link.
const NO_MODE: u32 = 0o7777;

/// What the contexts of a request ask.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    pub extended: Vec<(Vec<u8>, Vec<u8>)>,
    pub descriptor: Option<Descriptor>,
    pub allocation: u64,
    /// The lease, if one can be had.
    pub lease: Option<Lease>,
    /// The lease as it was sent, whatever the request's other fields say.
    pub lease_context: Option<Lease>,
    pub durability: Durability,
    /// The instance of an application that opens.
    pub instance: Option<Instance>,
    pub posix_mode: Option<u32>,
    /// The client speaks the POSIX extensions.
    pub posix: bool,
    /// The client takes Opens that outlive the server.
    pub capabilities: Capabilities,
    /// What the descriptor said by number.
    pub numbers: Numbers,
    maximal_access: bool,
    on_disk_id: bool,
    aapl: Option<aapl::Request>,
}

impl Asked {
    /// Reads the contexts of a request.
    pub fn read(negotiated: &Negotiated, request: &create::Request<'_>) -> Result<Asked, Stop> {
        let (posix, capabilities) = (negotiated.posix, negotiated.capabilities);
        let mut asked = Asked { posix, capabilities, ..Asked::default() };
        let dialect = negotiated.protection.dialect;
        let (mut instance, mut version) = (None, None);
        for context in request.contexts.requests() {
            match context? {
                RequestContext::EaBuffer(data) => {
                    for ea in ea::read_list(data) {
                        let ea = ea.map_err(|_| NtStatus::INVALID_EA_NAME)?;
                        asked.extended.push((ea.name.to_vec(), ea.value.to_vec()));
                    }
                }
                RequestContext::SdBuffer(data) => {
                    let parsed = Descriptor::parse(data);
                    asked.take_descriptor(parsed.map_err(|_| NtStatus::INVALID_PARAMETER)?);
                }
                RequestContext::AllocationSize(bytes) => asked.allocation = bytes,
                RequestContext::QueryMaximalAccess(_) => asked.maximal_access = true,
                // MS-SMB2 3.3.5.9.4: no earlier versions are kept.
                RequestContext::TimewarpToken(0) => {}
                RequestContext::TimewarpToken(_) => return Err(Stop::Fail(NtStatus::OBJECT_NAME_NOT_FOUND)),
                RequestContext::QueryOnDiskId => asked.on_disk_id = true,
                RequestContext::Lease(lease) => {
                    asked.lease_context = Some(lease);
                    asked.lease = usable(lease, negotiated, request);
                }
                RequestContext::Posix { mode } if negotiated.posix => asked.posix_mode = Some(mode & 0o7777),
                RequestContext::Aapl(query) => asked.aapl = Some(query),
                durable @ (RequestContext::DurableHandleRequest
                | RequestContext::DurableHandleReconnect(_)
                | RequestContext::DurableHandleRequestV2 { .. }
                | RequestContext::DurableHandleReconnectV2 { .. }) => {
                    asked.durability.take(&durable, dialect.is_smb3());
                }
                RequestContext::AppInstanceId(id) => instance = Some(id),
                RequestContext::AppInstanceVersion { high, low } => version = Some((high, low)),
                RequestContext::SvhdxOpenDevice(_)
                | RequestContext::Posix { .. }
                | RequestContext::Unknown(_) => {}
            }
        }
        asked.durability.check()?;
        // MS-SMB2 3.3.5.9.13: dialect 3.0 knows instances, 3.1.1 orders them.
        let version = version.filter(|_| dialect == Dialect::Smb311);
        asked.instance = instance.filter(|_| dialect.is_smb3()).map(|id| Instance { id, version });
        Ok(asked)
    }

    fn take_descriptor(&mut self, mut given: Descriptor) {
        self.numbers = Numbers::take(&mut given);
        let is_empty =
            given.owner.is_none() && given.group.is_none() && given.dacl.is_none() && given.sacl.is_none();
        self.descriptor = (self.numbers.is_none() || !is_empty).then_some(given);
    }

    /// The mode of what is to be made.
    pub fn mode(&self) -> Option<u32> {
        let sent = |mode: &u32| *mode != NO_MODE;
        self.numbers.mode.filter(sent).or(self.posix_mode.filter(sent))
    }

    /// Whether the client asks what the server can do for macOS.
    pub fn is_of_macos(&self) -> bool {
        matches!(self.aapl, Some(aapl::Request::ServerQuery { .. }))
    }

    /// The caching right that is asked for over the connection `via`, as the engine has it.
    pub fn caching(&self, request: &create::Request<'_>, id: FileId, via: u64) -> Option<CachingRequest> {
        if let Some(lease) = &self.lease {
            return Some(CachingRequest {
                key: CacheKey(u128::from_le_bytes(lease.key.0)),
                want: Caching::from_bits_truncate(lease.state.bits() as u8),
                keyed: true,
                parent: lease
                    .v2
                    .filter(|_| lease.flags.contains(LeaseFlags::PARENT_LEASE_KEY_SET))
                    .map(|v2| CacheKey(u128::from_le_bytes(v2.parent_key.0))),
                epoch: lease.v2.map(|v2| v2.epoch),
                whole: false,
                via,
            });
        }
        // MS-SMB2 3.3.5.9
        let want = match request.requested_oplock_level {
            OplockLevel::LevelII => Caching::READ,
            OplockLevel::Exclusive => Caching::READ | Caching::WRITE,
            OplockLevel::Batch => Caching::all(),
            OplockLevel::None | OplockLevel::Lease | OplockLevel::Unknown(_) => return None,
        };
        Some(CachingRequest {
            key: oplock_key(id),
            want,
            keyed: false,
            parent: None,
            epoch: None,
            whole: false,
            via,
        })
    }
}

/// The oplock level that is answered for what was granted.
pub(crate) fn level(lease: Option<Lease>, granted: Option<Grant>) -> OplockLevel {
    match granted.map(|grant| grant.state) {
        _ if lease.is_some() => OplockLevel::Lease,
        Some(state) if state.contains(Caching::WRITE | Caching::HANDLE) => OplockLevel::Batch,
        Some(state) if state.contains(Caching::WRITE) => OplockLevel::Exclusive,
        Some(state) if state.contains(Caching::READ) => OplockLevel::LevelII,
        _ => OplockLevel::None,
    }
}

/// The lease that a request may have: dialect 2.1 knows the first version, a directory needs the second.
fn usable(lease: Lease, negotiated: &Negotiated, request: &create::Request<'_>) -> Option<Lease> {
    let dialect = negotiated.protection.dialect;
    // MS-SMB2 3.3.5.9.8, 3.3.5.9.11
    let known = dialect.is_smb3() || (dialect == Dialect::Smb210 && lease.v2.is_none());
    (known && request.requested_oplock_level == OplockLevel::Lease).then_some(lease)
}

/// The lease as it is now. Its version and its parent are those of the request that made it, whatever
/// this one has.
// MS-SMB2 3.3.5.9.8
// MS-SMB2 3.3.5.9.11
fn granted_lease(asked: Lease, granted: Option<Grant>) -> Lease {
    let Some(grant) = granted else {
        return Lease { state: LeaseState::empty(), flags: LeaseFlags::empty(), ..asked };
    };
    let mut flags = LeaseFlags::empty();
    flags.set(LeaseFlags::BREAK_IN_PROGRESS, grant.breaking.is_some());
    let v2 = grant.epoch.map(|epoch| {
        flags.set(LeaseFlags::PARENT_LEASE_KEY_SET, grant.parent.is_some());
        LeaseV2 { parent_key: LeaseKey(grant.parent.map_or([0; 16], |key| key.0.to_le_bytes())), epoch }
    });
    Lease { key: asked.key, state: LeaseState::from_bits_retain(u32::from(grant.state.bits())), flags, v2 }
}

/// What macOS is told that the server can do. OSX_COPYFILE is not among it: a client that is told so sends a COPYCHUNK without
/// chunks, and takes SUCCESS for a whole copy with streams and attributes.
const AAPL_SERVER_CAPS: aapl::ServerCaps = aapl::ServerCaps::UNIX_BASED;

/// What the answer to a CREATE is made of.
pub(super) struct Response {
    pub info: Info,
    pub action: CreateAction,
    pub oplock_level: OplockLevel,
    pub lease: Option<Lease>,
    pub granted: Option<Grant>,
    /// What is said of the Open being durable.
    pub durable: Option<Durable>,
}

impl Response {
    /// Appends it for this Open, with the contexts that were asked for.
    // MS-SMB2 3.3.5.9
    pub fn write(&self, open: &Open, asked: &Asked, body: &mut Vec<u8>) -> Handled {
        let (engine, file) = open.file().ok_or(NtStatus::FILE_CLOSED)?;
        let info = &self.info;
        let owners = asked.posix_mode.map(|_| Owners::of(info, engine));
        let model = utf16::encode("Trunkline");
        let mut list: Vec<ResponseContext<'_>> = Vec::new();
        if asked.maximal_access {
            let (query_status, access) = match engine.maximal(file) {
                Ok(rights) => (NtStatus::SUCCESS, Access::from_bits_retain(rights.bits())),
                Err(refusal) => (crate::status::of(&refusal), Access::empty()),
            };
            list.push(ResponseContext::MaximalAccess { query_status, access });
        }
        if asked.on_disk_id {
            let volume_id = engine.volume().properties().serial;
            list.push(ResponseContext::OnDiskId { disk_file_id: info.number(), volume_id });
        }
        list.extend(self.lease.map(|lease| ResponseContext::Lease(granted_lease(lease, self.granted))));
        list.extend(self.durable.map(super::durability::answer));
        list.extend(owners.as_ref().map(|owners| ResponseContext::Posix(owners.answer(info))));
        if let Some(aapl::Request::ServerQuery { bitmap, .. }) = asked.aapl {
            let mut volume_caps = aapl::VolumeCaps::FULL_SYNC;
            volume_caps.set(aapl::VolumeCaps::CASE_SENSITIVE, engine.config().case_sensitive);
            list.push(ResponseContext::Aapl(aapl::Response::ServerQuery {
                server_caps: bitmap.contains(aapl::QueryBitmap::SERVER_CAPS).then_some(AAPL_SERVER_CAPS),
                volume_caps: bitmap.contains(aapl::QueryBitmap::VOLUME_CAPS).then_some(volume_caps),
                model: bitmap.contains(aapl::QueryBitmap::MODEL_INFO).then(|| Utf16::new(&model)).flatten(),
            }));
        }
        let mut flags = ResponseFlags::empty();
        flags.set(ResponseFlags::REPARSEPOINT, info.attributes.contains(Attributes::REPARSE));
        create::Response {
            oplock_level: self.oplock_level,
            flags,
            create_action: self.action,
            info: Shown::of_open(info, file).file_info(),
            file_id: open.id,
            contexts: Contexts::Responses(&list),
        }
        .write(body);
        Ok(NtStatus::SUCCESS)
    }
}
