//! Users of the joined Active Directory domain who are no local users. The resolver (`identity`) says who
//! they are: at a log-on from the PAC of the ticket, otherwise from the directory and the host.
//!
//! Start with [`DomainUsers::resolve`], the log-on. [`DomainIds`] is the mapping, which the engine uses too.

use std::collections::HashMap;
use std::sync::Arc;

use ::identity::mapping::{IdKind, IdMapping};
use ::identity::{
    AccountKey, Domains, Found, IdentityError, LocalUser, LocalUsers, PacLogon, Resolver, TicketLogon, User,
};
use ::kerberos::pac::{LocalDomains, NoLogon, Pac};
use auth::{DomainAccount, KerberosTicket};
use share::{Identity, UserFailure};
use smb::{HostNames, PrincipalRefusal, UserConfig};
use volume::Actor;
use volume::security::{Rights, Sid, well_known};

use crate::config::Domain;
use crate::domain::accounts::{self, DirectoryAccess};
use crate::host::{self, Ids};
use crate::principals::LogonPrincipal;

/// The ids of the domain's users and groups, and the resolver that knows them.
#[derive(Clone)]
pub struct DomainIds {
    domain: Sid,
    resolver: Arc<Resolver>,
    /// The way in which the resolver asks the directory.
    access: DirectoryAccess,
    /// The users of this server.
    local: Arc<[LocalUser]>,
}

impl std::fmt::Debug for DomainIds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("DomainIds").field(&self.domain).finish()
    }
}

impl DomainIds {
    /// The ids by the configuration. The resolver of `former` stays, with all that it remembers, if the
    /// settings did not change.
    ///
    /// # Errors
    /// The settings to make, as the end of a sentence.
    pub fn of(
        domain: &Domain,
        local: &[LogonPrincipal],
        host: &HostNames,
        former: Option<&DomainIds>,
    ) -> Result<DomainIds, String> {
        let mapping = accounts::id_mapping(domain)?;
        check_owners(&mapping, local, host)?;
        let settings = accounts::settings(domain, mapping)?;
        let access = DirectoryAccess::of(domain)?;
        let same = former.filter(|former| former.access == access && *former.resolver.settings() == settings);
        let resolver = match same {
            Some(former) => Arc::clone(&former.resolver),
            None => accounts::resolver(&access, settings)?,
        };
        let people = local.iter().filter(|user| user.key_of.is_none());
        let local = people.filter_map(local_user).collect();
        let ids = DomainIds { domain: accounts::domain_sid(domain)?, resolver, access, local };
        // The settings may still be refused as a whole. A resolver that is in use changes with them.
        if same.is_none() {
            ids.set_local_users();
        }
        Ok(ids)
    }

    /// Tells the resolver the users of this server.
    fn set_local_users(&self) {
        self.resolver.set_local_users(LocalUsers::new(&self.local));
    }

    /// The resolver.
    pub fn resolver(&self) -> &Resolver {
        &self.resolver
    }

    fn domains(&self) -> &Domains {
        &self.resolver.settings().domains
    }

    /// The reason why the mapping has no id for an account, and what to do.
    pub fn not_covered(&self, sid: &Sid) -> String {
        not_covered(self.mapping(), sid)
    }

    fn mapping(&self) -> &IdMapping {
        &self.resolver.settings().mapping
    }

    /// The uid or gid of a user or group, as far as known. Never waits.
    pub fn id(&self, sid: &Sid, kind: IdKind) -> Option<u32> {
        self.domains().of_sid(sid)?;
        self.mapping().id(sid, kind, None).or_else(|| {
            let (is_asked, key) = (self.mapping().is_by_attributes(), AccountKey::Sid(*sid));
            match kind {
                IdKind::User if is_asked => self.resolver.known_user(&key).map(|user| user.uid),
                IdKind::Group if is_asked => self.resolver.known_group(&key)?.gid,
                _ => None,
            }
        })
    }

    /// The user or group of a uid or gid, as far as known. Never waits.
    pub fn sid(&self, id: u32, kind: IdKind) -> Option<Sid> {
        if !accounts::covers(self.mapping(), id) {
            return None;
        }
        match kind {
            IdKind::User => self.resolver.known_user_sid(id),
            IdKind::Group => self.resolver.known_group_sid(id),
        }
    }

    /// The user of a uid, or `None` for a uid that is none of the domain's. Waits for the directory.
    pub fn user(&self, uid: u32) -> Option<Found<User>> {
        accounts::covers(self.mapping(), uid).then(|| self.resolver.user(&AccountKey::Id(uid)))
    }

    /// Whether a user of a session has the same uid by the settings of now. Waits for the directory if the
    /// uid is there alone.
    pub fn is_current(&self, identity: &Identity) -> bool {
        let uid = match self.mapping() {
            IdMapping::Attributes(_) => {
                let user = self.resolver.user(&AccountKey::Sid(identity.sid));
                user.ok().flatten().map(|user| user.uid)
            }
            _ => self.id(&identity.sid, IdKind::User),
        };
        uid == Some(identity.uid)
    }

    /// The identity of a user of the domain who is not logged on now, such as one whose opens were restored.
    /// Waits for the directory.
    ///
    /// # Errors
    /// [`UserFailure`].
    pub fn restored(&self, sid: &Sid) -> Result<Arc<Identity>, UserFailure> {
        self.domains().of_sid(sid).ok_or(UserFailure::Gone)?;
        let user = self.resolver.user(&AccountKey::Sid(*sid)).map_err(|why| {
            tracing::warn!(%sid, "opens are kept for their user, whom the directory cannot confirm: {why}");
            UserFailure::Unreachable
        })?;
        let user = user.filter(|user| user.enabled).ok_or(UserFailure::Gone)?;
        Ok(Arc::new(identity_of(&user, user.nt_name(), host::own().0 == 0)))
    }
}

/// Refuses a mapping that gives an id of this host to an account of the domain. An id with two owners would
/// give one of them the files of the other.
fn check_owners(mapping: &IdMapping, local: &[LogonPrincipal], host: &HostNames) -> Result<(), String> {
    let locals = local.iter().filter_map(|user| {
        let ids = user.ids.as_ref()?;
        Some((&user.name, [vec![ids.uid, ids.gid], ids.groups.clone()].concat()))
    });
    let hosts = host.users.iter().chain(&host.groups).map(|(name, id)| (name, vec![*id]));
    let mut taken = locals.chain(hosts).flat_map(|(name, ids)| ids.into_iter().map(move |id| (name, id)));
    match taken.find(|(_, id)| accounts::covers(mapping, *id)) {
        None => Ok(()),
        Some((name, id)) => {
            let (key, what) = match mapping {
                IdMapping::Table(_) | IdMapping::Autorid(_) => ("id_file", "it".to_owned()),
                IdMapping::Rid(ranges) => {
                    ("id_range", ranges.first().map_or_else(String::new, |one| one.range.to_string()))
                }
                IdMapping::Attributes(range) => ("id_range", range.to_string()),
                IdMapping::Host => ("id_mapping", "it".to_owned()),
            };
            Err(format!(
                "choose another `{key}` in `[domain]`: {what} has the id {id}, which `{name}` of this host \
                 has"
            ))
        }
    }
}

fn local_user(user: &LogonPrincipal) -> Option<LocalUser> {
    let sid = user.sid.parse().ok()?;
    let Ids { uid, gid, groups } = user.ids.clone()?;
    Some(LocalUser { name: user.name.clone(), sid, uid, gid, groups })
}

/// The identity of a user of the domain for the engine.
fn identity_of(user: &User, name: String, is_root: bool) -> Identity {
    let host_groups = user.gids();
    let mut groups: Vec<Sid> = user.groups.iter().map(|group| group.sid).collect();
    let everyone =
        [well_known::EVERYONE, well_known::NETWORK, well_known::AUTHENTICATED_USERS, well_known::USERS];
    groups.extend(everyone);
    groups.extend([Sid::unix_user(user.uid), Sid::unix_group(user.gid)]);
    groups.extend(host_groups.iter().map(|gid| Sid::unix_group(*gid)));
    let actor = is_root.then(|| Actor { uid: user.uid, gid: user.gid, groups: host_groups.clone() });
    Identity {
        name,
        sid: user.sid,
        groups,
        uid: user.uid,
        gid: user.gid,
        host_groups,
        actor,
        // Administrators of the domain are none of this server.
        administrator: false,
        unbound: false,
        limit: Rights::ALL,
        home: None,
    }
}

/// The source of identities for the domain's users.
pub struct DomainUsers {
    ids: Result<DomainIds, String>,
    /// The SID of this machine.
    machine: Sid,
    netbios_name: Option<String>,
    realm: String,
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
        let netbios_name = domain.netbios_name.as_ref().map(|name| name.value.to_uppercase());
        let local = users.iter().map(|user| (user.identity.sid, user.identity.name.clone())).collect();
        if let Ok(ids) = &ids {
            ids.set_local_users();
        }
        let realm = domain.realm.as_ref().map(|realm| realm.value.clone()).unwrap_or_default();
        DomainUsers { ids, machine, netbios_name, realm, local, is_root: host::own().0 == 0 }
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
        let realm = principal.rsplit_once('@').map_or("", |(_, realm)| realm);
        let identity = self.identity(ids, realm, pac, wall_ns).map_err(|why| match why {
            PrincipalRefusal::Unknown(why) => PrincipalRefusal::Unknown(format!("`{principal}` {why}")),
            other => other,
        })?;
        Ok(Arc::new(identity))
    }

    /// The identity of a user whom a domain controller has accepted with NTLM.
    ///
    /// # Errors
    /// The reason why the user may not log on.
    pub fn resolve_account(
        &self,
        account: &DomainAccount,
        wall_ns: i64,
    ) -> Result<Arc<Identity>, PrincipalRefusal> {
        let user = format!("{}\\{}", account.domain, account.name);
        let refused = |why: String| PrincipalRefusal::Unknown(format!("`{user}` {why}"));
        let ids = self.ids.as_ref().map_err(|mend| refused(format!("is no user of this server: {mend}")))?;
        let pac = Pac::of_account(account.sid, account.primary_group, &account.groups);
        let pac = pac.ok_or_else(|| refused("has a SID without a domain".to_owned()))?;
        let pac = Pac { name: account.name.clone(), domain_name: account.domain.clone(), ..pac };
        let identity = self.identity(ids, &self.realm, pac, wall_ns).map_err(|why| match why {
            PrincipalRefusal::Unknown(why) => refused(why),
            other => other,
        })?;
        Ok(Arc::new(identity))
    }

    /// The identity of the user of a PAC. `realm` is that of the ticket.
    fn identity(
        &self,
        ids: &DomainIds,
        realm: &str,
        pac: Pac,
        wall_ns: i64,
    ) -> Result<Identity, PrincipalRefusal> {
        let refused = |why: String| PrincipalRefusal::Unknown(why);
        let domain = ids.domains().of_realm(realm);
        let domain = domain.ok_or_else(|| refused(format!("is of the unknown realm {realm}")))?;
        // A controller may speak for its own domain alone.
        if domain.sid != Some(pac.domain) {
            let own = domain.sid.map(|sid| sid.to_string()).unwrap_or_default();
            let (found, key) = (pac.domain, if realm == self.realm { "domain_sid" } else { "trusted" });
            return Err(refused(format!("is of the domain {found}, but `{key}` in `[domain]` says {own}")));
        }
        let pac = pac
            .filtered(&LocalDomains { own: ids.domain, machine: self.machine })
            .map_err(|why| refused(format!("has a PAC that cannot be used: {why}")))?;
        pac.check_logon(wall_ns).map_err(|why| match why {
            NoLogon::Disabled => PrincipalRefusal::Disabled,
            other => refused(format!("may not log on: {other}")),
        })?;
        if pac.user.rid_in(&pac.domain).is_none() {
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
        let netbios = match realm == self.realm {
            true => self.netbios_name.as_deref(),
            false => domain.netbios.as_deref(),
        };
        let name = format!("{}\\{}", netbios.unwrap_or(&pac.domain_name), pac.name);
        let logon = PacLogon {
            account: pac.name.clone(),
            netbios: pac.domain_name.clone(),
            sid: pac.user,
            primary_group: pac.primary_group,
            groups: pac.enabled_groups(),
            principal: pac.upn.clone(),
        };
        let logon = TicketLogon { name: pac.name, realm: realm.to_owned(), pac: Some(logon) };
        let user = ids.resolver.log_on(&logon).map_err(|why| match why {
            IdentityError::Disabled(_) => PrincipalRefusal::Disabled,
            IdentityError::NotCovered { sid, .. } => {
                let which = if sid == pac.user { "uid" } else { "gid" };
                refused(format!("has no {which}: {}", not_covered(ids.mapping(), &sid)))
            }
            why => refused(format!("may not log on: {why}")),
        })?;
        Ok(identity_of(&user, name, self.is_root))
    }
}

/// The reason why the mapping has no id for an account, and what to do.
fn not_covered(mapping: &IdMapping, sid: &Sid) -> String {
    match mapping {
        IdMapping::Rid(_) => format!("`id_range` in `[domain]` is too small for {sid}"),
        IdMapping::Attributes(range) => format!(
            "the directory has no `uidNumber` or `gidNumber` within {range} for {sid}; set it, or extend \
             `id_range` in `[domain]`"
        ),
        IdMapping::Table(_) => format!("the table `id_file` in `[domain]` has no line for {sid}; add one"),
        IdMapping::Autorid(_) => {
            format!("`id_file` in `[domain]` has no range for {sid}; copy the newest autorid.tdb")
        }
        IdMapping::Host => format!("the host has no user for {sid}"),
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
        DomainIds::of(&settings(text), &[], &HostNames::default(), None)
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
            restriction: None,
        }];
        let machine = sid("S-1-5-21-7-7-7");
        let mut source = DomainUsers::new(&settings(SETTINGS), ids(SETTINGS), machine, &users);
        source.is_root = true;
        source.identity(&ids(SETTINGS).unwrap(), "CORP.EXAMPLE", pac, 0)
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
    fn a_user_of_a_trusted_domain_has_no_sid_of_another_one() {
        let trusted = "trusted = [\"LAB.EXAMPLE LAB S-1-5-21-4-5-6 200000-201999\"]\n";
        let text = format!("{SETTINGS}{trusted}");
        let source = DomainUsers::new(&settings(&text), ids(&text), sid("S-1-5-21-7-7-7"), &[]);
        let log_on = |pac: Pac, realm: &str| source.identity(&ids(&text).unwrap(), realm, pac, 0);
        let lab = sid("S-1-5-21-4-5-6");
        let group = |sid| PacGroup { sid, attributes: GroupAttributes(7), source: GroupSource::Extra };
        let eve = || Pac {
            user: lab.child(1104).unwrap(),
            primary_group: lab.child(513).unwrap(),
            // Of her own domain, of this server's, of a third one, and built-in administrators.
            groups: ["S-1-5-21-4-5-6-1105", "S-1-5-21-1-2-3-512", "S-1-5-21-9-9-9-1000", "S-1-5-32-544"]
                .map(|text| group(sid(text)))
                .to_vec(),
            domain: lab,
            domain_name: "LAB".to_owned(),
            name: "eve".to_owned(),
            ..pac(1104)
        };
        let found = log_on(eve(), "LAB.EXAMPLE").unwrap();
        assert_eq!((found.name.as_str(), found.uid, found.gid), ("LAB\\eve", 201_104, 200_513));
        assert_eq!(found.host_groups, [201_105]);
        let of_domains = found.groups.iter().filter(|group| group.to_string().starts_with("S-1-5-21-"));
        assert_eq!(of_domains.count(), 2, "{:?}", found.groups);
        assert!(!found.groups.contains(&sid("S-1-5-32-544")));
        // A controller speaks for its own domain alone.
        for (pac, realm) in [(pac(1104), "LAB.EXAMPLE"), (eve(), "CORP.EXAMPLE"), (eve(), "OTHER.EXAMPLE")] {
            assert!(matches!(log_on(pac, realm), Err(PrincipalRefusal::Unknown(_))), "{realm}");
        }
        let without_rid = text.replace("\"rid\"", "\"rfc2307\"");
        assert!(ids(&without_rid).unwrap_err().contains("which alone has ids"), "{:?}", ids(&without_rid));
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
            ids: Some(Ids { uid: 1000, gid: 100, groups: vec![7] }),
            admin: false,
            password_from: crate::principals::PasswordFrom::State,
            second_hash: None,
            key_of: None,
        };
        let of = |local: &LogonPrincipal| {
            DomainIds::of(&settings(SETTINGS), std::slice::from_ref(local), &HostNames::default(), None)
        };
        let ids = of(&local).unwrap();
        let bob = sid("S-1-5-21-1-2-3-1104");
        assert_eq!((ids.id(&bob, IdKind::User), ids.sid(101_104, IdKind::User)), (Some(101_104), Some(bob)));
        let other = ids.id(&sid("S-1-5-21-9-9-9-1000"), IdKind::User);
        assert_eq!((other, ids.sid(1000, IdKind::User)), (None, None));
        local.ids = Some(Ids { uid: 1000, gid: 100, groups: vec![101_104] });
        assert!(of(&local).unwrap_err().contains("has the id 101104, which `ann` of this host has"));
    }
}
