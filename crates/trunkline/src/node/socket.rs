//! The socket of a node: the requests of `trunkline node`, one line of JSON each, and their responses.
//!
//! It lies in `run_dir` of `[node]`, on the node itself, so it answers also while the storage does not.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tenure::ownership::{Hindrance, OwnershipStage};
use tenure::{BootTime, NodeOwner, Ownership, OwnershipEvent, ServingTerm, TenureRecord};

use super::session::whole_ms;
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
    /// The time to the next attempt to take the tenure (ms), if the last one has failed.
    #[serde(default)]
    pub next_attempt_ms: Option<u64>,
    /// The former owners whose fence has failed.
    #[serde(default)]
    pub unfenced: Vec<NodeOwner>,
    /// The time of the next attempt, if the last one has failed.
    #[serde(skip)]
    pub attempt_at: Option<BootTime>,
}

impl NodeStatus {
    /// The status of a node that has asked nobody yet.
    pub(super) fn beginning(node: &str) -> NodeStatus {
        NodeStatus {
            node: node.to_owned(),
            stage: stage_name(OwnershipStage::Waiting).to_owned(),
            hindrance: Some(
                "this process has just begun, and looks at its storage and its settings".to_owned(),
            ),
            ..NodeStatus::default()
        }
    }

    /// The status until `at`, after an attempt to serve that has failed.
    pub(super) fn pausing(node: &str, why: &str, at: BootTime) -> NodeStatus {
        let why = if why.is_empty() { "its log has the reason" } else { why };
        let hindrance =
            format!("the last attempt of this node to serve failed: {why}; other nodes may try first");
        NodeStatus { hindrance: Some(hindrance), attempt_at: Some(at), ..NodeStatus::beginning(node) }
    }

    /// The status as it is at this time.
    fn at(&self, now: BootTime) -> NodeStatus {
        let next_attempt_ms = self.attempt_at.map(|at| whole_ms(at.since(now)));
        NodeStatus { next_attempt_ms, ..self.clone() }
    }

    /// Notes the present state. `own` is this node as an owner.
    pub(super) fn note(
        &mut self,
        ownership: &Ownership,
        own: &NodeOwner,
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
        self.hindrance = hindrance.as_ref().map(|hindrance| shown(hindrance, server, own));
        let has_failed = hindrance.as_ref().is_some_and(|it| !matches!(it, Hindrance::Owned(_)));
        let is_waiting = stage == OwnershipStage::Waiting;
        self.attempt_at = ownership.deadline().filter(|_| has_failed && is_waiting);
        let has_tenure = ownership.record().is_some();
        let until =
            term.filter(|_| has_tenure).map(ServingTerm::until).filter(|until| *until != BootTime::NEVER);
        self.remaining_ms = until.map(|until| whole_ms(until.since(net::boot_time())));
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

/// The reason why the node `own` does not serve, in one line.
pub fn shown(hindrance: &Hindrance, server: &str, own: &NodeOwner) -> String {
    let names = |former: &[tenure::NodeOwner]| {
        let names = former.iter().map(|owner| format!("{} (epoch {})", owner.node, owner.epoch.0));
        names.collect::<Vec<_>>().join(", ")
    };
    match hindrance {
        Hindrance::Owned(record) => match (&record.owner, &record.reserved_for) {
            (Some(owner), _) => {
                let twin = if own.shares_only_name_with(owner) { twins(owner) } else { String::new() };
                let NodeOwner { node, epoch, .. } = owner;
                format!("node {node} owns the virtual server {server} (epoch {}){twin}", epoch.0)
            }
            (None, Some(node)) => format!(
                "the virtual server {server} moves to node {node}; if that one does not come within a term, \
                 any node takes it"
            ),
            (None, None) => format!(
                "nobody has given the virtual server {server} to this node (with `tenure = \"external\"`, \
                 `trunkline node take` does)"
            ),
        },
        Hindrance::Store(error) => error.to_string(),
        Hindrance::Fence { former, why } => {
            let is_own = |former: &NodeOwner| former.node == own.node && !own.shares_only_name_with(former);
            let mend = match former.iter().find(|former| former.node == own.node) {
                Some(same) if is_own(same) => {
                    "; the former owner is an earlier boot of this very machine, which has ended: \
                     `fence_command` must end with status 0 for it (docs/cluster.md)"
                        .to_owned()
                }
                Some(same) => twins(same),
                None => String::new(),
            };
            let former = names(former);
            format!(
                "the files of the virtual server {server} may still be written by {former}, and the \
                 fence failed: {why}{mend}; make sure that the former owner is off, then run \
                 `trunkline node fenced NODE` with its name (docs/two-nodes.md)"
            )
        }
        Hindrance::Start(why) => format!("the server cannot be started: {why}"),
    }
}

/// The advice about another machine with the name of this node, or about this one after it was installed
/// anew.
pub fn twins(other: &NodeOwner) -> String {
    let NodeOwner { node, host, .. } = other;
    format!(
        "; that node {node} runs on another machine ({host}) than this node {node}: give each its own \
         `name` in [node]. If this machine was installed anew or renamed, that was this machine before, and \
         the `name` may stay"
    )
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
    /// Whether another program decides.
    pub is_external: bool,
    /// The store of the tenures that another program gives, once it is open.
    pub external: Arc<OnceLock<Arc<ExternalStore>>>,
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
    let listener = bound.map_err(|error| {
        let (path, why) = (path.display(), os_error(&error));
        anyhow::anyhow!("the socket of this node cannot be made: {path}: {why}; see `run_dir` in [node]")
    })?;
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
    fn handle(&self, stream: &UnixStream) -> io::Result<()> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut line = String::new();
        BufReader::new(stream.take(MAX_REQUEST)).read_line(&mut line)?;
        let response = match serde_json::from_str(&line) {
            Ok(request) => self.respond(request).unwrap_or_else(NodeResponse::Refused),
            Err(error) => NodeResponse::Refused(format!(
                "the node does not understand the request: {error}; does it run the same version as the \
                command?"
            )),
        };
        let mut text = serde_json::to_vec(&response)?;
        text.push(b'\n');
        let mut stream = stream;
        stream.write_all(&text)
    }

    fn respond(&self, request: NodeRequest) -> Result<NodeResponse, String> {
        let status = self.status.lock().at(net::boot_time());
        match request {
            NodeRequest::Status => return Ok(NodeResponse::Status(Box::new(status))),
            NodeRequest::Move { .. } if status.stage != "serving" => {
                let NodeStatus { node, stage, record, .. } = status;
                let owner = record.and_then(|record| record.owner).filter(|owner| owner.node != node);
                let there = owner.map_or(String::new(), |owner| format!("; run it on node {}", owner.node));
                return Err(format!(
                    "node {node} does not serve, so it cannot give the virtual server away; it \
                                    is {stage}{there}"
                ));
            }
            NodeRequest::Move { to } if to.as_ref() == Some(&status.node) => {
                return Err(format!("node {} serves the virtual server already", status.node));
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
                    return Err(format!(
                        "no fence of node {node} has failed on this node, so there is nothing to confirm; \
                         `trunkline node status` names those that have"
                    ));
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
        let store = self.external.get().map(|store| &**store);
        store.ok_or_else(|| match self.is_external {
            true => {
                let status = self.status.lock().at(net::boot_time());
                let why = status.hindrance.unwrap_or_default();
                match status.next_attempt_ms {
                    Some(ms) => format!("this node pauses; try again in {} s; {why}", ms.div_ceil(1000)),
                    None => format!("this node is not ready; try again: {why}"),
                }
            }
            false => "no other program decides here: `tenure` in [node] is not \"external\"".to_owned(),
        })
    }
}

/// The reason why a node cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// No process of this node runs on this host.
    #[error("{}: {}; does `trunkline node serve` run on this host?", path.display(), os_error(error))]
    NotRunning {
        /// The socket.
        path: PathBuf,
        /// The host's error.
        error: io::Error,
    },
    /// A process may be there, and has not answered.
    #[error(
        "the node cannot be asked: {}: {why}; run the command as the user of the node (root), and see \
         whether its process hangs",
        path.display()
    )]
    Silent {
        /// The socket.
        path: PathBuf,
        /// The reason.
        why: String,
    },
}

/// Sends a request to the node that runs on this host.
///
/// # Errors
/// No node runs, or it does not answer.
pub fn ask(node: &Node, request: &NodeRequest) -> Result<NodeResponse, AskError> {
    ask_at(path(node), request)
}

fn ask_at(path: PathBuf, request: &NodeRequest) -> Result<NodeResponse, AskError> {
    let mut stream = match UnixStream::connect(&path) {
        Ok(stream) => stream,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
            return Err(AskError::NotRunning { path, error });
        }
        Err(error) => return Err(AskError::Silent { why: os_error(&error), path }),
    };
    exchange(&mut stream, request).map_err(|error| {
        let why = match error.kind() {
            io::ErrorKind::WouldBlock => format!("it has not answered within {} s", PATIENCE.as_secs()),
            io::ErrorKind::UnexpectedEof => "it has closed the connection without an answer".to_owned(),
            _ => os_error(&error),
        };
        AskError::Silent { path, why }
    })
}

fn exchange(stream: &mut UnixStream, request: &NodeRequest) -> io::Result<NodeResponse> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut text = serde_json::to_vec(request)?;
    text.push(b'\n');
    stream.write_all(&text)?;
    let mut line = String::new();
    BufReader::new(stream.take(1 << 20)).read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tenure::{Epoch, StoreError, TakeOutcome, Taken, Times};

    use super::*;

    fn owner(node: &str) -> NodeOwner {
        NodeOwner { node: node.into(), boot_id: node.into(), epoch: Epoch(1), ..NodeOwner::default() }
    }

    /// A status is read while the node pauses after a failure, so its time is that of the request.
    #[test]
    fn a_pause_shows_the_last_failure_and_the_time_of_the_next_attempt() {
        let at = |ms: u64| BootTime { ns: ms * 1_000_000 };
        let status = NodeStatus::pausing("a", "no disk", at(5000));
        assert_eq!((status.node.as_str(), status.stage.as_str()), ("a", "waiting"));
        let now = status.at(at(1200));
        assert_eq!(now.next_attempt_ms, Some(3800));
        assert!(now.hindrance.is_some_and(|why| why.contains("failed: no disk")));
        assert_eq!(NodeStatus::beginning("a").at(at(1)).next_attempt_ms, None);
    }

    #[test]
    fn two_machines_with_one_name_are_told_of() {
        let on = |machine: &str| NodeOwner { machine_id: machine.into(), host: machine.into(), ..owner("a") };
        let record = TenureRecord { owner: Some(on("m1")), ..TenureRecord::default() };
        let owned = |own: NodeOwner| shown(&Hindrance::Owned(record.clone()), "files", &own);
        assert_eq!(owned(on("m1")), "node a owns the virtual server files (epoch 1)");
        let why = owned(on("m2"));
        assert!(why.contains("another machine (m1)") && why.contains("`name` in [node]"), "{why}");
        let failed = Hindrance::Fence { former: vec![on("m1")], why: "it says no".into() };
        let why = shown(&failed, "files", &on("m2"));
        assert!(why.contains("another machine (m1)") && why.contains("it says no"), "{why}");
        let why = shown(&failed, "files", &on("m1"));
        assert!(why.contains("earlier boot of this very machine") && why.contains("status 0"), "{why}");
    }

    #[test]
    fn a_socket_of_nobody_is_a_node_that_does_not_run() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("node.sock");
        let ask = || ask_at(path.clone(), &NodeRequest::Status);
        assert!(matches!(ask(), Err(AskError::NotRunning { .. })));
        drop(UnixListener::bind(&path).unwrap());
        assert!(matches!(ask(), Err(AskError::NotRunning { .. })));
        std::fs::remove_file(&path).unwrap();
        let listener = UnixListener::bind(&path).unwrap();
        let silent = thread::spawn(move || drop(listener.accept().unwrap()));
        assert!(matches!(ask(), Err(AskError::Silent { .. })));
        silent.join().unwrap();
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
            status.note(ownership, &owner("a"), "files", &last, None);
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
