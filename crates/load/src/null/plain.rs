//! The simple loop: it requests blocks from the null server as fast as it can, and does nothing else.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use client::written::size;
use serde_json::{Value, json};

use super::put_request;
use crate::Error;
use crate::cpu::Account;
use crate::random::Random;
use crate::units::time;

/// The options of the loop.
#[derive(Debug, Clone, clap::Args)]
pub struct LoopArgs {
    /// The null server
    #[arg(value_name = "HOST:PORT")]
    pub server: String,
    /// Bytes of one read
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "4k")]
    pub bs: u64,
    /// Requests that each connection keeps under way
    #[arg(
        long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=4096)
    )]
    pub iodepth: u32,
    /// Connections, each with a thread of its own
    #[arg(
        long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=1024)
    )]
    pub connections: u32,
    /// Bytes of the file that are read, at random
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "64m")]
    pub filesize: u64,
    /// Time to run
    #[arg(long, value_name = "SECONDS", value_parser = time, default_value = "10")]
    pub runtime: Duration,
}

/// Runs the loop. Returns operations, bytes, seconds and processor time as JSON.
///
/// # Errors
/// If the server cannot be reached, or if it ends a connection.
pub fn plain(args: &LoopArgs) -> Result<Value, Error> {
    let block = u32::try_from(args.bs).ok().filter(|bs| *bs <= super::MAX_LENGTH && args.bs <= args.filesize);
    let block = block.ok_or_else(|| Error::Usage("--bs is at most 8m and --filesize".to_owned()))?;
    let failed = |why: io::Error| Error::host(format!("the null server at {}", args.server), why);
    let streams = (0..args.connections).map(|_| TcpStream::connect(&args.server));
    let streams: Vec<TcpStream> = streams.collect::<io::Result<_>>().map_err(failed)?;
    let ready = Barrier::new(streams.len() + 1);
    let (done, before, begin) = thread::scope(|scope| {
        let loops: Vec<_> = streams
            .into_iter()
            .zip(0..)
            .map(|(stream, number)| {
                let ready = &ready;
                scope.spawn(move || {
                    ready.wait();
                    ask(stream, args, block, number)
                })
            })
            .collect();
        let before = Account::own();
        let begin = Instant::now();
        ready.wait();
        let done: io::Result<Vec<u64>> = loops
            .into_iter()
            .map(|it| it.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked"))))
            .collect();
        (done, before, begin)
    });
    let seconds = begin.elapsed().as_secs_f64();
    let spent = Account::own().ok().zip(before.ok()).map(|(after, before)| after.since(&before));
    let operations: u64 = done.map_err(failed)?.iter().sum();
    Ok(json!({
        "ops": operations, "bytes": operations * args.bs, "seconds": seconds, "client_cpu_ns": spent
    }))
}

/// Runs one connection. Returns the number of complete replies within the time.
fn ask(mut stream: TcpStream, args: &LoopArgs, block: u32, number: u64) -> io::Result<u64> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let mut random = Random::new(number);
    let blocks = args.filesize / args.bs;
    let (mut out, mut buffer) = (Vec::new(), vec![0; 1 << 20]);
    let (mut bytes, mut asked) = (0, 0);
    let begin = Instant::now();
    while begin.elapsed() < args.runtime {
        let answered = bytes / args.bs;
        out.clear();
        while asked < answered + u64::from(args.iodepth) {
            put_request(&mut out, random.below(blocks) * args.bs, block);
            asked += 1;
        }
        stream.write_all(&out)?;
        match stream.read(&mut buffer)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => bytes += read as u64,
        }
    }
    Ok(bytes / args.bs)
}
