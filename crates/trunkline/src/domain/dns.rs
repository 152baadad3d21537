//! Asks the host's name servers for SRV records (RFC 2782), which the C library cannot. All servers are asked
//! at once, so that a dead one costs nothing.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::state::store::random;

/// The longest wait for the servers.
const PATIENCE: Duration = Duration::from_secs(3);
/// Time after which a question is sent again, as a datagram may be lost.
const AGAIN: Duration = Duration::from_millis(700);
/// The longest wait by TCP. It leaves time to hand on a part of the response within [`PATIENCE`].
const BY_TCP: Duration = Duration::from_secs(2);
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
    /// No server answered in time, or the list had no room in a datagram and did not come by TCP.
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
        let Ok(count) = socket.recv(&mut buffer) else { continue };
        let (response, hosts) = (&buffer[..count], parse(&buffer[..count], id));
        if is_truncated(response, id) {
            // A part of the list is better than none, but an empty part does not say that there is no record.
            let part = hosts.filter(|hosts| !hosts.is_empty());
            let deadline = (begun + PATIENCE).min(Instant::now() + BY_TCP);
            return ask_by_tcp(server, &question, id, deadline).or(part);
        }
        if hosts.is_some() {
            return hosts;
        }
    }
    None
}

/// Asks by TCP, which has room for a long list (RFC 7766). The length goes before each message.
fn ask_by_tcp(server: SocketAddr, question: &[u8], id: u16, deadline: Instant) -> Option<Vec<ServiceHost>> {
    let mut stream = TcpStream::connect_timeout(&server, left(deadline)?).ok()?;
    stream.set_write_timeout(Some(left(deadline)?)).ok()?;
    let length = u16::try_from(question.len()).ok()?.to_be_bytes();
    stream.write_all(&[&length[..], question].concat()).ok()?;
    let mut length = [0; 2];
    fill(&mut stream, &mut length, deadline)?;
    let mut response = vec![0; usize::from(u16::from_be_bytes(length))];
    fill(&mut stream, &mut response, deadline)?;
    parse(&response, id).filter(|_| !is_truncated(&response, id))
}

/// The time until `deadline`, if any is left.
fn left(deadline: Instant) -> Option<Duration> {
    Some(deadline.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero())
}

/// Reads until the buffer is full. A server that sends byte by byte gets no more time.
fn fill(stream: &mut TcpStream, buffer: &mut [u8], deadline: Instant) -> Option<()> {
    let mut filled = 0;
    while filled < buffer.len() {
        stream.set_read_timeout(Some(left(deadline)?)).ok()?;
        match stream.read(&mut buffer[filled..]) {
            Ok(0) => return None,
            Ok(count) => filled += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
    Some(())
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

/// The flags of a response. None if it is not the response to the question, or reports a failure of the
/// server.
fn flags_of(bytes: &[u8], id: u16) -> Option<u16> {
    let flags = word(bytes, 2)?;
    // 3 is that the name does not exist.
    let is_answer = word(bytes, 0)? == id && flags & 0x8000 != 0 && [0, 3].contains(&(flags & 0xf));
    is_answer.then_some(flags)
}

/// Whether a response had no room for all records (TC of RFC 1035 4.1.1).
fn is_truncated(bytes: &[u8], id: u16) -> bool {
    flags_of(bytes, id).is_some_and(|flags| flags & 0x0200 != 0)
}

/// The hosts of a response. None if it is none, as in [`flags_of`], or if it ends too early.
fn parse(bytes: &[u8], id: u16) -> Option<Vec<ServiceHost>> {
    flags_of(bytes, id)?;
    let (questions, answers) = (word(bytes, 4)?, word(bytes, 6)?);
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

    /// A name server that sends `part` in a datagram and `whole` by TCP. Without `whole` it does not listen
    /// there.
    fn name_server(part: Vec<u8>, whole: Option<Vec<u8>>) -> (SocketAddr, std::thread::JoinHandle<()>) {
        let (udp, tcp) = std::iter::repeat_with(|| {
            let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            // Another program may use the port for datagrams.
            Some((UdpSocket::bind(tcp.local_addr().unwrap()).ok()?, tcp))
        })
        .flatten()
        .next()
        .unwrap();
        let at = udp.local_addr().unwrap();
        let tcp = whole.map(|whole| (whole, tcp));
        let run = move || {
            let (_, from) = udp.recv_from(&mut [0; 512]).unwrap();
            udp.send_to(&part, from).unwrap();
            let Some((whole, tcp)) = tcp else { return };
            let (mut stream, _) = tcp.accept().unwrap();
            let wanted = question("_ldap._tcp.r", 7).unwrap();
            let mut asked = vec![0; wanted.len() + 2];
            stream.read_exact(&mut asked).unwrap();
            assert_eq!(asked, [&[0, u8::try_from(wanted.len()).unwrap()][..], &wanted].concat());
            let sent = [&u16::try_from(whole.len()).unwrap().to_be_bytes()[..], &whole].concat();
            // The client may have to read more than once.
            stream.set_nodelay(true).unwrap();
            sent.chunks(sent.len() / 2).for_each(|chunk| stream.write_all(chunk).unwrap());
        };
        (at, std::thread::spawn(run))
    }

    /// A response that says that it is not whole.
    fn truncated(mut response: Vec<u8>, answers: u8) -> Vec<u8> {
        response[2] |= 2;
        response[7] = answers;
        response
    }

    #[test]
    fn a_list_without_room_in_a_datagram_is_asked_for_by_tcp() {
        let asked = |part, whole| {
            let (at, server) = name_server(part, whole);
            let hosts = ask(at, "_ldap._tcp.r", 7);
            server.join().unwrap();
            hosts.map(|hosts| hosts.len())
        };
        let none = || truncated(response(0), 0);
        assert_eq!(asked(none(), Some(response(0))), Some(2));
        assert_eq!(asked(truncated(response(0), 1), Some(response(0))), Some(2));
        // The datagram ends within a record.
        assert_eq!(asked(truncated(response(0), 2)[..40].to_vec(), Some(response(0))), Some(2));
        let missing = [&response(3)[..6], &[0; 6], &response(3)[12..]].concat();
        assert_eq!(asked(none(), Some(missing)), Some(0), "the name does not exist");
        assert_eq!(asked(none(), None), None, "nobody said that the name does not exist");
        assert_eq!(asked(none(), Some(none())), None);
        assert_eq!(asked(truncated(response(0), 1), None), Some(1), "a part is better than none");
    }

    #[test]
    fn name_servers_are_those_of_the_resolver() {
        let text = "# a\nsearch x\nnameserver 192.0.2.1\nnameserver fe80::1%eth0\nnameserver x\n";
        let wanted: Vec<IpAddr> = vec!["192.0.2.1".parse().unwrap(), "fe80::1".parse().unwrap()];
        assert_eq!(name_servers_of(text), wanted);
    }
}
