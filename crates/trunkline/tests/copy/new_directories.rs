//! New directories with many small files. They get their names when all of these files are complete.

use std::fs;
use std::path::PathBuf;
use std::process::Child;
use std::time::Instant;

use testkit::program::Server;

use super::{CopyTestServer, PATIENCE, names};

/// The small files of the source. Each contains its number.
const FILES: usize = 400;

fn content(number: usize) -> String {
    format!("{number:05}").repeat(400)
}

fn is_part(name: &str) -> bool {
    name.starts_with('.') && name.ends_with(".trunkline-part")
}

/// A server, and a slow copy to it that has created some of the small files of a new directory.
struct CopyInProgress {
    server: CopyTestServer,
    copy: Child,
    line: String,
    /// The directory that has no final name yet.
    unnamed: PathBuf,
}

impl CopyInProgress {
    fn new() -> CopyInProgress {
        let server = CopyTestServer::start();
        for number in 0..FILES {
            server.program.write(&format!("here/{number}"), &content(number));
        }
        server.program.write("here/below/file", "below");
        server.program.write("here/large", &"0123456789abcdef".repeat(100_000));
        let line = format!("here {} --json", server.smb("to"));
        let mut copy = server.started(&format!("{line} --retries 0 --rate 300k")).spawn().unwrap();
        let files = server.path("files");
        let until = Instant::now() + PATIENCE;
        let begun = || {
            let unnamed = names(&files).into_iter().find(|name| is_part(name)).map(|name| files.join(name));
            unnamed.filter(|unnamed| names(unnamed).len() >= 50)
        };
        let unnamed = loop {
            match begun() {
                None if Instant::now() < until => std::thread::yield_now(),
                found => break found,
            }
        };
        let Some(unnamed) = unnamed.filter(|_| !files.join("to").exists()) else {
            let _ = copy.kill();
            panic!("the copy has made what it should not, or not begun in time: {:?}", copy.wait());
        };
        CopyInProgress { server, copy, line, unnamed }
    }
}

fn check(server: &CopyTestServer) {
    let to = server.path("files/to");
    for number in 0..FILES {
        assert_eq!(fs::read_to_string(to.join(number.to_string())).unwrap(), content(number), "{number}");
    }
    assert_eq!(fs::read_to_string(to.join("below/file")).unwrap(), "below");
    assert_eq!(fs::metadata(to.join("large")).unwrap().len(), 1_600_000);
    let is_left = |path: PathBuf| path.components().any(|it| is_part(&it.as_os_str().to_string_lossy()));
    assert!(!server.files().into_keys().any(is_left), "no part is left");
    assert_eq!(names(&server.path("files")), ["to"]);
}

#[test]
fn a_directory_has_no_name_before_its_small_files_are_whole_and_the_next_copy_goes_on() {
    let CopyInProgress { mut server, copy, line, unnamed } = CopyInProgress::new();
    server.server.kill();
    let output = copy.wait_with_output().unwrap();
    assert_eq!(output.status.code().unwrap() & (8 | 16), 8 | 16);
    assert!(!server.path("files/to").exists());
    // One of the existing files is incomplete, and one does not exist in the source.
    let done = names(&unnamed);
    let half = fs::File::options().write(true).open(unnamed.join(&done[20])).unwrap();
    half.set_len(7).unwrap();
    fs::write(unnamed.join("stray"), "").unwrap();
    server.server = Server::start(&server.program);
    let line = line.replace(line.split(' ').nth(1).unwrap(), &server.smb("to"));
    let (status, report, said) = server.copy(line.trim_end_matches(" --json"));
    assert_eq!((status, said.as_str()), (1, ""), "{report:#}");
    let skipped = report["files"]["skipped"].as_u64().unwrap() as usize;
    assert!((1..done.len()).contains(&skipped), "{}: {report:#}", done.len());
    let directories = &report["dirs"];
    assert_eq!((&directories["total"], &directories["copied"]), (&2.into(), &2.into()), "{report:#}");
    check(&server);
    assert_eq!(names(&server.path("files/to")).len(), FILES + 2);
    // The time equals that of the source, so that nothing is left to copy.
    let time = |name: &str| fs::metadata(server.path(name)).unwrap().modified().unwrap();
    let apart = |name: &str| time(&format!("here{name}")).duration_since(time(&format!("files/to{name}")));
    assert!(["", "/7", "/below"].iter().all(|name| apart(name).unwrap_or_default().as_nanos() < 100));
    assert_eq!(server.copy(line.trim_end_matches(" --json")).0, 0);
}

#[test]
fn files_are_moved_one_by_one_into_a_directory_that_somebody_has_made_meanwhile() {
    let CopyInProgress { server, copy, .. } = CopyInProgress::new();
    server.program.write("files/to/7", "somebody's");
    server.program.write("files/to/other", "other");
    let output = copy.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    check(&server);
    assert_eq!(fs::read_to_string(server.path("files/to/other")).unwrap(), "other");
}

#[test]
fn what_cannot_be_copied_does_not_keep_a_directory_from_its_name() {
    let CopyInProgress { server, copy, unnamed, .. } = CopyInProgress::new();
    let here = server.path("here");
    let made = names(&unnamed);
    let missing: Vec<String> =
        (0..FILES).map(|number| number.to_string()).filter(|name| !made.contains(name)).take(20).collect();
    for name in &missing {
        fs::remove_file(here.join(name)).unwrap();
    }
    let output = copy.wait_with_output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let counts = |row: &str, what: &str| report[row][what].as_u64().unwrap() as usize;
    let (copied, failed) = (counts("files", "copied"), counts("files", "failed"));
    assert!((1..=20).contains(&failed) && copied + failed == FILES + 2, "{report:#}");
    assert_eq!((output.status.code(), counts("dirs", "copied"), counts("dirs", "failed")), (Some(9), 2, 0));
    let to = names(&server.path("files/to"));
    // One of the files is in a subdirectory that exists already.
    assert_eq!(to.len(), copied, "{to:?}");
    assert!(names(&here).iter().all(|name| to.contains(name)));
    assert_eq!(names(&server.path("files")), ["to"]);
}

#[test]
fn names_that_the_server_takes_for_one_are_told_apart_before_it() {
    let server = CopyTestServer::start();
    for number in 0..100 {
        server.program.write(&format!("here/{number}"), "x");
    }
    // In a share both names have the same upper-case form.
    server.program.write("here/λόγος", "one");
    server.program.write("here/λόγοσ", "the other");
    let (status, report, said) = server.copy(&format!("here {}", server.smb("to")));
    assert!(said.contains("the target takes it for"), "{said}");
    assert_eq!((status, &report["files"]["copied"], &report["files"]["failed"]), (9, &101.into(), &1.into()));
    assert_eq!(names(&server.path("files/to")).len(), 101);
}

#[test]
fn a_mirror_deletes_a_directory_without_a_name_that_is_of_no_use_any_more() {
    let server = CopyTestServer::start();
    server.program.write("here/file", "x");
    let left = "files/to/.gone.0123456789abcdef.trunkline-part/old";
    server.program.write(left, "x");
    let line = format!("here {}", server.smb("to"));
    let (status, report, said) = server.copy(&line);
    assert_eq!((status, &report["dirs"]["extras"]), (1, &0.into()), "{said}");
    assert!(server.path(left).exists());
    let (status, report, said) = server.copy(&format!("{line} --mirror"));
    assert_eq!((status, &report["files"]["extras"]), (0, &0.into()), "{said}");
    assert_eq!(names(&server.path("files/to")), ["file"]);
}
