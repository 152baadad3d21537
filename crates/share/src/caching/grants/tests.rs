//! The state machine of caching rights, transition by transition.

use super::*;

const NODE: NodeId = NodeId { device: 1, inode: 2 };
const R: Caching = Caching::READ;
const RH: Caching = Caching::READ.union(Caching::HANDLE);
const RW: Caching = Caching::READ.union(Caching::WRITE);
const RWH: Caching = Caching::all();
const NONE: Caching = Caching::empty();
const SOON: Deadlines = Deadlines { single: 50, whole: 90, again: 20 };
const ALONE: GrantConditions =
    GrantConditions { others: false, delete_pending: false, ranges: false, directory: false, writers: false };
const AMONG_OTHERS: GrantConditions = GrantConditions { others: true, ..ALONE };

fn requester(n: u128, keyed: bool) -> Requester {
    Requester { client: Some(ClientKey(n)), key: Some((CacheKey(n), keyed)), parent: None, whole: false }
}

fn request_for(n: u128, keyed: bool, want: Caching) -> CachingRequest {
    CachingRequest { key: CacheKey(n), want, keyed, parent: None, epoch: Some(0), whole: false, via: 0 }
}

fn keyed(grants: &mut Grants, n: u128, want: Caching, around: GrantConditions) -> Caching {
    grants.grant(ClientKey(n), &request_for(n, true, want), around).state
}

fn single(grants: &mut Grants, n: u128, want: Caching, around: GrantConditions) -> Caching {
    grants.grant(ClientKey(n), &request_for(n, false, want), around).state
}

fn answer(grants: &mut Grants, n: u128, keyed: bool, keep: Caching) -> Result<Option<Caching>, Refusal> {
    let id = (ClientKey(n), CacheKey(n), keyed);
    grants.acknowledge(NODE, id, keep, 100).map(|(_, next)| next.map(|notice| notice.to))
}

/// (from, to, must be acknowledged) of each notice, and whether the request waits.
fn require(grants: &mut Grants, requester: Requester, need: Need) -> (Vec<(Caching, Caching, bool)>, bool) {
    let broken = grants.require(NODE, &requester, need, SOON);
    (broken.notices.iter().map(|n| (n.from, n.to, n.answer)).collect(), broken.wait)
}

#[test]
fn what_each_need_takes_from_a_keyed_holder() {
    let cases = [
        (RWH, Need::Open, RH, true, true),
        (RW, Need::Open, R, true, true),
        (RWH, Need::CloseKept, RW, true, true),
        (RH, Need::CloseKept, R, true, true),
        (RWH, Need::Rename, RW, true, true),
        (RWH, Need::Delete, RH, true, true),
        (RW, Need::Delete, R, true, true),
        (RWH, Need::Replace, NONE, true, true),
        (RW, Need::Change, NONE, true, true),
        (RH, Need::Replace, NONE, true, false),
        (RH, Need::Change, NONE, true, false),
        (R, Need::Change, NONE, false, false),
    ];
    for (held, need, to, answered, waits) in cases {
        let mut grants = Grants::default();
        assert_eq!(keyed(&mut grants, 1, held, ALONE), held);
        let got = require(&mut grants, requester(2, true), need);
        assert_eq!(got, (vec![(held, to, answered)], waits), "{held:?} {need:?}");
    }
    for (held, need) in [
        (R, Need::Open),
        (R, Need::Delete),
        (RH, Need::Delete),
        (RH, Need::Open),
        (R, Need::CloseKept),
        (RW, Need::Rename),
    ] {
        let mut grants = Grants::default();
        keyed(&mut grants, 1, held, ALONE);
        assert_eq!(require(&mut grants, requester(2, true), need), (vec![], false), "{held:?} {need:?}");
    }
}

#[test]
fn what_each_need_takes_from_a_single_open() {
    let cases = [
        (RWH, Need::Open, R, true, true),
        (RW, Need::Open, R, true, true),
        (RWH, Need::Delete, R, true, true),
        (RWH, Need::Rename, NONE, true, true),
        (RWH, Need::Replace, NONE, true, true),
        (RW, Need::Change, NONE, true, true),
        (R, Need::Change, NONE, false, false),
    ];
    for (held, need, to, answered, waits) in cases {
        let mut grants = Grants::default();
        assert_eq!(single(&mut grants, 1, held, ALONE), held);
        let got = require(&mut grants, requester(2, false), need);
        assert_eq!(got, (vec![(held, to, answered)], waits), "{held:?} {need:?}");
    }
}

// RFC 8881 10.4.4
#[test]
fn a_change_of_attributes_is_in_the_way_of_rights_given_back_as_a_whole_only() {
    for held in [RH, RWH] {
        let mut grants = Grants::default();
        let whole = CachingRequest { whole: true, ..request_for(1, true, held) };
        assert_eq!(grants.grant(ClientKey(1), &whole, ALONE).state, held);
        assert_eq!(require(&mut grants, requester(1, true), Need::Attributes), (vec![], false), "its own");
        assert_eq!(
            require(&mut grants, requester(2, true), Need::Attributes),
            (vec![(held, NONE, true)], true)
        );
        let holder = (ClientKey(1), CacheKey(1), true);
        assert_eq!(grants.deadline_of(&holder), Some(SOON.whole));
        let mut grants = Grants::default();
        assert_eq!(keyed(&mut grants, 1, held, ALONE), held);
        assert_eq!(require(&mut grants, requester(2, true), Need::Attributes), (vec![], false));
        assert!(require(&mut grants, requester(2, true), Need::CloseKept).1);
        assert_eq!(grants.deadline_of(&holder), Some(SOON.single));
    }
}

#[test]
fn reading_the_descriptor_is_in_the_way_of_single_opens_only() {
    let mut grants = Grants::default();
    keyed(&mut grants, 1, RWH, ALONE);
    assert_eq!(require(&mut grants, requester(2, true), Need::Look), (vec![], false));
    let mut grants = Grants::default();
    single(&mut grants, 1, RWH, ALONE);
    assert_eq!(require(&mut grants, requester(2, false), Need::Look), (vec![(RWH, R, true)], true));
}

#[test]
fn ones_own_key_is_spared_except_for_reading_under_no_key() {
    let mut grants = Grants::default();
    keyed(&mut grants, 1, RWH, ALONE);
    for need in [Need::Open, Need::Replace, Need::CloseKept, Need::Rename, Need::Change] {
        assert_eq!(require(&mut grants, requester(1, true), need), (vec![], false));
    }
    let mut grants = Grants::default();
    single(&mut grants, 1, R, AMONG_OTHERS);
    assert_eq!(require(&mut grants, requester(1, false), Need::Change), (vec![(R, NONE, false)], false));
    assert!(grants.is_empty());
}

#[test]
fn a_second_need_waits_without_a_second_notice_and_is_met_after_the_answer() {
    let mut grants = Grants::default();
    keyed(&mut grants, 1, RWH, ALONE);
    assert_eq!(require(&mut grants, requester(2, true), Need::Open), (vec![(RWH, RH, true)], true));
    assert_eq!(require(&mut grants, requester(3, true), Need::Replace), (vec![], true));
    assert_eq!(answer(&mut grants, 1, true, RH), Ok(Some(R)));
    // A request that waited for the first step waits for the next one too. A request that only looks does
    // not.
    for need in [Need::Open, Need::Replace] {
        assert_eq!(require(&mut grants, requester(2, true), need), (vec![], true), "{need:?}");
    }
    assert_eq!(require(&mut grants, requester(2, true), Need::Look), (vec![], false));
    assert_eq!(answer(&mut grants, 1, true, R), Ok(Some(NONE)));
    assert_eq!(require(&mut grants, requester(3, true), Need::Replace), (vec![], false));
    assert_eq!(answer(&mut grants, 1, true, NONE), Err(Refusal::NoSuchGrant));
}

#[test]
fn a_break_that_began_without_writing_keeps_no_reader_waiting() {
    let mut grants = Grants::default();
    keyed(&mut grants, 1, RH, ALONE);
    assert_eq!(require(&mut grants, requester(2, true), Need::CloseKept), (vec![(RH, R, true)], true));
    assert_eq!(require(&mut grants, requester(3, true), Need::Open), (vec![], false));
    assert_eq!(require(&mut grants, requester(3, true), Need::Change), (vec![], false));
    assert_eq!(require(&mut grants, requester(3, true), Need::Rename), (vec![], true));
    assert_eq!(answer(&mut grants, 1, true, R), Ok(Some(NONE)));
    assert!(grants.is_empty());
}

#[test]
fn the_first_open_under_a_key_says_whether_epochs_are_counted_and_names_the_parent() {
    let first = CachingRequest { parent: Some(CacheKey(7)), epoch: Some(40), ..request_for(1, true, R) };
    let later = CachingRequest { parent: None, epoch: None, ..request_for(1, true, RH) };
    let mut grants = Grants::default();
    let grant = grants.grant(ClientKey(1), &first, ALONE);
    assert_eq!((grant.epoch, grant.parent), (Some(41), Some(CacheKey(7))));
    let grant = grants.grant(ClientKey(1), &later, ALONE);
    assert_eq!((grant.state, grant.epoch, grant.parent), (RH, Some(42), Some(CacheKey(7))));
    assert_eq!(grants.require(NODE, &requester(2, true), Need::Replace, SOON).notices[0].epoch, 43);
    let mut grants = Grants::default();
    assert_eq!(grants.grant(ClientKey(1), &later, ALONE).epoch, None);
    assert_eq!(grants.grant(ClientKey(1), &first, ALONE).epoch, None);
    assert_eq!(grants.require(NODE, &requester(2, true), Need::Replace, SOON).notices[0].epoch, 0);
}

#[test]
fn an_answer_may_keep_less_but_not_more() {
    let mut grants = Grants::default();
    keyed(&mut grants, 1, RWH, ALONE);
    require(&mut grants, requester(2, true), Need::Open);
    assert_eq!(answer(&mut grants, 1, true, RWH), Err(Refusal::TooMuchKept));
    assert_eq!(answer(&mut grants, 1, true, R), Ok(None));
    assert_eq!(grants.of(ClientKey(1), CacheKey(1), true).map(|g| g.state), Some(R));
}

#[test]
fn rights_are_raised_and_never_lowered_by_opening_again() {
    let mut grants = Grants::default();
    assert_eq!(keyed(&mut grants, 1, R, ALONE), R);
    assert_eq!(keyed(&mut grants, 1, RWH, ALONE), RWH);
    assert_eq!(keyed(&mut grants, 1, R, ALONE), RWH);
    let grant = grants.of(ClientKey(1), CacheKey(1), true).unwrap();
    assert_eq!((grant.epoch, grant.breaking), (Some(2), None));
    require(&mut grants, requester(2, true), Need::Open);
    assert_eq!(keyed(&mut grants, 1, RWH, ALONE), RWH);
    assert_eq!(grants.of(ClientKey(1), CacheKey(1), true).unwrap().breaking, Some(RH));
}

#[test]
fn a_right_is_raised_to_what_was_asked_or_not_at_all() {
    let cases = [(R, R, RH, RH), (R, R, RWH, R), (R, RH, RW, R), (RH, R, RWH, RH), (RH, RH, R, RH)];
    for (own, other, asked, got) in cases {
        let mut grants = Grants::default();
        keyed(&mut grants, 1, own, ALONE);
        keyed(&mut grants, 2, other, AMONG_OTHERS);
        assert_eq!(keyed(&mut grants, 1, asked, AMONG_OTHERS), got, "{own:?} {other:?} {asked:?}");
    }
}

#[test]
fn what_is_granted_beside_others() {
    let mut grants = Grants::default();
    assert_eq!(keyed(&mut grants, 1, RH, ALONE), RH);
    assert_eq!(keyed(&mut grants, 2, RWH, AMONG_OTHERS), RH);
    assert_eq!(single(&mut grants, 3, RWH, AMONG_OTHERS), NONE);
    let mut grants = Grants::default();
    assert_eq!(single(&mut grants, 1, RWH, AMONG_OTHERS), R);
    assert_eq!(keyed(&mut grants, 2, RH, AMONG_OTHERS), R);
    let mut grants = Grants::default();
    for (want, got) in
        [(Caching::WRITE, NONE), (Caching::HANDLE, NONE), (Caching::WRITE | Caching::HANDLE, NONE)]
    {
        assert_eq!(keyed(&mut grants, 1, want, ALONE), got);
    }
}

#[test]
fn what_the_node_has_to_say() {
    let fresh = |around, want| keyed(&mut Grants::default(), 1, want, around);
    assert_eq!(fresh(GrantConditions { directory: true, ..ALONE }, RWH), RH);
    assert_eq!(fresh(GrantConditions { delete_pending: true, ..ALONE }, RWH), RW);
    assert_eq!(fresh(GrantConditions { ranges: true, ..ALONE }, RH), NONE);
    assert_eq!(fresh(GrantConditions { ranges: true, ..ALONE }, RWH), RWH);
    assert_eq!(single(&mut Grants::default(), 1, R, GrantConditions { directory: true, ..ALONE }), NONE);
}

#[test]
fn entries_spare_the_key_that_the_changer_names_for_the_parent() {
    let mut grants = Grants::default();
    let directory = GrantConditions { directory: true, ..ALONE };
    keyed(&mut grants, 1, RH, directory);
    let own = Requester { client: Some(ClientKey(1)), key: None, parent: Some(CacheKey(1)), whole: false };
    assert_eq!(require(&mut grants, own, Need::Entries), (vec![], false));
    let other_client = Requester { client: Some(ClientKey(2)), ..own };
    assert_eq!(require(&mut grants, other_client, Need::Entries), (vec![], false));
    let other_key = Requester { parent: Some(CacheKey(2)), ..own };
    assert_eq!(require(&mut grants, other_key, Need::Entries), (vec![(RH, NONE, true)], false));
    assert_eq!(require(&mut grants, Requester::NOBODY, Need::Entries), (vec![], false));
}

#[test]
fn nothing_waits_for_ever() {
    let mut grants = Grants::default();
    keyed(&mut grants, 1, RWH, ALONE);
    require(&mut grants, requester(2, true), Need::Open);
    assert_eq!(grants.expire(NODE, 49), ExpireResult::default());
    let expired = grants.expire(NODE, 50);
    assert_eq!((expired.lost.len(), expired.notices.len()), (1, 0));
    assert_eq!(require(&mut grants, requester(2, true), Need::Open), (vec![], false));
    assert_eq!(keyed(&mut grants, 2, RWH, ALONE), RWH);
}

#[test]
fn a_holder_is_told_again_that_a_directory_changes_until_it_acknowledges() {
    let told = |result: &ExpireResult| {
        result.notices.iter().map(|notice| (notice.from, notice.to, notice.answer)).collect::<Vec<_>>()
    };
    let mut grants = Grants::default();
    keyed(&mut grants, 1, RH, ALONE);
    assert_eq!(require(&mut grants, Requester::NOBODY, Need::Entries), (vec![(RH, NONE, true)], false));
    // Nothing has changed since the notice.
    assert_eq!(grants.expire(NODE, 20), ExpireResult::default());
    assert_eq!(require(&mut grants, Requester::NOBODY, Need::Entries), (vec![], false));
    assert_eq!(grants.expire(NODE, 19), ExpireResult::default());
    assert_eq!(told(&grants.expire(NODE, 20)), [(RH, NONE, true)]);
    assert_eq!(grants.expire(NODE, 30), ExpireResult::default());
    // The right ends without an answer: once more, and nothing is awaited.
    let expired = grants.expire(NODE, 50);
    assert_eq!((expired.lost.len(), told(&expired)), (1, vec![(RH, NONE, false)]));
    assert_eq!(grants.expire(NODE, 90), ExpireResult::default());
}

#[test]
fn nobody_is_told_again_after_the_acknowledgment() {
    let mut grants = Grants::default();
    keyed(&mut grants, 1, RH, ALONE);
    require(&mut grants, Requester::NOBODY, Need::Entries);
    require(&mut grants, Requester::NOBODY, Need::Entries);
    grants.acknowledge(NODE, (ClientKey(1), CacheKey(1), true), NONE, 50).unwrap();
    assert_eq!(grants.expire(NODE, 50), ExpireResult::default());
}

#[test]
fn the_last_close_under_a_key_gives_the_right_back() {
    let mut grants = Grants::default();
    keyed(&mut grants, 1, RWH, ALONE);
    keyed(&mut grants, 1, RWH, ALONE);
    assert!(!grants.release(ClientKey(1), CacheKey(1), true));
    assert!(grants.release(ClientKey(1), CacheKey(1), true));
    assert!(grants.is_empty() && grants.of(ClientKey(1), CacheKey(1), true).is_none());
}

/// Clients that obey every break, with the number of opens of each.
#[derive(Default)]
struct ObedientClients {
    grants: Grants,
    opens: [u32; 4],
}

impl ObedientClients {
    fn requester(k: usize) -> Requester {
        requester(k as u128, ObedientClients::is_keyed(k))
    }

    /// Half of the clients hold their right under a key, half by one open.
    fn is_keyed(k: usize) -> bool {
        k.is_multiple_of(2)
    }

    fn state(&self, k: usize) -> Caching {
        let id = k as u128;
        self.grants
            .of(ClientKey(id), CacheKey(id), ObedientClients::is_keyed(k))
            .map_or(NONE, |grant| grant.state)
    }

    /// Asks until there is nothing to wait for. Every acknowledgment must bring that nearer.
    fn require(&mut self, k: usize, need: Need) {
        let mut told = Vec::new();
        for _ in 0..8 {
            let broken = self.grants.require(NODE, &ObedientClients::requester(k), need, SOON);
            told.extend(broken.notices.into_iter().filter(|notice| notice.answer));
            if !broken.wait && told.is_empty() {
                return;
            }
            for notice in std::mem::take(&mut told) {
                let id = (notice.client, notice.key, notice.keyed);
                let (_, next) =
                    self.grants.acknowledge(NODE, id, notice.to, 50).expect("a break that was told");
                told.extend(next.filter(|notice| notice.answer));
            }
        }
        panic!("{need:?} by {k} waits for ever: {:?}", self.grants);
    }

    fn check(&self) {
        for k in (0..4).filter(|k| self.state(*k).contains(Caching::WRITE)) {
            let others = (0..4).filter(|other| *other != k && self.opens[*other] > 0).count();
            assert_eq!(others, 0, "{k} may keep writes back while others have it open: {:?}", self.grants);
        }
        let held = |keyed: bool, what: Caching| {
            (0..4).any(|k| ObedientClients::is_keyed(k) == keyed && self.state(k).contains(what))
        };
        assert!(!(held(true, Caching::HANDLE) && held(false, R)), "{:?}", self.grants);
    }
}

proptest::proptest! {
    #[test]
    fn whoever_answers_keeps_others_waiting_no_longer_and_writers_are_alone(
        acts in proptest::collection::vec((0..6u8, 0..4usize, 0..8u8), 1..60)
    ) {
        let mut world = ObedientClients::default();
        for (act, k, want) in acts {
            let want = Caching::from_bits_truncate(want);
            match act {
                0..3 if world.opens[k] == 0 || ObedientClients::is_keyed(k) => {
                    let need = [Need::Open, Need::Delete, Need::Replace][act as usize];
                    world.require(k, need);
                    let others = (0..4).any(|other| other != k && world.opens[other] > 0);
                    let id = k as u128;
                    let around = GrantConditions { others, ..ALONE };
                    let request = request_for(id, ObedientClients::is_keyed(k), want);
                    let grant = world.grants.grant(ClientKey(id), &request, around);
                    proptest::prop_assert!(want.contains(grant.state) || ObedientClients::is_keyed(k));
                    world.opens[k] += 1;
                }
                3 if world.opens[k] > 0 => {
                    world.require(k, Need::Change);
                    for other in (0..4).filter(|other| *other != k) {
                        proptest::prop_assert_eq!(world.state(other), NONE);
                    }
                }
                4 if world.opens[k] > 0 => {
                    world.require(k, Need::Rename);
                    for other in (0..4).filter(|other| *other != k) {
                        proptest::prop_assert!(!world.state(other).contains(Caching::HANDLE));
                    }
                }
                5 if world.opens[k] > 0 => {
                    world.opens[k] -= 1;
                    let keyed = ObedientClients::is_keyed(k);
                    world.grants.release(ClientKey(k as u128), CacheKey(k as u128), keyed);
                }
                _ => {}
            }
            world.check();
        }
    }
}

#[test]
fn a_right_given_back_as_a_whole_goes_before_somebody_opens_for_writing() {
    let whole = |n, want| CachingRequest { whole: true, ..request_for(n, true, want) };
    let broken = |held: Caching, need: Need| {
        let mut grants = Grants::default();
        assert_eq!(grants.grant(ClientKey(1), &whole(1, held), ALONE).state, held);
        let requester = Requester { client: Some(ClientKey(2)), key: None, parent: None, whole: false };
        let broken = grants.require(NODE, &requester, need, Deadlines { single: 1, whole: 1, again: 1 });
        (broken.wait, broken.notices.first().map(|notice| notice.to))
    };
    for need in [Need::OpenToWrite, Need::Change, Need::Replace, Need::Delete, Need::CloseKept, Need::Rename]
    {
        assert_eq!(broken(RH, need), (true, Some(NONE)), "{need:?}");
        assert_eq!(broken(RWH, need), (true, Some(NONE)), "{need:?}");
    }
    assert_eq!(broken(RH, Need::Open), (false, None));
    assert_eq!(broken(RWH, Need::Open), (true, Some(NONE)));
    assert_eq!(broken(RWH, Need::Look), (false, None));
    let writers = GrantConditions { others: true, writers: true, ..ALONE };
    assert_eq!(Grants::default().grant(ClientKey(1), &whole(1, RH), writers).state, NONE);
}

#[test]
fn a_right_given_back_as_a_whole_is_given_with_handle_or_not_at_all() {
    let whole = |n, want| CachingRequest { whole: true, ..request_for(n, true, want) };
    for want in [RH, RWH] {
        // HANDLE is not available beside a plain right to read under no key, nor if the name is about to be
        // deleted.
        let mut grants = Grants::default();
        assert_eq!(single(&mut grants, 1, R, AMONG_OTHERS), R);
        assert_eq!(grants.grant(ClientKey(2), &whole(2, want), AMONG_OTHERS).state, NONE, "{want:?}");
        let mut grants = Grants::default();
        let goes = GrantConditions { delete_pending: true, ..ALONE };
        assert_eq!(grants.grant(ClientKey(2), &whole(2, want), goes).state, NONE, "{want:?}");
        // The open that got nothing makes no request wait. It gets the right once it is available.
        assert_eq!(require(&mut grants, requester(1, true), Need::OpenToWrite), (vec![], false));
        assert_eq!(grants.grant(ClientKey(2), &whole(2, want), ALONE).state, want);
    }
    let mut grants = Grants::default();
    keyed(&mut grants, 1, RH, ALONE);
    assert_eq!(grants.grant(ClientKey(2), &whole(2, RWH), AMONG_OTHERS).state, RH);
}
