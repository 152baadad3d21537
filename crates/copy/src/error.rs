//! The error of a copy that could not begin, and the fault of one file.

use std::io;

use client::nfs::NfsStat;
use smb_wire::NtStatus;

/// The reason why nothing was copied: one line for the user. The exit status is [`crate::FATAL`].
#[derive(Debug, Clone, thiserror::Error)]
#[error("{doing}: {why}")]
pub struct Error {
    /// The action that failed.
    doing: String,
    /// The reason, and advice.
    why: String,
}

impl Error {
    /// `doing` failed because of `why`, which has advice where it is known.
    pub fn new(doing: impl Into<String>, why: impl ToString) -> Error {
        Error { doing: doing.into(), why: why.to_string() }
    }
}

/// The fault of one operation on a file or directory of either side.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum Fault {
    /// A server or this host refuses, or the server is gone.
    #[error("{}", with_advice(.0))]
    Remote(client::Error),
    /// The file was changed meanwhile.
    #[error("it was changed while it was copied; run the copy again when it is at rest")]
    Changed,
    /// The data read back differs from the data written.
    #[error("the target lost or changed what was written to it; the partial copy was deleted")]
    Differs,
    /// The whole copy has ended.
    #[error("the copy ended before it was done; run the same command again")]
    Over,
    /// Another fault, in words.
    #[error("{0}")]
    Said(String),
}

/// A result for one file or directory.
pub(crate) type FileResult<T> = Result<T, Fault>;

impl From<client::Error> for Fault {
    fn from(error: client::Error) -> Fault {
        Fault::Remote(error)
    }
}

impl Fault {
    /// Only a share has named streams.
    pub(crate) fn no_streams() -> Fault {
        client::Error::NotOffered("named streams").into()
    }

    /// Only a share has staged directories.
    pub(crate) fn no_share() -> Fault {
        Fault::Said("this side is no share".to_owned())
    }

    /// A file was used with the wrong side.
    pub(crate) fn other_side() -> Fault {
        Fault::Said("a file of the other side".to_owned())
    }

    /// Whether the file or directory does not exist.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Fault::Remote(error) if error.is_missing())
    }

    /// Whether a share denies access, or refuses because something is open.
    pub(crate) fn is_denied(&self) -> bool {
        matches!(self, Fault::Remote(error) if error.status() == Some(NtStatus::ACCESS_DENIED))
    }

    /// Whether the side does not support the operation, for example extended attributes.
    pub(crate) fn is_unsupported(&self) -> bool {
        match self {
            Fault::Remote(client::Error::Local(why)) => why.kind() == io::ErrorKind::Unsupported,
            Fault::Remote(client::Error::NotOffered(_)) => true,
            Fault::Remote(error) => {
                let by_status = [
                    NtStatus::NOT_SUPPORTED,
                    NtStatus::INVALID_DEVICE_REQUEST,
                    NtStatus::INVALID_INFO_CLASS,
                    NtStatus::EAS_NOT_SUPPORTED,
                    // The answer for a named stream on a share without streams.
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

    /// Whether a server has no space left.
    pub(crate) fn is_full(&self) -> bool {
        self.is_one_of(
            &[NtStatus::DISK_FULL, NtStatus::QUOTA_EXCEEDED],
            &[NfsStat::NoSpc, NfsStat::DQuot, NfsStat::FBig],
        )
    }

    /// Whether the server answered one of these.
    fn is_one_of(&self, by_smb: &[NtStatus], by_nfs: &[NfsStat]) -> bool {
        let Fault::Remote(error) = self else { return false };
        error.status().is_some_and(|status| by_smb.contains(&status))
            || error.nfs_status().is_some_and(|status| by_nfs.contains(&status))
    }

    /// Whether a server that refuses to copy a file by itself would refuse every other file too.
    pub(crate) fn refuses_kind(&self) -> bool {
        let by_smb =
            [NtStatus::INVALID_PARAMETER, NtStatus::OBJECT_NAME_NOT_FOUND, NtStatus::BAD_NETWORK_NAME];
        self.is_unsupported()
            || self.is_one_of(&by_smb, &[NfsStat::XDev, NfsStat::OffloadNoReqs, NfsStat::WrongSec])
    }

    /// Whether the connection is gone, for no fault of the file.
    pub(crate) fn is_loss(&self) -> bool {
        matches!(self, Fault::Remote(error) if error.is_loss())
    }

    /// Whether the server or its connection was lost meanwhile, and perhaps the opens with it. Data on stable
    /// storage is not lost.
    pub(crate) fn is_interruption(&self) -> bool {
        let lost = [NfsStat::BadStateId, NfsStat::StaleStateId, NfsStat::Expired, NfsStat::AdminRevoked];
        let closed = [NtStatus::FILE_CLOSED, NtStatus::USER_SESSION_DELETED, NtStatus::NETWORK_NAME_DELETED];
        match self {
            Fault::Remote(client::Error::StateLost { .. } | client::Error::UnstableLost) => true,
            Fault::Remote(error) => {
                error.is_loss()
                    || error.nfs_status().is_some_and(|status| lost.contains(&status))
                    || error.status().is_some_and(|status| closed.contains(&status))
            }
            _ => false,
        }
    }

    /// Whether another attempt may succeed.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Fault::Changed | Fault::Differs => true,
            Fault::Remote(client::Error::Local(why)) => matches!(
                why.kind(),
                io::ErrorKind::Interrupted | io::ErrorKind::TimedOut | io::ErrorKind::ResourceBusy
            ),
            Fault::Remote(error) => {
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

const ROOM: &str = "make room in the target and run the same command again";

const RESTARTED: &str = "the server restarted while the file was written, and may have lost what was \
    written; run the same command again, it resumes";

/// The advice where an owner is refused.
pub(crate) const OWNER: &str = "this user may give no files to others there; leave the owners out (`--copy \
    DATSE` in place of --copyall, or no --owner), or copy as root on the host that has the files";

/// The text of an error, with advice where it is known.
fn with_advice(error: &client::Error) -> String {
    if let client::Error::Local(why) = error {
        let is_full = matches!(why.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        return if is_full { format!("{why}; {ROOM}") } else { why.to_string() };
    }
    let advice = match (error.status(), error.nfs_status()) {
        (Some(NtStatus::DISK_FULL | NtStatus::QUOTA_EXCEEDED), _)
        | (_, Some(NfsStat::NoSpc | NfsStat::DQuot)) => ROOM,
        (Some(NtStatus::ACCESS_DENIED), _) | (_, Some(NfsStat::Access | NfsStat::Perm)) => {
            "the user may not do this there"
        }
        (Some(NtStatus::INVALID_OWNER), _) => OWNER,
        (Some(NtStatus::OBJECT_NAME_INVALID), _) | (_, Some(NfsStat::BadName | NfsStat::NameTooLong)) => {
            "the target cannot hold this name; rename it"
        }
        (Some(NtStatus::LOGON_FAILURE), _) => "no such user, or a wrong password",
        (Some(NtStatus::BAD_NETWORK_NAME), _) => "the server has no such share",
        (Some(NtStatus::SHARING_VIOLATION), _) => "somebody has it open",
        // These texts have advice of their own.
        _ if matches!(error, client::Error::UnstableLost) => return RESTARTED.to_owned(),
        _ if matches!(error, client::Error::Late { .. }) => return error.to_string(),
        _ if error.is_loss() => "the server is gone; run the same command again, it resumes",
        _ => return error.to_string(),
    };
    format!("{error}; {advice}")
}

/// An error of this host on setting an owner, with advice.
pub(crate) fn owner_refused(why: io::Error) -> io::Error {
    match why.kind() {
        io::ErrorKind::PermissionDenied => io::Error::new(why.kind(), format!("{why}; {OWNER}")),
        _ => why,
    }
}

/// Adds the action that failed to an error.
pub(crate) trait ErrorContext<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, Error>;
}

impl<T, F: Into<Fault>> ErrorContext<T> for Result<T, F> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, Error> {
        self.map_err(|why| Error::new(what(), why.into()))
    }
}

#[cfg(test)]
mod tests {
    use smb_wire::SmbCommand;

    use super::*;

    #[test]
    fn whoever_may_give_no_files_away_is_told_what_to_leave_out() {
        let refused = client::Error::Status { command: SmbCommand::SetInfo, status: NtStatus::INVALID_OWNER };
        let here = owner_refused(io::Error::from(io::ErrorKind::PermissionDenied));
        for text in [Fault::from(refused).to_string(), here.to_string()] {
            assert!(text.contains("`--copy DATSE` in place of --copyall"), "{text}");
        }
        let other = owner_refused(io::Error::from(io::ErrorKind::NotFound)).to_string();
        assert!(!other.contains("--copy"), "{other}");
    }

    #[test]
    fn a_file_whose_server_restarted_is_taken_up_where_it_was() {
        let lost = client::Error::StateLost { status: NfsStat::NoGrace };
        for fault in [client::Error::UnstableLost.into(), Fault::from(lost)] {
            assert!(fault.is_interruption() && fault.may_pass(), "{fault}");
        }
        // Content that was read back wrong is removed, and copied from its beginning.
        assert!(Fault::Differs.may_pass() && !Fault::Differs.is_interruption());
    }
}
