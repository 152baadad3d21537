//! A server process. It is started, is ready after that, and is killed when it is dropped.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::ProgramDir;

/// The maximum duration of any step.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A running server. Its output and its log are the files `output` and `log` of its directory. It is killed
/// when dropped.
pub struct Server {
    child: Child,
    notices: UnixDatagram,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Server {
    /// Starts `serve` with the directory's `trunkline.toml`, and waits until it is ready.
    pub fn start(program_dir: &ProgramDir) -> Server {
        Server::start_as(program_dir, program_dir.trunkline("serve --config trunkline.toml"))
    }

    /// Starts a command that becomes the server, and waits until it is ready.
    pub fn start_as(program_dir: &ProgramDir, mut command: Command) -> Server {
        let notify = program_dir.path().join("notify");
        // The file exists only if a server was started there before.
        let _ = std::fs::remove_file(&notify);
        let notices = UnixDatagram::bind(&notify).unwrap();
        // The command may run the server as another user.
        std::fs::set_permissions(&notify, std::fs::Permissions::from_mode(0o777)).unwrap();
        notices.set_read_timeout(Some(PATIENCE)).unwrap();
        let output = std::fs::File::create(program_dir.path().join("output")).unwrap();
        let log = std::fs::File::create(program_dir.path().join("log")).unwrap();
        let child = command.env("NOTIFY_SOCKET", notify).stdin(Stdio::null()).stdout(output).stderr(log);
        let server = Server { child: child.spawn().unwrap(), notices };
        server.hears("READY=1");
        server
    }

    /// Waits for a message to the service manager.
    #[track_caller]
    pub fn hears(&self, wanted: &str) {
        let mut buffer = [0; 512];
        loop {
            let length = self.notices.recv(&mut buffer).expect("a notice in time");
            if String::from_utf8_lossy(&buffer[..length]).lines().any(|line| line == wanted) {
                return;
            }
        }
    }

    /// The process ID.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal to the server.
    pub fn signal(&self, signal: &str) {
        let sent = Command::new("/bin/kill").args([signal, &self.pid().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Kills the server, and waits until it has ended.
    pub fn kill(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits until the server has ended in any way.
    pub fn wait(&mut self) -> std::process::ExitStatus {
        self.child.wait().unwrap()
    }
}
