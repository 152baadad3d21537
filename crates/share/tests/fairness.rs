//! The division of opens while descriptors of the host are scarce.

mod common;

use common::{TestShare, now};
use share::engine::Descriptors;
use share::{Config, Disposition, Refusal};
use wire::Now;

#[test]
fn while_descriptors_are_scarce_a_client_with_more_than_an_equal_share_opens_nothing() {
    let descriptors = Descriptors::new(usize::MAX);
    let config = || Config { descriptors: descriptors.clone(), metadata_caching: false, ..Config::default() };
    let (world, plan) = TestShare::planned(config());
    let other = TestShare::with(config());
    let (greedy, modest, new) = (world.client(1), world.client(2), world.client(3));
    let mut has: Vec<_> = (0..5).map(|at| greedy.make(&format!("f{at}"))).collect();
    let _modest = modest.make("m");
    // Nothing is counted while there are enough.
    has.push(greedy.make("f5"));
    plan.set_short(true);
    assert_eq!(greedy.open("f0").refusal(), Refusal::Exhausted);
    assert_eq!(greedy.open("new").disposition(Disposition::Create).refusal(), Refusal::Exhausted);
    assert_eq!(descriptors.refused_opens(), 2);
    let _more = [modest.open("m").open(), new.open("m").open()];
    // Opens of another share count as well, and when they are counted again.
    let elsewhere = other.client(3);
    let _elsewhere: Vec<_> = (0..9).map(|at| elsewhere.make(&format!("e{at}"))).collect();
    let later = Now { mono_ns: now().mono_ns + 1_000_000_000, ..now() };
    for at in [now(), later] {
        assert_eq!(new.open("m").at(at).refusal(), Refusal::Exhausted);
    }
    // A client that closes some gets others.
    has.drain(..4).for_each(|open| greedy.close(&open));
    greedy.open("f0").at(later).open();
    plan.set_short(false);
    new.open("m").open();
    assert_eq!(descriptors.refused_opens(), 4);
}

#[test]
fn one_client_alone_has_an_equal_share_whatever_it_has() {
    let (world, plan) = TestShare::planned(Config::default());
    let client = world.client(1);
    let _open = [client.make("a"), client.make("b")];
    plan.set_short(true);
    client.open("a").open();
    client.make("c");
}

#[test]
fn what_was_closed_or_never_opened_does_not_count_while_descriptors_are_scarce() {
    let (world, plan) = TestShare::planned(Config { metadata_caching: false, ..Config::default() });
    let (holder, busy) = (world.client(1), world.client(2));
    let _held: Vec<_> = (0..4).map(|at| holder.make(&format!("h{at}"))).collect();
    let _kept = busy.make("b");
    plan.set_short(true);
    // All within the time for which one count is valid.
    for _ in 0..100 {
        let open = busy.open("b").open();
        busy.close(&open);
        assert_eq!(busy.open("missing").refusal(), Refusal::NotFound);
    }
    assert_eq!(holder.open("h0").refusal(), Refusal::Exhausted);
}
