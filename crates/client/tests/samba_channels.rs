//! Several channels to a foreign server: bound, used, lost and opened again.

use auth::SigningAlgorithm;
use client::smb::Options;
use smb_wire::negotiate::Dialect;
use testkit::channels;
use testkit::samba::Samba;

#[tokio::test]
async fn a_session_uses_four_channels_signed_and_sealed_in_every_dialect_that_has_them() {
    let Some(samba) = Samba::start("several channels") else { return };
    for dialect in [Dialect::Smb300, Dialect::Smb302, Dialect::Smb311] {
        for signing in [SigningAlgorithm::AesGmac, SigningAlgorithm::AesCmac] {
            let options = Options { dialects: vec![dialect], signing: vec![signing], ..Options::default() };
            let name = format!("{dialect:?}-{signing:?}");
            channels::spread_over_four(samba.address, &samba.files(), &options, false, &name).await;
        }
        let options = Options { dialects: vec![dialect], ..Options::default() };
        let name = format!("{dialect:?}-sealed");
        channels::spread_over_four(samba.address, &samba.files(), &options, true, &name).await;
    }
}

#[tokio::test]
async fn no_byte_is_lost_with_a_channel() {
    let Some(samba) = Samba::start("bytes over lost channels") else { return };
    channels::no_byte_is_lost(samba.address, &samba.files(), 24).await;
}

#[tokio::test]
async fn no_name_is_done_twice_when_a_channel_is_lost() {
    let Some(samba) = Samba::start("names over lost channels") else { return };
    channels::no_name_is_done_twice(samba.address, &samba.files(), 24).await;
}
