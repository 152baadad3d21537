//! Signing and sealing: the keys of a session, and the protection of messages with them (MS-SMB2 3.1.4 and
//! 3.2.5.3.1).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use auth::{Cipher, GmacNonce, Sealer, Signer, SigningAlgorithm, kdf};
use smb_wire::header::{self, Flags, transform};
use smb_wire::negotiate::Dialect;
use smb_wire::{Header, SmbCommand};

use crate::Error;

/// The protection of a request and of its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protection {
    /// No protection.
    None,
    /// By the channel's signing key.
    Signed,
    /// By the session's signing key, in a SESSION_SETUP that binds or renews it. The client checks the last
    /// reply of a binding, which is signed with the new channel's key. The other replies are worth nothing
    /// without the next one.
    Binding,
    /// By the session's encryption keys.
    Sealed,
}

/// The encryption keys of a session. All its channels use the same keys.
#[derive(Debug)]
pub(crate) struct SealKeys {
    seal: Sealer,
    open: Sealer,
    /// The next nonce. It belongs to the key and so to the session, not to a channel.
    nonce: AtomicU64,
}

/// The keys that protect the messages of one session on one connection.
#[derive(Debug)]
pub(crate) struct ChannelKeys {
    pub(crate) session_id: u64,
    signer: Signer,
    seal: Option<Arc<SealKeys>>,
}

/// The inputs of key derivation: the result of the negotiation, and the hash over the exchange.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Agreed {
    pub(crate) dialect: Dialect,
    pub(crate) signing: SigningAlgorithm,
    pub(crate) cipher: Option<Cipher>,
    pub(crate) preauth: [u8; 64],
}

impl ChannelKeys {
    /// Derives the keys of a new session.
    ///
    /// `full_key` is Session.FullSessionKey, which the ciphers of 256 bits use.
    pub(crate) fn derive(
        session_id: u64,
        session_key: &[u8; 16],
        full_key: &[u8],
        agreed: &Agreed,
    ) -> ChannelKeys {
        // MS-SMB2 3.2.5.3.1
        let is_311 = agreed.dialect == Dialect::Smb311;
        let seal = agreed.cipher.map(|cipher| {
            let outward: (&[u8], &[u8]) = match is_311 {
                true => (b"SMBC2SCipherKey\0", &agreed.preauth),
                false => (b"SMB2AESCCM\0", b"ServerIn \0"),
            };
            let inward: (&[u8], &[u8]) = match is_311 {
                true => (b"SMBS2CCipherKey\0", &agreed.preauth),
                false => (b"SMB2AESCCM\0", b"ServerOut\0"),
            };
            Arc::new(SealKeys {
                seal: sealer(cipher, session_key, full_key, outward.0, outward.1),
                open: sealer(cipher, session_key, full_key, inward.0, inward.1),
                nonce: AtomicU64::new(0),
            })
        });
        ChannelKeys { session_id, signer: signer(session_key, agreed), seal }
    }

    /// The keys of a further channel of this session: a signing key from the binding, and the session's own
    /// encryption keys with their nonces.
    pub(crate) fn bound(&self, binding_key: &[u8; 16], agreed: &Agreed) -> ChannelKeys {
        // MS-SMB2 3.2.5.3.3
        let seal = self.seal.clone();
        ChannelKeys { session_id: self.session_id, signer: signer(binding_key, agreed), seal }
    }

    /// Whether messages can be sealed.
    pub(crate) fn can_seal(&self) -> bool {
        self.seal.is_some()
    }

    /// Signs `message`, which begins with its header and ends at the start of the next one.
    pub(crate) fn sign(&self, message: &mut [u8]) {
        // MS-SMB2 3.1.4.1
        let Ok(header) = Header::parse_mut(message) else { return };
        header.set_flags(header.flags() | Flags::SIGNED);
        header.set_signature([0; 16]);
        let nonce = GmacNonce::request(header.message_id(), header.command() == SmbCommand::Cancel);
        let signature = self.signer.sign(message, nonce);
        message[SIGNATURE].copy_from_slice(&signature);
    }

    /// Checks the signature of a reply and zeroes the field.
    pub(crate) fn verify(&self, message: &mut [u8]) -> Result<(), Error> {
        // MS-SMB2 3.2.5.1.3
        let header = Header::parse_mut(message)?;
        if !header.is_signed() {
            return Err(Error::Unprotected(header.command()));
        }
        let signature = *header.signature();
        let nonce = GmacNonce::response(header.message_id());
        header.set_signature([0; 16]);
        self.signer.verify(message, nonce, &signature).map_err(|_| Error::WrongSignature)
    }

    /// Seals `frame`, which consists of room for the transform header and the messages.
    pub(crate) fn seal(&self, frame: &mut [u8]) -> Result<(), Error> {
        // MS-SMB2 3.1.4.3
        let keys = self.seal.as_ref().ok_or(Error::NotOffered("encryption"))?;
        let Some((header_bytes, data)) = frame.split_first_chunk_mut::<{ transform::SIZE }>() else {
            return Err(Error::Protocol("a frame without room for its seal"));
        };
        let mut nonce = [0; 16];
        nonce[..8].copy_from_slice(&keys.nonce.fetch_add(1, Ordering::Relaxed).to_le_bytes());
        let mut header = transform::TransformHeader::new(self.session_id, data.len() as u32);
        header.set_nonce(nonce);
        header.set_signature(keys.seal.seal(&nonce, header.associated_data(), data));
        header.write(header_bytes);
        Ok(())
    }

    /// Unseals a frame in place. The messages follow the transform header.
    pub(crate) fn open(&self, frame: &mut [u8]) -> Result<(), Error> {
        let keys = self.seal.as_ref().ok_or(Error::Protocol("a sealed reply in a session without keys"))?;
        let header = *transform::TransformHeader::parse(frame)?.0;
        keys.open
            .open(header.nonce(), header.associated_data(), &mut frame[transform::SIZE..], header.signature())
            .map_err(|_| Error::WrongSignature)
    }
}

/// The range of the signature in a message.
const SIGNATURE: std::ops::Range<usize> = header::SIZE - 16..header::SIZE;

/// The signing key of a channel.
fn signer(key: &[u8; 16], agreed: &Agreed) -> Signer {
    // MS-SMB2 3.1.4.2
    let key = match (agreed.dialect.is_smb3(), agreed.dialect == Dialect::Smb311) {
        (false, _) => auth::Zeroizing::new(*key),
        (true, false) => kdf(key, b"SMB2AESCMAC\0", b"SmbSign\0"),
        (true, true) => kdf(key, b"SMBSigningKey\0", &agreed.preauth),
    };
    Signer::new(agreed.signing, &key)
}

fn sealer(cipher: Cipher, session_key: &[u8; 16], full_key: &[u8], label: &[u8], context: &[u8]) -> Sealer {
    // MS-SMB2 3.2.5.3.1
    let made = match cipher.key_len() {
        16 => Sealer::new(cipher, &*kdf::<16>(session_key, label, context)),
        _ => Sealer::new(cipher, &*kdf::<32>(full_key, label, context)),
    };
    made.expect("the key is as long as the cipher says")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agreed(dialect: Dialect, signing: SigningAlgorithm, cipher: Option<Cipher>) -> Agreed {
        Agreed { dialect, signing, cipher, preauth: [3; 64] }
    }

    #[test]
    fn a_reply_must_be_signed_and_unchanged() {
        let keys = ChannelKeys::derive(
            5,
            &[7; 16],
            &[7; 16],
            &agreed(Dialect::Smb302, SigningAlgorithm::AesCmac, None),
        );
        let mut message = Vec::new();
        Header::request(SmbCommand::Echo, 9).push(&mut message);
        message.extend([4, 0, 0, 0]);
        let mut unsigned = message.clone();
        assert!(matches!(keys.verify(&mut unsigned), Err(Error::Unprotected(SmbCommand::Echo))));
        // CMAC does not tell the directions apart, so our own signature serves as the server's.
        keys.sign(&mut message);
        keys.verify(&mut message.clone()).unwrap();
        message[66] ^= 1;
        assert!(matches!(keys.verify(&mut message), Err(Error::WrongSignature)));
    }

    #[test]
    fn two_frames_never_share_a_nonce_and_what_was_changed_does_not_open() {
        for cipher in [Cipher::Aes128Ccm, Cipher::Aes128Gcm, Cipher::Aes256Ccm, Cipher::Aes256Gcm] {
            let signing = SigningAlgorithm::AesGmac;
            let keys =
                ChannelKeys::derive(5, &[7; 16], &[7; 16], &agreed(Dialect::Smb311, signing, Some(cipher)));
            let seal = keys.seal.as_ref().unwrap();
            let mut frame = [vec![0; transform::SIZE], b"a message".to_vec()].concat();
            let mut other = frame.clone();
            keys.seal(&mut frame).unwrap();
            keys.seal(&mut other).unwrap();
            let (header, data) = transform::TransformHeader::parse(&frame).unwrap();
            let (header_of_other, _) = transform::TransformHeader::parse(&other).unwrap();
            assert_ne!(header.nonce(), header_of_other.nonce());
            assert_ne!(data, b"a message");
            // The keys of the directions differ: what we sealed is not what the server would send.
            assert!(matches!(keys.open(&mut frame.clone()), Err(Error::WrongSignature)));
            let mut data = data.to_vec();
            seal.seal.open(header.nonce(), header.associated_data(), &mut data, header.signature()).unwrap();
            assert_eq!(data, b"a message");
        }
    }
}
