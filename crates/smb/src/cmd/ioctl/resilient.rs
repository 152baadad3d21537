//! FSCTL_LMR_REQUEST_RESILIENCY: makes an Open outlive its session, also against conflicting opens (MS-SMB2
//! 3.3.5.15.9).

use smb_wire::NtStatus;
use smb_wire::ioctl::body::NetworkResiliencyRequest;
use smb_wire::negotiate::Dialect;

use super::Context;
use crate::exchange::{Handled, Request, Stop};
use crate::limits::{MAX_RESILIENT_TIME_MS, RESILIENT_TIME_MS};

/// Makes the Open resilient for the requested time.
// MS-SMB2 3.3.5.15.9
pub(super) fn request(cx: &Context<'_>, request: &Request<'_>) -> Handled {
    Stop::when(cx.negotiated.protection.dialect == Dialect::Smb202, NtStatus::INVALID_DEVICE_REQUEST)?;
    let parsed = NetworkResiliencyRequest::parse(cx.input)?;
    let ms = match parsed.timeout {
        0 => RESILIENT_TIME_MS,
        ms if ms <= MAX_RESILIENT_TIME_MS => ms,
        _ => return Err(Stop::Fail(NtStatus::INVALID_PARAMETER)),
    };
    let user =
        cx.connection.session(request)?.authenticated().map(|authenticated| authenticated.identity.sid);
    let mut survival = cx.disk.open.survival.lock();
    // A persistent Open stays persistent. Otherwise it could not outlive the server.
    survival.durable = survival.durable.filter(|durable| durable.persistent);
    (survival.resilient_ms, survival.owner) = (Some(ms), user);
    drop(survival);
    cx.connection.server.enter_index(cx.disk.open);
    Ok(NtStatus::SUCCESS)
}
