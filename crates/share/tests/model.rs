//! Sharing and byte ranges against models that know nothing of how the engine does it.

mod common;

use std::sync::Arc;

use common::*;
use proptest::prelude::*;
use share::{Deny, LockRule, Open, RangeKind, RangeRequest, Refusal, Step};
use volume::security::Rights;

/// What the model knows of an open: which file and stream, what it does, what it denies.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Stands {
    file: usize,
    named: bool,
    uses: [bool; 3],
    denies: [bool; 3],
}

impl Stands {
    fn rights(self) -> Rights {
        let all = [Rights::READ_DATA, Rights::WRITE_DATA, Rights::DELETE];
        let asked = all.into_iter().zip(self.uses).filter(|(_, on)| *on).map(|(right, _)| right);
        asked.fold(Rights::READ_ATTRIBUTES, |all, one| all | one)
    }

    fn deny(self) -> Deny {
        let all = [Deny::READ, Deny::WRITE, Deny::DELETE];
        all.into_iter().zip(self.denies).filter(|(_, on)| *on).fold(Deny::empty(), |all, (one, _)| all | one)
    }

    /// Whether the two cannot stand together, by the table of uses against denials.
    fn excludes(self, other: Stands) -> bool {
        let idle = |open: Stands| open.uses == [false; 3];
        if self.file != other.file || idle(self) || idle(other) {
            return false;
        }
        let hurts = |who: Stands, whom: Stands| {
            (0..3).any(|what| {
                let counts = who.named == whom.named || (what == 2 && !who.named);
                counts && who.uses[what] && whom.denies[what]
            })
        };
        hurts(self, other) || hurts(other, self)
    }
}

#[derive(Debug, Clone)]
enum Act {
    Open(Stands),
    Close(prop::sample::Index),
    Mark(prop::sample::Index, bool),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let stands = (
        0..2usize,
        prop::bool::weighted(0.2),
        any::<[bool; 3]>(),
        prop::array::uniform3(prop::bool::weighted(0.2)),
    )
        .prop_map(|(file, named, uses, denies)| Stands { file, named, uses, denies });
    let act = prop_oneof![
        5 => stands.prop_map(Act::Open),
        3 => any::<prop::sample::Index>().prop_map(Act::Close),
        1 => (any::<prop::sample::Index>(), any::<bool>()).prop_map(|(at, on)| Act::Mark(at, on)),
    ];
    prop::collection::vec(act, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn sharing_and_deleting_follow_the_model(acts in acts()) {
        let world = World::new();
        let client = world.client(1);
        let names = ["f0", "f1"];
        for name in names {
            client.make_with(name, "");
            client.close(&client.open(name).stream("s").disposition(share::Disposition::Create).open());
        }
        let mut open: Vec<(Stands, Arc<Open>)> = Vec::new();
        let mut exists = [true; 2];
        // For each file, whether the name and the stream are marked to go.
        let mut marked = [[false; 2]; 2];
        let mut has_stream = [true; 2];
        for act in acts {
            match act {
                Act::Open(stands) => {
                    let mut ask = client.open(names[stands.file]).access(stands.rights()).deny(stands.deny());
                    if stands.named {
                        ask = ask.stream("s");
                    }
                    let is_there = exists[stands.file] && (!stands.named || has_stream[stands.file]);
                    let goes = marked[stands.file][0] || (stands.named && marked[stands.file][1]);
                    let expected = if !is_there {
                        Err(Refusal::NotFound)
                    } else if goes {
                        Err(Refusal::DeletePending)
                    } else if open.iter().any(|(other, _)| other.excludes(stands)) {
                        Err(Refusal::SharingConflict)
                    } else {
                        Ok(())
                    };
                    let result = ask.result();
                    prop_assert_eq!(result.as_ref().map(|_| ()).map_err(Clone::clone), expected);
                    if let Ok(opened) = result {
                        open.push((stands, opened.open));
                    }
                }
                Act::Close(at) if !open.is_empty() => {
                    let (stands, closed) = open.swap_remove(at.index(open.len()));
                    client.close(&closed);
                    let file = stands.file;
                    let left = |named: bool| open.iter().any(|(o, _)| o.file == file && o.named == named);
                    if marked[file][1] && !left(true) {
                        has_stream[file] = false;
                        marked[file][1] = false;
                    }
                    if marked[file][0] && !left(true) && !left(false) {
                        (exists[file], marked[file]) = (false, [false; 2]);
                    }
                }
                Act::Mark(at, on) if !open.is_empty() => {
                    let (stands, marks) = &open[at.index(open.len())];
                    let may = stands.uses[2];
                    let expected = if may { Ok(()) } else { Err(Refusal::AccessDenied) };
                    prop_assert_eq!(client.set_delete(marks, on), expected);
                    if may {
                        marked[stands.file][usize::from(stands.named)] = on;
                    }
                }
                Act::Close(_) | Act::Mark(..) => {}
            }
        }
        for (_, left) in open {
            client.close(&left);
        }
        prop_assert_eq!(world.share.open_count(), 0);
        prop_assert!(world.share.opens().is_empty());
    }

    #[test]
    fn byte_ranges_follow_the_model(
        acts in prop::collection::vec((0..3usize, any::<bool>(), 0..16u64, 1..8u64, any::<bool>()), 1..60)
    ) {
        let world = World::new();
        let client = world.client(1);
        client.make_with("f", "0123456789abcdef01234567");
        let opens: Vec<_> = (0..3).map(|_| client.open("f").open()).collect();
        // What is held, in order: owner, range.
        let mut held: Vec<(usize, RangeRequest)> = Vec::new();
        for (who, takes, start, len, exclusive) in acts {
            let kind = if exclusive { RangeKind::Exclusive } else { RangeKind::Shared };
            let range = RangeRequest { start, len, kind };
            let owner = client.owner(&opens[who]);
            let meets = |r: &RangeRequest| (r.start..r.start + r.len).any(|b| (start..start + len).contains(&b));
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
                prop_assert_eq!(matches!(step, Step::Done(())), is_free);
                if is_free {
                    held.push((who, range));
                }
            } else {
                let same = |(other, r): &(usize, RangeRequest)| *other == who && (r.start, r.len) == (start, len);
                let is_exclusive = |one: &(usize, RangeRequest)| same(one) && one.1.kind == RangeKind::Exclusive;
                let at = held.iter().position(is_exclusive).or_else(|| held.iter().rposition(same));
                let result = world.share.unlock(&opens[who], owner, LockRule::Exact, &[range]);
                prop_assert_eq!(result.is_ok(), at.is_some());
                at.map(|at| held.remove(at));
            }
            // Who may write and read the range now.
            for (reader, open) in opens.iter().enumerate() {
                let may_read = !held.iter().any(|(o, r)| *o != reader && r.kind == RangeKind::Exclusive && meets(r));
                let may_write =
                    !held.iter().any(|(o, r)| meets(r) && (r.kind == RangeKind::Shared || *o != reader));
                let owner = client.owner(open);
                let mut out = Vec::new();
                let read = world.share.read(open, owner, start, len as usize, &mut out, volume::Patience::Block);
                prop_assert_eq!(read.is_ok(), may_read);
                prop_assert_eq!(client.write(open, start, &"x".repeat(len as usize)).is_ok(), may_write);
            }
        }
    }
}
