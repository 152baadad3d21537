//! `trunkline node`: serves as a node of a virtual server, and asks or tells the node that runs here.

use std::thread;
use std::time::{Duration, Instant};

use tenure::{Epoch, NodeOwner, TenureRecord};

use super::output;
use crate::cli::{LocationArgs, NodeCommand};
use crate::config::node::TenureKind;
use crate::config::{Config, ConfigError, Node};
use crate::node::socket::{self, NodeRequest, NodeResponse, NodeStatus};
use crate::node::store;
use crate::serve::ProcessStart;
use crate::{log, node};

/// Runs a command on the node of this host.
///
/// # Errors
/// One line for the user.
pub fn run(command: NodeCommand, start: Option<ProcessStart>) -> anyhow::Result<()> {
    match command {
        NodeCommand::Serve(args) => {
            let (signals, listeners) = start.unwrap_or_else(ProcessStart::begin).parts()?;
            let config = Config::of_file(&args.overrides())?;
            settings(&config)?;
            log::begin(&config)?;
            node::run(&args, &config, signals, listeners)
        }
        NodeCommand::Status { location, json } => status(&location, json),
        NodeCommand::Move { location, to } => move_away(&location, to),
        NodeCommand::Take { location, hold_s } => tell(&location, &NodeRequest::Take { hold_s }),
        NodeCommand::Hold { location, hold_s } => tell(&location, &NodeRequest::Hold { hold_s }),
        NodeCommand::Fenced { location, node } => tell(&location, &NodeRequest::Fenced { node }),
        NodeCommand::Release(location) => tell(&location, &NodeRequest::Release),
    }
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
/// owner may be among those that wait once its process is started again.
const PATIENCE: Duration = Duration::from_secs(10);

/// Moves the virtual server to another node, and waits until a node has taken it.
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
    loop {
        // A store that fails now may answer later.
        let record = store.record().ok().flatten().map(|(record, _)| record);
        let owner = record.and_then(|record| record.owner).filter(|owner| owner.epoch > before);
        if let Some(owner) = owner {
            output::text(moved(to.as_deref(), &node.name.value, &owner).map_err(anyhow::Error::msg)?);
            return Ok(());
        }
        if Instant::now() >= until {
            let whom = to.map_or("no node".to_owned(), |to| format!("node {to} did not, and no other node"));
            anyhow::bail!("{whom} has taken the virtual server; `trunkline node status` shows why");
        }
        thread::sleep(LOOKS);
    }
}

/// The outcome of a move from `this` node, once a node owns the virtual server again.
fn moved(to: Option<&str>, this: &str, owner: &NodeOwner) -> Result<String, String> {
    let NodeOwner { node, epoch, .. } = owner;
    let has_it = match node == this {
        true => format!("node {node} has taken it back (epoch {})", epoch.0),
        false => format!("node {node} has taken it (epoch {})", epoch.0),
    };
    match to {
        Some(to) if to != node => Err(format!(
            "node {to} did not take the virtual server in time; {has_it}; does `trunkline node serve` run \
             there, and is `name` in its [node] {to}?"
        )),
        None if node == this => Err(format!("no other node took the virtual server in time; {has_it}")),
        _ => Ok(format!("node {node} owns the virtual server (epoch {})\n", epoch.0)),
    }
}

fn status(location: &LocationArgs, json: bool) -> anyhow::Result<()> {
    let config = Config::of_file(&location.overrides())?;
    let node = settings(&config)?;
    let status = match socket::ask(&node, &NodeRequest::Status) {
        Ok(NodeResponse::Status(status)) => *status,
        Ok(NodeResponse::Refused(why)) => anyhow::bail!("{why}"),
        Ok(NodeResponse::Done) => anyhow::bail!("the node's response is not a status"),
        Err(no_node) => of_store(&config, &no_node)?,
    };
    let text = match json {
        true => serde_json::to_string_pretty(&status)? + "\n",
        false => page(&node.server.value, &status),
    };
    output::text(text);
    Ok(())
}

/// The status of a host on which no node runs, as the tenure store knows it.
fn of_store(config: &Config, no_node: &anyhow::Error) -> anyhow::Result<NodeStatus> {
    let recorded = store::open(config)?.store.record();
    let record = recorded.map_err(|error| anyhow::anyhow!("{no_node}; {error}"))?;
    Ok(NodeStatus {
        node: config.node.name.value.clone(),
        stage: "not running".to_owned(),
        record: record.map(|(record, _)| record),
        hindrance: Some(no_node.to_string()),
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

    #[test]
    fn a_move_to_a_node_that_does_not_wait_is_told_of() {
        let owner = |node: &str| NodeOwner {
            node: node.into(),
            boot_id: String::new(),
            epoch: Epoch(9),
            storage_clients: Vec::new(),
        };
        let owned = "node b owns the virtual server (epoch 9)\n".to_owned();
        assert_eq!(moved(Some("b"), "a", &owner("b")), Ok(owned.clone()));
        assert_eq!(moved(None, "a", &owner("b")), Ok(owned));
        for (to, now, wanted) in [
            (
                Some("x"),
                "a",
                "node x did not take the virtual server in time; node a has taken it back (epoch 9)",
            ),
            (Some("x"), "b", "node x did not take the virtual server in time; node b has taken it (epoch 9)"),
            (None, "a", "no other node took the virtual server in time; node a has taken it back (epoch 9)"),
        ] {
            let why = moved(to, "a", &owner(now)).unwrap_err();
            assert!(why.starts_with(wanted), "{why}");
        }
    }
}
