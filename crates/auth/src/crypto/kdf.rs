//! Key derivation: SP 800-108 in counter mode over HMAC-SHA256.

use aws_lc_rs::hmac;
use zeroize::Zeroizing;

/// Derives a key of `N` bytes (16 or 32) from `key`.
///
/// `label` has its final NUL, as in MS-SMB2 3.2.5.3.1 (`b"SMBSigningKey\0"`). So does `context`
/// (`b"SmbSign\0"`), or it is the 64 bytes of the pre-authentication hash for 3.1.1.
///
/// ```
/// let key = auth::kdf::<16>(&[7; 16], b"SMB2AESCMAC\0", b"SmbSign\0");
/// assert_eq!(key.len(), 16);
/// ```
#[must_use]
pub fn kdf<const N: usize>(key: &[u8], label: &[u8], context: &[u8]) -> Zeroizing<[u8; N]> {
    const { assert!(N == 16 || N == 32, "L is 128 or 256 bits") };
    let bits = if N == 16 { 128_u32 } else { 256 };
    // MS-SMB2 3.1.4.2
    // One round of HMAC-SHA256 is enough for either length, so the counter never exceeds 1. The zero byte
    // between label and context belongs to SP 800-108. The label has its own NUL before it.
    let mut round = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, key));
    round.update(&1_u32.to_be_bytes());
    round.update(label);
    round.update(&[0]);
    round.update(context);
    round.update(&bits.to_be_bytes());
    let mut out = Zeroizing::new([0; N]);
    out.copy_from_slice(&round.sign().as_ref()[..N]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{hex, hex_array};

    /// The keys in Microsoft's published walk-through of SMB 3.0 keys, recorded on the client.
    #[test]
    fn smb_3_0_keys_are_those_microsoft_published() {
        let session_key: [u8; 16] = hex_array("7CD451825D0450D235424E44BA6E78CC");
        let derived = |label: &[u8], context: &[u8]| kdf::<16>(&session_key, label, context).to_vec();
        assert_eq!(derived(b"SMB2AESCMAC\0", b"SmbSign\0"), hex("0B7E9C5CAC36C0F6EA9AB275298CEDCE"));
        assert_eq!(derived(b"SMB2AESCCM\0", b"ServerIn \0"), hex("FAD27796665B313EBB578F388632B4F7"));
        assert_eq!(derived(b"SMB2AESCCM\0", b"ServerOut\0"), hex("B0F0427F7CEB416D1D9DCC0CD4F99447"));
        assert_eq!(derived(b"SMB2APP\0", b"SmbRpc\0"), hex("BB23A4575AA26C721AF525AF15A87B4F"));
    }

    /// The keys for SMB 3.1.1, with the pre-authentication hash as context.
    #[test]
    fn smb_3_1_1_keys_are_those_microsoft_published() {
        let session_key: [u8; 16] = hex_array("270E1BA896585EEB7AF3472D3B4C75A7");
        let hash = hex("0DD13628CC3ED218EF9DF9772D436D0887AB9814BFAE63A80AA845F36909DB79\
             28622DDDAD522D9751640A459762C5A9D6BB084CBB3CE6BDADEF5D5BCE3C6C01");
        let derived = |label: &[u8]| kdf::<16>(&session_key, label, &hash).to_vec();
        assert_eq!(derived(b"SMBSigningKey\0"), hex("73FE7A9A77BEF0BDE49C650D8CCB5F76"));
        assert_eq!(derived(b"SMBC2SCipherKey\0"), hex("629BCBC54422A0F572B97F45989B6073"));
        assert_eq!(derived(b"SMBS2CCipherKey\0"), hex("E2AF0DCEFAC68DA71A0DFBD0D1350D74"));
        assert_eq!(derived(b"SMBAppKey\0"), hex("6D7AD7954E9EC61E907B4D473DC178FF"));
    }

    /// Computed with OpenSSL's KBKDF through Python's `cryptography`.
    #[test]
    fn the_256_bit_key_is_no_prolonged_128_bit_key() {
        let key: Vec<u8> = (0..16).collect();
        let context: Vec<u8> = (0..64).collect();
        let long = kdf::<32>(&key, b"SMBC2SCipherKey\0", &context);
        assert_eq!(long.as_slice(), hex("d09c44a545f554240ddf8ac2777570de0f590e402196d1006261f7448076384d"));
        assert_ne!(long[..16], kdf::<16>(&key, b"SMBC2SCipherKey\0", &context)[..]);
    }
}
