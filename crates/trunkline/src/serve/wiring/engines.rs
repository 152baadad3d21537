//! One engine for each share, kept over reloads as long as the share stays on its directory.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use share::engine::Accounts;
use share::Share;
use smb::ShareConfig;
use volume::security::Sid;
use volume_posix::PosixVolume;

use super::settings;
use crate::config;
use crate::people::Person;
use crate::serve::plan::Plan;

/// How long the watcher of an engine waits for changes before it looks at the time.
const TICK: Duration = Duration::from_millis(200);

/// The engines that run.
pub struct Engines {
    /// Where each share's own directory of state is.
    root: PathBuf,
    running: HashMap<String, Engine>,
}

struct Engine {
    path: PathBuf,
    share: Arc<Share>,
    watcher: Watcher,
}

impl Engines {
    /// None yet.
    pub fn new(root: PathBuf) -> Engines {
        Engines { root, running: HashMap::new() }
    }

    /// The shares of `plan`; an engine that runs on the same directory is taken over with new settings.
    ///
    /// # Errors
    /// A line that names the share whose directory cannot be served.
    pub fn of(&mut self, plan: &Plan) -> Result<Vec<ShareConfig>, String> {
        let accounts: Arc<dyn Accounts> = Arc::new(People::of(&plan.people));
        plan.config.shares.iter().map(|(key, share)| self.one(key, share, plan, &accounts)).collect()
    }

    fn one(
        &mut self,
        key: &str,
        share: &config::Share,
        plan: &Plan,
        accounts: &Arc<dyn Accounts>,
    ) -> Result<ShareConfig, String> {
        let settings = engine_config(share, plan, accounts);
        let engine = match self.running.get(key) {
            Some(running) if running.path == share.path.value => {
                running.share.configure(settings);
                Arc::clone(&running.share)
            }
            _ => {
                let engine = self.begin(share, settings)?;
                let watcher = Watcher::start(&engine);
                let path = share.path.value.clone();
                self.running.insert(key.to_owned(), Engine { path, share: Arc::clone(&engine), watcher });
                engine
            }
        };
        let users = share.users.iter().map(|(user, access)| (user.clone(), settings::access(access.value)));
        Ok(ShareConfig {
            name: share.name.value.clone(),
            comment: share.comment.value.clone(),
            engine,
            read_only: share.read_only.value,
            users: Some(users.collect()),
            encryption: settings::encryption(share.encryption.value),
            signing: settings::signing(share.signing.value),
            min_dialect: settings::dialect(share.min_dialect.value),
            case_sensitive: share.case_sensitive.value,
            hide_unreadable: share.hide_unreadable.value,
            hidden: share.name.value.ends_with('$'),
        })
    }

    fn begin(&self, share: &config::Share, settings: share::Config) -> Result<Arc<Share>, String> {
        let name = &share.name.value;
        let fail = |why: &dyn std::fmt::Display| format!("share `{name}`: {why}; change its `path`");
        let beside = super::share_dir(&self.root, name).join("beside");
        std::fs::create_dir_all(&beside).map_err(|e| fail(&e))?;
        let volume = PosixVolume::open(&share.path.value, &beside).map_err(|e| fail(&e))?;
        Share::open(Arc::new(volume), settings).map_err(|e| fail(&e))
    }

    /// Lets go of engines whose share is no longer in `plan`. Clients that are connected keep theirs.
    pub fn keep_only(&mut self, plan: &Plan) {
        self.running.retain(|key, engine| {
            let kept = plan.config.shares.contains_key(key);
            if !kept {
                engine.watcher.end();
            }
            kept
        });
    }

    /// Ends the watchers.
    pub fn end(&mut self) {
        for engine in self.running.values_mut() {
            engine.watcher.end();
        }
    }
}

fn engine_config(share: &config::Share, plan: &Plan, accounts: &Arc<dyn Accounts>) -> share::Config {
    use std::os::unix::ffi::OsStrExt;
    let host_path = std::fs::canonicalize(&share.path.value).unwrap_or_else(|_| share.path.value.clone());
    share::Config {
        name: share.name.value.clone(),
        read_only: share.read_only.value,
        case_sensitive: share.case_sensitive.value,
        hide_unreadable: share.hide_unreadable.value,
        streams: share.streams.value,
        watches: share.change_notify.value,
        hidden: share.hide_files.value.clone(),
        break_timeout_ns: plan.config.server.break_timeout_ms.value.saturating_mul(1_000_000),
        host_path: Path::as_os_str(&host_path).as_bytes().to_vec(),
        accounts: Arc::clone(accounts),
        ..share::Config::default()
    }
}

/// A thread that looks after an engine nobody is talking to: changes on the host, and time.
struct Watcher {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    fn start(engine: &Arc<Share>) -> Watcher {
        let over = Arc::new(AtomicBool::new(false));
        let (stop, engine) = (Arc::clone(&over), Arc::clone(engine));
        let watch = move || {
            while !stop.load(Ordering::Relaxed) {
                engine.volume().wait_events(TICK);
                engine.tick(net::now());
            }
        };
        let thread = std::thread::Builder::new().name("trunkline-watch".to_owned()).spawn(watch);
        if let Err(error) = &thread {
            tracing::error!(%error, "no thread to watch a share; changes on the host are told late");
        }
        Watcher { over, thread: thread.ok() }
    }

    fn end(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

/// Host users and security identifiers of the people who may log on.
struct People {
    uids: HashMap<u32, Sid>,
    sids: HashMap<Sid, u32>,
}

impl People {
    fn of(people: &[Person]) -> People {
        let mut found = People { uids: HashMap::new(), sids: HashMap::new() };
        for person in people {
            let Ok(sid) = person.sid.parse::<Sid>() else { continue };
            // Of several people who share a host user, the first is whom its files are shown to belong to.
            found.uids.entry(person.uid).or_insert_with(|| sid.clone());
            found.sids.insert(sid, person.uid);
        }
        found
    }
}

impl Accounts for People {
    fn user_sid(&self, uid: u32) -> Sid {
        self.uids.get(&uid).cloned().unwrap_or_else(|| Sid::unix_user(uid))
    }

    fn uid(&self, sid: &Sid) -> Option<u32> {
        self.sids.get(sid).copied().or_else(|| sid.as_unix_user())
    }
}
