//! The agent: waits for a conductor with the secret, runs the load that it requests, and returns the
//! results.

use std::ffi::OsString;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use clap::Parser;

use super::connection::{AgentConnection, MessageSender, PeerRole};
use super::{Message, host_and_port};
use crate::args::Args;
use crate::measure::Stop;
use crate::run::{clear, measure};
use crate::{Error, Plan, diskspd};

/// The most connections that may be unauthenticated, or be refused, at once.
const MAX_CONNECTIONS: usize = 16;

/// The longest wait for the other agents to become ready or to finish.
const OTHERS_TIME: Duration = Duration::from_secs(3600);

/// Listens for a conductor.
#[derive(Debug)]
pub struct Agent {
    listener: TcpListener,
    shared: Arc<AgentState>,
}

#[derive(Debug)]
struct AgentState {
    secret: String,
    /// The first line of this file is the password of the servers that are loaded.
    password_file: Option<PathBuf>,
    /// Set while a load runs. Another load is refused then.
    busy: AtomicBool,
    connections: AtomicUsize,
}

/// The command line from a conductor.
#[derive(Debug, Parser)]
#[command(name = "load", no_binary_name = true)]
struct ConductorLine {
    #[command(flatten)]
    args: Args,
}

impl Agent {
    /// Listens at `--agent ADDRESS`; port 0 takes any that is free.
    ///
    /// # Errors
    /// If the address cannot be used.
    pub fn listen(args: &Args, secret: String) -> Result<Agent, Error> {
        let address = args.agent.as_deref().unwrap_or_default();
        let is_any = address.ends_with(":0");
        let (host, port) = host_and_port(address.strip_suffix(":0").unwrap_or(address))?;
        let port = if is_any { 0 } else { port };
        let listener = TcpListener::bind((host.as_str(), port));
        let listener = listener.map_err(|why| Error::host(format!("--agent {address}: listening"), why))?;
        let password_file = args.password_file.clone();
        let shared = AgentState {
            secret,
            password_file,
            busy: AtomicBool::new(false),
            connections: AtomicUsize::new(0),
        };
        Ok(Agent { listener, shared: Arc::new(shared) })
    }

    /// The address that it listens at.
    ///
    /// # Errors
    /// Those of the host.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves one conductor after the other. It returns only on an error.
    ///
    /// # Errors
    /// If no connection can be accepted any more.
    pub fn serve(&self) -> Result<(), Error> {
        for stream in self.listener.incoming() {
            let stream = stream.map_err(|why| Error::host("accepting a connection", why))?;
            let shared = Arc::clone(&self.shared);
            if shared.connections.fetch_add(1, Ordering::AcqRel) >= MAX_CONNECTIONS {
                shared.connections.fetch_sub(1, Ordering::AcqRel);
                continue;
            }
            thread::spawn(move || {
                // A peer without the secret, or one that disconnects, gets no explanation.
                let _ = shared.hear(stream);
                shared.connections.fetch_sub(1, Ordering::AcqRel);
            });
        }
        Ok(())
    }
}

impl AgentState {
    fn hear(&self, stream: TcpStream) -> io::Result<()> {
        let mut connection = AgentConnection::open(stream, PeerRole::Agent, &self.secret)?;
        let Message::Load { words, number, beat } = connection.receive(Duration::from_secs(60))? else {
            return connection.send(&Message::Failed("it was not told what to do".to_owned()));
        };
        if self.busy.swap(true, Ordering::AcqRel) {
            return connection
                .send(&Message::Failed("it is busy with another load; try again later".to_owned()));
        }
        let heart = Heartbeat::start(connection.sender(), beat);
        let done = self.load(&mut connection, words, number);
        drop(heart);
        self.busy.store(false, Ordering::Release);
        connection.send(&match done {
            Ok(()) => Message::Done,
            Err(why) => Message::Failed(why.to_string()),
        })
    }

    fn load(&self, connection: &mut AgentConnection, words: Vec<String>, number: u32) -> Result<(), Error> {
        let lost = |why: io::Error| Error::host("waiting for the other clients", why);
        for plan in self.plans(words, number)? {
            let (stop, mut watch) = (Stop::default(), None);
            let measured = measure(&plan, &stop, || {
                connection.send(&Message::Ready).map_err(lost)?;
                match connection.receive(OTHERS_TIME).map_err(lost)? {
                    Message::Go => {
                        // Without the conductor nobody would receive the results.
                        let stop = stop.clone();
                        watch = Some(connection.watch(move || stop.now()).map_err(lost)?);
                        Ok(())
                    }
                    _ => Err(Error::Wrong("the load was cancelled".to_owned())),
                }
            })?;
            drop(watch);
            let told = connection.send(&Message::Measured(Box::new(measured)));
            let asked = told.and_then(|()| connection.receive(OTHERS_TIME));
            // The files are removed even if the conductor is gone and cannot ask for it.
            clear(&plan)?;
            if matches!(asked.map_err(lost)?, Message::Clear { is_last: true }) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The plans for a command line. Each client works in its own directory.
    fn plans(&self, words: Vec<String>, number: u32) -> Result<Vec<Plan>, Error> {
        let front = ["trunkline", "load"].map(str::to_owned);
        let words = diskspd::spell_out(front.into_iter().chain(words).map(OsString::from));
        let line = ConductorLine::try_parse_from(words.into_iter().skip(2));
        let mut args = line.map_err(|why| Error::Usage(why.to_string()))?.args;
        args.password_file.clone_from(&self.password_file);
        let none = "it has no password for the target: give it --password-file FILE, or set \
                    TRUNKLINE_PASSWORD there";
        let password = args.password()?.ok_or_else(|| Error::Usage(none.to_owned()))?;
        let plans = Plan::all(&args, &password)?;
        Ok(plans.into_iter().map(|plan| plan.of_client(number)).collect())
    }
}

/// Sends `Alive` messages until it is dropped.
pub(super) struct Heartbeat(
    #[expect(dead_code, reason = "its end is what the other side hears")] mpsc::Sender<()>,
);

impl Heartbeat {
    pub(super) fn start(sender: MessageSender, beat: Duration) -> Heartbeat {
        let (stop, over) = mpsc::channel();
        thread::spawn(move || {
            while over.recv_timeout(beat) == Err(RecvTimeoutError::Timeout) {
                // The thread that measures notices a failure of the connection.
                if sender.send(&Message::Alive).is_err() {
                    return;
                }
            }
        });
        Heartbeat(stop)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    const SECRET: &str = "a secret of enough length";
    const SOON: Duration = Duration::from_secs(20);

    /// Requests a load of many minutes, and returns the agent's reply.
    fn ask(address: SocketAddr, here: &std::path::Path) -> (AgentConnection, Message) {
        let stream = TcpStream::connect(address).unwrap();
        let mut connection = AgentConnection::open(stream, PeerRole::Conductor, SECRET).unwrap();
        let words =
            format!("{} --rw randread --bs 4k --filesize 64k --runtime 600 --time_based", here.display());
        let words = words.split_whitespace().map(str::to_owned).collect();
        connection.send(&Message::Load { words, number: 1, beat: 10 * SOON }).unwrap();
        let said = connection.receive(SOON).unwrap();
        (connection, said)
    }

    #[test]
    fn a_load_ends_when_its_conductor_is_gone() {
        let here = tempfile::tempdir().unwrap();
        let args = ConductorLine::parse_from(["--agent", "127.0.0.1:0"]).args;
        let agent = Agent::listen(&args, SECRET.to_owned()).unwrap();
        let address = agent.address().unwrap();
        thread::spawn(move || agent.serve());
        let (conductor, said) = ask(address, here.path());
        assert!(matches!(said, Message::Ready));
        conductor.send(&Message::Go).unwrap();
        assert!(matches!(ask(address, here.path()).1, Message::Failed(_)), "it is busy");
        drop(conductor);
        let until = Instant::now() + SOON;
        while !matches!(ask(address, here.path()).1, Message::Ready) {
            assert!(Instant::now() < until, "it still loads");
            thread::yield_now();
        }
    }
}
