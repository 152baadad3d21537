//! Maps the engine's refusals to NTSTATUS in one table.

use share::Refusal;
use smb_wire::{Malformed, NtStatus};

/// The status for a refusal of the engine. Some commands use another status for a refusal. They say so
/// beside the section of the specification that asks for it.
#[must_use]
pub fn of(refusal: &Refusal) -> NtStatus {
    match refusal {
        Refusal::NotFound => NtStatus::OBJECT_NAME_NOT_FOUND,
        Refusal::PathNotFound => NtStatus::OBJECT_PATH_NOT_FOUND,
        Refusal::Exists => NtStatus::OBJECT_NAME_COLLISION,
        Refusal::NotADirectory => NtStatus::NOT_A_DIRECTORY,
        Refusal::IsADirectory => NtStatus::FILE_IS_A_DIRECTORY,
        Refusal::NotEmpty => NtStatus::DIRECTORY_NOT_EMPTY,
        Refusal::AccessDenied => NtStatus::ACCESS_DENIED,
        Refusal::PrivilegeNotHeld => NtStatus::PRIVILEGE_NOT_HELD,
        Refusal::BadOwner => NtStatus::INVALID_OWNER,
        Refusal::SharingConflict | Refusal::HostKeeps | Refusal::InUse | Refusal::Running => {
            NtStatus::SHARING_VIOLATION
        }
        Refusal::RangeConflict => NtStatus::FILE_LOCK_CONFLICT,
        Refusal::RangeNotGranted => NtStatus::LOCK_NOT_GRANTED,
        Refusal::RangeNotHeld => NtStatus::RANGE_NOT_LOCKED,
        Refusal::BadRange => NtStatus::INVALID_LOCK_RANGE,
        Refusal::DeletePending => NtStatus::DELETE_PENDING,
        Refusal::CannotDelete => NtStatus::CANNOT_DELETE,
        Refusal::BadName | Refusal::NameTooLong => NtStatus::OBJECT_NAME_INVALID,
        Refusal::StoppedAtLink { .. } => NtStatus::STOPPED_ON_SYMLINK,
        Refusal::StoppedAtReparse { .. } => NtStatus::IO_REPARSE_TAG_NOT_HANDLED,
        Refusal::BadLink => NtStatus::OBJECT_PATH_NOT_FOUND,
        Refusal::NoSpace => NtStatus::DISK_FULL,
        Refusal::Quota => NtStatus::QUOTA_EXCEEDED,
        Refusal::ReadOnly => NtStatus::MEDIA_WRITE_PROTECTED,
        Refusal::CrossVolume => NtStatus::NOT_SAME_DEVICE,
        Refusal::TooManyLinks => NtStatus::TOO_MANY_LINKS,
        // MS-FSA 2.1.5.4, 2.1.5.15.1, 2.1.5.15.5: a size beyond the maximum of a file is not a lack of
        // space.
        Refusal::Invalid | Refusal::TooLarge => NtStatus::INVALID_PARAMETER,
        Refusal::NotSupported => NtStatus::NOT_SUPPORTED,
        Refusal::BadAttributeName => NtStatus::INVALID_EA_NAME,
        Refusal::AttributesTooLarge => NtStatus::EA_TOO_LARGE,
        Refusal::NoSuchAttribute => NtStatus::NONEXISTENT_EA_ENTRY,
        Refusal::NoSuchNote => NtStatus::NOT_A_REPARSE_POINT,
        Refusal::WouldBlock | Refusal::Exhausted => NtStatus::INSUFFICIENT_RESOURCES,
        Refusal::EndOfFile => NtStatus::END_OF_FILE,
        Refusal::NoMoreEntries => NtStatus::NO_MORE_FILES,
        Refusal::WatchOverflow => NtStatus::NOTIFY_ENUM_DIR,
        Refusal::Cancelled => NtStatus::CANCELLED,
        Refusal::Gone => NtStatus::FILE_CLOSED,
        Refusal::Busy => NtStatus::ACCESS_DENIED,
        // MS-SMB2 3.3.5.9
        Refusal::OwnerAway => NtStatus::FILE_NOT_AVAILABLE,
        Refusal::NoSuchGrant => NtStatus::INVALID_PARAMETER,
        Refusal::TooMuchKept => NtStatus::REQUEST_NOT_ACCEPTED,
        Refusal::Io => NtStatus::IO_DEVICE_ERROR,
    }
}

/// The status for a message that cannot be parsed.
#[must_use]
pub fn of_malformed(_: Malformed) -> NtStatus {
    NtStatus::INVALID_PARAMETER
}

#[cfg(test)]
mod tests {
    use super::*;

    // Samba maps EBUSY and ETXTBSY in the same way.
    #[test]
    fn what_the_host_keeps_for_itself_is_a_sharing_violation() {
        for why in [Refusal::InUse, Refusal::Running, Refusal::HostKeeps] {
            assert_eq!(of(&why), NtStatus::SHARING_VIOLATION, "{why}");
        }
    }
}
