//! A connection between two peers that share a secret. Each proves that it has the secret, over fresh
//! nonces of both. Every later message carries an authentication code over its content and its sequence
//! number. So nobody else can send, change, repeat or remove a message. Messages are not encrypted: they
//! contain no secrets.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign, verify};
use rustix::net::sockopt;

use super::Message;
use crate::Error;

const NONCE: usize = 32;
const CODE: usize = 32;

/// The first bytes from both sides. They detect a peer that is not a load agent or conductor.
const GREETING: &[u8; 16] = b"trunkline-load 2";

/// The largest message in bytes. The histograms of many jobs are the longest.
const MAX_MESSAGE: usize = 256 * 1024 * 1024;

/// The longest wait for the proof of the other side.
const PROOF_TIME: Duration = Duration::from_secs(10);

/// The role of one side of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PeerRole {
    Conductor,
    Agent,
}

impl PeerRole {
    /// The text that the side's proof covers.
    fn word(self) -> &'static str {
        match self {
            PeerRole::Conductor => "I conduct",
            PeerRole::Agent => "I am an agent",
        }
    }
}

/// The interval at which the watching thread checks whether it may end.
const LOOK_TIME: Duration = Duration::from_millis(200);

/// Watches the other side until it is dropped.
#[must_use]
pub(super) struct PeerWatch(#[expect(dead_code, reason = "it only has to be there")] Arc<()>);

/// The result of a look at the incoming data.
#[derive(Debug, PartialEq, Eq)]
enum PeekResult {
    Quiet,
    Speaks,
    Gone,
}

impl PeekResult {
    /// Interprets the result of a peek. A peek also ends early when this process was stopped and
    /// continued.
    fn of(peeked: &io::Result<usize>) -> PeekResult {
        match peeked.as_ref().map_err(io::Error::kind) {
            Ok(1..) => PeekResult::Speaks,
            Err(io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => PeekResult::Quiet,
            Ok(0) | Err(_) => PeekResult::Gone,
        }
    }
}

/// The time after which a host that acknowledges nothing is considered dead.
const DEAD_TIME: Duration = Duration::from_secs(30);

/// Enables keep-alive probes, so that the death of the other host is noticed even without messages.
fn notice_death(stream: &TcpStream) -> io::Result<()> {
    const PROBES: u32 = 3;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, DEAD_TIME / 2)?;
    sockopt::set_tcp_keepintvl(stream, DEAD_TIME / 2 / PROBES)?;
    sockopt::set_tcp_keepcnt(stream, PROBES)?;
    sockopt::set_tcp_user_timeout(stream, u32::try_from(DEAD_TIME.as_millis()).unwrap_or(u32::MAX))?;
    Ok(())
}

/// A connection whose two sides have authenticated.
pub(super) struct AgentConnection {
    stream: TcpStream,
    sender: MessageSender,
    inward: (Key, u64),
}

/// The sending half of a connection. Its clones send one whole message at a time.
#[derive(Clone)]
pub(super) struct MessageSender(Arc<Mutex<SenderState>>);

struct SenderState {
    stream: TcpStream,
    key: Key,
    /// The number of messages that were sent.
    sent: u64,
}

impl MessageSender {
    /// Sends a message.
    pub(super) fn send(&self, message: &Message) -> io::Result<()> {
        let body = serde_json::to_vec(message).map_err(io::Error::other)?;
        let length = u32::try_from(body.len()).map_err(io::Error::other)?;
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let code = sign(&state.key, &[&state.sent.to_be_bytes(), body.as_slice()].concat());
        state.sent += 1;
        state.stream.write_all(&[&length.to_be_bytes(), code.as_ref(), &body].concat())
    }
}

impl AgentConnection {
    /// Connects, and authenticates both sides with the secret.
    pub(super) fn open(mut stream: TcpStream, side: PeerRole, secret: &str) -> io::Result<AgentConnection> {
        stream.set_nodelay(true)?;
        notice_death(&stream)?;
        stream.set_read_timeout(Some(PROOF_TIME))?;
        stream.set_write_timeout(Some(PROOF_TIME))?;
        let mut own = [0; NONCE];
        aws_lc_rs::rand::fill(&mut own).map_err(|_| io::Error::other("the host has no random numbers"))?;
        stream.write_all(&[GREETING.as_slice(), &own].concat())?;
        let mut greeting = [0; GREETING.len() + NONCE];
        stream.read_exact(&mut greeting)?;
        let Some(theirs) = greeting.strip_prefix(GREETING.as_slice()) else {
            return Err(io::Error::other("no trunkline agent of this version is there"));
        };
        let nonces = match side {
            PeerRole::Conductor => [own.as_slice(), theirs].concat(),
            PeerRole::Agent => [theirs, &own].concat(),
        };
        let secret = Key::new(HMAC_SHA256, secret.as_bytes());
        let derive = |what: &str| sign(&secret, &[what.as_bytes(), &nonces].concat());
        // The agent sends no proof to an unauthenticated peer: the peer could test guesses on it.
        if side == PeerRole::Conductor {
            stream.write_all(derive(PeerRole::Conductor.word()).as_ref())?;
        }
        let other = if side == PeerRole::Conductor { PeerRole::Agent } else { PeerRole::Conductor };
        let mut code = [0; CODE];
        stream.read_exact(&mut code).map_err(|_| {
            io::Error::other("it does not take our secret (see --secret-file on both), or does not answer")
        })?;
        verify(&secret, &[other.word().as_bytes(), &nonces].concat(), &code)
            .map_err(|_| io::Error::other("it has another secret; see --secret-file on both"))?;
        if side == PeerRole::Agent {
            stream.write_all(derive(PeerRole::Agent.word()).as_ref())?;
        }
        let key = |what: &str| Key::new(HMAC_SHA256, derive(what).as_ref());
        let (to_agent, to_conductor) = (key("to the agent"), key("to the conductor"));
        let (out, inward) =
            if side == PeerRole::Conductor { (to_agent, to_conductor) } else { (to_conductor, to_agent) };
        let state = SenderState { stream: stream.try_clone()?, key: out, sent: 0 };
        Ok(AgentConnection {
            stream,
            sender: MessageSender(Arc::new(Mutex::new(state))),
            inward: (inward, 0),
        })
    }

    /// Calls `gone` from another thread when the other side disconnects, for as long as the result
    /// exists. Nothing may be received meanwhile.
    pub(super) fn watch(&self, gone: impl FnOnce() + Send + 'static) -> io::Result<PeerWatch> {
        let stream = self.stream.try_clone()?;
        stream.set_read_timeout(Some(LOOK_TIME))?;
        let watched = Arc::new(());
        let is_over = Arc::downgrade(&watched);
        thread::spawn(move || {
            while is_over.strong_count() > 0 {
                match PeekResult::of(&stream.peek(&mut [0])) {
                    PeekResult::Quiet => {}
                    // The message is for the receiver.
                    PeekResult::Speaks => return,
                    PeekResult::Gone => return gone(),
                }
            }
        });
        Ok(PeerWatch(watched))
    }

    /// Sends a message.
    pub(super) fn send(&self, message: &Message) -> io::Result<()> {
        self.sender.send(message)
    }

    /// The sending half, for another thread.
    pub(super) fn sender(&self) -> MessageSender {
        self.sender.clone()
    }

    /// A handle that closes the connection from another thread than the receiver's.
    pub(super) fn end(&self) -> io::Result<TcpStream> {
        self.stream.try_clone()
    }

    /// Receives a message. No part of it may take longer than `time`.
    pub(super) fn receive(&mut self, time: Duration) -> io::Result<Message> {
        self.stream.set_read_timeout(Some(time))?;
        let mut head = [0; 4 + CODE];
        self.stream.read_exact(&mut head)?;
        let (length, code) = head.split_at(4);
        let length = length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
        if length > MAX_MESSAGE {
            return Err(io::Error::other("a message is too long"));
        }
        // The buffer grows with the received data, not with the announced length.
        let mut body = Vec::new();
        (&mut self.stream).take(length as u64).read_to_end(&mut body)?;
        if body.len() < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        verify(&self.inward.0, &[&self.inward.1.to_be_bytes(), body.as_slice()].concat(), code)
            .map_err(|_| io::Error::other("a message has a wrong authentication code"))?;
        self.inward.1 += 1;
        serde_json::from_slice(&body).map_err(io::Error::other)
    }
}

/// The error for users when the connection to an agent fails. An agent may be silent for `silence`.
pub(super) fn failed(name: &str, why: &io::Error, silence: Duration) -> Error {
    let why = match why.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => "it is gone".to_owned(),
        io::ErrorKind::TimedOut => "its host does not answer any more".to_owned(),
        io::ErrorKind::WouldBlock => {
            let silence = silence.as_secs_f64();
            format!(
                "it has said nothing for {silence} s: it is stopped, or its host is (see --agent-timeout)"
            )
        }
        _ => why.to_string(),
    };
    Error::host(format!("agent {name}"), why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    const SOON: Duration = Duration::from_secs(10);

    fn pair(secrets: [&'static str; 2]) -> [io::Result<AgentConnection>; 2] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let agent = thread::spawn(move || {
            AgentConnection::open(listener.accept().unwrap().0, PeerRole::Agent, secrets[0])
        });
        let conductor =
            AgentConnection::open(TcpStream::connect(address).unwrap(), PeerRole::Conductor, secrets[1]);
        [agent.join().unwrap(), conductor]
    }

    #[test]
    fn who_has_the_secret_is_heard() {
        let [agent, conductor] = pair(["the same secret"; 2]).map(Result::unwrap);
        let (mut agent, mut conductor) = (agent, conductor);
        for _ in 0..2 {
            conductor.send(&Message::Go).unwrap();
            assert!(matches!(agent.receive(SOON).unwrap(), Message::Go));
            agent.send(&Message::Failed("why".to_owned())).unwrap();
            assert!(matches!(conductor.receive(SOON).unwrap(), Message::Failed(why) if why == "why"));
        }
    }

    #[test]
    fn who_has_another_secret_or_another_protocol_is_not() {
        assert!(pair(["one secret", "another secret"]).iter().all(Result::is_err));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut other = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        other.write_all(&[b'x'; 256]).unwrap();
        assert!(AgentConnection::open(listener.accept().unwrap().0, PeerRole::Agent, "secret").is_err());
    }

    #[test]
    fn a_host_that_is_switched_off_is_noticed_on_both_sides() {
        for connection in pair(["the same secret"; 2]).map(Result::unwrap) {
            let stream = &connection.stream;
            assert!(sockopt::socket_keepalive(stream).unwrap());
            let probes = sockopt::tcp_keepintvl(stream).unwrap() * sockopt::tcp_keepcnt(stream).unwrap();
            assert_eq!(sockopt::tcp_keepidle(stream).unwrap() + probes, DEAD_TIME);
            assert_eq!(u128::from(sockopt::tcp_user_timeout(stream).unwrap()), DEAD_TIME.as_millis());
        }
    }

    #[test]
    fn who_was_stopped_and_goes_on_does_not_take_the_other_side_for_gone() {
        let failed = |kind: io::ErrorKind| PeekResult::of(&Err(kind.into()));
        assert_eq!(
            [failed(io::ErrorKind::Interrupted), failed(io::ErrorKind::WouldBlock)],
            [PeekResult::Quiet, PeekResult::Quiet]
        );
        assert_eq!(
            [failed(io::ErrorKind::TimedOut), failed(io::ErrorKind::ConnectionReset), PeekResult::of(&Ok(0))],
            [PeekResult::Gone, PeekResult::Gone, PeekResult::Gone]
        );
        assert_eq!(PeekResult::of(&Ok(1)), PeekResult::Speaks);
    }

    #[test]
    fn what_is_changed_or_repeated_on_its_way_is_not_taken() {
        for repeated in [false, true] {
            let [agent, conductor] = pair(["the same secret"; 2]).map(Result::unwrap);
            let mut agent = agent;
            conductor.send(&Message::Ready).unwrap();
            assert!(agent.receive(SOON).is_ok());
            let mut state = conductor.sender.0.lock().unwrap();
            if repeated {
                state.sent = 0;
            } else {
                state.key = Key::new(HMAC_SHA256, b"another");
            }
            drop(state);
            conductor.send(&Message::Ready).unwrap();
            assert!(agent.receive(SOON).is_err());
        }
    }
}
