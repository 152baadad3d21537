//! Listening sockets that a service manager keeps between two processes of a server.

use std::io::{Read, Write};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use rustix::cmsg_space;
use rustix::io::{FdFlags, IoSliceMut, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::{Pid, Signal, kill_process};
use testkit::program::{PATIENCE, ProgramDir, own_ids};

/// A call of NFS's procedure NULL as one record, and the length of its reply.
const NULL_CALL: [u32; 11] = [0x8000_0028, 7, 0, 2, 100_003, 4, 0, 0, 0, 0, 0];
const NULL_REPLY: usize = 28;

/// A service manager with one service.
struct Manager {
    program: Arc<ProgramDir>,
    /// The service's command, and the notice that it has started.
    command: String,
    started: &'static str,
    /// The path of the socket for notices.
    notify: PathBuf,
    notices: UnixDatagram,
    child: Option<Child>,
    /// The stored sockets with their names.
    stored: Vec<(String, TcpListener)>,
}

impl Drop for Manager {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A number that no descriptor of these tests and no passed one has.
const BEYOND_ALL: i32 = 500;

/// A command that passes the sockets as a service manager does: with numbers from 3 on, in an environment
/// that has the program's process ID. It needs the returned descriptors until it is started.
fn passing(program: &Command, sockets: &[(String, TcpListener)]) -> (Command, Vec<OwnedFd>) {
    let script = "n=3; for fd in $PASSED; do eval \"exec $n<&$fd $fd<&-\"; n=$((n + 1)); done; \
                  export LISTEN_PID=$$; exec \"$@\"";
    let mut command = Command::new("bash");
    command.args(["-c", script, "bash"]).arg(program.get_program()).args(program.get_args());
    command.env_clear().current_dir(program.get_current_dir().unwrap());
    command.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if sockets.is_empty() {
        return (command, Vec::new());
    }
    let passed: Vec<OwnedFd> =
        sockets.iter().map(|(_, socket)| fcntl_dupfd_cloexec(socket, BEYOND_ALL).unwrap()).collect();
    for socket in &passed {
        fcntl_setfd(socket, FdFlags::empty()).unwrap();
    }
    let names: Vec<&str> = sockets.iter().map(|(name, _)| name.as_str()).collect();
    command.env("LISTEN_FDS", names.len().to_string()).env("LISTEN_FDNAMES", names.join(":"));
    let numbers: Vec<String> = passed.iter().map(|socket| socket.as_raw_fd().to_string()).collect();
    command.env("PASSED", numbers.join(" "));
    (command, passed)
}

impl Manager {
    fn new() -> Manager {
        Manager::with(&Arc::new(ProgramDir::new()), "serve", "server", "", "READY=1")
    }

    /// One of the nodes that share a directory. It has started once it serves.
    fn of_node(program: &Arc<ProgramDir>, name: &str) -> Manager {
        let table = format!("[node]\ntenure = \"flock\"\nname = \"{name}\"\nrun_dir = \"run-{name}\"\n");
        Manager::with(program, "node serve", name, &table, "STATUS=Serving")
    }

    fn with(
        program: &Arc<ProgramDir>,
        command: &str,
        name: &str,
        table: &str,
        started: &'static str,
    ) -> Manager {
        program.write("pw", "s3cret");
        std::fs::create_dir_all(program.path().join("files")).unwrap();
        let user = format!("[[user]]\nname = \"anna\"\npassword_file = \"pw\"\n{}", own_ids());
        program.write(
            &format!("{name}.toml"),
            &format!(
                "[server]\nlisten = [\"127.0.0.1\"]\ndiscovery = false\n{table}{user}[share.files]\n\
                 path = \"files\"\nusers = {{ \"*\" = \"full\" }}\nprotocols = [\"smb\", \"nfs\"]\n\
                 nfs_secure_port = false\n"
            ),
        );
        let notify = program.path().join(format!("notify-{name}"));
        let notices = UnixDatagram::bind(&notify).unwrap();
        notices.set_read_timeout(Some(PATIENCE)).unwrap();
        let command = format!("{command} --config {name}.toml");
        Manager {
            program: Arc::clone(program),
            command,
            started,
            notify,
            notices,
            child: None,
            stored: Vec::new(),
        }
    }

    /// Starts the service with all stored sockets, and lets it listen on these ports.
    fn begin(&mut self, smb_port: u16, nfs_port: u16) {
        let line = format!("{} --smb-port {smb_port} --nfs-port {nfs_port}", self.command);
        let (mut command, _passed) = passing(&self.program.trunkline(&line), &self.stored);
        command.env("NOTIFY_SOCKET", &self.notify);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.child = Some(command.spawn().unwrap());
    }

    /// The same, and waits until it has started.
    fn start(&mut self, smb_port: u16, nfs_port: u16) {
        self.begin(smb_port, nfs_port);
        while !self.hear().lines().any(|line| line == self.started) {}
    }

    /// Starts it on free ports and kills it. Returns the addresses of its sockets for SMB and NFS.
    fn start_and_kill(&mut self) -> [SocketAddr; 2] {
        self.start(0, 0);
        let [smb, nfs] = self.addresses()[..] else { panic!("{:?}", self.stored) };
        self.kill();
        [smb, nfs]
    }

    /// Receives the next message, and does what it asks for.
    fn hear(&mut self) -> String {
        let mut buffer = [0; 512];
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(2))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut slices = [IoSliceMut::new(&mut buffer)];
        let received = recvmsg(&self.notices, &mut slices, &mut control, RecvFlags::CMSG_CLOEXEC).unwrap();
        let mut sockets: Vec<OwnedFd> = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(passed) = message {
                sockets.extend(passed);
            }
        }
        let text = String::from_utf8_lossy(&buffer[..received.bytes]).into_owned();
        let name = text.lines().find_map(|line| line.strip_prefix("FDNAME=")).unwrap_or_default();
        if text.lines().any(|line| line == "FDSTORE=1") {
            self.stored
                .extend(sockets.into_iter().map(|socket| (name.to_owned(), TcpListener::from(socket))));
        }
        if text.lines().any(|line| line == "FDSTOREREMOVE=1") {
            self.stored.retain(|(stored, _)| stored != name);
        }
        text
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// The addresses of the stored sockets, in the order in which they came.
    fn addresses(&self) -> Vec<SocketAddr> {
        self.stored.iter().map(|(_, socket)| socket.local_addr().unwrap()).collect()
    }
}

fn ask_null(server: SocketAddr) -> TcpStream {
    let mut client = TcpStream::connect(server).expect("a queue");
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let call: Vec<u8> = NULL_CALL.iter().flat_map(|word| word.to_be_bytes()).collect();
    client.write_all(&call).unwrap();
    client
}

#[test]
fn a_client_that_connects_between_two_processes_is_answered() {
    let mut manager = Manager::new();
    let [smb, nfs] = manager.start_and_kill();
    let mut client = ask_null(nfs);
    manager.start(smb.port(), nfs.port());
    let mut reply = [0; NULL_REPLY];
    client.read_exact(&mut reply).unwrap();
    assert_eq!(reply[4..8], 7u32.to_be_bytes(), "the call's number");
    assert_eq!(manager.addresses(), [smb, nfs], "they are stored once");
    // A new one on the same port needs no new socket either.
    ask_null(nfs).read_exact(&mut reply).unwrap();
}

#[test]
fn a_socket_that_the_next_process_does_not_want_is_closed() {
    let mut manager = Manager::new();
    let [smb, nfs] = manager.start_and_kill();
    let duplicates: Vec<_> = manager.stored.iter().map(|(_, socket)| socket.try_clone().unwrap()).collect();
    manager.start(smb.port(), 0);
    let found = manager.addresses();
    assert!(found.len() == 2 && found.contains(&smb) && !found.contains(&nfs), "{found:?}");
    TcpStream::connect(nfs).expect_err("nobody listens there, although the manager has it still");
    drop(duplicates);
}

#[test]
fn what_is_no_list_of_sockets_is_refused_in_one_line() {
    let program = ProgramDir::new();
    let said = |line: &str, variable: (&str, &str)| {
        let (mut command, _) = passing(&program.trunkline(line), &[]);
        let output = command.env(variable.0, variable.1).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let line = "serve --config missing.toml";
    for wrong in ["x", "-1", "4294967295", "40"] {
        let text = said(line, ("LISTEN_FDS", wrong));
        assert!(text.lines().count() == 1 && text.contains("the sockets of the service manager"), "{text}");
    }
    // They are for another process.
    let mut plain = program.trunkline(line);
    let output = plain.env("LISTEN_PID", "1").env("LISTEN_FDS", "x").output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("missing.toml") && !text.contains("service manager"), "{text}");
}

#[test]
fn a_node_refuses_a_socket_that_listens_while_it_waits() {
    let program = ProgramDir::new();
    program.write("trunkline.toml", "[node]\ntenure = \"flock\"\nrun_dir = \"run\"\n");
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let sockets = [("trunkline.socket".to_owned(), socket)];
    let (mut command, _passed) = passing(&program.trunkline("node serve --config trunkline.toml"), &sockets);
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains(&format!("the service manager listens on {address}")), "{text}");
    assert_eq!(output.status.code(), Some(2), "{text}");
}

#[test]
fn a_node_that_waits_keeps_no_sockets() {
    let program = Arc::new(ProgramDir::new());
    let (mut first, mut second) = (Manager::of_node(&program, "a"), Manager::of_node(&program, "b"));
    let [smb, nfs] = first.start_and_kill();
    second.start(0, 0);
    let duplicates: Vec<_> = first.stored.iter().map(|(_, socket)| socket.try_clone().unwrap()).collect();
    TcpStream::connect(nfs).expect("the manager has the socket");
    first.begin(smb.port(), nfs.port());
    while !first.stored.is_empty() {
        first.hear();
    }
    for address in [smb, nfs] {
        TcpStream::connect(address).expect_err("nobody would answer");
    }
    drop(duplicates);
}

#[test]
fn a_node_that_was_killed_goes_on_with_its_sockets_and_closes_them_at_its_end() {
    let program = Arc::new(ProgramDir::new());
    let mut node = Manager::of_node(&program, "a");
    let [smb, nfs] = node.start_and_kill();
    let mut client = ask_null(nfs);
    node.start(smb.port(), nfs.port());
    let mut reply = [0; NULL_REPLY];
    client.read_exact(&mut reply).unwrap();
    assert_eq!(node.addresses(), [smb, nfs]);
    let child = node.child.as_ref().unwrap();
    kill_process(Pid::from_child(child), Signal::TERM).unwrap();
    while !node.stored.is_empty() {
        node.hear();
    }
}
