//! Whole copies to and from foreign servers. The files that come back must equal the original ones.

use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use clap::Parser;
use copy::{Args, Plan, Report};
use smb_wire::create::{Access, CreateOptions, Disposition};
use smb_wire::fscc::FileAttributes;
use smb_wire::query_info::SecurityInformation;
use testkit::ganesha::Ganesha;
use testkit::samba::{Samba, USER};
use volume::security::{Ace, AceFlags, Acl, Control, Descriptor, Rights, Sid, well_known};

#[derive(Debug, Parser)]
struct ForeignCommand {
    #[command(flatten)]
    args: Args,
}

fn copy(source: &str, target: &str, options: &str) -> Report {
    let words = ["copy", source, target].into_iter().chain(options.split_whitespace());
    let ask = |_: &str| Ok(USER.1.to_owned());
    copy::run(Plan::new(&ForeignCommand::parse_from(words).args, &ask).unwrap()).unwrap()
}

/// A tree with many small files, a large one, an empty one, a directory without files, and names of all
/// kinds.
fn plant(root: &Path) {
    for directory in ["many", "deep/er", "empty"] {
        std::fs::create_dir_all(root.join(directory)).unwrap();
    }
    for number in 0..300u32 {
        std::fs::write(root.join(format!("many/{number}")), number.to_le_bytes().repeat(700)).unwrap();
    }
    let large: Vec<u8> = (0..9_000_001u32).map(|at| (at % 253) as u8).collect();
    std::fs::write(root.join("deep/er/large"), large).unwrap();
    std::fs::write(root.join("deep/größer & „so“"), "x").unwrap();
    std::fs::write(root.join("nothing"), "").unwrap();
    let past = SystemTime::UNIX_EPOCH + Duration::new(1_111_111_111, 123_456_700);
    for name in ["many/7", "deep/er/large", "deep"] {
        std::fs::File::open(root.join(name)).unwrap().set_modified(past).unwrap();
    }
}

/// Every path below, with what is in it and when it was changed, to 100 ns.
fn grown(root: &Path) -> Vec<(String, Option<Vec<u8>>, u128)> {
    let (mut found, mut todo) = (Vec::new(), vec![root.to_owned()]);
    while let Some(path) = todo.pop() {
        let known = path.metadata().unwrap();
        let time = known.modified().unwrap().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() / 100;
        let content = known.is_file().then(|| std::fs::read(&path).unwrap());
        if known.is_dir() {
            todo.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        found.push((path.strip_prefix(root).unwrap().display().to_string(), content, time));
    }
    found.sort();
    found
}

/// There and back, and then nothing is left to do.
fn there_and_back(remote: &str) {
    let dir = tempfile::tempdir().unwrap();
    let [here, back] = ["here", "back"].map(|name| dir.path().join(name));
    plant(&here);
    let [here, back] = [here, back].map(|path| path.to_str().unwrap().to_owned());
    let there = copy(&here, remote, "--verify --channels 4");
    assert_eq!(there.status(), 1, "{:#}", there.json());
    assert_eq!(there.json()["channels"]["target"].as_array().unwrap().len(), 4, "{:#}", there.json());
    let again = copy(&here, remote, "");
    assert_eq!(again.status(), 0, "{:#}", again.json());
    let returned = copy(remote, &back, "");
    assert_eq!(returned.status(), 1, "{:#}", returned.json());
    assert!(grown(Path::new(&here)) == grown(Path::new(&back)));
    std::fs::write(Path::new(&here).join("many/7"), "another").unwrap();
    std::fs::remove_dir_all(Path::new(&here).join("deep")).unwrap();
    let mirrored = copy(&here, remote, "--mirror");
    assert_eq!(mirrored.status(), 1 | 2, "{:#}", mirrored.json());
    let returned = copy(remote, &back, "--mirror");
    assert_eq!(returned.status(), 1 | 2, "{:#}", returned.json());
    assert!(grown(Path::new(&here)) == grown(Path::new(&back)));
}

/// The share `files`, for who knows its protocol.
async fn tree(samba: &Samba) -> client::smb::Tree {
    let options = client::smb::Options::default();
    let connection = client::smb::Connection::connect(samba.address, "127.0.0.1", &options).await.unwrap();
    let who = client::smb::Credentials::new(USER.0, USER.1);
    let session = client::smb::Session::log_on(&connection, &who, false).await.unwrap();
    session.connect("files").await.unwrap()
}

/// The sidecar data that Samba has of a file or directory.
async fn beside(
    tree: &client::smb::Tree,
    path: &str,
) -> (Vec<u8>, Vec<(Vec<u8>, Vec<u8>)>, Vec<client::smb::Stream>) {
    let how =
        client::smb::OpenOptions { options: CreateOptions::empty(), ..client::smb::OpenOptions::read() };
    let file = tree.open(path, &how).await.unwrap();
    let parts = SecurityInformation::OWNER | SecurityInformation::GROUP | SecurityInformation::DACL;
    let descriptor = file.security(parts).await.unwrap();
    let attributes = file.extended_attributes().await.unwrap();
    let mut attributes: Vec<_> = attributes.into_iter().map(|it| (it.name, it.value)).collect();
    attributes.sort();
    let streams = file.streams().await.unwrap();
    file.close().await.unwrap();
    (descriptor, attributes, streams)
}

/// Makes a file with a list, attributes and a stream of its own, and a directory with the same.
async fn adorn(tree: &client::smb::Tree, owner: Sid) {
    for (path, is_directory) in [("from", true), ("from/file", false), ("from/other", false)] {
        let how = match is_directory {
            true => client::smb::OpenOptions::directory(Disposition::OpenIf),
            false => client::smb::OpenOptions::file(Disposition::OpenIf),
        };
        let access = Access::FILE_GENERIC_READ | Access::FILE_GENERIC_WRITE | Access::WRITE_DAC;
        let file = tree.open(path, &client::smb::OpenOptions { access, ..how }).await.unwrap();
        let aces = vec![
            Ace::allow(owner, Rights::ALL, AceFlags::empty()),
            Ace::deny(well_known::GUESTS, Rights::FOR_WRITE, AceFlags::empty()),
            Ace::allow(well_known::EVERYONE, Rights::FOR_READ, AceFlags::empty()),
        ];
        let given = Descriptor {
            dacl: Some(Acl::new(aces)),
            control: Control::DACL_PRESENT,
            ..Descriptor::default()
        };
        file.set_security(SecurityInformation::DACL, &given.encode().unwrap()).await.unwrap();
        let attribute = client::smb::ExtendedAttribute { name: b"colour".to_vec(), value: b"red".to_vec() };
        file.set_extended_attributes(&[attribute]).await.unwrap();
        file.close().await.unwrap();
        let how = client::smb::OpenOptions::file(Disposition::OverwriteIf);
        let stream = tree.open(&format!("{path}:Zone.Identifier"), &how).await.unwrap();
        stream.write(0, b"[ZoneTransfer]").await.unwrap();
        stream.close().await.unwrap();
    }
}

#[test]
fn lists_attributes_and_streams_go_from_share_to_share() {
    let Some(samba) = Samba::start("lists_attributes_and_streams_go_from_share_to_share") else { return };
    std::fs::create_dir(samba.files().join("from")).unwrap();
    std::fs::write(samba.files().join("from/file"), "data").unwrap();
    std::fs::write(samba.files().join("from/other"), "x".repeat(3_000_000)).unwrap();
    for name in ["from", "from/file", "from/other"] {
        std::os::unix::fs::chown(samba.files().join(name), Some(61001), Some(61001)).unwrap();
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let tree = runtime.block_on(async {
        let tree = tree(&samba).await;
        let owner = Descriptor::parse(&beside(&tree, "from").await.0).unwrap().owner.unwrap();
        adorn(&tree, owner).await;
        tree
    });
    let [from, to, usual] =
        ["from", "to", "usual"].map(|name| format!("smb://{}@{}/files/{name}", USER.0, samba.address));
    let copied = copy(&from, &to, "--copyall");
    assert_eq!(copied.status(), 1, "{:#}", copied.json());
    assert_eq!(copied.json()["not_kept"], serde_json::json!({}));
    assert_eq!(copy(&from, &usual, "").status(), 1);
    runtime.block_on(async {
        for name in ["", "/file", "/other"] {
            let [from, to, usual] = ["from", "to", "usual"].map(|root| format!("{root}{name}"));
            let there = beside(&tree, &from).await;
            assert!(!there.1.is_empty() && !there.2.is_empty(), "{there:?}");
            assert_eq!(there, beside(&tree, &to).await, "{name}");
            let usual = beside(&tree, &usual).await;
            assert_eq!((usual.1.len(), usual.2), (0, there.2), "{name}");
            assert_ne!(usual.0, there.0, "{name}");
        }
    });
}

/// A file of 40 MiB with data in two places; what it reads as.
fn plant_holes(path: &Path) -> Vec<u8> {
    let file = std::fs::File::create(path).unwrap();
    file.write_all_at(b"in the middle", (20 << 20) + 5).unwrap();
    file.write_all_at(b"further on", 31 << 20).unwrap();
    file.set_len((40 << 20) + 5).unwrap();
    std::fs::read(path).unwrap()
}

/// The bytes that the connections to one side have carried.
fn carried(report: &serde_json::Value, side: &str) -> u64 {
    report["channels"][side].as_array().unwrap().iter().map(|it| it["bytes"].as_u64().unwrap()).sum()
}

/// A file system mounted over a directory, until it is dropped.
struct ForeignMount(PathBuf);

impl ForeignMount {
    /// None for who may not mount.
    fn new(at: PathBuf, kind: &str, options: &str) -> Option<ForeignMount> {
        std::fs::create_dir(&at).unwrap();
        let mount =
            std::process::Command::new("mount").args(["-t", kind, "-o", options, "none"]).arg(&at).status();
        mount.is_ok_and(|status| status.success()).then(|| ForeignMount(at))
    }
}

impl Drop for ForeignMount {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// There and back: nothing but the two places with data is moved or stored. `stored` is where the server has
/// it.
fn holes_there_and_back(remote: &str, stored: &Path) {
    const LITTLE: u64 = 4 << 20;
    let dir = tempfile::tempdir().unwrap();
    let [here, back] = ["here", "back"].map(|name| dir.path().join(name).to_str().unwrap().to_owned());
    std::fs::create_dir(&here).unwrap();
    let content = plant_holes(&Path::new(&here).join("disk"));
    for (from, to, side, made) in [
        (here.as_str(), remote, "target", stored.join("disk")),
        (remote, back.as_str(), "source", Path::new(&back).join("disk")),
    ] {
        let report = copy(from, to, "").json();
        assert_eq!(report["files"]["copied"], 1, "{report:#}");
        assert!(std::fs::read(&made).unwrap() == content, "{to}");
        let blocks = made.metadata().unwrap().blocks();
        assert!(blocks * 512 < LITTLE, "{to}: {blocks}");
        let carried: u64 =
            report["channels"][side].as_array().unwrap().iter().map(|it| it["bytes"].as_u64().unwrap()).sum();
        assert!(carried < LITTLE, "{report:#}");
    }
    assert_eq!(copy(&here, &format!("{remote}/again"), "--verify").status(), 1);
}

#[test]
fn holes_go_to_samba_and_come_back() {
    let Some(samba) = Samba::start("holes_go_to_samba_and_come_back") else { return };
    let remote = format!("smb://{}@{}/files/copy", USER.0, samba.address);
    holes_there_and_back(&remote, &samba.files().join("copy"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let info = runtime.block_on(async { tree(&samba).await.stat("copy/disk").await.unwrap() });
    // Samba shows what has a dot in front as hidden, which the file has had while it was made.
    assert_eq!(info.file_attributes, (FileAttributes::ARCHIVE | FileAttributes::SPARSE_FILE).bits());
}

#[test]
fn what_cannot_keep_holes_gets_all_of_their_zeros() {
    let Some(samba) = Samba::start("what_cannot_keep_holes_gets_all_of_their_zeros") else { return };
    // It has no extended attributes, in which Samba would note that a file is sparse.
    let Some(mounted) = ForeignMount::new(samba.files().join("plain"), "ramfs", "mode=0777") else { return };
    let dir = tempfile::tempdir().unwrap();
    let content = plant_holes(&dir.path().join("disk"));
    let remote = format!("smb://{}@{}/files/plain", USER.0, samba.address);
    let report = copy(dir.path().to_str().unwrap(), &remote, "").json();
    assert_eq!(report["files"]["copied"], 1, "{report:#}");
    assert!(std::fs::read(mounted.0.join("disk")).unwrap() == content);
    assert!(carried(&report, "target") > content.len() as u64, "{report:#}");
}

#[test]
fn holes_go_to_ganesha_and_come_back() {
    let Some(ganesha) = Ganesha::start("holes_go_to_ganesha_and_come_back") else { return };
    holes_there_and_back(&format!("nfs://{}/files/copy", ganesha.address), &ganesha.files().join("copy"));
}

#[test]
fn many_holes_are_asked_for_in_parts_where_samba_has_no_room_for_all() {
    let Some(samba) = Samba::start("many_holes_are_asked_for_in_parts") else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sieve");
    let file = std::fs::File::create(&path).unwrap();
    // More than 4,096 ranges, and the last one far behind them.
    for number in 0..5000u64 {
        file.write_all_at(&number.to_le_bytes(), number * 16384).unwrap();
    }
    file.write_all_at(b"the last", 300 << 20).unwrap();
    let remote = format!("smb://{}@{}/files/copy", USER.0, samba.address);
    let [here, back] = [path, dir.path().join("back")].map(|path| path.to_str().unwrap().to_owned());
    assert_eq!(copy(&here, &remote, "").status(), 1);
    let report = copy(&remote, &back, "").json();
    assert_eq!(report["files"]["copied"], 1, "{report:#}");
    assert!(std::fs::read(&back).unwrap() == std::fs::read(&here).unwrap());
    assert!(carried(&report, "source") < 120 << 20, "{report:#}");
}

#[test]
fn a_full_samba_has_no_file_that_looks_whole() {
    let Some(samba) = Samba::start("a_full_samba_has_no_file_that_looks_whole") else { return };
    let Some(small) = ForeignMount::new(samba.files().join("small"), "tmpfs", "size=5m,mode=0777") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    for number in 0..60 {
        std::fs::write(dir.path().join(number.to_string()), "x".repeat(150_000 + number)).unwrap();
    }
    let remote = format!("smb://{}@{}/files/small", USER.0, samba.address);
    let report = copy(dir.path().to_str().unwrap(), &remote, "--retries 0");
    let names = std::fs::read_dir(&small.0).unwrap().map(|it| it.unwrap().file_name());
    let names: Vec<_> = names.collect();
    for name in &names {
        let [here, there] =
            [dir.path(), &small.0].map(|dir| std::fs::read(dir.join(name)).unwrap_or_default());
        assert!(here == there, "{name:?}: {:#}", report.json());
    }
    let copied = report.json()["files"]["copied"].as_u64().unwrap();
    assert_eq!((report.status(), copied), (9, names.len() as u64), "{:#}", report.json());
    // All that there is room for: none is refused since Samba counts room in larger steps.
    assert!((30..40).contains(&copied), "{copied}");
}

#[test]
fn many_small_files_go_over_sessions_that_are_opened_together() {
    let Some(samba) = Samba::start("many_small_files_go_over_sessions_that_are_opened_together") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let [here, back] = ["here", "back"].map(|name| dir.path().join(name).to_str().unwrap().to_owned());
    plant(Path::new(&here));
    for number in 0..100 {
        std::fs::write(Path::new(&here).join(format!("small-{number}")), number.to_string()).unwrap();
    }
    let remote = format!("smb://{}@{}/files/not/yet/many", USER.0, samba.address);
    let wrong = ForeignCommand::parse_from(["copy", here.as_str(), remote.as_str()]).args;
    let refused = copy::run(Plan::new(&wrong, &|_: &str| Ok("no".to_owned())).unwrap()).unwrap_err();
    assert!(refused.to_string().contains("wrong password"), "{refused}");
    let there = copy(&here, &remote, "");
    assert_eq!(there.status(), 1, "{:#}", there.json());
    assert!(there.json()["channels"]["target"].as_array().unwrap().len() >= 4, "{:#}", there.json());
    assert_eq!(copy(&here, &remote, "").status(), 0);
    assert_eq!(copy(&remote, &back, "").status(), 1);
    assert!(grown(Path::new(&here)) == grown(Path::new(&back)));
}

#[test]
fn a_tree_goes_to_samba_and_comes_back() {
    let Some(samba) = Samba::start("a_tree_goes_to_samba_and_comes_back") else { return };
    there_and_back(&format!("smb://{}@{}/files/copy/of", USER.0, samba.address));
}

#[test]
fn a_tree_goes_to_ganesha_and_comes_back() {
    let Some(ganesha) = Ganesha::start("a_tree_goes_to_ganesha_and_comes_back") else { return };
    there_and_back(&format!("nfs://{}/files/copy/of", ganesha.address));
}

/// Copies between two places of a foreign server, and links to it, which it may have none of.
fn links_and_copies_inside(from: &str, remote: &str, root: &Path) {
    let here = tempfile::tempdir().unwrap();
    let content: Vec<u8> = (0..20_000_003u32).map(|at| (at % 253) as u8).collect();
    std::fs::write(here.path().join("large"), &content).unwrap();
    std::os::unix::fs::symlink("large", here.path().join("link")).unwrap();
    let there = copy(here.path().to_str().unwrap(), from, "");
    let json = there.json();
    let not_kept = json["not_kept"]["symbolic links"].as_u64().unwrap_or(0);
    assert_eq!(there.status(), 1, "{json:#}");
    assert_eq!(json["files"]["copied"].as_u64(), Some(2 - not_kept), "{json:#}");
    let moved = copy(from, remote, "");
    assert_eq!(moved.status(), 1, "{:#}", moved.json());
    // A server that does not copy by itself says so, and it goes over this host.
    let by_server = moved.json()["bytes_copied_by_server"].as_u64().unwrap();
    assert!([0, content.len() as u64].contains(&by_server), "{:#}", moved.json());
    assert_eq!(by_server > 0, remote.starts_with("smb:"), "{:#}", moved.json());
    assert!(std::fs::read(root.join("large")).unwrap() == content);
    let again = copy(from, remote, "");
    assert_eq!(again.status(), 0, "{:#}", again.json());
}

#[test]
fn samba_copies_by_itself() {
    let Some(samba) = Samba::start("samba_copies_by_itself") else { return };
    let url = |name: &str| format!("smb://{}@{}/files/{name}", USER.0, samba.address);
    links_and_copies_inside(&url("from"), &url("to"), &samba.files().join("to"));
}

#[test]
fn links_go_to_ganesha_and_a_copy_there_is_whole_whoever_makes_it() {
    let Some(ganesha) = Ganesha::start("links_go_to_ganesha_and_a_copy_there_is_whole") else { return };
    let url = |name: &str| format!("nfs://{}/files/{name}", ganesha.address);
    links_and_copies_inside(&url("from"), &url("to"), &ganesha.files().join("to"));
}
