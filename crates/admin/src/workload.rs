//! The workload of clients on shares: data or metadata, sizes of reads and writes, queue depth, and advice.
//!
//! [`advice`] has all the rules.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::transactions::{IoCounters, ShareTransactions};

/// The workload of each connected client, and of each share.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workload {
    /// The time at which it was read, RFC 3339.
    pub timestamp: String,
    /// The start of the server, RFC 3339. Shares are counted from there, and clients from their connection
    /// on.
    pub since: String,
    /// The name that clients see.
    pub server_name: String,
    /// The workload of each share, of all clients together.
    pub shares: Vec<ShareWork>,
    /// The workload of each connected client on each share.
    pub clients: Vec<ClientWork>,
}

/// The workload of a share.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShareWork {
    /// The share's name.
    pub file_share: String,
    /// The protocol, `SMB` or `NFS`.
    pub protocol: String,
    /// Counters by kind of work.
    pub work: IoCounters,
    /// The transactions that limits have held.
    pub throttled: u64,
    /// Advice, a sentence each.
    pub advice: Vec<String>,
}

impl ShareWork {
    /// The workload of all shares. Work that belongs to no share is left out.
    ///
    /// `caching` says whether the metadata of each share is cached.
    #[must_use]
    pub fn all(counted: &[ShareTransactions], caching: &BTreeMap<String, bool>) -> Vec<ShareWork> {
        let of_shares = counted.iter().filter(|counted| !counted.file_share.is_empty());
        of_shares.map(|counted| ShareWork::one(counted, caching.get(&counted.file_share).copied())).collect()
    }

    fn one(counted: &ShareTransactions, caching: Option<bool>) -> ShareWork {
        let apis = counted.apis.iter();
        let held = ThrottledCounts::of(
            apis.flat_map(|api| &api.transactions).map(|(kind, count)| (&**kind, *count)),
        );
        let asked = WorkloadContext { protocol: &counted.protocol, caching, held, at_once: None };
        ShareWork {
            file_share: counted.file_share.clone(),
            protocol: counted.protocol.clone(),
            advice: advice(&counted.work, &asked),
            work: counted.work.clone(),
            throttled: held.all(),
        }
    }
}

/// The workload of a client on a share.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientWork {
    /// The client's address.
    pub client: String,
    /// The users of SMB, or the principal of an NFS client.
    pub user: String,
    /// The protocol, `SMB` or `NFS`.
    pub protocol: String,
    /// The share's name.
    pub file_share: String,
    /// Counters by kind of work.
    pub work: IoCounters,
    /// The client's connections, those that it uses for other shares included.
    pub connections: u64,
    /// The highest number of requests in progress on one connection.
    pub most_at_once: u64,
    /// The average number of requests in progress on one connection while there were any, in thousandths.
    pub at_once_thousandths: u64,
    /// The number of files that it has open.
    pub open_files: u64,
    /// Advice, a sentence each.
    pub advice: Vec<String>,
}

/// The number of operations below which no advice is given.
const LITTLE: u64 = 1000;
/// The number of bytes below which a read or write is small.
const SMALL: u64 = 16 * 1024;

/// The transactions that limits have held, by the kind of the limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ThrottledCounts {
    /// Transactions that the limits of the share's size held.
    pub by_size: u64,
    /// Transactions that the limit on metadata held. It is the same for every size.
    pub metadata: u64,
    /// Transactions that the limits of single files and of the account held.
    pub by_file_or_account: u64,
}

impl ThrottledCounts {
    /// Counts `transactions`, which come by response type.
    #[must_use]
    pub fn of<'t>(transactions: impl Iterator<Item = (&'t str, u64)>) -> ThrottledCounts {
        let mut held = ThrottledCounts::default();
        for (kind, count) in transactions {
            match kind {
                "SuccessWithMetadataThrottling" => held.metadata += count,
                "SuccessWithThrottling" => held.by_file_or_account += count,
                _ if kind.ends_with("Throttling") => held.by_size += count,
                _ => {}
            }
        }
        held
    }

    /// The sum of all kinds.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.by_size + self.metadata + self.by_file_or_account
    }

    /// Advice against each limit that held some of `all` requests. The limit that held most comes first.
    /// `caching` says whether the share's metadata is cached, if that is known.
    #[must_use]
    pub fn advice(&self, all: u64, caching: Option<bool>) -> Vec<String> {
        let cache = match caching {
            Some(true) => "",
            Some(false) => {
                "metadata caching, which is off (`trunkline share set SHARE metadata_caching=on`), "
            }
            None => "metadata caching where it is off (`trunkline share set SHARE metadata_caching=on`), ",
        };
        let mut kinds = [
            (
                self.by_size,
                "limits of the share",
                "a larger provisioned size (`trunkline share set SHARE provisioned_gib=GIB`), or an account \
                 without limits"
                    .to_owned(),
            ),
            (
                self.metadata,
                "the limit on metadata",
                format!(
                    "{cache}the work spread over several shares, fewer opens and look-ups; a larger size \
                     does not raise it"
                ),
            ),
            (
                self.by_file_or_account,
                "the limit of single files or of the account",
                "the work spread over more files, and shares moved to another account; a larger size does \
                 not raise it"
                    .to_owned(),
            ),
        ];
        kinds.sort_by_key(|(count, ..)| std::cmp::Reverse(*count));
        let felt = kinds.into_iter().filter(|(count, ..)| count * 100 >= all && *count > 0);
        let says = |(count, limit, what): (u64, &str, String)| {
            let percent = count as f64 * 100.0 / all.max(1) as f64;
            let hold = if limit.starts_with("limits") { "hold" } else { "holds" };
            format!("{limit} {hold} {percent:.0} % of it: {what}")
        };
        felt.map(says).collect()
    }
}

/// The circumstances of some work.
#[derive(Debug, Clone, Copy, Default)]
pub struct WorkloadContext<'a> {
    /// The protocol, `SMB` or `NFS`.
    pub protocol: &'a str,
    /// Whether the share's metadata is cached, if that is known.
    pub caching: Option<bool>,
    /// The transactions that limits have held.
    pub held: ThrottledCounts,
    /// The average number of requests in progress on one connection, in thousandths, and the number of
    /// connections, if they are known.
    pub at_once: Option<(u64, u64)>,
}

/// Advice for this work, a sentence each.
#[must_use]
pub fn advice(work: &IoCounters, asked: &WorkloadContext<'_>) -> Vec<String> {
    let WorkloadContext { protocol, caching, held, at_once } = *asked;
    let data = work.reads + work.writes;
    let all = data + work.metadata;
    if all < LITTLE {
        return vec![format!("too little was asked to say anything: {all} of {LITTLE} operations")];
    }
    let is_smb = protocol == "SMB";
    let mut advice = held.advice(all, caching);
    if work.metadata * 2 >= all {
        let cached = if is_smb {
            "on Linux a longer `actimeo`; on Windows nothing, which caches by leases"
        } else {
            "a longer `actimeo` or `nocto` where nobody else writes"
        };
        let server = match caching {
            Some(false) => {
                "metadata caching, which is off for this share (`trunkline share set SHARE \
                 metadata_caching=on`); "
            }
            _ => "",
        };
        advice.push(format!(
            "it is metadata-heavy: {server}keep files open, pack small files together, look less often \
             ({cached}), spread it over several shares where the limit on metadata is near"
        ));
    }
    let mean = (work.read_bytes + work.written_bytes).checked_div(data).unwrap_or(0);
    if data * 2 >= all && mean < SMALL {
        advice.push(format!(
            "its reads and writes have {mean} bytes on average: larger ones, or more of them at once, carry \
             more"
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
    use crate::transactions::Api;

    fn work(reads: u64, metadata: u64, size: u64) -> IoCounters {
        IoCounters { reads, metadata, read_bytes: reads * size, ..IoCounters::default() }
    }

    fn says(work: &IoCounters, by_size: u64, at_once: Option<(u64, u64)>) -> String {
        let held = ThrottledCounts { by_size, ..ThrottledCounts::default() };
        advice(work, &WorkloadContext { protocol: "NFS", held, at_once, ..WorkloadContext::default() })
            .join("; ")
    }

    #[test]
    fn each_limit_has_its_own_advice_and_a_size_only_where_it_helps() {
        let of = |kind: &str, caching| {
            let held = ThrottledCounts::of(
                [("Success", 900), ("SuccessWithMetadataWarning", 50), (kind, 100)].into_iter(),
            );
            assert_eq!(held.all(), 100, "{kind}");
            advice(&work(100, 2000, 4096), &WorkloadContext { protocol: "SMB", caching, held, at_once: None })
                .join("; ")
        };
        for kind in ["ShareIops", "ShareIngress", "ShareEgress"] {
            let said = of(&format!("SuccessWith{kind}Throttling"), Some(true));
            assert!(
                said.starts_with("limits of the share hold 5 % of it: a larger provisioned size"),
                "{said}"
            );
            assert!(!said.contains("does not raise it"), "{said}");
        }
        let metadata = of("SuccessWithMetadataThrottling", Some(false));
        assert!(
            metadata.starts_with("the limit on metadata holds 5 % of it: metadata caching, which is off")
        );
        assert!(metadata.contains("several shares") && !metadata.contains("provisioned"), "{metadata}");
        assert!(
            metadata.contains("metadata-heavy: metadata caching, which is off for this share"),
            "{metadata}"
        );
        let cached = of("SuccessWithMetadataThrottling", Some(true));
        assert!(cached.contains("holds 5 % of it: the work spread over several shares"), "{cached}");
        assert!(!cached.contains("metadata_caching=on"), "{cached}");
        let file = of("SuccessWithThrottling", None);
        assert!(file.starts_with("the limit of single files or of the account holds 5 % of it"), "{file}");
        assert!(file.contains("more files") && !file.contains("provisioned"), "{file}");
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
        let docs = ShareTransactions {
            file_share: "docs".to_owned(),
            apis: vec![api.clone(), api],
            ..ShareTransactions::default()
        };
        let all = ShareWork::all(&[ShareTransactions::default(), docs], &BTreeMap::new());
        assert_eq!((all.len(), all[0].throttled, all[0].advice.len()), (1, 4, 1));
    }

    #[test]
    fn each_thing_that_stands_out_is_said() {
        assert!(says(&work(10, 10, 4096), 0, None).starts_with("too little"));
        assert_eq!(says(&work(10_000, 100, 1 << 20), 0, Some((4000, 1))), "nothing stands out");
        assert!(says(&work(100, 2000, 1 << 20), 0, None).contains("metadata-heavy"));
        assert!(says(&work(2000, 0, 4096), 0, None).contains("4096 bytes on average"));
        assert!(says(&work(2000, 0, 1 << 20), 100, None).contains("limits of the share hold 5 %"));
        assert!(says(&work(2000, 0, 1 << 20), 0, Some((12_000, 1))).contains("`nconnect`"));
        assert!(!says(&work(2000, 0, 1 << 20), 0, Some((12_000, 4))).contains("`nconnect`"));
        assert!(says(&work(2000, 0, 1 << 20), 0, Some((1000, 4))).contains("one thing after the other"));
    }
}
