//! Keys of accounts. An account's name logs on with either of two keys. All shares of the account are open to
//! it then, and nothing else.
//!
//! There are two keys so that one can be renewed while all clients work with the other. A key is the base64
//! text of random bytes, and this text is used as a password. Keys are created only on request: the name of
//! an account without keys does not log on. Keys are deleted with their account ([`prune`]), so a later
//! account of the same name starts without any.

use std::collections::BTreeMap;

use admin::{AccountKey, AccountKeys, KeyName};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::config::{Account, Config, nearest, values};
use crate::host::{self, Ids};
use crate::principals::{LogonPrincipal, UserRids, nt_hash};
use crate::state::store::{Store, StoreError, random};

/// Bytes of a key.
const BYTES: usize = 64;

/// The keys of an account.
///
/// # Errors
/// The reason, in one line.
pub fn list(config: &Config, store: &Store, account: &str) -> Result<AccountKeys, String> {
    find(config, account)?;
    store.account_keys(account).map_err(|e| e.to_string())
}

/// Replaces the key `which`, or the first missing one, by a new key or by the given one. Returns the name of
/// the key that was replaced, and both keys.
///
/// # Errors
/// The reason, in one line. Nothing is changed then.
pub fn renew(
    config: &Config,
    store: &Store,
    account: &str,
    which: Option<KeyName>,
    given: Option<AccountKey>,
) -> Result<(KeyName, AccountKeys), String> {
    let failed = |e: StoreError| e.to_string();
    let name = &find(config, account)?.name.value;
    values::user_name(name).map_err(|why| format!("account `{name}` cannot log on by its name: {why}"))?;
    if config.users.contains_key(&name.to_lowercase()) || store.user(name).map_err(failed)?.is_some() {
        return Err(format!("there is a user `{name}`, who logs on by that name; remove the user first"));
    }
    let mut keys = store.account_keys(name).map_err(failed)?;
    let missing = [KeyName::Key1, KeyName::Key2].into_iter().find(|name| keys.get(*name).is_none());
    let which = which
        .or(missing)
        .ok_or_else(|| format!("account `{name}` has both keys; say which is to be renewed: key1 or key2"))?;
    let key = match given {
        Some(given) => {
            check(&given.0)?;
            given
        }
        None => make().map_err(failed)?,
    };
    keys.set(which, key);
    store.put_account_keys(name, &keys).map_err(failed)?;
    Ok((which, keys))
}

/// Deletes the keys of accounts that are in `before` but not in `now`. A running server calls it when it goes
/// from one configuration to the other. So a start with another configuration, a start with a mistake in it,
/// and a reload that corrects the mistake delete no keys.
///
/// # Errors
/// [`StoreError`]
pub fn prune(before: &Config, now: &Config, store: &Store) -> Result<(), StoreError> {
    for account in before.accounts.keys().filter(|account| !now.accounts.contains_key(*account)) {
        store.remove_account_keys(account)?;
        tracing::info!(account, "the account was removed, and its keys, if any, were deleted");
    }
    Ok(())
}

/// Adds the accounts of `config` that have keys to the principals who may log on.
///
/// # Errors
/// [`StoreError`]
pub fn add_to(
    principals: &mut BTreeMap<String, LogonPrincipal>,
    config: &Config,
    store: &Store,
    rids: &mut UserRids<'_>,
) -> Result<(), StoreError> {
    for (key, account) in &config.accounts {
        let name = &account.name.value;
        let AccountKeys { key1, key2 } = store.account_keys(name)?;
        let mut hashes = [key1, key2].into_iter().flatten().map(|key| nt_hash(&key.0));
        let Some(first) = hashes.next() else { continue };
        if principals.contains_key(key) {
            tracing::warn!(account = %name, "its keys are not valid: a user has the same name");
            continue;
        }
        let (uid, gid) = host::own();
        let principal = LogonPrincipal {
            name: name.clone(),
            nt_hash: first,
            second_hash: hashes.next(),
            // No user can have such a name, so a user that is added later gets another SID.
            sid: store.identity().user_sid(rids(&format!("key:{name}"))?),
            ids: Some(Ids { uid, gid, groups: Vec::new() }),
            admin: true,
            password_from: crate::principals::PasswordFrom::State,
            key_of: Some(name.clone()),
        };
        principals.insert(key.clone(), principal);
    }
    Ok(())
}

fn find<'c>(config: &'c Config, name: &str) -> Result<&'c Account, String> {
    config.accounts.get(&name.to_lowercase()).ok_or_else(|| {
        let names: Vec<&str> = config.accounts.values().map(|account| account.name.value.as_str()).collect();
        format!("there is no account `{name}`{}", nearest::hint(name, &names))
    })
}

fn make() -> Result<AccountKey, StoreError> {
    Ok(AccountKey(STANDARD.encode(random::<BYTES>()?)))
}

/// Checks that a text is a valid key.
fn check(text: &str) -> Result<(), String> {
    let wanted = format!("a key is {BYTES} bytes in base64, which is 88 characters");
    match STANDARD.decode(text) {
        Ok(bytes) if bytes.len() == BYTES => Ok(()),
        Ok(bytes) => Err(format!("{wanted}; this has {} bytes", bytes.len())),
        Err(_) => Err(format!("{wanted}; this is not base64")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read;
    use crate::principals;
    use crate::state::StateDir;
    use std::path::Path;

    const TEXT: &str = "[account.Lab]\n[account.'a/b']\n[[user]]\nname = \"team\"\n[account.team]\n";

    fn world() -> (tempfile::TempDir, StateDir, Config) {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(&dir.path().join("s")).unwrap();
        (dir, state, read::parse("t", TEXT, Path::new("/")).unwrap())
    }

    #[test]
    fn keys_are_made_one_after_the_other_and_renewed_by_name() {
        let (_dir, state, config) = world();
        let store = state.store();
        assert_eq!(list(&config, store, "LAB"), Ok(AccountKeys::default()));
        let made = |which| renew(&config, store, "lab", which, None);
        let (name, first) = made(None).unwrap();
        assert_eq!((name, first.key2), (KeyName::Key1, None));
        let (name, both) = made(None).unwrap();
        assert_eq!((name, &both.key1), (KeyName::Key2, &first.key1));
        assert!(made(None).unwrap_err().contains("say which is to be renewed"));
        let (_, again) = made(Some(KeyName::Key1)).unwrap();
        assert!(again.key1 != both.key1 && again.key2 == both.key2);
        assert_eq!(list(&config, store, "Lab").unwrap(), again);
        let text = &again.key1.as_ref().unwrap().0;
        assert_eq!((text.len(), check(text)), (88, Ok(())));
    }

    #[test]
    fn what_is_no_key_or_whose_name_cannot_log_on_is_refused_with_the_reason() {
        let (_dir, state, config) = world();
        let given = |text: String| {
            renew(&config, state.store(), "lab", None, Some(AccountKey(text))).map(|(name, _)| name)
        };
        let wanted = "a key is 64 bytes in base64, which is 88 characters";
        assert_eq!(given(STANDARD.encode([7; 63])), Err(format!("{wanted}; this has 63 bytes")));
        assert_eq!(given(STANDARD.encode([7; 65])), Err(format!("{wanted}; this has 65 bytes")));
        assert_eq!(given("s3cret!".to_owned()), Err(format!("{wanted}; this is not base64")));
        assert_eq!(list(&config, state.store(), "lab"), Ok(AccountKeys::default()), "nothing is half-done");
        assert_eq!(given(STANDARD.encode([7; 64])), Ok(KeyName::Key1));
        let of = |account: &str| renew(&config, state.store(), account, None, None).unwrap_err();
        assert_eq!(of("lap"), "there is no account `lap`; did you mean `Lab`?");
        assert!(of("a/b").contains("cannot log on by its name"));
        assert!(of("team").contains("there is a user `team`"));
    }

    #[test]
    fn an_account_with_keys_may_log_on_with_both_unless_a_user_has_its_name() {
        let (_dir, state, config) = world();
        let store = state.store();
        let config = Config { users: BTreeMap::new(), ..config };
        assert!(principals::resolve(&config, &state).unwrap().is_empty());
        let key = |byte: u8| AccountKey(STANDARD.encode([byte; 64]));
        renew(&config, store, "lab", Some(KeyName::Key2), Some(key(2))).unwrap();
        let found = principals::resolve(&config, &state).unwrap();
        let hash = |byte| nt_hash(&key(byte).0);
        assert_eq!((&found[0].nt_hash, &found[0].second_hash), (&hash(2), &None));
        renew(&config, store, "lab", Some(KeyName::Key1), Some(key(1))).unwrap();
        let found = principals::resolve(&config, &state).unwrap();
        assert_eq!((found[0].name.as_str(), found[0].key_of.as_deref()), ("Lab", Some("Lab")));
        assert_eq!((&found[0].nt_hash, &found[0].second_hash), (&hash(1), &Some(hash(2))));
        // A user of that name is another principal.
        let ann = admin::UserChange {
            name: "lab".to_owned(),
            add: true,
            nt_hash: Some(nt_hash("pw")),
            uid: admin::IdChange::Keep,
            gid: admin::IdChange::Keep,
            admin: None,
        };
        principals::change(store, ann).unwrap();
        let user = principals::resolve(&config, &state).unwrap();
        assert_eq!((user.len(), &user[0].key_of), (1, &None));
        assert_ne!(user[0].sid, found[0].sid);
        store.remove_user("lab").unwrap();
        store.remove_account_keys("LAB").unwrap();
        assert!(principals::resolve(&config, &state).unwrap().is_empty());
    }

    #[test]
    fn keys_of_accounts_that_are_gone_are_deleted_and_no_others() {
        let (_dir, state, config) = world();
        let store = state.store();
        renew(&config, store, "lab", None, None).unwrap();
        let kept = list(&config, store, "lab").unwrap();
        store.put_account_keys("Old", &kept).unwrap();
        let mut without = config.clone();
        without.accounts.clear();
        // Keys of an account in neither configuration may belong to a third one.
        prune(&config, &config, store).unwrap();
        prune(&without, &config, store).unwrap();
        assert_eq!(list(&config, store, "lab").unwrap(), kept);
        prune(&config, &without, store).unwrap();
        assert_eq!(store.account_keys("lab").unwrap(), AccountKeys::default());
        assert_eq!(store.account_keys("old").unwrap(), kept);
    }
}
