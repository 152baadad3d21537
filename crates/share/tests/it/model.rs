//! Sharing, also with opens whose clients are gone, and byte ranges, against models that know nothing of the
//! engine's implementation.

use std::sync::Arc;
use std::time::Duration;

use crate::common::*;
use proptest::prelude::*;
use share::{CallResult, Deny, Detached, LockRule, LossListener, Open, RangeKind, RangeRequest, Refusal};
use volume::security::Rights;

/// The model of an open: file and stream, access, and denial.
#[derive(Debug, Clone, Copy, PartialEq)]
struct OpenTerms {
    file: usize,
    named: bool,
    uses: [bool; 3],
    denies: [bool; 3],
}

impl OpenTerms {
    fn rights(self) -> Rights {
        let all = [Rights::READ_DATA, Rights::WRITE_DATA, Rights::DELETE];
        let asked = all.into_iter().zip(self.uses).filter(|(_, on)| *on).map(|(right, _)| right);
        asked.fold(Rights::READ_ATTRIBUTES, |all, one| all | one)
    }

    fn deny(self) -> Deny {
        let all = [Deny::READ, Deny::WRITE, Deny::DELETE];
        all.into_iter().zip(self.denies).filter(|(_, on)| *on).fold(Deny::empty(), |all, (one, _)| all | one)
    }

    /// Whether the two conflict, by the table of access against denials.
    fn excludes(self, other: OpenTerms) -> bool {
        let idle = |open: OpenTerms| open.uses == [false; 3];
        if self.file != other.file || idle(self) || idle(other) {
            return false;
        }
        let hurts = |who: OpenTerms, whom: OpenTerms| {
            (0..3).any(|what| {
                let counts = who.named == whom.named || (what == 2 && !who.named);
                counts && who.uses[what] && whom.denies[what]
            })
        };
        hurts(self, other) || hurts(other, self)
    }
}

#[derive(Debug, Clone)]
enum SharingAction {
    Open(OpenTerms),
    Close(prop::sample::Index),
    /// Its client goes, for this many seconds.
    Leave(prop::sample::Index, u64),
    /// Its client comes back.
    Reclaim(prop::sample::Index),
    /// A second passes.
    Wait,
    Mark(prop::sample::Index, bool),
}

fn acts() -> impl Strategy<Value = Vec<SharingAction>> {
    let stands = (
        0..2usize,
        prop::bool::weighted(0.2),
        any::<[bool; 3]>(),
        prop::array::uniform3(prop::bool::weighted(0.2)),
    )
        .prop_map(|(file, named, uses, denies)| OpenTerms { file, named, uses, denies });
    let act = prop_oneof![
        5 => stands.prop_map(SharingAction::Open),
        3 => any::<prop::sample::Index>().prop_map(SharingAction::Close),
        2 => (any::<prop::sample::Index>(), 1..4u64)
            .prop_map(|(at, seconds)| SharingAction::Leave(at, seconds)),
        1 => any::<prop::sample::Index>().prop_map(SharingAction::Reclaim),
        1 => Just(SharingAction::Wait),
        1 => (any::<prop::sample::Index>(), any::<bool>()).prop_map(|(at, on)| SharingAction::Mark(at, on)),
    ];
    prop::collection::vec(act, 1..40)
}

/// One open of the engine, with the state that the model keeps for it.
struct ModelledOpen {
    stands: OpenTerms,
    open: Arc<Open>,
    /// The second at which it ends, while its client is gone.
    until: Option<u64>,
}

/// The model of names and streams.
struct ModelNames {
    exists: [bool; 2],
    has_stream: [bool; 2],
    /// For each file, whether the name and the stream are marked for deletion.
    marked: [[bool; 2]; 2],
}

impl ModelNames {
    /// Updates the model after an open of `stands` has gone; `left` has the others.
    fn closed(&mut self, stands: OpenTerms, left: &[ModelledOpen]) {
        let file = stands.file;
        let is_left = |named: bool| left.iter().any(|o| o.stands.file == file && o.stands.named == named);
        if self.marked[file][1] && !is_left(true) {
            self.has_stream[file] = false;
            self.marked[file][1] = false;
        }
        if self.marked[file][0] && !is_left(true) && !is_left(false) {
            (self.exists[file], self.marked[file]) = (false, [false; 2]);
        }
    }

    /// The result that the model expects for a request to open.
    fn expect(&self, stands: OpenTerms, open: &[ModelledOpen]) -> Result<(), Refusal> {
        let is_there = self.exists[stands.file] && (!stands.named || self.has_stream[stands.file]);
        let goes = self.marked[stands.file][0] || (stands.named && self.marked[stands.file][1]);
        if !is_there {
            Err(Refusal::NotFound)
        } else if goes {
            Err(Refusal::DeletePending)
        } else if open.iter().any(|other| other.stands.excludes(stands)) {
            Err(Refusal::SharingConflict)
        } else {
            Ok(())
        }
    }
}

/// No client hears of the engine's closes: the model knows them.
struct Nobody;

impl LossListener for Nobody {
    fn on_lost(&self, _token: u64) {}
}

/// Kept until this second, whichever requests conflict with it.
fn until(until: u64) -> Detached {
    Detached { until_ns: second(until).mono_ns, yields: false, keeper: Arc::new(Nobody), token: 0 }
}

fn second(second: u64) -> wire::Now {
    now().plus(Duration::from_secs(second))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn sharing_and_deleting_follow_the_model(acts in acts()) {
        let world = TestShare::new();
        let client = world.client(1);
        let names = ["f0", "f1"];
        for name in names {
            client.make_with(name, "");
            client.close(&client.open(name).stream("s").disposition(share::Disposition::Create).open());
        }
        let mut open: Vec<ModelledOpen> = Vec::new();
        let mut names_are = ModelNames { exists: [true; 2], has_stream: [true; 2], marked: [[false; 2]; 2] };
        let mut clock = 0;
        for act in acts {
            match act {
                SharingAction::Open(stands) => {
                    let mut ask = client.open(names[stands.file]).access(stands.rights()).deny(stands.deny());
                    if stands.named {
                        ask = ask.stream("s");
                    }
                    let result = ask.result();
                    let expected = names_are.expect(stands, &open);
                    prop_assert_eq!(result.as_ref().map(|_| ()).map_err(Clone::clone), expected);
                    if let Ok(opened) = result {
                        open.push(ModelledOpen { stands, open: opened.open, until: None });
                    }
                }
                SharingAction::Close(at) if !open.is_empty() => {
                    let closed = open.swap_remove(at.index(open.len()));
                    client.close(&closed.open);
                    names_are.closed(closed.stands, &open);
                }
                SharingAction::Leave(at, seconds) if !open.is_empty() => {
                    let at = at.index(open.len());
                    let left = world.share.detach_open(&open[at].open, until(clock + seconds), second(clock));
                    prop_assert_eq!(left.is_ok(), open[at].until.is_none());
                    open[at].until = open[at].until.or(Some(clock + seconds));
                }
                SharingAction::Reclaim(at) if !open.is_empty() => {
                    let at = at.index(open.len());
                    let back = client.caller(true, second(clock), |c| world.share.reclaim(&open[at].open, c));
                    prop_assert_eq!(back.is_ok(), open[at].until.take().is_some());
                }
                SharingAction::Wait => {
                    clock += 1;
                    world.share.tick(second(clock));
                    let is_over = |one: &ModelledOpen| one.until.is_some_and(|until| until <= clock);
                    while let Some(at) = open.iter().position(is_over) {
                        let over = open.swap_remove(at);
                        prop_assert!(over.open.is_closed());
                        names_are.closed(over.stands, &open);
                    }
                    prop_assert!(open.iter().all(|left| !left.open.is_closed()));
                }
                SharingAction::Mark(at, on) if !open.is_empty() => {
                    let ModelledOpen { stands, open: marks, .. } = &open[at.index(open.len())];
                    let expected = if stands.uses[2] { Ok(()) } else { Err(Refusal::AccessDenied) };
                    prop_assert_eq!(client.set_delete(marks, on), expected);
                    if stands.uses[2] {
                        names_are.marked[stands.file][usize::from(stands.named)] = on;
                    }
                }
                SharingAction::Close(_) | SharingAction::Leave(..) => {}
                SharingAction::Reclaim(_) | SharingAction::Mark(..) => {}
            }
        }
        for left in open {
            client.close(&left.open);
        }
        prop_assert_eq!(world.share.open_count(), 0);
        prop_assert!(world.share.opens().is_empty());
    }

    #[test]
    fn byte_ranges_follow_the_model(
        acts in prop::collection::vec((0..3usize, any::<bool>(), 0..16u64, 1..8u64, any::<bool>()), 1..60)
    ) {
        let world = TestShare::new();
        let client = world.client(1);
        client.make_with("f", "0123456789abcdef01234567");
        let opens: Vec<_> = (0..3).map(|_| client.open("f").open()).collect();
        // The held ranges, in order: owner, range.
        let mut held: Vec<(usize, RangeRequest)> = Vec::new();
        for (who, takes, start, len, exclusive) in acts {
            let kind = if exclusive { RangeKind::Exclusive } else { RangeKind::Shared };
            let range = RangeRequest { start, len, kind };
            let owner = client.owner(&opens[who]);
            let meets = |r: &RangeRequest| {
                (r.start..r.start + r.len).any(|b| (start..start + len).contains(&b))
            };
            if takes {
                let is_free = held.iter().all(|(other, r)| {
                    !meets(r) || match (r.kind, kind) {
                        (RangeKind::Shared, RangeKind::Shared) => true,
                        (RangeKind::Exclusive, RangeKind::Shared) => *other == who,
                        (_, RangeKind::Exclusive) => false,
                    }
                });
                let step = client.caller(false, now(), |c| {
                    world.share.lock(c, &opens[who], owner, LockRule::Exact, &[range])
                });
                prop_assert_eq!(matches!(step, CallResult::Done(())), is_free);
                if is_free {
                    held.push((who, range));
                }
            } else {
                type Owned = (usize, RangeRequest);
                let same = |(other, r): &Owned| *other == who && (r.start, r.len) == (start, len);
                let is_exclusive = |one: &Owned| same(one) && one.1.kind == RangeKind::Exclusive;
                let at = held.iter().position(is_exclusive).or_else(|| held.iter().rposition(same));
                let result = world.share.unlock(&opens[who], owner, LockRule::Exact, &[range]);
                prop_assert_eq!(result.is_ok(), at.is_some());
                at.map(|at| held.remove(at));
            }
            // The owners that may write and read the range now.
            for (reader, open) in opens.iter().enumerate() {
                let keeps = |kind: RangeKind, owner: usize| kind == RangeKind::Exclusive && owner != reader;
                let may_read = !held.iter().any(|(o, r)| keeps(r.kind, *o) && meets(r));
                let may_write =
                    !held.iter().any(|(o, r)| meets(r) && (r.kind == RangeKind::Shared || *o != reader));
                let owner = client.owner(open);
                let mut out = Vec::new();
                let patience = volume::Patience::Block;
                let read = world.share.read(open, owner.into(), start, len as usize, &mut out, patience);
                prop_assert_eq!(read.is_ok(), may_read);
                prop_assert_eq!(client.write(open, start, &"x".repeat(len as usize)).is_ok(), may_write);
            }
        }
    }
}
