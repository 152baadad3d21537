//! What cannot be brought about from outside at the right moment: files that change, and copies that were broken off.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use crate::error::Fault;
use crate::file::{self, Shared, part_of};
use crate::progress::Progress;
use crate::survey::Job;
use crate::tree::{Facts, Like, Tree};
use crate::{Args, Plan};

#[derive(Debug, clap::Parser)]
struct Cli {
    #[command(flatten)]
    args: Args,
}

const MIB: u64 = 1024 * 1024;

async fn shared(dir: &Path, options: &str) -> Arc<Shared> {
    let [source, target] = ["source", "target"].map(|name| dir.join(name));
    fs::create_dir_all(&source).unwrap();
    fs::create_dir_all(&target).unwrap();
    let line = format!("copy {} {} {options}", source.display(), target.display());
    let args = <Cli as clap::Parser>::parse_from(line.split_whitespace()).args;
    let plan = Plan::new(&args, &|_| unreachable!("nobody logs on")).unwrap();
    let source = Tree::open(&plan.source, &plan.source_access).await.unwrap();
    let target = Tree::open(&plan.target, &plan.target_access).await.unwrap();
    let mut shared = Shared::new(plan, source, target, Progress::new());
    shared.window = 4 * MIB;
    Arc::new(shared)
}

async fn job(shared: &Shared, path: &str) -> Job {
    let facts = shared.source.stat(path).await.unwrap().unwrap();
    Job { from: path.to_owned(), path: path.to_owned(), facts, is_new: false }
}

fn names(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap().map(|it| it.unwrap().file_name().into_string().unwrap());
    names.collect()
}

fn content(length: u64) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8 + 1).collect()
}

#[tokio::test]
async fn a_broken_copy_goes_on_behind_what_is_known_to_be_there() {
    let dir = tempfile::tempdir().unwrap();
    let shared = shared(dir.path(), "--retries 0").await;
    fs::write(dir.path().join("source/film"), content(10 * MIB + 17)).unwrap();
    let job = job(&shared, "film").await;
    // 9 MiB have been there: the first 5 cannot be in doubt. What was put there tells whether they are read again.
    let part = dir.path().join("target").join(part_of(&job.path, &job.facts));
    fs::write(&part, vec![0xee; 9 * MIB as usize]).unwrap();
    assert_eq!(file::copy(&shared, &job).await.unwrap(), 10 * MIB + 17);
    let made = fs::read(dir.path().join("target/film")).unwrap();
    assert!(made[..5 * MIB as usize].iter().all(|byte| *byte == 0xee));
    assert!(made[5 * MIB as usize..] == content(10 * MIB + 17)[5 * MIB as usize..]);
    assert_eq!(names(&dir.path().join("target")), ["film"]);
}

#[tokio::test]
async fn what_an_earlier_copy_has_left_wrong_is_found_by_reading_back() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("source")).unwrap();
    fs::write(dir.path().join("source/film"), content(10 * MIB)).unwrap();
    let damaged = |shared: &Shared, facts: &Facts| {
        assert!(shared.plan.verify);
        let part = dir.path().join("target").join(part_of("film", facts));
        fs::write(part, vec![0xee; 9 * MIB as usize]).unwrap();
    };
    let once = shared(dir.path(), "--verify --retries 0").await;
    let job = job(&once, "film").await;
    damaged(&once, &job.facts);
    let fault = file::copy(&once, &job).await.unwrap_err();
    assert!(matches!(fault, Fault::Differs), "{fault}");
    assert!(names(&dir.path().join("target")).is_empty());
    let again = shared(dir.path(), "--verify --retries 1").await;
    damaged(&again, &job.facts);
    file::copy(&again, &job).await.unwrap();
    assert!(fs::read(dir.path().join("target/film")).unwrap() == content(10 * MIB));
}

#[tokio::test]
async fn a_file_that_was_changed_is_copied_as_it_is_then_or_not_at_all() {
    for length in [4000, 3 * MIB] {
        let dir = tempfile::tempdir().unwrap();
        let shared_once = shared(dir.path(), "--retries 0").await;
        let source = dir.path().join("source/file");
        fs::write(&source, content(length)).unwrap();
        let job = job(&shared_once, "file").await;
        fs::File::options().append(true).open(&source).unwrap().write_all_at(b"more", length).unwrap();
        let fault = file::copy(&shared_once, &job).await.unwrap_err();
        assert!(matches!(fault, Fault::Changed), "{fault}");
        assert!(names(&dir.path().join("target")).is_empty());
        let shared_again = shared(dir.path(), "--retries 1").await;
        assert_eq!(file::copy(&shared_again, &job).await.unwrap(), length + 4);
        let made = fs::read(dir.path().join("target/file")).unwrap();
        assert!(made == fs::read(&source).unwrap());
    }
}

#[tokio::test]
async fn holes_stay_holes() {
    use std::os::unix::fs::MetadataExt;
    let dir = tempfile::tempdir().unwrap();
    let shared = shared(dir.path(), "").await;
    let source = fs::File::create(dir.path().join("source/disk")).unwrap();
    source.write_all_at(b"in the middle", 40 * MIB + 5).unwrap();
    source.set_len(90 * MIB).unwrap();
    let job = job(&shared, "disk").await;
    assert!(job.facts.sparse, "the file system of this host has no holes");
    file::copy(&shared, &job).await.unwrap();
    let made = fs::File::open(dir.path().join("target/disk")).unwrap();
    assert!(made.metadata().unwrap().blocks() * 512 < 3 * MIB);
    assert_eq!(made.metadata().unwrap().len(), 90 * MIB);
    let mut middle = [0; 13];
    made.read_exact_at(&mut middle, 40 * MIB + 5).unwrap();
    assert_eq!(&middle, b"in the middle");
}

#[tokio::test]
async fn what_has_permission_bits_is_nobody_elses_until_it_is_whole() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let shared = shared(dir.path(), "").await;
    let target = dir.path().join("target");
    let bits = |name: &str| fs::metadata(target.join(name)).unwrap().permissions().mode() & 0o777;
    let none = Like { modified: None, mode: None, attributes: None };
    for (like, file, directory) in [(Like { mode: Some(0o644), ..none }, 0o600, 0o700), (none, 0o666, 0o777)]
    {
        let part = shared.target.create("part", true, &like).await.unwrap();
        shared.target.make_directory("private", &like).await.unwrap();
        // The process's umask takes its part of those that have none of their own.
        assert_eq!(bits("part") & !file, 0);
        assert_eq!(bits("private") & !directory, 0);
        if like.mode.is_none() {
            assert!(bits("part") & 0o600 == 0o600 && bits("private") & 0o700 == 0o700);
        }
        shared.target.finish(part, "part", "file", &like).await.unwrap();
        assert_eq!(bits("file"), like.mode.unwrap_or(bits("file")));
        fs::remove_dir(target.join("private")).unwrap();
    }
}
