//! The calculations of NTLMv2 (MS-NLMP 3.3.2), and the hash of a password.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use md4::{Digest, Md4};
use md5::Md5;
use rc4::{Rc4, StreamCipher};
use zeroize::Zeroizing;

use super::message::{units, utf16le};

/// NTOWFv1 of a password: MD4 of its UTF-16LE. It is enough for a log-on, so it is kept secret: never shown,
/// wiped when dropped.
#[derive(Clone)]
pub struct NtHash(Zeroizing<[u8; 16]>);

impl NtHash {
    /// The hash of a password.
    #[must_use]
    pub fn from_password(password: &str) -> NtHash {
        let text = Zeroizing::new(utf16le(password));
        NtHash(Zeroizing::new(Md4::digest(text.as_slice()).into()))
    }

    /// A stored hash.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> NtHash {
        NtHash(Zeroizing::new(bytes))
    }

    /// The hash for storage.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Debug for NtHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NtHash(..)")
    }
}

/// A 16-byte key that is wiped when dropped.
pub type Key = Zeroizing<[u8; 16]>;

/// NTOWFv2: the key of all responses of one account. `user` and `domain` are the UTF-16LE of the message.
#[must_use]
pub fn ntowf_v2(hash: &NtHash, user: &[u8], domain: &[u8]) -> Key {
    let upper: Vec<u8> = units(user).into_iter().map(upper_unit).flat_map(u16::to_le_bytes).collect();
    hmac_md5(&hash.0[..], &[&upper, domain])
}

/// NTProofStr: the proof that the client has the key.
#[must_use]
pub fn nt_proof(response_key: &Key, server_challenge: &[u8; 8], client_challenge: &[u8]) -> Key {
    hmac_md5(&response_key[..], &[server_challenge, client_challenge])
}

/// SessionBaseKey, which for NTLMv2 is also the KeyExchangeKey (MS-NLMP 3.4.5.1).
#[must_use]
pub fn session_base_key(response_key: &Key, proof: &Key) -> Key {
    hmac_md5(&response_key[..], &[&proof[..]])
}

/// The MIC of the three messages. The last one has zeros in the place of its MIC.
#[must_use]
pub fn message_mic(session_key: &Key, negotiate: &[u8], challenge: &[u8], authenticate: &[u8]) -> Key {
    hmac_md5(&session_key[..], &[negotiate, challenge, authenticate])
}

/// RC4K: one use of RC4 with `key`. It encrypts and decrypts.
#[must_use]
pub fn rc4k(key: &Key, data: &[u8; 16]) -> Key {
    let mut out = Zeroizing::new(*data);
    rc4_apply(&key[..], &mut out[..]);
    out
}

/// RC4 from the start of the stream of `key`, which has 1 to 256 bytes.
pub(super) fn rc4_apply(key: &[u8], data: &mut [u8]) {
    let mut stream = Rc4::new_from_slice(key).expect("RC4 takes keys of 1 to 256 bytes");
    stream.apply_keystream(data);
}

/// HMAC-MD5 over the parts in order.
#[must_use]
pub(super) fn hmac_md5(key: &[u8], parts: &[&[u8]]) -> Key {
    let mut mac = Hmac::<Md5>::new_from_slice(key).expect("HMAC takes keys of any length");
    for part in parts {
        mac.update(part);
    }
    Zeroizing::new(mac.finalize().into_bytes().into())
}

/// One UTF-16 unit in upper case, as in Windows: unit by unit, and only if a single unit maps to a single
/// one and back. So `ß`, `ı` and halves of surrogate pairs are unchanged.
fn upper_unit(unit: u16) -> u16 {
    let Some(lower) = char::from_u32(u32::from(unit)) else {
        return unit;
    };
    let mut upper = lower.to_uppercase();
    let (Some(mapped), None) = (upper.next(), upper.next()) else {
        return unit;
    };
    let mut back = mapped.to_lowercase();
    if mapped != lower && (back.next(), back.next()) != (Some(lower), None) {
        return unit;
    }
    u16::try_from(u32::from(mapped)).unwrap_or(unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{hex, hex_array};

    /// `temp` of MS-NLMP 4.2.4.1.3.
    const TEMP: &str = "01010000000000000000000000000000aaaaaaaaaaaaaaaa0000000002000c0044006f006d00\
         610069006e0001000c005300650072007600650072000000000000000000";
    const SERVER_CHALLENGE: [u8; 8] = [0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef];

    fn response_key() -> Key {
        ntowf_v2(&NtHash::from_password("Password"), &utf16le("User"), &utf16le("Domain"))
    }

    #[test]
    fn ntowf_v2_is_that_of_ms_nlmp_4_2_4_1_1() {
        assert_eq!(*response_key(), hex_array("0c868a403bfd7a93a3001ef22ef02e3f"));
        let other_case = ntowf_v2(&NtHash::from_password("Password"), &utf16le("uSER"), &utf16le("Domain"));
        assert_eq!(other_case, response_key());
    }

    #[test]
    fn nt_hash_is_that_of_ms_nlmp_4_2_2_1_2() {
        let hash = NtHash::from_password("Password");
        assert_eq!(*hash.as_bytes(), hex_array("a4f49c406510bdcab6824ee7c30fd852"));
        assert_eq!(format!("{hash:?}"), "NtHash(..)");
    }

    #[test]
    fn proof_and_keys_are_those_of_ms_nlmp_4_2_4() {
        let key = response_key();
        let proof = nt_proof(&key, &SERVER_CHALLENGE, &hex(TEMP));
        assert_eq!(*proof, hex_array("68cd0ab851e51c96aabc927bebef6a1c"));
        let base = session_base_key(&key, &proof);
        assert_eq!(*base, hex_array("8de40ccadbc14a82f15cb0ad0de95ca3"));
        assert_eq!(*rc4k(&base, &[0x55; 16]), hex_array("c5dad2544fc9799094ce1ce90bc9d03e"));
    }

    #[test]
    fn lm_v2_response_is_that_of_ms_nlmp_4_2_4_2_1() {
        let proof = nt_proof(&response_key(), &SERVER_CHALLENGE, &[0xaa; 8]);
        assert_eq!(*proof, hex_array("86c35097ac9cec102554764a57cccc19"));
    }

    /// The MIC of the AUTHENTICATE message in Microsoft's published SMB 3.1.1 trace.
    #[test]
    fn mic_is_that_of_a_captured_exchange() {
        let negotiate = hex(crate::ntlm::message::captured::NEGOTIATE);
        let challenge = hex(crate::ntlm::message::captured::CHALLENGE);
        let mut authenticate = hex(crate::ntlm::message::captured::AUTHENTICATE);
        let sent = crate::ntlm::message::mic_of(&authenticate).unwrap();
        authenticate[72..88].fill(0);
        let session_key = Zeroizing::new(hex_array(crate::ntlm::message::captured::SESSION_KEY));
        assert_eq!(*message_mic(&session_key, &negotiate, &challenge, &authenticate), sent);
    }

    #[test]
    fn upper_case_is_unit_by_unit_and_reversible() {
        let upper = |text: &str| {
            String::from_utf16(&text.encode_utf16().map(upper_unit).collect::<Vec<_>>()).unwrap()
        };
        assert_eq!(upper("jürgen.åström-жук"), "JÜRGEN.ÅSTRÖM-ЖУК");
        assert_eq!(upper("straße \u{131}\u{1f600} \u{b5}"), "STRAßE \u{131}\u{1f600} \u{b5}");
    }
}
