//! The crate `smb` as a client: PORT SHARE USER PASSWORD. It parses every structure strictly according to
//! MS-SMB2.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cases::{Arguments, CaseReport, CaseResult, SIZES, content, same};
use futures_util::StreamExt;
use smb::connection::MultiChannelConfig;
use smb::resource::{Directory, File, Resource};
use smb::{
    Client, ClientConfig, Connection, ConnectionConfig, CreateOptions, FileAccessMask, FileAttributes,
    FileCreateArgs, FileDispositionInformation, FileFullDirectoryInformation, FileRenameInformation,
    FileStandardInformation, Guid, ReadAt, ReadAtChannel, UncPath, WriteAt, WriteAtChannel,
};

const BASE: &str = "rust-smb";
const SERVER: &str = "127.0.0.1";

struct Peer {
    client: Client,
    client_guid: Guid,
    share: UncPath,
}

impl Peer {
    fn path(&self, name: &str) -> UncPath {
        self.share.clone().with_path(name)
    }

    fn inside(&self, name: &str) -> UncPath {
        self.path(&format!("{BASE}\\{name}"))
    }

    async fn open(&self, name: &str, access: FileAccessMask) -> smb::Result<File> {
        let arguments = FileCreateArgs::make_open_existing(access);
        Ok(self.client.create_file(&self.inside(name), &arguments).await?.unwrap_file())
    }
}

async fn make_directory(peer: &Peer) -> CaseResult {
    let options = CreateOptions::new().with_directory_file(true);
    let arguments = FileCreateArgs::make_create_new(FileAttributes::new().with_directory(true), options);
    let directory = peer.client.create_file(&peer.path(BASE), &arguments).await?;
    same(directory.is_dir(), true, "what was made is a directory")?;
    directory.unwrap_dir().close().await?;
    Ok(())
}

async fn round_trip(peer: &Peer, size: usize) -> CaseResult {
    let (data, name) = (content(size), format!("size-{size}"));
    let arguments = FileCreateArgs::make_overwrite(FileAttributes::new(), CreateOptions::new());
    let file = peer.client.create_file(&peer.inside(&name), &arguments).await?.unwrap_file();
    let mut written = 0;
    while written < size {
        let end = size.min(written + 60_000);
        written += file.write_at(&data[written..end], written as u64).await?;
    }
    file.flush().await?;
    file.close().await?;

    let file = peer.open(&name, FileAccessMask::new().with_generic_read(true)).await?;
    same(file.query_info::<FileStandardInformation>().await?.end_of_file, size as u64, "end of file")?;
    let mut back = vec![0; size];
    let mut read = 0;
    while read < size {
        let end = size.min(read + 60_000);
        match file.read_at(&mut back[read..end], read as u64).await? {
            0 => return Err(format!("the file ends after {read} bytes").into()),
            count => read += count,
        }
    }
    file.close().await?;
    same(back == data, true, "content")
}

/// The crate writes a request in pieces and leaves Nagle's algorithm on. Its host holds the second piece back
/// until the server's host has acknowledged the first. A host delays that by 40 ms unless it is told not to.
/// Half of the files must take less.
async fn pieces(peer: &Peer) -> CaseResult {
    const FILES: usize = 10;
    const REQUESTS: u32 = 3;
    let mut took = Vec::new();
    for number in 0..FILES {
        let path = peer.inside(&format!("pieces-{number}"));
        let arguments = FileCreateArgs::make_create_new(FileAttributes::new(), CreateOptions::new());
        let began = Instant::now();
        let file = peer.client.create_file(&path, &arguments).await?.unwrap_file();
        file.write_at(&content(4096), 0).await?;
        file.close().await?;
        took.push(began.elapsed());
        let access = FileAccessMask::new().with_delete(true);
        let file = peer.open(&format!("pieces-{number}"), access).await?;
        file.set_info(FileDispositionInformation { delete_pending: true.into() }).await?;
        file.close().await?;
    }
    took.sort();
    let median = took[FILES / 2];
    same(median < Duration::from_millis(20) * REQUESTS, true, &format!("{REQUESTS} requests in {median:?}"))
}

async fn listing(peer: &Peer) -> CaseResult {
    let access = FileAccessMask::new().with_generic_read(true);
    let opened =
        peer.client.create_file(&peer.path(BASE), &FileCreateArgs::make_open_existing(access)).await?;
    let directory = Arc::new(opened.unwrap_dir());
    let mut found = Vec::new();
    {
        let mut entries = Directory::query::<FileFullDirectoryInformation>(&directory, "size-*").await?;
        while let Some(entry) = entries.next().await {
            let entry = entry?;
            found.push((entry.file_name.to_string(), entry.end_of_file));
        }
    }
    directory.close().await?;
    let mut wanted: Vec<_> = SIZES.iter().map(|size| (format!("size-{size}"), *size as u64)).collect();
    found.sort();
    wanted.sort();
    same(found, wanted, "names and sizes")
}

/// A second connection becomes a channel of the session. Data that was written over one is read over the
/// other.
async fn two_channels(peer: &Peer, arguments: &Arguments) -> CaseResult {
    let address = (std::net::Ipv4Addr::LOCALHOST, arguments.port).into();
    let connection = Connection::build(SERVER, address, peer.client_guid, connection_config(arguments.port))?;
    connection.connect().await?;
    let identity = sspi::AuthIdentity {
        username: sspi::Username::parse(&arguments.user)?,
        password: arguments.password.clone().into(),
    };
    let session = peer.client.get_session(&peer.share).await?;
    let second = Some(connection.bind_session(&session, identity).await?);
    let (data, name) = (content(60_000), "two-channels");
    let options = FileCreateArgs::make_overwrite(FileAttributes::new(), CreateOptions::new());
    let file = peer.client.create_file(&peer.inside(name), &options).await?.unwrap_file();
    let (begin, end) = data.split_at(data.len() / 2);
    same(file.write_at_channel(begin, 0, second).await?, begin.len(), "bytes written over the second")?;
    same(
        file.write_at_channel(end, begin.len() as u64, None).await?,
        end.len(),
        "bytes written over the first",
    )?;
    file.close().await?;
    let access = FileAccessMask::new().with_generic_read(true).with_delete(true);
    let file = peer.open(name, access).await?;
    for channel in [second, None] {
        let mut back = vec![0; data.len()];
        same(file.read_at_channel(&mut back, 0, channel).await?, data.len(), "bytes read")?;
        same(back == data, true, "content")?;
    }
    file.set_info(FileDispositionInformation { delete_pending: true.into() }).await?;
    file.close().await?;
    connection.close().await?;
    Ok(())
}

async fn rename(peer: &Peer) -> CaseResult {
    let file = peer.open("size-1", FileAccessMask::new().with_generic_read(true).with_delete(true)).await?;
    let to = FileRenameInformation {
        replace_if_exists: false.into(),
        root_directory: 0,
        file_name: format!("{BASE}\\renamed").as_str().into(),
    };
    file.set_info(to).await?;
    file.close().await?;
    let access = FileAccessMask::new().with_generic_read(true);
    same(peer.open("size-1", access).await.is_err(), true, "the old name is gone")?;
    peer.open("renamed", access).await?.close().await?;
    Ok(())
}

async fn remove(peer: &Peer) -> CaseResult {
    let access = FileAccessMask::new().with_generic_read(true).with_delete(true);
    let names = SIZES.iter().filter(|size| **size != 1).map(|size| format!("size-{size}"));
    for name in names.chain(["renamed".to_owned()]) {
        let file = peer.open(&name, access).await?;
        file.set_info(FileDispositionInformation { delete_pending: true.into() }).await?;
        file.close().await?;
        same(peer.open(&name, access).await.is_err(), true, "a deleted file is gone")?;
    }
    let arguments = FileCreateArgs::make_open_existing(access);
    let directory: Resource = peer.client.create_file(&peer.path(BASE), &arguments).await?;
    let directory = directory.unwrap_dir();
    directory.set_info(FileDispositionInformation { delete_pending: true.into() }).await?;
    directory.close().await?;
    same(peer.client.create_file(&peer.path(BASE), &arguments).await.is_err(), true, "the directory is gone")
}

fn connection_config(port: u16) -> ConnectionConfig {
    ConnectionConfig {
        port: Some(port),
        multichannel: MultiChannelConfig::Always,
        ..ConnectionConfig::default()
    }
}

async fn connect(arguments: &Arguments) -> smb::Result<Peer> {
    let connection = connection_config(arguments.port);
    let client_guid = Guid::generate();
    let client = Client::new(ClientConfig { dfs: false, connection, client_guid, ..ClientConfig::default() });
    let share = UncPath::new(SERVER)?.with_share(&arguments.share)?;
    client.share_connect(&share, &arguments.user, arguments.password.clone()).await?;
    Ok(Peer { client, client_guid, share })
}

// One thread: with more, the crate (0.12.1) can miss the wake-up between two batches of a listing, and hang.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let Some(arguments) = Arguments::read() else {
        eprintln!("usage: PORT SHARE USER PASSWORD");
        return ExitCode::from(2);
    };
    let peer = match connect(&arguments).await {
        Ok(peer) => peer,
        Err(why) => {
            println!("FAIL connect: {why}");
            return ExitCode::FAILURE;
        }
    };
    let mut report = CaseReport::default();
    report.case("make a directory", make_directory(&peer)).await;
    for size in SIZES {
        report.case(format!("{size} bytes there and back"), round_trip(&peer, size)).await;
    }
    report.case("requests in pieces", pieces(&peer)).await;
    report.case("two channels", two_channels(&peer, &arguments)).await;
    report.case("list", listing(&peer)).await;
    report.case("rename", rename(&peer)).await;
    report.case("remove", remove(&peer)).await;
    report.case("close", async { Ok(peer.client.close().await?) }).await;
    report.close()
}
