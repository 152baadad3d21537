//! The settings of a share, and how users of the host and security identifiers belong together.

use std::sync::Arc;

use volume::security::Sid;
use wire::SendFile;

use crate::ClientMemory;
use crate::engine::values::descriptors::Descriptors;
use crate::engine::values::giving_back::GiveBack;

/// Bytes for what is remembered of names and files unless a share says otherwise: room for about 16,000 names.
pub const METADATA_CACHE_BYTES: usize = 48 << 20;

/// Which identifier belongs to which user or group of the host.
pub trait Accounts: Send + Sync {
    /// The identifier of a host user.
    fn user_sid(&self, uid: u32) -> Sid {
        Sid::unix_user(uid)
    }
    /// The identifier of a host group.
    fn group_sid(&self, gid: u32) -> Sid {
        Sid::unix_group(gid)
    }
    /// The host user behind an identifier.
    fn uid(&self, sid: &Sid) -> Option<u32> {
        sid.as_unix_user()
    }
    /// The host group behind an identifier.
    fn gid(&self, sid: &Sid) -> Option<u32> {
        sid.as_unix_group()
    }
    /// The host user of this name in a domain, when the server stands for that domain.
    fn uid_named(&self, _name: &str, _domain: &str) -> Option<u32> {
        None
    }
    /// The host group of this name in a domain.
    fn gid_named(&self, _name: &str, _domain: &str) -> Option<u32> {
        None
    }
}

/// Nobody but the host's own numbers.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoAccounts;

impl Accounts for NoAccounts {}

/// Which symbolic links clients may make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Symlinks {
    /// With any text.
    #[default]
    All,
    /// Only those that do not leave the share, whoever follows them.
    Inside,
    /// None.
    None,
}

/// The settings of a share.
#[derive(Clone)]
pub struct Config {
    /// Its name.
    pub name: String,
    /// Nothing can be changed through it.
    pub read_only: bool,
    /// Names match exactly.
    pub case_sensitive: bool,
    /// Names that the lister may not read are not listed.
    pub hide_unreadable: bool,
    /// Named streams exist.
    pub streams: bool,
    /// Changes are told to watches.
    pub watches: bool,
    /// Whether large reads are handed out as pieces of files ([`crate::Share::read_range`]).
    pub send_file: SendFile,
    /// Names that are shown as hidden; `*` and `?` stand for anything.
    pub hidden: Vec<String>,
    /// Whether names that begin with a dot are shown as hidden.
    pub dot_files_hidden: bool,
    /// Names, attributes and descriptors are remembered, where the volume tells of changes by others.
    pub metadata_caching: bool,
    /// Most bytes that what is remembered counts for; it is set when the share is opened.
    pub metadata_cache_bytes: usize,
    /// Where the descriptors come from that are kept for names; it is set when the share is opened.
    pub descriptors: Arc<Descriptors>,
    /// Memory for what clients hold, of all shares together.
    pub memory: Arc<ClientMemory>,
    /// Who gives files back while metadata caching is on; none: the close itself. It is set when the share is opened.
    pub give_back: Option<Arc<dyn GiveBack>>,
    /// Whether descriptors decide who may do what.
    pub enforce: bool,
    /// Most opens at one time.
    pub max_opens: usize,
    /// Most opens that are kept while their clients are gone.
    pub max_detached: usize,
    /// How long the holder of a caching right may take to answer, in nanoseconds.
    pub break_timeout_ns: u64,
    /// The same for one whose rights are only ever given back as a whole ([`crate::CachingRequest::whole`]).
    pub whole_break_timeout_ns: u64,
    /// Absolute path of the share's root on the host; symbolic links with an absolute text are followed
    /// only below it. Empty: never.
    pub host_path: Vec<u8>,
    /// Which symbolic links may be made.
    pub symlinks: Symlinks,
    /// Symbolic links are followed for those who do not say that they follow them themselves.
    pub follow_links: bool,
    /// What stands behind a symbolic link can be removed through it.
    pub delete_through_links: bool,
    /// Who is who.
    pub accounts: Arc<dyn Accounts>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            name: String::new(),
            read_only: false,
            case_sensitive: false,
            hide_unreadable: false,
            streams: true,
            watches: true,
            send_file: SendFile::default(),
            hidden: Vec::new(),
            dot_files_hidden: true,
            metadata_caching: true,
            metadata_cache_bytes: METADATA_CACHE_BYTES,
            descriptors: Descriptors::new(usize::MAX),
            memory: ClientMemory::bounded(usize::MAX),
            give_back: None,
            enforce: true,
            max_opens: 1 << 20,
            max_detached: 1 << 16,
            break_timeout_ns: 35_000_000_000,
            whole_break_timeout_ns: 90_000_000_000,
            host_path: Vec::new(),
            symlinks: Symlinks::All,
            follow_links: true,
            delete_through_links: false,
            accounts: Arc::new(NoAccounts),
        }
    }
}

impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Config").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Config {
    /// Whether a name is shown as hidden whatever its attributes say.
    pub(crate) fn hides(&self, name: &[u8]) -> bool {
        (self.dot_files_hidden && name.first() == Some(&b'.'))
            || (!self.hidden.is_empty()
                && self.hidden.iter().any(|pattern| matches(pattern.as_bytes(), name)))
    }

    /// What of an absolute path lies below the share's root.
    pub(crate) fn inside<'a>(&self, path: &'a [u8]) -> Option<&'a [u8]> {
        let root = self.host_path.strip_suffix(b"/").unwrap_or(&self.host_path);
        if root.is_empty() {
            return None;
        }
        let rest = path.strip_prefix(root)?;
        (rest.is_empty() || rest[0] == b'/').then_some(rest)
    }
}

/// Whether `name` fits `pattern`, without regard to the case of ASCII letters.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    // Where to go back to when the rest does not fit: behind the last star, one byte further on.
    let (mut p, mut n, mut back) = (0, 0, None);
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                back = Some((p + 1, n));
                p += 1;
            }
            Some(c) if *c == b'?' || c.eq_ignore_ascii_case(&name[n]) => {
                p += 1;
                n += 1;
            }
            _ => match back {
                Some((after_star, from)) => {
                    (p, n) = (after_star, from + 1);
                    back = Some((after_star, from + 1));
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, name, fits) in [
            ("desktop.ini", "Desktop.INI", true),
            ("*.tmp", "a.b.tmp", true),
            ("*.tmp", "a.tmpx", false),
            ("~$*", "~$doc", true),
            ("a?c*", "abc", true),
            ("a?c", "ac", false),
            ("*", "", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), fits, "{pattern} {name}");
        }
    }

    #[test]
    fn dot_files_are_hidden_where_the_setting_says_so() {
        let config = Config { hidden: vec!["x*".into()], ..Config::default() };
        assert!(config.hides(b".profile") && config.hides(b"xyz") && !config.hides(b"profile"));
        assert!(!Config { dot_files_hidden: false, ..config }.hides(b".profile"));
    }
}
