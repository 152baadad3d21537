//! Hashes and random bytes: thin wrappers over aws-lc-rs and the host's generator.

use aws_lc_rs::{digest, hmac};

/// SHA-512 over the parts in order, as if they were one message.
#[must_use]
pub fn sha512(parts: &[&[u8]]) -> [u8; 64] {
    let mut context = digest::Context::new(&digest::SHA512);
    for part in parts {
        context.update(part);
    }
    copied(context.finish().as_ref())
}

/// The next pre-authentication integrity hash: SHA-512 of the previous one and a whole message.
///
/// The first `previous` of a connection is all zeros (MS-SMB2 3.3.5.4).
#[must_use]
pub fn preauth_hash(previous: &[u8; 64], message: &[u8]) -> [u8; 64] {
    sha512(&[previous, message])
}

/// A key of HMAC-SHA256 (RFC 2104), expanded once. Half of the work for a short message is the expansion of
/// its key.
pub struct HmacKey(hmac::Key);

impl HmacKey {
    /// From the key's bytes.
    #[must_use]
    pub fn new(key: &[u8]) -> HmacKey {
        HmacKey(hmac::Key::new(hmac::HMAC_SHA256, key))
    }

    /// The code of a message.
    #[must_use]
    pub fn code(&self, message: &[u8]) -> [u8; 32] {
        copied(hmac::sign(&self.0, message).as_ref())
    }
}

/// HMAC-SHA256 of one message with a key for one use.
#[must_use]
pub fn hmac_sha256(key: &[u8], message: &[u8]) -> [u8; 32] {
    HmacKey::new(key).code(message)
}

/// Fills `out` with bytes from the cryptographic generator of the host. The generator of aws-lc takes its
/// seed from there too, but measures the jitter of the processor first. That takes tens of milliseconds,
/// once in each process, and a command would stand still for that time.
///
/// # Panics
/// If the generator of the system fails. There is no safe alternative: a predictable challenge or key
/// would be worse.
pub fn fill_random(out: &mut [u8]) {
    getrandom::fill(out).expect("the system's random generator works");
}

/// `N` bytes from the cryptographic generator.
///
/// # Panics
/// As [`fill_random`].
#[must_use]
pub fn random<const N: usize>() -> [u8; N] {
    let mut out = [0; N];
    fill_random(&mut out);
    out
}

/// The first `N` bytes of a digest. It must have at least as many.
pub(super) fn copied<const N: usize>(digest: &[u8]) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&digest[..N]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::hex;

    #[test]
    fn sha512_of_abc_is_that_of_fips_180() {
        let expected = hex("ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a\
             2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f");
        assert_eq!(sha512(&[b"a", b"", b"bc"]).as_slice(), expected);
    }

    #[test]
    fn hmac_sha256_matches_rfc_4231_case_2() {
        let expected = hex("5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
        assert_eq!(hmac_sha256(b"Jefe", b"what do ya want for nothing?").as_slice(), expected);
        let key = HmacKey::new(b"Jefe");
        assert_ne!(key.code(b"something else").as_slice(), expected);
        assert_eq!(key.code(b"what do ya want for nothing?").as_slice(), expected, "a key serves again");
    }

    #[test]
    fn random_bytes_differ_from_call_to_call() {
        assert_ne!(random::<16>(), random::<16>());
    }
}
