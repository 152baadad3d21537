//! Transactions of shares, by what was asked and how it went, under the names of Azure Files' metrics.

use std::collections::BTreeMap;

use crate::status::Transport;
use serde::{Deserialize, Serialize};

/// What has happened since the server was started.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transactions {
    /// When it was read, RFC 3339.
    pub timestamp: String,
    /// The same in nanoseconds of a clock that only goes forward, to take differences.
    pub at_ns: u64,
    /// When the server was started, RFC 3339.
    pub since: String,
    /// Version of the server.
    #[serde(default)]
    pub version: String,
    /// Name that clients see.
    pub server_name: String,
    /// Names of the shares that are served.
    pub shares: Vec<String>,
    /// What was counted.
    pub counted: Vec<ShareTransactions>,
    /// What is so now, by the share's name.
    #[serde(default)]
    pub gauges: BTreeMap<String, Gauges>,
    /// Connections, what was refused to them, and what is held for clients that do not read.
    #[serde(default)]
    pub transport: Transport,
}

/// What is so now of a share.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gauges {
    /// The most reads and writes of a second in the last minute.
    pub max_used_iops: u64,
    /// The most bytes of data of a second in the last minute.
    pub max_used_bandwidth_bytes: u64,
    /// Burst credits; null: it is not limited.
    pub available_burst_credits: Option<u64>,
    /// Reads and writes of a second that it may do for ever; null: it is not limited.
    pub provisioned_iops: Option<u64>,
    /// Bytes of a second that it may send and receive; null: it is not limited.
    pub provisioned_bandwidth_bytes: Option<u64>,
    /// Requests that limits hold; null: it is not limited.
    pub held_requests: Option<u64>,
    /// Opens of all clients.
    pub open_files: u64,
    /// Bytes of files and streams; null: they are not counted.
    #[serde(default)]
    pub file_capacity_bytes: Option<u64>,
    /// Files, links and special files; null: they are not counted.
    #[serde(default)]
    pub file_count: Option<u64>,
    /// How many bytes may lie there; null: it has no size of its own.
    #[serde(default)]
    pub capacity_quota_bytes: Option<u64>,
    /// Its size as clients see it: its own, or that of the file system that it lies on; null: the host does not say.
    pub volume_size_bytes: Option<u64>,
    /// What is free there.
    pub volume_free_bytes: Option<u64>,
}

/// The transactions of a share over one protocol.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShareTransactions {
    /// The share's name; empty for what is of no share, such as log-on.
    pub file_share: String,
    /// `SMB` or `NFS`.
    pub protocol: String,
    /// By operation and authentication.
    pub apis: Vec<Api>,
    /// What they worked on.
    pub work: IoCounters,
}

/// The transactions of one operation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Api {
    /// The SMB command or NFS operation.
    pub api_name: String,
    /// How who asked was proved.
    pub authentication: String,
    /// Transactions by response type.
    pub transactions: BTreeMap<String, u64>,
    /// Bytes of requests, with their headers.
    pub ingress: u64,
    /// Bytes of answers, with their headers.
    pub egress: u64,
    /// From when a request was taken up until its answer was made; of those that succeeded.
    pub success_server_latency: Latency,
    /// The same until the host had taken the answer to send it.
    pub success_e2e_latency: Latency,
}

/// How often something took how long.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latency {
    /// How often it was measured.
    pub count: u64,
    /// All of it together in nanoseconds.
    pub sum_ns: u64,
    /// How often it took how long; steps in which nothing fell are left out.
    pub steps: Vec<Step>,
}

/// A step of a [`Latency`]: an eighth of a doubling.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// From so many nanoseconds on.
    pub from_ns: u64,
    /// Below so many; null: no bound.
    pub below_ns: Option<u64>,
    /// How often.
    pub count: u64,
}

/// What transactions worked on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IoCounters {
    /// Those that read data.
    pub reads: u64,
    /// Those that wrote data.
    pub writes: u64,
    /// Those on names and opens, as limits count them.
    pub metadata: u64,
    /// All others.
    pub others: u64,
    /// Bytes of data that were read.
    pub read_bytes: u64,
    /// Bytes of data that were written.
    pub written_bytes: u64,
    /// Reads by their size: up to so many bytes, the last also more.
    pub read_sizes: BTreeMap<u64, u64>,
    /// Writes by their size.
    pub write_sizes: BTreeMap<u64, u64>,
}

impl IoCounters {
    /// What part of all that works on data or metadata works on metadata, 0 to 1; none when there is nothing.
    #[must_use]
    pub fn metadata_share(&self) -> Option<f64> {
        let all = self.reads + self.writes + self.metadata;
        (all > 0).then(|| self.metadata as f64 / all as f64)
    }

    /// What has come since `earlier`.
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

    /// Adds another's.
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
    /// Transactions, however they went.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.transactions.values().sum()
    }

    /// What has come since `earlier`.
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
    /// What part of all transactions did not fail for reasons of the server's own, 0 to 1; none without transactions.
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

    /// What has come since `earlier`. Operations that did not come are left out.
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
    /// What has come since `earlier`. Shares without a transaction are left out.
    #[must_use]
    pub fn since(&self, earlier: &Transactions) -> Transactions {
        let one = |counted: &Counted| {
            let is_it = |other: &&Counted| {
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
    /// The mean in nanoseconds; none when nothing was measured.
    #[must_use]
    pub fn mean_ns(&self) -> Option<u64> {
        self.sum_ns.checked_div(self.count)
    }

    /// The time in nanoseconds that `part` of all (0 to 1) did not exceed: the middle of its step, which is off by one
    /// part in sixteen at most; none when nothing was measured.
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

    /// How often it took less than `bound_ns`; exact where a step ends there, as it does at every power of two from 1,024
    /// on.
    #[must_use]
    pub fn below(&self, bound_ns: u64) -> u64 {
        let ends = |step: &&Step| step.below_ns.is_some_and(|below| below <= bound_ns);
        self.steps.iter().filter(ends).map(|step| step.count).sum()
    }

    /// Adds another one.
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
        let work = IoCounters { reads, metadata: 1, read_sizes: [(4096, reads)].into(), ..IoCounters::default() };
        let counted = ShareTransactions { file_share: "docs".to_owned(), apis: vec![api], work, ..ShareTransactions::default() };
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
