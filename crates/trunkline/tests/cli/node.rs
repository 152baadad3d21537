//! Nodes of a virtual server: what they say when a start fails, and what they do to the host.

use std::io::Write;
use std::os::unix::net::UnixListener;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use testkit::program::{PATIENCE, ProgramDir, own_ids, own_uid};

/// A process of a node, which is killed at the end of its test.
struct NodeProcess(Child);

impl Drop for NodeProcess {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _ended = self.0.wait();
    }
}

/// The configuration of node `name`, with more lines of [node].
fn configure(program: &ProgramDir, name: &str, lines: &str) {
    let ids = own_ids();
    program.write("docs/file", "");
    program.write("pw", "Secret-1");
    program.write(
        &format!("{name}.toml"),
        &format!(
            "[server]\nstate_dir = \"state\"\nsmb_port = 0\nlisten = [\"127.0.0.1\"]\ndiscovery = false\n\
             [node]\ntenure = \"flock\"\nname = \"{name}\"\nrun_dir = \"run-{name}\"\n{lines}\
             [[user]]\nname = \"ann\"\npassword_file = \"pw\"\n{ids}\
             [share.docs]\npath = \"docs\"\nusers = {{ ann = \"full\" }}\n"
        ),
    );
}

fn serve(program: &ProgramDir, name: &str) -> NodeProcess {
    let mut command = program.trunkline(&format!("node serve --config {name}.toml"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    NodeProcess(command.spawn().unwrap())
}

/// The exit status and the output of `node status`.
fn status(program: &ProgramDir, name: &str) -> (i32, String) {
    let done = program.trunkline(&format!("node status --config {name}.toml")).output().unwrap();
    let said = String::from_utf8_lossy(&[&*done.stdout, &*done.stderr].concat()).into_owned();
    (done.status.code().unwrap(), said)
}

/// Waits until `node status` has this exit status. Returns its output.
fn wait_for(program: &ProgramDir, name: &str, code: i32) -> String {
    let until = Instant::now() + PATIENCE;
    loop {
        let (found, said) = status(program, name);
        if found == code {
            return said;
        }
        assert!(Instant::now() < until, "{found}: {said}");
    }
}

/// A file that hangs when it is opened stands for storage that does not answer.
#[test]
fn a_node_whose_start_hangs_ends_and_does_not_give_the_tenure_back() {
    let program = ProgramDir::new();
    configure(&program, "a", "start_timeout_s = 1\n");
    std::fs::remove_file(program.path().join("pw")).unwrap();
    mknodat(CWD, program.path().join("pw"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    let done = program.run("node serve --config a.toml").code(1);
    let output = done.get_output();
    let said = String::from_utf8_lossy(&[&*output.stdout, &*output.stderr].concat()).into_owned();
    assert!(said.contains("did not start within 1 s") && said.contains("start_timeout_s"), "{said}");
    // The next owner must fence this one, and other nodes may try first.
    let record = std::fs::read_to_string(program.path().join("state.tenure.json")).unwrap();
    assert!(record.contains("\"owner\":{\"node\":\"a\""), "{record}");
    assert!(program.path().join("run-a/node-trunkline.failed").exists());
    // The reason is told while nothing runs, and while the next process pauses.
    let (code, said) = status(&program, "a");
    assert!(code == 4 && said.contains("failed: the server") && said.contains("within 1 s"), "{said}");
    let _next = serve(&program, "a");
    let said = wait_for(&program, "a", 3);
    assert!(said.contains("a, waiting") && said.contains("Next attempt"), "{said}");
    assert!(said.contains("did not start within 1 s"), "{said}");
    let refused = program.run("node move --config a.toml").code(2);
    let said = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
    assert!(said.contains("node a does not serve"), "{said}");
}

#[test]
fn the_exit_status_says_whether_this_node_serves() {
    let program = ProgramDir::new();
    configure(&program, "a", "");
    configure(&program, "b", "");
    let (code, said) = status(&program, "a");
    assert!(code == 4 && said.contains("does `trunkline node serve` run on this host?"), "{said}");
    let owner = serve(&program, "a");
    wait_for(&program, "a", 0);
    let _waiting = serve(&program, "b");
    let said = wait_for(&program, "b", 3);
    assert!(said.contains("b, waiting"), "{said}");
    drop(owner);
    wait_for(&program, "b", 0);
    assert_eq!(status(&program, "a").0, 4);
    // A process that does not answer may serve.
    let path = program.path().join("run-a/node-trunkline.sock");
    std::fs::remove_file(&path).unwrap();
    let listener = UnixListener::bind(&path).unwrap();
    let silent = std::thread::spawn(move || drop(listener.accept().unwrap()));
    let (code, said) = status(&program, "a");
    assert!(code == 1 && said.contains("the node cannot be asked"), "{said}");
    silent.join().unwrap();
    program.write("c.toml", "[node]\ntenure = \"none\"\n");
    assert_eq!(status(&program, "c").0, 2);
}

/// The host of the test: an interface with an address of its own. `$1` is the program.
const HOST: &str = "set -e
ip link set lo up
ip link add eth0 type veth peer name eth1
ip link set eth0 up; ip link set eth1 up
# The far end of the cable is in this network too, and answers for the addresses of the near end.
ip address add 10.9.9.2/24 dev eth0
has() { ip -o address show dev eth0 to $1 | grep -q .; }
lacks() { if has $1; then echo \"$1 is here\"; exit 1; fi; }
reaches() { for _ in $(seq 600); do s=0; $program node status --config a.toml >status 2>&1 || s=$?; \
[ $s = $1 ] && return; sleep 0.05; done; echo \"status $s: $(cat status log)\"; exit 1; }
";

/// Runs a script in a network of its own. None without root.
fn on_a_host(program: &ProgramDir, script: &str) -> Option<String> {
    if own_uid() != 0 {
        // Written directly, since the test harness captures the output of tests that pass.
        let _ = writeln!(std::io::stderr(), "SKIPPED addresses of a node: it takes root");
        return None;
    }
    let binary = program.trunkline("").get_program().to_owned();
    let path = std::env::var_os("PATH").unwrap();
    let mut command = Command::new("unshare");
    command.args(["--net", "sh", "-c", &format!("{HOST}{script}")]).current_dir(program.path()).env_clear();
    let done = command.env("PATH", path).env("program", binary).output().unwrap();
    let said = String::from_utf8_lossy(&[&*done.stdout, &*done.stderr].concat()).into_owned();
    assert!(done.status.success(), "{}: {said}", done.status);
    Some(said)
}

#[test]
fn a_node_refuses_the_address_of_its_machine_and_never_takes_it_away() {
    let program = ProgramDir::new();
    configure(&program, "a", "addresses = [\"10.9.9.50/24\", \"10.9.9.2/24\"]\n");
    let script = "s=0; timeout 60 $program node serve --config a.toml || s=$?
        echo \"status $s\"; has 10.9.9.2; lacks 10.9.9.50
        # One that a service of the host has given it for a time is found by the owner, which gives the tenure
        # back.
        ip address change 10.9.9.2/24 dev eth0 valid_lft 600 preferred_lft 600
        s=0; timeout 60 $program node serve --config a.toml || s=$?
        echo \"status $s\"; has 10.9.9.2; lacks 10.9.9.50; cat state.tenure.json";
    let Some(said) = on_a_host(&program, script) else { return };
    assert!(said.contains("status 2") && said.contains("status 1"), "{said}");
    assert!(said.contains("eth0 of this host has 10.9.9.2 already"), "{said}");
    assert!(said.contains("take it out of `addresses` in [node]"), "{said}");
    assert!(said.contains("\"owner\":null"), "{said}");
}

#[test]
fn a_node_brings_an_address_back_that_its_host_has_lost() {
    let program = ProgramDir::new();
    configure(&program, "a", "addresses = [\"10.9.9.50/24\"]\n");
    let script = "$program node serve --config a.toml >log 2>&1 & reaches 0; has 10.9.9.50
        ip address delete 10.9.9.50/24 dev eth0; lacks 10.9.9.50
        for _ in $(seq 600); do has 10.9.9.50 && break; sleep 0.05; done
        has 10.9.9.50; grep 'was gone from this host and is back' log
        kill $!; wait $!; lacks 10.9.9.50; has 10.9.9.2";
    on_a_host(&program, script);
}

#[test]
fn a_node_takes_on_the_address_that_its_killed_process_has_left() {
    let program = ProgramDir::new();
    configure(&program, "a", "addresses = [\"10.9.9.50/24\"]\nterm_s = 60\n");
    let script = "$program node serve --config a.toml >log 2>&1 & reaches 0; has 10.9.9.50
        kill -9 $!; wait $! || true; has 10.9.9.50
        $program node serve --config a.toml >log 2>&1 & reaches 0; has 10.9.9.50
        kill $!; wait $!; lacks 10.9.9.50; has 10.9.9.2
        ls run-a";
    let Some(said) = on_a_host(&program, script) else { return };
    assert!(!said.contains("addresses"), "{said}");
}
