//! The program as a process, for tests of the whole.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The time that the server may take to start.
const PATIENCE: Duration = Duration::from_secs(60);

/// The path of the program: that of `$TRUNKLINE`, or built with the profile of the calling test.
#[must_use]
pub fn program() -> PathBuf {
    if let Some(program) = std::env::var_os("TRUNKLINE") {
        return program.into();
    }
    // The test is TARGET/PROFILE/deps/NAME-HASH.
    let here = std::env::current_exe().expect("this program has a path");
    let directory = here.parent().and_then(Path::parent).expect("a directory of a profile");
    let profile = match directory.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(name) => name,
    };
    let mut build = Command::new(env!("CARGO"));
    // The features of dependencies follow from what is selected. The whole workspace with an example is what
    // `cargo test --workspace` selects; for the package alone most crates would be compiled once more.
    build.args(["build", "--quiet", "--profile", profile, "--workspace"]);
    build.args(["--bin", "trunkline", "--example", "manual"]);
    // A compiler that is found only by PATH would be that of each package's folder.
    if let Some(toolchain) = option_env!("RUSTUP_TOOLCHAIN") {
        build.env("RUSTUP_TOOLCHAIN", toolchain);
    }
    assert!(build.status().expect("cargo runs").success(), "the program does not build");
    directory.join("trunkline")
}

/// A running server. It is killed when dropped.
pub struct ServerProcess {
    /// The process.
    pub child: Child,
    /// The address for SMB clients.
    pub smb: SocketAddr,
    /// The address for NFS clients, if there is one.
    pub nfs: Option<SocketAddr>,
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl ServerProcess {
    /// Starts a server with the configuration tables `tables`, on loopback, for the user anna. Relative paths
    /// refer to `directory`.
    #[must_use]
    pub fn start(directory: &Path, tables: &str) -> ServerProcess {
        let write = |name: &str, text: &str| std::fs::write(directory.join(name), text).expect("a file");
        write("password", "s3cret");
        let private = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(directory.join("password"), private).expect("its mode");
        let server = "[server]\nlisten = [\"127.0.0.1\"]\nsmb_port = 0\nnfs_port = 0\nstate_dir = \"state\"\n\
                      discovery = false\nlog_level = \"warn\"\nmax_connections = 20000\nmax_channels = 16\n\
                      [[user]]\nname = \"anna\"\npassword_file = \"password\"\n";
        // As root the server refuses users without ids.
        let own = std::fs::metadata("/proc/self").expect("this process");
        let (uid, gid) = (own.uid(), own.gid());
        write("trunkline.toml", &format!("{server}uid = {uid}\ngid = {gid}\n{tables}"));
        let notify = directory.join("notify");
        let notices = UnixDatagram::bind(&notify).expect("a socket for notices");
        notices.set_read_timeout(Some(PATIENCE)).expect("a bound on waiting");
        let output = directory.join("output");
        let child = Command::new(program())
            .args(["serve", "--config", "trunkline.toml"])
            .current_dir(directory)
            .env("NOTIFY_SOCKET", notify)
            .stdin(Stdio::null())
            .stdout(File::create(&output).expect("a file"))
            .spawn()
            .expect("the program starts");
        let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut running = ServerProcess { child, smb: at(0), nfs: None };
        let mut notice = [0; 512];
        loop {
            let length = notices.recv(&mut notice).expect("the server is ready in time");
            if String::from_utf8_lossy(&notice[..length]).lines().any(|line| line == "READY=1") {
                break;
            }
        }
        let text = std::fs::read_to_string(&output).expect("what the server printed");
        let port = |before: &str| {
            let rest = text.split(before).nth(1)?;
            rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
        };
        running.smb = at(port(" -p ").unwrap_or_else(|| panic!("no port in: {text}")));
        running.nfs = port("vers=4.2,port=").map(at);
        running
    }
}
