//! Virtual time around the limits. Connections always have a set number of requests in progress. The alarm
//! rings as a thread of the host would: not before its time, and at most once in a grain of time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use metering::limits::{
    AccountProvision, Alarm, Charge, Hold, Limits, MeteredWork, Provision, ResponseType, ShareLimits,
    ThrottleDecision, ThrottleRequest, Throughput,
};
use metering::{ClientKey, FileNumber, Waiter, Wake};
use wire::Now;

/// A second.
pub const S: u64 = 1_000_000_000;
/// A millisecond.
pub const MS: u64 = 1_000_000;
/// A MiB.
pub const MIB: u64 = 1 << 20;
/// The time that the host needs for a request.
const SERVICE_NS: u64 = 100_000;

pub fn at(ns: u64) -> Now {
    Now { mono_ns: ns, wall_ns: 0 }
}

pub fn file(inode: u64) -> FileNumber {
    FileNumber { device: 1, inode }
}

pub fn read(inode: u64, len: u64) -> MeteredWork {
    MeteredWork::Read { file: file(inode), len }
}

pub fn write(inode: u64, len: u64) -> MeteredWork {
    MeteredWork::Write { file: file(inode), len }
}

/// A share that is limited by `operations` and `bytes` and by nothing else.
pub fn plain(operations: u64, bytes: u64) -> Provision {
    Provision {
        operations,
        burst: operations,
        burst_credits: 0,
        throughput: Throughput::Together(bytes),
        metadata: 1_000_000,
        file_operations: 1_000_000,
        file_bytes: 1 << 40,
        file_size: 4 << 40,
    }
}

/// The time when the alarm is to ring.
#[derive(Default)]
pub struct Clock(AtomicU64);

impl Alarm for Clock {
    fn set(&self, at_ns: u64) {
        let before = self.0.load(Ordering::Relaxed);
        assert!(before == 0 || at_ns < before, "it is only set anew when something is due earlier");
        self.0.store(at_ns, Ordering::Relaxed);
    }
}

/// The tokens of the requests that were woken.
#[derive(Default)]
pub struct WokenTokens(Mutex<Vec<u64>>);

impl Wake for WokenTokens {
    fn wake(&self, token: u64) {
        self.0.lock().expect("nobody panicked").push(token);
    }
}

/// The requests of one connection.
#[derive(Clone)]
pub struct Connection {
    pub share: usize,
    pub client: u128,
    pub depth: u64,
    pub work: MeteredWork,
    /// Bytes of each request that the file turns out not to have.
    pub unused: u64,
    /// When it sends its first requests.
    pub from_ns: u64,
    /// When it sends no more requests.
    pub until_ns: u64,
}

impl Connection {
    pub fn new(client: u128, depth: u64, work: MeteredWork) -> Connection {
        Connection { share: 0, client, depth, work, unused: 0, from_ns: 0, until_ns: u64::MAX }
    }

    pub fn on(self, share: usize) -> Connection {
        Connection { share, ..self }
    }
}

/// A request that is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompletedRequest {
    pub connection: usize,
    pub at_ns: u64,
    pub waited_ns: u64,
    pub met: ResponseType,
}

/// An account, its shares and the connections that use them.
pub struct PacedAccount {
    pub limits: Arc<Limits>,
    pub shares: Vec<ShareLimits>,
    pub connections: Vec<Connection>,
    clock: Arc<Clock>,
    woken: Arc<WokenTokens>,
    /// The least time between two rings of the alarm.
    grain_ns: u64,
    rang_ns: u64,
    now_ns: u64,
    pending: BinaryHeap<Reverse<(u64, usize)>>,
    held: HashMap<u64, (usize, u64, Hold)>,
    next: u64,
    pub done: Vec<CompletedRequest>,
}

impl PacedAccount {
    /// An account with these shares, which have no credits at first.
    pub fn new(account: Option<AccountProvision>, shares: &[Provision]) -> PacedAccount {
        PacedAccount::with_burst(account, &shares.iter().map(|share| (*share, 0)).collect::<Vec<_>>())
    }

    /// An account with these shares and their burst credits.
    pub fn with_burst(account: Option<AccountProvision>, shares: &[(Provision, u64)]) -> PacedAccount {
        let clock = Arc::new(Clock::default());
        let limits = Limits::new(account, Arc::clone(&clock) as _, at(0));
        let add = |(number, (provision, burst)): (usize, &(Provision, u64))| {
            limits.set_share(number as u32, *provision, Some(*burst), at(0))
        };
        let shares = shares.iter().enumerate().map(add).collect();
        PacedAccount {
            limits,
            shares,
            connections: Vec::new(),
            clock,
            woken: Arc::default(),
            grain_ns: MS / 4,
            rang_ns: 0,
            now_ns: 0,
            pending: BinaryHeap::new(),
            held: HashMap::new(),
            next: 0,
            done: Vec::new(),
        }
    }

    /// Adds a connection.
    pub fn add(&mut self, connection: Connection) -> usize {
        let number = self.connections.len();
        for _ in 0..connection.depth {
            self.pending.push(Reverse((connection.from_ns.max(self.now_ns), number)));
        }
        self.connections.push(connection);
        number
    }

    /// Lets time pass.
    pub fn run(&mut self, until_ns: u64) {
        loop {
            let rings = self.clock.0.load(Ordering::Relaxed);
            let rings = if rings == 0 { u64::MAX } else { rings.max(self.rang_ns + self.grain_ns) };
            let asks = self.pending.peek().map_or(u64::MAX, |Reverse((at, _))| *at);
            let next = rings.min(asks);
            if next > until_ns {
                self.now_ns = until_ns;
                return;
            }
            self.now_ns = self.now_ns.max(next);
            if rings <= asks {
                self.ring();
            } else if let Some(Reverse((_, number))) = self.pending.pop() {
                self.ask(number);
            }
        }
    }

    fn ring(&mut self) {
        self.rang_ns = self.now_ns;
        let next = self.limits.release(at(self.now_ns));
        assert!(next.is_none_or(|next| next > self.now_ns), "what was due is released");
        self.clock.0.store(next.unwrap_or(0), Ordering::Relaxed);
        let woken = std::mem::take(&mut *self.woken.0.lock().expect("nobody panicked"));
        for token in woken {
            let Some((number, since_ns, hold)) = self.held.remove(&token) else { continue };
            let met = hold.released().expect("who is woken is released");
            self.finish(number, since_ns, met, hold.go());
        }
    }

    fn ask(&mut self, number: usize) {
        let connection = &self.connections[number];
        if self.now_ns >= connection.until_ns {
            return;
        }
        self.next += 1;
        let waiter = Waiter { wake: Arc::clone(&self.woken) as _, token: self.next };
        let ask = ThrottleRequest {
            client: ClientKey(connection.client),
            connection: number as u64,
            work: connection.work,
            waiter: &waiter,
        };
        match self.shares[connection.share].ask(&ask, at(self.now_ns)) {
            ThrottleDecision::Go(met, charge) => self.finish(number, self.now_ns, met, charge),
            ThrottleDecision::Held(hold) => {
                self.held.insert(self.next, (number, self.now_ns, hold));
            }
        }
    }

    fn finish(&mut self, number: usize, since_ns: u64, met: ResponseType, charge: Charge) {
        let waited_ns = self.now_ns - since_ns;
        let Connection { work, unused, .. } = self.connections[number];
        charge.used((work.bytes() - unused) as usize);
        self.done.push(CompletedRequest { connection: number, at_ns: self.now_ns, waited_ns, met });
        self.pending.push(Reverse((self.now_ns + SERVICE_NS, number)));
    }

    /// The number of requests that were done in a time, of the connections that `wanted` selects.
    pub fn count(&self, from_ns: u64, until_ns: u64, wanted: impl Fn(usize) -> bool) -> u64 {
        let within =
            |done: &&CompletedRequest| (from_ns..until_ns).contains(&done.at_ns) && wanted(done.connection);
        self.done.iter().filter(within).count() as u64
    }

    /// Requests that are held now.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// Gives up the waiting requests of a connection.
    pub fn leave(&mut self, connection: usize) {
        self.held.retain(|_, (number, ..)| *number != connection);
    }

    /// The least and the most requests that were done in any ten seconds, in steps of a tenth.
    pub fn any_ten_seconds(&self, until_ns: u64) -> (u64, u64) {
        let mut tenths = vec![0; (until_ns / (S / 10)) as usize];
        for done in &self.done {
            if let Some(tenth) = tenths.get_mut((done.at_ns / (S / 10)) as usize) {
                *tenth += 1;
            }
        }
        let sums: Vec<u64> = tenths.windows(100).map(|window| window.iter().sum()).collect();
        (*sums.iter().min().expect("ten seconds"), *sums.iter().max().expect("ten seconds"))
    }
}
