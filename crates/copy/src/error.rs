//! Why a copy did not begin, and why one of its files was not copied.

use std::io;

use client::nfs::NfsStat;
use smb_wire::NtStatus;

/// Why nothing was copied: one line for the user. The exit status is [`crate::FATAL`].
#[derive(Debug, Clone, thiserror::Error)]
#[error("{doing}: {why}")]
pub struct Error {
    /// What was being done.
    doing: String,
    /// What came of it, and what to do.
    why: String,
}

impl Error {
    /// `why` came of `doing`; it says what to do, where that is known.
    pub fn new(doing: impl Into<String>, why: impl ToString) -> Error {
        Error { doing: doing.into(), why: why.to_string() }
    }
}

/// What came of one operation on a file or directory, of whichever side.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum Fault {
    /// This host refuses.
    #[error("{}", of_host(*.0, .1))]
    Host(io::ErrorKind, String),
    /// A server refuses, or is gone.
    #[error("{}", of_server(.0))]
    Server(client::Error),
    /// The file did not keep still.
    #[error("it was changed while it was copied; run the copy again when it is at rest")]
    Changed,
    /// What was read back is not what was written.
    #[error("the target lost or changed what was written to it; what there was of it was thrown away")]
    Differs,
    /// A server may have lost what it had not on its store when it restarted.
    #[error(
        "the server restarted while the file was written, and may have lost what was written; run the same command again, it goes on where it stopped"
    )]
    Restarted,
    /// The whole copy has ended.
    #[error("the copy ended before it was done; run the same command again")]
    Over,
    /// Something else, in words.
    #[error("{0}")]
    Said(String),
}

/// A result for one file or directory.
pub(crate) type Done<T> = Result<T, Fault>;

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Fault {
        Fault::Host(error.kind(), error.to_string())
    }
}

impl From<client::Error> for Fault {
    fn from(error: client::Error) -> Fault {
        Fault::Server(error)
    }
}

impl Fault {
    /// Only a share has named streams.
    pub(crate) fn no_streams() -> Fault {
        Fault::Host(io::ErrorKind::Unsupported, "there are no named streams here".to_owned())
    }

    /// Only directories of a share get their names late.
    pub(crate) fn all_named() -> Fault {
        Fault::Said("all directories have their names here from the beginning".to_owned())
    }

    /// There is no such file or directory.
    pub(crate) fn is_missing(&self) -> bool {
        match self {
            Fault::Host(kind, _) => *kind == io::ErrorKind::NotFound,
            Fault::Server(error) => error.is_missing(),
            _ => false,
        }
    }

    /// The name is taken.
    pub(crate) fn is_taken(&self) -> bool {
        match self {
            Fault::Host(kind, _) => *kind == io::ErrorKind::AlreadyExists,
            Fault::Server(error) => error.is_taken(),
            _ => false,
        }
    }

    /// A share refuses this to us, or has something open that it must not be done to.
    pub(crate) fn is_denied(&self) -> bool {
        matches!(self, Fault::Server(error) if error.status() == Some(NtStatus::ACCESS_DENIED))
    }

    /// Whoever was asked knows no such thing, as a file system without extended attributes.
    pub(crate) fn is_unsupported(&self) -> bool {
        match self {
            Fault::Host(kind, _) => *kind == io::ErrorKind::Unsupported,
            Fault::Server(client::Error::NotOffered(_)) => true,
            Fault::Server(error) => {
                let by_status = [
                    NtStatus::NOT_SUPPORTED,
                    NtStatus::INVALID_DEVICE_REQUEST,
                    NtStatus::INVALID_INFO_CLASS,
                    NtStatus::EAS_NOT_SUPPORTED,
                    // Of a named stream, where there are none.
                    NtStatus::OBJECT_NAME_INVALID,
                ];
                let by_nfs_status =
                    [NfsStat::NotSupp, NfsStat::AttrNotSupp, NfsStat::OpIllegal, NfsStat::Xattr2Big];
                error.status().is_some_and(|status| by_status.contains(&status))
                    || error.nfs_status().is_some_and(|status| by_nfs_status.contains(&status))
            }
            _ => false,
        }
    }

    /// There is no room for more.
    pub(crate) fn is_full(&self) -> bool {
        let by_status = [NtStatus::DISK_FULL, NtStatus::QUOTA_EXCEEDED];
        let by_nfs_status = [NfsStat::NoSpc, NfsStat::DQuot, NfsStat::FBig];
        matches!(self, Fault::Server(error) if error.status().is_some_and(|status| by_status.contains(&status))
            || error.nfs_status().is_some_and(|status| by_nfs_status.contains(&status)))
    }

    /// A server that refuses to copy a file by itself would refuse it of others as well.
    pub(crate) fn refuses_kind(&self) -> bool {
        let by_status =
            [NtStatus::INVALID_PARAMETER, NtStatus::OBJECT_NAME_NOT_FOUND, NtStatus::BAD_NETWORK_NAME];
        let by_nfs_status = [NfsStat::XDev, NfsStat::OffloadNoReqs, NfsStat::WrongSec];
        self.is_unsupported()
            || matches!(self, Fault::Server(error) if error.status().is_some_and(|status| by_status.contains(&status))
                || error.nfs_status().is_some_and(|status| by_nfs_status.contains(&status)))
    }

    /// The connection is gone, for no fault of the file.
    pub(crate) fn is_loss(&self) -> bool {
        matches!(self, Fault::Server(error) if error.is_loss())
    }

    /// The server or its connection was lost meanwhile, and with it perhaps what was open: what the server had on its store is
    /// there all the same.
    pub(crate) fn is_interruption(&self) -> bool {
        let lost = [NfsStat::BadStateId, NfsStat::StaleStateId, NfsStat::Expired, NfsStat::AdminRevoked];
        let closed = [NtStatus::FILE_CLOSED, NtStatus::USER_SESSION_DELETED, NtStatus::NETWORK_NAME_DELETED];
        match self {
            Fault::Restarted
            | Fault::Server(client::Error::StateLost { .. } | client::Error::UnstableLost) => true,
            Fault::Server(error) => {
                error.is_loss()
                    || error.nfs_status().is_some_and(|status| lost.contains(&status))
                    || error.status().is_some_and(|status| closed.contains(&status))
            }
            _ => false,
        }
    }

    /// Whether another attempt may fare better.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Fault::Changed | Fault::Differs | Fault::Restarted => true,
            Fault::Host(kind, _) => matches!(
                kind,
                io::ErrorKind::Interrupted | io::ErrorKind::TimedOut | io::ErrorKind::ResourceBusy
            ),
            Fault::Server(error) => {
                let passing = [
                    NtStatus::SHARING_VIOLATION,
                    NtStatus::INSUFFICIENT_RESOURCES,
                    NtStatus::FILE_NOT_AVAILABLE,
                ];
                self.is_interruption()
                    || error.status().is_some_and(|status| passing.contains(&status))
                    || matches!(
                        error.nfs_status(),
                        Some(NfsStat::Delay | NfsStat::Grace | NfsStat::ShareDenied)
                    )
            }
            Fault::Over | Fault::Said(_) => false,
        }
    }
}

/// What the host says, and what to do where that is known.
fn of_host(kind: io::ErrorKind, text: &str) -> String {
    match kind {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => format!("{text}; {ROOM}"),
        _ => text.to_owned(),
    }
}

const ROOM: &str = "make room in the target and run the same command again";

/// What a server says, and what to do where that is known.
fn of_server(error: &client::Error) -> String {
    let advice = match (error.status(), error.nfs_status()) {
        (Some(NtStatus::DISK_FULL | NtStatus::QUOTA_EXCEEDED), _)
        | (_, Some(NfsStat::NoSpc | NfsStat::DQuot)) => ROOM,
        (Some(NtStatus::ACCESS_DENIED), _) | (_, Some(NfsStat::Access | NfsStat::Perm)) => {
            "the user may not do this there"
        }
        (Some(NtStatus::OBJECT_NAME_INVALID), _) | (_, Some(NfsStat::BadName | NfsStat::NameTooLong)) => {
            "the target cannot hold this name; rename it"
        }
        (Some(NtStatus::LOGON_FAILURE), _) => "no such user, or a wrong password",
        (Some(NtStatus::BAD_NETWORK_NAME), _) => "the server has no such share",
        (Some(NtStatus::SHARING_VIOLATION), _) => "somebody has it open",
        // It says itself what to do.
        _ if matches!(error, client::Error::Late { .. }) => return error.to_string(),
        _ if error.is_loss() => "the server is gone; run the same command again, it goes on where it stopped",
        _ => return error.to_string(),
    };
    format!("{error}; {advice}")
}

/// Says what was being done.
pub(crate) trait Doing<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, Error>;
}

impl<T, F: Into<Fault>> Doing<T> for Result<T, F> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, Error> {
        self.map_err(|why| Error::new(what(), why.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_whose_server_restarted_is_taken_up_where_it_was() {
        let lost = client::Error::StateLost { status: NfsStat::NoGrace };
        for fault in [Fault::Restarted, lost.into()] {
            assert!(fault.is_interruption() && fault.may_pass(), "{fault}");
        }
        // Content that was read back wrong is thrown away, and copied from its beginning.
        assert!(Fault::Differs.may_pass() && !Fault::Differs.is_interruption());
    }
}
