//! The one table from the host's errors to the volume's.

use rustix::io::Errno;
use volume::Failure;

/// What an error of the host means to a caller. Calls for which an error means something else say so
/// themselves before they come here.
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
        // Both last until somebody of the host ends what is in the way, so they are no reason to ask again.
        Errno::BUSY => Failure::InUse,
        Errno::TXTBSY => Failure::Running,
        Errno::DEADLK => Failure::Busy,
        // An open met a lease of a program on the host, which the kernel has begun to break (open(2)).
        Errno::AGAIN => Failure::HostKeeps,
        Errno::STALE | Errno::NODEV | Errno::NXIO | Errno::NOTCONN | Errno::SHUTDOWN => Failure::Stale,
        // A descriptor that was not opened for this.
        Errno::BADF => Failure::Denied,
        _ => Failure::Io,
    }
}

/// The same for the standard library's errors.
pub(crate) fn failure_of(why: &std::io::Error) -> Failure {
    Errno::from_io_error(why).map_or(Failure::Io, failure)
}

/// Runs a call again as long as a signal interrupts it, and translates its error.
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

    // Protocols tell who meets one of these to ask again: a client that is told so of what lasts asks for ever.
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
