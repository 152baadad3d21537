//! What is to be done, checked.

use client::smb::Credentials;
use client::{Scheme, Url};

use crate::args::Passwords;
use crate::{Args, Error, Keep, Links, Pattern, place};

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
    /// Whether what a mirror deletes may be the source by another name.
    pub(crate) is_doubtful: bool,
    pub(crate) verify: bool,
    pub(crate) sync: bool,
    pub(crate) include: Vec<Pattern>,
    pub(crate) exclude: Vec<Pattern>,
    /// Whether patterns fit names without regard to case, as names of a share are the same without it; they are in lower
    /// case then.
    folds: bool,
    pub(crate) dry_run: bool,
    pub(crate) rate: Option<u64>,
    pub(crate) retries: u32,
    pub(crate) keep: Keep,
    pub(crate) threads: usize,
    /// Connections to each server, unless they are chosen by what they gain.
    pub(crate) channels: Option<usize>,
}

/// How a server is gone to.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    pub(crate) credentials: Option<Credentials>,
    pub(crate) encrypt: bool,
    /// What is kept of files: it takes rights of its own.
    pub(crate) keep: Keep,
    pub(crate) smb: client::smb::Options,
    pub(crate) nfs: client::nfs::Options,
}

/// Credits that each connection keeps in stock: 32 pieces of 1 MiB and as many small files as are usual.
const CREDITS: u16 = 1024;
/// Requests under way at once over NFS.
const SLOTS: u32 = 256;

impl Plan {
    /// Checks what was asked for. `ask` is asked for the password of a user that is given nowhere else.
    ///
    /// # Errors
    /// What does not go together, or cannot be had.
    pub fn new(args: &Args, ask: &dyn Fn(&str) -> Result<String, Error>) -> Result<Plan, Error> {
        let usage = |text: String| Error::new("nothing was copied", text);
        let sides = [&args.source, &args.target];
        let is_smb = |it: &&Url| it.scheme == Scheme::Smb;
        let is_nfs = |it: &&Url| it.scheme == Scheme::Nfs;
        for (option, given, fits) in [
            ("--password-file", args.password_file.is_some(), sides.iter().any(is_smb)),
            ("--dst-password-file", args.dst_password_file.is_some(), is_smb(&&args.target)),
            ("--encrypt", args.encrypt, sides.iter().any(is_smb)),
            ("--uid", args.uid.is_some(), sides.iter().any(is_nfs)),
            ("--gid", args.gid.is_some(), sides.iter().any(is_nfs)),
        ] {
            if given && !fits {
                return Err(usage(format!("{option} has no meaning for these places; leave it out")));
            }
        }
        if place::is_within(&args.target, &args.source) {
            let text = "the target lies inside of the source, or is the source; choose another one";
            return Err(usage(text.to_owned()));
        }
        if args.mirror && place::is_within(&args.source, &args.target) {
            let text =
                "--mirror would delete the source, which lies inside of the target; choose another one";
            return Err(usage(text.to_owned()));
        }
        let mut keep = args.keep();
        // Nothing else has any.
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
            is_doubtful: args.mirror && place::is_doubtful(&args.source, &args.target),
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

    /// Whether a small file is only its data, its time and its bits, and so can be written in one piece.
    pub(crate) fn is_plain(&self) -> bool {
        !self.verify && !self.sync && !self.keep.is_more()
    }

    /// Whether many small files are worth sessions of their own. With what is checked or kept beyond the plain file they go the
    /// way of large ones, through the first.
    pub(crate) fn may_split(&self) -> bool {
        self.channels.is_none() && !self.dry_run && self.is_plain()
    }

    /// Whether the path, of a directory or not, is to be copied at all.
    pub(crate) fn wants(&self, path: &str, is_directory: bool) -> bool {
        let folded = (self.folds && !(self.include.is_empty() && self.exclude.is_empty()))
            .then(|| path.to_lowercase());
        let fits = |pattern: &Pattern| pattern.fits(folded.as_deref().unwrap_or(path));
        let included = is_directory || self.include.is_empty() || self.include.iter().any(fits);
        included && !self.exclude.iter().any(fits)
    }
}

fn access(args: &Args, url: &Url, password: Option<String>, keep: Keep) -> Access {
    let credentials = url.login().zip(password).map(|(user, password)| {
        let domain = url.domain.clone();
        Credentials { domain, ..Credentials::new(user, &password) }
    });
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
