//! Runs the program in its own directory and environment ([`ProgramDir`]), also as a server ([`Server`]).

mod server;

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use assert_cmd::assert::Assert;
use assert_cmd::cargo::CommandCargoExt;

pub use server::{PATIENCE, Server};

/// The user id of this process, and of the servers that it starts. As root a server refuses users without an
/// id.
pub fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The lines of a `[[user]]` that acts as this process.
pub fn own_ids() -> String {
    format!("uid = {}\ngid = {}\n", own_uid(), rustix::process::getegid().as_raw())
}

/// A directory to run the program in.
pub struct ProgramDir {
    dir: tempfile::TempDir,
}

impl ProgramDir {
    /// An empty directory.
    pub fn new() -> ProgramDir {
        ProgramDir { dir: tempfile::tempdir().expect("a temporary directory") }
    }

    /// The path of the directory.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Writes a file in it, and creates parent directories.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().expect("it has one")).expect("a directory");
        std::fs::write(&path, text).expect("a file");
        if ["pw", "wrong"].contains(&name) {
            // A password file that others may read causes a warning.
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("a mode");
        }
        path
    }

    /// The command for the program, with its state in `state`. The program is that of `$TRUNKLINE`, such as a
    /// release build, or the one that is built with the test.
    pub fn trunkline(&self, line: &str) -> Command {
        let mut command = match std::env::var_os("TRUNKLINE") {
            Some(program) => Command::new(program),
            None => Command::cargo_bin("trunkline").expect("it is built"),
        };
        command.current_dir(self.path()).env_clear().env("HOME", self.path());
        command.env("TRUNKLINE_STATE_DIR", self.path().join("state"));
        command.args(line.split_whitespace());
        command
    }

    /// Runs the program with `input` on standard input.
    pub fn run_with(&self, line: &str, input: &str) -> Assert {
        assert_cmd::Command::from_std(self.trunkline(line)).write_stdin(input).assert()
    }

    /// Runs the program.
    pub fn run(&self, line: &str) -> Assert {
        self.run_with(line, "")
    }

    /// All files with their contents, including sockets and locks.
    pub fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        let mut todo = vec![self.path().to_path_buf()];
        while let Some(dir) = todo.pop() {
            for entry in std::fs::read_dir(dir).expect("a directory").flatten() {
                let path = entry.path();
                if path.is_dir() {
                    todo.push(path.clone());
                }
                found.insert(path.clone(), std::fs::read(path).unwrap_or_default());
            }
        }
        found
    }
}
