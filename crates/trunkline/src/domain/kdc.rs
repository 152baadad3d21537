//! Asks a KDC for a sign of life and its clock.
//!
//! The question is an AS-REQ whose only encryption type nobody supports any more (RFC 4120 5.4.1). Each KDC
//! refuses it with a KRB-ERROR, which contains its time (5.9.1). So nothing is authenticated here and no
//! ticket is issued; tickets are the matter of MIT's library and programs.
//!
//! Each question has a random nonce. MIT's KDC sends its reply of before, with the time of before, to a
//! question that it has seen. A KRB-ERROR has no nonce, so the realm in it tells whether it is the reply.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::state::store::random;

/// The longest wait for one KDC.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time after which a datagram is sent again.
const AGAIN: Duration = Duration::from_millis(700);
const DES_CBC_CRC: u8 = 1;
/// `KRB_ERR_RESPONSE_TOO_BIG`: the answer needs TCP.
const TOO_BIG: i64 = 52;
/// The type of the message (RFC 4120 5.10).
const KRB_ERROR: u8 = 30;

/// A KDC's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KdcSign {
    /// The host's clock minus that of the KDC, in seconds.
    pub ahead_s: i64,
    /// Time until the answer.
    pub took: Duration,
}

/// Asks the KDC at an address about a principal of a realm. None if it does not answer.
pub fn ask(at: SocketAddr, realm: &str, principal: &str) -> Option<KdcSign> {
    let begun = Instant::now();
    let request = request(realm, principal, nonce()?);
    let answer = by_udp(at, &request, realm).or_else(|| by_tcp(at, &request, realm, begun))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs();
    Some(KdcSign { ahead_s: i64::try_from(now).ok()? - answer.time, took: begun.elapsed() })
}

/// A number that no question had before. RFC 4120 5.2.4 has 32 bits, and old KDCs read them with a sign.
fn nonce() -> Option<[u8; 4]> {
    let mut nonce: [u8; 4] = random().ok()?;
    // DER wants the shortest form, without a zero byte in front.
    nonce[0] = nonce[0] & 0x3f | 0x40;
    Some(nonce)
}

fn by_udp(at: SocketAddr, request: &[u8], realm: &str) -> Option<KdcError> {
    let socket = UdpSocket::bind(if at.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }).ok()?;
    socket.connect(at).ok()?;
    socket.set_read_timeout(Some(AGAIN)).ok()?;
    let mut buffer = vec![0; 65_536];
    for _ in 0..2 {
        socket.send(request).ok()?;
        if let Ok(count) = socket.recv(&mut buffer) {
            return parse(&buffer[..count], realm).filter(|error| error.code != TOO_BIG);
        }
    }
    None
}

/// RFC 4120 7.2.2: each message has its length in front.
fn by_tcp(at: SocketAddr, request: &[u8], realm: &str, begun: Instant) -> Option<KdcError> {
    let left = || PATIENCE.checked_sub(begun.elapsed()).filter(|left| !left.is_zero());
    let mut stream = TcpStream::connect_timeout(&at, left()?).ok()?;
    stream.set_write_timeout(Some(left()?)).ok()?;
    stream.set_read_timeout(Some(left()?)).ok()?;
    stream.write_all(&u32::try_from(request.len()).ok()?.to_be_bytes()).ok()?;
    stream.write_all(request).ok()?;
    let mut length = [0; 4];
    stream.read_exact(&mut length).ok()?;
    let mut answer = vec![0; usize::try_from(u32::from_be_bytes(length).min(65_536)).ok()?];
    stream.read_exact(&mut answer).ok()?;
    parse(&answer, realm)
}

/// One value of DER (X.690): the tag, the length and the content.
fn der(tag: u8, content: &[&[u8]]) -> Vec<u8> {
    let content = content.concat();
    let length = content.len().to_be_bytes();
    let length = &length[length.iter().position(|byte| *byte != 0).unwrap_or(length.len() - 1)..];
    let mut out = vec![tag];
    if content.len() < 128 {
        out.extend(length);
    } else {
        out.push(0x80 | u8::try_from(length.len()).unwrap_or(0));
        out.extend(length);
    }
    out.extend(content);
    out
}

const INTEGER: u8 = 0x02;
const SEQUENCE: u8 = 0x30;
const GENERAL_STRING: u8 = 0x1b;
const GENERALIZED_TIME: u8 = 0x18;

/// A field of a structure.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    der(0xa0 | number, &[content])
}

fn name(kind: u8, parts: &[&str]) -> Vec<u8> {
    let parts: Vec<Vec<u8>> = parts.iter().map(|part| der(GENERAL_STRING, &[part.as_bytes()])).collect();
    let parts = der(SEQUENCE, &[&parts.concat()]);
    der(SEQUENCE, &[&field(0, &der(INTEGER, &[&[kind]])), &field(1, &parts)])
}

fn request(realm: &str, principal: &str, nonce: [u8; 4]) -> Vec<u8> {
    let parts: Vec<&str> = principal.split('/').collect();
    let types = der(SEQUENCE, &[&der(INTEGER, &[&[DES_CBC_CRC]])]);
    let body = der(
        SEQUENCE,
        &[
            &field(0, &der(0x03, &[&[0, 0, 0, 0, 0]])),
            &field(1, &name(1, &parts)),
            &field(2, &der(GENERAL_STRING, &[realm.as_bytes()])),
            &field(3, &name(2, &["krbtgt", realm])),
            &field(5, &der(GENERALIZED_TIME, &[b"20370913024805Z"])),
            &field(7, &der(INTEGER, &[&nonce])),
            &field(8, &types),
        ],
    );
    let inner =
        [field(1, &der(INTEGER, &[&[5]])), field(2, &der(INTEGER, &[&[10]])), field(4, &body)].concat();
    der(0x6a, &[&der(SEQUENCE, &[&inner])])
}

/// The parts of a KRB-ERROR that count here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct KdcError {
    /// The time of the KDC, in seconds since 1970.
    time: i64,
    code: i64,
}

/// The first value of `bytes`: its tag, its content and the rest.
fn value(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=127 => (usize::from(first), rest),
        _ => {
            let (digits, rest) =
                rest.split_at_checked(usize::from(first & 0x7f)).filter(|_| first <= 0x84)?;
            (digits.iter().fold(0, |sum, digit| (sum << 8) | usize::from(*digit)), rest)
        }
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// A KRB-ERROR of a realm. None if it is no reply to a question about that realm.
fn parse(bytes: &[u8], realm: &str) -> Option<KdcError> {
    let (_, outer, _) = value(bytes).filter(|(tag, ..)| *tag == 0x7e)?;
    let (_, mut fields, _) = value(outer).filter(|(tag, ..)| *tag == SEQUENCE)?;
    let (mut time, mut code) = (None, None);
    while let Some((tag, content, rest)) = value(fields) {
        let inner = value(content).map(|(_, inner, _)| inner);
        match tag {
            0xa4 => time = inner.and_then(seconds),
            0xa1 if inner != Some(&[KRB_ERROR]) => return None,
            0xa9 if !inner.is_some_and(|of| is_of_realm(of, realm)) => return None,
            0xa6 => {
                code = inner
                    .filter(|digits| digits.len() <= 4)
                    .map(|digits| digits.iter().fold(0, |sum, digit| (sum << 8) | i64::from(*digit)))
            }
            _ => {}
        }
        fields = rest;
    }
    Some(KdcError { time: time?, code: code? })
}

/// Whether the realm of a KRB-ERROR is that of the question. Heimdal leaves it open if it found no server.
fn is_of_realm(of: &[u8], realm: &str) -> bool {
    of.eq_ignore_ascii_case(realm.as_bytes()) || of.starts_with(b"<unspecified")
}

/// Seconds since 1970 of a KerberosTime, `YYYYMMDDHHMMSSZ` (RFC 4120 5.2.3).
fn seconds(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?.strip_suffix('Z').filter(|text| text.len() == 14)?;
    let part = |from: usize, to: usize| text.get(from..to)?.parse::<i64>().ok();
    let (year, month, day) = (part(0, 4)?, part(4, 6)?, part(6, 8)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Days from civil: years begin in March, so that the leap day is a year's last.
    let year = if month <= 2 { year - 1 } else { year };
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = year * 365 + year / 4 - year / 100 + year / 400 + of_year - 719_468;
    Some(days * 86_400 + part(8, 10)? * 3600 + part(10, 12)? * 60 + part(12, 14)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error() -> Vec<u8> {
        let number = |value: u8| der(INTEGER, &[&[value]]);
        let inner = [
            field(0, &number(5)),
            field(1, &number(30)),
            field(4, &der(GENERALIZED_TIME, &[b"20261128014736Z"])),
            field(5, &number(9)),
            field(6, &number(14)),
            field(9, &der(GENERAL_STRING, &[b"R.EXAMPLE"])),
            field(11, &der(GENERAL_STRING, &[&[b'x'; 200]])),
        ]
        .concat();
        der(0x7e, &[&der(SEQUENCE, &[&inner])])
    }

    #[test]
    fn an_error_tells_the_clock() {
        assert_eq!(parse(&error(), "R.EXAMPLE"), Some(KdcError { time: 1_795_830_456, code: 14 }));
        assert_eq!(parse(&error(), "OTHER.EXAMPLE"), None, "the reply to another question");
        assert_eq!(seconds(b"19700101000000Z"), Some(0));
        assert_eq!(seconds(b"20000229120000Z"), Some(951_825_600));
        assert_eq!(seconds(b"20001329120000Z"), None);
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let whole = error();
        for at in 0..whole.len() {
            let _ = parse(&whole[..at], "R.EXAMPLE");
            for value in 0..=255 {
                let mut bytes = whole.clone();
                bytes[at] = value;
                let _ = parse(&bytes, "R.EXAMPLE");
            }
        }
    }

    #[test]
    fn a_request_is_a_whole_value() {
        let request = |nonce| request("R.EXAMPLE", "cifs/files.r.example", nonce);
        let whole = request([0x40, 1, 2, 3]);
        let (tag, inner, rest) = value(&whole).unwrap();
        assert_eq!((tag, value(inner).unwrap().0, rest), (0x6a, SEQUENCE, &[][..]));
        let (one, other) = (nonce().unwrap(), nonce().unwrap());
        assert_ne!(request(one), request(other), "a KDC must not take them for one question");
    }
}
