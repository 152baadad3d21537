//! Debian's NFS-Ganesha as a foreign peer, started by a script of this project.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A running server with the export `/files`.
pub struct Ganesha {
    /// The address on which it listens.
    pub address: SocketAddr,
    dir: tempfile::TempDir,
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proving/servers/ganesha.sh")
}

impl Ganesha {
    /// Starts a server. If that is not possible, prints that the test is skipped, and the reason.
    pub fn start(test: &str) -> Option<Ganesha> {
        let is_root =
            std::fs::metadata("/proc/self").is_ok_and(|it| std::os::unix::fs::MetadataExt::uid(&it) == 0);
        let missing = match (Path::new("/usr/bin/ganesha.nfsd").exists(), is_root) {
            (true, true) => None,
            (false, _) => Some("nfs-ganesha is not installed"),
            (true, false) => Some("nfs-ganesha needs root"),
        };
        if let Some(why) = missing {
            // Unlike that of eprintln, the harness does not capture this output.
            let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {why}");
            return None;
        }
        let dir = tempfile::Builder::new().prefix("client-ganesha-").tempdir().unwrap();
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        let started = Command::new(script())
            .args(["start", "nfs"])
            .arg(dir.path())
            .arg(free.port().to_string())
            .output()
            .unwrap();
        assert!(started.status.success(), "{}", String::from_utf8_lossy(&started.stderr));
        Some(Ganesha { address: free, dir })
    }

    /// The directory behind the export `/files`.
    pub fn files(&self) -> PathBuf {
        self.dir.path().join("shares/files")
    }
}

impl Drop for Ganesha {
    fn drop(&mut self) {
        let _ = Command::new(script()).arg("stop").arg(self.dir.path()).status();
    }
}
