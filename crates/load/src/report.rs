//! What came of a load. [`Report`] is shown as diskspd's tables; [`json()`] is fio's form, [`html()`] a page with plots.

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
use crate::cpu::Usage;
use crate::measure::Record;
use crate::plan::{Files, Protocol, Work};
use crate::turns::{Doubt, Range};
use crate::work::data;
use crate::work::metadata::Names;

/// What came of a load.
#[derive(Debug)]
pub struct Report {
    /// In one line, what was done.
    title: String,
    /// Name and value of each option that matters, as fio writes them.
    options: Vec<(&'static str, String)>,
    facts: Facts,
    /// What each job has done, and to which files.
    rows: Vec<(String, Record)>,
    all: Record,
    measured: Measured,
    /// Clients that took part and of whose operations nothing is known.
    missing: Vec<String>,
    /// Each turn, where numbers of channels were measured in turns.
    turns: Turns,
}

/// What was measured in turns.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Turns {
    /// Operations for a second in each.
    pub(crate) per_s: Vec<f64>,
    /// The number of channels that this is held against, and its turns.
    pub(crate) beside: Option<(u32, Vec<f64>)>,
    /// Part of the processors of this host that other programs used meanwhile.
    pub(crate) others: f64,
}

impl Turns {
    /// How many times as much as the other number of channels; nothing where the turns do not tell.
    pub(crate) fn range(&self) -> Option<Range> {
        let (_, other) = self.beside.as_ref()?;
        Range::of(other, &self.per_s, Doubt { others: self.others, ..Doubt::default() })
    }
}

/// What was measured, beside the names of things.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Measured {
    pub(crate) jobs: Vec<Record>,
    /// Operations that were planned and not begun in time.
    pub(crate) missed: u64,
    pub(crate) processor: Processor,
    /// All processors of this host, or of all clients.
    pub(crate) usage: Usage,
    pub(crate) security: Security,
    /// Those of all sessions.
    pub(crate) channels: Vec<Channel>,
}

impl Measured {
    /// Operations for a second of all jobs.
    pub(crate) fn per_s(&self) -> f64 {
        let lasted = self.jobs.iter().map(|job| job.lasted).max().unwrap_or_default().as_secs_f64();
        let operations = self.jobs.iter().map(Record::operations).sum::<u64>() as f64;
        if lasted > 0.0 { operations / lasted } else { 0.0 }
    }

    /// Takes up what was measured afterwards in the same way. Connections are those of the last turn.
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

    /// Adds what another client has measured at the same time.
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

/// What a report is compared by.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Facts {
    /// What is done, in a word.
    pub(crate) what: String,
    /// Whether blocks are read or written, each of `block` bytes.
    pub(crate) is_data: bool,
    pub(crate) block: u32,
    pub(crate) depth: u32,
    pub(crate) channels: u32,
    pub(crate) jobs: u32,
    /// Operations under way at once in all.
    pub(crate) workers: u32,
    /// Operations in a second that all jobs were to begin.
    pub(crate) rate: Option<u64>,
    pub(crate) ramp: Duration,
    pub(crate) runtime: Option<Duration>,
    pub(crate) cool_down: Duration,
}

/// Processor time in nanoseconds, where it is known.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Processor {
    pub(crate) server_ns: Option<u64>,
    pub(crate) client_ns: Option<u64>,
    /// That part of it which was spent outside of the kernel.
    pub(crate) client_user_ns: Option<u64>,
}

impl Report {
    pub(crate) fn new(plan: &Plan, measured: Measured) -> Report {
        Report::merged(plan, vec![(String::new(), measured)], Vec::new())
    }

    /// What several clients have measured together, each with its name; the `missing` ones were there and have said nothing.
    pub(crate) fn merged(plan: &Plan, clients: Vec<(String, Measured)>, missing: Vec<String>) -> Report {
        let (mut title, options) = describe(plan);
        let mut facts = facts(plan);
        if clients.len() > 1 {
            let count = clients.len() as u32;
            title = format!("{title} from each of {count} clients");
            facts.jobs *= count;
            facts.workers *= count;
            facts.rate = facts.rate.map(|rate| rate * u64::from(count));
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
        Report { title, options, facts, rows, all, measured, missing, turns: Turns::default() }
    }

    pub(crate) fn with_turns(self, turns: Turns) -> Report {
        Report { turns, ..self }
    }

    /// How many operations counted.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.all.operations()
    }

    /// Bytes that they moved.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.all.bytes()
    }

    /// The measured time: from its begin to the last answer, or what was asked for where there was a warm-up.
    #[must_use]
    pub fn lasted(&self) -> Duration {
        self.all.lasted
    }

    /// Operations that were planned (`--rate_iops`) and not begun in the measured time, since earlier ones were not done.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.measured.missed
    }

    /// Whether the bytes that were counted are those that so many operations of this size must have moved; nothing where
    /// no blocks were read or written.
    #[must_use]
    pub fn size_times_operations_holds(&self) -> Option<bool> {
        let latencies = self.all.read.latency.len() + self.all.write.latency.len();
        let expected = latencies * u64::from(self.facts.block);
        self.facts.is_data.then_some(expected == self.bytes())
    }

    /// The most credits that a connection has had at once, where that was too few for what was to be sent.
    #[must_use]
    pub fn most_credits(&self) -> Option<u32> {
        self.measured.channels.iter().filter_map(|it| it.most_credits).min()
    }

    /// Operations for a second times the mean latency: how many were under way at once on average.
    #[must_use]
    pub fn under_way(&self) -> f64 {
        let total = self.all.total();
        let seconds = self.all.lasted.as_secs_f64();
        if seconds > 0.0 { total.latency.mean() / 1e9 * total.operations as f64 / seconds } else { 0.0 }
    }

    /// The server's processor time for one operation, in nanoseconds, if its process was named.
    #[must_use]
    pub fn server_ns_per_operation(&self) -> Option<f64> {
        per_operation(self.measured.processor.server_ns, self.operations())
    }

    /// The same of this process.
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

/// For people: which files a job works on.
fn files_of(plan: &Plan, job: u32) -> String {
    let Work::Data(shape) = &plan.work else { return Names::directory(plan) };
    let names = data::names(shape, job);
    match names.as_slice() {
        [] => String::new(),
        [only] => only.clone(),
        [first, more @ ..] => format!("{first} and {} more", more.len()),
    }
}

fn facts(plan: &Plan) -> Facts {
    let (what, is_data) = match &plan.work {
        Work::Data(shape) => (shape.name().to_owned(), true),
        Work::Metadata { kind, .. } => (value_name(kind), false),
    };
    Facts {
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
        Work::Data(shape) => {
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
        Work::Metadata { kind, files, size, compound, other_case } => {
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
    let place = plan.place();
    let title = match plan.protocol {
        Protocol::Local => format!("{what}, {} jobs of depth {} to {place}", plan.jobs, plan.depth),
        _ => format!(
            "{what}, {} jobs of depth {} over {} connections with {} channels to {place}",
            plan.jobs, plan.depth, plan.connections, plan.channels
        ),
    };
    (title, options)
}
