//! The information class that can be set on a named pipe of IPC$ (MS-FSCC 2.4.37).

use smb_wire::NtStatus;
use smb_wire::fscc::FileInfoClass;
use smb_wire::fscc::file::Pipe;
use smb_wire::query_info::InfoType;
use smb_wire::set_info::Request;

use super::file::status_of;
use crate::exchange::Stop;

/// Sets the mode of a pipe. Only the mode that the pipes have is valid: messages, and calls that wait.
pub(super) fn apply(parsed: &Request<'_>) -> Result<(), Stop> {
    match (parsed.info_type, FileInfoClass(parsed.file_info_class)) {
        (InfoType::File, FileInfoClass::PIPE) => {
            let given = Pipe::parse(parsed.buffer).and_then(Pipe::checked).map_err(status_of)?;
            let always = given.read_mode == Pipe::MESSAGE && given.completion_mode == 0;
            if always { Ok(()) } else { Err(Stop::Fail(NtStatus::INVALID_READ_MODE)) }
        }
        (InfoType::Unknown(_), _) => Err(Stop::Fail(NtStatus::INVALID_PARAMETER)),
        _ => Err(Stop::Fail(NtStatus::NOT_SUPPORTED)),
    }
}
