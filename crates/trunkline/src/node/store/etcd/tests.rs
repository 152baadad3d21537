//! The store against an etcd inside the test, which fails in many ways.

use std::time::Instant;

use super::super::suite::{self, Backing, LONG, TERM, claim};
use super::fake::{FakeEtcd, ReplyFault};
use super::*;

/// A term whose bounds no busy host reaches.
const LONG_TERM: Duration = Duration::from_secs(240);

fn options(endpoints: &[String], term: Duration) -> EtcdOptions {
    EtcdOptions { endpoints: endpoints.to_vec(), server: "files".to_owned(), term, tls: None, login: None }
}

fn store(etcd: &FakeEtcd) -> EtcdStore {
    EtcdStore::new(options(&[etcd.endpoint()], LONG_TERM)).unwrap()
}

fn taken(outcome: Result<TakeOutcome, StoreError>) -> TenureRecord {
    match outcome {
        Ok(TakeOutcome::Taken(taken)) => taken.record,
        other => panic!("not taken: {other:?}"),
    }
}

impl Backing for FakeEtcd {
    fn store(&self) -> Box<dyn TenureStore> {
        Box::new(store(self))
    }

    fn end_term(&self, _owner: Box<dyn TenureStore>) {
        self.expire();
    }
}

#[test]
fn it_keeps_the_contract_of_a_store() {
    suite::run(&FakeEtcd::start());
}

#[test]
fn a_term_is_as_long_as_etcd_grants_it() {
    let etcd = FakeEtcd::start();
    let store = store(&etcd);
    let short = Claim { term: Duration::from_millis(10), ..claim("a", "1") };
    let Ok(TakeOutcome::Taken(taken)) = store.take(&short) else { panic!() };
    assert_eq!(taken.term, Some(Duration::from_secs(2)));
    let long = Claim { term: Duration::from_millis(4100), ..claim("a", "1") };
    let Ok(TakeOutcome::Taken(taken)) = store.take(&long) else { panic!() };
    assert_eq!(taken.term, Some(Duration::from_secs(5)));
    assert_eq!(store.renew(Epoch(2)), Ok(Some(Duration::from_secs(5))));
    // A reply cannot make the term longer than the lease.
    etcd.fail("keepalive", ReplyFault::Change(|reply| reply["result"]["TTL"] = json!("3600")));
    assert_eq!(store.renew(Epoch(2)), Ok(Some(Duration::from_secs(5))));
}

#[test]
fn a_take_whose_reply_was_lost_may_be_made_again() {
    for fault in [ReplyFault::LoseReply, ReplyFault::HalfReply] {
        let etcd = FakeEtcd::start();
        let store = store(&etcd);
        // The first transaction reads, the second one takes.
        etcd.fail("txn", ReplyFault::Change(|_| ()));
        etcd.fail("txn", fault);
        assert!(matches!(store.take(&claim("a", "1")), Err(StoreError::Unreachable(_))));
        assert!(etcd.has_failed());
        assert!(matches!(store.renew(Epoch(1)), Err(StoreError::NotOwner(_))));
        let record = taken(store.take(&claim("a", "1")));
        assert_eq!((record.epoch, record.to_fence().len()), (Epoch(2), 0));
        assert_eq!(store.renew(Epoch(2)), Ok(Some(TERM)));
    }
}

#[test]
fn an_update_or_release_whose_reply_was_lost_is_made_once() {
    let etcd = FakeEtcd::start();
    let second = etcd.member();
    let members = [etcd.endpoint(), second.endpoint()];
    let store = EtcdStore::new(options(&members, LONG_TERM)).unwrap();
    let mut record = taken(store.take(&claim("a", "1")));
    for guid in ["one", "two"] {
        record.guid = guid.to_owned();
        etcd.fail("txn", ReplyFault::LoseReply);
        store.update(&record).unwrap();
        assert_eq!(store.record(), Ok(Some((record.clone(), true))));
    }
    etcd.fail("txn", ReplyFault::LoseReply);
    let released = record.released(None);
    store.release(&released).unwrap();
    assert_eq!(store.record(), Ok(Some((released, false))));
}

#[test]
fn a_reply_that_is_wrong_is_never_believed() {
    let etcd = FakeEtcd::start();
    let store = store(&etcd);
    taken(store.take(&claim("a", "1")));
    let faults = [
        ReplyFault::LoseReply,
        ReplyFault::HalfReply,
        ReplyFault::Text(200, "not JSON".to_owned()),
        ReplyFault::Text(200, "[]".to_owned()),
        ReplyFault::Text(200, "{}".to_owned()),
        ReplyFault::Text(200, "{\"result\":null}".to_owned()),
        ReplyFault::Text(200, "{\"header\":{\"cluster_id\":\"many\"}}".to_owned()),
        ReplyFault::Text(404, "404 page not found".to_owned()),
        ReplyFault::Text(503, "{\"code\":14,\"message\":\"etcdserver: no leader\"}".to_owned()),
        ReplyFault::Text(500, "{\"code\":2,\"message\":\"not a primary lessor\"}".to_owned()),
        ReplyFault::Text(
            200,
            "{\"error\":{\"grpc_code\":14,\"message\":\"transport is closing\"}}".to_owned(),
        ),
        ReplyFault::Text(200, "x".repeat(3 << 20)),
        ReplyFault::Text(200, "[".repeat(100_000)),
    ];
    for fault in faults {
        for path in ["txn", "keepalive"] {
            etcd.fail(path, fault.clone());
            let outcome = store.renew(Epoch(1));
            assert!(matches!(outcome, Err(StoreError::Unreachable(_))), "{path} {fault:.60?}: {outcome:?}");
            assert!(etcd.has_failed());
            let text = outcome.unwrap_err().to_string();
            assert!(text.len() < 600 && !text.contains('\n'), "{text}");
        }
    }
    assert_eq!(store.renew(Epoch(1)), Ok(Some(TERM)));
}

#[test]
fn a_reply_for_another_is_never_believed() {
    let etcd = FakeEtcd::start();
    let store = store(&etcd);
    taken(store.take(&claim("a", "1")));
    let changes: [(_, fn(&mut Value)); 3] = [
        ("keepalive", |reply| reply["result"]["ID"] = json!("9")),
        ("keepalive", |reply| reply["result"]["TTL"] = json!("-3")),
        ("keepalive", |reply| reply["result"]["TTL"] = json!([])),
    ];
    for (path, change) in changes {
        etcd.fail(path, ReplyFault::Change(change));
        assert!(matches!(store.renew(Epoch(1)), Err(StoreError::Unreachable(_))));
    }
    let changes: [fn(&mut Value); 4] = [
        |reply| reply["responses"][0]["response_range"]["kvs"][0]["key"] = json!("eA=="),
        |reply| reply["responses"][1]["response_range"]["kvs"][0]["value"] = json!("***"),
        |reply| reply["responses"][1]["response_range"]["kvs"] = json!([]),
        |reply| reply["responses"] = json!([]),
    ];
    for change in changes {
        etcd.fail("txn", ReplyFault::Change(change));
        assert!(matches!(store.record(), Err(StoreError::Unreachable(_))));
    }
    etcd.replace_values("bm90IEpTT04=");
    assert!(matches!(store.record(), Err(StoreError::Refused(_))));
    assert!(matches!(store.take(&claim("a", "1")), Err(StoreError::Refused(_))));
}

#[test]
fn a_renewal_counts_only_in_one_term_of_the_leader() {
    let etcd = FakeEtcd::start();
    let store = store(&etcd);
    taken(store.take(&claim("a", "1")));
    let other: fn(&mut Value) = |reply| reply["result"]["header"]["raft_term"] = json!("1");
    etcd.fail("keepalive", ReplyFault::Change(other));
    assert_eq!(store.renew(Epoch(1)), Ok(Some(TERM)));
    assert_eq!(etcd.calls("keepalive"), 2);
    for _ in 0..ATTEMPTS {
        etcd.fail(
            "keepalive",
            ReplyFault::Change(|reply| reply["result"]["header"]["member_id"] = json!("6")),
        );
    }
    assert!(matches!(store.renew(Epoch(1)), Err(StoreError::Unreachable(_))));
    etcd.elect();
    assert_eq!(store.renew(Epoch(1)), Ok(Some(TERM)));
}

#[test]
fn a_lost_term_is_told_with_the_present_owner() {
    let etcd = FakeEtcd::start();
    let (first, second) = (store(&etcd), store(&etcd));
    let record = taken(first.take(&claim("a", "1")));
    etcd.expire();
    let lost = |outcome: Result<_, StoreError>, words: &str| match outcome {
        Err(StoreError::NotOwner(why)) => assert!(why.contains(words), "{why}"),
        other => panic!("{other:?}"),
    };
    lost(first.renew(Epoch(1)).map(drop), "nobody owns it");
    lost(first.update(&record), "nobody owns it");
    taken(second.take(&claim("b", "2")));
    lost(first.renew(Epoch(1)).map(drop), "node b owns it in epoch 2");
    lost(first.update(&record), "node b owns it in epoch 2");
    lost(first.release(&record), "node b owns it in epoch 2");
}

#[test]
fn a_member_that_hangs_costs_a_part_of_a_term() {
    let etcd = FakeEtcd::start();
    // The host accepts connections for it, and nobody reads them.
    let stuck = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let stuck = (format!("http://{}", stuck.local_addr().unwrap()), stuck);
    let term = Duration::from_secs(6);
    let store = EtcdStore::new(options(&[stuck.0.clone(), etcd.endpoint()], term)).unwrap();
    let began = Instant::now();
    taken(store.take(&claim("a", "1")));
    assert!(began.elapsed() >= term / 4);
    // The next call begins with the one that has replied.
    assert_eq!(store.gateway.order(), [1, 0]);
    store.renew(Epoch(1)).unwrap();
    let alone = EtcdStore::new(options(&[stuck.0], term / 3)).unwrap();
    let Err(StoreError::Unreachable(why)) = alone.record() else { panic!() };
    assert!(why.contains("no reply within 1000 ms"), "{why}");
}

#[test]
fn members_of_two_clusters_are_refused() {
    let (one, other) = (FakeEtcd::start(), FakeEtcd::start());
    other.set_cluster(78);
    let store = EtcdStore::new(options(&[one.endpoint(), other.endpoint()], LONG_TERM)).unwrap();
    taken(store.take(&claim("a", "1")));
    one.fail("txn", ReplyFault::LoseReply);
    let Err(StoreError::Refused(why)) = store.renew(Epoch(1)) else { panic!() };
    assert!(why.contains("another etcd"), "{why}");
}

#[test]
fn a_watch_ends_with_the_first_member_that_tells() {
    let etcd = FakeEtcd::start();
    let second = etcd.member();
    let refused = "http://127.0.0.1:1".to_owned();
    let endpoints = [refused.clone(), second.endpoint(), etcd.endpoint()];
    let waiting = EtcdStore::new(options(&endpoints, LONG_TERM)).unwrap();
    taken(store(&etcd).take(&claim("a", "1")));
    assert!(matches!(waiting.take(&claim("b", "2")), Ok(TakeOutcome::Owned(_))));
    // One of the two hangs, and the other one tells.
    etcd.fail("watch", ReplyFault::Hang);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| waiting.watch(LONG));
        // Other calls go on meanwhile.
        assert!(matches!(waiting.record(), Ok(Some((_, true)))));
        etcd.expire();
        waits.join().unwrap().unwrap();
    });
    // The change was before the watch.
    assert_eq!(waiting.watch(LONG), Ok(()));
    // It returns after its time while nothing happens.
    taken(waiting.take(&claim("b", "2")));
    waiting.watch(Duration::from_millis(20)).unwrap();
    let alone = EtcdStore::new(options(&[refused], TERM)).unwrap();
    assert!(matches!(alone.watch(LONG), Err(StoreError::Unreachable(_))));
}

#[test]
fn a_watch_that_ends_is_told_of() {
    let etcd = FakeEtcd::start();
    let lines =
        ["not JSON", "{\"error\":{\"code\":14,\"message\":\"no\"}}", "{\"result\":{\"canceled\":true}}"];
    for line in lines {
        etcd.fail("watch", ReplyFault::Text(200, format!("{line}\n")));
        assert!(matches!(store(&etcd).watch_now(), Err(StoreError::Unreachable(_))), "{line}");
    }
    let denied = "{\"error\":{\"code\":7,\"message\":\"denied\"}}\n".to_owned();
    etcd.fail("watch", ReplyFault::Text(200, denied));
    assert!(matches!(store(&etcd).watch_now(), Err(StoreError::Refused(_))));
}

impl EtcdStore {
    /// A watch without the pause after a failure.
    fn watch_now(&self) -> Result<(), StoreError> {
        self.run(self.gateway.watch(&self.owner_key, 1))
    }
}

#[test]
fn a_user_gets_a_token_and_another_one_when_it_is_old() {
    let etcd = FakeEtcd::start();
    etcd.want_tokens();
    let login = |password: &str| {
        let login = EtcdLogin { user: "trunkline".to_owned(), password: password.to_owned() };
        EtcdStore::new(EtcdOptions { login: Some(login), ..options(&[etcd.endpoint()], LONG_TERM) }).unwrap()
    };
    let Err(StoreError::Refused(why)) = login("wrong").take(&claim("a", "1")) else { panic!() };
    assert!(why.contains("authentication failed") && !why.contains("wrong"), "{why}");
    let store_without = store(&etcd);
    assert!(store_without.take(&claim("a", "1")).is_err());
    let store = login("right");
    taken(store.take(&claim("a", "1")));
    let before = etcd.calls("authenticate");
    store.renew(Epoch(1)).unwrap();
    assert_eq!(etcd.calls("authenticate"), before);
    etcd.want_tokens();
    store.renew(Epoch(1)).unwrap();
    assert_eq!(etcd.calls("authenticate"), before + 1);
}

#[test]
fn settings_that_cannot_be_right_are_refused() {
    let new =
        |endpoint: &str| EtcdStore::new(options(&[endpoint.to_owned()], TERM)).err().unwrap_or_default();
    for good in ["http://a", "http://10.0.0.1:2379/", "http://[fd00::1]", "http://[fd00::1]:1"] {
        assert_eq!(new(good), "", "{good}");
    }
    for (bad, why) in [
        ("10.0.0.1:2379", "neither http"),
        ("http://", "host is missing"),
        ("http://a/b", "more than a host"),
        ("http://u:p@a", "more than a host"),
        ("http://a:0", "no number"),
        ("http://a:b", "no number"),
        ("http://fd00::1", "brackets"),
        ("http://[fd00::1", "missing"),
        ("http://[fd00::1]1", "follows"),
        ("https://a", "needs the authority"),
    ] {
        assert!(new(bad).contains(why), "{bad}: {}", new(bad));
    }
    assert!(EtcdStore::new(options(&[], TERM)).is_err());
    let of = |change: &dyn Fn(&mut EtcdOptions)| {
        let mut options = options(&["http://10.0.0.1".to_owned()], TERM);
        change(&mut options);
        EtcdStore::new(options).err().unwrap_or_default()
    };
    assert!(of(&|it| it.server = "a/b".to_owned()).contains("no name"));
    assert!(of(&|it| it.server = String::new()).contains("no name"));
    let login = EtcdLogin { user: "a".to_owned(), password: "b".to_owned() };
    assert!(of(&|it| it.login = Some(login.clone())).contains("in the clear"));
    assert!(!format!("{login:?}").contains("\"b\""));
    let tls = EtcdTls { ca: "/nowhere".into(), client: None };
    assert!(of(&|it| it.tls = Some(tls.clone())).contains("without TLS"));
    let text = of(&|it| (it.tls, it.endpoints) = (Some(tls.clone()), vec!["https://a".to_owned()]));
    assert!(text.contains("/nowhere"), "{text}");
}

#[test]
fn an_etcd_that_nobody_has_started_is_told_of_at_once() {
    let endpoints = vec!["http://127.0.0.1:1".to_owned()];
    let options = EtcdOptions { endpoints, server: "files".to_owned(), term: TERM, tls: None, login: None };
    let Err(StoreError::Unreachable(why)) = EtcdStore::new(options).unwrap().record() else { panic!() };
    assert!(why.contains("http://127.0.0.1:1: no connection"), "{why}");
}
