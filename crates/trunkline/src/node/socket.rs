//! The socket of a node: the requests of `trunkline node`, one line of JSON each, and their responses.
//!
//! It lies in `run_dir` of `[node]`, on the node itself, so it answers also while the storage does not.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tenure::ownership::{Hindrance, OwnershipStage};
use tenure::{NodeOwner, Ownership, OwnershipEvent, ServingTerm, TenureRecord};

use super::store::ExternalStore;
use crate::config::{Node, os_error};

/// The longest request.
const MAX_REQUEST: u64 = 4096;
/// The time that a client has for its request, and the node for its response.
const PATIENCE: Duration = Duration::from_secs(5);

/// The pause after a request that failed.
const PAUSE: Duration = Duration::from_millis(20);

/// A request to a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeRequest {
    /// Report the status.
    Status,
    /// Give the virtual server to another node.
    Move {
        /// The name of the node; any without.
        to: Option<String>,
    },
    /// The program that decides gives the tenure to this node.
    Take {
        /// The length of the term (s); without end if none.
        hold_s: Option<u64>,
    },
    /// The program that decides extends the term.
    Hold {
        /// The length of the term from now on (s).
        hold_s: u64,
    },
    /// The program that decides takes the tenure away.
    Release,
    /// An administrator has made sure that a node is off.
    Fenced {
        /// The name of that node.
        node: String,
    },
}

/// A response of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeResponse {
    /// The status.
    Status(Box<NodeStatus>),
    /// It is being done.
    Done,
    /// The reason of a refusal.
    Refused(String),
}

/// The status of a node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// The name of the node.
    pub node: String,
    /// `waiting`, `fencing`, `starting`, `serving`, `releasing`, `ended` or `not running`.
    pub stage: String,
    /// The record of the tenure that this node has, or that it last saw.
    pub record: Option<TenureRecord>,
    /// The time to the end of the term (ms). None without a term, or if the term has no end.
    pub remaining_ms: Option<u64>,
    /// The reason why this node does not serve.
    pub hindrance: Option<String>,
    /// The former owners whose fence has failed.
    #[serde(default)]
    pub unfenced: Vec<NodeOwner>,
}

impl NodeStatus {
    /// Notes the present state.
    pub(super) fn note(
        &mut self,
        ownership: &Ownership,
        server: &str,
        hindrance: &Option<Hindrance>,
        term: Option<&ServingTerm>,
    ) {
        let stage = ownership.stage();
        let hindrance = &hindrance.as_ref().filter(|hindrance| is_present(hindrance, stage)).cloned();
        let owned = match hindrance {
            Some(Hindrance::Owned(record)) => Some(record),
            _ => None,
        };
        self.unfenced = match hindrance {
            Some(Hindrance::Fence { former, .. }) => former.clone(),
            _ => Vec::new(),
        };
        self.node = ownership.node().to_owned();
        self.stage = stage_name(stage).to_owned();
        self.record = ownership.record().or(owned).cloned();
        self.hindrance = hindrance.as_ref().map(|hindrance| shown(hindrance, server));
        let has_tenure = ownership.record().is_some();
        let until = term
            .filter(|_| has_tenure)
            .map(ServingTerm::until)
            .filter(|until| *until != tenure::BootTime::NEVER);
        let remaining = until.map(|until| until.since(net::boot_time()).as_millis());
        self.remaining_ms = remaining.and_then(|ms| u64::try_from(ms).ok());
    }
}

/// Whether the last hindrance still is the reason why the node does not serve. All are over once it has the
/// tenure, but a fence that has failed and is tried again.
fn is_present(hindrance: &Hindrance, stage: OwnershipStage) -> bool {
    match stage {
        OwnershipStage::Waiting => true,
        OwnershipStage::Fencing => matches!(hindrance, Hindrance::Fence { .. }),
        OwnershipStage::Starting
        | OwnershipStage::Serving
        | OwnershipStage::Releasing
        | OwnershipStage::Ended => false,
    }
}

fn stage_name(stage: OwnershipStage) -> &'static str {
    match stage {
        OwnershipStage::Waiting => "waiting",
        OwnershipStage::Fencing => "fencing",
        OwnershipStage::Starting => "starting",
        OwnershipStage::Serving => "serving",
        OwnershipStage::Releasing => "releasing",
        OwnershipStage::Ended => "ended",
    }
}

/// The reason why a node does not serve, in one line.
pub fn shown(hindrance: &Hindrance, server: &str) -> String {
    let names = |former: &[tenure::NodeOwner]| {
        let names = former.iter().map(|owner| format!("{} (epoch {})", owner.node, owner.epoch.0));
        names.collect::<Vec<_>>().join(", ")
    };
    match hindrance {
        Hindrance::Owned(record) => match (&record.owner, &record.reserved_for) {
            (Some(owner), _) => {
                format!("node {} owns the virtual server {server} (epoch {})", owner.node, owner.epoch.0)
            }
            (None, Some(node)) => format!("the virtual server {server} moves to node {node}"),
            (None, None) => format!("nobody has given the virtual server {server} to this node"),
        },
        Hindrance::Store(error) => error.to_string(),
        Hindrance::Fence { former, why } => {
            let former = names(former);
            format!(
                "the files of the virtual server {server} may still be written by {former}, and the \
                 fence failed: {why}; make sure that the former owner is off, then run \
                 `trunkline node fenced NODE` with its name (docs/two-nodes.md)"
            )
        }
        Hindrance::Start(why) => format!("the server cannot be started: {why}"),
    }
}

/// The path of the socket.
pub fn path(node: &Node) -> PathBuf {
    node.run_dir.value.join(format!("node-{}.sock", node.server.value))
}

/// The parts of a node that its socket needs.
pub struct NodeParts {
    /// The events of the driver.
    pub events: Sender<OwnershipEvent>,
    /// The present status.
    pub status: Arc<Mutex<NodeStatus>>,
    /// The former owners of which an administrator has said that they are off.
    pub acknowledged: Arc<Mutex<Vec<NodeOwner>>>,
    /// The store, if another program decides.
    pub external: Option<Arc<ExternalStore>>,
}

/// Answers requests from now on, on a thread of its own.
///
/// # Errors
/// The socket cannot be made.
pub fn serve(node: &Node, parts: NodeParts) -> anyhow::Result<()> {
    let path = path(node);
    // The node's lock is held, so a socket that is there belongs to nobody.
    let _absent = std::fs::remove_file(&path);
    let bound = UnixListener::bind(&path);
    let listener = bound.map_err(|error| anyhow::anyhow!("{}: {}", path.display(), os_error(&error)))?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    thread::Builder::new().name("node socket".into()).spawn(move || {
        for stream in listener.incoming() {
            if let Err(error) = stream.and_then(|stream| parts.handle(&stream)) {
                tracing::debug!(%error, "a request to the node failed");
                // The host may have no descriptor left.
                thread::sleep(PAUSE);
            }
        }
    })?;
    Ok(())
}

impl NodeParts {
    fn handle(&self, stream: &UnixStream) -> std::io::Result<()> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut line = String::new();
        BufReader::new(stream.take(MAX_REQUEST)).read_line(&mut line)?;
        let response = match serde_json::from_str(&line) {
            Ok(request) => self.respond(request).unwrap_or_else(NodeResponse::Refused),
            Err(error) => NodeResponse::Refused(format!("the request is not understood: {error}")),
        };
        let mut text = serde_json::to_vec(&response)?;
        text.push(b'\n');
        let mut stream = stream;
        stream.write_all(&text)
    }

    fn respond(&self, request: NodeRequest) -> Result<NodeResponse, String> {
        let status = self.status.lock().clone();
        match request {
            NodeRequest::Status => return Ok(NodeResponse::Status(Box::new(status))),
            NodeRequest::Move { .. } if status.stage != "serving" => {
                return Err(format!("this node does not serve; it is {}", status.stage));
            }
            NodeRequest::Move { to } if to.as_ref() == Some(&status.node) => {
                return Err(format!("node {} serves already", status.node));
            }
            NodeRequest::Move { to } => self.leave(to),
            NodeRequest::Take { hold_s } => self.external()?.grant(hold_s.map(Duration::from_secs)),
            NodeRequest::Hold { hold_s } => self.external()?.hold(Duration::from_secs(hold_s))?,
            NodeRequest::Release => {
                self.external()?.withdraw();
                self.leave(None);
            }
            NodeRequest::Fenced { node } => {
                let former = status.unfenced.into_iter().filter(|owner| owner.node == node);
                let former: Vec<_> = former.collect();
                if former.is_empty() {
                    return Err(format!("no fence of node {node} has failed here"));
                }
                tracing::warn!(node, "an administrator says that the former owner is off and needs no fence");
                *self.acknowledged.lock() = former;
            }
        }
        Ok(NodeResponse::Done)
    }

    fn leave(&self, to: Option<String>) {
        // The driver lives as long as the process.
        let _ = self.events.send(OwnershipEvent::Leave { to });
    }

    fn external(&self) -> Result<&ExternalStore, String> {
        self.external
            .as_deref()
            .ok_or_else(|| "no other program decides here: `tenure` in [node] is not \"external\"".to_owned())
    }
}

/// Sends a request to the node that runs on this host.
///
/// # Errors
/// No node runs, or it does not answer.
pub fn ask(node: &Node, request: &NodeRequest) -> anyhow::Result<NodeResponse> {
    let path = path(node);
    let mut stream = UnixStream::connect(&path).map_err(|error| {
        let path = path.display();
        anyhow::anyhow!("{path}: {}; does `trunkline node serve` run on this host?", os_error(&error))
    })?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut text = serde_json::to_vec(request)?;
    text.push(b'\n');
    stream.write_all(&text)?;
    let mut line = String::new();
    BufReader::new(stream.take(1 << 20)).read_line(&mut line)?;
    serde_json::from_str(&line).map_err(|error| anyhow::anyhow!("the node's response: {error}"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tenure::{BootTime, Epoch, StoreError, TakeOutcome, Taken, Times};

    use super::*;

    fn owner(node: &str) -> NodeOwner {
        NodeOwner { node: node.into(), boot_id: node.into(), epoch: Epoch(1), storage_clients: Vec::new() }
    }

    #[test]
    fn a_hindrance_that_is_over_is_not_shown() {
        let at = |ms: u64| BootTime { ns: ms * 1_000_000 };
        let term = Duration::from_secs(10);
        let mut ownership = Ownership::new("a".into(), Times::of_term(term), at(0));
        let mut status = NodeStatus::default();
        let mut last = None;
        let mut shown = |ownership: &mut Ownership, event, ms| {
            ownership.handle(event, at(ms));
            last = ownership.take_hindrance().or(last.take());
            status.note(ownership, "files", &last, None);
            (status.stage.clone(), status.hindrance.clone(), status.unfenced.len())
        };
        let took = |asked, outcome| OwnershipEvent::Took { asked: at(asked), outcome };
        let free = TenureRecord { epoch: Epoch(1), owner: Some(owner("b")), ..TenureRecord::default() };
        let taken = Taken { record: free.clone().taken_by(owner("a")), term: Some(term) };
        shown(&mut ownership, OwnershipEvent::Woken, 0);
        let waiting = shown(&mut ownership, took(0, Ok(TakeOutcome::Owned(free))), 10);
        assert!(waiting.1.is_some_and(|why| why.contains("node b owns")));
        shown(&mut ownership, OwnershipEvent::Woken, 10_010);
        let fencing = shown(&mut ownership, took(10_010, Ok(TakeOutcome::Taken(taken.clone()))), 10_020);
        assert_eq!(fencing, ("fencing".to_owned(), None, 0));
        // A fence that has failed stays on show while it is tried again, and until it has succeeded.
        let failed = shown(&mut ownership, OwnershipEvent::Fenced(Err("no".into())), 10_030);
        assert_eq!((failed.0.as_str(), failed.1.is_some(), failed.2), ("waiting", true, 1));
        shown(&mut ownership, OwnershipEvent::Released(Err(StoreError::Refused("no".into()))), 10_040);
        shown(&mut ownership, OwnershipEvent::Woken, 30_000);
        let again = shown(&mut ownership, took(30_000, Ok(TakeOutcome::Taken(taken))), 30_010);
        assert_eq!((again.0.as_str(), again.1.is_some(), again.2), ("fencing", true, 1));
        let starting = shown(&mut ownership, OwnershipEvent::Fenced(Ok(())), 30_020);
        assert_eq!(starting, ("starting".to_owned(), None, 0));
    }
}
