//! Several client machines as one load: where one client is the limit, more of them start together.
//!
//! On each of them an agent waits (`trunkline load --agent ADDRESS`, [`serve`]); the command that is given
//! `--agents` conducts them ([`conduct`]): it sends each the words of its own command line, waits until all have made
//! everything ready, lets them begin, and merges what they have measured, histogram by histogram.
//!
//! While an agent works it says every while that it is there ([`Message::Alive`]). One that says nothing for
//! `--agent-timeout`, or is not done long after the load must be over, is lost: what the others have measured is reported
//! without it, and that it is missing.
//!
//! Only who has the shared secret is heard ([`channel`]). Passwords of servers never travel: each agent has its own.

mod agent;
mod channel;
mod conductor;

pub use agent::Agent;
pub use conductor::{Conducted, conduct};

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::args::Args;
use crate::report::Measured;

/// Where agents listen unless told otherwise.
const PORT: u16 = 4461;

/// The least length of a secret: whoever sees a connection begin can try guesses at leisure.
const LEAST_SECRET: usize = 16;

/// What is said over a channel. Conductor and agent take turns; only `Alive` may come at any time.
#[derive(Debug, Serialize, Deserialize)]
enum Message {
    /// To an agent: the words behind `trunkline load`, which of all clients it is, and how often it is to say that it is
    /// there.
    Load { words: Vec<String>, number: u32, beat: Duration },
    /// From an agent: it is at work.
    Alive,
    /// From an agent: the next load can begin.
    Ready,
    /// To an agent: begin it.
    Go,
    /// From an agent: what it has measured.
    Measured(Box<Measured>),
    /// To an agent: all have measured; clear away what was made and, unless it was the last, make the next load ready.
    Clear { is_last: bool },
    /// From an agent: all is cleared away after the last load.
    Done,
    /// From an agent: why there is nothing.
    Failed(String),
}

/// The shared secret, from `--secret-file` or the environment.
///
/// # Errors
/// Where there is none, or one that can be guessed.
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
fn place(text: &str) -> Result<(String, u16), Error> {
    let wrong = |why: String| Error::Usage(format!("agent {text}: {why}"));
    if text.parse::<std::net::Ipv6Addr>().is_ok() {
        return Ok((text.to_owned(), PORT));
    }
    let (host, port) = client::written::place(text, PORT).map_err(wrong)?;
    if host.is_empty() {
        return Err(wrong("no host; write HOST or HOST:PORT".to_owned()));
    }
    Ok((host, port))
}
