//! The users and the server's identity, in one redb file.
//!
//! Only the NT hash of a password is stored (MS-NLMP 3.3.1), which NTLMv2 needs. The password can be found
//! from it only by guessing. The server's GUID and the machine SID are generated once. The RID of a user is
//! never given to another user, so that descriptors on disk keep their meaning. Keys of accounts are stored
//! as they are, since administrators may ask for them again.
//!
//! [`records`] stores the bytes and detects damage. [`tokens`] has the tokens of administrators. [`image`]
//! turns all records into the bytes of a file and back, for backups.

pub mod image;
mod old_format;
mod panic_guard;
mod records;
pub mod tokens;

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use admin::{AccountKeys, NtHash};
use serde::{Deserialize, Serialize};

use records::{Contents, Edits, Records, Table};

/// Key: a user's name in lower case.
const USERS: Table = Table("users");
const RIDS: Table = Table("rids");
/// Key: a directory's path.
const VOLUMES: Table = Table("volumes");
/// Key: a directory's number. Value: the count, and its time (ns since 1970).
const BURST_CREDITS: Table = Table("burst_credits");
/// Key: a directory's number. Value: the bytes and files in it.
const USAGE: Table = Table("usage");
/// Key: an account's name in lower case.
const ACCOUNT_KEYS: Table = Table("account_keys");
const IDENTITY: Table = Table("identity");
/// Key: a file's name. Value: the content that was written to that file of the state directory.
const FILES: Table = Table("files");
const TABLES: [Table; 9] =
    [USERS, RIDS, VOLUMES, BURST_CREDITS, USAGE, ACCOUNT_KEYS, IDENTITY, FILES, tokens::TOKENS];

/// Keys of `IDENTITY`.
const GUID: &str = "guid";
const MACHINE_SID: &str = "machine_sid";

/// The first RID that is not reserved for well-known users (MS-SAMR 2.2.1.14).
const FIRST_RID: u32 = 1000;

/// An error in reading or writing the store.
#[derive(Debug, thiserror::Error)]
#[error("state.redb: {0}")]
pub struct StoreError(String);

impl StoreError {
    /// The error for a damaged file.
    fn damaged(what: &str) -> StoreError {
        StoreError(format!(
            "it is damaged ({what}); restore the state directory from a backup, or begin anew with another \
             one (--state-dir): users, keys and the machine's SID, by which files know their owners, are \
             then new"
        ))
    }

    /// The error for a missing file that existed before.
    fn missing() -> StoreError {
        StoreError(
            "it is missing beside `version`; in it are users, keys and the machine's SID, by which files \
             know their owners: restore it from a backup, or begin anew with another directory (--state-dir)"
                .to_owned(),
        )
    }
}

macro_rules! from_store {
    ($($error:ty),*) => {$(
        impl From<$error> for StoreError {
            fn from(error: $error) -> Self {
                StoreError(error.to_string())
            }
        }
    )*};
}

from_store!(
    redb::DatabaseError,
    redb::TransactionError,
    redb::TableError,
    redb::StorageError,
    redb::CommitError,
    serde_json::Error,
    std::io::Error
);

/// The identity of this server, for the lifetime of its state directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// ServerGuid of MS-SMB2 3.3.1.5.
    pub guid: [u8; 16],
    /// The three numbers of the machine's SID, S-1-5-21-a-b-c.
    pub machine_sid: [u32; 3],
}

impl Identity {
    fn of(contents: &Contents) -> Result<Identity, StoreError> {
        let kept = |key: &str| {
            let found = contents.get(&IDENTITY).and_then(|records| records.get(key.as_bytes()));
            found.ok_or_else(|| StoreError::damaged(&format!("`{key}` is missing")))
        };
        let wrong = |key: &str| StoreError::damaged(&format!("`{key}`"));
        let guid = kept(GUID)?.as_slice().try_into().map_err(|_| wrong(GUID))?;
        let sid: [u8; 12] = kept(MACHINE_SID)?.as_slice().try_into().map_err(|_| wrong(MACHINE_SID))?;
        let part = |at: usize| u32::from_le_bytes([sid[at], sid[at + 1], sid[at + 2], sid[at + 3]]);
        Ok(Identity { guid, machine_sid: [part(0), part(4), part(8)] })
    }

    /// The GUID in hexadecimal digits.
    pub fn guid_text(&self) -> String {
        self.guid.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The SID of the user with `rid`.
    pub fn user_sid(&self, rid: u32) -> String {
        let [a, b, c] = self.machine_sid;
        format!("S-1-5-21-{a}-{b}-{c}-{rid}")
    }
}

/// A user whose password is in the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredUser {
    /// The name, in its original spelling.
    pub name: String,
    /// The password's NT hash.
    pub nt_hash: NtHash,
    /// User id on the host.
    pub uid: Option<u32>,
    /// Group id on the host.
    pub gid: Option<u32>,
    /// Whether the user is one of the server's administrators.
    pub admin: bool,
}

/// The burst credits of a limited share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BurstCredits {
    /// The number of credits.
    pub count: u64,
    /// Their time, in nanoseconds since 1970.
    pub at_ns: i64,
}

/// The open file.
#[derive(Debug)]
pub struct Store {
    records: Records,
    identity: Identity,
}

impl Store {
    /// Creates the file at `path` with a new identity, completely or not at all.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn make(path: &Path) -> Result<(), StoreError> {
        let mut edits = Edits::default();
        edits.put(IDENTITY, GUID, guid_of(random()?).to_vec());
        edits.put(IDENTITY, MACHINE_SID, random::<12>()?.to_vec());
        Records::make(path, edits)
    }

    /// Opens the file at `path`, which must exist.
    ///
    /// # Errors
    /// [`StoreError`]. A file that is refused stays unchanged.
    pub fn open(path: &Path) -> Result<Store, StoreError> {
        if !path.try_exists()? {
            return Err(StoreError::missing());
        }
        let records = Records::open(path, &TABLES, |contents| Identity::of(contents).map(drop))?;
        let identity = records.with(Identity::of)?;
        Ok(Store { records, identity })
    }

    /// All records, as they are now.
    pub fn snapshot(&self) -> image::StoreImage {
        image::StoreImage::of(self.records.snapshot())
    }

    /// Notes about the file for the administrator, as lines.
    pub fn notes(&self) -> &[String] {
        &self.records.notes
    }

    /// The server's identity.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// All users, sorted by name.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn users(&self) -> Result<Vec<StoredUser>, StoreError> {
        self.records.all(USERS).iter().map(|(_, record)| Ok(serde_json::from_slice(record)?)).collect()
    }

    /// The user `name`, without regard to case.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn user(&self, name: &str) -> Result<Option<StoredUser>, StoreError> {
        let found = self.records.get(USERS, name.to_lowercase());
        found.map(|record| Ok(serde_json::from_slice(&record)?)).transpose()
    }

    /// Adds or replaces `user`. The change is on disk when it returns.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn put_user(&self, user: &StoredUser) -> Result<(), StoreError> {
        let record = serde_json::to_vec(user)?;
        self.put(USERS, user.name.to_lowercase(), record)
    }

    /// Removes the user `name`. Returns false if there was none. Its RID is not reused.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn remove_user(&self, name: &str) -> Result<bool, StoreError> {
        self.remove(USERS, &name.to_lowercase())
    }

    /// The keys of `account`, without regard to case.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn account_keys(&self, account: &str) -> Result<AccountKeys, StoreError> {
        let found = self.records.get(ACCOUNT_KEYS, account.to_lowercase());
        Ok(found.map(|record| serde_json::from_slice(&record)).transpose()?.unwrap_or_default())
    }

    /// Stores the keys of `account`. They are on disk when it returns.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn put_account_keys(&self, account: &str, keys: &AccountKeys) -> Result<(), StoreError> {
        let record = serde_json::to_vec(keys)?;
        self.put(ACCOUNT_KEYS, account.to_lowercase(), record)
    }

    /// Removes the keys of `account`.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn remove_account_keys(&self, account: &str) -> Result<(), StoreError> {
        self.remove(ACCOUNT_KEYS, &account.to_lowercase()).map(drop)
    }

    /// The RID of the user `name`. The first call assigns it.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn rid(&self, name: &str) -> Result<u32, StoreError> {
        self.number(RIDS, name.to_lowercase().as_bytes(), FIRST_RID)
    }

    /// The RIDs of users as [`Store::rid`] would return them in the order of the calls. Nothing is assigned.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn rid_preview(&self) -> Result<impl FnMut(&str) -> u32 + use<>, StoreError> {
        let assigned = self.records.all(RIDS).into_iter().map(|(name, rid)| Ok((name, number_of(&rid)?)));
        let mut rids: HashMap<Vec<u8>, u32> = assigned.collect::<Result<_, StoreError>>()?;
        let mut highest = rids.values().copied().fold(FIRST_RID - 1, u32::max);
        let mut next = move || {
            highest = highest.saturating_add(1);
            highest
        };
        Ok(move |name: &str| *rids.entry(name.to_lowercase().into_bytes()).or_insert_with(&mut next))
    }

    /// The number of the directory `path`, which is independent of shares. The first call assigns it.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn volume(&self, path: &Path) -> Result<u32, StoreError> {
        self.number(VOLUMES, path.as_os_str().as_bytes(), 1)
    }

    /// Gives each of these paths a number if it has none. All are on disk when it returns, with one wait for
    /// the disk.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn give_volumes<'a>(&self, paths: impl Iterator<Item = &'a Path>) -> Result<(), StoreError> {
        let keys: Vec<&[u8]> = paths.map(|path| path.as_os_str().as_bytes()).collect();
        self.numbers(VOLUMES, &keys, 1).map(drop)
    }

    /// The saved burst credits of the share of the directory `number`.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn burst_credits(&self, number: u32) -> Result<Option<BurstCredits>, StoreError> {
        let found = self.pair(BURST_CREDITS, number)?;
        Ok(found.map(|(count, at_ns)| BurstCredits { count, at_ns: at_ns.cast_signed() }))
    }

    /// Saves the burst credits of these shares. They are on disk when it returns.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn keep_burst_credits(&self, shares: &[(u32, BurstCredits)]) -> Result<(), StoreError> {
        let pair = |BurstCredits { count, at_ns }: BurstCredits| (count, at_ns.cast_unsigned());
        self.put_pairs(BURST_CREDITS, shares.iter().map(|(number, credits)| (*number, pair(*credits))))
    }

    /// The saved usage of the directory `number`: bytes and files.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn usage(&self, number: u32) -> Result<Option<(u64, u64)>, StoreError> {
        self.pair(USAGE, number)
    }

    /// Saves the usage of these directories. It is on disk when it returns.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn keep_usage(&self, directories: &[(u32, (u64, u64))]) -> Result<(), StoreError> {
        self.put_pairs(USAGE, directories.iter().copied())
    }

    /// The content that was last written to the file `name`, if any.
    pub fn file(&self, name: &str) -> Option<Vec<u8>> {
        self.records.get(FILES, name)
    }

    /// Stores the content that was written to the file `name`. It is on disk when it returns.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn keep_file(&self, name: &str, content: &[u8]) -> Result<(), StoreError> {
        self.put(FILES, name.to_owned(), content.to_vec())
    }

    /// Records that these files exist. They change too often to store their content. It is on disk when it
    /// returns.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn note_files(&self, names: &[String]) -> Result<(), StoreError> {
        self.records.change(|contents: &Contents, edits| {
            let known = contents.get(&FILES);
            for name in
                names.iter().filter(|name| !known.is_some_and(|known| known.contains_key(name.as_bytes())))
            {
                edits.put(FILES, name.as_str(), Vec::new());
            }
            Ok(())
        })
    }

    /// Removes the stored content of the file `name`.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn forget_file(&self, name: &str) -> Result<(), StoreError> {
        self.remove(FILES, name).map(drop)
    }

    /// The number of `key`. A new one is the highest number ever assigned plus one.
    fn number(&self, table: Table, key: &[u8], first: u32) -> Result<u32, StoreError> {
        let missing = || StoreError("no number was given".to_owned());
        self.numbers(table, &[key], first)?.pop().ok_or_else(missing)
    }

    /// The numbers of some keys. Missing ones are assigned in one change.
    fn numbers(&self, table: Table, keys: &[&[u8]], first: u32) -> Result<Vec<u32>, StoreError> {
        let known = |key: &&[u8]| Some(number_of(&self.records.get(table, *key)?));
        if let Some(numbers) = keys.iter().map(known).collect::<Option<Result<Vec<u32>, _>>>() {
            return numbers;
        }
        self.records.change(|contents: &Contents, edits| {
            let mut given: HashMap<&[u8], u32> = HashMap::new();
            let mut highest = first - 1;
            for (other, number) in contents.get(&table).into_iter().flatten() {
                let number = number_of(number)?;
                highest = highest.max(number);
                given.insert(other, number);
            }
            let mut numbers = Vec::with_capacity(keys.len());
            for key in keys {
                if let Some(number) = given.get(key) {
                    numbers.push(*number);
                    continue;
                }
                let none_left = || StoreError("no number is left".to_owned());
                highest = highest.checked_add(1).ok_or_else(none_left)?;
                given.insert(key, highest);
                edits.put(table, *key, highest.to_le_bytes().to_vec());
                numbers.push(highest);
            }
            Ok(numbers)
        })
    }

    fn put(&self, table: Table, key: String, body: Vec<u8>) -> Result<(), StoreError> {
        self.records.change(|_, edits| {
            edits.put(table, key, body);
            Ok(())
        })
    }

    /// Removes a record, and returns whether it existed.
    fn remove(&self, table: Table, key: &str) -> Result<bool, StoreError> {
        self.records.change(|contents, edits| {
            let was_there = contents.get(&table).is_some_and(|records| records.contains_key(key.as_bytes()));
            if was_there {
                edits.remove(table, key);
            }
            Ok(was_there)
        })
    }

    fn pair(&self, table: Table, number: u32) -> Result<Option<(u64, u64)>, StoreError> {
        let Some(body) = self.records.get(table, number.to_le_bytes()) else { return Ok(None) };
        let halves = body.split_first_chunk().and_then(|(first, rest)| Some((*first, rest.try_into().ok()?)));
        let (first, second) = halves.ok_or_else(|| StoreError::damaged(table.0))?;
        Ok(Some((u64::from_le_bytes(first), u64::from_le_bytes(second))))
    }

    fn put_pairs(
        &self,
        table: Table,
        pairs: impl Iterator<Item = (u32, (u64, u64))>,
    ) -> Result<(), StoreError> {
        self.records.change(|_, edits| {
            for (number, (first, second)) in pairs {
                let body = [first.to_le_bytes(), second.to_le_bytes()].concat();
                edits.put(table, number.to_le_bytes(), body);
            }
            Ok(())
        })
    }
}

fn number_of(body: &[u8]) -> Result<u32, StoreError> {
    body.try_into().map(u32::from_le_bytes).map_err(|_| StoreError::damaged("a number"))
}

/// A random GUID in the byte order of the wire.
fn guid_of(mut random: [u8; 16]) -> [u8; 16] {
    // RFC 9562 5.4
    random[7] = random[7] & 0x0f | 0x40;
    random[8] = random[8] & 0x3f | 0x80;
    random
}

/// Random bytes that nobody can guess.
pub fn random<const N: usize>() -> Result<[u8; N], StoreError> {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        let rest = &mut bytes[filled..];
        filled += rustix::rand::getrandom(rest, rustix::rand::GetRandomFlags::empty())
            .map_err(|e| StoreError(format!("no random bytes: {e}")))?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(path: &Path) -> Store {
        Store::make(path).unwrap();
        Store::open(path).unwrap()
    }

    fn user(name: &str) -> StoredUser {
        StoredUser { name: name.to_owned(), nt_hash: NtHash([7; 16]), uid: Some(1), gid: None, admin: false }
    }

    #[test]
    fn users_and_identity_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.redb");
        let store = made(&path);
        store.put_user(&user("Ann")).unwrap();
        store.put_user(&user("bob")).unwrap();
        let (identity, rid) = (store.identity(), store.rid("ann").unwrap());
        drop(store);
        let store = Store::open(&path).unwrap();
        assert_eq!(store.identity(), identity);
        assert_eq!(store.user("ANN").unwrap(), Some(user("Ann")));
        assert_eq!(store.rid("Ann").unwrap(), rid);
        assert_eq!(identity.user_sid(rid).split('-').count(), 8);
        assert_eq!(store.users().unwrap().len(), 2);
    }

    #[test]
    fn a_rid_is_never_given_to_another_user() {
        let dir = tempfile::tempdir().unwrap();
        let store = made(&dir.path().join("s.redb"));
        store.put_user(&user("ann")).unwrap();
        let ann = store.rid("ann").unwrap();
        assert!(store.remove_user("Ann").unwrap() && !store.remove_user("ann").unwrap());
        assert_ne!(store.rid("bob").unwrap(), ann);
        assert_eq!(store.rid("ann").unwrap(), ann);
    }

    #[test]
    fn a_preview_has_the_rids_that_would_be_assigned_and_assigns_none() {
        let dir = tempfile::tempdir().unwrap();
        let store = made(&dir.path().join("s.redb"));
        let ann = store.rid("ann").unwrap();
        let changes = store.records.changes();
        let mut preview = store.rid_preview().unwrap();
        let previewed = ["Ann", "carl", "bob", "Carl"].map(&mut preview);
        assert_eq!(previewed[0], ann);
        assert_eq!(previewed[1], previewed[3]);
        assert_eq!(store.records.changes(), changes);
        assert_eq!(["ann", "carl", "bob", "carl"].map(|name| store.rid(name).unwrap()), previewed);
    }

    #[test]
    fn burst_credits_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.redb");
        let (first, second) = (BurstCredits { count: 7, at_ns: 1 }, BurstCredits { count: 9, at_ns: -2 });
        let store = made(&path);
        store.keep_burst_credits(&[(1, second), (2, second)]).unwrap();
        store.keep_burst_credits(&[(1, first)]).unwrap();
        drop(store);
        let store = Store::open(&path).unwrap();
        let kept = [1, 2, 3].map(|number| store.burst_credits(number).unwrap());
        assert_eq!(kept, [Some(first), Some(second), None]);
    }

    #[test]
    fn usage_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.redb");
        let store = made(&path);
        store.keep_usage(&[(1, (10, 1)), (2, (20, 2))]).unwrap();
        store.keep_usage(&[(1, (11, 3))]).unwrap();
        drop(store);
        let store = Store::open(&path).unwrap();
        assert_eq!(
            [1, 2, 3].map(|number| store.usage(number).unwrap()),
            [Some((11, 3)), Some((20, 2)), None]
        );
    }

    #[test]
    fn many_directories_get_their_numbers_in_one_change() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.redb");
        let store = made(&path);
        let one = store.volume(Path::new("/one")).unwrap();
        let paths: Vec<String> = (0..400).map(|n| format!("/srv/{}", n % 200)).collect();
        let before = store.records.changes();
        store.give_volumes(paths.iter().map(Path::new).chain([Path::new("/one")])).unwrap();
        assert_eq!(store.records.changes(), before + 1);
        let numbers: Vec<u32> = paths.iter().map(|path| store.volume(Path::new(path)).unwrap()).collect();
        assert_eq!(store.records.changes(), before + 1, "they were given before");
        assert_eq!(numbers.iter().collect::<std::collections::HashSet<_>>().len(), 200);
        assert_eq!((store.volume(Path::new("/one")).unwrap(), numbers.contains(&one)), (one, false));
    }

    #[test]
    fn each_directory_keeps_its_number() {
        let dir = tempfile::tempdir().unwrap();
        let store = made(&dir.path().join("s.redb"));
        let number = |path: &str| store.volume(Path::new(path)).unwrap();
        assert_eq!((number("/srv/a"), number("/srv/b"), number("/srv/a")), (1, 2, 1));
    }
}
