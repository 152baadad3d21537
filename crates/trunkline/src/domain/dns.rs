//! Asks the host's name servers for SRV records (RFC 2782), which the C library cannot. All servers are asked
//! at once, so that a dead one costs nothing.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::state::store::random;

/// The longest wait for the servers.
const PATIENCE: Duration = Duration::from_secs(3);
/// Time after which a question is sent again, as a datagram may be lost.
const AGAIN: Duration = Duration::from_millis(700);
const SRV: u16 = 33;
/// The most labels and jumps of a name that are followed. Compressed names of an attacker may form a loop.
const MAX_LABELS: usize = 128;

/// A host that offers a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceHost {
    /// Hosts of a smaller number are tried first.
    pub priority: u16,
    /// Its share of the requests among hosts of one priority.
    pub weight: u16,
    /// The port.
    pub port: u16,
    /// The host name, without the last dot.
    pub host: String,
}

/// The response to a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServiceLookup {
    /// A server answered. The list is empty if the name does not exist.
    Answered(Vec<ServiceHost>),
    /// No server answered in time.
    Silent,
}

/// The name servers of the host.
pub fn name_servers() -> Vec<IpAddr> {
    let text = std::fs::read_to_string(Path::new("/etc/resolv.conf")).unwrap_or_default();
    name_servers_of(&text)
}

fn name_servers_of(text: &str) -> Vec<IpAddr> {
    let server = |line: &str| {
        let mut words = line.split_whitespace();
        words.next().filter(|word| *word == "nameserver")?;
        words.next()?.split('%').next()?.parse().ok()
    };
    text.lines().filter_map(server).collect()
}

/// Looks the SRV records of `name` up, best host first.
pub fn services(name: &str, servers: &[IpAddr]) -> ServiceLookup {
    let (send, answers) = mpsc::channel();
    for server in servers {
        let (send, server, name) = (send.clone(), *server, name.to_owned());
        // Nobody else may answer in the place of the server.
        let Ok(id) = random().map(u16::from_be_bytes) else { continue };
        // A thread whose answer comes too late ends by itself.
        std::thread::spawn(move || {
            let _ = send.send(ask(SocketAddr::new(server, 53), &name, id));
        });
    }
    drop(send);
    let begun = Instant::now();
    while let Ok(answer) = answers.recv_timeout(PATIENCE.saturating_sub(begun.elapsed())) {
        if let Some(mut hosts) = answer {
            hosts.sort_by_key(|host| (host.priority, u16::MAX - host.weight));
            return ServiceLookup::Answered(hosts);
        }
    }
    ServiceLookup::Silent
}

fn ask(server: SocketAddr, name: &str, id: u16) -> Option<Vec<ServiceHost>> {
    let any = if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(server).ok()?;
    let question = question(name, id)?;
    let begun = Instant::now();
    let mut buffer = vec![0; 65_536];
    while begun.elapsed() < PATIENCE {
        socket.send(&question).ok()?;
        socket.set_read_timeout(Some(AGAIN)).ok()?;
        if let Ok(count) = socket.recv(&mut buffer)
            && let Some(hosts) = parse(&buffer[..count], id)
        {
            return Some(hosts);
        }
    }
    None
}

/// A question of one name (RFC 1035 4.1).
fn question(name: &str, id: u16) -> Option<Vec<u8>> {
    let mut out = [&id.to_be_bytes()[..], &[1, 0, 0, 1, 0, 0, 0, 0, 0, 0]].concat();
    for label in name.split('.') {
        out.push(u8::try_from(label.len()).ok().filter(|length| (1..64).contains(length))?);
        out.extend(label.as_bytes());
    }
    out.extend([&[0][..], &SRV.to_be_bytes(), &[0, 1]].concat());
    Some(out)
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// The hosts of a response. None if it is not the response to the question, or reports a failure of the
/// server.
fn parse(bytes: &[u8], id: u16) -> Option<Vec<ServiceHost>> {
    let (flags, questions, answers) = (word(bytes, 2)?, word(bytes, 4)?, word(bytes, 6)?);
    let code = flags & 0xf;
    // 3 is that the name does not exist.
    if word(bytes, 0)? != id || flags & 0x8000 == 0 || ![0, 3].contains(&code) {
        return None;
    }
    let mut at = 12;
    for _ in 0..questions {
        at = name_at(bytes, at)?.1 + 4;
    }
    let mut hosts = Vec::new();
    for _ in 0..answers {
        at = name_at(bytes, at)?.1;
        let (kind, length) = (word(bytes, at)?, usize::from(word(bytes, at + 8)?));
        let data = at + 10;
        if kind == SRV {
            let (priority, weight, port) =
                (word(bytes, data)?, word(bytes, data + 2)?, word(bytes, data + 4)?);
            let host = name_at(bytes, data + 6)?.0;
            hosts.push(ServiceHost { priority, weight, port, host });
        }
        at = data + length;
    }
    // A single dot says that the service is not there (RFC 2782).
    hosts.retain(|host| !host.host.is_empty());
    Some(hosts)
}

/// The name at an offset, and the offset behind it.
fn name_at(bytes: &[u8], mut at: usize) -> Option<(String, usize)> {
    let (mut labels, mut end) = (Vec::new(), None);
    for _ in 0..MAX_LABELS {
        let length = *bytes.get(at)?;
        match length {
            0 => return Some((labels.join("."), end.unwrap_or(at + 1))),
            0xc0.. => {
                end = end.or(Some(at + 2));
                at = usize::from(word(bytes, at)? & 0x3fff);
            }
            1..64 => {
                let label = bytes.get(at + 1..at + 1 + usize::from(length))?;
                labels.push(String::from_utf8_lossy(label).into_owned());
                at += 1 + usize::from(length);
            }
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(code: u8) -> Vec<u8> {
        let mut out = question("_ldap._tcp.r", 7).unwrap();
        out[2..4].copy_from_slice(&[0x81, 0x80 | code]);
        out[7] = 2;
        for (priority, label) in [(2_u8, b"dc2"), (1, b"dc1")] {
            // The owner's name is the question's, and the host's name ends with a part of it.
            out.extend([0xc0, 12, 0, 33, 0, 1, 0, 0, 0, 60, 0, 12, 0, priority, 0, 5, 0, 88, 3]);
            out.extend(label);
            out.extend([0xc0, 23]);
        }
        out
    }

    #[test]
    fn hosts_are_read_with_compressed_names() {
        let hosts = parse(&response(0), 7).unwrap();
        let names: Vec<_> = hosts.iter().map(|host| (host.host.as_str(), host.priority, host.port)).collect();
        assert_eq!(names, [("dc2.r", 2, 88), ("dc1.r", 1, 88)]);
        assert_eq!(parse(&response(0), 8), None, "another question's");
        assert_eq!(parse(&response(2), 7), None, "a failure of the server");
    }

    #[test]
    fn no_bytes_make_it_panic_or_turn_in_a_circle() {
        let whole = response(0);
        for at in 0..whole.len() {
            let _ = parse(&whole[..at], 7);
            for value in 0..=255 {
                let mut bytes = whole.clone();
                bytes[at] = value;
                let _ = parse(&bytes, 7);
            }
        }
        let mut circle = whole;
        circle[12..14].copy_from_slice(&[0xc0, 12]);
        assert_eq!(parse(&circle, 7), None);
    }

    #[test]
    fn name_servers_are_those_of_the_resolver() {
        let text = "# a\nsearch x\nnameserver 192.0.2.1\nnameserver fe80::1%eth0\nnameserver x\n";
        let wanted: Vec<IpAddr> = vec!["192.0.2.1".parse().unwrap(), "fe80::1".parse().unwrap()];
        assert_eq!(name_servers_of(text), wanted);
    }
}
