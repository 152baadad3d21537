//! The ids by which a server that runs as root acts for its local users.
//!
//! They are, in this order: those of the settings, those of the host's user of the same name
//! ([`UserDatabase::ids`]), and for some users those of a directory's owner ([`ShareOwner`]). A user without
//! ids may not log on, since nobody acts as root unless somebody says so.

use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use identity::Silent;

use crate::config::{Config, Origin, User};
use crate::host::{Ids, UserDatabase};
use crate::principals::PasswordFrom;

/// The owner of a share's directory. The first user of a server acts as this owner, and so do users of
/// environment variables, unless the settings or the host have ids for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShareOwner {
    /// The directory.
    pub path: PathBuf,
    /// The owner's user id.
    pub uid: u32,
    /// The group id of the directory.
    pub gid: u32,
}

impl ShareOwner {
    /// The owner of the first share, by name, that lets `user` in. Homes belong to their users, so the
    /// directory above them says nothing.
    pub fn of(config: &Config, user: &str) -> Option<ShareOwner> {
        let admits = |users: &dyn Fn(&str) -> bool| users("*") || users(&user.to_lowercase());
        let shares = config.shares.values().filter(|share| !share.has_homes());
        let mut admitting = shares.filter(|share| admits(&|name| share.users.contains_key(name)));
        admitting.find_map(|share| {
            let path = share.path.value.clone();
            let found = std::fs::metadata(&path).ok()?;
            Some(ShareOwner { path, uid: found.uid(), gid: found.gid() })
        })
    }

    /// The owner that `user` of the configuration acts as if nothing else is said. Only a user of environment
    /// variables does: a container has no users of its own, and its engine names the directory's owner.
    pub fn of_environment(config: &Config, user: &User) -> Option<ShareOwner> {
        let is_of_environment = matches!(user.name.origin, Origin::Environment(_));
        is_of_environment.then(|| ShareOwner::of(config, &user.name.value)).flatten()
    }

    /// Logs that `user` acts as this owner.
    pub fn log(&self, user: &str) {
        let what = format!("acts as {self}; `uid` of the user names another");
        if self.uid == 0 { tracing::warn!(user, "{what}") } else { tracing::info!(user, "{what}") }
    }

    /// The owner's ids, with those that the settings give.
    ///
    /// # Errors
    /// [`Silent`] if the host's database does not answer.
    pub fn ids(&self, host: &UserDatabase, name: &str, gid: Option<u32>) -> Result<Option<Ids>, Silent> {
        host.ids(name, Some(self.uid), gid.or(Some(self.gid)))
    }
}

impl fmt::Display for ShareOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let root = if self.uid == 0 { " (root)" } else { "" };
        write!(f, "uid {}{root}, the owner of {}", self.uid, self.path.display())
    }
}

/// The reason why the user `name` may not log on, with what to do, for a user without ids.
pub fn missing(name: &str, password_from: &PasswordFrom) -> String {
    let mend = match password_from {
        PasswordFrom::State => format!("`trunkline user set {name} --uid N --gid N` gives them"),
        PasswordFrom::File(_) => "set `uid` and `gid` in its [[user]] and reload".to_owned(),
        PasswordFrom::Environment(variable) => {
            let before = variable.strip_suffix("_PASSWORD").unwrap_or(variable);
            format!("set {before}_UID and {before}_GID and restart")
        }
    };
    format!(
        "user `{name}` may not log on: the server runs as root, the host has no user `{name}`, and no other \
         uid is set; {mend}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read;
    use std::path::Path;

    #[test]
    fn a_user_acts_as_the_owner_of_the_first_share_that_admits_it() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["homes", "one", "two"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        let text = "[share.a]\npath = \"homes/{user}\"\nusers = { '*' = \"full\" }\n[share.b]\n\
                    path = \"one\"\nusers = { Bob = \"full\" }\n\
                    [share.c]\npath = \"two\"\nusers = { '*' = \"read\" }\n\
                    [share.d]\npath = \"none\"\nusers = { Eve = \"read\" }\n";
        let config = read::parse("t", text, dir.path()).unwrap();
        let (uid, gid) = crate::host::own();
        let owner = |user: &str| ShareOwner::of(&config, user).unwrap();
        assert_eq!(owner("BOB"), ShareOwner { path: dir.path().join("one"), uid, gid });
        assert_eq!(owner("eve").path, dir.path().join("two"));
        let only_homes = read::parse("t", &text[..text.find("[share.b]").unwrap()], dir.path()).unwrap();
        assert_eq!(ShareOwner::of(&only_homes, "bob"), None);
        let root = ShareOwner { path: "/srv/d".into(), uid: 0, gid: 0 };
        assert_eq!(root.to_string(), "uid 0 (root), the owner of /srv/d");
    }

    #[test]
    fn what_mends_a_missing_id_depends_on_where_the_user_is_defined() {
        let said = |from| missing("ann", &from);
        assert!(said(PasswordFrom::State).ends_with("`trunkline user set ann --uid N --gid N` gives them"));
        let file = said(PasswordFrom::File(Path::new("/pw").to_owned()));
        assert!(file.ends_with("set `uid` and `gid` in its [[user]] and reload"));
        let variable = said(PasswordFrom::Environment("TRUNKLINE_USER_1_PASSWORD".to_owned()));
        assert!(variable.ends_with("set TRUNKLINE_USER_1_UID and TRUNKLINE_USER_1_GID and restart"));
    }
}
