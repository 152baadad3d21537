//! Encryption types of Kerberos.

/// The name of an encryption type (RFC 3961 8.3, RFC 8009 5, RFC 4757 5).
pub fn name(number: i32) -> String {
    match number {
        16 => "des3-cbc-sha1".to_owned(),
        17 => "aes128-cts-hmac-sha1-96".to_owned(),
        18 => "aes256-cts-hmac-sha1-96".to_owned(),
        19 => "aes128-cts-hmac-sha256-128".to_owned(),
        20 => "aes256-cts-hmac-sha384-192".to_owned(),
        23 => "arcfour-hmac".to_owned(),
        25 => "camellia128-cts-cmac".to_owned(),
        26 => "camellia256-cts-cmac".to_owned(),
        other => format!("encryption type {other}"),
    }
}

/// Whether it is one of the AES types, which alone the server takes by default.
pub fn is_aes(number: i32) -> bool {
    (17..=20).contains(&number)
}
