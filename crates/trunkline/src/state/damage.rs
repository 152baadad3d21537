//! Every file of a state directory, with one bit changed and cut short, at offsets by chance: it is refused
//! with a line that says what to do, taken with a line that says what is not as it was, or nothing of it has
//! changed.
//!
//! `DAMAGED_OFFSETS=500` tries so many of each file, `DAMAGED_OFFSETS=4096+512` the offsets from 4,096 on,
//! one after the other, and from the beginning again where a file ends: [`LONGEST`] of them are all.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use admin::{AccountKey, AccountKeys, NtHash};

use super::store::{BurstCredits, Identity, StoredUser};
use super::{ADMIN_TOKEN, FIRST_PASSWORD, StateDir};
use crate::config::CHANGES;

const SECRET: &str = "handle-key";
/// How many offsets of each file a quick run tries.
const QUICK: u64 = 16;
/// No file here is longer.
const LONGEST: usize = 200_000;

/// A directory, in memory where the host has one: nothing here is about what a disk keeps.
fn place() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Everything that a state directory says.
#[derive(Debug, PartialEq)]
struct Content {
    identity: Identity,
    users: Vec<StoredUser>,
    keys: AccountKeys,
    numbers: Vec<u32>,
    credits: Option<BurstCredits>,
    usage: Option<(u64, u64)>,
    secret: [u8; 32],
    files: BTreeMap<&'static str, Option<Vec<u8>>>,
}

fn user(name: &str) -> StoredUser {
    StoredUser { name: name.to_owned(), nt_hash: NtHash([7; 16]), uid: Some(1), gid: None, admin: false }
}

/// Fills a directory. It is open still: a copy of it is what a killed server leaves.
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
    store.keep_burst_credits(&[(1, BurstCredits { count: 7, at_ns: 1 })]).unwrap();
    store.keep_usage(&[(1, (10, 1))]).unwrap();
    state.secret(SECRET).unwrap();
    state.token(ADMIN_TOKEN).unwrap();
    state.write_file(FIRST_PASSWORD, b"correct horse\nann\n").unwrap();
    state.write_file(CHANGES, b"[share.a]\npath = \"/srv/a\"\n\n[share.b]\npath = \"/srv/b\"\n").unwrap();
    drop(state);
    // Its last change is one that a record of a user has.
    let state = StateDir::open(dir).unwrap();
    state.store().put_user(&StoredUser { nt_hash: NtHash([9; 16]), ..user("user-7") }).unwrap();
    state
}

/// What is read of a directory, and what is told of it.
fn read(dir: &Path) -> Result<(Content, Vec<String>), String> {
    let state = StateDir::open(dir).map_err(|e| e.to_string())?;
    let notes = state.look_over();
    let store = state.store();
    let content = Content {
        identity: store.identity(),
        users: store.users().unwrap(),
        keys: store.account_keys("lab").unwrap(),
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

/// A copy of a directory without directories in it.
fn copy(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten().filter(|entry| entry.path().is_file()) {
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// The offsets to try of a file of this length.
fn offsets(length: u64) -> Vec<u64> {
    let told = std::env::var("DAMAGED_OFFSETS").unwrap_or_else(|_| QUICK.to_string());
    let number = |text: &str| text.parse::<u64>().unwrap();
    match told.split_once('+') {
        Some((first, count)) => {
            let (first, count) = (number(first), number(count).min(length));
            (first..first + count).map(|at| at % length).collect()
        }
        None => {
            // An odd step meets places of every kind.
            let step = (length / number(&told)).max(1) | 1;
            (0..length).step_by(usize::try_from(step).unwrap()).collect()
        }
    }
}

/// Which bits of a byte to change: in what redb has no checksum over, all of them.
fn bits(at: usize) -> std::ops::Range<usize> {
    if at < 64 { 0..8 } else { at % 8..at % 8 + 1 }
}

/// What was wrong with a file that was damaged so; none: nothing.
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
            // Of what is in the database nothing may be another, whatever is told.
            let same = Content { files: before.files.clone(), ..content } == *before;
            (!same).then(|| format!("another identity or user: {notes:?}"))
        }
    }
}

#[test]
fn damage_to_a_file_is_refused_told_or_changes_nothing() {
    let place = place();
    let [open, closed, killed, tried] =
        ["open", "closed", "killed", "tried"].map(|name| place.path().join(name));
    let state = filled(&open);
    copy(&open, &killed);
    drop(state);
    copy(&open, &closed);
    let (before, notes) = read(&open).unwrap();
    assert!(notes.is_empty() && before.users.iter().any(|user| user.nt_hash == NtHash([9; 16])), "{notes:?}");
    for name in
        ["state.redb", "state.generation", "version", "lock", SECRET, ADMIN_TOKEN, FIRST_PASSWORD, CHANGES]
    {
        // Only the database is another when the server was killed.
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
    let place = place();
    let (whole, tried) = (place.path().join("whole"), place.path().join("tried"));
    drop(filled(&whole));
    let (before, _) = read(&whole).unwrap();
    for name in
        ["state.redb", "state.generation", "version", "lock", SECRET, ADMIN_TOKEN, FIRST_PASSWORD, CHANGES]
    {
        copy(&whole, &tried);
        fs::remove_file(tried.join(name)).unwrap();
        if name == "version" {
            // A directory of volumes tells it from one that was just begun.
            fs::create_dir(tried.join("volumes")).unwrap();
        }
        assert_eq!(wrong(&tried, &before), None, "{name}");
    }
}
