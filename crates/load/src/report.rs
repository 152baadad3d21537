//! What came of a load. [`Report`] is shown as diskspd's tables; [`Report::json`] is fio's form.

mod json;
mod table;

pub use json::json;

use std::net::SocketAddr;
use std::time::Duration;

use crate::Plan;
use crate::measure::Record;
use crate::plan::Work;

/// What came of a load.
#[derive(Debug)]
pub struct Report {
    /// In one line, what was done.
    title: String,
    /// Name and value of each option that matters, as fio writes them.
    options: Vec<(&'static str, String)>,
    connections: Vec<Record>,
    all: Record,
    processor: Processor,
    security: Security,
    /// Those of all sessions.
    channels: Vec<Channel>,
}

/// A connection and what it carried, from the beginning of its session.
#[derive(Debug, Clone)]
pub(crate) struct Channel {
    pub(crate) local: SocketAddr,
    pub(crate) peer: SocketAddr,
    pub(crate) requests: u64,
    pub(crate) bytes: u64,
}

/// Processor time in nanoseconds, where it is known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Processor {
    pub(crate) server_ns: Option<u64>,
    pub(crate) client_ns: Option<u64>,
}

/// What was negotiated.
#[derive(Debug, Clone)]
pub(crate) struct Security {
    pub(crate) protocol: &'static str,
    pub(crate) dialect: String,
    pub(crate) signing: String,
    pub(crate) encryption: String,
}

impl Report {
    pub(crate) fn new(
        plan: &Plan,
        connections: Vec<Record>,
        processor: Processor,
        security: Security,
        channels: Vec<Channel>,
    ) -> Report {
        let mut all = Record::default();
        connections.iter().for_each(|record| all.merge(record));
        let (title, options) = describe(plan);
        Report { title, options, connections, all, processor, security, channels }
    }

    /// How many operations counted.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.all.operations()
    }

    /// Bytes that they moved.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.all.read.bytes + self.all.write.bytes + self.all.metadata.bytes
    }

    /// From the begin of the measured time to the end of the last operation.
    #[must_use]
    pub fn lasted(&self) -> Duration {
        self.all.lasted
    }

    /// The server's processor time for one operation, in nanoseconds, if its process was named.
    #[must_use]
    pub fn server_ns_per_operation(&self) -> Option<f64> {
        per_operation(self.processor.server_ns, self.operations())
    }

    /// The same of this process.
    #[must_use]
    pub fn client_ns_per_operation(&self) -> Option<f64> {
        per_operation(self.processor.client_ns, self.operations())
    }
}

fn per_operation(spent: Option<u64>, operations: u64) -> Option<f64> {
    spent.filter(|_| operations > 0).map(|spent| spent as f64 / operations as f64)
}

fn value_name(value: &impl clap::ValueEnum) -> String {
    value.to_possible_value().map(|it| it.get_name().to_owned()).unwrap_or_default()
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
    let what = match plan.work {
        Work::Data { pattern, files, file_size } => {
            options.push(("rw", value_name(&pattern)));
            options.push(("nrfiles", files.to_string()));
            options.push(("filesize", file_size.to_string()));
            format!("{} of {} bytes", value_name(&pattern), plan.block)
        }
        Work::Metadata { kind, files, compound } => {
            options.push(("metadata", value_name(&kind)));
            options.push(("files", files.to_string()));
            let how = if compound { " in one compound" } else { "" };
            format!("{}{how} among {files} names", value_name(&kind))
        }
    };
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
    let title = format!(
        "{what}, {} jobs of depth {} over {} connections with {} channels to {}/{}",
        plan.jobs, plan.depth, plan.connections, plan.channels, plan.target.host, plan.target.share
    );
    (title, options)
}
