//! All that a server of files needs to know, complete and checked.

use crate::config::{Config, Server, endpoints};
use crate::people::Person;
use crate::state::StateDir;
use crate::state::store::Identity;

/// All that a server of files needs to know.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Settings and shares.
    pub config: Config,
    /// Who may log on.
    pub people: Vec<Person>,
    /// What makes this server itself.
    pub identity: Identity,
}

impl Plan {
    /// Joins what was read.
    pub fn new(config: Config, people: Vec<Person>, state: &StateDir) -> Plan {
        Plan { config, people, identity: state.store().identity() }
    }

    /// The names of the shares as they are written.
    pub fn share_names(&self) -> Vec<String> {
        self.config.shares.values().map(|share| share.name.value.clone()).collect()
    }

    /// Settings that differ from `before` and that a running server cannot change.
    pub fn fixed_changes(&self, before: &Plan) -> Vec<&'static str> {
        let (new, old) = (&self.config.server, &before.config.server);
        let pairs = [
            ("listen", new.listen.value != old.listen.value),
            ("smb_port", new.smb_port.value != old.smb_port.value),
            ("nfs_port", new.nfs_port.value != old.nfs_port.value),
            ("nfs_lease_time_s", new.nfs_lease_time_s.value != old.nfs_lease_time_s.value),
            ("nfs_slots", new.nfs_slots.value != old.nfs_slots.value),
            ("nfs_max_connections", new.nfs_max_connections.value != old.nfs_max_connections.value),
            ("NFS endpoints", endpoints::all(&self.config) != endpoints::all(&before.config)),
            ("state_dir", new.state_dir.value != old.state_dir.value),
            ("name", new.name.value != old.name.value),
            ("netbios_name", new.netbios_name.value != old.netbios_name.value),
            ("workgroup", new.workgroup.value != old.workgroup.value),
            ("max_connections", new.max_connections.value != old.max_connections.value),
            ("workers", new.workers.value != old.workers.value),
            ("log_format", new.log_format.value != old.log_format.value),
            ("log_level", new.log_level.value != old.log_level.value),
            ("discovery", new.discovery.value != old.discovery.value),
            ("[admin] metrics", self.config.admin.metrics.value != before.config.admin.metrics.value),
            ("[admin] listen", self.config.admin.listen.value != before.config.admin.listen.value),
            (
                "[admin] tls_certificate",
                self.config.admin.tls_certificate.value != before.config.admin.tls_certificate.value,
            ),
            ("[admin] tls_key", self.config.admin.tls_key.value != before.config.admin.tls_key.value),
            ("[admin] records", self.config.admin.records != before.config.admin.records),
            ("anonymous", new.anonymous.value != old.anonymous.value),
            ("signing", new.signing.value != old.signing.value),
            ("spn", new.spn.value != old.spn.value),
            ("spn_names", spn_names(new) != spn_names(old)),
            ("guess_delay_s", new.guess_delay_s.value != old.guess_delay_s.value),
            ("encryption", new.encryption.value != old.encryption.value),
            ("min_dialect", new.min_dialect.value != old.min_dialect.value),
            ("testing.break_timeout_ms", new.break_timeout_ms.value != old.break_timeout_ms.value),
            ("testing.smbtorture_controls", new.smbtorture_controls.value != old.smbtorture_controls.value),
            ("testing.max_credits", new.max_credits.value != old.max_credits.value),
        ];
        pairs.into_iter().filter(|(_, changed)| *changed).map(|(name, _)| name).collect()
    }
}

fn spn_names(server: &Server) -> Option<&[String]> {
    server.spn_names.as_ref().map(|names| &names.value[..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read;
    use std::path::Path;

    #[test]
    fn what_needs_a_restart_is_named() {
        let plan = |text: &str| Plan {
            config: read::parse("t", text, Path::new("/")).unwrap(),
            people: Vec::new(),
            identity: Identity { guid: [0; 16], machine_sid: [0; 3] },
        };
        let before = plan("[server]\nsmb_port = 4450\nname = \"a\"\n");
        let after = plan("[server]\nsmb_port = 4451\nname = \"a\"\nworkers = 3\n[share.x]\npath = \"/x\"\n");
        assert_eq!(after.fixed_changes(&before), ["smb_port", "workers"]);
        assert!(before.fixed_changes(&before).is_empty());
    }
}
