//! The running server as the control socket and the signals reach it.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use admin::status::{ServerStatus, Status};
use admin::workload::ShareWork;
use admin::{Channels, Controlled, Transactions, UserChange, UserEntry, Workload};
use tokio::sync::Notify;

use super::plan::Plan;
use super::server::FileServer;
use crate::config::{Config, Overrides, check};
use crate::people::Person;
use crate::state::StateDir;
use crate::{calendar, people};

/// The running server.
pub struct Control {
    overrides: Overrides,
    state: Arc<StateDir>,
    /// What is served now. Held while it is changed, so that changes come one after another.
    plan: Mutex<Arc<Plan>>,
    addresses: Vec<SocketAddr>,
    server: Box<dyn FileServer>,
    started_at: String,
    stop: Notify,
}

impl Control {
    /// A server that serves `plan` on `addresses`.
    pub fn new(
        overrides: Overrides,
        state: Arc<StateDir>,
        plan: Plan,
        addresses: Vec<SocketAddr>,
        server: Box<dyn FileServer>,
    ) -> Control {
        Control {
            overrides,
            state,
            plan: Mutex::new(Arc::new(plan)),
            addresses,
            server,
            started_at: calendar::now(),
            stop: Notify::new(),
        }
    }

    /// Its state directory.
    pub fn state(&self) -> &StateDir {
        &self.state
    }

    /// What it serves now.
    pub fn plan(&self) -> Arc<Plan> {
        Arc::clone(&self.lock())
    }

    /// Where it listens.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// What serves the files.
    pub fn server(&self) -> &dyn FileServer {
        &*self.server
    }

    /// Returns when the server is told to end.
    pub async fn stopped(&self) {
        self.stop.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Plan>> {
        // A plan is replaced as a whole, so it is whole also after a panic.
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves `config` with the users as they are now.
    fn serve(&self, current: &mut Arc<Plan>, config: Config) -> Result<(), String> {
        let people = people::resolve(&config, &self.state).map_err(|e| format!("{e:#}"))?;
        let plan = Plan::new(config, people, &self.state);
        self.server.apply(&plan)?;
        *current = Arc::new(plan);
        Ok(())
    }

    fn read_again(&self) -> Result<Vec<&'static str>, String> {
        let mut current = self.lock();
        let config = Config::load(&self.overrides).map_err(|e| e.to_string())?;
        let stored = self.state.store().users().map_err(|e| e.to_string())?;
        let stored: BTreeSet<String> = stored.into_iter().map(|user| user.name.to_lowercase()).collect();
        check::against(&config, &stored).map_err(|e| e.to_string())?;
        let before = Arc::clone(&current);
        self.serve(&mut current, config)?;
        Ok(current.fixed_changes(&before))
    }
}

impl Controlled for Control {
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
            gauges: self.server.gauges(),
        }
    }

    fn workload(&self) -> Workload {
        Workload {
            timestamp: calendar::now(),
            since: self.started_at.clone(),
            server_name: self.plan().config.server.name.value.clone(),
            shares: ShareWork::all(&self.server.transactions()),
            clients: self.server.clients(),
        }
    }

    fn users(&self) -> Vec<UserEntry> {
        self.plan().people.iter().map(Person::entry).collect()
    }

    fn change_user(&self, change: UserChange) -> Result<(), String> {
        let mut current = self.lock();
        let key = change.name.to_lowercase();
        let file = current.config.users.get(&key).and_then(|user| user.password_file.as_ref());
        if let Some(file) = file {
            let path = file.value.display();
            return Err(format!(
                "the password of `{}` stands in {path}; change it there and reload",
                change.name
            ));
        }
        let name = change.name.clone();
        people::change(self.state.store(), change)?;
        tracing::info!(user = %name, "user changed");
        let config = current.config.clone();
        self.serve(&mut current, config)
    }

    fn remove_user(&self, name: &str) -> Result<(), String> {
        let mut current = self.lock();
        if current.config.users.contains_key(&name.to_lowercase()) {
            return Err(format!("`{name}` stands in the configuration; take [[user]] out there and reload"));
        }
        let named =
            current.config.shares.values().find(|share| share.users.contains_key(&name.to_lowercase()));
        if let Some(share) = named {
            let share = &share.name.value;
            return Err(format!(
                "`users` of share `{share}` names `{name}`; take it out there and reload first"
            ));
        }
        people::remove(self.state.store(), name)?;
        tracing::info!(user = %name, "user removed");
        let config = current.config.clone();
        self.serve(&mut current, config)
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::path::Path;
    use std::time::Duration;

    /// Remembers what it was told to serve; refuses a share named `bad`.
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
        fn transactions(&self) -> Vec<admin::transactions::Counted> {
            vec![admin::transactions::Counted::default()]
        }
        fn gauges(&self) -> BTreeMap<String, admin::transactions::Gauges> {
            BTreeMap::new()
        }
        fn clients(&self) -> Vec<admin::workload::ClientWork> {
            vec![admin::workload::ClientWork::default()]
        }
        fn apply(&self, plan: &Plan) -> Result<(), String> {
            if plan.config.shares.contains_key("bad") {
                return Err("bad".to_owned());
            }
            let people: Vec<_> = plan.people.iter().map(|person| person.name.clone()).collect();
            let told = format!("{} for {}", plan.share_names().join(","), people.join(","));
            self.0.lock().unwrap().push(told);
            Ok(())
        }
        fn drain(&self, _: Duration) -> bool {
            true
        }
    }

    fn control(dir: &Path, text: &str) -> (Control, Arc<Mutex<Vec<String>>>) {
        std::fs::create_dir_all(dir.join("data")).unwrap();
        std::fs::write(dir.join("t.toml"), text).unwrap();
        let overrides = Overrides { config: Some(dir.join("t.toml")), ..Overrides::default() };
        let config = Config::load(&overrides).unwrap();
        let state = Arc::new(StateDir::open(&dir.join("state")).unwrap());
        let plan = Plan::new(config, Vec::new(), &state);
        let told = Arc::new(Mutex::new(Vec::new()));
        (Control::new(overrides, state, plan, Vec::new(), Box::new(Fake(Arc::clone(&told)))), told)
    }

    fn ann() -> UserChange {
        let nt_hash = Some(admin::NtHash([1; 16]));
        UserChange { name: "ann".to_owned(), add: true, nt_hash, uid: None, gid: None, admin: None }
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
        for bad in [share.replace("path", "pth"), share.replace("docs", "bad"), share.replace("data", "none")]
        {
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
    fn what_the_configuration_says_is_changed_there() {
        let dir = tempfile::tempdir().unwrap();
        let user = "[[user]]\nname = \"ann\"\npassword_file = \"pw\"\n";
        let (control, told) = control(dir.path(), user);
        assert!(control.change_user(ann()).unwrap_err().contains("stands in"));
        assert!(control.remove_user("ann").unwrap_err().contains("take [[user]] out"));
        assert!(told.lock().unwrap().is_empty());
    }
}
