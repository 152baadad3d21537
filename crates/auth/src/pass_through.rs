//! NTLM pass-through authentication (MS-APDS 3.1.5): a domain controller judges the responses of the users of
//! its domain. The program brings the way to the controller itself.

use std::fmt;

use volume::security::Sid;

use crate::Key;

/// The way to a domain controller that judges responses.
pub trait PassThrough: Send + Sync {
    /// Whether a user belongs to the domain, by the names that the client has sent. It never blocks.
    fn covers(&self, user: &str, domain: &str) -> bool;

    /// Has a domain controller judge a response. It may block for up to ten seconds.
    ///
    /// # Errors
    /// The reason why the user is refused.
    fn log_on(&self, logon: &NetworkLogon<'_>) -> Result<DomainLogon, PassThroughRefusal>;
}

/// A response to judge, with the names as the client has sent them: its proof covers them
/// (MS-NLMP 3.3.2, NETLOGON_NETWORK_INFO of MS-NRPC 2.2.1.4.5). It has no LmChallengeResponse. A controller
/// accepts an LMv2 response too, which covers neither the target nor the flag for the MIC.
pub struct NetworkLogon<'a> {
    /// The user.
    pub user: &'a str,
    /// The domain.
    pub domain: &'a str,
    /// The client's machine.
    pub workstation: &'a str,
    /// The challenge that the server has sent.
    pub challenge: [u8; 8],
    /// NtChallengeResponse.
    pub nt_response: &'a [u8],
}

/// A user whom a domain controller has accepted.
pub struct DomainLogon {
    /// UserSessionKey: the SessionBaseKey of the response (MS-NLMP 3.3.2).
    pub session_base_key: Key,
    /// The account.
    pub account: DomainAccount,
}

/// An account of a domain (NETLOGON_VALIDATION_SAM_INFO4 of MS-NRPC 2.2.1.4.13).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DomainAccount {
    /// The name of the account, such as `bob`.
    pub name: String,
    /// The NetBIOS name of its domain.
    pub domain: String,
    /// Its SID.
    pub sid: Sid,
    /// Its primary group.
    pub primary_group: Sid,
    /// Its groups, with the attributes of each membership (MS-PAC 2.2.1).
    pub groups: Vec<(Sid, u32)>,
}

/// The reason why a domain controller accepts no response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct PassThroughRefusal {
    /// The kind, for the protocol's status.
    pub kind: PassThroughRefusalKind,
    /// The cause and what mends it, for the log.
    pub why: String,
}

/// The kind of such a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PassThroughRefusalKind {
    /// The user does not exist, or the password is wrong.
    WrongCredentials,
    /// The account is disabled.
    Disabled,
    /// The account is locked after too many wrong passwords.
    LockedOut,
    /// The password has expired, or must be changed first.
    PasswordExpired,
    /// The account may not log on here or now.
    Restricted,
    /// No domain controller has judged the response.
    Unavailable,
}

impl fmt::Debug for DomainLogon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DomainLogon").field("account", &self.account).finish_non_exhaustive()
    }
}
