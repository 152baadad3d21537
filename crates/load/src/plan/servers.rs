//! The protocols of servers: the options about connections, signing and encryption.

use auth::{Cipher, SigningAlgorithm};
use client::Scheme;
use client::smb::{Credentials, Options};

use super::{Load, Protocol, SmbTarget};
use crate::args::{Args, Encryption, Signing};
use crate::{Error, LoadTarget};

/// The least and the most credits that a connection keeps.
const CREDITS: std::ops::RangeInclusive<u64> = 128..=8192;

/// Chooses the protocol by the target.
pub(super) fn protocol(args: &Args, password: &str, load: Load) -> Result<Protocol, Error> {
    let target = match &args.targets[0] {
        LoadTarget::Files(url) => url,
        LoadTarget::Null { host, port } => {
            alone(&Args { connections: 1, ..args.clone() }, "null://")?;
            return Ok(Protocol::Null { host: host.clone(), port: *port });
        }
    };
    match target.scheme {
        Scheme::Smb => Ok(Protocol::Smb(smb(args, &target.user, &target.domain, password, load)?)),
        Scheme::Nfs => Ok(Protocol::Nfs(nfs(args, load)?)),
        Scheme::Local => alone(args, "a path of this host").map(|()| Protocol::Local),
    }
}

/// Checks that no option about servers is given with `target`.
fn alone(args: &Args, target: &str) -> Result<(), Error> {
    let of_servers = [
        ("--password-file", args.password_file.is_some()),
        ("--kerberos", args.tickets.kerberos),
        ("--uid", args.uid.is_some()),
        ("--gid", args.gid.is_some()),
        ("--signing", args.signing != Signing::Off),
        ("--encryption", args.encryption != Encryption::Off),
        ("--dialect", args.dialect.is_some()),
        ("--connections", args.connections != 1),
        ("--channels", args.channels != [1]),
        ("--channel-rate", args.channel_rate.is_some()),
        ("--compound", args.compound),
        ("--other-case", args.other_case),
    ];
    match of_servers.iter().find(|(_, given)| *given) {
        Some((option, _)) => {
            Err(Error::Usage(format!("{option} goes with smb:// and nfs:// and not with {target}")))
        }
        None => Ok(()),
    }
}

/// The least and the most slots that a session requests.
const SLOTS: std::ops::RangeInclusive<u64> = 64..=1024;

/// The options of an NFS client.
fn nfs(args: &Args, load: Load) -> Result<client::nfs::Options, Error> {
    let of_smb = [
        ("--kerberos", args.tickets.kerberos),
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
    let own = client::nfs::Options::of_caller(args.uid, args.gid);
    Ok(client::nfs::Options {
        slots: load.depth.clamp(*SLOTS.start(), *SLOTS.end()) as u32,
        max_io: own.max_io.max(load.block),
        pace: args.channel_rate,
        ..own
    })
}

/// The most connections of one session, as in Linux' nconnect.
const MAX_CONNECT: u32 = 16;

/// The options of an SMB client, and the signing algorithm that must be negotiated.
fn smb(args: &Args, user: &str, domain: &str, password: &str, load: Load) -> Result<SmbTarget, Error> {
    if args.uid.or(args.gid).is_some() {
        return Err(Error::Usage("--uid and --gid go with nfs:// and not with smb://".to_owned()));
    }
    let require_signing = args.signing != Signing::Off;
    let mut options = Options { require_signing, pace: args.channel_rate, ..Options::default() };
    if let Some(dialect) = args.dialect {
        options.dialects = vec![dialect];
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
    let wanted = load.depth * u64::from(load.block).div_ceil(65536).max(1) * 2;
    options.credits = wanted.clamp(*CREDITS.start(), *CREDITS.end()) as u16;
    let by_password = || Credentials { domain: domain.to_owned(), ..Credentials::new(user, password) };
    let credentials = args.tickets.credentials().unwrap_or_else(by_password);
    Ok(SmbTarget { credentials, options, signing, encrypt: args.encryption != Encryption::Off })
}
