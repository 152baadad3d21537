//! A checked load. The options of fio and the flags of diskspd both become a [`Plan`].

mod servers;

use std::sync::Arc;
use std::time::Duration;

use auth::SigningAlgorithm;
use client::smb::{Credentials, Options};
use client::{Scheme, Url, join};

use crate::args::{Args, Metadata, Pattern};
use crate::diskspd::Flags;
use crate::{Error, LoadTarget, target};

/// One load that is ready to run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The directory to work in. If files are named, the root of their share.
    pub(crate) target: Url,
    pub(crate) protocol: Protocol,
    pub(crate) work: Workload,
    pub(crate) block: u32,
    pub(crate) jobs: u32,
    pub(crate) depth: u32,
    pub(crate) connections: u32,
    /// Channels of each session.
    pub(crate) channels: u32,
    /// The factor by which the last channel is slower than the others.
    pub(crate) slow_channel: Option<u32>,
    pub(crate) ramp: Duration,
    /// The measured time. `None` if a number of operations ends the load.
    pub(crate) runtime: Option<Duration>,
    /// The time for which work continues afterwards.
    pub(crate) cool_down: Duration,
    pub(crate) operations: Option<u64>,
    /// Operations a second that each job begins.
    pub(crate) rate: Option<u32>,
    /// Whether caches are bypassed.
    pub(crate) direct: bool,
    /// Whether each write waits for the storage.
    pub(crate) sync: bool,
    pub(crate) server_pid: Option<u32>,
    /// Whether the files of `create` are kept.
    pub keep: bool,
}

/// The protocol of the target.
#[derive(Debug, Clone)]
pub(crate) enum Protocol {
    Smb(SmbTarget),
    Nfs(client::nfs::Options),
    /// System calls. The path may be on a mounted file system.
    Local,
    /// The null server.
    Null {
        host: String,
        port: u16,
    },
}

/// The connection options of an SMB server.
#[derive(Debug, Clone)]
pub(crate) struct SmbTarget {
    pub(crate) credentials: Credentials,
    pub(crate) options: Options,
    /// The signing algorithm that must be negotiated.
    pub(crate) signing: Option<SigningAlgorithm>,
    pub(crate) encrypt: bool,
}

impl Protocol {
    /// The name of the protocol in reports.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Protocol::Smb(_) => "smb",
            Protocol::Nfs(_) => "nfs",
            Protocol::Local => "local",
            Protocol::Null { .. } => "null",
        }
    }

    /// Bytes a second that each channel may carry.
    pub(crate) fn pace(&self) -> Option<u64> {
        match self {
            Protocol::Smb(smb) => smb.options.pace,
            Protocol::Nfs(options) => options.pace,
            Protocol::Local | Protocol::Null { .. } => None,
        }
    }

    fn unpaced(mut self) -> Protocol {
        match &mut self {
            Protocol::Smb(smb) => smb.options.pace = None,
            Protocol::Nfs(options) => options.pace = None,
            Protocol::Local | Protocol::Null { .. } => {}
        }
        self
    }
}

/// The operations of the load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Workload {
    Data(BlockPattern),
    Metadata { kind: Metadata, files: u64, size: u32, compound: bool, other_case: bool },
}

/// The pattern of reads and writes of file blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BlockPattern {
    pub(crate) random: bool,
    /// The percentage of operations that write.
    pub(crate) write_percent: u32,
    /// The unit of offsets.
    pub(crate) step: u64,
    /// Whether the jobs of a file share one position.
    pub(crate) interlocked: bool,
    pub(crate) files: Files,
    pub(crate) content: Content,
}

/// The files of the load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Files {
    /// Files of each job, in the target's directory, created with this size.
    Own { count: u32, size: u64 },
    /// These files, each with a number of jobs. They are created with `size`, or exist already.
    Named { paths: Arc<[String]>, jobs: u32, size: Option<u64> },
}

/// The data of writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// The same incompressible block.
    Block,
    /// Zeros only.
    Zeros,
    /// Incompressible parts of this size.
    Pieces(u64),
}

impl BlockPattern {
    /// The name of the pattern in fio.
    pub(crate) fn name(&self) -> &'static str {
        match (self.random, self.write_percent) {
            (false, 0) => "read",
            (false, 100) => "write",
            (false, _) => "rw",
            (true, 0) => "randread",
            (true, 100) => "randwrite",
            (true, _) => "randrw",
        }
    }
}

/// The operations that each connection has under way at once.
#[derive(Debug, Clone, Copy)]
struct Load {
    block: u32,
    depth: u64,
}

impl Plan {
    /// Checks the options, and returns the loads to run one after the other: each pattern with each block
    /// size, each depth and each number of channels.
    ///
    /// # Errors
    /// [`Error::Usage`] names the option to change.
    pub fn all(args: &Args, password: &str) -> Result<Vec<Plan>, Error> {
        let target = common_target(args)?;
        let mut plans = Vec::new();
        if !args.diskspd.is_empty() {
            let flags = Flags::read(&args.diskspd)?;
            plans.push(Plan::of_flags(args, &flags, target, password)?);
        } else {
            for pattern in &args.rw {
                for block in &args.bs {
                    for depth in &args.iodepth {
                        plans.push(Plan::of_options(args, *pattern, *block, *depth, &target, password)?);
                    }
                }
            }
        }
        let over = |plan: &Plan| {
            let each = |channels: &u32| Plan { channels: *channels, ..plan.clone() };
            args.channels.iter().map(each).collect::<Vec<_>>()
        };
        Ok(plans.iter().flat_map(over).collect())
    }

    /// The same plan over one channel without a rate limit, and through the caches. It is for work that
    /// is not measured.
    pub(crate) fn unhindered(&self) -> Plan {
        let protocol = self.protocol.clone().unpaced();
        Plan { channels: 1, slow_channel: None, direct: false, sync: false, protocol, ..self.clone() }
    }

    /// The rate of the last channel in bytes a second, if it is slower than the others.
    pub(crate) fn slow_rate(&self) -> Option<u64> {
        let (factor, rate) = self.slow_channel.zip(self.protocol.pace())?;
        Some((rate / u64::from(factor)).max(1))
    }

    /// The same plan for one of several clients. It has its own files unless they are named.
    pub(crate) fn of_client(mut self, number: u32) -> Plan {
        if !matches!(self.work, Workload::Data(BlockPattern { files: Files::Named { .. }, .. })) {
            self.target.path = join(&self.target.path, &format!("client-{number}"));
        }
        self
    }

    /// The target for reports.
    pub(crate) fn shown_target(&self) -> String {
        match &self.protocol {
            Protocol::Null { host, port } => format!("{host}:{port}"),
            _ => target::shown_share(&self.target),
        }
    }

    /// The number of operations under way at once.
    pub(crate) fn workers(&self) -> u32 {
        self.jobs * self.depth
    }

    fn of_flags(args: &Args, flags: &Flags, target: Url, password: &str) -> Result<Plan, Error> {
        let block = block_of("-b", flags.block)?;
        if flags.source.is_some_and(|source| source < flags.block) {
            return Err(usage("-Z: the data to write is smaller than one write (-b)"));
        }
        let paths = paths(args);
        let shape = BlockPattern {
            random: flags.random,
            write_percent: flags.write_percent,
            step: flags.step.unwrap_or(flags.block),
            interlocked: flags.interlocked,
            content: match flags.source {
                Some(source) => Content::Pieces(source),
                None if flags.zeros => Content::Zeros,
                None => Content::Block,
            },
            files: Files::Named { paths: Arc::clone(&paths), jobs: flags.threads, size: flags.create },
        };
        let jobs = flags.threads * paths.len() as u32;
        let plan = Plan {
            ramp: flags.warm_up,
            runtime: Some(flags.duration),
            cool_down: flags.cool_down,
            direct: flags.direct,
            sync: flags.sync,
            ..Plan::with(args, target, Workload::Data(shape), block, jobs, flags.depth, password)?
        };
        plan.checked()
    }

    fn of_options(
        args: &Args,
        pattern: Pattern,
        block: u64,
        depth: u32,
        target: &Url,
        password: &str,
    ) -> Result<Plan, Error> {
        let block = block_of("--bs", block)?;
        let mut jobs = args.numjobs;
        let work = match args.metadata {
            Some(kind) => metadata(args, kind, block)?,
            None if args.compound => return Err(usage(ALONE)),
            None if args.other_case => return Err(usage(OF_KNOWN_NAMES)),
            None => {
                let files = if are_files(args) {
                    let paths = paths(args);
                    jobs *= paths.len() as u32;
                    Files::Named { paths, jobs: args.numjobs, size: args.filesize }
                } else {
                    let size = args.filesize.unwrap_or(FILE_SIZE.max(block.into()));
                    Files::Own { count: args.nrfiles, size }
                };
                Workload::Data(BlockPattern {
                    random: pattern.is_random(),
                    write_percent: pattern.write_percent(),
                    step: block.into(),
                    interlocked: false,
                    files,
                    content: Content::Block,
                })
            }
        };
        Plan::with(args, target.clone(), work, block, jobs, depth, password)?.checked()
    }

    /// The part that flags and options have in common.
    fn with(
        args: &Args,
        target: Url,
        work: Workload,
        block: u32,
        jobs: u32,
        depth: u32,
        password: &str,
    ) -> Result<Plan, Error> {
        let ends = args.runtime.is_some() || args.number_ios.is_some();
        let mut operations = args.number_ios;
        if matches!(work, Workload::Metadata { kind: Metadata::Unlink, .. }) {
            // Only existing files can be deleted.
            operations = operations.or(Some(args.files));
        }
        let workers = u64::from(jobs) * u64::from(depth);
        let load = Load { block, depth: workers.div_ceil(u64::from(args.connections)) };
        let protocol = servers::protocol(args, password, load)?;
        let is_local = matches!(protocol, Protocol::Local);
        let most = if is_local { MAX_THREADS } else { MAX_WORKERS };
        if workers > most {
            let text = format!(
                "{jobs} jobs of depth {depth} are {workers} operations at once; at most {most} can be"
            );
            return Err(Error::Usage(text));
        }
        if u64::from(args.connections) > workers {
            return Err(usage(
                "--connections is more than --numjobs times --iodepth, so that some would have no work",
            ));
        }
        // A thread of this host has one operation under way.
        let connections = if is_local { workers as u32 } else { args.connections };
        Ok(Plan {
            target,
            protocol,
            work,
            block,
            jobs,
            depth,
            connections,
            channels: 1,
            slow_channel: args.slow_channel,
            ramp: args.ramp_time,
            runtime: if ends { args.runtime } else { Some(Duration::from_secs(10)) },
            cool_down: Duration::ZERO,
            operations,
            rate: args.rate_iops,
            direct: args.direct == Some(1),
            sync: args.sync == Some(1),
            server_pid: args.server_pid,
            keep: args.keep,
        })
    }

    /// The checks that need the whole plan.
    fn checked(self) -> Result<Plan, Error> {
        let writes = !matches!(&self.work, Workload::Data(shape) if shape.write_percent == 0);
        if matches!(self.protocol, Protocol::Null { .. }) && (writes || self.direct || self.sync) {
            return Err(usage("null:// goes with reads alone"));
        }
        if let Workload::Data(shape) = &self.work {
            let size = match shape.files {
                Files::Own { size, .. } => Some(size),
                Files::Named { size, .. } => size,
            };
            if let Some(size) = size.filter(|size| *size < u64::from(self.block)) {
                return Err(Error::Usage(format!("--filesize {size} is less than --bs {}", self.block)));
            }
            let is_whole = |bytes: u64| bytes.is_multiple_of(SECTOR);
            if self.direct && !(is_whole(self.block.into()) && is_whole(shape.step)) {
                let text = format!(
                    "direct I/O takes whole sectors: sizes and offsets must be multiples of {SECTOR} bytes"
                );
                return Err(Error::Usage(text));
            }
        }
        Ok(self)
    }
}

fn usage(text: &str) -> Error {
    Error::Usage(text.to_owned())
}

fn block_of(option: &str, bytes: u64) -> Result<u32, Error> {
    let block = u32::try_from(bytes).ok().filter(|bytes| *bytes <= MAX_BLOCK);
    block.ok_or_else(|| Error::Usage(format!("{option} is at most {MAX_BLOCK} bytes")))
}

/// Whether the targets are files. Otherwise the target is a directory in which each job creates its own
/// files.
fn are_files(args: &Args) -> bool {
    let is_directory = || match &args.targets[0] {
        LoadTarget::Files(url) if url.scheme == Scheme::Local => std::path::Path::new(&url.path).is_dir(),
        _ => true,
    };
    args.metadata.is_none() && (!args.diskspd.is_empty() || args.targets.len() > 1 || !is_directory())
}

fn paths(args: &Args) -> Arc<[String]> {
    args.targets.iter().map(|target| target.directory().path).collect()
}

/// The directory or share of the load.
fn common_target(args: &Args) -> Result<Url, Error> {
    let first = &args.targets[0];
    if let Some(other) = args.targets.iter().find(|other| !other.shares_root(first)) {
        let text = format!("several targets must be files of one share; {first} and {other} are not");
        return Err(Error::Usage(text));
    }
    if args.metadata.is_some() && args.targets.len() > 1 {
        return Err(usage("--metadata takes one target, the directory to work in"));
    }
    if !are_files(args) {
        return Ok(first.directory());
    }
    if let Some(share) = args.targets.iter().find(|it| it.directory().path.is_empty()) {
        let text = format!("{share} is a share, and a target of diskspd's is a file in it");
        return Err(Error::Usage(text));
    }
    Ok(target::root(&first.directory()))
}

fn metadata(args: &Args, kind: Metadata, block: u32) -> Result<Workload, Error> {
    if kind == Metadata::Unlink && !args.ramp_time.is_zero() {
        return Err(usage("--ramp_time does not go with --metadata unlink"));
    }
    if args.compound && matches!(kind, Metadata::List | Metadata::Close) {
        return Err(usage(ALONE));
    }
    if args.other_case && !matches!(kind, Metadata::Open | Metadata::Close | Metadata::Stat) {
        return Err(usage(OF_KNOWN_NAMES));
    }
    let size = args.filesize.map_or(Ok(block), |size| block_of("--filesize of --metadata", size))?;
    let (files, compound, other_case) = (args.files, args.compound, args.other_case);
    Ok(Workload::Metadata { kind, files, size, compound, other_case })
}

const OF_KNOWN_NAMES: &str = "--other-case goes with --metadata open, close and stat";

const ALONE: &str = "--compound goes with --metadata create, open and unlink";

/// The largest payload of one message that servers offer.
const MAX_BLOCK: u32 = 8 * 1024 * 1024;

/// The default size of each file.
const FILE_SIZE: u64 = 64 * 1024 * 1024;

/// The most operations under way at once. Each has a task.
const MAX_WORKERS: u64 = 16_384;

/// The most operations under way at once, if each has a thread.
const MAX_THREADS: u64 = 4_096;

/// The smallest unit of reads and writes that bypass the caches.
const SECTOR: u64 = 512;
