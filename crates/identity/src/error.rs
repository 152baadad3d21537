//! The reasons why a user is refused.

use volume::security::Sid;

use crate::source::Silent;

/// The reason why an account has no identity here. Each text says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// A source that is needed does not answer, and nothing recent enough is remembered.
    #[error(transparent)]
    Unavailable(#[from] Silent),
    /// Two sources say different things about one account.
    #[error(
        "{account}: {first} and {second} disagree about the {subject}; correct one of them, since neither is \
         believed"
    )]
    Disagreement {
        /// The account.
        account: String,
        /// `SID` or `uid`.
        subject: &'static str,
        /// The value of one source.
        first: String,
        /// The value of the other source.
        second: String,
    },
    /// Two accounts have one id.
    #[error("the id {id} belongs to both {first} and {second}; give one of them another id")]
    SharedId {
        /// The uid or gid.
        id: u32,
        /// One account.
        first: String,
        /// The other account.
        second: String,
    },
    /// A name or a principal of two accounts.
    #[error("{0} is the name of {1} accounts; give each account a name of its own")]
    Ambiguous(String, usize),
    /// An account without an id.
    #[error(
        "{account} ({sid}) has no id: no range of the id mapping covers it; extend the range or the table"
    )]
    NotCovered {
        /// The account.
        account: String,
        /// The user's SID, or that of the primary group.
        sid: Sid,
    },
    /// An account that the directory has disabled.
    #[error("{0} is disabled in the directory")]
    Disabled(String),
    /// A ticket without a PAC in a domain.
    #[error("the ticket of {0} has no PAC; enable the PAC for this user in the domain")]
    NoPac(String),
    /// A principal of a realm that this server does not know.
    #[error("{0} is of a realm that is neither this server's nor in `trusted`")]
    UnknownRealm(String),
    /// A principal of a known realm that is no user.
    #[error("no source knows {0}")]
    UnknownUser(String),
    /// An account of the directory without a SID.
    #[error("the directory gives no SID for {0}; let the server read `objectSid`")]
    NoSid(String),
}
