//! QUERY_DIRECTORY (MS-SMB2 3.3.5).

use smb_wire::NtStatus;

use crate::connection::Connection;
use crate::dispatch::Request;
use crate::suspend::{Handled, Stop};

pub(crate) fn handle(_: &mut Connection, _: &mut Request<'_>, _: &mut Vec<u8>) -> Handled {
    Err(Stop::Fail(NtStatus::NOT_SUPPORTED))
}
