//! IOCTL: control codes of files, pipes and the server (MS-SMB2 3.3.5.15).
//!
//! [`handle`] makes the shared checks and calls the function of the control code. [`server`] has the codes
//! about the connection, [`backup`] those of backup and search programs, and [`copy`] copies inside the
//! server. [`space`] has holes and ranges, [`reparse`] links and object ids, [`resilient`] resilient Opens,
//! and [`torture`] the controls of a test. Pipes are in `cmd/pipe.rs`.

use std::sync::Arc;

use share::Caller;
use smb_wire::ioctl::{self, CtlCode, IoctlFlags};
use smb_wire::{FileId, NtStatus};
use volume::security::Rights;

use super::pipe;
use crate::connection::{Connection, Negotiated};
use crate::exchange::{Handled, Request, Stop};
use crate::state::OnDisk;

mod backup;
mod copy;
mod reparse;
mod resilient;
mod server;
mod space;
pub(crate) mod torture;

/// Answers an IOCTL.
pub fn handle(connection: &mut Connection, negotiated: &Negotiated, request: &mut Request<'_>) -> Handled {
    let parsed = ioctl::Request::parse(request.message)?;
    // MS-SMB2 3.3.5.15
    Stop::when(!parsed.flags.contains(IoctlFlags::IS_FSCTL), NtStatus::NOT_SUPPORTED)?;
    let largest = parsed.max_output_response.max(parsed.max_input_response) as usize;
    negotiated.check_size(request, largest.max(parsed.input.len()), parsed.payload_len())?;
    if let Some(handled) = torture::of_session(connection, request, &parsed) {
        return handled;
    }
    let mut output = Vec::new();
    let status = answer(connection, negotiated, request, &parsed, &mut output)?;
    let file_id = request.file_id(parsed.file_id).unwrap_or(FileId::RELATED);
    ioctl::Response { ctl_code: parsed.ctl_code, file_id, input: &[], output: &output }.write(request.body);
    Ok(status)
}

fn answer(
    connection: &mut Connection,
    negotiated: &Negotiated,
    request: &mut Request<'_>,
    parsed: &ioctl::Request<'_>,
    output: &mut Vec<u8>,
) -> Handled {
    let limit = parsed.max_output_response as usize;
    // MS-SMB2 3.3.5.15: a control code of the server names no file.
    let of_server = [
        CtlCode::ValidateNegotiateInfo,
        CtlCode::QueryNetworkInterfaceInfo,
        CtlCode::DfsGetReferrals,
        CtlCode::DfsGetReferralsEx,
        CtlCode::PipeWait,
    ];
    let is_of_server = of_server.contains(&parsed.ctl_code);
    Stop::when(is_of_server && !parsed.file_id.is_related(), NtStatus::INVALID_PARAMETER)?;
    match parsed.ctl_code {
        CtlCode::ValidateNegotiateInfo => {
            return server::validate_negotiate(connection, negotiated, request, parsed, output);
        }
        CtlCode::QueryNetworkInterfaceInfo => {
            return server::interfaces(connection, negotiated, request, limit, output);
        }
        // MS-SMB2 3.3.5.15.2: there is no DFS here.
        CtlCode::DfsGetReferrals | CtlCode::DfsGetReferralsEx => {
            return Err(Stop::Fail(NtStatus::FS_DRIVER_REQUIRED));
        }
        CtlCode::PipeWait => return pipe::wait(connection, request, parsed),
        _ => {}
    }
    let named = connection.open(request, parsed.file_id)?;
    let open = named.share();
    let Some(disk) = open.on_disk() else {
        return pipe::control(connection, request, named, parsed, output);
    };
    let cx = Context { connection, negotiated, disk, input: parsed.input, limit };
    match parsed.ctl_code {
        CtlCode::SrvRequestResumeKey => copy::resume_key(&cx, output),
        CtlCode::SrvCopychunk => copy::copychunk(&cx, request, copy::CopyAccess::NeedsRead, output),
        CtlCode::SrvCopychunkWrite => copy::copychunk(&cx, request, copy::CopyAccess::WriteIsEnough, output),
        CtlCode::DuplicateExtentsToFile => copy::duplicate_extents(&cx, request),
        CtlCode::SetSparse => space::set_sparse(&cx),
        CtlCode::SetZeroData => space::set_zero(&cx, request),
        CtlCode::QueryAllocatedRanges => space::allocated_ranges(&cx, output),
        CtlCode::QueryFileRegions => space::regions(&cx, output),
        CtlCode::FileLevelTrim => space::trim(&cx, request, output),
        CtlCode::GetCompression => space::get_compression(&cx, output),
        CtlCode::GetIntegrityInformation => space::get_integrity(&cx, output),
        CtlCode::SetCompression => space::set_compression(&cx),
        CtlCode::GetReparsePoint => reparse::get(&cx, output),
        CtlCode::SetReparsePoint => reparse::set(&cx, request),
        CtlCode::DeleteReparsePoint => reparse::delete(&cx, request),
        CtlCode::CreateOrGetObjectId => reparse::object_id(&cx, true, request.now, output),
        CtlCode::GetObjectId => reparse::object_id(&cx, false, request.now, output),
        CtlCode::SetObjectId => reparse::set_object_id(&cx, request),
        CtlCode::DeleteObjectId => reparse::delete_object_id(&cx),
        CtlCode::ReadFileUsnData => backup::file_usn_data(&cx, output),
        CtlCode::GetNtfsVolumeData => backup::ntfs_volume_data(&cx, output),
        CtlCode::GetRetrievalPointers => backup::retrieval_pointers(&cx, output),
        CtlCode::LmrRequestResiliency => resilient::request(&cx, request),
        // MS-SMB2 3.3.5.15: the server keeps no earlier versions, so the list of them is empty.
        CtlCode::SrvEnumerateSnapshots => server::no_snapshots(limit, output),
        _ => Err(Stop::Fail(NtStatus::INVALID_DEVICE_REQUEST)),
    }
}

/// The parameters of a control code on a file.
struct Context<'a> {
    connection: &'a Connection,
    negotiated: &'a Negotiated,
    disk: OnDisk<'a>,
    input: &'a [u8],
    /// The most bytes of output that the client takes.
    limit: usize,
}

impl<'a> Context<'a> {
    /// The engine's side of the Open.
    fn file(&self) -> (&'a Arc<share::Share>, &'a Arc<share::Open>) {
        (self.disk.engine, self.disk.file)
    }

    /// Calls the engine for this request. The request is put aside if it must wait.
    fn call<T>(
        &self,
        request: &mut Request<'_>,
        call: impl FnOnce(&Caller<'_>) -> share::CallResult<T>,
    ) -> Result<T, Stop> {
        let OnDisk { open, engine, identity, .. } = self.disk;
        let waiter = self.connection.waiter_for(request);
        let caller = request.caller(identity, open.client, Some(&waiter));
        Stop::done_or_wait(engine, call(&caller))
    }

    /// Refuses output that is longer than the client takes, for control codes whose sections call that an
    /// invalid parameter.
    // MS-FSA 2.1.5.10.1
    // MS-FSA 2.1.5.10.9
    // MS-FSA 2.1.5.10.13
    fn has_room(&self, len: usize) -> Result<(), Stop> {
        Stop::when(len > self.limit, NtStatus::INVALID_PARAMETER)
    }

    /// Refuses output that is longer than the client takes.
    fn fits(&self, len: usize) -> Result<(), Stop> {
        Stop::when(len > self.limit, NtStatus::BUFFER_TOO_SMALL)
    }

    /// Requires that the Open has one of `rights`.
    fn require(&self, rights: Rights) -> Result<(), Stop> {
        Stop::when(!self.disk.file.granted().intersects(rights), NtStatus::ACCESS_DENIED)
    }
}
