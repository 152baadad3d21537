//! The transitions of [`Ownership`] with events that come late, twice, for an earlier tenure or in the wrong
//! phase. The simulation beside this file (`tenures`) tries them among many nodes.

use std::time::Duration;

use proptest::prelude::*;
use tenure::ownership::{EndReason, Hindrance, OwnershipStage};
use tenure::{
    Action, BootTime, Epoch, NodeOwner, Ownership, OwnershipEvent, StoreError, TakeOutcome, Taken,
    TenureRecord, Times,
};

const TERM: Duration = Duration::from_secs(10);
const MARGIN: Duration = Duration::from_secs(1);
/// The part of a third of a term below a millisecond.
const NANOS: Duration = Duration::from_nanos(333_333);

/// Makes an owner in one phase.
type MakeOwnership = fn() -> Ownership;

/// The time of this many milliseconds.
fn at(ms: u64) -> BootTime {
    BootTime { ns: ms * 1_000_000 }
}

fn owner(node: &str, epoch: u64) -> NodeOwner {
    NodeOwner { node: node.into(), boot_id: "1".into(), epoch: Epoch(epoch), ..NodeOwner::default() }
}

fn lost() -> StoreError {
    StoreError::Unreachable("no reply".into())
}

fn not_owner() -> StoreError {
    StoreError::NotOwner("the lease is gone".into())
}

/// A record that node a has taken, after these owners whom nobody has fenced.
fn record(epoch: u64, former: &[&str]) -> TenureRecord {
    let unfenced = former.iter().map(|node| owner(node, epoch - 1)).collect();
    let (guid, owner) = ("guid".to_owned(), Some(owner("a", epoch)));
    TenureRecord { guid, epoch: Epoch(epoch), owner, unfenced, ..TenureRecord::default() }
}

/// The only update of a tenure: the owner serves.
fn update(epoch: u64) -> Action {
    Action::Update(record(epoch, &[]).started())
}

fn took(asked: BootTime, epoch: u64, former: &[&str]) -> OwnershipEvent {
    let taken = Taken { record: record(epoch, former), term: Some(TERM) };
    OwnershipEvent::Took { asked, outcome: Ok(TakeOutcome::Taken(taken)) }
}

fn owned(asked: BootTime, record: TenureRecord) -> OwnershipEvent {
    OwnershipEvent::Took { asked, outcome: Ok(TakeOutcome::Owned(record)) }
}

fn renewed(asked: BootTime) -> OwnershipEvent {
    OwnershipEvent::Renewed { asked, outcome: Ok(Some(TERM)) }
}

fn started() -> OwnershipEvent {
    OwnershipEvent::Started(Ok("guid".into()))
}

fn leave(to: &str) -> OwnershipEvent {
    OwnershipEvent::Leave { to: Some(to.into()) }
}

fn take() -> Vec<Action> {
    vec![Action::Take { overrides_reservation: false }]
}

/// Node a at the time zero.
fn waiting() -> Ownership {
    Ownership::new("a".into(), Times::of_term(TERM), at(0))
}

/// Node a that has asked for the tenure at the time zero.
fn taking() -> Ownership {
    let mut it = waiting();
    assert_eq!(it.handle(OwnershipEvent::Woken, at(0)), take());
    it
}

fn fencing() -> Ownership {
    let mut it = taking();
    assert_eq!(it.handle(took(at(0), 2, &["b"]), at(10)), [Action::Fence(vec![owner("b", 1)])]);
    it
}

fn starting() -> Ownership {
    let mut it = taking();
    let start = Action::Start { epoch: Epoch(2), until: at(9000), guid: "guid".into() };
    assert_eq!(it.handle(took(at(0), 2, &[]), at(10)), [start]);
    it
}

fn serving() -> Ownership {
    let mut it = starting();
    assert_eq!(it.handle(started(), at(100)), [update(2)]);
    assert_eq!((it.stage(), it.deadline()), (OwnershipStage::Serving, Some(at(3333).plus(NANOS))));
    it
}

fn quieting() -> Ownership {
    let mut it = serving();
    assert_eq!(it.handle(leave("b"), at(200)), [Action::Quiet]);
    it
}

fn release_to_b() -> Action {
    Action::Release(record(2, &[]).released(Some("b".into())))
}

fn releasing() -> Ownership {
    let mut it = quieting();
    assert_eq!(it.handle(OwnershipEvent::Quiet, at(300)), [release_to_b()]);
    it
}

fn giving_up() -> Ownership {
    let mut it = fencing();
    let failed = record(2, &["b"]).after_failure("the fence failed: no");
    let release = Action::Release(failed.released(None));
    assert_eq!(it.handle(OwnershipEvent::Fenced(Err("no".into())), at(20)), [release]);
    it
}

fn at_its_end() -> Ownership {
    let mut it = waiting();
    assert_eq!(it.handle(leave("b"), at(0)), [Action::End(EndReason::Released)]);
    it
}

fn reason(actions: &[Action]) -> Option<&EndReason> {
    match actions {
        [Action::End(reason)] => Some(reason),
        _ => None,
    }
}

/// One event of each kind and outcome.
fn all_events() -> Vec<OwnershipEvent> {
    let renewal = |outcome| OwnershipEvent::Renewed { asked: at(350), outcome };
    vec![
        OwnershipEvent::Woken,
        took(at(350), 3, &["c"]),
        owned(at(350), record(3, &[])),
        OwnershipEvent::Took { asked: at(350), outcome: Err(lost()) },
        OwnershipEvent::Fenced(Ok(())),
        OwnershipEvent::Fenced(Err("no".into())),
        started(),
        OwnershipEvent::Started(Err("no".into())),
        renewal(Ok(Some(TERM))),
        renewal(Ok(None)),
        renewal(Err(lost())),
        renewal(Err(not_owner())),
        OwnershipEvent::Updated(Ok(())),
        OwnershipEvent::Updated(Err(lost())),
        OwnershipEvent::Updated(Err(not_owner())),
        leave("b"),
        OwnershipEvent::Quiet,
        OwnershipEvent::Released(Ok(())),
        OwnershipEvent::Released(Err(lost())),
        OwnershipEvent::Released(Err(not_owner())),
    ]
}

#[test]
fn a_watch_that_returns_at_once_brings_no_attempt_before_its_time() {
    let mut it = taking();
    assert_eq!(it.handle(owned(at(0), record(1, &[])), at(10)), [Action::Watch(TERM)]);
    assert_eq!(it.handle(OwnershipEvent::Woken, at(11)), []);
    assert_eq!(it.deadline(), Some(at(510)));
    assert_eq!(it.handle(OwnershipEvent::Woken, at(509)), []);
    assert_eq!(it.handle(OwnershipEvent::Woken, at(510)), take());
    // A store that cannot be asked cannot be watched either.
    assert_eq!(it.handle(OwnershipEvent::Took { asked: at(510), outcome: Err(lost()) }, at(600)), []);
    assert_eq!(it.deadline(), Some(at(1100)));
    assert_eq!(it.handle(OwnershipEvent::Woken, at(601)), []);
    assert_eq!(it.handle(OwnershipEvent::Woken, at(1100)), take());
}

#[test]
fn a_shorter_term_than_was_asked_for_is_renewed_sooner() {
    let granted = |ms| Some(Duration::from_millis(ms));
    let mut it = taking();
    let taken = Taken { record: record(2, &[]), term: granted(3000) };
    let took = OwnershipEvent::Took { asked: at(0), outcome: Ok(TakeOutcome::Taken(taken)) };
    let start = Action::Start { epoch: Epoch(2), until: at(2700), guid: "guid".into() };
    assert_eq!(it.handle(took, at(10)), [start]);
    assert_eq!(it.handle(started(), at(100)), [update(2)]);
    assert_eq!(it.deadline(), Some(at(1000)));
    assert_eq!(it.handle(OwnershipEvent::Woken, at(1000)), [Action::Renew(Epoch(2))]);
    // A longer one is renewed as usual, and its margin stays for shorter ones.
    let renewed = |asked, ms| OwnershipEvent::Renewed { asked, outcome: Ok(granted(ms)) };
    assert_eq!(it.handle(renewed(at(1000), 60_000), at(1010)), [Action::Extend(at(60_000))]);
    assert_eq!(it.deadline(), Some(at(4333).plus(NANOS)));
    assert_eq!(it.handle(OwnershipEvent::Woken, at(4334)), [Action::Renew(Epoch(2))]);
    assert_eq!(it.handle(renewed(at(57_000), 6000), at(57_010)), [Action::Extend(at(62_000))]);
    assert_eq!(it.deadline(), Some(at(59_000)));
}

#[test]
fn a_node_that_gave_up_leaves_the_tenure_to_others_for_its_pause() {
    let mut it = giving_up();
    assert_eq!(it.handle(OwnershipEvent::Released(Ok(())), at(30)), []);
    assert_eq!(it.handle(OwnershipEvent::Woken, at(31)), []);
    assert_eq!(it.deadline(), Some(at(10_030)));
    assert_eq!(it.handle(OwnershipEvent::Woken, at(10_030)), take());
}

#[test]
fn a_node_whose_release_is_never_answered_goes_on_after_the_term() {
    let mut it = giving_up();
    assert_eq!(it.deadline(), Some(at(9000)));
    assert_eq!(it.handle(OwnershipEvent::Woken, at(9000)), []);
    assert_eq!(it.handle(OwnershipEvent::Released(Err(lost())), at(9001)), []);
    assert_eq!(it.handle(OwnershipEvent::Woken, at(19_000)), take());
}

#[test]
fn a_tenure_whose_reply_came_after_its_end_fences_and_starts_nothing() {
    for former in [&[][..], &["b"]] {
        let mut it = taking();
        assert_eq!(it.handle(took(at(0), 2, former), at(9000)), []);
        assert_eq!((it.stage(), it.deadline()), (OwnershipStage::Waiting, Some(at(9500))));
        assert!(matches!(it.take_hindrance(), Some(Hindrance::Store(_))));
    }
}

#[test]
fn a_reply_to_an_earlier_tenure_does_not_touch_the_next() {
    for outcome in [Ok(Some(TERM * 5)), Ok(None), Err(not_owner()), Err(lost())] {
        let mut it = giving_up();
        assert_eq!(it.handle(OwnershipEvent::Released(Ok(())), at(30)), []);
        assert_eq!(it.handle(OwnershipEvent::Woken, at(10_030)), take());
        assert_eq!(it.handle(took(at(10_030), 4, &[]), at(10_040)).len(), 1);
        let before = it.deadline();
        let late = OwnershipEvent::Renewed { asked: at(15), outcome };
        assert_eq!(it.handle(late, at(10_050)), []);
        assert_eq!((it.stage(), it.deadline()), (OwnershipStage::Starting, before));
    }
}

#[test]
fn renewals_out_of_order_never_shorten_the_term() {
    let mut it = serving();
    assert_eq!(it.handle(OwnershipEvent::Woken, at(3334)), [Action::Renew(Epoch(2))]);
    assert_eq!(it.handle(OwnershipEvent::Woken, at(3335)), [], "one at a time");
    let failed = OwnershipEvent::Renewed { asked: at(3334), outcome: Err(lost()) };
    assert_eq!(it.handle(failed, at(4000)), []);
    assert_eq!(it.handle(OwnershipEvent::Woken, at(4500)), [Action::Renew(Epoch(2))]);
    // The term is counted from before the question, however long the reply took.
    let until = at(4500).plus(TERM - MARGIN);
    assert_eq!(it.handle(renewed(at(4500)), at(8000)), [Action::Extend(until)]);
    assert_eq!(it.handle(renewed(at(3334)), at(8010)), [Action::Extend(until)]);
    assert!(matches!(reason(&it.handle(OwnershipEvent::Woken, until)), Some(EndReason::TermOver(_))));
}

#[test]
fn the_end_of_the_term_ends_the_node_in_each_phase_whatever_comes() {
    for make in [fencing, starting, serving, quieting, releasing] {
        for event in all_events() {
            let mut it = make();
            let was_releasing = it.stage() == OwnershipStage::Releasing && it.deadline() == Some(at(9000));
            let actions = it.handle(event.clone(), at(9000));
            let why = reason(&actions).unwrap_or_else(|| panic!("{event:?} ends it, not {actions:?}"));
            let is_released = was_releasing && event == OwnershipEvent::Released(Ok(()));
            assert_eq!(*why == EndReason::Released, is_released, "{event:?}: {why:?}");
            assert!(!matches!(why, EndReason::NotOwner(_)));
            assert_eq!((it.stage(), it.deadline()), (OwnershipStage::Ended, None));
            assert_eq!(it.handle(event, at(9001)), []);
        }
    }
}

#[test]
fn a_lost_update_is_written_again_in_a_term_without_end() {
    let mut it = taking();
    let taken = Taken { record: record(2, &[]), term: None };
    it.handle(OwnershipEvent::Took { asked: at(0), outcome: Ok(TakeOutcome::Taken(taken)) }, at(10));
    assert_eq!((it.handle(started(), at(100)), it.deadline()), (vec![update(2)], None));
    for _ in 0..2 {
        assert_eq!(it.handle(OwnershipEvent::Updated(Err(lost())), at(800)), []);
        let retry = it.deadline().unwrap();
        assert!(retry > at(800));
        assert_eq!(it.handle(OwnershipEvent::Woken, retry), [Action::Renew(Epoch(2))]);
        let actions = it.handle(OwnershipEvent::Renewed { asked: retry, outcome: Ok(None) }, retry);
        assert_eq!(actions, [Action::Extend(BootTime::NEVER), update(2)]);
        assert_eq!(it.deadline(), None);
    }
}

#[test]
fn a_tenure_has_one_update_and_a_lost_one_is_written_again() {
    let mut it = fencing();
    let start = Action::Start { epoch: Epoch(2), until: at(9000), guid: "guid".into() };
    assert_eq!(it.handle(OwnershipEvent::Fenced(Ok(())), at(500)), [start]);
    let until = at(600).plus(TERM - MARGIN);
    assert_eq!(it.handle(renewed(at(600)), at(610)), [Action::Extend(until)]);
    assert_eq!(it.handle(started(), at(700)), [update(2)]);
    assert_eq!(it.handle(OwnershipEvent::Updated(Err(lost())), at(800)), []);
    let until = at(900).plus(TERM - MARGIN);
    assert_eq!(it.handle(renewed(at(900)), at(910)), [Action::Extend(until), update(2)]);
    assert_eq!(it.handle(OwnershipEvent::Updated(Ok(())), at(920)), []);
    assert_eq!(it.handle(renewed(at(900)), at(930)), [Action::Extend(until)]);
    let actions = it.handle(OwnershipEvent::Updated(Err(not_owner())), at(940));
    assert!(matches!(reason(&actions), Some(EndReason::NotOwner(_))));
}

#[test]
fn the_first_owner_writes_the_guid_and_one_with_another_guid_ends() {
    let mut it = taking();
    let fresh = TenureRecord { guid: String::new(), ..record(1, &[]) };
    let taken = Taken { record: fresh, term: Some(TERM) };
    it.handle(OwnershipEvent::Took { asked: at(0), outcome: Ok(TakeOutcome::Taken(taken)) }, at(10));
    assert_eq!(it.handle(started(), at(20)), [update(1)]);
    let actions = starting().handle(OwnershipEvent::Started(Ok("other".into())), at(20));
    assert!(matches!(reason(&actions), Some(EndReason::NotOwner(why)) if why.contains("other")));
}

#[test]
fn a_release_without_a_reply_is_repeated_as_long_as_the_term_runs() {
    let failed = || OwnershipEvent::Released(Err(lost()));
    let mut it = releasing();
    assert_eq!(it.handle(failed(), at(400)), []);
    assert_eq!(it.deadline(), Some(at(900)));
    assert_eq!(it.handle(OwnershipEvent::Woken, at(900)), [release_to_b()]);
    assert_eq!(it.handle(OwnershipEvent::Woken, at(901)), [], "one at a time");
    // The renewal that was under way finds that the release was done.
    let refused = OwnershipEvent::Renewed { asked: at(250), outcome: Err(not_owner()) };
    assert_eq!(it.handle(refused, at(902)), []);
    let actions = it.handle(OwnershipEvent::Released(Err(not_owner())), at(903));
    assert_eq!(reason(&actions), Some(&EndReason::Released));

    let mut it = releasing();
    assert_eq!(it.handle(failed(), at(8900)), []);
    assert_eq!(it.deadline(), Some(at(9000)));
    let actions = it.handle(OwnershipEvent::Woken, at(9000));
    assert!(matches!(reason(&actions), Some(EndReason::TermOver(why)) if why.contains("no reply")));
}

#[test]
fn a_wish_to_leave_ends_a_node_that_has_taken_nothing() {
    for outcome in [Ok(TakeOutcome::Owned(record(1, &[]))), Err(lost())] {
        let mut it = taking();
        assert_eq!(it.handle(leave("b"), at(5)), []);
        let actions = it.handle(OwnershipEvent::Took { asked: at(0), outcome }, at(10));
        assert_eq!(reason(&actions), Some(&EndReason::Released));
    }
    let mut it = giving_up();
    assert_eq!(it.handle(leave("b"), at(25)), []);
    let actions = it.handle(OwnershipEvent::Released(Err(lost())), at(30));
    assert_eq!(reason(&actions), Some(&EndReason::Released));
}

#[test]
fn a_wish_to_leave_before_the_server_has_started_is_kept() {
    // Those that nobody has fenced stay on record.
    let unfenced = Action::Release(record(2, &["c"]).released(Some("b".into())));
    let mut it = taking();
    assert_eq!(it.handle(leave("b"), at(5)), []);
    assert_eq!(it.handle(took(at(0), 2, &["c"]), at(10)), std::slice::from_ref(&unfenced));
    let mut it = taking();
    it.handle(took(at(0), 2, &["c"]), at(10));
    assert_eq!(it.handle(leave("b"), at(15)), []);
    assert_eq!(it.handle(leave("d"), at(16)), [], "the first wish holds");
    let failed = record(2, &["c"]).after_failure("the fence failed: no").released(Some("b".into()));
    assert_eq!(it.handle(OwnershipEvent::Fenced(Err("no".into())), at(20)), [Action::Release(failed)]);
    let mut it = fencing();
    assert_eq!(it.handle(leave("b"), at(15)), []);
    assert_eq!(it.handle(OwnershipEvent::Fenced(Ok(())), at(20)), [release_to_b()]);
    let mut it = starting();
    assert_eq!(it.handle(leave("b"), at(15)), []);
    assert_eq!(it.handle(started(), at(20)), [update(2), Action::Quiet]);
    assert_eq!(it.handle(OwnershipEvent::Quiet, at(30)), [release_to_b()]);
    let mut it = starting();
    assert_eq!(it.handle(leave("b"), at(15)), []);
    let failed = record(2, &[]).after_failure("no").released(Some("b".into()));
    assert_eq!(it.handle(OwnershipEvent::Started(Err("no".into())), at(20)), [Action::Release(failed)]);
}

#[test]
fn a_term_that_another_program_did_not_extend_says_so() {
    let over = |mut it: Ownership| {
        assert_eq!(it.handle(OwnershipEvent::Woken, at(0)), take());
        assert_eq!(it.handle(took(at(0), 2, &[]), at(10)).len(), 1);
        match reason(&it.handle(OwnershipEvent::Woken, at(9000))) {
            Some(EndReason::TermOver(why)) => why.clone(),
            other => panic!("{other:?}"),
        }
    };
    assert!(over(waiting()).contains("stood still for too long"));
    let why = over(waiting().decided_elsewhere());
    assert!(why.starts_with("nobody has extended it by `trunkline node hold`"), "{why}");
}

#[test]
fn a_node_does_not_leave_to_itself() {
    for make in [waiting, taking, fencing, starting, serving, giving_up] {
        let mut it = make();
        let (stage, deadline) = (it.stage(), it.deadline());
        assert_eq!(it.handle(leave("a"), at(50)), []);
        assert_eq!((it.stage(), it.deadline()), (stage, deadline));
    }
}

#[test]
fn a_reservation_is_overridden_after_a_term_and_not_after_that_of_an_earlier_one() {
    let reserved = |epoch| record(epoch, &[]).released(Some("b".into()));
    let mut it = taking();
    assert_eq!(it.handle(owned(at(0), reserved(5)), at(10)), [Action::Watch(TERM)]);
    assert_eq!(it.handle(OwnershipEvent::Woken, at(9000)), take());
    // Node b came and went meanwhile. The next reservation is younger.
    it.handle(owned(at(9000), reserved(6)), at(9010));
    assert_eq!(it.handle(OwnershipEvent::Woken, at(19_000)), take());
    // A failure of the store forgets nothing.
    it.handle(OwnershipEvent::Took { asked: at(19_000), outcome: Err(lost()) }, at(19_001));
    let overriding = [Action::Take { overrides_reservation: true }];
    assert_eq!(it.handle(OwnershipEvent::Woken, at(19_600)), overriding);
    it.handle(owned(at(19_600), record(7, &[])), at(19_610));
    assert_eq!(it.handle(OwnershipEvent::Woken, at(29_610)), take());
}

#[test]
fn each_hindrance_is_told_once() {
    let mut it = taking();
    it.handle(owned(at(0), record(1, &[])), at(10));
    assert_eq!(it.take_hindrance(), Some(Hindrance::Owned(record(1, &[]))));
    it.handle(OwnershipEvent::Woken, at(10_010));
    it.handle(owned(at(10_010), record(1, &[])), at(10_020));
    assert_eq!(it.take_hindrance(), None);
    it.handle(OwnershipEvent::Woken, at(20_020));
    it.handle(owned(at(20_020), record(2, &[])), at(20_030));
    assert_eq!(it.take_hindrance(), Some(Hindrance::Owned(record(2, &[]))));
}

#[test]
fn an_event_in_a_wrong_phase_changes_nothing() {
    let phases: [(&str, MakeOwnership, &[&str]); 9] = [
        ("waiting", waiting, &["Woken", "Leave"]),
        ("taking", taking, &["Took"]),
        ("fencing", fencing, &["Fenced", "Renewed"]),
        ("starting", starting, &["Started", "Renewed"]),
        ("serving", serving, &["Leave", "Renewed", "Updated"]),
        ("quieting", quieting, &["Quiet", "Renewed", "Updated"]),
        ("releasing", releasing, &["Released", "Renewed"]),
        ("giving up", giving_up, &["Released"]),
        ("ended", at_its_end, &[]),
    ];
    for (phase, make, expected) in phases {
        for event in all_events() {
            let name = format!("{event:?}");
            if expected.iter().any(|it| name.starts_with(it)) {
                continue;
            }
            let mut it = make();
            let (stage, deadline) = (it.stage(), it.deadline());
            assert_eq!(it.handle(event, at(400)), [], "{name} when {phase}");
            assert_eq!((it.stage(), it.deadline()), (stage, deadline), "{name} when {phase}");
        }
    }
}

/// The event with questions that were asked within the last two seconds.
fn stamped(event: &OwnershipEvent, now: u64) -> OwnershipEvent {
    let asked = at(now.saturating_sub(now % 2000));
    match event.clone() {
        OwnershipEvent::Took { outcome, .. } => OwnershipEvent::Took { asked, outcome },
        OwnershipEvent::Renewed { outcome, .. } => OwnershipEvent::Renewed { asked, outcome },
        other => other,
    }
}

/// Whether a node may go from one stage to the other in one step.
fn may_follow(from: OwnershipStage, to: OwnershipStage) -> bool {
    use OwnershipStage::{Ended, Fencing, Releasing, Serving, Starting, Waiting};
    match from {
        Waiting => matches!(to, Fencing | Starting | Releasing | Ended),
        Fencing => matches!(to, Starting | Waiting | Releasing | Ended),
        Starting => matches!(to, Serving | Waiting | Releasing | Ended),
        Serving => matches!(to, Releasing | Ended),
        Releasing => to == Ended,
        Ended => false,
    }
}

proptest! {
    /// Events come in any order: nothing is served that was not taken, fenced and started in this order, no
    /// term is longer than the store's, and an end is final.
    #[test]
    fn any_events_keep_the_order(steps in proptest::collection::vec((0..20_usize, 0..3000_u64), 1..60)) {
        let mut it = waiting();
        let (mut now, mut last) = (0, it.stage());
        for (which, passed) in steps {
            now += passed;
            let event = stamped(&all_events()[which], now);
            let actions = it.handle(event.clone(), at(now));
            let stage = it.stage();
            let ends = actions.iter().filter(|it| matches!(it, Action::End(_))).count();
            let has_ended = last != OwnershipStage::Ended && stage == OwnershipStage::Ended;
            prop_assert_eq!(ends, usize::from(has_ended));
            prop_assert!(stage == last || may_follow(last, stage), "{last:?} to {stage:?} by {event:?}");
            for action in &actions {
                if let Action::Extend(until) | Action::Start { until, .. } = *action {
                    prop_assert!(until == BootTime::NEVER || until <= at(now).plus(TERM - MARGIN));
                }
            }
            last = stage;
        }
    }
}
