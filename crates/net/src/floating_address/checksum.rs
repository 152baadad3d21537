//! The checksum of the Internet (RFC 1071), over a header or over a message with its pseudo header.

use std::net::{Ipv4Addr, Ipv6Addr};

/// The checksum of `bytes`, in which its own field is zero.
pub(super) fn of(bytes: &[u8]) -> u16 {
    finish(sum(bytes))
}

/// The checksum of a message that IPv4 carries (RFC 9293 3.1).
pub(super) fn over_ipv4(from: Ipv4Addr, to: Ipv4Addr, protocol: u8, message: &[u8]) -> u16 {
    let addresses = sum(&from.octets()) + sum(&to.octets());
    finish(addresses + u64::from(protocol) + message.len() as u64 + sum(message))
}

/// The checksum of a message that IPv6 carries (RFC 8200 8.1).
pub(super) fn over_ipv6(from: Ipv6Addr, to: Ipv6Addr, protocol: u8, message: &[u8]) -> u16 {
    let addresses = sum(&from.octets()) + sum(&to.octets());
    finish(addresses + u64::from(protocol) + message.len() as u64 + sum(message))
}

/// The sum of the 16-bit words. An odd byte at the end is the first of its word.
fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<2>();
    let last = rest.first().map_or(0, |byte| u64::from(*byte) << 8);
    words.iter().map(|word| u64::from(u16::from_be_bytes(*word))).sum::<u64>() + last
}

fn finish(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc_1071_has_its_sum() {
        // Section 3: the words 0001 f203 f4f5 f6f7 add up to ddf2.
        assert_eq!(of(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
        assert_eq!((of(&[]), of(&[0x12]), of(&[0xff, 0xff])), (0xffff, !0x1200, 0));
    }

    #[test]
    fn a_message_with_its_checksum_adds_up_to_zero() {
        let mut message = *b"a messages\0\0 and its end";
        let (from, to) = (Ipv4Addr::new(10, 77, 0, 50), Ipv4Addr::new(10, 77, 0, 9));
        let found = over_ipv4(from, to, 6, &message);
        message[10..12].copy_from_slice(&found.to_be_bytes());
        assert_eq!(over_ipv4(from, to, 6, &message), 0);
        message[10..12].fill(0);
        let (from, to) = (Ipv6Addr::from([0xfd; 16]), Ipv6Addr::from([0xfe; 16]));
        let found = over_ipv6(from, to, 58, &message);
        message[10..12].copy_from_slice(&found.to_be_bytes());
        assert_eq!(over_ipv6(from, to, 58, &message), 0);
    }
}
