//! Tokens that MIT's library must refuse, with a keytab that this test writes: each has its cause, and no
//! bytes get in. Without the library there is nothing to test, and its absence is named.

use std::path::Path;
use std::sync::Arc;

use kerberos::{Accepted, AcceptorContext, AcceptorCredentials, Cause, EncryptionType, GssError, Library};
use proptest::prelude::*;

const REALM: &str = "TEST.NET";
/// The version of the keys in the keytab.
const KEY_VERSION: u8 = 3;

/// One element of DER.
fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let len = u16::try_from(content.len()).expect("it is short").to_be_bytes();
    match content.len() {
        0..=0x7f => [&[tag, len[1]][..], content].concat(),
        0x80..=0xff => [&[tag, 0x81, len[1]][..], content].concat(),
        _ => [&[tag, 0x82, len[0], len[1]][..], content].concat(),
    }
}

fn number(value: u8) -> Vec<u8> {
    der(0x02, &[value])
}

fn fields(fields: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let fields: Vec<Vec<u8>> = fields.iter().map(|(number, content)| der(0xa0 | number, content)).collect();
    der(0x30, &fields.concat())
}

/// An AP-REQ (RFC 4120 section 5.5.1) for `cifs/HOST` whose encrypted parts are noise.
fn request(host: &str, kind: EncryptionType, version: u8) -> Vec<u8> {
    let kind = u8::try_from(kind.number()).expect("a small number");
    let text = |text: &str| der(0x1b, text.as_bytes());
    let name = fields(&[(0, number(2)), (1, der(0x30, &[text("cifs"), text(host)].concat()))]);
    let secret = fields(&[(0, number(kind)), (1, number(version)), (2, der(0x04, &[0x5a; 120]))]);
    let ticket = fields(&[(0, number(5)), (1, text(REALM)), (2, name), (3, secret.clone())]);
    let options = der(0x03, &[0, 0x20, 0, 0, 0]);
    let parts = [(0, number(5)), (1, number(14)), (2, options), (3, der(0x61, &ticket)), (4, secret)];
    let token =
        [&[0x06, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 1, 2, 2, 1, 0][..], &der(0x6e, &fields(&parts))];
    der(0x60, &token.concat())
}

/// A keytab (MIT's format, version 2) with a key of `cifs/box` and of one more host, of this version.
fn write_keytab(path: &Path, version: u8) {
    let mut bytes = vec![5, 2];
    let counted = |text: &str| {
        [&u16::try_from(text.len()).expect("it is short").to_be_bytes(), text.as_bytes()].concat()
    };
    for host in ["box", "other"] {
        for kind in [EncryptionType::Aes256Sha1, EncryptionType::Rc4] {
            let mut entry = 2_u16.to_be_bytes().to_vec();
            for text in [REALM, "cifs", host] {
                entry.extend(counted(text));
            }
            // Name type, time stamp, key version, type and length of the key.
            entry.extend([0, 0, 0, 1, 0, 0, 0, 0, version]);
            let len = if kind == EncryptionType::Rc4 { 16_u16 } else { 32 };
            entry.extend(u16::try_from(kind.number()).expect("a small number").to_be_bytes());
            entry.extend(len.to_be_bytes());
            entry.extend(vec![0x42; len.into()]);
            bytes.extend(i32::try_from(entry.len()).expect("it is short").to_be_bytes());
            bytes.extend(entry);
        }
    }
    std::fs::write(path, bytes).expect("the keytab is written");
}

/// Runs a test with the credentials of the keytab, unless this host lacks the library.
fn with_credentials(test: impl FnOnce(&Arc<AcceptorCredentials>, &Path)) {
    let library = match Library::load() {
        Ok(library) => library,
        Err(why) => return eprintln!("not tested: {why}"),
    };
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (keytab, cache) = (directory.path().join("keytab"), directory.path().join("cache"));
    let missing = AcceptorCredentials::new(&library, &keytab, &cache, &EncryptionType::AES);
    assert_eq!(missing.expect_err("it is missing").cause(), Cause::NoKeytab);
    write_keytab(&keytab, KEY_VERSION);
    let credentials = AcceptorCredentials::new(&library, &keytab, &cache, &EncryptionType::AES);
    test(&Arc::new(credentials.expect("the keytab can be read")), &keytab);
}

fn refusal(credentials: &Arc<AcceptorCredentials>, token: &[u8]) -> GssError {
    match AcceptorContext::new(credentials).step(token) {
        Err(why) => why,
        Ok(Accepted::Continue(_)) => panic!("the library goes on with {token:02x?}"),
        Ok(Accepted::Done { client, .. }) => panic!("{client:?} was let in with {token:02x?}"),
    }
}

#[test]
fn every_kind_of_bad_ticket_has_its_cause() {
    with_credentials(|credentials, _| {
        let aes = EncryptionType::Aes256Sha1;
        for (token, cause) in [
            (request("box", aes, KEY_VERSION), Cause::WrongKey),
            (request("nobody", aes, KEY_VERSION), Cause::NoSuchService),
            (request("box", aes, KEY_VERSION + 1), Cause::NoSuchKey),
            (request("box", EncryptionType::Aes128Sha2, KEY_VERSION), Cause::NoSuchKey),
            (request("box", EncryptionType::Rc4, KEY_VERSION), Cause::ForbiddenType),
            (request("box", EncryptionType::Other(1), KEY_VERSION), Cause::ForbiddenType),
            (Vec::new(), Cause::BadToken),
            (b"NTLMSSP\0".to_vec(), Cause::BadToken),
        ] {
            let why = refusal(credentials, &token);
            assert_eq!(why.cause(), cause, "{why}");
        }
    });
}

#[test]
fn no_cut_or_changed_bytes_get_in() {
    with_credentials(|credentials, _| {
        let good = request("box", EncryptionType::Aes256Sha1, KEY_VERSION);
        for length in 0..good.len() {
            refusal(credentials, &good[..length]);
        }
        let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(2000));
        let changes = proptest::collection::vec((0..good.len(), any::<u8>()), 1..4);
        let outcome = runner.run(&changes, |changes| {
            let mut token = good.clone();
            changes.iter().for_each(|(at, value)| token[*at] = *value);
            refusal(credentials, &token);
            Ok(())
        });
        outcome.expect("no token gets in");
    });
}

#[test]
fn a_keytab_that_changes_counts_at_once() {
    with_credentials(|credentials, keytab| {
        let cause =
            |version| refusal(credentials, &request("box", EncryptionType::Aes256Sha1, version)).cause();
        let next = KEY_VERSION + 1;
        assert_eq!((cause(KEY_VERSION), cause(next)), (Cause::WrongKey, Cause::NoSuchKey));
        // In place, as `ktadd` does, and as long as before.
        write_keytab(keytab, next);
        assert_eq!((cause(KEY_VERSION), cause(next)), (Cause::NoSuchKey, Cause::WrongKey));
        // By another file, as `trunkline domain renew` does.
        let other = keytab.with_extension("new");
        write_keytab(&other, KEY_VERSION);
        std::fs::rename(&other, keytab).expect("the keytab is replaced");
        assert_eq!((cause(KEY_VERSION), cause(next)), (Cause::WrongKey, Cause::NoSuchKey));
        std::fs::remove_file(keytab).expect("the keytab is removed");
        assert_eq!(cause(KEY_VERSION), Cause::NoKeytab);
        write_keytab(keytab, next);
        assert_eq!((cause(KEY_VERSION), cause(next)), (Cause::NoSuchKey, Cause::WrongKey));
    });
}
