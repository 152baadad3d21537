//! The client against a foreign server: every dialect, every way to sign, every cipher.

use auth::{Cipher, SigningAlgorithm};
use client::Error;
use client::smb::{Connection, Credentials, DIALECTS, OpenOptions, Options, Session, Tree};
use smb_wire::NtStatus;
use smb_wire::create::Disposition;
use smb_wire::negotiate::Dialect;
use testkit::samba::{Samba, USER};

fn quiet() -> Options {
    Options { require_signing: false, ..Options::default() }
}

async fn tree(samba: &Samba, options: &Options, encrypt: bool, share: &str) -> (Session, Tree) {
    let connection = Connection::connect(samba.address, "127.0.0.1", options).await.unwrap();
    let session = Session::log_on(&connection, &Credentials::new(USER.0, USER.1), encrypt).await.unwrap();
    let tree = session.connect(share).await.unwrap();
    (session, tree)
}

/// Everything that a file can do, checked from the server's side where that is possible.
async fn exercise(samba: &Samba, options: &Options, encrypt: bool, name: &str) {
    let (session, tree) = tree(samba, options, encrypt, "files").await;
    let path = format!("{name}/data.bin");
    tree.open(name, &OpenOptions::directory(Disposition::Create)).await.unwrap().close().await.unwrap();
    let file = tree.open(&path, &OpenOptions::file(Disposition::Create)).await.unwrap();
    let content: Vec<u8> = (0..300_000_u32).map(|at| (at / 7) as u8).collect();
    let mut at = 0;
    while at < content.len() {
        at += file.write(at as u64, &content[at..]).await.unwrap() as usize;
    }
    file.flush().await.unwrap();
    assert_eq!(std::fs::read(samba.files().join(&path)).unwrap(), content);

    // Many reads at once, of different sizes, whose answers must not be mixed up.
    let (file_of_all, content_of_all) = (&file, &content);
    let reads = (0..40_u64).map(|n| async move {
        let (file, content) = (file_of_all, content_of_all);
        let (offset, length) = (n * 7000, [1, 4096, 65536, 20_000][n as usize % 4]);
        let data = file.read(offset, length).await.unwrap();
        let from = offset as usize;
        let until = (from + length as usize).min(content.len());
        assert_eq!(*data, content[from..until], "{n}");
    });
    all(reads).await;
    assert!(file.read(300_000, 10).await.unwrap().is_empty());
    file.set_length(10).await.unwrap();
    assert_eq!(file.stat().await.unwrap().end_of_file, 10);
    file.close().await.unwrap();

    assert_eq!(tree.stat(&path).await.unwrap().end_of_file, 10);
    tree.put(&format!("{name}/put"), &OpenOptions::file(Disposition::Create), b"in one go").await.unwrap();
    assert_eq!(std::fs::read(samba.files().join(name).join("put")).unwrap(), b"in one go");
    let directory = tree.open(name, &OpenOptions::directory(Disposition::Open)).await.unwrap();
    let mut listed: Vec<_> = directory.list("*").await.unwrap();
    listed.sort_by(|a, b| a.name.cmp(&b.name));
    let listed: Vec<_> = listed.iter().map(|it| (it.name.as_str(), it.entry.end_of_file)).collect();
    assert_eq!(listed, [("data.bin", 10), ("put", 9)]);
    directory.close().await.unwrap();
    tree.touch(&path, &OpenOptions::delete()).await.unwrap();
    let gone = tree.stat(&path).await.unwrap_err();
    assert_eq!(gone.status(), Some(NtStatus::OBJECT_NAME_NOT_FOUND));
    tree.disconnect().await.unwrap();
    session.log_off().await.unwrap();
}

/// Polls all futures in one task until the last is done.
async fn all(futures: impl Iterator<Item = impl Future<Output = ()>>) {
    let mut futures: Vec<_> = futures.map(Box::pin).collect();
    std::future::poll_fn(|context| {
        futures.retain_mut(|it| it.as_mut().poll(context).is_pending());
        if futures.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

#[tokio::test]
async fn every_dialect_and_protection_works_against_samba() {
    let Some(samba) = Samba::start("every_dialect_and_protection_works_against_samba") else { return };
    for (index, dialect) in DIALECTS.into_iter().enumerate() {
        for require_signing in [false, true] {
            let options = Options { dialects: vec![dialect], require_signing, ..Options::default() };
            exercise(&samba, &options, false, &format!("dialect-{index}-{require_signing}")).await;
        }
    }
    let algorithms = [SigningAlgorithm::HmacSha256, SigningAlgorithm::AesCmac, SigningAlgorithm::AesGmac];
    for algorithm in algorithms {
        let options = Options { signing: vec![algorithm], ..Options::default() };
        exercise(&samba, &options, false, &format!("{algorithm:?}")).await;
    }
    for cipher in [Cipher::Aes128Ccm, Cipher::Aes128Gcm, Cipher::Aes256Ccm, Cipher::Aes256Gcm] {
        exercise(&samba, &Options { ciphers: vec![cipher], ..quiet() }, true, &format!("{cipher:?}")).await;
    }
    let smb302 = Options { dialects: vec![Dialect::Smb302], ..quiet() };
    exercise(&samba, &smb302, true, "sealed-302").await;
}

#[tokio::test]
async fn what_was_agreed_on_is_what_was_asked_for() {
    let Some(samba) = Samba::start("what_was_agreed_on_is_what_was_asked_for") else { return };
    let connection = Connection::connect(samba.address, "127.0.0.1", &Options::default()).await.unwrap();
    let negotiated = connection.negotiated();
    assert_eq!(negotiated.dialect, Dialect::Smb311);
    assert_eq!(negotiated.signing, SigningAlgorithm::AesGmac);
    assert_eq!(negotiated.cipher, Some(Cipher::Aes128Gcm));
    assert!(negotiated.max_read_size >= 1 << 20);
    connection.echo().await.unwrap();

    // A share that demands encryption gets it, though the session does not.
    let (_, sealed) = tree(&samba, &quiet(), false, "sealed").await;
    sealed.put("x", &OpenOptions::file(Disposition::Create), b"sealed").await.unwrap();
    let no_ciphers = Options { ciphers: Vec::new(), ..quiet() };
    let connection = Connection::connect(samba.address, "127.0.0.1", &no_ciphers).await.unwrap();
    let alice = Credentials::new(USER.0, USER.1);
    let session = Session::log_on(&connection, &alice, false).await.unwrap();
    let refused = session.connect("sealed").await.unwrap_err();
    assert_eq!(refused.status(), Some(NtStatus::ACCESS_DENIED), "{refused}");
    let unsealed = Session::log_on(&connection, &alice, true).await.unwrap_err();
    assert!(matches!(unsealed, Error::NotOffered("encryption")), "{unsealed}");
}

#[tokio::test]
async fn refusals_are_statuses_and_leave_the_connection_usable() {
    let Some(samba) = Samba::start("refusals_are_statuses_and_leave_the_connection_usable") else { return };
    let connection = Connection::connect(samba.address, "127.0.0.1", &Options::default()).await.unwrap();
    let wrong = Credentials::new(USER.0, "not her password");
    let refused = Session::log_on(&connection, &wrong, false).await.unwrap_err();
    assert_eq!(refused.status(), Some(NtStatus::LOGON_FAILURE), "{refused}");
    let session = Session::log_on(&connection, &Credentials::new(USER.0, USER.1), false).await.unwrap();
    let missing = session.connect("no-such-share").await.unwrap_err();
    assert_eq!(missing.status(), Some(NtStatus::BAD_NETWORK_NAME), "{missing}");
    let tree = session.connect("files").await.unwrap();
    let missing = tree.open("nothing", &OpenOptions::read()).await.unwrap_err();
    assert_eq!(missing.status(), Some(NtStatus::OBJECT_NAME_NOT_FOUND), "{missing}");
    // In a compound the later parts fail with the first, and the first is what is told.
    let missing = tree.stat("no/such/path").await.unwrap_err();
    assert_eq!(missing.status(), Some(NtStatus::OBJECT_PATH_NOT_FOUND), "{missing}");
    connection.echo().await.unwrap();
}
