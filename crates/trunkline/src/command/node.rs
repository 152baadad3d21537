//! `trunkline node`: serves as a node of a virtual server, and asks or tells the node that runs here.

use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use tenure::{Epoch, FailedAttempt, NodeOwner, TenureRecord};

use super::output;
use crate::cli::{LocationArgs, NodeCommand};
use crate::config::node::TenureKind;
use crate::config::{Config, ConfigError, Node};
use crate::node::failure::FailureMark;
use crate::node::socket::{self, AskError, NodeRequest, NodeResponse, NodeStatus};
use crate::node::store;
use crate::serve::{self, ProcessStart};
use crate::{log, node};

/// The exit status of `node status` for a node that runs and does not serve.
const STANDBY: u8 = 3;
/// The exit status of `node status` for a host on which the node does not run.
const NOT_RUNNING: u8 = 4;
/// The stage of a host on which the node does not run.
const NO_STAGE: &str = "not running";

/// Runs a command on the node of this host. The status has exit statuses of its own
/// (docs/command-line.md).
///
/// # Errors
/// One line for the user.
pub fn run(command: NodeCommand, start: Option<ProcessStart>) -> anyhow::Result<ExitCode> {
    match command {
        NodeCommand::Serve(args) => {
            let (signals, listeners) = start.unwrap_or_else(ProcessStart::begin).parts()?;
            let config = Config::of_file(&args.overrides())?;
            settings(&config)?;
            log::begin(&config)?;
            node::run(&args, &config, signals, listeners)
        }
        NodeCommand::Status { location, json } => return status(&location, json),
        NodeCommand::Move { location, to } => move_away(&location, to),
        NodeCommand::Take { location, hold_s } => tell(&location, &NodeRequest::Take { hold_s }),
        NodeCommand::Hold { location, hold_s } => tell(&location, &NodeRequest::Hold { hold_s }),
        NodeCommand::Fenced { location, node } => tell(&location, &NodeRequest::Fenced { node }),
        NodeCommand::Release(location) => tell(&location, &NodeRequest::Release),
    }?;
    Ok(ExitCode::SUCCESS)
}

/// The settings of a node.
fn settings(config: &Config) -> Result<Node, ConfigError> {
    match &config.node.tenure {
        Some(_) => Ok(config.node.clone()),
        None => Err(ConfigError(
            "there is no node in this configuration: give its file with --config, and `tenure` in [node], \
             \"etcd\", \"flock\" or \"external\""
                .to_owned(),
        )),
    }
}

fn node_of(location: &LocationArgs) -> anyhow::Result<Node> {
    Ok(settings(&Config::of_file(&location.overrides())?)?)
}

fn tell(location: &LocationArgs, request: &NodeRequest) -> anyhow::Result<()> {
    match socket::ask(&node_of(location)?, request)? {
        NodeResponse::Refused(why) => anyhow::bail!("{why}"),
        NodeResponse::Done | NodeResponse::Status(_) => Ok(()),
    }
}

/// The time between two looks at the record of a move.
const LOOKS: Duration = Duration::from_millis(100);
/// The time that the next owner has, besides the term for which the virtual server is reserved: the former
/// owner may be among those that wait once its process is started again. A start may take longer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Moves the virtual server to another node, and waits until a node serves it.
fn move_away(location: &LocationArgs, to: Option<String>) -> anyhow::Result<()> {
    let config = Config::of_file(&location.overrides())?;
    let node = settings(&config)?;
    let store = store::open(&config)?.store;
    let before = store.record().map_err(anyhow::Error::new)?.map_or(Epoch(0), |(record, _)| record.epoch);
    tell(location, &NodeRequest::Move { to: to.clone() })?;
    if node.tenure.is_some_and(|tenure| tenure.value == TenureKind::External) {
        // The program that decides says which node is next.
        return Ok(());
    }
    let times = [config.server.drain_s.value, node.term_s.value];
    let until = Instant::now() + times.map(Duration::from_secs).iter().sum::<Duration>() + PATIENCE;
    let to_start = Duration::from_secs(node.start_timeout_s.value);
    let mut seen = MoveWatch { to, this: node.name.value, before, starting: None, failed: None };
    loop {
        // A store that fails now may answer later.
        let record = store.record().ok().flatten().map(|(record, _)| record);
        if let Some(owner) = record.and_then(|record| seen.look(record)) {
            output::text(seen.moved(&owner).map_err(serve::Failed)?);
            return Ok(());
        }
        let now = Instant::now();
        if now >= until && (seen.starting.is_none() || now >= until + to_start) {
            return Err(serve::Failed(seen.nobody_serves()).into());
        }
        thread::sleep(LOOKS);
    }
}

/// The events of a move, as the records of the tenure store tell them.
struct MoveWatch {
    /// The node that was asked for.
    to: Option<String>,
    /// The former owner.
    this: String,
    /// The last epoch before the move.
    before: Epoch,
    /// The owner that does not serve yet.
    starting: Option<NodeOwner>,
    /// A node that has taken the virtual server in vain.
    failed: Option<FailedAttempt>,
}

impl MoveWatch {
    /// Notes the present record. Returns the new owner once it serves.
    fn look(&mut self, record: TenureRecord) -> Option<NodeOwner> {
        let TenureRecord { owner, is_serving, failed, .. } = record;
        let owner = owner.filter(|owner| owner.epoch > self.before);
        let failed = failed.filter(|failed| failed.epoch > self.before);
        let before = self.starting.take().filter(|before| owner.as_ref() != Some(before));
        let has_told = |before: &NodeOwner| failed.as_ref().is_some_and(|it| it.epoch == before.epoch);
        if let Some(before) = before.filter(|before| !has_told(before)) {
            let why = "it ended before it served".to_owned();
            self.failed = Some(FailedAttempt { node: before.node, epoch: before.epoch, why });
        }
        self.failed = failed.or(self.failed.take());
        match owner {
            Some(owner) if is_serving => return Some(owner),
            owner => self.starting = owner,
        }
        None
    }

    /// The outcome, once a node serves the virtual server again.
    fn moved(&self, owner: &NodeOwner) -> Result<String, String> {
        let NodeOwner { node, epoch, .. } = owner;
        let is_moved = match &self.to {
            Some(to) => to == node,
            None => *node != self.this,
        };
        if is_moved {
            return Ok(format!("node {node} owns the virtual server and serves it (epoch {})\n", epoch.0));
        }
        let has_it = match *node == self.this {
            true => format!("node {node} has taken it back and serves it (epoch {})", epoch.0),
            false => format!("node {node} has taken it and serves it (epoch {})", epoch.0),
        };
        Err(format!("{}; {has_it}; {}", self.trouble(), self.advice()))
    }

    /// The outcome, if no node serves in time.
    fn nobody_serves(&self) -> String {
        match &self.starting {
            Some(NodeOwner { node, epoch, .. }) => format!(
                "node {node} has taken the virtual server (epoch {}) and does not serve it yet; `trunkline \
                 node status` on {node} says what it does",
                epoch.0
            ),
            None => format!("{}; no node serves the virtual server now; {}", self.trouble(), self.advice()),
        }
    }

    /// The reason why the move has failed.
    fn trouble(&self) -> String {
        match (&self.failed, &self.to) {
            (Some(FailedAttempt { node, epoch, why }), _) => {
                format!(
                    "node {node} took the virtual server (epoch {}) and could not serve it: {why}",
                    epoch.0
                )
            }
            (None, Some(to)) => format!("node {to} did not take the virtual server in time"),
            (None, None) => "no other node took the virtual server in time".to_owned(),
        }
    }

    /// The node on which to look.
    fn advice(&self) -> String {
        match (&self.failed, &self.to) {
            (Some(failed), _) => format!("look at `trunkline node status` and at the log on {}", failed.node),
            (None, Some(to)) => format!(
                "does `trunkline node serve` run there, and is `name` in its [node] {to}? `trunkline node \
                 status` on {to} says why it does not serve"
            ),
            (None, None) => {
                "`trunkline node status` on the other nodes says why they do not serve".to_owned()
            }
        }
    }
}

/// Prints the status. The exit status says whether this node serves.
fn status(location: &LocationArgs, json: bool) -> anyhow::Result<ExitCode> {
    let config = Config::of_file(&location.overrides())?;
    let node = settings(&config)?;
    let status = match socket::ask(&node, &NodeRequest::Status) {
        Ok(NodeResponse::Status(status)) => *status,
        Ok(NodeResponse::Refused(why)) => return Err(serve::Failed(why).into()),
        Ok(NodeResponse::Done) => {
            let odd = "the response of the node is not a status; does it run another version of the program?";
            return Err(serve::Failed(odd.to_owned()).into());
        }
        Err(no_node @ AskError::NotRunning { .. }) => of_store(&config, &no_node)?,
        Err(silent) => return Err(serve::Failed(silent.to_string()).into()),
    };
    let text = match json {
        true => serde_json::to_string_pretty(&status)? + "\n",
        false => page(&node.server.value, &status),
    };
    output::text(text);
    Ok(match status.stage.as_str() {
        "serving" => ExitCode::SUCCESS,
        NO_STAGE => ExitCode::from(NOT_RUNNING),
        _ => ExitCode::from(STANDBY),
    })
}

/// The status of a host on which no node runs, as the tenure store and the mark of the last failure know it.
fn of_store(config: &Config, no_node: &AskError) -> anyhow::Result<NodeStatus> {
    let recorded = store::open(config)?.store.record();
    let mut why = no_node.to_string();
    if let Some(last) = FailureMark::new(&config.node).reason().filter(|last| !last.is_empty()) {
        why = format!("{why}; its last attempt to serve failed: {last}");
    }
    if let Err(error) = &recorded {
        why = format!("{why}; {error}");
    }
    Ok(NodeStatus {
        node: config.node.name.value.clone(),
        stage: NO_STAGE.to_owned(),
        record: recorded.ok().flatten().map(|(record, _)| record),
        hindrance: Some(why),
        ..NodeStatus::default()
    })
}

/// The status for people.
fn page(server: &str, status: &NodeStatus) -> String {
    let mut lines = vec![
        ("Virtual server", server.to_owned()),
        ("This node", format!("{}, {}", status.node, status.stage)),
    ];
    if let Some(record) = &status.record {
        lines.push(("Owner", owner(record)));
        if !record.unfenced.is_empty() {
            let names: Vec<_> = record.unfenced.iter().map(|former| former.node.as_str()).collect();
            lines.push(("Not fenced", names.join(", ")));
        }
    }
    if let Some(ms) = status.remaining_ms {
        lines.push(("Term", format!("ends in {}.{} s unless it is renewed", ms / 1000, ms % 1000 / 100)));
    }
    lines.extend(status.hindrance.clone().map(|why| ("Not serving", why)));
    let next = |ms: u64| ("Next attempt", format!("in {}.{} s", ms / 1000, ms % 1000 / 100));
    lines.extend(status.next_attempt_ms.map(next));
    lines.iter().map(|(name, value)| format!("{name:<15} {value}\n")).collect()
}

fn owner(record: &TenureRecord) -> String {
    match &record.owner {
        Some(owner) => format!("{} (epoch {})", owner.node, owner.epoch.0),
        None => format!("none (last epoch {})", record.epoch.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(node: &str, epoch: u64) -> NodeOwner {
        NodeOwner { node: node.into(), epoch: Epoch(epoch), ..NodeOwner::default() }
    }

    fn record(owner: Option<NodeOwner>) -> TenureRecord {
        TenureRecord { owner, ..TenureRecord::default() }
    }

    /// A move from node a, whose epoch was 7.
    fn watch(to: Option<&str>) -> MoveWatch {
        let to = to.map(str::to_owned);
        MoveWatch { to, this: "a".into(), before: Epoch(7), starting: None, failed: None }
    }

    #[test]
    fn a_move_has_succeeded_once_the_other_node_serves() {
        for to in [Some("b"), None] {
            let mut seen = watch(to);
            assert_eq!(seen.look(record(Some(owner("a", 7))).started()), None);
            assert_eq!(seen.look(record(Some(owner("b", 8)))), None);
            assert!(seen.nobody_serves().contains("does not serve it yet"));
            let now = seen.look(record(Some(owner("b", 8))).started()).unwrap();
            let text = "node b owns the virtual server and serves it (epoch 8)\n".to_owned();
            assert_eq!(seen.moved(&now), Ok(text));
        }
    }

    #[test]
    fn a_node_that_took_the_virtual_server_in_vain_is_named_with_its_reason() {
        for to in [Some("b"), None] {
            let mut seen = watch(to);
            seen.look(record(Some(owner("b", 8))));
            let given_back = record(Some(owner("b", 8))).after_failure("port 445 is in use").released(None);
            assert_eq!(seen.look(given_back.clone()), None);
            assert!(seen.nobody_serves().contains("no node serves"), "{}", seen.nobody_serves());
            let back = TenureRecord { owner: Some(owner("a", 9)), ..given_back };
            let now = seen.look(back.started()).unwrap();
            let why = seen.moved(&now).unwrap_err();
            let wanted = "node b took the virtual server (epoch 8) and could not serve it: port 445 is in \
                          use; node a has taken it back and serves it (epoch 9); look at `trunkline node \
                          status`";
            assert!(why.starts_with(wanted), "{why}");
        }
        // One that was killed, or whose start has hung, tells nobody.
        let mut seen = watch(None);
        seen.look(record(Some(owner("b", 8))));
        let now = seen.look(record(Some(owner("a", 9))).started()).unwrap();
        let why = seen.moved(&now).unwrap_err();
        assert!(why.contains("node b took the virtual server (epoch 8)"), "{why}");
        assert!(why.contains("it ended before it served") && why.contains("log on b"), "{why}");
    }

    #[test]
    fn a_move_to_a_node_that_does_not_wait_is_told_of() {
        for (to, now, wanted) in [
            (Some("x"), "a", "node x did not take the virtual server in time; node a has taken it back"),
            (Some("x"), "b", "node x did not take the virtual server in time; node b has taken it"),
            (None, "a", "no other node took the virtual server in time; node a has taken it back"),
        ] {
            let mut seen = watch(to);
            let now = seen.look(record(Some(owner(now, 9))).started()).unwrap();
            let why = seen.moved(&now).unwrap_err();
            assert!(why.starts_with(wanted) && why.contains("`trunkline node status` on"), "{why}");
        }
    }
}
