//! Tokens with which administrators and programs use the admin API and the metrics.
//!
//! Start with [`Tokens::caller`], which finds the token of a request. A token is 256 random bits, and the
//! state directory has their SHA-256 alone. That suffices: the slow hashes for passwords only make guesses
//! dear, and nobody can guess 256 random bits at any speed. [`make`] and [`revoke`] work on the state that
//! the running server or the command itself has open.
//!
//! The file `admin-token` holds one more token, with every right, so that the first administrator finds one
//! (`file_token` in `[admin]` turns it off).

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use admin::access::{
    Caller, FILE_TOKEN, MAX_TOKENS, NewToken, Role, TokenEntry, TokenRefusal, TokenRequest, TokenText,
};
use admin::listener::is_reached_from_elsewhere;
use admin::objects::{Refusal, RefusalKind};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::calendar::{self, rfc3339};
use crate::config::Config;
use crate::state::store::tokens::{StoredToken, TokenAdded};
use crate::state::store::{Store, StoreError, random};
use crate::state::{ADMIN_TOKEN, StateDir};

/// The beginning of each token, by which people and scanners recognize one.
const PREFIX: &str = "tl_";
/// The shortest token that may stand in the file, in characters.
const SHORTEST: usize = 32;
/// The longest life of a token.
const LONGEST_DAYS: i64 = 3650;
const NS_PER_MINUTE: i64 = 60_000_000_000;

/// The token in the file `admin-token`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileToken {
    hash: [u8; 32],
    /// The time of the file's last change, in nanoseconds since 1970.
    made_ns: i64,
}

impl FileToken {
    /// Reads the file, and makes it if it is missing. None if the configuration does without it, or if nobody
    /// can use a token.
    ///
    /// # Errors
    /// One line that names the file.
    pub fn read(state: &StateDir, config: &Config) -> anyhow::Result<Option<FileToken>> {
        let admin = &config.admin;
        let is_sealed = admin.metrics.as_ref().is_some_and(|at| is_reached_from_elsewhere(at.value));
        if !admin.file_token.value || admin.listen.is_none() && !is_sealed {
            return Ok(None);
        }
        let path = state.path().join(ADMIN_TOKEN);
        let told = |why: &str| anyhow::anyhow!("{}: {why}", path.display());
        let text = state.token(ADMIN_TOKEN).map_err(|e| told(&e.to_string()))?;
        if text.len() < SHORTEST || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(told(&format!(
                "a token has at least {SHORTEST} letters and digits; remove the file, and a new one is \
                 generated"
            )));
        }
        Ok(Some(FileToken { hash: hash_of(&text), made_ns: changed_ns(&path) }))
    }

    fn entry(&self, last_used: Option<i64>) -> TokenEntry {
        TokenEntry {
            name: FILE_TOKEN.to_owned(),
            role: Role::Administer,
            created: rfc3339(self.made_ns),
            last_used: last_used.map(rfc3339),
            expires: None,
        }
    }
}

/// The time of a file's last change, in nanoseconds since 1970.
fn changed_ns(path: &std::path::Path) -> i64 {
    let changed = std::fs::metadata(path).and_then(|meta| meta.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    let since = changed.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// The tokens of a running server.
#[derive(Debug, Default)]
pub struct Tokens {
    file: Mutex<Option<FileToken>>,
    /// The last use of each token since the start, by its name.
    used: Mutex<BTreeMap<String, i64>>,
}

impl Tokens {
    /// Tokens with that of the file.
    pub fn new(file: Option<FileToken>) -> Tokens {
        Tokens { file: Mutex::new(file), used: Mutex::default() }
    }

    /// Replaces the token of the file.
    pub fn set_file(&self, file: Option<FileToken>) {
        *held(&self.file) = file;
    }

    /// Whether the token of the file is valid.
    pub fn has_file(&self) -> bool {
        held(&self.file).is_some()
    }

    /// The caller with this token.
    ///
    /// # Errors
    /// [`TokenRefusal`]
    pub fn caller(&self, store: &Store, text: &str) -> Result<Caller, TokenRefusal> {
        let (given, now) = (hash_of(text), calendar::wall_ns());
        let is_it = |hash: &[u8; 32]| verify_slices_are_equal(&given, hash).is_ok();
        let mut found = held(&self.file)
            .as_ref()
            .filter(|file| is_it(&file.hash))
            .map(|_| (FILE_TOKEN.to_owned(), Role::Administer, None));
        let stored = store.tokens().unwrap_or_else(|error| {
            tracing::error!(%error, "the tokens cannot be read");
            Vec::new()
        });
        // All of them are compared, so that the time does not tell which one is near.
        for StoredToken { name, role, hash, expires_ns, .. } in stored {
            if is_it(&hash) {
                found = Some((name, role, expires_ns));
            }
        }
        let (name, role, expires_ns) = found.ok_or(TokenRefusal::Unknown)?;
        if expires_ns.is_some_and(|end| end <= now) {
            return Err(TokenRefusal::Expired(name));
        }
        held(&self.used).insert(name.clone(), now);
        Ok(Caller { name: format!("token {name}"), role })
    }

    /// All tokens, with that of the file first.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn list(&self, store: &Store) -> Result<Vec<TokenEntry>, StoreError> {
        let used = held(&self.used).clone();
        let file = held(&self.file).clone();
        let file = file.map(|file| file.entry(used.get(FILE_TOKEN).copied()));
        let stored = store.tokens()?.into_iter().map(|mut token| {
            token.last_used_ns = token.last_used_ns.max(used.get(&token.name).copied());
            entry(&token)
        });
        Ok(file.into_iter().chain(stored).collect())
    }

    /// Revokes a token.
    ///
    /// # Errors
    /// The reason.
    pub fn revoke(&self, store: &Store, name: &str) -> Result<(), Refusal> {
        revoke(store, name)?;
        held(&self.used).retain(|used, _| !used.eq_ignore_ascii_case(name));
        Ok(())
    }

    /// Stores the last uses since the start.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn keep_uses(&self, store: &Store) -> Result<(), StoreError> {
        let used: Vec<_> = held(&self.used).clone().into_iter().collect();
        let known: BTreeMap<_, _> =
            store.tokens()?.into_iter().map(|token| (token.name, token.last_used_ns)).collect();
        let is_new = |(name, at): &(String, i64)| known.get(name).is_some_and(|kept| *kept < Some(*at));
        store.keep_token_uses(&used.into_iter().filter(is_new).collect::<Vec<_>>())
    }
}

fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    // Both are complete between any two changes, after a panic, too.
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

fn entry(token: &StoredToken) -> TokenEntry {
    TokenEntry {
        name: token.name.clone(),
        role: token.role,
        created: rfc3339(token.created_ns),
        last_used: token.last_used_ns.map(rfc3339),
        expires: token.expires_ns.map(rfc3339),
    }
}

fn hash_of(text: &str) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, text.as_bytes()).as_ref());
    hash
}

fn failed(error: &StoreError) -> Refusal {
    Refusal::new(RefusalKind::Failed, error.to_string())
}

/// Makes a token.
///
/// # Errors
/// The reason. Nothing is changed then.
pub fn make(store: &Store, request: TokenRequest) -> Result<NewToken, Refusal> {
    let bad = |why: String| Refusal::new(RefusalKind::Bad, why);
    let TokenRequest { name, role, expires } = request;
    check_name(&name).map_err(bad)?;
    let life = expires.as_deref().map(life_ns).transpose().map_err(bad)?;
    let text = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(random::<32>().map_err(|e| failed(&e))?));
    let created_ns = calendar::wall_ns();
    let expires_ns = life.map(|life| created_ns.saturating_add(life));
    let token = StoredToken { name, role, hash: hash_of(&text), created_ns, expires_ns, last_used_ns: None };
    match store.add_token(&token, MAX_TOKENS).map_err(|e| failed(&e))? {
        TokenAdded::Done => Ok(NewToken { token: TokenText(text), entry: entry(&token) }),
        TokenAdded::NameTaken => {
            let why = format!("there is already a token `{}`; revoke it first", token.name);
            Err(Refusal::new(RefusalKind::Conflict, why))
        }
        TokenAdded::TooMany => {
            let why = format!("there are {MAX_TOKENS} tokens, and no more are possible; revoke one first");
            Err(Refusal::new(RefusalKind::Conflict, why))
        }
    }
}

/// Revokes a token.
///
/// # Errors
/// The reason.
pub fn revoke(store: &Store, name: &str) -> Result<(), Refusal> {
    if name.eq_ignore_ascii_case(FILE_TOKEN) {
        let why =
            format!("`{FILE_TOKEN}` is the token of the file; `file_token = false` in [admin] turns it off");
        return Err(Refusal::new(RefusalKind::Conflict, why));
    }
    match store.remove_token(name) {
        Ok(true) => Ok(()),
        Ok(false) => {
            let why = format!("there is no token `{name}`; see `trunkline token list`");
            Err(Refusal::new(RefusalKind::NotFound, why))
        }
        Err(error) => Err(failed(&error)),
    }
}

fn check_name(name: &str) -> Result<(), String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if name.is_empty() || name.len() > 64 || !name.bytes().all(is_plain) {
        return Err(format!("`{name}` must have 1 to 64 letters, digits, dashes, dots or underscores"));
    }
    match name.eq_ignore_ascii_case(FILE_TOKEN) {
        true => Err(format!("`{FILE_TOKEN}` is the name of the token in the file; take another one")),
        false => Ok(()),
    }
}

/// A time such as `90d`, `12h` or `30m`, in nanoseconds.
fn life_ns(text: &str) -> Result<i64, String> {
    let minutes = match text.as_bytes().last() {
        Some(b'd') => 24 * 60,
        Some(b'h') => 60,
        Some(b'm') => 1,
        _ => 0,
    };
    let digits = text.get(..text.len().saturating_sub(1)).unwrap_or_default();
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let count: i64 = digits.parse().ok().filter(|_| is_number).unwrap_or(0);
    let life = count.checked_mul(minutes).filter(|minutes| (1..=LONGEST_DAYS * 24 * 60).contains(minutes));
    let life = life.and_then(|minutes| minutes.checked_mul(NS_PER_MINUTE));
    life.ok_or_else(|| format!("`{text}` must be a time such as 90d, 12h or 30m, at most {LONGEST_DAYS}d"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read;
    use admin::access::OPERATED_SETTINGS;
    use admin::objects::Kind;
    use std::path::Path;

    fn state() -> (tempfile::TempDir, StateDir) {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(&dir.path().join("s")).unwrap();
        (dir, state)
    }

    fn request(name: &str, role: Role, expires: Option<&str>) -> TokenRequest {
        TokenRequest { name: name.to_owned(), role, expires: expires.map(str::to_owned) }
    }

    #[test]
    fn a_token_lets_in_until_it_is_revoked_and_is_stored_as_a_hash() {
        let (dir, state) = state();
        let (store, tokens) = (state.store(), Tokens::default());
        let made = make(store, request("Prom", Role::Read, None)).unwrap();
        let text = made.token.0;
        assert_eq!((text.len(), &text[..3]), (3 + 43, "tl_"));
        let caller = tokens.caller(store, &text).unwrap();
        assert_eq!((caller.name.as_str(), caller.role), ("token Prom", Role::Read));
        for wrong in ["", "tl_", &text[..text.len() - 1], &format!("{text}0"), &text.to_uppercase()] {
            assert_eq!(tokens.caller(store, wrong), Err(TokenRefusal::Unknown), "{wrong}");
        }
        let listed = tokens.list(store).unwrap();
        assert!(listed.len() == 1 && listed[0].last_used.is_some() && listed[0].expires.is_none());
        let again = make(store, request("PROM", Role::Administer, None)).unwrap_err();
        assert_eq!(again.why, RefusalKind::Conflict);
        tokens.keep_uses(store).unwrap();
        assert!(store.tokens().unwrap()[0].last_used_ns.is_some());
        let file = std::fs::read(dir.path().join("s/state.redb")).unwrap();
        assert!(!file.windows(text.len()).any(|part| part == text.as_bytes()));
        tokens.revoke(store, "prom").unwrap();
        assert_eq!(tokens.caller(store, &text), Err(TokenRefusal::Unknown));
        assert_eq!(tokens.revoke(store, "prom").unwrap_err().why, RefusalKind::NotFound);
        // A later token of the name is another one.
        let other = make(store, request("Prom", Role::Read, None)).unwrap();
        assert!(other.token.0 != text && tokens.list(store).unwrap()[0].last_used.is_none());
    }

    #[test]
    fn an_expired_token_is_refused_and_says_so() {
        let (_dir, state) = state();
        let (store, tokens) = (state.store(), Tokens::default());
        let text = make(store, request("short", Role::Operate, Some("1m"))).unwrap().token.0;
        assert_eq!(tokens.caller(store, &text).unwrap().role, Role::Operate);
        let mut stored = store.tokens().unwrap().remove(0);
        assert_eq!(stored.expires_ns, Some(stored.created_ns + 60_000_000_000));
        store.remove_token("short").unwrap();
        stored.expires_ns = Some(calendar::wall_ns());
        store.add_token(&stored, 1).unwrap();
        assert_eq!(tokens.caller(store, &text), Err(TokenRefusal::Expired("short".to_owned())));
    }

    #[test]
    fn what_cannot_be_a_token_is_refused_with_the_reason() {
        let (_dir, state) = state();
        for bad in ["", "a b", "é", "a\n", &"x".repeat(65), "Admin-Token"] {
            let refusal = make(state.store(), request(bad, Role::Read, None)).unwrap_err();
            assert_eq!(refusal.why, RefusalKind::Bad, "{bad}");
        }
        for bad in ["", "d", "0d", "90", "-1d", "+1d", "1.5h", "1w", "3651d", "99999999999999999999d", "é"] {
            let refusal = make(state.store(), request("x", Role::Read, Some(bad))).unwrap_err();
            assert!(refusal.text.contains("such as 90d"), "{bad}: {refusal}");
        }
        assert_eq!((life_ns("90d"), life_ns("12h")), (Ok(7_776_000_000_000_000), Ok(43_200_000_000_000)));
        assert!(state.store().tokens().unwrap().is_empty());
        let refusal = revoke(state.store(), "admin-token").unwrap_err();
        assert!(refusal.why == RefusalKind::Conflict && refusal.text.contains("file_token"), "{refusal}");
        for n in 0..MAX_TOKENS {
            make(state.store(), request(&format!("t{n}"), Role::Read, None)).unwrap();
        }
        let refusal = make(state.store(), request("one-more", Role::Read, None)).unwrap_err();
        assert!(refusal.text.contains("no more are possible"), "{refusal}");
    }

    #[test]
    fn the_token_of_the_file_has_every_right_unless_it_is_turned_off() {
        let (_dir, state) = state();
        let read = |text: &str| FileToken::read(&state, &read::parse("t", text, Path::new("/")).unwrap());
        let path = state.path().join(ADMIN_TOKEN);
        assert_eq!(read("").unwrap(), None);
        assert_eq!(read("[admin]\nmetrics = \"127.0.0.1:9445\"\n").unwrap(), None);
        assert_eq!(read("[admin]\nlisten = \"127.0.0.1:1\"\nfile_token = false\n").unwrap(), None);
        assert!(!path.exists());
        let page = "[admin]\nlisten = \"127.0.0.1:1\"\n";
        let tokens = Tokens::new(read(page).unwrap());
        let text = std::fs::read_to_string(&path).unwrap();
        let caller = tokens.caller(state.store(), text.trim()).unwrap();
        assert_eq!((caller.name.as_str(), caller.role), ("token admin-token", Role::Administer));
        assert_eq!(tokens.list(state.store()).unwrap()[0].name, "admin-token");
        tokens.keep_uses(state.store()).unwrap();
        assert!(state.store().tokens().unwrap().is_empty());
        tokens.set_file(None);
        assert_eq!(tokens.caller(state.store(), text.trim()), Err(TokenRefusal::Unknown));
        for bad in ["", "short", &" ".repeat(40), &"é".repeat(40)] {
            std::fs::write(&path, bad).unwrap();
            assert!(read(page).unwrap_err().to_string().contains("at least 32"), "{bad}");
        }
    }

    #[test]
    fn the_settings_of_operators_exist_and_none_of_them_lets_somebody_in() {
        let of = |kind| crate::reference::settings(kind)["properties"].as_object().unwrap().clone();
        let (accounts, shares) = (of(Kind::Account), of(Kind::Share));
        for key in OPERATED_SETTINGS {
            assert!(accounts.contains_key(key) || shares.contains_key(key), "{key}");
        }
        for key in ["path", "users", "account", "read_only", "encryption", "nfs_clients", "root_squash"] {
            assert!(shares.contains_key(key) && !OPERATED_SETTINGS.contains(&key), "{key}");
        }
    }
}
