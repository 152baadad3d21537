//! The results of a load. [`Report`] is printed as diskspd's tables, [`json()`] writes fio's form, and
//! [`html()`] a page with plots.

mod html;
mod json;
pub mod plots;
mod table;

pub use html::html;
pub use json::json;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Plan;
use crate::channel::{Channel, Security};
use crate::comparison::{Range, Uncertainty};
use crate::cpu::Usage;
use crate::measure::Record;
use crate::plan::{Files, Protocol, Workload};
use crate::work::data;
use crate::work::metadata::Names;

/// The results of a load.
#[derive(Debug)]
pub struct Report {
    /// The load in one line.
    title: String,
    /// The name and value of each relevant option, as fio writes them.
    options: Vec<(&'static str, String)>,
    parameters: LoadParameters,
    /// The record of each job, with the files of the job.
    rows: Vec<(String, Record)>,
    all: Record,
    measured: Measured,
    /// The clients that took part and whose results are unknown.
    missing: Vec<String>,
    /// The turns, if numbers of channels were measured in turns.
    turns: Turns,
}

/// The results of a measurement in turns.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Turns {
    /// Operations a second in each turn.
    pub(crate) per_s: Vec<f64>,
    /// The number of channels to compare with, and its turns.
    pub(crate) beside: Option<(u32, Vec<f64>)>,
    /// The part of this host's processors that other programs used meanwhile.
    pub(crate) others: f64,
}

impl Turns {
    /// The factor between this number of channels and the other one. `None` if the turns do not show it.
    pub(crate) fn range(&self) -> Option<Range> {
        let (_, other) = self.beside.as_ref()?;
        Range::of(other, &self.per_s, Uncertainty { others: self.others, ..Uncertainty::default() })
    }
}

/// The measured values of a load.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Measured {
    pub(crate) jobs: Vec<Record>,
    /// Operations that were planned and did not begin in time.
    pub(crate) missed: u64,
    pub(crate) processor: Processor,
    /// The use of all processors of this host, or of all clients.
    pub(crate) usage: Usage,
    pub(crate) security: Security,
    /// The channels of all sessions.
    pub(crate) channels: Vec<Channel>,
}

impl Measured {
    /// Operations a second of all jobs.
    pub(crate) fn per_s(&self) -> f64 {
        let lasted = self.jobs.iter().map(|job| job.lasted).max().unwrap_or_default().as_secs_f64();
        let operations = self.jobs.iter().map(Record::operations).sum::<u64>() as f64;
        if lasted > 0.0 { operations / lasted } else { 0.0 }
    }

    /// Appends a later measurement of the same load. The connections are those of the last one.
    pub(crate) fn then(&mut self, other: Measured) {
        let sum = |a: Option<u64>, b: Option<u64>| Some(a? + b?);
        self.jobs.iter_mut().zip(&other.jobs).for_each(|(job, more)| job.then(more));
        self.missed += other.missed;
        self.processor.server_ns = sum(self.processor.server_ns, other.processor.server_ns);
        self.processor.client_ns = sum(self.processor.client_ns, other.processor.client_ns);
        self.processor.client_user_ns = sum(self.processor.client_user_ns, other.processor.client_user_ns);
        for (own, more) in self.usage.0.iter_mut().zip(&other.usage.0) {
            *own = std::array::from_fn(|at| own[at] + more[at]);
        }
        self.channels = other.channels;
    }

    /// Adds the measurement of another client at the same time.
    fn merge(&mut self, other: Measured) {
        let sum = |a: Option<u64>, b: Option<u64>| Some(a? + b?);
        self.missed += other.missed;
        self.processor.server_ns = sum(self.processor.server_ns, other.processor.server_ns);
        self.processor.client_ns = sum(self.processor.client_ns, other.processor.client_ns);
        self.processor.client_user_ns = sum(self.processor.client_user_ns, other.processor.client_user_ns);
        self.usage.0.extend(other.usage.0);
        self.channels.extend(other.channels);
    }
}

/// The parameters by which reports are compared.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LoadParameters {
    /// The operation in a word.
    pub(crate) what: String,
    /// Whether blocks of `block` bytes are read or written.
    pub(crate) is_data: bool,
    pub(crate) block: u32,
    pub(crate) depth: u32,
    pub(crate) channels: u32,
    pub(crate) jobs: u32,
    /// All operations under way at once.
    pub(crate) workers: u32,
    /// The planned operations a second of all jobs.
    pub(crate) rate: Option<u64>,
    pub(crate) ramp: Duration,
    pub(crate) runtime: Option<Duration>,
    pub(crate) cool_down: Duration,
}

/// Processor time in nanoseconds, if it is known.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Processor {
    pub(crate) server_ns: Option<u64>,
    pub(crate) client_ns: Option<u64>,
    /// The part of it that was spent outside of the kernel.
    pub(crate) client_user_ns: Option<u64>,
}

impl Report {
    pub(crate) fn new(plan: &Plan, measured: Measured) -> Report {
        Report::merged(plan, vec![(String::new(), measured)], Vec::new())
    }

    /// The report of several clients together, each with its name. The results of the `missing` clients
    /// are unknown.
    pub(crate) fn merged(plan: &Plan, clients: Vec<(String, Measured)>, missing: Vec<String>) -> Report {
        let (mut title, options) = describe(plan);
        let mut parameters = parameters(plan);
        if clients.len() > 1 {
            let count = clients.len() as u32;
            title = format!("{title} from each of {count} clients");
            parameters.jobs *= count;
            parameters.workers *= count;
            parameters.rate = parameters.rate.map(|rate| rate * u64::from(count));
        }
        let (mut rows, mut all, mut whole) = (Vec::new(), Record::default(), None::<Measured>);
        for (client, mut measured) in clients {
            for (record, job) in std::mem::take(&mut measured.jobs).into_iter().zip(0..) {
                let file = files_of(plan, job);
                all.merge(&record);
                rows.push((if client.is_empty() { file } else { format!("{client}: {file}") }, record));
            }
            match &mut whole {
                Some(whole) => whole.merge(measured),
                None => whole = Some(measured),
            }
        }
        if !missing.is_empty() {
            title = format!("{title}; INCOMPLETE: without {}", missing.join(", "));
        }
        let measured = whole.unwrap_or_default();
        Report { title, options, parameters, rows, all, measured, missing, turns: Turns::default() }
    }

    pub(crate) fn with_turns(self, turns: Turns) -> Report {
        Report { turns, ..self }
    }

    /// The number of counted operations.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.all.operations()
    }

    /// The bytes that they moved.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.all.bytes()
    }

    /// The measured time. It ends with the last reply, or after a warm-up with the requested time.
    #[must_use]
    pub fn lasted(&self) -> Duration {
        self.all.lasted
    }

    /// Planned operations (`--rate_iops`) that did not begin in the measured time, because earlier ones
    /// were not done.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.measured.missed
    }

    /// Whether the counted bytes equal the number of operations times their size. `None` if no blocks
    /// were read or written.
    #[must_use]
    pub fn size_times_operations_holds(&self) -> Option<bool> {
        let latencies = self.all.read.latency.len() + self.all.write.latency.len();
        let expected = latencies * u64::from(self.parameters.block);
        self.parameters.is_data.then_some(expected == self.bytes())
    }

    /// The most credits that a connection had at once, if they were too few for its requests.
    #[must_use]
    pub fn most_credits(&self) -> Option<u32> {
        self.measured.channels.iter().filter_map(|it| it.most_credits).min()
    }

    /// Operations a second times the mean latency: the average number of operations under way.
    #[must_use]
    pub fn under_way(&self) -> f64 {
        let total = self.all.total();
        let seconds = self.all.lasted.as_secs_f64();
        if seconds > 0.0 { total.latency.mean() / 1e9 * total.operations as f64 / seconds } else { 0.0 }
    }

    /// The server's processor time for each operation in nanoseconds, if its process was named.
    #[must_use]
    pub fn server_ns_per_operation(&self) -> Option<f64> {
        per_operation(self.measured.processor.server_ns, self.operations())
    }

    /// As [`Report::server_ns_per_operation`], of this process.
    #[must_use]
    pub fn client_ns_per_operation(&self) -> Option<f64> {
        per_operation(self.measured.processor.client_ns, self.operations())
    }
}

fn per_operation(spent: Option<u64>, operations: u64) -> Option<f64> {
    spent.filter(|_| operations > 0).map(|spent| spent as f64 / operations as f64)
}

/// The standard deviation of samples.
fn deviation(samples: &[f64]) -> f64 {
    if samples.is_empty() {
        return 0.0;
    }
    let count = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / count;
    (samples.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / count).sqrt()
}

fn value_name(value: &impl clap::ValueEnum) -> String {
    value.to_possible_value().map(|it| it.get_name().to_owned()).unwrap_or_default()
}

/// The files of a job, for people.
fn files_of(plan: &Plan, job: u32) -> String {
    let Workload::Data(shape) = &plan.work else { return Names::directory(plan) };
    let names = data::names(shape, job);
    match names.as_slice() {
        [] => String::new(),
        [only] => only.clone(),
        [first, more @ ..] => format!("{first} and {} more", more.len()),
    }
}

fn parameters(plan: &Plan) -> LoadParameters {
    let (what, is_data) = match &plan.work {
        Workload::Data(shape) => (shape.name().to_owned(), true),
        Workload::Metadata { kind, .. } => (value_name(kind), false),
    };
    LoadParameters {
        what,
        is_data,
        block: plan.block,
        depth: plan.depth,
        channels: plan.channels,
        jobs: plan.jobs,
        workers: plan.workers(),
        rate: plan.rate.map(|rate| u64::from(rate) * u64::from(plan.jobs)),
        ramp: plan.ramp,
        runtime: plan.runtime,
        cool_down: plan.cool_down,
    }
}

fn describe(plan: &Plan) -> (String, Vec<(&'static str, String)>) {
    let mut options = vec![
        ("ioengine", plan.protocol.name().to_owned()),
        ("bs", plan.block.to_string()),
        ("iodepth", plan.depth.to_string()),
        ("numjobs", plan.jobs.to_string()),
        ("connections", plan.connections.to_string()),
        ("channels", plan.channels.to_string()),
    ];
    let what = match &plan.work {
        Workload::Data(shape) => {
            options.push(("rw", shape.name().to_owned()));
            if !matches!(shape.write_percent, 0 | 100) {
                options.push(("rwmixwrite", shape.write_percent.to_string()));
            }
            match &shape.files {
                Files::Own { count, size } => {
                    options.push(("nrfiles", count.to_string()));
                    options.push(("filesize", size.to_string()));
                }
                Files::Named { paths, size, .. } => {
                    options.push(("filename", paths.join(":")));
                    options.extend(size.map(|size| ("filesize", size.to_string())));
                }
            }
            options.extend(plan.direct.then(|| ("direct", "1".to_owned())));
            options.extend(plan.sync.then(|| ("sync", "1".to_owned())));
            format!("{} of {} bytes", shape.name(), plan.block)
        }
        Workload::Metadata { kind, files, size, compound, other_case } => {
            options.push(("metadata", value_name(kind)));
            options.push(("files", files.to_string()));
            options.push(("filesize", size.to_string()));
            let how = if *compound { " in one compound" } else { "" };
            let case = if *other_case { ", in another case" } else { "" };
            format!("{}{how} among {files} names{case}", value_name(kind))
        }
    };
    options.extend((!plan.ramp.is_zero()).then(|| ("ramp_time", plan.ramp.as_secs_f64().to_string())));
    options.extend(plan.rate.map(|rate| ("rate_iops", rate.to_string())));
    if let Some(runtime) = plan.runtime {
        options.push(("runtime", runtime.as_secs_f64().to_string()));
    }
    if let Some(rate) = plan.protocol.pace() {
        options.push(("channel_rate", rate.to_string()));
    }
    if let Some(factor) = plan.slow_channel {
        options.push(("slow_channel", factor.to_string()));
    }
    if let Some(operations) = plan.operations {
        options.push(("number_ios", operations.to_string()));
    }
    let shown_target = plan.shown_target();
    let title = match plan.protocol {
        Protocol::Local => format!("{what}, {} jobs of depth {} to {shown_target}", plan.jobs, plan.depth),
        _ => format!(
            "{what}, {} jobs of depth {} over {} connections with {} channels to {shown_target}",
            plan.jobs, plan.depth, plan.connections, plan.channels
        ),
    };
    (title, options)
}
