//! Tests of changes and reloads of a running server, with a file server that records what it gets.

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
    fn has_new_keytab(&self, _: &Config) -> bool {
        true
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
    fn at_rest(&self, read: &mut dyn FnMut() -> bool) -> Result<Option<Duration>, String> {
        read();
        Ok(Some(Duration::ZERO))
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
fn a_new_keytab_brings_no_changed_file_and_is_told_once_while_it_cannot_count() {
    let dir = tempfile::tempdir().unwrap();
    let share = "[share.bad]\npath = \"data\"\nusers = { '*' = \"read\" }\n";
    let (control, told) = control(dir.path(), share);
    let fault = || control.lock().keytab_fault.clone();
    control.follow_keytab();
    control.follow_keytab();
    assert_eq!((fault().as_deref(), told.lock().unwrap().len()), (Some("bad"), 0));
    std::fs::write(dir.path().join("t.toml"), share.replace("bad", "docs")).unwrap();
    control.reload().unwrap();
    assert_eq!(fault(), None);
    std::fs::write(dir.path().join("t.toml"), share.replace("bad", "more")).unwrap();
    control.follow_keytab();
    assert_eq!(*told.lock().unwrap(), ["docs for ", "docs for "]);
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

fn settings(key: &str, value: impl Into<serde_json::Value>) -> serde_json::Map<String, serde_json::Value> {
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
            refusal.why == RefusalKind::Bad && refusal.text.starts_with("`path` of share") | (name == "bad")
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
