//! Layer 2: NTLM, SPNEGO, key derivation, message protection and credentials.
//!
//! An [`Acceptor`] decides on a log-on. It gets one token of the client at a time. [`Initiator`] is the
//! counterpart in a client. Accounts come through the [`Credentials`] trait. The result of a log-on is a
//! session key. [`kdf`] derives from it the keys of a [`Signer`] and two [`Sealer`]s. Kerberos comes as a
//! [`Mechanism`] from the program, and in a client as [`Tickets`]. So does the [`PassThrough`] of domain
//! users with NTLM.
//!
//! This crate opens no socket and reads no clock. [`ntlm`] and [`spnego`] parse hostile bytes and never
//! panic.

mod acceptor;
mod credentials;
pub mod crypto;
mod initiator;
mod kerberos;
pub mod ntlm;
mod pass_through;
mod refusal;
pub mod spnego;
#[cfg(test)]
mod testing;

pub use acceptor::{Acceptor, Config, Login, Step};
pub use credentials::{Account, Accounts, Credentials, fold_name};
pub use crypto::{
    Cipher, GmacNonce, Sealer, Signer, SigningAlgorithm, TagMismatch, WrongKeyLength, kdf, preauth_hash,
};
pub use initiator::{
    Initiator, InitiatorStep, TicketContext, TicketFailure, TicketFailureKind, TicketInitiator, TicketStep,
    Tickets, Wrap, takes_kerberos, takes_ntlm,
};
pub use kerberos::{
    ContextStep, KerberosTicket, Mechanism, SecurityContext, TicketRefusal, TicketRefusalKind,
};
pub use ntlm::response::Key;
pub use ntlm::{ClientIdentity, Names, NtHash, Proof, Target};
pub use pass_through::{
    DomainAccount, DomainLogon, NetworkLogon, PassThrough, PassThroughRefusal, PassThroughRefusalKind,
};
pub use refusal::Refusal;
pub use zeroize::Zeroizing;
