//! The running server, as the control socket, the admin API and the signals see it.

mod backup;
#[cfg(test)]
mod tests;
mod users;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use admin::access::{Caller, NewToken, TokenEntry, TokenRefusal, TokenRequest};
use admin::health::Unready;
use admin::objects::{Change, ChangeAction, Changed, Kind, Object, Refusal, RefusalKind};
use admin::open_files::{ClosedState, FileInUse};
use admin::status::{ServerStatus, Status};
use admin::workload::ShareWork;
use admin::{
    AccountKey, AccountKeys, ArchiveOutput, Channels, Controlled, DomainSettings, Health, KeyName, NtHash,
    Transactions, UserChange, UserEntry, Workload,
};
use tokio::sync::Notify;

use super::access;
use super::banner::Credentials;
use super::health::{CheckedShares, ShareCheck};
use super::plan::ServePlan;
use super::server::FileServer;
use crate::changes::history::History;
use crate::changes::{self, Edited, object};
use crate::config::{Config, Overrides, Sources, check, shadowed};
use crate::principals::LogonPrincipal;
use crate::state::StateDir;
use crate::tokens::{self, FileToken, Tokens};
use crate::{account_keys, calendar, password, principals, reference};

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
    /// The reason why a new keytab could not be applied, as the log has it.
    keytab_fault: Option<String>,
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
            served: Mutex::new(ServedConfig {
                plan: Arc::new(plan),
                sources,
                history: History::default(),
                keytab_fault: None,
            }),
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
        (current.plan, current.keytab_fault) = (Arc::new(plan), None);
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
        access::warn_of_users_without_ids(&current.plan.principals);
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

    /// Applies the configuration again when the keytab has new principals, or when tickets would work again:
    /// the server's names and its machine account follow from it. Log-ons read new keys by themselves. The
    /// users are those of before, since files of passwords are read by a reload alone.
    pub fn follow_keytab(&self) {
        if !self.server.has_new_keytab(&self.plan().config) {
            return;
        }
        let mut current = self.lock();
        let keytab = current.plan.config.domain.keytab.value.display().to_string();
        match self.server.apply(&current.plan) {
            Ok(()) => {
                current.keytab_fault = None;
                tracing::info!(keytab, "the keytab is new and counts from now on");
            }
            Err(why) if current.keytab_fault.as_ref() == Some(&why) => {}
            Err(why) => {
                tracing::error!(keytab, %why, "the new keytab does not count yet, and is tried each minute");
                current.keytab_fault = Some(why);
            }
        }
    }

    fn make_first_user(&self, current: &mut ServedConfig) -> Option<String> {
        if !current.plan.principals.is_empty() {
            return None;
        }
        let config = current.plan.config.clone();
        let made = Credentials::make(&self.state, None, &config).map_err(|why| format!("{why:#}"));
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
        let CheckedShares { count, faults, has_failed } =
            self.directories.faults(move || server.directories(), DIRECTORIES_WITHIN);
        let mut health = Health::new(self.is_stopping.load(Ordering::Relaxed), count, faults);
        if has_failed {
            health.unready.push(Unready::CheckFailed);
        }
        health
    }

    fn note_request(&self, by: (&str, Option<u32>), request: &str, refused: Option<&str>) {
        self.server.note_request(by, request, refused);
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
            node: self.server.node(),
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
        let ServedConfig { plan: before, sources, history, .. } = &*current;
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

    fn change_domain(&self, settings: &DomainSettings) -> Result<Vec<String>, Refusal> {
        let mut current = self.lock();
        let (before, sources) = (Arc::clone(&current.plan), &current.sources);
        let check = check::against;
        let edited = Edited::domain(&self.overrides, sources, &before.config, settings, &self.state, check)?;
        self.take(&mut current, edited)?;
        Ok([notes(&current.plan.fixed_changes(&before)), self.server.domain_faults()].concat())
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
        self.begin_backup()
    }

    fn reload(&self) -> Result<Vec<String>, String> {
        let fixed =
            self.read_again().inspect_err(|why| tracing::error!(%why, "configuration not changed"))?;
        match fixed.is_empty() {
            true => tracing::info!("configuration read again"),
            false => tracing::warn!(settings = ?fixed, "configuration read again; these need a restart"),
        }
        let shadowed = shadowed::notes(&self.lock().sources);
        shadowed.iter().for_each(|note| tracing::warn!("{note}"));
        Ok([notes(&fixed), shadowed, self.server.domain_faults()].concat())
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
