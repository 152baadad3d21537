//! Carries out the actions of the state machine of a node (`tenure::ownership`).
//!
//! One thread waits for events and deadlines. Each action that may take time runs on a thread of its own and
//! sends its outcome as an event, so a store or a disk that hangs never delays the end of a term.

use std::panic::{self, AssertUnwindSafe};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use admin::status::Takeover;
use net::LiveConnections;
use parking_lot::Mutex;
use tenure::ownership::{EndReason, Hindrance, OwnershipStage as Stage};
use tenure::{
    Action, BootTime, Claim, Epoch, NodeOwner, Ownership, OwnershipEvent, ServingTerm, StoreError,
    TenureRecord, TenureStore, Times,
};
use tokio::sync::Notify;

use super::address_record::AddressRecord;
use super::addresses::NodeAddresses;
use super::failure::FailureMark;
use super::session::{NodeSession, whole_ms};
use super::socket::NodeStatus;
use super::{fence, socket, store};
use crate::cli::ServeArgs;
use crate::config::node::TenureKind;
use crate::config::values::{Choice, host_name};
use crate::config::{Config, Mounts, Node};
use crate::host;
use crate::serve::signals::Signals;
use crate::serve::stored_listeners::StoredListeners;
use crate::serve::{self, notify};
use crate::state::StoreName;

/// The time for which the driver waits if the state machine has no deadline.
const LONG: Duration = Duration::from_secs(3600);

/// The parts of a node that its threads share.
struct NodeDriver {
    settings: Arc<Node>,
    store: Arc<dyn TenureStore>,
    owner: NodeOwner,
    times: Times,
    ownership: Ownership,
    sender: Sender<OwnershipEvent>,
    addresses: Arc<NodeAddresses>,
    listeners: Arc<StoredListeners>,
    /// The directories of the shares and of the state.
    dirs: Vec<PathBuf>,
    failure: FailureMark,
    stop: Arc<Notify>,
    /// The options and signals of the server, until it is started.
    server: Option<(ServeArgs, Signals)>,
    /// The end of the term, once a server was started.
    term: Option<Arc<ServingTerm>>,
    /// The result of the server, once it has ended.
    result: Arc<Mutex<Option<anyhow::Error>>>,
    status: Arc<Mutex<NodeStatus>>,
    /// The former owners of which an administrator has said that they are off.
    acknowledged: Arc<Mutex<Vec<NodeOwner>>>,
    /// Whether the server has opened its listeners to clients.
    is_listening: Arc<AtomicBool>,
    /// The last reason that was logged for not serving.
    logged: Option<Hindrance>,
    /// The time at which the fence began.
    fencing_since: Option<BootTime>,
    /// The time at which the server must have started.
    start_ends: BootTime,
}

/// Waits for the tenure, serves, and gives the tenure back.
///
/// # Errors
/// One line for the user.
pub fn run(
    args: &ServeArgs,
    config: &Config,
    signals: Signals,
    listeners: Arc<StoredListeners>,
) -> anyhow::Result<()> {
    listeners.check_for_node()?;
    let settings = Arc::new(config.node.clone());
    let times = Times::of_term(Duration::from_secs(settings.term_s.value));
    // The host drops the addresses of a process that was killed by then.
    listeners.close_left_after(times.term)?;
    let _lock = store::NodeLock::take(&settings.run_dir.value, &settings.server.value)?;
    let mut owner = owner_of(&settings)?;
    let addresses = Arc::new(addresses_of(&settings, &owner, Arc::clone(&listeners)));
    let (sender, events) = channel();
    let status = Arc::new(Mutex::new(NodeStatus::beginning(&owner.node)));
    let (acknowledged, external) = (Arc::default(), Arc::default());
    let shared = socket::NodeParts {
        events: sender.clone(),
        status: Arc::clone(&status),
        acknowledged: Arc::clone(&acknowledged),
        is_external: is_external(&settings),
        external: Arc::clone(&external),
    };
    socket::serve(&settings, shared)?;
    let failure = FailureMark::new(&settings);
    pause_after(failure.take(), times.pause, &status);
    check_host(&addresses, &failure)?;
    let shares = config.shares.values().map(|share| share.path.value.clone());
    let dirs: Vec<PathBuf> = shares.chain([config.server.state_dir.value.clone()]).collect();
    warn_of_lazy_mounts(&dirs);
    owner.storage_clients = storage_clients(&settings, &dirs, &addresses)?;
    let opened = store::open(config)?;
    let _opened_once = opened.external.map(|store| external.set(store));
    fence::check(&settings).unwrap_or_else(|why| tracing::warn!("{why}"));
    let mut ownership = Ownership::new(owner.node.clone(), times, net::boot_time());
    if is_external(&settings) {
        ownership = ownership.decided_elsewhere();
    }
    let mut driver = NodeDriver {
        addresses,
        listeners,
        dirs,
        failure,
        settings,
        store: opened.store,
        owner,
        times,
        ownership,
        sender,
        stop: Arc::default(),
        server: Some((args.clone(), signals)),
        term: None,
        result: Arc::default(),
        status,
        acknowledged,
        is_listening: Arc::default(),
        logged: None,
        fencing_since: None,
        start_ends: BootTime::NEVER,
    };
    tracing::info!(
        server = driver.settings.server.value,
        node = driver.owner.node,
        "waiting for the tenure of the virtual server"
    );
    notify::waiting("the tenure of the virtual server is asked for");
    driver.drive(&events)
}

/// This node as an owner, without its clients of the storage.
fn owner_of(settings: &Node) -> anyhow::Result<NodeOwner> {
    Ok(NodeOwner {
        node: settings.name.value.clone(),
        boot_id: host::boot_id()?.trim().to_owned(),
        host: host_name(),
        machine_id: host::machine_id(),
        ..NodeOwner::default()
    })
}

fn addresses_of(settings: &Node, owner: &NodeOwner, listeners: Arc<StoredListeners>) -> NodeAddresses {
    let record = AddressRecord::new(&settings.run_dir.value, &settings.server.value, &owner.boot_id);
    let lifetime = Duration::from_secs(settings.term_s.value);
    NodeAddresses::new(settings.addresses.value.clone(), record, lifetime, listeners)
}

fn is_external(settings: &Node) -> bool {
    settings.tenure.as_ref().is_some_and(|tenure| tenure.value == TenureKind::External)
}

/// Leaves other nodes the time to try, if the last attempt of this one has failed. The status shows it.
fn pause_after(failure: Option<String>, pause: Duration, status: &Mutex<NodeStatus>) {
    let Some(why) = failure else { return };
    let node = status.lock().node.clone();
    *status.lock() = NodeStatus::pausing(&node, &why, net::boot_time().plus(pause));
    tracing::info!(
        pause_s = pause.as_secs(),
        "the last attempt to serve failed; other nodes may try first: {why}"
    );
    notify::waiting(&format!("the last attempt to serve failed: {why}"));
    thread::sleep(pause);
    *status.lock() = NodeStatus::beginning(&node);
}

/// Refuses addresses that the host has for itself. The next process says why, and pauses.
fn check_host(addresses: &NodeAddresses, failure: &FailureMark) -> anyhow::Result<()> {
    let checked = addresses.check_host(true).inspect_err(|why| {
        failure.set(&why.to_string());
        addresses.take_down();
    });
    Ok(checked?)
}

/// The clients of the storage that this host writes through.
fn storage_clients(
    settings: &Node,
    dirs: &[PathBuf],
    addresses: &NodeAddresses,
) -> Result<Vec<String>, serve::Failed> {
    // An owner that cannot even ask for the tenure has left its addresses here.
    let clients = fence::storage_clients(settings, dirs).inspect_err(|_| addresses.take_down());
    clients.map_err(|why| serve::Failed(format!("{why:#}")))
}

/// Warns of directories whose storage may forget names that clients have been told of.
fn warn_of_lazy_mounts(dirs: &[PathBuf]) {
    let mounts = Mounts::read();
    for dir in dirs.iter().filter(|dir| mounts.forget_names(dir)) {
        tracing::warn!(
            dir = %dir.display(),
            "the mount by Linux's own client of Ceph lacks `wsync`: new and removed names of the last \
             moments are lost with this machine; add the option (docs/two-nodes.md)"
        );
    }
}

impl NodeDriver {
    fn drive(&mut self, events: &Receiver<OwnershipEvent>) -> anyhow::Result<()> {
        loop {
            let now = net::boot_time();
            // Without a term that is renewed, the addresses are prolonged by the time alone.
            let tick = if self.endless_term().is_some() { self.times.renew } else { LONG };
            let wait = self.ownership.deadline().map_or(LONG, |at| at.since(now)).min(tick);
            let wait = wait.min(self.start_ends.since(now));
            let event = match events.recv_timeout(wait) {
                Ok(event) => event,
                Err(RecvTimeoutError::Timeout) => OwnershipEvent::Woken,
                Err(RecvTimeoutError::Disconnected) => unreachable!("the driver has a sender itself"),
            };
            if event == OwnershipEvent::Fenced(Ok(())) {
                tracing::info!("the former owners are fenced");
            }
            if let Some(term) = self.endless_term() {
                self.addresses.extend(term);
            }
            let is_released = matches!(event, OwnershipEvent::Released(_));
            for action in self.ownership.handle(event, net::boot_time()) {
                match action {
                    Action::End(reason) => return self.end(reason),
                    // A server is started only once in a process.
                    Action::Take { .. } if self.server.is_none() => return self.failed(),
                    action => self.perform(action),
                }
            }
            let stage = self.ownership.stage();
            if stage != Stage::Starting {
                self.start_ends = BootTime::NEVER;
            } else if net::boot_time() >= self.start_ends {
                self.abandon_start();
            }
            let has_served = matches!(stage, Stage::Serving | Stage::Releasing);
            if self.result.lock().is_some() && (has_served || self.is_listening.load(Ordering::Acquire)) {
                // It may have accepted requests, so its tenure ends by the fence and not by a release.
                return self.failed();
            }
            if stage == Stage::Waiting && is_released && self.server.is_none() {
                return self.failed();
            }
            if let Some(hindrance) = self.ownership.take_hindrance() {
                self.hindered(hindrance);
            }
            let (server, term) = (&self.settings.server.value, self.term.as_deref());
            self.status.lock().note(&self.ownership, &self.owner, server, &self.logged, term);
        }
    }

    /// The term for which this node owns the virtual server, if that has no end.
    fn endless_term(&self) -> Option<&ServingTerm> {
        self.term.as_deref().filter(|term| term.until() == BootTime::NEVER)
    }

    /// Runs `work` on a thread of its own, whose result is an event.
    fn spawn(&self, work: impl FnOnce() -> Option<OwnershipEvent> + Send + 'static) {
        let sender = self.sender.clone();
        let spawned = thread::Builder::new().name("node".into()).spawn(move || {
            if let Some(event) = work() {
                // The driver ends with the process.
                let _ = sender.send(event);
            }
        });
        if let Err(error) = spawned {
            // The term ends if this lasts.
            tracing::error!(%error, "the host has no thread for the node");
        }
    }

    fn perform(&mut self, action: Action) {
        let store = Arc::clone(&self.store);
        match action {
            Action::Watch(within) => self.spawn(move || {
                // A store that cannot be watched is asked again after the time.
                store.watch(within).ok().map(|()| OwnershipEvent::Woken)
            }),
            Action::Take { overrides_reservation } => {
                let (mut owner, term) = (self.owner.clone(), self.times.term);
                let (settings, dirs) = (Arc::clone(&self.settings), self.dirs.clone());
                self.spawn(move || {
                    // A node waits for months, and its storage may be mounted anew meanwhile.
                    let clients = fence::storage_clients(&settings, &dirs);
                    let asked = net::boot_time();
                    let outcome = clients.map_err(|why| StoreError::Refused(format!("{why:#}")));
                    let outcome = outcome.and_then(|clients| {
                        owner.storage_clients = clients;
                        store.take(&Claim { owner, term, overrides_reservation })
                    });
                    Some(OwnershipEvent::Took { asked, outcome })
                });
            }
            Action::Fence(former) => self.fence(former),
            Action::Start { epoch, until, guid } => {
                tracing::info!(epoch = epoch.0, "this node owns the virtual server and starts it");
                self.start(epoch, Arc::new(ServingTerm::new(until)), guid);
            }
            Action::Extend(until) => {
                if let Some(term) = &self.term {
                    term.extend(until);
                    self.addresses.extend(term);
                }
            }
            Action::Renew(epoch) => self.spawn(move || {
                let asked = net::boot_time();
                Some(OwnershipEvent::Renewed { asked, outcome: store.renew(epoch) })
            }),
            Action::Update(record) => {
                self.spawn(move || Some(OwnershipEvent::Updated(store.update(&record))));
            }
            Action::Quiet => self.stop.notify_one(),
            Action::Release(record) => self.release(record),
            Action::End(_) => unreachable!("the end of the node is no action of its own"),
        }
    }

    /// Ends after a failure of the server.
    fn failed(&self) -> anyhow::Result<()> {
        self.addresses.take_down();
        let ended = "the server on this node has ended by itself; the lines before in its log say why";
        let why = self.result.lock().take().map_or(ended.to_owned(), |why| format!("{why:#}"));
        self.failure.set(&why);
        // A supervisor starts it again: the next attempt may succeed, here or on another node.
        Err(serve::Failed(why).into())
    }

    fn fence(&mut self, former: Vec<NodeOwner>) {
        for owner in &former {
            tracing::warn!(
                node = owner.node,
                host = owner.host,
                epoch = owner.epoch.0,
                clients = ?owner.storage_clients,
                "a former owner did not release the virtual server and is being fenced"
            );
            if self.owner.shares_only_name_with(owner) {
                tracing::warn!("the former owner has the name of this node{}", socket::twins(owner));
            }
        }
        self.fencing_since = Some(net::boot_time());
        let (settings, acknowledged) = (Arc::clone(&self.settings), Arc::clone(&self.acknowledged));
        let own = self.owner.clone();
        self.spawn(move || {
            let is_off = acknowledged.lock().clone();
            let to_fence: Vec<_> = former.into_iter().filter(|owner| !is_off.contains(owner)).collect();
            let fenced = fence::fence(&settings, &own, &to_fence);
            if fenced.is_ok() {
                acknowledged.lock().clear();
            }
            Some(OwnershipEvent::Fenced(fenced))
        });
    }

    /// Starts the server. Its end is the end of the process.
    fn start(&mut self, epoch: Epoch, term: Arc<ServingTerm>, guid: String) {
        self.term = Some(Arc::clone(&term));
        let (args, signals) =
            self.server.take().expect("a process that has started a server takes no tenure");
        let started = net::boot_time();
        self.start_ends = started.plus(Duration::from_secs(self.settings.start_timeout_s.value));
        let fence_ms = self.fencing_since.map_or(0, |since| whole_ms(started.since(since)));
        self.addresses.begin_probe();
        let session = NodeSession {
            listeners: Arc::clone(&self.listeners),
            is_listening: Arc::clone(&self.is_listening),
            live: LiveConnections::new(self.addresses.ips()),
            recorder: Arc::default(),
            store: self.store_name(),
            node: self.owner.node.clone(),
            epoch,
            started,
            takeover: Arc::new(Mutex::new(Takeover { fence_ms, ..Takeover::default() })),
            term,
            guid,
            events: self.sender.clone(),
            parked: Arc::default(),
            stop: Arc::clone(&self.stop),
            addresses: Arc::clone(&self.addresses),
            storage_timeout: Duration::from_secs(self.settings.storage_timeout_s.value),
            failure: self.failure.clone(),
        };
        let result = Arc::clone(&self.result);
        self.spawn(move || {
            let run = || {
                // Before the server listens, so that the tenure can be given back.
                session.addresses.check_host(false)?;
                serve::run_as_node(&args, signals, &session)
            };
            let ended = panic::catch_unwind(AssertUnwindSafe(run));
            let Err(error) = ended.unwrap_or_else(|_| Err(anyhow::anyhow!("the server has panicked"))) else {
                return Some(OwnershipEvent::Quiet);
            };
            let why = format!("{error:#}");
            *result.lock() = Some(error);
            match session.is_listening.load(Ordering::Acquire) {
                // The driver sees the result.
                true => Some(OwnershipEvent::Woken),
                false => Some(OwnershipEvent::Started(Err(why))),
            }
        });
    }

    /// The settings that say which record of the tenure store counts.
    fn store_name(&self) -> StoreName {
        let server = self.settings.server.value.clone();
        let tenure = self.settings.tenure.as_ref().map(|tenure| tenure.value);
        let named = TenureKind::NAMES.iter().find(|(_, kind)| Some(*kind) == tenure);
        StoreName { tenure: named.map_or("", |(name, _)| name).to_owned(), server }
    }

    fn release(&self, record: TenureRecord) {
        let store = Arc::clone(&self.store);
        self.spawn(move || Some(OwnershipEvent::Released(store.release(&record))));
    }

    /// Logs the reason why this node does not serve, if it is a new one.
    fn hindered(&mut self, hindrance: Hindrance) {
        if self.logged.as_ref() == Some(&hindrance) {
            return;
        }
        let text = socket::shown(&hindrance, &self.settings.server.value, &self.owner);
        tracing::warn!("{text}");
        notify::waiting(&text);
        // Clients of a process that was killed would wait for nobody. A server has taken over its own.
        self.listeners.close_left();
        if matches!(hindrance, Hindrance::Owned(_)) {
            // An owner on this host that was killed has left them.
            self.addresses.take_down();
            self.acknowledged.lock().clear();
        }
        self.logged = Some(hindrance);
    }

    fn end(&mut self, reason: EndReason) -> anyhow::Result<()> {
        match reason {
            EndReason::Released => {
                tracing::info!("the tenure is given back");
                Ok(())
            }
            EndReason::TermOver(why) => self.end_at_once(&format!("its term is over: {why}")),
            EndReason::NotOwner(why) => self.end_at_once(&why),
        }
    }

    /// Ends the process, since its server does not start. Its tenure is not given back: what hangs may still
    /// be carried out, so the next owner must fence.
    fn abandon_start(&self) -> ! {
        if let Some(term) = &self.term {
            term.end();
        }
        let (server, limit) = (&self.settings.server.value, self.settings.start_timeout_s.value);
        let why = format!(
            "the server of the virtual server `{server}` did not start within {limit} s, and this node ends; \
             its storage may hang; for a longer start, set `start_timeout_s` in [node]"
        );
        self.failure.set(&why);
        self.addresses.take_down();
        tracing::error!("{why}");
        kerberos::skip_destructors_at_exit();
        std::process::exit(crate::state::loss::LOST);
    }

    /// Ends the process without a reply to anybody. Another node may serve the clients now.
    fn end_at_once(&self, why: &str) -> ! {
        if let Some(term) = &self.term {
            term.end();
        }
        self.addresses.take_down();
        let server = &self.settings.server.value;
        tracing::error!("this node no longer owns the virtual server `{server}`, and ends: {why}");
        kerberos::skip_destructors_at_exit();
        std::process::exit(crate::state::loss::LOST);
    }
}
