//! Situations that cannot be caused from outside at the right moment: files that change, and copies that
//! break off.

mod links;

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use client::remote::Attributes;

use crate::context::CopyContext;
use crate::error::Fault;
use crate::file;
use crate::job::{Directory, Job, part_of};
use crate::link::Outcome;
use crate::mirror::extras;
use crate::progress::Progress;
use crate::survey::survey;
use crate::survey_result::{PriorSurvey, Survey};
use crate::tree::Tree;
use crate::tree::listing::TargetName;
use crate::tree::target_attributes::TargetAttributes;
use crate::{Args, Plan};

#[derive(Debug, clap::Parser)]
pub(crate) struct ParsedCommand {
    #[command(flatten)]
    pub(crate) args: Args,
}

const MIB: u64 = 1024 * 1024;

pub(crate) async fn shared(dir: &Path, options: &str) -> Arc<CopyContext> {
    let [source, target] = ["source", "target"].map(|name| dir.join(name));
    fs::create_dir_all(&source).unwrap();
    fs::create_dir_all(&target).unwrap();
    let line = format!("copy {} {} {options}", source.display(), target.display());
    let args = <ParsedCommand as clap::Parser>::parse_from(line.split_whitespace()).args;
    let plan = Plan::new(&args, &|_| unreachable!("nobody logs on")).unwrap();
    let source = Tree::open(&plan.source, &plan.source_access).await.unwrap();
    let target = Tree::open(&plan.target, &plan.target_access).await.unwrap();
    let mut shared = CopyContext::new(plan, source, target, Progress::new());
    shared.window = 4 * MIB;
    Arc::new(shared)
}

pub(crate) async fn job(shared: &CopyContext, path: &str) -> Job {
    let attributes = shared.source.stat(path).await.unwrap().unwrap();
    Job { from: path.to_owned(), path: path.to_owned(), attributes, spot: TargetName::Taken, twin: None }
}

/// The root of a copy that exists on both sides.
pub(crate) fn directory_of(attributes: Attributes) -> Directory {
    let (path, from) = Default::default();
    Directory { path, from, trail: None, attributes, there: Some(attributes), restore: None }
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
    // 9 MiB exist, and the first 5 are certain. The content tells whether they are read again.
    let part = dir.path().join("target").join(part_of(&job.path, &job.attributes));
    fs::write(&part, vec![0xee; 9 * MIB as usize]).unwrap();
    assert_eq!(file::copy(&shared, &job).await.unwrap(), Outcome::Made(10 * MIB + 17));
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
    let damaged = |shared: &CopyContext, attributes: &Attributes| {
        assert!(shared.plan.verify);
        let part = dir.path().join("target").join(part_of("film", attributes));
        fs::write(part, vec![0xee; 9 * MIB as usize]).unwrap();
    };
    let once = shared(dir.path(), "--verify --retries 0").await;
    let job = job(&once, "film").await;
    damaged(&once, &job.attributes);
    let fault = file::copy(&once, &job).await.unwrap_err();
    assert!(matches!(fault, Fault::Differs), "{fault}");
    assert!(names(&dir.path().join("target")).is_empty());
    let again = shared(dir.path(), "--verify --retries 1").await;
    damaged(&again, &job.attributes);
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
        assert_eq!(file::copy(&shared_again, &job).await.unwrap(), Outcome::Made(length + 4));
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
    assert!(job.attributes.sparse, "the file system of this host has no holes");
    file::copy(&shared, &job).await.unwrap();
    let made = fs::File::open(dir.path().join("target/disk")).unwrap();
    assert!(made.metadata().unwrap().blocks() * 512 < 3 * MIB);
    assert_eq!(made.metadata().unwrap().len(), 90 * MIB);
    let mut middle = [0; 13];
    made.read_exact_at(&mut middle, 40 * MIB + 5).unwrap();
    assert_eq!(&middle, b"in the middle");
}

/// A sparse file `disk` of 20 MiB with data at 1 and at 12 MiB, and its content.
fn disk(dir: &Path) -> Vec<u8> {
    let source = dir.join("source/disk");
    let file = fs::File::create(&source).unwrap();
    file.write_all_at(b"one", MIB).unwrap();
    file.write_all_at(b"twelve", 12 * MIB).unwrap();
    file.set_len(20 * MIB).unwrap();
    fs::read(source).unwrap()
}

#[tokio::test]
async fn what_a_broken_copy_has_left_in_the_place_of_a_hole_is_not_taken_for_one() {
    let dir = tempfile::tempdir().unwrap();
    let shared = shared(dir.path(), "--retries 0").await;
    let content = disk(dir.path());
    let job = job(&shared, "disk").await;
    assert!(job.attributes.sparse, "the file system of this host has no holes");
    // 9 MiB have been there: the first 5 cannot be in doubt.
    for (have, known) in [(9 * MIB, 5 * MIB), (30 * MIB, 0)] {
        let part = dir.path().join("target").join(part_of(&job.path, &job.attributes));
        fs::write(&part, vec![0xee; have as usize]).unwrap();
        file::copy(&shared, &job).await.unwrap();
        let made = fs::read(dir.path().join("target/disk")).unwrap();
        assert!(made[..known as usize].iter().all(|byte| *byte == 0xee));
        assert!(made[known as usize..] == content[known as usize..], "{have}");
    }
}

#[tokio::test]
async fn holes_are_read_back_as_well() {
    let dir = tempfile::tempdir().unwrap();
    let shared = shared(dir.path(), "--verify --retries 0").await;
    let content = disk(dir.path());
    let job = job(&shared, "disk").await;
    file::copy(&shared, &job).await.unwrap();
    assert!(fs::read(dir.path().join("target/disk")).unwrap() == content);
    // An earlier copy has left everything right except for one hole.
    let part = dir.path().join("target").join(part_of(&job.path, &job.attributes));
    let mut wrong = content[..9 * MIB as usize].to_vec();
    wrong[3 * MIB as usize + 7] = 1;
    fs::write(&part, wrong).unwrap();
    let fault = file::copy(&shared, &job).await.unwrap_err();
    assert!(matches!(fault, Fault::Differs), "{fault}");
}

#[tokio::test]
async fn what_has_permission_bits_is_nobody_elses_until_it_is_whole() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let shared = shared(dir.path(), "").await;
    let target = dir.path().join("target");
    let bits = |name: &str| fs::metadata(target.join(name)).unwrap().permissions().mode() & 0o777;
    let none = TargetAttributes::default();
    for (like, file, directory) in
        [(TargetAttributes { mode: Some(0o644), ..none }, 0o600, 0o700), (none, 0o666, 0o777)]
    {
        let part = shared.target.create("part", &like).await.unwrap();
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

#[tokio::test]
async fn a_file_that_becomes_a_directory_is_none_in_the_target() {
    let dir = tempfile::tempdir().unwrap();
    let shared = shared(dir.path(), "--retries 1").await;
    let source = dir.path().join("source/file");
    fs::write(&source, content(4000)).unwrap();
    let job = job(&shared, "file").await;
    fs::write(&source, content(4001)).unwrap();
    let turn = async {
        // The first attempt has found it changed, and waits before it looks again.
        tokio::time::sleep(std::time::Duration::from_millis(250)).await;
        fs::remove_file(&source).unwrap();
        fs::create_dir(&source).unwrap();
    };
    let (copied, ()) = tokio::join!(file::copy(&shared, &job), turn);
    assert!(matches!(copied, Err(Fault::Changed)), "{copied:?}");
    assert!(names(&dir.path().join("target")).is_empty());
}

#[tokio::test]
async fn what_is_under_way_ends_with_the_copy_and_a_mirror_deletes_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let shared = shared(dir.path(), "--mirror --rate 1").await;
    fs::write(dir.path().join("source/file"), content(3 * MIB)).unwrap();
    for name in ["gone", "more"] {
        fs::write(dir.path().join("target").join(name), "x").unwrap();
    }
    let job = job(&shared, "file").await;
    let end = async {
        tokio::task::yield_now().await;
        shared.end();
    };
    // At this rate it would take days.
    let (copied, ()) = tokio::join!(file::copy(&shared, &job), end);
    assert!(matches!(copied, Err(Fault::Over)), "{copied:?}");
    let attributes = shared.source.stat("").await.unwrap().unwrap();
    let directory = directory_of(attributes);
    let survey = survey(Arc::clone(&shared), directory, PriorSurvey::default()).await;
    assert!(!survey.done && survey.jobs.is_empty());
    let mut survey = Survey::default();
    let listing = shared.target.list("").await.unwrap();
    extras(&shared, &mut survey, "", listing.entries.into_iter()).await;
    assert_eq!(names(&dir.path().join("target")).iter().filter(|name| !name.starts_with('.')).count(), 2);
}

#[tokio::test]
async fn a_rate_is_kept_over_all_files_and_pieces() {
    let dir = tempfile::tempdir().unwrap();
    let shared = shared(dir.path(), "--rate 8m").await;
    for (name, length) in [("small", MIB / 2), ("other", MIB / 2), ("large", 2 * MIB), ("last", 1)] {
        fs::write(dir.path().join("source").join(name), content(length)).unwrap();
    }
    let begun = std::time::Instant::now();
    for name in ["small", "other", "large", "last"] {
        file::copy(&shared, &job(&shared, name).await).await.unwrap();
    }
    // The last one goes when the time of the 3 MiB before it has passed.
    assert!(begun.elapsed() >= std::time::Duration::from_millis(3000 / 8), "{:?}", begun.elapsed());
}

/// Runs a whole copy between two directories of this host.
fn run(dir: &Path, options: &str) -> crate::Report {
    let line = format!("copy {0}/source {0}/target {options}", dir.display());
    let args = <ParsedCommand as clap::Parser>::parse_from(line.split_whitespace()).args;
    crate::run(Plan::new(&args, &|_| unreachable!("nobody logs on")).unwrap()).unwrap()
}

#[test]
fn directories_of_the_year_1970_get_their_bits_and_times() {
    use std::os::unix::fs::MetadataExt;
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("source/deep")).unwrap();
    for path in ["source/deep", "source"] {
        fs::File::open(dir.path().join(path)).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    }
    assert_eq!(run(dir.path(), "").status(), 0);
    for path in ["", "/deep"] {
        let known = |side: &str| fs::metadata(dir.path().join(format!("{side}{path}"))).unwrap();
        let (source, target) = (known("source"), known("target"));
        assert_eq!((target.mode(), target.mtime()), (source.mode(), 0), "{path}");
    }
}

#[test]
fn what_is_left_out_is_counted_and_sets_no_bit() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("source")).unwrap();
    std::os::unix::fs::symlink("nowhere", dir.path().join("source/link")).unwrap();
    let report = run(dir.path(), "--links skip");
    let json = report.json();
    assert_eq!((report.status(), &json["left_out"]), (0, &1.into()));
    assert_eq!((&json["files"]["total"], &json["files"]["skipped"]), (&1.into(), &1.into()));
    assert!(report.to_string().contains("    Left : 1 left out"), "{report}");
}

#[tokio::test]
async fn what_could_be_run_can_be_run_where_its_list_has_become_permission_bits() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let shared = shared(dir.path(), "--acls").await;
    let owner = volume::security::Sid::unix_user(std::os::unix::fs::MetadataExt::uid(
        &fs::metadata(dir.path()).unwrap(),
    ));
    let descriptor = volume::security::from_mode(0o755, owner, volume::security::Sid::unix_group(7), false);
    let list = Some(crate::sidecar::List::Nt(Box::new(descriptor)));
    for (mode, made) in [(Some(0o755), 0o755), (Some(0o644), 0o644)] {
        let like = TargetAttributes { mode, ..TargetAttributes::default() };
        let part = shared.target.create("part", &like).await.unwrap();
        let found =
            crate::sidecar::Sidecar { list: list.clone(), mode, ..crate::sidecar::Sidecar::default() };
        let given = part.set_sidecar(&found, &shared.plan.keep).await.unwrap();
        assert!(given.list);
        let bits = fs::metadata(dir.path().join("target/part")).unwrap().permissions().mode() & 0o777;
        assert_eq!(bits, made, "{bits:o}");
    }
}

#[test]
fn patterns_for_a_share_have_no_case() {
    let wants = |target: &str, path: &str| {
        let line = format!("copy /here {target} --exclude cache --mirror");
        let args = <ParsedCommand as clap::Parser>::parse_from(line.split_whitespace()).args;
        Plan::new(&args, &|_| Ok("secret".to_owned())).unwrap().wants(path, true)
    };
    assert!(!wants("smb://ann@192.0.2.1/x", "a/Cache") && !wants("smb://ann@192.0.2.1/x", "a/cache"));
    assert!(wants("nfs://192.0.2.1/x", "a/Cache"));
}

#[tokio::test]
async fn a_mirror_that_may_meet_the_source_by_another_name_deletes_nothing_that_has_all_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut shared = Arc::into_inner(shared(dir.path(), "--mirror").await).unwrap();
    shared.plan.is_doubtful = true;
    let shared = Arc::new(shared);
    for path in
        ["source/one", "source/two", "target/deep/Same/ONE", "target/deep/Same/two", "target/other/one"]
    {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "x").unwrap();
    }
    let attributes = shared.source.stat("").await.unwrap().unwrap();
    let directory = directory_of(attributes);
    let survey = survey(Arc::clone(&shared), directory, PriorSurvey::default()).await;
    let [(path, why)] = &survey.failures[..] else { panic!("{:?}", survey.failures) };
    assert!(path == "deep" && why.contains("may be the source"), "{path}: {why}");
    assert_eq!(names(&dir.path().join("target")), ["deep"]);
    assert_eq!(names(&dir.path().join("target/deep/Same")).len(), 2);
}

#[test]
fn bits_that_restrict_are_kept_and_those_that_lend_rights_only_with_the_owner() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let modes = [("shared", 0o1777), ("group", 0o2770), ("shared/runs", 0o4755), ("group/runs", 0o6711)];
    let mode = |side: &str, name: &str| {
        fs::metadata(dir.path().join(side).join(name)).unwrap().permissions().mode() & 0o7777
    };
    for name in ["source/shared", "source/group"] {
        fs::create_dir_all(dir.path().join(name)).unwrap();
    }
    for (name, bits) in modes {
        let path = dir.path().join("source").join(name);
        if name.ends_with("runs") {
            fs::write(&path, "x").unwrap();
        }
        fs::set_permissions(path, fs::Permissions::from_mode(bits)).unwrap();
    }
    let report = run(dir.path(), "");
    assert_eq!(report.status(), 1);
    let kept = modes.map(|(name, _)| mode("target", name));
    assert_eq!(kept, [0o1777, 0o2770, 0o755, 0o711], "{kept:?}");
    assert_eq!(report.json()["not_kept"]["setuid, setgid and sticky bits"], 2);
    fs::remove_dir_all(dir.path().join("target")).unwrap();
    for options in ["--owner", "--copyall"] {
        let report = run(dir.path(), options);
        assert_eq!(modes.map(|(name, _)| mode("target", name)), modes.map(|(_, bits)| bits), "{options}");
        assert_eq!(report.json()["not_kept"], serde_json::json!({}), "{options}");
        fs::remove_dir_all(dir.path().join("target")).unwrap();
    }
    // A directory that an earlier copy has made without its bits gets them.
    run(dir.path(), "");
    fs::set_permissions(dir.path().join("target/shared"), fs::Permissions::from_mode(0o777)).unwrap();
    run(dir.path(), "");
    assert_eq!(mode("target", "shared"), 0o1777);
}

#[tokio::test]
async fn bits_that_lend_rights_are_not_given_to_an_owner_who_is_another() {
    use crate::sidecar::{Owner, OwnerId, Sidecar};
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let dir = tempfile::tempdir().unwrap();
    let shared = shared(dir.path(), "--owner").await;
    let source = dir.path().join("source/runs");
    fs::write(&source, "x").unwrap();
    fs::set_permissions(&source, fs::Permissions::from_mode(0o6755)).unwrap();
    let job = job(&shared, "runs").await;
    let known = fs::metadata(&source).unwrap();
    let own = Owner { user: OwnerId::Number(known.uid()), group: OwnerId::Number(known.gid()) };
    let other = Owner { user: OwnerId::Name(b"mallory@example.com".to_vec()), ..own.clone() };
    for (owner, kept) in [(Some(own), 0o6755), (Some(other), 0o755), (None, 0o755)] {
        let like = shared.plan.keep.like(&job.attributes);
        let part = shared.target.create("part", &like).await.unwrap();
        let found = Sidecar { owner, mode: job.attributes.mode, ..Sidecar::default() };
        let given = part.set_sidecar(&found, &shared.plan.keep).await.unwrap();
        let like = like.with_sidecar(&given, job.attributes.kind);
        shared.target.finish(part, "part", "runs", &like).await.unwrap();
        let mode = fs::metadata(dir.path().join("target/runs")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, kept, "{:?}", found.owner);
        crate::sidecar::silent_losses::check(&shared, "runs", &job.attributes).await.unwrap();
        assert_eq!(shared.lost().contains_key(&crate::sidecar::Lost::Special), kept == 0o755);
    }
    // What was listed may be another file's.
    fs::set_permissions(&source, fs::Permissions::from_mode(0o755)).unwrap();
    file::copy(&shared, &job).await.unwrap();
    let mode = fs::metadata(dir.path().join("target/runs")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o755);
}

#[test]
fn times_behind_the_year_2262_are_kept_or_counted() {
    use std::os::unix::fs::MetadataExt;
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("source/later")).unwrap();
    fs::write(dir.path().join("source/file"), "x").unwrap();
    let time = rustix::fs::Timespec { tv_sec: 10_000_000_000, tv_nsec: 700 };
    for name in ["source/file", "source/later"] {
        let file = fs::File::open(dir.path().join(name)).unwrap();
        let times = rustix::fs::Timestamps { last_access: time, last_modification: time };
        rustix::fs::futimens(file, &times).unwrap();
    }
    let seconds = |name: &str| fs::metadata(dir.path().join(name)).unwrap().mtime();
    let report = run(dir.path(), "");
    let lost = report.json()["not_kept"]["times of change"].as_u64().unwrap_or(0);
    let differ = ["file", "later"]
        .map(|name| u64::from(seconds(&format!("target/{name}")) != seconds(&format!("source/{name}"))));
    assert_eq!(lost, differ.iter().sum::<u64>(), "{differ:?}");
    // What the host's own file system holds, the copy has.
    assert_eq!(differ, [0, 0]);
    assert_eq!(run(dir.path(), "").status(), 0, "the times are known again");
}

#[test]
fn a_directory_that_a_mirror_leaves_keeps_its_bits() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("target");
    fs::create_dir_all(dir.path().join("source")).unwrap();
    for name in ["stays/deep/kept", "stays/goes"] {
        fs::create_dir_all(target.join(name)).unwrap();
    }
    let set = |name: &str, mode| {
        fs::set_permissions(target.join(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    let mode = |name: &str| fs::metadata(target.join(name)).unwrap().permissions().mode() & 0o777;
    for name in ["stays/deep", "stays/goes", "stays"] {
        set(name, 0o555);
    }
    let report = run(dir.path(), "--mirror --exclude kept");
    assert_eq!(report.json()["failures"].to_string(), "[]");
    assert_eq!(
        (mode("stays"), mode("stays/deep"), names(&target.join("stays"))),
        (0o555, 0o555, vec!["deep".to_owned()])
    );
    for name in ["stays", "stays/deep"] {
        set(name, 0o755);
    }
}

#[test]
fn a_dry_run_leaves_directories_as_they_are() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let dir = tempfile::tempdir().unwrap();
    for path in ["source/there", "source/new", "target/there"] {
        fs::create_dir_all(dir.path().join(path)).unwrap();
    }
    let there = fs::File::open(dir.path().join("target/there")).unwrap();
    there.set_permissions(fs::Permissions::from_mode(0o700)).unwrap();
    there.set_modified(std::time::UNIX_EPOCH).unwrap();
    let root = || fs::metadata(dir.path().join("target")).unwrap().mtime_nsec();
    let before = root();
    let report = run(dir.path(), "--dry-run");
    assert_eq!((report.status(), report.json()["failures"].to_string().as_str()), (0, "[]"));
    let known = there.metadata().unwrap();
    assert_eq!((known.mtime(), known.mode() & 0o777, root()), (0, 0o700, before));
    assert_eq!(names(&dir.path().join("target")), ["there"]);
}

#[test]
fn a_directory_without_w_gets_it_for_the_time_of_the_work() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let set = |path: &str, mode: u32| {
        fs::set_permissions(dir.path().join(path), fs::Permissions::from_mode(mode)).unwrap();
    };
    let mode = |path: &str| fs::metadata(dir.path().join(path)).unwrap().permissions().mode() & 0o777;
    fs::create_dir_all(dir.path().join("source/still/deep")).unwrap();
    fs::write(dir.path().join("source/still/one"), "x").unwrap();
    set("source/still", 0o555);
    assert_eq!(run(dir.path(), "").status(), 1);
    set("source/still", 0o755);
    fs::write(dir.path().join("source/still/two"), "x").unwrap();
    fs::remove_file(dir.path().join("source/still/one")).unwrap();
    set("source/still", 0o555);
    for name in ["target/still/more", "target/still/more/deep"] {
        set("target/still", 0o755);
        fs::create_dir(dir.path().join(name)).unwrap();
        set("target/still", 0o555);
    }
    set("target/still/more", 0o555);
    let report = run(dir.path(), "--mirror");
    assert_eq!(report.status(), 3, "{:#}", report.json());
    assert_eq!((mode("target/still"), names(&dir.path().join("target/still")).len()), (0o555, 2));
    // Without A it gets back what it had.
    set("source/still", 0o755);
    fs::write(dir.path().join("source/still/three"), "x").unwrap();
    set("target/still", 0o500);
    assert_eq!(run(dir.path(), "--copy DT").status(), 1);
    assert_eq!(mode("target/still"), 0o500);
    // A directory that cannot be written cannot be cleared away either.
    for side in ["source", "target"] {
        set(&format!("{side}/still"), 0o755);
    }
}
