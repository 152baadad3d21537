//! A checked copy.

use client::smb::Credentials;
use client::{Scheme, Url};

use crate::args::Passwords;
use crate::{Args, Error, Links, Pattern, PreservedParts, overlap};

/// A copy that can be run.
#[derive(Debug, Clone)]
pub struct Plan {
    pub(crate) source: Url,
    pub(crate) target: Url,
    pub(crate) source_access: Access,
    pub(crate) target_access: Access,
    pub(crate) links: Links,
    pub(crate) hard_links: bool,
    pub(crate) mirror: bool,
    /// Whether a mirror might delete the source under another name.
    pub(crate) is_doubtful: bool,
    pub(crate) verify: bool,
    pub(crate) sync: bool,
    pub(crate) include: Vec<Pattern>,
    pub(crate) exclude: Vec<Pattern>,
    /// Whether patterns match names without regard to case, because one side is a share. The patterns are in
    /// lower case then.
    folds: bool,
    pub(crate) dry_run: bool,
    pub(crate) rate: Option<u64>,
    pub(crate) retries: u32,
    pub(crate) keep: PreservedParts,
    pub(crate) threads: usize,
    /// The connections to each server, unless the copy chooses their number.
    pub(crate) channels: Option<usize>,
}

/// The access to a server.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    pub(crate) credentials: Option<Credentials>,
    pub(crate) encrypt: bool,
    /// The parts of files to keep, which need rights of their own.
    pub(crate) keep: PreservedParts,
    pub(crate) smb: client::smb::Options,
    pub(crate) nfs: client::nfs::Options,
}

/// The credits that each connection keeps in stock: 32 pieces of 1 MiB and the usual number of small files.
const CREDITS: u16 = 1024;
/// The requests in flight over NFS.
const SLOTS: u32 = 256;

impl Plan {
    /// Checks the options. `ask` is called for the password of a user if nothing else has it.
    ///
    /// # Errors
    /// The reason why the options do not go together or cannot be met.
    pub fn new(args: &Args, ask: &dyn Fn(&str) -> Result<String, Error>) -> Result<Plan, Error> {
        let usage = |text: String| Error::new("nothing was copied", text);
        let sides = [&args.source, &args.target];
        let is_smb = |it: &&Url| it.scheme == Scheme::Smb;
        let is_nfs = |it: &&Url| it.scheme == Scheme::Nfs;
        for (option, given, fits) in [
            ("--password-file", args.password_file.is_some(), sides.iter().any(is_smb)),
            ("--dst-password-file", args.dst_password_file.is_some(), is_smb(&&args.target)),
            ("--kerberos", args.tickets.kerberos, sides.iter().any(is_smb)),
            ("--encrypt", args.encrypt, sides.iter().any(is_smb)),
            ("--uid", args.uid.is_some(), sides.iter().any(is_nfs)),
            ("--gid", args.gid.is_some(), sides.iter().any(is_nfs)),
        ] {
            if given && !fits {
                return Err(usage(format!("{option} has no meaning for these places; leave it out")));
            }
        }
        if overlap::is_within(&args.target, &args.source) {
            let text = "the target lies inside of the source, or is the source; choose another one";
            return Err(usage(text.to_owned()));
        }
        if args.mirror && overlap::is_within(&args.source, &args.target) {
            let text =
                "--mirror would delete the source, which lies inside of the target; choose another one";
            return Err(usage(text.to_owned()));
        }
        let mut keep = args.keep();
        // Only shares have streams.
        keep.streams &= sides.iter().all(is_smb);
        let folds = sides.iter().any(is_smb);
        let patterns = |given: &[Pattern]| -> Vec<Pattern> {
            given.iter().map(|it| if folds { it.folded() } else { it.clone() }).collect()
        };
        let Passwords { source, target } = args.passwords(ask)?;
        Ok(Plan {
            source: args.source.clone(),
            target: args.target.clone(),
            source_access: access(args, &args.source, source, keep),
            target_access: access(args, &args.target, target, keep),
            links: args.links,
            hard_links: args.hard_links,
            mirror: args.mirror,
            is_doubtful: args.mirror && overlap::is_doubtful(&args.source, &args.target),
            verify: args.verify,
            sync: args.sync,
            include: patterns(&args.include),
            exclude: patterns(&args.exclude),
            folds,
            dry_run: args.dry_run,
            rate: args.rate,
            retries: args.retries,
            keep,
            threads: args.threads as usize,
            channels: args.channels.map(|channels| channels as usize),
        })
    }

    /// Whether a small file consists only of its data, time and bits, and so can be written in one piece.
    pub(crate) fn is_plain(&self) -> bool {
        !self.verify && !self.sync && !self.keep.is_more()
    }

    /// Whether many small files are worth sessions of their own. If more is checked or kept, they are copied
    /// like large ones, in the first session.
    pub(crate) fn may_split(&self) -> bool {
        self.channels.is_none() && !self.dry_run && self.is_plain()
    }

    /// Whether `path` is to be copied at all.
    pub(crate) fn wants(&self, path: &str, is_directory: bool) -> bool {
        let folded = (self.folds && !(self.include.is_empty() && self.exclude.is_empty()))
            .then(|| path.to_lowercase());
        let fits = |pattern: &Pattern| pattern.fits(folded.as_deref().unwrap_or(path));
        let included = is_directory || self.include.is_empty() || self.include.iter().any(fits);
        included && !self.exclude.iter().any(fits)
    }
}

fn access(args: &Args, url: &Url, password: Option<String>, keep: PreservedParts) -> Access {
    let by_password = url.login().zip(password).map(|(user, password)| {
        let domain = url.domain.clone();
        Credentials { domain, ..Credentials::new(user, &password) }
    });
    let by_ticket = url.login().and_then(|_| args.tickets.credentials());
    let credentials = by_ticket.or(by_password);
    Access {
        credentials,
        encrypt: args.encrypt,
        keep,
        smb: client::smb::Options { credits: CREDITS, ..client::smb::Options::default() },
        nfs: client::nfs::Options {
            slots: SLOTS,
            // RFC 7862 and 8276: holes and extended attributes came with 4.2.
            minor_version: 2,
            ..client::nfs::Options::of_caller(args.uid, args.gid)
        },
    }
}
