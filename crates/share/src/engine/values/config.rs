//! The settings of a share.

use std::sync::Arc;

use wire::SendFile;

use crate::engine::values::accounts::{AccountMapping, NoAccounts};
use crate::engine::values::deferred_close::DeferredClose;
use crate::engine::values::descriptors::Descriptors;
use crate::engine::values::recycle::RecycleRules;
use crate::{AuditClasses, AuditSink, ClientMemory, RecordFreeze};

/// The default size of the cache of names and files in bytes: room for about 16,000 names.
pub const METADATA_CACHE_BYTES: usize = 48 << 20;

/// The symbolic links that clients may create.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Symlinks {
    /// Links with any text.
    #[default]
    All,
    /// Only links that do not leave the share, whoever follows them.
    Inside,
    /// No links.
    None,
}

/// The settings of a share.
#[derive(Clone)]
pub struct Config {
    /// Its name.
    pub name: String,
    /// Clients cannot change anything.
    pub read_only: bool,
    /// Names match exactly.
    pub case_sensitive: bool,
    /// Names that the lister may not read are not listed.
    pub hide_unreadable: bool,
    /// Named streams exist.
    pub streams: bool,
    /// Changes are reported to watches.
    pub watches: bool,
    /// Whether large reads are returned as pieces of files ([`crate::Share::read_range`]).
    pub send_file: SendFile,
    /// Names that are shown as hidden; `*` and `?` stand for anything.
    pub hidden: Vec<String>,
    /// Whether names that begin with a dot are shown as hidden.
    pub dot_files_hidden: bool,
    /// Names, attributes and descriptors are cached, if the volume reports changes by others.
    pub metadata_caching: bool,
    /// The limit of the cache in bytes. It is set when the share is opened.
    pub metadata_cache_bytes: usize,
    /// The source of descriptors for cached names. It is set when the share is opened.
    pub descriptors: Arc<Descriptors>,
    /// Memory for the state of clients, of all shares together.
    pub memory: Arc<ClientMemory>,
    /// Closes files while metadata caching is on; none: the close itself does. It is set when the share is
    /// opened.
    pub give_back: Option<Arc<dyn DeferredClose>>,
    /// Stops the records of opens of several shares for a moment.
    pub record_freeze: Arc<RecordFreeze>,
    /// Whether changes of recorded opens are on stable storage before anybody is told of them. Without it
    /// they survive the process; with it the machine too, for storage that another machine can take over.
    pub stable_records: bool,
    /// Whether descriptors decide about access.
    pub enforce: bool,
    /// Most opens at one time.
    pub max_opens: usize,
    /// Most opens that are kept while their clients are gone.
    pub max_detached: usize,
    /// How long the holder of a caching right may take to acknowledge a break, in nanoseconds.
    pub break_timeout_ns: u64,
    /// The same time for holders whose rights are only ever released as a whole
    /// ([`crate::CachingRequest::whole`]).
    pub whole_break_timeout_ns: u64,
    /// Absolute path of the share's root on the host. Symbolic links with an absolute text are followed only
    /// below it. Empty: never.
    pub host_path: Vec<u8>,
    /// The symbolic links that may be created.
    pub symlinks: Symlinks,
    /// Symbolic links are followed for clients that do not follow them themselves.
    pub follow_links: bool,
    /// An object behind a symbolic link can be removed through the link.
    pub delete_through_links: bool,
    /// Removed files are kept in a folder of the share by these rules; none: they are removed for good.
    pub recycle: Option<Arc<RecycleRules>>,
    /// The mapping of users and groups.
    pub accounts: Arc<dyn AccountMapping>,
    /// Receives the events of the audit; none: there is no audit.
    pub audit: Option<Arc<dyn AuditSink>>,
    /// The events that it receives.
    pub audit_classes: AuditClasses,
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
            record_freeze: Arc::default(),
            stable_records: false,
            enforce: true,
            max_opens: 1 << 20,
            max_detached: 1 << 16,
            break_timeout_ns: 35_000_000_000,
            whole_break_timeout_ns: 90_000_000_000,
            host_path: Vec::new(),
            symlinks: Symlinks::All,
            follow_links: true,
            delete_through_links: false,
            recycle: None,
            accounts: Arc::new(NoAccounts),
            audit: None,
            audit_classes: AuditClasses::empty(),
        }
    }
}

impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Config").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Config {
    /// The events for which there is a receiver.
    pub(crate) fn audited(&self) -> AuditClasses {
        if self.audit.is_some() { self.audit_classes } else { AuditClasses::empty() }
    }

    /// Whether a name is shown as hidden whatever its attributes say.
    pub(crate) fn hides(&self, name: &[u8]) -> bool {
        (self.dot_files_hidden && name.first() == Some(&b'.'))
            || (!self.hidden.is_empty()
                && self.hidden.iter().any(|pattern| matches(pattern.as_bytes(), name)))
    }

    /// The part of an absolute path below the share's root.
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
pub(crate) fn matches(pattern: &[u8], name: &[u8]) -> bool {
    // The position to return to if the rest does not fit: behind the last star, one byte further on.
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
