//! The running server, as the control socket, the admin API and the signals see it.

mod users;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use admin::access::{Caller, NewToken, TokenEntry, TokenRefusal, TokenRequest};
use admin::objects::{Change, ChangeAction, Changed, Kind, Object, Refusal, RefusalKind};
use admin::open_files::{ClosedState, FileInUse};
use admin::status::{ServerStatus, Status};
use admin::workload::ShareWork;
use admin::{
    AccountKey, AccountKeys, ArchiveOutput, Channels, Controlled, Health, KeyName, NtHash, Transactions,
    UserChange, UserEntry, Workload,
};
use tokio::sync::Notify;

use super::banner::Credentials;
use super::health::ShareCheck;
use super::plan::ServePlan;
use super::server::FileServer;
use crate::changes::history::History;
use crate::changes::{self, Edited, object};
use crate::config::{Config, Overrides, Sources, check};
use crate::principals::LogonPrincipal;
use crate::state::StateDir;
use crate::tokens::{self, FileToken, Tokens};
use crate::{account_keys, backup, calendar, password, principals, reference};

/// The time that the health of the server waits for the directories of its shares.
const DIRECTORIES_WITHIN: Duration = Duration::from_secs(2);

/// The running server.
pub struct Control {
    overrides: Overrides,
    state: Arc<StateDir>,
    /// The current configuration. It is locked during a change, so that changes are made one after the other.
    served: Mutex<ServedConfig>,
    addresses: Vec<SocketAddr>,
    server: Arc<dyn FileServer>,
    directories: ShareCheck,
    tokens: Tokens,
    started_at: String,
    stop: Notify,
    is_stopping: AtomicBool,
}

/// The configuration that the server currently serves.
struct ServedConfig {
    plan: Arc<ServePlan>,
    /// The texts of that configuration.
    sources: Sources,
    history: History,
}

impl Control {
    /// A server that serves `plan` on `addresses`. `sources` are the texts of the configuration.
    pub fn new(
        overrides: Overrides,
        state: Arc<StateDir>,
        plan: ServePlan,
        sources: Sources,
        addresses: Vec<SocketAddr>,
        server: Arc<dyn FileServer>,
        tokens: Tokens,
    ) -> Control {
        let directories = ShareCheck::of(plan.config.shares.len());
        Control {
            overrides,
            state,
            served: Mutex::new(ServedConfig { plan: Arc::new(plan), sources, history: History::default() }),
            addresses,
            server,
            directories,
            tokens,
            started_at: calendar::now(),
            stop: Notify::new(),
            is_stopping: AtomicBool::new(false),
        }
    }

    /// The server's state directory.
    pub fn state(&self) -> &StateDir {
        &self.state
    }

    /// The configuration that it serves now.
    pub fn plan(&self) -> Arc<ServePlan> {
        Arc::clone(&self.lock().plan)
    }

    /// The addresses on which it listens.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// From now on the server is not ready any more.
    pub fn begin_stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
    }

    /// The file server.
    pub fn server(&self) -> &dyn FileServer {
        &*self.server
    }

    /// Stores when tokens were last used.
    pub fn keep_token_uses(&self) {
        if let Err(error) = self.tokens.keep_uses(self.state.store()) {
            tracing::warn!(%error, "the last uses of tokens could not be stored");
        }
    }

    /// Returns when the server is told to stop.
    pub async fn stopped(&self) {
        self.stop.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, ServedConfig> {
        // The configuration is replaced as a whole, so it is consistent even after a panic.
        self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves `config` with the current users.
    fn serve(&self, current: &mut ServedConfig, config: Config) -> Result<(), String> {
        let principals = principals::resolve(&config, &self.state).map_err(|e| format!("{e:#}"))?;
        let plan = ServePlan::new(config, principals, &self.state);
        self.server.apply(&plan)?;
        current.plan = Arc::new(plan);
        Ok(())
    }

    /// Deletes the keys of accounts that were in `before` and no longer exist.
    fn prune_keys(&self, before: &ServePlan, current: &ServedConfig) {
        if let Err(error) = account_keys::prune(&before.config, &current.plan.config, self.state.store()) {
            tracing::error!(%error, "the keys of removed accounts could not be deleted, and will be valid \
                                     again if the accounts return");
        }
    }

    fn read_again(&self) -> Result<Vec<String>, String> {
        let mut current = self.lock();
        let sources = Sources::read(&self.overrides).map_err(|e| e.to_string())?;
        let config = changes::checked(&self.overrides, &sources, &self.state, check::against)?;
        let before = Arc::clone(&current.plan);
        // A file that was emptied by mistake would otherwise end all sessions.
        if config.shares.is_empty() && !before.config.shares.is_empty() {
            return Err(
                "the configuration has no shares any more; `trunkline share delete` removes a share \
                        that is served, and a restart serves none"
                    .to_owned(),
            );
        }
        let file_token = FileToken::read(&self.state, &config).map_err(|e| e.to_string())?;
        self.serve(&mut current, config)?;
        self.tokens.set_file(file_token);
        if let Err(error) = self.state.accept_changes(sources.changes.as_deref()) {
            tracing::warn!(%error, "the next start will report that the file of changes differs from the \
                                    server's version");
        }
        current.sources = sources;
        self.prune_keys(&before, &current);
        Ok(current.plan.fixed_changes(&before))
    }

    /// Applies a changed configuration and stores it. If one of the two fails, neither is done.
    fn take(&self, current: &mut ServedConfig, edited: Edited) -> Result<(), Refusal> {
        let before = Arc::clone(&current.plan);
        self.serve(current, edited.config.clone()).map_err(|why| Refusal::new(RefusalKind::Bad, why))?;
        if let Err(refusal) = edited.keep(&self.state) {
            current.plan = before;
            if let Err(why) = self.server.apply(&current.plan) {
                tracing::error!(%why, "a change that could not be stored is in force until the next start");
            }
            return Err(refusal);
        }
        current.sources = edited.sources;
        self.prune_keys(&before, current);
        Ok(())
    }

    fn make_first_user(&self, current: &mut ServedConfig) -> Option<String> {
        if !current.plan.principals.is_empty() {
            return None;
        }
        let config = current.plan.config.clone();
        let made = Credentials::make(&self.state, None).map_err(|why| format!("{why:#}"));
        let served = made.and_then(|made| self.serve(current, config).map(|()| made.note()));
        Some(served.unwrap_or_else(|why| format!("nobody may log on; use `trunkline user add`: {why}")))
    }

    /// Refuses to delete a share that is in use.
    fn check_unused(&self, name: &str) -> Result<(), Refusal> {
        let used = self.server.use_of(name);
        if used.is_none() {
            return Ok(());
        }
        let text = format!("share `{name}` is in use: {used}; --force deletes it anyway");
        Err(Refusal::new(RefusalKind::Conflict, text))
    }
}

impl Controlled for Control {
    fn health(&self) -> Health {
        // No lock of the configuration is taken here: a change that waits for a disk may hold it.
        let server = Arc::clone(&self.server);
        let (shares, faults) = self.directories.faults(move || server.directories(), DIRECTORIES_WITHIN);
        Health::new(self.is_stopping.load(Ordering::Relaxed), shares, faults)
    }

    fn status(&self) -> Status {
        let plan = self.plan();
        let mut status = Status {
            timestamp: calendar::now(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            server: ServerStatus {
                name: plan.config.server.name.value.clone(),
                pid: std::process::id(),
                started_at: self.started_at.clone(),
                listen: self.addresses.iter().map(ToString::to_string).collect(),
                shares: plan.share_names(),
            },
            ..Status::default()
        };
        self.server.report(&mut status);
        status
    }

    fn channels(&self) -> Channels {
        let server_name = self.plan().config.server.name.value.clone();
        let mut sessions = self.server.channels();
        for row in sessions.iter_mut().flat_map(|session| &mut session.connections) {
            row.server_name.clone_from(&server_name);
        }
        Channels { timestamp: calendar::now(), server_name, sessions }
    }

    fn transactions(&self) -> Transactions {
        let plan = self.plan();
        Transactions {
            timestamp: calendar::now(),
            at_ns: net::now().mono_ns,
            since: self.started_at.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            server_name: plan.config.server.name.value.clone(),
            shares: plan.share_names(),
            counted: self.server.transactions(),
            transport: self.server.transport(),
            audit: self.server.audit(),
            gauges: self.server.gauges(),
        }
    }

    fn workload(&self) -> Workload {
        let plan = self.plan();
        let shares = plan.config.shares.values();
        let caching = shares.map(|share| (share.name.value.clone(), share.metadata_caching.value)).collect();
        Workload {
            timestamp: calendar::now(),
            since: self.started_at.clone(),
            server_name: plan.config.server.name.value.clone(),
            shares: ShareWork::all(&self.server.transactions(), &caching),
            clients: self.server.clients(),
        }
    }

    fn users(&self) -> Vec<UserEntry> {
        self.plan()
            .principals
            .iter()
            .filter(|principal| principal.key_of.is_none())
            .map(LogonPrincipal::entry)
            .collect()
    }

    fn hash_password(&self, user: &str, password: &str) -> Result<(NtHash, Option<String>), String> {
        password::check(password).map_err(|why| why.to_string())?;
        Ok((principals::nt_hash(password), password::weakness(user, password).map(str::to_owned)))
    }

    fn change_user(&self, change: UserChange) -> Result<(), Refusal> {
        self.put_user(change)
    }

    fn remove_user(&self, name: &str) -> Result<(), Refusal> {
        self.delete_user(name)
    }

    fn caller(&self, token: &str) -> Result<Caller, TokenRefusal> {
        self.tokens.caller(self.state.store(), token)
    }

    fn tokens(&self) -> Vec<TokenEntry> {
        self.tokens.list(self.state.store()).unwrap_or_else(|error| {
            tracing::error!(%error, "the tokens cannot be read");
            Vec::new()
        })
    }

    fn add_token(&self, request: TokenRequest) -> Result<NewToken, Refusal> {
        let made = tokens::make(self.state.store(), request)?;
        let TokenEntry { name, role, expires, .. } = &made.entry;
        tracing::info!(token = name, %role, expires, "token made");
        Ok(made)
    }

    fn revoke_token(&self, name: &str) -> Result<(), Refusal> {
        self.tokens.revoke(self.state.store(), name)?;
        tracing::info!(token = name, "token revoked");
        Ok(())
    }

    fn account_keys(&self, account: &str) -> Result<AccountKeys, String> {
        account_keys::list(&self.plan().config, self.state.store(), account)
    }

    fn renew_key(
        &self,
        account: &str,
        key: Option<KeyName>,
        given: Option<AccountKey>,
    ) -> Result<(KeyName, AccountKeys), String> {
        let mut current = self.lock();
        let (config, store) = (current.plan.config.clone(), self.state.store());
        let before = account_keys::list(&config, store, account)?;
        let renewed = account_keys::renew(&config, store, account, key, given)?;
        if let Err(why) = self.serve(&mut current, config) {
            if let Err(error) = store.put_account_keys(account, &before) {
                tracing::error!(%error, account, "a renewed key that could not be undone takes effect with \
                                                  the next change");
            }
            return Err(why);
        }
        tracing::info!(account, key = %renewed.0, "key renewed");
        Ok(renewed)
    }

    fn objects(&self, kind: Kind) -> Vec<Object> {
        let mut current = self.lock();
        let all = object::all(&current.plan.config, kind);
        all.iter().for_each(|object| current.history.note(object));
        all
    }

    fn settings_schema(&self, kind: Kind) -> serde_json::Value {
        reference::settings(kind)
    }

    fn change(&self, change: Change) -> Result<Changed, Refusal> {
        let mut current = self.lock();
        let ServedConfig { plan: before, sources, history } = &*current;
        let before = Arc::clone(before);
        let (config, state) = (&before.config, &self.state);
        let edited = Edited::new(&self.overrides, sources, config, &change, history, state, check::against)?;
        let kind = change.kind;
        // The name in its stored spelling, which may differ from that in the change.
        let there = object::find(&before.config, kind, &change.name);
        let name = there.map_or_else(|| change.name.clone(), |there| there.name);
        let is_forced = match change.what {
            ChangeAction::Delete { force } => force,
            ChangeAction::Create { .. } | ChangeAction::Set { .. } => false,
        };
        if kind == Kind::Share && matches!(change.what, ChangeAction::Delete { force: false }) {
            self.check_unused(&name)?;
        }
        // A deleted account of that name may have left its keys, for example if the server was killed too
        // early.
        if kind == Kind::Account && matches!(change.what, ChangeAction::Create { .. }) {
            let forgotten = self.state.store().remove_account_keys(&name);
            forgotten.map_err(|why| Refusal::new(RefusalKind::Failed, why.to_string()))?;
        }
        let path_of =
            |plan: &ServePlan| plan.config.shares.get(&name.to_lowercase()).map(|it| it.path.value.clone());
        let used = is_set(&change.what, "path").then(|| self.server.use_of(&name));
        self.take(&mut current, edited)?;
        if kind == Kind::Share && is_forced {
            self.server.disconnect(&name);
        }
        let object = object::find(&current.plan.config, kind, &name);
        object.iter().for_each(|object| current.history.note(object));
        tracing::info!(%kind, %name, change = %verb(&change.what), "changed by command");
        let mut notes = notes(&current.plan.fixed_changes(&before));
        let is_sized = ["provisioned_gib", "path"].iter().any(|key| is_set(&change.what, key));
        if is_sized && self.server.is_counting(&name) {
            notes.push(
                "the share's used space is being counted; until that is done (see `trunkline status`), the \
                 size limits only the space counted so far"
                    .to_owned(),
            );
        }
        let is_moved = path_of(&before) != path_of(&current.plan);
        if let Some(used) = used.filter(|used| is_moved && !used.is_none()) {
            notes.push(format!(
                "clients that were connected before ({used}) keep their open files in the old directory \
                 until they close them"
            ));
        }
        Ok(Changed { object, notes })
    }

    fn first_user(&self) -> Option<String> {
        self.make_first_user(&mut self.lock())
    }

    fn close_open(&self, close_id: &str) -> Result<ClosedState, Refusal> {
        let closed = self.server.close_open(close_id);
        let closed = closed.ok_or_else(|| Refusal::new(RefusalKind::NotFound, "it is not open any more"))?;
        let ClosedState { file, opens, lock_owners, delegations } = &closed;
        let FileInUse { protocol, share, path, user } = file;
        tracing::info!(
            close_id,
            protocol,
            share,
            path,
            user,
            opens,
            lock_owners,
            delegations,
            "closed by an administrator"
        );
        Ok(closed)
    }

    fn backup(&self) -> Result<ArchiveOutput, String> {
        let snapshot = {
            // No change of users, accounts and shares is half done meanwhile. Clients do not need this lock.
            let _current = self.lock();
            self.state.snapshot(|read| self.server.at_rest(read)).map_err(|e| e.to_string())?
        };
        let held_us = u64::try_from(snapshot.held().as_micros()).unwrap_or(u64::MAX);
        tracing::info!(held_us, "the state is sent to a backup");
        backup::create::archive(snapshot).map_err(|e| e.to_string())
    }

    fn reload(&self) -> Result<(), String> {
        match self.read_again() {
            Ok(fixed) if fixed.is_empty() => tracing::info!("configuration read again"),
            Ok(fixed) => tracing::warn!(settings = ?fixed, "configuration read again; these need a restart"),
            Err(why) => {
                tracing::error!(%why, "configuration not changed");
                return Err(why);
            }
        }
        Ok(())
    }

    fn stop(&self) {
        self.stop.notify_one();
    }
}

fn verb(what: &ChangeAction) -> &'static str {
    match what {
        ChangeAction::Create { .. } => "create",
        ChangeAction::Set { .. } => "set",
        ChangeAction::Delete { .. } => "delete",
    }
}

/// Whether the change sets a key of an existing share or account.
fn is_set(what: &ChangeAction, key: &str) -> bool {
    matches!(what, ChangeAction::Set { settings } if settings.contains_key(key))
}

/// The notes about settings that do not apply at once.
fn notes(fixed: &[String]) -> Vec<String> {
    match fixed {
        [] => Vec::new(),
        fixed => vec![format!("takes effect at the next start: {}", fixed.join(", "))],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Origin, Setting};
    use crate::serve::server::ShareUse;
    use std::collections::BTreeMap;
    use std::path::Path;

    /// A file server that records the configurations that it gets, and refuses a share named `bad`.
    #[derive(Default)]
    struct Fake(Arc<Mutex<Vec<String>>>);

    impl FileServer for Fake {
        fn report(&self, status: &mut Status) {
            status.sessions.insert("1".to_owned(), admin::status::Session::default());
        }
        fn channels(&self) -> Vec<admin::channels::SessionChannels> {
            let row = admin::channels::Row::default();
            vec![admin::channels::SessionChannels { connections: vec![row], ..Default::default() }]
        }
        fn transactions(&self) -> Vec<admin::transactions::ShareTransactions> {
            vec![admin::transactions::ShareTransactions::default()]
        }
        fn gauges(&self) -> BTreeMap<String, admin::transactions::Gauges> {
            BTreeMap::new()
        }
        fn clients(&self) -> Vec<admin::workload::ClientWork> {
            vec![admin::workload::ClientWork::default()]
        }
        fn apply(&self, plan: &ServePlan) -> Result<(), String> {
            if plan.config.shares.contains_key("bad") {
                return Err("bad".to_owned());
            }
            let principals: Vec<_> = plan.principals.iter().map(|principal| principal.name.clone()).collect();
            let told = format!("{} for {}", plan.share_names().join(","), principals.join(","));
            self.0.lock().unwrap().push(told);
            Ok(())
        }
        fn is_counting(&self, share: &str) -> bool {
            share == "large"
        }
        fn use_of(&self, share: &str) -> ShareUse {
            ShareUse { trees: usize::from(share == "busy"), ..ShareUse::default() }
        }
        fn close_open(&self, close_id: &str) -> Option<ClosedState> {
            (close_id == "smb-1-2").then(|| ClosedState { opens: 1, ..ClosedState::default() })
        }
        fn disconnect(&self, share: &str) {
            self.0.lock().unwrap().push(format!("disconnect {share}"));
        }
        fn at_rest(&self, read: &mut dyn FnMut() -> bool) -> Result<Duration, String> {
            read();
            Ok(Duration::ZERO)
        }
        fn drain(&self, _: Duration) -> bool {
            true
        }
    }

    fn control(dir: &Path, text: &str) -> (Control, Arc<Mutex<Vec<String>>>) {
        std::fs::create_dir_all(dir.join("data")).unwrap();
        std::fs::write(dir.join("t.toml"), text).unwrap();
        let overrides = Overrides { config: Some(dir.join("t.toml")), ..Overrides::default() };
        let state_dir = Setting { value: dir.join("state"), origin: Origin::CommandLine("--state-dir") };
        let overrides = Overrides { state_dir: Some(state_dir), ..overrides };
        let sources = Sources::read(&overrides).unwrap();
        let config = Config::of(&overrides, &sources).unwrap();
        let state = Arc::new(StateDir::open(&dir.join("state")).unwrap());
        let plan = ServePlan::new(config, Vec::new(), &state);
        let told = Arc::new(Mutex::new(Vec::new()));
        let server = Arc::new(Fake(Arc::clone(&told)));
        (Control::new(overrides, state, plan, sources, Vec::new(), server, Tokens::default()), told)
    }

    fn ann() -> UserChange {
        let nt_hash = Some(admin::NtHash([1; 16]));
        let (uid, gid) = (admin::IdChange::Keep, admin::IdChange::Keep);
        UserChange { name: "ann".to_owned(), add: true, nt_hash, uid, gid, admin: None }
    }

    #[test]
    fn a_server_that_stops_is_alive_and_not_ready() {
        let dir = tempfile::tempdir().unwrap();
        let (control, _) = control(dir.path(), "[share.docs]\npath = \"data\"\n");
        assert!(control.health().is_ready());
        control.begin_stop();
        assert_eq!(control.health().unready, [admin::health::Unready::Stopping]);
    }

    #[test]
    fn changes_reach_the_server_and_a_bad_reload_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let share = "[share.docs]\npath = \"data\"\nusers = { '*' = \"read\" }\n";
        let (control, told) = control(dir.path(), share);
        control.change_user(ann()).unwrap();
        assert_eq!(control.users().len(), 1);
        std::fs::write(dir.path().join("t.toml"), share.replace("docs", "more")).unwrap();
        control.reload().unwrap();
        let emptied = "[admin]\nlisten = \"127.0.0.1:9446\"\n".to_owned();
        let (misspelt, taken) = (share.replace("path", "pth"), share.replace("docs", "bad"));
        for bad in [misspelt, taken, share.replace("data", "none"), emptied] {
            std::fs::write(dir.path().join("t.toml"), bad).unwrap();
            control.reload().unwrap_err();
            assert_eq!(control.plan().share_names(), ["more"]);
        }
        control.remove_user("ANN").unwrap();
        assert_eq!(*told.lock().unwrap(), ["docs for ann", "more for ann", "more for "]);
        assert_eq!(control.status().sessions.len(), 1);
        assert_eq!((control.transactions().counted.len(), control.workload().clients.len()), (1, 1));
        let channels = control.channels();
        assert_eq!(channels.sessions[0].connections[0].server_name, channels.server_name);
        assert_ne!(channels.server_name, "");
    }

    #[test]
    fn a_key_is_served_when_it_is_made_is_no_user_and_goes_with_its_account() {
        let dir = tempfile::tempdir().unwrap();
        let share = "[share.docs]\npath = \"data\"\nusers = { '*' = \"read\" }\n";
        let (control, told) = control(dir.path(), share);
        let account = |what| Change { kind: Kind::Account, name: "lab".to_owned(), what, if_version: None };
        control.change(account(ChangeAction::Create { settings: serde_json::Map::new() })).unwrap();
        assert!(control.renew_key("lap", None, None).unwrap_err().contains("no account `lap`"));
        let (name, keys) = control.renew_key("LAB", None, None).unwrap();
        assert_eq!(name, KeyName::Key1);
        assert_eq!(control.account_keys("lab").unwrap(), keys);
        assert_eq!(told.lock().unwrap().last().unwrap(), "docs for lab");
        assert!(control.users().is_empty());
        let shown = serde_json::to_string(&control.objects(Kind::Account)).unwrap();
        let kept = keys.clone();
        assert!(!shown.contains(&keys.key1.unwrap().0) && shown.contains("lab"));
        control.change(account(ChangeAction::Delete { force: false })).unwrap();
        assert_eq!(told.lock().unwrap().last().unwrap(), "docs for ");
        // Keys that another account of that name has left, for example because the server was killed too
        // early.
        control.state.store().put_account_keys("lab", &kept).unwrap();
        control.change(account(ChangeAction::Create { settings: serde_json::Map::new() })).unwrap();
        assert_eq!(control.account_keys("lab").unwrap(), AccountKeys::default());
        assert_eq!(told.lock().unwrap().last().unwrap(), "docs for ");
    }

    #[test]
    fn keys_of_an_account_that_is_taken_out_of_the_file_do_not_come_back_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let text = format!("{BUSY}[account.lab]\n");
        let (control, told) = control(dir.path(), &text);
        let reload = |text: &str| {
            std::fs::write(dir.path().join("t.toml"), text).unwrap();
            control.reload()
        };
        control.renew_key("lab", None, None).unwrap();
        let kept = control.account_keys("lab").unwrap();
        reload(&BUSY.replace("data", "none")).unwrap_err();
        assert_eq!(control.account_keys("lab").unwrap(), kept, "it is served still");
        reload(BUSY).unwrap();
        assert_eq!(control.state.store().account_keys("lab").unwrap(), AccountKeys::default());
        reload(&text).unwrap();
        assert_eq!(control.account_keys("lab").unwrap(), AccountKeys::default());
        assert_eq!(told.lock().unwrap().last().unwrap(), "busy for ");
    }

    #[test]
    fn a_reload_that_mends_a_configuration_without_an_account_finds_its_keys() {
        let dir = tempfile::tempdir().unwrap();
        let (control, _) = control(dir.path(), BUSY);
        let key = Some(AccountKey("key".to_owned()));
        let kept = AccountKeys { key1: key, key2: None };
        control.state.store().put_account_keys("lab", &kept).unwrap();
        std::fs::write(dir.path().join("t.toml"), format!("{BUSY}[account.lab]\n")).unwrap();
        control.reload().unwrap();
        assert_eq!(control.account_keys("lab").unwrap(), kept);
    }

    #[test]
    fn a_renewed_key_that_cannot_be_served_is_the_old_one_again() {
        let dir = tempfile::tempdir().unwrap();
        let password = dir.path().join("pw");
        std::fs::write(&password, "secret").unwrap();
        let text = format!("{BUSY}[account.Lab]\n[[user]]\nname = \"ann\"\npassword_file = \"pw\"\n");
        let (control, _) = control(dir.path(), &text);
        control.renew_key("lab", None, None).unwrap();
        let before = control.account_keys("lab").unwrap();
        std::fs::remove_file(&password).unwrap();
        for which in [KeyName::Key1, KeyName::Key2] {
            control.renew_key("LAB", Some(which), None).unwrap_err();
            assert_eq!(control.account_keys("lab").unwrap(), before);
        }
    }

    #[test]
    fn a_user_that_cannot_be_served_is_as_before() {
        let dir = tempfile::tempdir().unwrap();
        let password = dir.path().join("pw");
        std::fs::write(&password, "secret").unwrap();
        let text = format!("{BUSY}[[user]]\nname = \"eve\"\npassword_file = \"pw\"\n");
        let (control, _) = control(dir.path(), &text);
        control.change_user(ann()).unwrap();
        let stored = |name: &str| control.state.store().user(name).unwrap();
        let before = stored("ann");
        std::fs::remove_file(&password).unwrap();
        let other = Some(admin::NtHash([2; 16]));
        control.change_user(UserChange { add: false, nt_hash: other, ..ann() }).unwrap_err();
        assert_eq!(stored("ann"), before, "the old password is served, and counts after a restart too");
        control.remove_user("ann").unwrap_err();
        assert_eq!(stored("ann"), before);
        control.change_user(UserChange { name: "bob".to_owned(), ..ann() }).unwrap_err();
        assert_eq!(stored("bob"), None);
    }

    #[test]
    fn what_the_configuration_says_is_changed_there() {
        let dir = tempfile::tempdir().unwrap();
        let user = "[[user]]\nname = \"ann\"\npassword_file = \"pw\"\n";
        let (control, told) = control(dir.path(), user);
        assert!(control.change_user(ann()).unwrap_err().text.contains("change it there"));
        assert!(control.remove_user("ann").unwrap_err().text.contains("remove that [[user]]"));
        assert!(told.lock().unwrap().is_empty());
    }

    #[test]
    fn a_password_is_hashed_when_it_can_be_one_and_an_open_is_closed_once() {
        let dir = tempfile::tempdir().unwrap();
        let (control, _) = control(dir.path(), BUSY);
        let (hash, weakness) = control.hash_password("ann", "correct horse battery").unwrap();
        assert_eq!((hash, weakness), (principals::nt_hash("correct horse battery"), None));
        assert!(control.hash_password("ann", "ann12345").unwrap().1.unwrap().contains("user's name"));
        for bad in ["", "a\nb", &"x".repeat(257)] {
            let why = control.hash_password("ann", bad).unwrap_err();
            assert!(bad.is_empty() || !why.contains(bad), "{why}");
        }
        assert_eq!(control.close_open("smb-1-2").unwrap().opens, 1);
        assert_eq!(control.close_open("smb-1-3").unwrap_err().why, RefusalKind::NotFound);
    }

    fn share(name: &str, what: ChangeAction) -> Change {
        Change { kind: Kind::Share, name: name.to_owned(), what, if_version: None }
    }

    fn settings(
        key: &str,
        value: impl Into<serde_json::Value>,
    ) -> serde_json::Map<String, serde_json::Value> {
        [(key.to_owned(), value.into())].into_iter().collect()
    }

    const BUSY: &str = "[share.busy]\npath = \"data\"\nusers = { '*' = \"read\" }\n";

    #[test]
    fn a_change_is_served_kept_and_read_again_or_nothing_of_it() {
        let dir = tempfile::tempdir().unwrap();
        let (control, told) = control(dir.path(), BUSY);
        let kept = || std::fs::read_to_string(dir.path().join("state/changes.toml")).ok();
        let path = |name: &str| {
            std::fs::create_dir_all(dir.path().join(name)).unwrap();
            dir.path().join(name).display().to_string()
        };
        let create = |name: &str, at: String| {
            let mut settings = settings("path", at);
            settings.insert("users".to_owned(), serde_json::json!({"*": "read"}));
            control.change(share(name, ChangeAction::Create { settings }))
        };
        // A missing directory, one inside the other share, and a name that the file server refuses.
        for (name, at, wanted) in [
            ("more", dir.path().join("none").display().to_string(), "`path` of share `more`: "),
            ("more", path("data/inner"), "contain the same files"),
            ("bad", path("bad"), "bad"),
        ] {
            let refusal = create(name, at).unwrap_err();
            assert!(
                refusal.why == RefusalKind::Bad
                    && refusal.text.starts_with("`path` of share") | (name == "bad")
            );
            assert!(refusal.text.contains(wanted), "{refusal}");
            assert_eq!((kept(), control.plan().share_names()), (None, vec!["busy".to_owned()]));
        }
        let made = create("more", path("more")).unwrap().object.unwrap();
        assert_eq!(made.settings["read_only"], false);
        assert_eq!(*told.lock().unwrap(), ["busy,more for "]);
        let text = kept().unwrap();
        control.reload().unwrap();
        assert_eq!(control.plan().share_names(), ["busy", "more"]);
        // An unknown key, and a file that was edited by hand, which is not overwritten.
        let unknown = control.change(share("more", ChangeAction::Set { settings: settings("coment", "x") }));
        let text_of = unknown.unwrap_err().text;
        assert_eq!(text_of, "unknown key `coment` in [share.more]; did you mean `comment`?");
        std::fs::write(dir.path().join("state/changes.toml"), format!("{text}\n# mine\n")).unwrap();
        let set = || control.change(share("more", ChangeAction::Set { settings: settings("comment", "x") }));
        let refusal = set().unwrap_err();
        assert!(refusal.why == RefusalKind::Conflict && refusal.text.contains("was edited"), "{refusal}");
        control.reload().unwrap();
        assert_eq!(set().unwrap().object.unwrap().settings["comment"], "x");
        assert_eq!(control.objects(Kind::Share).len(), 2);
    }

    #[test]
    fn a_change_that_needs_a_start_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let (control, _) = control(dir.path(), BUSY);
        let set = |key: &str, value: serde_json::Value| {
            control.change(share("busy", ChangeAction::Set { settings: settings(key, value) })).unwrap().notes
        };
        let told = ["takes effect at the next start: [share.busy] continuously_available"];
        assert_eq!(set("continuously_available", true.into()), told);
        assert!(set("comment", "x".into()).is_empty());
    }

    #[test]
    fn a_share_in_use_is_deleted_only_by_force() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("b")).unwrap();
        let text = format!("{BUSY}[share.b]\npath = \"b\"\nusers = {{ '*' = \"read\" }}\n");
        let (control, told) = control(dir.path(), &text);
        let refusal = control.change(share("BUSY", ChangeAction::Delete { force: false })).unwrap_err();
        assert_eq!(refusal.why, RefusalKind::Conflict);
        assert!(refusal.text.starts_with("share `busy` is in use: 1 connection over SMB"), "{refusal}");
        assert!(told.lock().unwrap().is_empty());
        control.change(share("BUSY", ChangeAction::Delete { force: true })).unwrap();
        assert_eq!(*told.lock().unwrap(), ["b for ", "disconnect busy"]);
        control.change(share("b", ChangeAction::Delete { force: false })).unwrap();
        assert!(control.objects(Kind::Share).is_empty());
    }
}
