//! The options of `trunkline load`, with the names that fio gives them; those of diskspd are taken apart in
//! [`crate::diskspd`].

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use client::written::size;
use smb_wire::negotiate::Dialect;

use crate::target::{LoadTarget, target};
use crate::units::time;

/// What to load, and how.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// What to load: smb://USER@HOST[:PORT]/SHARE[/DIR], nfs://HOST[:PORT]/EXPORT[/DIR] or the path of a mounted
    /// directory. Several targets, or one with diskspd's flags, are files
    #[arg(value_name = "TARGET", required_unless_present = "agent", value_parser = target)]
    pub targets: Vec<LoadTarget>,
    /// One of diskspd's flags, as `diskspd::spell_out` hands it on
    #[arg(long = "diskspd", value_name = "FLAG", hide = true, allow_hyphen_values = true, conflicts_with_all = [
        "rw", "metadata", "bs", "iodepth", "numjobs", "nrfiles", "filesize", "runtime", "ramp_time", "direct", "sync", "time_based",
    ])]
    pub diskspd: Vec<String>,
    /// File whose first line is the password [default: the variable TRUNKLINE_PASSWORD, else ask]
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// With nfs://: user of every call [default: our own]
    #[arg(long, value_name = "N")]
    pub uid: Option<u32>,
    /// With nfs://: group of every call [default: our own]
    #[arg(long, value_name = "N")]
    pub gid: Option<u32>,
    /// How to read and write; of this and of --bs and --iodepth a list is measured one after the other
    #[arg(long, value_enum, value_delimiter = ',', default_value = "read", conflicts_with = "metadata")]
    pub rw: Vec<Pattern>,
    /// What to do with names instead of reading and writing
    #[arg(long, value_enum)]
    pub metadata: Option<Metadata>,
    /// Bytes of one read or write
    #[arg(long, value_name = "SIZE", value_parser = size, value_delimiter = ',', default_value = "4k")]
    pub bs: Vec<u64>,
    /// Operations that each job keeps under way
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub iodepth: Vec<u32>,
    /// Jobs, each with files of its own; where the targets are files, jobs for each of them
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub numjobs: u32,
    /// Files of each job
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub nrfiles: u32,
    /// Bytes of each file [default: 64m; of files that are targets what they have; with --metadata one block]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub filesize: Option<u64>,
    /// Read and write past the caches: O_DIRECT of this host, unbuffered opens over SMB
    #[arg(long, value_name = "0|1", num_args = 0..=1, require_equals = true, default_missing_value = "1", value_parser = clap::value_parser!(u8).range(0..=1))]
    pub direct: Option<u8>,
    /// Let each write wait for the store: O_SYNC, write-through opens over SMB, FILE_SYNC over NFS
    #[arg(long, value_name = "0|1", num_args = 0..=1, require_equals = true, default_missing_value = "1", value_parser = clap::value_parser!(u8).range(0..=1))]
    pub sync: Option<u8>,
    /// Work for the whole --runtime, as is always done here
    #[arg(long = "time_based", alias = "time-based")]
    pub time_based: bool,
    /// Report all jobs as one, as is always done here
    #[arg(long = "group_reporting", alias = "group-reporting")]
    pub group_reporting: bool,
    /// How long to measure [default: 10 unless there is --number-ios]
    #[arg(long, value_name = "SECONDS", value_parser = time)]
    pub runtime: Option<Duration>,
    /// How long to run before anything is counted
    #[arg(long = "ramp_time", alias = "ramp-time", value_name = "SECONDS", value_parser = time, default_value = "0")]
    pub ramp_time: Duration,
    /// Begin so many operations in a second in each job, whether or not earlier ones are done; latencies count from when each
    /// was to begin
    #[arg(long = "rate_iops", alias = "rate-iops", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub rate_iops: Option<u32>,
    /// Do exactly so many operations in all
    #[arg(long = "number-ios", alias = "number_ios", value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub number_ios: Option<u64>,
    /// Names in the directory that --metadata works in
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub files: u64,
    /// With --metadata create: leave the names that were made until the next run in the same directory, since some file
    /// systems are slow to make files where many were deleted lately
    #[arg(long)]
    pub keep: bool,
    /// With --metadata create, open and unlink: the whole operation in one compound, as stat always is, and with
    /// nfs:// unlink
    #[arg(long)]
    pub compound: bool,
    /// With --metadata open, close and stat: ask for each name in another case than it was made in
    #[arg(long = "other-case")]
    pub other_case: bool,
    /// How to sign; off still signs what 3.1.1 and the server demand
    #[arg(long, value_enum, default_value = "off")]
    pub signing: Signing,
    /// How to encrypt
    #[arg(long, value_enum, default_value = "off")]
    pub encryption: Encryption,
    /// The only dialect to offer [default: all]
    #[arg(long, value_parser = named_dialect())]
    pub dialect: Option<Dialect>,
    /// Connections, each with a thread and a session of its own
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub connections: u32,
    /// Channels of each session, with nfs:// its connections (nconnect); a list is measured in turns, a part of
    /// --runtime in each, and one after the other where that is short or from --agents
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1", value_parser = clap::value_parser!(u32).range(1..=32))]
    pub channels: Vec<u32>,
    /// Bytes that each channel may carry in a second, in each direction; the client holds itself to it
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub channel_rate: Option<u64>,
    /// With --channel-rate: how many times slower than the others the last channel is
    #[arg(long, value_name = "N", requires = "channel_rate", value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub slow_channel: Option<u32>,
    /// Process of the server on this host, whose processor time (with its children's) is reported
    #[arg(long, value_name = "PID")]
    pub server_pid: Option<u32>,
    /// Load from these machines together, on each of which an agent waits, and merge what they measure
    #[arg(long, value_name = "HOST[:PORT]", value_delimiter = ',')]
    pub agents: Vec<String>,
    /// With --agents: one that says nothing for so long is given up, and so is one that is not done four times as long
    /// after the load must be over
    #[arg(long, value_name = "SECONDS", value_parser = agent_timeout, default_value = "30")]
    pub agent_timeout: Duration,
    /// Wait at this address for who loads from several machines; needs the same secret there and here
    #[arg(long, value_name = "ADDRESS[:PORT]", conflicts_with_all = ["targets", "agents"])]
    pub agent: Option<String>,
    /// File whose first line is the secret that agents and their conductor share [default: the variable TRUNKLINE_SECRET]
    #[arg(long, value_name = "FILE")]
    pub secret_file: Option<PathBuf>,
    /// Report in fio's JSON form
    #[arg(long)]
    pub json: bool,
    /// Write one page with plots of what was measured
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// How to read and write.
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

    /// How many of a hundred operations write.
    pub(crate) fn write_percent(self) -> u32 {
        match self {
            Pattern::Read | Pattern::RandRead => 0,
            Pattern::Rw | Pattern::RandRw => 50,
            Pattern::Write | Pattern::RandWrite => 100,
        }
    }
}

/// What to do with names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Metadata {
    /// Make a new file, write one block into it, close it
    Create,
    /// Open a file at random and close it
    Open,
    /// Close a file that was opened for it, which is not counted
    Close,
    /// Ask for the attributes of a file at random: open, query and close in one compound, or a lookup
    Stat,
    /// Open a file to be deleted when it is closed, and close it
    #[value(alias = "delete")]
    Unlink,
    /// List the whole directory
    List,
}

/// How to sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Signing {
    /// Only what must be
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
    /// Only what the server demands
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

/// A [`time`] in which an agent can say something.
fn agent_timeout(text: &str) -> Result<Duration, String> {
    const LEAST: Duration = Duration::from_millis(100);
    time(text).and_then(|time| if time < LEAST { Err("100ms is the least".to_owned()) } else { Ok(time) })
}

impl Args {
    /// Whom a password is asked for.
    #[must_use]
    pub fn user(&self) -> &str {
        self.targets.first().and_then(LoadTarget::login).unwrap_or_default()
    }

    /// The password from `--password-file` or the environment; none when it must be asked for, and an empty one where
    /// none is needed.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn password(&self) -> Result<Option<String>, crate::Error> {
        if self.targets.iter().all(|target| target.login().is_none()) {
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
