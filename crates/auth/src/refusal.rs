//! Why somebody is not let in.

use crate::ntlm::Malformed;
use crate::spnego::BadToken;

/// The reason for ending an exchange. The protocol's layer turns it into its own status.
///
/// A peer must not learn from the status whether an account exists: [`Refusal::WrongCredentials`] stands
/// for an unknown user as well as for a wrong password, and [`Refusal::AccountDisabled`] is said only to
/// who knows the password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The SPNEGO token cannot be read.
    #[error("bad SPNEGO token: {0}")]
    BadToken(#[from] BadToken),
    /// The NTLM message cannot be read.
    #[error("bad NTLM message: {0}")]
    BadMessage(#[from] Malformed),
    /// The token is well formed but does not come at this point of an exchange.
    #[error("a token that does not belong at this point of the exchange")]
    OutOfTurn,
    /// The other side offers no mechanism that we have.
    #[error("no common authentication mechanism: only NTLMSSP is supported, and not Kerberos")]
    NoCommonMechanism,
    /// What the other side offers is too weak: no Unicode, or on the client no extended session security.
    #[error("the other side offers too little security")]
    TooWeak,
    /// The response is one of NTLMv1 or LM.
    #[error("the client answered with NTLMv1 or LM, which are never accepted")]
    OldResponse,
    /// No such user, or not the user's password.
    #[error("unknown user or wrong password")]
    WrongCredentials,
    /// The password is right, but the account may not be used.
    #[error("the account is disabled")]
    AccountDisabled,
    /// The message integrity code over the three NTLM messages is wrong: somebody changed one.
    #[error("the NTLM messages were changed on their way")]
    WrongMic,
    /// The code over the list of mechanisms is wrong or missing where it must be.
    #[error("the list of mechanisms was changed on its way, or is not vouched for")]
    WrongMechListMic,
    /// The server ended the exchange.
    #[error("the server refused")]
    Rejected,
}
