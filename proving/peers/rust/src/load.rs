//! A load generator with the crate `smb2`, to compare `trunkline load` with a client of another project
//! (`../../bench/run.py`).
//!
//! `peer-load PORT SHARE USER PASSWORD WORKLOAD SECONDS DEPTH` prints one JSON object with `ops`, `bytes` and
//! `seconds`. WORKLOAD is `randread` (4 KiB), `read` (1 MiB), `create` (with 4 KiB), `stat` or `unlink`. The
//! file to read must exist. It prints `ready` before the measured part and `over` after it.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use cases::{Arguments, content};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use smb2::{SmbClient, Tree};

const FILE: &str = "bench-file";
const FILE_BYTES: u64 = 256 << 20;
const DIRECTORY: &str = "bench-directory";
const FILES: usize = 2_000;

type BoxError = Box<dyn std::error::Error>;

struct LoadResult {
    ops: u64,
    bytes: u64,
    elapsed: Duration,
}

async fn reads(
    client: &mut SmbClient,
    tree: &mut Tree,
    block: u64,
    random: bool,
    limit: Duration,
    depth: usize,
) -> Result<LoadResult, BoxError> {
    let reader = &client.open_file_reader(tree, FILE).await?;
    let blocks = FILE_BYTES / block;
    let mut state = 0u64;
    let mut offsets = std::iter::from_fn(|| {
        state = if random {
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407)
        } else {
            state + (1 << 33)
        };
        Some((state >> 33) % blocks * block)
    });
    let mut flying = FuturesUnordered::new();
    println!("ready");
    let began = Instant::now();
    let mut done = LoadResult { ops: 0, bytes: 0, elapsed: Duration::ZERO };
    let mut next = || offsets.next().map(|offset| reader.read_at(offset, block));
    flying.extend((0..depth).filter_map(|_| next()));
    while let Some(data) = flying.next().await {
        done.ops += 1;
        done.bytes += data?.len() as u64;
        if began.elapsed() < limit {
            flying.extend(next());
        }
    }
    done.elapsed = began.elapsed();
    println!("over");
    Ok(done)
}

fn names() -> impl Iterator<Item = String> {
    (0..FILES).map(|number| format!("{DIRECTORY}/file-{number:05}"))
}

async fn create_all(client: &mut SmbClient, tree: &mut Tree) -> Result<(), BoxError> {
    let data = content(4096);
    for name in names() {
        client.write_file_compound(tree, &name, &data).await?;
    }
    Ok(())
}

async fn unlink_all(client: &mut SmbClient, tree: &mut Tree) -> Result<(), BoxError> {
    for name in names() {
        client.delete_file(tree, &name).await?;
    }
    Ok(())
}

/// One pass over the files. `create` removes its files and `unlink` creates them, both outside of the
/// measured time.
async fn metadata(client: &mut SmbClient, tree: &mut Tree, workload: &str) -> Result<LoadResult, BoxError> {
    // The directory exists if an earlier workload created it.
    let _ = client.create_directory(tree, DIRECTORY).await;
    if workload != "create" {
        create_all(client, tree).await?;
    }
    println!("ready");
    let began = Instant::now();
    match workload {
        "create" => create_all(client, tree).await?,
        "unlink" => unlink_all(client, tree).await?,
        _ => {
            for name in names() {
                client.stat(tree, &name).await?;
            }
        }
    }
    let elapsed = began.elapsed();
    println!("over");
    if workload != "unlink" {
        unlink_all(client, tree).await?;
    }
    Ok(LoadResult { ops: FILES as u64, bytes: 0, elapsed })
}

async fn run() -> Result<(), BoxError> {
    let arguments = Arguments::read().ok_or("usage: PORT SHARE USER PASSWORD WORKLOAD SECONDS DEPTH")?;
    let mut rest = std::env::args().skip(5);
    let workload = rest.next().ok_or("WORKLOAD is missing")?;
    let limit = Duration::from_secs_f64(rest.next().ok_or("SECONDS is missing")?.parse()?);
    let depth = rest.next().ok_or("DEPTH is missing")?.parse()?;
    let mut client =
        smb2::connect(&format!("127.0.0.1:{}", arguments.port), &arguments.user, &arguments.password).await?;
    let mut tree = client.connect_share(&arguments.share).await?;
    let done = match workload.as_str() {
        "randread" => reads(&mut client, &mut tree, 4096, true, limit, depth).await?,
        "read" => reads(&mut client, &mut tree, 1 << 20, false, limit, depth).await?,
        "create" | "stat" | "unlink" => metadata(&mut client, &mut tree, &workload).await?,
        other => return Err(format!("unknown workload {other}").into()),
    };
    println!(r#"{{"ops":{},"bytes":{},"seconds":{}}}"#, done.ops, done.bytes, done.elapsed.as_secs_f64());
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("peer-load: {why}");
            ExitCode::FAILURE
        }
    }
}
