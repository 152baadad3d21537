//! Users and the server's identity, in one redb file.
//!
//! Of a password only its NT hash is kept (MS-NLMP 3.3.1), which NTLMv2 needs; nothing leads back to the
//! password but guessing. The server's GUID and the machine SID are made once and kept; the RID of a user
//! is given once and never to another, so that descriptors on disk keep their meaning. Keys of accounts are kept as they
//! are, since whoever looks after the server may ask for them again.

use std::fs::OpenOptions;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use admin::{AccountKeys, NtHash};
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use serde::{Deserialize, Serialize};

const USERS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("users");
const RIDS: TableDefinition<'_, &str, u32> = TableDefinition::new("rids");
const VOLUMES: TableDefinition<'_, &[u8], u32> = TableDefinition::new("volumes");
/// By the numbers of directories: the count, and since when (ns since 1970).
const BURST_CREDITS: TableDefinition<'_, u32, (u64, i64)> = TableDefinition::new("burst_credits");
/// By the numbers of directories: bytes and files that lie there.
const USAGE: TableDefinition<'_, u32, (u64, u64)> = TableDefinition::new("usage");
/// By the names of accounts in lower case.
const ACCOUNT_KEYS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("account_keys");
const IDENTITY: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("identity");

/// The first RID that is not given to well-known users (MS-SAMR 2.2.1.14).
const FIRST_RID: u32 = 1000;

/// The store cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("state.redb: {0}")]
pub struct StoreError(String);

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

/// What makes this server itself, for as long as its state directory lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// ServerGuid of MS-SMB2 3.3.1.5.
    pub guid: [u8; 16],
    /// The three numbers of the machine's SID, S-1-5-21-a-b-c.
    pub machine_sid: [u32; 3],
}

impl Identity {
    /// The SID of the user with `rid`.
    pub fn user_sid(&self, rid: u32) -> String {
        let [a, b, c] = self.machine_sid;
        format!("S-1-5-21-{a}-{b}-{c}-{rid}")
    }
}

/// A user whose password is kept here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredUser {
    /// The name as it was given.
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

/// The burst credits that a limited share had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BurstCredits {
    /// How many.
    pub count: u64,
    /// When, in nanoseconds since 1970.
    pub at_ns: i64,
}

/// The open file.
#[derive(Debug)]
pub struct Store {
    database: Database,
    identity: Identity,
}

impl Store {
    /// Opens the file at `path`, which is made when it is missing.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn open(path: &Path) -> Result<Store, StoreError> {
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        let database = Database::builder().create_file(file)?;
        let write = database.begin_write()?;
        write.open_table(USERS)?;
        write.open_table(RIDS)?;
        write.open_table(VOLUMES)?;
        write.open_table(BURST_CREDITS)?;
        write.open_table(USAGE)?;
        write.open_table(ACCOUNT_KEYS)?;
        let identity = {
            let mut table = write.open_table(IDENTITY)?;
            let guid = kept(&mut table, "guid", guid_of)?;
            let sid: [u8; 12] = kept(&mut table, "machine_sid", |random| random)?;
            let part = |at: usize| u32::from_le_bytes([sid[at], sid[at + 1], sid[at + 2], sid[at + 3]]);
            Identity { guid, machine_sid: [part(0), part(4), part(8)] }
        };
        write.commit()?;
        Ok(Store { database, identity })
    }

    /// What makes this server itself.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// Every user, sorted by name.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn users(&self) -> Result<Vec<StoredUser>, StoreError> {
        let table = self.database.begin_read()?.open_table(USERS)?;
        table.iter()?.map(|entry| Ok(serde_json::from_slice(entry?.1.value())?)).collect()
    }

    /// The user `name`, whatever its case.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn user(&self, name: &str) -> Result<Option<StoredUser>, StoreError> {
        let table = self.database.begin_read()?.open_table(USERS)?;
        let found = table.get(name.to_lowercase().as_str())?;
        found.map(|record| Ok(serde_json::from_slice(record.value())?)).transpose()
    }

    /// Adds or replaces `user`. On disk when it returns.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn put_user(&self, user: &StoredUser) -> Result<(), StoreError> {
        let record = serde_json::to_vec(user)?;
        let write = self.database.begin_write()?;
        write.open_table(USERS)?.insert(user.name.to_lowercase().as_str(), record.as_slice())?;
        Ok(write.commit()?)
    }

    /// Removes the user `name`; false when there was none. Its RID is not given again.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn remove_user(&self, name: &str) -> Result<bool, StoreError> {
        let write = self.database.begin_write()?;
        let removed = write.open_table(USERS)?.remove(name.to_lowercase().as_str())?.is_some();
        write.commit()?;
        Ok(removed)
    }

    /// The keys of `account`, whatever its case.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn account_keys(&self, account: &str) -> Result<AccountKeys, StoreError> {
        let table = self.database.begin_read()?.open_table(ACCOUNT_KEYS)?;
        let found = table.get(account.to_lowercase().as_str())?;
        Ok(found.map(|record| serde_json::from_slice(record.value())).transpose()?.unwrap_or_default())
    }

    /// Keeps the keys of `account`. On disk when it returns.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn put_account_keys(&self, account: &str, keys: &AccountKeys) -> Result<(), StoreError> {
        let record = serde_json::to_vec(keys)?;
        let write = self.database.begin_write()?;
        write.open_table(ACCOUNT_KEYS)?.insert(account.to_lowercase().as_str(), record.as_slice())?;
        Ok(write.commit()?)
    }

    /// Forgets the keys of `account`.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn remove_account_keys(&self, account: &str) -> Result<(), StoreError> {
        let write = self.database.begin_write()?;
        write.open_table(ACCOUNT_KEYS)?.remove(account.to_lowercase().as_str())?;
        Ok(write.commit()?)
    }

    /// The RID of the user `name`, given at the first call.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn rid(&self, name: &str) -> Result<u32, StoreError> {
        self.number(RIDS, name.to_lowercase().as_str(), FIRST_RID)
    }

    /// The number of the directory `path`, given at the first call, whatever shares show it.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn volume(&self, path: &Path) -> Result<u32, StoreError> {
        self.number(VOLUMES, path.as_os_str().as_bytes(), 1)
    }

    /// The burst credits that the share of the directory `number` had when they were last kept.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn burst_credits(&self, number: u32) -> Result<Option<BurstCredits>, StoreError> {
        let table = self.database.begin_read()?.open_table(BURST_CREDITS)?;
        let found = table.get(number)?.map(|found| found.value());
        Ok(found.map(|(count, at_ns)| BurstCredits { count, at_ns }))
    }

    /// Keeps the burst credits of these shares. On disk when it returns.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn keep_burst_credits(&self, shares: &[(u32, BurstCredits)]) -> Result<(), StoreError> {
        if shares.is_empty() {
            return Ok(());
        }
        let write = self.database.begin_write()?;
        {
            let mut table = write.open_table(BURST_CREDITS)?;
            for (number, BurstCredits { count, at_ns }) in shares {
                table.insert(number, (*count, *at_ns))?;
            }
        }
        Ok(write.commit()?)
    }

    /// What lay in the directory `number` when it was last kept: bytes and files.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn usage(&self, number: u32) -> Result<Option<(u64, u64)>, StoreError> {
        let table = self.database.begin_read()?.open_table(USAGE)?;
        Ok(table.get(number)?.map(|found| found.value()))
    }

    /// Keeps what lies in these directories. On disk when it returns.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn keep_usage(&self, directories: &[(u32, (u64, u64))]) -> Result<(), StoreError> {
        if directories.is_empty() {
            return Ok(());
        }
        let write = self.database.begin_write()?;
        {
            let mut table = write.open_table(USAGE)?;
            for (number, usage) in directories {
                table.insert(number, usage)?;
            }
        }
        Ok(write.commit()?)
    }

    /// The number of `key`; a new one follows the highest that was ever given.
    fn number<'k, K: redb::Key + 'static>(
        &self,
        table: TableDefinition<'_, K, u32>,
        key: K::SelfType<'k>,
        first: u32,
    ) -> Result<u32, StoreError>
    where
        K::SelfType<'k>: Copy,
    {
        let known = self.database.begin_read()?.open_table(table)?.get(key)?.map(|number| number.value());
        if let Some(number) = known {
            return Ok(number);
        }
        let write = self.database.begin_write()?;
        let number = {
            let mut table = write.open_table(table)?;
            let mut highest = first - 1;
            for entry in table.iter()? {
                highest = highest.max(entry?.1.value());
            }
            let number = highest.checked_add(1).ok_or_else(|| StoreError("no number is left".to_owned()))?;
            table.insert(key, number)?;
            number
        };
        write.commit()?;
        Ok(number)
    }
}

/// The bytes under `key`, made from random ones by `make` at the first call.
fn kept<const N: usize>(
    table: &mut redb::Table<'_, &str, &[u8]>,
    key: &str,
    make: impl Fn([u8; N]) -> [u8; N],
) -> Result<[u8; N], StoreError> {
    if let Some(found) = table.get(key)? {
        let found: Result<[u8; N], _> = found.value().try_into();
        return found.map_err(|_| StoreError(format!("`{key}` is damaged")));
    }
    let made = make(random()?);
    table.insert(key, made.as_slice())?;
    Ok(made)
}

/// A random GUID in the byte order of the wire.
fn guid_of(mut random: [u8; 16]) -> [u8; 16] {
    // RFC 9562 5.4
    random[7] = random[7] & 0x0f | 0x40;
    random[8] = random[8] & 0x3f | 0x80;
    random
}

/// Bytes that nobody can guess.
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

    fn user(name: &str) -> StoredUser {
        StoredUser { name: name.to_owned(), nt_hash: NtHash([7; 16]), uid: Some(1), gid: None, admin: false }
    }

    #[test]
    fn users_and_identity_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.redb");
        let store = Store::open(&path).unwrap();
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
        let store = Store::open(&dir.path().join("s.redb")).unwrap();
        store.put_user(&user("ann")).unwrap();
        let ann = store.rid("ann").unwrap();
        assert!(store.remove_user("Ann").unwrap() && !store.remove_user("ann").unwrap());
        assert_ne!(store.rid("bob").unwrap(), ann);
        assert_eq!(store.rid("ann").unwrap(), ann);
    }

    #[test]
    fn burst_credits_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.redb");
        let (first, second) = (BurstCredits { count: 7, at_ns: 1 }, BurstCredits { count: 9, at_ns: -2 });
        let store = Store::open(&path).unwrap();
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
        let store = Store::open(&path).unwrap();
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
    fn each_directory_keeps_its_number() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("s.redb")).unwrap();
        let number = |path: &str| store.volume(Path::new(path)).unwrap();
        assert_eq!((number("/srv/a"), number("/srv/b"), number("/srv/a")), (1, 2, 1));
    }
}
