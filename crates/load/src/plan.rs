//! What has been checked and will be done. fio's options and diskspd's flags come to the same [`Plan`].

mod servers;

use std::sync::Arc;
use std::time::Duration;

use auth::SigningAlgorithm;
use client::smb::{Credentials, Options};
use client::{Scheme, Url, join};

use crate::args::{Args, Metadata, Pattern};
use crate::diskspd::Flags;
use crate::{Error, LoadTarget, target};

/// One load, ready to run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The directory to work in; where files are named, the root of their share.
    pub(crate) target: Url,
    pub(crate) protocol: Protocol,
    pub(crate) work: Work,
    pub(crate) block: u32,
    pub(crate) jobs: u32,
    pub(crate) depth: u32,
    pub(crate) connections: u32,
    /// Channels of each session.
    pub(crate) channels: u32,
    /// How many times slower than the others the last channel is.
    pub(crate) slow_channel: Option<u32>,
    pub(crate) ramp: Duration,
    /// How long is measured; without end when the number of operations ends it.
    pub(crate) runtime: Option<Duration>,
    /// How long work goes on after that.
    pub(crate) cool_down: Duration,
    pub(crate) operations: Option<u64>,
    /// Operations that each job begins in a second.
    pub(crate) rate: Option<u32>,
    /// Past the caches.
    pub(crate) direct: bool,
    /// Each write waits for the store.
    pub(crate) sync: bool,
    pub(crate) server_pid: Option<u32>,
    /// What create has made is left.
    pub keep: bool,
}

/// How the target is spoken to.
#[derive(Debug, Clone)]
pub(crate) enum Protocol {
    Smb(Smb),
    Nfs(client::nfs::Options),
    /// By system calls; what is mounted there is the host's affair.
    Local,
    /// The protocol of the null server.
    Null {
        host: String,
        port: u16,
    },
}

/// How an SMB server is spoken to.
#[derive(Debug, Clone)]
pub(crate) struct Smb {
    pub(crate) credentials: Credentials,
    pub(crate) options: Options,
    /// The algorithm that must come of it.
    pub(crate) signing: Option<SigningAlgorithm>,
    pub(crate) encrypt: bool,
}

impl Protocol {
    /// Its name in reports.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Protocol::Smb(_) => "smb",
            Protocol::Nfs(_) => "nfs",
            Protocol::Local => "local",
            Protocol::Null { .. } => "null",
        }
    }

    /// Bytes that each channel may carry in a second.
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

/// What the operations are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Work {
    Data(Shape),
    Metadata { kind: Metadata, files: u64, size: u32, compound: bool, other_case: bool },
}

/// How blocks of files are read and written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) random: bool,
    /// How many of a hundred operations write.
    pub(crate) write_percent: u32,
    /// What offsets are multiples of.
    pub(crate) step: u64,
    /// The jobs of a file share one position.
    pub(crate) interlocked: bool,
    pub(crate) files: Files,
    pub(crate) content: Content,
}

/// Which files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Files {
    /// So many for each job, in the target's directory, made so large.
    Own { count: u32, size: u64 },
    /// These, each for so many jobs; made so large, or there already.
    Named { paths: Arc<[String]>, jobs: u32, size: Option<u64> },
}

/// What writes carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// The same block that does not compress.
    Block,
    /// Nothing but zeros.
    Zeros,
    /// Pieces of so many bytes that do not compress.
    Pieces(u64),
}

impl Shape {
    /// fio's name for it.
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

/// What each connection has under way at once.
#[derive(Debug, Clone, Copy)]
struct Load {
    block: u32,
    depth: u64,
}

impl Plan {
    /// Checks what was asked for; answers the loads to run one after the other: each pattern with each block size, each
    /// depth and each number of channels.
    ///
    /// # Errors
    /// [`Error::Usage`] with the option to change.
    pub fn all(args: &Args, password: &str) -> Result<Vec<Plan>, Error> {
        let target = place(args)?;
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

    /// The same over one channel that carries what it can, by way of the caches: for what is not measured.
    pub(crate) fn unhindered(&self) -> Plan {
        let protocol = self.protocol.clone().unpaced();
        Plan { channels: 1, slow_channel: None, direct: false, sync: false, protocol, ..self.clone() }
    }

    /// What the last channel may carry in a second, where it is slower than the others.
    pub(crate) fn slow_rate(&self) -> Option<u64> {
        let (factor, rate) = self.slow_channel.zip(self.protocol.pace())?;
        Some((rate / u64::from(factor)).max(1))
    }

    /// The same for one of several clients, which has files of its own unless they are named.
    pub(crate) fn of_client(mut self, number: u32) -> Plan {
        if !matches!(self.work, Work::Data(Shape { files: Files::Named { .. }, .. })) {
            self.target.path = join(&self.target.path, &format!("client-{number}"));
        }
        self
    }

    /// The target for reports.
    pub(crate) fn place(&self) -> String {
        match &self.protocol {
            Protocol::Null { host, port } => format!("{host}:{port}"),
            _ => target::place(&self.target),
        }
    }

    /// Operations under way at once.
    pub(crate) fn workers(&self) -> u32 {
        self.jobs * self.depth
    }

    fn of_flags(args: &Args, flags: &Flags, target: Url, password: &str) -> Result<Plan, Error> {
        let block = block_of("-b", flags.block)?;
        if flags.source.is_some_and(|source| source < flags.block) {
            return Err(usage("-Z: the data to write is smaller than one write (-b)"));
        }
        let paths = paths(args);
        let shape = Shape {
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
            ..Plan::with(args, target, Work::Data(shape), block, jobs, flags.depth, password)?
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
                Work::Data(Shape {
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

    /// What flags and options have in common.
    fn with(
        args: &Args,
        target: Url,
        work: Work,
        block: u32,
        jobs: u32,
        depth: u32,
        password: &str,
    ) -> Result<Plan, Error> {
        let ends = args.runtime.is_some() || args.number_ios.is_some();
        let mut operations = args.number_ios;
        if matches!(work, Work::Metadata { kind: Metadata::Unlink, .. }) {
            // Only what has been made before can be deleted.
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

    /// What can only be said of the whole.
    fn checked(self) -> Result<Plan, Error> {
        let writes = !matches!(&self.work, Work::Data(shape) if shape.write_percent == 0);
        if matches!(self.protocol, Protocol::Null { .. }) && (writes || self.direct || self.sync) {
            return Err(usage("null:// goes with reads alone"));
        }
        if let Work::Data(shape) = &self.work {
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

/// Whether the targets are files, not a directory in which each job makes its own.
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

/// Where the work is done.
fn place(args: &Args) -> Result<Url, Error> {
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

fn metadata(args: &Args, kind: Metadata, block: u32) -> Result<Work, Error> {
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
    Ok(Work::Metadata { kind, files, size, compound, other_case })
}

const OF_KNOWN_NAMES: &str = "--other-case goes with --metadata open, close and stat";

const ALONE: &str = "--compound goes with --metadata create, open and unlink";

/// The largest payload of one message that servers offer.
const MAX_BLOCK: u32 = 8 * 1024 * 1024;

/// Bytes of each file unless told otherwise.
const FILE_SIZE: u64 = 64 * 1024 * 1024;

/// Operations under way at once at most, each of which has a task.
const MAX_WORKERS: u64 = 16_384;

/// The same where each has a thread.
const MAX_THREADS: u64 = 4_096;

/// The least that stores read and write past the caches.
const SECTOR: u64 = 512;
