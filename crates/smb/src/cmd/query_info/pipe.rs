//! The information classes of the named pipes of IPC$ (MS-FSCC 2.4.37 and 2.4.38).

use smb_wire::NtStatus;
use smb_wire::fscc::file::{Pipe, PipeLocal, Standard};
use smb_wire::fscc::fs::{Device, DeviceCharacteristics};
use smb_wire::fscc::{FileInfoClass, FsInfoClass};
use smb_wire::query_info::{InfoType, Request};

use crate::exchange::{Handled, Stop};

/// The quota of a pipe in each direction, in bytes.
const QUOTA: u32 = 4096;

/// All pipes here are message pipes in both directions, with a server that is always connected.
const LOCAL: PipeLocal = PipeLocal {
    named_pipe_type: Pipe::MESSAGE,
    named_pipe_configuration: 2,
    maximum_instances: u32::MAX,
    current_instances: 1,
    inbound_quota: QUOTA,
    read_data_available: 0,
    outbound_quota: QUOTA,
    write_quota_available: QUOTA,
    named_pipe_state: PipeLocal::CONNECTED,
    named_pipe_end: 0,
};

/// The standard information of a pipe in Windows: one link, which is deleted with the pipe.
const STANDARD: Standard = Standard {
    allocation_size: QUOTA as u64,
    end_of_file: 0,
    number_of_links: 1,
    delete_pending: true,
    directory: false,
};

/// Writes the requested class of a pipe.
pub(super) fn answer(parsed: &Request<'_>, out: &mut Vec<u8>) -> Handled {
    let start = out.len();
    match (parsed.info_type, FileInfoClass(parsed.file_info_class)) {
        (InfoType::File, FileInfoClass::STANDARD) => STANDARD.write(out),
        (InfoType::File, FileInfoClass::PIPE) => {
            Pipe { read_mode: Pipe::MESSAGE, completion_mode: 0 }.write(out)
        }
        (InfoType::File, FileInfoClass::PIPE_LOCAL) => LOCAL.write(out),
        (InfoType::Filesystem, FileInfoClass(number)) if FsInfoClass(number) == FsInfoClass::DEVICE => {
            Device {
                device_type: Device::NAMED_PIPE,
                characteristics: DeviceCharacteristics::DEVICE_IS_MOUNTED.bits(),
            }
            .write(out)
        }
        (InfoType::Unknown(_), _) => return Err(Stop::Fail(NtStatus::INVALID_PARAMETER)),
        _ => return Err(Stop::Fail(NtStatus::NOT_SUPPORTED)),
    }
    // MS-SMB2 3.3.5.20.1
    Stop::when(out.len() - start > parsed.output_buffer_length as usize, NtStatus::INFO_LENGTH_MISMATCH)?;
    Ok(NtStatus::SUCCESS)
}
