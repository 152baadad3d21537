//! Helpers for the tests of this crate.
#![allow(dead_code)]

use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use volume::{Name, Node, OpenHow, Volume};
use volume_posix::PosixVolume;

/// A volume on an empty directory of its own, and the guard that removes it.
pub fn fresh() -> (PosixVolume, tempfile::TempDir) {
    let temp_dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(files(&temp_dir)).unwrap();
    (open(&temp_dir), temp_dir)
}

/// The directory that is served.
pub fn files(temp_dir: &tempfile::TempDir) -> PathBuf {
    temp_dir.path().join("files")
}

/// Opens the volume of a directory, even if it is open already.
pub fn open(temp_dir: &tempfile::TempDir) -> PosixVolume {
    PosixVolume::open(&files(temp_dir), &temp_dir.path().join("beside")).unwrap()
}

/// Makes a valid name.
pub fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

/// A new file in the root.
pub fn file(volume: &PosixVolume, text: &str) -> Arc<dyn Node> {
    volume.root().unwrap().create_file(&name(text), 0o644, None).unwrap()
}

/// The node of a name in the root.
pub fn found(volume: &PosixVolume, text: &str) -> volume::Result<Arc<dyn Node>> {
    volume.root().unwrap().lookup(&name(text), OpenHow::Attributes)
}

/// Runs a shell command on the host. Its changes count as changes by others.
pub fn others(directory: &Path, script: &str) {
    let done = Command::new("sh").args(["-ec", script]).current_dir(directory).status().unwrap();
    assert!(done.success(), "{script}");
}

/// Whether the tests run as root.
pub fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0)
}

/// Reports that the calling test is skipped. The line goes to the terminal past the test harness, which
/// shows no output of tests that pass. `make test` counts these lines.
pub fn skipped(why: &str) {
    let thread = std::thread::current();
    let _ = writeln!(std::io::stderr(), "SKIPPED {}: {why}", thread.name().unwrap_or("a test"));
}

/// Runs the tests under `filter` of this program again in a child process of the user nobody, and returns
/// how many passed. `None` when the tests are unprivileged anyway.
pub fn again_as_nobody(filter: &str) -> Option<usize> {
    if !is_root() {
        skipped("already without privileges");
        return None;
    }
    let temp_dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(temp_dir.path(), std::fs::Permissions::from_mode(0o1777)).unwrap();
    // The program is copied, because the path to the build directory may be closed to others. Another
    // program copies it: a file cannot be run while a child of this process, started by another test,
    // still has it open for writing.
    let copy = temp_dir.path().join("tests");
    let copied = Command::new("cp").arg(std::env::current_exe().unwrap()).arg(&copy).status();
    assert!(copied.is_ok_and(|status| status.success()));
    let child = Command::new(&copy)
        .args([filter, "--test-threads", "4"])
        .env("TMPDIR", temp_dir.path())
        .current_dir(temp_dir.path())
        .uid(65534)
        .gid(65534)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success(), "{text}\n{}", String::from_utf8_lossy(&child.stderr));
    let passed = text.lines().find_map(|line| line.split(" passed").next()?.rsplit(' ').next()?.parse().ok());
    Some(passed.unwrap_or(0))
}
