//! Logs on to an SMB server, opens channels, reads a file over all of them and prints what each has carried.
//!
//! ```text
//! TRUNKLINE_PASSWORD=… cargo run -p trunkline-client --example channels -- ann@192.0.2.7 files big.iso 4
//! ```

use std::collections::VecDeque;
use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;

use client::smb::{ChannelOptions, Connection, Credentials, File, OpenOptions, Options, Session};
use client::written::{host_and_port, login};

/// Bytes of each read, and how many of them are under way at once.
const BLOCK: u32 = 1 << 20;
const DEPTH: usize = 16;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let [target, share, path, channels] = words[..] else {
        eprintln!("channels: USER@HOST[:PORT] SHARE FILE CHANNELS");
        return ExitCode::from(2);
    };
    match run(target, share, path, channels).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("channels: {why}");
            ExitCode::FAILURE
        }
    }
}

async fn run(target: &str, share: &str, path: &str, channels: &str) -> Result<(), Box<dyn Error>> {
    let (who, host) = target.rsplit_once('@').ok_or("write USER@HOST")?;
    let (domain, user) = login(who)?;
    let (host, port) = host_and_port(host, 445)?;
    let password = std::env::var("TRUNKLINE_PASSWORD").map_err(|_| "set TRUNKLINE_PASSWORD")?;
    let credentials = Credentials { domain: domain.to_owned(), ..Credentials::new(user, &password) };

    let connection = Connection::connect((host.as_str(), port), &host, &Options::default()).await?;
    let session = Session::log_on(&connection, &credentials, false).await?;
    let options = ChannelOptions { channels: channels.parse()?, ..ChannelOptions::default() };
    let opened = session.open_channels(&options).await?;
    if let Some(why) = opened.failure {
        eprintln!("channels: only {}, since {why}", opened.channels);
    }

    let tree = session.connect(share).await?;
    let file = Arc::new(tree.open(path, &OpenOptions::read()).await?);
    let bytes = read(&file).await?;
    println!("{path}: {bytes} bytes");
    for channel in session.channels() {
        println!(
            "{} to {}: {} requests, {} bytes received, a round trip of {:?}",
            channel.local,
            channel.peer,
            channel.requests,
            channel.traffic.received,
            channel.traffic.round_trip
        );
    }
    Arc::into_inner(file).ok_or("somebody still reads")?.close().await?;
    session.log_off().await?;
    Ok(())
}

/// Reads the file, several blocks at once, which is what lets channels gain anything. Answers how long it is.
async fn read(file: &Arc<File>) -> client::Result<u64> {
    let (mut under_way, mut bytes) = (VecDeque::new(), 0);
    let length = file.info().end_of_file;
    for offset in (0..length).step_by(BLOCK as usize) {
        if under_way.len() == DEPTH {
            bytes += next(&mut under_way).await?;
        }
        let file = Arc::clone(file);
        under_way.push_back(tokio::spawn(async move {
            // A server may read less at once than was asked for.
            let end = length.min(offset + u64::from(BLOCK));
            let mut at = offset;
            while at < end {
                match file.read(at, (end - at) as u32).await?.len() {
                    0 => break,
                    count => at += count as u64,
                }
            }
            Ok(at - offset)
        }));
    }
    while !under_way.is_empty() {
        bytes += next(&mut under_way).await?;
    }
    Ok(bytes)
}

/// Waits for the oldest of the reads.
async fn next(under_way: &mut VecDeque<tokio::task::JoinHandle<client::Result<u64>>>) -> client::Result<u64> {
    match under_way.pop_front() {
        Some(reading) => reading.await.unwrap_or(Err(client::Error::Closed)),
        None => Ok(0),
    }
}
