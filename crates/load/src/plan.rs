//! What has been checked and will be done.

use std::time::Duration;

use auth::{Cipher, NtHash, SigningAlgorithm};
use client::{Credentials, Options};
use smb_wire::negotiate::Dialect;

use crate::args::{Args, Encryption, Metadata, Pattern, Signing, Version};
use crate::{Error, Target};

/// One load, ready to run.
#[derive(Debug, Clone)]
pub struct Plan {
    pub(crate) target: Target,
    pub(crate) credentials: Credentials,
    pub(crate) options: Options,
    pub(crate) signing: Option<SigningAlgorithm>,
    pub(crate) encrypt: bool,
    pub(crate) work: Work,
    pub(crate) block: u32,
    pub(crate) jobs: u32,
    pub(crate) depth: u32,
    pub(crate) connections: u32,
    pub(crate) ramp: Duration,
    /// How long is measured; without end when the number of operations ends it.
    pub(crate) runtime: Option<Duration>,
    pub(crate) operations: Option<u64>,
    pub(crate) server_pid: Option<u32>,
}

/// What the operations are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    Data { pattern: Pattern, files: u32, file_size: u64 },
    Metadata { kind: Metadata, files: u64, compound: bool },
}

impl Plan {
    /// Checks what was asked for.
    ///
    /// # Errors
    /// [`Error::Usage`] with the option to change.
    pub fn new(args: &Args, password: &str) -> Result<Plan, Error> {
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
        let credentials = Credentials {
            user: target.user.clone(),
            domain: target.domain.clone(),
            hash: NtHash::from_password(password),
        };
        let (options, signing) = client_options(args)?;
        let work = match args.metadata {
            Some(kind) => Work::Metadata { kind, files: args.files, compound: args.compound },
            None => Work::Data { pattern: args.rw, files: args.nrfiles, file_size: args.filesize },
        };
        Ok(Plan {
            target,
            credentials,
            options,
            signing,
            encrypt: args.encryption != Encryption::Off,
            work,
            block,
            jobs: args.numjobs,
            depth: args.iodepth,
            connections: args.connections,
            ramp: args.ramp_time,
            runtime,
            operations,
            server_pid: args.server_pid,
        })
    }
}

/// The largest payload of one SMB2 message that servers offer.
const MAX_BLOCK: u32 = 8 * 1024 * 1024;

/// The credits that one connection keeps in stock at most, and at least.
const CREDITS: std::ops::RangeInclusive<u64> = 128..=8192;

/// What the client offers, and the signing algorithm that must come of it.
fn client_options(args: &Args) -> Result<(Options, Option<SigningAlgorithm>), Error> {
    let mut options = Options { require_signing: args.signing != Signing::Off, ..Options::default() };
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
    let workers = u64::from(args.numjobs * args.iodepth).div_ceil(u64::from(args.connections));
    let wanted = workers * args.bs.div_ceil(65536).max(1) * 2;
    options.credits = wanted.clamp(*CREDITS.start(), *CREDITS.end()) as u16;
    Ok((options, signing))
}
