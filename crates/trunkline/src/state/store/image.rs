//! All records of the store at one moment: the bytes of a new file that holds them, and the records in the
//! bytes of a file. Nothing here touches a disk.

use std::collections::BTreeMap;
use std::sync::Arc;

use admin::AccountKeys;
use redb::Database;
use serde::de::DeserializeOwned;

use super::panic_guard::{DatabaseCopy, guarded};
use super::records::{Contents, Edits, Table, commit, examine, generation_bytes};
use super::tokens::{StoredToken, TOKENS};
use super::{ACCOUNT_KEYS, FILES, Identity, RIDS, StoreError, StoredUser, TABLES, USERS, VOLUMES};

/// The records at one moment.
#[derive(Debug, Clone)]
pub struct StoreImage {
    contents: Arc<Contents>,
}

/// Rights that were taken back, by the names of their holders.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct ReturningRights {
    /// Users who were removed.
    pub users: Vec<String>,
    /// Users whose password was changed.
    pub passwords: Vec<String>,
    /// Tokens that were revoked, or made again under the same name.
    pub tokens: Vec<String>,
    /// Accounts whose keys were renewed or removed.
    pub keys: Vec<String>,
}

/// The files of a store.
#[derive(Debug)]
pub struct StoreFiles {
    /// The bytes of `state.redb`.
    pub database: Vec<u8>,
    /// The bytes of `state.generation`.
    pub generation: Vec<u8>,
}

impl StoreImage {
    pub(super) fn of(contents: Arc<Contents>) -> StoreImage {
        StoreImage { contents }
    }

    /// Reads the bytes of a `state.redb`.
    ///
    /// # Errors
    /// [`StoreError`] if it is damaged.
    pub fn read(database: Vec<u8>) -> Result<StoreImage, StoreError> {
        guarded(|| {
            let copy = Database::builder().create_with_backend(DatabaseCopy::of(database));
            let mut copy = copy.map_err(|e| StoreError::damaged(&e.to_string()))?;
            let contents = examine(&mut copy, &TABLES)?.contents;
            Identity::of(&contents)?;
            Ok(StoreImage { contents: Arc::new(contents) })
        })
    }

    /// The identity of the server.
    ///
    /// # Errors
    /// [`StoreError`] if it is missing.
    pub fn identity(&self) -> Result<Identity, StoreError> {
        Identity::of(&self.contents)
    }

    /// The content that was last written to each of the smaller files of the state directory. It is empty
    /// for files that are only known to exist.
    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let records = self.contents.get(&FILES).into_iter().flatten();
        records.map(|(name, content)| (String::from_utf8_lossy(name).into_owned(), content.clone())).collect()
    }

    /// The directories and other keys that have numbers, with these numbers.
    ///
    /// # Errors
    /// [`StoreError`] if a number is damaged.
    pub fn directories(&self) -> Result<Vec<(Vec<u8>, u32)>, StoreError> {
        let records = self.contents.get(&VOLUMES).into_iter().flatten();
        records.map(|(key, number)| Ok((key.clone(), super::number_of(number)?))).collect()
    }

    /// Forgets the content of the file `name`.
    pub fn forget_file(&mut self, name: &str) {
        if let Some(files) = Arc::make_mut(&mut self.contents).get_mut(&FILES) {
            files.remove(name.as_bytes());
        }
    }

    /// Takes over the RIDs and the numbers that `later` has given to others since, so that none of them is
    /// given a second time. Returns how many there are.
    pub fn keep_numbers_of(&mut self, later: &StoreImage) -> usize {
        let contents = Arc::make_mut(&mut self.contents);
        let mut kept = 0;
        for table in [RIDS, VOLUMES] {
            let ours = contents.entry(table).or_default();
            for (key, number) in later.contents.get(&table).into_iter().flatten() {
                if !ours.contains_key(key) {
                    ours.insert(key.clone(), number.clone());
                    kept += 1;
                }
            }
        }
        kept
    }

    /// The rights of these records that were taken back or replaced in `later`, and are valid again
    /// when these replace it.
    ///
    /// # Errors
    /// [`StoreError`] if a record is damaged.
    pub fn returning(&self, later: &StoreImage) -> Result<ReturningRights, StoreError> {
        let users = |image: &StoreImage| image.bodies::<StoredUser>(USERS);
        let tokens = |image: &StoreImage| image.bodies::<StoredToken>(TOKENS);
        let keys = |image: &StoreImage| image.bodies::<AccountKeys>(ACCOUNT_KEYS);
        let (users_now, keys_now) = (users(later)?, keys(later)?);
        let tokens_now: Vec<[u8; 32]> = tokens(later)?.into_values().map(|token| token.hash).collect();
        let mut found = ReturningRights::default();
        for (key, user) in users(self)? {
            match users_now.get(&key) {
                None => found.users.push(user.name),
                Some(now) if now.nt_hash != user.nt_hash => found.passwords.push(user.name),
                Some(_) => {}
            }
        }
        for token in tokens(self)?.into_values().filter(|token| !tokens_now.contains(&token.hash)) {
            found.tokens.push(token.name);
        }
        for (account, keys) in keys(self)? {
            if keys != AccountKeys::default() && keys_now.get(&account) != Some(&keys) {
                found.keys.push(String::from_utf8_lossy(&account).into_owned());
            }
        }
        Ok(found)
    }

    /// The records of a table, by their keys.
    fn bodies<T: DeserializeOwned>(&self, table: Table) -> Result<BTreeMap<Vec<u8>, T>, StoreError> {
        let records = self.contents.get(&table).into_iter().flatten();
        records.map(|(key, body)| Ok((key.clone(), serde_json::from_slice(body)?))).collect()
    }

    /// The files of a new store with these records.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn to_files(&self) -> Result<StoreFiles, StoreError> {
        let mut edits = Edits::default();
        let mut length = 0;
        for (table, records) in &*self.contents {
            for (key, body) in records {
                length += (key.len() + body.len()) as u64;
                edits.put(*table, key, body.clone());
            }
        }
        guarded(|| {
            let copy = DatabaseCopy::empty(length);
            let database = Database::builder().create_with_backend(copy.clone())?;
            commit(database.begin_write()?, &Contents::default(), &edits, 1)?;
            drop(database);
            Ok(StoreFiles { database: copy.take(), generation: generation_bytes(1) })
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::Store;
    use super::*;

    #[test]
    fn a_snapshot_does_not_change_and_its_file_holds_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.redb");
        Store::make(&path).unwrap();
        let store = Store::open(&path).unwrap();
        store.rid("ann").unwrap();
        store.keep_file("a", b"content").unwrap();
        let image = store.snapshot();
        store.rid("bob").unwrap();
        store.forget_file("a").unwrap();
        let (copy, files) = (dir.path().join("copy.redb"), image.to_files().unwrap());
        std::fs::write(&copy, &files.database).unwrap();
        std::fs::write(copy.with_extension("generation"), &files.generation).unwrap();
        let restored = Store::open(&copy).unwrap();
        assert_eq!(restored.notes(), [""; 0]);
        assert_eq!((restored.identity(), restored.file("a")), (store.identity(), Some(b"content".to_vec())));
        assert_eq!(restored.rid("carl").unwrap(), store.rid("bob").unwrap());
        let read = StoreImage::read(files.database.clone()).unwrap();
        assert_eq!(read.contents, image.contents);
        for at in [0, 700, files.database.len() / 2] {
            assert!(StoreImage::read(files.database[..at].to_vec()).is_err());
        }
    }

    #[test]
    fn numbers_that_were_given_later_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.redb");
        Store::make(&path).unwrap();
        let store = Store::open(&path).unwrap();
        let ann = store.rid("ann").unwrap();
        let mut image = store.snapshot();
        let (bob, number) = (store.rid("bob").unwrap(), store.volume(Path::new("/srv/b")).unwrap());
        assert_eq!(image.keep_numbers_of(&store.snapshot()), 2);
        assert_eq!(image.keep_numbers_of(&store.snapshot()), 0);
        let copy = dir.path().join("copy.redb");
        std::fs::write(&copy, image.to_files().unwrap().database).unwrap();
        let restored = Store::open(&copy).unwrap();
        assert_eq!((restored.rid("ann").unwrap(), restored.rid("bob").unwrap()), (ann, bob));
        assert_eq!(restored.volume(Path::new("/srv/c")).unwrap(), number + 1);
    }
}
