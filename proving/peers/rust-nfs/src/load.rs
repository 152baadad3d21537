//! A load generator with the crate `nfs-rs`, to compare servers by a client of another project
//! (`../../bench/nfs_rs.py`).
//!
//! `peer-nfs-load PORT EXPORT VERSION FILE WORKLOAD SECONDS DEPTH CONNECTIONS` prints one JSON object with
//! `ops`, `bytes` and `seconds`. WORKLOAD is `randread` (4 KiB) or `read` (1,020 KiB), and FILE is the path
//! of a file of 256 MiB in the export. The crate has one connection for each mount, so several connections
//! are several mounts, between which the DEPTH requests are divided. It prints `ready` before the measured
//! part and `over` after it.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use bytes::Bytes;
use cases::Arguments;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use nfs_rs::{OPEN_READ, OpenFile};
use proving_nfs_peer::{BoxedMount, mount};

const FILE_BYTES: u64 = 256 << 20;
/// The length of a large read. With its headers it fits into a reply of 1 MiB, the largest of some servers.
const LARGE: u32 = (1 << 20) - 4096;

type BoxError = Box<dyn std::error::Error>;

/// A mount with the open file.
struct Connection {
    mount: BoxedMount,
    open: OpenFile,
}

impl Connection {
    async fn new(arguments: &Arguments) -> Result<Connection, BoxError> {
        let mount = mount(arguments).await?;
        // The last argument of the common part is the file.
        let open = mount.open_path_stateful(&arguments.password, OPEN_READ).await?;
        Ok(Connection { mount, open })
    }

    async fn read(&self, offset: u64, length: u32) -> nfs_rs::Result<Bytes> {
        self.mount.read(self.open.object.fh.clone(), offset, length).await
    }
}

/// The requests of a load.
struct NfsWorkload {
    block: u32,
    is_random: bool,
    limit: Duration,
    depth: usize,
}

impl NfsWorkload {
    fn offsets(&self) -> impl Iterator<Item = u64> {
        let (block, is_random) = (u64::from(self.block), self.is_random);
        let mut state = 0u64;
        std::iter::repeat_with(move || {
            state = if is_random {
                state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407)
            } else {
                state + (1 << 33)
            };
            (state >> 33) % (FILE_BYTES / block) * block
        })
    }

    /// Reads until the time is over. Returns the number of reads and their time.
    async fn run(&self, connections: &[Connection]) -> Result<(u64, Duration), BoxError> {
        let mut offsets = self.offsets();
        let mut next = |which: usize| {
            let offset = offsets.next().unwrap_or_default();
            async move { (which, connections[which].read(offset, self.block).await) }
        };
        let mut flying = FuturesUnordered::new();
        println!("ready");
        let began = Instant::now();
        let mut ops = 0;
        flying.extend((0..self.depth).map(|number| next(number % connections.len())));
        while let Some((which, data)) = flying.next().await {
            let length = data?.len();
            if length != self.block as usize {
                return Err(format!("{length} bytes instead of {}", self.block).into());
            }
            ops += 1;
            if began.elapsed() < self.limit {
                flying.push(next(which));
            }
        }
        let elapsed = began.elapsed();
        println!("over");
        Ok((ops, elapsed))
    }
}

async fn run() -> Result<(), BoxError> {
    let usage = "usage: PORT EXPORT VERSION FILE WORKLOAD SECONDS DEPTH CONNECTIONS";
    let arguments = Arguments::read().ok_or(usage)?;
    let rest: Vec<String> = std::env::args().skip(5).collect();
    let [workload, seconds, depth, count] = &rest[..] else { return Err(usage.into()) };
    let (block, is_random) = match workload.as_str() {
        "randread" => (4096, true),
        "read" => (LARGE, false),
        other => return Err(format!("unknown workload {other}").into()),
    };
    let limit = Duration::from_secs_f64(seconds.parse()?);
    let load = NfsWorkload { block, is_random, limit, depth: depth.parse()? };
    let mut connections = Vec::new();
    for _ in 0..count.parse()? {
        connections.push(Connection::new(&arguments).await?);
    }
    let (ops, elapsed) = load.run(&connections).await?;
    for Connection { mount, open } in connections {
        mount.close_stateful(open).await?;
        mount.umount().await?;
    }
    let seconds = elapsed.as_secs_f64();
    println!(r#"{{"ops":{ops},"bytes":{},"seconds":{seconds}}}"#, ops * u64::from(block));
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("peer-nfs-load: {why}");
            ExitCode::FAILURE
        }
    }
}
