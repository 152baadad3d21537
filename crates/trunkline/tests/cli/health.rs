//! `trunkline health`: one line and an exit status within the given time, whatever the server does.

use std::os::unix::net::UnixListener;
use std::process::Command;
use std::time::{Duration, Instant};

use testkit::program::ProgramDir;

use super::running::{json, start};

/// The line and the exit status of `trunkline health`.
fn health(program: &ProgramDir, options: &str) -> (String, i32) {
    told(&mut program.trunkline(&format!("health {options}")))
}

fn told(command: &mut Command) -> (String, i32) {
    let output = command.output().unwrap();
    (String::from_utf8(output.stdout).unwrap(), output.status.code().unwrap())
}

#[test]
fn a_server_is_ready_until_its_last_share_cannot_be_used() {
    let program = ProgramDir::new();
    program.write("docs/file", "");
    program.write("more/file", "");
    let none = health(&program, "");
    assert!(
        none.0.starts_with("not alive: no server runs on the state directory") && none.1 == 1,
        "{none:?}"
    );
    let _running = start(&program, "docs more");
    assert_eq!(health(&program, ""), ("ready: 2 shares\n".to_owned(), 0));
    assert_eq!(health(&program, "--live"), ("alive\n".to_owned(), 0));
    std::fs::remove_dir_all(program.path().join("docs")).unwrap();
    let (line, status) = health(&program, "");
    assert!(line.starts_with("ready: 2 shares; share `docs`: /") && line.contains("was removed"), "{line}");
    assert!(line.lines().count() == 1 && status == 0, "{line}");
    std::fs::rename(program.path().join("more"), program.path().join("elsewhere")).unwrap();
    let (line, status) = health(&program, "");
    assert!(line.starts_with("not ready: no share can be used; share `docs`") && status == 1, "{line}");
    let told = json_of(&program);
    assert_eq!(told["unready"], serde_json::json!(["no_usable_share"]));
    assert_eq!(health(&program, "--live").1, 0);
    std::fs::rename(program.path().join("elsewhere"), program.path().join("more")).unwrap();
    assert_eq!(health(&program, "").1, 0);
    assert_eq!(json(&program, "health --json")["shares"], 2);
}

fn json_of(program: &ProgramDir) -> serde_json::Value {
    serde_json::from_str(&health(program, "--json").0).unwrap()
}

#[test]
fn a_server_that_hangs_is_not_alive_and_the_answer_comes_in_time() {
    let program = ProgramDir::new();
    std::fs::create_dir(program.path().join("state")).unwrap();
    // Nobody accepts on this socket.
    let _silent = UnixListener::bind(program.path().join("state/control.sock")).unwrap();
    let begun = Instant::now();
    let (line, status) = health(&program, "--timeout 1");
    assert!(line.ends_with("has not answered within 1 s\n") && status == 1, "{line}");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

#[test]
fn a_mistake_in_the_configuration_is_status_1_too() {
    let program = ProgramDir::new();
    program.write("t.toml", "[server]\nnmae = \"x\"\n");
    let mut command = program.trunkline("health --config t.toml");
    let (line, status) = told(command.env_remove("TRUNKLINE_STATE_DIR"));
    assert!(line.starts_with("not alive: t.toml:2: unknown key `nmae`") && status == 1, "{line}");
}

#[test]
fn a_mistake_in_the_file_hides_no_server_whose_state_directory_is_given() {
    let program = ProgramDir::new();
    program.write("docs/file", "");
    let running = start(&program, "docs");
    program.write("t.toml", "[server]\nnmae = \"x\"\n");
    assert_eq!(health(&program, "--live --config t.toml"), ("alive\n".to_owned(), 0));
    program.run("stop --config t.toml").success();
    drop(running);
}
