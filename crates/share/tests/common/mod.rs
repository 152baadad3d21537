//! A share on a volume in memory for the tests of the engine, and clients that use it.
#![allow(dead_code)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use share::{
    BreakListener, BreakNotice, CacheKey, Caching, CachingRequest, CallResult, Caller, ClientKey, Config,
    Deny, Disposition, Identity, LockOwner, Open, OpenRequest, OpenResult, Options, Refusal, Share, Ticket,
    Waiter, Wake,
};
use volume::faulty::{FaultPlan, FaultyVolume};
use volume::memory::MemoryVolume;
use volume::security::{Rights, Sid};
use volume::{Name, Volume};
use wire::Now;

/// The rights of an ordinary reader.
pub const READ: Rights = Rights::FOR_READ;
/// The rights of an ordinary writer.
pub const WRITE: Rights = Rights::FOR_WRITE;
/// Reading, writing and deleting.
pub const ALL: Rights = Rights::ALL;

pub fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).expect("a name")
}

pub fn path(text: &str) -> Vec<Name> {
    text.split('/').filter(|part| !part.is_empty()).map(name).collect()
}

pub fn now() -> Now {
    Now { mono_ns: 1_000_000_000, wall_ns: 1_700_000_000_000_000_000 }
}

pub fn user(n: u32) -> Arc<Identity> {
    Arc::new(Identity {
        name: format!("user{n}"),
        sid: Sid::unix_user(n),
        groups: Vec::new(),
        uid: n,
        gid: n,
        host_groups: Vec::new(),
        actor: Some(volume::Actor { uid: n, gid: n, groups: Vec::new() }),
        administrator: false,
        unbound: false,
        limit: Rights::ALL,
        home: None,
    })
}

/// A share for tests.
pub struct TestShare {
    pub share: Arc<Share>,
    pub memory: MemoryVolume,
}

impl TestShare {
    pub fn new() -> TestShare {
        TestShare::with(Config::default())
    }

    pub fn with(config: Config) -> TestShare {
        TestShare::over(config, |memory| Arc::new(memory))
    }

    /// A test share whose volume passes calls through a plan, and the plan. It counts calls, holds them up,
    /// and makes them fail.
    pub fn planned(config: Config) -> (TestShare, Arc<FaultPlan>) {
        let mut plan = None;
        let world = TestShare::over(config, |memory| {
            let faulty = FaultyVolume::new(Arc::new(memory));
            plan = Some(Arc::clone(faulty.plan()));
            Arc::new(faulty)
        });
        (world, plan.expect("the volume was wrapped"))
    }

    /// A test share on a volume in memory that `wrap` wraps.
    pub fn over(config: Config, wrap: impl FnOnce(MemoryVolume) -> Arc<dyn Volume>) -> TestShare {
        let memory = MemoryVolume::new(7);
        let volume = wrap(memory.clone());
        let root = volume.root().unwrap();
        root.set_mode(0o777).unwrap();
        root.set_owner(Some(1001), Some(1001)).unwrap();
        TestShare { share: Share::open(volume, config).unwrap(), memory }
    }

    /// A client of the one user that owns everything.
    pub fn client(&self, n: u128) -> Client {
        self.client_of(n, user(1001))
    }

    pub fn client_of(&self, n: u128, identity: Arc<Identity>) -> Client {
        let client = Client {
            share: Arc::clone(&self.share),
            key: ClientKey(n),
            identity,
            ears: Arc::new(ClientSignals { reachable: AtomicBool::new(true), ..ClientSignals::default() }),
            details: None,
        };
        self.share.attach(client.key, client.ears.clone());
        client
    }
}

/// The notices and wakes that a client got.
#[derive(Default)]
pub struct ClientSignals {
    pub notices: Mutex<Vec<BreakNotice>>,
    pub woken: AtomicU64,
    pub reachable: AtomicBool,
}

impl BreakListener for ClientSignals {
    fn on_break(&self, notice: &BreakNotice) -> bool {
        self.notices.lock().unwrap().push(*notice);
        self.reachable.load(Ordering::SeqCst)
    }
}

impl Wake for ClientSignals {
    fn wake(&self, token: u64) {
        self.woken.fetch_add(token, Ordering::SeqCst);
    }
}

/// One client with one user.
pub struct Client {
    pub share: Arc<Share>,
    pub key: ClientKey,
    pub identity: Arc<Identity>,
    pub ears: Arc<ClientSignals>,
    /// Its session, for the audit.
    pub details: Option<Arc<share::ClientDetails>>,
}

/// A request to open that a test builds.
pub struct OpenBuilder<'a> {
    pub client: &'a Client,
    path: Vec<Name>,
    stream: Option<Name>,
    pub request: OpenRequest<'a>,
    waits: bool,
    at: Now,
}

impl Client {
    pub fn open<'a>(&'a self, at: &str) -> OpenBuilder<'a> {
        OpenBuilder {
            client: self,
            path: path(at),
            stream: None,
            request: OpenRequest {
                path: &[],
                stream: None,
                access: READ | WRITE | Rights::DELETE,
                deny: Deny::empty(),
                disposition: Disposition::Open,
                options: Options::empty(),
                attributes: share::Attributes::empty(),
                mode: None,
                descriptor: None,
                extended: &[],
                allocation: 0,
                caching: None,
                step_of: None,
            },
            waits: true,
            at: now(),
        }
    }

    /// Creates a file and returns its open.
    pub fn make(&self, at: &str) -> Arc<Open> {
        self.open(at).disposition(Disposition::Create).open()
    }

    /// Creates a directory.
    pub fn make_directory(&self, at: &str) {
        let open = self.open(at).disposition(Disposition::Create).options(Options::DIRECTORY).open();
        self.close(&open);
    }

    /// Creates a file with this text.
    pub fn make_with(&self, at: &str, text: &str) {
        let open = self.make(at);
        self.write(&open, 0, text).unwrap();
        self.close(&open);
    }

    pub fn close(&self, open: &Arc<Open>) {
        self.share.close(open, now()).unwrap();
    }

    pub fn caller<R>(&self, waits: bool, at: Now, act: impl FnOnce(&Caller<'_>) -> R) -> R {
        let waiter = Waiter { wake: self.ears.clone(), token: 1 };
        act(&Caller {
            identity: &self.identity,
            client: self.key,
            waiter: waits.then_some(&waiter),
            now: at,
            origin: None,
            details: self.details.as_ref(),
        })
    }

    /// Makes a call that must not have to wait.
    pub fn call<T>(&self, act: impl FnOnce(&Caller<'_>) -> CallResult<T>) -> Result<T, Refusal> {
        done(self.caller(true, now(), act))
    }

    pub fn owner(&self, open: &Open) -> LockOwner {
        LockOwner { client: self.key, owner: u128::from(open.id()) }
    }

    pub fn write(&self, open: &Arc<Open>, at: u64, text: &str) -> Result<(), Refusal> {
        let owner = self.owner(open);
        self.call(|c| self.share.write(c, open, owner, share::WriteAt::Offset(at), text.as_bytes(), false))
    }

    pub fn read(&self, open: &Arc<Open>) -> Result<String, Refusal> {
        let mut out = Vec::new();
        self.share.read(open, self.owner(open).into(), 0, 1 << 20, &mut out, volume::Patience::Block)?;
        Ok(String::from_utf8(out).unwrap())
    }

    pub fn rename(&self, open: &Arc<Open>, to: &str, replace: bool) -> CallResult<()> {
        self.caller(true, now(), |c| self.share.rename(c, open, &path(to), None, replace, false))
    }

    pub fn set_delete(&self, open: &Arc<Open>, on: bool) -> Result<(), Refusal> {
        self.call(|c| self.share.set_delete(c, open, on, false, false))
    }

    /// Removes a file.
    pub fn remove(&self, at: &str) {
        let open = self.open(at).access(Rights::DELETE).open();
        self.set_delete(&open, true).unwrap();
        self.close(&open);
    }

    pub fn acknowledge(&self, key: u128, keyed: bool, keep: Caching) -> Result<(), Refusal> {
        self.share.acknowledge(self.key, CacheKey(key), keyed, keep, now()).map(|_| ())
    }

    /// The breaks of which this client was notified since the last call.
    pub fn breaks(&self) -> Vec<(Caching, Caching, bool)> {
        let notices = std::mem::take(&mut *self.ears.notices.lock().unwrap());
        notices.iter().map(|notice| (notice.from, notice.to, notice.answer)).collect()
    }

    /// How often this client's requests were woken since the last call.
    pub fn woken(&self) -> u64 {
        self.ears.woken.swap(0, Ordering::SeqCst)
    }

    pub fn names_in(&self, at: &str) -> Vec<String> {
        let open = self.open(at).access(READ).open();
        let mut names = Vec::new();
        self.caller(true, now(), |c| {
            self.share.scan(c, &open, 0, &mut |_| true, &mut |entry| {
                names.push(entry.name().display().into_owned());
                std::ops::ControlFlow::Continue(())
            })
        })
        .unwrap();
        self.close(&open);
        names.sort();
        names
    }
}

pub fn done<T>(step: CallResult<T>) -> Result<T, Refusal> {
    match step {
        CallResult::Done(done) => Ok(done),
        CallResult::Refused(why) => Err(why),
        CallResult::Wait(ticket) => panic!("has to wait with {ticket:?}"),
    }
}

pub fn waits<T: std::fmt::Debug>(step: CallResult<T>) -> Ticket {
    match step {
        CallResult::Wait(ticket) => ticket,
        other => panic!("does not wait: {other:?}"),
    }
}

impl<'a> OpenBuilder<'a> {
    pub fn access(mut self, access: Rights) -> Self {
        self.request.access = access;
        self
    }
    pub fn deny(mut self, deny: Deny) -> Self {
        self.request.deny = deny;
        self
    }
    pub fn disposition(mut self, disposition: Disposition) -> Self {
        self.request.disposition = disposition;
        self
    }
    pub fn options(mut self, options: Options) -> Self {
        self.request.options |= options;
        self
    }
    pub fn attributes(mut self, attributes: share::Attributes) -> Self {
        self.request.attributes = attributes;
        self
    }
    pub fn mode(mut self, mode: u32) -> Self {
        self.request.mode = Some(mode);
        self
    }
    pub fn descriptor(mut self, descriptor: &'a volume::security::Descriptor) -> Self {
        self.request.descriptor = Some(descriptor);
        self
    }
    pub fn stream(mut self, text: &str) -> Self {
        self.stream = Some(name(text));
        self
    }
    pub fn keyed(self, key: u128, want: Caching) -> Self {
        self.caching(key, want, true)
    }
    pub fn single(self, key: u128, want: Caching) -> Self {
        self.caching(key, want, false)
    }
    fn caching(mut self, key: u128, want: Caching, keyed: bool) -> Self {
        self.request.caching = Some(CachingRequest {
            key: CacheKey(key),
            want,
            keyed,
            parent: None,
            epoch: Some(0),
            whole: false,
            via: 0,
        });
        self
    }
    /// The right is only ever released as a whole.
    pub fn whole(mut self) -> Self {
        if let Some(caching) = &mut self.request.caching {
            (caching.whole, caching.epoch) = (true, None);
        }
        self
    }
    pub fn parent(mut self, key: u128) -> Self {
        if let Some(caching) = &mut self.request.caching {
            caching.parent = Some(CacheKey(key));
        }
        self
    }
    pub fn at(mut self, at: Now) -> Self {
        self.at = at;
        self
    }
    pub fn without_waiting(mut self) -> Self {
        self.waits = false;
        self
    }
    pub fn step(&self) -> CallResult<OpenResult> {
        let request = OpenRequest { path: &self.path, stream: self.stream.as_ref(), ..self.request.clone() };
        self.client.caller(self.waits, self.at, |caller| self.client.share.create(caller, &request))
    }
    pub fn result(&self) -> Result<OpenResult, Refusal> {
        done(self.step())
    }
    pub fn open(&self) -> Arc<Open> {
        match self.result() {
            Ok(opened) => opened.open,
            Err(why) => panic!("{:?}: {why}", self.path),
        }
    }
    pub fn refusal(&self) -> Refusal {
        match self.result() {
            Ok(opened) => panic!("{:?} was opened: {opened:?}", self.path),
            Err(why) => why,
        }
    }
}
