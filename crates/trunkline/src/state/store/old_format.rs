//! The format of `state.redb` before its records had checksums. It is read once, and rewritten in one commit.

use redb::{Database, Key, ReadTransaction, ReadableTable, TableDefinition, TableError, Value};

use super::records::{Contents, Edits, Table, commit};
use super::{ACCOUNT_KEYS, BURST_CREDITS, IDENTITY, RIDS, StoreError, USAGE, USERS, VOLUMES};

/// Reads every table.
///
/// # Errors
/// [`StoreError`]
pub fn read(read: &ReadTransaction) -> Result<Contents, StoreError> {
    let mut contents = Contents::new();
    let text = |key: &str| key.as_bytes().to_vec();
    let bytes = |value: &[u8]| value.to_vec();
    let number = |value: u32| value.to_le_bytes().to_vec();
    for table in [USERS, ACCOUNT_KEYS, IDENTITY] {
        take::<&str, &[u8]>(read, &mut contents, table, text, bytes)?;
    }
    take::<&str, u32>(read, &mut contents, RIDS, text, number)?;
    take::<&[u8], u32>(read, &mut contents, VOLUMES, bytes, number)?;
    take::<u32, (u64, i64)>(read, &mut contents, BURST_CREDITS, number, |(count, at)| {
        [count.to_le_bytes(), at.to_le_bytes()].concat()
    })?;
    take::<u32, (u64, u64)>(read, &mut contents, USAGE, number, |(bytes, files)| {
        [bytes.to_le_bytes(), files.to_le_bytes()].concat()
    })?;
    Ok(contents)
}

fn take<K: Key + 'static, V: Value + 'static>(
    read: &ReadTransaction,
    contents: &mut Contents,
    table: Table,
    key: impl Fn(K::SelfType<'_>) -> Vec<u8>,
    body: impl Fn(V::SelfType<'_>) -> Vec<u8>,
) -> Result<(), StoreError> {
    let records = contents.entry(table).or_default();
    let open = match read.open_table(TableDefinition::<K, V>::new(table.0)) {
        // Not every version had all tables.
        Err(TableError::TableDoesNotExist(_)) => return Ok(()),
        other => other?,
    };
    for entry in open.iter()? {
        let (found, value) = entry?;
        records.insert(key(found.value()), body(value.value()));
    }
    Ok(())
}

/// Replaces the tables from which [`read`] read `contents` by tables of the new format.
///
/// # Errors
/// [`StoreError`]; nothing was changed.
pub fn remove(database: &Database, contents: &Contents) -> Result<(), StoreError> {
    let write = database.begin_write()?;
    for table in [USERS, ACCOUNT_KEYS, IDENTITY] {
        write.delete_table(TableDefinition::<&str, &[u8]>::new(table.0))?;
    }
    write.delete_table(TableDefinition::<&str, u32>::new(RIDS.0))?;
    write.delete_table(TableDefinition::<&[u8], u32>::new(VOLUMES.0))?;
    write.delete_table(TableDefinition::<u32, (u64, i64)>::new(BURST_CREDITS.0))?;
    write.delete_table(TableDefinition::<u32, (u64, u64)>::new(USAGE.0))?;
    let mut edits = Edits::default();
    for (table, records) in contents {
        records.iter().for_each(|(key, body)| edits.put(*table, key, body.clone()));
    }
    commit(write, &Contents::default(), &edits, 1)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use admin::{AccountKey, AccountKeys, NtHash};
    use redb::{ReadableDatabase, WriteTransaction};

    use super::super::{BurstCredits, Identity, Store, StoredUser};
    use super::*;

    fn user() -> StoredUser {
        StoredUser { name: "Ann".to_owned(), nt_hash: NtHash([7; 16]), uid: Some(1), gid: None, admin: true }
    }

    fn keys() -> AccountKeys {
        AccountKeys { key1: Some(AccountKey("secret".to_owned())), key2: None }
    }

    fn insert<K: Key + 'static, V: Value + 'static>(
        write: &WriteTransaction,
        table: &str,
        key: K::SelfType<'_>,
        value: V::SelfType<'_>,
    ) {
        write.open_table(TableDefinition::<K, V>::new(table)).unwrap().insert(key, value).unwrap();
    }

    /// Writes a database in the format without checksums.
    fn write_earlier(path: &Path) {
        let database = Database::create(path).unwrap();
        let write = database.begin_write().unwrap();
        insert::<&str, &[u8]>(&write, "users", "ann", &serde_json::to_vec(&user()).unwrap());
        insert::<&str, &[u8]>(&write, "account_keys", "lab", &serde_json::to_vec(&keys()).unwrap());
        insert::<&str, &[u8]>(&write, "identity", "guid", &[3; 16]);
        insert::<&str, &[u8]>(&write, "identity", "machine_sid", &[1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0]);
        insert::<&str, u32>(&write, "rids", "ann", 1007);
        insert::<&[u8], u32>(&write, "volumes", b"/srv/a", 5);
        insert::<u32, (u64, i64)>(&write, "burst_credits", 5, (9, -2));
        insert::<u32, (u64, u64)>(&write, "usage", 5, (4096, 3));
        write.commit().unwrap();
    }

    #[test]
    fn an_earlier_database_is_taken_over_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.redb");
        write_earlier(&path);
        for _ in 0..2 {
            let store = Store::open(&path).unwrap();
            assert_eq!(store.notes(), [""; 0]);
            assert_eq!(store.identity(), Identity { guid: [3; 16], machine_sid: [1, 2, 3] });
            assert_eq!(store.users().unwrap(), [user()]);
            assert_eq!(store.account_keys("Lab").unwrap(), keys());
            assert_eq!((store.rid("ann").unwrap(), store.volume(Path::new("/srv/a")).unwrap()), (1007, 5));
            assert_eq!(store.burst_credits(5).unwrap(), Some(BurstCredits { count: 9, at_ns: -2 }));
            assert_eq!(store.usage(5).unwrap(), Some((4096, 3)));
            assert_eq!(store.rid("bob").unwrap(), 1008);
        }
        // It has the new format now, without any table of the old one.
        let database = Database::open(&path).unwrap();
        let read = database.begin_read().unwrap();
        assert!(read.open_table(TableDefinition::<&str, u32>::new("rids")).is_err());
        assert!(read.open_table(TableDefinition::<&[u8], &[u8]>::new("rids")).is_ok());
    }

    #[test]
    fn an_earlier_one_without_an_identity_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.redb");
        drop(Database::create(&path).unwrap());
        let before = std::fs::read(&path).unwrap();
        let error = Store::open(&path).unwrap_err().to_string();
        assert!(error.contains("`guid` is missing") && error.contains("restore"), "{error}");
        assert!(std::fs::read(&path).unwrap() == before);
    }
}
