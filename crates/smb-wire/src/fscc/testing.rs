//! Helpers for the tests of this module: reference bytes as other implementations print them.

/// The bytes of a hex dump. Blanks and line ends are ignored.
pub fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    assert_eq!(digits.len() % 2, 0);
    digits.chunks(2).map(byte).collect()
}
