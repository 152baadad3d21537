//! What can go wrong for a client, in one type.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use nfs_wire::NfsStat;
use nfs_wire::op::OpNum;
use smb_wire::{Malformed, NtStatus, SmbCommand};

/// Why an operation did not succeed.
///
/// [`Error::Status`] and [`Error::Refused`] are the server's refusal of one request and leave the connection as it was, and so
/// do [`Error::StateLost`] and [`Error::UnstableLost`]. Every other kind that a reply leads to ends the connection: all its requests fail with the same error.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The server refused the request.
    #[error("{command:?} was answered with {status}")]
    Status {
        /// The request's command.
        command: SmbCommand,
        /// The answer.
        status: NtStatus,
    },
    /// An NFS server refused an operation; those behind it in its COMPOUND were not carried out.
    #[error("{} was answered with NFS4ERR {status:?}", operation.name().unwrap_or("an operation"))]
    Refused {
        /// The operation.
        operation: OpNum,
        /// The answer.
        status: NfsStat,
    },
    /// The NFS server has restarted, or has given the client up, and has not given a file back that was open: others may have
    /// changed it meanwhile. Only the user of the file knows whether it can be opened again.
    #[error(
        "the server restarted or gave this client up, and did not give the open file back: NFS4ERR {status:?}"
    )]
    StateLost {
        /// The server's answer when the file was claimed, or the reason why it was not claimed.
        status: NfsStat,
    },
    /// The NFS server has restarted in the middle of what was written unsafely, and may have lost what came before.
    #[error("the server restarted while data was written, and may have lost some of it")]
    UnstableLost,
    /// A server refused a whole call: its program, its version or its credential.
    #[error("the server did not carry out a call: {0}")]
    Call(String),
    /// The login was refused before or after the server's status: a token that cannot be accepted.
    #[error("logging on failed: {0}")]
    LogOn(#[from] auth::Refusal),
    /// The server let us in as a guest, whose messages nothing protects.
    #[error("the server knows no such user and offers to be its guest, which is not accepted")]
    Guest,
    /// What the options ask for, the server does not offer.
    #[error("the server does not offer {0}")]
    NotOffered(&'static str),
    /// The transport failed.
    #[error("the connection failed: {0}")]
    Io(#[source] Arc<io::Error>),
    /// This host refuses, where files are its own ([`crate::remote`]).
    #[error("{0}")]
    Local(#[source] Arc<io::Error>),
    /// The server, which is there, has not answered a step on the way to a share or export in time
    /// ([`Options::connect_timeout`](crate::smb::Options::connect_timeout)).
    #[error(
        "{step} was not answered within {after:?}: the server takes what is sent and does not go on; see there what it waits for (its log, its disks, the service that knows its users)"
    )]
    Late {
        /// The command or operation.
        step: &'static str,
        /// How long it was waited for.
        after: Duration,
    },
    /// The server closed the connection, or all handles to it are gone.
    #[error("the connection is closed")]
    Closed,
    /// A message of the server cannot be read.
    #[error("the server sent a message that cannot be read: {0}")]
    Malformed(#[from] Malformed),
    /// A message of the server has the wrong signature or seal.
    #[error("a message of the server carries a wrong signature or seal")]
    WrongSignature,
    /// A message of the server lacks the signature or seal that the request had.
    #[error("the server answered {0:?} without the signature or encryption that the session demands")]
    Unprotected(SmbCommand),
    /// The server broke another rule of the protocol.
    #[error("the server broke the protocol: {0}")]
    Protocol(&'static str),
    /// The server grants none, or fewer credits than a request needs that cannot go in parts, and none of ours is under way.
    #[error("a request needs {needed} credits, the server grants no more than {granted}")]
    Credits {
        /// What the request is charged.
        needed: u16,
        /// What the server has left us with.
        granted: u32,
    },
}

impl Error {
    /// Whether the connection is gone, or of no use, for no fault of the request.
    #[must_use]
    pub fn is_loss(&self) -> bool {
        matches!(self, Error::Io(_) | Error::Closed | Error::Late { .. })
    }

    /// The server's status, when that is what went wrong.
    #[must_use]
    pub fn status(&self) -> Option<NtStatus> {
        match self {
            Error::Status { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// Whether there is no such name.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        let missing =
            [NtStatus::OBJECT_NAME_NOT_FOUND, NtStatus::OBJECT_PATH_NOT_FOUND, NtStatus::NO_SUCH_FILE];
        match self {
            Error::Status { status, .. } => missing.contains(status),
            Error::Refused { status, .. } => *status == NfsStat::NoEnt,
            Error::Local(why) => why.kind() == io::ErrorKind::NotFound,
            _ => false,
        }
    }

    /// Whether the name is taken.
    #[must_use]
    pub fn is_taken(&self) -> bool {
        match self {
            Error::Status { status, .. } => *status == NtStatus::OBJECT_NAME_COLLISION,
            Error::Refused { status, .. } => *status == NfsStat::Exist,
            Error::Local(why) => why.kind() == io::ErrorKind::AlreadyExists,
            _ => false,
        }
    }

    pub(crate) fn local(error: io::Error) -> Error {
        Error::Local(Arc::new(error))
    }

    /// An NFS server's status, when that is what went wrong.
    #[must_use]
    pub fn nfs_status(&self) -> Option<NfsStat> {
        match self {
            Error::Refused { status, .. } => Some(*status),
            _ => None,
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Error::Io(Arc::new(error))
    }
}

/// The result of an operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_not_there_is_told_from_what_may_not_be_done_to_it() {
        let status = |status| Error::Status { command: SmbCommand::Create, status };
        assert!(status(NtStatus::OBJECT_NAME_NOT_FOUND).is_missing());
        assert!(!status(NtStatus::ACCESS_DENIED).is_missing() && !Error::Closed.is_missing());
    }
}
