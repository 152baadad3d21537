//! Who makes a request: what the credential says, and who that is for each export.

use std::net::SocketAddr;
use std::ptr;
use std::sync::{Arc, Weak};

use nfs_wire::rpc::{AuthStat, AuthSys, Flavor, OpaqueAuth};
use parking_lot::Mutex;
use share::Identity;
use volume::Actor;
use volume::security::{Rights, Sid, well_known};

use crate::config::{Export, Squash};

/// Whose client a client is: only they may change what is known of it (RFC 8881 2.4.3).
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
    /// From what [`Principal::parts`] gave.
    #[must_use]
    pub fn of(flavor: u32, uid: u32, machine: Box<[u8]>) -> Principal {
        Principal { flavor, uid, machine }
    }

    /// The flavor of the credential, the user in it, and the host that it names.
    #[must_use]
    pub fn parts(&self) -> (u32, u32, &[u8]) {
        (self.flavor, self.uid, &self.machine)
    }
}

/// Who somebody is for an export with these settings.
struct Seen {
    id: u32,
    export: Weak<Export>,
    identity: Arc<Identity>,
}

/// One credential as a connection has seen it.
pub struct Who {
    flavor: Flavor,
    /// The credential's bytes, by which it is known again.
    body: Box<[u8]>,
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
    machine: Box<[u8]>,
    remote: SocketAddr,
    /// Who that is for exports that were used, of which none is kept from going for that.
    identities: Mutex<Vec<Seen>>,
}

impl Who {
    /// Reads a credential.
    ///
    /// # Errors
    /// What the call is rejected with (RFC 5531 9).
    pub fn read(credential: &OpaqueAuth<'_>, remote: SocketAddr) -> Result<Who, AuthStat> {
        let mut who = Who {
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
                (who.uid, who.gid) = (sys.uid, sys.gid);
                who.groups = sys.groups().to_vec();
                who.machine = sys.machine_name.into();
            }
            _ => return Err(AuthStat::TooWeak),
        }
        Ok(who)
    }

    /// Whether this is what a credential says.
    #[inline]
    #[must_use]
    pub fn is(&self, credential: &OpaqueAuth<'_>) -> bool {
        self.flavor == credential.flavor && *self.body == *credential.body
    }

    /// Whether it names a user.
    #[must_use]
    pub fn is_sys(&self) -> bool {
        self.flavor == Flavor::Sys
    }

    /// Whose clients this credential may speak of.
    #[must_use]
    pub fn principal(&self) -> Principal {
        Principal { flavor: self.flavor.get(), uid: self.uid, machine: self.machine.clone() }
    }

    /// Mixes the credential into a fingerprint.
    #[must_use]
    pub fn mark(&self) -> u64 {
        u64::from(self.uid) << 32 | u64::from(self.flavor.get())
    }

    /// Whether an export may be used from where the request comes.
    #[must_use]
    pub fn may_use(&self, export: &Export) -> bool {
        let is_near =
            export.clients.is_empty() || export.clients.iter().any(|network| network.holds(self.remote.ip()));
        is_near && (!export.secure || self.remote.port() < 1024)
    }

    /// Who that is for an export.
    #[must_use]
    pub fn identity(&self, export: &Arc<Export>) -> Arc<Identity> {
        let mut known = self.identities.lock();
        if let Some(seen) = known.iter().find(|seen| ptr::eq(seen.export.as_ptr(), Arc::as_ptr(export))) {
            return Arc::clone(&seen.identity);
        }
        // Those of settings that are no longer in force go.
        known.retain(|seen| seen.id != export.id && seen.export.strong_count() > 0);
        let identity = Arc::new(self.make_identity(export));
        let new = Seen { id: export.id, export: Arc::downgrade(export), identity: Arc::clone(&identity) };
        known.push(new);
        identity
    }

    fn make_identity(&self, export: &Export) -> Identity {
        let (anonymous_uid, anonymous_gid) = export.anonymous;
        let is_anonymous = self.flavor != Flavor::Sys
            || export.squash == Squash::All
            || (export.squash == Squash::Root && self.uid == 0);
        let squash_group =
            |gid: u32| if export.squash == Squash::Root && gid == 0 { anonymous_gid } else { gid };
        let (uid, gid, groups) = if is_anonymous {
            (anonymous_uid, anonymous_gid, Vec::new())
        } else {
            (self.uid, squash_group(self.gid), self.groups.iter().map(|gid| squash_group(*gid)).collect())
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
        Identity {
            name: format!("uid {uid}"),
            sid: accounts.user_sid(uid),
            groups: sids,
            uid,
            gid,
            // What root makes belongs to the group that it comes with.
            actor: (!unbound || gid != 0).then(|| Actor { uid, gid, groups: groups.clone() }),
            host_groups: groups,
            administrator: unbound,
            unbound,
            limit: Rights::ALL,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Network;
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
        })
    }

    fn who(uid: u32, gid: u32, groups: &[u32]) -> Who {
        let mut body = Vec::new();
        AuthSys::new(b"host", uid, gid, groups).encode(&mut body);
        let remote = "192.0.2.7:1023".parse().unwrap();
        Who::read(&OpaqueAuth { flavor: Flavor::Sys, body: &body }, remote).unwrap()
    }

    #[test]
    fn root_is_who_the_export_says() {
        let seen = |squash, uid| {
            let identity = who(uid, uid, &[0, 5]).identity(&export(squash));
            (identity.uid, identity.gid, identity.host_groups.clone(), identity.unbound)
        };
        assert_eq!(seen(Squash::None, 0), (0, 0, vec![0, 5], true));
        assert_eq!(seen(Squash::Root, 0), (65534, 65533, vec![], false));
        assert_eq!(seen(Squash::Root, 7), (7, 7, vec![65533, 5], false));
        assert_eq!(seen(Squash::All, 7), (65534, 65533, vec![], false));
    }

    #[test]
    fn who_says_nothing_is_nobody_and_who_says_nonsense_is_refused() {
        let remote = "192.0.2.7:2049".parse().unwrap();
        let nobody = Who::read(&OpaqueAuth::NONE, remote).unwrap();
        assert_eq!(nobody.identity(&export(Squash::None)).uid, 65534);
        let bad = Who::read(&OpaqueAuth { flavor: Flavor::Sys, body: b"short" }, remote);
        assert_eq!(bad.err(), Some(AuthStat::BadCred));
        let gss = Who::read(&OpaqueAuth { flavor: Flavor::RpcSecGss, body: b"" }, remote);
        assert_eq!(gss.err(), Some(AuthStat::TooWeak));
    }

    #[test]
    fn an_export_is_used_from_where_it_may_be() {
        let near = Network { address: "192.0.2.0".parse().unwrap(), bits: 24 };
        let far = Network { address: "198.51.100.0".parse().unwrap(), bits: 24 };
        let with = |clients: &[Network], secure| {
            let export = Export { clients: clients.to_vec(), secure, ..(*export(Squash::Root)).clone() };
            who(1, 1, &[]).may_use(&export)
        };
        assert!(with(&[], true) && with(&[far, near], false) && !with(&[far], false));
        let high = Who { remote: "192.0.2.7:1024".parse().unwrap(), ..who(1, 1, &[]) };
        assert!(!high.may_use(&Export { secure: true, ..(*export(Squash::Root)).clone() }));
    }
}
