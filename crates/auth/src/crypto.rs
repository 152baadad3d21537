//! The cryptography of SMB 3.x. Each key is expanded once and used for many messages.
//!
//! Start with [`Signer`] (message signatures) and [`Sealer`] (message encryption). Both are built when a
//! session or channel gets its keys. Threads share them, and they allocate nothing for a message. [`kdf()`]
//! derives those keys. [`preauth_hash`] chains the SMB 3.1.1 pre-authentication hash.

mod hash;
mod kdf;
mod sealer;
mod signer;

pub use hash::{HmacKey, fill_random, hmac_sha256, preauth_hash, random, sha512};
pub use kdf::kdf;
pub use sealer::{Cipher, NONCE_FIELD_LEN, Sealer, WrongKeyLength};
pub use signer::{GmacNonce, Signer, SigningAlgorithm};

/// A signature or an authentication tag does not match the message. The message was changed, or another key
/// made the tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the signature or tag does not match the message")]
pub struct TagMismatch;
