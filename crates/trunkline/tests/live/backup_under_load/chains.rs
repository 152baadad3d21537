//! Chains of changes, each made by one client that waits for each of its changes.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use admin::objects::{Change, ChangeAction, Kind};
use admin::{ControlClient, IdChange, Request, UserChange};
use client::nfs::{Client, Creation, ExportDirectory, ExportFile, OpenOptions};
use client::smb::{self, Tree};
use parking_lot::Mutex;
use serde_json::Value;
use smb_wire::create::Disposition;

use crate::LiveServer;

/// The user id of a user after change N is this plus N.
pub const FIRST_UID: u64 = 10_000;

/// A time from its begin to its confirmation, since the load began. It has no confirmation before its end.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    pub begun: Duration,
    pub confirmed: Option<Duration>,
}

/// The changes of a chain in their order.
pub type ChangeHistory = Arc<Mutex<Vec<Span>>>;

/// The objects that a chain changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChainKind {
    /// A user gets another user id.
    Users,
    /// A share gets another comment.
    Shares,
    /// A file is opened if it is closed, and closed if it is open.
    Nfs,
    /// The same with persistent handles, which the server writes to the disk before it replies.
    Smb,
}

impl ChainKind {
    pub const ALL: [ChainKind; 4] = [ChainKind::Users, ChainKind::Shares, ChainKind::Nfs, ChainKind::Smb];

    /// The number of objects. They are changed in turn.
    pub fn objects(self) -> u64 {
        match self {
            ChainKind::Users => 4,
            ChainKind::Shares => 2,
            ChainKind::Nfs | ChainKind::Smb => 64,
        }
    }

    pub fn is_of_files(self) -> bool {
        matches!(self, ChainKind::Nfs | ChainKind::Smb)
    }

    pub fn name(self) -> &'static str {
        match self {
            ChainKind::Users => "users",
            ChainKind::Shares => "shares",
            ChainKind::Nfs => "NFS opens",
            ChainKind::Smb => "persistent SMB opens",
        }
    }
}

/// A chain with its client.
pub struct ChangeChain {
    client: ChainClient,
    /// The number of the first change.
    first: u64,
    /// The number of changes that were made.
    made: u64,
}

/// The client of a chain. Files that are closed have none.
enum ChainClient {
    Users(PathBuf),
    Shares(PathBuf),
    Nfs { share: ExportDirectory, files: Vec<Option<ExportFile>> },
    Smb { share: Tree, files: Vec<Option<smb::File>> },
}

impl ChangeChain {
    /// Makes the objects of a chain. Returns their inode numbers too if they are files.
    pub async fn prepare(server: &LiveServer, kind: ChainKind, first: u64) -> (ChangeChain, Vec<u64>) {
        let state = server.program.path().join("state");
        let objects = kind.objects();
        let mut inodes = Vec::new();
        let client = match kind {
            ChainKind::Users => {
                for user in 0..objects {
                    server.says(&format!("user add user-{user} --password-file password --uid 1")).await;
                }
                ChainClient::Users(state)
            }
            ChainKind::Shares => {
                for share in 0..objects {
                    make_share(server, &format!("share-{share}"), "").await;
                }
                ChainClient::Shares(state)
            }
            ChainKind::Nfs => {
                make_share(server, "nfs", "protocols=nfs nfs_secure_port=off root_squash=none").await;
                inodes = make_files(server, "nfs", objects);
                let client = Client::connect(server.nfs, client::nfs::Options::default()).await.unwrap();
                let share = client.directory("/nfs").await.unwrap();
                ChainClient::Nfs { share, files: inodes.iter().map(|_| None).collect() }
            }
            ChainKind::Smb => {
                make_share(server, "smb", "continuously_available=on").await;
                inodes = make_files(server, "smb", objects);
                let share = server.log_on().await.connect("smb").await.unwrap();
                ChainClient::Smb { share, files: inodes.iter().map(|_| None).collect() }
            }
        };
        (ChangeChain { client, first, made: 0 }, inodes)
    }

    /// Makes the next change, and returns when the server has confirmed it.
    pub async fn change(&mut self) {
        let (made, number) = (self.made, self.first + self.made);
        self.made += 1;
        match &mut self.client {
            ChainClient::Users(state) => {
                let name = format!("user-{}", made % ChainKind::Users.objects());
                let uid = IdChange::To(u32::try_from(FIRST_UID + number).unwrap());
                let (nt_hash, gid, admin) = (None, IdChange::Keep, None);
                let change = UserChange { name, add: false, nt_hash, uid, gid, admin };
                ask(state, Request::ChangeUser(change)).await;
            }
            ChainClient::Shares(state) => {
                let name = format!("share-{}", made % ChainKind::Shares.objects());
                let settings = [("comment".to_owned(), Value::from(format!("change {number}")))];
                let what = ChangeAction::Set { settings: settings.into_iter().collect() };
                let change = Change { kind: Kind::Share, name, what, if_version: None };
                ask(state, Request::Change(Box::new(change))).await;
            }
            ChainClient::Nfs { share, files } => {
                let file = made as usize % files.len();
                match files[file].take() {
                    Some(open) => open.close().await.unwrap(),
                    None => {
                        let how = OpenOptions::write(Creation::IfMissing(0o644));
                        files[file] = Some(share.open(&format!("file-{file}"), &how).await.unwrap());
                    }
                }
            }
            ChainClient::Smb { share, files } => {
                let file = made as usize % files.len();
                match files[file].take() {
                    Some(open) => open.close().await.unwrap(),
                    None => {
                        let how = smb::OpenOptions::file(Disposition::Open);
                        let (open, _) = share.open_persistent(&format!("file-{file}"), &how).await.unwrap();
                        files[file] = Some(open);
                    }
                }
            }
        }
    }
}

async fn ask(state_dir: &Path, request: Request) {
    let dir = state_dir.to_owned();
    let ask = move || ControlClient::connect(&dir).unwrap().ask(&request).unwrap();
    tokio::task::spawn_blocking(ask).await.unwrap();
}

async fn make_share(server: &LiveServer, name: &str, settings: &str) {
    std::fs::create_dir(server.program.path().join(name)).unwrap();
    server.says(&format!("share create {name} path={name} users=anna=full {settings}")).await;
}

/// Makes empty files in a directory, and returns their inode numbers.
fn make_files(server: &LiveServer, directory: &str, count: u64) -> Vec<u64> {
    let make = |file| {
        let path = server.program.path().join(directory).join(format!("file-{file}"));
        std::fs::write(&path, "").unwrap();
        path.metadata().unwrap().ino()
    };
    (0..count).map(make).collect()
}
