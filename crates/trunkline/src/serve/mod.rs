//! `trunkline serve`: from the command line to a running server, and to its clean end.
//!
//! The order matters. [`Setup::prepare`] refuses all mistakes before it creates anything. Then the ports are
//! bound, the state is opened, and the protocol crates are started behind the interface
//! [`server::FileServer`]. Only [`wiring`] depends on those crates.

mod access;
mod banner;
mod control;
mod demo;
mod health;
mod lines;
mod listen;
pub mod notify;
pub mod plan;
pub mod server;
pub mod signals;
pub mod stored_listeners;
mod wiring;

pub use wiring::{DomainIds, domain_faults};

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use admin::door::Door;
use admin::listener::{self, is_reached_from_elsewhere};
use admin::tls::Tls;

use crate::cli::ServeArgs;
use crate::command::output;
use crate::config::{Config, Overrides, Sources, check, shadowed};
use crate::discovery::{self, Announced};
use crate::node::session::NodeSession;
use crate::state::lock::LockUse;
use crate::state::{ADMIN_TOKEN, StateDir, StateError, loss};
use crate::tokens::{FileToken, Tokens};
use crate::{log, principals};
use banner::Credentials;
use control::Control;
use listen::{AdminBound, BoundListeners, NfsBound};
use plan::ServePlan;
use signals::{SignalRequest, Signals};
use stored_listeners::StoredListeners;

/// The time between two writes of when tokens were last used.
const TOKEN_USES: Duration = Duration::from_secs(600);
/// The time to wait for a former owner's process to end, and between two looks at it.
const FORMER_OWNER: Duration = Duration::from_secs(5);
const LOCK_LOOKS: Duration = Duration::from_millis(20);
/// The time between two looks at the keytab.
const KEYTAB_LOOKS: Duration = Duration::from_secs(2);

/// A failure of a running server. All errors before that are mistakes that the user can correct.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Failed(pub String);

/// The signals and sockets that a server's process has from its first moment on.
pub struct ProcessStart {
    signals: std::io::Result<Signals>,
    listeners: anyhow::Result<StoredListeners>,
}

impl ProcessStart {
    /// Takes the inherited sockets, and listens to signals. It must come before the process opens anything.
    pub fn begin() -> ProcessStart {
        let listeners = StoredListeners::of_process();
        ProcessStart { listeners, signals: Signals::listen() }
    }

    /// The signals and sockets.
    ///
    /// # Errors
    /// One line for the user.
    pub fn parts(self) -> anyhow::Result<(Signals, Arc<StoredListeners>)> {
        Ok((self.signals?, Arc::new(self.listeners?)))
    }
}

/// Serves until a signal or `trunkline stop` stops it.
///
/// # Errors
/// One line for the user; see [`Failed`].
pub fn run(args: &ServeArgs, start: ProcessStart) -> anyhow::Result<()> {
    let (signals, listeners) = start.parts()?;
    run_under(args, signals, &listeners, None)
}

/// Serves as the owner of a virtual server, until the node must stop or something stops the server.
///
/// # Errors
/// One line for the user; see [`Failed`].
pub fn run_as_node(args: &ServeArgs, signals: Signals, session: &NodeSession) -> anyhow::Result<()> {
    run_under(args, signals, &session.listeners, Some(session))
}

fn run_under(
    args: &ServeArgs,
    signals: Signals,
    listeners: &Arc<StoredListeners>,
    session: Option<&NodeSession>,
) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let Setup { overrides, config, sources, bound, nfs, admin, state, first_user } =
        Setup::prepare(args, listeners, session.is_some())?;
    // A node has begun its log before it waited.
    if session.is_none() {
        log::begin(&config)?;
    }
    state.check_files().iter().for_each(|note| tracing::warn!("{note}"));
    shadowed::notes(&sources).iter().for_each(|note| tracing::warn!("{note}"));
    // The clients choose the mode bits of new files, so the umask is empty. The directory of the server's own
    // files is closed to other users.
    rustix::process::umask(rustix::fs::Mode::empty());
    access::warn_of_unwritable(&config);
    let principals = principals::resolve(&config, &state)?;
    access::warn_of_users_without_ids(&principals);
    let plan = ServePlan::new(config, principals, &state);
    let guid = plan.identity.guid_text();
    session.map(|session| session.admit(&state, &guid)).transpose()?;
    output::text(banner::page(&plan, &bound, nfs.as_ref(), first_user.as_ref()));
    let tokens = Tokens::new(FileToken::read(&state, &plan.config)?);
    if plan.config.admin.listen.is_some() && !tokens.has_file() && state.store().tokens()?.is_empty() {
        tracing::warn!("there is no token for the admin page; `trunkline token add` makes one");
    }
    output::text(banner::admin(&plan, &admin, &state));
    let entrance = Entrance::new(&plan)?;
    let addresses = bound.addresses.clone();
    let state = Arc::new(state);
    let sockets: Vec<_> =
        [&bound.listeners].into_iter().chain(nfs.iter().map(|nfs| &nfs.listeners)).collect();
    listeners.store(&sockets, session.is_some())?;
    let server = wiring::start(&plan, bound.listeners, nfs, &state, session)?;
    let (silence, owner) = (session.map(|session| session.storage_timeout), session.cloned());
    loss::watch(&state, silence, move |state, why| end_at_once(owner.as_ref(), state, why))?;
    session.map(|session| session.begin_serving(&state, &guid)).transpose()?;
    signals.begin_serving();
    let control = Arc::new(Control::new(overrides, state, plan, sources, addresses, server, tokens));
    let ended = runtime.block_on(supervise(&control, signals, admin, entrance, session));
    // A second signal does not wait for requests that still run.
    runtime.shutdown_background();
    ended
}

/// Ends the process without a reply to anybody: another machine may serve its clients now. The host closes
/// the connections. The sockets of a node stop listening.
fn end_at_once(session: Option<&NodeSession>, state: &Path, why: &str) {
    let why = format!("state directory {} is lost, and this server ends: {why}", state.display());
    tracing::error!("{why}");
    session.inspect(|session| session.lose(&why));
    kerberos::skip_destructors_at_exit();
    std::process::exit(loss::LOST);
}

/// The way into the listeners for administrators.
#[derive(Debug, Clone, Default)]
struct Entrance {
    door: Door,
    tls: Option<Arc<Tls>>,
}

impl Entrance {
    /// The entrance of a configuration, with TLS if it has the files.
    fn new(plan: &ServePlan) -> anyhow::Result<Entrance> {
        let tls = plan.config.admin.tls(&plan.config)?.map(Arc::new);
        let certificates = plan.config.admin.certificate_roles();
        Ok(Entrance { door: Door { is_sealed: tls.is_some(), certificates }, tls })
    }
}

/// The checked prerequisites of a server.
struct Setup {
    overrides: Overrides,
    config: Config,
    /// The texts of the configuration.
    sources: Sources,
    bound: BoundListeners,
    nfs: Option<NfsBound>,
    admin: AdminBound,
    state: StateDir,
    first_user: Option<Credentials>,
}

impl Setup {
    /// Checks everything that can be checked, before it creates anything.
    fn prepare(args: &ServeArgs, listeners: &StoredListeners, is_node: bool) -> anyhow::Result<Setup> {
        let mut overrides = args.overrides();
        if args.demo {
            demo::lay_over(&mut overrides)?;
        }
        let dir = Config::state_dir(&overrides)?;
        // It comes first: `changes.toml` may be that of an interrupted restore or of an earlier version.
        let existing = match is_node {
            true => after_former_owner(&dir)?,
            false => StateDir::open_existing_for(&dir, LockUse::Server)?,
        };
        let sources = Sources::read(&overrides)?;
        let config = Config::of(&overrides, &sources)?;
        let stored: BTreeSet<String> = match &existing {
            Some(state) => state.store().users()?.into_iter().map(|user| user.name.to_lowercase()).collect(),
            None => BTreeSet::new(),
        };
        check::against(&config, &stored)?;
        if !is_node && config.node.tenure.is_some() {
            anyhow::bail!("this configuration is one of a node: use `trunkline node serve`");
        }
        let bound = listen::bind(&config, &mut listeners.inherited())?;
        let nfs = listen::bind_nfs(&config, &mut listeners.inherited())?;
        let admin = listen::bind_admin(&config)?;
        let state = match existing {
            Some(state) => state,
            None => StateDir::open_for(&dir, LockUse::Server)?,
        };
        // A server without shares gets its users on the admin page.
        let is_empty = stored.is_empty() && config.users.is_empty();
        let first_user = if is_empty && !config.shares.is_empty() {
            Some(Credentials::make(&state, overrides.users.first().map(String::as_str), &config)?)
        } else {
            Credentials::kept(&state)
        };
        Ok(Setup { overrides, config, sources, bound, nfs, admin, state, first_user })
    }
}

/// Opens the state directory of a node. A former owner on another node may not have ended yet.
fn after_former_owner(dir: &Path) -> Result<Option<StateDir>, StateError> {
    let until = Instant::now() + FORMER_OWNER;
    loop {
        match StateDir::open_existing_for(dir, LockUse::Server) {
            Err(StateError::Locked(_)) if Instant::now() < until => std::thread::sleep(LOCK_LOOKS),
            opened => return opened,
        }
    }
}

/// Handles signals and requests of administrators until the server must stop.
async fn supervise(
    control: &Arc<Control>,
    mut signals: Signals,
    admin: AdminBound,
    entrance: Entrance,
    session: Option<&NodeSession>,
) -> anyhow::Result<()> {
    let socket = admin::server::ControlSocket::bind(control.state().path())
        .map_err(|e| anyhow::anyhow!("the control socket in {}: {e}", control.state().path().display()))?;
    let controlled: Arc<dyn admin::Controlled> = Arc::<Control>::clone(control);
    let telling = tell(admin.metrics, entrance.clone(), Arc::clone(&controlled))?;
    let showing = show(admin.page, entrance, Arc::clone(&controlled))?;
    let keeping = keep_token_uses(control);
    let following = follow_keytab(control);
    let answering = async { socket.serve(Arc::clone(&controlled)).await };
    let leaving = must_leave(session);
    tokio::pin!(answering, telling, showing, keeping, following, leaving);
    let announced = announce(control).await;
    notify::ready();
    tracing::info!(shares = ?control.plan().share_names(), listen = ?control.addresses(), "serving");
    let mut end_signals = 0;
    loop {
        tokio::select! {
            () = &mut answering => {}
            () = &mut telling => {}
            () = &mut showing => {}
            () = &mut keeping => {}
            () = &mut following => {}
            request = signals.next() => match request {
                SignalRequest::Reload => reload(control).await,
                SignalRequest::End => {
                    end_signals = 1;
                    break;
                }
            },
            () = control.stopped() => break,
            () = &mut leaving => break,
        }
    }
    begin_stop(control, session);
    let within = Duration::from_secs(control.plan().config.server.drain_s.value);
    let draining = drain(control, announced, within, session);
    tokio::pin!(draining);
    // Administrators and monitoring are answered until the end: the server is alive and not ready.
    let clean = loop {
        tokio::select! {
            clean = &mut draining => break clean?,
            () = &mut answering => {}
            () = &mut telling => {}
            () = &mut showing => {}
            request = signals.next() => {
                end_signals += u32::from(request == SignalRequest::End);
                if end_signals > 1 {
                    return Err(Failed("a second signal ended it; requests were cut off".to_owned()).into());
                }
            }
        }
    };
    if clean {
        tracing::info!("ended");
        Ok(())
    } else {
        Err(Failed(format!("requests were still running after {} s; they were cut off", within.as_secs()))
            .into())
    }
}

/// Waits until a node must leave its virtual server to another one.
async fn must_leave(session: Option<&NodeSession>) {
    match session {
        Some(session) => session.must_stop().await,
        None => std::future::pending().await,
    }
}

fn begin_stop(control: &Control, session: Option<&NodeSession>) {
    control.begin_stop();
    if let Some(session) = session {
        session.begin_stop();
    }
    notify::stopping();
    tracing::info!("stopping: answering the received requests");
}

async fn reload(control: &Arc<Control>) {
    notify::reloading();
    let control = Arc::clone(control);
    // The reload logs its errors itself, and the old configuration stays in force.
    let _ = tokio::task::spawn_blocking(move || admin::Controlled::reload(&*control)).await;
    notify::ready();
}

/// Answers the requests that were received. Returns whether all were answered in time. A node falls silent
/// then, and its connections end without a word to their clients.
async fn drain(
    control: &Arc<Control>,
    announced: Announced,
    within: Duration,
    session: Option<&NodeSession>,
) -> anyhow::Result<bool> {
    announced.end().await;
    let (ending, session) = (Arc::clone(control), session.cloned());
    let end = move || {
        ending.keep_token_uses();
        let is_clean = ending.server().drain(within);
        session.inspect(NodeSession::fall_silent);
        is_clean
    };
    Ok(tokio::task::spawn_blocking(end).await?)
}

/// Serves the metrics, if they have an address.
fn tell(
    socket: Option<std::net::TcpListener>,
    entrance: Entrance,
    controlled: Arc<dyn admin::Controlled>,
) -> std::io::Result<impl Future<Output = ()>> {
    let listener = socket.map(listener::ready).transpose()?;
    Ok(async move {
        let Some(listener) = listener else { return std::future::pending().await };
        // On loopback metrics are read without TLS and without a token.
        let is_sealed = listener.local_addr().is_ok_and(is_reached_from_elsewhere);
        let Entrance { door, tls } = if is_sealed { entrance } else { Entrance::default() };
        admin::http::serve(&listener, door, tls, controlled).await;
    })
}

/// Serves the admin page, if it has an address.
fn show(
    socket: Option<std::net::TcpListener>,
    entrance: Entrance,
    controlled: Arc<dyn admin::Controlled>,
) -> std::io::Result<impl Future<Output = ()>> {
    let listener = socket.map(listener::ready).transpose()?;
    Ok(async move {
        let Some(listener) = listener else { return std::future::pending().await };
        admin::api::serve(&listener, entrance.door, entrance.tls, controlled).await;
    })
}

/// Stores now and then when tokens were last used.
async fn keep_token_uses(control: &Arc<Control>) {
    let mut ticks = tokio::time::interval(TOKEN_USES);
    loop {
        ticks.tick().await;
        let control = Arc::clone(control);
        // It waits for the disk.
        let _ = tokio::task::spawn_blocking(move || control.keep_token_uses()).await;
    }
}

/// Looks now and then whether the keytab has appeared or has new principals.
async fn follow_keytab(control: &Arc<Control>) {
    let mut ticks = tokio::time::interval(KEYTAB_LOOKS);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let control = Arc::clone(control);
        // It waits for the disk.
        let _ = tokio::task::spawn_blocking(move || control.follow_keytab()).await;
    }
}

async fn announce(control: &Control) -> Announced {
    let plan = control.plan();
    let server = &plan.config.server;
    if !server.discovery.value {
        return Announced::nothing();
    }
    discovery::announce(&discovery::Announcement {
        name: server.name.value.clone(),
        netbios_name: server.netbios_name.value.clone(),
        workgroup: server.workgroup.value.clone(),
        guid: plan.identity.guid,
        addresses: control.addresses().to_vec(),
    })
    .await
}
