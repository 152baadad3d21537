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
        Errno::BUSY | Errno::TXTBSY | Errno::DEADLK => Failure::Busy,
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
