//! The errors of a client, in one type.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use nfs_wire::NfsStat;
use nfs_wire::op::OpNum;
use smb_wire::{Malformed, NtStatus, SmbCommand};

/// The reason why an operation failed.
///
/// [`Error::Status`] and [`Error::Refused`] are the server's refusal of one request and leave the connection
/// as it was. So do [`Error::StateLost`] and [`Error::UnstableLost`]. Every other kind that comes from a
/// reply ends the connection, and all its requests fail with the same error.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The server refused the request.
    #[error("{command:?} was answered with {status}")]
    Status {
        /// The command of the request.
        command: SmbCommand,
        /// The status in the reply.
        status: NtStatus,
    },
    /// An NFS server refused an operation. It did not carry out the later operations of the COMPOUND.
    #[error("{} was answered with NFS4ERR {status:?}", operation.name().unwrap_or("an operation"))]
    Refused {
        /// The refused operation.
        operation: OpNum,
        /// The status in the reply.
        status: NfsStat,
    },
    /// The NFS server has restarted or given the client up, and has not returned an open file. Others may
    /// have changed the file meanwhile. Only the user of the file knows whether it can be opened again.
    #[error(
        "the server restarted or gave this client up, and did not give the open file back: NFS4ERR {status:?}"
    )]
    StateLost {
        /// The server's status when the file was reclaimed, or the reason why it was not reclaimed.
        status: NfsStat,
    },
    /// The NFS server has restarted during unstable writes and may have lost the data written before.
    #[error("the server restarted while data was written, and may have lost some of it")]
    UnstableLost,
    /// A server refused a whole call because of its program, its version or its credential.
    #[error("the server did not carry out a call: {0}")]
    Call(String),
    /// The log-on failed on this side: the server's token is not acceptable.
    #[error("logging on failed: {0}")]
    LogOn(#[from] auth::Refusal),
    /// The server let us in as a guest. Nothing protects a guest's messages.
    #[error("the server knows no such user and offers to be its guest, which is not accepted")]
    Guest,
    /// The server does not offer a feature that the options require.
    #[error("the server does not offer {0}")]
    NotOffered(&'static str),
    /// The transport failed.
    #[error("the connection failed: {0}")]
    Io(#[source] Arc<io::Error>),
    /// This host refused an operation on its own files ([`crate::remote`]).
    #[error("{0}")]
    Local(#[source] Arc<io::Error>),
    /// The server is reachable, but did not answer a step on the way to a share or export in time
    /// ([`Options::connect_timeout`](crate::smb::Options::connect_timeout)).
    #[error(
        "{step} was not answered within {after:?}: the server accepts data and does not answer; \
         look there for the cause (its log, its disks, the service that knows its users)"
    )]
    Late {
        /// The command or operation.
        step: &'static str,
        /// The time that was waited.
        after: Duration,
    },
    /// The server closed the connection, or all handles to the connection are gone.
    #[error("the connection is closed")]
    Closed,
    /// A message of the server is malformed.
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
    /// The server grants no credits, or fewer than an indivisible request needs, and no request of ours is
    /// pending.
    #[error("a request needs {needed} credits, the server grants no more than {granted}")]
    Credits {
        /// The credit charge of the request.
        needed: u16,
        /// The credits that are left.
        granted: u32,
    },
}

impl Error {
    /// Whether the connection is gone or unusable, for no fault of the request.
    #[must_use]
    pub fn is_loss(&self) -> bool {
        matches!(self, Error::Io(_) | Error::Closed | Error::Late { .. })
    }

    /// The server's SMB status, if that is the error.
    #[must_use]
    pub fn status(&self) -> Option<NtStatus> {
        match self {
            Error::Status { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// Whether the name does not exist.
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

    /// Whether the name exists already.
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

    /// The server's NFS status, if that is the error.
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
