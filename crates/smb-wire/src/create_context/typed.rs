//! The data of the known create contexts, in both directions.

use super::{Raw, aapl, name};
use crate::create::Access;
use crate::id::{FileId, Guid, LeaseKey};
use crate::macros::wire_flags;
use crate::malformed::Malformed;
use crate::posix;
use crate::reader::FieldReader;
use crate::status::NtStatus;
use wire::Writer;

wire_flags! {
    /// The caching rights of a lease (MS-SMB2 2.2.13.2.8).
    pub struct LeaseState: u32 {
        READ_CACHING = 0x0000_0001,
        HANDLE_CACHING = 0x0000_0002,
        WRITE_CACHING = 0x0000_0004,
    }
}

wire_flags! {
    /// Flags of a lease (MS-SMB2 2.2.13.2.10 and 2.2.14.2.11).
    pub struct LeaseFlags: u32 {
        BREAK_IN_PROGRESS = 0x0000_0002,
        PARENT_LEASE_KEY_SET = 0x0000_0004,
    }
}

wire_flags! {
    /// Flags of a durable handle, version 2 (MS-SMB2 2.2.13.2.11).
    pub struct DurableFlags: u32 {
        PERSISTENT = 0x0000_0002,
    }
}

/// A requested or granted lease (MS-SMB2 2.2.13.2.8, 2.2.13.2.10, 2.2.14.2.10, 2.2.14.2.11).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// The key of the lease.
    pub key: LeaseKey,
    /// The rights.
    pub state: LeaseState,
    /// Its flags. They have no meaning in a request of version 1.
    pub flags: LeaseFlags,
    /// The fields of version 2. If they are present, this is a lease of version 2.
    pub v2: Option<LeaseV2>,
}

/// The fields that version 2 of a lease adds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseV2 {
    /// The lease of the parent directory, if [`LeaseFlags::PARENT_LEASE_KEY_SET`] is set.
    pub parent_key: LeaseKey,
    /// The number of changes of the lease's state.
    pub epoch: u16,
}

impl Lease {
    const V1: usize = 32;
    const V2: usize = 52;

    fn parse(data: &[u8]) -> Result<Self, Malformed> {
        let mut r = sized(data, "SMB2_CREATE_REQUEST_LEASE", &[Self::V1, Self::V2])?;
        let key = LeaseKey(r.array("LeaseKey")?);
        let state = LeaseState::from_bits_retain(r.u32("LeaseState")?);
        let flags = LeaseFlags::from_bits_retain(r.u32("LeaseFlags")?);
        r.skip(8, "LeaseDuration")?;
        let v2 = match data.len() {
            Self::V2 => {
                Some(LeaseV2 { parent_key: LeaseKey(r.array("ParentLeaseKey")?), epoch: r.u16("Epoch")? })
            }
            _ => None,
        };
        Ok(Lease { key, state, flags, v2 })
    }

    fn write(&self, w: &mut Writer<'_>) {
        w.bytes(&self.key.0);
        w.u32_le(self.state.bits());
        w.u32_le(self.flags.bits());
        w.u64_le(0);
        if let Some(v2) = &self.v2 {
            w.bytes(&v2.parent_key.0);
            w.u16_le(v2.epoch);
            w.u16_le(0);
        }
    }
}

/// A create context of a request (MS-SMB2 2.2.13.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestContext<'a> {
    /// A FILE_FULL_EA_INFORMATION list for a new file.
    EaBuffer(&'a [u8]),
    /// A self-relative security descriptor for a new file.
    SdBuffer(&'a [u8]),
    /// Requests a durable Open.
    DurableHandleRequest,
    /// Reconnects to a durable Open.
    DurableHandleReconnect(FileId),
    /// Bytes to allocate for a new or overwritten file.
    AllocationSize(u64),
    /// Requests the maximal access, unless the file's change time is still this FILETIME.
    QueryMaximalAccess(Option<u64>),
    /// Opens the version of this FILETIME.
    TimewarpToken(u64),
    /// Requests an identifier of the file on its volume.
    QueryOnDiskId,
    /// Requests a lease.
    Lease(Lease),
    /// Requests a durable Open, version 2.
    DurableHandleRequestV2 {
        /// How long the Open is kept, in milliseconds. Zero leaves it to the server.
        timeout: u32,
        /// Whether it should be persistent.
        flags: DurableFlags,
        /// The identity of this CREATE for replays.
        create_guid: Guid,
    },
    /// Reconnects to a durable Open, version 2.
    DurableHandleReconnectV2 {
        /// The Open.
        file_id: FileId,
        /// The CREATE that made it.
        create_guid: Guid,
        /// Whether it is persistent.
        flags: DurableFlags,
    },
    /// The id of an application instance. An earlier Open of it from another client is closed.
    AppInstanceId(Guid),
    /// The version of the application instance.
    AppInstanceVersion {
        /// The high half.
        high: u64,
        /// The low half.
        low: u64,
    },
    /// The context of MS-RSVD, recognised but not parsed.
    SvhdxOpenDevice(&'a [u8]),
    /// The POSIX extensions: the mode of a new file.
    Posix {
        /// Permission bits, with set-uid, set-gid and sticky.
        mode: u32,
    },
    /// The extensions of macOS.
    Aapl(aapl::Request),
    /// An unknown context, to be ignored.
    Unknown(Raw<'a>),
}

/// A create context of a response (MS-SMB2 2.2.14.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseContext<'a> {
    /// The Open is durable.
    DurableHandle,
    /// The maximal access.
    MaximalAccess {
        /// Whether `access` is valid.
        query_status: NtStatus,
        /// The access.
        access: Access,
    },
    /// An identifier of the file on its volume.
    OnDiskId {
        /// The file.
        disk_file_id: u64,
        /// The volume.
        volume_id: u64,
    },
    /// The granted lease.
    Lease(Lease),
    /// The Open is durable, version 2.
    DurableHandleV2 {
        /// How long the Open is kept, in milliseconds.
        timeout: u32,
        /// Whether it is persistent.
        flags: DurableFlags,
    },
    /// The POSIX metadata of the file.
    Posix(posix::CreateResponse<'a>),
    /// The extensions of macOS.
    Aapl(aapl::Response<'a>),
    /// An unknown context, to be ignored.
    Unknown(Raw<'a>),
}

/// A reader over `data`. The length must be one of `sizes`.
fn sized<'a>(data: &'a [u8], structure: &'static str, sizes: &[usize]) -> Result<FieldReader<'a>, Malformed> {
    // MS-SMB2 3.3.5.9
    if sizes.contains(&data.len()) {
        Ok(FieldReader::new(data, structure))
    } else {
        Err(Malformed::new(structure, "DataLength"))
    }
}

impl<'a> Raw<'a> {
    /// Parses the data as that of a request.
    ///
    /// # Errors
    /// [`Malformed`] if the data of a known context has a wrong size or an invalid value.
    pub fn request(&self) -> Result<RequestContext<'a>, Malformed> {
        let data = self.data;
        Ok(match self.name {
            name::EA_BUFFER => RequestContext::EaBuffer(data),
            name::SD_BUFFER => RequestContext::SdBuffer(data),
            name::DURABLE_HANDLE_REQUEST => {
                sized(data, "SMB2_CREATE_DURABLE_HANDLE_REQUEST", &[16])?;
                RequestContext::DurableHandleRequest
            }
            name::DURABLE_HANDLE_RECONNECT => {
                let mut r = sized(data, "SMB2_CREATE_DURABLE_HANDLE_RECONNECT", &[16])?;
                RequestContext::DurableHandleReconnect(r.file_id("FileId")?)
            }
            name::ALLOCATION_SIZE => {
                let mut r = sized(data, "SMB2_CREATE_ALLOCATION_SIZE", &[8])?;
                RequestContext::AllocationSize(r.u64("AllocationSize")?)
            }
            name::QUERY_MAXIMAL_ACCESS => {
                let mut r = sized(data, "SMB2_CREATE_QUERY_MAXIMAL_ACCESS_REQUEST", &[0, 8])?;
                let timestamp = if data.is_empty() { None } else { Some(r.u64("Timestamp")?) };
                RequestContext::QueryMaximalAccess(timestamp)
            }
            name::TIMEWARP_TOKEN => {
                let mut r = sized(data, "SMB2_CREATE_TIMEWARP_TOKEN", &[8])?;
                RequestContext::TimewarpToken(r.u64("Timestamp")?)
            }
            name::QUERY_ON_DISK_ID => RequestContext::QueryOnDiskId,
            name::LEASE => RequestContext::Lease(Lease::parse(data)?),
            name::DURABLE_HANDLE_REQUEST_V2 => {
                let mut r = sized(data, "SMB2_CREATE_DURABLE_HANDLE_REQUEST_V2", &[32])?;
                let timeout = r.u32("Timeout")?;
                let flags = DurableFlags::from_bits_retain(r.u32("Flags")?);
                r.skip(8, "Reserved")?;
                let create_guid = r.guid("CreateGuid")?;
                RequestContext::DurableHandleRequestV2 { timeout, flags, create_guid }
            }
            name::DURABLE_HANDLE_RECONNECT_V2 => {
                let mut r = sized(data, "SMB2_CREATE_DURABLE_HANDLE_RECONNECT_V2", &[36])?;
                RequestContext::DurableHandleReconnectV2 {
                    file_id: r.file_id("FileId")?,
                    create_guid: r.guid("CreateGuid")?,
                    flags: DurableFlags::from_bits_retain(r.u32("Flags")?),
                }
            }
            name::APP_INSTANCE_ID => {
                let mut r = sized(data, "SMB2_CREATE_APP_INSTANCE_ID", &[20])?;
                structure_size(&mut r, 20)?;
                RequestContext::AppInstanceId(r.guid("AppInstanceId")?)
            }
            name::APP_INSTANCE_VERSION => {
                let mut r = sized(data, "SMB2_CREATE_APP_INSTANCE_VERSION", &[24])?;
                structure_size(&mut r, 24)?;
                r.skip(4, "Padding")?;
                RequestContext::AppInstanceVersion {
                    high: r.u64("AppInstanceVersionHigh")?,
                    low: r.u64("AppInstanceVersionLow")?,
                }
            }
            name::SVHDX_OPEN_DEVICE => RequestContext::SvhdxOpenDevice(data),
            name::POSIX => {
                let mut r = sized(data, "POSIX create context", &[4])?;
                RequestContext::Posix { mode: r.u32("Mode")? }
            }
            name::AAPL => RequestContext::Aapl(aapl::Request::parse(data)?),
            _ => RequestContext::Unknown(*self),
        })
    }

    /// Parses the data as that of a response.
    ///
    /// # Errors
    /// [`Malformed`] if the data of a known context has a wrong size or an invalid value.
    pub fn response(&self) -> Result<ResponseContext<'a>, Malformed> {
        let data = self.data;
        Ok(match self.name {
            name::DURABLE_HANDLE_REQUEST => {
                sized(data, "SMB2_CREATE_DURABLE_HANDLE_RESPONSE", &[8])?;
                ResponseContext::DurableHandle
            }
            name::QUERY_MAXIMAL_ACCESS => {
                let mut r = sized(data, "SMB2_CREATE_QUERY_MAXIMAL_ACCESS_RESPONSE", &[8])?;
                ResponseContext::MaximalAccess {
                    query_status: NtStatus(r.u32("QueryStatus")?),
                    access: Access::from_bits_retain(r.u32("MaximalAccess")?),
                }
            }
            name::QUERY_ON_DISK_ID => {
                let mut r = sized(data, "SMB2_CREATE_QUERY_ON_DISK_ID", &[32])?;
                ResponseContext::OnDiskId {
                    disk_file_id: r.u64("DiskFileId")?,
                    volume_id: r.u64("VolumeId")?,
                }
            }
            name::LEASE => ResponseContext::Lease(Lease::parse(data)?),
            name::DURABLE_HANDLE_REQUEST_V2 => {
                let mut r = sized(data, "SMB2_CREATE_DURABLE_HANDLE_RESPONSE_V2", &[8])?;
                ResponseContext::DurableHandleV2 {
                    timeout: r.u32("Timeout")?,
                    flags: DurableFlags::from_bits_retain(r.u32("Flags")?),
                }
            }
            name::POSIX => ResponseContext::Posix(posix::CreateResponse::parse(data)?),
            name::AAPL => ResponseContext::Aapl(aapl::Response::parse(data)?),
            _ => ResponseContext::Unknown(*self),
        })
    }
}

/// A size field of 16 bits and two reserved bytes.
fn structure_size(r: &mut FieldReader<'_>, size: u16) -> Result<(), Malformed> {
    if r.u16("StructureSize")? != size {
        return Err(r.wrong("StructureSize"));
    }
    r.skip(2, "Reserved")
}

impl<'a> RequestContext<'a> {
    /// The name of the context.
    #[must_use]
    pub fn name(&self) -> &'a [u8] {
        match self {
            RequestContext::EaBuffer(_) => name::EA_BUFFER,
            RequestContext::SdBuffer(_) => name::SD_BUFFER,
            RequestContext::DurableHandleRequest => name::DURABLE_HANDLE_REQUEST,
            RequestContext::DurableHandleReconnect(_) => name::DURABLE_HANDLE_RECONNECT,
            RequestContext::AllocationSize(_) => name::ALLOCATION_SIZE,
            RequestContext::QueryMaximalAccess(_) => name::QUERY_MAXIMAL_ACCESS,
            RequestContext::TimewarpToken(_) => name::TIMEWARP_TOKEN,
            RequestContext::QueryOnDiskId => name::QUERY_ON_DISK_ID,
            RequestContext::Lease(_) => name::LEASE,
            RequestContext::DurableHandleRequestV2 { .. } => name::DURABLE_HANDLE_REQUEST_V2,
            RequestContext::DurableHandleReconnectV2 { .. } => name::DURABLE_HANDLE_RECONNECT_V2,
            RequestContext::AppInstanceId(_) => name::APP_INSTANCE_ID,
            RequestContext::AppInstanceVersion { .. } => name::APP_INSTANCE_VERSION,
            RequestContext::SvhdxOpenDevice(_) => name::SVHDX_OPEN_DEVICE,
            RequestContext::Posix { .. } => name::POSIX,
            RequestContext::Aapl(_) => name::AAPL,
            RequestContext::Unknown(raw) => raw.name,
        }
    }

    /// Appends the data.
    pub(super) fn write(&self, w: &mut Writer<'_>) {
        match self {
            RequestContext::EaBuffer(data)
            | RequestContext::SdBuffer(data)
            | RequestContext::SvhdxOpenDevice(data) => w.bytes(data),
            RequestContext::DurableHandleRequest => w.zeros(16),
            RequestContext::DurableHandleReconnect(file_id) => file_id.write(w),
            RequestContext::AllocationSize(value) | RequestContext::TimewarpToken(value) => w.u64_le(*value),
            RequestContext::QueryMaximalAccess(timestamp) => timestamp.iter().for_each(|t| w.u64_le(*t)),
            RequestContext::QueryOnDiskId => {}
            RequestContext::Lease(lease) => lease.write(w),
            RequestContext::DurableHandleRequestV2 { timeout, flags, create_guid } => {
                w.u32_le(*timeout);
                w.u32_le(flags.bits());
                w.zeros(8);
                w.bytes(&create_guid.0);
            }
            RequestContext::DurableHandleReconnectV2 { file_id, create_guid, flags } => {
                file_id.write(w);
                w.bytes(&create_guid.0);
                w.u32_le(flags.bits());
            }
            RequestContext::AppInstanceId(id) => {
                w.u16_le(20);
                w.u16_le(0);
                w.bytes(&id.0);
            }
            RequestContext::AppInstanceVersion { high, low } => {
                w.u16_le(24);
                w.zeros(6);
                w.u64_le(*high);
                w.u64_le(*low);
            }
            RequestContext::Posix { mode } => w.u32_le(*mode),
            RequestContext::Aapl(request) => request.write(w),
            RequestContext::Unknown(raw) => w.bytes(raw.data),
        }
    }
}

impl<'a> ResponseContext<'a> {
    /// The name of the context.
    #[must_use]
    pub fn name(&self) -> &'a [u8] {
        match self {
            ResponseContext::DurableHandle => name::DURABLE_HANDLE_REQUEST,
            ResponseContext::MaximalAccess { .. } => name::QUERY_MAXIMAL_ACCESS,
            ResponseContext::OnDiskId { .. } => name::QUERY_ON_DISK_ID,
            ResponseContext::Lease(_) => name::LEASE,
            ResponseContext::DurableHandleV2 { .. } => name::DURABLE_HANDLE_REQUEST_V2,
            ResponseContext::Posix(_) => name::POSIX,
            ResponseContext::Aapl(_) => name::AAPL,
            ResponseContext::Unknown(raw) => raw.name,
        }
    }

    /// Appends the data.
    pub(super) fn write(&self, w: &mut Writer<'_>) {
        match self {
            ResponseContext::DurableHandle => w.zeros(8),
            ResponseContext::MaximalAccess { query_status, access } => {
                w.u32_le(query_status.0);
                w.u32_le(access.bits());
            }
            ResponseContext::OnDiskId { disk_file_id, volume_id } => {
                w.u64_le(*disk_file_id);
                w.u64_le(*volume_id);
                w.zeros(16);
            }
            ResponseContext::Lease(lease) => lease.write(w),
            ResponseContext::DurableHandleV2 { timeout, flags } => {
                w.u32_le(*timeout);
                w.u32_le(flags.bits());
            }
            ResponseContext::Posix(response) => response.write(w),
            ResponseContext::Aapl(response) => response.write(w),
            ResponseContext::Unknown(raw) => w.bytes(raw.data),
        }
    }
}
