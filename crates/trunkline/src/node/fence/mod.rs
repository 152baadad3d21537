//! Cuts a former owner off from the storage before its files are read.
//!
//! A former owner may be alive and cut off from the tenure store alone. Its writes must not reach files that
//! the next owner has read. A command of the administrator does it ([`Fence::Command`]), or Ceph's blocklist
//! does ([`Fence::Cephfs`]).

mod cephfs;

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use tenure::NodeOwner;

use crate::config::Node;
use crate::config::node::Fence;

/// The time for which a client of Ceph stays on the blocklist (s): a year.
const BLOCKED_S: &str = "31536000";
/// The pause between two looks at a running command.
const PAUSE: Duration = Duration::from_millis(5);

/// The clients through which this node writes, for the next owner to fence.
///
/// # Errors
/// They are needed and cannot be learned.
pub fn storage_clients(node: &Node, dirs: &[PathBuf]) -> anyhow::Result<Vec<String>> {
    match node.fence.value {
        Fence::None | Fence::Command => Ok(Vec::new()),
        Fence::Cephfs => {
            let clients = dirs.iter().map(|dir| cephfs::client_of(dir, &node.ceph_sockets.value));
            Ok(clients.collect::<anyhow::Result<BTreeSet<_>>>()?.into_iter().collect())
        }
    }
}

/// Checks that the program of the fence is there. Without it, no node could take over from a dead one.
///
/// # Errors
/// One line about the program.
pub fn check(node: &Node) -> anyhow::Result<()> {
    let program = match node.fence.value {
        Fence::None => return Ok(()),
        Fence::Command => node.fence_command.value.first().map_or("", String::as_str),
        Fence::Cephfs => "ceph",
    };
    let search = std::env::var_os("PATH").unwrap_or_default();
    let is_there = match program.contains('/') {
        true => is_executable(Path::new(program)),
        false => std::env::split_paths(&search).any(|dir| is_executable(&dir.join(program))),
    };
    anyhow::ensure!(
        is_there,
        "[node]: the fence needs the program `{program}`, which is missing or not executable; without it no \
         node can take over from a dead one"
    );
    Ok(())
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// Fences all `former` owners, one after the other.
///
/// # Errors
/// The reason why one is not fenced, with what to do.
pub fn fence(node: &Node, former: &[NodeOwner]) -> Result<(), String> {
    let within = Duration::from_secs(node.fence_timeout_s.value);
    match node.fence.value {
        Fence::None => Ok(()),
        Fence::Command => former.iter().try_for_each(|owner| run(&node.fence_command.value, owner, within)),
        Fence::Cephfs => former.iter().try_for_each(|owner| block(owner, within)),
    }
}

/// Runs the administrator's command for one former owner.
fn run(words: &[String], owner: &NodeOwner, within: Duration) -> Result<(), String> {
    let Some((program, arguments)) = words.split_first() else {
        return Err("there is no `fence_command` in [node]".to_owned());
    };
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("TRUNKLINE_FORMER_NODE", &owner.node)
        .env("TRUNKLINE_FORMER_BOOT_ID", &owner.boot_id)
        .env("TRUNKLINE_FORMER_EPOCH", owner.epoch.0.to_string())
        .env("TRUNKLINE_FORMER_CLIENTS", owner.storage_clients.join(" "));
    finish(command, program, within)
}

/// Puts the clients of a former owner on Ceph's blocklist. The monitors have agreed on it when the command
/// ends, and the metadata servers then end the sessions of these clients. Each mount has another address, so
/// the entries may stay for long. A host that was suspended must find them on its return.
fn block(owner: &NodeOwner, within: Duration) -> Result<(), String> {
    if owner.storage_clients.is_empty() {
        return Err(format!(
            "node {} has recorded no client of Ceph; did it run with this `fence`?",
            owner.node
        ));
    }
    let until = Instant::now() + within;
    for client in &owner.storage_clients {
        let mut command = Command::new("ceph");
        command.args(["osd", "blocklist", "add", client, BLOCKED_S]);
        finish(command, "ceph osd blocklist add", until.saturating_duration_since(Instant::now()))?;
    }
    Ok(())
}

/// Waits for a command's success.
fn finish(mut command: Command, name: &str, within: Duration) -> Result<(), String> {
    // Its messages go to the log of this program.
    // A group of its own, so that its children end with it.
    let child = command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).spawn();
    let mut child = child.map_err(|error| format!("`{name}` cannot be run: {error}"))?;
    let until = Instant::now() + within;
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(format!("`{name}` ended with {status}")),
            Ok(None) if Instant::now() < until => thread::sleep(PAUSE),
            Ok(None) => {
                end(&mut child);
                return Err(format!("`{name}` did not end within {} s", within.as_secs()));
            }
            Err(error) => return Err(format!("`{name}`: {error}")),
        }
    }
}

/// Ends a command that takes too long.
fn end(child: &mut Child) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // It may have ended by itself meanwhile.
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use tenure::Epoch;

    use super::*;

    fn owner() -> NodeOwner {
        NodeOwner {
            node: "a".into(),
            boot_id: "1".into(),
            epoch: Epoch(3),
            storage_clients: vec!["10.0.0.1:0/7".into(), "10.0.0.1:0/8".into()],
        }
    }

    fn shell(script: &str) -> Result<(), String> {
        run(&["sh".to_owned(), "-c".to_owned(), script.to_owned()], &owner(), Duration::from_millis(300))
    }

    #[test]
    fn an_owner_without_clients_on_record_is_not_taken_for_fenced() {
        let unknown = NodeOwner { storage_clients: Vec::new(), ..owner() };
        assert!(block(&unknown, Duration::from_secs(1)).unwrap_err().contains("no client of Ceph"));
    }

    #[test]
    fn a_program_of_the_fence_is_a_file_that_may_be_run() {
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("fence");
        assert!(!is_executable(&script) && !is_executable(dir.path()));
        std::fs::write(&script, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(&script, PermissionsExt::from_mode(0o644)).unwrap();
        assert!(!is_executable(&script));
        std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
        assert!(is_executable(&script));
    }

    #[test]
    fn a_command_learns_whom_to_fence_and_its_status_decides() {
        let names = "test \"$TRUNKLINE_FORMER_NODE $TRUNKLINE_FORMER_EPOCH $TRUNKLINE_FORMER_CLIENTS\" = \
                     'a 3 10.0.0.1:0/7 10.0.0.1:0/8'";
        assert_eq!(shell(names), Ok(()));
        assert!(shell("exit 3").unwrap_err().contains("exit status: 3"));
        assert!(shell("sleep 5").unwrap_err().contains("did not end"));
        let missing = run(&["/nonexistent".to_owned()], &owner(), Duration::from_secs(1));
        assert!(missing.unwrap_err().contains("cannot be run"));
    }
}
