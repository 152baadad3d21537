//! The scripts of the Debian package, below a root of their own (`DPKG_ROOT`, dpkg(1)).

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

/// Purges the package below `root`. Returns what the script says.
fn purge(root: &Path) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/debian/postrm");
    let done = Command::new("sh").arg(script).arg("purge").env("DPKG_ROOT", root).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    String::from_utf8(done.stdout).unwrap() + &String::from_utf8(done.stderr).unwrap()
}

/// A state directory.
fn make_state(at: &Path) {
    fs::create_dir_all(at.join("volumes/1")).unwrap();
    fs::write(at.join("version"), "trunkline state 1\n").unwrap();
    fs::write(at.join("state.redb"), "hashes").unwrap();
}

fn names(at: &Path) -> Vec<String> {
    let mut all: Vec<String> = fs::read_dir(at)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    all.sort();
    all
}

#[test]
fn a_purge_removes_what_is_ours_and_tells_which_links_stay() {
    let root = tempfile::tempdir().unwrap();
    let at = |path: &str| root.path().join(path);
    for folder in ["var/lib", "var/log/trunkline", "etc/trunkline", "data/logs"] {
        fs::create_dir_all(at(folder)).unwrap();
    }
    fs::write(at("etc/trunkline/ann.password"), "x").unwrap();
    fs::write(at("data/logs/audit.log"), "x").unwrap();
    make_state(&at("var/lib/trunkline"));
    assert_eq!(purge(root.path()), "");
    assert_eq!((names(&at("var/lib")).len(), names(&at("var/log")).len()), (0, 0));
    assert_eq!(names(&at("etc/trunkline")), ["ann.password"]);
    // An administrator has put both elsewhere.
    make_state(&at("data/state"));
    symlink(at("data/state"), at("var/lib/trunkline")).unwrap();
    symlink("../../data/logs", at("var/log/trunkline")).unwrap();
    let said = purge(root.path());
    assert!(said.contains("data/state is deleted; the directory and the link"), "{said}");
    assert!(said.contains("/var/log/trunkline stays, and the logs in"), "{said}");
    assert_eq!(names(&at("data/state")), [""; 0]);
    assert!(at("var/lib/trunkline").is_symlink() && at("data/logs/audit.log").exists());
    // Again, and with a directory that no server has used.
    fs::write(at("data/state/letter"), "x").unwrap();
    assert!(purge(root.path()).contains("there is no state of a server"));
    assert_eq!(names(&at("data/state")), ["letter"]);
    fs::remove_dir_all(at("data/state")).unwrap();
    assert!(purge(root.path()).contains("there is no state of a server"));
}
