//! A host that has no fanotify group left for the server.

use std::io::Write;
use std::process::Command;

use crate::LiveServer;

/// Allows no group to the processes of a new user namespace.
const ALLOW_NONE: &str = "echo 0 > /proc/sys/user/max_fanotify_groups";

/// The command in a user namespace without groups.
fn without_groups(serve: &Command) -> Command {
    let mut command = Command::new("unshare");
    command.args(["-Ur", "sh", "-ec", &format!("{ALLOW_NONE}; exec \"$0\" \"$@\"")]);
    command.arg(serve.get_program()).args(serve.get_args());
    command.env_clear().current_dir(serve.get_current_dir().unwrap());
    command.envs(serve.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command
}

/// The warnings about shares without events.
fn told(server: &LiveServer) -> Vec<String> {
    let log = std::fs::read_to_string(server.program.path().join("log")).unwrap();
    let lines = log.lines().filter(|line| line.contains("WARN") && line.contains("fanotify"));
    lines.map(str::to_owned).collect()
}

#[tokio::test]
async fn a_share_without_events_of_the_host_is_named_at_the_start() {
    let can = Command::new("unshare").args(["-Ur", "sh", "-ec", ALLOW_NONE]).output();
    if !can.is_ok_and(|done| done.status.success()) {
        // Written directly, since the test harness captures the output of tests that pass.
        let _ = writeln!(std::io::stderr(), "SKIPPED a host without groups: no user namespace is allowed");
        return;
    }
    let server = LiveServer::start_as("", |serve| without_groups(&serve));
    let lines = told(&server);
    assert!(lines.len() == 1, "{lines:?}");
    for part in ["share=\"files\"", "no fanotify group left", "60 seconds", "fs.fanotify.max_user_groups"] {
        assert!(lines[0].contains(part), "{lines:?}");
    }
    let status = server.says("status").await;
    assert!(status.contains("no, the host reports no changes"), "{status}");
    server.log_on().await.connect("files").await.unwrap();

    let server = LiveServer::start();
    assert_eq!(told(&server), [""; 0]);
    assert_eq!(server.json("status").await["metadata"]["files"]["unreported"], false);
}
