//! Syslog as a place for lines.
//!
//! The host's own daemon gets datagrams as syslog(3) sends them, without a time: it notes the time itself. A
//! daemon on another host gets messages of RFC 5424, one a datagram over UDP (RFC 5426), or each with its
//! length before it over TCP (RFC 6587 3.4.1).

use std::io::{Error, ErrorKind, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use super::target::{LineTarget, line_start};
use crate::config::audit::Daemon;

/// The longest wait for a daemon.
const PATIENCE: Duration = Duration::from_secs(2);
/// RFC 5424 table 2: notice, as Samba's full_audit has it.
const SEVERITY: u8 = 5;

/// The socket to the daemon.
enum DaemonSocket {
    Local(UnixDatagram),
    Udp(UdpSocket),
    Tcp(TcpStream),
}

/// A syslog daemon that takes lines.
pub struct Syslog {
    daemon: Daemon,
    facility: u8,
    /// This host's name in messages.
    host: String,
    link: Option<DaemonSocket>,
    /// Memory for one message.
    message: Vec<u8>,
}

impl Syslog {
    /// A daemon that is connected with the first line.
    pub fn new(daemon: Daemon, facility: u8, host: &str) -> Syslog {
        // RFC 5424 6: printable ASCII without blanks.
        let host: String = host.chars().filter(char::is_ascii_graphic).take(255).collect();
        let host = if host.is_empty() { "-".to_owned() } else { host };
        Syslog { daemon, facility, host, link: None, message: Vec::new() }
    }

    fn connect(&self) -> std::io::Result<DaemonSocket> {
        match &self.daemon {
            Daemon::Local(path) => {
                let socket = UnixDatagram::unbound()?;
                socket.connect(path)?;
                socket.set_write_timeout(Some(PATIENCE))?;
                Ok(DaemonSocket::Local(socket))
            }
            Daemon::Udp(at) => {
                let to = resolve(at)?;
                let from: SocketAddr = if to.is_ipv4() {
                    SocketAddr::from(([0, 0, 0, 0], 0))
                } else {
                    SocketAddr::from(([0_u16; 8], 0))
                };
                let socket = UdpSocket::bind(from)?;
                socket.connect(to)?;
                Ok(DaemonSocket::Udp(socket))
            }
            Daemon::Tcp(at) => {
                let stream = TcpStream::connect_timeout(&resolve(at)?, PATIENCE)?;
                stream.set_write_timeout(Some(PATIENCE))?;
                Ok(DaemonSocket::Tcp(stream))
            }
        }
    }

    /// Makes the message of a line.
    fn compose(&mut self, line: &[u8]) {
        let Syslog { daemon, facility, host, message, .. } = self;
        let (priority, process) = (u16::from(*facility) * 8 + u16::from(SEVERITY), std::process::id());
        message.clear();
        // Writing to memory does not fail.
        if matches!(daemon, Daemon::Local(_)) {
            let _ = write!(message, "<{priority}>trunkline[{process}]: ");
            return message.extend_from_slice(line);
        }
        let _ = write!(message, "<{priority}>1 ");
        crate::calendar::append_rfc3339(message, net::now().wall_ns);
        let _ = write!(message, " {host} trunkline {process} audit - ");
        message.extend_from_slice(line);
        if matches!(daemon, Daemon::Tcp(_)) {
            let length = format!("{} ", message.len());
            message.splice(..0, length.into_bytes());
        }
    }

    fn send(&mut self) -> std::io::Result<()> {
        if self.link.is_none() {
            self.link = Some(self.connect()?);
        }
        let sent = match &mut self.link {
            Some(DaemonSocket::Local(socket)) => socket.send(&self.message).map(drop),
            Some(DaemonSocket::Udp(socket)) => socket.send(&self.message).map(drop),
            Some(DaemonSocket::Tcp(stream)) => stream.write_all(&self.message),
            None => Err(ErrorKind::NotConnected.into()),
        };
        if sent.is_err() {
            // The daemon may have started anew at the same path or address.
            self.link = None;
        }
        sent
    }
}

fn resolve(at: &str) -> std::io::Result<SocketAddr> {
    at.to_socket_addrs()?.next().ok_or_else(|| Error::new(ErrorKind::NotFound, "the host has no address"))
}

impl LineTarget for Syslog {
    fn write(&mut self, lines: &[u8], done: usize) -> std::io::Result<usize> {
        let end = lines[done..].iter().position(|byte| *byte == b'\n').map_or(lines.len(), |at| done + at);
        self.compose(&lines[line_start(lines, done)..end]);
        let was_connected = self.link.is_some();
        match self.send() {
            // A socket that was connected for long may only have lost its daemon's earlier run.
            Err(_) if was_connected => self.send()?,
            other => other?,
        }
        Ok((end + 1).min(lines.len()))
    }

    fn name(&self) -> String {
        format!("syslog at {}", self.daemon)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn the_hosts_own_daemon_gets_one_datagram_a_line_and_may_start_anew() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut syslog = Syslog::new(Daemon::Local(path.clone()), 21, "box");
        assert!(syslog.write(b"{}\n", 0).is_err(), "nobody is there yet");
        for _run in 0..2 {
            let daemon = UnixDatagram::bind(&path).unwrap();
            daemon.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            assert_eq!(syslog.write(b"{\"a\":1}\n{\"b\":2}\n", 0).unwrap(), 8);
            let mut got = [0; 200];
            let length = daemon.recv(&mut got).unwrap();
            let wanted = format!("<173>trunkline[{}]: {{\"a\":1}}", std::process::id());
            assert_eq!(String::from_utf8_lossy(&got[..length]), wanted);
            drop(daemon);
            std::fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn another_host_gets_rfc_5424_with_or_without_lengths() {
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        udp.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let at = format!("udp://{}", udp.local_addr().unwrap());
        let mut syslog = Syslog::new(crate::config::audit::daemon(&at).unwrap(), 21, "box one");
        syslog.write(b"{\"a\":1}\n", 0).unwrap();
        let mut got = [0; 200];
        let length = udp.recv(&mut got).unwrap();
        let text = String::from_utf8_lossy(&got[..length]).into_owned();
        let end = format!("+00:00 boxone trunkline {} audit - {{\"a\":1}}", std::process::id());
        assert!(text.starts_with("<173>1 2") && text.ends_with(&end), "{text}");

        let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let at = format!("tcp://{}", tcp.local_addr().unwrap());
        let mut syslog = Syslog::new(crate::config::audit::daemon(&at).unwrap(), 13, "box");
        syslog.write(b"{\"a\":1}\n", 0).unwrap();
        syslog.write(b"{\"b\":2}\n", 0).unwrap();
        drop(syslog);
        let mut text = String::new();
        tcp.accept().unwrap().0.read_to_string(&mut text).unwrap();
        let (length, rest) = text.split_once(' ').unwrap();
        let (first, second) = rest.split_at(length.parse().unwrap());
        assert!(first.starts_with("<109>1 ") && first.ends_with("{\"a\":1}"), "{text}");
        assert!(second.contains(" <109>1 ") && second.ends_with("{\"b\":2}"), "{text}");
    }
}
