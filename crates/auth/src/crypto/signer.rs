//! Message signatures: one [`Signer`] for each signing key.

use std::fmt;

use aws_lc_rs::{aead, hmac};
use aws_lc_sys::{AES_ENCRYPT, AES_KEY, AES_cbc_encrypt, AES_set_encrypt_key};
use subtle::ConstantTimeEq;
use zeroize::Zeroize;

use super::TagMismatch;
use super::hash::copied;

/// The algorithm of message signatures, with the numbers of SMB2_SIGNING_CAPABILITIES (MS-SMB2 2.2.3.1.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum SigningAlgorithm {
    /// The first 16 bytes of HMAC-SHA256: SMB 2.0.2 and 2.1.
    HmacSha256 = 0x0000,
    /// AES-128-CMAC (RFC 4493): SMB 3.0 and later.
    AesCmac = 0x0001,
    /// AES-128-GMAC (RFC 4543): SMB 3.1.1, if both sides offer it.
    AesGmac = 0x0002,
}

/// The 12-byte nonce of AES-GMAC, made from the identity of the message. The other algorithms ignore it.
///
/// MS-SMB2 3.1.4.1 defines its content: the message identifier, the sender, and whether it is a CANCEL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GmacNonce([u8; 12]);

impl GmacNonce {
    /// The nonce of a request.
    #[must_use]
    pub fn request(message_id: u64, is_cancel: bool) -> GmacNonce {
        // MS-SMB2 3.1.4.1
        GmacNonce::of(message_id, if is_cancel { 2 } else { 0 })
    }

    /// The nonce of a response or of a notification such as an oplock break.
    #[must_use]
    pub fn response(message_id: u64) -> GmacNonce {
        // MS-SMB2 3.1.4.1
        GmacNonce::of(message_id, 1)
    }

    fn of(message_id: u64, role: u32) -> GmacNonce {
        let mut nonce = [0; 12];
        nonce[..8].copy_from_slice(&message_id.to_le_bytes());
        nonce[8..].copy_from_slice(&role.to_le_bytes());
        GmacNonce(nonce)
    }
}

/// A signing key, expanded once, for any number of messages on any thread.
pub struct Signer(Keyed);

enum Keyed {
    HmacSha256(Box<hmac::Key>),
    AesCmac(Box<CmacKey>),
    AesGmac(aead::LessSafeKey),
}

impl Signer {
    /// Expands `key` for `algorithm`.
    ///
    /// # Panics
    /// If aws-lc has no memory for the expanded key.
    #[must_use]
    pub fn new(algorithm: SigningAlgorithm, key: &[u8; 16]) -> Signer {
        Signer(match algorithm {
            SigningAlgorithm::HmacSha256 => {
                Keyed::HmacSha256(Box::new(hmac::Key::new(hmac::HMAC_SHA256, key)))
            }
            SigningAlgorithm::AesCmac => Keyed::AesCmac(Box::new(CmacKey::new(key))),
            SigningAlgorithm::AesGmac => Keyed::AesGmac(aead::LessSafeKey::new(
                aead::UnboundKey::new(&aead::AES_128_GCM, key).expect("a 16-byte key fits AES-128-GCM"),
            )),
        })
    }

    /// The algorithm of this key.
    #[must_use]
    pub fn algorithm(&self) -> SigningAlgorithm {
        match self.0 {
            Keyed::HmacSha256(_) => SigningAlgorithm::HmacSha256,
            Keyed::AesCmac(_) => SigningAlgorithm::AesCmac,
            Keyed::AesGmac(_) => SigningAlgorithm::AesGmac,
        }
    }

    /// The signature of `message`: the bytes from the SMB2 header to the end of this message of the chain
    /// with its padding. The 16 bytes of the signature field must be zero.
    ///
    /// # Panics
    /// If `message` is longer than 2^36 bytes, which no transport can carry.
    #[must_use]
    pub fn sign(&self, message: &[u8], nonce: GmacNonce) -> [u8; 16] {
        // MS-SMB2 3.1.4.1
        match &self.0 {
            Keyed::HmacSha256(key) => copied(hmac::sign(key, message).as_ref()),
            Keyed::AesCmac(key) => key.mac(message),
            Keyed::AesGmac(key) => {
                let nonce = aead::Nonce::assume_unique_for_key(nonce.0);
                let tag = key
                    .seal_in_place_separate_tag(nonce, aead::Aad::from(message), &mut [])
                    .expect("GCM takes any message that fits in memory as associated data");
                copied(tag.as_ref())
            }
        }
    }

    /// Compares, in constant time, the signature of a message with the correct one.
    ///
    /// `message` is as for [`Signer::sign`], with a zero signature field.
    ///
    /// # Errors
    /// [`TagMismatch`] if they differ.
    ///
    /// # Panics
    /// As [`Signer::sign`].
    pub fn verify(&self, message: &[u8], nonce: GmacNonce, signature: &[u8; 16]) -> Result<(), TagMismatch> {
        if bool::from(self.sign(message, nonce).ct_eq(signature)) { Ok(()) } else { Err(TagMismatch) }
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Signer").field(&self.algorithm()).finish()
    }
}

/// AES-128-CMAC (RFC 4493) on aws-lc's CBC.
///
/// The safe `aws_lc_rs::cmac` copies the whole context on the heap for each message (3.5 µs for 4 KiB, while
/// this takes 2.8). RustCrypto's `cmac` needs 5.2 µs, since it loads the round keys for each block.
struct CmacKey {
    expanded: AES_KEY,
    /// K1, for a message that ends with a whole block.
    whole: [u8; 16],
    /// K2, for a message whose last block is padded.
    padded: [u8; 16],
}

/// The number of bytes that one call encrypts. The ciphertext is dropped except for its last block.
const CBC_STEP: usize = 1024;

impl CmacKey {
    fn new(key: &[u8; 16]) -> CmacKey {
        let mut expanded = AES_KEY { rd_key: [0; 60], rounds: 0 };
        // SAFETY: `key` is 16 readable bytes, as 128 bits require, and `expanded` is a valid AES_KEY.
        #[allow(unsafe_code)]
        let status = unsafe { AES_set_encrypt_key(key.as_ptr(), 128, &mut expanded) };
        assert_eq!(status, 0, "a 128-bit AES key is always accepted");
        let mut new = CmacKey { expanded, whole: [0; 16], padded: [0; 16] };
        let mut zero_encrypted = [0; 16];
        new.chain(&mut zero_encrypted, &[0; 16]);
        new.whole = doubled(zero_encrypted);
        new.padded = doubled(new.whole);
        zero_encrypted.zeroize();
        new
    }

    fn mac(&self, message: &[u8]) -> [u8; 16] {
        // RFC 4493 2.4
        let head = message.len().saturating_sub(1) / 16 * 16;
        let (head, tail) = message.split_at(head);
        let mut state = [0; 16];
        for part in head.chunks(CBC_STEP) {
            self.chain(&mut state, part);
        }
        let mut last = [0; 16];
        last[..tail.len()].copy_from_slice(tail);
        let subkey = if tail.len() == 16 {
            &self.whole
        } else {
            last[tail.len()] = 0x80;
            &self.padded
        };
        for (byte, mask) in last.iter_mut().zip(subkey) {
            *byte ^= mask;
        }
        self.chain(&mut state, &last);
        state
    }

    /// CBC-encrypts `blocks` (whole blocks, at most [`CBC_STEP`] bytes) from `state`. Then `state` has the
    /// last block of the ciphertext.
    fn chain(&self, state: &mut [u8; 16], blocks: &[u8]) {
        assert!(blocks.len() <= CBC_STEP && blocks.len().is_multiple_of(16));
        let mut dropped = [0; CBC_STEP];
        // SAFETY: the assertion above makes `blocks` whole blocks that fit in `dropped`, which is a separate
        // buffer. `state` is the 16 bytes of the chaining block. `expanded` was set up by
        // AES_set_encrypt_key and is only read.
        #[allow(unsafe_code)]
        unsafe {
            AES_cbc_encrypt(
                blocks.as_ptr(),
                dropped.as_mut_ptr(),
                blocks.len(),
                &self.expanded,
                state.as_mut_ptr(),
                AES_ENCRYPT,
            );
        }
    }
}

impl Drop for CmacKey {
    fn drop(&mut self) {
        self.expanded.rd_key.zeroize();
        self.whole.zeroize();
        self.padded.zeroize();
    }
}

/// The block times x in GF(2^128), without a branch on its secret top bit.
fn doubled(block: [u8; 16]) -> [u8; 16] {
    // RFC 4493 2.3
    let value = u128::from_be_bytes(block);
    let carry = value >> 127;
    ((value << 1) ^ (carry * 0x87)).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{hex, hex_array};

    const NO_NONCE: GmacNonce = GmacNonce([0; 12]);

    #[test]
    fn cmac_matches_rfc_4493_section_4() {
        let signer = Signer::new(SigningAlgorithm::AesCmac, &hex_array("2b7e151628aed2a6abf7158809cf4f3c"));
        let message = hex("6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51\
             30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710");
        for (len, mac) in [
            (0, "bb1d6929e95937287fa37d129b756746"),
            (16, "070a16b46b4d4144f79bdd9dd04a287c"),
            (40, "dfa66747de9ae63030ca32611497c827"),
            (64, "51f0bebf7e3b9d92fc49741779363cfe"),
        ] {
            assert_eq!(signer.sign(&message[..len], NO_NONCE), hex_array(mac), "{len} bytes");
        }
    }

    /// This CMAC and the one inside aws-lc agree around every boundary of a block and of a step.
    #[test]
    fn cmac_agrees_with_aws_lc_at_every_length_up_to_two_steps() {
        let key = *b"0123456789abcdef";
        let signer = Signer::new(SigningAlgorithm::AesCmac, &key);
        let peer = aws_lc_rs::cmac::Key::new(aws_lc_rs::cmac::AES_128, &key).unwrap();
        let message: Vec<u8> = (0..2 * CBC_STEP + 17).map(|i| (i * 31 % 251) as u8).collect();
        for len in 0..=message.len() {
            let expected = aws_lc_rs::cmac::sign(&peer, &message[..len]).unwrap();
            assert_eq!(signer.sign(&message[..len], NO_NONCE).as_slice(), expected.as_ref(), "{len} bytes");
        }
    }

    /// The SESSION_SETUP response in Microsoft's published SMB 3.1.1 trace, with its signing key.
    #[test]
    fn cmac_verifies_a_captured_session_setup_response() {
        let signer = Signer::new(SigningAlgorithm::AesCmac, &hex_array("73FE7A9A77BEF0BDE49C650D8CCB5F76"));
        let mut message = hex("FE534D4240000100000000000100800009000000000000000300000000000000\
             FFFE0000000000001900000000100000EBE146DA120BA25FC3376A49DFE31BC1\
             0900000048001D00A11B3019A0030A0100A3120410010000003B453CDC352416\
             4200000000");
        let signature: [u8; 16] = message[48..64].try_into().unwrap();
        message[48..64].fill(0);
        assert_eq!(signer.verify(&message, NO_NONCE, &signature), Ok(()));
        message[70] ^= 1;
        assert_eq!(signer.verify(&message, NO_NONCE, &signature), Err(TagMismatch));
    }

    /// Computed with OpenSSL through Python's `cryptography`: AES-128-GCM of no data, with the message as
    /// AAD.
    #[test]
    fn gmac_is_gcm_over_associated_data_only() {
        let key: [u8; 16] = std::array::from_fn(|i| i as u8);
        let message: Vec<u8> = (0..1000).map(|i| (i * 3) as u8).collect();
        let nonce = GmacNonce(std::array::from_fn(|i| 0xb0 + i as u8));
        let signer = Signer::new(SigningAlgorithm::AesGmac, &key);
        assert_eq!(signer.sign(&message, nonce), hex_array("66b54b9410f0a9e7a543b6e43205f8ad"));
        assert_eq!(signer.verify(&message, NO_NONCE, &signer.sign(&message, nonce)), Err(TagMismatch));
    }

    #[test]
    fn gmac_nonces_tell_sender_and_cancel_apart() {
        assert_eq!(GmacNonce::request(0x0102, false).0, *b"\x02\x01\0\0\0\0\0\0\0\0\0\0");
        assert_eq!(GmacNonce::request(0x0102, true).0, *b"\x02\x01\0\0\0\0\0\0\x02\0\0\0");
        assert_eq!(GmacNonce::response(0x0102).0, *b"\x02\x01\0\0\0\0\0\0\x01\0\0\0");
    }

    #[test]
    fn hmac_keeps_the_first_half_of_rfc_4231_case_1() {
        // The key of RFC 4231's case 1 has 20 bytes. HMAC pads with zeros, so case 2's 4-byte key fits.
        let mut key = [0; 16];
        key[..4].copy_from_slice(b"Jefe");
        let signer = Signer::new(SigningAlgorithm::HmacSha256, &key);
        let mac = signer.sign(b"what do ya want for nothing?", NO_NONCE);
        assert_eq!(mac, hex_array("5bdcc146bf60754e6a042426089575c7"));
    }

    #[test]
    fn signers_are_shared_between_threads_and_hide_their_key() {
        fn shared<T: Send + Sync>(_: &T) {}
        let signer = Signer::new(SigningAlgorithm::AesCmac, &[0x41; 16]);
        shared(&signer);
        assert_eq!(format!("{signer:?}"), "Signer(AesCmac)");
    }
}
