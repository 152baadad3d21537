//! Clusters of nodes that own virtual servers, in virtual time, with everything that can go wrong.
//!
//! Each seed is a world ([`world`]): nodes with clocks of different speed, of which each drives one
//! `Ownership` for each virtual server that it may run; a tenure store with leases ([`store`]); a storage
//! with a journal for each virtual server and with fences ([`storage`]); and clients that read, write and
//! lock ([`client`]). Messages come late or not at all, nodes are cut off, pause, die and come back, and
//! virtual servers are moved ([`faults`]). [`checks`] has the promises that must hold at each step.
//!
//! No node knows the wall clock, so it is not simulated.
//!
//! A process asks `ServingTerm::permits` right before it sends a reply. A pause may come between the two,
//! and the reply is then sent when another node serves. That does no harm. The reply was true when the term
//! was asked, and the client had sent its request before. A lock that it grants is in the journal, so the
//! next owner knows it. A process that was paused earlier is refused: by its term if it wants to send, by
//! the storage's fence if it wants to record.
//!
//! `SIMULATED_TENURES=FIRST+COUNT` runs those seeds of the tests that are named. The worlds of a thousand
//! nodes are small ones without it. With `SIMULATED_LOG=1` each world prints its events.

mod checks;
mod client;
mod clock;
mod faults;
mod process;
mod queue;
mod storage;
mod store;
mod world;

use std::ops::Range;

use checks::{Breach, TenureTally};
use testkit::dice::{run_seeds, wanted_seeds};
use world::{Defect, World, WorldShape};

/// Seeds that found a defect, with its description.
const REGRESSIONS: &[(&str, u64)] =
    &[("a node that was paused in its start took the address when another served", 1864)];

/// Ten minutes of five nodes, each of which may run each virtual server.
const FIVE_NODES: WorldShape = WorldShape {
    nodes: 5,
    servers: 2,
    candidates: 5,
    clients: 3,
    seconds: 600,
    term_seconds: 3,
    think_ms: 400,
    fault_gap_ms: 4000,
};

/// An hour of a thousand nodes with 16 virtual servers each.
const THOUSAND_NODES: WorldShape = WorldShape {
    nodes: 1000,
    servers: 16_000,
    candidates: 3,
    clients: 2,
    seconds: 3600,
    term_seconds: 10,
    think_ms: 20_000,
    fault_gap_ms: 300,
};

/// The same with few nodes and minutes.
const FORTY_NODES: WorldShape =
    WorldShape { nodes: 40, servers: 640, seconds: 180, fault_gap_ms: 1500, ..THOUSAND_NODES };

/// The usual seeds.
const USUAL: Range<u64> = 0..12;
/// After this many failures the rest is not run.
const ENOUGH: usize = 5;
/// This many worlds of five nodes show everything.
const ENOUGH_TO_SHOW: u64 = 10;

/// The seeds that the environment names.
fn wanted() -> Option<Range<u64>> {
    wanted_seeds("SIMULATED_TENURES")
}

/// Runs one world. Gives its tally and its first breach.
fn one(seed: u64, shape: WorldShape, defect: Defect, stand_still: bool) -> (World, Option<(Breach, String)>) {
    let mut world = World::new(seed, shape, defect);
    world.clocks_stand_still = stand_still;
    world.checks.log = std::env::var_os("SIMULATED_LOG").map(|_| String::new());
    world.run();
    let breach = world.checks.breaches.first().cloned();
    (world, breach)
}

/// Runs the worlds of some seeds on all cores, and adds up what happened.
fn run(seeds: Range<u64>, shape: WorldShape, stand_still: bool) -> TenureTally {
    let (total, failed) = run_seeds(seeds, ENOUGH, |seed| {
        let (world, breach) = one(seed, shape, Defect::Nothing, stand_still);
        if let Some(log) = &world.checks.log {
            print!("{log}");
        }
        let failure = breach.map(|(_, what)| {
            println!("seed {seed}: {what}");
            (seed, what)
        });
        (world.checks.tally, failure)
    });
    println!("{total:?}");
    assert!(failed.is_empty(), "promises were broken: {failed:#?}");
    total
}

#[test]
fn five_nodes_keep_all_promises() {
    let seeds = wanted().unwrap_or(USUAL);
    let count = seeds.end - seeds.start;
    let total = run(seeds, FIVE_NODES, false);
    assert!(total.shows_all() || count < ENOUGH_TO_SHOW, "everything happens that it is for: {total:?}");
}

#[test]
fn a_thousand_nodes_keep_all_promises() {
    match wanted() {
        Some(seeds) => run(seeds, THOUSAND_NODES, false),
        None => run(0..1, FORTY_NODES, false),
    };
}

/// A hypervisor may stop a guest and its clock. Such a guest reads and tells old data for a moment. It still
/// writes nothing and grants nothing.
#[test]
fn a_clock_that_stood_still_breaks_no_record() {
    let seeds = wanted().unwrap_or(0..4);
    run(seeds, FIVE_NODES, true);
}

#[test]
fn seeds_that_found_a_defect_stay_sound() {
    for (what, seed) in REGRESSIONS {
        let (_, breach) = one(*seed, FIVE_NODES, Defect::Nothing, false);
        assert_eq!(breach, None, "seed {seed}: {what}");
    }
}

#[test]
fn the_same_seed_is_the_same_world() {
    let shape = WorldShape { seconds: 120, ..FIVE_NODES };
    let log = |seed| {
        let mut world = World::new(seed, shape, Defect::Nothing);
        world.checks.log = Some(String::new());
        world.run();
        (world.checks.log, world.checks.tally)
    };
    assert_eq!(log(1), log(1));
    assert_ne!(log(1), log(2));
}

/// The checks find each mistake that is put in, by the promise that it breaks.
#[test]
fn each_defect_is_found() {
    let shape = WorldShape { seconds: 200, ..FIVE_NODES };
    let defects: &[(Defect, &[Breach])] = &[
        (Defect::NoMargin, &[Breach::ReplyAfterTerm]),
        (Defect::TermFromReply, &[Breach::ReplyAfterTerm]),
        (Defect::FormerForgotten, &[Breach::LateAppend]),
        (Defect::FenceSkipped, &[Breach::LateAppend]),
        (Defect::ReadBeforeFence, &[Breach::LateAppend]),
        (Defect::TermNotAsked, &[Breach::ReplyAfterTerm]),
        (Defect::ReplyBeforeRecord, &[Breach::LostRecord, Breach::StaleRead]),
        (Defect::EpochNotCompared, &[Breach::ReplyAfterTerm, Breach::StaleRead]),
        (Defect::MountedAnew, &[Breach::LateAppend]),
        (Defect::GuidNotCompared, &[Breach::WrongState]),
        (Defect::NoPauses, &[Breach::BusyLoop]),
        (Defect::DeadlineMissed, &[Breach::NotServed]),
        (Defect::EpochNotCounted, &[Breach::TwoOwners]),
        (Defect::SameBootForgotten, &[Breach::LateAppend]),
        (Defect::LocksNotRestored, &[Breach::GrantedTwice]),
        (Defect::LastRecordMissed, &[Breach::LostRecord]),
        (Defect::RenewalsForgotten, &[Breach::EndedInCalm]),
    ];
    let shown = |breach| defects.iter().any(|(_, all)| all.contains(&breach));
    assert!(Breach::ALL.into_iter().all(shown), "each promise is broken by a defect");
    let mut missed = Vec::new();
    for (defect, expected) in defects {
        let found = (0..500).find_map(|seed| one(seed, shape, *defect, false).1.map(|breach| (seed, breach)));
        println!("{defect:?}: {found:?}");
        if !found.as_ref().is_some_and(|(_, (breach, _))| expected.contains(breach)) {
            missed.push((defect, found));
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}
