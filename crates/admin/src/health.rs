//! The health of a server: whether it is alive, and whether clients should be sent to it.
//!
//! This file alone defines both words. `trunkline health` asks over the control socket, and monitoring asks
//! over HTTP.
//!
//! | word | meaning |
//! |---|---|
//! | alive | The server answers. A supervisor restarts a server that is not alive |
//! | ready | Clients can be sent to it: [`Health::unready`] is empty |
//!
//! Neither depends on time that clients have. A server in the grace period of NFS is ready, because its
//! clients must reach it to reclaim their opens. The same holds for a server that keeps opens for SMB clients
//! that have not come back yet.
//!
//! A share whose directory is missing does not make the server unready as long as another share works. The
//! clients of the other shares would lose their mounts otherwise. Such shares are in
//! [`Health::faults`], and the line says so.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The health of a server that answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// The reasons why clients should not be sent to the server. Empty: it is ready.
    pub unready: Vec<Unready>,
    /// The number of shares in the configuration.
    pub shares: usize,
    /// The shares that cannot be used.
    pub faults: Vec<ShareFault>,
}

/// A reason why clients should not be sent to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unready {
    /// The server is stopping. It answers the requests that it has received.
    Stopping,
    /// None of the shares can be used.
    NoUsableShare,
    /// The check of the shares has failed, by a defect of the server or for want of threads.
    CheckFailed,
}

/// A share that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShareFault {
    /// The share's name.
    pub share: String,
    /// The directory that it serves.
    pub path: String,
    /// The reason, as the end of a sentence.
    pub why: String,
}

impl Health {
    /// The health of a server with `shares` shares, of which those in `faults` cannot be used. `is_stopping`
    /// tells whether it accepts no more connections.
    pub fn new(is_stopping: bool, shares: usize, faults: Vec<ShareFault>) -> Health {
        let stopping = is_stopping.then_some(Unready::Stopping);
        // A server without shares is ready: its first share is made by command or on the admin page.
        let unusable = (shares > 0 && faults.len() >= shares).then_some(Unready::NoUsableShare);
        Health { unready: stopping.into_iter().chain(unusable).collect(), shares, faults }
    }

    /// Whether clients should be sent to the server.
    pub fn is_ready(&self) -> bool {
        self.unready.is_empty()
    }
}

impl fmt::Display for Unready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unready::Stopping => "the server is stopping",
            Unready::NoUsableShare => "no share can be used",
            Unready::CheckFailed => "the check of the shares has failed; see the log",
        })
    }
}

impl fmt::Display for ShareFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ShareFault { share, path, why } = self;
        // Names and paths may hold line ends.
        write!(f, "share `{}`: {}: {why}", share.escape_debug(), path.escape_debug())
    }
}

/// One line without its end.
impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.unready[..] {
            [] => write!(f, "ready: {} share{}", self.shares, if self.shares == 1 { "" } else { "s" })?,
            reasons => {
                let reasons: Vec<String> = reasons.iter().map(Unready::to_string).collect();
                write!(f, "not ready: {}", reasons.join(", "))?;
            }
        }
        self.faults.iter().try_for_each(|fault| write!(f, "; {fault}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(share: &str) -> ShareFault {
        ShareFault { share: share.to_owned(), path: "/x".to_owned(), why: "the directory is gone".to_owned() }
    }

    #[test]
    fn a_server_is_ready_while_one_of_its_shares_works() {
        let ready = Health::new(false, 2, vec![fault("docs")]);
        assert!(ready.is_ready());
        assert_eq!(ready.to_string(), "ready: 2 shares; share `docs`: /x: the directory is gone");
        assert!(Health::new(false, 0, Vec::new()).is_ready());
        let unready = Health::new(false, 1, vec![fault("a\nb")]);
        assert_eq!(unready.unready, [Unready::NoUsableShare]);
        assert_eq!(
            unready.to_string(),
            "not ready: no share can be used; share `a\\nb`: /x: the directory is gone"
        );
    }

    #[test]
    fn a_server_that_stops_is_not_ready() {
        let stopping = Health::new(true, 1, Vec::new());
        assert!(!stopping.is_ready());
        assert_eq!(stopping.to_string(), "not ready: the server is stopping");
        let line = serde_json::to_string(&stopping).unwrap();
        assert!(line.contains("\"unready\":[\"stopping\"]"), "{line}");
        assert_eq!(serde_json::from_str::<Health>(&line).unwrap(), stopping);
    }
}
