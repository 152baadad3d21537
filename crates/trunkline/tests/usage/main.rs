//! A share with a size, served over both protocols. Its used space is counted and shown, never exceeds the
//! size, and is known again after the server was killed.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;

use admin::Status;
use admin::usage::UsedShare;
use client::nfs::{self, Creation, NfsStat};
use client::smb::{Connection, Credentials, OpenOptions, Options, Session, Tree};
use client::{Bytes, Error};
use smb_wire::NtStatus;
use smb_wire::create::Disposition;
use smb_wire::query_info::InfoType;
use testkit::program::{PATIENCE, ProgramDir, Server, own_ids};

const GIB: u64 = 1 << 30;

/// A running server with one share for both protocols; killed when dropped.
struct UsageServer {
    server: Server,
    program: ProgramDir,
    smb: SocketAddr,
    nfs: SocketAddr,
}

fn write_config(program: &ProgramDir, gib: u64) {
    let config = format!(
        "[server]\nlisten = [\"127.0.0.1\"]\nsmb_port = 0\nnfs_port = 0\ndiscovery = false\n\
         [[user]]\nname = \"anna\"\npassword_file = \"password\"\n{}\
         [account.lab]\nkind = \"premium\"\nformula = \"v2\"\n\
         [share.files]\npath = \"files\"\naccount = \"lab\"\nprovisioned_gib = {gib}\n\
         users = {{ \"*\" = \"full\" }}\nprotocols = [\"smb\", \"nfs\"]\nnfs_secure_port = false\n\
         root_squash = \"none\"\n",
        own_ids()
    );
    program.write("trunkline.toml", &config);
}

impl UsageServer {
    fn new(gib: u64) -> UsageServer {
        let program = ProgramDir::new();
        let password = program.write("password", "s3cret");
        std::fs::set_permissions(&password, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::create_dir(program.path().join("files")).unwrap();
        write_config(&program, gib);
        UsageServer::start(program)
    }

    fn start(program: ProgramDir) -> UsageServer {
        let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let mut running = UsageServer { server: Server::start(&program), program, smb: here, nfs: here };
        let text = std::fs::read_to_string(running.program.path().join("output")).unwrap();
        let port = |before: &str| -> u16 {
            let rest = text.split(before).nth(1).unwrap_or_else(|| panic!("no port in: {text}"));
            rest.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
        };
        running.smb.set_port(port(" -p "));
        running.nfs.set_port(port("vers=4.2,port="));
        running
    }

    /// Kills the server and starts it again.
    fn killed(self) -> UsageServer {
        let UsageServer { mut server, program, .. } = self;
        server.kill();
        UsageServer::start(program)
    }

    async fn tree(&self) -> Tree {
        let connection = Connection::connect(self.smb, "localhost", &Options::default()).await.unwrap();
        let session = Session::log_on(&connection, &Credentials::new("anna", "s3cret"), false).await.unwrap();
        session.connect("files").await.unwrap()
    }

    async fn directory(&self) -> nfs::ExportDirectory {
        let client = nfs::Client::connect(self.nfs, nfs::Options::default()).await.unwrap();
        client.directory("/files").await.unwrap()
    }

    fn used(&self) -> UsedShare {
        let output = self.program.trunkline("status --json").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let status: Status = serde_json::from_slice(&output.stdout).unwrap();
        status.usage["files"].clone()
    }

    /// The used space, after everything was counted since the start.
    fn counted(&self) -> (u64, u64) {
        let begun = std::time::Instant::now();
        loop {
            let used = self.used();
            if used.counted > 0 {
                return (used.bytes, used.files);
            }
            assert!(begun.elapsed() < PATIENCE, "{used:?}");
            std::thread::yield_now();
        }
    }
}

fn is_full<T: std::fmt::Debug>(answer: Result<T, Error>) {
    match answer {
        Err(
            Error::Status { status: NtStatus::DISK_FULL, .. } | Error::Refused { status: NfsStat::NoSpc, .. },
        ) => {}
        other => panic!("{other:?}"),
    }
}

/// Size and free bytes as clients over SMB see them (MS-FSCC 2.5.4).
async fn shown(tree: &Tree) -> (u64, u64) {
    let file = tree.open("", &OpenOptions::directory(Disposition::Open)).await.unwrap();
    let answer = file.query(InfoType::Filesystem, 7, 32).await.unwrap();
    let number = |at: usize| u64::from_le_bytes(answer[at..at + 8].try_into().unwrap());
    let half = |at: usize| u64::from(u32::from_le_bytes(answer[at..at + 4].try_into().unwrap()));
    let unit = half(24) * half(28);
    assert_eq!(number(8), number(16));
    (number(0) * unit, number(16) * unit)
}

#[tokio::test]
async fn both_protocols_fill_one_size_and_none_passes_it() {
    let server = UsageServer::new(40);
    let (tree, directory) = (server.tree().await, server.directory().await);
    let writing = nfs::OpenOptions::write(Creation::IfMissing(0o644));
    let big = tree.open("big", &OpenOptions::file(Disposition::Create)).await.unwrap();
    big.set_length(30 * GIB).await.unwrap();
    let other = directory.open("other", &writing).await.unwrap();
    is_full(other.set_length(11 * GIB).await);
    other.set_length(10 * GIB - 8192).await.unwrap();
    let data = Bytes::from(vec![1; 16384]);
    is_full(other.write(10 * GIB - 8192, &data, nfs::StableHow::Unstable).await);
    is_full(big.write(30 * GIB, &data).await);
    is_full(tree.put("big:stream", &OpenOptions::file(Disposition::Create), &data).await);
    assert_eq!(shown(&tree).await, (40 * GIB, 8192));
    big.write(30 * GIB, &data[..8192]).await.unwrap();
    // Existing data may be overwritten.
    big.write(GIB, &data).await.unwrap();
    other.write(GIB, &data, nfs::StableHow::Unstable).await.unwrap();
    assert_eq!(shown(&tree).await, (40 * GIB, 0));
    assert_eq!(server.counted(), (40 * GIB, 2));
    big.set_length(GIB).await.unwrap();
    other.close().await.unwrap();
    directory.rename("other", "big2").await.unwrap();
    directory.remove("big2").await.unwrap();
    tree.put("big:stream", &OpenOptions::file(Disposition::OverwriteIf), &data).await.unwrap();
    let used = server.used();
    assert_eq!((used.quota_bytes, used.bytes, used.files), (Some(40 * GIB), GIB + 16384, 1));
    big.close().await.unwrap();
    tree.open("big", &OpenOptions::delete()).await.unwrap().close().await.unwrap();
    let used = server.used();
    assert_eq!((used.bytes, used.files), (0, 0));
    let page = server.program.run("status").success().get_output().stdout.clone();
    let page = String::from_utf8(page).unwrap();
    assert!(page.contains("files  40.000 GiB  0.000 GiB  0.0 %  0      all"), "{page}");
}

#[tokio::test]
async fn what_lies_there_is_known_after_a_kill_and_a_size_below_it_is_refused() {
    let server = UsageServer::new(40);
    let tree = server.tree().await;
    let big = tree.open("big", &OpenOptions::file(Disposition::Create)).await.unwrap();
    big.set_length(33 * GIB).await.unwrap();
    assert_eq!(server.counted(), (33 * GIB, 1));
    write_config(&server.program, 32);
    let refused = server.program.run("reload").failure();
    let text = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
    assert!(
        text.contains("share `files`: `provisioned_gib` is too small: 35433480192 bytes are in use"),
        "{text}"
    );
    assert_eq!(server.used().quota_bytes, Some(40 * GIB), "it is as it was");
    write_config(&server.program, 34);
    server.program.run("reload").success();
    assert_eq!(shown(&tree).await, (34 * GIB, GIB));
    is_full(big.set_length(35 * GIB).await);
    server.program.write("files/from the host", "twelve bytes");
    let server = server.killed();
    assert_eq!(server.counted(), (33 * GIB + 12, 2), "with what was done on the host");
    let tree = server.tree().await;
    assert_eq!(shown(&tree).await.0, 34 * GIB);
    let more = tree.open("more", &OpenOptions::file(Disposition::Create)).await.unwrap();
    is_full(more.set_length(GIB - 11).await);
    more.set_length(GIB - 12).await.unwrap();
}
