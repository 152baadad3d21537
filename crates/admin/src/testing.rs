//! A server for tests, which notes the calls that it gets.

use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::access::{Caller, NewToken, Role, TokenEntry, TokenRefusal, TokenRequest, TokenText};
use crate::objects::{Change, ChangeAction, Changed, Kind, Object, Refusal, RefusalKind};
use crate::open_files::{ClosedState, FileInUse};
use crate::{
    AccountKey, AccountKeys, Channels, Controlled, DomainSettings, Health, KeyName, NtHash, Status,
    Transactions, UserChange, UserEntry, Workload,
};

/// The server.
#[derive(Default)]
pub struct Fake {
    /// The calls that it got.
    pub calls: Mutex<Vec<String>>,
    /// Names of tokens that are revoked.
    pub revoked: Mutex<Vec<String>>,
}

/// The token with a role: `token read` has the name `read`.
pub fn token(role: Role) -> String {
    format!("token-{role}")
}

/// A share or an account with the name `docs`.
pub fn object(kind: Kind) -> Object {
    let settings = [("comment".to_owned(), "old".into())].into_iter().collect();
    let (name, version) = ("docs".to_owned(), "v1".to_owned());
    Object { kind, name, version, settings, origins: BTreeMap::new() }
}

impl Controlled for Fake {
    fn health(&self) -> Health {
        Health::new(false, 1, Vec::new())
    }
    fn status(&self) -> Status {
        Status { version: "7".to_owned(), ..Status::default() }
    }
    fn channels(&self) -> Channels {
        Channels { server_name: "S".to_owned(), ..Channels::default() }
    }
    fn transactions(&self) -> Transactions {
        Transactions { at_ns: 7, ..Transactions::default() }
    }
    fn workload(&self) -> Workload {
        Workload { server_name: "W".to_owned(), ..Workload::default() }
    }
    fn users(&self) -> Vec<UserEntry> {
        let name = "ann".to_owned();
        let (sid, source) = ("S-1-5-21-1-2-3-1000".to_owned(), "state".to_owned());
        vec![UserEntry {
            name,
            sid,
            uid: Some(1000),
            gid: Some(100),
            admin: false,
            restriction: None,
            source,
        }]
    }
    fn hash_password(&self, _: &str, password: &str) -> Result<(NtHash, Option<String>), String> {
        let weakness = (password.len() < 8).then(|| "it is short".to_owned());
        if password.is_empty() {
            Err("the password is empty".to_owned())
        } else {
            Ok((NtHash([7; 16]), weakness))
        }
    }
    fn change_user(&self, change: UserChange) -> Result<(), Refusal> {
        let UserChange { name, add, nt_hash, uid, gid, admin } = change;
        if name == "bob" {
            return Err(Refusal::new(RefusalKind::Bad, format!("no {name}")));
        }
        if name == "disk" {
            return Err(Refusal::new(RefusalKind::Failed, "state.redb: no space"));
        }
        let has_password = nt_hash.is_some();
        self.calls
            .lock()
            .unwrap()
            .push(format!("user {name} {add} {has_password} {uid:?} {gid:?} {admin:?}"));
        Ok(())
    }
    fn first_user(&self) -> Option<String> {
        None
    }

    fn close_open(&self, close_id: &str) -> Result<ClosedState, Refusal> {
        if close_id != "smb-1-2" {
            return Err(Refusal::new(RefusalKind::NotFound, "it is not open any more"));
        }
        self.calls.lock().unwrap().push(format!("close {close_id}"));
        let file = FileInUse { path: "a.txt".to_owned(), ..FileInUse::default() };
        Ok(ClosedState { file, opens: 1, ..ClosedState::default() })
    }
    fn caller(&self, token: &str) -> Result<Caller, TokenRefusal> {
        let found = Role::ALL.into_iter().find(|role| self::token(*role) == token);
        let role = match found {
            None if token == "token-old" => return Err(TokenRefusal::Expired("old".to_owned())),
            None => return Err(TokenRefusal::Unknown),
            Some(role) => role,
        };
        if self.revoked.lock().unwrap().contains(&role.to_string()) {
            return Err(TokenRefusal::Unknown);
        }
        Ok(Caller { name: format!("token {role}"), role })
    }
    fn tokens(&self) -> Vec<TokenEntry> {
        let entry = |role: Role| TokenEntry {
            name: role.to_string(),
            role,
            created: "2026-01-01T00:00:00.000000+00:00".to_owned(),
            last_used: None,
            expires: None,
        };
        Role::ALL.map(entry).into()
    }
    fn add_token(&self, request: TokenRequest) -> Result<NewToken, Refusal> {
        if self.tokens().iter().any(|token| token.name == request.name) {
            return Err(Refusal::new(RefusalKind::Conflict, "it is there"));
        }
        self.calls.lock().unwrap().push(format!("token {} {}", request.name, request.role));
        let mut entry = self.tokens().remove(0);
        (entry.name, entry.role, entry.expires) = (request.name, request.role, request.expires);
        Ok(NewToken { token: TokenText("tl_new".to_owned()), entry })
    }
    fn revoke_token(&self, name: &str) -> Result<(), Refusal> {
        if !self.tokens().iter().any(|token| token.name == name) {
            return Err(Refusal::new(RefusalKind::NotFound, format!("no token `{name}`")));
        }
        self.calls.lock().unwrap().push(format!("revoke {name}"));
        self.revoked.lock().unwrap().push(name.to_owned());
        Ok(())
    }
    fn remove_user(&self, name: &str) -> Result<(), Refusal> {
        self.calls.lock().unwrap().push(format!("remove {name}"));
        Ok(())
    }
    fn account_keys(&self, account: &str) -> Result<AccountKeys, String> {
        Err(format!("no account `{account}`"))
    }
    fn renew_key(
        &self,
        account: &str,
        key: Option<KeyName>,
        given: Option<AccountKey>,
    ) -> Result<(KeyName, AccountKeys), String> {
        let name = key.unwrap_or(KeyName::Key1);
        self.calls.lock().unwrap().push(format!("renew {account} {name}"));
        let mut keys = AccountKeys::default();
        keys.set(name, given.unwrap_or(AccountKey("made".to_owned())));
        Ok((name, keys))
    }
    fn objects(&self, kind: Kind) -> Vec<Object> {
        vec![object(kind)]
    }
    fn settings_schema(&self, kind: Kind) -> serde_json::Value {
        serde_json::json!({ "type": "object", "description": kind.to_string() })
    }
    fn change_domain(&self, settings: &DomainSettings) -> Result<Vec<String>, Refusal> {
        Ok(settings.keys().cloned().collect())
    }
    fn change(&self, change: Change) -> Result<Changed, Refusal> {
        let Change { kind, name, what, if_version } = change;
        let is_there = name.eq_ignore_ascii_case("docs");
        if is_there == matches!(what, ChangeAction::Create { .. }) {
            let why = if is_there { RefusalKind::Conflict } else { RefusalKind::NotFound };
            return Err(Refusal::new(why, format!("no {kind} `{name}`")));
        }
        if if_version.is_some_and(|version| version != "v1") {
            return Err(Refusal::new(RefusalKind::OldVersion, "it is at version v1 now"));
        }
        let mut object = Object { name: name.clone(), ..object(kind) };
        let (done, object) = match what {
            ChangeAction::Create { settings } => {
                object.settings = settings;
                ("create", Some(object))
            }
            ChangeAction::Set { settings } => {
                object.settings.extend(settings);
                ("set", Some(object))
            }
            ChangeAction::Delete { force: true } => ("force", None),
            ChangeAction::Delete { force: false } => ("delete", None),
        };
        self.calls.lock().unwrap().push(format!("{done} {name}"));
        Ok(Changed { object, notes: Vec::new() })
    }
    fn backup(&self) -> Result<crate::ArchiveOutput, String> {
        self.calls.lock().unwrap().push("backup".to_owned());
        Ok(Box::new(|out| (0..100).try_for_each(|_| out.write_all(&[7; 10_000]))))
    }
    fn reload(&self) -> Result<Vec<String>, String> {
        Ok(vec!["a note".to_owned()])
    }
    fn stop(&self) {
        self.calls.lock().unwrap().push("stop".to_owned());
    }
}
