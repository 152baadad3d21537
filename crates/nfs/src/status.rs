//! The NFS status for each of the engine's errors, as one exhaustive table.

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
        // RFC 8881 15.1: a running program denies writing, as an open with a share denial does.
        Refusal::SharingConflict | Refusal::Running => NfsStat::ShareDenied,
        // RFC 8881 15.1. A directory gets another status: see `names::conflict_status`.
        Refusal::InUse => NfsStat::FileOpen,
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
        // A request that must not wait is to be sent again, and so is one that exceeds a bound. Version 4.1
        // has no NFS4ERR_RESOURCE (RFC 8881 15.1.16).
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

    /// Every error of the engine. A new one does not compile until it is added here.
    #[rustfmt::skip]
    fn all() -> Vec<Refusal> {
        use Refusal::*;
        let all = vec![
            NotFound, PathNotFound, Exists, NotADirectory, IsADirectory, NotEmpty, AccessDenied,
            PrivilegeNotHeld, BadOwner, SharingConflict, RangeConflict, RangeNotGranted, RangeNotHeld,
            BadRange, DeletePending, CannotDelete, BadName, NameTooLong,
            StoppedAtLink { text: Vec::new(), left: 0 }, StoppedAtReparse { data: Vec::new(), left: 0 },
            BadLink, NoSpace, Quota, TooLarge, ReadOnly, CrossVolume, TooManyLinks, Invalid, NotSupported,
            BadAttributeName, AttributesTooLarge, NoSuchAttribute, NoSuchNote, WouldBlock, EndOfFile,
            NoMoreEntries, WatchOverflow, Exhausted, Cancelled, Gone, Busy, InUse, Running, HostKeeps,
            OwnerAway, NoSuchGrant, TooMuchKept, Io,
        ];
        all.iter().for_each(|one| match one {
            NotFound | PathNotFound | Exists | NotADirectory | IsADirectory | NotEmpty | AccessDenied
            | PrivilegeNotHeld | BadOwner | SharingConflict | RangeConflict | RangeNotGranted | RangeNotHeld
            | BadRange | DeletePending | CannotDelete | BadName | NameTooLong | StoppedAtLink { .. }
            | StoppedAtReparse { .. } | BadLink | NoSpace | Quota | TooLarge | ReadOnly | CrossVolume
            | TooManyLinks | Invalid | NotSupported | BadAttributeName | AttributesTooLarge | NoSuchAttribute
            | NoSuchNote | WouldBlock | EndOfFile | NoMoreEntries | WatchOverflow | Exhausted | Cancelled
            | Gone | Busy | InUse | Running | HostKeeps | OwnerAway | NoSuchGrant | TooMuchKept | Io => {}
        });
        all
    }

    // RFC 8881 15.1.1.3
    #[test]
    fn only_what_will_soon_be_over_is_told_as_ask_again() {
        let told: Vec<_> = all().into_iter().filter(|why| of(why) == NfsStat::Delay).collect();
        let soon = [
            Refusal::WouldBlock,
            Refusal::WatchOverflow,
            Refusal::Exhausted,
            Refusal::Cancelled,
            Refusal::Busy,
            Refusal::HostKeeps,
            Refusal::OwnerAway,
        ];
        assert_eq!(told, soon);
        assert_eq!(of(&Refusal::Running), NfsStat::ShareDenied);
        assert_eq!(of(&Refusal::InUse), NfsStat::FileOpen);
    }

    // RFC 8881 15.1.16
    #[test]
    fn what_meets_a_bound_is_told_with_a_status_that_there_is() {
        assert_eq!(of(&Refusal::Exhausted), NfsStat::Delay);
        assert_eq!(of(&Refusal::WatchOverflow), NfsStat::Delay);
    }
}
