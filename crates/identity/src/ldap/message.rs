//! The few messages of LDAP that a reader of a directory needs (RFC 4511), with paged results (RFC 2696).

use super::ber::{BerError, BerReader, BerWriter, ENUMERATED, INTEGER, OCTETS, SEQUENCE, SET};

const BIND_REQUEST: u8 = 0x60;
const BIND_RESPONSE: u8 = 0x61;
const UNBIND_REQUEST: u8 = 0x42;
const EXTENDED_REQUEST: u8 = 0x77;
const EXTENDED_RESPONSE: u8 = 0x78;
const SEARCH_REQUEST: u8 = 0x63;
const SEARCH_ENTRY: u8 = 0x64;
const SEARCH_DONE: u8 = 0x65;
const SEARCH_REFERENCE: u8 = 0x73;
/// The controls of a message, and the choice of SASL in a bind.
const CONTROLS: u8 = 0xa0;
const SASL: u8 = 0xa3;
const SERVER_CREDENTIALS: u8 = 0x87;
/// The name of an extended operation, and that of StartTLS (RFC 4511 sections 4.12 and 4.14).
const REQUEST_NAME: u8 = 0x80;
const START_TLS: &[u8] = b"1.3.6.1.4.1.1466.20037";
const PAGED_RESULTS: &[u8] = b"1.2.840.113556.1.4.319";

/// The entries of one page.
const PAGE: u32 = 500;

/// A condition on entries (RFC 4511 section 4.5.1.7).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filter {
    /// The conjunction of several conditions.
    And(Vec<Filter>),
    /// The disjunction of several conditions.
    Or(Vec<Filter>),
    /// An attribute with a value.
    Equal(&'static str, Vec<u8>),
    /// An attribute with any value.
    Present(&'static str),
}

impl Filter {
    fn write(&self, to: &mut BerWriter) {
        let all = |filters: &[Filter], to: &mut BerWriter| filters.iter().for_each(|filter| filter.write(to));
        match self {
            Filter::And(filters) => to.nested(0xa0, |to| all(filters, to)),
            Filter::Or(filters) => to.nested(0xa1, |to| all(filters, to)),
            Filter::Equal(attribute, value) => to.nested(0xa3, |to| {
                to.octets(attribute.as_bytes()).octets(value);
            }),
            Filter::Present(attribute) => to.element(0x87, attribute.as_bytes()),
        };
    }
}

/// The entries below the base that a search visits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The base alone.
    Base,
    /// The base and all below it.
    Subtree,
}

/// A search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LdapSearch<'a> {
    /// The distinguished name of the base; empty: the server's own entry.
    pub base: &'a str,
    /// The scope.
    pub scope: Scope,
    /// The condition.
    pub filter: &'a Filter,
    /// The attributes to return.
    pub attributes: &'a [&'a str],
}

/// A request to bind with SASL. `token` is none only if the mechanism's first message is missing.
pub(super) fn bind(id: u32, mechanism: &str, token: Option<&[u8]>) -> Vec<u8> {
    message(id, |to| {
        to.nested(BIND_REQUEST, |to| {
            to.number(INTEGER, 3).octets(b"");
            to.nested(SASL, |to| {
                to.octets(mechanism.as_bytes());
                if let Some(token) = token {
                    to.octets(token);
                }
            });
        });
    })
}

/// A request for one page of a search. `cookie` is that of the page before, empty for the first.
pub(super) fn search(id: u32, search: &LdapSearch<'_>, cookie: &[u8], seconds: u32) -> Vec<u8> {
    message(id, |to| {
        to.nested(SEARCH_REQUEST, |to| {
            let scope = if search.scope == Scope::Base { 0 } else { 2 };
            // Aliases are never followed, and the size is not limited: pages are.
            to.octets(search.base.as_bytes()).number(ENUMERATED, scope).number(ENUMERATED, 0);
            to.number(INTEGER, 0).number(INTEGER, seconds).boolean(false);
            search.filter.write(to);
            to.nested(SEQUENCE, |to| {
                for attribute in search.attributes {
                    to.octets(attribute.as_bytes());
                }
            });
        });
        to.nested(CONTROLS, |to| {
            to.nested(SEQUENCE, |to| {
                let mut value = BerWriter::default();
                value.nested(SEQUENCE, |to| {
                    to.number(INTEGER, PAGE).octets(cookie);
                });
                to.octets(PAGED_RESULTS).boolean(search.scope == Scope::Subtree).octets(&value.finish());
            });
        });
    })
}

/// A request for TLS.
pub(super) fn start_tls(id: u32) -> Vec<u8> {
    message(id, |to| {
        to.nested(EXTENDED_REQUEST, |to| {
            to.element(REQUEST_NAME, START_TLS);
        });
    })
}

/// The farewell.
pub(super) fn unbind(id: u32) -> Vec<u8> {
    message(id, |to| {
        to.element(UNBIND_REQUEST, &[]);
    })
}

fn message(id: u32, write: impl FnOnce(&mut BerWriter)) -> Vec<u8> {
    let mut message = BerWriter::default();
    message.nested(SEQUENCE, |to| {
        to.number(INTEGER, id);
        write(to);
    });
    message.finish()
}

/// The end of an operation (RFC 4511 section 4.1.9).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LdapResult {
    /// 0 for success.
    pub code: u32,
    /// The server's explanation.
    pub text: String,
}

/// An entry of a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LdapEntry {
    /// The distinguished name.
    pub name: String,
    /// The attributes with their values.
    pub attributes: Vec<(String, Vec<Vec<u8>>)>,
}

impl LdapEntry {
    /// The values of an attribute. Names are compared without case.
    #[must_use]
    pub fn values(&self, attribute: &str) -> &[Vec<u8>] {
        let found = self.attributes.iter().find(|(name, _)| name.eq_ignore_ascii_case(attribute));
        found.map(|(_, values)| values.as_slice()).unwrap_or_default()
    }

    /// The first value of an attribute as text.
    #[must_use]
    pub fn text(&self, attribute: &str) -> Option<&str> {
        self.values(attribute).first().and_then(|value| std::str::from_utf8(value).ok())
    }

    /// The first value of an attribute as a number. Directories write numbers above 2^31 as negative ones.
    #[must_use]
    pub fn number(&self, attribute: &str) -> Option<u32> {
        let value: i64 = self.text(attribute)?.parse().ok()?;
        u32::try_from(value).ok().or_else(|| i32::try_from(value).ok().map(i32::cast_unsigned))
    }
}

/// The number of the first value after those of an attribute that was returned as a range, such as
/// `member;range=0-1499`; none: it was not, or the range is the last one (`member;range=1500-*`).
pub(super) fn rest_of_range(found: &str, attribute: &str) -> Option<u32> {
    let (name, option) = found.split_once(';')?;
    let (kind, range) = option.split_once('=')?;
    let (_, last) = range.split_once('-')?;
    let is_range = name.eq_ignore_ascii_case(attribute) && kind.eq_ignore_ascii_case("range");
    last.parse::<u32>().ok().filter(|_| is_range)?.checked_add(1)
}

/// A message of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// A turn of a bind, with the mechanism's token.
    Bind(LdapResult, Option<Vec<u8>>),
    /// An entry.
    Entry(LdapEntry),
    /// A pointer to another server, which is not followed.
    Reference,
    /// The end of a page, with the cookie for the next one.
    Done(LdapResult, Vec<u8>),
    /// The end of an extended operation.
    Extended(LdapResult),
    /// Any other message.
    Other,
}

/// Reads a message of the server: the number of the request, and the reply.
///
/// # Errors
/// [`BerError`].
pub fn parse(message: &[u8]) -> Result<(u32, Reply), BerError> {
    let mut message = BerReader::new(message).inner(SEQUENCE)?;
    let id = message.number(INTEGER)?;
    let (tag, content) = message.element()?;
    let mut content = BerReader::new(content);
    let reply = match tag {
        BIND_RESPONSE => {
            let result = result(&mut content)?;
            let mut token = None;
            while !content.is_empty() {
                if let (SERVER_CREDENTIALS, bytes) = content.element()? {
                    token = Some(bytes.to_vec());
                }
            }
            Reply::Bind(result, token)
        }
        SEARCH_ENTRY => Reply::Entry(entry(&mut content)?),
        EXTENDED_RESPONSE => Reply::Extended(result(&mut content)?),
        SEARCH_REFERENCE => Reply::Reference,
        SEARCH_DONE => Reply::Done(result(&mut content)?, cookie(&mut message)?),
        _ => Reply::Other,
    };
    Ok((id, reply))
}

fn result(from: &mut BerReader<'_>) -> Result<LdapResult, BerError> {
    let code = from.number(ENUMERATED)?;
    from.expect(OCTETS)?;
    let text = String::from_utf8_lossy(from.expect(OCTETS)?).into_owned();
    Ok(LdapResult { code, text })
}

fn entry(from: &mut BerReader<'_>) -> Result<LdapEntry, BerError> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| BerError::Form);
    let name = text(from.expect(OCTETS)?)?;
    let mut list = from.inner(SEQUENCE)?;
    let mut attributes = Vec::new();
    while !list.is_empty() {
        let mut attribute = list.inner(SEQUENCE)?;
        let name = text(attribute.expect(OCTETS)?)?;
        let mut set = attribute.inner(SET)?;
        let mut values = Vec::new();
        while !set.is_empty() {
            values.push(set.expect(OCTETS)?.to_vec());
        }
        attributes.push((name, values));
    }
    Ok(LdapEntry { name, attributes })
}

/// The cookie of the control of paged results; empty without one, or at the last page.
fn cookie(message: &mut BerReader<'_>) -> Result<Vec<u8>, BerError> {
    if message.tag() != Some(CONTROLS) {
        return Ok(Vec::new());
    }
    let mut controls = message.inner(CONTROLS)?;
    while !controls.is_empty() {
        let mut control = controls.inner(SEQUENCE)?;
        if control.expect(OCTETS)? != PAGED_RESULTS {
            continue;
        }
        // The criticality may stand before the value.
        while !control.is_empty() {
            if let (OCTETS, value) = control.element()? {
                let mut value = BerReader::new(value).inner(SEQUENCE)?;
                value.number(INTEGER)?;
                return Ok(value.expect(OCTETS)?.to_vec());
            }
        }
    }
    Ok(Vec::new())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::ber::message_length;
    use super::*;

    #[test]
    fn requests_are_the_bytes_of_the_standard() {
        assert_eq!(unbind(3), [0x30, 5, 2, 1, 3, 0x42, 0]);
        assert_eq!(start_tls(1), *b"\x30\x1d\x02\x01\x01\x77\x18\x80\x161.3.6.1.4.1.1466.20037");
        let bound = bind(1, "GSSAPI", Some(b"t"));
        assert_eq!(bound[..12], [0x30, 0x17, 2, 1, 1, 0x60, 0x12, 2, 1, 3, 4, 0]);
        assert_eq!(&bound[12..], b"\xa3\x0b\x04\x06GSSAPI\x04\x01t");
        assert_eq!(message_length(&bound), Ok(Some(bound.len())));
    }

    #[test]
    fn numbers_keep_their_sign() {
        let number = |value: u32| {
            let mut to = BerWriter::default();
            to.number(INTEGER, value);
            to.finish()
        };
        assert_eq!(
            (number(0), number(127), number(128)),
            (vec![2, 1, 0], vec![2, 1, 127], vec![2, 2, 0, 128])
        );
        for value in [0, 1, 255, 256, 65_535, 1 << 31, u32::MAX] {
            assert_eq!(BerReader::new(&number(value)).number(INTEGER), Ok(value));
        }
        assert_eq!(BerReader::new(&[2, 1, 0x80]).number(INTEGER), Err(BerError::Form));
        let entry = |text: &[u8]| LdapEntry {
            attributes: vec![("uidNumber".to_owned(), vec![text.to_vec()])],
            ..LdapEntry::default()
        };
        assert_eq!(entry(b"-1").number("UIDNUMBER"), Some(u32::MAX));
        assert_eq!((entry(b"4294967296").number("uidNumber"), entry(b"x").number("uidNumber")), (None, None));
    }

    /// A page with one entry and its end, as a server writes them.
    fn page() -> (Vec<u8>, Vec<u8>) {
        let entry = message(7, |to| {
            to.nested(SEARCH_ENTRY, |to| {
                to.octets(b"CN=bob");
                to.nested(SEQUENCE, |to| {
                    to.nested(SEQUENCE, |to| {
                        to.octets(b"objectSid").nested(SET, |to| {
                            to.octets(&[1, 2]).octets(&[3; 200]);
                        });
                    });
                });
            });
        });
        let done = message(7, |to| {
            to.nested(SEARCH_DONE, |to| {
                to.number(ENUMERATED, 0).octets(b"").octets(b"fine");
            });
            to.nested(CONTROLS, |to| {
                to.nested(SEQUENCE, |to| {
                    let mut value = BerWriter::default();
                    value.nested(SEQUENCE, |to| {
                        to.number(INTEGER, 0).octets(b"next");
                    });
                    to.octets(PAGED_RESULTS).boolean(false).octets(&value.finish());
                });
            });
        });
        (entry, done)
    }

    #[test]
    fn a_page_is_read() {
        let (entry, done) = page();
        let (id, Reply::Entry(bob)) = parse(&entry).unwrap() else { panic!("no entry") };
        assert_eq!((id, bob.name.as_str()), (7, "CN=bob"));
        assert_eq!(bob.values("OBJECTSID"), [vec![1, 2], vec![3; 200]]);
        let result = LdapResult { code: 0, text: "fine".to_owned() };
        assert_eq!(parse(&done), Ok((7, Reply::Done(result, b"next".to_vec()))));
    }

    #[test]
    fn a_range_says_where_it_goes_on() {
        let rest = |found| rest_of_range(found, "member");
        assert_eq!((rest("member;range=0-1499"), rest("Member;Range=1500-2999")), (Some(1500), Some(3000)));
        for none in [
            "member",
            "member;range=1500-*",
            "memberOf;range=0-9",
            "member;binary",
            "member;range=0-4294967295",
        ] {
            assert_eq!(rest(none), None, "{none}");
        }
    }

    proptest! {
        #[test]
        fn hostile_messages_never_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..64),
            at in 0..300usize,
            cut in 0..300usize,
        ) {
            let _ = parse(&bytes);
            let _ = message_length(&bytes);
            let (entry, done) = page();
            for mut message in [entry, done] {
                let end = (at + bytes.len()).min(message.len());
                if at < end {
                    message[at..end].copy_from_slice(&bytes[..end - at]);
                }
                let _ = parse(&message);
                let _ = parse(&message[..cut.min(message.len())]);
            }
        }
    }
}
