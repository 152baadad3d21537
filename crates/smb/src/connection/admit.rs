//! Admission of a request: its place in the credit window, its session's signature and seal (MS-SMB2
//! 3.3.5.2.1 to 3.3.5.2.9). Start with [`Connection::admit`].

use std::sync::atomic::Ordering;

use auth::crypto::{GmacNonce, Signer, SigningAlgorithm};
use smb_wire::header::Packet;
use smb_wire::header::transform::{self, TransformHeader};
use smb_wire::{Header, NtStatus, SmbCommand};
use wire::Now;

use super::{Channel, Connection, Negotiated};
use crate::exchange::Compound;
use crate::exchange::remaining::First;
use crate::limits::MAX_COMPOUND;
use crate::state::session::SessionState;

/// The reason why a request is not admitted.
pub(crate) enum AdmissionRefusal {
    Answer { status: NtStatus, signed: bool },
    Ignore,
    Close(&'static str),
}

impl AdmissionRefusal {
    /// The refusal of a request on `channel` with a wrong signature, or without a required one.
    fn bad_signature(header: &Header, channel: &Channel) -> AdmissionRefusal {
        match header.command() {
            // A CANCEL is never answered.
            SmbCommand::Cancel => AdmissionRefusal::Ignore,
            // MS-SMB2 3.3.4.1.1: the session's key signs this reply, and a client with a wrong channel key
            // expects it. With GMAC the message id is the nonce, and the session's key has used that id
            // elsewhere.
            SmbCommand::SessionSetup => {
                let gmac = channel.session.protection.signing == SigningAlgorithm::AesGmac;
                AdmissionRefusal::Answer {
                    status: NtStatus::ACCESS_DENIED,
                    signed: header.is_signed() && !gmac,
                }
            }
            // MS-SMB2 3.3.4.1.1: a signed request has a signed reply, even if its own signature is wrong.
            _ => AdmissionRefusal::Answer { status: NtStatus::ACCESS_DENIED, signed: header.is_signed() },
        }
    }
}

impl Connection {
    /// Decrypts a sealed frame in place. Returns the session whose keys sealed it (MS-SMB2 3.3.5.2.1).
    pub(crate) fn unseal(&self, frame: &mut [u8]) -> Option<u64> {
        let (header, _) = TransformHeader::parse(frame).ok()?;
        let header = *header;
        // MS-SMB2 3.3.5.2.1.1
        if self.constrained {
            return None;
        }
        let channel = &self.channels[self.channel_of(header.session_id())?];
        let seal = channel.session.authenticated()?.seal.as_ref()?;
        let sealed = &mut frame[transform::SIZE..];
        seal.into.open(header.nonce(), header.associated_data(), sealed, header.signature()).ok()?;
        (Packet::classify(sealed) == Some(Packet::Smb2)).then_some(header.session_id())
    }

    /// Whether a request may be processed: its place in the window, its session's signature and seal
    /// (MS-SMB2 3.3.5.2.1 to 3.3.5.2.9). Returns whether the reply must be signed.
    pub(crate) fn admit(
        &mut self,
        first: &First<'_>,
        compound: &Compound,
        now: Now,
    ) -> Result<bool, AdmissionRefusal> {
        let header = first.header;
        if header.is_response() {
            return Err(AdmissionRefusal::Close("a response where a request must be"));
        }
        if compound.len() >= MAX_COMPOUND {
            return Err(AdmissionRefusal::Close("too many requests in one frame"));
        }
        let command = header.command();
        // MS-SMB2 3.3.5.2: nothing but NEGOTIATE before NEGOTIATE.
        if self.negotiated.is_none() && command != SmbCommand::Negotiate {
            return Err(AdmissionRefusal::Close("a request before NEGOTIATE"));
        }
        // MS-SMB2 3.3.5.2.3
        if command != SmbCommand::Cancel {
            let multi = self.negotiated.as_ref().is_some_and(Negotiated::multi_credit);
            let charge = if multi { header.credit_charge().max(1) } else { 1 };
            if !self.window.take(header.message_id(), charge) {
                return Err(AdmissionRefusal::Close("a message id outside the credit window"));
            }
        }
        let session_id = match header.is_related() && compound.related.any {
            true if header.session_id() == u64::MAX => compound.related.session_id,
            _ => header.session_id(),
        };
        // MS-SMB2 3.3.5.2.1.1: the requests in a sealed frame belong to the session whose keys sealed it.
        if compound.sealed_by.is_some_and(|sealed_by| sealed_by != session_id) {
            return Err(AdmissionRefusal::Close("another session's request in a sealed frame"));
        }
        if compound.sealed_by.is_some() || command == SmbCommand::Negotiate {
            return Ok(false);
        }
        match self.channel_of(session_id) {
            Some(at) => check_signature(&self.channels[at], first)
                .inspect_err(|_| self.log_bad_signature(header, now)),
            None => Ok(self.is_signed_otherwise(session_id, first)),
        }
    }

    /// Logs that a request was refused for its signature.
    fn log_bad_signature(&self, header: &Header, now: Now) {
        let why = if header.is_signed() { "its signature is wrong" } else { "it is not signed" };
        let what = format!("{:?} refused: {why}", header.command());
        self.log_refusal(header.session_id(), NtStatus::ACCESS_DENIED, &what, now);
    }

    /// Whether a request is signed with the key of a session that is not carried here. The session may have
    /// ended on another channel. Its key then signs a refusal and nothing else. Or only other connections
    /// carry it, and this one may be bound to it. A log-on under way has no key yet.
    fn is_signed_otherwise(&self, session: u64, first: &First<'_>) -> bool {
        if !first.header.is_signed() {
            return false;
        }
        if let Some(channel) = self.channel_or_parting(session) {
            return is_signed_by(&channel.signer, first);
        }
        // MS-SMB2 3.3.5.2.4
        let session = self.server.session(session);
        let authenticated = session.as_ref().and_then(|session| session.authenticated());
        authenticated.is_some_and(|authenticated| is_signed_by(&authenticated.signer, first))
    }
}

// MS-SMB2 3.3.5.2.4
fn check_signature(channel: &Channel, first: &First<'_>) -> Result<bool, AdmissionRefusal> {
    let header = first.header;
    if channel.session.state() == SessionState::Gone {
        return Ok(header.is_signed() && is_signed_by(&channel.signer, first));
    }
    if header.is_signed() {
        let valid = is_signed_by(&channel.signer, first);
        return if valid { Ok(true) } else { Err(AdmissionRefusal::bad_signature(header, channel)) };
    }
    let anonymous = channel.session.authenticated().is_some_and(|authenticated| authenticated.anonymous);
    if channel.session.signing_required.load(Ordering::Relaxed) && !anonymous {
        return Err(AdmissionRefusal::bad_signature(header, channel));
    }
    Ok(false)
}

fn is_signed_by(signer: &Signer, &First { header, message, signature }: &First<'_>) -> bool {
    let nonce = GmacNonce::request(header.message_id(), header.command() == SmbCommand::Cancel);
    signer.verify(message, nonce, &signature).is_ok()
}
