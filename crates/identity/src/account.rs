//! A user and a group as every part of the server sees them.

use std::sync::Arc;

use volume::security::Sid;

use crate::names::AccountKey;

/// The source that a user comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccountOrigin {
    /// The server's own users.
    Server,
    /// A domain.
    Domain,
    /// The host's configuration alone.
    Host,
}

/// The SID of a group and its gid.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct GroupIds {
    /// The SID.
    pub sid: Sid,
    /// The gid, if the mapping covers the group.
    pub gid: Option<u32>,
}

/// A user: one record, whichever way it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The account name, `sAMAccountName` in Active Directory.
    pub account: Arc<str>,
    /// The realm in upper case; none: a user of this server or its host.
    pub realm: Option<Arc<str>>,
    /// The domain's NetBIOS name.
    pub netbios: Option<Arc<str>>,
    /// The user principal name, with the realm as suffix if the directory says no other.
    pub principal: Option<Arc<str>>,
    /// The SID.
    pub sid: Sid,
    /// The uid.
    pub uid: u32,
    /// The primary gid.
    pub gid: u32,
    /// All groups, the primary one and those of groups included.
    pub groups: Arc<[Arc<GroupIds>]>,
    /// The source.
    pub origin: AccountOrigin,
    /// Whether the account may log on.
    pub enabled: bool,
}

impl User {
    /// `DOMAIN\name`, or the name alone for a user of this server.
    #[must_use]
    pub fn nt_name(&self) -> String {
        nt_name(self.netbios.as_deref(), self.realm.as_deref(), &self.account)
    }

    /// Further gids, without the primary one, each once.
    #[must_use]
    pub fn gids(&self) -> Vec<u32> {
        let mut gids: Vec<u32> = self.groups.iter().filter_map(|group| group.gid).collect();
        gids.sort_unstable();
        gids.dedup();
        gids.retain(|gid| *gid != self.gid);
        gids
    }
}

/// A group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// The name.
    pub name: Arc<str>,
    /// The realm in upper case; none: a group of the host.
    pub realm: Option<Arc<str>>,
    /// The domain's NetBIOS name.
    pub netbios: Option<Arc<str>>,
    /// The SID.
    pub sid: Sid,
    /// The gid, if the mapping covers the group.
    pub gid: Option<u32>,
}

impl Group {
    /// `DOMAIN\name`, or the name alone for a group of the host.
    #[must_use]
    pub fn nt_name(&self) -> String {
        nt_name(self.netbios.as_deref(), self.realm.as_deref(), &self.name)
    }
}

fn nt_name(netbios: Option<&str>, realm: Option<&str>, name: &str) -> String {
    match netbios.or(realm) {
        Some(domain) => format!("{domain}\\{name}"),
        None => name.to_owned(),
    }
}

/// The keys of a record, for the cache.
pub(crate) trait RecordKeys {
    /// The SID, by which records are told apart.
    fn sid(&self) -> Sid;
    /// The other keys.
    fn keys(&self) -> Vec<AccountKey>;
}

fn name_key(realm: Option<&Arc<str>>, name: &Arc<str>) -> AccountKey {
    match realm {
        Some(realm) => AccountKey::in_realm(realm, name),
        None => AccountKey::Name { realm: None, name: Arc::clone(name) },
    }
}

impl RecordKeys for User {
    fn sid(&self) -> Sid {
        self.sid
    }

    fn keys(&self) -> Vec<AccountKey> {
        let mut keys = vec![AccountKey::Id(self.uid), name_key(self.realm.as_ref(), &self.account)];
        let principal = self.principal.as_ref().map(|text| AccountKey::Principal(text.to_lowercase().into()));
        keys.extend(principal);
        keys
    }
}

impl RecordKeys for Group {
    fn sid(&self) -> Sid {
        self.sid
    }

    fn keys(&self) -> Vec<AccountKey> {
        let id = self.gid.map(AccountKey::Id);
        id.into_iter().chain([name_key(self.realm.as_ref(), &self.name)]).collect()
    }
}
