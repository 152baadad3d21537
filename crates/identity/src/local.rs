//! The server's own users, who go before those of every other source.

use std::collections::HashMap;
use std::sync::Arc;

use volume::security::Sid;

use crate::account::{AccountOrigin, GroupIds, User};
use crate::names::AccountKey;

/// A user of the server itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalUser {
    /// The log-on name.
    pub name: String,
    /// The SID.
    pub sid: Sid,
    /// The uid.
    pub uid: u32,
    /// The primary gid.
    pub gid: u32,
    /// Further gids.
    pub groups: Vec<u32>,
}

/// The server's own users by all keys.
#[derive(Debug, Default)]
pub struct LocalUsers {
    by_name: HashMap<String, Arc<User>>,
    by_sid: HashMap<Sid, Arc<User>>,
    /// Several users may share a uid by their settings. Then it is the uid of none of them.
    by_uid: HashMap<u32, Vec<Arc<User>>>,
}

impl LocalUsers {
    /// The users of this list.
    #[must_use]
    pub fn new(users: &[LocalUser]) -> LocalUsers {
        let mut all = LocalUsers::default();
        for local in users {
            let user = Arc::new(record(local));
            all.by_name.insert(local.name.to_lowercase(), Arc::clone(&user));
            all.by_sid.insert(local.sid, Arc::clone(&user));
            all.by_uid.entry(local.uid).or_default().push(user);
        }
        all
    }

    /// The user with this key. Names are compared without case.
    #[must_use]
    pub fn get(&self, key: &AccountKey) -> Option<&Arc<User>> {
        match key {
            AccountKey::Sid(sid) => self.by_sid.get(sid),
            AccountKey::Id(uid) => match self.by_uid.get(uid)?.as_slice() {
                [only] => Some(only),
                _ => None,
            },
            AccountKey::Name { realm: None, name } => self.by_name.get(&name.to_lowercase()),
            AccountKey::Name { realm: Some(_), .. } | AccountKey::Principal(_) => None,
        }
    }

    /// The users with this uid.
    #[must_use]
    pub fn with_uid(&self, uid: u32) -> &[Arc<User>] {
        self.by_uid.get(&uid).map(Vec::as_slice).unwrap_or_default()
    }
}

fn record(local: &LocalUser) -> User {
    let group = |gid: &u32| Arc::new(GroupIds { sid: Sid::unix_group(*gid), gid: Some(*gid) });
    User {
        account: local.name.as_str().into(),
        realm: None,
        netbios: None,
        principal: None,
        sid: local.sid,
        uid: local.uid,
        gid: local.gid,
        groups: std::iter::once(&local.gid).chain(&local.groups).map(group).collect(),
        origin: AccountOrigin::Server,
        enabled: true,
    }
}
