//! `trunkline status workload`: the load of clients on shares, and recommendations.

use std::collections::BTreeMap;
use std::fmt::Write;

use admin::transactions::IoCounters;
use admin::workload::{ClientWork, ShareWork};
use admin::{Request, Response, Workload};

use super::control;
use super::table::{self, plain, shown};
use crate::cli::LocationArgs;

/// Prints the workload of the server that `location` selects.
pub fn run(location: &LocationArgs, json: bool) -> anyhow::Result<()> {
    let dir = control::state_dir(location)?;
    let Response::Workload(workload) = control::ask_running(&dir, &Request::Workload)? else {
        anyhow::bail!("the server sent an unexpected answer");
    };
    if json {
        println!("{}", serde_json::to_string_pretty(&workload)?);
    } else {
        print!("{}", page(&workload));
    }
    Ok(())
}

/// The workload as text for people.
fn page(workload: &Workload) -> String {
    let mut out = format!("{}, {}\n", plain(&workload.server_name), workload.timestamp);
    let _ = writeln!(out, "\nShares since {}: {}", workload.since, workload.shares.len());
    let titles = ["SHARE", "OVER", "OPERATIONS", "METADATA", "READS", "OF", "WRITES", "OF"];
    let row = |share: &ShareWork| {
        let [operations, metadata, reads, read_size, writes, write_size] = figures(&share.work);
        let name = share.file_share.clone();
        [name, share.protocol.clone(), operations, metadata, reads, read_size, writes, write_size]
    };
    table::rows(titles, &workload.shares.iter().map(row).collect::<Vec<_>>(), &mut out);
    for share in &workload.shares {
        told(&format!("{} over {}", share.file_share, share.protocol), &share.advice, &mut out);
    }
    let _ = writeln!(out, "\nClients since they connected: {}", workload.clients.len());
    let titles = [
        "CLIENT",
        "USER",
        "OVER",
        "SHARE",
        "OPERATIONS",
        "METADATA",
        "READS",
        "OF",
        "WRITES",
        "OF",
        "CONNECTIONS",
        "AT ONCE",
        "MOST",
        "OPEN",
    ];
    let row = |client: &ClientWork| {
        let [operations, metadata, reads, read_size, writes, write_size] = figures(&client.work);
        [
            shown(&client.client),
            shown(&client.user),
            client.protocol.clone(),
            client.file_share.clone(),
            operations,
            metadata,
            reads,
            read_size,
            writes,
            write_size,
            client.connections.to_string(),
            format!("{:.1}", client.at_once_thousandths as f64 / 1000.0),
            client.most_at_once.to_string(),
            client.open_files.to_string(),
        ]
    };
    table::rows(titles, &workload.clients.iter().map(row).collect::<Vec<_>>(), &mut out);
    for client in &workload.clients {
        told(&format!("{} on {}", client.client, client.file_share), &client.advice, &mut out);
    }
    out
}

fn told(of: &str, advice: &[String], out: &mut String) {
    for line in advice {
        let _ = writeln!(out, "  {}: {line}", plain(of));
    }
}

/// Operations, what part of them is metadata, reads and their usual size, writes and theirs.
fn figures(work: &IoCounters) -> [String; 6] {
    let all = work.reads + work.writes + work.metadata;
    let metadata =
        work.metadata_share().map_or_else(|| "-".to_owned(), |part| format!("{:.1} %", part * 100.0));
    [
        all.to_string(),
        metadata,
        work.reads.to_string(),
        usual(&work.read_sizes),
        work.writes.to_string(),
        usual(&work.write_sizes),
    ]
}

/// The size that half of all do not exceed.
fn usual(sizes: &BTreeMap<u64, u64>) -> String {
    let all: u64 = sizes.values().sum();
    let mut seen = 0;
    let half = sizes.iter().find(|(_, count)| {
        seen += **count;
        seen * 2 >= all
    });
    half.map_or_else(|| "-".to_owned(), |(size, _)| size_text(*size))
}

fn size_text(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_says_what_is_done_and_what_would_help() {
        let work = IoCounters {
            reads: 3,
            metadata: 1,
            read_sizes: [(4096, 2), (1 << 20, 1)].into(),
            ..IoCounters::default()
        };
        let share = ShareWork {
            file_share: "docs".to_owned(),
            protocol: "SMB".to_owned(),
            work: work.clone(),
            advice: vec!["nothing stands out".to_owned()],
            ..ShareWork::default()
        };
        let client = ClientWork {
            client: "10.0.0.5".to_owned(),
            user: "ann\u{1b}".to_owned(),
            file_share: "docs".to_owned(),
            work,
            connections: 4,
            at_once_thousandths: 2500,
            most_at_once: 32,
            open_files: 7,
            ..ClientWork::default()
        };
        let page = page(&Workload { shares: vec![share], clients: vec![client], ..Workload::default() });
        assert!(page.contains("docs   SMB   4           25.0 %    3      4 KiB  0       -\n"), "{page}");
        assert!(page.contains("  docs over SMB: nothing stands out\n"), "{page}");
        assert!(page.contains("4            2.5      32    7\n") && !page.contains('\u{1b}'), "{page}");
        assert_eq!([512, 8 << 20].map(size_text), ["512 B", "8 MiB"]);
    }
}
