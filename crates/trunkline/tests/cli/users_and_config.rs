//! The `user` and `config` commands without a running server.

use assert_cmd::assert::Assert;
use testkit::program::ProgramDir;

/// The standard output.
fn output(assert: &Assert) -> String {
    String::from_utf8_lossy(&assert.get_output().stdout).into_owned()
}

#[test]
fn users_are_added_listed_changed_and_removed() {
    let program = ProgramDir::new();
    program.write("pw", "from a file\n");
    program.run_with("user add ann --uid 1000 --gid 100 --admin", "from stdin\n").success();
    program.run("user add Bob --password-file pw").success();
    program.run_with("user passwd bob --password-file -", "new\n").success();
    let users: serde_json::Value =
        serde_json::from_str(&output(&program.run("user list --json").success())).unwrap();
    let names: Vec<_> = users.as_array().unwrap().iter().map(|user| user["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["ann", "Bob"]);
    assert_eq!((users[0]["uid"].as_u64(), users[0]["admin"].as_bool()), (Some(1000), Some(true)));
    assert_ne!(users[0]["sid"], users[1]["sid"]);
    program.run("user remove ANN").success();
    assert_eq!(output(&program.run("user list").success()).lines().count(), 2);
}

#[test]
fn no_password_stands_in_the_state_in_the_clear() {
    let program = ProgramDir::new();
    program.run_with("user add ann", "a very long secret\n").success();
    let wide: Vec<u8> = "very long secret".encode_utf16().flat_map(u16::to_le_bytes).collect();
    for (path, content) in program.files() {
        for secret in [&b"very long secret"[..], &wide] {
            assert!(!content.windows(secret.len()).any(|window| window == secret), "{}", path.display());
        }
    }
}

#[test]
fn keys_of_accounts_are_made_shown_and_renewed() {
    use std::os::unix::fs::PermissionsExt;
    let program = ProgramDir::new();
    program.write("t.toml", "[account.lab]\n");
    let run = |line: &str| program.run(&format!("account keys {line} --config t.toml"));
    let listed =
        || -> serde_json::Value { serde_json::from_str(&output(&run("list lab --json").success())).unwrap() };
    assert!(listed()["key1"].is_null());
    let made = output(&run("renew lab").success());
    let (name, first) = made.trim_end().split_once("  ").unwrap();
    assert_eq!((name, first.len()), ("key1", 88));
    run("renew lab key2").success();
    run("renew lab").code(2);
    let before = listed();
    assert_eq!(before["key1"], first);
    run("renew lab key1").success();
    assert!(listed()["key1"] != before["key1"] && listed()["key2"] == before["key2"]);
    // A given key: its length is checked, and it is not printed.
    program.write("short", "c2hvcnQ=\n");
    let refused = run("renew lab key1 --key-file short").code(2);
    let said = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
    assert!(said.contains("64 bytes in base64") && said.contains("this has 5 bytes"), "{said}");
    program.write("own", &format!("{first}\n"));
    let said = output(&run("renew lab key2 --key-file own").success());
    assert!(!said.contains(first) && listed()["key2"] == first, "{said}");
    run("renew lap").code(2);
    let state = program.path().join("state");
    let mode = |file: &str| std::fs::metadata(state.join(file)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(""), mode("state.redb")), (0o700, 0o600));
    let shown = output(&program.run("account show lab --config t.toml --json").success());
    assert!(!shown.contains(first));
    program.run("account delete lab --config t.toml").success();
    run("list lab").code(2);
    program.run("account create lab --config t.toml").success();
    assert!(listed()["key2"].is_null(), "they go with the account");
}

#[test]
fn keys_of_an_account_that_was_taken_out_are_not_those_of_the_next_of_its_name() {
    let program = ProgramDir::new();
    program.write("t.toml", "[account.lab]\n");
    program.run("account keys renew lab --config t.toml").success();
    program.write("t.toml", "");
    program.run("account create lab --config t.toml").success();
    assert_eq!(
        output(&program.run("account keys list lab --config t.toml").success()),
        "key1  (none)\nkey2  (none)\n"
    );
}

#[test]
fn what_is_right_is_checked_without_making_anything() {
    let program = ProgramDir::new();
    program.write("docs/file", "");
    program.write("pw", "secret\n");
    let text = "[[user]]\nname = \"ann\"\npassword_file = \"pw\"\n[share.docs]\npath = \"docs\"\nusers.ann = \
                \"read\"\n";
    program.write("t.toml", text);
    let before = program.files();
    assert_eq!(output(&program.run("config check --config t.toml").success()), "ok: 1 share(s)\n");
    assert!(program.files() == before);
    program.write("t.toml", &text.replace("password_file = \"pw\"\n", ""));
    program.run("config check --config t.toml").code(2);
    program.run_with("user add ann", "pw\n").success();
    program.run("config check --config t.toml").success();
}

#[test]
fn each_value_is_shown_with_where_it_came_from() {
    let program = ProgramDir::new();
    program.write("docs/file", "");
    program.write("t.toml", "[server]\nname = \"files\"\n");
    let shown =
        output(&program.run("config show --config t.toml docs --smb-port 4451 --no-discovery").success());
    let origin = |key: &str| {
        let line = shown.lines().find(|line| line.starts_with(&format!("{key} = "))).unwrap_or_default();
        line.rsplit_once("# ").map(|(_, origin)| origin.to_owned()).unwrap_or_default()
    };
    assert_eq!(origin("name"), "t.toml:2");
    assert_eq!(origin("smb_port"), "--smb-port");
    assert_eq!(origin("discovery"), "--no-discovery");
    assert_eq!(origin("state_dir"), "$TRUNKLINE_STATE_DIR");
    assert_eq!(origin("path"), "DIR");
    assert_eq!(origin("min_dialect"), "default");
}

#[test]
fn what_can_stand_in_a_configuration_is_printed_for_people_and_programs() {
    let program = ProgramDir::new();
    let page = output(&program.run("config keys").success());
    assert!(page.contains("\n| `guess_delay_s` | 0 to 60 s | `2` | start | "), "{page}");
    let schema: serde_json::Value =
        serde_json::from_str(&output(&program.run("config schema").success())).unwrap();
    let share = &schema["properties"]["share"]["additionalProperties"]["properties"];
    assert_eq!(share["streams_max_gib"]["default"], 16);
}
