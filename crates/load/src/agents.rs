//! Load from several client machines at once, for servers that one client cannot saturate.
//!
//! An agent waits on each machine (`trunkline load --agent ADDRESS`, [`Agent::serve`]). The command with
//! `--agents` is the conductor ([`conduct`]). It sends its own command line to each agent, waits until
//! all agents are ready, starts them together, and merges their histograms.
//!
//! While an agent works it sends [`Message::Alive`] at intervals. An agent is lost if it sends nothing
//! for `--agent-timeout`, or if it has not finished long after the end of the load. The results of the
//! others are then reported, with a note that the agent is missing.
//!
//! Only peers with the shared secret are accepted ([`connection`]). Passwords of servers are never sent:
//! each agent has its own.

mod agent;
mod conductor;
mod connection;

pub use agent::Agent;
pub use conductor::{MergedResults, conduct};

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::args::Args;
use crate::report::Measured;

/// The default port of agents.
const PORT: u16 = 4461;

/// The least length of a secret. An observer of the handshake can test guesses offline.
const LEAST_SECRET: usize = 16;

/// A message between conductor and agent. They send in turns; only `Alive` may come at any time.
#[derive(Debug, Serialize, Deserialize)]
enum Message {
    /// To an agent: the words behind `trunkline load`, the number of this client, and the interval of
    /// `Alive` messages.
    Load { words: Vec<String>, number: u32, beat: Duration },
    /// From an agent: it is still working.
    Alive,
    /// From an agent: it is ready for the next load.
    Ready,
    /// To an agent: start the load.
    Go,
    /// From an agent: its results.
    Measured(Box<Measured>),
    /// To an agent: all have finished. Remove the files of the load, and prepare the next load unless
    /// this was the last.
    Clear { is_last: bool },
    /// From an agent: the files of the last load are removed.
    Done,
    /// From an agent: the reason why it has no results.
    Failed(String),
}

/// The shared secret, from `--secret-file` or the environment.
///
/// # Errors
/// If there is none, or if it can be guessed.
pub fn secret(args: &Args) -> Result<String, Error> {
    let (secret, from) = match &args.secret_file {
        Some(file) => {
            let from = format!("--secret-file {}", file.display());
            let text = client::written::secret(file).map_err(|why| Error::Usage(format!("{from}: {why}")))?;
            (text.trim().to_owned(), from)
        }
        None => {
            let none = "agents need a shared secret: give --secret-file FILE, or set TRUNKLINE_SECRET";
            let secret = std::env::var("TRUNKLINE_SECRET").map_err(|_| Error::Usage(none.to_owned()))?;
            (secret, "TRUNKLINE_SECRET".to_owned())
        }
    };
    if secret.len() < LEAST_SECRET {
        return Err(Error::Usage(format!("{from}: the secret must have {LEAST_SECRET} characters or more")));
    }
    Ok(secret)
}

/// `HOST`, `HOST:PORT`, `[ADDRESS]` or `[ADDRESS]:PORT`, as a host and a port.
fn host_and_port(text: &str) -> Result<(String, u16), Error> {
    let wrong = |why: String| Error::Usage(format!("agent {text}: {why}"));
    if text.parse::<std::net::Ipv6Addr>().is_ok() {
        return Ok((text.to_owned(), PORT));
    }
    let (host, port) = client::written::host_and_port(text, PORT).map_err(wrong)?;
    if host.is_empty() {
        return Err(wrong("no host; write HOST or HOST:PORT".to_owned()));
    }
    Ok((host, port))
}
