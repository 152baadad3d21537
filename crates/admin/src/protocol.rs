//! The conversation over the control socket: one JSON object on a line each way.

use serde::{Deserialize, Serialize};

use crate::objects::{Change, Changed, Kind, Object};
use crate::{AccountKey, AccountKeys, Channels, KeyName, Status, Transactions, Workload};

/// Longest request, in bytes with its line end.
pub const MAX_REQUEST: usize = 64 * 1024;

/// Longest answer, in bytes; a status of a hundred thousand opens fits.
pub const MAX_RESPONSE: usize = 128 * 1024 * 1024;

/// What a client asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Who is connected, and what they hold.
    Status,
    /// Which connections carry each session.
    Channels,
    /// What was asked of each share, and how that went.
    Transactions,
    /// What clients do on shares.
    Workload,
    /// Every user that may log on.
    Users,
    /// Adds or changes a user.
    ChangeUser(UserChange),
    /// Removes a user.
    RemoveUser {
        /// The user's name.
        name: String,
    },
    /// The keys of an account.
    AccountKeys {
        /// The account's name.
        account: String,
    },
    /// Renews a key of an account.
    RenewKey {
        /// The account's name.
        account: String,
        /// Which; none: the first that was never made.
        key: Option<KeyName>,
        /// The new key; none: one is made.
        given: Option<AccountKey>,
    },
    /// Every account or every share.
    Objects {
        /// Which of them.
        kind: Kind,
    },
    /// Makes, changes or removes an account or a share.
    Change(Box<Change>),
    /// Reads the configuration again.
    Reload,
    /// Ends the server.
    Stop,
}

/// What the server answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Response {
    /// It is done.
    Done,
    /// To [`Request::Status`].
    Status(Box<Status>),
    /// To [`Request::Channels`].
    Channels(Box<Channels>),
    /// To [`Request::Transactions`].
    Transactions(Box<Transactions>),
    /// To [`Request::Workload`].
    Workload(Box<Workload>),
    /// To [`Request::Users`].
    Users(Vec<UserEntry>),
    /// To [`Request::AccountKeys`].
    AccountKeys(Box<AccountKeys>),
    /// To [`Request::RenewKey`]: which was renewed, and both.
    Renewed(KeyName, Box<AccountKeys>),
    /// To [`Request::Objects`].
    Objects(Vec<Object>),
    /// To [`Request::Change`].
    Changed(Box<Changed>),
    /// It was refused, and why.
    Refused(String),
}

/// The NT hash of a password (MS-NLMP 3.3.1), which is what the server keeps. It is as good as the
/// password to whoever holds it, so it is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct NtHash(pub [u8; 16]);

impl std::fmt::Debug for NtHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NtHash(…)")
    }
}

impl Serialize for NtHash {
    fn serialize<S: serde::Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let hex: String = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        out.serialize_str(&hex)
    }
}

impl<'de> Deserialize<'de> for NtHash {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let mut hash = [0; 16];
        if text.len() != 32 || !text.is_ascii() {
            return Err(serde::de::Error::custom("an NT hash has 32 hexadecimal digits"));
        }
        for (at, byte) in hash.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[at * 2..at * 2 + 2], 16).map_err(serde::de::Error::custom)?;
        }
        Ok(NtHash(hash))
    }
}

/// A user to add or change; what is none stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserChange {
    /// The user's name.
    pub name: String,
    /// Whether the user must be new (true) or known already (false).
    pub add: bool,
    /// The new password.
    pub nt_hash: Option<NtHash>,
    /// User id on the host.
    pub uid: Option<u32>,
    /// Group id on the host.
    pub gid: Option<u32>,
    /// Whether the user is one of the server's administrators.
    pub admin: Option<bool>,
}

/// A user, as a list shows them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserEntry {
    /// The user's name.
    pub name: String,
    /// Security identifier.
    pub sid: String,
    /// User id on the host.
    pub uid: u32,
    /// Group id on the host.
    pub gid: u32,
    /// Whether the user is one of the server's administrators.
    pub admin: bool,
    /// Where the password is: in the state directory, or in a file that the configuration names.
    pub source: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_stand_on_one_line_and_unknown_ones_are_refused() {
        let change = UserChange {
            name: "ann\n".to_owned(),
            add: true,
            nt_hash: Some(NtHash([0xa5; 16])),
            uid: Some(1000),
            gid: None,
            admin: None,
        };
        let line = serde_json::to_string(&Request::ChangeUser(change.clone())).unwrap();
        assert!(!line.contains('\n') && line.contains("\"do\":\"change_user\""));
        assert_eq!(serde_json::from_str::<Request>(&line).unwrap(), Request::ChangeUser(change));
        assert_eq!(serde_json::from_str::<Request>("{\"do\":\"stop\"}").unwrap(), Request::Stop);
        for bad in ["{\"do\":\"reboot\"}", "[]", "{\"do\":\"remove_user\",\"name\":\"a\",\"x\":1}", "{}"] {
            assert!(serde_json::from_str::<Request>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_hash_is_read_whole_or_not_at_all_and_never_printed() {
        let hash: NtHash = serde_json::from_str("\"000102030405060708090a0b0c0d0e0f\"").unwrap();
        assert_eq!(hash.0[15], 15);
        assert!(!format!("{hash:?}").contains("0f"));
        for bad in ["\"00\"", "\"zz0102030405060708090a0b0c0d0e0f\"", "\"é0102030405060708090a0b0c0d0e0\""] {
            assert!(serde_json::from_str::<NtHash>(bad).is_err(), "{bad}");
        }
    }
}
