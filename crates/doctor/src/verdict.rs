//! The verdict on one server: the layer that holds it back, by how much, and the changes in order of
//! gain.

use serde::Serialize;

use crate::finding::{ChangeLocation, Finding, Layer};
use crate::measurements::{Cause, Route, Stage, Stopped, TargetMeasurements};
use crate::rules::short;

/// The verdict on one server.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    /// The state in a word.
    pub state: ShareHealth,
    /// The layer that holds it back most.
    pub layer: Option<Layer>,
    /// The verdict as a paragraph. The measurements are in brackets behind each statement.
    pub paragraph: String,
    /// The suggested changes, in order of gain.
    pub changes: Vec<ProposedChange>,
}

/// The state in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ShareHealth {
    /// Nothing that holds it back was seen.
    Healthy,
    /// Something holds it back.
    HeldBack,
    /// The examination ended early.
    Stopped,
}

/// A suggested change.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProposedChange {
    /// The place of the change.
    pub side: ChangeLocation,
    /// The change.
    pub what: String,
    /// The factor by which the share may become faster, if it is known.
    pub gain: Option<f64>,
    /// The kind of the finding that suggests it.
    pub because: &'static str,
}

/// Kinds that prevent all work, however fast the rest is.
const FIRST: [&str; 5] = ["full", "dead_address", "black_hole", "closed_port", "dead_host"];

/// Kinds that were observed directly, often as a report of the server. Other kinds are inferred from
/// rates. Of two that explain the same gain, the former come first.
const TOLD: [&str; 11] = [
    "multichannel_off",
    "client_multichannel_off",
    "no_rss",
    "small_requests",
    "credits",
    "slots",
    "sealing",
    "signing",
    "throttled",
    "unreachable_address",
    "public_address",
];

/// The factor by which the gain of an inferred kind must be larger to come first.
const SURE: f64 = 1.25;

/// The findings that hold the share back, the worst first. Of equal ones, that of the lowest layer comes
/// first.
fn worst_first(findings: &[Finding]) -> Vec<&Finding> {
    let mut held: Vec<&Finding> = findings.iter().filter(|it| it.holds_back).collect();
    let weight = |it: &Finding| {
        let gain = it.gain.unwrap_or(1.15);
        // The gain of work with names applies to only a part of the work.
        let gain = if it.layer == Layer::Metadata { gain.min(1.3) } else { gain };
        let gain = if TOLD.contains(&it.kind) { gain * SURE } else { gain };
        (FIRST.contains(&it.kind), gain)
    };
    held.sort_by(|a, b| {
        let (a_weight, b_weight) = (weight(a), weight(b));
        b_weight.0.cmp(&a_weight.0).then(b_weight.1.total_cmp(&a_weight.1)).then(a.layer.cmp(&b.layer))
    });
    held
}

/// The verdict from findings.
#[must_use]
pub fn verdict(measurements: &TargetMeasurements, findings: &[Finding]) -> Verdict {
    let held = worst_first(findings);
    let mut parts = Vec::new();
    if let Some(stopped) = &measurements.stopped {
        let is_by_address = measurements.route.as_ref().is_some_and(Route::is_by_address);
        parts.push(how_far(stopped, is_by_address));
    }
    let state = match (&measurements.stopped, held.is_empty()) {
        (Some(_), _) => ShareHealth::Stopped,
        (_, true) => ShareHealth::Healthy,
        (_, false) => ShareHealth::HeldBack,
    };
    if state == ShareHealth::Healthy {
        parts.push("Healthy: nothing was found that holds this share back.".to_owned());
        let worth_saying = ["worth", "little_gain", "gain_unsure", "no_gain", "distance", "full_host"];
        let notes = findings.iter().filter(|it| worth_saying.contains(&it.kind));
        parts.extend(notes.map(|it| capital(&statement(it))));
    }
    if let Some(first) = held.first() {
        let gain = first.gain.filter(|gain| *gain > 1.05);
        let by = gain.map(|gain| format!(", by a factor of about {}", short(gain))).unwrap_or_default();
        parts.push(format!("It is held back by its {} layer{by}: {}", first.layer.name(), statement(first)));
        parts.extend(
            held[1..].iter().take(3).map(|it| format!("Also ({}): {}", it.layer.name(), statement(it))),
        );
    }
    let layer = held.first().map(|it| it.layer).or_else(|| measurements.stopped.as_ref().and_then(layer_of));
    let mut changes: Vec<ProposedChange> = Vec::new();
    let worth = findings.iter().filter(|it| !it.holds_back && it.kind == "worth");
    for finding in held.iter().copied().chain(worth) {
        if let Some((side, what)) = &finding.change
            && changes.iter().all(|it| it.what != *what)
        {
            let (side, what, because) = (*side, what.clone(), finding.kind);
            changes.push(ProposedChange { side, what, gain: finding.gain, because });
        }
    }
    Verdict { state, layer, paragraph: parts.join(" "), changes }
}

/// A statement with its measurements.
fn statement(finding: &Finding) -> String {
    let by = finding.rests_on.join("; ");
    if by.is_empty() { format!("{}.", finding.says) } else { format!("{} [{by}].", finding.says) }
}

/// Text with a capital letter, for the start of a sentence.
pub(crate) fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

/// The layer at which an examination ended. If it was interrupted, if its time was over, or if it lost
/// its connection during the work, the layer says nothing.
fn layer_of(stopped: &Stopped) -> Option<Layer> {
    match (stopped.cause, stopped.stage) {
        (Cause::Interrupted, _) => None,
        (Cause::Other, Stage::Data | Stage::Metadata) if !stopped.stalled => None,
        (Cause::LargePackets, _) => Some(Layer::Transport),
        (_, Stage::Name) => Some(Layer::Name),
        (_, Stage::Connect) => Some(Layer::Transport),
        (_, Stage::Negotiate | Stage::LogOn | Stage::Share) => Some(Layer::Protocol),
        (_, Stage::Data) => Some(Layer::Storage),
        (_, Stage::Metadata) => Some(Layer::Metadata),
    }
}

/// How far an examination got, and the meaning of that.
fn how_far(stopped: &Stopped, is_by_address: bool) -> String {
    let got = match stopped.stage {
        Stage::Name => "The examination ended with the name",
        Stage::Connect if is_by_address => "The examination ended at the address: no connection",
        Stage::Connect => "The name has an address, and the examination ended there: no connection",
        Stage::Negotiate => {
            "A TCP connection could be made, and the examination ended with the first message"
        }
        Stage::LogOn => "The server speaks the protocol, and the examination ended with the log-on",
        Stage::Share => "The log-on went well, and the examination ended with the share",
        Stage::Data => "The share could be reached, and the examination ended while it was read and written",
        Stage::Metadata => "Reading and writing went well, and the examination ended with work on names",
    };
    let means = match (stopped.cause, stopped.stage) {
        (Cause::NoName, _) if stopped.stalled => {
            "the name service does not answer: nothing is known of the server"
        }
        (Cause::NoName, _) => "the name is misspelt, or this host's name service does not know it",
        (Cause::Unreachable, _) => {
            "the host is off, or a firewall or a missing route is between: the share's settings are not to \
             blame"
        }
        (Cause::Closed, Stage::Connect) => {
            "the host is there and the network works, but nobody listens on this port: the server is not \
             started, or listens on another one"
        }
        (Cause::LargePackets, _) => {
            "large packets do not arrive on this path, and the server never saw what it did not answer"
        }
        (Cause::Silent, Stage::Negotiate) => {
            "a process listens but sends nothing: the server hangs, or a device in between accepts \
             connections in its name"
        }
        (Cause::Silent, _) => {
            "the server stalls: it took the request and did not answer it; look at its log and its disks"
        }
        (Cause::Protocol, _) => {
            "the process that listens there does not speak this protocol like this client: another service, \
             or a server with no common dialect"
        }
        (Cause::LogOn, _) => {
            "network and server work; the user or the password is wrong, or the user may not log on"
        }
        (Cause::TicketRefused, _) => {
            "network and server work, and the server refused the ticket; no password was tried. Its log \
             names the reason, and `trunkline domain test` on it examines its keys"
        }
        (Cause::Ticket, _) => {
            "network and server work, and Kerberos could not be used, for the reason above; no password was \
             tried"
        }
        (Cause::Share, _) => {
            "network, server and log-on work; there is no such share or directory, or this user may not use \
             it"
        }
        (Cause::Full, _) => "the server has no room",
        (Cause::Interrupted, _) => "the values above were measured until then",
        _ => "the values above were measured until then",
    };
    format!("{got} ({}): {means}.", stopped.why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_gains_most_is_named_first_and_asked_for_first() {
        let measurements = TargetMeasurements::default();
        let found = [
            Finding::held(Layer::Protocol, "signing", "a").gain(1.3).change(ChangeLocation::Server, "x"),
            Finding::note(Layer::Metadata, "trips", "b"),
            Finding::held(Layer::Connections, "multichannel_off", "c")
                .by("4 against 1")
                .gain(3.9)
                .change(ChangeLocation::Server, "y"),
            Finding::held(Layer::Connections, "unreachable_address", "d").change(ChangeLocation::Server, "z"),
        ];
        let verdict = verdict(&measurements, &found);
        assert_eq!((verdict.state, verdict.layer), (ShareHealth::HeldBack, Some(Layer::Connections)));
        let changes: Vec<&str> = verdict.changes.iter().map(|it| it.what.as_str()).collect();
        assert_eq!(changes, ["y", "x", "z"]);
        assert!(verdict.paragraph.contains("about 3.90: c [4 against 1]."), "{}", verdict.paragraph);
    }

    #[test]
    fn every_end_says_how_far_it_got_and_what_that_means() {
        let stages = [
            Stage::Name,
            Stage::Connect,
            Stage::Negotiate,
            Stage::LogOn,
            Stage::Share,
            Stage::Data,
            Stage::Metadata,
        ];
        for stage in stages {
            let stopped = Stopped { stage, why: "no answer".to_owned(), stalled: true, cause: Cause::Silent };
            let measurements = TargetMeasurements { stopped: Some(stopped), ..TargetMeasurements::default() };
            let verdict = verdict(&measurements, &[]);
            assert_eq!(verdict.state, ShareHealth::Stopped);
            assert!(
                verdict.layer.is_some() && verdict.paragraph.contains("no answer"),
                "{}",
                verdict.paragraph
            );
        }
    }

    #[test]
    fn an_end_from_outside_accuses_no_layer() {
        for (cause, stage) in
            [(Cause::Interrupted, Stage::Data), (Cause::Other, Stage::Data), (Cause::Other, Stage::Metadata)]
        {
            let stopped = Stopped { stage, why: "the time was over".to_owned(), stalled: false, cause };
            let measurements = TargetMeasurements { stopped: Some(stopped), ..TargetMeasurements::default() };
            let verdict = verdict(&measurements, &[]);
            assert_eq!((verdict.state, verdict.layer), (ShareHealth::Stopped, None), "{cause:?}");
        }
    }
}
