//! The settings of log-ons by users of a realm or domain, and the source of identities for them.

use std::fmt;
use std::sync::Arc;

use auth::{DomainAccount, KerberosTicket, Mechanism, Names, PassThrough};
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

/// The settings of log-ons with NTLM by users of the domain, of which this server is a member.
#[derive(Clone)]
pub struct DomainMember {
    /// The names in the CHALLENGE. A domain controller compares the computer and the domain in a response
    /// with the member that passes it on.
    pub names: Names,
    /// The way to a domain controller.
    pub pass_through: Arc<dyn PassThrough>,
    /// The source of identities.
    pub resolver: Arc<dyn PrincipalResolver>,
}

impl fmt::Debug for DomainMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DomainMember").field("names", &self.names).finish_non_exhaustive()
    }
}

/// Maps principals and accounts of a domain to identities.
pub trait PrincipalResolver: Send + Sync {
    /// The identity of an accepted ticket's principal. It may block for a few seconds.
    ///
    /// # Errors
    /// The reason why the principal may not log on.
    fn resolve(&self, ticket: &KerberosTicket) -> Result<Arc<Identity>, PrincipalRefusal>;

    /// The identity of an account that a domain controller has accepted. It may block for a few seconds.
    ///
    /// # Errors
    /// The reason why the user may not log on.
    fn resolve_account(&self, account: &DomainAccount) -> Result<Arc<Identity>, PrincipalRefusal>;
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
    /// A local user may not log on.
    #[error("{0}")]
    Restricted(Arc<str>),
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
            PrincipalRefusal::Restricted(_) => NtStatus::ACCOUNT_RESTRICTION,
            PrincipalRefusal::Unavailable(_) => NtStatus::NO_LOGON_SERVERS,
        }
    }
}
