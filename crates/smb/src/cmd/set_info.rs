//! SET_INFO: changes the metadata of a file, renames it, marks it for deletion, or sets its descriptor
//! (MS-SMB2 3.3.5.21).
//!
//! [`handle`] checks the request. [`mod@file`] has the table of information classes, with [`naming`] for
//! those that change names. [`security`] sets descriptors.

use std::sync::Arc;

use share::{CallResult, Caller, Share};
use smb_wire::NtStatus;
use smb_wire::fscc::FsInfoClass;
use smb_wire::query_info::InfoType;
use smb_wire::set_info::{Request as SetRequest, Response};
use volume::security::Rights;

use crate::connection::{Connection, Negotiated};
use crate::exchange::{Handled, Request, Stop};
use crate::state::{OnDisk, Open};

mod file;
mod naming;
mod pipe;
mod security;

/// Answers a SET_INFO.
pub fn handle(connection: &mut Connection, negotiated: &Negotiated, request: &mut Request<'_>) -> Handled {
    let parsed = SetRequest::parse(request.message)?;
    let open = connection.open(request, parsed.file_id)?;
    // MS-SMB2 3.3.5.21
    Stop::when(parsed.buffer.is_empty(), NtStatus::INVALID_PARAMETER)?;
    negotiated.check_size(request, parsed.payload_len() as usize, parsed.payload_len())?;
    match open.on_disk() {
        Some(OnDisk { open, engine, file, identity }) => {
            let waiter = connection.waiter_for(request);
            let caller = request.caller(identity, open.client, Some(&waiter));
            let change = InfoChange { engine, file, open, caller: &caller, buffer: parsed.buffer };
            match parsed.info_type {
                InfoType::File => file::apply(&change, parsed.file_info_class),
                InfoType::Filesystem => Err(Stop::Fail(of_volume(FsInfoClass(parsed.file_info_class)))),
                InfoType::Security => security::apply(&change, parsed.additional_information),
                // MS-SMB2 3.3.5.21.4: no volume accepts quotas by SID.
                InfoType::Quota => Err(Stop::Fail(NtStatus::NOT_SUPPORTED)),
                InfoType::Unknown(_) => Err(Stop::Fail(NtStatus::INVALID_PARAMETER)),
            }
        }
        None => pipe::apply(&parsed),
    }?;
    Response.write(request.body);
    Ok(NtStatus::SUCCESS)
}

/// One change to a file of a share.
struct InfoChange<'a> {
    engine: &'a Arc<Share>,
    file: &'a Arc<share::Open>,
    open: &'a Open,
    caller: &'a Caller<'a>,
    buffer: &'a [u8],
}

impl InfoChange<'_> {
    /// Maps a step of the engine: done, refused, or a wait after which this request is tried again.
    fn settle(&self, step: CallResult<()>) -> Result<(), Stop> {
        Stop::done_or_wait(self.engine, step)
    }

    /// Whether the Open has all of these rights.
    fn may(&self, rights: Rights) -> bool {
        self.file.granted().contains(rights)
    }
}

/// The status for an attempt to change a volume. It does not depend on the user's rights, since Windows
/// allows this to nobody over the network (note 423).
// MS-SMB2 3.3.5.21.2
fn of_volume(number: FsInfoClass) -> NtStatus {
    match number {
        FsInfoClass::CONTROL | FsInfoClass::OBJECT_ID => NtStatus::ACCESS_DENIED,
        FsInfoClass::LABEL | FsInfoClass::DRIVER_PATH | FsInfoClass::VOLUME_FLAGS => NtStatus::NOT_SUPPORTED,
        _ => NtStatus::INVALID_INFO_CLASS,
    }
}
