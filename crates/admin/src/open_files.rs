//! Open files and locks as an administrator sees and closes them: one row for each open and each locked
//! range.
//!
//! [`opens`] and [`locks`] make the rows from a [`Status`]. Each row has an id, with which
//! [`crate::Controlled::close_open`] closes it.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use crate::Status;
use crate::overview::{Rows, TableFilter, rows};
use crate::status::{LockedFile, Open, OpenFile};

/// A file in use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileInUse {
    /// `smb` or `nfs`.
    pub protocol: String,
    /// The share's name.
    pub share: String,
    /// The path inside the share.
    pub path: String,
    /// The user's name.
    pub user: String,
}

/// A file in use that can be closed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closable {
    /// The id by which it can be closed or released.
    pub id: String,
    /// The client's address; empty while the client is away.
    pub client: String,
    /// The file.
    #[serde(flatten)]
    pub file: FileInUse,
}

/// One open of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenRow {
    /// The file, its client and its id.
    #[serde(flatten)]
    pub of: Closable,
    /// The access that it has, such as `RW`.
    pub access: String,
    /// The access that it leaves to others, such as `RWD`.
    pub sharing: String,
    /// The rights to cache that its client has, such as `RH`.
    pub caching: String,
    /// The kind of the right to cache: `lease`, `batch`, `exclusive`, `level_ii`, `delegation` or `none`.
    pub oplock: String,
    /// Locked byte ranges.
    pub locks: usize,
    /// The start, RFC 3339.
    pub opened_at: String,
}

/// One locked byte range.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockRow {
    /// The file, its client and the id.
    #[serde(flatten)]
    pub of: Closable,
    /// `R` (shared) or `W` (exclusive).
    pub kind: String,
    /// The first byte.
    pub start: u64,
    /// The number of bytes.
    pub size: u64,
}

/// The state that was closed with an open or a lock.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClosedState {
    /// The file.
    #[serde(flatten)]
    pub file: FileInUse,
    /// Opens that were closed.
    pub opens: usize,
    /// Lock-owners that lost their locks.
    pub lock_owners: usize,
    /// Delegations that were revoked.
    pub delegations: usize,
}

/// Both tables, of the same moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenTables {
    /// The opens.
    pub opens: Rows<OpenRow>,
    /// The locks.
    pub locks: Rows<LockRow>,
}

impl OpenTables {
    /// The opens and locks that `filter` chooses.
    #[must_use]
    pub fn new(status: &Status, filter: &TableFilter) -> OpenTables {
        OpenTables { opens: opens(status, filter), locks: locks(status, filter) }
    }
}

/// The opens that `filter` chooses.
#[must_use]
pub fn opens(status: &Status, filter: &TableFilter) -> Rows<OpenRow> {
    let clients = ClientAddresses::new(status);
    let mut locks: HashMap<&str, usize> = HashMap::new();
    for lock in status.byte_range_locks.values().flat_map(|file| &file.locks) {
        *locks.entry(&lock.open_id).or_default() += 1;
    }
    let all: Vec<(&OpenFile, &Open)> = status
        .open_files
        .values()
        .flat_map(|file| file.opens.values().map(move |open| (file, open)))
        .collect();
    let fits = |(file, open): &(&OpenFile, &Open)| {
        filter.is_in([&*file.filename, &file.share, &open.username, clients.of(open)])
    };
    rows(all.into_iter(), filter.most, fits, |(file, open)| OpenRow {
        of: Closable {
            id: open.close_id.clone(),
            client: clients.of(open).to_owned(),
            file: FileInUse {
                protocol: open.protocol.clone(),
                share: file.share.clone(),
                path: file.filename.clone(),
                user: open.username.clone(),
            },
        },
        access: open.access_mask.text.clone(),
        sharing: open.sharemode.text.clone(),
        caching: open.caching.text.clone(),
        oplock: open.oplock.clone(),
        locks: locks.get(open.close_id.as_str()).copied().unwrap_or_default(),
        opened_at: open.opened_at.clone(),
    })
}

/// The locks that `filter` chooses.
#[must_use]
pub fn locks(status: &Status, filter: &TableFilter) -> Rows<LockRow> {
    let clients = ClientAddresses::new(status);
    let opens = status.open_files.values().flat_map(|file| file.opens.values());
    let opens: HashMap<&str, &Open> = opens.map(|open| (open.close_id.as_str(), open)).collect();
    let row = |file: &LockedFile, lock: &crate::status::Lock| {
        let open = opens.get(lock.open_id.as_str());
        LockRow {
            of: Closable {
                id: lock.close_id.clone(),
                client: open.map_or_else(String::new, |open| clients.of(open).to_owned()),
                file: FileInUse {
                    protocol: lock.protocol.clone(),
                    share: file.share.clone(),
                    path: file.filename.clone(),
                    user: open.map_or_else(String::new, |open| open.username.clone()),
                },
            },
            kind: lock.kind.clone(),
            start: lock.start,
            size: lock.size,
        }
    };
    let all: Vec<LockRow> = status
        .byte_range_locks
        .values()
        .flat_map(|file| file.locks.iter().map(move |lock| (file, lock)))
        .map(|(file, lock)| row(file, lock))
        .collect();
    let fits = |row: &LockRow| {
        let Closable { client, file, .. } = &row.of;
        filter.is_in([&*file.path, &file.share, &file.user, client])
    };
    rows(all.into_iter(), filter.most, fits, |row| row)
}

/// The addresses of clients by SMB session and NFS client ID.
struct ClientAddresses<'a> {
    nfs: BTreeMap<&'a str, &'a str>,
    status: &'a Status,
}

impl<'a> ClientAddresses<'a> {
    fn new(status: &'a Status) -> ClientAddresses<'a> {
        let clients = status.nfs.clients.iter();
        let nfs = clients.map(|client| (client.client_id.as_str(), client.address.as_str())).collect();
        ClientAddresses { nfs, status }
    }

    /// The address of the client of an open; empty while the client is away.
    fn of(&self, open: &Open) -> &'a str {
        let session = self.status.sessions.get(&open.session_id);
        let of_session = session.map(|session| session.remote_machine.as_str());
        of_session.or_else(|| self.nfs.get(open.client_id.as_str()).copied()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::{Lock, Mask, Session};

    /// Two users that have the same file open; the first has locked two ranges of it.
    fn status() -> Status {
        let open = |user: &str, session: &str| Open {
            close_id: format!("smb-{session}-1"),
            session_id: session.to_owned(),
            protocol: "smb".to_owned(),
            username: user.to_owned(),
            access_mask: Mask::new(3, &[(1, "R"), (2, "W")]),
            ..Open::default()
        };
        let file = OpenFile {
            share: "docs".to_owned(),
            filename: "plans/a.txt".to_owned(),
            opens: [("1/1", open("ann", "1")), ("2/1", open("bob", "2"))]
                .map(|(id, open)| (id.to_owned(), open))
                .into(),
            ..OpenFile::default()
        };
        let id = || "smb-1-1".to_owned();
        let lock = |start| Lock { close_id: id(), open_id: id(), start, size: 5, ..Lock::default() };
        let locked = LockedFile {
            share: "docs".to_owned(),
            filename: "plans/a.txt".to_owned(),
            locks: vec![lock(0), lock(10)],
            ..LockedFile::default()
        };
        let session = Session { remote_machine: "192.0.2.7".to_owned(), ..Session::default() };
        Status {
            sessions: [("1".to_owned(), session)].into(),
            open_files: [("/srv/plans/a.txt".to_owned(), file)].into(),
            byte_range_locks: [("/srv/plans/a.txt".to_owned(), locked)].into(),
            ..Status::default()
        }
    }

    fn filter(find: &str) -> TableFilter {
        TableFilter { find: find.to_owned(), most: 10, ..TableFilter::default() }
    }

    #[test]
    fn each_open_is_a_row_with_its_user_client_and_locks() {
        let all = opens(&status(), &filter(""));
        assert_eq!((all.total, all.found), (2, 2));
        let ann = &all.rows[0];
        assert_eq!((ann.of.id.as_str(), ann.of.file.user.as_str(), ann.locks), ("smb-1-1", "ann", 2));
        assert_eq!((ann.of.client.as_str(), ann.access.as_str()), ("192.0.2.7", "RW"));
        assert_eq!(all.rows[1].of.client, "", "its client is away");
        for (find, found) in [("BOB", 1), ("plans", 2), ("192.0.2", 1), ("docs", 2), ("none", 0)] {
            assert_eq!(opens(&status(), &filter(find)).found, found, "{find}");
        }
    }

    #[test]
    fn a_lock_is_of_the_user_of_its_open() {
        let all = locks(&status(), &filter("ann"));
        assert_eq!((all.total, all.found), (2, 2));
        assert_eq!((all.rows[1].start, all.rows[1].of.client.as_str()), (10, "192.0.2.7"));
        assert_eq!(locks(&status(), &filter("bob")).found, 0);
    }
}
