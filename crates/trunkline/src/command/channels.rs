//! `trunkline status channels`: the connections of each session, and the reason why it has no others.

use std::fmt::Write;

use admin::channels::{LargeReads, Row, SessionChannels};
use admin::{Channels, Request, Response};

use super::control;
use super::table::{self, plain, shown};
use crate::cli::LocationArgs;
use crate::config::values::bits_per_second;

/// Prints the channels of the server that `location` selects.
pub fn run(location: &LocationArgs, json: bool) -> anyhow::Result<()> {
    let dir = control::state_dir(location)?;
    let Response::Channels(channels) = control::ask_running(&dir, &Request::Channels)? else {
        anyhow::bail!("the server sent an unexpected answer");
    };
    if json {
        println!("{}", serde_json::to_string_pretty(&channels)?);
    } else {
        print!("{}", page(&channels));
    }
    Ok(())
}

/// The channels as text for people.
fn page(channels: &Channels) -> String {
    let mut out = format!("{}, {}\n", plain(&channels.server_name), channels.timestamp);
    if channels.sessions.is_empty() {
        out.push_str("\nNobody is logged on.\n");
    }
    for session in &channels.sessions {
        one_session(session, &mut out);
    }
    out
}

fn one_session(session: &SessionChannels, out: &mut String) {
    let by = match &session.accounts[..] {
        [] => "settings of [server]".to_owned(),
        [one] => format!("account {one}"),
        several => format!("accounts {}", several.join(", ")),
    };
    let user = shown(&session.username);
    let head = format!("Session {}: {user}, {by}, {}", session.session_id, session.dialect);
    let _ = writeln!(out, "\n{}", plain(&head));
    let _ = writeln!(
        out,
        "MaxChannels {}, CurrentChannels {}, FailureCount {}",
        session.max_channels, session.current_channels, session.failure_count
    );
    let _ = writeln!(out, "No further channel: {}", session.why);
    let used: Vec<_> = session.connections.iter().filter(|row| row.selected).map(connection).collect();
    let titles = [
        "SERVER NAME",
        "SELECTED",
        "CLIENT IP",
        "SERVER IP",
        "CLIENT INDEX",
        "SERVER INDEX",
        "CLIENT SPEED",
        "SERVER SPEED",
        "CLIENT RSS",
        "SERVER RSS",
        "RDMA",
        "BYTES IN",
        "BYTES OUT",
        "LARGE READS",
        "REQUESTS",
        "AGE",
    ];
    table::rows(titles, &used, out);
    let used = session.connections.iter().filter_map(|row| Some((row, row.channel.as_ref()?)));
    let client = |row: &Row, port: u16| format!("{}:{port}", row.client_ip.as_deref().unwrap_or_default());
    reasons(used.map(|(row, channel)| (client(row, channel.client_port), &channel.large_reads)), out);
    let unused: Vec<_> = session.connections.iter().filter(|row| !row.selected).map(address).collect();
    let titles =
        ["SERVER NAME", "SELECTED", "SERVER IP", "SERVER INDEX", "SERVER SPEED", "SERVER RSS", "WHY NOT"];
    table::rows(titles, &unused, out);
}

/// Prints why large reads are copied or sent by sendfile, for each connection on which both were tried.
pub(super) fn reasons<'a>(connections: impl Iterator<Item = (String, &'a LargeReads)>, out: &mut String) {
    for (client, reads) in connections {
        if let Some(reason) = reads.reason() {
            let _ = writeln!(out, "Large reads of {}: {reason}", plain(&client));
        }
    }
}

fn connection(row: &Row) -> [String; 16] {
    let channel = row.channel.clone().unwrap_or_default();
    [
        row.server_name.clone(),
        said(row.selected),
        row.client_ip.clone().unwrap_or_default(),
        row.server_ip.clone(),
        known(row.client_interface_index),
        row.server_interface_index.to_string(),
        speed(row.client_link_speed),
        speed(row.server_link_speed),
        row.client_rss_capable.map_or_else(|| "?".to_owned(), said),
        said(row.server_rss_capable),
        said(row.client_rdma_capable && row.server_rdma_capable),
        channel.traffic.bytes_in.to_string(),
        channel.traffic.bytes_out.to_string(),
        channel.large_reads.name().to_owned(),
        channel.traffic.requests.to_string(),
        age(channel.age_seconds),
    ]
}

fn address(row: &Row) -> [String; 7] {
    [
        row.server_name.clone(),
        said(row.selected),
        row.server_ip.clone(),
        row.server_interface_index.to_string(),
        speed(row.server_link_speed),
        said(row.server_rss_capable),
        row.why.clone().unwrap_or_default(),
    ]
}

/// A boolean in the spelling of PowerShell.
fn said(flag: bool) -> String {
    if flag { "True" } else { "False" }.to_owned()
}

fn known(number: Option<u32>) -> String {
    number.map_or_else(|| "?".to_owned(), |number| number.to_string())
}

/// A speed in bit/s with its unit.
fn speed(bps: Option<u64>) -> String {
    bps.map_or_else(|| "?".to_owned(), bits_per_second)
}

/// A duration in its two largest units.
pub fn age(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds / 3600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use admin::channels::{ConnectionCounts, Reason, SendMethodCost, Traffic};

    fn row(server_ip: &str, index: u32) -> Row {
        Row {
            server_name: "FILES".to_owned(),
            server_ip: server_ip.to_owned(),
            server_interface_index: index,
            server_rss_capable: true,
            ..Row::default()
        }
    }

    fn used(client_ip: &str, server_ip: &str, index: u32, age_seconds: u64) -> Row {
        let traffic = Traffic { requests: 17, bytes_in: 4096, bytes_out: 1_234_567 };
        let channel = ConnectionCounts { age_seconds, traffic, ..ConnectionCounts::default() };
        Row {
            selected: true,
            client_ip: Some(client_ip.to_owned()),
            channel: Some(channel),
            ..row(server_ip, index)
        }
    }

    fn unused(server_ip: &str, index: u32, reason: Reason) -> Row {
        Row { reason: Some(reason), why: Some(reason.to_string()), ..row(server_ip, index) }
    }

    #[test]
    fn a_page_shows_each_connection_and_why_there_are_no_others() {
        let mut fast = Row { server_link_speed: Some(10_000_000_000), ..used("10.0.0.5", "10.0.0.1", 2, 59) };
        if let Some(channel) = &mut fast.channel {
            let tried =
                SendMethodCost { copied_cpu_us: 140, sendfile_cpu_us: 100, copied_us: 300, sendfile_us: 310 };
            channel.client_port = 51_000;
            channel.large_reads = LargeReads { sendfile: true, tried: Some(tried) };
        }
        let team = SessionChannels {
            session_id: "7".to_owned(),
            username: "ann\u{1b}[2J".to_owned(),
            accounts: vec!["team".to_owned()],
            dialect: "SMB3_11".to_owned(),
            max_channels: 4,
            current_channels: 2,
            failure_count: 1,
            reason: Reason::NotTried,
            why: Reason::NotTried.to_string(),
            connections: vec![
                fast,
                used("2001:db8::5", "2001:db8::1", 3, 7384),
                unused("127.0.0.1", 1, Reason::Loopback),
                unused("192.0.2.1", 4, Reason::OtherNetwork),
            ],
        };
        let old = SessionChannels {
            session_id: "8".to_owned(),
            dialect: "SMB2_10".to_owned(),
            max_channels: 4,
            current_channels: 1,
            why: Reason::OldDialect.to_string(),
            connections: vec![used("10.0.0.6", "10.0.0.1", 2, 90_000)],
            ..SessionChannels::default()
        };
        let channels = Channels {
            timestamp: "2026-11-20T12:00:00.000000+00:00".to_owned(),
            server_name: "FILES".to_owned(),
            sessions: vec![team, old],
        };
        let wanted = "\
FILES, 2026-11-20T12:00:00.000000+00:00

Session 7: ann\u{fffd}[2J, account team, SMB3_11
MaxChannels 4, CurrentChannels 2, FailureCount 1
No further channel: the client opens none; look at its settings, and at firewalls between
SERVER NAME  SELECTED  CLIENT IP    SERVER IP    CLIENT INDEX  SERVER INDEX  CLIENT SPEED  SERVER SPEED  \
CLIENT RSS  SERVER RSS  RDMA   BYTES IN  BYTES OUT  LARGE READS  REQUESTS  AGE
FILES        True      10.0.0.5     10.0.0.1     ?             2             ?             10G           \
?           True        False  4096      1234567    sendfile     17        59s
FILES        True      2001:db8::5  2001:db8::1  ?             3             ?             ?             \
?           True        False  4096      1234567    copied       17        2h03m
Large reads of 10.0.0.5:51000: sendfile; a MiB took 140 µs of processor time and 300 µs copied, 100 µs and \
310 µs by sendfile
SERVER NAME  SELECTED  SERVER IP  SERVER INDEX  SERVER SPEED  SERVER RSS  WHY NOT
FILES        False     127.0.0.1  1             ?             True        not offered: leads back to this host
FILES        False     192.0.2.1  4             ?             True        no connection; the client is in \
another network, a route is not known

Session 8: -, settings of [server], SMB2_10
MaxChannels 4, CurrentChannels 1, FailureCount 0
No further channel: the client speaks SMB 2.x; several channels need 3.0 or later
SERVER NAME  SELECTED  CLIENT IP  SERVER IP  CLIENT INDEX  SERVER INDEX  CLIENT SPEED  SERVER SPEED  CLIENT \
RSS  SERVER RSS  RDMA   BYTES IN  BYTES OUT  LARGE READS  REQUESTS  AGE
FILES        True      10.0.0.6   10.0.0.1   ?             2             ?             ?             \
?           True        False  4096      1234567    copied       17        1d01h
";
        assert_eq!(page(&channels), wanted);
    }

    #[test]
    fn a_server_without_sessions_says_so() {
        assert!(page(&Channels::default()).ends_with("\n\nNobody is logged on.\n"));
    }
}
