//! `trunkline domain leave`, `lookup` and the check of a domain's settings without a domain controller.

use std::os::unix::fs::DirBuilderExt;

use rustix::fs::{FlockOperation, flock};
use testkit::program::ProgramDir;

#[test]
fn a_server_leaves_while_nobody_changes_its_keys_and_leaves_nothing_beside_them() {
    let program = ProgramDir::new();
    let state = program.path().join("state");
    let keytab = state.join("krb5.keytab");
    let (keytab, dir) = (keytab.display(), state.display());
    let text =
        format!("[server]\nstate_dir = \"{dir}\"\n[domain]\nrealm = \"R.EXAMPLE\"\nkeytab = \"{keytab}\"\n");
    program.write("t.toml", &text);
    program.run_with("user add ann --config t.toml", "a secret\n").success();
    std::fs::DirBuilder::new().mode(0o700).create(state.join(".krb5.keytab.new")).unwrap();
    let lock = std::fs::File::create(state.join(".krb5.keytab.lock")).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    let leave = || program.run("domain leave --keep-account --config t.toml");
    let said = |assert: &assert_cmd::assert::Assert| {
        String::from_utf8_lossy(&assert.get_output().stderr).into_owned()
    };
    let busy = leave().code(2);
    assert!(said(&busy).contains("wait for its end"), "{}", said(&busy));
    assert!(state.join(".krb5.keytab.new").exists());
    drop(lock);
    let left = leave().success();
    assert!(said(&left).contains("a run that was killed"), "{}", said(&left));
    let beside = state.read_dir().unwrap().map(|entry| entry.unwrap().file_name());
    let beside: Vec<_> = beside.filter(|name| name.to_string_lossy().contains("keytab")).collect();
    assert!(beside.is_empty(), "{beside:?}");
}

/// A keytab with a key of a machine account of `R.EXAMPLE`.
fn machine_keytab() -> Vec<u8> {
    let body = [&[0, 1, 0, 9][..], b"R.EXAMPLE", &[0, 6], b"FILES$", &[0; 8], &[2, 0, 18, 0, 1, 7]].concat();
    [&[5, 2][..], &u32::try_from(body.len()).unwrap().to_be_bytes(), &body].concat()
}

#[test]
fn a_leave_asks_for_the_password_before_it_locks_anything() {
    let program = ProgramDir::new();
    let state = program.path().join("state");
    let keytab = state.join("krb5.keytab");
    let (shown, dir) = (keytab.display(), state.display());
    let text =
        format!("[server]\nstate_dir = \"{dir}\"\n[domain]\nrealm = \"R.EXAMPLE\"\nkeytab = \"{shown}\"\n");
    program.write("t.toml", &text);
    program.run_with("user add ann --config t.toml", "a secret\n").success();
    std::fs::write(&keytab, machine_keytab()).unwrap();
    // Whoever needs this lock would find another command at work.
    let lock = std::fs::File::create(state.join(".krb5.keytab.lock")).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    let leave =
        |words: &str| program.run_with(&format!("domain leave {words} --config t.toml"), "\n").code(2);
    let asked = leave("--password-file -");
    assert!(said(&asked).contains("is empty"), "{}", said(&asked));
    assert!(said(&asked).contains("`--keep-account` leaves without removing the account FILES$"));
    let busy = leave("--keep-account");
    assert!(said(&busy).contains("wait for its end"), "{}", said(&busy));
}

#[test]
fn a_timer_renews_only_keys_that_a_join_made() {
    let program = ProgramDir::new();
    let state = program.path().join("state");
    let config = |lines: &str| {
        let text = format!("[server]\nstate_dir = \"{}\"\n[domain]\n{lines}", state.display());
        program.write("t.toml", &text);
    };
    let renew = |words: &str| program.run(&format!("domain renew {words} --config t.toml"));
    let brought = "realm = \"R.EXAMPLE\"\nkeytab = \"brought.keytab\"\n";
    for (lines, reason) in [("", "in no domain"), (brought, "brought.keytab was brought")] {
        config(lines);
        let done = renew("--if-own").success();
        let shown = String::from_utf8_lossy(&done.get_output().stdout).into_owned();
        assert!(shown.starts_with("nothing to renew: ") && shown.contains(reason), "{shown}");
        renew("").code(2);
    }
    // The own keytab is lost, which the timer has to tell.
    config(&format!("realm = \"R.EXAMPLE\"\nkeytab = \"{}/krb5.keytab\"\n", state.display()));
    let lost = renew("--if-own").code(2);
    assert!(said(&lost).contains("krb5.keytab: no such file"), "{}", said(&lost));
    renew("--if-own --force").code(2);
}

/// The standard error of a command.
fn said(assert: &assert_cmd::assert::Assert) -> String {
    String::from_utf8_lossy(&assert.get_output().stderr).into_owned()
}

/// A configuration of a domain without a keytab, with the user ann.
fn domain_without_keytab() -> ProgramDir {
    let program = ProgramDir::new();
    let state = program.path().join("state");
    std::fs::create_dir(program.path().join("docs")).unwrap();
    let text = format!(
        "[server]\nstate_dir = \"{}\"\n[domain]\nrealm = \"CORP.EXAMPLE\"\nnetbios_name = \"CORP\"\n\
         domain_sid = \"S-1-5-21-1-2-3\"\nid_mapping = \"rid\"\nid_range = \"3100000000-3100099999\"\n\
         keytab = \"missing.keytab\"\n[share.docs]\npath = \"docs\"\nusers = {{ ann = \"full\" }}\n",
        state.display()
    );
    program.write("t.toml", &text);
    program
        .run_with("user add ann --uid 3000000001 --gid 3000000001 --config t.toml", "a secret\n")
        .success();
    program
}

#[test]
fn the_check_says_which_log_ons_are_off() {
    let program = domain_without_keytab();
    let check = program.run("config check --config t.toml").success();
    let said = said(&check);
    assert!(said.contains("warning: no log-ons with tickets: "), "{said}");
    // Without MIT's library this is the reason.
    assert!(said.contains("missing.keytab cannot be read") || said.contains("libgssapi-krb5-2"), "{said}");
    assert!(String::from_utf8_lossy(&check.get_output().stdout).contains("ok: 1 share"));
}

#[test]
fn a_check_takes_the_users_of_its_own_configuration() {
    let program = domain_without_keytab();
    let mut running = super::running::start(&program, "--config t.toml --no-discovery");
    let text = std::fs::read_to_string(program.path().join("t.toml")).unwrap();
    let user = "[[user]]\nname = \"ann\"\nuid = 3100000001\ngid = 3100000001\n";
    program.write("other.toml", &format!("{text}{user}"));
    let check = |file: &str| said(&program.run(&format!("config check --config {file}")).success());
    let why = "has the id 3100000001, which `ann` of this host has";
    let other = check("other.toml");
    assert!(other.contains(why), "{other}");
    let served = check("t.toml");
    assert!(!served.contains(why), "{served}");
    program.run("stop --config t.toml").success();
    assert!(running.wait().success());
}

#[test]
fn a_lookup_says_by_its_status_whether_there_is_an_account() {
    let program = domain_without_keytab();
    let look = |words: &str| program.run(&format!("domain lookup {words} --config t.toml"));
    let found = look("ann").success();
    let shown = String::from_utf8_lossy(&found.get_output().stdout).into_owned();
    assert!(shown.contains("uid        3000000001"), "{shown}");
    look("3000000001").success();
    for (account, hint) in [
        ("no-such-user", "a user of the domain is named CORP\\no-such-user"),
        ("3200000000", "its ranges are 3100000000-3100099999"),
        ("OTHER\\bob", "OTHER is no domain of this server"),
        ("S-1-5-21-9-9-9-1104", "neither of `domain_sid`"),
    ] {
        let missing = look(account).code(1);
        assert!(said(&missing).contains(hint), "{account}: {}", said(&missing));
    }
    let unasked = look("CORP\\bob").code(2);
    assert!(
        said(&unasked).contains("only the host was asked, and not the directory: "),
        "{}",
        said(&unasked)
    );
    program.write("none.toml", "[server]\nstate_dir = \"state\"\n");
    let unasked = program.run("domain lookup bob --config none.toml").code(2);
    assert!(said(&unasked).contains("no account of a domain has an id"), "{}", said(&unasked));
    program.run("domain lookup ann --config none.toml").success();
}
