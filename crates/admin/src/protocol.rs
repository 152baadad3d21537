//! The protocol of the control socket: one JSON object on a line in each direction.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::access::{NewToken, TokenEntry, TokenRequest};
use crate::objects::{Change, ChangeAction, Changed, Kind, Object};
use crate::{AccountKey, AccountKeys, Channels, Health, KeyName, Status, Transactions, Workload};

/// The longest request, in bytes with its line end.
pub const MAX_REQUEST: usize = 64 * 1024;

/// The longest response, in bytes. A status of a hundred thousand opens fits.
pub const MAX_RESPONSE: usize = 128 * 1024 * 1024;

/// Keys of `[domain]`; null drops the change of a key.
pub type DomainSettings = Map<String, Value>;

/// A request to the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Whether the server is ready.
    Health,
    /// Sessions, connections, opens and locks.
    Status,
    /// The connections that carry each session.
    Channels,
    /// The counters of each share.
    Transactions,
    /// The workload of clients on shares.
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
    /// Every token.
    Tokens,
    /// Makes a token.
    AddToken(TokenRequest),
    /// Revokes a token.
    RevokeToken {
        /// The token's name.
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
        /// The key; none: the first that was never made.
        key: Option<KeyName>,
        /// The new key; none: the server makes one.
        given: Option<AccountKey>,
    },
    /// Every account or every share.
    Objects {
        /// The kind.
        kind: Kind,
    },
    /// Makes, changes or removes an account or a share.
    Change(Box<Change>),
    /// Sets keys of `[domain]`; null drops the change of a key.
    ChangeDomain(DomainSettings),
    /// The state directory at this moment. An archive follows the response [`Response::Archive`].
    Backup,
    /// Reads the configuration again.
    Reload,
    /// Ends the server.
    Stop,
}

impl Request {
    /// The request for the audit, without secrets. None if it changes nothing and gives no secret.
    #[must_use]
    pub fn audited(&self) -> Option<String> {
        Some(match self {
            Request::ChangeUser(change) => format!("change_user {}", change.name),
            Request::RemoveUser { name } => format!("remove_user {name}"),
            Request::AddToken(request) => format!("add_token {}", request.name),
            Request::RevokeToken { name } => format!("revoke_token {name}"),
            Request::AccountKeys { account } => format!("account_keys {account}"),
            Request::RenewKey { account, .. } => format!("renew_key {account}"),
            Request::Change(change) => {
                let verb = match change.what {
                    ChangeAction::Create { .. } => "create",
                    ChangeAction::Set { .. } => "set",
                    ChangeAction::Delete { .. } => "delete",
                };
                format!("{verb} {} {}", change.kind, change.name)
            }
            Request::ChangeDomain(_) => "change_domain".to_owned(),
            Request::Backup => "backup".to_owned(),
            Request::Reload => "reload".to_owned(),
            Request::Stop => "stop".to_owned(),
            Request::Health
            | Request::Status
            | Request::Channels
            | Request::Transactions
            | Request::Workload
            | Request::Users
            | Request::Tokens
            | Request::Objects { .. } => return None,
        })
    }
}

/// The server's response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Response {
    /// The request is carried out.
    Done,
    /// The answer to [`Request::Health`].
    Health(Box<Health>),
    /// The answer to [`Request::Status`].
    Status(Box<Status>),
    /// The answer to [`Request::Channels`].
    Channels(Box<Channels>),
    /// The answer to [`Request::Transactions`].
    Transactions(Box<Transactions>),
    /// The answer to [`Request::Workload`].
    Workload(Box<Workload>),
    /// The answer to [`Request::Users`].
    Users(Vec<UserEntry>),
    /// The answer to [`Request::Tokens`].
    Tokens(Vec<TokenEntry>),
    /// The answer to [`Request::AddToken`].
    NewToken(Box<NewToken>),
    /// The answer to [`Request::AccountKeys`].
    AccountKeys(Box<AccountKeys>),
    /// The answer to [`Request::RenewKey`]: the key that was renewed, and both keys.
    Renewed(KeyName, Box<AccountKeys>),
    /// The answer to [`Request::Objects`].
    Objects(Vec<Object>),
    /// The answer to [`Request::Change`].
    Changed(Box<Changed>),
    /// The answer to [`Request::ChangeDomain`], with notes for the administrator.
    DomainChanged(Vec<String>),
    /// The answer to [`Request::Reload`], with notes for the administrator.
    Reloaded(Vec<String>),
    /// The answer to [`Request::Backup`]. The bytes of the archive follow its line, up to the end of the
    /// connection. The archive itself shows whether it is complete.
    Archive,
    /// The request is refused, with the reason.
    Refused(String),
}

/// The NT hash of a password (MS-NLMP 3.3.1), which the server keeps in its place. It serves an attacker as
/// well as the password itself, so it is never printed.
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

/// A user to add or to change. Fields that are none stay as they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserChange {
    /// The user's name.
    pub name: String,
    /// Whether the user must be new (true) or must exist (false).
    pub add: bool,
    /// The hash of the new password.
    pub nt_hash: Option<NtHash>,
    /// The user id on the host.
    #[serde(default)]
    pub uid: IdChange,
    /// The group id on the host.
    #[serde(default)]
    pub gid: IdChange,
    /// Whether the user is one of the server's administrators.
    pub admin: Option<bool>,
}

/// The change of a user's id on the host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IdChange {
    /// It stays as it is.
    #[default]
    Keep,
    /// It is that of the host's user of the same name, as if none had been set.
    ByName,
    /// It is this number.
    To(u32),
}

impl IdChange {
    /// The id after the change of `before`; none: by the name.
    #[must_use]
    pub fn applied(self, before: Option<u32>) -> Option<u32> {
        match self {
            IdChange::Keep => before,
            IdChange::ByName => None,
            IdChange::To(id) => Some(id),
        }
    }
}

impl From<Option<u32>> for IdChange {
    /// The change to an id that may be given.
    fn from(id: Option<u32>) -> IdChange {
        id.map_or(IdChange::Keep, IdChange::To)
    }
}

/// A user in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserEntry {
    /// The user's name.
    pub name: String,
    /// The security identifier.
    pub sid: String,
    /// The user id on the host, if the user has one.
    pub uid: Option<u32>,
    /// The group id on the host, if the user has one.
    pub gid: Option<u32>,
    /// Whether the user is one of the server's administrators.
    pub admin: bool,
    /// The reason why the user may not log on, if there is one.
    #[serde(default)]
    pub restriction: Option<String>,
    /// The place of the password: `state` for the state directory, or the file that the configuration names.
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
            uid: IdChange::To(1000),
            gid: IdChange::ByName,
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
