//! Message encryption: one [`Sealer`] for each key and direction.

use std::fmt;

use aes::{Aes128, Aes256};
use aws_lc_rs::aead;
use ccm::Ccm;
use ccm::aead::{AeadInOut, KeyInit};
use ccm::consts::{U11, U16};

use super::TagMismatch;
use super::hash::copied;

/// The algorithm of message encryption, with the numbers of SMB2_ENCRYPTION_CAPABILITIES (MS-SMB2
/// 2.2.3.1.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Cipher {
    /// AES-128-CCM: the only cipher of SMB 3.0 and 3.0.2.
    Aes128Ccm = 0x0001,
    /// AES-128-GCM.
    Aes128Gcm = 0x0002,
    /// AES-256-CCM.
    Aes256Ccm = 0x0003,
    /// AES-256-GCM.
    Aes256Gcm = 0x0004,
}

impl Cipher {
    /// The names of the ciphers in the spelling of Microsoft's tools.
    pub const NAMES: &'static [(&'static str, Cipher)] = &[
        ("AES-128-CCM", Cipher::Aes128Ccm),
        ("AES-128-GCM", Cipher::Aes128Gcm),
        ("AES-256-CCM", Cipher::Aes256Ccm),
        ("AES-256-GCM", Cipher::Aes256Gcm),
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, cipher)| *cipher == self).map_or("", |(name, _)| *name)
    }

    /// Length of the key in bytes.
    #[must_use]
    pub const fn key_len(self) -> usize {
        match self {
            Cipher::Aes128Ccm | Cipher::Aes128Gcm => 16,
            Cipher::Aes256Ccm | Cipher::Aes256Gcm => 32,
        }
    }

    /// The number of used bytes in the 16-byte nonce field: 11 for CCM, 12 for GCM (MS-SMB2 2.2.41). The
    /// rest of the field is zero.
    #[must_use]
    pub const fn nonce_len(self) -> usize {
        match self {
            Cipher::Aes128Ccm | Cipher::Aes256Ccm => 11,
            Cipher::Aes128Gcm | Cipher::Aes256Gcm => 12,
        }
    }
}

/// Length in bytes of the Nonce field of the SMB2 TRANSFORM_HEADER.
pub const NONCE_FIELD_LEN: usize = 16;

/// The length of a key does not match its cipher.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{cipher:?} needs a key of {} bytes, not {len}", cipher.key_len())]
pub struct WrongKeyLength {
    /// The requested cipher.
    pub cipher: Cipher,
    /// The length of the given key, in bytes.
    pub len: usize,
}

/// An encryption key, expanded once, for any number of messages on any thread.
///
/// The caller must never use a nonce twice with one key. A counter for each key and direction ensures that.
pub struct Sealer {
    cipher: Cipher,
    keyed: Keyed,
}

enum Keyed {
    Ccm128(Box<Ccm<Aes128, U16, U11>>),
    Ccm256(Box<Ccm<Aes256, U16, U11>>),
    Gcm(aead::LessSafeKey),
}

impl Sealer {
    /// Expands `key` for `cipher`.
    ///
    /// # Errors
    /// [`WrongKeyLength`] if `key` does not have [`Cipher::key_len`] bytes.
    ///
    /// # Panics
    /// If aws-lc has no memory for the expanded key.
    pub fn new(cipher: Cipher, key: &[u8]) -> Result<Sealer, WrongKeyLength> {
        let wrong = WrongKeyLength { cipher, len: key.len() };
        let gcm = |algorithm| aead::UnboundKey::new(algorithm, key).map(aead::LessSafeKey::new);
        let keyed = match cipher {
            Cipher::Aes128Ccm => Ccm::new_from_slice(key).map(|ccm| Keyed::Ccm128(Box::new(ccm))).ok(),
            Cipher::Aes128Gcm => gcm(&aead::AES_128_GCM).map(Keyed::Gcm).ok(),
            Cipher::Aes256Ccm => Ccm::new_from_slice(key).map(|ccm| Keyed::Ccm256(Box::new(ccm))).ok(),
            Cipher::Aes256Gcm => gcm(&aead::AES_256_GCM).map(Keyed::Gcm).ok(),
        };
        keyed.map(|keyed| Sealer { cipher, keyed }).ok_or(wrong)
    }

    /// The cipher of this key.
    #[must_use]
    pub fn cipher(&self) -> Cipher {
        self.cipher
    }

    /// Encrypts `data` in place and returns the tag, which is the Signature of the transform header.
    ///
    /// `nonce` is the whole Nonce field. The cipher uses its first [`Cipher::nonce_len`] bytes. `aad` is the
    /// part of the transform header from that field to its end.
    ///
    /// # Panics
    /// If `data` is 4 GiB or longer. A frame of SMB's transport has at most 16 MiB.
    #[must_use]
    pub fn seal(&self, nonce: &[u8; NONCE_FIELD_LEN], aad: &[u8], data: &mut [u8]) -> [u8; 16] {
        // MS-SMB2 3.1.4.3
        const SHORT: &str = "a message is shorter than 4 GiB";
        match &self.keyed {
            Keyed::Ccm128(ccm) => {
                ccm.encrypt_inout_detached(&first(nonce).into(), aad, data.into()).expect(SHORT).into()
            }
            Keyed::Ccm256(ccm) => {
                ccm.encrypt_inout_detached(&first(nonce).into(), aad, data.into()).expect(SHORT).into()
            }
            Keyed::Gcm(gcm) => {
                let nonce = aead::Nonce::assume_unique_for_key(first(nonce));
                let tag = gcm.seal_in_place_separate_tag(nonce, aead::Aad::from(aad), data).expect(SHORT);
                copied(tag.as_ref())
            }
        }
    }

    /// Decrypts `data` in place if `tag` matches it and `aad`.
    ///
    /// # Errors
    /// [`TagMismatch`] if it does not. The contents of `data` must not be used then.
    pub fn open(
        &self,
        nonce: &[u8; NONCE_FIELD_LEN],
        aad: &[u8],
        data: &mut [u8],
        tag: &[u8; 16],
    ) -> Result<(), TagMismatch> {
        let opened = match &self.keyed {
            Keyed::Ccm128(ccm) => {
                ccm.decrypt_inout_detached(&first(nonce).into(), aad, data.into(), &(*tag).into()).is_ok()
            }
            Keyed::Ccm256(ccm) => {
                ccm.decrypt_inout_detached(&first(nonce).into(), aad, data.into(), &(*tag).into()).is_ok()
            }
            Keyed::Gcm(gcm) => {
                let nonce = aead::Nonce::assume_unique_for_key(first(nonce));
                gcm.open_in_place_separate_tag(nonce, aead::Aad::from(aad), tag, data).is_ok()
            }
        };
        if opened { Ok(()) } else { Err(TagMismatch) }
    }
}

/// The part of the nonce field for a cipher with `N` bytes of nonce.
fn first<const N: usize>(field: &[u8; NONCE_FIELD_LEN]) -> [u8; N] {
    copied(field)
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Sealer").field(&self.cipher).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::hex;

    fn nonce_field(nonce: &[u8]) -> [u8; NONCE_FIELD_LEN] {
        let mut field = [0; NONCE_FIELD_LEN];
        field[..nonce.len()].copy_from_slice(nonce);
        field
    }

    /// Seals and opens one vector. Then checks that a change of any part is refused.
    fn check(cipher: Cipher, key: &[u8], nonce: &[u8], aad: &[u8], plain: &[u8], sealed: &[u8], tag: &[u8]) {
        let sealer = Sealer::new(cipher, key).unwrap();
        let nonce = nonce_field(nonce);
        let mut data = plain.to_vec();
        let made = sealer.seal(&nonce, aad, &mut data);
        assert_eq!(data, sealed);
        assert_eq!(made, tag);
        assert_eq!(sealer.open(&nonce, aad, &mut data, &made), Ok(()));
        assert_eq!(data, plain);

        let refused = |nonce: &[u8; 16], aad: &[u8], flip: Option<usize>, tag: &[u8; 16]| {
            let mut data = sealed.to_vec();
            if let Some(at) = flip {
                data[at] ^= 0x10;
            }
            assert_eq!(sealer.open(nonce, aad, &mut data, tag), Err(TagMismatch));
        };
        refused(&nonce, aad, Some(plain.len() / 2), &made);
        refused(&nonce, &[aad, b"x"].concat(), None, &made);
        let mut other = made;
        other[15] ^= 1;
        refused(&nonce, aad, None, &other);
        let mut other = nonce;
        other[0] ^= 1;
        refused(&other, aad, None, &made);
    }

    /// Test cases 4 and 16 of the GCM specification that NIST validated.
    #[test]
    fn gcm_matches_the_vectors_of_its_specification() {
        let key = hex("feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308");
        let nonce = hex("cafebabefacedbaddecaf888");
        let aad = hex("feedfacedeadbeeffeedfacedeadbeefabaddad2");
        let plain = hex("d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72\
             1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39");
        let sealed = hex("42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e\
             21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091");
        let tag = hex("5bc94fbc3221a5db94fae95ae7121a47");
        check(Cipher::Aes128Gcm, &key[..16], &nonce, &aad, &plain, &sealed, &tag);
        let sealed = hex("522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa\
             8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662");
        let tag = hex("76fc6ece0f4e1768cddf8853bb2d551b");
        check(Cipher::Aes256Gcm, &key, &nonce, &aad, &plain, &sealed, &tag);
    }

    /// Computed with OpenSSL through Python's `cryptography`, with the sizes that SMB uses.
    #[test]
    fn ccm_with_11_byte_nonce_matches_openssl() {
        let key: Vec<u8> = (0..32).collect();
        let aad: Vec<u8> = (0..32).collect();
        let nonce: Vec<u8> = (0xb0..0xbb).collect();
        let plain: Vec<u8> = (0..100_u32).map(|i| (i * 7) as u8).collect();
        let sealed = hex("d76aa71571119aee72850aab6bccca15707fde0b9f7d190234db21878026f647\
             8c1ccc81787d90356873ce3ee3772413723ede3cba8b248bb3d76273096f3313\
             374c15dc5ef3591a1bcba50e69712156993c4a77c68a7c4ffb7e6523dce7faa2\
             13f9aaf55697939233d6ccf7e294cd71a1f496ec");
        let (data, tag) = sealed.split_at(100);
        check(Cipher::Aes128Ccm, &key[..16], &nonce, &aad, &plain, data, tag);
        let sealed = hex("dec6a4208d293204ad9905d689622291ece23ef86127cd8d5b3a9b9697e97283\
             ccd37ef995262bd76b50fab58e49a898444ad15c6ee4793d4652e4fa0666e4a0\
             ce590ea5c9b31cdf30ea47628d047e54fb1605a5b7ad04f9a9e43c2f56732b79\
             6766cc26a849bb49959353258631e23159a01231");
        let (data, tag) = sealed.split_at(100);
        check(Cipher::Aes256Ccm, &key, &nonce, &aad, &plain, data, tag);
    }

    /// Opens a whole transform message of Microsoft's published traces and expects `plain`.
    fn opens_captured(cipher: Cipher, key: &str, message: &str, plain: &str) {
        let sealer = Sealer::new(cipher, &hex(key)).unwrap();
        let mut message = hex(message);
        let (header, data) = message.split_at_mut(52);
        let tag = header[4..20].try_into().unwrap();
        let nonce = header[20..36].try_into().unwrap();
        assert_eq!(sealer.open(&nonce, &header[20..], data, &tag), Ok(()));
        assert_eq!(data, hex(plain));
        assert_eq!(sealer.seal(&nonce, &header[20..], data), tag);
    }

    #[test]
    fn ccm_opens_a_captured_smb_3_0_write() {
        opens_captured(
            Cipher::Aes128Ccm,
            "261B72350558F2E9DCF613070383EDBF",
            "FD534D4281A286535415445DAE393921E44FA42E66E69A111892584FB5ED524A\
             744DA3EE87000000000001001100001400E4080025C8FEE16605A437832D1CD5\
             2DA9F4645333482A175FE5384563F45FCDAFAEF38BC62BA4D5C62897996625A4\
             4C29BE5658DE2E6117585779E7B59FFD971278D08580D7FA899E410E910EABF5\
             AA1DB43050B33B49182637759AC15D84BFCDF5B6B238993C0F4CF4D6012023F6\
             C627297075D84B7803912D0A9639634453595EF3E33FFE4E7AC2AB",
            "FE534D4240000100000000000900400008000000000000000400000000000000\
             FFFE0000010000001100001400E4080000000000000000000000000000000000\
             3100700017000000000000000000000015010000390000020100000039020000\
             00000000000000007000000000000000536D623320656E6372797074696F6E20\
             74657374696E67",
        );
    }

    #[test]
    fn gcm_opens_a_captured_smb_3_1_1_write() {
        opens_captured(
            Cipher::Aes128Gcm,
            "A2F5E80E5D59103034F32E52F698E5EC",
            "FD534D42BD73D97D2BC9001BCAFAC0FDFF5FEEBCC7D6822D269CAF48904C664C\
             00000000870000000000010025000000001000006ECDD2A7AFC7B47763057A04\
             1B8FD4DAFFE990B70C9E09D36C084E02D14EF247F8BDE38ACF6256F8B1D3B56F\
             77FBDEB312FEA5E92CBCC1ED8FB2EBBFAA75E49A4A394BB44576545567C24D4C\
             014D47C9FBDFDAFD2C4F9B72F8D256452620A299F48E29E53D6B61D1C13A19E9\
             1AF013F00D17E3ABC2FC3D36C8C1B6B93973253852DBD442E46EE8",
            "FE534D4240000100000000000900010008000000000000000500000000000000\
             FFFE000001000000250000000010000000000000000000000000000000000000\
             3100700017000000000000000000000006000000040000000100000004000000\
             00000000000000007000000000000000536D623320656E6372797074696F6E20\
             74657374696E67",
        );
    }

    #[test]
    fn a_key_of_the_wrong_length_is_named() {
        let wrong = Sealer::new(Cipher::Aes256Gcm, &[0; 16]).unwrap_err();
        assert_eq!(wrong, WrongKeyLength { cipher: Cipher::Aes256Gcm, len: 16 });
        assert_eq!(wrong.to_string(), "Aes256Gcm needs a key of 32 bytes, not 16");
        assert!(Sealer::new(Cipher::Aes128Ccm, &[0; 32]).is_err());
    }

    #[test]
    fn sealers_are_shared_between_threads_and_hide_their_key() {
        fn shared<T: Send + Sync>(_: &T) {}
        for cipher in [Cipher::Aes128Ccm, Cipher::Aes128Gcm, Cipher::Aes256Ccm, Cipher::Aes256Gcm] {
            let sealer = Sealer::new(cipher, &vec![0x41; cipher.key_len()]).unwrap();
            shared(&sealer);
            assert_eq!(format!("{sealer:?}"), format!("Sealer({cipher:?})"));
        }
    }
}
