//! Sessions over many channels, against a reference model, in a network that cuts, delays, duplicates and replays.
//!
//! Each seed is a history. There are two kinds of them, which have their seeds each:
//!
//! - [`history`]: workers open, write, read, rename and lock files of their own over one session of one to eight
//!   channels. Channels are cut while requests and answers are under way; the server may see that at once, or after
//!   late requests have arrived on the dead line. The client replays on another channel (MS-SMB2 3.2.7.1), and logs on
//!   again when the last is gone. Every operation must be done exactly once: [`model`] says what is read, locked and
//!   left behind.
//! - [`pair`]: the workers of two clients do so with the same files, under share modes, byte ranges and leases, with data
//!   in memory; time passes, clients are gone for a while, and the server is killed and comes back with what persistent
//!   handles have on record. What both saw must be what one server that does everything once can have answered.
//!
//! TCP itself delivers nothing twice: a duplicate is a late request and its replay, which come to the server in either
//! order.
//!
//! `SIMULATED_HISTORIES=FIRST+COUNT` runs those seeds of both kinds, or of one whose test is named; with
//! `SIMULATED_TRACE=1` those of two clients tell what happens. A seed that once failed stays in [`REGRESSIONS`] or
//! [`REGRESSIONS_OF_TWO`].

#[path = "../common/mod.rs"]
mod common;
mod dice;
mod history;
mod model;
mod pair;
mod requests;
mod session;

use std::ops::Range;
use std::panic::catch_unwind;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use history::History;

/// Seeds that found something, by what they found.
const REGRESSIONS: &[(&str, u64)] = &[
    ("a CREATE that its replay overtook made a second Open when the first was in use", 2648),
    ("the same, when the file had another name by then", 2891),
    ("the same, in few steps", 3212),
    ("a replay of a CREATE that the next replay overtook did so too", 14066),
];

/// The same of two clients.
const REGRESSIONS_OF_TWO: &[(&str, u64)] = &[];

/// How many histories are run when nobody says otherwise.
const USUAL: Range<u64> = 0..300;
const USUAL_OF_TWO: Range<u64> = 0..200;

/// So many histories show all that the network can do.
const ENOUGH_TO_SHOW: u64 = 100;

/// After so many failures the rest need not be run.
const ENOUGH: usize = 10;

fn wanted(usual: Range<u64>) -> Range<u64> {
    let Ok(text) = std::env::var("SIMULATED_HISTORIES") else { return usual };
    let (first, count) = text.split_once('+').expect("SIMULATED_HISTORIES is FIRST+COUNT");
    let first: u64 = first.parse().expect("a number");
    first..first + count.parse::<u64>().expect("a number")
}

/// Runs the wanted histories and sums up what happened in them.
fn run<T: Default + std::ops::AddAssign + std::fmt::Debug + Copy + Send>(
    history: fn(u64) -> T,
    usual: Range<u64>,
) -> (T, u64) {
    let (range, total) = (wanted(usual), Mutex::new(T::default()));
    let next = AtomicU64::new(range.start);
    let failed = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= range.end || failed.lock().expect("no panic with it held").len() >= ENOUGH {
                        return;
                    }
                    match catch_unwind(|| history(seed)) {
                        Ok(tally) => *total.lock().expect("no panic with it held") += tally,
                        Err(_) => {
                            println!("seed {seed} differs");
                            failed.lock().expect("no panic with it held").push(seed);
                        }
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().expect("no panic with it held");
    let total = total.into_inner().expect("no panic with it held");
    let count = range.end - range.start;
    println!("{count} histories: {total:?}");
    assert!(failed.is_empty(), "seeds that differ from the model: {failed:?}");
    (total, count)
}

#[test]
fn histories_agree_with_the_model() {
    let (total, count) = run(History::run, USUAL);
    let shows = total.cuts > 0 && total.sessions_lost > 0 && total.replays > 0;
    let shows = shows && total.late > 0 && total.refused_late > 0;
    assert!(shows || count < ENOUGH_TO_SHOW, "the network does what it is for");
}

#[test]
fn histories_of_two_clients_are_those_of_a_server_that_does_everything_once() {
    let (total, count) = run(pair::History::run, USUAL_OF_TWO);
    assert!(total.shows_all() || count < ENOUGH_TO_SHOW, "all that can happen does: {total:?}");
}

#[test]
fn what_was_found_once_stays_mended() {
    for (what, seed) in REGRESSIONS {
        assert!(catch_unwind(|| History::run(*seed)).is_ok(), "{what}: seed {seed}");
    }
    for (what, seed) in REGRESSIONS_OF_TWO {
        assert!(catch_unwind(|| pair::History::run(*seed)).is_ok(), "{what}: seed {seed} of two clients");
    }
}
