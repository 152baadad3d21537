//! `trunkline node`: serves as a node of a virtual server, and asks or tells the node that runs here.

use tenure::TenureRecord;

use super::output;
use crate::cli::{LocationArgs, NodeCommand};
use crate::config::{Config, ConfigError, Node};
use crate::node::socket::{self, NodeRequest, NodeResponse, NodeStatus};
use crate::node::store;
use crate::serve::signals::Signals;
use crate::{log, node};

/// Runs a command on the node of this host.
///
/// # Errors
/// One line for the user.
pub fn run(command: NodeCommand) -> anyhow::Result<()> {
    match command {
        NodeCommand::Serve(args) => {
            let signals = Signals::listen()?;
            let config = Config::of_file(&args.overrides())?;
            settings(&config)?;
            log::begin(&config)?;
            node::run(&args, &config, signals)
        }
        NodeCommand::Status { location, json } => status(&location, json),
        NodeCommand::Move { location, to } => tell(&location, &NodeRequest::Move { to }),
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
