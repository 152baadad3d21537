//! A mistake in a command, in a setting or on the host is reported as one line that names what to change,
//! with exit status 2. Nothing has been changed.

use testkit::program::ProgramDir;

/// Runs `line` and expects the single line `wanted`, with all files unchanged.
#[track_caller]
fn refused(program: &ProgramDir, line: &str, wanted: &str) {
    let before = program.files();
    let done = program.run(line).code(2);
    let errors = String::from_utf8_lossy(&done.get_output().stderr).into_owned();
    assert_eq!(errors, format!("trunkline: {wanted}\n"));
    assert!(program.files() == before, "{line} has changed something");
}

const SHARE: &str = "[share.docs]\npath = \"docs\"\n";
const USER: &str = "[[user]]\nname = \"ann\"\npassword_file = \"pw\"\n";

fn program_with(configuration: &str) -> ProgramDir {
    let program = ProgramDir::new();
    program.write("t.toml", configuration);
    program.write("pw", "secret\n");
    program.write("docs/file", "");
    program
}

/// Checks that all commands that read the configuration report the same.
#[track_caller]
fn configuration_refused(program: &ProgramDir, wanted: &str) {
    for line in ["config check --config t.toml", "serve --config t.toml --listen 127.0.0.1 --smb-port 0"] {
        refused(program, line, wanted);
    }
}

#[test]
fn a_key_that_is_not_known() {
    let program = program_with("[share.docs]\npth = \"docs\"\n");
    configuration_refused(&program, "t.toml:2: unknown key `pth` in [share.docs]; did you mean `path`?");
}

#[test]
fn a_key_of_another_server() {
    for (text, wanted) in [
        ("[share.docs]\n\"valid users\" = \"ann\"\n", "`valid users` in [share.docs]; did you mean `users`?"),
        ("[[user]]\npassword = \"x\"\n", "`password` in [[user]]; did you mean `password_file`?"),
        ("[admin]\naddress = \"127.0.0.1:1\"\n", "`address` in [admin]; did you mean `listen`?"),
        (
            "[share.docs]\nguest_ok = true\n",
            "`guest_ok` in [share.docs]: guests are not admitted; docs/configuration.md lists the keys \
             without a counterpart",
        ),
        (
            "[share.docs]\nsnapshots = 4\n",
            "`snapshots` in [share.docs]: snapshots are not offered; docs/configuration.md lists the keys \
             without a counterpart",
        ),
        (
            "[share.docs]\nquota = 4\n",
            "`quota` in [share.docs]: users have no quotas; the size of a share is `provisioned_gib`; \
             docs/configuration.md lists the keys without a counterpart",
        ),
    ] {
        configuration_refused(&program_with(text), &format!("t.toml:2: unknown key {wanted}"));
    }
}

#[test]
fn a_file_that_is_no_toml() {
    let program = program_with("[share.docs\n");
    let done = program.run("config check --config t.toml").code(2);
    let errors = String::from_utf8_lossy(&done.get_output().stderr).into_owned();
    assert!(errors.starts_with("trunkline: t.toml:1: ") && errors.lines().count() == 1, "{errors}");
}

#[test]
fn a_configuration_that_is_not_there() {
    refused(
        &ProgramDir::new(),
        "config check --config t.toml",
        "t.toml: no such file or directory; see --config",
    );
}

#[test]
fn nothing_to_serve() {
    refused(&ProgramDir::new(), "serve", "nothing to serve; give a DIR, or a configuration with --config");
}

#[test]
fn a_missing_directory() {
    let program =
        program_with(&format!("{USER}[share.docs]\npath = \"none\"\nusers = {{ ann = \"read\" }}\n"));
    configuration_refused(&program, "t.toml:5: `path` of share `docs`: none: no such file or directory");
    refused(&program, "serve none", "none: no such file or directory; give a directory that exists");
}

#[test]
fn a_user_without_a_password() {
    let users = "users = { ann = \"read\" }\n";
    let nobody = program_with(&format!("[[user]]\nname = \"ann\"\n{SHARE}{users}"));
    let wanted = "t.toml:2: user `ann` has no password; set `password_file` or run `trunkline user add ann`";
    configuration_refused(&nobody, wanted);
    let empty = program_with(&format!("{USER}{SHARE}{users}"));
    empty.write("pw", "\n");
    let wanted =
        "t.toml:3: `password_file` of user `ann`: pw: its first line is empty; it must be the password";
    configuration_refused(&empty, wanted);
    let unknown = program_with(&format!("{SHARE}{users}"));
    let wanted = "t.toml:3: user `ann` of share `docs` is unknown; run `trunkline user add ann`";
    configuration_refused(&unknown, wanted);
    let empty = "the password is empty; give it with --password-file or on standard input";
    refused(&unknown, "user add ann", empty);
}

#[test]
fn a_share_without_a_reader() {
    let program = program_with(&format!("{USER}{SHARE}"));
    let wanted = "t.toml:4: share `docs` has no user who may read it; set `users = { NAME = \"read\" }`";
    configuration_refused(&program, wanted);
}

#[test]
fn a_port_in_use() {
    let program = program_with("");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let line = format!("serve docs --listen 127.0.0.1 --smb-port {port}");
    refused(&program, &line, &format!("port {port} on 127.0.0.1 is in use; choose another with --smb-port"));
}

#[test]
fn an_address_of_another_host() {
    let line = "serve docs --smb-port 0 --listen 203.0.113.9";
    let wanted = "cannot listen on 203.0.113.9: cannot assign requested address; change `listen` (--listen)";
    refused(&program_with(""), line, wanted);
}

#[test]
fn a_state_directory_of_another_version() {
    let program = program_with("");
    program.write("state/version", "trunkline state 99\n");
    let state = program.path().join("state").display().to_string();
    let wanted = format!(
        "state directory {state}: its version is 99, written by a newer trunkline; this is trunkline {}, \
         which knows versions up to 1: install the newer program again, or run its `trunkline state \
         downgrade` first, or restore a backup of version 1 with `trunkline restore --replace`",
        env!("CARGO_PKG_VERSION")
    );
    for line in ["serve docs --listen 127.0.0.1 --smb-port 0", "user list", "user remove ann"] {
        refused(&program, line, &wanted);
    }
}

#[test]
fn a_state_directory_that_holds_something_else() {
    let program = program_with("");
    let docs = program.path().join("docs").display().to_string();
    let wanted = format!(
        "state directory {docs}: it holds other files and no `version`; give an empty one with --state-dir"
    );
    refused(&program, &format!("serve docs --listen 127.0.0.1 --smb-port 0 --state-dir {docs}"), &wanted);
}

#[test]
fn users_that_are_not_there_and_names_that_cannot_be() {
    let program = program_with("");
    let state = program.path().join("state").display().to_string();
    refused(&program, "user remove ann", &format!("there is no state directory {state}; see --state-dir"));
    refused(&program, "user add a/b", "a user's name cannot hold '/'");
    refused(&program, "user add guest", "`guest` is refused: guests and anonymous users are not served");
    program.run_with("user add ann", "pw\n").success();
    let wanted = "there is no user `eve` in the state directory; see `trunkline user list`";
    let done = program.run("user remove eve").code(2);
    assert_eq!(String::from_utf8_lossy(&done.get_output().stderr), format!("trunkline: {wanted}\n"));
    let done = program.run_with("user add ANN", "pw\n").code(2);
    let wanted = "there is already a user `ANN`; use `trunkline user passwd ANN`";
    assert_eq!(String::from_utf8_lossy(&done.get_output().stderr), format!("trunkline: {wanted}\n"));
}

#[test]
fn a_server_that_does_not_run() {
    let program = program_with("");
    let state = program.path().join("state").display().to_string();
    for line in ["status", "status --json", "reload", "stop"] {
        refused(&program, line, &format!("no server runs on the state directory {state}; see --state-dir"));
    }
}

#[test]
fn two_directories_of_one_name_or_of_the_same_files() {
    let program = program_with("");
    program.write("other/docs/x", "");
    let line = "serve docs other/docs --listen 127.0.0.1 --smb-port 0";
    refused(
        &program,
        line,
        "other/docs: there is already a share `docs` (DIR); give it another name as [share.NAME]",
    );
    let wanted = format!(
        "DIR: `path` of share `other`: {0}/other and {0}/other/docs of share `docs` contain the same files, \
         but opens and locks of one share do not apply to the other; give each its own `path`, or give one \
         share more `users`",
        program.path().display()
    );
    refused(&program, "serve other/docs other --listen 127.0.0.1 --smb-port 0", &wanted);
}

#[test]
fn a_path_that_no_link_has() {
    let program = program_with(SHARE);
    for (line, wrong) in [
        ("link --rtt 23 -- true", "is no time; write for example 23ms"),
        ("link --rate 200 -- true", "is no rate; write for example 200Mbit"),
        ("link --loss 0.1 -- true", "is no part; write for example 0.1%"),
        ("link --rtt 23ms", "COMMAND"),
    ] {
        let done = program.run(line).code(2);
        let said = String::from_utf8_lossy(&done.get_output().stderr).into_owned();
        assert!(said.contains(wrong), "{line}: {said}");
    }
}

#[test]
fn a_tenure_store_that_cannot_be_used() {
    let node = "[node]\ntenure = \"etcd\"\nfence = \"none\"\n";
    let share = "[share.docs]\npath = \"docs\"\nusers = { ann = \"full\" }\n";
    for (keys, wanted) in [
        (
            "etcd = [\"https://10.0.0.7:2379\"]",
            "[node]: https://10.0.0.7:2379 needs the authority of etcd's certificates: set `etcd_ca`",
        ),
        ("etcd = [\"https://10.0.0.7:2379\"]\netcd_ca = \"missing.pem\"", "missing.pem: "),
        ("etcd = [\"https://10.0.0.7:2379\"]\netcd_ca = \"pw\"", "pw: it has no certificate"),
        (
            "etcd = [\"http://10.0.0.7/x:2379\"]",
            "[node]: `http://10.0.0.7/x:2379` is no endpoint of etcd: it has more than a host and a port",
        ),
        (
            "etcd = [\"http://10.0.0.7:2379\"]\netcd_user = \"u\"\netcd_password_file = \"missing\"",
            "`etcd_password_file` in [node]: ",
        ),
    ] {
        let program = program_with(&format!("{USER}{share}{node}{keys}\n"));
        let done = program.run("config check --config t.toml").code(2);
        let errors = String::from_utf8_lossy(&done.get_output().stderr).into_owned();
        assert!(errors.contains(wanted), "{errors}");
    }
}
