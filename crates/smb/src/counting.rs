//! Transactions: what is noted of a request when it is answered. Their names are those of Azure Files' metrics; the table of
//! what went how is [`response`].

use share::counts::Family;
use share::limits::ResponseType;
use smb_wire::{Command, NtStatus};

/// The commands in the order of their numbers, and at the end whatever else may come.
pub static FAMILY: Family = Family {
    name: "SMB",
    operations: &[
        "Negotiate",
        "SessionSetup",
        "Logoff",
        "TreeConnect",
        "TreeDisconnect",
        "Create",
        "Close",
        "Flush",
        "Read",
        "Write",
        "Lock",
        "Ioctl",
        "Cancel",
        "Echo",
        "QueryDirectory",
        "ChangeNotify",
        "QueryInfo",
        "SetInfo",
        "OplockBreak",
        "Unknown",
    ],
    authentications: &["NTLMv2", "Anonymous", "AccountKey"],
};

/// The place of [`FAMILY`]'s authentications: a session with a user.
pub const PROVED: u8 = 0;
/// A session without one, or none yet.
pub(crate) const NOT_PROVED: u8 = 1;
/// A session that was logged on with the key of an account.
pub const BY_KEY: u8 = 2;

/// Whether a command counts among the operations on metadata: those on names and Opens rather than on data.
pub(crate) fn is_metadata(command: Command) -> bool {
    matches!(
        command,
        Command::Create
            | Command::Close
            | Command::Lock
            | Command::Ioctl
            | Command::QueryDirectory
            | Command::QueryInfo
            | Command::SetInfo
    )
}

/// How a request went that ended with this status, when it had met this limit before.
pub(crate) fn response(status: NtStatus, met: ResponseType) -> ResponseType {
    // Warnings come with an answer: of what there was room for, or that there is no more. A log-on that goes on has not
    // failed.
    if !status.is_error() || status == NtStatus::MORE_PROCESSING_REQUIRED {
        return met;
    }
    match status {
        NtStatus::LOGON_FAILURE
        | NtStatus::WRONG_PASSWORD
        | NtStatus::ACCOUNT_DISABLED
        | NtStatus::USER_SESSION_DELETED
        | NtStatus::NETWORK_SESSION_EXPIRED => ResponseType::AuthenticationError,
        NtStatus::ACCESS_DENIED | NtStatus::PRIVILEGE_NOT_HELD | NtStatus::MEDIA_WRITE_PROTECTED => {
            ResponseType::AuthorizationError
        }
        NtStatus::INSUFFICIENT_RESOURCES | NtStatus::REQUEST_NOT_ACCEPTED => ResponseType::ServerBusyError,
        NtStatus::IO_TIMEOUT => ResponseType::ServerTimeoutError,
        NtStatus::IO_DEVICE_ERROR | NtStatus::INTERNAL_ERROR | NtStatus::UNSUCCESSFUL => {
            ResponseType::ServerOtherError
        }
        _ => ResponseType::ClientOtherError,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_its_name() {
        for (number, name) in FAMILY.operations.iter().enumerate() {
            match Command::new(number as u16) {
                Command::ServerToClientNotification | Command::Unknown(_) => assert_eq!(*name, "Unknown"),
                command => assert_eq!(*name, format!("{command:?}")),
            }
        }
    }

    #[test]
    fn a_limit_shows_only_where_the_request_went_well() {
        let met = ResponseType::SuccessWithShareIopsThrottling;
        assert_eq!(response(NtStatus::SUCCESS, met), met);
        assert_eq!(response(NtStatus::NO_MORE_FILES, met), met);
        assert_eq!(response(NtStatus::MORE_PROCESSING_REQUIRED, met), met);
        assert_eq!(response(NtStatus::OBJECT_NAME_NOT_FOUND, met), ResponseType::ClientOtherError);
        assert_eq!(response(NtStatus::IO_DEVICE_ERROR, met), ResponseType::ServerOtherError);
    }
}
