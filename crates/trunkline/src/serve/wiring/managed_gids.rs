//! The groups of NFS users by the server's side (`manage_gids`), for users of more than the 16 groups that
//! AUTH_SYS has room for.

use std::sync::Arc;

use ::identity::host::HostSource;
use ::identity::mapping::IdMapping;
use ::identity::{
    AccountKey, Clock, Domains, HostClock, IdentityError, LocalUser, LocalUsers, Resolver, Settings,
};
use nfs::NoGroups;

use super::domain_users::DomainIds;
use crate::host;

/// The groups that the resolvers know of a user: of the domain, of the server's own users, or of the host.
struct ResolvedGids {
    domain: Option<DomainIds>,
    host: Arc<Resolver>,
}

impl nfs::ManagedGids for ResolvedGids {
    fn groups(&self, uid: u32) -> Result<Option<Vec<u32>>, NoGroups> {
        let of_domain = self.domain.as_ref().and_then(|domain| domain.user(uid));
        match of_domain.unwrap_or_else(|| self.host.user(&AccountKey::Id(uid))) {
            // The primary group of the credentials may be another one, as after newgrp(1).
            Ok(Some(user)) => Ok(Some(std::iter::once(user.gid).chain(user.gids()).collect())),
            Ok(None) => Ok(None),
            Err(IdentityError::Unavailable(why)) => Err(NoGroups::Unavailable(why.to_string())),
            Err(why) => Err(NoGroups::Refused(why.to_string())),
        }
    }
}

/// The source of the groups of NFS users, or none if no share needs it.
///
/// # Errors
/// One line for the user.
pub fn of(
    users: &[smb::UserConfig],
    domain: Option<&DomainIds>,
    is_needed: bool,
) -> Result<Option<Arc<dyn nfs::ManagedGids>>, String> {
    if !is_needed {
        return Ok(None);
    }
    Ok(Some(Arc::new(ResolvedGids { domain: domain.cloned(), host: of_host(users)? })))
}

/// A resolver of the server's own users and of the host's.
fn of_host(users: &[smb::UserConfig]) -> Result<Arc<Resolver>, String> {
    let accounts = host::accounts().map_err(|why| format!("`manage_gids` needs threads: {why}"))?;
    let clock: Arc<dyn Clock> = Arc::new(HostClock::default());
    let settings = Settings::new(Domains::default(), IdMapping::Host);
    let source = HostSource { accounts, domains: Arc::clone(&settings.domains) };
    let resolver = Resolver::new(settings, None, Some(Arc::new(source)), clock);
    let local = users.iter().filter(|user| user.key_of.is_none() && user.restriction.is_none()).map(|user| {
        LocalUser {
            name: user.identity.name.clone(),
            sid: user.identity.sid,
            uid: user.identity.uid,
            gid: user.identity.gid,
            groups: user.identity.host_groups.clone(),
        }
    });
    resolver.set_local_users(LocalUsers::new(&local.collect::<Vec<_>>()));
    Ok(Arc::new(resolver))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nfs::ManagedGids;
    use volume::security::Sid;

    #[test]
    fn a_user_of_the_server_has_its_groups_and_a_stranger_none() {
        let identity = share::Identity {
            name: "ann".to_owned(),
            sid: Sid::new(5, &[21, 1, 2, 3, 1000]),
            uid: 4_000_000_001,
            gid: 100,
            host_groups: (200..240).collect(),
            ..smb::nobody()
        };
        let ann = smb::UserConfig {
            identity: Arc::new(identity),
            nt_hash: [0; 16],
            second_hash: None,
            key_of: None,
            restriction: None,
        };
        let gids = ResolvedGids { domain: None, host: of_host(&[ann]).unwrap() };
        let found = gids.groups(4_000_000_001).unwrap().unwrap();
        assert_eq!((found.len(), found[0], found[40]), (41, 100, 239));
        assert_eq!(gids.groups(4_000_000_002), Ok(None));
        assert!(gids.groups(0).unwrap().unwrap().contains(&0), "the host knows root");
    }
}
