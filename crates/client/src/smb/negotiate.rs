//! The client's side of NEGOTIATE (MS-SMB2 3.2.4.2.2 and 3.2.5.2).

use std::sync::Arc;

use auth::{Cipher, SigningAlgorithm, preauth_hash};
use smb_wire::negotiate::{
    self as wire_negotiate, Capabilities, Context, Contexts, Dialect, HashAlgorithm, Response, SecurityMode,
};
use smb_wire::{Guid, SmbCommand, Utf16, WireList, utf16};

use crate::Error;
use crate::error::Result;
use crate::smb::Options;
use crate::smb::link::{Envelope, FrameRequest, SmbTransport};
use crate::smb::protection::Agreed;

/// The result of the negotiation.
#[derive(Debug, Clone)]
pub struct Negotiated {
    /// The dialect.
    pub dialect: Dialect,
    /// The identity of the server.
    pub server_guid: Guid,
    /// The capabilities of the server.
    pub capabilities: Capabilities,
    /// Whether the server requires signing.
    pub security_mode: SecurityMode,
    /// The largest buffer of QUERY_INFO, QUERY_DIRECTORY and SET_INFO, in bytes.
    pub max_transact_size: u32,
    /// The largest READ, in bytes.
    pub max_read_size: u32,
    /// The largest WRITE, in bytes.
    pub max_write_size: u32,
    /// The server's clock when it answered, in units of 100 ns since 1601.
    pub system_time: u64,
    /// How far the server's clock was from this host's when it answered, in seconds. 0 if it told no time.
    pub clock_apart_s: u64,
    /// The signing algorithm.
    pub signing: SigningAlgorithm,
    /// The cipher, if one was agreed on.
    pub cipher: Option<Cipher>,
    /// Whether the server accepts NTLM, and whether it accepts Kerberos.
    pub(crate) takes_ntlm: bool,
    pub(crate) takes_kerberos: bool,
    /// The hash over both messages, in 3.1.1.
    pub(crate) preauth: [u8; 64],
}

impl Negotiated {
    /// The inputs of key derivation, with the hash of one session's exchange.
    pub(crate) fn agreed(&self, preauth: [u8; 64]) -> Agreed {
        Agreed { dialect: self.dialect, signing: self.signing, cipher: self.cipher, preauth }
    }

    /// The most bytes of one READ or WRITE.
    #[must_use]
    pub fn max_io(&self) -> u32 {
        self.max_read_size.min(self.max_write_size)
    }

    /// Limits every message to `most` bytes, whatever the server's limits are.
    fn limit(&mut self, most: u32) {
        for size in [&mut self.max_transact_size, &mut self.max_read_size, &mut self.max_write_size] {
            *size = most.min(*size);
        }
    }

    /// Whether requests of more than 64 KiB are possible.
    pub(crate) fn has_large_mtu(&self) -> bool {
        self.dialect != Dialect::Smb202 && self.capabilities.contains(Capabilities::LARGE_MTU)
    }
}

/// The bytes that one credit pays for (MS-SMB2 3.2.4.1.5).
pub(crate) const CREDIT: u32 = 65536;

/// The least size of a buffer with which the client works, in bytes. It is the limit of Windows (MS-SMB2 note
/// 189 on 3.2.5.2). The specification itself says 64 KiB, but some servers can be configured below that.
const LEAST: u32 = 4096;

/// The capabilities that this client sends.
pub(crate) fn capabilities(options: &Options) -> Capabilities {
    // MS-SMB2 3.2.4.2.2.2
    // Before 3.0 the field is reserved.
    if !options.dialects.iter().any(|dialect| dialect.is_smb3()) {
        return Capabilities::empty();
    }
    let encryption =
        if options.ciphers.is_empty() { Capabilities::empty() } else { Capabilities::ENCRYPTION };
    Capabilities::LARGE_MTU | Capabilities::MULTI_CHANNEL | Capabilities::PERSISTENT_HANDLES | encryption
}

/// The security mode that this client sends.
pub(crate) fn security_mode(options: &Options) -> SecurityMode {
    let required =
        if options.require_signing { SecurityMode::SIGNING_REQUIRED } else { SecurityMode::empty() };
    SecurityMode::SIGNING_ENABLED | required
}

/// Exchanges NEGOTIATE. `host` is the name by which the server was reached.
pub(crate) async fn negotiate(link: &Arc<SmbTransport>, options: &Options, host: &str) -> Result<Negotiated> {
    let salt: [u8; 32] = auth::crypto::random();
    let ciphers: Vec<_> =
        options.ciphers.iter().map(|cipher| wire_negotiate::Cipher::new(*cipher as u16)).collect();
    let signing: Vec<_> =
        options.signing.iter().map(|it| wire_negotiate::SigningAlgorithm::new(*it as u16)).collect();
    let name = utf16::encode(host);
    let mut contexts = vec![Context::PreauthIntegrity {
        hash_algorithms: WireList::Values(&[HashAlgorithm::Sha512]),
        salt: &salt,
    }];
    if !ciphers.is_empty() {
        contexts.push(Context::Encryption(WireList::Values(&ciphers)));
    }
    if !signing.is_empty() {
        contexts.push(Context::Signing(WireList::Values(&signing)));
    }
    contexts.push(Context::Netname(Utf16::new(&name).unwrap_or_default()));
    let request = wire_negotiate::Request {
        security_mode: security_mode(options),
        capabilities: capabilities(options),
        client_guid: options.client_guid,
        dialects: WireList::Values(&options.dialects),
        contexts: Contexts::Values(&contexts),
    };
    let body = |out: &mut Vec<u8>| request.write(out);
    let part = FrameRequest { command: SmbCommand::Negotiate, payload: 0, body: &body };
    let mut sent = Vec::new();
    let [pending] = link.send(Envelope::PLAIN, [part], Some(&mut sent)).await?;
    let reply = pending.await?.success()?;
    let response = Response::parse(reply.message())?;
    let mut negotiated = judge(&response, options)?;
    // MS-SMB2 3.2.5.2
    negotiated.preauth = preauth_hash(&preauth_hash(&[0; 64], &sent), reply.message());
    if negotiated.has_large_mtu() {
        link.allow_multi_credit();
    } else {
        negotiated.limit(CREDIT);
    }
    Ok(negotiated)
}

/// Checks the server's choice against the offer.
fn judge(response: &Response<'_>, options: &Options) -> Result<Negotiated> {
    let dialect = response.dialect_revision;
    if !options.dialects.contains(&dialect) {
        return Err(Error::Protocol("the server chose a dialect that was not offered"));
    }
    // MS-SMB2 3.2.5.2
    if response.max_transact_size.min(response.max_read_size).min(response.max_write_size) < LEAST {
        return Err(Error::Protocol("the server has no room for as much as 4 KiB at once"));
    }
    let (mut cipher, mut signing) = match dialect {
        Dialect::Smb202 | Dialect::Smb210 => (None, SigningAlgorithm::HmacSha256),
        Dialect::Smb311 => (None, SigningAlgorithm::AesCmac),
        _ => {
            let ccm = Some(Cipher::Aes128Ccm).filter(|ccm| options.ciphers.contains(ccm));
            let offered = response.capabilities.contains(Capabilities::ENCRYPTION);
            (ccm.filter(|_| offered), SigningAlgorithm::AesCmac)
        }
    };
    let mut has_hash = false;
    for context in response.contexts.iter() {
        match context? {
            Context::PreauthIntegrity { hash_algorithms, .. } => {
                has_hash = hash_algorithms.iter().eq([HashAlgorithm::Sha512]);
            }
            Context::Encryption(chosen) => {
                cipher = chosen.iter().next().and_then(|id| find(&options.ciphers, id.get(), |it| it as u16));
                // Zero means that there is no common cipher.
                if cipher.is_none() && chosen.iter().any(|id| id.get() != 0) {
                    return Err(Error::Protocol("the server chose a cipher that was not offered"));
                }
            }
            Context::Signing(chosen) => {
                let id = chosen.iter().next().map_or(u16::MAX, |id| id.get());
                signing = find(&options.signing, id, |it| it as u16)
                    .ok_or(Error::Protocol("the server chose a signing algorithm that was not offered"))?;
            }
            _ => {}
        }
    }
    // MS-SMB2 3.2.5.2
    if dialect == Dialect::Smb311 && !has_hash {
        return Err(Error::Protocol("no pre-authentication hash in the answer to NEGOTIATE"));
    }
    Ok(Negotiated {
        dialect,
        server_guid: response.server_guid,
        capabilities: response.capabilities,
        security_mode: response.security_mode,
        max_transact_size: response.max_transact_size,
        max_read_size: response.max_read_size,
        max_write_size: response.max_write_size,
        system_time: response.system_time,
        clock_apart_s: clock_apart_s(response.system_time),
        signing,
        cipher,
        takes_ntlm: auth::takes_ntlm(response.security_buffer),
        takes_kerberos: auth::takes_kerberos(response.security_buffer),
        preauth: [0; 64],
    })
}

/// How far a server's clock is from this host's now, in seconds. `system_time` is in units of 100 ns since
/// 1601 (MS-SMB2 2.2.4); 0 is no time.
fn clock_apart_s(system_time: u64) -> u64 {
    if system_time == 0 {
        return 0;
    }
    let theirs_ns = crate::remote::unix_ns(i64::try_from(system_time).unwrap_or_default());
    let theirs_s = i64::try_from(theirs_ns / 1_000_000_000).unwrap_or_default();
    theirs_s.abs_diff(super::log_on::now().wall_ns / 1_000_000_000)
}

/// The offered value with this number.
fn find<T: Copy>(offered: &[T], id: u16, number: impl Fn(T) -> u16) -> Option<T> {
    offered.iter().copied().find(|it| number(*it) == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_without_room_for_4_kib_in_any_message_is_refused() {
        let judged = |max_transact_size, max_read_size, max_write_size| {
            let response = Response {
                security_mode: SecurityMode::SIGNING_ENABLED,
                dialect_revision: Dialect::Smb302,
                server_guid: Guid::ZERO,
                capabilities: Capabilities::empty(),
                max_transact_size,
                max_read_size,
                max_write_size,
                system_time: 0,
                server_start_time: 0,
                security_buffer: &[],
                contexts: Contexts::EMPTY,
            };
            judge(&response, &Options::default()).map(|it| it.max_read_size)
        };
        assert_eq!(judged(4096, 4096, 4096).unwrap(), 4096);
        for (transact, read, write) in [(4095, 65536, 65536), (65536, 0, 65536), (65536, 65536, 1)] {
            assert!(matches!(judged(transact, read, write), Err(Error::Protocol(_))));
        }
    }
}
