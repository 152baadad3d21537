//! Backups while users, shares and opens change all the time. Each is restored, and must be equal to one
//! moment.
//!
//! Several chains of changes run beside each other ([`ChangeChain`]): users and shares over the control
//! socket, opens and closes over NFS, and persistent opens and closes over SMB. A chain confirms change N
//! before it begins N + 1, and [`Span`] has the time of both. So the state of one moment is that after some
//! number of changes of each chain, and there is an instant that lies for each chain between the begin of its
//! last change and the confirmation of the next one ([`is_one_moment`]). The instant lies within the backup.
//!
//! `BACKUPS=7+50` makes 50 backups, with users and comments that are numbered from 7 on.
//! `BACKUPS_LEAST_RATE=1000` repeats those backups since the one before which fewer changes a second were
//! made, up to as many times again. `BACKUPS_OUT` is a file for the numbers, as a line of JSON for
//! `proving/soak/run.py`. The test prints them too.

mod chains;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use volume_posix::PosixJournal;

use crate::LiveServer;
use chains::{ChainKind, ChangeChain, ChangeHistory, FIRST_UID, Span};

/// The state of the objects of one chain.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ChainState {
    /// The number of the last change of each object.
    LastChanges(Vec<Option<u64>>),
    /// The open files, by their numbers.
    OpenFiles(BTreeSet<u64>),
}

/// The state of a chain's objects after its first `changes` changes.
fn state_after(kind: ChainKind, first: u64, changes: u64) -> ChainState {
    let objects = kind.objects();
    if kind.is_of_files() {
        // The objects are opened in turn, and then closed in turn.
        let (rounds, rest) = (changes / objects, changes % objects);
        let is_open = |file: &u64| (rounds + u64::from(*file < rest)) % 2 == 1;
        return ChainState::OpenFiles((0..objects).filter(is_open).collect());
    }
    let last = |object: u64| {
        let rounds = (changes + objects - 1 - object) / objects;
        rounds.checked_sub(1).map(|before| first + before * objects + object)
    };
    ChainState::LastChanges((0..objects).map(last).collect())
}

/// A restored state directory.
struct RestoredState<'a> {
    dir: &'a Path,
    users: Value,
    changes: toml::Table,
    /// The inode numbers of all open files.
    open: Vec<u64>,
}

impl<'a> RestoredState<'a> {
    async fn read(server: &LiveServer, dir: &'a Path) -> RestoredState<'a> {
        let users = server.json("user list --state-dir copy").await;
        let changes = std::fs::read_to_string(dir.join("changes.toml")).unwrap().parse().unwrap();
        let files = std::fs::read_dir(dir.join("volumes")).unwrap().map(|entry| entry.unwrap().path());
        let mut open = Vec::new();
        for journal in files.filter(|path| path.extension().is_some_and(|ending| ending == "opens")) {
            let (_, found) = PosixJournal::open(&journal).unwrap();
            assert_eq!(found.damage, []);
            open.extend(share::persistence::recorded_inodes(&found.records).unwrap());
        }
        RestoredState { dir, users, changes, open }
    }

    fn user(&self, name: &str) -> Option<u64> {
        let user = self.users.as_array().unwrap().iter().find(|user| user["name"] == *name).unwrap();
        user["uid"].as_u64().unwrap().checked_sub(FIRST_UID)
    }

    fn share(&self, name: &str) -> Option<u64> {
        let comment = self.changes["share"][name].get("comment").and_then(toml::Value::as_str);
        comment.and_then(|comment| comment.strip_prefix("change ")?.parse().ok())
    }

    /// The state of the objects of a chain. It takes their open files out.
    fn take(&mut self, chain: &WatchedChain) -> ChainState {
        let objects = 0..chain.kind.objects();
        match chain.kind {
            ChainKind::Users => {
                ChainState::LastChanges(objects.map(|number| self.user(&format!("user-{number}"))).collect())
            }
            ChainKind::Shares => ChainState::LastChanges(
                objects.map(|number| self.share(&format!("share-{number}"))).collect(),
            ),
            ChainKind::Nfs | ChainKind::Smb => {
                let mut open = BTreeSet::new();
                self.open.retain(|inode| {
                    let file = chain.inodes.iter().position(|known| known == inode);
                    assert!(file.is_none_or(|file| open.insert(file as u64)), "a file is open twice");
                    file.is_none()
                });
                ChainState::OpenFiles(open)
            }
        }
    }

    /// Whether it has the record of an NFS client.
    fn has_client_record(&self) -> bool {
        std::fs::read_dir(self.dir).unwrap().any(|entry| {
            let entry = entry.unwrap();
            entry.file_name().to_string_lossy().starts_with("nfs-clients.")
                && entry.metadata().unwrap().len() > 100
        })
    }
}

/// A chain that runs, as the test sees it.
struct WatchedChain {
    kind: ChainKind,
    history: ChangeHistory,
    inodes: Vec<u64>,
    work: tokio::task::JoinHandle<()>,
}

impl WatchedChain {
    /// The number of confirmed changes.
    fn confirmed(&self) -> usize {
        let history = self.history.lock();
        history.len() - history.last().map_or(0, |last| usize::from(last.confirmed.is_none()))
    }

    /// The spans of time within `backup` at which the chain's objects may have been in the state `found`.
    fn instants_of(&self, found: &ChainState, first: u64, backup: Span) -> Vec<Span> {
        let history = self.history.lock();
        let end = backup.confirmed.expect("the backup has ended");
        let mut spans = Vec::new();
        // Backwards: only the last changes can have been the last ones before this backup.
        for changes in (0..=history.len()).rev() {
            let begun = changes.checked_sub(1).map_or(Duration::ZERO, |last| history[last].begun);
            let next = history.get(changes).and_then(|next| next.confirmed).unwrap_or(Duration::MAX);
            if next < backup.begun {
                break;
            }
            if begun <= end && state_after(self.kind, first, changes as u64) == *found {
                spans.push(Span { begun: begun.max(backup.begun), confirmed: Some(next.min(end)) });
            }
        }
        spans
    }
}

/// Whether there is an instant that lies in a span of each chain.
fn is_one_moment(chains: &[Vec<Span>]) -> bool {
    let has = |spans: &[Span], instant: Duration| {
        spans.iter().any(|span| span.begun <= instant && span.confirmed.is_some_and(|end| instant <= end))
    };
    chains.iter().flatten().any(|span| chains.iter().all(|spans| has(spans, span.begun)))
}

/// The number of the first change, and the number of backups.
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

/// The chains of changes, and the clock of their histories.
struct ChangeLoad {
    first: u64,
    clock: Instant,
    chains: Vec<WatchedChain>,
    ends: Arc<AtomicBool>,
}

impl ChangeLoad {
    /// Starts one chain of each kind.
    async fn start(server: &LiveServer, first: u64) -> ChangeLoad {
        let mut load = ChangeLoad {
            first,
            clock: Instant::now(),
            chains: Vec::new(),
            ends: Arc::new(AtomicBool::new(false)),
        };
        for kind in ChainKind::ALL {
            let (mut chain, inodes) = ChangeChain::prepare(server, kind, first).await;
            let history = ChangeHistory::default();
            let (kept, ends, clock) = (Arc::clone(&history), Arc::clone(&load.ends), load.clock);
            let work = tokio::spawn(async move {
                while !ends.load(Ordering::SeqCst) {
                    kept.lock().push(Span { begun: clock.elapsed(), confirmed: None });
                    chain.change().await;
                    let confirmed = Some(clock.elapsed());
                    kept.lock().last_mut().expect("it has begun").confirmed = confirmed;
                }
            });
            load.chains.push(WatchedChain { kind, history, inodes, work });
        }
        // All users and shares have been changed at least once.
        for chain in &load.chains {
            while chain.confirmed() < chain.kind.objects() as usize {
                assert!(!chain.work.is_finished(), "a client of the load failed");
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        load
    }

    fn confirmed(&self) -> usize {
        self.chains.iter().map(WatchedChain::confirmed).sum()
    }

    /// Makes a backup, restores it, and checks that it is equal to one moment within the backup.
    async fn check_backup(&self, server: &LiveServer, number: u64) {
        let begun = self.clock.elapsed();
        server.says("backup b.tar").await;
        let backup = Span { begun, confirmed: Some(self.clock.elapsed()) };
        let copy = server.program.path().join("copy");
        server.says("restore b.tar --state-dir copy").await;
        let mut restored = RestoredState::read(server, &copy).await;
        let mut instants = Vec::new();
        for chain in &self.chains {
            let found = restored.take(chain);
            let spans = chain.instants_of(&found, self.first, backup);
            assert!(!spans.is_empty(), "backup {number}: {:?} were never {found:?} in it", chain.kind);
            instants.push(spans);
        }
        assert!(restored.open.is_empty(), "backup {number} has opens of other files");
        assert!(is_one_moment(&instants), "backup {number}: no instant is common to {instants:?}");
        assert!(restored.has_client_record(), "backup {number}");
        std::fs::remove_dir_all(&copy).unwrap();
    }

    /// Ends the chains. Returns the number of changes of each, and the time that they took.
    async fn end(self) -> (Vec<(ChainKind, usize)>, Duration) {
        self.ends.store(true, Ordering::SeqCst);
        let mut changes = Vec::new();
        for chain in self.chains {
            chain.work.await.unwrap();
            changes.push((chain.kind, chain.history.lock().len()));
        }
        (changes, self.clock.elapsed())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_backup_under_load_is_equal_to_one_moment() {
    let (first, count) = wanted();
    let least_rate = std::env::var("BACKUPS_LEAST_RATE").map_or(0.0, |text| text.parse().unwrap());
    let server = LiveServer::start();
    let load = ChangeLoad::start(&server, first).await;
    let (mut done, mut slower, mut least) = (0, 0, f64::MAX);
    let (mut since, mut before) = (load.clock.elapsed(), load.confirmed());
    while done < count {
        load.check_backup(&server, done + slower).await;
        let (now, changes) = (load.clock.elapsed(), load.confirmed());
        let rate = (changes - before) as f64 / (now - since).as_secs_f64();
        (since, before) = (now, changes);
        if rate >= least_rate {
            done += 1;
            least = least.min(rate);
        } else {
            slower += 1;
        }
        assert!(slower <= count, "the load is below {least_rate} changes a second");
    }
    let (changes, took) = load.end().await;
    let total: usize = changes.iter().map(|(_, changes)| changes).sum();
    let rate = total as f64 / took.as_secs_f64();
    let each: Vec<String> =
        changes.iter().map(|(kind, changes)| format!("{changes} of {}", kind.name())).collect();
    let held_us = longest_held_us(&server);
    println!(
        "{done} backups, {total} changes ({}), {rate:.0} a second, and {least:.0} around the slowest one; \
         {slower} more at a lower rate; clients waited for a backup {held_us} us at most",
        each.join(", ")
    );
    if let Some(out) = std::env::var_os("BACKUPS_OUT") {
        let each: serde_json::Map<String, Value> =
            changes.iter().map(|(kind, changes)| (kind.name().to_owned(), (*changes).into())).collect();
        let line = serde_json::json!({
            "server": "trunkline", "done": done, "failures": [], "changes": each,
            "seconds": (took.as_secs_f64() * 10.0).round() / 10.0, "least_changes_a_second": least.floor(),
            "more_at_a_lower_rate": slower, "slowest_wait_of_clients_us": held_us,
        });
        std::fs::write(out, format!("{line}\n")).unwrap();
    }
}

#[test]
fn a_mixture_of_two_moments_is_none() {
    let at = Duration::from_millis;
    let span = |begun, end| Span { begun: at(begun), confirmed: Some(at(end)) };
    assert!(is_one_moment(&[vec![span(0, 5)], vec![span(5, 9)], vec![span(4, 6)]]));
    assert!(is_one_moment(&[vec![span(0, 1), span(7, 8)], vec![span(3, 7)]]));
    assert!(!is_one_moment(&[vec![span(0, 4)], vec![span(5, 9)]]));
    assert!(!is_one_moment(&[vec![span(0, 9)], vec![]]));
    let numbers = |changes| state_after(ChainKind::Shares, 7, changes);
    assert_eq!(numbers(3), ChainState::LastChanges(vec![Some(9), Some(8)]));
    assert_eq!(numbers(1), ChainState::LastChanges(vec![Some(7), None]));
    let files = |changes| state_after(ChainKind::Nfs, 7, changes);
    let objects = ChainKind::Nfs.objects();
    assert_eq!(files(2), ChainState::OpenFiles([0, 1].into()));
    assert_eq!(files(objects + 2), ChainState::OpenFiles((2..objects).collect()));
}
