//! A file system that is mounted below an export, seen from the client. Without the privilege to mount, each
//! test reports that it was skipped.

use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use nfs_wire::NfsStat;
use nfs_wire::attr::{Attr, AttrNum, Bitmap};
use nfs_wire::op::{Args, Res, getattr, readdir};
use nfs_wire::types::*;
use testkit::nfs::*;
use volume_posix::PosixVolume;

/// Reports that the calling test is skipped: to the terminal, past the harness.
fn skipped(why: &str) {
    let thread = std::thread::current();
    let _ = writeln!(std::io::stderr(), "SKIPPED {}: {why}", thread.name().unwrap_or("a test"));
}

fn run(program: &str, arguments: &[&str]) -> bool {
    let done = Command::new(program).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
    done.is_ok_and(|status| status.success())
}

/// A mount, which is unmounted on drop.
struct MountGuard(PathBuf);

impl Drop for MountGuard {
    fn drop(&mut self) {
        run("umount", &["-l", self.0.to_str().expect("text")]);
    }
}

/// An export with the directory `m`, on which a file system with the file `f` is mounted.
struct MountedExport {
    temp_dir: tempfile::TempDir,
    mounted: Option<MountGuard>,
}

impl MountedExport {
    /// None if nothing can be mounted. The test is skipped then.
    fn new(mount: impl Fn(&Path, &Path) -> bool) -> Option<MountedExport> {
        let temp_dir = tempfile::tempdir().expect("a directory");
        std::fs::create_dir_all(temp_dir.path().join("files/m")).expect("a directory");
        std::fs::write(temp_dir.path().join("files/own"), "own").expect("a file");
        let mut scene = MountedExport { temp_dir, mounted: None };
        scene.mount(mount).then_some(scene)
    }

    fn top(&self) -> PathBuf {
        self.temp_dir.path().join("files/m")
    }

    fn mount(&mut self, mount: impl Fn(&Path, &Path) -> bool) -> bool {
        let is_root = std::fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0);
        if !is_root || !mount(self.temp_dir.path(), &self.top()) {
            skipped("nothing of this kind can be mounted here");
            return false;
        }
        self.mounted = Some(MountGuard(self.top()));
        std::fs::write(self.top().join("f"), "below").expect("a file");
        true
    }

    /// A server of the export, as after each start.
    fn serve(&self) -> NfsTestServer {
        let (files, beside) = (self.temp_dir.path().join("files"), self.temp_dir.path().join("beside"));
        NfsTestServer::on(Arc::new(PosixVolume::open(&files, &beside).expect("a volume")))
    }
}

/// A small ext4 in a file. It survives a remount.
fn ext4(temp_dir: &Path, top: &Path) -> bool {
    let image = temp_dir.join("image");
    let [path, top] = [&image, top].map(|path| path.to_str().expect("text"));
    let is_made = image.exists() || {
        std::fs::File::create(&image).expect("a file").set_len(8 << 20).expect("room");
        run("mkfs.ext4", &["-q", path])
    };
    is_made && run("mount", &["-t", "ext4", "-o", "loop", path, top])
}

fn tmpfs(_: &Path, top: &Path) -> bool {
    run("mount", &["-t", "tmpfs", "-o", "size=256k", "none", top.to_str().expect("text")])
}

fn bitmap(numbers: &[AttrNum]) -> Bitmap {
    Bitmap::of(&numbers.iter().map(|number| number.get()).collect::<Vec<_>>())
}

const ASKED: &[AttrNum] = &[AttrNum::Fsid, AttrNum::Fileid, AttrNum::SpaceTotal, AttrNum::MountedOnFileid];

/// The attributes of a file that tell its file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct FileLocation {
    fsid: FsId,
    fileid: u64,
    total: u64,
    mounted_on: u64,
}

impl FileLocation {
    fn of<'a>(attributes: impl Iterator<Item = Attr<'a>>) -> FileLocation {
        let mut told = FileLocation::default();
        for attribute in attributes {
            match attribute {
                Attr::Fsid(fsid) => told.fsid = fsid,
                Attr::Fileid(number) => told.fileid = number,
                Attr::SpaceTotal(bytes) => told.total = bytes,
                Attr::MountedOnFileid(number) => told.mounted_on = number,
                other => panic!("{other:?}"),
            }
        }
        told
    }
}

/// The attributes and the filehandle of a path in the export.
fn look(client: &mut Client, wire: &mut Wire, path: &[&str]) -> (FileLocation, Vec<u8>) {
    let names = path.iter().map(|name| lookup(name.as_bytes()));
    let get = Args::GetAttr(getattr::Args { attr_request: bitmap(ASKED) });
    let all: Vec<_> =
        [Args::PutRootFh, lookup(EXPORT)].into_iter().chain(names).chain([get, Args::GetFh]).collect();
    let answer = client.run(wire, &all).ok();
    let results = answer.results();
    let [.., Res::GetAttr(Ok(found)), Res::GetFh(Ok(handle))] = results[..] else { panic!("{results:?}") };
    let told =
        FileLocation::of(found.obj_attributes.iter().map(|attribute| attribute.expect("an attribute")));
    (told, handle.object.0.to_vec())
}

/// The entries of the export's root: name, file system, whether with a filehandle, and error.
fn list(
    client: &mut Client,
    wire: &mut Wire,
    more: &[AttrNum],
) -> Vec<(String, FileLocation, bool, NfsStat)> {
    let wanted = [ASKED, &[AttrNum::Filehandle], more].concat();
    let list = Args::ReadDir(readdir::Args {
        cookie: 0,
        cookieverf: [0; 8],
        dircount: 4096,
        maxcount: 8192,
        attr_request: bitmap(&wanted),
    });
    let answer = client.run(wire, &[Args::PutRootFh, lookup(EXPORT), list]).ok();
    let Res::ReadDir(Ok(found)) = answer.last() else { panic!("{answer:?}") };
    let mut entries = Vec::new();
    for entry in found.entries.iter() {
        let (mut has_handle, mut error, mut rest) = (false, NfsStat::Ok, Vec::new());
        for attribute in entry.attrs.iter() {
            match attribute.expect("an attribute") {
                Attr::Filehandle(_) => has_handle = true,
                Attr::RdattrError(why) => error = why,
                other => rest.push(other),
            }
        }
        let name = String::from_utf8(entry.name.to_vec()).expect("text");
        entries.push((name, FileLocation::of(rest.into_iter()), has_handle, error));
    }
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    entries
}

/// The inode number that a directory lists under a name. For a covered directory it is that of the directory
/// below.
fn listed_number(scene: &MountedExport, name: &str) -> u64 {
    use std::os::unix::fs::DirEntryExt;
    let entries = std::fs::read_dir(scene.temp_dir.path().join("files")).expect("a directory");
    let found = entries.map(|entry| entry.expect("an entry")).find(|entry| entry.file_name() == name);
    found.expect("an entry").ino()
}

#[test]
fn a_mounted_file_system_is_entered_and_listed_with_an_fsid_of_its_own() {
    for mount in [tmpfs, ext4] as [fn(&Path, &Path) -> bool; 2] {
        let Some(scene) = MountedExport::new(mount) else { return };
        let world = scene.serve();
        let mut wire = world.connect();
        let mut client = Client::new(&mut wire, b"client", 1);
        let (root, _) = look(&mut client, &mut wire, &[]);
        let (own, _) = look(&mut client, &mut wire, &["own"]);
        let (top, _) = look(&mut client, &mut wire, &["m"]);
        let (file, handle) = look(&mut client, &mut wire, &["m", "f"]);
        // Files on the export's own file system are unaffected.
        assert_eq!((root.fsid, own.fsid), (FsId { major: 1, minor: 0 }, FsId { major: 1, minor: 0 }));
        let inode = |path: PathBuf| std::fs::metadata(path).expect("a file").ino();
        let number = inode(scene.temp_dir.path().join("files/own"));
        assert_eq!((own.fileid, own.mounted_on), (number, number));
        assert_eq!(own.total, root.total);
        // The mounted file system has its own fsid and space, and its root covers a directory of the export.
        assert_ne!(top.fsid, root.fsid);
        assert_eq!((top.fsid.major, file.fsid, file.total), (1, top.fsid, top.total));
        assert_ne!(top.total, root.total);
        assert_eq!((top.fileid, top.mounted_on), (inode(scene.top()), listed_number(&scene, "m")));
        assert_ne!(top.fileid, top.mounted_on);
        assert_eq!((file.fileid, file.mounted_on), (inode(scene.top().join("f")), file.fileid));
        let read = reading(StateId { seqid: 0, other: [0; 12] }, 0, 9);
        let answer = client.on(&mut wire, &handle, &[read]).ok();
        let Res::Read(Ok(found)) = answer.last() else { panic!("{answer:?}") };
        assert_eq!(found.data, b"below");
        // LOOKUPP leads back.
        let up = client.run(&mut wire, &[Args::PutRootFh, lookup(EXPORT), lookup(b"m"), Args::LookupP]);
        assert_eq!(up.status(), NfsStat::Ok);
        for more in [&[][..], &[AttrNum::RdattrError]] {
            let listed = list(&mut client, &mut wire, more);
            let expected =
                [("m", top), ("own", own)].map(|(name, it)| (name.to_owned(), it, true, NfsStat::Ok));
            assert_eq!(listed, expected);
        }
    }
}

#[test]
fn a_filehandle_outlives_the_server_and_a_remount_and_is_stale_in_between() {
    let Some(mut scene) = MountedExport::new(ext4) else { return };
    let (told, handle) = {
        let world = scene.serve();
        let mut wire = world.connect();
        let mut client = Client::new(&mut wire, b"client", 1);
        look(&mut client, &mut wire, &["m", "f"])
    };
    let mut world = scene.serve();
    let mut wire = world.connect();
    let mut client = Client::new(&mut wire, b"client", 1);
    let get = || Args::GetAttr(getattr::Args { attr_request: bitmap(ASKED) });
    let seen = |answer: &ReceivedCompound| {
        let Res::GetAttr(Ok(found)) = answer.last() else { panic!("{answer:?}") };
        FileLocation::of(found.obj_attributes.iter().map(|attribute| attribute.expect("an attribute")))
    };
    assert_eq!(seen(&client.on(&mut wire, &handle, &[get()]).ok()), told);
    // Unused items are freed, so the file system can be unmounted.
    let top = scene.top();
    let is_unmounted = (0..20).any(|_| {
        world.pass(3);
        world.engine.maintain(world.now);
        world.engine.tick(world.now);
        world.engine.volume().wait_events(Duration::from_millis(10));
        run("umount", &[top.to_str().expect("text")])
    });
    assert!(is_unmounted, "a descriptor keeps it from being unmounted");
    scene.mounted = None;
    let mut wire = world.connect();
    assert_eq!(client.on(&mut wire, &handle, &[get()]).status(), NfsStat::Stale);
    if scene.mount(ext4) {
        assert_eq!(seen(&client.on(&mut wire, &handle, &[get()]).ok()), told);
    }
}

/// Mounts a FUSE file system whose process is gone, for this user. Only that user may access it.
fn fuse_of_nobody(top: &Path, user: u32) -> Option<MountGuard> {
    std::fs::create_dir_all(top).expect("a directory");
    let device = std::fs::File::options().read(true).write(true).open("/dev/fuse").ok()?;
    let options = format!("fd=0,rootmode=40000,user_id={user},group_id={user}");
    let mut mount = Command::new("mount");
    mount.args(["-i", "-t", "fuse", "-o", &options, "none"]).arg(top).stdin(device).stderr(Stdio::null());
    mount.status().is_ok_and(|status| status.success()).then(|| MountGuard(top.to_owned()))
}

#[test]
fn what_the_host_lists_and_does_not_show_is_listed_with_an_error() {
    let Some(scene) = MountedExport::new(tmpfs) else { return };
    for (user, expected) in [(0, NfsStat::Stale), (1, NfsStat::Access)] {
        let world = scene.serve();
        let mut wire = world.connect();
        let mut client = Client::new(&mut wire, b"client", 1);
        let Some(_dead) = fuse_of_nobody(&scene.temp_dir.path().join("files/dead"), user) else {
            return skipped("FUSE cannot be mounted here");
        };
        let list = |client: &mut Client, wire: &mut Wire, more: &[AttrNum]| -> Vec<(String, NfsStat)> {
            list(client, wire, more).into_iter().map(|(name, _, _, error)| (name, error)).collect()
        };
        let all = |of_dead| [("dead", of_dead), ("m", NfsStat::Ok), ("own", NfsStat::Ok)];
        let all = |of_dead| all(of_dead).map(|(name, error)| (name.to_owned(), error));
        assert_eq!(list(&mut client, &mut wire, &[AttrNum::RdattrError]), all(expected));
        assert_eq!(list(&mut client, &mut wire, &[]), all(NfsStat::Ok), "no attributes, no error");
    }
}

/// Mounts a part of a file system, and moves a directory to another part, which is not mounted.
#[test]
fn what_the_host_moves_out_of_the_part_that_is_mounted_is_stale() {
    let outside = |temp_dir: &Path| temp_dir.join("outside");
    let bind = |temp_dir: &Path, top: &Path| {
        std::fs::create_dir_all(outside(temp_dir)).expect("a directory");
        let is_mounted = tmpfs(temp_dir, &outside(temp_dir));
        std::fs::create_dir_all(outside(temp_dir).join("part/d/e")).expect("a directory");
        let part = outside(temp_dir).join("part");
        is_mounted && run("mount", &["--bind", part.to_str().expect("text"), top.to_str().expect("text")])
    };
    let Some(scene) = MountedExport::new(bind) else { return };
    let outside = MountGuard(outside(scene.temp_dir.path()));
    let world = scene.serve();
    let mut wire = world.connect();
    let mut client = Client::new(&mut wire, b"client", 1);
    let handles = [&["m", "d"][..], &["m", "d", "e"]].map(|path| look(&mut client, &mut wire, path).1);
    let mut statuses = || {
        wire.now.mono_ns += 1_000_000;
        let get = || Args::GetAttr(getattr::Args { attr_request: bitmap(ASKED) });
        handles.each_ref().map(|handle| client.on(&mut wire, handle, &[get()]).status())
    };
    assert_eq!(statuses(), [NfsStat::Ok; 2]);
    let [from, to] = ["part/d", "d"].map(|path| outside.0.join(path).to_str().expect("text").to_owned());
    assert!(run("mv", &[&from, &to]));
    assert_eq!(statuses(), [NfsStat::Stale; 2]);
    assert!(run("mv", &[&to, &from]));
    assert_eq!(statuses(), [NfsStat::Ok; 2]);
}

#[test]
fn what_has_no_filehandle_is_listed_all_the_same() {
    // An overlay has no filehandles unless it is mounted with them.
    let overlay = |temp_dir: &Path, top: &Path| {
        let [lower, upper, work] = ["lower", "upper", "work"].map(|name| temp_dir.join(name));
        for path in [&lower, &upper, &work] {
            std::fs::create_dir_all(path).expect("a directory");
        }
        let options =
            format!("lowerdir={},upperdir={},workdir={}", lower.display(), upper.display(), work.display());
        run("mount", &["-t", "overlay", "-o", &options, "none", top.to_str().expect("text")])
    };
    let Some(scene) = MountedExport::new(overlay) else { return };
    let world = scene.serve();
    let mut wire = world.connect();
    let mut client = Client::new(&mut wire, b"client", 1);
    let (own, _) = look(&mut client, &mut wire, &["own"]);
    let listed = list(&mut client, &mut wire, &[]);
    let [(m, at, has_handle, _), second] = &listed[..] else { panic!("{listed:?}") };
    assert_eq!((m.as_str(), *has_handle), ("m", false));
    assert!(at.fsid != own.fsid && at.mounted_on == listed_number(&scene, "m"), "{at:?}");
    assert_eq!(second, &("own".to_owned(), own, true, NfsStat::Ok));
    let listed = list(&mut client, &mut wire, &[AttrNum::RdattrError]);
    let errors: Vec<_> = listed.iter().map(|(name, _, _, error)| (name.as_str(), *error)).collect();
    assert_eq!(errors, [("m", NfsStat::NotSupp), ("own", NfsStat::Ok)]);
}
