//! The offers and requirements of a client.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use auth::{Cipher, SigningAlgorithm};
use smb_wire::Guid;
use smb_wire::negotiate::Dialect;

/// The dialects that this client speaks, in order.
pub const DIALECTS: [Dialect; 5] =
    [Dialect::Smb202, Dialect::Smb210, Dialect::Smb300, Dialect::Smb302, Dialect::Smb311];

/// The offers of a connection to the server.
#[derive(Debug, Clone)]
pub struct Options {
    /// The dialects to offer, out of [`DIALECTS`].
    pub dialects: Vec<Dialect>,
    /// The signing algorithms in order of preference. They are negotiated in 3.1.1 only. Before it the
    /// dialect decides.
    pub signing: Vec<SigningAlgorithm>,
    /// The ciphers in order of preference. An empty list offers no encryption. Before 3.1.1 there is only
    /// AES-128-CCM.
    pub ciphers: Vec<Cipher>,
    /// Whether the client requires that messages are signed or sealed.
    pub require_signing: bool,
    /// The identity of the client. All connections of one session need the same.
    pub client_guid: Guid,
    /// The credits to keep in stock: at least one for each request of 64 KiB that is to be in flight at once.
    pub credits: u16,
    /// The time limit of each step on the way to a share: the connection, NEGOTIATE, SESSION_SETUP,
    /// TREE_CONNECT. A server that hangs in one of them may well answer others meanwhile.
    pub connect_timeout: Duration,
    /// The time of silence on the TCP level after which the connection counts as lost.
    pub dead_after: Duration,
    /// The time without any received byte, while a reply is awaited, after which the connection counts as
    /// lost. The host of a server that hangs goes on acknowledging for it. A server that only needs time is
    /// asked for a sign of life, and its reply counts. Zero waits for ever.
    pub silence: Duration,
    /// The bytes per second that each connection may carry in each direction. The client slows itself down to
    /// imitate a narrow path. [`Connection::pace`](crate::smb::Connection::pace) changes it later.
    pub pace: Option<u64>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            dialects: DIALECTS.to_vec(),
            signing: vec![SigningAlgorithm::AesGmac, SigningAlgorithm::AesCmac],
            ciphers: vec![Cipher::Aes128Gcm, Cipher::Aes256Gcm, Cipher::Aes128Ccm, Cipher::Aes256Ccm],
            require_signing: true,
            client_guid: Guid(auth::crypto::random()),
            credits: 512,
            connect_timeout: Duration::from_secs(30),
            dead_after: Duration::from_secs(20),
            silence: Duration::from_secs(60),
            pace: None,
        }
    }
}

/// The user of a log-on and the proof.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// The user's name. With a ticket it has no meaning, since the ticket has the user's.
    pub user: String,
    /// The domain, or nothing to let the server choose one.
    pub domain: String,
    /// The proof.
    pub secret: Secret,
}

/// The proof of a log-on.
#[derive(Clone)]
pub enum Secret {
    /// The hash of the password, for NTLM.
    Hash(auth::NtHash),
    /// Tickets, for Kerberos.
    Tickets(Arc<dyn auth::Tickets>),
}

impl Credentials {
    /// A user with a password, in no domain.
    #[must_use]
    pub fn new(user: &str, password: &str) -> Credentials {
        let secret = Secret::Hash(auth::NtHash::from_password(password));
        Credentials { user: user.to_owned(), domain: String::new(), secret }
    }

    /// The user of the tickets.
    #[must_use]
    pub fn of_tickets(tickets: Arc<dyn auth::Tickets>) -> Credentials {
        Credentials { user: String::new(), domain: String::new(), secret: Secret::Tickets(tickets) }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Secret::Hash(_) => f.write_str("Hash"),
            Secret::Tickets(tickets) => f.debug_tuple("Tickets").field(tickets).finish(),
        }
    }
}
