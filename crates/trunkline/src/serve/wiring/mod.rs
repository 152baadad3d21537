//! Puts the server of files together: volumes, an engine for each share, the SMB server, the transport.
//!
//! This is the only room that knows those crates. [`identity`] turns people into what the engine and the
//! log-on need; [`report`] reads the server's tables for status.

mod identity;
mod report;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use admin::Status;
use smb_wire::Guid;
use volume::security::Sid;
use volume_posix::PosixVolume;

use super::plan::Plan;
use super::server::FileServer;
use crate::config::{Access, Dialect, Encryption, Share, Signing};
use crate::state::StateDir;
use identity::People;

/// How often it is looked whether time has brought something: a change on the host that a watcher waits for,
/// a caching right that was not given back.
const TICK: Duration = Duration::from_millis(100);
/// How often what lies beside files that are gone is looked for.
const SWEEP: Duration = Duration::from_secs(60);
/// Files looked at in one sweep of a volume.
const SWEEP_FILES: usize = 1000;

/// One directory and the engine on it.
#[derive(Clone)]
struct Served {
    volume: Arc<PosixVolume>,
    engine: Arc<share::Share>,
}

/// Engines by the real path of their directory.
type Engines = BTreeMap<PathBuf, Served>;

struct Wired {
    server: Arc<smb::Server>,
    transport: Mutex<Option<net::Handle<smb::service::Smb>>>,
    engines: Arc<Mutex<Engines>>,
    state: Arc<StateDir>,
    /// Dropped to end the keeper.
    keeper: Mutex<Option<(Sender<()>, JoinHandle<()>)>>,
}

/// Serves `plan` on `listeners`.
///
/// # Errors
/// One line for the user.
pub fn start(
    plan: &Plan,
    listeners: net::Listeners,
    state: &Arc<StateDir>,
) -> anyhow::Result<Box<dyn FileServer>> {
    let descriptors = net::raise_descriptor_limit();
    tracing::debug!(descriptors, "bound on open descriptors");
    let server = smb::Server::new(server_config(plan), net::now());
    let engines = Arc::default();
    let wired = Wired {
        server: Arc::clone(&server),
        transport: Mutex::new(None),
        engines: Arc::clone(&engines),
        state: Arc::clone(state),
        keeper: Mutex::new(Some(keep(engines)?)),
    };
    wired.apply(plan).map_err(anyhow::Error::msg)?;
    let settings = &plan.config.server;
    let config = net::Config {
        workers: usize::try_from(settings.workers.value)?,
        max_connections: usize::try_from(settings.max_connections.value)?,
        ..net::Config::default()
    };
    let handle = net::serve(listeners, Arc::new(smb::service::Smb(server)), config)?;
    *held(&wired.transport) = Some(handle);
    Ok(Box::new(wired))
}

impl FileServer for Wired {
    fn report(&self, status: &mut Status) {
        let engines: Vec<_> = held(&self.engines)
            .iter()
            .map(|(path, served)| (path.clone(), Arc::clone(&served.engine)))
            .collect();
        report::fill(&self.server, &engines, status);
    }

    fn apply(&self, plan: &Plan) -> Result<(), String> {
        let people = Arc::new(People::new(&plan.people, &plan.identity)?);
        let mut engines = held(&self.engines);
        let mut next = Engines::new();
        let mut shares = Vec::new();
        // Everything that can fail comes first, so that a plan is taken as a whole or not at all.
        for share in plan.config.shares.values() {
            let path = real_path(&share.path.value)?;
            let config = engine_config(share, &path, plan, &people);
            let served = match engines.get(&path) {
                Some(served) => served.clone(),
                None => self.open(share, &path, config.clone())?,
            };
            shares.push((share_config(share, plan, &served.engine), Arc::clone(&served.engine), config));
            next.insert(path, served);
        }
        for (_, engine, config) in &shares {
            engine.configure(config.clone());
        }
        // An engine whose share is gone lives on as long as somebody is connected to it.
        let left = engines
            .iter()
            .filter(|(path, served)| !next.contains_key(*path) && Arc::strong_count(&served.engine) > 1);
        let left: Vec<_> = left.map(|(path, served)| (path.clone(), served.clone())).collect();
        next.extend(left);
        *engines = next;
        self.server.set_users(people.users());
        self.server.set_shares(shares.into_iter().map(|(config, ..)| config));
        self.end_sessions_of_strangers();
        Ok(())
    }

    fn drain(&self, within: Duration) -> bool {
        let begun = Instant::now();
        let ended = held(&self.transport).take().map(|handle| handle.shutdown(within));
        if let Some((stop, thread)) = held(&self.keeper).take() {
            drop(stop);
            // It only looks after engines, and nothing depends on how it ended.
            let _ = thread.join();
        }
        let clean = ended.is_none_or(|ended| ended.cut == 0 && ended.jobs_ended);
        tracing::info!(clean, ms = begun.elapsed().as_millis() as u64, "connections closed");
        clean
    }
}

impl Wired {
    fn open(&self, share: &Share, path: &Path, config: share::Config) -> Result<Served, String> {
        let name = &share.name.value;
        let beside = self.state.volume_dir(path).map_err(|e| e.to_string())?;
        let volume = PosixVolume::open(path, &beside).map_err(|e| format!("share `{name}`: {e}"))?;
        let volume = Arc::new(volume);
        let shared: Arc<dyn volume::Volume> = Arc::<PosixVolume>::clone(&volume);
        let engine = share::Share::open(shared, config)
            .map_err(|e| format!("share `{name}`: {}: {e}", path.display()))?;
        Ok(Served { volume, engine })
    }

    /// Whoever may not log on any more is not served any more either.
    fn end_sessions_of_strangers(&self) {
        for session in self.server.sessions() {
            let name = session.user_name();
            if session.proved().is_some_and(|proved| !proved.anonymous) && self.server.user(name).is_none() {
                tracing::info!(
                    user = name,
                    session = session.id,
                    "the user is gone: their connections are closed"
                );
                for channel in session.channels() {
                    channel.post(smb::event::Event::Close);
                }
            }
        }
    }
}

/// Looks after the engines until its sender is dropped.
fn keep(engines: Arc<Mutex<Engines>>) -> std::io::Result<(Sender<()>, JoinHandle<()>)> {
    let (stop, stopped) = channel();
    let run = move || {
        let mut swept = Instant::now();
        while stopped.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
            let now = net::now();
            let all: Vec<Served> = held(&engines).values().cloned().collect();
            let sweep = swept.elapsed() >= SWEEP;
            for served in &all {
                // Nobody may be talking to the share just now, but somebody may be watching it.
                served.engine.before_batch(now);
                if served.engine.next_deadline().is_some_and(|at| at <= now.mono_ns) {
                    served.engine.tick(now);
                }
                if sweep && let Err(error) = served.volume.collect_orphans(SWEEP_FILES) {
                    tracing::trace!(%error, "no sweep beside the volume");
                }
            }
            if sweep {
                swept = Instant::now();
            }
        }
    };
    let thread = std::thread::Builder::new().name("trunkline-keeper".to_owned()).spawn(run)?;
    Ok((stop, thread))
}

/// A value behind a lock that is whole also after a panic.
fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

fn real_path(path: &Path) -> Result<PathBuf, String> {
    std::fs::canonicalize(path).map_err(|e| format!("{}: {}", path.display(), crate::config::os_error(&e)))
}

fn server_config(plan: &Plan) -> smb::ServerConfig {
    let server = &plan.config.server;
    let [a, b, c] = plan.identity.machine_sid;
    smb::ServerConfig {
        guid: Guid(plan.identity.guid),
        name: server.netbios_name.value.clone(),
        dns_name: server.name.value.clone(),
        machine_sid: Sid::new(5, &[21, a, b, c]),
        min_dialect: dialect(server.min_dialect.value),
        max_dialect: dialect(Dialect::Smb311),
        signing: signing(server.signing.value),
        encryption: encryption(server.encryption.value),
        max_connections: usize::try_from(server.max_connections.value).unwrap_or(usize::MAX),
        anonymous: server.anonymous.value,
    }
}

fn engine_config(share: &Share, path: &Path, plan: &Plan, people: &Arc<People>) -> share::Config {
    use std::os::unix::ffi::OsStrExt;
    let accounts: Arc<dyn share::engine::Accounts> = Arc::<People>::clone(people);
    share::Config {
        name: share.name.value.clone(),
        read_only: share.read_only.value,
        case_sensitive: share.case_sensitive.value,
        hide_unreadable: share.hide_unreadable.value,
        streams: share.streams.value,
        watches: share.change_notify.value,
        hidden: share.hide_files.value.clone(),
        // The pattern for them is among the names.
        dot_files_hidden: false,
        break_timeout_ns: plan.config.server.break_timeout_ms.value.saturating_mul(1_000_000),
        host_path: path.as_os_str().as_bytes().to_vec(),
        accounts,
        ..share::Config::default()
    }
}

fn share_config(share: &Share, plan: &Plan, engine: &Arc<share::Share>) -> smb::ShareConfig {
    let users = share.users.iter().map(|(user, granted)| {
        // The server compares names as they are written for the user.
        let written = plan.people.iter().find(|person| person.name.to_lowercase() == *user);
        (written.map_or_else(|| user.clone(), |person| person.name.clone()), access(granted.value))
    });
    smb::ShareConfig {
        name: share.name.value.clone(),
        comment: share.comment.value.clone(),
        engine: Arc::clone(engine),
        read_only: share.read_only.value,
        users: Some(users.collect()),
        encryption: encryption(share.encryption.value),
        signing: signing(share.signing.value),
        min_dialect: dialect(share.min_dialect.value),
        case_sensitive: share.case_sensitive.value,
        hide_unreadable: share.hide_unreadable.value,
        hidden: share.name.value.ends_with('$'),
    }
}

fn access(access: Access) -> smb::Access {
    match access {
        Access::Read => smb::Access::Read,
        Access::Write => smb::Access::Write,
        Access::Full => smb::Access::Full,
    }
}

fn encryption(encryption: Encryption) -> smb::Encryption {
    match encryption {
        Encryption::Off => smb::Encryption::Off,
        Encryption::Enabled => smb::Encryption::Enabled,
        Encryption::Required => smb::Encryption::Required,
    }
}

fn signing(signing: Signing) -> smb::Signing {
    match signing {
        Signing::Auto => smb::Signing::Offered,
        Signing::Required => smb::Signing::Required,
    }
}

fn dialect(dialect: Dialect) -> smb_wire::negotiate::Dialect {
    use smb_wire::negotiate::Dialect as Wire;
    match dialect {
        Dialect::Smb202 => Wire::Smb202,
        Dialect::Smb21 => Wire::Smb210,
        Dialect::Smb30 => Wire::Smb300,
        Dialect::Smb302 => Wire::Smb302,
        Dialect::Smb311 => Wire::Smb311,
    }
}
