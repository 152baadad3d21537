//! Checks of a session with several channels, for any server: all channels carry requests, and no operation
//! fails when one of them is lost.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use client::smb::{ChannelOptions, Connection, Credentials, File, OpenOptions, Options, Session, Tree};
use smb_wire::NtStatus;
use smb_wire::create::Disposition;

use crate::proxy::{Proxy, until};
use crate::samba::USER;

/// A session at `first`, and its share `files`.
pub async fn log_on(first: SocketAddr, options: &Options, encrypt: bool) -> (Session, Tree) {
    let connection = Connection::connect(first, "127.0.0.1", options).await.unwrap();
    let session = Session::log_on(&connection, &Credentials::new(USER.0, USER.1), encrypt).await.unwrap();
    let tree = session.connect("files").await.unwrap();
    (session, tree)
}

/// Checks that a session with four channels, which it finds by itself, sends requests over all of them.
pub async fn spread_over_four(
    server: SocketAddr,
    files: &Path,
    options: &Options,
    encrypt: bool,
    name: &str,
) {
    let (session, tree) = log_on(server, options, encrypt).await;
    let opened = session.open_channels(&ChannelOptions::default()).await.unwrap();
    assert_eq!((opened.channels, opened.failure.map(|it| it.to_string())), (4, None), "{name}");
    let file = Arc::new(tree.open(name, &OpenOptions::file(Disposition::Create)).await.unwrap());
    const BLOCK: usize = 64 * 1024;
    let tasks: Vec<_> = (0..32_u8)
        .map(|block| {
            let file = Arc::clone(&file);
            tokio::spawn(async move { put(&file, block.into(), &[block; BLOCK]).await })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let tasks: Vec<_> = (0..32_u8)
        .map(|block| {
            let file = Arc::clone(&file);
            tokio::spawn(async move { get(&file, block.into(), BLOCK).await == [block; BLOCK] })
        })
        .collect();
    for (block, task) in tasks.into_iter().enumerate() {
        assert!(task.await.unwrap(), "{name}: block {block}");
    }
    for (at, channel) in session.channels().iter().enumerate() {
        assert!(channel.bytes > BLOCK as u64, "{name}: channel {at} carried {} bytes", channel.bytes);
    }
    let content = std::fs::read(files.join(name)).unwrap();
    assert!(content.chunks(BLOCK).enumerate().all(|(at, block)| block == [at as u8; BLOCK]), "{name}");
    Arc::into_inner(file).unwrap().close().await.unwrap();
    session.log_off().await.unwrap();
}

async fn put(file: &File, block: u64, data: &[u8]) {
    let from = block * data.len() as u64;
    let mut done = 0;
    while done < data.len() {
        done += file.write(from + done as u64, &data[done..]).await.unwrap() as usize;
    }
}

async fn get(file: &File, block: u64, length: usize) -> Vec<u8> {
    let from = block * length as u64;
    let mut data = Vec::new();
    while data.len() < length {
        let part = file.read(from + data.len() as u64, (length - data.len()) as u32).await.unwrap();
        assert!(!part.is_empty());
        data.extend_from_slice(&part);
    }
    data
}

/// Runs `work` on four workers with their own files, while the four paths are cut in turn, `cuts` times.
async fn cut_while<T, Fut>(
    server: SocketAddr,
    cuts: usize,
    work: impl Fn((Session, Tree), u64, Arc<AtomicBool>) -> Fut,
) -> Vec<T>
where
    T: Send + 'static,
    Fut: Future<Output = T> + Send + 'static,
{
    let mut ways = Vec::new();
    for _ in 0..4 {
        ways.push(Proxy::start(server).await);
    }
    let (session, tree) = log_on(ways[0].address, &Options::default(), false).await;
    let channels = ChannelOptions {
        channels: 4,
        addresses: ways[1..].iter().map(|way| way.address).collect(),
        reopen_after: Duration::from_millis(5),
        ..ChannelOptions::default()
    };
    let opened = session.open_channels(&channels).await.unwrap();
    assert_eq!((opened.channels, opened.failure.map(|it| it.to_string())), (4, None));
    let over = Arc::new(AtomicBool::new(false));
    let workers: Vec<_> = (0..4)
        .map(|number| tokio::spawn(work((session.clone(), tree.clone()), number, Arc::clone(&over))))
        .collect();
    for cut in 0..cuts {
        until("all channels are back", || session.channels().len() == 4).await;
        let losses = session.losses();
        let way = &ways[cut % ways.len()];
        until("there is something to cut", || way.cut()).await;
        until("the loss is noticed", || session.losses() > losses).await;
    }
    over.store(true, Ordering::Relaxed);
    let mut done = Vec::new();
    for worker in workers {
        done.push(worker.await.unwrap());
    }
    session.log_off().await.unwrap();
    done
}

/// Checks that writes, reads and flushes do not fail while channels are cut, and that every byte is there
/// afterwards.
pub async fn no_byte_is_lost(server: SocketAddr, files: &Path, cuts: usize) {
    let rounds = cut_while(server, cuts, write_and_read).await;
    for (number, last) in rounds.into_iter().enumerate() {
        let content = std::fs::read(files.join(format!("bytes.{number}"))).unwrap();
        for (block, data) in content.chunks(BLOCK).enumerate() {
            assert!(data == content_of(number as u64, block as u64, last), "{number}: block {block}");
        }
        assert_eq!(content.len(), BLOCK * BLOCKS as usize);
    }
}

/// Checks that creating and deleting files does not fail while channels are cut: no request is executed
/// twice.
pub async fn no_name_is_done_twice(server: SocketAddr, files: &Path, cuts: usize) {
    cut_while(server, cuts, make_and_delete).await;
    let left = std::fs::read_dir(files).unwrap().flatten();
    let left: Vec<_> =
        left.map(|it| it.file_name()).filter(|it| it.to_string_lossy().contains("name")).collect();
    assert!(left.is_empty(), "{left:?}");
}

const BLOCK: usize = 100_000;
const BLOCKS: u64 = 12;

fn content_of(number: u64, block: u64, round: u64) -> Vec<u8> {
    let mut state = (number << 40 | block << 20 | round).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(BLOCK).collect()
}

/// Writes a file repeatedly, each round with other content, and reads it back. Returns the last round.
async fn write_and_read((_, tree): (Session, Tree), number: u64, over: Arc<AtomicBool>) -> u64 {
    let path = format!("bytes.{number}");
    let file = Arc::new(tree.open(&path, &OpenOptions::file(Disposition::OpenIf)).await.unwrap());
    let mut round = 0;
    loop {
        let is_last = over.load(Ordering::Relaxed);
        let each = |block| {
            let file = Arc::clone(&file);
            tokio::spawn(async move {
                put(&file, block, &content_of(number, block, round)).await;
                assert!(
                    get(&file, block, BLOCK).await == content_of(number, block, round),
                    "{number} {block}"
                );
            })
        };
        for task in (0..BLOCKS).map(each).collect::<Vec<_>>() {
            task.await.unwrap();
        }
        file.flush().await.unwrap();
        if is_last {
            break;
        }
        round += 1;
    }
    Arc::into_inner(file).unwrap().close().await.unwrap();
    round
}

/// The status for a deleted name. `is_repeated` says whether the client may have sent the request twice.
///
/// A client that loses a channel repeats the request over another one. The server may still receive or
/// process the first request after that: nothing shows that it is late, since MS-SMB2 3.3.5.2.10 does not
/// check requests without a FileId. That request has the file open for a moment, and the name exists until
/// then. Without a lost channel nobody has the file open.
/// has it open.
async fn refusal_of(tree: &Tree, name: &str, is_repeated: impl Fn() -> bool) -> Option<NtStatus> {
    let end = std::time::Instant::now() + Duration::from_secs(10);
    loop {
        let status = tree.stat(name).await.unwrap_err().status();
        let waits = status == Some(NtStatus::DELETE_PENDING) && is_repeated();
        if !waits || std::time::Instant::now() > end {
            return status;
        }
        tokio::task::yield_now().await;
    }
}

/// The result of a step. A failure is reported with the step, the name, and the number of lost channels.
async fn must<T>(
    session: &Session,
    step: &str,
    name: &str,
    done: impl Future<Output = client::Result<T>>,
) -> T {
    let before = session.losses();
    let done = done.await;
    let after = session.losses();
    done.unwrap_or_else(|error| {
        panic!("{step} {name}: {error:?}; channels lost before: {before}, by now: {after}")
    })
}

/// Creates and deletes one name after the other. Each must exist exactly as long as it should.
async fn make_and_delete((session, tree): (Session, Tree), number: u64, over: Arc<AtomicBool>) {
    for round in 0.. {
        if over.load(Ordering::Relaxed) {
            return;
        }
        let name = format!("name.{number}.{round}");
        let (how, delete) = (OpenOptions::file(Disposition::Create), OpenOptions::delete());
        must(&session, "make", &name, tree.put(&name, &how, b"once")).await;
        let losses = session.losses();
        let lost = || format!("{name}; channels lost before: {losses}, by now: {}", session.losses());
        assert_eq!(must(&session, "look at", &name, tree.stat(&name)).await.end_of_file, 4, "{}", lost());
        let there = tree.open(&name, &how).await.map(|_| "a second file").unwrap_err().status();
        assert_eq!(there, Some(NtStatus::OBJECT_NAME_COLLISION), "{}", lost());
        must(&session, "delete", &name, tree.touch(&name, &delete)).await;
        let refusal = refusal_of(&tree, &name, || session.losses() > losses).await;
        assert_eq!(refusal, Some(NtStatus::OBJECT_NAME_NOT_FOUND), "{}", lost());
        let file = must(&session, "make again", &name, tree.open(&name, &how)).await;
        must(&session, "write", &name, file.write(0, b"twice")).await;
        must(&session, "close", &name, file.close()).await;
        must(&session, "delete again", &name, tree.touch(&name, &delete)).await;
    }
}
