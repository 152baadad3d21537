//! Symbolic links and hard links between two directories of this host.

use std::os::unix::fs::{MetadataExt, symlink};

use super::*;

/// Sets the time of the link itself.
fn set_time(path: &Path, tv_sec: i64) {
    let time = rustix::fs::Timespec { tv_sec, tv_nsec: 0 };
    let times = rustix::fs::Timestamps { last_access: time, last_modification: time };
    rustix::fs::utimensat(rustix::fs::CWD, path, &times, rustix::fs::AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

#[test]
fn links_are_copied_as_links_and_compared_by_where_they_lead() {
    let dir = tempfile::tempdir().unwrap();
    let [source, target] = ["source", "target"].map(|name| dir.path().join(name));
    fs::create_dir_all(source.join("deep")).unwrap();
    for (name, text) in [("one", "deep"), ("deep/gone", "../nowhere"), ("abs", "/etc")] {
        symlink(text, source.join(name)).unwrap();
        set_time(&source.join(name), 1_000_000_000);
    }
    let report = run(dir.path(), "");
    assert_eq!((report.status(), report.json()["files"]["copied"].as_u64()), (1, Some(3)), "{report}");
    for (name, text) in [("one", "deep"), ("deep/gone", "../nowhere"), ("abs", "/etc")] {
        assert_eq!(fs::read_link(target.join(name)).unwrap(), Path::new(text));
        assert_eq!(fs::symlink_metadata(target.join(name)).unwrap().mtime(), 1_000_000_000);
    }
    assert_eq!(run(dir.path(), "").status(), 0);
    // Another version of a library is a link of the same length and, from an archive, of the same time.
    fs::remove_file(source.join("one")).unwrap();
    symlink("dump", source.join("one")).unwrap();
    set_time(&source.join("one"), 1_000_000_000);
    assert_eq!(run(dir.path(), "").status(), 1);
    assert_eq!(fs::read_link(target.join("one")).unwrap(), Path::new("dump"));
    assert_eq!(names(&target).len(), 3);
    fs::remove_file(source.join("abs")).unwrap();
    assert_eq!(run(dir.path(), "--mirror").status(), 2);
    assert!(fs::symlink_metadata(target.join("abs")).is_err() && Path::new("/etc").exists());
}

#[test]
fn links_are_followed_or_left_out_where_that_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let [source, target, beside] = ["source", "target", "beside"].map(|name| dir.path().join(name));
    fs::create_dir_all(source.join("a")).unwrap();
    fs::create_dir_all(beside.join("below")).unwrap();
    fs::write(beside.join("below/file"), "there").unwrap();
    symlink("../../beside", source.join("a/out")).unwrap();
    symlink("a/out/below/file", source.join("file")).unwrap();
    let report = run(dir.path(), "--links follow");
    assert_eq!(report.status(), 1, "{:#}", report.json());
    for name in ["a/out/below/file", "file"] {
        assert_eq!(fs::read_to_string(target.join(name)).unwrap(), "there");
        assert!(fs::symlink_metadata(target.join(name)).unwrap().is_file());
    }
    assert_eq!(run(dir.path(), "--links follow").status(), 0);
    let report = run(dir.path(), "--links skip");
    assert_eq!(report.json()["left_out"], 2);
}

#[test]
fn a_link_that_goes_round_or_nowhere_fails_alone() {
    let dir = tempfile::tempdir().unwrap();
    let [source, beside] = ["source", "beside"].map(|name| dir.path().join(name));
    fs::create_dir_all(source.join("a/b")).unwrap();
    fs::create_dir_all(&beside).unwrap();
    fs::write(source.join("a/file"), "x").unwrap();
    symlink("..", source.join("a/b/up")).unwrap();
    symlink("self", source.join("self")).unwrap();
    symlink("nowhere", source.join("gone")).unwrap();
    // By way of another directory and back again.
    symlink("../beside", source.join("beside")).unwrap();
    symlink("../source", beside.join("back")).unwrap();
    let report = run(dir.path(), "--links follow");
    let json = report.json();
    let failed: Vec<&str> =
        json["failures"].as_array().unwrap().iter().map(|it| it["path"].as_str().unwrap()).collect();
    let mut sorted = failed.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, ["a/b/up", "beside/back", "gone", "self"], "{json:#}");
    assert!(fs::read(dir.path().join("target/a/file")).is_ok());
}

#[test]
fn a_directory_in_which_only_links_or_names_change_is_opened_and_keeps_its_time() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let [source, target] = ["source", "target"].map(|name| dir.path().join(name));
    for name in ["links", "names"] {
        fs::create_dir_all(source.join(name)).unwrap();
    }
    symlink("one", source.join("links/link")).unwrap();
    fs::write(source.join("file"), "x").unwrap();
    fs::hard_link(source.join("file"), source.join("names/name")).unwrap();
    let set = |mode: u32| {
        for name in ["source/links", "source/names", "target/links", "target/names"] {
            fs::set_permissions(dir.path().join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
    };
    for closed in [0o755, 0o555] {
        assert_eq!(run(dir.path(), "").status() & !1, 0);
        set(0o755);
        let _ = fs::remove_file(target.join("names/name"));
        fs::copy(source.join("file"), target.join("names/name")).unwrap();
        let modified = fs::metadata(source.join("file")).unwrap().modified().unwrap();
        fs::File::open(target.join("names/name")).unwrap().set_modified(modified).unwrap();
        fs::remove_file(source.join("links/link")).unwrap();
        symlink(format!("other{closed}"), source.join("links/link")).unwrap();
        for name in ["source/links", "source/names", "target/links", "target/names"] {
            set_time(&dir.path().join(name), 1_000_000_000);
        }
        set(closed);
        let report = run(dir.path(), "-H");
        assert_eq!((report.status(), &report.json()["files"]["copied"]), (1, &2.into()), "{report}");
        for name in ["links", "names"] {
            let known = fs::metadata(target.join(name)).unwrap();
            assert_eq!((known.mtime(), known.mode() & 0o777), (1_000_000_000, closed), "{name}");
        }
    }
    set(0o755);
}

#[test]
fn a_link_that_leads_to_the_copy_itself_is_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let [source, target] = ["source", "backup/target"].map(|name| dir.path().join(name));
    fs::create_dir_all(source.join("inner")).unwrap();
    fs::create_dir_all(dir.path().join("backup")).unwrap();
    fs::write(dir.path().join("backup/old"), "o").unwrap();
    fs::write(source.join("inner/file"), "x").unwrap();
    symlink("../backup", source.join("all")).unwrap();
    symlink("inner", source.join("link")).unwrap();
    let line = format!("copy {} {} --links follow", source.display(), target.display());
    for there in [false, true] {
        assert_eq!(target.exists(), there);
        if there {
            fs::write(target.join("beyond"), "b").unwrap();
            symlink("../backup/target/beyond", source.join("one")).unwrap();
        }
        let args = <ParsedCommand as clap::Parser>::parse_from(line.split_whitespace()).args;
        let plan = Plan::new(&args, &|_| unreachable!("nobody logs on")).unwrap();
        let report = crate::run(plan).unwrap();
        let json = report.json();
        let failures = json["failures"].as_array().unwrap();
        let mut failed: Vec<&str> = failures.iter().map(|it| it["path"].as_str().unwrap()).collect();
        failed.sort_unstable();
        assert_eq!(failed, ["all", "one"][..1 + usize::from(there)], "{json:#}");
        assert!(failures[0].to_string().contains("copied into itself"), "{json:#}");
        assert!(fs::read(target.join("inner/file")).is_ok() && fs::read(target.join("link/file")).is_ok());
        assert!(!target.join("all").exists() && !target.join("one").exists());
    }
}

#[test]
fn names_of_one_file_stay_one_file_with_h_and_are_counted_without() {
    let dir = tempfile::tempdir().unwrap();
    let [source, target] = ["source", "target"].map(|name| dir.path().join(name));
    fs::create_dir_all(source.join("deep")).unwrap();
    for (first, other, length) in [("small", "deep/small", 100), ("large", "deep/large", 3 * MIB)] {
        fs::write(source.join(first), content(length)).unwrap();
        fs::hard_link(source.join(first), source.join(other)).unwrap();
    }
    let node = |name: &str| fs::metadata(target.join(name)).unwrap().ino();
    let are_one = || ["small", "large"].map(|name| node(name) == node(&format!("deep/{name}")));
    let report = run(dir.path(), "");
    assert_eq!((report.status(), &report.json()["not_kept"]["hard links"]), (1, &4.into()), "{report}");
    assert_eq!(are_one(), [false; 2]);
    // What is there and alike is joined.
    let report = run(dir.path(), "-H");
    assert_eq!((report.status(), report.json()["files"]["skipped"].as_u64()), (1, Some(2)), "{report}");
    assert_eq!(are_one(), [true; 2]);
    assert_eq!(run(dir.path(), "-H").status(), 0);
    fs::remove_dir_all(&target).unwrap();
    let report = run(dir.path(), "-H");
    assert_eq!((report.status(), &report.json()["not_kept"]), (1, &serde_json::json!({})));
    assert_eq!((are_one(), names(&target).len(), names(&target.join("deep")).len()), ([true; 2], 3, 2));
}
