//! fio's JSON form (its HOWTO, "JSON output"), as one group of jobs.
//!
//! The object `trunkline` has the values that fio has no place for: the negotiated security, operations
//! on names (in the form of fio's `read`), and processor times.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hdrhistogram::Histogram;
use serde_json::{Map, Value, json};

use super::{Report, deviation};
use crate::channel::Channel;
use crate::measure::Tally;

/// The default percentiles of fio.
const PERCENTILES: [f64; 17] =
    [1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99];

/// Reports in fio's JSON form, each as a job.
#[must_use]
pub fn json(reports: &[Report]) -> Value {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    json!({
        "fio version": "trunkline-load",
        "timestamp": now.as_secs(),
        "timestamp_ms": now.as_millis() as u64,
        "global options": {},
        "jobs": reports.iter().map(Report::job).collect::<Vec<_>>(),
        "disk_util": [],
    })
}

impl Report {
    /// The report in fio's JSON form.
    #[must_use]
    pub fn json(&self) -> Value {
        json(std::slice::from_ref(self))
    }

    fn job(&self) -> Value {
        let lasted = self.all.lasted;
        let options: Map<String, Value> =
            self.options.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
        let per_operation = |value: Option<f64>| value.map(|it| it.round() as u64);
        let measured = &self.measured;
        let [ns, us, ms] = classes(&self.all.total());
        let percent =
            |spent: Option<u64>| spent.unwrap_or(0) as f64 / lasted.as_nanos().max(1) as f64 * 100.0;
        let user = measured.processor.client_user_ns;
        let kernel = measured.processor.client_ns.map(|all| all.saturating_sub(user.unwrap_or(0)));
        json!({
            "jobname": "trunkline",
            "groupid": 0,
            "error": 0,
            "eta": 0,
            "elapsed": lasted.as_secs_f64().ceil() as u64,
            "job options": options,
            "read": direction(&self.all.read, lasted),
            "write": direction(&self.all.write, lasted),
            "trim": direction(&Tally::default(), lasted),
            "job_runtime": lasted.as_millis() as u64,
            "usr_cpu": percent(user),
            "sys_cpu": percent(kernel),
            "latency_ns": ns,
            "latency_us": us,
            "latency_ms": ms,
            "trunkline": {
                "dialect": measured.security.dialect,
                "signing": measured.security.signing,
                "encryption": measured.security.encryption,
                "metadata": direction(&self.all.metadata, lasted),
                "channels": measured.channels.iter().map(channel).collect::<Vec<_>>(),
                "server_cpu_ns": measured.processor.server_ns,
                "server_cpu_ns_per_io": per_operation(self.server_ns_per_operation()),
                "client_cpu_ns": measured.processor.client_ns,
                "client_cpu_ns_per_io": per_operation(self.client_ns_per_operation()),
                "missed_ios": measured.missed,
                "turns_per_s": self.turns.per_s,
                "times_as_much": self.turns.range(),
                "missing_clients": self.missing,
                "under_way": self.under_way(),
                "size_times_iops_holds": self.size_times_operations_holds(),
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
        "sent": channel.sent,
        "received": channel.received,
        "most_credits": channel.most_credits,
    })
}

/// The upper bounds of fio's latency classes. The classes of milliseconds have two more, the last without
/// a bound.
const CLASSES: [u64; 10] = [2, 4, 10, 20, 50, 100, 250, 500, 750, 1000];

/// The percentage of operations in each latency class, for the classes of nanoseconds, microseconds and
/// milliseconds.
fn classes(total: &Tally) -> [Value; 3] {
    let (latency, mut from) = (&total.latency, 0);
    let mut percent = |to: u64| {
        let count =
            if latency.is_empty() || from > latency.max() { 0 } else { latency.count_between(from, to - 1) };
        from = to;
        count as f64 * 100.0 / latency.len().max(1) as f64
    };
    [1, 1_000, 1_000_000].map(|unit| {
        let mut of_unit: Map<String, Value> =
            CLASSES.iter().map(|bound| (bound.to_string(), json!(percent(bound * unit)))).collect();
        if unit == 1_000_000 {
            of_unit.insert("2000".to_owned(), json!(percent(2000 * unit)));
            of_unit.insert(">=2000".to_owned(), json!(percent(u64::MAX)));
        }
        Value::Object(of_unit)
    })
}

/// The minimum, maximum, mean, standard deviation and number of the samples.
fn spread(samples: &[f64]) -> [f64; 4] {
    if samples.is_empty() {
        return [0.0; 4];
    }
    let least = samples.iter().copied().fold(f64::INFINITY, f64::min);
    let most = samples.iter().copied().fold(0.0, f64::max);
    let mean = samples.iter().sum::<f64>() / samples.len() as f64;
    [least, most, mean, deviation(samples)]
}

fn direction(tally: &Tally, lasted: Duration) -> Value {
    let seconds = lasted.as_secs_f64();
    let rate = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
    let rates = tally.rates(lasted);
    let (of_operations, of_kib): (Vec<f64>, Vec<f64>) =
        rates.into_iter().map(|(ops, bytes)| (ops, bytes / 1024.0)).unzip();
    let [bw_min, bw_max, bw_mean, bw_dev] = spread(&of_kib);
    let [iops_min, iops_max, iops_mean, iops_stddev] = spread(&of_operations);
    let times = times(&tally.latency);
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
        "slat_ns": no_times(),
        "clat_ns": times,
        "lat_ns": times,
        "bw_min": bw_min as u64,
        "bw_max": bw_max as u64,
        "bw_agg": if tally.operations > 0 { 100.0 } else { 0.0 },
        "bw_mean": bw_mean,
        "bw_dev": bw_dev,
        "bw_samples": of_kib.len(),
        "iops_min": iops_min as u64,
        "iops_max": iops_max as u64,
        "iops_mean": iops_mean,
        "iops_stddev": iops_stddev,
        "iops_samples": of_operations.len(),
    })
}

fn no_times() -> Value {
    json!({ "min": 0, "max": 0, "mean": 0.0, "stddev": 0.0, "N": 0 })
}

fn times(latency: &Histogram<u64>) -> Value {
    if latency.is_empty() {
        return no_times();
    }
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_latencies_are_in_fios_units() {
        let mut tally = Tally::default();
        (1..=100).for_each(|us| tally.add(4096, Duration::from_micros(us), Duration::from_millis(us * 19)));
        let value = direction(&tally, Duration::from_secs(2));
        assert_eq!(value["io_bytes"], 409_600);
        assert_eq!(value["bw_bytes"], 204_800);
        assert_eq!(value["bw"], 200);
        assert_eq!(value["iops"], 50.0);
        assert_eq!(value["runtime"], 2000);
        assert_eq!(value["clat_ns"]["N"], 100);
        let median = value["clat_ns"]["percentile"]["50.000000"].as_u64().unwrap();
        assert!((49_900..=50_200).contains(&median), "{median}");
        assert!(value["clat_ns"]["percentile"]["99.990000"].as_u64().unwrap() >= 99_900);
        assert_eq!(direction(&Tally::default(), Duration::from_secs(2))["clat_ns"]["N"], 0);
        let even =
            ["iops_samples", "iops_min", "iops_max", "bw_samples"].map(|it| value[it].as_u64().unwrap());
        assert_eq!((even[0], even[3]), (4, 4));
        assert!(even[1] >= 44 && even[2] <= 54, "{even:?}");
    }

    #[test]
    fn every_latency_is_in_one_class() {
        let mut tally = Tally::default();
        for ns in [1, 3, 3, 70_000, 300_000_000, 5_000_000_000] {
            tally.add(1, Duration::from_nanos(ns), Duration::ZERO);
        }
        let [ns, us, ms] = classes(&tally);
        let sum = |it: &Value| it.as_object().unwrap().values().map(|it| it.as_f64().unwrap()).sum::<f64>();
        assert!((sum(&ns) + sum(&us) + sum(&ms) - 100.0).abs() < 0.001);
        let sixth = |it: &Value| (it.as_f64().unwrap() * 6.0 / 100.0).round() as u32;
        assert_eq!([&ns["2"], &ns["4"], &us["100"], &ms["500"], &ms[">=2000"]].map(sixth), [1, 2, 1, 1, 1]);
    }
}
