//! The reasons for the refusal of a log-on.

use std::sync::Arc;

use crate::initiator::TicketFailure;
use crate::kerberos::TicketRefusal;
use crate::ntlm::Malformed;
use crate::pass_through::PassThroughRefusal;
use crate::spnego::BadToken;

/// The reason for the end of an exchange. The protocol's layer maps it to its own status.
///
/// The status must not reveal to a peer whether an account exists. So [`Refusal::WrongCredentials`] stands
/// for an unknown user and for a wrong password. [`Refusal::AccountRestriction`] is reported only to a client
/// that knows the password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The SPNEGO token cannot be parsed.
    #[error("bad SPNEGO token: {0}")]
    BadToken(#[from] BadToken),
    /// The NTLM message cannot be parsed.
    #[error("bad NTLM message: {0}")]
    BadMessage(#[from] Malformed),
    /// The token is well formed but not allowed at this point of an exchange.
    #[error("a token that does not belong at this point of the exchange")]
    OutOfTurn,
    /// The other side offers no supported mechanism.
    #[error("the client offers no mechanism that this server supports (Kerberos needs `[domain]`)")]
    NoCommonMechanism,
    /// The client offers nothing but Kerberos, which this server cannot do now.
    #[error("the client logs on with a ticket, which this server cannot check: {0}")]
    KerberosOff(Arc<str>),
    /// The client wants NTLM, and the server does not allow it.
    #[error(
        "the client logs on with NTLM, and `ntlm` of `[domain]` is `off`: it needs a Kerberos ticket, and \
         must call the server by a name and not by an address"
    )]
    NtlmOff,
    /// The ticket is refused.
    #[error(transparent)]
    Ticket(#[from] TicketRefusal),
    /// A client could not log on with a ticket.
    #[error(transparent)]
    NoTicket(#[from] TicketFailure),
    /// The other side's features are too weak: no Unicode, or on the client no extended session security.
    #[error("the other side offers too little security")]
    TooWeak,
    /// A domain controller does not accept the user's response.
    #[error(transparent)]
    PassThrough(#[from] PassThroughRefusal),
    /// The response belongs to NTLMv1 or LM.
    #[error("the client answered with NTLMv1 or LM, which are never accepted")]
    OldResponse,
    /// The user does not exist, or the password is wrong.
    #[error("unknown user or wrong password")]
    WrongCredentials,
    /// The password is right, but the account may not log on.
    #[error("{0}")]
    AccountRestriction(Arc<str>),
    /// The message integrity code of the three NTLM messages is wrong, because one was changed.
    #[error("the NTLM messages were changed on their way")]
    WrongMic,
    /// The MIC of the list of mechanisms is wrong, or missing although required.
    #[error("the list of mechanisms was changed on its way, or is not vouched for")]
    WrongMechListMic,
    /// The server ended the exchange.
    #[error("the server refused")]
    Rejected,
}
