//! The counters of a connection at the engine: requests are counted for their share.

use std::sync::Arc;

use share::counts::{CompletedTransaction, ConnectionCounters, Counts, Family, ShareIndex, TransactionKind};
use share::limits::ResponseType;
use share::{Config, Share};
use volume::memory::MemoryVolume;

static FAMILY: Family = Family { name: "F", operations: &["One", "Two"], authentications: &["Key"] };
const DONE: CompletedTransaction = CompletedTransaction {
    operation: 1,
    authentication: 0,
    kind: TransactionKind::Write,
    response: ResponseType::Success,
    ingress: 10,
    egress: 20,
    data: 5,
};

#[test]
fn each_share_has_its_own_and_the_rest_is_nobodys() {
    let open = |name: &str| {
        let config = Config { name: name.to_owned(), ..Config::default() };
        Share::open(Arc::new(MemoryVolume::new(1)), config).unwrap()
    };
    let (one, other, rest) = (open("one"), open("other"), Counts::new(&FAMILY));
    let mut counters = ConnectionCounters::new(&rest);
    for share in [&one, &other, &one] {
        let share_index = counters.share_index(share);
        assert_eq!(counters.known(share.number()), Some(share_index));
        counters.note(share_index, &DONE, None);
    }
    counters.note(ShareIndex::default(), &DONE, None);
    let count = |counts: &Counts| counts.read().transactions[0].all();
    let all = [&one, &other].map(|share| count(&share.counts(&FAMILY)));
    assert_eq!((all, count(&rest)), ([2, 1], 1));
    let (_, activity) = counters.activity().read();
    let written: Vec<_> = activity.iter().map(|(name, habit)| (name.as_str(), habit.bytes[1])).collect();
    assert_eq!(written, [("one", 10), ("other", 5)]);
    drop(one);
    assert_eq!(counters.activity().read().1.len(), 1, "a share that is gone has no name any more");
}
