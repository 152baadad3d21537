//! The suite that every kind of volume is held to, on a directory of this host: as whoever runs the
//! tests, and once more without privileges when that is root.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use volume_posix::PosixVolume;

/// A volume on an empty directory, and what removes it all afterwards.
fn fresh() -> (PosixVolume, tempfile::TempDir) {
    let place = tempfile::tempdir().unwrap();
    std::fs::create_dir(place.path().join("files")).unwrap();
    let volume = PosixVolume::open(&place.path().join("files"), &place.path().join("beside")).unwrap();
    (volume, place)
}

mod here {
    use super::fresh;

    volume::conformance_tests!(fresh());
}

/// Runs the suite again in a child process that is nobody.
#[test]
fn the_suite_again_without_privileges() {
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0);
    if !is_root {
        eprintln!("skipped: already without privileges");
        return;
    }
    let place = tempfile::tempdir().unwrap();
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o1777)).unwrap();
    let myself = std::env::current_exe().unwrap();
    // Copied, since the way to the build directory may be closed to others.
    let copy = place.path().join("suite");
    std::fs::copy(&myself, &copy).unwrap();
    let child = Command::new(&copy)
        .args(["here::", "--test-threads", "4"])
        .env("TMPDIR", place.path())
        .current_dir(place.path())
        .uid(65534)
        .gid(65534)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success(), "{text}\n{}", String::from_utf8_lossy(&child.stderr));
    let passed = format!("{} passed", volume::conformance::CASES.len());
    assert!(text.contains(&passed), "{text}");
}
