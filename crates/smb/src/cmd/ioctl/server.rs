//! Control codes about the connection: the check of NEGOTIATE, and the server's other addresses.

use std::sync::atomic::Ordering;

use smb_wire::NtStatus;
use smb_wire::ioctl::body::{ValidateNegotiateInfoRequest, ValidateNegotiateInfoResponse};
use smb_wire::ioctl::{self, interfaces as wire_interfaces};
use smb_wire::negotiate::{Capabilities, Dialect};

use crate::cmd::negotiate::fingerprint;
use crate::connection::{Connection, Negotiated};
use crate::exchange::{Handled, Request, Stop};
use crate::interfaces;

/// Size of the response (MS-SMB2 2.2.32.6).
const VALIDATED: usize = 24;

/// FSCTL_VALIDATE_NEGOTIATE_INFO (MS-SMB2 3.3.5.15.12).
pub(super) fn validate_negotiate(
    connection: &mut Connection,
    negotiated: &Negotiated,
    request: &mut Request<'_>,
    parsed: &ioctl::Request<'_>,
    output: &mut Vec<u8>,
) -> Handled {
    connection.tree(request)?;
    // MS-SMB2 3.3.5.15.12: 3.1.1 has the pre-authentication hash instead.
    if negotiated.protection.dialect == Dialect::Smb311 {
        return Err(Stop::Disconnect("FSCTL_VALIDATE_NEGOTIATE_INFO in dialect 3.1.1"));
    }
    if (parsed.max_output_response as usize) < VALIDATED {
        return Err(Stop::Disconnect("FSCTL_VALIDATE_NEGOTIATE_INFO without room for its answer"));
    }
    let claimed = ValidateNegotiateInfoRequest::parse(parsed.input)?;
    // With the offered list the choice is the one that was made, even if settings have changed since.
    if fingerprint(&claimed.dialects) != connection.offered
        || claimed.capabilities != negotiated.client_capabilities
        || claimed.guid != negotiated.client_guid
        || claimed.security_mode != negotiated.client_security
    {
        return Err(Stop::Disconnect("NEGOTIATE was changed on its way"));
    }
    ValidateNegotiateInfoResponse {
        capabilities: negotiated.capabilities,
        guid: connection.server.config().guid,
        security_mode: negotiated.security,
        dialect: negotiated.protection.dialect,
    }
    .write(output);
    Ok(NtStatus::SUCCESS)
}

/// FSCTL_QUERY_NETWORK_INTERFACE_INFO (MS-SMB2 3.3.5.15.11): the addresses for further channels.
pub(super) fn interfaces(
    connection: &mut Connection,
    negotiated: &Negotiated,
    request: &mut Request<'_>,
    limit: usize,
    output: &mut Vec<u8>,
) -> Handled {
    connection.tree(request)?;
    let session = connection.session(request)?;
    session.asked_interfaces.store(true, Ordering::Relaxed);
    let allowed = session.channel_rule().is_none_or(|rule| rule.multichannel);
    // MS-SMB2 3.3.5.15.11: only 3.x has the capability. The account may have been unknown at NEGOTIATE, but
    // is known now.
    if !negotiated.capabilities.contains(Capabilities::MULTI_CHANNEL) || !allowed {
        return Err(Stop::Fail(NtStatus::NOT_SUPPORTED));
    }
    let config = connection.server.config();
    let own = connection.handle.peer.local.ip();
    // A channel to an address of another account or share would not be bound.
    let mut known = connection.server.interfaces().to_vec();
    known.retain(|at| config.is_one_endpoint(at.address, own));
    let list = interfaces::answer(&known, own);
    // MS-SMB2 3.3.5.15: the response must fit, and half a list would hide addresses.
    Stop::when(limit < list.len() * wire_interfaces::SIZE, NtStatus::BUFFER_TOO_SMALL)?;
    wire_interfaces::write(&list, output);
    Ok(NtStatus::SUCCESS)
}

/// FSCTL_SRV_ENUMERATE_SNAPSHOTS (MS-SMB2 3.3.5.15.1): an empty list.
pub(super) fn no_snapshots(limit: usize, output: &mut Vec<u8>) -> Handled {
    // SRV_SNAPSHOT_ARRAY: two counts, the size, and an empty list's two zero characters (2.2.32.2).
    const EMPTY: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0];
    Stop::when(limit < EMPTY.len(), NtStatus::INVALID_PARAMETER)?;
    output.extend_from_slice(&EMPTY);
    Ok(NtStatus::SUCCESS)
}
