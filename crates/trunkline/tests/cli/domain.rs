//! `trunkline domain leave` without a domain controller.

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
    std::fs::create_dir_all(state.join(".krb5.keytab.new")).unwrap();
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
