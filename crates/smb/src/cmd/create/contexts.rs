//! The create contexts of requests and responses (MS-SMB2 3.3.5.9.1 to 3.3.5.9.14).

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
use crate::info::FileMetadata;
use crate::info::numbers::Numbers;
use crate::info::posix::Owners;
use crate::state::Open;
use crate::state::durable::{Durable, Instance};
use crate::state::open::oplock_key;

/// The mode that Linux sends when it has none: with `idsfromsid` alone, and with the empty file that it
/// turns into a link.
const NO_MODE: u32 = 0o7777;

/// The contexts of a request.
#[derive(Debug, Default)]
pub(crate) struct CreateContexts {
    pub extended: Vec<(Vec<u8>, Vec<u8>)>,
    pub descriptor: Option<Descriptor>,
    pub allocation: u64,
    /// The requested lease, if the client may have one.
    pub lease: Option<Lease>,
    /// The lease as it was sent, regardless of the other fields.
    pub lease_context: Option<Lease>,
    pub durability: Durability,
    /// The application instance of the Open.
    pub instance: Option<Instance>,
    pub posix_mode: Option<u32>,
    /// The client uses the POSIX extensions.
    pub posix: bool,
    /// The server's capabilities on the connection. With PERSISTENT_HANDLES the client accepts Opens that
    /// outlive the server.
    pub capabilities: Capabilities,
    /// The numbers in the descriptor.
    pub numbers: Numbers,
    maximal_access: bool,
    on_disk_id: bool,
    aapl: Option<aapl::Request>,
}

impl CreateContexts {
    /// Reads the contexts of a request.
    pub fn read(negotiated: &Negotiated, request: &create::Request<'_>) -> Result<CreateContexts, Stop> {
        let (posix, capabilities) = (negotiated.posix, negotiated.capabilities);
        let mut read = CreateContexts { posix, capabilities, ..CreateContexts::default() };
        let dialect = negotiated.protection.dialect;
        let (mut instance, mut version) = (None, None);
        for context in request.contexts.requests() {
            match context? {
                RequestContext::EaBuffer(data) => {
                    for ea in ea::read_list(data) {
                        let ea = ea.map_err(|_| NtStatus::INVALID_EA_NAME)?;
                        read.extended.push((ea.name.to_vec(), ea.value.to_vec()));
                    }
                }
                RequestContext::SdBuffer(data) => {
                    let parsed = Descriptor::parse(data);
                    read.take_descriptor(parsed.map_err(|_| NtStatus::INVALID_PARAMETER)?);
                }
                RequestContext::AllocationSize(bytes) => read.allocation = bytes,
                RequestContext::QueryMaximalAccess(_) => read.maximal_access = true,
                // MS-SMB2 3.3.5.9.4: the server keeps no earlier versions.
                RequestContext::TimewarpToken(0) => {}
                RequestContext::TimewarpToken(_) => return Err(Stop::Fail(NtStatus::OBJECT_NAME_NOT_FOUND)),
                RequestContext::QueryOnDiskId => read.on_disk_id = true,
                RequestContext::Lease(lease) => {
                    read.lease_context = Some(lease);
                    read.lease = usable(lease, negotiated, request);
                }
                RequestContext::Posix { mode } if negotiated.posix => read.posix_mode = Some(mode & 0o7777),
                RequestContext::Aapl(query) => read.aapl = Some(query),
                durable @ (RequestContext::DurableHandleRequest
                | RequestContext::DurableHandleReconnect(_)
                | RequestContext::DurableHandleRequestV2 { .. }
                | RequestContext::DurableHandleReconnectV2 { .. }) => {
                    read.durability.take(&durable, dialect.is_smb3());
                }
                RequestContext::AppInstanceId(id) => instance = Some(id),
                RequestContext::AppInstanceVersion { high, low } => version = Some((high, low)),
                RequestContext::SvhdxOpenDevice(_)
                | RequestContext::Posix { .. }
                | RequestContext::Unknown(_) => {}
            }
        }
        read.durability.check()?;
        // MS-SMB2 3.3.5.9.13: dialect 3.0 has instances, and 3.1.1 has their versions.
        let version = version.filter(|_| dialect == Dialect::Smb311);
        read.instance = instance.filter(|_| dialect.is_smb3()).map(|id| Instance { id, version });
        Ok(read)
    }

    fn take_descriptor(&mut self, mut given: Descriptor) {
        self.numbers = Numbers::take(&mut given);
        let is_empty =
            given.owner.is_none() && given.group.is_none() && given.dacl.is_none() && given.sacl.is_none();
        self.descriptor = (self.numbers.is_none() || !is_empty).then_some(given);
    }

    /// The mode of a new file or directory.
    pub fn mode(&self) -> Option<u32> {
        let sent = |mode: &u32| *mode != NO_MODE;
        self.numbers.mode.filter(sent).or(self.posix_mode.filter(sent))
    }

    /// Whether the client queries the server's macOS features.
    pub fn is_of_macos(&self) -> bool {
        matches!(self.aapl, Some(aapl::Request::ServerQuery { .. }))
    }

    /// The requested lease or oplock in the engine's form. `via` is the connection of the request.
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

/// The oplock level in the response.
pub(crate) fn level(lease: Option<Lease>, granted: Option<Grant>) -> OplockLevel {
    match granted.map(|grant| grant.state) {
        _ if lease.is_some() => OplockLevel::Lease,
        Some(state) if state.contains(Caching::WRITE | Caching::HANDLE) => OplockLevel::Batch,
        Some(state) if state.contains(Caching::WRITE) => OplockLevel::Exclusive,
        Some(state) if state.contains(Caching::READ) => OplockLevel::LevelII,
        _ => OplockLevel::None,
    }
}

/// The lease that a request may have. Dialect 2.1 has version 1 only, and a directory needs version 2.
fn usable(lease: Lease, negotiated: &Negotiated, request: &create::Request<'_>) -> Option<Lease> {
    let dialect = negotiated.protection.dialect;
    // MS-SMB2 3.3.5.9.8, 3.3.5.9.11
    let known = dialect.is_smb3() || (dialect == Dialect::Smb210 && lease.v2.is_none());
    (known && request.requested_oplock_level == OplockLevel::Lease).then_some(lease)
}

/// The current lease. Its version and its parent come from the request that created it, not from this one.
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

/// The server capabilities for macOS. OSX_COPYFILE is not among them. With it a client sends a COPYCHUNK
/// without chunks, and takes SUCCESS for a complete copy with streams and attributes.
const AAPL_SERVER_CAPS: aapl::ServerCaps = aapl::ServerCaps::UNIX_BASED;

/// The values of the response to a CREATE.
pub(super) struct Response {
    pub info: Info,
    pub action: CreateAction,
    pub oplock_level: OplockLevel,
    pub lease: Option<Lease>,
    pub granted: Option<Grant>,
    /// The durability in the response, if any.
    pub durable: Option<Durable>,
}

impl Response {
    /// Appends the response for this Open, with the requested contexts.
    // MS-SMB2 3.3.5.9
    pub fn write(&self, open: &Open, asked: &CreateContexts, body: &mut Vec<u8>) -> Handled {
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
            info: FileMetadata::of_open(info, file).file_info(),
            file_id: open.id,
            contexts: Contexts::Responses(&list),
        }
        .write(body);
        Ok(NtStatus::SUCCESS)
    }
}
