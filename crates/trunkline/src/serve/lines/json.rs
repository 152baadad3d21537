//! Makes a line of JSON in given memory. Names may be any bytes. The line is valid JSON all the same, and one
//! line whatever a client sends.

use std::fmt::Display;
use std::io::Write;

/// The most bytes of a name in a line, and of its text with escapes. With them the longest event, of two
/// paths and the text of a link, fits into a datagram of UDP (65,507 bytes).
const MAX_NAME: usize = 4096;
const MAX_RENDERED: usize = 8192;

/// An object that is being written. Each member ends with a comma, and the object's end replaces the last.
pub struct JsonLine<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> JsonLine<'a> {
    /// Begins an object at the end of `out`.
    pub fn begin(out: &'a mut Vec<u8>) -> JsonLine<'a> {
        out.push(b'{');
        JsonLine { out }
    }

    // Inlined, so that a constant key is copied by a few moves.
    #[inline(always)]
    fn key(&mut self, key: &str) {
        self.out.push(b'"');
        self.out.extend_from_slice(key.as_bytes());
        self.out.extend_from_slice(b"\":");
    }

    /// A string.
    #[inline(always)]
    pub fn text(&mut self, key: &str, text: &str) {
        self.key(key);
        self.out.push(b'"');
        escape(text, self.out);
        self.out.extend_from_slice(b"\",");
    }

    /// A string of printable ASCII without quotes and backslashes.
    #[inline(always)]
    pub fn word(&mut self, key: &str, word: &str) {
        self.key(key);
        self.out.push(b'"');
        self.out.extend_from_slice(word.as_bytes());
        self.out.extend_from_slice(b"\",");
    }

    /// A string, if there is one.
    pub fn text_or_null(&mut self, key: &str, text: Option<&str>) {
        match text {
            Some(text) => self.text(key, text),
            None => self.raw(key, "null"),
        }
    }

    /// A name, which may be any bytes. Bytes that are not UTF-8 are replaced by U+FFFD, and a second key with
    /// `_hex` has all of them. A name that is too long for a line is cut, and a further key with `_bytes` has
    /// its whole length.
    #[inline]
    pub fn name(&mut self, key: &str, name: &[u8]) {
        if name.len() <= MAX_NAME && is_plain(name) {
            self.key(key);
            self.out.push(b'"');
            self.out.extend_from_slice(name);
            return self.out.extend_from_slice(b"\",");
        }
        self.name_with_care(key, name);
    }

    #[cold]
    fn name_with_care(&mut self, key: &str, name: &[u8]) {
        let (from, mut kept) = (self.out.len(), name.len().min(MAX_NAME));
        loop {
            // A cut leaves no part of a character behind.
            while kept < name.len() && kept > 0 && name[kept] & 0xc0 == 0x80 {
                kept -= 1;
            }
            let part = &name[..kept];
            self.text(key, &String::from_utf8_lossy(part));
            if self.out.len() - from <= MAX_RENDERED {
                if std::str::from_utf8(part).is_err() {
                    self.hex(&format!("{key}_hex"), part);
                }
                break;
            }
            self.out.truncate(from);
            kept /= 2;
        }
        if kept < name.len() {
            self.number(&format!("{key}_bytes"), name.len() as u64);
        }
    }

    fn hex(&mut self, key: &str, bytes: &[u8]) {
        self.key(key);
        self.out.push(b'"');
        for byte in bytes {
            // Writing to memory does not fail.
            let _ = write!(self.out, "{byte:02x}");
        }
        self.out.extend_from_slice(b"\",");
    }

    /// A value that displays as JSON.
    pub fn raw(&mut self, key: &str, value: impl Display) {
        self.key(key);
        let _ = write!(self.out, "{value},");
    }

    /// A whole number.
    #[inline]
    pub fn number(&mut self, key: &str, number: u64) {
        self.key(key);
        digits(number, self.out);
        self.out.push(b',');
    }

    /// A whole number as a string.
    pub fn quoted_number(&mut self, key: &str, number: u64) {
        self.key(key);
        self.out.push(b'"');
        digits(number, self.out);
        self.out.extend_from_slice(b"\",");
    }

    /// Two whole numbers as a string, with a colon between them.
    pub fn pair(&mut self, key: &str, first: u64, second: u64) {
        self.key(key);
        self.out.push(b'"');
        digits(first, self.out);
        self.out.push(b':');
        digits(second, self.out);
        self.out.extend_from_slice(b"\",");
    }

    /// A string that needs no escape.
    pub fn display(&mut self, key: &str, text: impl Display) {
        self.key(key);
        let _ = write!(self.out, "\"{text}\",");
    }

    /// A list of words, each with its quotes and a comma behind it.
    pub fn words<'w>(&mut self, key: &str, words: impl Iterator<Item = &'w str>) {
        self.key(key);
        self.out.push(b'[');
        for word in words {
            self.out.extend_from_slice(word.as_bytes());
        }
        if self.out.last() == Some(&b',') {
            self.out.pop();
        }
        self.out.extend_from_slice(b"],");
    }

    /// A time in the format of RFC 3339.
    pub fn time(&mut self, key: &str, wall_ns: i64) {
        self.key(key);
        self.out.push(b'"');
        crate::calendar::append_rfc3339(self.out, wall_ns);
        self.out.extend_from_slice(b"\",");
    }

    /// Goes on with members that were made before ([`JsonLine::members`]).
    pub fn append(&mut self, members: &[u8]) {
        self.out.extend_from_slice(members);
    }

    /// Begins members of an object at the end of `out`, without the object around them.
    pub fn members(out: &'a mut Vec<u8>) -> JsonLine<'a> {
        JsonLine { out }
    }

    /// Ends the object and the line.
    pub fn end(self) {
        if self.out.last() == Some(&b',') {
            self.out.pop();
        }
        self.out.extend_from_slice(b"}\n");
    }
}

/// Appends a number.
fn digits(number: u64, out: &mut Vec<u8>) {
    // The largest has 20 digits. Two of them come from each division.
    let (mut text, mut from, mut left) = ([0; 20], 20, number);
    while left >= 10 {
        let pair = (left % 100) as u8;
        left /= 100;
        from -= 2;
        (text[from], text[from + 1]) = (b'0' + pair / 10, b'0' + pair % 10);
    }
    // The first of a pair may be missing.
    if left > 0 || from == 20 {
        from -= 1;
        text[from] = b'0' + left as u8;
    }
    out.extend_from_slice(&text[from..]);
}

/// Whether a text is printable ASCII that needs no escape.
fn is_plain(text: &[u8]) -> bool {
    // Without an early end the compiler looks at many bytes at once.
    text.iter().fold(true, |all, byte| all & (0x20..0x7f).contains(byte) & (*byte != b'"') & (*byte != b'\\'))
}

/// Appends a string without its quotes. Characters that control a terminal or the direction of text are
/// escaped too, so that a name cannot change how a line is shown.
fn escape(text: &str, out: &mut Vec<u8>) {
    if is_plain(text.as_bytes()) {
        return out.extend_from_slice(text.as_bytes());
    }
    for character in text.chars() {
        match character {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            '\0'..='\x1f'
            | '\x7f'..='\u{9f}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}'
            | '\u{feff}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(character));
            }
            other => out.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_make_one_line_of_valid_json() {
        let mut random = 7_u64;
        for round in 0..2000 {
            let mut name = Vec::new();
            for _ in 0..round % 40 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                name.push((random >> 33) as u8);
            }
            let mut out = Vec::new();
            let mut line = JsonLine::begin(&mut out);
            line.name("path", &name);
            line.text("more", "x");
            line.end();
            assert_eq!(out.iter().filter(|byte| **byte == b'\n').count(), 1, "{name:?}");
            let read: serde_json::Value = serde_json::from_slice(&out).unwrap();
            assert_eq!(read["path"], String::from_utf8_lossy(&name).into_owned());
            let hex: String = name.iter().map(|byte| format!("{byte:02x}")).collect();
            let is_text = std::str::from_utf8(&name).is_ok();
            assert_eq!(read["path_hex"].as_str(), (!is_text).then_some(hex.as_str()));
        }
    }

    #[test]
    fn a_name_that_is_too_long_is_cut_with_a_mark_and_the_line_has_a_limit() {
        let plain = vec![b'a'; 100_000];
        let umlauts = "\u{e4}".repeat(40_000).into_bytes();
        let (controls, wrong) = (vec![1; 100_000], vec![0xff; 100_000]);
        for name in [&plain, &umlauts, &controls, &wrong] {
            let mut out = Vec::new();
            let mut line = JsonLine::begin(&mut out);
            line.name("path", name);
            line.name("new_path", name);
            line.name("target", name);
            line.end();
            assert!(out.len() < 60_000, "{}", out.len());
            let read: serde_json::Value = serde_json::from_slice(&out).unwrap();
            assert_eq!(read["path_bytes"].as_u64(), Some(name.len() as u64));
            let begin = String::from_utf8_lossy(name).into_owned();
            let path = read["path"].as_str().unwrap();
            assert!(path.len() > 500 && begin.starts_with(path));
            assert_eq!(read["path_hex"].is_string(), **name == wrong);
        }
        let mut out = Vec::new();
        let mut line = JsonLine::begin(&mut out);
        line.name("path", &plain[..MAX_NAME]);
        line.end();
        assert_eq!(out.len(), MAX_NAME + 12, "a path that the host takes is whole");
    }

    #[test]
    fn numbers_have_all_their_digits() {
        for number in [0, 7, 10, 42, 99, 100, 101, 999, 1000, 65_024, u64::MAX - 1, u64::MAX] {
            let mut out = Vec::new();
            digits(number, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), number.to_string());
        }
    }

    #[test]
    fn a_name_can_neither_end_a_line_nor_drive_a_terminal() {
        let mut out = Vec::new();
        let mut line = JsonLine::begin(&mut out);
        line.text("path", "a\n{\"user\":\"root\"}\r\u{1b}[2J\u{9b}1m\u{202e}gpj.exe\u{2028}");
        line.end();
        let text = String::from_utf8(out).unwrap();
        let wanted = r#"{"path":"a\u000a{\"user\":\"root\"}\u000d\u001b[2J\u009b1m\u202egpj.exe\u2028"}"#;
        assert_eq!(text, format!("{wanted}\n"));
    }
}
