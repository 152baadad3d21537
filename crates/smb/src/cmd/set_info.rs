//! SET_INFO: changes what is known of a file, moves it, marks it to go, sets its descriptor (MS-SMB2
//! 3.3.5.21).
//!
//! [`handle`] checks the request. [`file`] has the table of information classes, with [`naming`] for
//! those that change names; [`security`] sets descriptors.

use std::sync::Arc;

use share::{CallResult, Caller, Share};
use smb_wire::NtStatus;
use smb_wire::fscc::FsInfoClass;
use smb_wire::query_info::InfoType;
use smb_wire::set_info::{Request as Asked, Response};
use volume::security::Rights;

use crate::connection::{Connection, Negotiated};
use crate::exchange::{Handled, Request, Stop};
use crate::state::{OnDisk, Open};

mod file;
mod naming;
mod pipe;
mod security;

/// Answers a SET_INFO.
pub fn handle(connection: &mut Connection, settled: &Negotiated, request: &mut Request<'_>) -> Handled {
    let asked = Asked::parse(request.message)?;
    let open = connection.open(request, asked.file_id)?;
    // MS-SMB2 3.3.5.21
    Stop::when(asked.buffer.is_empty(), NtStatus::INVALID_PARAMETER)?;
    settled.check_size(request, asked.payload_len() as usize, asked.payload_len())?;
    match open.on_disk() {
        Some(OnDisk { open, engine, file, identity }) => {
            let waiter = connection.waiter_for(request);
            let caller = request.caller(identity, open.client, Some(&waiter));
            let change = Change { engine, file, open, caller: &caller, buffer: asked.buffer };
            match asked.info_type {
                InfoType::File => file::apply(&change, asked.file_info_class),
                InfoType::Filesystem => Err(Stop::Fail(of_volume(FsInfoClass(asked.file_info_class)))),
                InfoType::Security => security::apply(&change, asked.additional_information),
                // MS-SMB2 3.3.5.21.4: no volume takes quotas by SID.
                InfoType::Quota => Err(Stop::Fail(NtStatus::NOT_SUPPORTED)),
                InfoType::Unknown(_) => Err(Stop::Fail(NtStatus::INVALID_PARAMETER)),
            }
        }
        None => pipe::apply(&asked),
    }?;
    Response.write(request.body);
    Ok(NtStatus::SUCCESS)
}

/// One change to a file of a share.
struct Change<'a> {
    engine: &'a Arc<Share>,
    file: &'a Arc<share::Open>,
    open: &'a Open,
    caller: &'a Caller<'a>,
    buffer: &'a [u8],
}

impl Change<'_> {
    /// What the engine answers: done, refused, or to be tried again when the engine wakes this request.
    fn settle(&self, step: CallResult<()>) -> Result<(), Stop> {
        Stop::unless_done(self.engine, step)
    }

    /// Whether the Open was granted all of this.
    fn may(&self, rights: Rights) -> bool {
        self.file.granted().contains(rights)
    }
}

/// The status for an attempt to change a volume. Whoever may write gets no further than who may not, as
/// Windows lets nobody do this over the network (note 423).
// MS-SMB2 3.3.5.21.2
fn of_volume(number: FsInfoClass) -> NtStatus {
    match number {
        FsInfoClass::CONTROL | FsInfoClass::OBJECT_ID => NtStatus::ACCESS_DENIED,
        FsInfoClass::LABEL | FsInfoClass::DRIVER_PATH | FsInfoClass::VOLUME_FLAGS => NtStatus::NOT_SUPPORTED,
        _ => NtStatus::INVALID_INFO_CLASS,
    }
}
