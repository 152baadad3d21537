//! The options of `trunkline copy`.

// Brackets in the text of --help mark optional parts.
#![allow(rustdoc::broken_intra_doc_links)]

use std::path::{Path, PathBuf};

use client::smb::TicketArgs;
use client::{Url, written};

use crate::{Error, Pattern, PreservedParts};

/// The options of a copy.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// The source: a path, smb://USER@HOST[:PORT]/SHARE[/PATH] or nfs://HOST[:PORT]/EXPORT[/PATH]
    #[arg(value_name = "SRC")]
    pub source: Url,
    /// The target: the contents of a directory go into DST, which is created; a file becomes DST, or goes
    /// into it if DST is a directory
    #[arg(value_name = "DST")]
    pub target: Url,
    /// File whose first line is the password of smb:// [default: the variable TRUNKLINE_PASSWORD, else ask]
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// The same for DST, if both sides are smb:// with different passwords [default: the variable
    /// TRUNKLINE_DST_PASSWORD, else that of SRC]
    #[arg(long, value_name = "FILE", conflicts_with = "kerberos")]
    pub dst_password_file: Option<PathBuf>,
    /// Log-ons with tickets.
    #[command(flatten)]
    pub tickets: TicketArgs,
    /// With nfs://: user of every call [default: our own]
    #[arg(long, value_name = "N")]
    pub uid: Option<u32>,
    /// With nfs://: group of every call [default: our own]
    #[arg(long, value_name = "N")]
    pub gid: Option<u32>,
    /// With smb://: encrypt everything; without it everything is signed
    #[arg(long)]
    pub encrypt: bool,
    /// The parts of each file to keep: D data, A attributes and permission bits, T times, S access lists, O
    /// owners and groups, E extended attributes; X leaves named streams out, which otherwise go from share to
    /// share
    #[arg(long, value_name = "FLAGS", default_value = "DAT")]
    pub copy: PreservedParts,
    /// The same as --copy DATSOE
    #[arg(long)]
    pub copyall: bool,
    /// Keep access lists too (S)
    #[arg(short = 'A', long, visible_alias = "sec")]
    pub acls: bool,
    /// Keep owners and groups too (O)
    #[arg(short, long)]
    pub owner: bool,
    /// Keep extended attributes too (E)
    #[arg(short = 'X', long)]
    pub xattrs: bool,
    /// Symbolic links: copied as links, followed, or left out
    #[arg(long, value_enum, default_value_t = Links::Copy)]
    pub links: Links,
    /// Keep hard links: a file of several names in SRC is one file in DST
    #[arg(short = 'H', long)]
    pub hard_links: bool,
    /// Delete from DST everything that SRC does not have
    #[arg(long)]
    pub mirror: bool,
    /// Read the written data back and compare its SHA-256 before a file gets its name
    #[arg(long)]
    pub verify: bool,
    /// Wait until each file is on the target's stable storage before it gets its name
    #[arg(long)]
    pub sync: bool,
    /// Copy only matching files; may be repeated. *, ** and ?; a pattern with a / matches the path, else the
    /// name
    #[arg(long, value_name = "PATTERN")]
    pub include: Vec<Pattern>,
    /// Leave matching files and directories out; may be repeated
    #[arg(long, value_name = "PATTERN")]
    pub exclude: Vec<Pattern>,
    /// Report what would be copied and deleted, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// The most bytes to copy per second, such as 20m
    #[arg(long, value_name = "SIZE", value_parser = rate)]
    pub rate: Option<u64>,
    /// Further attempts for a file after a failure of server or connection, or a change of the file
    #[arg(long, value_name = "N", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=100))]
    pub retries: u32,
    /// Connections to each server [default: one, then four, then eight as long as more make the copy faster]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16))]
    pub channels: Option<u32>,
    /// The most files to copy at once
    #[arg(long, value_name = "N", default_value_t = 512)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: u32,
    /// Report as JSON
    #[arg(long)]
    pub json: bool,
}

/// The treatment of symbolic links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Links {
    /// Links become links with the same target.
    #[default]
    Copy,
    /// The targets of links are copied in their place.
    Follow,
    /// Links are left out.
    Skip,
}

/// The password of each side that needs one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Passwords {
    pub(crate) source: Option<String>,
    pub(crate) target: Option<String>,
}

impl Args {
    /// The parts of each file to keep.
    pub(crate) fn keep(&self) -> PreservedParts {
        let mut keep = self.copy;
        keep.attributes |= self.copyall;
        keep.times |= self.copyall;
        keep.lists |= self.acls || self.copyall;
        keep.owners |= self.owner || self.copyall;
        keep.xattrs |= self.xattrs || self.copyall;
        keep
    }

    /// The passwords that are needed, from files and the environment, or else from `ask`, which is called
    /// with the user.
    ///
    /// # Errors
    /// When a file cannot be read, and the errors of `ask`.
    pub(crate) fn passwords(&self, ask: &dyn Fn(&str) -> Result<String, Error>) -> Result<Passwords, Error> {
        let obtain = |url: &Url, file: Option<&Path>, option: &str, variable: &str| match file {
            _ if url.login().is_none() || self.tickets.kerberos => Ok(None),
            Some(file) => first_line(file, option).map(Some),
            None => Ok(std::env::var(variable).ok()),
        };
        let usual = "TRUNKLINE_PASSWORD";
        let file = self.password_file.as_deref();
        let mut source = obtain(&self.source, file, "--password-file", usual)?;
        let own = self.dst_password_file.as_deref();
        let mut target = obtain(&self.target, own, "--dst-password-file", "TRUNKLINE_DST_PASSWORD")?;
        if target.is_none() {
            target = obtain(&self.target, file, "--password-file", usual)?;
        }
        for (url, password) in [(&self.source, &mut source), (&self.target, &mut target)] {
            if let (Some(user), None, false) = (url.login(), &password, self.tickets.kerberos) {
                *password = Some(ask(user)?);
            }
        }
        Ok(Passwords { source, target })
    }
}

fn first_line(file: &Path, option: &str) -> Result<String, Error> {
    let secret = written::secret(file);
    secret.map_err(|why| Error::new(format!("{option} {}", file.display()), why))
}

/// Parses bytes per second.
fn rate(text: &str) -> Result<u64, String> {
    let of_nothing = "at that rate nothing is ever copied";
    written::size(text).map_err(|why| if why == written::NOTHING { of_nothing.to_owned() } else { why })
}
