//! The `user` and `config` commands without a running server.

use crate::common::Place;
use assert_cmd::assert::Assert;

/// What was printed to standard output.
fn output(assert: &Assert) -> String {
    String::from_utf8_lossy(&assert.get_output().stdout).into_owned()
}

#[test]
fn users_are_added_listed_changed_and_removed() {
    let place = Place::new();
    place.write("pw", "from a file\n");
    place.run_with("user add ann --uid 1000 --gid 100 --admin", "from stdin\n").success();
    place.run("user add Bob --password-file pw").success();
    place.run_with("user passwd bob --password-file -", "new\n").success();
    let users: serde_json::Value =
        serde_json::from_str(&output(&place.run("user list --json").success())).unwrap();
    let names: Vec<_> = users.as_array().unwrap().iter().map(|user| user["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["ann", "Bob"]);
    assert_eq!((users[0]["uid"].as_u64(), users[0]["admin"].as_bool()), (Some(1000), Some(true)));
    assert_ne!(users[0]["sid"], users[1]["sid"]);
    place.run("user remove ANN").success();
    assert_eq!(output(&place.run("user list").success()).lines().count(), 2);
}

#[test]
fn no_password_stands_in_the_state_in_the_clear() {
    let place = Place::new();
    place.run_with("user add ann", "a very long secret\n").success();
    let wide: Vec<u8> = "very long secret".encode_utf16().flat_map(u16::to_le_bytes).collect();
    for (path, content) in place.files() {
        for secret in [&b"very long secret"[..], &wide] {
            assert!(!content.windows(secret.len()).any(|window| window == secret), "{}", path.display());
        }
    }
}

#[test]
fn what_is_right_is_checked_without_making_anything() {
    let place = Place::new();
    place.write("docs/file", "");
    place.write("pw", "secret\n");
    let text = "[[user]]\nname = \"ann\"\npassword_file = \"pw\"\n[share.docs]\npath = \"docs\"\nusers.ann = \"read\"\n";
    place.write("t.toml", text);
    let before = place.files();
    assert_eq!(output(&place.run("config check --config t.toml").success()), "ok: 1 share(s)\n");
    assert!(place.files() == before);
    place.write("t.toml", &text.replace("password_file = \"pw\"\n", ""));
    place.run("config check --config t.toml").code(2);
    place.run_with("user add ann", "pw\n").success();
    place.run("config check --config t.toml").success();
}

#[test]
fn each_value_is_shown_with_where_it_came_from() {
    let place = Place::new();
    place.write("docs/file", "");
    place.write("t.toml", "[server]\nname = \"files\"\n");
    let shown =
        output(&place.run("config show --config t.toml docs --smb-port 4451 --no-discovery").success());
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
