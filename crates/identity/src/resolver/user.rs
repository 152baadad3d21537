//! Users: from the sources to one record.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use volume::security::Sid;

use super::Resolver;
use crate::account::{AccountOrigin, GroupIds, User};
use crate::cache::Lookup;
use crate::error::IdentityError;
use crate::mapping::{IdKind, IdMapping};
use crate::names::AccountKey;
use crate::source::{AccountSource, SilenceScope, Silent, SourceUser};

impl Resolver {
    pub(super) fn resolve_user(
        &self,
        key: &AccountKey,
        deadline: Instant,
    ) -> Result<Option<User>, IdentityError> {
        match key {
            AccountKey::Sid(sid) => match sid.as_unix_user() {
                Some(uid) => self.host_user(&AccountKey::Id(uid), deadline),
                None => self.user_of_sid(sid, deadline),
            },
            AccountKey::Id(uid) => match self.domain_user_of_uid(*uid, deadline)? {
                Some(user) => Ok(Some(user)),
                None => self.host_user(key, deadline),
            },
            AccountKey::Name { realm: None, .. } => self.host_user(key, deadline),
            AccountKey::Name { realm: Some(_), .. } => match self.directory_user(key, deadline)? {
                Some(user) => self.checked(user, deadline).map(Some),
                None => self.or_unknown(self.host_user(key, deadline)?),
            },
            AccountKey::Principal(_) => match self.directory_user(key, deadline)? {
                Some(user) => self.checked(user, deadline).map(Some),
                // The implicit name is asked for next, as the name of an account.
                None => Ok(None),
            },
        }
    }

    fn user_of_sid(&self, sid: &Sid, deadline: Instant) -> Result<Option<User>, IdentityError> {
        if let Some(user) = self.directory_user(&AccountKey::Sid(*sid), deadline)? {
            let found = user.sid.is_none_or(|own| own == *sid);
            return if found { self.checked(user, deadline).map(Some) } else { Ok(None) };
        }
        match self.settings.mapping.id(sid, IdKind::User, None) {
            Some(uid) if self.directory.is_none() => {
                let user = self.host_user(&AccountKey::Id(uid), deadline)?;
                self.or_unknown(user.filter(|user| user.sid == *sid))
            }
            _ => self.or_unknown(None),
        }
    }

    /// Without a directory, a domain's account that the host does not know may still exist. A record of a
    /// former log-on stays then.
    fn or_unknown(&self, user: Option<User>) -> Result<Option<User>, IdentityError> {
        let silent = || Silent {
            source_name: "the domain".to_owned(),
            reason: "no directory is configured, so only users who have logged on are known".to_owned(),
            scope: SilenceScope::Source,
        };
        match user {
            None if self.directory.is_none() => Err(silent().into()),
            user => Ok(user),
        }
    }

    /// The only user of the directory with this key.
    pub(super) fn directory_user(
        &self,
        key: &AccountKey,
        deadline: Instant,
    ) -> Result<Option<SourceUser>, IdentityError> {
        let Some(directory) = &self.directory else { return Ok(None) };
        let mut users = directory.users(key, deadline)?;
        match (users.len(), key) {
            (0 | 1, _) => Ok(users.pop()),
            (_, AccountKey::Id(id)) => Err(shared(*id, &users[0], &users[1])),
            (count, key) => Err(IdentityError::Ambiguous(key.to_string(), count)),
        }
    }

    /// The domain's user that the mapping or the directory's attributes give for a uid.
    fn domain_user_of_uid(&self, uid: u32, deadline: Instant) -> Result<Option<User>, IdentityError> {
        let found = match (&self.settings.mapping, self.settings.mapping.sid(uid, IdKind::User)) {
            (_, Some(sid)) => {
                let found = self.directory_user(&AccountKey::Sid(sid), deadline)?;
                found.filter(|user| user.sid == Some(sid))
            }
            (IdMapping::Attributes(range), None) if range.contains(uid) => {
                self.directory_user(&AccountKey::Id(uid), deadline)?
            }
            _ => None,
        };
        found.map(|user| self.checked(user, deadline)).transpose()
    }

    /// A user that the host names. If it is the domain's, the record is that of the domain.
    fn host_user(&self, key: &AccountKey, deadline: Instant) -> Result<Option<User>, IdentityError> {
        let Some(host) = &self.host else { return Ok(None) };
        let Some(user) = host.users(key, deadline)?.pop() else { return Ok(None) };
        let (Some(uid), Some(gid)) = (user.uid, user.gid) else { return Ok(None) };
        if let Some(local) = self.local().get(&AccountKey::Id(uid)) {
            // The server's own user acts as this user of the host.
            return Ok(Some(User::clone(local)));
        }
        if let Some(own) = self.domain_user_of_host(&user, uid, deadline)? {
            return Ok(Some(own));
        }
        let gids = std::iter::once(gid).chain(user.gids.iter().copied());
        let groups = gids.map(|gid| GroupIds { sid: Sid::unix_group(gid), gid: Some(gid) });
        Ok(Some(User {
            account: user.account.into(),
            realm: None,
            netbios: None,
            principal: None,
            sid: Sid::unix_user(uid),
            uid,
            gid,
            groups: self.interner.list(groups),
            origin: AccountOrigin::Host,
            enabled: true,
        }))
    }

    /// The domain's user that the host shows under a name of its own.
    fn domain_user_of_host(
        &self,
        user: &SourceUser,
        uid: u32,
        deadline: Instant,
    ) -> Result<Option<User>, IdentityError> {
        let mapping = &self.settings.mapping;
        let own = self.settings.domains.own.as_ref().filter(|own| own.netbios.is_some());
        let plain = own.filter(|_| self.settings.domains.default_domain).map(|own| &own.realm);
        let realm = user.realm.as_ref().or(plain);
        let by_name = realm.map(|realm| AccountKey::in_realm(realm, &user.account));
        let found = match (mapping, by_name) {
            (IdMapping::Host, Some(name)) => self.directory_user(&name, deadline)?,
            (IdMapping::Host, None) => None,
            (mapping, _) => match mapping.sid(uid, IdKind::User) {
                Some(sid) if self.directory.is_none() => {
                    // The mapping alone says that the uid is this account's. The host's name for it must be
                    // one of the domain.
                    let realm = realm.ok_or_else(|| IdentityError::SharedId {
                        id: uid,
                        first: format!("the host's user {}", user.account),
                        second: sid.to_string(),
                    })?;
                    let realm = Some(Arc::clone(realm));
                    return self
                        .user_by_mapping(SourceUser { realm, sid: Some(sid), ..user.clone() })
                        .map(Some);
                }
                Some(sid) => self.directory_user(&AccountKey::Sid(sid), deadline)?,
                None if self.covers(uid) => self.directory_user(&AccountKey::Id(uid), deadline)?,
                None => None,
            },
        };
        match found {
            Some(found) if found.account.eq_ignore_ascii_case(&user.account) => {
                self.checked(found, deadline).map(Some)
            }
            Some(found) => Err(shared(uid, user, &found)),
            // The host claims a domain's account of which the directory knows nothing. Without a SID it would
            // be another person than at the log-on.
            None if user.realm.is_some() => Err(IdentityError::NoSid(user.account.clone())),
            None => Ok(None),
        }
    }

    /// A domain's user by the host's name and the mapping's formula, without a directory.
    fn user_by_mapping(&self, user: SourceUser) -> Result<User, IdentityError> {
        let gids: Vec<u32> = user.gid.into_iter().chain(user.gids.iter().copied()).collect();
        let groups = gids.iter().map(|gid| {
            let sid = self.settings.mapping.sid(*gid, IdKind::Group).unwrap_or(Sid::unix_group(*gid));
            GroupIds { sid, gid: Some(*gid) }
        });
        let (uid, gid) = (user.uid.unwrap_or(u32::MAX), user.gid.unwrap_or(u32::MAX));
        let groups = groups.collect();
        let sid = user.sid.ok_or_else(|| IdentityError::NoSid(user.account.clone()))?;
        Ok(self.record(user, sid, (uid, gid), groups))
    }

    /// The record of a domain's user, after all checks against the other sources.
    pub(super) fn checked(&self, user: SourceUser, deadline: Instant) -> Result<User, IdentityError> {
        let sid = user.sid.ok_or_else(|| IdentityError::NoSid(user.account.clone()))?;
        if let Some(local) = self.local().get(&AccountKey::Sid(sid)) {
            return Ok(User::clone(local));
        }
        let on_host = self.on_host(&user, deadline)?;
        let uid = match (&self.settings.mapping, &on_host) {
            (IdMapping::Host, Some(host)) => host.uid,
            (mapping, _) => mapping.id(&sid, IdKind::User, user.uid),
        };
        let uid = uid.ok_or_else(|| IdentityError::NotCovered { account: user.account.clone(), sid })?;
        self.check_uid(&user, sid, uid, on_host.as_ref(), deadline)?;
        let mut sids: Vec<Sid> = user.primary_group.into_iter().chain(user.groups.iter().copied()).collect();
        let mut seen = HashSet::new();
        sids.retain(|sid| seen.insert(*sid));
        if !user.nested_included {
            sids = self.with_nested(&sids, deadline)?;
        }
        let mut groups = self.group_ids(&sids, deadline)?;
        let primary = user.primary_group.unwrap_or(sid);
        let by_group = groups.iter().find(|group| group.sid == primary).and_then(|group| group.gid);
        let gid = match &self.settings.mapping {
            IdMapping::Host => on_host.as_ref().and_then(|host| host.gid),
            // The directory's `gidNumber` of the user is the primary group of RFC 2307.
            IdMapping::Attributes(_) => {
                self.settings.mapping.id(&primary, IdKind::Group, user.gid).or(by_group)
            }
            _ => by_group,
        };
        let account = || user.account.clone();
        let gid = gid.ok_or_else(|| IdentityError::NotCovered { account: account(), sid: primary })?;
        add_host_groups(&mut groups, on_host.as_ref(), |gid| self.covers(gid));
        Ok(self.record(user, sid, (uid, gid), groups))
    }

    /// The host's user for a domain's account. A host that does not answer matters only if it has the ids.
    fn on_host(&self, user: &SourceUser, deadline: Instant) -> Result<Option<SourceUser>, IdentityError> {
        let (Some(host), Some(realm)) = (&self.host, &user.realm) else { return Ok(None) };
        match host.users(&AccountKey::in_realm(realm, &user.account), deadline) {
            Ok(mut users) => Ok(users.pop()),
            Err(silent) if matches!(self.settings.mapping, IdMapping::Host) => Err(silent.into()),
            // Without them an entry that denies a group of the host would not hold.
            Err(silent) => self.last_on_host(user).map(Some).ok_or_else(|| silent.into()),
        }
    }

    /// The host's groups that a user had last.
    fn last_on_host(&self, user: &SourceUser) -> Option<SourceUser> {
        let key = AccountKey::Sid(user.sid?);
        let last = match crate::sync::lock(&self.users.cache).get(&key, self.clock.now()) {
            Lookup::Fresh(last) | Lookup::Stale(last) => last,
            Lookup::Miss(_) | Lookup::Unknown => return None,
        };
        let gids = last.groups.iter().filter_map(|group| group.sid.as_unix_group()).collect();
        Some(SourceUser { account: user.account.clone(), gids, ..SourceUser::default() })
    }

    /// Checks that the uid is this account's alone, and that all sources agree.
    fn check_uid(
        &self,
        user: &SourceUser,
        sid: Sid,
        uid: u32,
        on_host: Option<&SourceUser>,
        deadline: Instant,
    ) -> Result<(), IdentityError> {
        let shared_with = |other: String| IdentityError::SharedId {
            id: uid,
            first: format!("{} ({sid})", user.account),
            second: other,
        };
        if let Some(local) = self.local().with_uid(uid).first() {
            return Err(shared_with(format!("the server's user {}", local.account)));
        }
        if let Some(other) = on_host.and_then(|host| host.uid).filter(|other| *other != uid) {
            return Err(IdentityError::Disagreement {
                account: user.account.clone(),
                subject: "uid",
                first: format!("the id mapping ({uid})"),
                second: format!("the host ({other})"),
            });
        }
        if self.settings.mapping.is_by_attributes()
            && let Some(other) = self.directory_user(&AccountKey::Id(uid), deadline)?
            && other.sid != Some(sid)
        {
            return Err(shared_with(other.account));
        }
        let named = self.host.as_ref().map(|host| host.users(&AccountKey::Id(uid), deadline));
        let Some(Ok(mut named)) = named else { return Ok(()) };
        match named.pop() {
            Some(other)
                if !other.account.eq_ignore_ascii_case(&user.account)
                    || (other.realm.is_some() && other.realm != user.realm) =>
            {
                Err(shared_with(format!("the host's user {}", other.account)))
            }
            _ => Ok(()),
        }
    }

    /// The record of a domain's user.
    pub(super) fn record(
        &self,
        user: SourceUser,
        sid: Sid,
        (uid, gid): (u32, u32),
        groups: Vec<GroupIds>,
    ) -> User {
        let domain = user.realm.as_deref().and_then(|realm| self.settings.domains.of_realm(realm));
        let realm = domain.map(|domain| Arc::clone(&domain.realm)).or(user.realm);
        let implicit = || realm.as_ref().map(|realm| format!("{}@{realm}", user.account));
        // A trusted domain names its users with its own suffix. Others are those of the own forest.
        let own = self.settings.domains.own.as_ref().map(|own| &own.realm);
        let is_its_own = |text: &String| {
            let suffix = text.rsplit_once('@').map(|(_, suffix)| suffix);
            realm.as_ref() == own
                || suffix.zip(realm.as_ref()).is_some_and(|(a, b)| b.eq_ignore_ascii_case(a))
        };
        User {
            principal: user.principal.clone().filter(is_its_own).or_else(implicit).map(Into::into),
            account: user.account.into(),
            netbios: domain.and_then(|domain| domain.netbios.clone()),
            realm,
            sid,
            uid,
            gid,
            groups: self.interner.list(groups),
            origin: AccountOrigin::Domain,
            enabled: !user.disabled,
        }
    }
}

/// Adds the gids that the host gives a user, if no group has them already. A gid that the mapping covers is a
/// group of the domain. The domain alone says who its members are, and the host may know an older list.
pub(super) fn add_host_groups(
    groups: &mut Vec<GroupIds>,
    on_host: Option<&SourceUser>,
    is_covered: impl Fn(u32) -> bool,
) {
    let Some(host) = on_host else { return };
    let known: HashSet<u32> = groups.iter().filter_map(|group| group.gid).collect();
    let gids = host.gid.into_iter().chain(host.gids.iter().copied());
    let further = gids.filter(|gid| !known.contains(gid) && !is_covered(*gid));
    groups.extend(further.map(|gid| GroupIds { sid: Sid::unix_group(gid), gid: Some(gid) }));
}

fn shared(id: u32, first: &SourceUser, second: &SourceUser) -> IdentityError {
    IdentityError::SharedId { id, first: first.account.clone(), second: second.account.clone() }
}
