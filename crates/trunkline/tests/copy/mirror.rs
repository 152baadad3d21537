//! The files that a mirror deletes, and those that it leaves.

use super::*;

/// Creates files that only the target has, some of which match the tests' patterns, at all depths.
fn plant(server: &CopyTestServer, target: &str) {
    server.program.write("here/a.txt", "a");
    server.program.write("here/dir/b.txt", "b");
    for name in [
        "gone.txt",
        "kept.tmp",
        "dir/gone.txt",
        "dir/kept.tmp",
        "only/gone.txt",
        "only/deep/kept.tmp",
        "only/deep/gone.txt",
        "only/all/gone.txt",
        "cache/kept.txt",
    ] {
        server.program.write(&format!("{target}/{name}"), "12345");
    }
}

/// The paths of all files and directories below, sorted.
fn below(root: &Path) -> Vec<String> {
    let (mut found, mut todo) = (Vec::new(), vec![root.to_owned()]);
    while let Some(path) = todo.pop() {
        for name in names(&path) {
            let path = path.join(name);
            found.push(path.strip_prefix(root).unwrap().display().to_string());
            todo.extend(path.is_dir().then_some(path));
        }
    }
    found.sort();
    found
}

fn extras(report: &Value) -> [u64; 3] {
    ["dirs", "files", "bytes"].map(|row| report[row]["extras"].as_u64().unwrap())
}

#[test]
fn what_patterns_leave_out_stays_at_every_depth_and_a_dry_run_says_what_would_go() {
    let excluded = [
        "a.txt",
        "cache",
        "cache/kept.txt",
        "dir",
        "dir/b.txt",
        "dir/kept.tmp",
        "kept.tmp",
        "only",
        "only/deep",
        "only/deep/kept.tmp",
    ];
    let included =
        ["a.txt", "dir", "dir/b.txt", "dir/kept.tmp", "kept.tmp", "only", "only/deep", "only/deep/kept.tmp"];
    for (options, left, gone) in [
        ("--exclude *.tmp --exclude cache", &excluded[..], [1, 5, 25]),
        ("--include *.txt", &included[..], [2, 6, 30]),
    ] {
        for side in ["local", "smb", "nfs"] {
            let server = CopyTestServer::start();
            let (at, to) = match side {
                "smb" => ("files/to", server.smb("to")),
                "nfs" => ("files/to", server.nfs("to")),
                _ => ("to", "to".to_owned()),
            };
            plant(&server, at);
            let before = below(&server.path(at));
            let (status, report, said) = server.copy(&format!("here {to} --mirror --dry-run {options}"));
            assert_eq!((status, extras(&report)), (2, gone), "{options} {side}: {said}");
            assert_eq!(below(&server.path(at)), before);
            let said: Vec<&str> =
                said.lines().filter_map(|line| line.strip_suffix(": would be deleted")).collect();
            assert_eq!(said.len() as u64, gone[0] + gone[1], "{said:?}");
            let (status, report, said) = server.copy(&format!("here {to} --mirror {options}"));
            assert_eq!((status, extras(&report)), (3, gone), "{options} {side}: {said}");
            assert_eq!(said.lines().count(), 0, "{said}");
            assert_eq!(below(&server.path(at)), left, "{options} {side}");
        }
    }
}

#[test]
fn a_mirror_over_one_protocol_does_not_delete_its_source_that_the_other_one_shows() {
    let server = CopyTestServer::start();
    for name in ["sub/a", "sub/deep/b", "gone"] {
        server.program.write(&format!("files/{name}"), "12345");
    }
    let (status, report, said) = server.copy(&format!("{} {} --mirror", server.nfs("sub"), server.smb("")));
    assert_eq!(status, 1 | 2 | 8, "{report:#}");
    assert!(said.contains("sub: it has all that the source has and may be the source"), "{said}");
    assert_eq!(
        below(&server.path("files")),
        ["a", "deep", "deep/b", "sub", "sub/a", "sub/deep", "sub/deep/b"]
    );
}
