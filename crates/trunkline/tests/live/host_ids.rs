//! The ids of local users on the host: nobody acts as root by omission.

use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::process::Command;
use std::time::Duration;

use client::smb::{Connection, Credentials, OpenOptions, Options, Session};
use smb_wire::NtStatus;
use smb_wire::create::Disposition;
use testkit::program::{PATIENCE, own_uid};

use crate::LiveServer;

/// A uid that the host does not know.
const UID: u32 = 61_234;
/// A user of every host with an id of its own.
const OF_HOST: &str = "daemon";
const SETTINGS: &str = "[audit]\nfile = \"audit.jsonl\"\nlogons = true\n";

fn is_root() -> bool {
    if own_uid() != 0 {
        // Written directly, since the test harness captures the output of tests that pass.
        let _ = writeln!(std::io::stderr(), "SKIPPED ids on the host: only a server of root has other users");
    }
    own_uid() == 0
}

impl LiveServer {
    /// The log-on of a user with a password, and the status if it is refused.
    async fn tries(&self, user: &str, password: &str) -> Result<Session, NtStatus> {
        let connection = Connection::connect(self.smb, "localhost", &Options::default()).await.unwrap();
        let tried = Session::log_on(&connection, &Credentials::new(user, password), false).await;
        tried.map_err(|error| error.status().unwrap())
    }

    /// The owner of a file that a user makes.
    async fn owner_of_file(&self, user: &str, name: &str) -> u32 {
        let tree = self.log_on_as(user, "s3cret").await.connect("files").await.unwrap();
        tree.put(name, &OpenOptions::file(Disposition::Create), b"text").await.unwrap();
        std::fs::metadata(self.program.path().join("files").join(name)).unwrap().uid()
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.program.path().join("log")).unwrap()
    }

    fn opens_to_all(&self) {
        let all = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(self.program.path().join("files"), all).unwrap();
    }

    /// Waits for a line of the audit that has all of these.
    async fn audits(&self, parts: &[&str]) {
        let begun = std::time::Instant::now();
        loop {
            let text = std::fs::read_to_string(self.program.path().join("audit.jsonl")).unwrap();
            if text.lines().any(|line| parts.iter().all(|part| line.contains(part))) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "no {parts:?} in {text}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

#[tokio::test]
async fn a_user_without_ids_is_refused_with_the_command_that_mends_it() {
    if !is_root() {
        return;
    }
    let mut server = LiveServer::start_as(SETTINGS, |serve| serve);
    let mend = "`trunkline user set stranger --uid N --gid N` gives them";
    let said = server.says("user add stranger --password-file password").await;
    assert!(
        said.contains("trunkline: warning: user `stranger` may not log on") && said.contains(mend),
        "{said}"
    );
    assert!(server.json("user list").await[1]["uid"].is_null());
    assert_eq!(server.tries("stranger", "s3cret").await.err(), Some(NtStatus::ACCOUNT_RESTRICTION));
    // Only a client that knows the password learns of it.
    assert_eq!(server.tries("stranger", "another").await.err(), Some(NtStatus::LOGON_FAILURE));
    let log = server.log();
    let lines = log.lines().filter(|line| line.contains("log-on refused") && line.contains(mend));
    assert_eq!(lines.count(), 1, "{log}");
    server
        .audits(&["\"operation\":\"logon\"", "\"result\":\"refused\"", "\"user\":\"stranger\"", mend])
        .await;
    let said = server.says("config check").await;
    assert!(said.contains("warning: user `stranger` may not log on") && said.contains("ok: "), "{said}");
    server.restart();
    let at_start = |line: &&str| line.contains("users who may not log on") && line.contains("stranger");
    assert_eq!(server.log().lines().filter(at_start).count(), 1, "{}", server.log());
    // The ids are said: root too.
    server.opens_to_all();
    server.says("user set stranger --uid 0").await;
    assert_eq!(server.owner_of_file("stranger", "roots").await, 0);
    server.says(&format!("user set stranger --uid {UID} --gid {UID}")).await;
    assert_eq!(server.owner_of_file("stranger", "own").await, UID);
    let session = server.log_on_as("stranger", "s3cret").await;
    let said = server.says("user set stranger --uid host").await;
    assert!(said.contains("may not log on"), "{said}");
    server.is_left().await;
    drop(session);
}

#[tokio::test]
async fn a_user_of_the_host_acts_as_that_user() {
    if !is_root() {
        return;
    }
    let server = LiveServer::start();
    let said = server.says(&format!("user add {OF_HOST} --password-file password")).await;
    assert!(!said.contains("may not log on"), "{said}");
    server.opens_to_all();
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap();
    let line = passwd.lines().find(|line| line.starts_with(&format!("{OF_HOST}:"))).unwrap();
    let uid: u32 = line.split(':').nth(2).unwrap().parse().unwrap();
    assert_ne!(uid, 0);
    assert_eq!(server.owner_of_file(OF_HOST, "file").await, uid);
}

#[tokio::test]
async fn a_server_without_rights_needs_no_ids() {
    let server = LiveServer::start_as("", |serve| {
        if own_uid() != 0 {
            return serve;
        }
        let directory = serve.get_current_dir().unwrap().to_owned();
        for entry in std::fs::read_dir(&directory).unwrap() {
            chown(entry.unwrap().path(), Some(UID), Some(UID)).unwrap();
        }
        chown(&directory, Some(UID), Some(UID)).unwrap();
        let program = std::path::absolute(serve.get_program()).unwrap();
        let ids = [format!("--reuid={UID}"), format!("--regid={UID}"), "--clear-groups".to_owned()];
        let mut unprivileged = Command::new("setpriv");
        unprivileged.args(ids).arg(program).args(serve.get_args()).current_dir(&directory);
        unprivileged.env_clear().envs(serve.get_envs().filter_map(|(key, value)| Some((key, value?))));
        unprivileged
    });
    let said = server.says("user add stranger --password-file password").await;
    assert!(!said.contains("may not log on"), "{said}");
    let owner = if own_uid() == 0 { UID } else { own_uid() };
    assert_eq!(server.owner_of_file("stranger", "file").await, owner);
    assert!(!server.log().contains("may not log on"), "{}", server.log());
}
