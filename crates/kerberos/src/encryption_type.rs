//! The encryption types of Kerberos by name and number (IANA's "Kerberos Encryption Type Numbers").

use std::fmt;

/// An encryption type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EncryptionType {
    /// aes128-cts-hmac-sha1-96 (RFC 3962).
    Aes128Sha1,
    /// aes256-cts-hmac-sha1-96 (RFC 3962).
    Aes256Sha1,
    /// aes128-cts-hmac-sha256-128 (RFC 8009).
    Aes128Sha2,
    /// aes256-cts-hmac-sha384-192 (RFC 8009).
    Aes256Sha2,
    /// rc4-hmac (RFC 4757), which RFC 8429 deprecates.
    Rc4,
    /// A type that this program never accepts.
    Other(i32),
}

impl EncryptionType {
    /// The types that are accepted by default, the strongest first.
    pub const AES: [EncryptionType; 4] = [
        EncryptionType::Aes256Sha2,
        EncryptionType::Aes128Sha2,
        EncryptionType::Aes256Sha1,
        EncryptionType::Aes128Sha1,
    ];

    /// All types that can be accepted, with their names.
    pub const NAMED: &'static [(&'static str, EncryptionType)] = &[
        ("aes256-cts-hmac-sha384-192", EncryptionType::Aes256Sha2),
        ("aes128-cts-hmac-sha256-128", EncryptionType::Aes128Sha2),
        ("aes256-cts-hmac-sha1-96", EncryptionType::Aes256Sha1),
        ("aes128-cts-hmac-sha1-96", EncryptionType::Aes128Sha1),
        ("rc4-hmac", EncryptionType::Rc4),
    ];

    /// Its number.
    #[must_use]
    pub fn number(self) -> i32 {
        match self {
            EncryptionType::Aes128Sha1 => 17,
            EncryptionType::Aes256Sha1 => 18,
            EncryptionType::Aes128Sha2 => 19,
            EncryptionType::Aes256Sha2 => 20,
            EncryptionType::Rc4 => 23,
            EncryptionType::Other(number) => number,
        }
    }

    /// The type with this number.
    #[must_use]
    pub fn of(number: i32) -> EncryptionType {
        match number {
            17 => EncryptionType::Aes128Sha1,
            18 => EncryptionType::Aes256Sha1,
            19 => EncryptionType::Aes128Sha2,
            20 => EncryptionType::Aes256Sha2,
            23 => EncryptionType::Rc4,
            other => EncryptionType::Other(other),
        }
    }

    /// The type in the last arc of an encoded object identifier.
    pub(crate) fn of_last_arc(oid: &[u8]) -> EncryptionType {
        // X.690 8.19: each arc has seven bits in a byte, and the last byte has no high bit.
        let start = oid.iter().rev().skip(1).take_while(|byte| **byte & 0x80 != 0).count() + 1;
        let arc = &oid[oid.len().saturating_sub(start)..];
        let number = arc.iter().fold(0_i32, |number, byte| number.wrapping_shl(7) | i32::from(byte & 0x7f));
        EncryptionType::of(number)
    }
}

impl fmt::Display for EncryptionType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match EncryptionType::NAMED.iter().find(|(_, known)| known == self) {
            Some((name, _)) => f.write_str(name),
            None => write!(f, "encryption type {}", self.number()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_lead_to_the_same_type() {
        for (name, known) in EncryptionType::NAMED {
            assert_eq!((known.to_string().as_str(), EncryptionType::of(known.number())), (*name, *known));
        }
        assert_eq!(EncryptionType::Other(3).to_string(), "encryption type 3");
        assert_eq!(EncryptionType::of(3), EncryptionType::Other(3));
    }

    #[test]
    fn the_last_arc_of_an_object_identifier_is_the_type() {
        let oid = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02, 0x04, 0x12];
        assert_eq!(EncryptionType::of_last_arc(&oid), EncryptionType::Aes256Sha1);
        assert_eq!(EncryptionType::of_last_arc(&[0x2a, 0x81, 0x01]), EncryptionType::Other(129));
        assert_eq!(EncryptionType::of_last_arc(&[]), EncryptionType::Other(0));
    }
}
