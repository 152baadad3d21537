//! All that a server of files needs to know, complete and checked.

use crate::config::{Config, endpoints};
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
    pub fn fixed_changes(&self, before: &Plan) -> Vec<String> {
        let (new, old) = (&self.config, &before.config);
        let inside = |prefix: &str, keys: Vec<&'static str>| {
            keys.into_iter().map(|key| format!("{prefix}{key}")).collect::<Vec<_>>()
        };
        let mut changed = inside("", new.server.needs_start(&old.server));
        changed.extend(inside("testing.", new.server.testing.needs_start(&old.server.testing)));
        changed.extend(inside("[admin] ", new.admin.needs_start(&old.admin)));
        if endpoints::all(new) != endpoints::all(old) {
            changed.push("NFS endpoints".to_owned());
        }
        changed
    }
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
