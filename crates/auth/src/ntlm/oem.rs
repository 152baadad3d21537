//! Names of clients without Unicode (MS-NLMP 2.2.2.5).
//!
//! No message has the code page of such a client. It is assumed to be 850, the one of western MS-DOS, as in
//! Samba.

/// The characters of the bytes from 0x80 on.
const UPPER_HALF: &str = "ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜø£Ø×ƒ\
                          áíóúñÑªº¿®¬½¼¡«»░▒▓│┤ÁÂÀ©╣║╗╝¢¥┐\
                          └┴┬├─┼ãÃ╚╔╩╦╠═╬¤ðÐÊËÈıÍÎÏ┘┌█▄¦Ì▀\
                          ÓßÔÒõÕµþÞÚÛÙýÝ¯´\u{ad}±‗¾¶§÷¸°¨·¹³²■\u{a0}";

/// A name as UTF-16LE.
#[must_use]
pub fn to_utf16le(name: &[u8]) -> Vec<u8> {
    let upper = |byte: u8| UPPER_HALF.chars().nth(usize::from(byte & 0x7f)).unwrap_or_default();
    let text = name.iter().map(|&byte| if byte.is_ascii() { char::from(byte) } else { upper(byte) });
    super::message::utf16le(&text.collect::<String>())
}

/// Text in the code page. A question mark replaces missing characters.
#[must_use]
pub fn from_text(text: &str) -> Vec<u8> {
    let byte = |letter: char| match u8::try_from(letter) {
        Ok(ascii) if ascii.is_ascii() => ascii,
        _ => UPPER_HALF
            .chars()
            .zip(0x80..=0xff)
            .find(|&(upper, _)| upper == letter)
            .map_or(b'?', |(_, byte)| byte),
    };
    text.chars().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ntlm::message::utf16le;

    #[test]
    fn every_byte_is_one_letter_and_comes_back() {
        assert_eq!(UPPER_HALF.chars().count(), 128);
        for byte in 0..=0xff {
            let text = crate::ntlm::message::name(&to_utf16le(&[byte])).unwrap();
            assert_eq!(from_text(&text), [byte]);
        }
        assert_eq!(to_utf16le(b"J\x81rgen \xe1"), utf16le("J\u{fc}rgen \u{df}"));
        assert_eq!(from_text("a\u{416}z"), b"a?z");
    }
}
