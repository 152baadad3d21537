//! NTLM message signatures for SPNEGO's mechListMIC (MS-NLMP 3.4.4.2).
//!
//! SMB protects its own messages, so the sequence number is always 0. The RC4 state starts anew for each
//! signature, as MS-SPNG 3.2.5.1 requires for the mechListMIC.

use md5::{Digest, Md5};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use super::flags::NegotiateFlags;
use super::response::{Key, hmac_md5, rc4_apply};

/// The signer of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SigningSide {
    /// The client.
    Client,
    /// The server.
    Server,
}

/// Makes and checks signatures of one finished exchange.
pub struct Signatures {
    session_key: Key,
    flags: NegotiateFlags,
}

impl Signatures {
    /// The signatures of an exchange with this exported session key and these agreed flags. `None` if the
    /// flags do not allow any: without extended session security there is no signing key, and without SIGN
    /// no signature was agreed on.
    #[must_use]
    pub fn new(session_key: &[u8; 16], flags: NegotiateFlags) -> Option<Signatures> {
        // MS-NLMP 3.4.5.2
        flags
            .contains(NegotiateFlags::EXTENDED_SESSIONSECURITY | NegotiateFlags::SIGN)
            .then(|| Signatures { session_key: Zeroizing::new(*session_key), flags })
    }

    /// The signature of `message` by `side`, with sequence number 0.
    #[must_use]
    pub fn sign(&self, side: SigningSide, message: &[u8]) -> [u8; 16] {
        // MS-NLMP 3.4.4.2
        let sequence = 0_u32.to_le_bytes();
        let mac = hmac_md5(&self.signing_key(side)[..], &[&sequence, message]);
        let mut checksum = Zeroizing::new([0; 8]);
        checksum.copy_from_slice(&mac[..8]);
        if self.flags.contains(NegotiateFlags::KEY_EXCH) {
            rc4_apply(&self.sealing_key(side)[..], &mut checksum[..]);
        }
        let mut out = [0; 16];
        out[..4].copy_from_slice(&1_u32.to_le_bytes());
        out[4..12].copy_from_slice(&checksum[..]);
        out[12..].copy_from_slice(&sequence);
        out
    }

    /// Whether `signature` is the one of `side` for `message`. The comparison takes constant time.
    #[must_use]
    pub fn verify(&self, side: SigningSide, message: &[u8], signature: &[u8]) -> bool {
        self.sign(side, message).ct_eq(signature).into()
    }

    fn signing_key(&self, side: SigningSide) -> Key {
        // MS-NLMP 3.4.5.2
        let magic: &[u8] = match side {
            SigningSide::Client => b"session key to client-to-server signing key magic constant\0",
            SigningSide::Server => b"session key to server-to-client signing key magic constant\0",
        };
        md5(&self.session_key[..], magic)
    }

    fn sealing_key(&self, side: SigningSide) -> Key {
        // MS-NLMP 3.4.5.3
        let strength = if self.flags.contains(NegotiateFlags::KEY_128) {
            16
        } else if self.flags.contains(NegotiateFlags::KEY_56) {
            7
        } else {
            5
        };
        let magic: &[u8] = match side {
            SigningSide::Client => b"session key to client-to-server sealing key magic constant\0",
            SigningSide::Server => b"session key to server-to-client sealing key magic constant\0",
        };
        md5(&self.session_key[..strength], magic)
    }
}

fn md5(key: &[u8], magic: &[u8]) -> Key {
    Zeroizing::new(Md5::new().chain_update(key).chain_update(magic).finalize().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{hex, hex_array};

    /// The flags of MS-NLMP 4.2.4.
    fn flags() -> NegotiateFlags {
        NegotiateFlags::from_bits_retain(0xe28a_8233)
    }

    #[test]
    fn keys_are_those_of_ms_nlmp_4_2_4_4() {
        let signatures = Signatures::new(&[0x55; 16], flags()).unwrap();
        assert_eq!(
            *signatures.sealing_key(SigningSide::Client),
            hex_array("59f600973cc4960a25480a7c196e4c58")
        );
        assert_eq!(
            *signatures.signing_key(SigningSide::Client),
            hex_array("4788dc861b4782f35d43fd98fe1a2d39")
        );
    }

    /// The example signs after sealing 18 bytes, and that moves the RC4 stream. Its checksum before RC4 is
    /// the result without a key exchange.
    #[test]
    fn checksum_is_that_of_ms_nlmp_4_2_4_4() {
        let plain = hex("50006c00610069006e007400650078007400");
        let without = Signatures::new(&[0x55; 16], flags() - NegotiateFlags::KEY_EXCH).unwrap();
        assert_eq!(without.sign(SigningSide::Client, &plain), hex_array("0100000070352851f256430900000000"));
    }

    /// Both mechListMICs of Microsoft's published SMB 3.1.1 trace.
    #[test]
    fn mech_list_mics_of_a_captured_exchange_verify() {
        use crate::ntlm::message::captured;
        let session_key = hex_array(captured::SESSION_KEY);
        let settled = NegotiateFlags::from_bits_retain(0xe288_8215);
        let signatures = Signatures::new(&session_key, settled).unwrap();
        let mech_list = hex("300C060A2B06010401823702020A");
        let client = hex("0100000063775A9A5FD97F0600000000");
        let server = hex("010000003B453CDC3524164200000000");
        assert!(signatures.verify(SigningSide::Client, &mech_list, &client));
        assert!(signatures.verify(SigningSide::Server, &mech_list, &server));
        assert!(!signatures.verify(SigningSide::Server, &mech_list, &client));
        assert!(!signatures.verify(SigningSide::Client, &mech_list, &client[..15]));
    }

    #[test]
    fn without_sign_or_extended_security_there_are_no_signatures() {
        assert!(Signatures::new(&[0; 16], flags() - NegotiateFlags::SIGN).is_none());
        assert!(Signatures::new(&[0; 16], flags() - NegotiateFlags::EXTENDED_SESSIONSECURITY).is_none());
    }
}
