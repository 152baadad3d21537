//! Debian's Samba as a foreign peer, started by a script of this project.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A running server with the share `files` and the account [`USER`].
pub struct Samba {
    /// The address on which it listens.
    pub address: SocketAddr,
    dir: tempfile::TempDir,
}

/// The account's name and password.
pub const USER: (&str, &str) = ("alice", "Trunk-alice-7");

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proving/servers/samba.sh")
}

impl Samba {
    /// Starts a server. If that is not possible, prints that the test is skipped, and the reason.
    pub fn start(test: &str) -> Option<Samba> {
        let is_root =
            std::fs::metadata("/proc/self").is_ok_and(|it| std::os::unix::fs::MetadataExt::uid(&it) == 0);
        let missing = match (Path::new("/usr/sbin/smbd").exists(), is_root) {
            (true, true) => None,
            (false, _) => Some("smbd is not installed"),
            (true, false) => Some("smbd needs root"),
        };
        if let Some(why) = missing {
            // Unlike that of eprintln, the harness does not capture this output.
            let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {why}");
            return None;
        }
        let dir = tempfile::Builder::new().prefix("client-samba-").tempdir().unwrap();
        // Samba traverses the path to its shares as the user, not as root.
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(dir.path(), open).unwrap();
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        let started = Command::new(script())
            .args(["start", "default"])
            .arg(dir.path())
            .arg(free.port().to_string())
            .output()
            .unwrap();
        assert!(started.status.success(), "{}", String::from_utf8_lossy(&started.stderr));
        Some(Samba { address: free, dir })
    }

    /// The directory behind the share `files`.
    pub fn files(&self) -> PathBuf {
        self.dir.path().join("shares/files")
    }
}

impl Drop for Samba {
    fn drop(&mut self) {
        let _ = Command::new(script()).arg("stop").arg(self.dir.path()).status();
    }
}
