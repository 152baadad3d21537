//! Network interfaces that appear and disappear while the server runs, in a separate network namespace. Needs
//! root.

use std::io::Write;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::process::Command;

use client::smb::ChannelOptions;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::Value;
use testkit::program::{ProgramDir, Server, own_uid};

use crate::channels::{log_on, run, shown};
use crate::running::json;

/// The address of the interface that appears later.
const LATER: &str = "192.0.2.1";

/// Runs `command` in a new network namespace in which no interface is up.
fn apart(command: &Command) -> Command {
    let mut apart = Command::new("/usr/bin/unshare");
    apart.arg("--net").arg(command.get_program()).args(command.get_args());
    apart.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    apart.current_dir(command.get_current_dir().expect("it has one"));
    apart
}

/// Runs `ip` in the network namespace of process `pid`.
fn ip(pid: u32, line: &str) {
    let mut command = Command::new("/usr/bin/nsenter");
    command.args(["--net", "--target", &pid.to_string(), "ip"]).args(line.split_whitespace());
    let output = command.output().unwrap();
    assert!(output.status.success(), "ip {line}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The row of an address, if there is one.
fn row<'a>(session: &'a Value, address: &str) -> Option<&'a Value> {
    session["connections"].as_array()?.iter().find(|row| row["server_ip"] == address)
}

fn is_because(session: &Value, address: &str, reason: &str) -> bool {
    row(session, address).is_some_and(|row| row["selected"] == false && row["reason"] == reason)
}

#[test]
fn an_interface_that_comes_later_is_offered_and_one_that_goes_is_not() {
    let can = Command::new("/usr/bin/unshare").args(["--net", "true"]).status();
    if !can.is_ok_and(|status| status.success()) {
        // Written directly, since the test harness captures the output of tests that pass.
        let _ = writeln!(std::io::stderr(), "SKIPPED an interface that comes later: it takes root");
        return;
    }
    let program = ProgramDir::new();
    program.write("docs/file", "content");
    program.run_with(&format!("user add ann --uid {}", own_uid()), "secret\n").success();
    let server = apart(&program.trunkline("serve docs --listen 0.0.0.0 --smb-port 0 --no-discovery"));
    let running = Server::start_as(&program, server);
    let listen = json(&program, "status --json")["server"]["listen"][0].as_str().unwrap().to_owned();
    let port = listen.parse::<SocketAddr>().unwrap().port();
    let pid = running.pid();
    ip(pid, "link set lo up");
    let namespace = std::fs::File::open(format!("/proc/{pid}/ns/net")).unwrap();
    // Only this thread changes its namespace, and it ends with the test.
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
    run(async {
        let (session, _knife) = log_on(SocketAddr::from(([127, 0, 0, 1], port))).await;
        let before = shown(&program, |session| session["current_channels"] == 1);
        assert!(row(&before, LATER).is_none(), "{before:#}");
        ip(pid, "link add later type veth peer name end");
        ip(pid, &format!("address add {LATER}/24 dev later"));
        shown(&program, |session| is_because(session, LATER, "down"));
        ip(pid, "link set later up");
        ip(pid, "link set end up");
        shown(&program, |session| is_because(session, LATER, "not_asked"));
        let opened =
            session.open_channels(&ChannelOptions { channels: 4, ..ChannelOptions::default() }).await;
        assert_eq!(opened.unwrap().channels, 4);
        let used = shown(&program, |session| session["current_channels"] == 4);
        assert!(row(&used, LATER).is_some_and(|row| row["selected"] == true), "{used:#}");
        ip(pid, "link delete later");
        session.log_off().await.unwrap();
    });
    run(async {
        let (_session, _knife) = log_on(SocketAddr::from(([127, 0, 0, 1], port))).await;
        shown(&program, |session| session["current_channels"] == 1 && row(session, LATER).is_none());
    });
}
