//! Groups: from the sources to one record, and the groups of groups.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use volume::security::Sid;

use super::Resolver;
use crate::account::{Group, GroupIds};
use crate::error::IdentityError;
use crate::mapping::{IdKind, IdMapping};
use crate::names::AccountKey;
use crate::source::{AccountSource, SourceGroup};

/// The number of groups of one user, which bounds a directory that never ends. MS-KILE allows 1,015 SIDs of
/// nested groups, and Windows itself fails above that. Samba's limit on the host is 65,536 (NGROUPS_MAX).
const MOST_GROUPS: usize = 65_536;

impl Resolver {
    pub(super) fn resolve_group(
        &self,
        key: &AccountKey,
        deadline: Instant,
    ) -> Result<Option<Group>, IdentityError> {
        match key {
            AccountKey::Sid(sid) => match sid.as_unix_group() {
                Some(gid) => self.host_group(&AccountKey::Id(gid), deadline),
                None => self.group_of_sid(sid, deadline),
            },
            AccountKey::Id(gid) => {
                let by_mapping = self.settings.mapping.sid(*gid, IdKind::Group);
                let asked = by_mapping.map_or(AccountKey::Id(*gid), AccountKey::Sid);
                let asks = by_mapping.is_some() || self.covers(*gid);
                if asks && let Some(group) = self.directory_group(&asked, deadline)? {
                    return Ok(Some(group));
                }
                self.host_group(key, deadline)
            }
            AccountKey::Name { realm: Some(_), .. } => match self.directory_group(key, deadline)? {
                Some(group) => Ok(Some(group)),
                None => self.host_group(key, deadline),
            },
            AccountKey::Name { realm: None, .. } => self.host_group(key, deadline),
            // Groups have no principal.
            AccountKey::Principal(_) => Ok(None),
        }
    }

    /// The group of a SID: by the directory, else by the host under the gid that the mapping gives.
    fn group_of_sid(&self, sid: &Sid, deadline: Instant) -> Result<Option<Group>, IdentityError> {
        if let Some(group) = self.directory_group(&AccountKey::Sid(*sid), deadline)? {
            return Ok(Some(group));
        }
        match self.settings.mapping.id(sid, IdKind::Group, None) {
            Some(gid) => self.host_group(&AccountKey::Id(gid), deadline),
            None => Ok(None),
        }
    }

    fn directory_group(&self, key: &AccountKey, deadline: Instant) -> Result<Option<Group>, IdentityError> {
        let Some(directory) = &self.directory else { return Ok(None) };
        let mut groups = directory.groups(std::slice::from_ref(key), deadline)?;
        if groups.len() > 1 {
            return Err(match key {
                AccountKey::Id(id) => IdentityError::SharedId {
                    id: *id,
                    first: groups[0].name.clone(),
                    second: groups[1].name.clone(),
                },
                key => IdentityError::Ambiguous(key.to_string(), groups.len()),
            });
        }
        let Some(group) = groups.pop() else { return Ok(None) };
        let sid = group.sid.ok_or_else(|| IdentityError::NoSid(group.name.clone()))?;
        let gid = self.settings.mapping.id(&sid, IdKind::Group, group.gid);
        Ok(Some(self.group_record(group, sid, gid)))
    }

    fn host_group(&self, key: &AccountKey, deadline: Instant) -> Result<Option<Group>, IdentityError> {
        let Some(host) = &self.host else { return Ok(None) };
        let Some(group) = host.groups(std::slice::from_ref(key), deadline)?.pop() else { return Ok(None) };
        let Some(gid) = group.gid else { return Ok(None) };
        let in_domain = self.settings.mapping.sid(gid, IdKind::Group).filter(|_| group.realm.is_some());
        let sid = in_domain.unwrap_or_else(|| Sid::unix_group(gid));
        Ok(Some(self.group_record(group, sid, Some(gid))))
    }

    fn group_record(&self, group: SourceGroup, sid: Sid, gid: Option<u32>) -> Group {
        let domain = group.realm.as_deref().and_then(|realm| self.settings.domains.of_realm(realm));
        Group {
            name: group.name.into(),
            realm: domain.map(|domain| Arc::clone(&domain.realm)).or(group.realm),
            netbios: domain.and_then(|domain| domain.netbios.clone()),
            sid,
            gid,
        }
    }

    /// Whether the directory may know an account with this id by its attributes.
    pub(super) fn covers(&self, id: u32) -> bool {
        match &self.settings.mapping {
            IdMapping::Attributes(range) => range.contains(id),
            mapping => mapping.sid(id, IdKind::User).is_some() || mapping.sid(id, IdKind::Group).is_some(),
        }
    }

    /// These groups and all groups that have them as members, each once. A circle of groups ends there.
    pub(super) fn with_nested(&self, groups: &[Sid], deadline: Instant) -> Result<Vec<Sid>, IdentityError> {
        let Some(directory) = &self.directory else { return Ok(groups.to_vec()) };
        let mut seen: HashSet<Sid> = HashSet::new();
        let mut all: Vec<Sid> = groups.iter().filter(|sid| seen.insert(**sid)).copied().collect();
        let mut asked = 0;
        while asked < all.len() && all.len() < MOST_GROUPS {
            let new = all[asked..].iter().filter(|sid| is_in_domain(sid));
            let keys: Vec<AccountKey> = new.map(|sid| AccountKey::Sid(*sid)).collect();
            asked = all.len();
            if keys.is_empty() {
                continue;
            }
            for group in directory.groups(&keys, deadline)? {
                all.extend(group.groups.into_iter().filter(|sid| seen.insert(*sid)));
            }
        }
        Ok(all)
    }

    /// The gids of groups. Attributes come from the directory, the others from the mapping's formula.
    pub(super) fn group_ids(
        &self,
        groups: &[Sid],
        deadline: Instant,
    ) -> Result<Vec<GroupIds>, IdentityError> {
        let mut attributes: HashMap<Sid, u32> = HashMap::new();
        if self.settings.mapping.is_by_attributes() {
            attributes = self.group_attributes(groups, deadline)?;
        }
        let ids = groups.iter().map(|sid| {
            let attribute = attributes.get(sid).copied();
            GroupIds { sid: *sid, gid: self.settings.mapping.id(sid, IdKind::Group, attribute) }
        });
        Ok(ids.collect())
    }

    /// `gidNumber` of groups: of those that are remembered, and of the others by one query.
    fn group_attributes(
        &self,
        groups: &[Sid],
        deadline: Instant,
    ) -> Result<HashMap<Sid, u32>, IdentityError> {
        let mut gids = HashMap::new();
        let mut unknown = Vec::new();
        {
            let (cache, now) = (crate::sync::lock(&self.groups.cache), self.clock.now());
            for sid in groups.iter().filter(|sid| is_in_domain(sid)) {
                match cache.get(&AccountKey::Sid(*sid), now) {
                    crate::cache::Lookup::Fresh(group) => gids.extend(group.gid.map(|gid| (*sid, gid))),
                    crate::cache::Lookup::Miss(None) => {}
                    _ => unknown.push(AccountKey::Sid(*sid)),
                }
            }
        }
        let Some(directory) = self.directory.as_ref().filter(|_| !unknown.is_empty()) else {
            return Ok(gids);
        };
        let found = directory.groups(&unknown, deadline)?;
        let (mut cache, now) = (crate::sync::lock(&self.groups.cache), self.clock.now());
        for group in found {
            let Some(sid) = group.sid else { continue };
            let gid = self.settings.mapping.id(&sid, IdKind::Group, group.gid);
            gids.extend(gid.map(|gid| (sid, gid)));
            cache.insert(&AccountKey::Sid(sid), Arc::new(self.group_record(group, sid, gid)), now);
        }
        for key in &unknown {
            if let AccountKey::Sid(sid) = key
                && !gids.contains_key(sid)
                && matches!(cache.get(key, now), crate::cache::Lookup::Unknown)
            {
                cache.insert_miss(key, None, now);
            }
        }
        Ok(gids)
    }
}

/// Whether a SID is that of an account of some domain. Well-known ones are in no directory of the domain.
fn is_in_domain(sid: &Sid) -> bool {
    sid.authority() == 5 && sid.subs().first() == Some(&21)
}
