//! The identities of principals for the engine and the log-on, and the mapping to users of the host.

use std::collections::BTreeMap;
use std::sync::Arc;

use ::identity::mapping::IdKind;
use share::engine::{AccountDomain, AccountKind, AccountMapping, AccountName, AccountQuery};
use share::{Identity, UserFailure};
use volume::Actor;
use volume::security::{Rights, Sid, well_known};

use super::super::plan::ServePlan;
use super::domain_faults::KeytabWatch;
use super::domain_users::DomainIds;
use crate::host::{self, Ids};
use crate::principals::LogonPrincipal;
use crate::state::store;

/// RID of the group of all local users (MS-SAMR 2.2.1.14: DOMAIN_GROUP_RID_USERS).
const GROUP_RID_USERS: u32 = 513;

/// The identities of all principals who may log on.
pub struct IdentityMap {
    users: Vec<smb::UserConfig>,
    /// Host users that belong to exactly one user.
    by_uid: BTreeMap<u32, Sid>,
    by_sid: BTreeMap<Sid, u32>,
    /// The users' names.
    names: BTreeMap<Sid, String>,
    /// Host users by the users' names in lower case.
    by_name: BTreeMap<String, u32>,
    /// The domains of this server after the @ in a user's name.
    domains: Vec<String>,
    /// The ids of the joined domain.
    domain_ids: Option<DomainIds>,
    /// The host's groups with their numbers.
    host_groups: Vec<(String, u32)>,
}

impl IdentityMap {
    /// Builds the map from the list of principals.
    ///
    /// # Errors
    /// One line that names the user.
    pub fn new(
        principals: &[LogonPrincipal],
        server: &store::Identity,
        domains: &[&str],
    ) -> Result<IdentityMap, String> {
        let mut users = Vec::new();
        let mut holders: BTreeMap<u32, Vec<Sid>> = BTreeMap::new();
        let mut by_sid = BTreeMap::new();
        let (mut by_name, mut names) = (BTreeMap::new(), BTreeMap::new());
        let (own_uid, _) = host::own();
        for principal in principals {
            let sid: Sid =
                principal.sid.parse().map_err(|e| format!("`sid` of user `{}`: {e}", principal.name))?;
            names.insert(sid, principal.name.clone());
            if let Some(ids) = &principal.ids {
                by_sid.insert(sid, ids.uid);
                if principal.key_of.is_none() {
                    holders.entry(ids.uid).or_default().push(sid);
                    by_name.insert(principal.name.to_lowercase(), ids.uid);
                }
            }
            let identity = identity(principal, sid, server, own_uid);
            users.push(smb::UserConfig {
                identity: Arc::new(identity),
                nt_hash: principal.nt_hash.0,
                second_hash: principal.second_hash.as_ref().map(|hash| hash.0),
                key_of: principal.key_of.clone(),
                restriction: principal.restriction().map(Arc::from),
            });
        }
        // If several users share a host user, its id maps to none of them. Each of them has its SID as a
        // group.
        let by_uid = holders.into_iter().filter_map(|(uid, sids)| match sids[..] {
            [sid] => Some((uid, sid)),
            _ => None,
        });
        let domains = domains.iter().map(|domain| domain.to_lowercase()).collect();
        let (by_uid, host_groups) = (by_uid.collect(), Vec::new());
        Ok(IdentityMap { users, by_uid, by_sid, names, by_name, domains, host_groups, domain_ids: None })
    }

    /// Adds the users and groups of the joined domain.
    #[must_use]
    pub fn with_domain(self, domain_ids: Option<DomainIds>) -> IdentityMap {
        IdentityMap { domain_ids, ..self }
    }

    /// Whether the settings still give a user of the joined domain the uid of a session.
    pub fn is_domain_user(&self, identity: &Identity) -> bool {
        self.domain_ids.as_ref().is_some_and(|ids| ids.is_current(identity))
    }

    /// The identity of a user whose opens are restored, if the user may still log on. Waits for the directory
    /// if it is none of this server.
    ///
    /// # Errors
    /// [`UserFailure`].
    pub fn restored(&self, sid: &Sid) -> Result<Arc<Identity>, UserFailure> {
        match self.users.iter().find(|user| user.identity.sid == *sid) {
            Some(user) if user.restriction.is_some() => Err(UserFailure::Gone),
            Some(user) => Ok(Arc::clone(&user.identity)),
            None => self.domain_ids.as_ref().ok_or(UserFailure::Gone)?.restored(sid),
        }
    }

    fn domain_sid_of(&self, id: u32, kind: IdKind) -> Option<Sid> {
        self.domain_ids.as_ref()?.sid(id, kind)
    }

    fn domain_id(&self, sid: &Sid, kind: IdKind) -> Option<u32> {
        self.domain_ids.as_ref()?.id(sid, kind)
    }

    /// The map with the groups of the host, which settings may name.
    pub fn with_host_groups(self, host_groups: Vec<(String, u32)>) -> IdentityMap {
        IdentityMap { host_groups, ..self }
    }

    /// The number of a group of the host. The settings are in lower case, so an exact match goes first.
    fn host_group(&self, name: &str) -> Option<u32> {
        let exact = self.host_groups.iter().find(|(known, _)| known == name);
        let folded =
            || self.host_groups.iter().find(|(known, _)| known.to_lowercase() == name.to_lowercase());
        exact.or_else(folded).map(|(_, gid)| *gid)
    }

    fn is_own_domain(&self, domain: &str) -> bool {
        self.domains.iter().any(|own| *own == domain.to_lowercase())
    }

    /// The users in the form of the log-on.
    pub fn users(&self) -> Vec<smb::UserConfig> {
        self.users.clone()
    }
}

/// The identities of a plan.
pub struct PlanIdentities {
    /// The users and groups, for the engines.
    pub map: Arc<IdentityMap>,
    /// The ids of the joined domain, or the reason for having none.
    pub domain_ids: Result<DomainIds, String>,
    /// The names of the host's users and groups.
    pub host_names: smb::HostNames,
    /// The keytab before anything else has read it: a later change shows in the next look.
    pub keytab: KeytabWatch,
}

impl PlanIdentities {
    /// Reads the host's lists of users and groups once. The resolver of `former` stays if its settings did
    /// not change.
    ///
    /// # Errors
    /// One line that names the user.
    pub fn of(plan: &ServePlan, former: Option<&DomainIds>) -> Result<PlanIdentities, String> {
        let keytab = KeytabWatch::of(&plan.config.domain);
        let host_names = host::listed_names();
        let domain_ids = DomainIds::of(&plan.config.domain, &plan.principals, &host_names, former);
        if let Ok(ids) = &domain_ids {
            let shares = plan.config.shares.values().flat_map(|share| share.users.keys());
            let accounts = plan.config.accounts.values().flat_map(|account| account.users.keys());
            ids.look_up(shares.chain(accounts).map(String::as_str));
        }
        let workgroup = &plan.config.server.workgroup.value;
        let map = IdentityMap::new(&plan.principals, &plan.identity, &[workgroup])?;
        let map = map.with_domain(domain_ids.clone().ok()).with_host_groups(host_names.groups.clone());
        Ok(PlanIdentities { map: Arc::new(map), domain_ids, host_names, keytab })
    }
}

impl AccountMapping for IdentityMap {
    fn user_sid(&self, uid: u32) -> Sid {
        let known = self.by_uid.get(&uid).copied().or_else(|| self.domain_sid_of(uid, IdKind::User));
        known.unwrap_or_else(|| Sid::unix_user(uid))
    }

    fn group_sid(&self, gid: u32) -> Sid {
        self.domain_sid_of(gid, IdKind::Group).unwrap_or_else(|| Sid::unix_group(gid))
    }

    fn uid(&self, sid: &Sid) -> Option<u32> {
        self.by_sid
            .get(sid)
            .copied()
            .or_else(|| sid.as_unix_user())
            .or_else(|| self.domain_id(sid, IdKind::User))
    }

    fn gid(&self, sid: &Sid) -> Option<u32> {
        sid.as_unix_group().or_else(|| self.domain_id(sid, IdKind::Group))
    }

    fn user_name(&self, sid: &Sid) -> Option<String> {
        self.names.get(sid).cloned()
    }

    fn uid_named(&self, name: &str, domain: &str) -> Option<u32> {
        let own = self.by_name.get(&name.to_lowercase()).copied().filter(|_| self.is_own_domain(domain));
        own.or_else(|| Some(self.domain_ids.as_ref()?.user_named(domain, name)?.uid))
    }

    fn gid_named(&self, name: &str, domain: &str) -> Option<u32> {
        let own = self.host_group(name).filter(|_| self.is_own_domain(domain));
        own.or_else(|| self.domain_ids.as_ref()?.group_named(domain, name)?.gid)
    }

    fn group_named(&self, domain: Option<&str>, name: &str) -> Option<Sid> {
        let is_ours = domain.is_none_or(|domain| self.is_own_domain(domain));
        let own = self.host_group(name).filter(|_| is_ours).map(|gid| self.group_sid(gid));
        own.or_else(|| Some(self.domain_ids.as_ref()?.group_named(domain?, name)?.sid))
    }

    fn account_name(&self, sid: &Sid) -> Option<AccountName> {
        self.domain_ids.as_ref()?.account_name(sid)
    }

    fn account_named(&self, domain: Option<&str>, name: &str) -> Option<(Sid, AccountKind)> {
        let ids = self.domain_ids.as_ref()?;
        let own = ids.account_domain()?;
        ids.account_named(domain.unwrap_or(&own.name), name)
    }

    fn look_up(&self, queries: &[AccountQuery<'_>]) {
        if let Some(ids) = &self.domain_ids {
            ids.look_up_accounts(queries);
        }
    }

    fn domains(&self) -> Vec<AccountDomain> {
        self.domain_ids.as_ref().map(DomainIds::account_domains).unwrap_or_default()
    }
}

fn identity(principal: &LogonPrincipal, sid: Sid, server: &store::Identity, own_uid: u32) -> Identity {
    let [a, b, c] = server.machine_sid;
    let mut groups = vec![
        Sid::new(5, &[21, a, b, c, GROUP_RID_USERS]),
        well_known::EVERYONE,
        well_known::NETWORK,
        well_known::AUTHENTICATED_USERS,
        well_known::USERS,
    ];
    // A user without ids has no session. These are the numbers of nobody.
    let none = || Ids { uid: smb::nobody().uid, gid: smb::nobody().gid, groups: Vec::new() };
    let Ids { uid, gid, groups: host_groups } = principal.ids.clone().unwrap_or_else(none);
    groups.extend([Sid::unix_user(uid), Sid::unix_group(gid)]);
    groups.extend(host_groups.iter().map(|gid| Sid::unix_group(*gid)));
    if principal.admin {
        groups.push(well_known::ADMINISTRATORS);
    }
    // Only root can act for other users. An administrator acts as the server itself.
    let acts = own_uid == 0 && uid != 0 && !principal.admin;
    let actor = acts.then(|| Actor { uid, gid, groups: host_groups.clone() });
    Identity {
        name: principal.name.clone(),
        sid,
        groups,
        uid,
        gid,
        host_groups,
        actor,
        administrator: principal.admin,
        // A client with an account's key owns all files on the account's shares.
        unbound: principal.key_of.is_some(),
        limit: Rights::ALL,
        home: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn principal(name: &str, uid: u32, rid: u32) -> LogonPrincipal {
        LogonPrincipal {
            name: name.to_owned(),
            nt_hash: admin::NtHash([0; 16]),
            sid: format!("S-1-5-21-1-2-3-{rid}"),
            ids: Some(Ids { uid, gid: 100, groups: vec![7] }),
            admin: false,
            password_from: crate::principals::PasswordFrom::State,
            second_hash: None,
            key_of: None,
        }
    }

    #[test]
    fn a_host_user_is_a_person_only_when_it_is_one_person() {
        let server = store::Identity { guid: [0; 16], machine_sid: [1, 2, 3] };
        let principals =
            [principal("ann", 1000, 1000), principal("bob", 1001, 1001), principal("eve", 1001, 1002)];
        let principals = IdentityMap::new(&principals, &server, &["Office"]).unwrap();
        assert_eq!(principals.uid_named("Ann", "OFFICE"), Some(1000));
        assert_eq!(
            (principals.uid_named("ann", "elsewhere"), principals.uid_named("zoe", "office")),
            (None, None)
        );
        let ann = Sid::new(5, &[21, 1, 2, 3, 1000]);
        assert_eq!((principals.user_sid(1000), principals.uid(&ann)), (ann, Some(1000)));
        assert_eq!(principals.user_sid(1001), Sid::unix_user(1001));
        let bob = &principals.users()[1].identity;
        assert!(bob.groups.contains(&Sid::unix_user(1001)) && bob.groups.contains(&Sid::unix_group(7)));
        assert_eq!(principals.uid(&Sid::unix_user(5)), Some(5));
    }

    #[test]
    fn users_and_groups_of_the_domain_have_the_ids_of_the_range_and_local_ones_keep_theirs() {
        let text = "[domain]\nrealm = \"R.EXAMPLE\"\ndomain_sid = \"S-1-5-21-4-5-6\"\nid_mapping = \"rid\"\n\
             id_range = \"5000-5999\"\n";
        let domain = crate::config::read::parse("t", text, std::path::Path::new("/")).unwrap().domain;
        let ids = DomainIds::of(&domain, &[], &smb::HostNames::default(), None).unwrap();
        let server = store::Identity { guid: [0; 16], machine_sid: [1, 2, 3] };
        let own = || IdentityMap::new(&[principal("ann", 1000, 1000)], &server, &["Office"]).unwrap();
        let (without, map) = (own(), own().with_domain(Some(ids)));
        let bob = Sid::new(5, &[21, 4, 5, 6, 500]);
        assert_eq!((map.user_sid(5500), map.group_sid(5500)), (bob, bob));
        assert_eq!((map.uid(&bob), map.gid(&bob)), (Some(5500), Some(5500)));
        assert_eq!((map.user_sid(1000), map.group_sid(100)), (without.user_sid(1000), Sid::unix_group(100)));
        let outside = Sid::new(5, &[21, 4, 5, 6, 1000]);
        assert_eq!((map.uid(&outside), map.gid(&outside), without.uid(&bob)), (None, None, None));
        let session = |uid| Identity { sid: bob, uid, ..smb::nobody() };
        assert!(map.is_domain_user(&session(5500)) && !without.is_domain_user(&session(5500)));
        assert!(!map.is_domain_user(&session(5501)));
    }

    #[test]
    fn groups_of_the_host_are_known_by_name_to_settings_and_to_nfs() {
        let server = store::Identity { guid: [0; 16], machine_sid: [1, 2, 3] };
        let groups = [("Staff", 6), ("staff", 7), ("Wheel", 8)].map(|(name, gid)| (name.to_owned(), gid));
        let accounts = IdentityMap::new(&[principal("ann", 1000, 1000)], &server, &["Office"]).unwrap();
        let accounts = Arc::new(accounts.with_host_groups(groups.into()));
        assert_eq!(accounts.group_named(None, "staff"), Some(Sid::unix_group(7)), "the exact name");
        assert_eq!(accounts.group_named(Some("office"), "wheel"), Some(Sid::unix_group(8)));
        assert_eq!(
            (accounts.gid_named("staff", "OFFICE"), accounts.gid_named("staff", "x")),
            (Some(7), None)
        );
        assert_eq!(
            (accounts.group_named(None, "none"), accounts.group_named(Some("x"), "staff")),
            (None, None)
        );
        let ann = accounts.users()[0].identity.clone();
        let named = |name| smb::Grantee::new(name, Arc::<IdentityMap>::clone(&accounts)).names(&ann);
        assert_eq!(["@staff", "@wheel", "@none", "ann"].map(named), [true, false, false, true]);
    }

    #[test]
    fn an_account_is_bound_by_no_descriptor_and_is_no_user_of_the_host() {
        let server = store::Identity { guid: [0; 16], machine_sid: [1, 2, 3] };
        let second_hash = Some(admin::NtHash([2; 16]));
        let lab = LogonPrincipal {
            admin: true,
            key_of: Some("lab".to_owned()),
            second_hash,
            ..principal("lab", 1000, 1001)
        };
        let principals =
            IdentityMap::new(&[principal("ann", 1000, 1000), lab], &server, &["Office"]).unwrap();
        let ann = Sid::new(5, &[21, 1, 2, 3, 1000]);
        assert_eq!((principals.user_sid(1000), principals.uid_named("lab", "office")), (ann, None));
        let users = principals.users();
        assert!(!users[0].identity.unbound && users[1].identity.unbound && users[1].identity.actor.is_none());
        assert_eq!((users[1].key_of.as_deref(), users[1].second_hash), (Some("lab"), Some([2; 16])));
    }

    #[test]
    fn only_root_acts_for_others_and_never_for_an_administrator() {
        let server = store::Identity { guid: [0; 16], machine_sid: [1, 2, 3] };
        let ann = principal("ann", 1000, 1000);
        let admin = LogonPrincipal { admin: true, ..ann.clone() };
        let actor =
            |principal: &LogonPrincipal, own| identity(principal, Sid::unix_user(1), &server, own).actor;
        assert_eq!(actor(&ann, 0), Some(Actor { uid: 1000, gid: 100, groups: vec![7] }));
        assert_eq!(actor(&ann, 1000), None);
        assert_eq!(actor(&admin, 0), None);
    }
}
