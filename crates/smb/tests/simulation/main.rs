//! Sessions over many channels, compared with a reference model, in a network that cuts, delays, duplicates
//! and replays.
//!
//! Each seed is a history. There are two kinds, each over a sound disk and over a failing one:
//!
//! - [`history`]: workers open, write, read, rename and lock files of their own, on one session of one to
//!   eight channels. Channels are cut while requests and replies are under way. The server may see that at
//!   once, or after late requests have arrived on the dead line. The client replays on another channel
//!   (MS-SMB2 3.2.7.1), and logs on again after it has lost the last one. Every operation must be done
//!   exactly once. [`model`] has the expected data, locks and files.
//! - [`pair`]: the workers of two clients use the same files, with share modes, byte ranges and leases, and
//!   with data in memory. Time passes, clients are gone for a while, and the server is killed and comes back
//!   with the records of persistent handles. The observations of both must be possible with one server that
//!   does each operation once.
//!
//! - [`disk`]: calls of the volume fail for lack of space or otherwise, write the first half, or take long.
//!   Both models know the possible states afterwards. When the disk is sound again, everything works and no
//!   handle is left open.
//!
//! TCP itself delivers nothing twice: a duplicate is a late request and its replay, which reach the server
//! in either order.
//!
//! `SIMULATED_HISTORIES=FIRST+COUNT` runs those seeds of both kinds, or of the kinds whose test is named.
//! With `SIMULATED_LOG=1` each prints its events. `cargo run -p xtask -- simulate --seed N` runs all
//! [`PARTS`] of one seed, which is the test `one_seed_of_all_parts`. A seed that once failed stays in
//! [`REGRESSIONS`], [`REGRESSIONS_OF_TWO`] or [`REGRESSIONS_OF_DISKS`].

mod disk;
mod history;
mod log;
mod model;
mod pair;
mod requests;
mod session;

use std::ops::Range;
use std::panic::{RefUnwindSafe, UnwindSafe, catch_unwind};

use disk::DiskFault;
use history::History;
use testkit::dice::{run_seeds, wanted_seeds};

/// Seeds that found a defect, with its description.
const REGRESSIONS: &[(&str, u64)] = &[
    ("a CREATE that its replay overtook made a second Open when the first was in use", 2648),
    ("the same, when the file had another name by then", 2891),
    ("the same, in few steps", 3212),
    ("a replay of a CREATE that the next replay overtook did so too", 14066),
];

/// Seeds of two clients that found a defect.
const REGRESSIONS_OF_TWO: &[(&str, u64)] = &[];

/// Seeds of all parts that found a defect while the disk fails.
const REGRESSIONS_OF_DISKS: &[(&str, u64)] = &[
    ("a CREATE that failed when the file was made stood in the way of others", 4),
    ("who came back for an Open and was refused by the disk could not come back again", 23),
    ("a replay of a CREATE that the disk refused left its Open behind", 448),
    ("a CREATE for a persistent handle that could only be durable was refused to the next session", 232),
    ("a handle whose file could not be opened after a restart was lost", 146),
];

/// The history of a seed, of one kind.
type SeedPart = fn(u64);

/// All parts of a seed, with their names and histories.
const PARTS: [(&str, SeedPart); 5] = [
    ("one session", |seed| _ = History::run(seed, DiskFault::Nothing)),
    ("one session over a failing disk", |seed| _ = History::run(seed, DiskFault::Disk)),
    ("two clients", |seed| _ = pair::PairHistory::run(seed, DiskFault::Nothing)),
    ("two clients over a failing disk", |seed| _ = pair::PairHistory::run(seed, DiskFault::Disk)),
    ("two clients, kills and a failing disk", |seed| {
        _ = pair::PairHistory::run(seed, DiskFault::DiskAndKills)
    }),
];

/// The usual seeds.
const USUAL: Range<u64> = 0..300;
const USUAL_OF_TWO: Range<u64> = 0..200;
const USUAL_OF_DISKS: Range<u64> = 0..100;

/// This many histories show all events of the network.
const ENOUGH_TO_SHOW: u64 = 100;

/// After this many failures the rest is not run.
const ENOUGH: usize = 10;

/// The seeds that an environment variable names, or the usual ones.
fn wanted(variable: &str, usual: Range<u64>) -> Range<u64> {
    wanted_seeds(variable).unwrap_or(usual)
}

/// Runs one history, and prints its events if `SIMULATED_LOG` is set.
fn logged<T>(history: impl FnOnce() -> T + UnwindSafe) -> std::thread::Result<T> {
    if std::env::var_os("SIMULATED_LOG").is_none() {
        return catch_unwind(history);
    }
    log::begin();
    let result = catch_unwind(history);
    print!("{}", log::end().unwrap_or_default());
    result
}

/// Runs the requested histories and adds up their events.
fn run<T: Default + std::ops::AddAssign + std::fmt::Debug + Copy + Send>(
    history: impl Fn(u64) -> T + Sync + RefUnwindSafe,
    usual: Range<u64>,
) -> (T, u64) {
    let range = wanted("SIMULATED_HISTORIES", usual);
    let (total, failed) = run_seeds(range.clone(), ENOUGH, |seed| match logged(|| history(seed)) {
        Ok(tally) => (tally, None),
        Err(_) => {
            println!("seed {seed} differs");
            (T::default(), Some(seed))
        }
    });
    let count = range.end - range.start;
    println!("{count} histories: {total:?}");
    assert!(failed.is_empty(), "seeds that differ from the model: {failed:?}");
    (total, count)
}

/// The logs of all parts of a seed, and the parts that differ from the model.
fn all_parts(seed: u64) -> (String, Vec<&'static str>) {
    let (mut text, mut failed) = (String::new(), Vec::new());
    for (name, part) in PARTS {
        log::begin();
        if catch_unwind(|| part(seed)).is_err() {
            failed.push(name);
        }
        text.push_str(&log::end().expect("it was begun"));
    }
    (text, failed)
}

/// The test behind `cargo run -p xtask -- simulate`, with the seeds of `SIMULATED_SEEDS`.
#[test]
fn one_seed_of_all_parts() {
    let mut differ = Vec::new();
    for seed in wanted("SIMULATED_SEEDS", 0..1) {
        let (text, failed) = all_parts(seed);
        if std::env::var_os("SIMULATED_LOG").is_some() {
            print!("{text}");
        }
        println!("seed {seed}: {}", if failed.is_empty() { "ok" } else { "differs from the model" });
        differ.extend(failed.into_iter().map(|part| (seed, part)));
    }
    assert!(differ.is_empty(), "seeds that differ from the model: {differ:?}");
}

#[test]
fn the_same_seed_has_the_same_log() {
    let mut before = String::new();
    for seed in 0..2 {
        let (first, second) = (all_parts(seed).0, all_parts(seed).0);
        let differs = first.lines().zip(second.lines()).find(|(one, other)| one != other);
        assert_eq!(differs, None, "seed {seed}");
        assert_eq!(first.len(), second.len(), "seed {seed}");
        assert_ne!(first, before, "another seed is another history");
        before = first;
    }
}

#[test]
fn histories_agree_with_the_model() {
    let (total, count) = run(|seed| History::run(seed, DiskFault::Nothing), USUAL);
    let shows = total.cuts > 0 && total.sessions_lost > 0 && total.replays > 0;
    let shows = shows && total.late > 0 && total.refused_late > 0;
    assert!(shows || count < ENOUGH_TO_SHOW, "the network does what it is for");
}

#[test]
fn histories_over_failing_disks_agree_with_the_model() {
    let (total, count) = run(|seed| History::run(seed, DiskFault::Disk), USUAL_OF_DISKS);
    assert!(total.disk.shows_all() || count < ENOUGH_TO_SHOW, "the disk does what it is for: {total:?}");
}

#[test]
fn histories_of_two_clients_are_those_of_a_server_that_does_everything_once() {
    let (total, count) = run(|seed| pair::PairHistory::run(seed, DiskFault::Nothing), USUAL_OF_TWO);
    assert!(total.shows_all() || count < ENOUGH_TO_SHOW, "all that can happen does: {total:?}");
}

#[test]
fn histories_of_two_clients_over_failing_disks_are_those_of_a_server_that_does_everything_once() {
    let trouble = |seed| if seed % 2 == 0 { DiskFault::Disk } else { DiskFault::DiskAndKills };
    let (total, count) = run(|seed| pair::PairHistory::run(seed, trouble(seed)), USUAL_OF_DISKS);
    let shows = total.shows_all() && total.disk.shows_all();
    assert!(shows || count < ENOUGH_TO_SHOW, "all that can happen does: {total:?}");
}

#[test]
fn what_was_found_once_stays_mended() {
    for (what, seed) in REGRESSIONS {
        assert!(catch_unwind(|| History::run(*seed, DiskFault::Nothing)).is_ok(), "{what}: seed {seed}");
    }
    for (what, seed) in REGRESSIONS_OF_DISKS {
        assert_eq!(all_parts(*seed).1, [""; 0], "{what}: seed {seed}");
    }
    for (what, seed) in REGRESSIONS_OF_TWO {
        assert!(
            catch_unwind(|| pair::PairHistory::run(*seed, DiskFault::Nothing)).is_ok(),
            "{what}: seed {seed} of two clients"
        );
    }
}
