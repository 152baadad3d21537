//! The configuration's values as the crates have them.

use std::sync::Arc;

use share::Identity;
use smb::{Access, Encryption, ServerConfig, Signing, UserConfig};
use smb_wire::Guid;
use smb_wire::negotiate::Dialect;
use volume::Actor;
use volume::security::{Rights, Sid, well_known};

use crate::config::values;
use crate::people::Person;
use crate::serve::plan::Plan;

/// The server as a whole.
pub fn server(plan: &Plan) -> anyhow::Result<ServerConfig> {
    let server = &plan.config.server;
    let [a, b, c] = plan.identity.machine_sid;
    Ok(ServerConfig {
        guid: Guid(plan.identity.guid),
        name: server.netbios_name.value.to_uppercase(),
        dns_name: server.name.value.clone(),
        machine_sid: Sid::new(5, &[21, a, b, c]),
        min_dialect: dialect(server.min_dialect.value),
        max_dialect: Dialect::Smb311,
        signing: signing(server.signing.value),
        encryption: encryption(server.encryption.value),
        max_connections: usize::try_from(server.max_connections.value)?,
        anonymous: true,
    })
}

/// Everybody who may log on.
///
/// # Errors
/// A line that names the user whose SID cannot be read.
pub fn users(plan: &Plan) -> Result<Vec<UserConfig>, String> {
    plan.people.iter().map(user).collect()
}

fn user(person: &Person) -> Result<UserConfig, String> {
    let sid: Sid = person.sid.parse().map_err(|_| format!("`sid` of user `{}` is not a SID", person.name))?;
    let mut groups = vec![well_known::EVERYONE, well_known::AUTHENTICATED_USERS, well_known::NETWORK, well_known::USERS];
    groups.push(Sid::unix_user(person.uid));
    groups.extend(std::iter::once(&person.gid).chain(&person.groups).map(|&gid| Sid::unix_group(gid)));
    if person.admin {
        groups.push(well_known::ADMINISTRATORS);
    }
    // Only root can act as another user, and as root there is nobody to act as.
    let acts = rustix::process::geteuid().is_root() && person.uid != 0;
    let actor = acts.then(|| Actor { uid: person.uid, gid: person.gid, groups: person.groups.clone() });
    let identity = Identity {
        name: person.name.clone(),
        sid,
        groups,
        uid: person.uid,
        gid: person.gid,
        host_groups: person.groups.clone(),
        actor,
        administrator: person.admin,
        limit: Rights::all(),
    };
    Ok(UserConfig { identity: Arc::new(identity), nt_hash: person.nt_hash.0, enabled: true })
}

/// What the configuration calls access.
pub fn access(access: values::Access) -> Access {
    match access {
        values::Access::Read => Access::Read,
        values::Access::Write => Access::Write,
        values::Access::Full => Access::Full,
    }
}

/// What the configuration calls encryption.
pub fn encryption(encryption: values::Encryption) -> Encryption {
    match encryption {
        values::Encryption::Off => Encryption::Off,
        values::Encryption::Enabled => Encryption::Enabled,
        values::Encryption::Required => Encryption::Required,
    }
}

/// What the configuration calls signing.
pub fn signing(signing: values::Signing) -> Signing {
    match signing {
        values::Signing::Auto => Signing::Offered,
        values::Signing::Required => Signing::Required,
    }
}

/// A dialect's number on the wire.
pub fn dialect(dialect: values::Dialect) -> Dialect {
    match dialect {
        values::Dialect::Smb202 => Dialect::Smb202,
        values::Dialect::Smb21 => Dialect::Smb210,
        values::Dialect::Smb30 => Dialect::Smb300,
        values::Dialect::Smb302 => Dialect::Smb302,
        values::Dialect::Smb311 => Dialect::Smb311,
    }
}
