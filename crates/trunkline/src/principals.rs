//! The principals who may log on: the users of the configuration and of the state directory, and accounts
//! with keys, as one list.
//!
//! Start with [`resolve`]. [`change`] and [`remove`] carry out the `user` commands on the state that the
//! running server or the command itself has open.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::path::{Path, PathBuf};

use admin::objects::{Refusal, RefusalKind};
use admin::{IdChange, NtHash, UserChange, UserEntry};
use auth::NtHash as Hash;

use crate::account_keys;
use crate::config::check::read_password;
use crate::config::{Config, User, values};
use crate::host::{Ids, UserDatabase};
use crate::host_ids::{self, ShareOwner};
use crate::state::StateDir;
use crate::state::store::{Store, StoreError, StoredUser};

/// A user who may log on, with all settings resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogonPrincipal {
    /// The name, in the spelling of its definition.
    pub name: String,
    /// The password's NT hash.
    pub nt_hash: NtHash,
    /// Security identifier.
    pub sid: String,
    /// The ids on the host. A user without any may not log on.
    pub ids: Option<Ids>,
    /// Whether the user is one of the server's administrators.
    pub admin: bool,
    /// The origin of the password.
    pub password_from: PasswordFrom,
    /// The hash of a second valid password: an account's second key.
    pub second_hash: Option<NtHash>,
    /// The account to which the keys belong. Such a principal is not a user.
    pub key_of: Option<String>,
}

/// The origin of a user's password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PasswordFrom {
    /// The state directory.
    State,
    /// The first line of a file.
    File(PathBuf),
    /// An environment variable.
    Environment(String),
}

impl PasswordFrom {
    /// The origin of the password of a configured user.
    pub fn of(config: &Config, user: &User) -> PasswordFrom {
        match (config.passwords.get(&user.name.value.to_lowercase()), &user.password_file) {
            (Some(password), _) => PasswordFrom::Environment(password.variable.clone()),
            (None, Some(file)) => PasswordFrom::File(file.value.clone()),
            (None, None) => PasswordFrom::State,
        }
    }
}

impl fmt::Display for PasswordFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PasswordFrom::State => f.write_str("state"),
            PasswordFrom::File(file) => file.display().fmt(f),
            PasswordFrom::Environment(variable) => write!(f, "${variable}"),
        }
    }
}

impl LogonPrincipal {
    /// The reason why the user may not log on, if there is one.
    pub fn restriction(&self) -> Option<String> {
        self.ids.is_none().then(|| host_ids::missing(&self.name, &self.password_from))
    }

    /// The entry for a list of users.
    pub fn entry(&self) -> UserEntry {
        UserEntry {
            name: self.name.clone(),
            sid: self.sid.clone(),
            uid: self.ids.as_ref().map(|ids| ids.uid),
            gid: self.ids.as_ref().map(|ids| ids.gid),
            admin: self.admin,
            restriction: self.restriction(),
            source: self.password_from.to_string(),
        }
    }
}

/// The NT hash of `password`.
pub fn nt_hash(password: &str) -> NtHash {
    NtHash(*Hash::from_password(password).as_bytes())
}

/// All users who may log on, and all accounts that may log on by their keys, sorted by name. The settings of
/// a user in `config` override the stored ones.
///
/// # Errors
/// One line that names the user.
pub fn resolve(config: &Config, state: &StateDir) -> anyhow::Result<Vec<LogonPrincipal>> {
    resolve_with(config, state, &mut |name| state.store().rid(name))
}

/// Like [`resolve`], for a command that only looks. Users without a SID have the one that a server would give
/// them now, and nothing is stored.
///
/// # Errors
/// One line that names the user.
pub fn preview(config: &Config, state: &StateDir) -> anyhow::Result<Vec<LogonPrincipal>> {
    let mut rids = state.store().rid_preview()?;
    resolve_with(config, state, &mut |name| Ok(rids(name)))
}

/// The RID of each user.
pub type UserRids<'r> = dyn FnMut(&str) -> Result<u32, StoreError> + 'r;

fn resolve_with(
    config: &Config,
    state: &StateDir,
    rids: &mut UserRids<'_>,
) -> anyhow::Result<Vec<LogonPrincipal>> {
    let store = state.store();
    let stored: BTreeMap<String, StoredUser> =
        store.users()?.into_iter().map(|user| (user.name.to_lowercase(), user)).collect();
    let host = UserDatabase::of_host()?;
    let mut principals = BTreeMap::new();
    for (key, user) in &config.users {
        let known = stored.get(key);
        let (hash, password_from) = password(config, user, known)?;
        let owner = ShareOwner::of_environment(config, user);
        let merged = configured(user, known, hash);
        let mut principal = principal(&merged, sid_of(&merged, store, rids)?, &host, owner.as_ref())?;
        set_configured(&mut principal, user);
        principal.password_from = password_from;
        principals.insert(key.clone(), principal);
    }
    for (key, user) in stored {
        if let Entry::Vacant(entry) = principals.entry(key) {
            let sid = sid_of(&user, store, rids)?;
            entry.insert(principal(&user, sid, &host, None)?);
        }
    }
    account_keys::add_to(&mut principals, config, store, rids)?;
    Ok(principals.into_values().collect())
}

/// The password of a configured user: of the environment, of a file, or of the state directory.
fn password(
    config: &Config,
    user: &User,
    stored: Option<&StoredUser>,
) -> anyhow::Result<(NtHash, PasswordFrom)> {
    let name = &user.name.value;
    let from = PasswordFrom::of(config, user);
    if let Some(password) = config.passwords.get(&name.to_lowercase()) {
        warn_of_weakness(name, &password.text, &from);
        return Ok((nt_hash(&password.text), from));
    }
    match (&user.password_file, stored) {
        (Some(file), _) => {
            let password = read_password(&file.value)
                .map_err(|why| anyhow::anyhow!("`password_file` of user `{name}`: {why}"))?;
            warn_of_weakness(name, &password, &from);
            warn_of_exposure(name, &file.value);
            Ok((nt_hash(&password), from))
        }
        (None, Some(stored)) => Ok((stored.nt_hash.clone(), from)),
        (None, None) => anyhow::bail!("user `{name}` has no password; run `trunkline user add {name}`"),
    }
}

/// Logs a warning about a weak password.
fn warn_of_weakness(user: &str, password: &str, from: &PasswordFrom) {
    if let Some(why) = crate::password::weakness(user, password) {
        tracing::warn!(user, %from, why, "a password is easy to guess");
    }
}

/// Logs a warning about a password file that others can read.
fn warn_of_exposure(user: &str, file: &Path) {
    // Container engines mount secrets here with a mode of their own, for the processes of one container.
    if file.starts_with("/run/secrets") {
        return;
    }
    if let Some(why) = client::written::exposure(file) {
        tracing::warn!(user, file = %file.display(), why, "a password file can be read by others");
    }
}

/// A user of the configuration with what is stored about them.
pub fn configured(user: &User, known: Option<&StoredUser>, nt_hash: NtHash) -> StoredUser {
    StoredUser {
        name: user.name.value.clone(),
        nt_hash,
        uid: user.uid.as_ref().map(|own| own.value).or(known.and_then(|known| known.uid)),
        gid: user.gid.as_ref().map(|own| own.value).or(known.and_then(|known| known.gid)),
        admin: user.admin.value || known.is_some_and(|known| known.admin),
    }
}

/// Applies the settings of the configuration that are not stored.
pub fn set_configured(principal: &mut LogonPrincipal, user: &User) {
    if let Some(sid) = &user.sid {
        principal.sid.clone_from(&sid.value);
    }
    if let (Some(ids), Some(groups)) = (&mut principal.ids, &user.groups) {
        ids.groups.clone_from(&groups.value);
    }
}

fn sid_of(user: &StoredUser, store: &Store, rids: &mut UserRids<'_>) -> Result<String, StoreError> {
    Ok(store.identity().user_sid(rids(&user.name)?))
}

/// A user with the ids on the host: its own ones, or those of `owner`.
///
/// # Errors
/// One line that names the user, if the host's database does not answer.
pub fn principal(
    user: &StoredUser,
    sid: String,
    host: &UserDatabase,
    owner: Option<&ShareOwner>,
) -> anyhow::Result<LogonPrincipal> {
    let silent = |why| anyhow::anyhow!("user `{}`: {why}; or give the user a `uid`", user.name);
    let ids = match (host.ids(&user.name, user.uid, user.gid).map_err(silent)?, owner) {
        (None, Some(owner)) => {
            owner.log(&user.name);
            owner.ids(host, &user.name, user.gid).map_err(silent)?
        }
        (ids, _) => ids,
    };
    Ok(LogonPrincipal {
        sid,
        name: user.name.clone(),
        nt_hash: user.nt_hash.clone(),
        ids,
        admin: user.admin,
        password_from: PasswordFrom::State,
        second_hash: None,
        key_of: None,
    })
}

/// Adds or changes a stored user.
///
/// # Errors
/// The reason. Nothing is changed then.
pub fn change(store: &Store, change: UserChange) -> Result<(), Refusal> {
    values::user_name(&change.name).map_err(|why| Refusal::new(RefusalKind::Bad, why))?;
    for id in [change.uid, change.gid] {
        // The host takes this number for none (setfsuid(2)).
        if id == IdChange::To(u32::MAX) {
            let why = format!("an id is a number from 0 to {}", u32::MAX - 1);
            return Err(Refusal::new(RefusalKind::Bad, why));
        }
    }
    let name = &change.name;
    let known = store.user(name).map_err(|e| failed(&e))?;
    let user = match (known, change.add) {
        (Some(_), true) => {
            let why = format!("there is already a user `{name}`; use `trunkline user passwd {name}`");
            return Err(Refusal::new(RefusalKind::Conflict, why));
        }
        (None, false) => {
            let why =
                format!("there is no user `{name}` in the state directory; use `trunkline user add {name}`");
            return Err(Refusal::new(RefusalKind::NotFound, why));
        }
        (None, true) => StoredUser {
            nt_hash: change
                .nt_hash
                .ok_or_else(|| Refusal::new(RefusalKind::Bad, format!("user `{name}` needs a password")))?,
            uid: change.uid.applied(None),
            gid: change.gid.applied(None),
            admin: change.admin.unwrap_or(false),
            name: change.name,
        },
        (Some(known), false) => StoredUser {
            nt_hash: change.nt_hash.unwrap_or(known.nt_hash),
            uid: change.uid.applied(known.uid),
            gid: change.gid.applied(known.gid),
            admin: change.admin.unwrap_or(known.admin),
            name: known.name,
        },
    };
    store.put_user(&user).map_err(|e| failed(&e))
}

/// Removes a stored user.
///
/// # Errors
/// The reason.
pub fn remove(store: &Store, name: &str) -> Result<(), Refusal> {
    match store.remove_user(name) {
        Ok(true) => Ok(()),
        Ok(false) => {
            let why = format!("there is no user `{name}` in the state directory; see `trunkline user list`");
            Err(Refusal::new(RefusalKind::NotFound, why))
        }
        Err(error) => Err(failed(&error)),
    }
}

/// The refusal for an error of the store.
fn failed(error: &StoreError) -> Refusal {
    Refusal::new(RefusalKind::Failed, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read;
    use std::path::Path;

    fn added(name: &str) -> UserChange {
        UserChange {
            name: name.to_owned(),
            add: true,
            nt_hash: Some(nt_hash("pw")),
            uid: IdChange::To(4),
            gid: IdChange::Keep,
            admin: None,
        }
    }

    #[test]
    fn users_are_added_once_changed_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(&dir.path().join("s")).unwrap();
        let store = state.store();
        change(store, added("Ann")).unwrap();
        assert!(change(store, added("ann")).unwrap_err().text.contains("already a user `ann`"));
        let only_hash =
            UserChange { add: false, uid: IdChange::Keep, nt_hash: Some(nt_hash("new")), ..added("ANN") };
        change(store, only_hash.clone()).unwrap();
        let ann = store.user("ann").unwrap().unwrap();
        assert_eq!((ann.name.as_str(), ann.uid, ann.nt_hash), ("Ann", Some(4), nt_hash("new")));
        let by_name = UserChange { uid: IdChange::ByName, nt_hash: None, ..only_hash.clone() };
        change(store, by_name).unwrap();
        let ann = store.user("ann").unwrap().unwrap();
        assert_eq!((ann.uid, ann.nt_hash), (None, nt_hash("new")));
        assert!(
            change(store, UserChange { name: "bob".to_owned(), ..only_hash })
                .unwrap_err()
                .text
                .contains("no user `bob`")
        );
        assert!(
            change(store, UserChange { nt_hash: None, ..added("bob") })
                .unwrap_err()
                .text
                .contains("needs a password")
        );
        let none = UserChange { uid: IdChange::To(u32::MAX), ..added("bob") };
        assert_eq!(change(store, none).unwrap_err().text, "an id is a number from 0 to 4294967294");
        remove(store, "ann").unwrap();
        assert!(remove(store, "ann").unwrap_err().text.contains("no user `ann`"));
    }

    #[test]
    fn the_configuration_goes_before_what_is_stored() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("pw"), "secret\n").unwrap();
        let state = StateDir::open(&dir.path().join("s")).unwrap();
        change(state.store(), added("ann")).unwrap();
        change(state.store(), added("bob")).unwrap();
        let text =
            "[[user]]\nname = \"Ann\"\npassword_file = \"pw\"\nsid = \"S-1-5-21-1-2-3-4\"\ngroups = [7]\n";
        let config = read::parse("t", text, dir.path()).unwrap();
        let principals = resolve(&config, &state).unwrap();
        assert_eq!(principals.iter().map(|p| p.name.as_str()).collect::<Vec<_>>(), ["Ann", "bob"]);
        assert_eq!(principals[0].nt_hash, nt_hash("secret"));
        let ids = principals[0].ids.clone().unwrap();
        assert_eq!((ids.uid, ids.groups, principals[0].sid.as_str()), (4, vec![7], "S-1-5-21-1-2-3-4"));
        assert_eq!(principals[1].nt_hash, nt_hash("pw"));
        assert_eq!(principals[0].password_from, PasswordFrom::File(dir.path().join("pw")));
        let nobody = read::parse("t", "[[user]]\nname = \"eve\"\n", Path::new("")).unwrap();
        assert!(resolve(&nobody, &state).unwrap_err().to_string().contains("user `eve` has no password"));
    }

    #[test]
    fn a_preview_has_the_users_of_the_server_and_stores_no_sid() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("pw"), "secret\n").unwrap();
        let state = StateDir::open(&dir.path().join("s")).unwrap();
        change(state.store(), added("carl")).unwrap();
        let text = "[[user]]\nname = \"Ann\"\npassword_file = \"pw\"\n";
        let config = read::parse("t", text, dir.path()).unwrap();
        let previewed = preview(&config, &state).unwrap();
        // Bob takes the number that Ann would have got, so none was stored for her.
        let bob = state.store().identity().user_sid(state.store().rid("bob").unwrap());
        assert_eq!(previewed[0].sid, bob);
        assert_eq!(preview(&config, &state).unwrap(), resolve(&config, &state).unwrap());
    }

    #[test]
    fn the_hash_is_the_one_of_the_specification() {
        // MS-NLMP 4.2.2.1.2
        let wanted =
            [0xa4, 0xf4, 0x9c, 0x40, 0x65, 0x10, 0xbd, 0xca, 0xb6, 0x82, 0x4e, 0xe7, 0xc3, 0x0f, 0xd8, 0x52];
        assert_eq!(nt_hash("Password").0, wanted);
    }
}
