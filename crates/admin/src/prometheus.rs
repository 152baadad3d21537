//! Metrics in the text format of Prometheus, version 0.0.4.
//!
//! [`text`] has all names in the order in which they come out. A name ends with its unit, counters with
//! `_total`. The labels are the dimensions of Azure Files' metrics.

use std::fmt::Write;

use crate::status::{Audit, NodeTenure, Takeover, TicketEnds, Transport};
use crate::transactions::{Api, Gauges, Latency, Recycle, ShareTransactions, Transactions};

/// The content type of the format.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The bounds of latency buckets as powers of two of nanoseconds: 16 µs to 17 s.
const BOUNDS_LOG2: std::ops::RangeInclusive<u32> = 14..=34;

/// The metrics as text.
#[must_use]
pub fn text(all: &Transactions) -> String {
    let mut page = Page { out: String::new() };
    page.begin("trunkline_info", "gauge", "Version of the server.");
    page.sample("trunkline_info", &[("version", &all.version)], 1.0);
    page.begin("trunkline_transactions_total", "counter", "Transactions.");
    for (counted, api) in apis(all) {
        for (response_type, count) in &api.transactions {
            let labels = [&of(counted, api)[..], &[("response_type", response_type)]].concat();
            page.sample("trunkline_transactions_total", &labels, *count as f64);
        }
    }
    page.by_api(all, "trunkline_ingress_bytes_total", "Bytes of requests with their headers.", |api| {
        api.ingress
    });
    page.by_api(all, "trunkline_egress_bytes_total", "Bytes of answers with their headers.", |api| {
        api.egress
    });
    let help = "From when a request was taken up until its answer was made; of those that succeeded.";
    page.latencies(all, "trunkline_success_server_latency_seconds", help, |api| &api.success_server_latency);
    let help =
        "From when a request was taken up until the host had taken its answer; of those that succeeded.";
    page.latencies(all, "trunkline_success_e2e_latency_seconds", help, |api| &api.success_e2e_latency);
    page.work(all);
    page.availability(all);
    page.gauges(all);
    page.recycle_folders(all);
    page.transport(&all.transport);
    if let Some(audit) = &all.audit {
        page.audit(audit);
    }
    if let Some(node) = &all.node {
        page.node(node);
    }
    page.out
}

fn apis(all: &Transactions) -> impl Iterator<Item = (&ShareTransactions, &Api)> {
    all.counted.iter().flat_map(|counted| counted.apis.iter().map(move |api| (counted, api)))
}

type Label<'a> = (&'static str, &'a str);

fn of<'a>(counted: &'a ShareTransactions, api: &'a Api) -> [Label<'a>; 4] {
    let [share, protocol] = of_share(counted);
    [share, protocol, ("api_name", &api.api_name), ("authentication", &api.authentication)]
}

fn of_share(counted: &ShareTransactions) -> [Label<'_>; 2] {
    [("file_share", &counted.file_share), ("protocol", &counted.protocol)]
}

struct Page {
    out: String,
}

impl Page {
    fn begin(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.out, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// Connections, refusals, and the memory for clients that do not read.
    fn transport(&mut self, all: &Transport) {
        let both = [("SMB", &all.smb), ("NFS", &all.nfs)];
        let name = "trunkline_connections";
        self.begin(name, "gauge", "Connections, by whether their client has logged on or made a session.");
        for (protocol, of) in both {
            let proved = of.connections.saturating_sub(of.unproved);
            for (state, count) in [("proved", proved), ("unproved", of.unproved)] {
                self.sample(name, &[("protocol", protocol), ("state", state)], count as f64);
            }
        }
        let name = "trunkline_connections_refused_total";
        self.begin(name, "counter", "Connections that were refused, by the bound that was reached.");
        for (protocol, of) in both {
            for (bound, count) in [
                ("all", of.refused_all),
                ("address", of.refused_address),
                ("unproved", of.refused_unproved),
                ("descriptors", of.refused_descriptors),
            ] {
                self.sample(name, &[("protocol", protocol), ("bound", bound)], count as f64);
            }
        }
        let name = "trunkline_connections_displaced_total";
        self.begin(name, "counter", "Connections that proved nothing and gave their place up to others.");
        for (protocol, of) in both {
            self.sample(name, &[("protocol", protocol)], of.displaced as f64);
        }
        self.begin("trunkline_unread_bytes", "gauge", "Memory held for clients that do not read.");
        self.sample("trunkline_unread_bytes", &[], all.unread_bytes as f64);
        self.begin("trunkline_unread_bound_bytes", "gauge", "The bound on it.");
        self.sample("trunkline_unread_bound_bytes", &[], all.unread_bound_bytes as f64);
        let name = "trunkline_unread_closed_total";
        self.begin(name, "counter", "Connections that were closed since they held most of it.");
        self.sample(name, &[], all.unread_closed as f64);
        let of = &all.descriptors;
        let name = "trunkline_idle_files_total";
        self.begin(
            name,
            "counter",
            "How often files that nobody used were closed for want of descriptors, and opened again.",
        );
        self.sample(name, &[("what", "closed")], of.idle_closed as f64);
        self.sample(name, &[("what", "opened_again")], of.opened_again as f64);
        let name = "trunkline_opens_refused_total";
        self.begin(
            name,
            "counter",
            "Opens refused to clients with more than an equal share while descriptors were scarce.",
        );
        self.sample(name, &[], of.refused_opens as f64);
        self.ticket_ends(&all.ticket_ends);
        let of = &all.client_memory;
        let name = "trunkline_client_memory_bytes";
        self.begin(
            name,
            "gauge",
            "Memory charged for clients' opens, byte ranges, states, sessions and trees.",
        );
        self.sample(name, &[], of.bytes as f64);
        self.begin("trunkline_client_memory_bound_bytes", "gauge", "The bound on it.");
        self.sample("trunkline_client_memory_bound_bytes", &[], of.bound_bytes as f64);
        let name = "trunkline_client_memory_refused_total";
        self.begin(name, "counter", "Requests refused to clients that had more of it than was left.");
        self.sample(name, &[], of.refused as f64);
    }

    /// Sessions whose tickets have ended.
    fn ticket_ends(&mut self, of: &TicketEnds) {
        let name = "trunkline_sessions_expired_total";
        self.begin(name, "counter", "SMB sessions that were told that their ticket has ended.");
        self.sample(name, &[], of.expired as f64);
        let name = "trunkline_sessions_reauthenticated_total";
        self.begin(name, "counter", "SMB sessions that were authenticated again.");
        self.sample(name, &[], of.reauthenticated as f64);
    }

    /// The audit's events.
    fn audit(&mut self, audit: &Audit) {
        let name = "trunkline_audit_events_total";
        self.begin(name, "counter", "Audit events, by whether they were written or found no room.");
        self.sample(name, &[("state", "written")], audit.written as f64);
        self.sample(name, &[("state", "lost")], audit.lost as f64);
        let name = "trunkline_audit_target_up";
        self.begin(name, "gauge", "Whether the file or daemon takes audit events.");
        self.sample(name, &[], if audit.is_failing { 0.0 } else { 1.0 });
    }

    /// The tenure of a node.
    fn node(&mut self, of: &NodeTenure) {
        let labels = [("server", of.server.as_str()), ("node", of.node.as_str())];
        let name = "trunkline_node_epoch";
        self.begin(name, "gauge", "The epoch of the virtual server that this node owns.");
        self.sample(name, &labels, of.epoch as f64);
        if let Some(ms) = of.term_ms {
            let name = "trunkline_node_term_seconds";
            self.begin(name, "gauge", "The time to the end of the term unless it is renewed.");
            self.sample(name, &labels, ms as f64 / 1e3);
        }
        let name = "trunkline_node_takeover_seconds";
        self.begin(name, "gauge", "The time of this node's take-over, by phase.");
        let Takeover { fence_ms, start_ms, addresses_ms } = of.takeover;
        for (phase, ms) in [("fence", fence_ms), ("start", start_ms), ("addresses", addresses_ms)] {
            self.sample(name, &[&labels[..], &[("phase", phase)]].concat(), ms as f64 / 1e3);
        }
    }

    fn sample(&mut self, name: &str, labels: &[Label<'_>], value: f64) {
        self.out.push_str(name);
        for (at, (label, text)) in labels.iter().enumerate() {
            let _ = write!(self.out, "{}{label}=\"{}\"", if at == 0 { '{' } else { ',' }, escaped(text));
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.out, "{end} {value}");
    }

    fn by_api(&mut self, all: &Transactions, name: &str, help: &str, value: impl Fn(&Api) -> u64) {
        self.begin(name, "counter", help);
        for (counted, api) in apis(all) {
            self.sample(name, &of(counted, api), value(api) as f64);
        }
    }

    fn latencies(&mut self, all: &Transactions, name: &str, help: &str, take: impl Fn(&Api) -> &Latency) {
        self.begin(name, "histogram", help);
        for (counted, api) in apis(all) {
            let latency = take(api);
            let bounds = BOUNDS_LOG2.map(|log2| 1u64 << log2);
            let buckets = bounds.map(|bound| (bound as f64 / 1e9, latency.below(bound)));
            let sum = latency.sum_ns as f64 / 1e9;
            self.histogram(name, &of(counted, api), buckets, latency.count, sum);
        }
    }

    fn histogram(
        &mut self,
        name: &str,
        labels: &[Label<'_>],
        buckets: impl Iterator<Item = (f64, u64)>,
        count: u64,
        sum: f64,
    ) {
        let bucket = format!("{name}_bucket");
        for (bound, below) in buckets {
            let bound = bound.to_string();
            self.sample(&bucket, &[labels, &[("le", &bound)]].concat(), below as f64);
        }
        self.sample(&bucket, &[labels, &[("le", "+Inf")]].concat(), count as f64);
        self.sample(&format!("{name}_sum"), labels, sum);
        self.sample(&format!("{name}_count"), labels, count as f64);
    }

    fn work(&mut self, all: &Transactions) {
        let name = "trunkline_work_total";
        self.begin(name, "counter", "Transactions by what they work on, as limits count them.");
        for counted in &all.counted {
            let work = &counted.work;
            let kinds = [
                ("read", work.reads),
                ("write", work.writes),
                ("metadata", work.metadata),
                ("other", work.others),
            ];
            for (kind, count) in kinds {
                self.sample(name, &[&of_share(counted)[..], &[("kind", kind)]].concat(), count as f64);
            }
        }
        let name = "trunkline_io_size_bytes";
        self.begin(name, "histogram", "Data of one read or write.");
        for counted in &all.counted {
            let work = &counted.work;
            let read = ("read", &work.read_sizes, work.read_bytes);
            for (direction, sizes, bytes) in [read, ("write", &work.write_sizes, work.written_bytes)] {
                let count = sizes.values().sum();
                let below = |bound: u64| sizes.range(..=bound).map(|(_, count)| count).sum();
                // Larger ones are counted with the last size.
                let buckets = (9..=22).map(|log2| 1 << log2).map(|bound| (bound as f64, below(bound)));
                let labels = [&of_share(counted)[..], &[("direction", direction)]].concat();
                self.histogram(name, &labels, buckets, count, bytes as f64);
            }
        }
    }

    fn availability(&mut self, all: &Transactions) {
        let name = "trunkline_availability_ratio";
        let help = "Part of all transactions that did not fail for reasons of the server's own.";
        self.begin(name, "gauge", help);
        for counted in &all.counted {
            if let Some(availability) = counted.availability() {
                self.sample(name, &of_share(counted), availability);
            }
        }
    }

    fn gauges(&mut self, all: &Transactions) {
        type Take = fn(&Gauges) -> Option<u64>;
        let gauges: [(&str, &str, Take); 12] = [
            ("trunkline_max_used_iops", "Most reads and writes of a second in the last minute.", |of| {
                Some(of.max_used_iops)
            }),
            (
                "trunkline_max_used_bandwidth_bytes",
                "Most bytes of data of a second in the last minute.",
                |of| Some(of.max_used_bandwidth_bytes),
            ),
            (
                "trunkline_available_burst_credits",
                "Operations above the share's own rate that it has saved.",
                |of| of.available_burst_credits,
            ),
            (
                "trunkline_provisioned_iops",
                "Reads and writes of a second that the share may do for ever.",
                |of| of.provisioned_iops,
            ),
            (
                "trunkline_provisioned_bandwidth_bytes",
                "Bytes of a second that the share may send and receive.",
                |of| of.provisioned_bandwidth_bytes,
            ),
            ("trunkline_held_requests", "Requests that limits hold now.", |of| of.held_requests),
            ("trunkline_open_files", "Opens of all clients.", |of| Some(of.open_files)),
            ("trunkline_file_capacity_bytes", "Bytes of files and named streams on the share.", |of| {
                of.file_capacity_bytes
            }),
            ("trunkline_file_count", "Files, links and special files on the share.", |of| of.file_count),
            ("trunkline_capacity_quota_bytes", "Bytes that may lie on the share.", |of| {
                of.capacity_quota_bytes
            }),
            (
                "trunkline_volume_size_bytes",
                "Size of the share as clients see it: its own, or that of the file system that it lies on.",
                |of| of.volume_size_bytes,
            ),
            ("trunkline_volume_free_bytes", "What is free there.", |of| of.volume_free_bytes),
        ];
        for (name, help, take) in gauges {
            self.begin(name, "gauge", help);
            for (share, gauges) in &all.gauges {
                if let Some(value) = take(gauges) {
                    self.sample(name, &[("file_share", share)], value as f64);
                }
            }
        }
    }
}

impl Page {
    fn recycle_folders(&mut self, all: &Transactions) {
        type Take = fn(&Recycle) -> u64;
        let numbers: [(&str, &str, &str, Take); 4] = [
            ("trunkline_recycle_files", "gauge", "Files in the recycle folder.", |of| of.files),
            ("trunkline_recycle_bytes", "gauge", "Bytes that these files take.", |of| of.bytes),
            ("trunkline_recycle_kept_total", "counter", "Removed files that were moved there.", |of| of.kept),
            ("trunkline_recycle_purged_total", "counter", "Files that its bounds removed for good.", |of| {
                of.purged
            }),
        ];
        let folders: Vec<(&str, &Recycle)> = all
            .gauges
            .iter()
            .filter_map(|(share, gauges)| Some((share.as_str(), gauges.recycle.as_ref()?)))
            .collect();
        if folders.is_empty() {
            return;
        }
        for (name, kind, help, take) in numbers {
            self.begin(name, kind, help);
            for (share, recycle) in &folders {
                self.sample(name, &[("file_share", share)], take(recycle) as f64);
            }
        }
        let name = "trunkline_recycle_removed_total";
        self.begin(name, "counter", "Removed files that were not kept, by the reason.");
        for (share, recycle) in &folders {
            for (reason, count) in &recycle.removed {
                self.sample(name, &[("file_share", share), ("reason", reason)], *count as f64);
            }
        }
    }
}

/// A label's value as it stands between quotation marks.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::transactions::{IoCounters, Step};

    /// Checks the text as a reader of the format does. Gives the samples by name and labels.
    fn parse(text: &str) -> BTreeMap<String, f64> {
        let mut samples = BTreeMap::new();
        let (mut kinds, mut family) = (BTreeMap::new(), String::new());
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                family = rest.split(' ').next().unwrap().to_owned();
                assert!(!kinds.contains_key(&family), "{family} comes twice");
                continue;
            }
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap();
                assert_eq!(name, family);
                assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
                kinds.insert(name.to_owned(), kind.to_owned());
                continue;
            }
            let (name, value) = line.rsplit_once(' ').unwrap();
            let bare = name.split('{').next().unwrap();
            assert!(bare.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'), "{bare}");
            let parts = ["_bucket", "_sum", "_count"].map(|part| format!("{family}{part}"));
            match kinds[&family].as_str() {
                "histogram" => assert!(parts.iter().any(|part| part == bare), "{line}"),
                _ => assert_eq!(bare, family),
            }
            assert!(samples.insert(name.to_owned(), value.parse().unwrap()).is_none(), "{name} comes twice");
        }
        let unused: BTreeSet<_> =
            kinds.keys().filter(|name| !samples.keys().any(|it| it.starts_with(*name))).collect();
        assert!(unused.is_empty(), "{unused:?}");
        samples
    }

    #[test]
    fn everything_comes_out_once_with_its_labels() {
        let steps = vec![
            Step { from_ns: 0, below_ns: Some(1024), count: 3 },
            Step { from_ns: 1 << 20, below_ns: Some((1 << 20) + (1 << 17)), count: 4 },
            Step { from_ns: 1 << 36, below_ns: None, count: 1 },
        ];
        let latency = Latency { count: 8, sum_ns: 2_500_000_000, steps };
        let api = Api {
            api_name: "Read".to_owned(),
            authentication: "NTLMv2".to_owned(),
            transactions: [("Success".to_owned(), 8), ("ServerOtherError".to_owned(), 2)].into(),
            ingress: 10,
            egress: 20,
            success_server_latency: latency.clone(),
            success_e2e_latency: latency,
        };
        let work = IoCounters {
            reads: 10,
            read_bytes: 1 << 25,
            read_sizes: [(4096, 7), (8 << 20, 3)].into(),
            ..IoCounters::default()
        };
        let counted = ShareTransactions {
            file_share: "a\"b\\".to_owned(),
            protocol: "SMB".to_owned(),
            apis: vec![api],
            work,
        };
        let gauges = Gauges {
            max_used_iops: 5,
            available_burst_credits: Some(6),
            provisioned_iops: Some(1),
            provisioned_bandwidth_bytes: Some(1),
            held_requests: Some(0),
            file_capacity_bytes: Some(8),
            file_count: Some(9),
            capacity_quota_bytes: Some(10),
            volume_size_bytes: Some(7),
            volume_free_bytes: Some(7),
            ..Gauges::default()
        };
        let all = Transactions {
            version: "1".to_owned(),
            counted: vec![counted],
            gauges: [("docs".to_owned(), gauges)].into(),
            ..Transactions::default()
        };
        let samples = parse(&text(&all));
        let share = "file_share=\"a\\\"b\\\\\",protocol=\"SMB\"";
        let api = format!("{share},api_name=\"Read\",authentication=\"NTLMv2\"");
        let wanted = [
            (format!("trunkline_transactions_total{{{api},response_type=\"Success\"}}"), 8.0),
            (format!("trunkline_egress_bytes_total{{{api}}}"), 20.0),
            (format!("trunkline_success_server_latency_seconds_bucket{{{api},le=\"0.000016384\"}}"), 3.0),
            (format!("trunkline_success_server_latency_seconds_bucket{{{api},le=\"0.002097152\"}}"), 7.0),
            (format!("trunkline_success_server_latency_seconds_bucket{{{api},le=\"+Inf\"}}"), 8.0),
            (format!("trunkline_success_server_latency_seconds_sum{{{api}}}"), 2.5),
            (format!("trunkline_io_size_bytes_bucket{{{share},direction=\"read\",le=\"4194304\"}}"), 7.0),
            (format!("trunkline_io_size_bytes_bucket{{{share},direction=\"read\",le=\"+Inf\"}}"), 10.0),
            (format!("trunkline_availability_ratio{{{share}}}"), 0.8),
            ("trunkline_available_burst_credits{file_share=\"docs\"}".to_owned(), 6.0),
            ("trunkline_file_capacity_bytes{file_share=\"docs\"}".to_owned(), 8.0),
            ("trunkline_file_count{file_share=\"docs\"}".to_owned(), 9.0),
            ("trunkline_capacity_quota_bytes{file_share=\"docs\"}".to_owned(), 10.0),
            ("trunkline_info{version=\"1\"}".to_owned(), 1.0),
        ];
        for (name, value) in wanted {
            assert_eq!(samples.get(&name), Some(&value), "{name} in {samples:#?}");
        }
    }
    #[test]
    fn a_recycle_folder_has_its_numbers_and_a_share_without_one_has_none() {
        let recycle =
            Recycle { files: 11, removed: [("linked".to_owned(), 12)].into(), ..Recycle::default() };
        let with = Gauges { recycle: Some(recycle), ..Gauges::default() };
        let gauges = [("docs".to_owned(), with), ("other".to_owned(), Gauges::default())].into();
        let text = text(&Transactions { gauges, ..Transactions::default() });
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("trunkline_recycle")).collect();
        let wanted = [
            "trunkline_recycle_files{file_share=\"docs\"} 11",
            "trunkline_recycle_bytes{file_share=\"docs\"} 0",
            "trunkline_recycle_kept_total{file_share=\"docs\"} 0",
            "trunkline_recycle_purged_total{file_share=\"docs\"} 0",
            "trunkline_recycle_removed_total{file_share=\"docs\",reason=\"linked\"} 12",
        ];
        assert_eq!(lines, wanted);
    }
}
