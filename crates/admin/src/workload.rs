//! What clients do on shares: data or metadata, in pieces of what size, how much at once; and what would help.
//!
//! [`advice`] is the whole of the judging.

use serde::{Deserialize, Serialize};

use crate::transactions::{Api, Counted, Work};

/// What all clients do that are connected, and what was done on each share.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workload {
    /// When it was read, RFC 3339.
    pub timestamp: String,
    /// When the server was started, RFC 3339: shares count from there, clients from when they connected.
    pub since: String,
    /// Name that clients see.
    pub server_name: String,
    /// What was done on each share by everybody.
    pub shares: Vec<ShareWork>,
    /// What each client does that is connected, on each share.
    pub clients: Vec<ClientWork>,
}

/// What was done on a share.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShareWork {
    /// Its name.
    pub file_share: String,
    /// `SMB` or `NFS`.
    pub protocol: String,
    /// What it was.
    pub work: Work,
    /// Transactions that limits have held.
    pub throttled: u64,
    /// What would help.
    pub advice: Vec<String>,
}

impl ShareWork {
    /// What was counted, but for what is of no share.
    #[must_use]
    pub fn all(counted: &[Counted]) -> Vec<ShareWork> {
        let of_shares = counted.iter().filter(|counted| !counted.file_share.is_empty());
        of_shares.map(ShareWork::one).collect()
    }

    fn one(counted: &Counted) -> ShareWork {
        let held = |api: &Api| {
            let held = api.transactions.iter().filter(|(kind, _)| kind.ends_with("Throttling"));
            held.map(|(_, count)| count).sum::<u64>()
        };
        let throttled = counted.apis.iter().map(held).sum();
        ShareWork {
            file_share: counted.file_share.clone(),
            protocol: counted.protocol.clone(),
            advice: advice(&counted.work, throttled, &counted.protocol, None),
            work: counted.work.clone(),
            throttled,
        }
    }
}

/// What a client does on a share.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientWork {
    /// Its address.
    pub client: String,
    /// Who uses it: users of SMB, the principal of an NFS client.
    pub user: String,
    /// `SMB` or `NFS`.
    pub protocol: String,
    /// The share's name.
    pub file_share: String,
    /// What it was.
    pub work: Work,
    /// Its connections, those that it uses for other shares included.
    pub connections: u64,
    /// Requests that were at the server at once on one connection, at most.
    pub most_at_once: u64,
    /// The same on average over the times when there were any, in thousandths.
    pub at_once_thousandths: u64,
    /// What it has open now.
    pub open_files: u64,
    /// What would help.
    pub advice: Vec<String>,
}

/// Operations below which nothing is said.
const LITTLE: u64 = 1000;
/// Bytes below which a piece of data is small.
const SMALL: u64 = 16 * 1024;

/// What would help with this work. `throttled` is how many transactions limits have held; `at_once` how many requests there
/// are on one connection on average, in thousandths, and how many connections, where that is known.
#[must_use]
pub fn advice(work: &Work, throttled: u64, protocol: &str, at_once: Option<(u64, u64)>) -> Vec<String> {
    let data = work.reads + work.writes;
    let all = data + work.metadata;
    if all < LITTLE {
        return vec![format!("too little was asked to say anything: {all} of {LITTLE} operations")];
    }
    let is_smb = protocol == "SMB";
    let mut advice = Vec::new();
    if throttled * 100 >= all {
        let percent = throttled as f64 * 100.0 / all as f64;
        advice.push(format!(
            "limits hold {percent:.0} % of it: a larger provisioned size, or an account without limits"
        ));
    }
    if work.metadata * 2 >= all {
        let cached = if is_smb {
            "on Linux a longer `actimeo`; on Windows nothing, which caches by leases"
        } else {
            "a longer `actimeo` or `nocto` where nobody else writes"
        };
        advice.push(format!(
            "it is metadata-heavy: keep files open, pack small files together, look less often ({cached})"
        ));
    }
    let mean = (work.read_bytes + work.written_bytes).checked_div(data).unwrap_or(0);
    if data * 2 >= all && mean < SMALL {
        advice.push(format!(
            "its reads and writes have {mean} bytes on average: larger ones, or more of them at once, carry more"
        ));
    }
    match at_once {
        Some((depth, 1)) if depth >= 8000 && data * 2 >= all => {
            let more = if is_smb { "Multichannel" } else { "`nconnect`" };
            advice.push(format!(
                "it asks for much at once over one connection: {more} spreads that over several"
            ));
        }
        Some((depth, _)) if depth < 1500 => {
            advice.push(
                "it asks for one thing after the other: more threads or a greater queue depth hide the way"
                    .to_owned(),
            );
        }
        _ => {}
    }
    if advice.is_empty() {
        advice.push("nothing stands out".to_owned());
    }
    advice
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(reads: u64, metadata: u64, size: u64) -> Work {
        Work { reads, metadata, read_bytes: reads * size, ..Work::default() }
    }

    fn says(work: &Work, throttled: u64, at_once: Option<(u64, u64)>) -> String {
        advice(work, throttled, "NFS", at_once).join("; ")
    }

    #[test]
    fn what_limits_held_counts_for_its_share() {
        let api = Api {
            transactions: [
                ("Success", 7),
                ("SuccessWithMetadataThrottling", 2),
                ("SuccessWithMetadataWarning", 1),
            ]
            .map(|(kind, count)| (kind.to_owned(), count))
            .into(),
            ..Api::default()
        };
        let docs =
            Counted { file_share: "docs".to_owned(), apis: vec![api.clone(), api], ..Counted::default() };
        let all = ShareWork::all(&[Counted::default(), docs]);
        assert_eq!((all.len(), all[0].throttled, all[0].advice.len()), (1, 4, 1));
    }

    #[test]
    fn each_thing_that_stands_out_is_said() {
        assert!(says(&work(10, 10, 4096), 0, None).starts_with("too little"));
        assert_eq!(says(&work(10_000, 100, 1 << 20), 0, Some((4000, 1))), "nothing stands out");
        assert!(says(&work(100, 2000, 1 << 20), 0, None).contains("metadata-heavy"));
        assert!(says(&work(2000, 0, 4096), 0, None).contains("4096 bytes on average"));
        assert!(says(&work(2000, 0, 1 << 20), 100, None).contains("limits hold 5 %"));
        assert!(says(&work(2000, 0, 1 << 20), 0, Some((12_000, 1))).contains("`nconnect`"));
        assert!(!says(&work(2000, 0, 1 << 20), 0, Some((12_000, 4))).contains("`nconnect`"));
        assert!(says(&work(2000, 0, 1 << 20), 0, Some((1000, 4))).contains("one thing after the other"));
    }
}
