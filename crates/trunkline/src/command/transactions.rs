//! `trunkline status transactions`: the requests to each share and their results.

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Duration;

use admin::transactions::{Api, Latency, ShareTransactions};
use admin::{Request, Response, Transactions};

use super::control;
use super::table::{self, plain, shown};
use crate::cli::{LocationArgs, TransactionsArgs};

/// Prints the transactions of the server that `location` selects: once those since its start, or repeatedly
/// those of an interval, until its output is closed.
pub fn run(location: &LocationArgs, args: &TransactionsArgs, json: bool) -> anyhow::Result<()> {
    let dir = control::state_dir(location)?;
    let ask = || {
        let Response::Transactions(all) = control::ask_running(&dir, &Request::Transactions)? else {
            anyhow::bail!("the server sent an unexpected answer");
        };
        only(*all, args.share.as_deref())
    };
    let first = ask()?;
    let Some(seconds) = args.watch else {
        let text = if json { serde_json::to_string_pretty(&first)? + "\n" } else { page(&first, None) };
        print!("{text}");
        return Ok(());
    };
    let mut before = first;
    loop {
        std::thread::sleep(Duration::from_secs(seconds));
        let now = ask()?;
        let passed_ns = now.at_ns.saturating_sub(before.at_ns);
        let between = now.since(&before);
        let text = match json {
            true => serde_json::to_string(&between)? + "\n",
            false => page(&between, Some(passed_ns)) + "\n",
        };
        let mut out = std::io::stdout().lock();
        if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() {
            return Ok(());
        }
        before = now;
    }
}

/// The transactions of one share. Without a name they are those of all shares and of no share.
fn only(mut all: Transactions, share: Option<&str>) -> anyhow::Result<Transactions> {
    let Some(wanted) = share else { return Ok(all) };
    let known = all.shares.iter().find(|name| name.to_lowercase() == wanted.to_lowercase());
    let Some(name) = known.cloned() else {
        anyhow::bail!("no share is called `{wanted}`; there are: {}", all.shares.join(", "));
    };
    all.counted.retain(|counted| counted.file_share == name);
    Ok(all)
}

/// The transactions as text for people. With `passed_ns` they are rates over that many nanoseconds.
fn page(all: &Transactions, passed_ns: Option<u64>) -> String {
    let mut out = match passed_ns {
        None => format!("{}, {}: transactions since {}\n", plain(&all.server_name), all.timestamp, all.since),
        Some(ns) => {
            format!("{}, {}: the last {:.1} s\n", plain(&all.server_name), all.timestamp, seconds(ns))
        }
    };
    let mut any = false;
    for counted in all.counted.iter().filter(|counted| !counted.apis.is_empty()) {
        any = true;
        one(counted, passed_ns, &mut out);
    }
    if !any {
        out.push_str("\nNothing was asked.\n");
    }
    out
}

fn one(counted: &ShareTransactions, passed_ns: Option<u64>, out: &mut String) {
    let name = match &*counted.file_share {
        "" => "Of no share".to_owned(),
        name => format!("Share {name}"),
    };
    let _ = write!(out, "\n{} over {}", plain(&name), counted.protocol);
    if let Some(availability) = counted.availability() {
        let _ = write!(out, ", availability {:.3} %", availability * 100.0);
    }
    if let Some(metadata) = counted.work.metadata_share() {
        let _ = write!(out, ", {:.1} % of its work is metadata", metadata * 100.0);
    }
    out.push('\n');
    let mut apis: Vec<&Api> = counted.apis.iter().collect();
    apis.sort_by_key(|api| std::cmp::Reverse(api.all()));
    let count = |number: u64| match passed_ns {
        None => number.to_string(),
        Some(ns) => format!("{:.1}/s", number as f64 / seconds(ns).max(0.001)),
    };
    let row = |api: &&Api| {
        [
            api.api_name.clone(),
            shown(&api.authentication),
            count(api.all()),
            count(api.ingress),
            count(api.egress),
            milliseconds(api.success_server_latency.mean_ns()),
            milliseconds(api.success_server_latency.quantile_ns(0.5)),
            milliseconds(api.success_server_latency.quantile_ns(0.99)),
            milliseconds(beyond(api)),
            responses(api),
        ]
    };
    let titles = [
        "API NAME",
        "AUTHENTICATION",
        "TRANSACTIONS",
        "INGRESS",
        "EGRESS",
        "SERVER MS",
        "P50",
        "P99",
        "SENDING MS",
        "RESPONSE TYPES",
    ];
    table::rows(titles, &apis.iter().map(row).collect::<Vec<_>>(), out);
}

/// The mean time to send a response.
fn beyond(api: &Api) -> Option<u64> {
    let Latency { count, .. } = api.success_e2e_latency;
    let server = api.success_server_latency.mean_ns()?;
    api.success_e2e_latency.mean_ns().filter(|_| count > 0).map(|all| all.saturating_sub(server))
}

/// The response types and their counts.
fn responses(api: &Api) -> String {
    let all: Vec<_> = api.transactions.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    all.join(", ")
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn milliseconds(ns: Option<u64>) -> String {
    ns.map_or_else(|| "-".to_owned(), |ns| format!("{:.3}", ns as f64 / 1e6))
}

#[cfg(test)]
mod tests {
    use super::*;
    use admin::transactions::{IoCounters, Step};

    fn all() -> Transactions {
        let latency = |ns: u64| Latency {
            count: 4,
            sum_ns: 4 * ns,
            steps: vec![Step { from_ns: ns, below_ns: Some(ns + ns / 8), count: 4 }],
        };
        let api = Api {
            api_name: "Create".to_owned(),
            authentication: "NTLMv2".to_owned(),
            transactions: [("Success", 4), ("ServerOtherError", 1)]
                .map(|(kind, n)| (kind.to_owned(), n))
                .into(),
            ingress: 1000,
            egress: 2000,
            success_server_latency: latency(2_000_000),
            success_e2e_latency: latency(2_500_000),
        };
        let work = IoCounters { metadata: 5, reads: 15, ..IoCounters::default() };
        let counted = ShareTransactions {
            file_share: "docs".to_owned(),
            protocol: "SMB".to_owned(),
            apis: vec![api],
            work,
        };
        Transactions { shares: vec!["docs".to_owned()], counted: vec![counted], ..Transactions::default() }
    }

    #[test]
    fn a_page_has_numbers_or_rates() {
        let whole = page(&all(), None);
        assert!(
            whole.contains("Share docs over SMB, availability 80.000 %, 25.0 % of its work is metadata\n")
        );
        assert!(whole.contains("Create    NTLMv2          5 "), "{whole}");
        assert!(
            whole.contains("  2.000      2.125  2.125  0.500       ServerOtherError 1, Success 4\n"),
            "{whole}"
        );
        let rates = page(&all(), Some(2_000_000_000));
        assert!(
            rates.contains("the last 2.0 s") && rates.contains("  2.5/s ") && rates.contains("  500.0/s ")
        );
        assert!(page(&Transactions::default(), None).ends_with("Nothing was asked.\n"));
    }

    #[test]
    fn one_share_is_named_as_clients_name_it() {
        assert_eq!(only(all(), Some("DOCS")).unwrap().counted.len(), 1);
        let mut none = all();
        none.counted[0].file_share.clear();
        assert!(only(none, Some("docs")).unwrap().counted.is_empty());
        let refused = only(all(), Some("dogs")).unwrap_err().to_string();
        assert_eq!(refused, "no share is called `dogs`; there are: docs");
    }
}
