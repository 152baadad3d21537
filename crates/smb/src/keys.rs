//! Which keys a session and its channels use (MS-SMB2 3.1.4.2, 3.3.5.5.3). To seal a message is to encrypt
//! it (MS-SMB2 3.1.4.3). That authenticates the message too, so a sealed message needs no signature.

use auth::crypto::{Cipher, Sealer, Signer, SigningAlgorithm, kdf};
use smb_wire::negotiate::Dialect;

/// The parts of a negotiation that keys depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Protection {
    /// Dialect.
    pub dialect: Dialect,
    /// The algorithm that signs messages.
    pub signing: SigningAlgorithm,
    /// The algorithm that seals messages, if one was negotiated.
    pub cipher: Option<Cipher>,
}

/// The key that signs on one channel. `preauth` is the channel's own pre-authentication hash (3.1.1).
#[must_use]
pub fn signer(protection: Protection, session_key: &[u8; 16], preauth: &[u8; 64]) -> Signer {
    // MS-SMB2 3.1.4.2
    let key = match protection.dialect {
        Dialect::Smb311 => *kdf::<16>(session_key, b"SMBSigningKey\0", preauth),
        dialect if dialect.is_smb3() => *kdf::<16>(session_key, b"SMB2AESCMAC\0", b"SmbSign\0"),
        _ => *session_key,
    };
    Signer::new(protection.signing, &key)
}

/// The sealing keys for both directions, from the view of one end.
pub struct Seal {
    /// Seals outgoing messages.
    pub out: Sealer,
    /// Decrypts incoming messages.
    pub into: Sealer,
}

/// The server's sealing keys of a session, or `None` if the dialect or the negotiation has no cipher.
/// `full_key` is Session.FullSessionKey, which the ciphers of 256 bits use.
#[must_use]
pub fn server_seal(
    protection: Protection,
    session_key: &[u8; 16],
    full_key: &[u8],
    preauth: &[u8; 64],
) -> Option<Seal> {
    let cipher = protection.cipher?;
    // MS-SMB2 3.1.4.2
    let labels: [(&[u8], &[u8]); 2] = match protection.dialect {
        Dialect::Smb311 => [(b"SMBS2CCipherKey\0", preauth), (b"SMBC2SCipherKey\0", preauth)],
        dialect if dialect.is_smb3() => {
            [(b"SMB2AESCCM\0", b"ServerOut\0"), (b"SMB2AESCCM\0", b"ServerIn \0")]
        }
        _ => return None,
    };
    let sealer = |(label, context): (&[u8], &[u8])| match cipher {
        Cipher::Aes128Ccm | Cipher::Aes128Gcm => {
            Sealer::new(cipher, &*kdf::<16>(session_key, label, context))
        }
        Cipher::Aes256Ccm | Cipher::Aes256Gcm => Sealer::new(cipher, &*kdf::<32>(full_key, label, context)),
    };
    Some(Seal { out: sealer(labels[0]).ok()?, into: sealer(labels[1]).ok()? })
}
