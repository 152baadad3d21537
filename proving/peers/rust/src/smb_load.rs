//! A load generator with the crate `smb`, which writes a request in pieces and leaves Nagle's algorithm on.
//! Each request waits until the server's host has acknowledged its first piece.
//!
//! `peer-smb-load PORT SHARE USER PASSWORD FILES BYTES` creates FILES files of BYTES bytes, one request after
//! the other (create, write, close). It removes them outside of the measured time, and prints one JSON object
//! with `ops` (files), `bytes` and `seconds`.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use cases::{Arguments, content};
use smb::{
    Client, ClientConfig, ConnectionConfig, CreateOptions, FileAccessMask, FileAttributes, FileCreateArgs,
    FileDispositionInformation, UncPath, WriteAt,
};

type BoxError = Box<dyn std::error::Error>;

const SERVER: &str = "127.0.0.1";

struct Load {
    client: Client,
    share: UncPath,
    files: usize,
}

impl Load {
    fn paths(&self) -> impl Iterator<Item = UncPath> {
        (0..self.files).map(|number| self.share.clone().with_path(&format!("smb-load-{number:05}")))
    }

    async fn create_all(&self, data: &[u8]) -> Result<(), BoxError> {
        let arguments = FileCreateArgs::make_create_new(FileAttributes::new(), CreateOptions::new());
        for path in self.paths() {
            let file = self.client.create_file(&path, &arguments).await?.unwrap_file();
            let mut written = 0;
            while written < data.len() {
                written += file.write_at(&data[written..], written as u64).await?;
            }
            file.close().await?;
        }
        Ok(())
    }

    async fn remove_all(&self) -> Result<(), BoxError> {
        let arguments = FileCreateArgs::make_open_existing(FileAccessMask::new().with_delete(true));
        for path in self.paths() {
            let file = self.client.create_file(&path, &arguments).await?.unwrap_file();
            file.set_info(FileDispositionInformation { delete_pending: true.into() }).await?;
            file.close().await?;
        }
        Ok(())
    }
}

async fn run() -> Result<(), BoxError> {
    let arguments = Arguments::read().ok_or("usage: PORT SHARE USER PASSWORD FILES BYTES")?;
    let mut rest = std::env::args().skip(5);
    let files = rest.next().ok_or("FILES is missing")?.parse()?;
    let bytes: usize = rest.next().ok_or("BYTES is missing")?.parse()?;
    let connection = ConnectionConfig { port: Some(arguments.port), ..ConnectionConfig::default() };
    let client = Client::new(ClientConfig { dfs: false, connection, ..ClientConfig::default() });
    let share = UncPath::new(SERVER)?.with_share(&arguments.share)?;
    client.share_connect(&share, &arguments.user, arguments.password).await?;
    let load = Load { client, share, files };
    let data = content(bytes);
    let began = Instant::now();
    load.create_all(&data).await?;
    let elapsed: Duration = began.elapsed();
    load.remove_all().await?;
    println!(r#"{{"ops":{files},"bytes":{},"seconds":{}}}"#, files * bytes, elapsed.as_secs_f64());
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("peer-smb-load: {why}");
            ExitCode::FAILURE
        }
    }
}
