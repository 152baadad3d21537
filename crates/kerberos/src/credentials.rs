//! Credentials of a server (a keytab) and of a client (a credential cache or a keytab).

use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

use crate::encryption_type::EncryptionType;
use crate::error::GssError;
use crate::library::keytab::MemoryKeytab;
use crate::library::{Credential, Library, NameForm, Usage, store_path};

/// A server's credentials: all keys of its keytab. New keys count at once, since each log-on looks whether
/// the file has changed.
pub struct AcceptorCredentials {
    library: Arc<Library>,
    keytab: PathBuf,
    /// The keytab as the name of a file for the library.
    keytab_file: String,
    replay_cache: String,
    allowed: Vec<EncryptionType>,
    keys: Mutex<Arc<AcceptorKeys>>,
}

/// The keys of the keytab as it was at one time.
///
/// The library locks a credential as long as it accepts a token. So each token gets one that no other thread
/// uses, and there are as many as tokens were accepted at once.
pub(crate) struct AcceptorKeys {
    stamp: Option<FileStamp>,
    /// The copy of the keys. Without one the library reads the file.
    copy: Option<MemoryKeytab>,
    idle: Mutex<Vec<Credential>>,
}

/// The most idle credentials. Each has some 200 bytes.
const MAX_IDLE: usize = 64;

impl AcceptorCredentials {
    /// The credentials of a keytab. `replay_cache` is the file that remembers the tokens of the last minutes,
    /// which is created when it is missing. Tickets and keys may only have the types in `allowed`.
    ///
    /// # Errors
    /// [`Cause::NoKeytab`](crate::Cause::NoKeytab) and others.
    pub fn new(
        library: &Arc<Library>,
        keytab: &Path,
        replay_cache: &Path,
        allowed: &[EncryptionType],
    ) -> Result<AcceptorCredentials, GssError> {
        let credentials = AcceptorCredentials {
            library: Arc::clone(library),
            keytab: keytab.to_owned(),
            keytab_file: store_path("FILE", keytab)?,
            replay_cache: store_path("file2", replay_cache)?,
            allowed: allowed.to_vec(),
            keys: Mutex::new(Arc::new(AcceptorKeys::read(library, keytab))),
        };
        credentials.with_own(&credentials.keys(), |_| Ok(()))?;
        Ok(credentials)
    }

    /// The library.
    pub(crate) fn library(&self) -> &Arc<Library> {
        &self.library
    }

    /// The keys of the keytab as it is now.
    pub(crate) fn keys(&self) -> Arc<AcceptorKeys> {
        let stamp = FileStamp::of(&self.keytab);
        let mut keys = self.keys.lock();
        if keys.copy.is_none() || keys.stamp.is_none() || keys.stamp != stamp {
            *keys = Arc::new(AcceptorKeys::read(&self.library, &self.keytab));
        }
        Arc::clone(&keys)
    }

    /// Calls `accept` with a credential that no other thread uses.
    pub(crate) fn with_own<T>(
        &self,
        keys: &AcceptorKeys,
        accept: impl FnOnce(&Credential) -> Result<T, GssError>,
    ) -> Result<T, GssError> {
        let idle = keys.idle.lock().pop();
        let own = idle.map_or_else(|| self.credential(keys), Ok)?;
        let accepted = accept(&own);
        let mut idle = keys.idle.lock();
        if idle.len() < MAX_IDLE {
            idle.push(own);
        }
        accepted
    }

    fn credential(&self, keys: &AcceptorKeys) -> Result<Credential, GssError> {
        let keytab = keys.copy.as_ref().map_or(self.keytab_file.as_str(), MemoryKeytab::name);
        let store = [("keytab", keytab), ("rcache", self.replay_cache.as_str())];
        let mut credential = self.library.credential(None, Usage::Accept, &store)?;
        // This limits the subkeys that the library negotiates, and not the tickets (`acceptor.rs`).
        let numbers: Vec<i32> = self.allowed.iter().map(|allowed| allowed.number()).collect();
        credential.allow(&numbers)?;
        Ok(credential)
    }

    /// Checks an encryption type of a ticket or a key.
    pub(crate) fn check(&self, kind: EncryptionType) -> Result<(), GssError> {
        match self.allowed.contains(&kind) {
            true => Ok(()),
            false => Err(GssError::forbidden(kind)),
        }
    }
}

impl AcceptorKeys {
    fn read(library: &Library, keytab: &Path) -> AcceptorKeys {
        // A change after this look shows in the next one.
        let stamp = FileStamp::of(keytab).filter(FileStamp::is_settled);
        AcceptorKeys { stamp, copy: library.copy_keytab(keytab), idle: Mutex::new(Vec::new()) }
    }

    /// The client's time in an AP-REQ that was refused for the clocks.
    pub(crate) fn client_time(&self, request: &[u8]) -> Option<i64> {
        self.copy.as_ref()?.client_time(request)
    }

    /// The service that the library names for each ticket with this encryption type, if it is the same for
    /// all of them.
    pub(crate) fn service(&self, kind: EncryptionType) -> Option<&str> {
        self.copy.as_ref()?.service(kind)
    }
}

/// The marks that tell one state of a file from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileStamp {
    device: u64,
    inode: u64,
    size: u64,
    modified_ns: i128,
    /// The time of the last change of data or attributes, which no program can set.
    changed_ns: i128,
}

/// Within this time of a change another one may leave the same time behind: clocks of file systems tick up to
/// every 2 s.
const UNSETTLED: Duration = Duration::from_secs(3);

impl FileStamp {
    fn of(file: &Path) -> Option<FileStamp> {
        let found = file.metadata().ok()?;
        let time = |seconds: i64, ns: i64| i128::from(seconds) * 1_000_000_000 + i128::from(ns);
        Some(FileStamp {
            device: found.dev(),
            inode: found.ino(),
            size: found.size(),
            modified_ns: time(found.mtime(), found.mtime_nsec()),
            changed_ns: time(found.ctime(), found.ctime_nsec()),
        })
    }

    /// Whether a later change shows in the stamp. A file from the future may be one of another host's clock.
    fn is_settled(&self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i128);
        now - self.changed_ns >= UNSETTLED.as_nanos() as i128
    }
}

impl fmt::Debug for AcceptorCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AcceptorCredentials")
    }
}

/// The source of a client's tickets.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum TicketSource {
    /// The credential cache that the environment names (`KRB5CCNAME`), or the user's own.
    #[default]
    Default,
    /// The credential cache with this name, such as `FILE:/tmp/krb5cc_0`.
    Cache(String),
    /// The keys of a principal in a keytab. New tickets are kept in memory.
    Keytab {
        /// The keytab.
        keytab: PathBuf,
        /// The principal, such as `backup@EXAMPLE.NET`.
        principal: String,
    },
}

/// A client's credentials.
pub struct InitiatorCredentials {
    pub(crate) credential: Credential,
}

impl InitiatorCredentials {
    /// The credentials from a source. With a keytab this may ask a server of the realm.
    ///
    /// # Errors
    /// [`Cause::NoCredentials`](crate::Cause::NoCredentials) and others.
    pub fn new(library: &Arc<Library>, source: &TicketSource) -> Result<InitiatorCredentials, GssError> {
        let credential = match source {
            TicketSource::Default => library.credential(None, Usage::Initiate, &[])?,
            TicketSource::Cache(cache) => library.credential(None, Usage::Initiate, &[("ccache", cache)])?,
            TicketSource::Keytab { keytab, principal } => {
                let keytab = store_path("FILE", keytab)?;
                let name = library.name(principal, NameForm::Principal)?;
                // A cache in memory belongs to this process, and its name to this principal.
                let cache = format!("MEMORY:trunkline-{principal}");
                let store = [("client_keytab", keytab.as_str()), ("ccache", cache.as_str())];
                library.credential(Some(&name), Usage::Initiate, &store)?
            }
        };
        Ok(InitiatorCredentials { credential })
    }
}

impl fmt::Debug for InitiatorCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InitiatorCredentials")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_that_a_later_change_may_not_alter_is_unsettled() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let stamp = FileStamp::of(file.path()).unwrap();
        assert!(!stamp.is_settled(), "it was written just now");
        let ago =
            |seconds: i128| FileStamp { changed_ns: stamp.changed_ns - seconds * 1_000_000_000, ..stamp };
        assert!(ago(10).is_settled() && !ago(-3600).is_settled());
        assert_eq!(FileStamp::of(file.path()), Some(stamp));
        std::fs::write(file.path(), b"keys").unwrap();
        assert_ne!(FileStamp::of(file.path()), Some(stamp));
        assert_eq!(FileStamp::of(Path::new("/no/such/keytab")), None);
    }
}
