//! `trunkline load` on files of this host, and its errors.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use testkit::program::ProgramDir;

/// An agent process that is killed when this is dropped.
struct Agent(Child, String);

impl Agent {
    fn start(program: &ProgramDir) -> Agent {
        let mut command = program.trunkline("load --agent 127.0.0.1:0 --secret-file secret");
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.split(' ').nth(2).expect("where it waits").to_owned();
        Agent(child, address)
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // This also works for a stopped process and for one that has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until a file exists whose name begins with `begin`.
fn wait_for(directory: &Path, begin: &str) {
    let until = Instant::now() + Duration::from_secs(60);
    let is_there = || {
        let mut names = std::fs::read_dir(directory).ok()?.flatten();
        names.find(|name| name.file_name().to_string_lossy().starts_with(begin))
    };
    while is_there().is_none() {
        assert!(Instant::now() < until, "nothing was made in {}", directory.display());
        std::thread::yield_now();
    }
}

fn ended(mut command: Command, meanwhile: impl FnOnce()) -> std::process::Output {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    meanwhile();
    child.wait_with_output().unwrap()
}

/// The program's standard error, when it exits with `status`.
#[track_caller]
fn says(program: &ProgramDir, line: &str, status: i32) -> String {
    let done = program.run(line).code(status);
    let errors = String::from_utf8_lossy(&done.get_output().stderr).into_owned();
    assert!(done.get_output().stdout.is_empty(), "{line}");
    errors
}

#[test]
fn a_line_of_diskspd_is_measured_told_and_drawn() {
    let program = ProgramDir::new();
    let line = "load -c64K -b4K -t1 -o2 -r -w50 -L -d1 -W0 --json --html page.html a.dat b.dat";
    let done = program.run(line).code(0);
    let json: serde_json::Value = serde_json::from_slice(&done.get_output().stdout).unwrap();
    assert_eq!(json["jobs"][0]["job options"]["filename"], "a.dat:b.dat");
    assert!(json["jobs"][0]["read"]["total_ios"].as_u64().unwrap() > 0);
    let page = std::fs::read_to_string(program.path().join("page.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("-c64K -b4K"));
    assert!(!program.path().join("page.html.part").exists());
}

#[test]
fn what_is_wrong_with_the_command_line_changes_nothing() {
    let program = ProgramDir::new();
    program.write("pw", "secret\n");
    for (line, wanted) in [
        ("load -d1 -q a", "-q: this flag is not understood; of diskspd's there are -b -t -o"),
        ("load --bs 4k --bogus a", "unexpected argument '--bogus'"),
        ("load //server/share", "write smb://"),
        ("load smb://ann:secret@h/x", "a password must not stand on the command line"),
        ("load smb://ann@h/x --password-file none", "--password-file none: No such file"),
        ("load . --number-ios 1 --html none/page", "--html none/page: the page cannot be written"),
        ("load . --agents h", "agents need a shared secret"),
        ("load . --agents h --secret-file pw", "16 characters or more"),
        ("load", "TARGET"),
    ] {
        let before = program.files();
        let said = says(&program, line, 2);
        assert!(said.contains(wanted), "{line}: {said}");
        assert!(program.files() == before, "{line} has changed something");
    }
}

#[test]
fn what_cannot_be_loaded_is_said_in_one_line() {
    let program = ProgramDir::new();
    program.write("pw", "secret\n");
    for (line, wanted) in [
        ("load -d1 none/a", "opening none/a, which must be there unless -cSIZE or --filesize makes it"),
        (
            "load smb://ann@127.0.0.1:1/x --password-file pw",
            "connecting to 127.0.0.1 port 1: the connection failed",
        ),
        ("load nfs://127.0.0.1:1/x", "see whether host and port are right and a server listens there"),
    ] {
        let said = says(&program, line, 1);
        assert!(said.contains(wanted) && said.lines().count() == 1, "{line}: {said}");
        assert_eq!(said.matches("refused").count(), usize::from(line.contains("127")), "{said}");
    }
}

#[test]
fn an_agent_that_is_stopped_in_the_middle_is_named_and_the_others_are_reported() {
    let program = ProgramDir::new();
    program.write("secret", "a secret of enough length\n");
    let agents = [Agent::start(&program), Agent::start(&program)];
    let [Agent(_, first), Agent(stopped, second)] = &agents;
    let line = format!(
        "load {} --metadata create --files 1 --runtime 3 --json --agents {first},{second} --agent-timeout 1 \
         --secret-file secret",
        program.path().display()
    );
    let done = ended(program.trunkline(&line), || {
        // The create workload creates files only after all agents have started.
        wait_for(&program.path().join("client-2/trunkline.names"), "v");
        kill_process(Pid::from_child(stopped), Signal::STOP).unwrap();
    });
    let errors = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "{errors}");
    assert!(errors.contains(&format!("agent {second}: it has said nothing for 1 s")), "{errors}");
    let json: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    let ours = &json["jobs"][0]["trunkline"];
    assert_eq!(ours["missing_clients"], serde_json::json!([second]));
    assert!(ours["metadata"]["total_ios"].as_u64().unwrap() > 0);
}
