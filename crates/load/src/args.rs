//! The options of `trunkline load`, with the names that fio gives them. [`crate::diskspd`] reads the
//! flags of diskspd.

// Brackets in the text of --help mark optional parts.
#![allow(rustdoc::broken_intra_doc_links)]

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use client::smb::TicketArgs;
use client::written::size;
use smb_wire::negotiate::Dialect;

use crate::target::{LoadTarget, target};
use crate::units::time;

/// Target and kind of the load.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// Target: smb://USER@HOST[:PORT]/SHARE[/DIR], nfs://HOST[:PORT]/EXPORT[/DIR] or the path of a
    /// mounted directory. Several targets, or one with diskspd's flags, are files
    #[arg(value_name = "TARGET", required_unless_present = "agent", value_parser = target)]
    pub targets: Vec<LoadTarget>,
    /// One of diskspd's flags, as `diskspd::spell_out` passes it on
    #[arg(long = "diskspd", value_name = "FLAG", hide = true, allow_hyphen_values = true)]
    #[arg(conflicts_with_all = [
        "rw", "metadata", "bs", "iodepth", "numjobs", "nrfiles", "filesize", "runtime", "ramp_time", "direct",
        "sync", "time_based",
    ])]
    pub diskspd: Vec<String>,
    /// File whose first line is the password [default: the variable TRUNKLINE_PASSWORD, or else a prompt]
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// Log-ons with tickets.
    #[command(flatten)]
    pub tickets: TicketArgs,
    /// With nfs://: user of every call [default: the user of this process]
    #[arg(long, value_name = "N")]
    pub uid: Option<u32>,
    /// With nfs://: group of every call [default: the group of this process]
    #[arg(long, value_name = "N")]
    pub gid: Option<u32>,
    /// Pattern of reads and writes; a list here, in --bs or in --iodepth is measured one after the other
    #[arg(long, value_enum, value_delimiter = ',', default_value = "read", conflicts_with = "metadata")]
    pub rw: Vec<Pattern>,
    /// Operation on names instead of reads and writes
    #[arg(long, value_enum)]
    pub metadata: Option<Metadata>,
    /// Bytes of one read or write
    #[arg(long, value_name = "SIZE", value_parser = size, value_delimiter = ',', default_value = "4k")]
    pub bs: Vec<u64>,
    /// Operations that each job keeps under way
    #[arg(
        long, value_name = "N", value_delimiter = ',', default_value = "1",
        value_parser = clap::value_parser!(u32).range(1..=4096)
    )]
    pub iodepth: Vec<u32>,
    /// Jobs, each with its own files; if the targets are files, jobs for each of them
    #[arg(
        long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=1024)
    )]
    pub numjobs: u32,
    /// Files of each job
    #[arg(
        long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=100_000)
    )]
    pub nrfiles: u32,
    /// Bytes of each file [default: 64m; targets that are files keep their size; with --metadata one
    /// block]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub filesize: Option<u64>,
    /// Bypass the caches: O_DIRECT on this host, unbuffered opens over SMB
    #[arg(
        long, value_name = "0|1", num_args = 0..=1, require_equals = true, default_missing_value = "1",
        value_parser = clap::value_parser!(u8).range(0..=1)
    )]
    pub direct: Option<u8>,
    /// Make each write wait for the storage: O_SYNC, write-through opens over SMB, FILE_SYNC over NFS
    #[arg(
        long, value_name = "0|1", num_args = 0..=1, require_equals = true, default_missing_value = "1",
        value_parser = clap::value_parser!(u8).range(0..=1)
    )]
    pub sync: Option<u8>,
    /// Work for the whole --runtime; this is always so here
    #[arg(long = "time_based", alias = "time-based")]
    pub time_based: bool,
    /// Report all jobs as one; this is always so here
    #[arg(long = "group_reporting", alias = "group-reporting")]
    pub group_reporting: bool,
    /// Time to measure [default: 10 unless there is --number-ios]
    #[arg(long, value_name = "SECONDS", value_parser = time)]
    pub runtime: Option<Duration>,
    /// Time to run before anything is counted
    #[arg(
        long = "ramp_time", alias = "ramp-time", value_name = "SECONDS", value_parser = time,
        default_value = "0"
    )]
    pub ramp_time: Duration,
    /// Start this many operations a second in each job, whether or not earlier ones are done; latencies
    /// count from the planned start
    #[arg(
        long = "rate_iops", alias = "rate-iops", value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=10_000_000)
    )]
    pub rate_iops: Option<u32>,
    /// Do exactly this many operations in all
    #[arg(
        long = "number-ios", alias = "number_ios", value_name = "N",
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    pub number_ios: Option<u64>,
    /// Names in the directory for --metadata
    #[arg(
        long, value_name = "N", default_value_t = 1000,
        value_parser = clap::value_parser!(u64).range(1..=10_000_000)
    )]
    pub files: u64,
    /// With --metadata create: keep the new names until the next run in the same directory, because some
    /// file systems create files slowly after many deletions
    #[arg(long)]
    pub keep: bool,
    /// With --metadata create, open and unlink: the whole operation in one compound, as stat always is,
    /// and with nfs:// unlink
    #[arg(long)]
    pub compound: bool,
    /// With --metadata open, close and stat: look each name up in another case
    #[arg(long = "other-case")]
    pub other_case: bool,
    /// How to sign; off still signs where 3.1.1 and the server require it
    #[arg(long, value_enum, default_value = "off")]
    pub signing: Signing,
    /// How to encrypt
    #[arg(long, value_enum, default_value = "off")]
    pub encryption: Encryption,
    /// The only dialect to offer [default: all]
    #[arg(long, value_parser = named_dialect())]
    pub dialect: Option<Dialect>,
    /// Connections, each with its own thread and session
    #[arg(
        long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=1024)
    )]
    pub connections: u32,
    /// Channels of each session, with nfs:// its connections (nconnect); a list is measured in turns,
    /// with a part of --runtime in each, or one after the other if the time is short or with --agents
    #[arg(
        long, value_name = "N", value_delimiter = ',', default_value = "1",
        value_parser = clap::value_parser!(u32).range(1..=32)
    )]
    pub channels: Vec<u32>,
    /// Bytes a second that each channel may carry in each direction; the client itself enforces this
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub channel_rate: Option<u64>,
    /// With --channel-rate: how many times slower than the others the last channel is
    #[arg(
        long, value_name = "N", requires = "channel_rate",
        value_parser = clap::value_parser!(u32).range(2..=1000)
    )]
    pub slow_channel: Option<u32>,
    /// Process of the server on this host; its processor time (with its children's) is reported
    #[arg(long, value_name = "PID")]
    pub server_pid: Option<u32>,
    /// Load from these machines together; on each an agent waits, and the results are merged
    #[arg(long, value_name = "HOST[:PORT]", value_delimiter = ',')]
    pub agents: Vec<String>,
    /// With --agents: an agent is given up if it is silent for this long, or if it has not finished four
    /// times this long after the end of the load
    #[arg(long, value_name = "SECONDS", value_parser = agent_timeout, default_value = "30")]
    pub agent_timeout: Duration,
    /// Wait at this address for a load from several machines; needs the same secret there and here
    #[arg(long, value_name = "ADDRESS[:PORT]", conflicts_with_all = ["targets", "agents"])]
    pub agent: Option<String>,
    /// File whose first line is the secret of the agents and the conductor
    /// [default: the variable TRUNKLINE_SECRET]
    #[arg(long, value_name = "FILE")]
    pub secret_file: Option<PathBuf>,
    /// Report in fio's JSON form
    #[arg(long)]
    pub json: bool,
    /// Write a page with plots of the results
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// The pattern of reads and writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "lower")]
pub enum Pattern {
    /// Read one block after the other
    Read,
    /// Write one block after the other
    Write,
    /// Read blocks at random
    RandRead,
    /// Write blocks at random
    RandWrite,
    /// Read or write blocks at random, half of each
    RandRw,
    /// Read or write one block after the other, half of each
    Rw,
}

impl Pattern {
    pub(crate) fn is_random(self) -> bool {
        matches!(self, Pattern::RandRead | Pattern::RandWrite | Pattern::RandRw)
    }

    /// The percentage of operations that write.
    pub(crate) fn write_percent(self) -> u32 {
        match self {
            Pattern::Read | Pattern::RandRead => 0,
            Pattern::Rw | Pattern::RandRw => 50,
            Pattern::Write | Pattern::RandWrite => 100,
        }
    }
}

/// The operation on names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Metadata {
    /// Create a new file, write one block into it, close it
    Create,
    /// Open a file at random and close it
    Open,
    /// Close a file; the open before it is not counted
    Close,
    /// Read the attributes of a random file: open, query and close in one compound, or a lookup
    Stat,
    /// Open a file with delete-on-close, and close it
    #[value(alias = "delete")]
    Unlink,
    /// List the whole directory
    List,
}

/// How to sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Signing {
    /// Only where it is required
    Off,
    /// AES-GMAC (3.1.1)
    Gmac,
    /// AES-CMAC (3.x)
    Cmac,
    /// HMAC-SHA256 (2.x, and 3.1.1 where it is offered)
    Hmac,
}

/// How to encrypt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Encryption {
    /// Only where the server requires it
    Off,
    /// AES-128-GCM (3.1.1)
    Aes128gcm,
    /// AES-256-GCM (3.1.1)
    Aes256gcm,
    /// AES-128-CCM (3.x)
    Aes128ccm,
    /// AES-256-CCM (3.1.1)
    Aes256ccm,
}

/// A dialect by its name.
fn named_dialect() -> impl TypedValueParser<Value = Dialect> {
    let names = Dialect::NAMES.iter().map(|(name, _)| PossibleValue::new(*name).help(format!("SMB {name}")));
    PossibleValuesParser::new(names).try_map(|name: String| Dialect::named(&name).ok_or("no such dialect"))
}

/// A [`time`] that is long enough for an agent's message.
fn agent_timeout(text: &str) -> Result<Duration, String> {
    const LEAST: Duration = Duration::from_millis(100);
    time(text).and_then(|time| if time < LEAST { Err("100ms is the least".to_owned()) } else { Ok(time) })
}

impl Args {
    /// The user whose password is needed.
    #[must_use]
    pub fn user(&self) -> &str {
        self.targets.first().and_then(LoadTarget::login).unwrap_or_default()
    }

    /// The password from `--password-file` or the environment. `None` if the user must be asked for it;
    /// empty if none is needed.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn password(&self) -> Result<Option<String>, crate::Error> {
        if self.tickets.kerberos || self.targets.iter().all(|target| target.login().is_none()) {
            return Ok(Some(String::new()));
        }
        let Some(file) = &self.password_file else {
            return Ok(std::env::var("TRUNKLINE_PASSWORD").ok());
        };
        let password = client::written::secret(file)
            .map_err(|why| crate::Error::Usage(format!("--password-file {}: {why}", file.display())))?;
        Ok(Some(password))
    }
}
