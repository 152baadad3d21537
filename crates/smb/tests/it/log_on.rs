//! Each form of log-on leads to a session in which a file can be written and read. Only the right password
//! does.

use auth::{Cipher, SigningAlgorithm};
use smb_wire::NtStatus;
use smb_wire::negotiate::Dialect;
use testkit::smb::{Dial, SmbTestServer};

#[test]
fn every_dialect_serves_a_file() {
    for dialect in [Dialect::Smb202, Dialect::Smb210, Dialect::Smb300, Dialect::Smb302, Dialect::Smb311] {
        for seals in [false, true] {
            let dial = Dial { seals, ..Dial::with(dialect) };
            if seals && dial.cipher.is_none() {
                continue;
            }
            let world = SmbTestServer::on_disk();
            let mut client = world.dial(&dial);
            client.make("hello", b"world");
            assert_eq!(std::fs::read(world.root().join("hello")).unwrap(), b"world");
            let id = client.open("HELLO");
            let answer = client.read(id, 1, 100);
            assert_eq!(answer.data(), b"orld");
            assert_eq!((answer.is_sealed, answer.is_signed), (seals, !seals), "{dialect:?}");
        }
    }
}

#[test]
fn every_algorithm_of_the_newest_dialect_protects() {
    use SigningAlgorithm::{AesCmac, AesGmac, HmacSha256};
    let ciphers = [Cipher::Aes128Ccm, Cipher::Aes128Gcm, Cipher::Aes256Ccm, Cipher::Aes256Gcm];
    for (signing, cipher) in
        [HmacSha256, AesCmac, AesGmac].into_iter().zip(ciphers).chain([(AesGmac, ciphers[3])])
    {
        for seals in [false, true] {
            let world = SmbTestServer::in_memory();
            let mut client = world.dial(&Dial { signing, cipher: Some(cipher), seals, ..Dial::default() });
            assert!(client.is_served(), "{signing:?} {cipher:?}");
        }
    }
}

#[test]
fn a_wrong_password_leaves_nothing_behind() {
    let world = SmbTestServer::in_memory();
    let mut peer = world.peer();
    let dial = Dial { password: "guess".into(), ..Dial::default() };
    assert_eq!(peer.negotiate(&dial).status(), NtStatus::SUCCESS);
    for _ in 0..3 {
        assert_eq!(peer.set_up_session(&dial, [0; 64]), NtStatus::LOGON_FAILURE);
    }
    assert!(world.server.sessions().is_empty());
    assert!(world.client().is_served());
}

// MS-SMB2 3.3.5.5.3
#[test]
fn a_client_has_one_dialect_as_long_as_it_has_connections() {
    let world = SmbTestServer::in_memory();
    let mut main = world.client();
    let older = Dial { guid: Dial::default().guid, ..Dial::with(Dialect::Smb302) };
    let mut peer = world.peer();
    let preauth = peer.negotiate_hashed(&older);
    assert_eq!(peer.set_up_session(&older, preauth), NtStatus::USER_SESSION_DELETED);
    assert_eq!(world.server.sessions().len(), 1);
    // In the oldest dialect a client has no id. Another client has its own.
    assert!(world.dial(&Dial { guid: older.guid, ..Dial::with(Dialect::Smb202) }).is_served());
    assert!(world.dial(&Dial { guid: Dial::elsewhere().guid, ..older.clone() }).is_served());
    assert!(main.is_served() && world.client().is_served());
    main.hang_up();
    peer.hang_up();
    assert!(world.dial(&older).is_served());
}
