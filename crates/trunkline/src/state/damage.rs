//! Tests that damage every file of a state directory: they change one bit or truncate the file, at many
//! offsets. The directory must be refused with a line that says what to do, or accepted with a line that says
//! what differs, or its content must be unchanged.
//!
//! `DAMAGED_OFFSETS=500` tries this many offsets of each file. `DAMAGED_OFFSETS=4096+512` tries 512
//! consecutive offsets from 4,096 on, and continues at the beginning where a file ends. [`LONGEST`] of them
//! cover all offsets.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use admin::{AccountKey, AccountKeys, NtHash};

use super::store::tokens::StoredToken;
use super::store::{BurstCredits, Identity, StoredUser};
use super::{ADMIN_TOKEN, FIRST_PASSWORD, StateDir};
use crate::config::CHANGES;

const SECRET: &str = "handle-key";
/// The number of offsets of each file in a quick run.
const QUICK: u64 = 16;
/// An upper bound of the files' lengths.
const LONGEST: usize = 200_000;

/// A directory, in memory if the host has one. These tests do not depend on a disk.
fn scratch_dir() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// The complete content of a state directory.
#[derive(Debug, PartialEq)]
struct Content {
    identity: Identity,
    users: Vec<StoredUser>,
    keys: AccountKeys,
    tokens: Vec<StoredToken>,
    numbers: Vec<u32>,
    credits: Option<BurstCredits>,
    usage: Option<(u64, u64)>,
    secret: [u8; 32],
    files: BTreeMap<&'static str, Option<Vec<u8>>>,
}

fn user(name: &str) -> StoredUser {
    StoredUser { name: name.to_owned(), nt_hash: NtHash([7; 16]), uid: Some(1), gid: None, admin: false }
}

/// Fills a directory. It is still open: a copy of it is like that of a killed server.
fn filled(dir: &Path) -> StateDir {
    let state = StateDir::open(dir).unwrap();
    let store = state.store();
    for name in 0..20 {
        store.put_user(&user(&format!("user-{name}"))).unwrap();
        store.rid(&format!("user-{name}")).unwrap();
        state.volume_dir(Path::new(&format!("/srv/{name}"))).unwrap();
    }
    store
        .put_account_keys("lab", &AccountKeys { key1: Some(AccountKey("secret".to_owned())), key2: None })
        .unwrap();
    let token = StoredToken {
        name: "ops".to_owned(),
        role: admin::access::Role::Operate,
        hash: [5; 32],
        created_ns: 1,
        expires_ns: None,
        last_used_ns: None,
    };
    store.add_token(&token, 1).unwrap();
    store.keep_burst_credits(&[(1, BurstCredits { count: 7, at_ns: 1 })]).unwrap();
    store.keep_usage(&[(1, (10, 1))]).unwrap();
    state.secret(SECRET).unwrap();
    state.token(ADMIN_TOKEN).unwrap();
    state.write_file(FIRST_PASSWORD, b"correct horse\nann\n").unwrap();
    state.write_file(CHANGES, b"[share.a]\npath = \"/srv/a\"\n\n[share.b]\npath = \"/srv/b\"\n").unwrap();
    drop(state);
    // The last change is that of a user's record.
    let state = StateDir::open(dir).unwrap();
    state.store().put_user(&StoredUser { nt_hash: NtHash([9; 16]), ..user("user-7") }).unwrap();
    state
}

/// Reads the content of a directory, and the notes about it.
fn read(dir: &Path) -> Result<(Content, Vec<String>), String> {
    let state = StateDir::open(dir).map_err(|e| e.to_string())?;
    let notes = state.check_files();
    let store = state.store();
    let content = Content {
        identity: store.identity(),
        users: store.users().unwrap(),
        keys: store.account_keys("lab").unwrap(),
        tokens: store.tokens().unwrap(),
        numbers: (0..20)
            .flat_map(|n| {
                [
                    store.rid(&format!("user-{n}")).unwrap(),
                    state.number(Path::new(&format!("/srv/{n}"))).unwrap(),
                ]
            })
            .collect(),
        credits: store.burst_credits(1).unwrap(),
        usage: store.usage(1).unwrap(),
        secret: state.secret(SECRET).unwrap(),
        files: [ADMIN_TOKEN, FIRST_PASSWORD, CHANGES]
            .map(|name| (name, fs::read(dir.join(name)).ok()))
            .into(),
    };
    Ok((content, notes))
}

/// Copies a directory without its subdirectories.
fn copy(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten().filter(|entry| entry.path().is_file()) {
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// The offsets to try for a file of this length.
fn offsets(length: u64) -> Vec<u64> {
    let told = std::env::var("DAMAGED_OFFSETS").unwrap_or_else(|_| QUICK.to_string());
    let number = |text: &str| text.parse::<u64>().unwrap();
    match told.split_once('+') {
        Some((first, count)) => {
            let (first, count) = (number(first), number(count).min(length));
            (first..first + count).map(|at| at % length).collect()
        }
        None => {
            // With an odd step, all kinds of positions are tried.
            let step = (length / number(&told)).max(1) | 1;
            (0..length).step_by(usize::try_from(step).unwrap()).collect()
        }
    }
}

/// The bits of a byte to change. These are all bits of the parts that have no checksum in redb.
fn bits(at: usize) -> std::ops::Range<usize> {
    if at < 64 { 0..8 } else { at % 8..at % 8 + 1 }
}

/// The error in the handling of a damaged directory. None if it was handled correctly.
fn wrong(dir: &Path, before: &Content) -> Option<String> {
    match read(dir) {
        Err(refusal)
            if ["restore", "give another one with --state-dir"]
                .iter()
                .any(|advice| refusal.contains(advice)) =>
        {
            None
        }
        Err(refusal) => Some(format!("refused without advice: {refusal}")),
        Ok((content, notes)) if content != *before && notes.is_empty() => {
            Some(format!("changed without a word: {content:?}"))
        }
        Ok((content, notes)) => {
            // The content of the database must not differ, even with a note.
            let same = Content { files: before.files.clone(), ..content } == *before;
            (!same).then(|| format!("another identity or user: {notes:?}"))
        }
    }
}

#[test]
fn damage_to_a_file_is_refused_told_or_changes_nothing() {
    let scratch = scratch_dir();
    let [open, closed, killed, tried] =
        ["open", "closed", "killed", "tried"].map(|name| scratch.path().join(name));
    let state = filled(&open);
    copy(&open, &killed);
    drop(state);
    copy(&open, &closed);
    let (before, notes) = read(&open).unwrap();
    assert!(notes.is_empty() && before.users.iter().any(|user| user.nt_hash == NtHash([9; 16])), "{notes:?}");
    for name in
        ["state.redb", "state.generation", "version", "lock", SECRET, ADMIN_TOKEN, FIRST_PASSWORD, CHANGES]
    {
        // Only the database differs after the server was killed.
        let wholes = if name == "state.redb" { vec![&closed, &killed] } else { vec![&closed] };
        for whole in wholes {
            let bytes = fs::read(whole.join(name)).unwrap();
            assert!(bytes.len() <= LONGEST, "{name}: {}", bytes.len());
            for at in offsets(bytes.len() as u64) {
                let at = usize::try_from(at).unwrap();
                let damaged = bits(at).map(|bit| {
                    let mut changed = bytes.clone();
                    changed[at] ^= 1 << bit;
                    ("a bit of byte", changed)
                });
                for (what, bytes) in damaged.chain([("cut at", bytes[..at].to_vec())]) {
                    copy(whole, &tried);
                    fs::write(tried.join(name), bytes).unwrap();
                    let wrong = wrong(&tried, &before);
                    assert_eq!(wrong, None, "{}/{name}: {what} {at}", whole.display());
                }
            }
        }
    }
}

#[test]
fn a_missing_file_is_refused_or_told() {
    let scratch = scratch_dir();
    let (whole, tried) = (scratch.path().join("whole"), scratch.path().join("tried"));
    drop(filled(&whole));
    let (before, _) = read(&whole).unwrap();
    for name in
        ["state.redb", "state.generation", "version", "lock", SECRET, ADMIN_TOKEN, FIRST_PASSWORD, CHANGES]
    {
        copy(&whole, &tried);
        fs::remove_file(tried.join(name)).unwrap();
        if name == "version" {
            // A directory `volumes` shows that this is not a directory that was just created.
            fs::create_dir(tried.join("volumes")).unwrap();
        }
        assert_eq!(wrong(&tried, &before), None, "{name}");
    }
}
