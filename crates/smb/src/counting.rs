//! Transactions: the values that are counted for a request when it is answered. The names are those of Azure
//! Files' metrics. [`response`] maps a status to a response type.

use share::counts::Family;
use share::limits::ResponseType;
use smb_wire::{NtStatus, SmbCommand};

/// The commands in the order of their numbers. The last entry stands for every other number.
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

/// The index in [`FAMILY`]'s authentications for a session with a user.
pub const PROVED: u8 = 0;
/// The index for an anonymous session and for a request without a session.
pub(crate) const NOT_PROVED: u8 = 1;
/// The index for a session that was logged on with the key of an account.
pub const BY_KEY: u8 = 2;

/// Whether a command counts among the metadata operations: operations on names and Opens, not on data.
pub(crate) fn is_metadata(command: SmbCommand) -> bool {
    matches!(
        command,
        SmbCommand::Create
            | SmbCommand::Close
            | SmbCommand::Lock
            | SmbCommand::Ioctl
            | SmbCommand::QueryDirectory
            | SmbCommand::QueryInfo
            | SmbCommand::SetInfo
    )
}

/// The response type of a request that ended with this status. `met` is the limit that the request met
/// before.
pub(crate) fn response(status: NtStatus, met: ResponseType) -> ResponseType {
    // A warning comes with a reply: the reply was cut short, or there are no more entries. A log-on that
    // goes on has not failed.
    if !status.is_error() || status == NtStatus::MORE_PROCESSING_REQUIRED {
        return met;
    }
    match status {
        NtStatus::LOGON_FAILURE
        | NtStatus::WRONG_PASSWORD
        | NtStatus::ACCOUNT_DISABLED
        | NtStatus::ACCOUNT_RESTRICTION
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
            match SmbCommand::new(number as u16) {
                SmbCommand::ServerToClientNotification | SmbCommand::Unknown(_) => {
                    assert_eq!(*name, "Unknown")
                }
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
