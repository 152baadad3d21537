//! Accounts and shares that are created, changed and deleted during the work of a session, and their state
//! after a restart.

mod abandoned_clients;
mod api;
mod backup;
mod backup_under_load;
mod homes;
mod host_events;
mod host_ids;
mod lifecycle;
mod missing_state;
mod recycle;
mod restart;
mod share_relocation;
mod stored_listeners;

use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use client::Bytes;
use client::nfs::{Client, Creation};
use client::smb::{Connection, Credentials, File, OpenOptions, Options, Session};
use nfs_wire::NfsStat;
use serde_json::Value;
use smb_wire::NtStatus;
use smb_wire::create::Disposition;
use testkit::program::{ProgramDir, Server, own_ids, own_uid};

/// A running server with the share `files` for both protocols; killed when dropped.
struct LiveServer {
    server: Server,
    program: Arc<ProgramDir>,
    smb: SocketAddr,
    nfs: SocketAddr,
}

impl LiveServer {
    fn start() -> LiveServer {
        LiveServer::start_as("", |serve| serve)
    }

    /// Starts a server with more lines for the share. `become_` can change the command.
    fn start_as(more: &str, become_: impl FnOnce(Command) -> Command) -> LiveServer {
        let program = ProgramDir::new();
        let password = program.write("password", "s3cret");
        std::fs::set_permissions(&password, std::fs::Permissions::from_mode(0o600)).unwrap();
        for name in ["files", "made", "other"] {
            std::fs::create_dir(program.path().join(name)).unwrap();
        }
        program.write(
            "trunkline.toml",
            &format!(
                "# Kept as it is.\n[server]\nlisten = [\"127.0.0.1\"]\nsmb_port = 0\nnfs_port = 0\n\
                      discovery = false\n\
             [admin]\nlisten = \"127.0.0.1:0\"\n[[user]]\nname = \"anna\"\npassword_file = \"password\"\n{}\
             [share.files]\npath = \"files\"\nusers = {{ \"*\" = \"full\" }}\nprotocols = [\"smb\", \
             \"nfs\"]\n\
             nfs_secure_port = false\nroot_squash = \"none\"\n{more}",
                own_ids()
            ),
        );
        let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let server = Server::start_as(&program, become_(program.trunkline("serve --config trunkline.toml")));
        let mut running = LiveServer { server, program: Arc::new(program), smb: here, nfs: here };
        running.find_ports();
        running
    }

    fn find_ports(&mut self) {
        let text = std::fs::read_to_string(self.program.path().join("output")).unwrap();
        let port = |before: &str| -> u16 {
            let rest = text.split(before).nth(1).unwrap_or_else(|| panic!("no port in: {text}"));
            rest.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
        };
        self.smb.set_port(port(" -p "));
        self.nfs.set_port(port("vers=4.2,port="));
    }

    fn restart(&mut self) {
        self.restart_after(|| ());
    }

    /// Stops the server in order, runs `act` on its files, and starts it again.
    fn restart_after(&mut self, act: impl FnOnce()) {
        self.server.signal("-TERM");
        self.server.wait();
        act();
        self.start_again();
    }

    /// Starts the server that has ended.
    fn start_again(&mut self) {
        self.server = Server::start(&self.program);
        self.find_ports();
    }

    /// Runs a command next to the test's other work. Returns its exit status and its output.
    async fn runs(&self, line: &str) -> (i32, String) {
        let (program, line) = (Arc::clone(&self.program), line.to_owned());
        let run = move || program.trunkline(&format!("{line} --config trunkline.toml")).output().unwrap();
        let output = tokio::task::spawn_blocking(run).await.unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap(), String::from_utf8(said).unwrap())
    }

    /// Runs a command that must succeed.
    async fn says(&self, line: &str) -> String {
        let (status, said) = self.runs(line).await;
        assert_eq!(status, 0, "{line}: {said}");
        said
    }

    /// Runs a command that must be refused with one line.
    async fn refuses(&self, line: &str, wanted: &str) {
        let (status, said) = self.runs(line).await;
        assert!(
            status == 2 && said.contains(wanted) && said.lines().count() == 1,
            "{line}: {status}, {said}"
        );
    }

    async fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.says(&format!("{line} --json")).await).unwrap()
    }

    async fn version(&self, line: &str) -> String {
        self.json(line).await["version"].as_str().unwrap().to_owned()
    }

    async fn log_on(&self) -> Session {
        self.log_on_as("anna", "s3cret").await
    }

    async fn log_on_as(&self, user: &str, password: &str) -> Session {
        let connection = Connection::connect(self.smb, "localhost", &Options::default()).await.unwrap();
        Session::log_on(&connection, &Credentials::new(user, password), false).await.unwrap()
    }

    /// Waits until no user is logged on.
    async fn is_left(&self) {
        let begun = std::time::Instant::now();
        while self.json("status").await["sessions"] != serde_json::json!({}) {
            assert!(begun.elapsed() < testkit::program::PATIENCE, "a session stays");
        }
    }
}

/// Writes and reads a file until it is told to stop. Every reply must be right.
fn work_on(file: File) -> (Arc<AtomicBool>, tokio::task::JoinHandle<u64>) {
    let ends = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&ends);
    let work = async move {
        let mut count = 0u64;
        while !told.load(Ordering::Relaxed) {
            let data = count.to_le_bytes();
            file.write(count % 64 * 8, &data).await.unwrap();
            assert_eq!(&file.read(count % 64 * 8, 8).await.unwrap()[..], &data);
            count += 1;
        }
        file.close().await.unwrap();
        count
    };
    (ends, tokio::spawn(work))
}

#[tokio::test]
async fn a_session_works_on_while_shares_are_made_changed_and_deleted() {
    let mut server = LiveServer::start();
    let session = server.log_on().await;
    let files = session.connect("files").await.unwrap();
    let file = files.open("file", &OpenOptions::file(Disposition::Create)).await.unwrap();
    let (ends, work) = work_on(file);

    server.says("share create made path=made users=anna=full comment=new").await;
    let made = session.connect("made").await.unwrap();
    let open = made.open("a", &OpenOptions::file(Disposition::Create)).await.unwrap();
    open.write(0, b"kept").await.unwrap();
    // A change applies to clients that connect from now on.
    server.says("share set made read_only=on").await;
    let read_only = session.connect("made").await.unwrap();
    let refused = read_only.open("b", &OpenOptions::file(Disposition::Create)).await.err().unwrap();
    assert!(refused.status().is_some_and(|status| status != NtStatus::SUCCESS), "{refused}");
    read_only.disconnect().await.unwrap();
    let shown = server.json("share show MADE").await;
    assert_eq!(
        (&shown["settings"]["read_only"], &shown["settings"]["comment"]),
        (&true.into(), &"new".into())
    );

    server.refuses("share delete made", "share `made` is in use: 1 connection over SMB, 1 open file; ").await;
    open.read(0, 4).await.unwrap();
    server.says("share delete made --force").await;
    assert_eq!(open.read(0, 4).await.err().unwrap().status(), Some(NtStatus::NETWORK_NAME_DELETED));
    assert_eq!(session.connect("made").await.err().unwrap().status(), Some(NtStatus::BAD_NETWORK_NAME));
    assert_eq!(std::fs::read(server.program.path().join("made/a")).unwrap()[..4], *b"kept");
    // An unused share can be deleted without force, even one of the configuration.
    server.says("share create other path=other users=*=read").await;
    server.says("share delete other").await;
    server.says("share create other path=other users=*=read").await;

    ends.store(true, Ordering::Relaxed);
    assert!(work.await.unwrap() > 0);
    assert_eq!(session.losses(), 0);
    session.log_off().await.unwrap();
    let names = |list: &Value| -> Vec<String> {
        list.as_array().unwrap().iter().map(|share| share["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&server.json("share list").await), ["files", "other"]);
    server.says("share delete files").await;
    // All of it still exists after a restart, and the configuration file is unchanged.
    let config = std::fs::read_to_string(server.program.path().join("trunkline.toml")).unwrap();
    assert!(config.starts_with("# Kept as it is.\n") && config.contains("[share.files]"));
    server.says("share set other protocols=smb,nfs nfs_secure_port=off").await;
    server.restart();
    assert_eq!(names(&server.json("share list").await), ["other"]);
    server.log_on().await.connect("other").await.unwrap();
}

#[tokio::test]
async fn limits_bind_at_once_and_accounts_whoever_comes() {
    let server = LiveServer::start();
    let session = server.log_on().await;
    let files = session.connect("files").await.unwrap();
    let file = files.open("file", &OpenOptions::file(Disposition::Create)).await.unwrap();
    let (ends, work) = work_on(file);
    let iops = async || server.json("status").await["limits"]["files"]["iops"].clone();
    assert_eq!(iops().await, Value::Null);
    server.says("account create Lab kind=premium multichannel=off users=anna=full").await;
    server.says("share set files account=lab provisioned_gib=100").await;
    assert_eq!(iops().await, 3100);
    server.says("share set files provisioned_gib=500").await;
    assert_eq!(iops().await, 3500);
    let gib = |bad: &str| format!("share set files provisioned_gib={bad}");
    let range = "`provisioned_gib` in [share.files]: the size in GiB must be from 100 to 102400";
    server.refuses(&gib("99"), range).await;
    server.refuses("account set lab formula=v9", "`v9` is not one of \"v1\"").await;
    server
        .refuses("account delete lab", "account `Lab` has shares: `files`; delete or move them first")
        .await;
    server.refuses("share set files account=labs", "there is no [account.labs]; did you mean `Lab`?").await;
    assert_eq!(iops().await, 3500);
    // The existing session keeps its rule, and a new one has that of the account.
    let most = async || {
        let channels = server.json("status channels").await;
        let sessions = channels["sessions"].as_array().unwrap();
        sessions.iter().map(|session| session["max_channels"].as_u64().unwrap()).max().unwrap()
    };
    ends.store(true, Ordering::Relaxed);
    assert!(work.await.unwrap() > 0);
    session.log_off().await.unwrap();
    let _session = server.log_on().await;
    assert_eq!(most().await, 1);
    server.says("account set lab multichannel=on max_channels=7").await;
    let _second = server.log_on().await;
    assert_eq!(most().await, 7);
    // After a reset, the configuration file applies again.
    server.says("share set files --reset account --reset provisioned_gib").await;
    assert_eq!(iops().await, Value::Null);
    server.says("account delete LAB").await;
    assert_eq!(server.json("account list").await, Value::Array(Vec::new()));
}

#[tokio::test]
async fn a_size_given_to_a_share_that_is_served_binds_what_is_open_too() {
    const GIB: u64 = 1 << 30;
    let server = LiveServer::start();
    let files = server.log_on().await.connect("files").await.unwrap();
    let (file, big) = (OpenOptions::file(Disposition::Create), OpenOptions::file(Disposition::Create));
    let (file, big) = (files.open("file", &file).await.unwrap(), files.open("big", &big).await.unwrap());
    big.set_length(90 * GIB).await.unwrap();
    assert_eq!(server.json("status").await["usage"], serde_json::json!({}), "nothing is counted");
    server.says("account create lab kind=premium users=anna=full").await;
    server.says("share set files account=lab provisioned_gib=100").await;
    let full = |answer: Result<(), client::Error>| {
        assert_eq!(answer.err().and_then(|why| why.status()), Some(NtStatus::DISK_FULL));
    };
    full(file.set_length(10 * GIB + 1).await);
    file.set_length(10 * GIB).await.unwrap();
    full(file.write(10 * GIB, b"x").await.map(|_| ()));
    let used = server.json("status").await["usage"]["files"].clone();
    assert_eq!((&used["quota_bytes"], &used["bytes"]), (&(100 * GIB).into(), &(100 * GIB).into()));
    // The same again, with more data on the share than the new size.
    server.says("share create made path=made users=*=full").await;
    let made = server.log_on().await.connect("made").await.unwrap();
    let open = made.open("big", &OpenOptions::file(Disposition::Create)).await.unwrap();
    open.set_length(101 * GIB).await.unwrap();
    let gib = format!("{} bytes are in use", 101 * GIB);
    server.refuses("share set made account=lab provisioned_gib=100", &gib).await;
    assert_eq!(server.json("share show made").await["settings"]["account"], Value::Null);
    open.set_length(102 * GIB).await.unwrap();
    server.says("share set made account=lab provisioned_gib=102").await;
    full(open.set_length(102 * GIB + 1).await);
}

#[tokio::test]
async fn two_administrators_do_not_lose_each_others_changes() {
    let server = LiveServer::start();
    let seen = server.version("share show files").await;
    let set = |value: &str, version: &str| format!("share set files comment={value} --if-version {version}");
    server.says(&set("first", &seen)).await;
    server.refuses(&set("second", &seen), "`comment` was \"\" and is \"first\"; it is at version ").await;
    server.refuses(&format!("share delete files --if-version {seen}"), "has changed since version").await;
    let now = server.version("share show files").await;
    assert_ne!(now, seen);
    // Of many concurrent changes of one version, one succeeds, and the others are refused.
    let all = (0..6).map(|n| {
        let line = format!("{} --config trunkline.toml", set(&format!("by{n}"), &now));
        let program = Arc::clone(&server.program);
        tokio::task::spawn_blocking(move || program.trunkline(&line).output().unwrap().status.success())
    });
    let mut taken = 0;
    for one in all.collect::<Vec<_>>() {
        taken += usize::from(one.await.unwrap());
    }
    assert_eq!(taken, 1);
    // A manual edit is neither lost nor applied by accident.
    let changes = server.program.path().join("state/changes.toml");
    let text = std::fs::read_to_string(&changes).unwrap();
    std::fs::write(&changes, text.replace("comment = \"by", "comment = \"hand")).unwrap();
    server.refuses("share set files comment=x", "was edited and is not in force").await;
    server.says("reload").await;
    let comment = server.json("share show files").await["settings"]["comment"].clone();
    assert!(comment.as_str().unwrap().starts_with("hand"), "{comment}");
    std::fs::write(&changes, "[share.files]\ncommnt = 4\n").unwrap();
    server.refuses("reload", "changes.toml:2: unknown key `commnt` in [share.files]; did you mean").await;
}

#[tokio::test]
async fn an_nfs_client_works_on_while_an_export_comes_and_goes() {
    let server = LiveServer::start();
    let client = Client::connect(server.nfs, client::nfs::Options::default()).await.unwrap();
    let how = client::nfs::OpenOptions::write(Creation::IfMissing(0o644));
    let files = client.directory("/files").await.unwrap();
    let file = files.open("file", &how).await.unwrap();
    let data = Bytes::from_static(b"data");
    file.write_all(0, &data).await.unwrap();
    let create =
        "share create made path=made users=*=full protocols=smb,nfs nfs_secure_port=off root_squash=none";
    server.says(create).await;
    let made = client.directory("/made").await.unwrap();
    let open = made.open("a", &how).await.unwrap();
    open.write_all(0, &data).await.unwrap();
    server.refuses("share delete made", "1 client over NFS, ").await;
    server.says("share delete made --force").await;
    assert_eq!(open.write_all(4, &data).await.err().unwrap().nfs_status(), Some(NfsStat::Stale));
    file.write_all(4, &data).await.unwrap();
    file.close().await.unwrap();
    assert_eq!(server.json("status").await["open_files"], Value::Object(serde_json::Map::new()));
}

#[tokio::test]
async fn a_session_ends_when_its_name_becomes_somebody_elses() {
    let server = LiveServer::start();
    server.says("account create lab users=anna=full").await;
    server.says("share set files account=lab").await;
    let made = server.says("account keys renew lab").await;
    let (_, key) = made.trim_end().split_once("  ").unwrap();
    let by_key = server.log_on_as("lab", key).await;
    by_key.connect("files").await.unwrap();
    server.program.write("another", "a password");
    server.says(&format!("user add lab --password-file another --uid {}", own_uid())).await;
    server.is_left().await;
    // The reverse: the account's keys are valid again when the user is removed.
    let by_password = server.log_on_as("lab", "a password").await;
    server.says("user remove lab").await;
    server.is_left().await;
    server.log_on_as("lab", key).await;
    drop((by_key, by_password));
}

#[tokio::test]
async fn what_cannot_be_served_is_refused_and_nothing_is_half_done() {
    let server = LiveServer::start();
    let before = server.json("share list").await;
    std::fs::create_dir(server.program.path().join("files/inner")).unwrap();
    for (line, why) in [
        ("share create made path=files users=*=read", "contain the same files"),
        ("share create made path=files/inner users=*=read", "contain the same files"),
        ("share create made path=state users=*=read", "the state directory"),
        ("share create made path=none users=*=read", "no such file or directory"),
        ("share create made path=made", "has no user who may read it"),
        ("share create made path=made users=bob=read", "user `bob` of share `made` is unknown"),
        ("share create made path=made users=*=read account=lab", "there is no [account.lab]"),
        ("share create made path=made users=*=read provisioned_gib=100", "is valid only in an account with"),
        ("share create made users=*=read", "without `path`"),
        ("share create files path=made users=*=read", "there is already share `files` (trunkline.toml:"),
        ("share create ipc$ path=made users=*=read", "is the server's own share"),
        ("share set files protocols=ftp", "`ftp` is not one of \"smb\", \"nfs\""),
        ("share set files nfs_clients=10.0.0.0/33", "is not an address or a network"),
        ("share set files max_channels=4", "unknown key `max_channels` in [share.files]"),
        ("share set files path=none", "no such file or directory"),
        ("share set files path=password", "not a directory"),
        ("share set files path=state", "the state directory"),
        ("share set files", "nothing to set"),
        ("share set nothing comment=x", "there is no share `nothing`"),
        ("account create lab max_channels=33", "`max_channels` in [account.lab]: must be from 1 to 32"),
        ("account create lab kind=gold", "`gold` is not one of \"unlimited\", \"premium\", \"standard\""),
    ] {
        server.refuses(line, why).await;
    }
    assert_eq!(server.json("share list").await, before);
    assert_eq!(server.json("account list").await, Value::Array(Vec::new()));
    assert!(!server.program.path().join("state/changes.toml").exists());
}

#[test]
fn shares_are_made_without_a_running_server_and_served_by_the_next() {
    let program = ProgramDir::new();
    std::fs::create_dir(program.path().join("docs")).unwrap();
    program.run("account create lab kind=premium").success();
    program.run("share create docs path=docs account=lab provisioned_gib=100 users=*=read").success();
    program.run("share set docs provisioned_gib=200").success();
    program.run("share set docs provisioned_gib=1").code(2);
    let shown = program.run("share show docs").success();
    let shown = String::from_utf8_lossy(&shown.get_output().stdout).into_owned();
    assert!(shown.contains("\nprovisioned_gib ") && shown.contains("changes.toml:"), "{shown}");
    let serve = "serve --listen 127.0.0.1 --smb-port 0 --no-discovery";
    let _server = Server::start_as(&program, program.trunkline(serve));
    let list = program.run("share list").success();
    let list = String::from_utf8_lossy(&list.get_output().stdout).into_owned();
    assert!(list.contains("docs") && list.contains(" 200 "), "{list}");
    let config = program.run("config show").success();
    assert!(String::from_utf8_lossy(&config.get_output().stdout).contains("[share.docs]"));
}
