//! The checked input of a file server: the configuration, the principals and the identity.

use std::collections::BTreeMap;

use crate::config::{Account, Config, Share, User, endpoints};
use crate::principals::LogonPrincipal;
use crate::state::StateDir;
use crate::state::store::Identity;

/// The complete input of a file server.
#[derive(Debug, Clone)]
pub struct ServePlan {
    /// Settings and shares.
    pub config: Config,
    /// The principals who may log on.
    pub principals: Vec<LogonPrincipal>,
    /// The identity of this server.
    pub identity: Identity,
}

impl ServePlan {
    /// Combines the parts.
    pub fn new(config: Config, principals: Vec<LogonPrincipal>, state: &StateDir) -> ServePlan {
        ServePlan { config, principals, identity: state.store().identity() }
    }

    /// The names of the shares, in their original spelling.
    pub fn share_names(&self) -> Vec<String> {
        self.config.shares.values().map(|share| share.name.value.clone()).collect()
    }

    /// The settings that differ from `before` and that a running server cannot change.
    pub fn fixed_changes(&self, before: &ServePlan) -> Vec<String> {
        let (new, old) = (&self.config, &before.config);
        let mut changed = inside("", new.server.needs_start(&old.server));
        changed.extend(inside("testing.", new.server.testing.needs_start(&old.server.testing)));
        changed.extend(inside("[admin] ", new.admin.needs_start(&old.admin)));
        changed.extend(inside("[audit] ", new.audit.needs_start(&old.audit)));
        changed.extend(inside("[domain] ", new.domain.needs_start(&old.domain)));
        changed.extend(inside("[node] ", new.node.needs_start(&old.node)));
        changed.extend(each("user", [&new.users, &old.users], User::needs_start));
        changed.extend(each("account", [&new.accounts, &old.accounts], Account::needs_start));
        changed.extend(each("share", [&new.shares, &old.shares], Share::needs_start));
        if endpoints::all(new) != endpoints::all(old) {
            changed.push("NFS endpoints".to_owned());
        }
        changed
    }
}

/// The keys that `needs_start` returns for each table that existed before. `[new, old]` are tables of one
/// kind.
fn each<T>(
    kind: &str,
    [new, old]: [&BTreeMap<String, T>; 2],
    needs_start: fn(&T, &T) -> Vec<&'static str>,
) -> Vec<String> {
    let both = new.iter().filter_map(|(name, table)| Some((name, needs_start(table, old.get(name)?))));
    both.flat_map(|(name, keys)| inside(&format!("[{kind}.{name}] "), keys)).collect()
}

fn inside(prefix: &str, keys: Vec<&'static str>) -> Vec<String> {
    keys.into_iter().map(|key| format!("{prefix}{key}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read;
    use std::path::Path;

    #[test]
    fn what_needs_a_restart_is_named() {
        let plan = |text: &str| ServePlan {
            config: read::parse("t", text, Path::new("/")).unwrap(),
            principals: Vec::new(),
            identity: Identity { guid: [0; 16], machine_sid: [0; 3] },
        };
        let before = plan("[server]\nsmb_port = 4450\nname = \"a\"\n");
        let after = plan("[server]\nsmb_port = 4451\nname = \"a\"\nworkers = 3\n[share.x]\npath = \"/x\"\n");
        assert_eq!(after.fixed_changes(&before), ["smb_port", "workers"]);
        assert!(before.fixed_changes(&before).is_empty());
        let tables = "[account.a]\nnfs_max_connections = 3\nnfs_port = 3000\n[share.x]\npath = \"/x\"\n";
        let before = plan(tables);
        let after = tables.replace("3000", "3001") + "continuously_available = true\ncomment = \"c\"\n";
        let wanted = ["[account.a] nfs_port", "[share.x] continuously_available"];
        assert_eq!(plan(&after).fixed_changes(&before), wanted);
    }
}
