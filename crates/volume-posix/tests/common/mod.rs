//! What the tests of this crate share.
#![allow(dead_code)]

use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use volume::{Name, Node, OpenHow, Volume};
use volume_posix::PosixVolume;

/// A volume on an empty directory of its own, and what removes it all afterwards.
pub fn fresh() -> (PosixVolume, tempfile::TempDir) {
    let place = tempfile::tempdir().unwrap();
    std::fs::create_dir(files(&place)).unwrap();
    (open(&place), place)
}

/// The directory that is served.
pub fn files(place: &tempfile::TempDir) -> PathBuf {
    place.path().join("files")
}

/// Opens the volume of a place, once more if it is open already.
pub fn open(place: &tempfile::TempDir) -> PosixVolume {
    PosixVolume::open(&files(place), &place.path().join("beside")).unwrap()
}

/// A name.
pub fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

/// A new file in the root.
pub fn file(volume: &PosixVolume, text: &str) -> Arc<dyn Node> {
    volume.root().unwrap().create_file(&name(text), 0o644, None).unwrap()
}

/// What a name in the root leads to.
pub fn found(volume: &PosixVolume, text: &str) -> volume::Result<Arc<dyn Node>> {
    volume.root().unwrap().lookup(&name(text), OpenHow::Attributes)
}

/// Runs a shell command on the host; its changes are somebody else's.
pub fn others(directory: &Path, script: &str) {
    let done = Command::new("sh").args(["-ec", script]).current_dir(directory).status().unwrap();
    assert!(done.success(), "{script}");
}

/// Whether the tests run as root.
pub fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0)
}

/// Says that the test which calls this leaves out what it is for: to the terminal, past the harness, which
/// shows nothing of a test that does not fail. `make test` counts these lines.
pub fn skipped(why: &str) {
    let thread = std::thread::current();
    let _ = writeln!(std::io::stderr(), "SKIPPED {}: {why}", thread.name().unwrap_or("a test"));
}

/// Runs the tests under `filter` of this very program again in a child process that is nobody, and says
/// how many passed; none when the tests are unprivileged anyway.
pub fn again_as_nobody(filter: &str) -> Option<usize> {
    if !is_root() {
        skipped("already without privileges");
        return None;
    }
    let place = tempfile::tempdir().unwrap();
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o1777)).unwrap();
    // Copied, since the way to the build directory may be closed to others; by another program, since a file cannot be
    // run while a child of this one, begun by another test just now, still has it open for writing.
    let copy = place.path().join("tests");
    let copied = Command::new("cp").arg(std::env::current_exe().unwrap()).arg(&copy).status();
    assert!(copied.is_ok_and(|status| status.success()));
    let child = Command::new(&copy)
        .args([filter, "--test-threads", "4"])
        .env("TMPDIR", place.path())
        .current_dir(place.path())
        .uid(65534)
        .gid(65534)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success(), "{text}\n{}", String::from_utf8_lossy(&child.stderr));
    let passed = text.lines().find_map(|line| line.split(" passed").next()?.rsplit(' ').next()?.parse().ok());
    Some(passed.unwrap_or(0))
}
