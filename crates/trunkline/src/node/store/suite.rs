//! The contract of a tenure store, which the tests of each store run.

use std::thread;
use std::time::Duration;

use tenure::{Claim, Epoch, NodeOwner, StoreError, TakeOutcome, TenureRecord, TenureStore};

/// Much longer than any step of a test.
pub const LONG: Duration = Duration::from_secs(60);

/// The term of the tests. A busy host may stand still for a part of it.
pub const TERM: Duration = Duration::from_secs(5);

/// A place where a store keeps one virtual server.
pub trait Backing {
    /// The store of a new process.
    fn store(&self) -> Box<dyn TenureStore>;

    /// Ends the term of the owner, whose process does not release it.
    fn end_term(&self, owner: Box<dyn TenureStore>);

    /// Whether a term outlives its process.
    fn has_terms(&self) -> bool {
        true
    }

    /// Whether the store heeds reservations.
    fn has_reservations(&self) -> bool {
        true
    }
}

pub fn claim(node: &str, boot_id: &str) -> Claim {
    let (node, boot_id) = (node.to_owned(), boot_id.to_owned());
    let storage_clients = vec![format!("client of {node}")];
    let owner = NodeOwner { node, boot_id, storage_clients, ..NodeOwner::default() };
    Claim { owner, term: TERM, overrides_reservation: false }
}

fn taken(store: &dyn TenureStore, claim: &Claim) -> TenureRecord {
    match store.take(claim) {
        Ok(TakeOutcome::Taken(taken)) => taken.record,
        other => panic!("not taken: {other:?}"),
    }
}

fn owned(store: &dyn TenureStore, claim: &Claim) -> TenureRecord {
    match store.take(claim) {
        Ok(TakeOutcome::Owned(record)) => record,
        other => panic!("not owned by another node: {other:?}"),
    }
}

fn is_not_owner<T>(outcome: &Result<T, StoreError>) -> bool {
    matches!(outcome, Err(StoreError::NotOwner(_)))
}

fn to_fence(record: &TenureRecord) -> Vec<String> {
    record.to_fence().into_iter().map(|owner| owner.node).collect()
}

/// Runs the whole contract on a virtual server that has had no owner.
pub fn run(backing: &dyn Backing) {
    let record = one_owner(backing);
    let record = another_owner_after_the_first_term(backing, record);
    let record = releases(backing, record);
    restart_in_place(backing, record);
}

fn one_owner(backing: &dyn Backing) -> (Box<dyn TenureStore>, TenureRecord) {
    let (first, second) = (backing.store(), backing.store());
    assert_eq!(second.record(), Ok(None));
    let mut record = taken(&*first, &claim("a", "1"));
    assert_eq!((record.epoch, to_fence(&record)), (Epoch(1), vec![]));
    assert_eq!(second.record(), Ok(Some((record.clone(), true))));
    assert_eq!(owned(&*second, &claim("b", "2")), record);
    // A later boot of the same node is another owner, whatever its name says.
    assert_eq!(owned(&*second, &claim("a", "3")), record);

    let term = first.renew(Epoch(1)).unwrap();
    assert_eq!(term.is_some_and(|term| term >= TERM), backing.has_terms());
    assert!(is_not_owner(&first.renew(Epoch(2))));
    assert!(is_not_owner(&second.renew(Epoch(1))));
    assert!(is_not_owner(&second.update(&record)));
    assert!(is_not_owner(&second.release(&record.clone().released(None))));

    record.guid = "a state directory".to_owned();
    first.update(&record).unwrap();
    first.update(&record).unwrap();
    assert_eq!(second.record(), Ok(Some((record.clone(), true))));
    (first, record)
}

fn another_owner_after_the_first_term(
    backing: &dyn Backing,
    (first, record): (Box<dyn TenureStore>, TenureRecord),
) -> (Box<dyn TenureStore>, TenureRecord) {
    let second = backing.store();
    assert_eq!(owned(&*second, &claim("b", "2")), record);
    thread::scope(|scope| {
        let waits = scope.spawn(|| second.watch(LONG));
        backing.end_term(first);
        waits.join().unwrap().unwrap();
    });
    let next = taken(&*second, &claim("b", "2"));
    assert_eq!((next.epoch, to_fence(&next)), (Epoch(2), vec!["a".to_owned()]));
    assert_eq!((next.guid.as_str(), next.unfenced[0].epoch), (record.guid.as_str(), Epoch(1)));
    assert_eq!(next.unfenced[0].storage_clients, ["client of a"]);
    let fenced = next.fenced();
    second.update(&fenced).unwrap();
    (second, fenced)
}

fn releases(
    backing: &dyn Backing,
    (owner, record): (Box<dyn TenureStore>, TenureRecord),
) -> (Box<dyn TenureStore>, TenureRecord) {
    let other = backing.store();
    assert_eq!(owned(&*other, &claim("a", "3")), record);
    let released = record.released(Some("c".to_owned()));
    thread::scope(|scope| {
        let waits = scope.spawn(|| other.watch(LONG));
        owner.release(&released).unwrap();
        waits.join().unwrap().unwrap();
    });
    assert!(is_not_owner(&owner.renew(Epoch(2))));
    assert_eq!(other.record(), Ok(Some((released.clone(), false))));
    if backing.has_reservations() {
        assert_eq!(owned(&*other, &claim("a", "3")), released);
        // It does not ask again and again while nothing changes.
        let began = std::time::Instant::now();
        other.watch(Duration::from_millis(200)).unwrap();
        assert!(began.elapsed() >= Duration::from_millis(190));
    }
    let next = taken(&*backing.store(), &claim("c", "4"));
    assert_eq!((next.epoch, to_fence(&next), &next.reserved_for), (Epoch(3), vec![], &None));

    // That process is gone, and another one of its boot takes over.
    let third = backing.store();
    let fourth = taken(&*third, &claim("c", "4"));
    assert_eq!((fourth.epoch, to_fence(&fourth)), (Epoch(4), vec![]));
    third.release(&fourth.started().released(Some("nobody".to_owned()))).unwrap();
    let claim = Claim { overrides_reservation: true, ..claim("a", "3") };
    let fifth = taken(&*other, &claim);
    assert_eq!((fifth.epoch, to_fence(&fifth)), (Epoch(5), vec![]));
    (other, fifth)
}

fn restart_in_place(backing: &dyn Backing, (owner, record): (Box<dyn TenureStore>, TenureRecord)) {
    // The tenure that this process has already is given again, under a new epoch.
    let again = taken(&*owner, &claim("a", "3"));
    assert_eq!((again.epoch, to_fence(&again)), (Epoch(record.epoch.0 + 1), vec![]));
    assert!(is_not_owner(&owner.update(&record)));
    if backing.has_terms() {
        let restarted = backing.store();
        let next = taken(&*restarted, &claim("a", "3"));
        assert_eq!((next.epoch, to_fence(&next)), (Epoch(again.epoch.0 + 1), vec![]));
        assert!(is_not_owner(&owner.renew(again.epoch)));
        assert!(is_not_owner(&owner.update(&again)));
        assert!(is_not_owner(&owner.release(&again.clone().released(None))));
        assert_eq!(backing.store().record(), Ok(Some((next, true))));
    }
}
