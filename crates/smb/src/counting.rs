//! Transactions: what is noted of a request when it is answered. Their names are those of Azure Files' metrics; the table of
//! what went how is [`response`].

use share::counts::{Family, Kind, Noted, Place};
use share::limits::{Charge, ResponseType};
use smb_wire::{Command, Header, NtStatus, header, read};
use wire::Now;

use crate::connection::Connection;
use crate::pacing::is_metadata;
use crate::recording::Sample;

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
const NOT_PROVED: u8 = 1;
/// A session that was logged on with the key of an account.
pub const BY_KEY: u8 = 2;

/// What is known of a request until it is answered.
#[derive(Debug)]
pub struct Course {
    /// The limits of its share have let it pass, or hold it just now.
    pub has_passed: bool,
    /// What it has taken from them while it waited for its turn.
    pub(crate) charge: Charge,
    /// The share that it is for.
    pub place: Place,
    /// Which limit it has met.
    pub met: ResponseType,
    /// When it was taken up (monotonic ns).
    pub(crate) arrived_ns: u64,
    /// Its bytes.
    pub(crate) len: usize,
    /// Bytes of data that it has written.
    pub written: usize,
    /// Bytes of data behind what is in its answer's frame.
    pub attached: usize,
    /// How its session was logged on: a place in [`FAMILY`]'s authentications.
    pub authentication: u8,
    /// What its record says further; none: it is not recorded.
    pub(crate) sample: Option<Box<Sample>>,
}

impl Course {
    /// Of a request of so many bytes.
    pub fn new(len: usize, now: Now) -> Course {
        Course {
            has_passed: false,
            charge: Charge::default(),
            place: Place::default(),
            met: ResponseType::Success,
            arrived_ns: now.mono_ns,
            len,
            written: 0,
            attached: 0,
            authentication: NOT_PROVED,
            sample: None,
        }
    }
}

impl Connection {
    /// Notes a request whose answer has so many bytes. One that `has_waited` was told STATUS_PENDING.
    pub(crate) fn note(
        &mut self,
        header: &Header,
        course: &mut Course,
        status: NtStatus,
        answer: usize,
        has_waited: bool,
    ) {
        let command = header.command();
        let response = response(status, course.met);
        let kind = match command {
            Command::Read => Kind::Read,
            Command::Write => Kind::Write,
            command if is_metadata(command) => Kind::Metadata,
            _ => Kind::Other,
        };
        let data = match kind {
            Kind::Read if response.is_success() => answer.saturating_sub(header::SIZE + read::RESPONSE_FIXED),
            Kind::Write if response.is_success() => course.written,
            _ => 0,
        };
        let last = FAMILY.operations.len() as u16 - 1;
        let noted = Noted {
            operation: command.get().min(last) as u8,
            authentication: course.authentication,
            kind,
            response,
            ingress: course.len as u64,
            egress: answer as u64,
            data: data as u64,
        };
        // What waits for others to do something tells nothing of how quick anybody is.
        let is_patient = match command {
            Command::ChangeNotify | Command::Cancel => true,
            Command::Lock => has_waited,
            _ => false,
        };
        self.desk.note(course.place, &noted, (!is_patient).then_some(course.arrived_ns));
        if let Some(sample) = course.sample.take() {
            let about = self.about(header, status, &noted, *sample);
            self.desk.record(course.place, &noted, course.arrived_ns, !is_patient, about);
        }
    }
}

/// How a request went that ended with this status, when it had met this limit before.
fn response(status: NtStatus, met: ResponseType) -> ResponseType {
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
