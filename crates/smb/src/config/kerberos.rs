//! The settings of log-ons with Kerberos tickets, and the source of identities for principals.

use std::fmt;
use std::sync::Arc;

use auth::{KerberosTicket, Mechanism};
use share::Identity;
use smb_wire::NtStatus;

/// The settings of log-ons with Kerberos tickets.
#[derive(Clone)]
pub struct KerberosConfig {
    /// The mechanism, with the server's keys.
    pub mechanism: Arc<dyn Mechanism>,
    /// The source of identities.
    pub resolver: Arc<dyn PrincipalResolver>,
}

impl fmt::Debug for KerberosConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KerberosConfig")
    }
}

/// Maps a principal to an identity.
pub trait PrincipalResolver: Send + Sync {
    /// The identity of an accepted ticket's principal. It may block for a few seconds.
    ///
    /// # Errors
    /// The reason why the principal may not log on.
    fn resolve(&self, ticket: &KerberosTicket) -> Result<Arc<Identity>, PrincipalRefusal>;
}

/// The reason why a principal with a valid ticket may not log on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PrincipalRefusal {
    /// No source knows the principal, or the sources disagree about it.
    #[error("{0}")]
    Unknown(String),
    /// The account is disabled.
    #[error("the account is disabled")]
    Disabled,
    /// The sources do not answer.
    #[error("{0}")]
    Unavailable(String),
}

impl PrincipalRefusal {
    /// The status for the client.
    #[must_use]
    pub fn status(&self) -> NtStatus {
        match self {
            PrincipalRefusal::Unknown(_) => NtStatus::LOGON_FAILURE,
            PrincipalRefusal::Disabled => NtStatus::ACCOUNT_DISABLED,
            PrincipalRefusal::Unavailable(_) => NtStatus::NO_LOGON_SERVERS,
        }
    }
}
