//! The store against Debian's etcd, which `scripts/foreign` unpacks: one member, and three of which one at a
//! time stands still or is killed.
//!
//! `proving/cluster/tenure_store.py` runs these tests, which take long. `TRUNKLINE_ETCD_SECONDS` is the
//! length of that of three members. They print the times of calls.

use std::io::Write;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};

use super::super::suite::{self, Backing, LONG, claim};
use super::*;

/// The directory of etcd's programs. If they are missing, it prints that the test is skipped.
fn programs(test: &str) -> Option<PathBuf> {
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache"));
    let cache = std::env::var_os("XDG_CACHE_HOME").filter(|dir| !dir.is_empty()).map(PathBuf::from);
    let found = cache.or_else(home)?.join("trunkline-proving/etcd/usr/bin");
    if found.join("etcd").exists() {
        return Some(found);
    }
    // Unlike that of eprintln, the harness does not capture this output.
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: etcd is not unpacked; see scripts/foreign");
    None
}

/// A member of a real etcd, which is killed at the end.
struct LiveMember {
    command: Vec<String>,
    program: PathBuf,
    endpoint: String,
    child: Option<Child>,
}

impl LiveMember {
    fn start(&mut self) {
        let mut command = Command::new(&self.program);
        command.args(&self.command).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.child = Some(command.spawn().unwrap());
    }

    fn signal(&self, signal: Signal) {
        let child = self.child.as_ref().unwrap();
        kill_process(Pid::from_child(child), signal).unwrap();
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

impl Drop for LiveMember {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A real etcd.
struct LiveEtcd {
    members: Vec<LiveMember>,
    programs: PathBuf,
    dir: tempfile::TempDir,
    tls: Option<EtcdTls>,
}

/// Makes an authority, and the certificate `one.pem` with `one.key` for members and nodes.
fn certificates(dir: &Path) -> EtcdTls {
    let key = || rcgen::KeyPair::generate().unwrap();
    let mut authority = rcgen::CertificateParams::default();
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = rcgen::CertifiedIssuer::self_signed(authority, key()).unwrap();
    let mut one = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    // The gateway of etcd shows the certificate of its member to that member.
    let usages = [rcgen::ExtendedKeyUsagePurpose::ServerAuth, rcgen::ExtendedKeyUsagePurpose::ClientAuth];
    one.extended_key_usages.extend(usages);
    let one_key = key();
    let one = one.signed_by(&one_key, &authority).unwrap();
    std::fs::write(dir.join("ca.pem"), authority.pem()).unwrap();
    std::fs::write(dir.join("one.pem"), one.pem()).unwrap();
    std::fs::write(dir.join("one.key"), one_key.serialize_pem()).unwrap();
    EtcdTls { ca: dir.join("ca.pem"), client: Some((dir.join("one.pem"), dir.join("one.key"))) }
}

impl LiveEtcd {
    /// Starts members and waits until they have a leader.
    fn start(programs: PathBuf, count: usize, has_tls: bool) -> LiveEtcd {
        let dir = tempfile::Builder::new().prefix("trunkline-etcd-").tempdir().unwrap();
        let listeners: Vec<_> =
            (0..2 * count).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()).collect();
        let tls = has_tls.then(|| certificates(dir.path()));
        let url = |at: usize| format!("http://{}", listeners[at].local_addr().unwrap());
        let cluster: Vec<_> = (0..count).map(|at| format!("m{at}={}", url(2 * at))).collect();
        let cluster = cluster.join(",");
        let member = |at: usize| {
            let (peer, mut endpoint) = (url(2 * at), url(2 * at + 1));
            if has_tls {
                endpoint = endpoint.replace("http", "https");
            }
            let file = |name: &str| dir.path().join(name).display().to_string();
            let tls_words = [
                ("cert-file", file("one.pem")),
                ("key-file", file("one.key")),
                ("trusted-ca-file", file("ca.pem")),
                ("client-cert-auth", "true".to_owned()),
            ];
            let data = dir.path().join(format!("m{at}")).display().to_string();
            let words = [
                ("name", format!("m{at}")),
                ("data-dir", data),
                ("listen-peer-urls", peer.clone()),
                ("initial-advertise-peer-urls", peer),
                ("listen-client-urls", endpoint.clone()),
                ("advertise-client-urls", endpoint.clone()),
                ("initial-cluster", cluster.clone()),
                ("log-level", "error".to_owned()),
            ];
            let words = words.into_iter().chain(tls_words.into_iter().filter(|_| has_tls));
            let command = words.map(|(name, word)| format!("--{name}={word}")).collect();
            LiveMember { command, program: programs.join("etcd"), endpoint, child: None }
        };
        let mut members: Vec<_> = (0..count).map(member).collect();
        drop(listeners);
        members.iter_mut().for_each(LiveMember::start);
        let etcd = LiveEtcd { members, programs, dir, tls };
        let store = etcd.store_of("probe", LONG, None);
        let end = Instant::now() + LONG;
        while let Err(why) = store.record() {
            assert!(Instant::now() < end, "{why}");
            std::thread::sleep(Duration::from_millis(20));
        }
        etcd
    }

    fn store_of(&self, server: &str, term: Duration, login: Option<EtcdLogin>) -> EtcdStore {
        let endpoints = self.members.iter().map(|member| member.endpoint.clone()).collect();
        let (server, tls) = (server.to_owned(), self.tls.clone());
        EtcdStore::new(EtcdOptions { endpoints, server, term, tls, login }).unwrap()
    }

    /// Runs etcdctl on the first member.
    fn control(&self, words: &[&str]) {
        let mut command = Command::new(self.programs.join("etcdctl"));
        command.args(["--endpoints", &self.members[0].endpoint]).args(words);
        let done = command.stdin(Stdio::null()).output().unwrap();
        assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
    }
}

impl Backing for LiveEtcd {
    fn store(&self) -> Box<dyn TenureStore> {
        Box::new(self.store_of("files", LONG, None))
    }

    fn end_term(&self, _owner: Box<dyn TenureStore>) {
        // etcd ends the lease by itself.
    }
}

#[test]
#[ignore = "proving/cluster/tenure_store.py runs it"]
fn it_keeps_the_contract_of_a_store_on_a_real_etcd() {
    let Some(programs) = programs("etcd") else { return };
    let etcd = LiveEtcd::start(programs, 1, false);
    suite::run(&etcd);
    print_times(&etcd);
    let login = EtcdLogin { user: "root".to_owned(), password: "right".to_owned() };
    etcd.control(&["user", "add", "root:right"]);
    etcd.control(&["user", "grant-role", "root", "root"]);
    etcd.control(&["auth", "enable"]);
    let refused = etcd.store_of("users", LONG, None).take(&claim("a", "1"));
    assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
    let wrong = EtcdLogin { password: "wrong".to_owned(), ..login.clone() };
    let refused = etcd.store_of("users", LONG, Some(wrong)).take(&claim("a", "1"));
    assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
    let store = etcd.store_of("users", LONG, Some(login));
    assert!(matches!(store.take(&claim("a", "1")), Ok(TakeOutcome::Taken(_))));
    store.renew(Epoch(1)).unwrap();
    store.watch(Duration::from_millis(50)).unwrap();
    // The token is lost with the process of etcd.
    let mut etcd = etcd;
    etcd.members[0].kill();
    assert!(matches!(store.renew(Epoch(1)), Err(StoreError::Unreachable(_))));
    etcd.members[0].start();
    let end = Instant::now() + LONG;
    loop {
        match store.renew(Epoch(1)) {
            Ok(_) | Err(StoreError::NotOwner(_)) => break,
            Err(why) => assert!(Instant::now() < end, "{why}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Prints the median times of calls.
fn print_times(etcd: &LiveEtcd) {
    let median = |name: &str, call: &mut dyn FnMut()| {
        let mut times: Vec<_> = (0..100)
            .map(|_| {
                let began = Instant::now();
                call();
                began.elapsed()
            })
            .collect();
        times.sort();
        println!("{name}: median {:.2?}, 99 of 100 within {:.2?}", times[50], times[98]);
    };
    let store = etcd.store_of("times", LONG, None);
    let claim = |node: &str, boot: &str| Claim { term: LONG, ..claim(node, boot) };
    let mut record = None;
    median("take", &mut || match store.take(&claim("a", "1")) {
        Ok(TakeOutcome::Taken(taken)) => record = Some(taken.record),
        other => panic!("{other:?}"),
    });
    let record = record.unwrap();
    median("renew", &mut || assert!(store.renew(record.epoch).unwrap().is_some()));
    median("update", &mut || store.update(&record).unwrap());
    median("record", &mut || drop(store.record().unwrap()));
    let other = etcd.store_of("times", LONG, None);
    let (mut heard, mut ours) = (Vec::new(), record);
    for _ in 0..20 {
        let (one, two) = if heard.len() % 2 == 0 { (&store, &other) } else { (&other, &store) };
        let next = if heard.len() % 2 == 0 { claim("b", "2") } else { claim("a", "1") };
        assert!(matches!(two.take(&next), Ok(TakeOutcome::Owned(_))));
        let began = std::thread::scope(|scope| {
            let waits = scope.spawn(|| two.watch(LONG));
            std::thread::sleep(Duration::from_millis(50));
            let began = Instant::now();
            one.release(&ours.clone().released(None)).unwrap();
            waits.join().unwrap().unwrap();
            began
        });
        let Ok(TakeOutcome::Taken(taken)) = two.take(&next) else { panic!() };
        heard.push(began.elapsed());
        ours = taken.record;
    }
    heard.sort();
    println!("release to the next take: median {:.2?}, longest {:.2?}", heard[10], heard[19]);
}

/// An owner that renews like a node, until it is told to stop. It asserts that its term never ends. Returns
/// the longest time of a renewal and the shortest rest of a term.
fn own(store: &EtcdStore, term: Duration, is_over: impl Fn() -> bool) -> (Duration, Duration) {
    let times = tenure::Times::of_term(term);
    let mut until = Instant::now() + term - times.margin;
    let (mut longest, mut shortest) = (Duration::ZERO, term);
    while !is_over() {
        std::thread::sleep(times.renew);
        loop {
            let asked = Instant::now();
            let renewed = store.renew(Epoch(1));
            let left = until.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "the term is over after {renewed:?}");
            longest = longest.max(asked.elapsed());
            shortest = shortest.min(left);
            match renewed {
                Ok(renewed) => {
                    until = asked + renewed.unwrap() - times.margin;
                    break;
                }
                Err(StoreError::Unreachable(_)) => std::thread::sleep(times.retry),
                Err(why) => panic!("{why}"),
            }
        }
    }
    (longest, shortest)
}

#[test]
#[ignore = "proving/cluster/tenure_store.py runs it"]
fn tls_with_certificates_on_both_sides() {
    let Some(programs) = programs("TLS of etcd") else { return };
    let mut etcd = LiveEtcd::start(programs, 1, true);
    let store = etcd.store_of("tls", LONG, None);
    assert!(matches!(store.take(&claim("a", "1")), Ok(TakeOutcome::Taken(_))));
    store.renew(Epoch(1)).unwrap();
    let mut without = etcd.tls.clone().unwrap();
    without.client = None;
    etcd.tls = Some(without);
    let Err(StoreError::Unreachable(_)) = etcd.store_of("tls", LONG, None).record() else { panic!() };
    let other = etcd.dir.path().join("other");
    std::fs::create_dir(&other).unwrap();
    etcd.tls = Some(certificates(&other));
    let Err(StoreError::Unreachable(why)) = etcd.store_of("tls", LONG, None).record() else { panic!() };
    assert!(why.contains("no TLS connection"), "{why}");
    // Files that are replaced count from the next connection on, and rubbish does not count.
    let store_with_other = etcd.store_of("tls", LONG, None);
    for name in ["ca.pem", "one.pem", "one.key"] {
        std::fs::copy(etcd.dir.path().join(name), other.join(name)).unwrap();
    }
    store_with_other.record().unwrap();
    std::fs::write(other.join("ca.pem"), "rubbish").unwrap();
    store_with_other.record().unwrap();
}

#[test]
#[ignore = "proving/cluster/tenure_store.py runs it"]
fn a_member_that_stands_still_or_dies_costs_no_term() {
    let Some(programs) = programs("three members of etcd") else { return };
    let mut etcd = LiveEtcd::start(programs, 3, false);
    // Twice the usual term: a busy host delays everything.
    let term = Duration::from_secs(10);
    let seconds = std::env::var("TRUNKLINE_ETCD_SECONDS").ok().and_then(|text| text.parse().ok());
    let rounds = seconds.map_or(1, |seconds: usize| seconds.div_ceil(18));
    let store = etcd.store_of("three", term, None);
    let owner = Claim { term, ..claim("a", "1") };
    assert!(matches!(store.take(&owner), Ok(TakeOutcome::Taken(_))));
    let other = etcd.store_of("three", term, None);
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let (longest, shortest) = std::thread::scope(|scope| {
        let owns = scope.spawn(|| own(&store, term, || is_over.load(std::sync::atomic::Ordering::Relaxed)));
        for round in 0..rounds * 3 {
            let member = &mut etcd.members[round % 3];
            if round % 2 == 0 {
                member.signal(Signal::STOP);
            } else {
                member.kill();
            }
            std::thread::sleep(Duration::from_secs(4));
            if round % 2 == 0 {
                member.signal(Signal::CONT);
            } else {
                member.start();
            }
            std::thread::sleep(Duration::from_secs(2));
            let claimed = other.take(&Claim { term, ..claim("b", "2") });
            assert!(!matches!(claimed, Ok(TakeOutcome::Taken(_))), "{claimed:?}");
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        owns.join().unwrap()
    });
    println!("longest renewal {longest:.2?}, shortest rest of a term {shortest:.2?}");
    // Without a quorum nobody gets it.
    etcd.members[0].kill();
    etcd.members[1].kill();
    assert!(matches!(other.take(&owner), Err(StoreError::Unreachable(_))));
}
