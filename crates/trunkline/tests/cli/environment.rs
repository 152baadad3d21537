//! A server that is configured by environment variables alone, as in a container.

use std::process::Command;

use testkit::program::{ProgramDir, Server, own_uid};

use super::running::json;

const PASSWORD: &str = "plum-tart-37";

/// The command with the variables of a container.
fn with_variables(program: &ProgramDir, line: &str, variables: &[(&str, &str)]) -> Command {
    let mut command = program.trunkline(line);
    command.envs(variables.iter().map(|(name, value)| (format!("TRUNKLINE_{name}"), *value)));
    command
}

fn run(program: &ProgramDir, line: &str, variables: &[(&str, &str)]) -> (bool, String, String) {
    let output = with_variables(program, line, variables).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.success(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_server_is_configured_by_variables_and_shows_them_without_the_password() {
    let program = ProgramDir::new();
    program.write("docs/file", "text");
    let path = program.path().join("docs").display().to_string();
    let variables = [
        ("SERVER_LISTEN", "127.0.0.1"),
        ("SERVER_SMB_PORT", "0"),
        ("SERVER_DISCOVERY", "off"),
        ("SHARE_DOCS_PATH", &path),
        ("SHARE_DOCS_USERS", "ann=write"),
        ("USER_ANN_PASSWORD", PASSWORD),
    ];
    let (is_ok, shown, _) = run(&program, "config show", &variables);
    let has = |begin: &str, end: &str| shown.lines().any(|l| l.starts_with(begin) && l.ends_with(end));
    assert!(is_ok && has("smb_port = 0", "# $TRUNKLINE_SERVER_SMB_PORT"), "{shown}");
    assert!(has("users.ann = \"write\"", "# $TRUNKLINE_SHARE_DOCS_USERS"), "{shown}");
    assert!(has("name = \"ann\"", "# $TRUNKLINE_USER_ANN_PASSWORD") && !shown.contains(PASSWORD), "{shown}");
    let _running = Server::start_as(&program, with_variables(&program, "serve", &variables));
    let users = json(&program, "user list --json");
    assert_eq!(users[0]["source"], "$TRUNKLINE_USER_ANN_PASSWORD");
    let listen = json(&program, "status --json")["server"]["listen"][0].as_str().unwrap().to_owned();
    let load = format!("load smb://ann@{listen}/docs/made --metadata create --files 4 --number-ios 4");
    let loaded = program.trunkline(&load).env("TRUNKLINE_PASSWORD", PASSWORD).output().unwrap();
    assert!(loaded.status.success(), "{loaded:?}");
    program.run_with("user passwd ann", "another-one-42\n").code(2);
    for (name, bytes) in program.files() {
        let holds = bytes.windows(PASSWORD.len()).any(|part| part == PASSWORD.as_bytes());
        assert!(!holds, "the password is in {}", name.display());
    }
}

#[test]
fn a_user_of_variables_acts_as_the_owner_of_the_share_unless_a_variable_names_another() {
    let program = ProgramDir::new();
    program.write("docs/file", "text");
    let path = program.path().join("docs");
    let owner = if own_uid() == 0 { 61_234 } else { own_uid() };
    std::os::unix::fs::chown(&path, Some(owner), Some(owner)).unwrap();
    let path = path.display().to_string();
    let mut variables = vec![
        ("SERVER_LISTEN", "127.0.0.1"),
        ("SERVER_SMB_PORT", "0"),
        ("SHARE_DOCS_PATH", &path),
        ("SHARE_DOCS_USERS", "ann=write"),
        ("USER_ANN_PASSWORD", PASSWORD),
    ];
    let uid = |variables: &[(&str, &str)]| {
        let _running = Server::start_as(&program, with_variables(&program, "serve", variables));
        json(&program, "user list --json")[0]["uid"].as_u64().unwrap()
    };
    assert_eq!(uid(&variables), u64::from(owner));
    variables.push(("USER_ANN_UID", "7"));
    assert_eq!(uid(&variables), 7);
}

#[test]
fn a_mistyped_variable_is_refused_before_anything_is_made() {
    let program = ProgramDir::new();
    for line in ["serve", "config check", "status"] {
        let (is_ok, _, why) = run(&program, line, &[("SHARE_DOCS_PAHT", "/data")]);
        let wanted = "trunkline: $TRUNKLINE_SHARE_DOCS_PAHT: nothing reads this variable; did you mean \
                      TRUNKLINE_SHARE_DOCS_PATH?\n";
        assert!(!is_ok && why == wanted, "{line}: {why}");
    }
    let (is_ok, _, why) = run(&program, "serve", &[("USER_ANN_UID", "7"), ("SHARE_D_PATH", "/tmp")]);
    assert!(!is_ok && why.contains("$TRUNKLINE_USER_ANN_UID: user `ann` has no password"), "{why}");
    assert!(program.files().is_empty());
}
