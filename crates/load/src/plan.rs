//! What has been checked and will be done.

use std::time::Duration;

use auth::{Cipher, NtHash, SigningAlgorithm};
use client::{Credentials, Options};
use smb_wire::negotiate::Dialect;

use crate::args::{Args, Encryption, Metadata, Pattern, Signing, Version};
use crate::target::Scheme;
use crate::{Error, Target};

/// One load, ready to run.
#[derive(Debug, Clone)]
pub struct Plan {
    pub(crate) target: Target,
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
    pub(crate) operations: Option<u64>,
    pub(crate) server_pid: Option<u32>,
    /// What create has made is left.
    pub keep: bool,
}

/// How the target is spoken to.
#[derive(Debug, Clone)]
pub(crate) enum Protocol {
    Smb(Smb),
    Nfs(client::nfs::Options),
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
        }
    }

    /// Bytes that each channel may carry in a second.
    pub(crate) fn pace(&self) -> Option<u64> {
        match self {
            Protocol::Smb(smb) => smb.options.pace,
            Protocol::Nfs(options) => options.pace,
        }
    }

    fn unpaced(mut self) -> Protocol {
        match &mut self {
            Protocol::Smb(smb) => smb.options.pace = None,
            Protocol::Nfs(options) => options.pace = None,
        }
        self
    }
}

/// What the operations are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    Data { pattern: Pattern, files: u32, file_size: u64 },
    Metadata { kind: Metadata, files: u64, compound: bool },
}

impl Plan {
    /// Checks what was asked for; answers the loads to run one after the other, which is one for each number of
    /// channels.
    ///
    /// # Errors
    /// [`Error::Usage`] with the option to change.
    pub fn all(args: &Args, password: &str) -> Result<Vec<Plan>, Error> {
        let first = Plan::new(args, password)?;
        Ok(args.channels.iter().map(|channels| Plan { channels: *channels, ..first.clone() }).collect())
    }

    /// The same over one channel that carries what it can: for what is not measured.
    pub(crate) fn unhindered(&self) -> Plan {
        let protocol = self.protocol.clone().unpaced();
        Plan { channels: 1, slow_channel: None, protocol, ..self.clone() }
    }

    /// What the last channel may carry in a second, where it is slower than the others.
    pub(crate) fn slow_rate(&self) -> Option<u64> {
        let (factor, rate) = self.slow_channel.zip(self.protocol.pace())?;
        Some((rate / u64::from(factor)).max(1))
    }

    fn new(args: &Args, password: &str) -> Result<Plan, Error> {
        let usage = |text: String| Error::Usage(text);
        let block = u32::try_from(args.bs).ok().filter(|bs| *bs <= MAX_BLOCK);
        let block = block.ok_or_else(|| usage(format!("--bs is at most {MAX_BLOCK} bytes")))?;
        if args.metadata.is_none() && args.filesize < args.bs {
            return Err(usage(format!("--filesize {} is less than --bs {}", args.filesize, args.bs)));
        }
        let workers = args.numjobs * args.iodepth;
        if args.connections > workers {
            let text =
                "--connections is more than --numjobs times --iodepth, so that some would have no work";
            return Err(usage(text.to_owned()));
        }
        let ends = args.runtime.is_some() || args.number_ios.is_some();
        let runtime = if ends { args.runtime } else { Some(Duration::from_secs(10)) };
        let mut operations = args.number_ios;
        if args.metadata == Some(Metadata::Unlink) {
            // Only what has been made before can be deleted.
            operations = operations.or(Some(args.files));
            if !args.ramp_time.is_zero() {
                return Err(usage("--ramp_time does not go with --metadata unlink".to_owned()));
            }
        }
        if args.compound && matches!(args.metadata, None | Some(Metadata::List)) {
            return Err(usage("--compound goes with --metadata create, open and unlink".to_owned()));
        }
        let target = args.target.clone();
        let protocol = match target.scheme {
            Scheme::Smb => Protocol::Smb(smb(args, password)?),
            Scheme::Nfs => Protocol::Nfs(nfs(args)?),
        };
        let work = match args.metadata {
            Some(kind) => Work::Metadata { kind, files: args.files, compound: args.compound },
            None => Work::Data { pattern: args.rw, files: args.nrfiles, file_size: args.filesize },
        };
        Ok(Plan {
            target,
            protocol,
            work,
            block,
            jobs: args.numjobs,
            depth: args.iodepth,
            connections: args.connections,
            channels: 1,
            slow_channel: args.slow_channel,
            ramp: args.ramp_time,
            runtime,
            operations,
            server_pid: args.server_pid,
            keep: args.keep,
        })
    }
}

/// The largest payload of one message that servers offer.
const MAX_BLOCK: u32 = 8 * 1024 * 1024;

/// The credits that one connection keeps in stock at most, and at least.
const CREDITS: std::ops::RangeInclusive<u64> = 128..=8192;

/// Requests that each connection has under way.
fn workers(args: &Args) -> u64 {
    u64::from(args.numjobs * args.iodepth).div_ceil(u64::from(args.connections))
}

/// The slots that a session asks for at least and at most.
const SLOTS: std::ops::RangeInclusive<u64> = 64..=1024;

/// What an NFS client asks for.
fn nfs(args: &Args) -> Result<client::nfs::Options, Error> {
    let of_smb = [
        ("--password-file", args.password_file.is_some()),
        ("--signing", args.signing != Signing::Off),
        ("--encryption", args.encryption != Encryption::Off),
        ("--dialect", args.dialect.is_some()),
    ];
    if let Some((option, _)) = of_smb.iter().find(|(_, given)| *given) {
        return Err(Error::Usage(format!("{option} goes with smb:// and not with nfs://")));
    }
    if let Some(channels) = args.channels.iter().find(|channels| **channels > MAX_CONNECT) {
        return Err(Error::Usage(format!("--channels {channels}: nfs:// takes at most {MAX_CONNECT}")));
    }
    let own = client::nfs::Options::default();
    Ok(client::nfs::Options {
        uid: args.uid.unwrap_or(own.uid),
        gid: args.gid.unwrap_or(own.gid),
        groups: if args.uid.or(args.gid).is_some() { Vec::new() } else { own.groups.clone() },
        slots: workers(args).clamp(*SLOTS.start(), *SLOTS.end()) as u32,
        max_io: own.max_io.max(args.bs as u32),
        pace: args.channel_rate,
        ..own
    })
}

/// The most connections of one session, as with Linux' nconnect.
const MAX_CONNECT: u32 = 16;

/// How an SMB server is spoken to, and the signing algorithm that must come of it.
fn smb(args: &Args, password: &str) -> Result<Smb, Error> {
    if args.uid.or(args.gid).is_some() {
        return Err(Error::Usage("--uid and --gid go with nfs:// and not with smb://".to_owned()));
    }
    let require_signing = args.signing != Signing::Off;
    let mut options = Options { require_signing, pace: args.channel_rate, ..Options::default() };
    if let Some(version) = args.dialect {
        options.dialects = vec![match version {
            Version::Smb202 => Dialect::Smb202,
            Version::Smb210 => Dialect::Smb210,
            Version::Smb300 => Dialect::Smb300,
            Version::Smb302 => Dialect::Smb302,
            Version::Smb311 => Dialect::Smb311,
        }];
    }
    let signing = match args.signing {
        Signing::Off => None,
        Signing::Gmac => Some(SigningAlgorithm::AesGmac),
        Signing::Cmac => Some(SigningAlgorithm::AesCmac),
        Signing::Hmac => Some(SigningAlgorithm::HmacSha256),
    };
    if let Some(signing) = signing {
        options.signing = vec![signing];
    }
    let cipher = match args.encryption {
        Encryption::Off => None,
        Encryption::Aes128gcm => Some(Cipher::Aes128Gcm),
        Encryption::Aes256gcm => Some(Cipher::Aes256Gcm),
        Encryption::Aes128ccm => Some(Cipher::Aes128Ccm),
        Encryption::Aes256ccm => Some(Cipher::Aes256Ccm),
    };
    if let Some(cipher) = cipher {
        options.ciphers = vec![cipher];
        if args.signing != Signing::Off {
            let text = "--signing does not go with --encryption: a sealed message is not signed";
            return Err(Error::Usage(text.to_owned()));
        }
    }
    let wanted = workers(args) * args.bs.div_ceil(65536).max(1) * 2;
    options.credits = wanted.clamp(*CREDITS.start(), *CREDITS.end()) as u16;
    let credentials = Credentials {
        user: args.target.user.clone(),
        domain: args.target.domain.clone(),
        hash: NtHash::from_password(password),
    };
    Ok(Smb { credentials, options, signing, encrypt: args.encryption != Encryption::Off })
}
