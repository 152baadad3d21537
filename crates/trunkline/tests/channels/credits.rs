//! A server that never grants more than a few credits makes the client slower, but no operation fails.

use std::sync::Arc;

use client::smb::{ChannelOptions, OpenOptions, Options, Settings, Tree};
use smb_wire::NtStatus;
use smb_wire::create::{Access, Disposition};
use testkit::channels::log_on;
use testkit::samba::USER;

use crate::MultichannelServer;

/// Fewer than any compound needs, and fewer than a block of 1 MiB.
const FEW: [u32; 4] = [1, 2, 3, 8];
const MIB: usize = 1 << 20;

fn few(credits: u32) -> MultichannelServer {
    MultichannelServer::start(&format!("[server.testing]\nmax_credits = {credits}"))
}

fn content() -> Vec<u8> {
    (0..MIB as u32).map(|at| (at % 253) as u8).collect()
}

/// Creates a file, and writes and reads it in blocks, with several requests at once.
async fn blocks(server: &MultichannelServer, tree: &Tree) {
    let (block, how) = (Arc::new(content()), OpenOptions::file(Disposition::OverwriteIf));
    let file = Arc::new(tree.open("blocks", &how).await.unwrap());
    let tasks = (0..4).map(|number| {
        let (file, block) = (Arc::clone(&file), Arc::clone(&block));
        tokio::spawn(async move {
            let at = number * MIB as u64;
            assert_eq!(file.write(at, &block).await.unwrap() as usize, MIB);
            assert!(*file.read(at, MIB as u32).await.unwrap() == **block, "{number}");
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    assert_eq!(file.read(4 * MIB as u64 - 100_000, MIB as u32).await.unwrap().len(), 100_000);
    assert!(file.read(4 * MIB as u64, MIB as u32).await.unwrap().is_empty());
    let stored = std::fs::read(server.files().join("blocks")).unwrap();
    assert!(stored.chunks(MIB).all(|chunk| chunk == *block) && stored.len() == 4 * MIB);
    Arc::into_inner(file).unwrap().close().await.unwrap();
}

/// Creates, examines, reads, renames and deletes whole files. Each of these needs one round trip elsewhere.
async fn whole_files(server: &MultichannelServer, tree: &Tree) {
    let (block, path) = (content(), server.files());
    let how = OpenOptions::file(Disposition::Create);
    let making = OpenOptions { access: how.access | Access::DELETE, ..how };
    tree.put("put", &how, &block).await.unwrap();
    assert_eq!(tree.stat("put").await.unwrap().end_of_file, MIB as u64);
    tree.deliver("part", "delivered", &making, &block, Settings::default()).await.unwrap();
    let staged = tree.stage("staged", &making, &block, Settings::default()).await.unwrap();
    staged.close_as("renamed").await.unwrap();
    for name in ["put", "delivered", "renamed"] {
        assert!(std::fs::read(path.join(name)).unwrap() == block, "{name}");
        let fetched = tree.fetch(name, 2 * MIB as u32, true).await.unwrap();
        assert!(*fetched.data == *block && fetched.info.end_of_file == MIB as u64, "{name}");
    }
    assert!(tree.rename("put", "moved", Settings::default()).await.unwrap());
    let collision = tree.deliver("part", "moved", &making, b"x", Settings::default()).await;
    assert_eq!(collision.unwrap_err().status(), Some(NtStatus::OBJECT_NAME_COLLISION));
    let missing = tree.stat("put").await.unwrap_err();
    assert_eq!(missing.status(), Some(NtStatus::OBJECT_NAME_NOT_FOUND));
    for name in ["moved", "delivered", "renamed"] {
        tree.touch(name, &OpenOptions::delete()).await.unwrap();
    }
    // A part of the refused request may have been done, as with many credits.
    let _ = tree.touch("part", &OpenOptions::delete()).await;
    assert_eq!(std::fs::read_dir(&path).unwrap().count(), 2, "all but `blocks` and `many`");
}

async fn everything(server: &MultichannelServer, tree: &Tree) {
    blocks(server, tree).await;
    let many = server.files().join("many");
    std::fs::create_dir_all(&many).unwrap();
    for number in 0..1000 {
        std::fs::write(many.join(format!("a name of some length {number}")), "").unwrap();
    }
    let directory = tree.open("many", &OpenOptions::directory(Disposition::Open)).await.unwrap();
    assert_eq!(directory.list("*").await.unwrap().len(), 1000);
    directory.close().await.unwrap();
    whole_files(server, tree).await;
}

#[tokio::test]
async fn all_that_a_client_does_works_with_few_credits() {
    for credits in FEW {
        let server = few(credits);
        let (session, tree) = log_on(server.address, &Options::default(), false).await;
        everything(&server, &tree).await;
        let carried = || session.channels()[0].bytes as usize;
        let file = tree.open("blocks", &OpenOptions::read()).await.unwrap();
        let before = carried();
        file.read(0, MIB as u32).await.unwrap();
        assert!((MIB..MIB + 64 * 1024).contains(&(carried() - before)), "each byte counts once");
        assert_eq!(session.channels()[0].most_credits, Some(credits));
        session.log_off().await.unwrap();
    }
}

#[tokio::test]
async fn all_that_a_client_does_works_with_few_credits_on_each_of_several_channels() {
    let server = few(2);
    let (session, tree) = log_on(server.address, &Options::default(), true).await;
    let options = ChannelOptions { channels: 3, use_all: true, ..ChannelOptions::default() };
    assert_eq!(session.open_channels(&options).await.unwrap().channels, 3);
    everything(&server, &tree).await;
    session.log_off().await.unwrap();
}

#[test]
fn a_load_says_that_its_blocks_went_in_parts() {
    for credits in [1, 8] {
        let server = few(credits);
        let line = format!(
            "load smb://{}@{}/files/loaded --password-file password --bs 1m --filesize 4m --numjobs 1 \
             --iodepth 2 --rw randread --number-ios 8",
            USER.0, server.address
        );
        let said = server.program.run(&format!("{line} --json")).success().get_output().stdout.clone();
        let json: serde_json::Value = serde_json::from_slice(&said).unwrap();
        let ours = &json["jobs"][0]["trunkline"];
        assert_eq!(ours["size_times_iops_holds"], true, "{ours:#}");
        assert_eq!(ours["channels"][0]["most_credits"], credits, "{ours:#}");
        let said = server.program.run(&line).success().get_output().stdout.clone();
        let said = String::from_utf8(said).unwrap();
        let wanted = format!("the server grants {credits} credits at once");
        assert!(said.contains(&wanted), "{said}");
    }
}
