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

/// Fences all `former` owners for this one, one after the other.
///
/// # Errors
/// The reason why one is not fenced, with what to do.
pub fn fence(node: &Node, own: &NodeOwner, former: &[NodeOwner]) -> Result<(), String> {
    let within = Duration::from_secs(node.fence_timeout_s.value);
    match node.fence.value {
        Fence::None => Ok(()),
        Fence::Command => {
            former.iter().try_for_each(|owner| run(&node.fence_command.value, own, owner, within))
        }
        Fence::Cephfs => former.iter().try_for_each(|owner| block(owner, within)),
    }
}

/// Runs the administrator's command for one former owner. That may be an earlier boot of this machine.
fn run(words: &[String], own: &NodeOwner, former: &NodeOwner, within: Duration) -> Result<(), String> {
    let Some((program, arguments)) = words.split_first() else {
        return Err("there is no `fence_command` in [node]; write the program and its arguments".to_owned());
    };
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("TRUNKLINE_NODE", &own.node)
        .env("TRUNKLINE_HOST", &own.host)
        .env("TRUNKLINE_MACHINE_ID", &own.machine_id)
        .env("TRUNKLINE_BOOT_ID", &own.boot_id)
        .env("TRUNKLINE_FORMER_NODE", &former.node)
        .env("TRUNKLINE_FORMER_HOST", &former.host)
        .env("TRUNKLINE_FORMER_MACHINE_ID", &former.machine_id)
        .env("TRUNKLINE_FORMER_BOOT_ID", &former.boot_id)
        .env("TRUNKLINE_FORMER_EPOCH", former.epoch.0.to_string())
        .env("TRUNKLINE_FORMER_CLIENTS", former.storage_clients.join(" "));
    finish(command, program, within)
}

/// Puts the clients of a former owner on Ceph's blocklist. The monitors have agreed on it when the command
/// ends, and the metadata servers then end the sessions of these clients. Each mount has another address, so
/// the entries may stay for long. A host that was suspended must find them on its return.
fn block(owner: &NodeOwner, within: Duration) -> Result<(), String> {
    if owner.storage_clients.is_empty() {
        return Err(format!(
            "node {} has recorded no client of Ceph, so there is none to block; it ran without \
             `fence = \"cephfs\"` in its [node]",
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
            Ok(Some(status)) => {
                return Err(format!("`{name}` ended with {status}; its own message is in the log"));
            }
            Ok(None) if Instant::now() < until => thread::sleep(PAUSE),
            Ok(None) => {
                end(&mut child);
                let limit = within.as_secs();
                return Err(format!(
                    "`{name}` did not end within {limit} s; see `fence_timeout_s` in [node]"
                ));
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
            host: "one".into(),
            machine_id: "e1".into(),
            epoch: Epoch(3),
            storage_clients: vec!["10.0.0.1:0/7".into(), "10.0.0.1:0/8".into()],
        }
    }

    /// This node: a later boot of the same machine.
    fn own() -> NodeOwner {
        NodeOwner { boot_id: "2".into(), ..owner() }
    }

    fn shell(script: &str) -> Result<(), String> {
        let words = ["sh".to_owned(), "-c".to_owned(), script.to_owned()];
        run(&words, &own(), &owner(), Duration::from_millis(300))
    }

    #[test]
    fn an_owner_without_clients_on_record_is_not_taken_for_fenced() {
        let unknown = NodeOwner { storage_clients: Vec::new(), ..owner() };
        assert!(block(&unknown, Duration::from_secs(1)).unwrap_err().contains("no client of Ceph"));
    }

    /// The script of docs/cluster.md, with an agent that only tells that it was called.
    #[test]
    fn the_documented_script_spares_its_own_machine_and_no_other_of_the_same_name() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cluster.md");
        let page = std::fs::read_to_string(page).unwrap();
        let from = page.find("    #!/bin/sh").expect("the script");
        let lines = page[from..].lines().take_while(|line| line.starts_with("    "));
        let script = lines.map(|line| line.trim_start()).collect::<Vec<_>>().join("\n");
        assert!(script.contains("exec fence_ipmilan"), "{script}");
        let script = script.replace("exec fence_ipmilan", "exit 42; echo");
        let words = ["sh".to_owned(), "-c".to_owned(), script];
        let run = |former: NodeOwner| run(&words, &own(), &former, Duration::from_secs(5));
        assert_eq!(run(owner()), Ok(()));
        let of_other_machine = run(NodeOwner { machine_id: "f2".into(), ..owner() }).unwrap_err();
        assert!(of_other_machine.contains("exit status: 1"), "{of_other_machine}");
        let of_clone = run(NodeOwner { host: "two".into(), ..owner() }).unwrap_err();
        assert!(of_clone.contains("exit status: 1"), "{of_clone}");
        let unknown = run(NodeOwner { machine_id: String::new(), ..owner() }).unwrap_err();
        assert!(unknown.contains("exit status: 1"), "{unknown}");
        let other = run(NodeOwner { node: "b".into(), ..owner() }).unwrap_err();
        assert!(other.contains("exit status: 42"), "{other}");
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
        let machines = "test \"$TRUNKLINE_FORMER_HOST $TRUNKLINE_FORMER_MACHINE_ID \
                        $TRUNKLINE_FORMER_BOOT_ID\" = 'one e1 1' && test \"$TRUNKLINE_NODE $TRUNKLINE_HOST \
                        $TRUNKLINE_MACHINE_ID $TRUNKLINE_BOOT_ID\" = 'a one e1 2'";
        assert_eq!(shell(machines), Ok(()));
        assert!(shell("exit 3").unwrap_err().contains("exit status: 3"));
        assert!(shell("sleep 5").unwrap_err().contains("did not end"));
        let missing = run(&["/nonexistent".to_owned()], &own(), &owner(), Duration::from_secs(1));
        assert!(missing.unwrap_err().contains("cannot be run"));
    }
}
