//! Users of the joined Active Directory domain who are no local users. The PAC of their ticket alone says
//! who they are, and a formula of the configuration gives their uids and gids.
//!
//! Start with [`DomainUsers::resolve`], the log-on. [`DomainIds`] is the mapping, which the engine uses too.

use std::collections::HashMap;
use std::sync::Arc;

use ::identity::mapping::{IdKind, IdMapping, RidRange};
use ::kerberos::pac::{LocalDomains, NoLogon, Pac};
use auth::KerberosTicket;
use share::Identity;
use smb::{PrincipalRefusal, UserConfig};
use volume::Actor;
use volume::security::{Rights, Sid, well_known};

use crate::config::Domain;
use crate::config::values::IdmapBackend;
use crate::host::{self, UserDatabase};
use crate::principals::LogonPrincipal;

/// The ids of the domain's users and groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DomainIds {
    domain: Sid,
    mapping: IdMapping,
}

impl DomainIds {
    /// The ids by the configuration.
    ///
    /// # Errors
    /// The settings to make, as the end of a sentence.
    pub fn of(domain: &Domain, local: &[LogonPrincipal], host: &UserDatabase) -> Result<DomainIds, String> {
        let (Some(backend), Some(range), Some(sid)) =
            (&domain.id_mapping, &domain.id_range, &domain.domain_sid)
        else {
            let settings = [
                (domain.id_mapping.is_none(), "`id_mapping = \"rid\"`"),
                (domain.id_range.is_none(), "`id_range = \"100000-199999\"`"),
                (domain.domain_sid.is_none(), "`domain_sid`"),
            ];
            let missing: Vec<&str> =
                settings.iter().filter(|(lacks, _)| *lacks).map(|(_, key)| *key).collect();
            return Err(format!("set {} in `[domain]`", missing.join(" and ")));
        };
        // An id with two owners would give one of them the files of the other.
        let names = host.names();
        let locals =
            local.iter().map(|user| (&user.name, [vec![user.uid, user.gid], user.groups.clone()].concat()));
        let hosts = names.users.iter().chain(&names.groups).map(|(name, id)| (name, vec![*id]));
        let mut taken = locals.chain(hosts).flat_map(|(name, ids)| ids.into_iter().map(move |id| (name, id)));
        if let Some((name, id)) = taken.find(|(_, id)| range.value.contains(*id)) {
            let range = &range.value;
            return Err(format!(
                "choose another `id_range` in `[domain]`: {range} has the id {id}, which `{name}` of this \
                 host has"
            ));
        }
        let sid: Sid = sid.value.parse().map_err(|why| format!("mend `domain_sid` in `[domain]`: {why}"))?;
        let mapping = match backend.value {
            IdmapBackend::Rid => {
                IdMapping::rid(vec![RidRange { domain: sid, range: range.value, base_rid: 0 }])
            }
        };
        Ok(DomainIds { domain: sid, mapping: mapping.map_err(|why| why.to_string())? })
    }

    /// The uid or gid of a user or group. A user and a group never have the same relative identifier, so a
    /// number is both.
    pub fn id(&self, sid: &Sid) -> Option<u32> {
        self.mapping.id(sid, IdKind::User, None)
    }

    /// The user or group of a uid or gid.
    pub fn sid(&self, id: u32) -> Option<Sid> {
        self.mapping.sid(id, IdKind::User)
    }
}

/// The source of identities for the domain's users.
pub struct DomainUsers {
    ids: Result<DomainIds, String>,
    /// The SID of this machine.
    machine: Sid,
    netbios_name: Option<String>,
    /// The names of local users by their SIDs.
    local: HashMap<Sid, String>,
    is_root: bool,
}

impl DomainUsers {
    /// The source by the configuration.
    pub fn new(
        domain: &Domain,
        ids: Result<DomainIds, String>,
        machine: Sid,
        users: &[UserConfig],
    ) -> DomainUsers {
        if let (Some(_), Err(why)) = (&domain.id_mapping, &ids) {
            tracing::error!("no log-ons of domain users until a reload: {why}");
        }
        let netbios_name = domain.netbios_name.as_ref().map(|name| name.value.to_uppercase());
        let local = users.iter().map(|user| (user.identity.sid, user.identity.name.clone())).collect();
        DomainUsers { ids, machine, netbios_name, local, is_root: host::own().0 == 0 }
    }

    /// The identity of a principal `account@REALM` of the own realm who is no local user.
    ///
    /// # Errors
    /// The reason why the user may not log on.
    pub fn resolve(
        &self,
        account: &str,
        ticket: &KerberosTicket,
        wall_ns: i64,
    ) -> Result<Arc<Identity>, PrincipalRefusal> {
        let principal = &ticket.principal;
        let add =
            format!("`{principal}` is no user of this server: add one with `trunkline user add {account}`");
        let pac = match (ticket.pac.as_deref().map(Pac::parse), &self.ids) {
            (Some(Ok(pac)), _) => pac,
            (Some(Err(why)), Ok(_)) => return Err(PrincipalRefusal::Unknown(format!("{add} ({why})"))),
            (None, Ok(_)) => {
                return Err(PrincipalRefusal::Unknown(format!("{add} (its ticket has no PAC)")));
            }
            // A plain realm has no PAC, or one without a user.
            (_, Err(_)) => return Err(PrincipalRefusal::Unknown(add)),
        };
        let ids = self.ids.as_ref().map_err(|mend| {
            let domain = pac.domain;
            PrincipalRefusal::Unknown(format!("{add}, or let users of the domain {domain} in: {mend}"))
        })?;
        let identity = self.identity(ids, pac, wall_ns).map_err(|why| match why {
            PrincipalRefusal::Unknown(why) => PrincipalRefusal::Unknown(format!("`{principal}` {why}")),
            other => other,
        })?;
        Ok(Arc::new(identity))
    }

    fn identity(&self, ids: &DomainIds, pac: Pac, wall_ns: i64) -> Result<Identity, PrincipalRefusal> {
        let refused = |why: String| PrincipalRefusal::Unknown(why);
        if pac.domain != ids.domain {
            let (found, own) = (pac.domain, ids.domain);
            return Err(refused(format!(
                "is of the domain {found}, but `domain_sid` in `[domain]` is {own}"
            )));
        }
        let pac = pac
            .filtered(&LocalDomains { own: ids.domain, machine: self.machine })
            .map_err(|why| refused(format!("has a PAC that cannot be used: {why}")))?;
        pac.check_logon(wall_ns).map_err(|why| match why {
            NoLogon::Disabled => PrincipalRefusal::Disabled,
            other => refused(format!("may not log on: {other}")),
        })?;
        if pac.user.rid_in(&ids.domain).is_none() {
            return Err(refused(format!("has the SID {}, which is none of its domain", pac.user)));
        }
        if let Some(name) = self.local.get(&pac.user) {
            return Err(refused(format!(
                "has the SID {}, which is that of the local user `{name}`",
                pac.user
            )));
        }
        if pac.name.is_empty() || pac.name.contains(['\\', '/', '@']) || pac.name.contains(char::is_control) {
            return Err(refused("has no account name that this server can show".to_owned()));
        }
        let id = |sid: &Sid, which: &str| {
            ids.id(sid).ok_or_else(|| {
                refused(format!("has no {which}: `id_range` in `[domain]` is too small for {sid}"))
            })
        };
        let (uid, gid) = (id(&pac.user, "uid")?, id(&pac.primary_group, "gid")?);
        let mut groups = pac.enabled_groups();
        let mut host_groups: Vec<u32> = groups.iter().filter_map(|sid| ids.id(sid)).collect();
        host_groups.sort_unstable();
        host_groups.dedup();
        host_groups.retain(|group| *group != gid);
        let everyone =
            [well_known::EVERYONE, well_known::NETWORK, well_known::AUTHENTICATED_USERS, well_known::USERS];
        groups.extend(everyone);
        groups.extend([Sid::unix_user(uid), Sid::unix_group(gid)]);
        groups.extend(host_groups.iter().map(|gid| Sid::unix_group(*gid)));
        let actor = self.is_root.then(|| Actor { uid, gid, groups: host_groups.clone() });
        let domain = self.netbios_name.as_ref().unwrap_or(&pac.domain_name);
        Ok(Identity {
            name: format!("{domain}\\{}", pac.name),
            sid: pac.user,
            groups,
            uid,
            gid,
            host_groups,
            actor,
            // Administrators of the domain are none of this server.
            administrator: false,
            unbound: false,
            limit: Rights::ALL,
            home: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use ::kerberos::pac::{GroupAttributes, GroupSource, PacGroup};

    use super::*;
    use crate::config::read;

    const DOMAIN: &str = "S-1-5-21-1-2-3";
    const SETTINGS: &str = "realm = \"CORP.EXAMPLE\"\ndomain_sid = \"S-1-5-21-1-2-3\"\nid_mapping = \"rid\"\n\
                            id_range = \"100000-101999\"\n";

    fn sid(text: &str) -> Sid {
        text.parse().unwrap()
    }

    fn settings(text: &str) -> Domain {
        read::parse("t", &format!("[domain]\n{text}"), Path::new("/")).unwrap().domain
    }

    fn ids(text: &str) -> Result<DomainIds, String> {
        DomainIds::of(&settings(text), &[], &UserDatabase::default())
    }

    fn pac(rid: u32) -> Pac {
        let group = |sid, source| PacGroup { sid, attributes: GroupAttributes(7), source };
        let own = sid(DOMAIN);
        Pac {
            user: own.child(rid).unwrap(),
            primary_group: own.child(513).unwrap(),
            groups: vec![
                group(own.child(513).unwrap(), GroupSource::Account),
                group(own.child(1105).unwrap(), GroupSource::Account),
                // Outside of the range: a group without a gid.
                group(own.child(5000).unwrap(), GroupSource::Account),
                group(sid("S-1-5-32-544"), GroupSource::Extra),
                group(sid("S-1-5-21-7-7-7-1000"), GroupSource::Extra),
            ],
            domain: own,
            domain_name: "CORP".to_owned(),
            name: "bob".to_owned(),
            full_name: String::new(),
            upn: None,
            dns_domain: None,
            client_name: "bob".to_owned(),
            authenticated: 0,
            kick_off: None,
            user_account_control: 0x10,
            requester: None,
            attributes: None,
        }
    }

    fn log_on(pac: Pac) -> Result<Identity, PrincipalRefusal> {
        let local = smb::nobody();
        let users = [UserConfig {
            identity: Arc::new(Identity { name: "eve".to_owned(), sid: sid("S-1-5-21-1-2-3-1200"), ..local }),
            nt_hash: [0; 16],
            second_hash: None,
            key_of: None,
            enabled: true,
        }];
        let machine = sid("S-1-5-21-7-7-7");
        let mut source = DomainUsers::new(&settings(SETTINGS), ids(SETTINGS), machine, &users);
        source.is_root = true;
        source.identity(&ids(SETTINGS).unwrap(), pac, 0)
    }

    fn why(pac: Pac) -> String {
        log_on(pac).unwrap_err().to_string()
    }

    #[test]
    fn a_pac_gives_the_user_and_the_groups_and_no_group_that_the_domain_may_not_give() {
        let bob = log_on(pac(1104)).unwrap();
        assert_eq!((bob.name.as_str(), bob.uid, bob.gid), ("CORP\\bob", 101_104, 100_513));
        assert_eq!((bob.sid, &bob.host_groups), (sid("S-1-5-21-1-2-3-1104"), &vec![101_105]));
        let actor = Actor { uid: 101_104, gid: 100_513, groups: vec![101_105] };
        assert_eq!((bob.actor, bob.administrator, bob.unbound), (Some(actor), false, false));
        let has = |text| bob.groups.contains(&sid(text));
        assert!(has("S-1-5-21-1-2-3-513") && has("S-1-5-21-1-2-3-1105") && has("S-1-5-21-1-2-3-5000"));
        assert!(has("S-1-1-0") && has("S-1-5-11") && has("S-1-22-1-101104") && has("S-1-22-2-101105"));
        assert!(!has("S-1-5-32-544") && !has("S-1-5-21-7-7-7-1000") && !has("S-1-22-2-105000"));
    }

    #[test]
    fn a_user_whom_the_settings_do_not_cover_is_refused_with_the_reason() {
        assert!(why(pac(2000)).contains("`id_range` in `[domain]` is too small for S-1-5-21-1-2-3-2000"));
        assert!(why(Pac { primary_group: sid("S-1-5-21-1-2-3-9999"), ..pac(1104) }).contains("has no gid"));
        assert!(why(Pac { domain: sid("S-1-5-21-4-5-6"), ..pac(1104) }).contains("`domain_sid`"));
        assert!(why(Pac { user: sid("S-1-5-21-4-5-6-1104"), ..pac(1104) }).contains("none of its domain"));
        assert!(why(Pac { user: sid("S-1-5-21-7-7-7-1104"), ..pac(1104) }).contains("MS-PAC"));
        assert!(why(pac(1200)).contains("that of the local user `eve`"));
        for name in ["", "a\\b", "a\nb"] {
            assert!(why(Pac { name: name.to_owned(), ..pac(1104) }).contains("account name"));
        }
        let flags = |user_account_control| log_on(Pac { user_account_control, ..pac(1104) }).unwrap_err();
        assert_eq!(flags(0x11), PrincipalRefusal::Disabled);
        assert!(flags(0x410).to_string().contains("locked"));
    }

    #[test]
    fn a_missing_setting_is_named() {
        let users = |text: &str| {
            let ticket = KerberosTicket {
                principal: "bob@CORP.EXAMPLE".to_owned(),
                service: String::new(),
                session_key: Default::default(),
                encryption_type: String::new(),
                lifetime: std::time::Duration::ZERO,
                pac: None,
            };
            let source = DomainUsers::new(&settings(text), ids(text), sid("S-1-5-21-7-7-7"), &[]);
            source.resolve("bob", &ticket, 0).unwrap_err().to_string()
        };
        assert!(users("realm = \"CORP.EXAMPLE\"\n").ends_with("`trunkline user add bob`"));
        assert!(users(SETTINGS).ends_with("(its ticket has no PAC)"));
        let missing = ids("realm = \"CORP.EXAMPLE\"\ndomain_sid = \"S-1-5-21-1-2-3\"\n").unwrap_err();
        assert_eq!(missing, "set `id_mapping = \"rid\"` and `id_range = \"100000-199999\"` in `[domain]`");
    }

    #[test]
    fn an_id_has_one_owner() {
        let mut local = LogonPrincipal {
            name: "ann".to_owned(),
            nt_hash: admin::NtHash([0; 16]),
            sid: "S-1-5-21-9-9-9-1000".to_owned(),
            uid: 1000,
            gid: 100,
            groups: vec![7],
            admin: false,
            password_from: crate::principals::PasswordFrom::State,
            second_hash: None,
            key_of: None,
        };
        let of = |local: &LogonPrincipal| {
            DomainIds::of(&settings(SETTINGS), std::slice::from_ref(local), &UserDatabase::default())
        };
        let ids = of(&local).unwrap();
        let bob = sid("S-1-5-21-1-2-3-1104");
        assert_eq!((ids.id(&bob), ids.sid(101_104)), (Some(101_104), Some(bob)));
        assert_eq!((ids.id(&sid("S-1-5-21-9-9-9-1000")), ids.sid(1000)), (None, None));
        local.groups = vec![101_104];
        assert!(of(&local).unwrap_err().contains("has the id 101104, which `ann` of this host has"));
    }
}
