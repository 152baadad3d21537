//! What the engine's refusals are to an NFS client: one exhaustive table.

use nfs_wire::NfsStat;
use share::Refusal;

/// The status for a refusal (RFC 8881 15.1).
#[must_use]
pub fn of(refusal: &Refusal) -> NfsStat {
    match refusal {
        Refusal::NotFound | Refusal::PathNotFound | Refusal::NoSuchNote | Refusal::NoMoreEntries => {
            NfsStat::NoEnt
        }
        Refusal::Exists => NfsStat::Exist,
        Refusal::NotADirectory => NfsStat::NotDir,
        Refusal::IsADirectory => NfsStat::IsDir,
        Refusal::NotEmpty => NfsStat::NotEmpty,
        Refusal::AccessDenied | Refusal::CannotDelete => NfsStat::Access,
        Refusal::PrivilegeNotHeld => NfsStat::Perm,
        Refusal::BadOwner => NfsStat::BadOwner,
        Refusal::SharingConflict => NfsStat::ShareDenied,
        Refusal::RangeConflict => NfsStat::Locked,
        Refusal::RangeNotGranted => NfsStat::Denied,
        Refusal::RangeNotHeld => NfsStat::LockRange,
        Refusal::BadRange | Refusal::Invalid | Refusal::EndOfFile => NfsStat::Inval,
        Refusal::DeletePending => NfsStat::FileOpen,
        Refusal::BadName => NfsStat::BadName,
        Refusal::NameTooLong => NfsStat::NameTooLong,
        Refusal::StoppedAtLink { .. } | Refusal::StoppedAtReparse { .. } | Refusal::BadLink => {
            NfsStat::Symlink
        }
        Refusal::NoSpace => NfsStat::NoSpc,
        Refusal::Quota => NfsStat::DQuot,
        Refusal::TooLarge => NfsStat::FBig,
        Refusal::ReadOnly => NfsStat::RoFs,
        Refusal::CrossVolume => NfsStat::XDev,
        Refusal::TooManyLinks => NfsStat::MLink,
        Refusal::NotSupported => NfsStat::NotSupp,
        Refusal::BadAttributeName => NfsStat::Inval,
        Refusal::AttributesTooLarge => NfsStat::Xattr2Big,
        Refusal::NoSuchAttribute => NfsStat::NoXattr,
        // Who must not wait asks again; so does who meets a bound. Version 4.1 has no NFS4ERR_RESOURCE
        // (RFC 8881 15.1.16).
        Refusal::WouldBlock
        | Refusal::Busy
        | Refusal::HostKeeps
        | Refusal::OwnerAway
        | Refusal::Cancelled
        | Refusal::WatchOverflow
        | Refusal::Exhausted => NfsStat::Delay,
        Refusal::Gone => NfsStat::Stale,
        Refusal::NoSuchGrant | Refusal::TooMuchKept => NfsStat::BadStateId,
        Refusal::Io => NfsStat::Io,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // RFC 8881 15.1.16
    #[test]
    fn what_meets_a_bound_is_told_with_a_status_that_there_is() {
        assert_eq!(of(&Refusal::Exhausted), NfsStat::Delay);
        assert_eq!(of(&Refusal::WatchOverflow), NfsStat::Delay);
    }
}
