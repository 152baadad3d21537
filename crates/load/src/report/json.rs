//! fio's JSON form (its HOWTO, "JSON output"), as one group of jobs.
//!
//! What fio has no place for stands in an object `trunkline`: what was negotiated, operations on names (in the
//! form of fio's `read`), and processor times.

use serde_json::{Map, Value, json};

use super::{Channel, Report};
use crate::measure::Tally;

/// The percentiles that fio reports unless told otherwise.
const PERCENTILES: [f64; 17] =
    [1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99];

/// Reports in fio's JSON form, each as a job.
#[must_use]
pub fn json(reports: &[Report]) -> Value {
    json!({
        "fio version": "trunkline-load",
        "jobs": reports.iter().map(Report::job).collect::<Vec<_>>(),
    })
}

impl Report {
    /// The report in fio's JSON form.
    #[must_use]
    pub fn json(&self) -> Value {
        json(std::slice::from_ref(self))
    }

    fn job(&self) -> Value {
        let seconds = self.all.lasted.as_secs_f64();
        let options: Map<String, Value> =
            self.options.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
        let per_operation = |value: Option<f64>| value.map(|it| it.round() as u64);
        json!({
            "jobname": "trunkline",
            "groupid": 0,
            "error": 0,
            "elapsed": seconds.ceil() as u64,
            "job options": options,
            "read": direction(&self.all.read, seconds),
            "write": direction(&self.all.write, seconds),
            "trunkline": {
                "dialect": self.security.dialect,
                "signing": self.security.signing,
                "encryption": self.security.encryption,
                "metadata": direction(&self.all.metadata, seconds),
                "channels": self.channels.iter().map(channel).collect::<Vec<_>>(),
                "server_cpu_ns": self.processor.server_ns,
                "server_cpu_ns_per_io": per_operation(self.server_ns_per_operation()),
                "client_cpu_ns": self.processor.client_ns,
                "client_cpu_ns_per_io": per_operation(self.client_ns_per_operation()),
            },
        })
    }
}

fn channel(channel: &Channel) -> Value {
    json!({
        "local": channel.local.to_string(),
        "peer": channel.peer.to_string(),
        "requests": channel.requests,
        "bytes": channel.bytes,
    })
}

fn direction(tally: &Tally, seconds: f64) -> Value {
    let rate = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
    let latency = &tally.latency;
    let times = if latency.is_empty() {
        json!({ "min": 0, "max": 0, "mean": 0.0, "stddev": 0.0, "N": 0 })
    } else {
        let percentiles: Map<String, Value> = PERCENTILES
            .iter()
            .map(|percent| (format!("{percent:.6}"), json!(latency.value_at_percentile(*percent))))
            .collect();
        json!({
            "min": latency.min(),
            "max": latency.max(),
            "mean": latency.mean(),
            "stddev": latency.stdev(),
            "N": latency.len(),
            "percentile": percentiles,
        })
    };
    json!({
        "io_bytes": tally.bytes,
        "io_kbytes": tally.bytes / 1024,
        "bw_bytes": rate(tally.bytes) as u64,
        "bw": (rate(tally.bytes) / 1024.0) as u64,
        "iops": rate(tally.operations),
        "runtime": if tally.operations > 0 { (seconds * 1000.0).round() as u64 } else { 0 },
        "total_ios": tally.operations,
        "short_ios": 0,
        "drop_ios": 0,
        "clat_ns": times,
        "lat_ns": times,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn rates_and_latencies_are_in_fios_units() {
        let mut tally = Tally::default();
        (1..=100).for_each(|us| tally.add(4096, Duration::from_micros(us)));
        let value = direction(&tally, 2.0);
        assert_eq!(value["io_bytes"], 409_600);
        assert_eq!(value["bw_bytes"], 204_800);
        assert_eq!(value["bw"], 200);
        assert_eq!(value["iops"], 50.0);
        assert_eq!(value["runtime"], 2000);
        assert_eq!(value["clat_ns"]["N"], 100);
        let median = value["clat_ns"]["percentile"]["50.000000"].as_u64().unwrap();
        assert!((49_900..=50_200).contains(&median), "{median}");
        assert!(value["clat_ns"]["percentile"]["99.990000"].as_u64().unwrap() >= 99_900);
        assert_eq!(direction(&Tally::default(), 2.0)["clat_ns"]["N"], 0);
    }
}
