//! What a client offers and insists on.

use std::time::Duration;

use auth::{Cipher, SigningAlgorithm};
use smb_wire::Guid;
use smb_wire::negotiate::Dialect;

/// The dialects that this client speaks, in order.
pub const DIALECTS: [Dialect; 5] =
    [Dialect::Smb202, Dialect::Smb210, Dialect::Smb300, Dialect::Smb302, Dialect::Smb311];

/// What a connection offers the server.
#[derive(Debug, Clone)]
pub struct Options {
    /// The dialects to offer, out of [`DIALECTS`].
    pub dialects: Vec<Dialect>,
    /// Signing algorithms in order of preference. They can be chosen in 3.1.1 only; before it the dialect
    /// decides.
    pub signing: Vec<SigningAlgorithm>,
    /// Ciphers in order of preference; none to offer no encryption. Before 3.1.1 only AES-128-CCM exists.
    pub ciphers: Vec<Cipher>,
    /// Whether the client requires that messages are signed or sealed.
    pub require_signing: bool,
    /// Names the client; the same on all connections of one session.
    pub client_guid: Guid,
    /// Credits to keep in stock: at least one for each request of 64 KiB that is to be under way at once.
    pub credits: u16,
    /// How long each step on the way to a share may take: the connection, NEGOTIATE, SESSION_SETUP, TREE_CONNECT. A server
    /// that hangs in one of them may well answer others meanwhile.
    pub connect_timeout: Duration,
    /// How long a server may be silent, on the level of TCP, before the connection counts as lost.
    pub dead_after: Duration,
    /// How long nothing at all may come while something is awaited, before the connection counts as lost: the host of a
    /// server that hangs goes on acknowledging for it. A server that only takes its time is asked whether it is there,
    /// and its answer counts. Zero to wait for ever.
    pub silence: Duration,
    /// Bytes that each connection may carry in a second in each direction: a stand-in for a narrow path, with
    /// which the client slows itself down. [`Connection::pace`](crate::smb::Connection::pace) changes it later.
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

/// Who logs on.
#[derive(Clone)]
pub struct Credentials {
    /// The user's name.
    pub user: String,
    /// The domain, or nothing for one that the server chooses.
    pub domain: String,
    /// The hash of the password.
    pub hash: auth::NtHash,
}

impl Credentials {
    /// A user with a password, in no domain.
    #[must_use]
    pub fn new(user: &str, password: &str) -> Credentials {
        let hash = auth::NtHash::from_password(password);
        Credentials { user: user.to_owned(), domain: String::new(), hash }
    }
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials")
            .field("user", &self.user)
            .field("domain", &self.domain)
            .finish_non_exhaustive()
    }
}
