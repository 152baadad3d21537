//! Assembles the file server: volumes, an engine for each share, the SMB and NFS servers, the transport.
//!
//! Only this module depends on those crates. [`identity`] turns principals into identities for the engine
//! and the log-on. [`homes`] finds and makes the directories of users. [`accounts`] derives the rules for
//! sessions, and [`shares`] the settings of each share. [`addresses`] decides which of the host's addresses
//! clients get. [`journals`] makes opens and client records survive a restart, [`restoring`] restores the
//! opens, and [`rest`] stops their changes for a backup. [`share_removal`] disconnects the users of a deleted
//! share, and [`share_relocation`] moves a share to another directory. [`limits`] throttles shares, and
//! [`usage`] counts the space that they use. [`report`], [`nfs_report`] and [`channels`] read the servers'
//! tables for the status, and [`close_ids`] closes the opens and locks that an administrator chooses there.
//! [`transactions`] and [`workload`] read the counters, [`records`] writes a line for each request,
//! [`audit`] one for each event, and [`share_peaks`] keeps the peak rates.

mod accounts;
mod addresses;
mod audit;
mod background_release;
mod channels;
mod close_ids;
mod directories;
pub mod domain_faults;
mod domain_names;
mod domain_users;
mod engines;
mod exports;
mod homes;
mod host_events;
mod identity;
mod journals;
mod kerberos;
mod limits;
mod locks;
mod managed_gids;
mod memory;
mod metadata;
mod names;
mod nfs_report;
mod records;
mod recycle;
mod report;
mod rest;
mod restoring;
mod share_peaks;
mod share_relocation;
mod share_removal;
mod shares;
mod transactions;
mod transport;
mod tree_lock;
mod usage;
mod winbind;
mod workload;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use admin::Status;
use admin::channels::SessionChannels;
use admin::open_files::ClosedState;
use admin::status::{TicketEnds, Transport};
use admin::transactions::{Gauges, ShareTransactions};
use admin::workload::ClientWork;
use share::engine::{AccountMapping, Descriptors};
use smb_wire::Guid;
use smb_wire::negotiate::Dialect;
use volume::security::Sid;
use volume_posix::PosixVolume;

use super::listen::NfsBound;
use super::plan::ServePlan;
use super::server::{FileServer, ServedPath, ShareUse};
use crate::config::values::Ntlm;
use crate::config::{Config, Share, ShareProtocol};
use crate::node::session::NodeSession;
use crate::state::StateDir;
use addresses::Addresses;
use audit::AuditLog;
use domain_faults::AppliedDomain;
pub use domain_users::DomainIds;
use domain_users::DomainUsers;
use engines::{EnginesByPath, ServedDirectory};
use exports::Servers;
use identity::{IdentityMap, PlanIdentities};
use limits::Pacing;
use locks::held;
use records::Records;
use restoring::{Restoring, ShareRestorer};
use share_peaks::SharePeaks;
use shares::{engine_config, is_offered_over_smb, share_config, warn_if_opens_need_restart};
use usage::Usages;

/// The interval of the timers: for changes on the host that a watcher waits for, and for caching rights that
/// a client has not given back.
const TICK: Duration = Duration::from_millis(100);
/// The interval at which this thread returns free memory of its allocator to the host, as workers do.
const GIVEN_BACK_EVERY: Duration = Duration::from_secs(2);
/// The interval at which sidecar data of deleted files is removed.
const SWEEP: Duration = Duration::from_secs(60);
/// The number of files that one sweep of a volume checks.
const SWEEP_FILES: usize = 1000;

struct AssembledServer {
    server: Arc<smb::Server>,
    transport: Mutex<Option<net::Handle<smb::service::SmbService>>>,
    nfs: Arc<Servers>,
    nfs_transport: Mutex<Option<net::Handle<nfs::connection::service::Endpoints>>>,
    /// The memory for unread replies, shared by both transports.
    backlog: Arc<net::Backlog>,
    engines: Arc<Mutex<EnginesByPath>>,
    pacing: Arc<Pacing>,
    peaks: Arc<SharePeaks>,
    usages: Arc<Usages>,
    records: Option<Records>,
    audit: Arc<AuditLog>,
    state: Arc<StateDir>,
    /// The tenure of a node of a virtual server.
    session: Option<NodeSession>,
    addresses: Arc<Addresses>,
    /// The domain by the settings that were applied last.
    domain: AppliedDomain,
    /// The descriptors that all shares together may use for cached names.
    descriptors: Arc<Descriptors>,
    /// The memory for the state of clients of all shares.
    client_memory: Arc<share::ClientMemory>,
    /// Stops the records of opens of all shares for a backup.
    record_freeze: Arc<share::RecordFreeze>,
    /// Restores the opens from before the start.
    restoring: Restoring,
    /// Ends with the server. None if the host does not report its addresses.
    _watcher: Option<net::interfaces::Watcher>,
    /// Dropping the sender ends the thread.
    keeper: Mutex<Option<(Sender<()>, JoinHandle<()>)>>,
}

/// Serves `plan` on `listeners`; under a `session`, as a node of a virtual server.
///
/// # Errors
/// One line for the user.
pub fn start(
    plan: &ServePlan,
    listeners: net::Listeners,
    nfs_bound: Option<NfsBound>,
    state: &Arc<StateDir>,
    session: Option<&NodeSession>,
) -> anyhow::Result<Arc<dyn FileServer>> {
    let descriptors = net::raise_descriptor_limit();
    tracing::debug!(descriptors, "bound on open descriptors");
    let server = smb::Server::new(server_config(plan, memory::for_sessions()), net::now());
    let (nfs_listeners, endpoints) = match nfs_bound {
        Some(bound) => (Some(bound.listeners), bound.endpoints),
        None => (None, Vec::new()),
    };
    let nfs = Arc::new(Servers::new(plan, state, endpoints)?);
    let audit = AuditLog::of_servers(&server, &nfs);
    let records = Records::start(&plan.config.admin).map_err(anyhow::Error::msg)?;
    if let Some(records) = &records {
        let of_nfs = nfs.list().iter().map(|(_, server)| &server.counts);
        for counts in of_nfs.chain([&server.counts]) {
            counts.set_recorder(Arc::clone(records.recorder()));
        }
    }
    let (engines, pacing, peaks) = (Arc::default(), Arc::default(), Arc::default());
    let seen = Arc::clone(&peaks);
    let usages: Arc<Usages> = Arc::default();
    let kept = Arc::clone(&usages);
    let moving = session.map(NodeSession::moving).unwrap_or_default();
    let addresses = Arc::new(Addresses::new(Arc::clone(&server), listeners.local_addresses(), moving));
    let assembled = AssembledServer {
        server: Arc::clone(&server),
        transport: Mutex::new(None),
        nfs: Arc::clone(&nfs),
        nfs_transport: Mutex::new(None),
        engines: Arc::clone(&engines),
        pacing: Arc::clone(&pacing),
        peaks,
        usages,
        records,
        audit,
        state: Arc::clone(state),
        session: session.cloned(),
        _watcher: watch(&addresses),
        addresses,
        domain: AppliedDomain::default(),
        descriptors: metadata::kept_of(descriptors),
        client_memory: memory::for_clients(),
        record_freeze: Arc::default(),
        restoring: Restoring::default(),
        backlog: net::Backlog::of_host(),
        keeper: Mutex::new(Some(keep(engines, Arc::clone(&nfs), pacing, seen, kept, Arc::clone(state))?)),
    };
    if nfs_listeners.is_some() {
        nfs.keep_clients(state, plan.config.node.tenure.is_some()).map_err(anyhow::Error::msg)?;
    }
    assembled.apply(plan).map_err(anyhow::Error::msg)?;
    let config = transport_config(plan, &assembled.backlog, session)?;
    session.inspect(|session| session.begin_listening());
    if let Some(listeners) = nfs_listeners {
        let handle = net::serve(listeners, Arc::new(nfs.service()), config.clone())?;
        *held(&assembled.nfs_transport) = Some(handle);
    }
    let handle = net::serve(listeners, Arc::new(smb::service::SmbService(server)), config)?;
    *held(&assembled.transport) = Some(handle);
    Ok(Arc::new(assembled))
}

/// The settings of both transports.
fn transport_config(
    plan: &ServePlan,
    backlog: &Arc<net::Backlog>,
    session: Option<&NodeSession>,
) -> anyhow::Result<net::Config> {
    let settings = &plan.config.server;
    Ok(net::Config {
        backlog: Arc::clone(backlog),
        workers: usize::try_from(settings.workers.value)?,
        max_connections: usize::try_from(settings.max_connections.value)?,
        max_connections_per_address: usize::try_from(settings.connections_per_address())?,
        busy_poll: Duration::from_micros(settings.busy_poll_us.value),
        term: session.map(|session| Arc::clone(&session.term)).unwrap_or_default(),
        live_connections: session.map(|session| Arc::clone(&session.live)),
        parked: session.map(|session| Arc::clone(&session.parked)),
        ..net::Config::default()
    })
}

impl FileServer for AssembledServer {
    fn directories(&self) -> Vec<ServedPath> {
        directories::served(&held(&self.engines))
    }

    fn report(&self, status: &mut Status) {
        let engines = shown(&self.engines);
        let locks = nfs_report::fill(&self.nfs, &engines, net::now(), status);
        report::fill(&self.server, &locks, &engines, status);
        status.limits = limits::report(engines.iter().map(|(_, engine)| engine));
        status.metadata = metadata::report(engines.iter().map(|(_, engine)| engine));
        status.records = self.records.as_ref().map(Records::shown);
        status.audit = self.audit.shown();
        status.node = self.node();
        status.usage = usage::report(engines.iter().map(|(_, engine)| engine));
        status.transport = self.transport();
    }

    fn transport(&self) -> Transport {
        let smb = held(&self.transport).as_ref().map(transport::seen);
        let nfs = held(&self.nfs_transport).as_ref().map(transport::seen);
        let descriptors = transport::descriptors(&self.descriptors);
        let client_memory = memory::report([&self.client_memory, &self.server.config().session_memory]);
        let ends = &self.server.ticket_ends;
        let ends = TicketEnds { expired: ends.expired(), reauthenticated: ends.reauthenticated() };
        transport::report(smb, nfs, &self.backlog, descriptors, client_memory, ends)
    }

    fn audit(&self) -> Option<admin::status::Audit> {
        self.audit.shown()
    }

    fn node(&self) -> Option<admin::status::NodeTenure> {
        self.session.as_ref().map(NodeSession::tenure)
    }

    fn note_request(&self, by: (&str, Option<u32>), request: &str, refused: Option<&str>) {
        self.audit.note_request(by, request, refused);
    }

    fn channels(&self) -> Vec<SessionChannels> {
        channels::fill(&self.server, &self.addresses.candidates(), net::now().mono_ns)
    }

    fn transactions(&self) -> Vec<ShareTransactions> {
        let engines = shown(&self.engines);
        transactions::read(&self.server, &self.nfs, engines.iter().map(|(_, engine)| engine))
    }

    fn gauges(&self) -> BTreeMap<String, Gauges> {
        let engines = shown(&self.engines);
        engines.iter().map(|(_, engine)| (engine.name(), gauges(engine, &self.peaks))).collect()
    }

    fn clients(&self) -> Vec<ClientWork> {
        let engines = shown(&self.engines);
        let caching = engines.iter().map(|(_, engine)| (engine.name(), engine.metadata_caching().on));
        workload::clients(&self.server, &self.nfs, &caching.collect())
    }

    fn apply(&self, plan: &ServePlan) -> Result<(), String> {
        let identities = PlanIdentities::of(plan, held(&self.domain.ids).as_ref())?;
        let principals = Arc::clone(&identities.map);
        let (mut engines, mut next) = (held(&self.engines), EnginesByPath::new());
        let (mut shares, mut unrestored) = (Vec::new(), Vec::new());
        let (mut exported, mut limited) = (Vec::new(), Vec::new());
        let (mut sizes, mut rooms, mut lowered) = (Vec::new(), Vec::new(), Vec::new());
        let needs_gids = plan.config.shares.values().any(exports::needs_gids);
        let gids = managed_gids::of(&principals.users(), identities.domain_ids.as_ref().ok(), needs_gids)?;
        let (paths, keeping) = self.directories(plan)?;
        let leaving = share_relocation::leaving(&engines, &paths);
        let audit = self.audit.prepare(&plan.config)?;
        // Everything that can fail comes first, so that a plan is applied completely or not at all.
        for (share, path) in plan.config.shares.values().zip(paths) {
            let config = engine_config(share, &path, plan, &principals, &self.audit);
            let served = match engines.get(&path) {
                Some(served) => {
                    lowered.push(usage::lower(share, &served.engine)?);
                    ServedDirectory { is_left: false, ..served.clone() }
                }
                None if next.contains_key(&path) => next[&path].clone(),
                None => {
                    let served = self.begin(share, &path, config.clone(), plan, &engines, &leaving)?;
                    let keeps = keeping.contains(&path);
                    unrestored.push((share, shares.len(), self.keep(share, &path, &served, keeps)?));
                    served
                }
            };
            sizes.push(usage::quota(share));
            rooms.push((Arc::clone(&served.volume), usage::beside(share)));
            let before = share_relocation::before(&engines, share, &path).map(|(before, _)| before);
            limited.push(limits::LimitsToApply::of(share, &plan.config, &path, before, &self.state)?);
            warn_if_opens_need_restart(share, &served.engine);
            let export = exports::export(share, &path, &served.engine, &self.state, gids.as_ref())?;
            exported.extend(export.map(|export| (share.endpoint(&plan.config), export)));
            let settings = share_config(share, &path, &served.engine, &principals);
            shares.push((settings, Arc::clone(&served.engine), config));
            next.insert(path, served);
        }
        self.pacing.start_for(&limited)?;
        self.audit.apply(audit)?;
        lowered.into_iter().for_each(usage::UncommittedSize::keep);
        rooms.iter().for_each(|(volume, bytes)| volume.set_sidecar_quota(*bytes));
        for (_, engine, config) in &shares {
            engine.configure(config.clone());
        }
        let left = left_over(&engines, &next);
        let numbers_in_use: Vec<u32> = share_relocation::without_share(&left, plan)
            .filter_map(|path| self.state.number(path).ok())
            .collect();
        let engines_of = || shares.iter().map(|(_, engine, _)| engine);
        self.pacing.apply(&self.state, engines_of().zip(limited.iter().map(Option::as_ref)), &numbers_in_use);
        share_relocation::limit(&left, engines_of());
        self.usages.apply(shares.iter().map(|(_, engine, _)| engine).zip(sizes))?;
        next.extend(left);
        *engines = next;
        self.configure(plan, identities);
        let unrestored = unrestored.into_iter().map(|(share, at, opens)| (share, &shares[at].0, opens));
        let restoring = self.begin_restoring(unrestored, &principals);
        // A restored open of an NFS client needs its export.
        self.nfs.set_exports(exported);
        self.server.set_users(principals.users());
        let configs = shares.into_iter().map(|(config, ..)| config);
        self.server.set_shares(configs.filter(|config| is_offered_over_smb(plan, config)));
        self.restoring.start(&restoring);
        self.end_sessions_of_removed_users(&principals);
        Ok(())
    }

    fn domain_faults(&self) -> Vec<String> {
        held(&self.domain.faults).clone()
    }

    fn has_new_keytab(&self, config: &Config) -> bool {
        let are_tickets_off = self.server.config().kerberos_off.is_some();
        let can_begin = || are_tickets_off && kerberos::credentials(config).is_ok();
        held(&self.domain.keytab).is_due(Instant::now(), can_begin)
    }

    fn is_counting(&self, share: &str) -> bool {
        let engines = shown(&self.engines);
        let mut named = engines.iter().filter(|(_, engine)| engine.name() == share);
        named.any(|(_, engine)| engine.meter().is_some_and(|meter| meter.to_keep().is_none()))
    }

    fn use_of(&self, share: &str) -> ShareUse {
        share_removal::use_of(&self.server, &self.nfs, &held(&self.engines), share)
    }

    fn close_open(&self, close_id: &str) -> Option<ClosedState> {
        close_ids::close(&self.server, &self.nfs, close_id.parse().ok()?)
    }

    fn disconnect(&self, share: &str) {
        share_removal::disconnect(&self.server, &self.nfs, &mut held(&self.engines), share);
    }

    fn write_noted(&self) {
        by_path(&self.engines).iter().for_each(|(_, engine)| engine.write_noted());
    }

    fn at_rest(&self, read: &mut dyn FnMut() -> bool) -> Result<Option<Duration>, String> {
        rest::at_rest(&self.record_freeze, &by_path(&self.engines), read)
    }

    fn drain(&self, within: Duration) -> bool {
        let begun = Instant::now();
        let nfs_ended = held(&self.nfs_transport).take().map(|handle| handle.shutdown(within));
        let left = within.saturating_sub(begun.elapsed());
        let ended = held(&self.transport).take().map(|handle| handle.shutdown(left));
        if let Some((stop, thread)) = held(&self.keeper).take() {
            drop(stop);
            // The thread only maintains engines, so its result does not matter.
            let _ = thread.join();
        }
        self.restoring.stop();
        // Opens that waited for their clients end with the server, and files that are deleted on close are
        // deleted.
        for served in held(&self.engines).values() {
            served.engine.end_all_detached(net::now());
            served.engine.write_noted();
        }
        if let Some(records) = &self.records {
            records.stop();
        }
        self.audit.stop();
        self.pacing.save(&self.state);
        self.usages.stop();
        self.usages.save(&self.state, &by_path(&self.engines));
        let clean = [ended, nfs_ended].into_iter().flatten().all(|ended| ended.cut == 0 && ended.jobs_ended);
        tracing::info!(clean, ms = begun.elapsed().as_millis() as u64, "connections closed");
        clean
    }
}

impl AssembledServer {
    /// Starts to serve a directory. The share's own state continues from its previous directory.
    fn begin(
        &self,
        share: &Share,
        path: &Path,
        config: share::Config,
        plan: &ServePlan,
        engines: &EnginesByPath,
        leaving: &[(&Path, &ServedDirectory)],
    ) -> Result<ServedDirectory, String> {
        share_relocation::check_free(leaving, &self.server, share, path)?;
        let served = self.open(share, path, config, &plan.config)?;
        if let Some((_, before)) = share_relocation::before(engines, share, path) {
            served.engine.inherit_counters(&before.engine);
        }
        Ok(served)
    }

    /// The real paths of the shares' directories, and those with persistent opens. It also gives each
    /// directory and each export its number, in one change of the state for all of them.
    fn directories(&self, plan: &ServePlan) -> Result<(Vec<PathBuf>, HashSet<PathBuf>), String> {
        let real = plan.config.shares.values().map(|share| real_path(share.directory()));
        let paths = real.collect::<Result<Vec<_>, _>>()?;
        let exports = exports::numbered(plan.config.shares.values().zip(&paths));
        let all = paths.iter().chain(&exports).map(PathBuf::as_path);
        self.state.give_numbers(all).map_err(|e| e.to_string())?;
        let keeping = keeping_opens(plan, &paths);
        Ok((paths, keeping))
    }

    /// Applies the settings of the server as a whole.
    fn configure(&self, plan: &ServePlan, identities: PlanIdentities) {
        let mut settings = smb::ServerConfig::clone(&self.server.config());
        let PlanIdentities { map, domain_ids, host_names, keytab } = identities;
        let users = map.users();
        let accounts: Arc<dyn AccountMapping> = map;
        accounts::apply(&plan.config, &accounts, &mut settings);
        let ids = domain_ids.as_ref().ok().cloned();
        if let Some(ids) = &ids {
            // NTLM cannot wait for them.
            ids.resolver().want_suffixes();
        }
        *held(&self.domain.ids) = ids.clone();
        *held(&self.domain.keytab) = keytab;
        let off = domain_ids.clone();
        let domain_users = DomainUsers::new(&plan.config.domain, domain_ids, settings.machine_sid, &users);
        let resolver = kerberos::resolver(&plan.config.domain, &users, domain_users);
        let tickets = resolver.as_ref().map(|resolver| kerberos::configure(&plan.config, resolver));
        let (kerberos, tickets_off) = match tickets {
            Some(Ok(kerberos)) => (Some(kerberos), None),
            Some(Err(why)) => (None, Some(why)),
            None => (None, None),
        };
        let faults = domain_faults::of(&plan.config, &off, tickets_off.as_deref());
        self.domain.set_faults(faults);
        settings.kerberos = kerberos;
        settings.kerberos_off = tickets_off.map(Arc::from);
        settings.domain_member =
            resolver.and_then(|resolver| winbind::configure(&plan.config, resolver, ids));
        names::set_realm_names(&mut settings.target, &plan.config.domain);
        settings.ntlm = plan.config.domain.ntlm.value != Ntlm::Off;
        self.server.set_config(settings);
        self.addresses.configure(&plan.config.server);
        self.server.set_host_names(host_names);
        self.server.set_accounts(accounts);
    }

    fn open(
        &self,
        share: &Share,
        path: &Path,
        config: share::Config,
        all: &Config,
    ) -> Result<ServedDirectory, String> {
        let name = &share.name.value;
        let beside = self.state.volume_dir(path).map_err(|e| e.to_string())?;
        journals::warn_if_sidecar_missing(&self.state, &name.to_string(), &beside);
        let lock = match &self.session {
            Some(_) => tree_lock::lock(&name.to_string(), path)?,
            None => None,
        };
        let volume = PosixVolume::open(path, &beside).map_err(|e| format!("share `{name}`: {e}"))?;
        host_events::warn_if_missing(&name.to_string(), path, &volume);
        let volume = Arc::new(volume);
        let shared =
            metadata::slowed(Arc::<PosixVolume>::clone(&volume), all.server.testing.metadata_delay_us.value);
        let shared = usage::metered(shared, share, path, &self.state)?;
        let config = share::Config {
            descriptors: Arc::clone(&self.descriptors),
            memory: Arc::clone(&self.client_memory),
            record_freeze: Arc::clone(&self.record_freeze),
            give_back: Some(Arc::new(background_release::BackgroundRelease::default())),
            ..config
        };
        let engine = share::Share::open(shared, config)
            .map_err(|e| format!("share `{name}`: {}: {e}", path.display()))?;
        Ok(ServedDirectory { volume, engine, is_left: false, _lock: lock })
    }

    /// Lets requests ask for the opens of shares from before the start. Returns the engines that have any.
    fn begin_restoring<'a>(
        &self,
        unrestored: impl Iterator<Item = (&'a Share, &'a smb::ShareConfig, Vec<share::UnrestoredOpen>)>,
        principals: &Arc<IdentityMap>,
    ) -> Vec<Arc<share::Share>> {
        let begin = |(share, config, opens): (&Share, &smb::ShareConfig, Vec<share::UnrestoredOpen>)| {
            ShareRestorer::begin(share, principals, &self.server, config, &self.nfs, opens);
            config.engine.is_restoring().then(|| Arc::clone(&config.engine))
        };
        unrestored.filter_map(begin).collect()
    }

    /// Makes a new engine record its opens, if `keeps` is set, and returns those of the previous run, which
    /// are not restored yet.
    fn keep(
        &self,
        share: &Share,
        path: &Path,
        served: &ServedDirectory,
        keeps: bool,
    ) -> Result<Vec<share::UnrestoredOpen>, String> {
        let journal = self.state.opens_path(path).map_err(|e| e.to_string())?;
        if keeps {
            let (unrestored, are_some_lost) = journals::keep(share, &self.state, &journal, &served.engine)?;
            if are_some_lost {
                self.nfs.list().iter().for_each(|(_, server)| server.mark_records_incomplete());
            }
            return Ok(unrestored);
        }
        journals::forget(&self.state, &journal).map(|()| Vec::new())
    }

    /// Closes the connections of users who may no longer log on.
    fn end_sessions_of_removed_users(&self, principals: &IdentityMap) {
        for session in self.server.sessions() {
            let user = session.authenticated().filter(|proved| !proved.anonymous);
            let Some(gone) = user.filter(|user| {
                !self.server.is_current_user(&user.identity) && !principals.is_domain_user(&user.identity)
            }) else {
                continue;
            };
            let (user, id) = (&gone.identity.name, session.id);
            tracing::info!(user, session = id, "the user was removed, and their connections are closed");
            for channel in session.channels() {
                channel.post(smb::state::Event::Close);
            }
        }
    }
}

/// Watches the addresses of the host, and updates the server's list.
fn watch(addresses: &Arc<Addresses>) -> Option<net::interfaces::Watcher> {
    let told = Arc::clone(addresses);
    match net::interfaces::watch(move |host| told.host_has(host)) {
        Ok(watcher) => Some(watcher),
        Err(error) => {
            tracing::warn!(%error, "the host's addresses are not known, so clients learn only the one that \
                                    they use");
            None
        }
    }
}

/// Runs the maintenance of the engines in a thread, until the sender is dropped.
fn keep(
    engines: Arc<Mutex<EnginesByPath>>,
    nfs: Arc<Servers>,
    pacing: Arc<Pacing>,
    peaks: Arc<SharePeaks>,
    usages: Arc<Usages>,
    state: Arc<StateDir>,
) -> std::io::Result<(Sender<()>, JoinHandle<()>)> {
    let (stop, stopped) = channel();
    let run = move || {
        let (mut swept, mut saved, mut looked) = (Instant::now(), Instant::now(), Instant::now());
        let mut given_back = Instant::now();
        while stopped.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
            let now = net::now();
            let left = share_relocation::take_unused(&mut held(&engines));
            left.iter().for_each(|served| served.engine.write_noted());
            drop(left);
            let all: Vec<ServedDirectory> = held(&engines).values().cloned().collect();
            let sweep = swept.elapsed() >= SWEEP;
            for served in &all {
                // The share may be idle but still have a watcher.
                served.engine.maintain(now);
                served.engine.write_noted();
                served.engine.compact_record();
                served.engine.purge_recycled(now, recycle::STEP);
                if served.engine.next_deadline().is_some_and(|at| at <= now.mono_ns) {
                    served.engine.tick(now);
                }
                if sweep && let Err(error) = served.volume.collect_orphans(SWEEP_FILES) {
                    tracing::trace!(%error, "no sweep beside the volume");
                }
            }
            nfs.tick();
            // This thread often frees the last memory of a thread that has ended, and its allocator keeps it.
            if given_back.elapsed() >= GIVEN_BACK_EVERY {
                net::give_memory_back(false);
                given_back = Instant::now();
            }
            if looked.elapsed() >= share_peaks::LOOKED_EVERY {
                peaks.look(all.iter().map(|served| &served.engine), now.mono_ns);
                looked = Instant::now();
            }
            if saved.elapsed() >= limits::SAVED_EVERY {
                pacing.save(&state);
                usages.save(&state, &by_path(&engines));
                journals::record_present_files(&state);
                saved = Instant::now();
            }
            if sweep {
                swept = Instant::now();
            }
        }
        journals::record_present_files(&state);
    };
    let thread = std::thread::Builder::new().name("trunkline-keeper".to_owned()).spawn(run)?;
    Ok((stop, thread))
}

/// Served directories whose share was removed, but that still have connected clients.
fn left_over(engines: &EnginesByPath, next: &EnginesByPath) -> Vec<(PathBuf, ServedDirectory)> {
    let is_left = |(path, served): &(&PathBuf, &ServedDirectory)| {
        !next.contains_key(*path) && Arc::strong_count(&served.engine) > 1
    };
    let left = engines.iter().filter(is_left);
    left.map(|(path, served)| (path.clone(), ServedDirectory { is_left: true, ..served.clone() })).collect()
}

/// The engines with the paths of their directories.
fn by_path(engines: &Mutex<EnginesByPath>) -> Vec<(PathBuf, Arc<share::Share>)> {
    held(engines).iter().map(|(path, served)| (path.clone(), Arc::clone(&served.engine))).collect()
}

/// Like [`by_path`], for reports. Of several engines with one name only the current one is included, so that
/// nothing is reported twice.
fn shown(engines: &Mutex<EnginesByPath>) -> Vec<(PathBuf, Arc<share::Share>)> {
    let engines = held(engines);
    let mut all: Vec<_> = engines.iter().collect();
    all.sort_by_key(|(_, served)| served.is_left);
    let mut names = BTreeSet::new();
    all.retain(|(_, served)| names.insert(served.engine.name()));
    all.into_iter().map(|(path, served)| (path.clone(), Arc::clone(&served.engine))).collect()
}

/// The current values of a share.
fn gauges(engine: &share::Share, peaks: &SharePeaks) -> Gauges {
    let limited = engine.limits().and_then(|limits| limits.state(net::now()));
    let space = engine.space().ok();
    let (max_used_iops, max_used_bandwidth_bytes) = peaks.of(engine);
    Gauges {
        max_used_iops,
        max_used_bandwidth_bytes,
        available_burst_credits: limited.as_ref().map(|limited| limited.burst_credits),
        provisioned_iops: limited.as_ref().map(|limited| limited.provision.operations),
        provisioned_bandwidth_bytes: limited.as_ref().map(|limited| limited.provision.throughput.in_all()),
        held_requests: limited.as_ref().map(|limited| limited.held as u64),
        open_files: engine.open_count() as u64,
        file_capacity_bytes: engine.usage().map(|usage| usage.bytes),
        file_count: engine.usage().map(|usage| usage.files),
        capacity_quota_bytes: engine.meter().and_then(|meter| meter.quota()),
        volume_size_bytes: space.map(|space| space.total),
        volume_free_bytes: space.map(|space| space.free),
        recycle: engine.recycle_summary().map(recycle::shown),
    }
}

/// The directories of shares that are continuously available, or that are offered over NFS, where clients
/// always reclaim.
fn keeping_opens(plan: &ServePlan, paths: &[PathBuf]) -> HashSet<PathBuf> {
    let keeps = |share: &Share| share.continuously_available.value || share.offers(ShareProtocol::Nfs);
    let shares = plan.config.shares.values().zip(paths).filter(|(share, _)| keeps(share));
    shares.map(|(_, path)| path.clone()).collect()
}

fn real_path(path: &Path) -> Result<PathBuf, String> {
    std::fs::canonicalize(path)
        .map_err(|e| format!("{}: {}", path.display(), crate::config::file_error(path, &e)))
}

fn server_config(plan: &ServePlan, session_memory: Arc<share::ClientMemory>) -> smb::ServerConfig {
    let server = &plan.config.server;
    let [a, b, c] = plan.identity.machine_sid;
    if server.testing.smbtorture_controls.value {
        tracing::warn!(
            "smbtorture_controls is on: any client can make connections fail and requests take long"
        );
    }
    smb::ServerConfig {
        guid: Guid(plan.identity.guid),
        name: server.netbios_name.value.clone(),
        dns_name: server.name.value.clone(),
        machine_sid: Sid::new(5, &[21, a, b, c]),
        min_dialect: server.min_dialect.value,
        max_dialect: Dialect::Smb311,
        signing: server.signing.value,
        encryption: server.encryption.value,
        max_connections: usize::try_from(server.max_connections.value).unwrap_or(usize::MAX),
        anonymous: server.anonymous.value,
        smbtorture_controls: server.testing.smbtorture_controls.value,
        max_credits: server.testing.max_credits.value,
        multichannel: server.multichannel.value,
        max_channels: accounts::channels(&server.max_channels),
        // The plan is applied before anyone can log on. Only then there are accounts to look names up in.
        accounts: Vec::new(),
        free_users: Vec::new(),
        share_endpoints: accounts::share_endpoints(&plan.config),
        target: names::target_rule(server),
        // They come with the users, when the plan is applied.
        kerberos: None,
        kerberos_off: None,
        domain_member: None,
        ntlm: plan.config.domain.ntlm.value != Ntlm::Off,
        guess_delay_ns: server.guess_delay_s.value.saturating_mul(1_000_000_000),
        session_memory,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_that_has_moved_is_told_of_once() {
        let dir = tempfile::tempdir().unwrap();
        let served = |name: &str, path: &str, is_left| {
            let path = dir.path().join(path);
            let beside = dir.path().join(format!("beside-{name}"));
            std::fs::create_dir_all(&path).unwrap();
            std::fs::create_dir_all(&beside).unwrap();
            let volume = Arc::new(PosixVolume::open(&path, &beside).unwrap());
            let config = share::Config { name: name.to_owned(), ..share::Config::default() };
            let engine = share::Share::open(Arc::<PosixVolume>::clone(&volume), config).unwrap();
            (path, ServedDirectory { volume, engine, is_left, _lock: None })
        };
        let all = [served("docs", "a", true), served("docs", "b", false), served("gone", "c", true)];
        let shown = shown(&Mutex::new(EnginesByPath::from(all)));
        let told: Vec<_> = shown.iter().map(|(path, engine)| (path.clone(), engine.name())).collect();
        let (moved, gone) = (dir.path().join("b"), dir.path().join("c"));
        assert_eq!(told, [(moved, "docs".to_owned()), (gone, "gone".to_owned())]);
    }
}
