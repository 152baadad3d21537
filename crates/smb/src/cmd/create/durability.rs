//! The durable contexts of CREATE: the valid combinations, and the durability that is granted (MS-SMB2
//! 3.3.5.9.6, 3.3.5.9.7, 3.3.5.9.10, 3.3.5.9.12).

use share::{Caching, Grant};
use smb_wire::create::OplockLevel;
use smb_wire::create_context::{DurableFlags, Lease, LeaseState, RequestContext, ResponseContext};
use smb_wire::{FileId, Guid, NtStatus};

use crate::exchange::Stop;
use crate::limits::{DURABLE_TIME_MS, DURABLE_V2_TIME_MS, MAX_DURABLE_TIME_MS};
use crate::state::durable::{Durable, Version};

/// SMB2_CREATE_DURABLE_HANDLE_REQUEST_V2.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestV2 {
    pub timeout_ms: u32,
    pub create_guid: Guid,
    /// Whether the Open is requested to outlive the server.
    pub persistent: bool,
}

/// A reconnect to an Open.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reconnect {
    pub file_id: FileId,
    /// The fields of version 2.
    pub v2: Option<ReconnectV2>,
}

/// The fields of SMB2_CREATE_DURABLE_HANDLE_RECONNECT_V2 beside the FileId.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReconnectV2 {
    pub create_guid: Guid,
    pub persistent: bool,
}

/// The durable contexts of one request.
#[derive(Debug, Default)]
pub(crate) struct Durability {
    /// Whether a reconnect of version 1 was sent.
    sent_v1_reconnect: bool,
    /// Whether a request and a reconnect of version 2 were sent, in any dialect.
    sent_v2: [bool; 2],
    pub request: bool,
    pub request_v2: Option<RequestV2>,
    /// The Open for a reconnect. A request for durability beside it is ignored.
    // MS-SMB2 3.3.5.9.7
    pub reconnect: Option<Reconnect>,
}

impl Durability {
    /// Takes a context if it is a durable one. A dialect before 3.0 has no version 2.
    pub fn take(&mut self, context: &RequestContext<'_>, is_smb3: bool) {
        let [request, reconnect] = &mut self.sent_v2;
        *request |= matches!(context, RequestContext::DurableHandleRequestV2 { .. });
        *reconnect |= matches!(context, RequestContext::DurableHandleReconnectV2 { .. });
        match *context {
            RequestContext::DurableHandleRequest => self.request = true,
            RequestContext::DurableHandleReconnect(file_id) => {
                self.sent_v1_reconnect = true;
                self.reconnect = Some(Reconnect { file_id, v2: None });
            }
            RequestContext::DurableHandleRequestV2 { timeout, create_guid, flags } if is_smb3 => {
                let persistent = flags.contains(DurableFlags::PERSISTENT);
                self.request_v2 = Some(RequestV2 { timeout_ms: timeout, create_guid, persistent });
            }
            RequestContext::DurableHandleReconnectV2 { file_id, create_guid, flags } if is_smb3 => {
                let persistent = flags.contains(DurableFlags::PERSISTENT);
                self.reconnect =
                    Some(Reconnect { file_id, v2: Some(ReconnectV2 { create_guid, persistent }) });
            }
            _ => {}
        }
    }

    /// Refuses invalid combinations of contexts. Each section requires that in every dialect.
    // MS-SMB2 3.3.5.9.6
    // MS-SMB2 3.3.5.9.7
    // MS-SMB2 3.3.5.9.10
    // MS-SMB2 3.3.5.9.12
    pub fn check(&self) -> Result<(), Stop> {
        let v1 = self.request || self.sent_v1_reconnect;
        if (v1 && self.sent_v2.contains(&true)) || self.sent_v2 == [true, true] {
            return Err(Stop::Fail(NtStatus::INVALID_PARAMETER));
        }
        Ok(())
    }

    /// The durability of a new Open. `lasts` says that the share can make it outlive the server.
    // MS-SMB2 3.3.5.9.6
    // MS-SMB2 3.3.5.9.10
    pub fn grant(
        &self,
        lease: Option<Lease>,
        oplock: OplockLevel,
        granted: Option<Grant>,
        is_directory: bool,
        lasts: bool,
    ) -> Option<Durable> {
        let wants = match lease {
            Some(lease) => lease.state.contains(LeaseState::HANDLE_CACHING),
            None => oplock == OplockLevel::Batch,
        };
        let has = granted.is_some_and(|grant| grant.state.contains(Caching::HANDLE));
        let persistent = lasts && self.request_v2.is_some_and(|v2| v2.persistent);
        // A persistent Open needs no lease or oplock, since no conflicting open ends it.
        if is_directory || !(persistent || wants && has) {
            return None;
        }
        if let Some(v2) = self.request_v2 {
            let timeout_ms = match v2.timeout_ms {
                0 => DURABLE_V2_TIME_MS,
                wanted => wanted.min(MAX_DURABLE_TIME_MS),
            };
            return Some(Durable { version: Version::Two, timeout_ms, persistent });
        }
        let timeout_ms = DURABLE_TIME_MS;
        self.request.then_some(Durable { version: Version::One, timeout_ms, persistent: false })
    }
}

/// The response context of a durable Open.
pub(crate) fn answer(durable: Durable) -> ResponseContext<'static> {
    match durable.version {
        Version::One => ResponseContext::DurableHandle,
        Version::Two => {
            let mut flags = DurableFlags::empty();
            flags.set(DurableFlags::PERSISTENT, durable.persistent);
            ResponseContext::DurableHandleV2 { timeout: durable.timeout_ms, flags }
        }
    }
}
