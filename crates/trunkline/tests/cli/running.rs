//! A running server: its start and end, its output, and the commands and signals that it receives.

use std::io::Read;
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use testkit::program::{PATIENCE, ProgramDir, Server, own_ids, own_uid};

/// Starts `serve` with `line` in `program`, and waits until it is ready.
pub fn start(program: &ProgramDir, line: &str) -> Server {
    let line = format!("serve {line} --listen 127.0.0.1 --smb-port 0");
    Server::start_as(program, program.trunkline(&line))
}

/// Waits until a server has ended, and checks that it ended cleanly.
#[track_caller]
fn ended(server: &mut Server) {
    let status = server.wait();
    assert!(status.success(), "{status}");
}

fn text(program: &ProgramDir, name: &str) -> String {
    let mut text = String::new();
    std::fs::File::open(program.path().join(name)).unwrap().read_to_string(&mut text).unwrap();
    text
}

pub fn json(program: &ProgramDir, line: &str) -> serde_json::Value {
    serde_json::from_slice(&program.run(line).success().get_output().stdout).unwrap()
}

fn names(users: &serde_json::Value) -> Vec<&str> {
    users.as_array().unwrap().iter().map(|user| user["name"].as_str().unwrap()).collect()
}

#[test]
fn the_first_minute_shows_a_user_and_how_to_mount() {
    let program = ProgramDir::new();
    program.write("docs/file", "");
    let mut running = start(&program, "docs");
    let port = json(&program, "status --json")["server"]["listen"][0]
        .as_str()
        .unwrap()
        .rsplit_once(':')
        .unwrap()
        .1
        .to_owned();
    let page = text(&program, "output");
    let kept = text(&program, "state/first-password");
    let password = kept.lines().next().unwrap();
    assert!(page.contains(password) && page.contains("shown only once"), "{page}");
    for line in [
        format!("net use Z: \\\\127.0.0.1\\docs /user:trunkline /TCPPORT:{port}   (Windows 11 24H2"),
        format!("open smb://trunkline@127.0.0.1:{port}/docs"),
        format!("mount -t cifs //127.0.0.1/docs /mnt -o vers=3.1.1,username=trunkline,port={port}"),
        format!("smbclient //127.0.0.1/docs -U trunkline -p {port}"),
    ] {
        assert!(page.contains(&line), "{line} in {page}");
    }
    running.signal("-TERM");
    running.hears("STOPPING=1");
    ended(&mut running);
    assert!(!program.path().join("state/control.sock").exists());
    let mut again = start(&program, "docs");
    let page = text(&program, "output");
    assert!(!page.contains(password) && page.contains("the first line of "), "{page}");
    program.run("stop").success();
    ended(&mut again);
}

#[test]
fn the_first_share_of_a_server_without_users_comes_with_one() {
    let program = ProgramDir::new();
    program.write("docs/file", "");
    program.write("more/file", "");
    program.write("t.toml", "");
    let mut running = start(&program, "--config t.toml --no-discovery");
    let notes = |line: &str| {
        let made = program.run(line).success();
        String::from_utf8_lossy(&made.get_output().stderr).into_owned()
    };
    let first = notes("share create docs path=docs users=*=read");
    assert!(first.contains("`trunkline` was created; the first line of "), "{first}");
    assert!(text(&program, "state/first-password").ends_with("\ntrunkline\n"));
    assert_eq!(names(&json(&program, "user list --json")), ["trunkline"]);
    assert_eq!(notes("share create more path=more users=*=read"), "");
    program.run("stop").success();
    ended(&mut running);
}

/// All files below a directory, with their permission bits.
fn modes(below: &std::path::Path) -> Vec<(std::path::PathBuf, u32)> {
    use std::os::unix::fs::PermissionsExt;
    let (mut found, mut todo) = (Vec::new(), vec![below.to_path_buf()]);
    while let Some(path) = todo.pop() {
        let kind = std::fs::symlink_metadata(&path).unwrap();
        if kind.is_dir() {
            todo.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        found.push((path, kind.permissions().mode() & 0o777));
    }
    found
}

#[test]
fn what_the_server_makes_for_itself_is_its_owners_alone_whatever_mask_it_has() {
    let program = ProgramDir::new();
    program.write("docs/file", "");
    program.write("more/file", "");
    program.write("pw", "secret\n");
    let user = format!("[[user]]\nname = \"ann\"\npassword_file = \"pw\"\n{}", own_ids());
    let share = |name: &str| {
        format!("[share.{name}]\npath = \"{name}\"\ncontinuously_available = true\nusers.ann = \"write\"\n")
    };
    program.write("t.toml", &format!("{user}{}", share("docs")));
    let own = std::env::current_dir().unwrap();
    let serve = program
        .trunkline("serve --config t.toml --no-discovery --nfs --nfs-port 0 --listen 127.0.0.1 --smb-port 0");
    let mut masked = Command::new("/bin/sh");
    masked.current_dir(program.path()).env_clear().envs(serve.get_envs().filter_map(|(k, v)| Some((k, v?))));
    masked
        .args(["-c", "umask 000; exec \"$0\" \"$@\""])
        .arg(own.join(serve.get_program()))
        .args(serve.get_args());
    let _running = Server::start_as(&program, masked);
    // More files are created while it runs, by the server and by clients.
    program.write("t.toml", &format!("{user}{}{}", share("docs"), share("more")));
    program.run("reload").success();
    program.run_with("user add bob", "two\n").success();
    let listen = json(&program, "status --json")["server"]["listen"][0].as_str().unwrap().to_owned();
    let load = format!(
        "load smb://ann@{listen}/more/made --password-file pw --metadata create --keep --files 4 \
         --number-ios 4"
    );
    program.run(&load).success();
    let state = modes(&program.path().join("state"));
    for wanted in ["version", "lock", "state.redb", "control.sock", "volumes"] {
        assert!(state.iter().any(|(path, _)| path.ends_with(wanted)), "{wanted} in {state:?}");
    }
    assert!(state.iter().all(|(_, mode)| mode & 0o077 == 0), "{state:?}");
    // Files of clients without a mode must be writable for their owner only.
    let made = modes(&program.path().join("more/made"));
    assert!(made.len() > 1 && made.iter().all(|(_, mode)| mode & 0o022 == 0), "{made:?}");
}

/// As root the first user acts as the owner of the directory, since the host has no user of that name.
#[test]
fn the_first_user_acts_as_the_owner_of_the_directory() {
    let program = ProgramDir::new();
    program.write("docs/file", "");
    let owner = if own_uid() == 0 { 61_234 } else { own_uid() };
    std::os::unix::fs::chown(program.path().join("docs"), Some(owner), Some(owner)).unwrap();
    let _running = start(&program, "docs --user first-one");
    assert_eq!(json(&program, "user list --json")[0]["uid"], owner);
    let page = text(&program, "output");
    let said = format!("acts as   uid {owner}, the owner of {}/docs;", program.path().display());
    assert_eq!(page.contains(&said), own_uid() == 0, "{page}");
}

#[test]
fn users_of_a_running_server_are_changed_through_it() {
    let program = ProgramDir::new();
    program.write("docs/file", "");
    program.run_with("user add ann", "one\n").success();
    let _running = start(&program, "docs");
    program.run_with("user add bob --uid 1001", "two\n").success();
    program.run_with("user passwd ann", "three\n").success();
    assert_eq!(names(&json(&program, "user list --json")), ["ann", "bob"]);
    program.run_with("user add BOB", "x\n").code(2);
    program.run("user remove bob").success();
    program.run("user remove bob").code(2);
    assert_eq!(names(&json(&program, "user list --json")), ["ann"]);
    let status = json(&program, "status --json");
    assert_eq!(status["server"]["shares"][0], "docs");
    assert_eq!(status["sessions"], serde_json::json!({}));
    program.run("status").success();
}

#[test]
fn a_reload_by_signal_or_command_serves_what_is_right_and_keeps_what_was() {
    let program = ProgramDir::new();
    program.write("docs/file", "");
    program.write("more/file", "");
    program.write("pw", "secret\n");
    let user = format!("[[user]]\nname = \"ann\"\npassword_file = \"pw\"\n{}", own_ids());
    let share = |name: &str| format!("[share.{name}]\npath = \"{name}\"\nusers.ann = \"write\"\n");
    program.write("t.toml", &format!("{user}{}", share("docs")));
    let running = start(&program, "--config t.toml --no-discovery");
    let shares = || json(&program, "status --json")["server"]["shares"].clone();
    assert_eq!(shares(), serde_json::json!(["docs"]));
    program.write("t.toml", &format!("{user}{}{}", share("docs"), share("more")));
    running.signal("-HUP");
    running.hears("READY=1");
    assert_eq!(shares(), serde_json::json!(["docs", "more"]));
    program.write("t.toml", &format!("{user}{}", share("none")));
    program.run("reload").code(2);
    running.signal("-HUP");
    running.hears("READY=1");
    assert_eq!(shares(), serde_json::json!(["docs", "more"]));
    assert!(text(&program, "log").contains("configuration not changed"));
    let refused = program.run_with("user passwd ann", "x\n").code(2);
    let why = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
    assert!(why.contains("change it there") && why.lines().count() == 1, "{why}");
}

/// Whether a process catches SIGHUP (proc(5), `SigCgt`).
fn catches_hangup(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or_default();
    u64::from_str_radix(caught.trim(), 16).is_ok_and(|caught| caught >> (Signal::HUP.as_raw() - 1) & 1 == 1)
}

#[test]
fn a_hangup_ends_no_server_that_still_reads_its_command_line() {
    let program = ProgramDir::new();
    // The program reads this for long, and refuses it then.
    let missing: Vec<String> = (0..20_000).map(|n| format!("none/{n}")).collect();
    let is_heard_early = |_| {
        let mut command = program.trunkline("serve");
        let began = Instant::now();
        let mut server = command.args(&missing).stderr(Stdio::null()).spawn().unwrap();
        while !catches_hangup(server.id()) {
            if server.try_wait().unwrap().is_some() {
                return false;
            }
        }
        let heard_after = began.elapsed();
        let pid = Pid::from_raw(i32::try_from(server.id()).unwrap()).unwrap();
        kill_process(pid, Signal::HUP).unwrap();
        assert_eq!(server.wait().unwrap().code(), Some(2));
        heard_after * 2 < began.elapsed()
    };
    // A busy machine may let this process see it late.
    assert!((0..20).any(is_heard_early));
}

#[test]
fn a_server_that_begins_without_an_account_deletes_no_keys_of_it() {
    let program = ProgramDir::new();
    program.write("docs/file", "");
    let keys = || json(&program, "account keys list lab --config t.toml --json");
    program.write("t.toml", "[account.lab]\n");
    program.run("account keys renew lab --config t.toml").success();
    let made = keys();
    assert!(!made["key1"].is_null());
    program.write("t.toml", "");
    drop(start(&program, "docs --config t.toml --no-discovery"));
    program.write("t.toml", "[account.lab]\n");
    assert_eq!(keys(), made);
}

#[test]
fn one_state_directory_has_one_server() {
    let program = ProgramDir::new();
    program.write("docs/file", "");
    let _running = start(&program, "docs");
    let second = program.run("serve docs --listen 127.0.0.1 --smb-port 0").code(2);
    let why = String::from_utf8_lossy(&second.get_output().stderr).into_owned();
    assert!(why.contains("a server is running on it") && why.lines().count() == 1, "{why}");
}

#[test]
fn a_killed_server_makes_room_at_once() {
    let program = ProgramDir::new();
    program.write("docs/file", "");
    let mut killed = start(&program, "docs");
    for _ in 0..5 {
        // The threads of the killed server have not all ended yet.
        killed.signal("-KILL");
        killed = start(&program, "docs");
    }
    program.run("status").success();
}

/// The number of changes to `state.redb`, each of which waits for the disk.
fn changes(program: &ProgramDir) -> u64 {
    let content = std::fs::read(program.path().join("state/state.generation")).unwrap();
    u64::from_le_bytes(content[..8].try_into().unwrap())
}

/// The inode, type and times of all sidecar files.
fn beside(program: &ProgramDir) -> Vec<(std::path::PathBuf, u64, i64, i64)> {
    use std::os::unix::fs::MetadataExt;
    let all = modes(&program.path().join("state/volumes")).into_iter().map(|(path, _)| path);
    let mut found: Vec<_> = all
        .map(|path| {
            let about = std::fs::metadata(&path).unwrap();
            (path, about.ino(), about.mtime(), about.mtime_nsec())
        })
        .collect();
    found.sort();
    found
}

#[test]
fn a_start_waits_for_the_disk_no_more_often_with_many_shares_than_with_few() {
    let first_start = |shares: usize| {
        let program = ProgramDir::new();
        program.write("pw", "secret\n");
        let mut config = format!("[[user]]\nname = \"ann\"\npassword_file = \"pw\"\n{}", own_ids());
        for number in 0..shares {
            program.write(&format!("shares/{number}/file"), "");
            config += &format!(
                "[share.s{number}]\npath = \"shares/{number}\"\ncontinuously_available = true\nprotocols = \
                 [\"smb\", \"nfs\"]\nusers.ann = \"write\"\n"
            );
        }
        program.write("trunkline.toml", &config);
        let serve =
            "serve --config trunkline.toml --no-discovery --nfs-port 0 --listen 127.0.0.1 --smb-port 0";
        let mut server = Server::start_as(&program, program.trunkline(serve));
        let made = changes(&program);
        // There is a directory for each share, and no file: a journal is created with its first record.
        assert_eq!(beside(&program).len(), 1 + shares, "{:?}", beside(&program));
        program.run("stop").success();
        ended(&mut server);
        // At its end, a server records which journals exist.
        let left = (changes(&program), beside(&program));
        assert!(left.0 <= made + 1);
        let mut server = Server::start_as(&program, program.trunkline(serve));
        assert_eq!((changes(&program), beside(&program)), left, "a later start");
        program.run("stop").success();
        ended(&mut server);
        made
    };
    assert_eq!(first_start(30), first_start(3));
}

#[test]
fn nonsense_on_the_port_costs_its_sender_the_connection_and_nobody_else() {
    use std::io::Write;
    let program = ProgramDir::new();
    program.write("docs/file", "");
    let _running = start(&program, "docs");
    let listen = json(&program, "status --json")["server"]["listen"][0].as_str().unwrap().to_owned();
    let mut stream = TcpStream::connect(&listen).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    // The connection is closed, or reset because not all bytes were read. There is never an answer.
    let _ = stream.read_to_end(&mut answer);
    assert!(answer.is_empty());
    TcpStream::connect(&listen).unwrap();
    program.run("status").success();
}

#[test]
fn the_log_is_json_where_the_configuration_says_so() {
    let program = ProgramDir::new();
    program.write("docs/file", "");
    program.write("t.toml", "[server]\nlog_format = \"json\"\n");
    let mut running = start(&program, "docs --config t.toml");
    running.signal("-INT");
    ended(&mut running);
    let log = text(&program, "log");
    let lines: Vec<serde_json::Value> =
        log.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    assert!(lines.iter().any(|line| line["message"] == "serving" && line["level"] == "INFO"), "{log}");
}

#[test]
fn the_demo_needs_nothing_but_a_directory() {
    let program = ProgramDir::new();
    let _running = start(&program, "--demo --state-dir state --nfs-port 0");
    assert!(program.path().join(".trunkline/demo/Welcome.txt").exists());
    assert_eq!(names(&json(&program, "user list --json")), ["demo"]);
    let output = text(&program, "output");
    assert!(output.contains("\\demo /user:demo /TCPPORT:"), "{output}");
    assert!(
        output.contains("mount -t nfs4 -o vers=4.2,port=") && output.contains(",nconnect=4 "),
        "{output}"
    );
    // The status shows the shares of the endpoint, and that it has no clients.
    let nfs = json(&program, "status --json")["nfs"].clone();
    assert_eq!(nfs["endpoints"][0]["shares"][0], "demo");
    assert_eq!(nfs["clients"].as_array().map(Vec::len), Some(0));
}
