//! Unused files are closed when descriptors run short, and are the same files when they are used again.
//! The tests have a process of their own, because the limit counts for the whole process. They run one at
//! a time.

mod common;

use std::os::unix::fs::FileExt;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use volume::{Failure, Node, NodeKind, OpenHow, Patience, Volume};
use volume_posix::{IdleFiles, PosixVolume};

const LIMIT: u64 = 300;
/// More files than there are descriptors.
const MANY: usize = 500;

/// Lowers the limit for one test at a time. `None` if the host opens nothing by handle.
fn few() -> Option<MutexGuard<'static, ()>> {
    static ALONE: Mutex<()> = Mutex::new(());
    if !common::is_root() {
        common::skipped("only root opens files by handle");
        return None;
    }
    let alone = ALONE.lock();
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(LIMIT), maximum }).unwrap();
    Some(alone)
}

/// A volume in memory, if the host has a file system in memory: the tests count operations, so the medium
/// does not matter.
fn in_memory() -> (PosixVolume, tempfile::TempDir) {
    let Ok(temp_dir) = tempfile::tempdir_in("/dev/shm") else { return common::fresh() };
    std::fs::create_dir(common::files(&temp_dir)).unwrap();
    (common::open(&temp_dir), temp_dir)
}

fn name_of(at: usize) -> volume::Name {
    common::name(&format!("f{at}"))
}

/// New files, open for reading and writing. Each holds its number.
fn files(volume: &PosixVolume, count: usize) -> Vec<Arc<dyn Node>> {
    let root = volume.root().unwrap();
    let make = |at: usize| {
        let file = root.create_file(&name_of(at), 0o600, None).unwrap();
        file.write(0, at.to_string().as_bytes()).unwrap();
        file
    };
    (0..count).map(make).collect()
}

fn content(node: &dyn Node) -> volume::Result<String> {
    let mut out = Vec::new();
    node.read(0, 100, &mut out, Patience::Block)?;
    Ok(String::from_utf8(out).unwrap())
}

/// Opens so many other files that the files that were used before are closed.
fn push_out(volume: &PosixVolume) -> Vec<Arc<dyn Node>> {
    let root = volume.root().unwrap();
    let make = |at: usize| root.create_file(&common::name(&format!("other{at}")), 0o600, None).unwrap();
    (0..LIMIT as usize).map(make).collect()
}

fn clear(volume: &PosixVolume) {
    let root = volume.root().unwrap();
    for at in 0..LIMIT as usize {
        root.remove(&common::name(&format!("other{at}")), false, None).unwrap();
    }
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn more_files_than_descriptors_are_open_and_each_is_what_it_was() {
    let Some(_alone) = few() else { return };
    let before = IdleFiles::count();
    let (volume, temp_dir) = in_memory();
    let open = files(&volume, MANY);
    let root = volume.root().unwrap();
    let reading: Vec<_> = (0..MANY).map(|at| root.lookup(&name_of(at), OpenHow::Read).unwrap()).collect();
    let looking: Vec<_> =
        (0..MANY).map(|at| root.lookup(&name_of(at), OpenHow::Attributes).unwrap()).collect();
    let others: Vec<_> = (0..LIMIT / 8).map(|_| std::fs::File::open("/dev/null").unwrap()).collect();
    drop(others);
    for at in (0..MANY).chain((0..MANY).rev()) {
        assert_eq!(content(&*open[at]), Ok(at.to_string()));
        assert_eq!(content(&*reading[at]), Ok(at.to_string()), "nothing was cut");
        assert_eq!(reading[at].write(0, b"x"), Err(Failure::Denied));
        assert_eq!(content(&*looking[at]), Err(Failure::Denied));
        assert_eq!(looking[at].stat().unwrap().id, open[at].id());
        let text = Arc::clone(&looking[at]).open_again(OpenHow::ReadWrite).map(|node| content(&*node));
        assert_eq!(text, Ok(Ok(at.to_string())));
        open[at].write(100, at.to_string().as_bytes()).unwrap();
        open[at].set_size(103).unwrap();
        open[at].set_size(at.to_string().len() as u64).unwrap();
        if at % 20 == 0 {
            open[at].sync(true).unwrap();
        }
    }
    // The attributes of the file show a change by a user of the host.
    std::fs::File::options()
        .write(true)
        .open(common::files(&temp_dir).join("f0"))
        .unwrap()
        .write_at(b"7", 0)
        .unwrap();
    assert_eq!((content(&*open[0]), content(&*reading[0])), (Ok("7".into()), Ok("7".into())));
    assert!(open_descriptors() < LIMIT as usize - LIMIT as usize / 8);
    let now = IdleFiles::count();
    assert!(now.closed - before.closed > MANY as u64 && now.opened_again - before.opened_again > MANY as u64);
}

#[test]
fn links_and_special_files_are_closed_too() {
    let Some(_alone) = few() else { return };
    let (volume, _place) = common::fresh();
    let root = volume.root().unwrap();
    let link = |at| root.create_link(&name_of(at), format!("to{at}").as_bytes(), None).unwrap();
    let links: Vec<_> = (0..MANY).map(link).collect();
    let pipe = |at| root.create_special(&name_of(MANY + at), NodeKind::Pipe, 0o600, 0, None).unwrap();
    let pipes: Vec<_> = (0..MANY).map(pipe).collect();
    for at in 0..MANY {
        assert_eq!(links[at].link_text().unwrap(), format!("to{at}").into_bytes());
        pipes[at].set_mode(0o640).unwrap();
        assert_eq!(pipes[at].stat().unwrap().mode, 0o640);
    }
}

#[test]
fn a_file_that_loses_its_name_stays_open_whether_it_is_closed_just_then_or_not() {
    let Some(_alone) = few() else { return };
    let (volume, _place) = common::fresh();
    let root = volume.root().unwrap();
    let open = files(&volume, MANY);
    // The latest files are open, and the others are closed. One in nine of both is removed, in each of
    // three ways.
    let gone: Vec<usize> = (0..MANY).filter(|at| at % 9 == 0).collect();
    for &at in &gone {
        match at % 27 {
            0 => root.remove(&name_of(at), false, None).unwrap(),
            9 => root.rename(&name_of(at + 1), &*root, &name_of(at), true, None).unwrap(),
            _ => {
                root.add_name(&common::name("second"), &*open[at], None).unwrap();
                root.remove(&name_of(at), false, None).unwrap();
                root.remove(&common::name("second"), false, None).unwrap();
            }
        }
    }
    let others = push_out(&volume);
    for &at in &gone {
        assert_eq!(content(&*open[at]), Ok(at.to_string()));
        assert_eq!(content(&*open[at + 1]), Ok((at + 1).to_string()));
        assert_eq!(open[at].stat().unwrap().links, 0);
    }
    drop(others);
    clear(&volume);
}

#[test]
fn what_a_program_of_the_host_removes_is_gone_and_another_file_is_never_taken_for_it() {
    let Some(_alone) = few() else { return };
    let (volume, temp_dir) = common::fresh();
    const GONE: usize = 200;
    let open = files(&volume, MANY);
    let others = push_out(&volume);
    for at in MANY - GONE..MANY {
        let path = common::files(&temp_dir).join(format!("f{at}"));
        std::fs::remove_file(&path).unwrap();
        // Most file systems give its number to the next file.
        std::fs::write(&path, "another").unwrap();
    }
    let read: Vec<_> = (MANY - GONE..MANY).map(|at| (at, content(&*open[at]))).collect();
    assert!(read.iter().all(|(at, read)| *read == Ok(at.to_string()) || *read == Err(Failure::Stale)));
    let gone = read.iter().filter(|(_, read)| read.is_err()).count();
    assert!(gone > GONE / 2, "{gone}");
    drop(others);
    clear(&volume);
}

#[test]
fn a_piece_that_is_being_sent_keeps_its_file_open() {
    let Some(_alone) = few() else { return };
    let (volume, _place) = common::fresh();
    let open = files(&volume, LIMIT as usize);
    let pieces: Vec<_> = open[200..220].iter().map(|node| Arc::clone(node).range(0, 3).unwrap()).collect();
    let others = push_out(&volume);
    for (at, piece) in pieces.iter().enumerate() {
        let piece = piece.as_ref().expect("it was just written");
        let mut bytes = [0; 3];
        assert_eq!(rustix::io::pread(piece.file.fd(), &mut bytes, piece.at), Ok(3));
        assert_eq!(bytes, *(at + 200).to_string().as_bytes());
    }
    drop(others);
    clear(&volume);
}

#[test]
fn threads_that_use_and_remove_files_never_meet_anothers() {
    const THREADS: usize = 6;
    let Some(_alone) = few() else { return };
    let (volume, _place) = in_memory();
    let root = volume.root().unwrap();
    let open = files(&volume, MANY);
    std::thread::scope(|threads| {
        for thread in 0..THREADS {
            let (open, root) = (&open, &root);
            threads.spawn(move || {
                let mut random = thread as u64 + 1;
                for turn in 0..2000 {
                    random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
                    let at = (random >> 33) as usize % MANY;
                    assert_eq!(content(&*open[at]), Ok(at.to_string()));
                    if turn % 10 == 0 {
                        open[at].write(0, at.to_string().as_bytes()).unwrap();
                    }
                    // Each thread removes its own files. All threads use all files.
                    if turn % 250 == 0 {
                        let own = (turn / 250) * THREADS + thread;
                        root.remove(&name_of(own), false, None).unwrap();
                        drop(root.create_file(&name_of(own), 0o600, None).unwrap());
                    }
                }
            });
        }
    });
    for (at, node) in open.iter().enumerate() {
        assert_eq!(content(&**node), Ok(at.to_string()));
    }
}
