//! The directory against a small server in this process, with a layer that only turns bits.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use volume::security::Sid;

use super::ber::{BerReader, BerWriter, ENUMERATED, INTEGER, SEQUENCE, SET, message_length};
use super::connection::{SaslContext, SaslTurn};
use super::{DomainController, LdapDirectory, LdapDomains, LdapSettings, Locator};
use crate::clock::{Clock, ManualClock};
use crate::names::AccountKey;
use crate::source::{AccountSource, Resting, SilenceScope};

fn turned(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().map(|byte| !byte).collect()
}

/// A mechanism of one turn. Sealed messages begin with an `s`.
struct TurnedBits;

impl SaslContext for TurnedBits {
    fn step(&mut self, token: Option<&[u8]>) -> Result<SaslTurn, String> {
        match token {
            None => Ok(SaslTurn::Done(b"hello".to_vec())),
            Some(_) => Err("a second turn".to_owned()),
        }
    }
    fn wrap(&mut self, message: &[u8], seal: bool) -> Result<Vec<u8>, String> {
        Ok(if seal { [b"s".as_slice(), &turned(message)].concat() } else { message.to_vec() })
    }
    fn unwrap(&mut self, wrapped: &[u8]) -> Result<(Vec<u8>, bool), String> {
        Ok(match wrapped.split_first() {
            Some((b's', rest)) => (turned(rest), true),
            _ => (wrapped.to_vec(), false),
        })
    }
}

fn element(write: impl FnOnce(&mut BerWriter)) -> Vec<u8> {
    let mut to = BerWriter::default();
    write(&mut to);
    to.finish()
}

fn reply(id: u32, write: impl FnOnce(&mut BerWriter)) -> Vec<u8> {
    element(|to| {
        to.nested(SEQUENCE, |to| {
            to.number(INTEGER, id);
            write(to);
        });
    })
}

fn bind_reply(id: u32, code: u32, token: &[u8]) -> Vec<u8> {
    reply(id, |to| {
        to.nested(0x61, |to| {
            to.number(ENUMERATED, code).octets(b"").octets(b"").element(0x87, token);
        });
    })
}

fn entry(id: u32, name: &str, attributes: &[(&str, &[u8])]) -> Vec<u8> {
    reply(id, |to| {
        to.nested(0x64, |to| {
            to.octets(name.as_bytes()).nested(SEQUENCE, |to| {
                for (name, value) in attributes {
                    to.nested(SEQUENCE, |to| {
                        to.octets(name.as_bytes()).nested(SET, |to| {
                            to.octets(value);
                        });
                    });
                }
            });
        });
    })
}

fn done(id: u32, cookie: &[u8]) -> Vec<u8> {
    let value = element(|to| {
        to.nested(SEQUENCE, |to| {
            to.number(INTEGER, 0).octets(cookie);
        });
    });
    reply(id, |to| {
        to.nested(0x65, |to| {
            to.number(ENUMERATED, 0).octets(b"").octets(b"");
        });
        to.nested(0xa0, |to| {
            to.nested(SEQUENCE, |to| {
                to.octets(b"1.2.840.113556.1.4.319").octets(&value);
            });
        });
    })
}

fn sid_bytes(rid: u8) -> Vec<u8> {
    [&[1, 5, 0, 0, 0, 0, 0, 5, 21, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0], [rid, 4, 0, 0].as_slice()]
        .concat()
}

fn sid(rid: u32) -> Sid {
    Sid::new(5, &[21, 1, 2, 3, 0x400 + rid])
}

/// The next message of the client; none at the end of the connection.
fn receive(stream: &mut TcpStream, is_sealed: bool) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut one = [0];
    if is_sealed {
        let mut header = [0; 4];
        stream.read_exact(&mut header).ok()?;
        let mut wrapped = vec![0; u32::from_be_bytes(header) as usize];
        stream.read_exact(&mut wrapped).ok()?;
        assert_eq!(wrapped[0], b's', "a request without encryption");
        return Some(turned(&wrapped[1..]));
    }
    while message_length(&bytes).unwrap() != Some(bytes.len()) {
        stream.read_exact(&mut one).ok()?;
        bytes.push(one[0]);
    }
    Some(bytes)
}

/// Serves one connection: bind with layers, then a user in two pages with one group.
fn serve(mut stream: TcpStream, layers: u8) {
    let id_of = |message: &[u8]| BerReader::new(message).inner(SEQUENCE).unwrap().number(INTEGER).unwrap();
    let Some(message) = receive(&mut stream, false) else { return };
    stream.write_all(&bind_reply(id_of(&message), 14, &[layers, 0, 0xff, 0xff])).unwrap();
    let Some(message) = receive(&mut stream, false) else { return };
    if message[5] != 0x60 {
        return;
    }
    stream.write_all(&bind_reply(id_of(&message), 0, b"")).unwrap();
    while let Some(message) = receive(&mut stream, true) {
        let mut reader = BerReader::new(&message).inner(SEQUENCE).unwrap();
        let id = reader.number(INTEGER).unwrap();
        if reader.tag() != Some(0x63) {
            return;
        }
        let has = |text: &[u8]| message.windows(text.len()).any(|part| part == text);
        let replies = if has(b"tokenGroups;range=1-*") {
            [entry(id, "CN=bob", &[("tokenGroups;range=1-*", &sid_bytes(8))]), done(id, b"")].concat()
        } else if has(b"tokenGroups") {
            // A directory has no say about the administrators of this server.
            let builtin: &[u8] = &[1, 2, 0, 0, 0, 0, 0, 5, 32, 0, 0, 0, 32, 2, 0, 0];
            let first: &[(&str, &[u8])] =
                &[("tokenGroups;range=0-0", &sid_bytes(7)), ("tokenGroups", builtin)];
            [entry(id, "CN=bob", first), done(id, b"")].concat()
        } else if has(b"page two") {
            let bob: &[(&str, &[u8])] = &[
                ("sAMAccountName", b"bob"),
                ("objectSid", &sid_bytes(4)),
                ("primaryGroupID", b"513"),
                ("userAccountControl", b"514"),
                ("uidNumber", b"2000"),
            ];
            [entry(id, "CN=bob", bob), done(id, b"")].concat()
        } else {
            done(id, b"page two")
        };
        let wrapped = [b"s".as_slice(), &turned(&replies)].concat();
        let framed = [(wrapped.len() as u32).to_be_bytes().as_slice(), &wrapped].concat();
        // In two parts, as a network may deliver them.
        let (front, back) = framed.split_at(7);
        stream.write_all(front).unwrap();
        stream.write_all(back).unwrap();
    }
}

fn server(layers: u8) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            serve(stream, layers);
        }
    });
    address
}

struct Fixed(Vec<SocketAddr>, AtomicUsize);

impl Locator for Fixed {
    fn controllers(&self, _: Instant) -> Result<Vec<DomainController>, String> {
        let one = |(at, address): (usize, &SocketAddr)| DomainController {
            host: format!("dc{at}.corp.example"),
            address: *address,
        };
        Ok(self.0.iter().enumerate().map(one).collect())
    }
    fn log_on(&self, _: &str, _: Option<Vec<u8>>, _: Instant) -> Result<Box<dyn SaslContext>, String> {
        self.1.fetch_add(1, SeqCst);
        Ok(Box::new(TurnedBits))
    }
}

fn directory(addresses: Vec<SocketAddr>) -> (LdapDirectory, Arc<Fixed>) {
    let (directory, locator, _) = directory_and_clock(addresses);
    (directory, locator)
}

fn directory_and_clock(addresses: Vec<SocketAddr>) -> (LdapDirectory, Arc<Fixed>, Arc<ManualClock>) {
    let locator = Arc::new(Fixed(addresses, AtomicUsize::new(0)));
    let as_locator: Arc<dyn Locator> = Arc::<Fixed>::clone(&locator);
    let clock = Arc::new(ManualClock::default());
    let as_clock: Arc<dyn Clock> = Arc::<ManualClock>::clone(&clock);
    (
        LdapDirectory::new(
            LdapSettings::of_realm("corp.example", Some(Sid::new(5, &[21, 1, 2, 3]))),
            as_locator,
            as_clock,
        ),
        locator,
        clock,
    )
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(30)
}

#[test]
fn a_user_is_read_sealed_and_in_pages_over_one_connection() {
    let (directory, locator) = directory(vec![server(4)]);
    for _ in 0..2 {
        let bob = directory.users(&AccountKey::Sid(sid(4)), soon()).unwrap().remove(0);
        assert_eq!((bob.account.as_str(), bob.sid, bob.uid), ("bob", Some(sid(4)), Some(2000)));
        assert_eq!(bob.primary_group, Some(Sid::new(5, &[21, 1, 2, 3, 513])));
        assert!(bob.groups == [sid(7), sid(8)] && bob.disabled && bob.nested_included);
    }
    assert_eq!(locator.1.load(SeqCst), 1);
    // Names of other realms are not asked for.
    let other = AccountKey::in_realm(&"OTHER.EXAMPLE".into(), "bob");
    assert_eq!(directory.users(&other, soon()), Ok(vec![]));
}

#[test]
fn a_directory_speaks_for_the_accounts_of_its_own_domain_alone() {
    let locator = Arc::new(Fixed(vec![server(4)], AtomicUsize::new(0)));
    let settings = LdapSettings::of_realm("lab.example", Some(Sid::new(5, &[21, 4, 5, 6])));
    let directory = LdapDirectory::new(settings, locator, Arc::new(ManualClock::default()));
    // The server shows an account with a SID of another domain.
    assert_eq!(directory.users(&AccountKey::Id(2000), soon()), Ok(vec![]));
}

#[test]
fn a_trusted_domain_that_is_silent_has_no_answers_and_keeps_none_of_the_own_ones_away() {
    let lab = Sid::new(5, &[21, 4, 5, 6]);
    let clock = Arc::new(ManualClock::default());
    let as_clock: Arc<dyn Clock> = Arc::<ManualClock>::clone(&clock);
    let (own, _) = directory(vec![server(4)]);
    let nobody = Arc::new(Fixed(vec![], AtomicUsize::new(0)));
    let settings = LdapSettings::of_realm("lab.example", Some(lab));
    let trusted = LdapDirectory::new(settings, nobody, Arc::clone(&as_clock));
    let rest = Duration::from_secs(30);
    let both = LdapDomains::new(own, vec![trusted], &as_clock, rest);
    let resting = Resting::new(Arc::new(both), as_clock, rest);
    for rid in 1..5 {
        let key = AccountKey::Sid(lab.child(rid).unwrap());
        assert_eq!(resting.users(&key, soon()).unwrap_err().scope, SilenceScope::OtherDomain);
        assert!(resting.groups(&[key], soon()).is_err());
    }
    assert_eq!(resting.users(&AccountKey::Sid(sid(4)), soon()).unwrap().len(), 1);
}

#[test]
fn a_dead_controller_is_passed_over_and_rests() {
    let dead = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (directory, locator, clock) = directory_and_clock(vec![dead, server(4)]);
    assert_eq!(directory.users(&AccountKey::Id(2000), soon()).unwrap().len(), 1);
    // No ticket is asked for in vain.
    assert_eq!(locator.1.load(SeqCst), 1);
    // Further connections go to the living one at once, also when the rest is over.
    for (after_s, log_ons) in [(0, 2), (3600, 3)] {
        clock.advance(Duration::from_secs(after_s));
        crate::sync::lock(&directory.idle).clear();
        assert_eq!(directory.users(&AccountKey::Id(2000), soon()).unwrap().len(), 1);
        assert_eq!(locator.1.load(SeqCst), log_ons);
    }
}

#[test]
fn a_server_without_encryption_gives_nothing() {
    let (directory, _) = directory(vec![server(2)]);
    let silent = directory.users(&AccountKey::Id(2000), soon()).unwrap_err();
    assert!(silent.reason.contains("no encryption"), "{silent}");
    let (directory, _) = self::directory(vec![]);
    let silent = directory.users(&AccountKey::Id(2000), soon()).unwrap_err();
    assert!(silent.reason.contains("no domain controller"), "{silent}");
}
