//! NTLM version 2 (MS-NLMP), both ends, without any transport.
//!
//! Start with [`Server`] (sends challenges and judges responses) and [`Client`] (answers a challenge).
//! [`message`] has the three messages of both, [`response`] the calculations of NTLMv2, and [`signature`]
//! the signatures for SPNEGO's mechListMIC. NTLMv1 and LM are detected and refused.

pub mod av;
mod client;
mod flags;
pub mod message;
pub mod oem;
pub mod response;
mod server;
pub mod signature;
mod target;

pub use av::{AvId, AvPairs};
pub use client::{ChallengeReply, Client, ClientError, ClientIdentity};
pub use flags::NegotiateFlags;
pub use message::{
    Authenticate, Challenge, Malformed, Negotiate, SIGNATURE, parse_authenticate, parse_challenge,
    parse_negotiate,
};
pub use response::NtHash;
pub use server::{AuthenticatedClient, Names, Proof, Server};
pub use target::Target;
