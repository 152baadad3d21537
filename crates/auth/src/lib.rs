//! Layer 2: NTLM, SPNEGO, key derivation, message protection and credentials.
//!
//! Who logs on is decided by an [`Acceptor`], fed with one token of the client at a time; [`Initiator`] is
//! its counterpart in a client. Accounts come through the [`Credentials`] trait. What a login leaves
//! behind is a session key, from which [`kdf`] makes the keys of a [`Signer`] and two [`Sealer`]s.
//!
//! Nothing here opens a socket or reads a clock. [`ntlm`] and [`spnego`] are readers of hostile bytes and
//! never panic on any.

mod acceptor;
mod credentials;
pub mod crypto;
mod initiator;
pub mod ntlm;
mod refusal;
pub mod spnego;
#[cfg(test)]
mod testing;

pub use acceptor::{Acceptor, Config, Login, Step};
pub use credentials::{Account, Accounts, Credentials, fold_name};
pub use crypto::{
    Cipher, GmacNonce, Refused, Sealer, Signer, SigningAlgorithm, WrongKeyLength, kdf, preauth_hash,
};
pub use initiator::{Initiator, InitiatorStep, Wrap, takes_ntlm};
pub use ntlm::response::Key;
pub use ntlm::{ClientIdentity, Names, NtHash, Proof, Target};
pub use refusal::Refusal;
pub use zeroize::Zeroizing;
