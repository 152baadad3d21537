//! Connections that are lost while a copy is not moving data, and the files that such a copy leaves.

use client::smb::{Connection, Credentials, OpenOptions, Session};
use smb_wire::create::{Access, Disposition, ShareAccess};
use testkit::proxy::{Proxy, until};

use super::*;

/// The depth of the nested directories, which makes the copy visit them one after the other.
const DEPTH: usize = 150;

fn host(url: &str) -> &str {
    url.strip_prefix("smb://ann@").and_then(|rest| rest.split('/').next()).unwrap()
}

/// A session that replaces the session with the number `previous`.
async fn session(url: &str, previous: u64) -> Session {
    let connection =
        Connection::connect(host(url), "127.0.0.1", &client::smb::Options::default()).await.unwrap();
    let ann = Credentials::new("ann", "Trunk-ann-7");
    Session::begin_anew(&connection, &ann, previous).await.unwrap().finish(false).await.unwrap()
}

/// The share `files`, for a client that uses SMB directly.
pub async fn tree(url: &str) -> client::smb::Tree {
    session(url, 0).await.connect("files").await.unwrap()
}

pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn chain(depth: usize) -> String {
    vec!["d"; depth].join("/")
}

/// Runs the copy `line`, in which `{}` is the share behind a proxy, and cuts the proxy's connections as soon
/// as `is_time`.
fn cut_when(server: &CopyTestServer, line: &str, is_time: impl Fn() -> bool) -> (i32, String) {
    let share = server.smb("to");
    let output = runtime().block_on(async {
        let way = Proxy::start(host(&share).parse().unwrap()).await;
        let there = share.replace(host(&share), &way.address.to_string());
        let line = format!("{} --channels 1 --json", line.replace("{}", &there));
        let mut copy = server.started(&line).spawn().unwrap();
        until("it is time to cut the connection", is_time).await;
        assert!(way.cut(), "the copy is still connected");
        until("the copy ends", || copy.try_wait().unwrap().is_some()).await;
        copy.wait_with_output().unwrap()
    });
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_connection_that_is_lost_while_directories_are_looked_at_or_made_is_made_anew() {
    let server = CopyTestServer::start();
    fs::create_dir_all(server.path("here").join(chain(DEPTH))).unwrap();
    let (to, back) = (server.path("files/to"), server.path("back"));
    let (status, said) = cut_when(&server, "here {}", || to.join(chain(5)).exists());
    assert_eq!((status, said.as_str()), (0, ""));
    assert!(to.join(chain(DEPTH)).exists());
    let (status, said) = cut_when(&server, "{} back", || back.join(chain(5)).exists());
    assert_eq!((status, said.as_str()), (0, ""));
    assert!(back.join(chain(DEPTH)).exists());
}

#[test]
fn a_connection_that_is_lost_while_a_mirror_deletes_or_directories_get_their_times_is_made_anew() {
    let server = CopyTestServer::start();
    let to = server.path("files/to");
    fs::create_dir_all(server.path("here").join(chain(DEPTH))).unwrap();
    fs::create_dir_all(to.join(chain(DEPTH))).unwrap();
    let past = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_111_111_111);
    let time = |path: PathBuf| path.metadata().unwrap().modified().unwrap();
    for depth in 1..=DEPTH {
        fs::File::open(server.path("here").join(chain(depth))).unwrap().set_modified(past).unwrap();
    }
    let (status, said) = cut_when(&server, "here {}", || time(to.join(chain(DEPTH))) == past);
    assert_eq!((status, said.as_str()), (0, ""));
    assert!((1..=DEPTH).all(|depth| time(to.join(chain(depth))) == past));
    fs::create_dir(server.path("nothing")).unwrap();
    let (status, said) = cut_when(&server, "nothing {} --mirror", || !to.join(chain(DEPTH)).exists());
    assert_eq!((status, said.as_str()), (2, ""));
    assert!(names(&to).is_empty());
}

#[test]
fn what_a_broken_copy_has_left_stays_where_it_cannot_be_opened() {
    let server = CopyTestServer::start();
    server.program.write("here/large", &"0123456789abcdef".repeat(500_000));
    let (to, url) = (server.path("files/to"), server.smb("to"));
    let mut copy = server.started(&format!("here {url} --rate 2m")).spawn().unwrap();
    wait_for_a_part(&to);
    copy.kill().unwrap();
    copy.wait().unwrap();
    let part = names(&to);
    assert_eq!(part.len(), 1, "{part:?}");
    runtime().block_on(async {
        let tree = tree(&url).await;
        let how = OpenOptions { share: ShareAccess::empty(), ..OpenOptions::file(Disposition::Open) };
        // The server may not have ended the session of the copy yet.
        let mut held = None;
        while held.is_none() {
            held = tree.open(&format!("to/{}", part[0]), &how).await.ok();
        }
        let (status, _, said) = server.copy(&format!("here {url} --retries 0"));
        assert!(status == 8 && said.contains("somebody has it open"), "{said}");
        assert_eq!(names(&to), part);
        held.unwrap().close().await.unwrap();
    });
    assert_eq!(server.copy(&format!("here {url} --verify")).0, 1);
    assert_eq!(names(&to), ["large"]);
}

#[test]
fn a_session_that_is_begun_in_the_place_of_another_one_finds_nothing_open() {
    let server = CopyTestServer::start();
    server.program.write("files/film", "data");
    let url = server.smb("");
    runtime().block_on(async {
        let lost = session(&url, 0).await;
        let how = OpenOptions { share: ShareAccess::empty(), ..OpenOptions::file(Disposition::Open) };
        let held = lost.connect("files").await.unwrap().open("film", &how).await.unwrap();
        let other = tree(&url).await;
        let refused = other.open("film", &how).await.unwrap_err();
        assert_eq!(refused.status(), Some(smb_wire::NtStatus::SHARING_VIOLATION));
        let anew = session(&url, lost.id()).await.connect("files").await.unwrap();
        let how = OpenOptions { access: how.access | Access::DELETE, ..how };
        anew.open("film", &how).await.unwrap().close().await.unwrap();
        drop(held);
    });
}

/// A small file whose reply is lost may already exist under its final name. It is copied again and counted
/// once.
#[test]
fn a_small_file_whose_answer_is_lost_is_copied_and_counted_once() {
    let server = CopyTestServer::start();
    let content = "x".repeat(3000);
    server.program.write("here/1", &content);
    server.program.write("here/2", &content);
    let (share, to) = (server.smb("to"), server.path("files/to"));
    let output = runtime().block_on(async {
        let way = Proxy::start(host(&share).parse().unwrap()).await;
        let there = share.replace(host(&share), &way.address.to_string());
        // This rate leaves enough time between the two.
        let line = format!("here {there} --channels 1 --rate 2k --json");
        let mut copy = server.started(&line).spawn().unwrap();
        let count = || names(&to).iter().filter(|name| name.len() == 1).count();
        until("the first is there", || to.exists() && count() == 1).await;
        way.hold_answers(true);
        until("the second is there", || count() == 2).await;
        assert!(copy.try_wait().unwrap().is_none(), "the copy waits for an answer");
        assert!(way.cut(), "the copy is still connected");
        way.hold_answers(false);
        until("the copy ends", || copy.try_wait().unwrap().is_some()).await;
        copy.wait_with_output().unwrap()
    });
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), said.as_str()), (Some(1), ""), "{report:#}");
    assert_eq!(
        (&report["files"]["copied"], &report["files"]["failed"]),
        (&2.into(), &0.into()),
        "{report:#}"
    );
    assert_eq!(report["bytes"]["copied"], 6000, "{report:#}");
    assert_eq!(names(&to), ["1", "2"]);
    assert!(names(&to).iter().all(|name| fs::read_to_string(to.join(name)).unwrap() == content));
}

/// A file system mounted on a directory, until it is dropped.
struct TemporaryMount(PathBuf);

impl TemporaryMount {
    /// Mounts it. None if this user may not mount.
    fn new(at: PathBuf, kind: &str, options: &str) -> Option<TemporaryMount> {
        fs::create_dir(&at).unwrap();
        let mut mount = std::process::Command::new("mount");
        mount.args(["-t", kind, "-o", options, "none"]).arg(&at).stderr(Stdio::null());
        mount.status().is_ok_and(|status| status.success()).then(|| TemporaryMount(at))
    }
}

impl Drop for TemporaryMount {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_is_said_and_leaves_nothing_that_looks_whole() {
    for side in ["local", "smb", "nfs"] {
        let program = ProgramDir::new();
        let Some(small) = TemporaryMount::new(program.path().join("files"), "tmpfs", "size=1m") else {
            eprintln!("left out: mounting is for root alone");
            return;
        };
        let server = CopyTestServer::start_at(program);
        server.program.write("here/large", &"0123456789abcdef".repeat(200_000));
        server.program.write("here/medium", &"x".repeat(900_000));
        server.program.write("here/other", &"x".repeat(900_000));
        let to = match side {
            "smb" => server.smb("to"),
            "nfs" => server.nfs("to"),
            _ => "files/to".to_owned(),
        };
        let (status, report, said) = server.copy(&format!("here {to}"));
        assert_eq!(status & !1, 8, "{side}: {said}");
        assert!(said.contains("here/large: ") && said.contains("make room in the target"), "{side}: {said}");
        for name in names(&small.0.join("to")) {
            let [here, there] = [server.path("here"), small.0.join("to")].map(|dir| dir.join(&name));
            assert!(fs::read(here).unwrap() == fs::read(there).unwrap(), "{side}: {name}");
        }
        assert!(report["files"]["failed"].as_u64().unwrap() >= 2, "{side}: {report:#}");
        // The file system must be unmounted before its directory is removed.
        drop(small);
    }
}
