//! Transactions of shares by operation and response type, under the names of Azure Files' metrics.

use std::collections::BTreeMap;

use crate::status::{Audit, NodeTenure, Transport};
use serde::{Deserialize, Serialize};

/// All counters since the start of the server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transactions {
    /// The time at which they were read, RFC 3339.
    pub timestamp: String,
    /// The same time in nanoseconds of a monotonic clock, for differences.
    pub at_ns: u64,
    /// The start of the server, RFC 3339.
    pub since: String,
    /// The server's version.
    #[serde(default)]
    pub version: String,
    /// The name that clients see.
    pub server_name: String,
    /// The names of the shares that are served.
    pub shares: Vec<String>,
    /// The counters of each share and protocol.
    pub counted: Vec<ShareTransactions>,
    /// Gauges by the share's name.
    #[serde(default)]
    pub gauges: BTreeMap<String, Gauges>,
    /// Connections, refusals, and the memory for clients that do not read.
    #[serde(default)]
    pub transport: Transport,
    /// The audit; null when there is none.
    #[serde(default)]
    pub audit: Option<Audit>,
    /// The tenure of a node of a virtual server; null for a server of one machine.
    #[serde(default)]
    pub node: Option<NodeTenure>,
}

/// The gauges of a share: values of this moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gauges {
    /// The highest number of reads and writes in a second of the last minute.
    pub max_used_iops: u64,
    /// The highest number of bytes of data in a second of the last minute.
    pub max_used_bandwidth_bytes: u64,
    /// The burst credits; null when the share is not limited.
    pub available_burst_credits: Option<u64>,
    /// The provisioned reads and writes a second; null when the share is not limited.
    pub provisioned_iops: Option<u64>,
    /// The provisioned bytes a second in both directions; null when the share is not limited.
    pub provisioned_bandwidth_bytes: Option<u64>,
    /// The number of requests that limits hold; null when the share is not limited.
    pub held_requests: Option<u64>,
    /// The opens of all clients.
    pub open_files: u64,
    /// The bytes of files and streams; null when they are not counted.
    #[serde(default)]
    pub file_capacity_bytes: Option<u64>,
    /// The number of files, links and special files; null when they are not counted.
    #[serde(default)]
    pub file_count: Option<u64>,
    /// The size of the share in bytes; null when it has none of its own.
    #[serde(default)]
    pub capacity_quota_bytes: Option<u64>,
    /// The size of the volume as clients see it: the share's own, or that of the file system below it. Null
    /// when the host does not tell it.
    pub volume_size_bytes: Option<u64>,
    /// The free bytes of the volume.
    pub volume_free_bytes: Option<u64>,
    /// The recycle folder; null when the share keeps no removed files.
    #[serde(default)]
    pub recycle: Option<Recycle>,
}

/// The recycle folder of a share.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recycle {
    /// Files that lie in it, as far as is known.
    pub files: u64,
    /// Bytes of storage that they take.
    pub bytes: u64,
    /// Removed files that were moved into it.
    pub kept: u64,
    /// Files that were removed from it for good by its bounds.
    pub purged: u64,
    /// Files that were removed for good at once, by the reason.
    pub removed: BTreeMap<String, u64>,
}

/// The transactions of a share over one protocol.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShareTransactions {
    /// The share's name. It is empty for transactions of no share, such as a log-on.
    pub file_share: String,
    /// The protocol, `SMB` or `NFS`.
    pub protocol: String,
    /// Counters by operation and authentication.
    pub apis: Vec<Api>,
    /// Counters by kind of work.
    pub work: IoCounters,
}

/// The transactions of one operation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Api {
    /// The SMB command or NFS operation.
    pub api_name: String,
    /// The way in which the client was authenticated.
    pub authentication: String,
    /// The number of transactions by response type.
    pub transactions: BTreeMap<String, u64>,
    /// The bytes of requests with their headers.
    pub ingress: u64,
    /// The bytes of replies with their headers.
    pub egress: u64,
    /// The time from the receipt of a request until its reply was made. Only successful requests count.
    pub success_server_latency: Latency,
    /// The time from the receipt of a request until the host had taken the reply to send it.
    pub success_e2e_latency: Latency,
}

/// A histogram of latencies.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latency {
    /// The number of measurements.
    pub count: u64,
    /// The sum of all measurements in nanoseconds.
    pub sum_ns: u64,
    /// The steps of the histogram; empty ones are left out.
    pub steps: Vec<Step>,
}

/// A step of a [`Latency`]: an eighth of a doubling.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// The lower bound in nanoseconds, which is part of the step.
    pub from_ns: u64,
    /// The upper bound in nanoseconds, which is not; null: no bound.
    pub below_ns: Option<u64>,
    /// The number of measurements in the step.
    pub count: u64,
}

/// Counters of reads, writes and metadata operations.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IoCounters {
    /// Operations that read data.
    pub reads: u64,
    /// Operations that wrote data.
    pub writes: u64,
    /// Operations on names and opens, as limits count them.
    pub metadata: u64,
    /// All other operations.
    pub others: u64,
    /// The bytes that were read.
    pub read_bytes: u64,
    /// The bytes that were written.
    pub written_bytes: u64,
    /// The number of reads by size. The key is the largest size of a class; the last class has no bound.
    pub read_sizes: BTreeMap<u64, u64>,
    /// The number of writes by size.
    pub write_sizes: BTreeMap<u64, u64>,
}

impl IoCounters {
    /// The part of metadata operations in all operations on data and metadata, 0 to 1. None when there are
    /// none.
    #[must_use]
    pub fn metadata_share(&self) -> Option<f64> {
        let all = self.reads + self.writes + self.metadata;
        (all > 0).then(|| self.metadata as f64 / all as f64)
    }

    /// The difference to `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &IoCounters) -> IoCounters {
        IoCounters {
            reads: self.reads.saturating_sub(earlier.reads),
            writes: self.writes.saturating_sub(earlier.writes),
            metadata: self.metadata.saturating_sub(earlier.metadata),
            others: self.others.saturating_sub(earlier.others),
            read_bytes: self.read_bytes.saturating_sub(earlier.read_bytes),
            written_bytes: self.written_bytes.saturating_sub(earlier.written_bytes),
            read_sizes: less(&self.read_sizes, &earlier.read_sizes),
            write_sizes: less(&self.write_sizes, &earlier.write_sizes),
        }
    }

    /// Adds the counters of `other`.
    pub fn add(&mut self, other: &IoCounters) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.metadata += other.metadata;
        self.others += other.others;
        self.read_bytes += other.read_bytes;
        self.written_bytes += other.written_bytes;
        for (own, more) in
            [(&mut self.read_sizes, &other.read_sizes), (&mut self.write_sizes, &other.write_sizes)]
        {
            more.iter().for_each(|(size, count)| *own.entry(*size).or_default() += count);
        }
    }
}

impl Api {
    /// The number of transactions of all response types.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.transactions.values().sum()
    }

    /// The difference to `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Api) -> Api {
        Api {
            api_name: self.api_name.clone(),
            authentication: self.authentication.clone(),
            transactions: less(&self.transactions, &earlier.transactions),
            ingress: self.ingress.saturating_sub(earlier.ingress),
            egress: self.egress.saturating_sub(earlier.egress),
            success_server_latency: self.success_server_latency.since(&earlier.success_server_latency),
            success_e2e_latency: self.success_e2e_latency.since(&earlier.success_e2e_latency),
        }
    }
}

impl ShareTransactions {
    /// The part of transactions that did not fail for a reason of the server's own, 0 to 1. None without
    /// transactions.
    #[must_use]
    pub fn availability(&self) -> Option<f64> {
        let all: u64 = self.apis.iter().map(Api::all).sum();
        let of = |api: &Api| {
            let own = api.transactions.iter().filter(|(kind, _)| kind.starts_with("Server"));
            own.map(|(_, count)| count).sum::<u64>()
        };
        let failed: u64 = self.apis.iter().map(of).sum();
        (all > 0).then(|| 1.0 - failed as f64 / all as f64)
    }

    /// The difference to `earlier`. Operations without a transaction are left out.
    #[must_use]
    pub fn since(&self, earlier: &ShareTransactions) -> ShareTransactions {
        let one = |api: &Api| {
            let is_it =
                |other: &&Api| other.api_name == api.api_name && other.authentication == api.authentication;
            let before = earlier.apis.iter().find(is_it);
            before.map_or_else(|| api.clone(), |before| api.since(before))
        };
        ShareTransactions {
            file_share: self.file_share.clone(),
            protocol: self.protocol.clone(),
            apis: self.apis.iter().map(one).filter(|api| api.all() > 0).collect(),
            work: self.work.since(&earlier.work),
        }
    }
}

impl Transactions {
    /// The difference to `earlier`. Shares without a transaction are left out.
    #[must_use]
    pub fn since(&self, earlier: &Transactions) -> Transactions {
        let one = |counted: &ShareTransactions| {
            let is_it = |other: &&ShareTransactions| {
                other.file_share == counted.file_share && other.protocol == counted.protocol
            };
            let before = earlier.counted.iter().find(is_it);
            before.map_or_else(|| counted.clone(), |before| counted.since(before))
        };
        let counted = self.counted.iter().map(one).filter(|counted| !counted.apis.is_empty()).collect();
        Transactions { since: earlier.timestamp.clone(), counted, ..self.clone() }
    }
}

impl Latency {
    /// The mean in nanoseconds; none without a measurement.
    #[must_use]
    pub fn mean_ns(&self) -> Option<u64> {
        self.sum_ns.checked_div(self.count)
    }

    /// The latency in nanoseconds that `part` of all measurements (0 to 1) did not exceed. It is the middle
    /// of its step, which is off by at most one part in sixteen. None without a measurement.
    #[must_use]
    pub fn quantile_ns(&self, part: f64) -> Option<u64> {
        #[allow(clippy::cast_sign_loss, clippy::cast_possible_truncation)]
        let wanted = ((self.count as f64 * part).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        let step = self.steps.iter().find(|step| {
            seen += step.count;
            seen >= wanted
        })?;
        Some(step.below_ns.map_or(step.from_ns, |below| step.from_ns.midpoint(below)))
    }

    /// The number of measurements below `bound_ns`. It is exact where a step ends there, as one does at every
    /// power of two from 1,024 on.
    #[must_use]
    pub fn below(&self, bound_ns: u64) -> u64 {
        let ends = |step: &&Step| step.below_ns.is_some_and(|below| below <= bound_ns);
        self.steps.iter().filter(ends).map(|step| step.count).sum()
    }

    /// Adds the measurements of `other`.
    pub fn add(&mut self, other: &Latency) {
        self.count += other.count;
        self.sum_ns += other.sum_ns;
        for step in &other.steps {
            match self.steps.binary_search_by_key(&step.from_ns, |known| known.from_ns) {
                Ok(at) => self.steps[at].count += step.count,
                Err(at) => self.steps.insert(at, *step),
            }
        }
    }

    fn since(&self, earlier: &Latency) -> Latency {
        let before = |from_ns| {
            let at = earlier.steps.iter().find(|step| step.from_ns == from_ns);
            at.map_or(0, |step| step.count)
        };
        let steps = self
            .steps
            .iter()
            .map(|step| Step { count: step.count.saturating_sub(before(step.from_ns)), ..*step });
        Latency {
            count: self.count.saturating_sub(earlier.count),
            sum_ns: self.sum_ns.saturating_sub(earlier.sum_ns),
            steps: steps.filter(|step| step.count > 0).collect(),
        }
    }
}

fn less<K: Ord + Clone>(now: &BTreeMap<K, u64>, earlier: &BTreeMap<K, u64>) -> BTreeMap<K, u64> {
    let left = now
        .iter()
        .map(|(key, count)| (key.clone(), count.saturating_sub(earlier.get(key).copied().unwrap_or(0))));
    left.filter(|(_, count)| *count > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latency(steps: &[(u64, u64, u64)]) -> Latency {
        let step =
            |&(from_ns, below_ns, count): &(u64, u64, u64)| Step { from_ns, below_ns: Some(below_ns), count };
        let steps: Vec<_> = steps.iter().map(step).collect();
        let count = steps.iter().map(|step| step.count).sum();
        let sum_ns = steps.iter().map(|step| step.count * step.from_ns).sum();
        Latency { count, sum_ns, steps }
    }

    fn counted(reads: u64, failed: u64) -> Transactions {
        let transactions =
            [("Success", reads), ("ServerOtherError", failed)].map(|(kind, count)| (kind.to_owned(), count));
        let api = Api {
            api_name: "Read".to_owned(),
            transactions: transactions.into(),
            egress: reads * 4096,
            success_server_latency: latency(&[(0, 1024, reads), (2048, 2304, 1)]),
            ..Api::default()
        };
        let work =
            IoCounters { reads, metadata: 1, read_sizes: [(4096, reads)].into(), ..IoCounters::default() };
        let counted = ShareTransactions {
            file_share: "docs".to_owned(),
            apis: vec![api],
            work,
            ..ShareTransactions::default()
        };
        Transactions { timestamp: reads.to_string(), counted: vec![counted], ..Transactions::default() }
    }

    #[test]
    fn quantiles_and_bounds_come_from_steps() {
        let all = latency(&[(0, 1024, 50), (1024, 1152, 49), (2048, 2304, 1)]);
        assert_eq!(
            [0.5, 0.51, 0.99, 1.0].map(|part| all.quantile_ns(part).unwrap()),
            [512, 1088, 1088, 2176]
        );
        assert_eq!([1023, 1024, 2048, 4096].map(|bound| all.below(bound)), [0, 50, 99, 100]);
        assert_eq!(Latency::default().quantile_ns(0.5), None);
        let mut sum = latency(&[(1024, 1152, 1), (4096, 4608, 1)]);
        sum.add(&all);
        assert_eq!((sum.count, sum.steps.len(), sum.steps[1].count), (102, 4, 50));
    }

    #[test]
    fn differences_leave_out_what_did_not_come() {
        let (before, after) = (counted(10, 1), counted(14, 1));
        let between = after.since(&before);
        let [share] = &between.counted[..] else { panic!("{between:?}") };
        let [api] = &share.apis[..] else { panic!("{share:?}") };
        assert_eq!(api.transactions, [("Success".to_owned(), 4)].into());
        assert_eq!((api.egress, api.success_server_latency.clone()), (4 * 4096, latency(&[(0, 1024, 4)])));
        assert_eq!(
            (share.work.reads, share.work.metadata, &share.work.read_sizes),
            (4, 0, &[(4096, 4)].into())
        );
        assert_eq!((between.since.as_str(), share.availability()), ("10", Some(1.0)));
        assert!(after.since(&after).counted.is_empty());
        assert_eq!(before.counted[0].availability(), Some(1.0 - 1.0 / 11.0));
        assert_eq!(before.counted[0].work.metadata_share(), Some(1.0 / 11.0));
    }
}
