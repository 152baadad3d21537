//! Credentials of a server (a keytab) and of a client (a credential cache or a keytab).

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::encryption_type::EncryptionType;
use crate::error::GssError;
use crate::library::{Credential, Library, NameForm, Usage, store_path};

/// A server's credentials: all keys of its keytab. They read the keytab anew for each log-on, so new keys
/// count at once.
///
/// The library locks a credential as long as it accepts a token. So each token gets one that no other thread
/// uses, and there are as many as tokens were accepted at once.
pub struct AcceptorCredentials {
    library: Arc<Library>,
    keytab: String,
    replay_cache: String,
    allowed: Vec<EncryptionType>,
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
            keytab: store_path("FILE", keytab)?,
            replay_cache: store_path("file2", replay_cache)?,
            allowed: allowed.to_vec(),
            idle: Mutex::new(Vec::new()),
        };
        credentials.with_own(|_| Ok(()))?;
        Ok(credentials)
    }

    /// The library.
    pub(crate) fn library(&self) -> &Arc<Library> {
        &self.library
    }

    /// Calls `accept` with a credential that no other thread uses.
    pub(crate) fn with_own<T>(
        &self,
        accept: impl FnOnce(&Credential) -> Result<T, GssError>,
    ) -> Result<T, GssError> {
        let idle = self.idle.lock().pop();
        let own = idle.map_or_else(|| self.credential(), Ok)?;
        let accepted = accept(&own);
        let mut idle = self.idle.lock();
        if idle.len() < MAX_IDLE {
            idle.push(own);
        }
        accepted
    }

    fn credential(&self) -> Result<Credential, GssError> {
        let store = [("keytab", self.keytab.as_str()), ("rcache", self.replay_cache.as_str())];
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
