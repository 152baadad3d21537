//! Control codes about the connection: whether NEGOTIATE was tampered with, and where else the server is.

use smb_wire::NtStatus;
use smb_wire::ioctl::body::{ValidateNegotiateInfoRequest, ValidateNegotiateInfoResponse};
use smb_wire::ioctl::{self, interfaces};
use smb_wire::negotiate::Dialect;

use super::Answered;
use crate::connection::Connection;
use crate::dispatch::Request;
use crate::suspend::Stop;

/// Size of the answer (MS-SMB2 2.2.32.6).
const VALIDATED: usize = 24;

/// FSCTL_VALIDATE_NEGOTIATE_INFO (MS-SMB2 3.3.5.15.12).
pub(super) fn validate_negotiate(
    connection: &Connection,
    request: &Request<'_>,
    asked: &ioctl::Request<'_>,
    output: &mut Vec<u8>,
) -> Answered {
    connection.tree(request)?;
    let negotiated = connection.negotiated()?;
    // MS-SMB2 3.3.5.15.12: 3.1.1 has its pre-authentication hash for this.
    if negotiated.protection.dialect == Dialect::Smb311 {
        return Err(Stop::Disconnect("FSCTL_VALIDATE_NEGOTIATE_INFO in dialect 3.1.1"));
    }
    let claimed = ValidateNegotiateInfoRequest::parse(asked.input)?;
    if (asked.max_output_response as usize) < VALIDATED {
        return Err(Stop::Fail(NtStatus::BUFFER_TOO_SMALL));
    }
    let config = connection.server.config();
    let chosen = crate::cmd::negotiate::choose(&claimed.dialects, &config);
    if chosen != Some(negotiated.protection.dialect)
        || claimed.capabilities != negotiated.client_capabilities
        || claimed.guid != negotiated.client_guid
        || claimed.security_mode != negotiated.client_security
    {
        return Err(Stop::Disconnect("NEGOTIATE was changed on its way"));
    }
    ValidateNegotiateInfoResponse {
        capabilities: negotiated.capabilities,
        guid: config.guid,
        security_mode: negotiated.security,
        dialect: negotiated.protection.dialect,
    }
    .write(output);
    Ok(NtStatus::SUCCESS)
}

/// FSCTL_QUERY_NETWORK_INTERFACE_INFO (MS-SMB2 3.3.5.15.11): the address at which the client already is.
pub(super) fn interfaces(
    connection: &Connection,
    request: &Request<'_>,
    limit: usize,
    output: &mut Vec<u8>,
) -> Answered {
    connection.tree(request)?;
    // MS-SMB2 3.3.5.15.11: a dialect without Multichannel has no such list.
    if !connection.negotiated()?.protection.dialect.is_smb3() {
        return Err(Stop::Fail(NtStatus::NOT_SUPPORTED));
    }
    let own = interfaces::NetworkInterfaceInfo {
        if_index: 1,
        capability: interfaces::InterfaceCapability::empty(),
        // Bits per second; what is not known counts as 1 Gbit/s.
        link_speed: 1_000_000_000,
        address: connection.handle.peer.local.ip(),
    };
    if limit < interfaces::SIZE {
        return Err(Stop::Fail(NtStatus::BUFFER_TOO_SMALL));
    }
    interfaces::write(&[own], output);
    Ok(NtStatus::SUCCESS)
}

/// FSCTL_SRV_ENUMERATE_SNAPSHOTS (MS-SMB2 3.3.5.15.1): an empty list.
pub(super) fn no_snapshots(limit: usize, output: &mut Vec<u8>) -> Answered {
    // SRV_SNAPSHOT_ARRAY: two counts, the size, and an empty list's two zero characters (2.2.32.2).
    const EMPTY: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0];
    if limit < EMPTY.len() {
        return Err(Stop::Fail(NtStatus::INVALID_PARAMETER));
    }
    output.extend_from_slice(&EMPTY);
    Ok(NtStatus::SUCCESS)
}
