//! Backups while users, shares and opens change all the time. Each is restored, and must be equal to one
//! moment.
//!
//! The changes are made one after the other, and change N is confirmed before N + 1 is begun. So the state of
//! one moment is that after the changes 0 to M, for some M ([`State::after`]). M is not earlier than the last
//! change that was confirmed before the backup, and not later than the last one that was begun when it ended.
//!
//! `BACKUPS=7+50` makes 50 backups, from the 7th change on. The test prints the rate of changes and the
//! longest time for which clients had to wait for a backup.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use admin::objects::{Change, ChangeAction, Kind};
use admin::{ControlClient, IdChange, Request, UserChange};
use client::nfs::{Client, Creation, ExportDirectory, ExportFile, OpenOptions};
use serde_json::Value;
use volume_posix::PosixJournal;

use crate::LiveServer;

/// The number of each kind of object.
const USERS: u64 = 4;
const SHARES: u64 = 2;
const FILES: u64 = 12;
/// One of this many changes is that of a user, and one that of a share.
const ROUND: u64 = 10;
/// The user id of a user after change N is this plus N.
const FIRST_UID: u64 = 10_000;

/// One change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StateChange {
    /// The user gets another user id.
    User(u64),
    /// The share gets another comment.
    Share(u64),
    /// The file is opened if it is closed, and closed if it is open.
    File(u64),
}

fn step(number: u64) -> StateChange {
    let (round, at) = (number / ROUND, number % ROUND);
    match at {
        0 => StateChange::User(round % USERS),
        5 => StateChange::Share(round % SHARES),
        _ => StateChange::File((round * (ROUND - 2) + at) % FILES),
    }
}

/// The state after some changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct State {
    /// The number of the last change of each user, and of each share.
    users: [Option<u64>; USERS as usize],
    shares: [Option<u64>; SHARES as usize],
    open: BTreeSet<u64>,
}

impl State {
    fn apply(&mut self, number: u64) {
        match step(number) {
            StateChange::User(user) => self.users[user as usize] = Some(number),
            StateChange::Share(share) => self.shares[share as usize] = Some(number),
            StateChange::File(file) => {
                if !self.open.remove(&file) {
                    self.open.insert(file);
                }
            }
        }
    }

    /// The state after the changes from `first` to `last`.
    fn after(first: u64, last: u64) -> State {
        let mut state = State::default();
        (first..=last).for_each(|number| state.apply(number));
        state
    }
}

/// The server and its clients.
struct Changer {
    state_dir: std::path::PathBuf,
    shares: Vec<ExportDirectory>,
    files: Vec<Option<ExportFile>>,
}

impl Changer {
    async fn make(&mut self, number: u64) {
        match step(number) {
            StateChange::User(user) => {
                let uid = u32::try_from(FIRST_UID + number).unwrap();
                let name = format!("user-{user}");
                let change = UserChange {
                    name,
                    add: false,
                    nt_hash: None,
                    uid: IdChange::To(uid),
                    gid: IdChange::Keep,
                    admin: None,
                };
                self.ask(Request::ChangeUser(change)).await;
            }
            StateChange::Share(share) => {
                let settings = [("comment".to_owned(), Value::from(format!("change {number}")))];
                let what = ChangeAction::Set { settings: settings.into_iter().collect() };
                let name = format!("share-{share}");
                let change = Change { kind: Kind::Share, name, what, if_version: None };
                self.ask(Request::Change(Box::new(change))).await;
            }
            StateChange::File(file) => match self.files[file as usize].take() {
                Some(open) => open.close().await.unwrap(),
                None => {
                    let share = &self.shares[(file % SHARES) as usize];
                    let how = OpenOptions::write(Creation::IfMissing(0o644));
                    let open = share.open(&format!("file-{file}"), &how).await.unwrap();
                    self.files[file as usize] = Some(open);
                }
            },
        }
    }

    async fn ask(&self, request: Request) {
        let dir = self.state_dir.clone();
        let ask = move || ControlClient::connect(&dir).unwrap().ask(&request).unwrap();
        tokio::task::spawn_blocking(ask).await.unwrap();
    }
}

/// The state in a restored directory.
fn restored(dir: &Path, users: &Value, inodes: &[u64]) -> State {
    let mut state = State::default();
    for (name, last) in (0..).map(|user| format!("user-{user}")).zip(&mut state.users) {
        let found = users.as_array().unwrap().iter().find(|user| user["name"] == *name).unwrap();
        *last = found["uid"].as_u64().unwrap().checked_sub(FIRST_UID);
    }
    let changes: toml::Table = std::fs::read_to_string(dir.join("changes.toml")).unwrap().parse().unwrap();
    for (name, last) in (0..).map(|share| format!("share-{share}")).zip(&mut state.shares) {
        let comment = changes["share"][&name].get("comment").and_then(toml::Value::as_str);
        *last = comment.and_then(|comment| comment.strip_prefix("change ")?.parse().ok());
    }
    let journals = std::fs::read_dir(dir.join("volumes")).unwrap().map(|entry| entry.unwrap().path());
    for journal in journals.filter(|path| path.extension().is_some_and(|ending| ending == "opens")) {
        let (_, found) = PosixJournal::open(&journal).unwrap();
        assert_eq!(found.damage, []);
        for inode in share::persistence::recorded_inodes(&found.records).unwrap() {
            let file = inodes.iter().position(|known| *known == inode).expect("a file of this test");
            assert!(state.open.insert(file as u64), "file {file} is open twice");
        }
    }
    state
}

/// The first change and the number of backups.
fn wanted() -> (u64, u64) {
    let text = std::env::var("BACKUPS").unwrap_or_else(|_| "0+3".to_owned());
    let (seed, count) = text.split_once('+').expect("BACKUPS=seed+count");
    (seed.parse::<u64>().unwrap() % 1000, count.parse().unwrap())
}

/// The longest time for which the server held its locks for a backup, in microseconds, from its log.
fn longest_held_us(server: &LiveServer) -> u64 {
    let log = std::fs::read_to_string(server.program.path().join("log")).unwrap();
    let held = log.lines().filter_map(|line| {
        let rest = line.split("held_us").nth(1)?;
        let digits: String =
            rest.chars().skip_while(|c| !c.is_ascii_digit()).take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    });
    held.max().expect("a backup")
}

/// Whether `found` is the state after one of the changes from `earliest` to `latest`.
fn is_one_moment(found: &State, first: u64, earliest: u64, latest: u64) -> bool {
    let mut state = State::after(first, earliest);
    (earliest..=latest).any(|last| {
        if last > earliest {
            state.apply(last);
        }
        state == *found
    })
}

/// Whether a restored state has the record of an NFS client.
fn has_client_record(state: &Path) -> bool {
    std::fs::read_dir(state).unwrap().any(|entry| {
        let entry = entry.unwrap();
        entry.file_name().to_string_lossy().starts_with("nfs-clients.")
            && entry.metadata().unwrap().len() > 100
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_backup_under_load_is_equal_to_one_moment() {
    let (first, count) = wanted();
    let server = LiveServer::start();
    let dir = server.program.path().to_owned();
    for user in 0..USERS {
        server.says(&format!("user add user-{user} --password-file password --uid 1")).await;
    }
    let client = Client::connect(server.nfs, client::nfs::Options::default()).await.unwrap();
    let mut changer = Changer { state_dir: dir.join("state"), shares: Vec::new(), files: Vec::new() };
    for share in 0..SHARES {
        std::fs::create_dir(dir.join(format!("dir-{share}"))).unwrap();
        let settings = "users=anna=full protocols=nfs nfs_secure_port=off root_squash=none";
        server.says(&format!("share create share-{share} path=dir-{share} {settings}")).await;
        changer.shares.push(client.directory(&format!("/share-{share}")).await.unwrap());
    }
    let mut inodes = Vec::new();
    for file in 0..FILES {
        let path = dir.join(format!("dir-{}/file-{file}", file % SHARES));
        std::fs::write(&path, "").unwrap();
        inodes.push(path.metadata().unwrap().ino());
        changer.files.push(None);
    }
    let ends = Arc::new(AtomicBool::new(false));
    // The numbers of the next change to begin, and of the next one to be confirmed.
    let (begun, confirmed) = (Arc::new(AtomicU64::new(first)), Arc::new(AtomicU64::new(first)));
    let work = {
        let (ends, begun, confirmed) = (Arc::clone(&ends), Arc::clone(&begun), Arc::clone(&confirmed));
        async move {
            let since = Instant::now();
            for number in first.. {
                if ends.load(Ordering::SeqCst) {
                    break;
                }
                begun.store(number + 1, Ordering::SeqCst);
                changer.make(number).await;
                confirmed.store(number + 1, Ordering::SeqCst);
            }
            since.elapsed()
        }
    };
    let work = tokio::spawn(work);
    for number in 0..count {
        // All users and shares have been changed at least once.
        while confirmed.load(Ordering::SeqCst) < first + 2 * ROUND * USERS {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        let earliest = confirmed.load(Ordering::SeqCst) - 1;
        server.says("backup b.tar").await;
        let latest = begun.load(Ordering::SeqCst) - 1;
        let copy = dir.join("copy");
        server.says("restore b.tar --state-dir copy").await;
        let users = server.json("user list --state-dir copy").await;
        let found = restored(&copy, &users, &inodes);
        let is_moment = is_one_moment(&found, first, earliest, latest);
        assert!(is_moment, "backup {number}: no moment from {earliest} to {latest} is {found:?}");
        assert!(has_client_record(&copy), "backup {number}");
        std::fs::remove_dir_all(&copy).unwrap();
    }
    ends.store(true, Ordering::SeqCst);
    let took = work.await.unwrap();
    let changes = confirmed.load(Ordering::SeqCst) - first;
    println!(
        "{count} backups, {changes} changes, {:.0} a second; clients waited for a backup {} us at most",
        changes as f64 / took.as_secs_f64(),
        longest_held_us(&server)
    );
}
