//! The table from the host's errors to the volume's.

use rustix::io::Errno;
use volume::Failure;

/// The meaning of a host error for a caller. Calls for which an error means something else handle it
/// before they come here.
pub(crate) fn failure(errno: Errno) -> Failure {
    match errno {
        Errno::NOENT => Failure::NotFound,
        Errno::EXIST => Failure::Exists,
        Errno::NOTDIR => Failure::NotADirectory,
        Errno::ISDIR => Failure::IsADirectory,
        Errno::LOOP => Failure::IsALink,
        Errno::NOTEMPTY => Failure::NotEmpty,
        Errno::ACCESS | Errno::PERM => Failure::Denied,
        Errno::ROFS => Failure::ReadOnly,
        Errno::NOSPC => Failure::NoSpace,
        Errno::DQUOT => Failure::Quota,
        Errno::FBIG | Errno::OVERFLOW => Failure::TooLarge,
        Errno::NAMETOOLONG => Failure::NameTooLong,
        Errno::ILSEQ => Failure::BadName,
        Errno::XDEV => Failure::CrossDevice,
        Errno::INVAL | Errno::RANGE | Errno::TOOBIG => Failure::Invalid,
        Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOTTY => Failure::NotSupported,
        Errno::MLINK => Failure::TooManyLinks,
        Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS => Failure::Exhausted,
        // Both last until a process of the host ends the use, so they are no reason to ask again.
        Errno::BUSY => Failure::InUse,
        Errno::TXTBSY => Failure::Running,
        Errno::DEADLK => Failure::Busy,
        // An open conflicts with a lease of a program on the host. The kernel has begun to break it
        // (open(2)).
        Errno::AGAIN => Failure::HostKeeps,
        Errno::STALE | Errno::NODEV | Errno::NXIO | Errno::NOTCONN | Errno::SHUTDOWN => Failure::Stale,
        // The descriptor was not opened for this access.
        Errno::BADF => Failure::Denied,
        _ => Failure::Io,
    }
}

/// As [`failure`], for errors of the standard library.
pub(crate) fn failure_of(why: &std::io::Error) -> Failure {
    Errno::from_io_error(why).map_or(Failure::Io, failure)
}

/// Repeats a call as long as a signal interrupts it, and translates its error.
pub(crate) fn call<T>(mut run: impl FnMut() -> rustix::io::Result<T>) -> volume::Result<T> {
    loop {
        match run() {
            Err(Errno::INTR) => {}
            Err(errno) => return Err(failure(errno)),
            Ok(value) => return Ok(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Protocols tell a client to ask again for these failures. If such a failure lasted, the client would
    // ask for ever.
    #[test]
    fn only_what_will_soon_be_over_is_told_as_such() {
        let soon = [Failure::WouldBlock, Failure::Exhausted, Failure::Busy, Failure::HostKeeps];
        let told: Vec<_> =
            (1..=133).map(Errno::from_raw_os_error).filter(|errno| soon.contains(&failure(*errno))).collect();
        let mut all =
            [Errno::AGAIN, Errno::NOMEM, Errno::NFILE, Errno::MFILE, Errno::DEADLK, Errno::NOBUFS].to_vec();
        all.sort_by_key(|errno| errno.raw_os_error());
        assert_eq!(told, all);
        assert_eq!(failure(Errno::BUSY), Failure::InUse);
        assert_eq!(failure(Errno::TXTBSY), Failure::Running);
    }
}
