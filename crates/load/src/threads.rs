//! The threads and the runtime of a session.
//!
//! One thread drives a session and all its channels: for a small block, waking another thread costs more
//! than the block. For large blocks, copying, signing and encrypting take most of the time. One thread would
//! then be a bottleneck that looks like a limit of the channels.

use tokio::runtime::{Builder, Runtime};

use crate::plan::{Protocol, Workload};
use crate::{Error, Plan};

/// The smallest block, in bytes, for which another thread is worth waking. With two threads instead of
/// one, unsigned reads over four channels of this size are faster by a fifth. At half the size they are
/// equally fast and cost more, and reads of 4 KiB cost twice as much.
const LARGE: u32 = 256 * 1024;

/// A runtime with one thread.
///
/// # Errors
/// Those of the host.
pub(crate) fn alone(plan: &Plan) -> Result<Runtime, Error> {
    build(Builder::new_current_thread(), plan)
}

/// A runtime for one of the plan's sessions.
///
/// # Errors
/// Those of the host.
pub(crate) fn of_session(plan: &Plan) -> Result<Runtime, Error> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    match count(plan, processors) {
        1 => alone(plan),
        several => {
            let mut runtime = Builder::new_multi_thread();
            runtime.worker_threads(several);
            build(runtime, plan)
        }
    }
}

/// The number of threads for one session. Sessions share the processors, and a session needs no more
/// threads than it has channels or operations.
fn count(plan: &Plan, processors: usize) -> usize {
    let carries_large = plan.block >= LARGE && matches!(plan.work, Workload::Data(_));
    let share = processors / plan.connections as usize;
    let at_once = plan.workers().div_ceil(plan.connections).min(plan.channels);
    if carries_large { share.clamp(1, at_once.max(1) as usize) } else { 1 }
}

/// Waiting for files of this host needs no descriptors.
fn build(mut runtime: Builder, plan: &Plan) -> Result<Runtime, Error> {
    if !matches!(plan.protocol, Protocol::Local) {
        runtime.enable_all();
    }
    runtime.build().map_err(|why| Error::host("starting a runtime", why))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::Args;

    #[derive(Parser)]
    struct LoadCommandLine {
        #[command(flatten)]
        args: Args,
    }

    fn threads(options: &str, processors: usize) -> usize {
        let words = ["load", "nfs://host/export"].into_iter().chain(options.split_whitespace());
        let plans = Plan::all(&LoadCommandLine::parse_from(words).args, "").expect("these options are sound");
        count(&plans[0], processors)
    }

    #[test]
    fn large_blocks_over_several_channels_have_a_thread_for_each_as_far_as_there_are_processors() {
        assert_eq!(threads("--rw read --bs 1m --channels 4 --iodepth 16", 16), 4);
        assert_eq!(threads("--rw write --bs 256k --channels 4 --iodepth 16", 2), 2);
        assert_eq!(threads("--rw read --bs 1m --channels 4 --connections 4 --iodepth 16", 8), 2);
        assert_eq!(threads("--rw read --bs 1m --channels 4 --connections 9 --iodepth 16", 8), 1);
    }

    #[test]
    fn everything_else_has_one() {
        assert_eq!(threads("--rw read --bs 1m --channels 1 --iodepth 16", 16), 1);
        assert_eq!(threads("--rw read --bs 1m --channels 4 --iodepth 1", 16), 1);
        assert_eq!(threads("--rw read --bs 128k --channels 4 --iodepth 16", 16), 1);
        assert_eq!(threads("--metadata stat --channels 4", 16), 1);
    }
}
