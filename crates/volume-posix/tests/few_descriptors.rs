//! The descriptors that are left when files have used up theirs. The test has a process of its own,
//! because the limit counts for the whole process.

mod common;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use volume::{Failure, NodeKind, OpenHow, Volume};

const LIMIT: u64 = 400;

#[test]
fn an_eighth_stays_for_others_and_nothing_is_made_that_cannot_be_opened() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(LIMIT), maximum }).unwrap();
    let (volume, temp_dir) = common::fresh();
    // A file without a name cannot be closed and opened again.
    let nameless = common::file(&volume, "nameless");
    let found = common::file(&volume, "f");
    let root = volume.root().unwrap();
    root.remove(&common::name("nameless"), false, None).unwrap();
    let mut open = Vec::new();
    let refused = loop {
        match nameless.open_again(OpenHow::Read) {
            Ok(node) => open.push(node),
            Err(why) => break why,
        }
    };
    assert_eq!(refused, Failure::Exhausted);
    let new = common::name("new");
    let made = [
        root.create_file(&new, 0o644, None),
        root.create_directory(&new, 0o755, None),
        root.create_link(&new, b"f", None),
        root.create_special(&new, NodeKind::Pipe, 0o644, 0, None),
        root.open_stream(&new, true, false),
        root.open_again(OpenHow::Read),
        root.lookup(&common::name("f"), OpenHow::Read),
        open[0].open_again(OpenHow::ReadWrite),
        volume.find(&found.address().unwrap()),
    ];
    assert_eq!(made.map(|node| node.err()), [Some(Failure::Exhausted); 9]);
    assert!(std::fs::symlink_metadata(common::files(&temp_dir).join("new")).is_err());
    let others: Vec<_> = (0..LIMIT / 8).map(|_| std::fs::File::open("/dev/null")).collect();
    assert!(others.iter().all(Result::is_ok));
    assert!(std::fs::File::open("/dev/null").is_err(), "no more are kept back");
    drop(others);
    open.truncate(open.len() - 8);
    root.create_file(&new, 0o644, None).unwrap();
}
