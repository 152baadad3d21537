//! The RPC credentials of a request, and the identity that they have in each export.

use std::net::{IpAddr, SocketAddr};
use std::ptr;
use std::sync::{Arc, Weak};

use nfs_wire::NfsStat;
use nfs_wire::rpc::{AuthStat, AuthSys, Flavor, OpaqueAuth};
use parking_lot::Mutex;
use share::Identity;
use volume::Actor;
use volume::security::{Rights, Sid, well_known};
use wire::Now;

use crate::config::{Export, Squash};
use crate::state::group_lookup::GroupLookup;

/// The owner of a client record. Only this principal may change the record (RFC 8881 2.4.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    flavor: u32,
    uid: u32,
    machine: Box<[u8]>,
}

impl std::fmt::Display for Principal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let machine = String::from_utf8_lossy(&self.machine);
        match Flavor::new(self.flavor) {
            Flavor::Sys => write!(f, "sys uid {} of {machine}", self.uid),
            Flavor::None => f.write_str("none"),
            _ => write!(f, "flavor {}", self.flavor),
        }
    }
}

impl Principal {
    /// Builds a principal from its [`Principal::parts`].
    #[must_use]
    pub fn of(flavor: u32, uid: u32, machine: Box<[u8]>) -> Principal {
        Principal { flavor, uid, machine }
    }

    /// The flavor of the credential, its user, and its host name.
    #[must_use]
    pub fn parts(&self) -> (u32, u32, &[u8]) {
        (self.flavor, self.uid, &self.machine)
    }
}

/// The identity of some credentials in an export with these settings.
struct ExportIdentity {
    id: u32,
    export: Weak<Export>,
    identity: Arc<Identity>,
    /// The look-up of its groups by the server; none before the first one.
    look_up: Option<GroupLookup>,
}

/// The credentials of one user, as a connection has received them.
pub struct RpcCredentials {
    flavor: Flavor,
    /// The bytes of the credential, to compare it with others.
    body: Box<[u8]>,
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
    machine: Box<[u8]>,
    remote: SocketAddr,
    /// The identity in each export that was used. The weak references let exports go.
    identities: Mutex<Vec<ExportIdentity>>,
}

impl ExportIdentity {
    fn is_in(&self, export: &Arc<Export>) -> bool {
        ptr::eq(self.export.as_ptr(), Arc::as_ptr(export))
    }
}

impl RpcCredentials {
    /// Reads a credential.
    ///
    /// # Errors
    /// The reason to reject the call (RFC 5531 9).
    pub fn read(credential: &OpaqueAuth<'_>, remote: SocketAddr) -> Result<RpcCredentials, AuthStat> {
        let mut credentials = RpcCredentials {
            flavor: credential.flavor,
            body: credential.body.into(),
            uid: u32::MAX,
            gid: u32::MAX,
            groups: Vec::new(),
            machine: Box::default(),
            remote,
            identities: Mutex::default(),
        };
        match credential.flavor {
            Flavor::None => {}
            Flavor::Sys => {
                let sys = AuthSys::parse(credential.body).map_err(|_| AuthStat::BadCred)?;
                (credentials.uid, credentials.gid) = (sys.uid, sys.gid);
                credentials.groups = sys.groups().to_vec();
                credentials.machine = sys.machine_name.into();
            }
            _ => return Err(AuthStat::TooWeak),
        }
        Ok(credentials)
    }

    /// Whether these are the credentials in `credential`.
    #[inline]
    #[must_use]
    pub fn is(&self, credential: &OpaqueAuth<'_>) -> bool {
        self.flavor == credential.flavor && *self.body == *credential.body
    }

    /// Whether they name a user (AUTH_SYS).
    #[must_use]
    pub fn is_sys(&self) -> bool {
        self.flavor == Flavor::Sys
    }

    /// The principal that owns the clients of these credentials.
    #[must_use]
    pub fn principal(&self) -> Principal {
        Principal { flavor: self.flavor.get(), uid: self.uid, machine: self.machine.clone() }
    }

    /// The client's address.
    #[must_use]
    pub fn address(&self) -> IpAddr {
        self.remote.ip()
    }

    /// A number for the fingerprint of a request.
    #[must_use]
    pub fn mark(&self) -> u64 {
        u64::from(self.uid) << 32 | u64::from(self.flavor.get())
    }

    /// Whether the export admits the address and port of the client.
    #[must_use]
    pub fn may_use(&self, export: &Export) -> bool {
        let is_near =
            export.clients.is_empty() || export.clients.iter().any(|network| network.holds(self.remote.ip()));
        is_near && (!export.secure || self.remote.port() < 1024)
    }

    /// The identity in an export.
    #[must_use]
    pub fn identity(&self, export: &Arc<Export>) -> Arc<Identity> {
        let mut known = self.identities.lock();
        if let Some(seen) = known.iter().find(|seen| seen.is_in(export)) {
            return Arc::clone(&seen.identity);
        }
        // Groups that nobody has looked up give no access.
        let groups = if export.manage_gids.is_some() { &[][..] } else { &self.groups };
        self.remember(&mut known, export, groups, None)
    }

    /// The status for an operation that needs the groups of this user in an export; none: they have to be
    /// looked up first, which may block.
    #[must_use]
    pub fn groups_status(&self, export: &Arc<Export>, now: Now) -> Option<NfsStat> {
        if export.manage_gids.is_none() || self.is_anonymous(export) {
            return Some(NfsStat::Ok);
        }
        let known = self.identities.lock();
        let look_up = known.iter().find(|seen| seen.is_in(export))?.look_up.as_ref()?;
        look_up.is_recent(now.mono_ns).then(|| look_up.status())
    }

    /// Looks up the groups of this user in an export. May block.
    pub fn look_up_groups(&self, export: &Arc<Export>, now: Now) {
        let Some(source) = &export.manage_gids else { return };
        let found = source.groups(self.uid);
        let mut known = self.identities.lock();
        let former = known.iter_mut().find(|seen| seen.is_in(export));
        let last = former.as_ref().and_then(|seen| seen.look_up);
        let look_up = GroupLookup::after(&found, last, now.mono_ns, self.uid);
        match (found, former) {
            (Ok(groups), _) => {
                drop(self.remember(&mut known, export, &groups.unwrap_or_default(), Some(look_up)))
            }
            (Err(_), Some(seen)) => seen.look_up = Some(look_up),
            (Err(_), None) => drop(self.remember(&mut known, export, &[], Some(look_up))),
        }
    }

    /// Makes the identity in an export, in place of an older one.
    fn remember(
        &self,
        known: &mut Vec<ExportIdentity>,
        export: &Arc<Export>,
        groups: &[u32],
        look_up: Option<GroupLookup>,
    ) -> Arc<Identity> {
        // Drop identities of settings that are no longer in force.
        known.retain(|seen| seen.id != export.id && seen.export.strong_count() > 0);
        let identity = Arc::new(self.make_identity(export, groups));
        let (id, export) = (export.id, Arc::downgrade(export));
        known.push(ExportIdentity { id, export, identity: Arc::clone(&identity), look_up });
        identity
    }

    fn is_anonymous(&self, export: &Export) -> bool {
        self.flavor != Flavor::Sys
            || export.squash == Squash::All
            || (export.squash == Squash::Root && self.uid == 0)
    }

    fn make_identity(&self, export: &Export, groups: &[u32]) -> Identity {
        let (anonymous_uid, anonymous_gid) = export.anonymous;
        let squash_group =
            |gid: u32| if export.squash == Squash::Root && gid == 0 { anonymous_gid } else { gid };
        let (uid, gid, groups) = if self.is_anonymous(export) {
            (anonymous_uid, anonymous_gid, Vec::new())
        } else {
            (self.uid, squash_group(self.gid), groups.iter().map(|gid| squash_group(*gid)).collect())
        };
        let unbound = uid == 0;
        let accounts = Arc::clone(&export.engine.config().accounts);
        let mut sids =
            vec![well_known::EVERYONE, well_known::NETWORK, Sid::unix_user(uid), Sid::unix_group(gid)];
        // RFC 8881 6.2.1.5
        if self.is_sys() {
            sids.extend([well_known::AUTHENTICATED_USERS, well_known::USERS]);
        } else {
            sids.push(well_known::ANONYMOUS);
        }
        sids.extend(groups.iter().map(|gid| Sid::unix_group(*gid)));
        // A group of the domain is in descriptors by its SID in the domain.
        let of_domain = std::iter::once(&gid).chain(&groups).map(|gid| accounts.group_sid(*gid));
        sids.extend(of_domain.filter(|sid| sid.as_unix_group().is_none()));
        Identity {
            name: format!("uid {uid}"),
            sid: accounts.user_sid(uid),
            groups: sids,
            uid,
            gid,
            // A file that root creates belongs to the group in root's credentials.
            actor: (!unbound || gid != 0).then(|| Actor { uid, gid, groups: groups.clone() }),
            host_groups: groups,
            administrator: unbound,
            unbound,
            limit: Rights::ALL,
            home: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Network, NoGroups};
    use nfs_wire::xdr::Encode;

    fn export(squash: Squash) -> Arc<Export> {
        let volume = Arc::new(volume::memory::MemoryVolume::new(1));
        Arc::new(Export {
            name: "x".into(),
            id: 1,
            engine: share::Share::open(volume, share::Config::default()).unwrap(),
            read_only: false,
            squash,
            anonymous: (65534, 65533),
            clients: Vec::new(),
            secure: false,
            manage_gids: None,
        })
    }

    fn credentials(uid: u32, gid: u32, groups: &[u32]) -> RpcCredentials {
        let mut body = Vec::new();
        AuthSys::new(b"host", uid, gid, groups).encode(&mut body);
        let remote = "192.0.2.7:1023".parse().unwrap();
        RpcCredentials::read(&OpaqueAuth { flavor: Flavor::Sys, body: &body }, remote).unwrap()
    }

    #[test]
    fn root_is_who_the_export_says() {
        let seen = |squash, uid| {
            let identity = credentials(uid, uid, &[0, 5]).identity(&export(squash));
            (identity.uid, identity.gid, identity.host_groups.clone(), identity.unbound)
        };
        assert_eq!(seen(Squash::None, 0), (0, 0, vec![0, 5], true));
        assert_eq!(seen(Squash::Root, 0), (65534, 65533, vec![], false));
        assert_eq!(seen(Squash::Root, 7), (7, 7, vec![65533, 5], false));
        assert_eq!(seen(Squash::All, 7), (65534, 65533, vec![], false));
    }

    #[test]
    fn groups_of_the_server_count_instead_of_those_of_the_client() {
        struct Forty;
        impl crate::ManagedGids for Forty {
            fn groups(&self, uid: u32) -> Result<Option<Vec<u32>>, NoGroups> {
                Ok((uid == 7).then(|| (0..40).collect()))
            }
        }
        let managed = |squash| {
            let manage_gids: Option<Arc<dyn crate::ManagedGids>> = Some(Arc::new(Forty));
            Arc::new(Export { manage_gids, ..(*export(squash)).clone() })
        };
        let (export, at) =
            (managed(Squash::Root), |s: u64| Now { mono_ns: s * 1_000_000_000, ..Now::default() });
        let ann = credentials(7, 9, &[5, 6]);
        let status = |of: &RpcCredentials, s| of.groups_status(&export, at(s));
        assert!(status(&ann, 1).is_none() && ann.identity(&export).host_groups.is_empty());
        ann.look_up_groups(&export, at(1));
        let found = ann.identity(&export);
        assert_eq!((found.gid, found.host_groups.len(), found.host_groups[0]), (9, 40, 65533));
        assert!(found.groups.contains(&Sid::unix_group(39)) && status(&ann, 30) == Some(NfsStat::Ok));
        assert!(status(&ann, 31).is_none(), "a user who lost a group loses its access");
        let eve = credentials(8, 9, &[5, 6]);
        eve.look_up_groups(&export, at(1));
        assert!(eve.identity(&export).host_groups.is_empty(), "the host does not know this user");
        assert_eq!(status(&credentials(0, 0, &[]), 1), Some(NfsStat::Ok));
        assert_eq!(ann.groups_status(&managed(Squash::All), at(1)), Some(NfsStat::Ok));
    }

    #[test]
    fn a_group_of_the_domain_counts_by_its_sid_too() {
        struct Domain;
        const STAFF: Sid = Sid::new(5, &[21, 1, 2, 3, 1105]);
        impl share::engine::AccountMapping for Domain {
            fn group_sid(&self, gid: u32) -> Sid {
                if gid == 101_105 { STAFF } else { Sid::unix_group(gid) }
            }
        }
        let export = export(Squash::Root);
        export.engine.configure(share::Config { accounts: Arc::new(Domain), ..share::Config::default() });
        let groups = |groups: &[u32]| credentials(7, 9, groups).identity(&export).groups.clone();
        let found = groups(&[101_105]);
        assert!(found.contains(&STAFF) && found.contains(&Sid::unix_group(101_105)));
        assert!(!groups(&[5]).contains(&STAFF));
    }

    #[test]
    fn who_says_nothing_is_nobody_and_who_says_nonsense_is_refused() {
        let remote = "192.0.2.7:2049".parse().unwrap();
        let nobody = RpcCredentials::read(&OpaqueAuth::NONE, remote).unwrap();
        assert_eq!(nobody.identity(&export(Squash::None)).uid, 65534);
        let bad = RpcCredentials::read(&OpaqueAuth { flavor: Flavor::Sys, body: b"short" }, remote);
        assert_eq!(bad.err(), Some(AuthStat::BadCred));
        let gss = RpcCredentials::read(&OpaqueAuth { flavor: Flavor::RpcSecGss, body: b"" }, remote);
        assert_eq!(gss.err(), Some(AuthStat::TooWeak));
    }

    #[test]
    fn an_export_is_used_from_where_it_may_be() {
        let near = Network { address: "192.0.2.0".parse().unwrap(), bits: 24 };
        let far = Network { address: "198.51.100.0".parse().unwrap(), bits: 24 };
        let with = |clients: &[Network], secure| {
            let export = Export { clients: clients.to_vec(), secure, ..(*export(Squash::Root)).clone() };
            credentials(1, 1, &[]).may_use(&export)
        };
        assert!(with(&[], true) && with(&[far, near], false) && !with(&[far], false));
        let high = RpcCredentials { remote: "192.0.2.7:1024".parse().unwrap(), ..credentials(1, 1, &[]) };
        assert!(!high.may_use(&Export { secure: true, ..(*export(Squash::Root)).clone() }));
    }
}
