//! Symbolic links and hard links over both protocols, and a mirror that meets links.

use std::os::unix::fs::{MetadataExt, symlink};

use super::*;

/// Links of all kinds in the directory `here`, with their targets.
const LINKS: [(&str, &str); 4] =
    [("file", "dir/one"), ("dir/up", "../dir"), ("gone", "no/where"), ("dir/abs", "/no/such/place")];

fn plant(server: &CopyTestServer) {
    server.program.write("here/dir/one", "1");
    for (name, text) in LINKS {
        symlink(text, server.path("here").join(name)).unwrap();
    }
}

/// Starts a server that shows links of the share as links, or as their targets.
fn start(follows: bool) -> CopyTestServer {
    if follows { CopyTestServer::start() } else { start_with("follow_symlinks = false") }
}

/// Starts a server whose share has one more line of configuration.
fn start_with(line: &str) -> CopyTestServer {
    let server = CopyTestServer::start();
    let CopyTestServer { server: running, program } = server;
    drop(running);
    let config = fs::read_to_string(program.path().join("trunkline.toml")).unwrap();
    program.write("trunkline.toml", &format!("{config}{line}\n"));
    CopyTestServer { server: Server::start(&program), program }
}

#[test]
fn links_go_over_nfs_and_come_back() {
    let server = CopyTestServer::start();
    plant(&server);
    let to = server.nfs("to");
    let (status, report, said) = server.copy(&format!("here {to}"));
    assert_eq!((status, report["files"]["copied"].as_u64()), (1, Some(5)), "{said}");
    for (name, text) in LINKS {
        assert_eq!(fs::read_link(server.path("files/to").join(name)).unwrap(), Path::new(text));
    }
    assert_eq!(server.copy(&format!("here {to}")).0, 0);
    assert_eq!(server.copy(&format!("{to} back")).0, 1);
    for (name, text) in LINKS {
        assert_eq!(fs::read_link(server.path("back").join(name)).unwrap(), Path::new(text));
    }
    let (status, report, said) = server.copy(&format!("{to} followed --links follow"));
    assert_eq!((status, report["files"]["failed"].as_u64()), (1 | 8, Some(3)), "{said}");
    assert_eq!(fs::read(server.path("followed/file")).unwrap(), b"1");
    fs::remove_file(server.path("here/file")).unwrap();
    symlink("dir/two", server.path("here/file")).unwrap();
    assert_eq!(server.copy(&format!("here {to} --mirror")).0, 1);
    assert_eq!(fs::read_link(server.path("files/to/file")).unwrap(), Path::new("dir/two"));
    assert_eq!(names(&server.path("files/to")), ["dir", "file", "gone"]);
}

#[test]
fn links_become_links_of_a_share_whether_it_follows_them_or_not() {
    for follows in [true, false] {
        let server = start(follows);
        plant(&server);
        let to = server.smb("to");
        let (status, report, said) = server.copy(&format!("here {to}"));
        assert_eq!(status, 1, "{follows}: {said} {report:#}");
        for (name, text) in &LINKS[..3] {
            let made = fs::read_link(server.path("files/to").join(name));
            assert_eq!(made.unwrap(), Path::new(text), "{follows}: {name}: {said}");
        }
        let (status, report, said) = server.copy(&format!("here {to}"));
        assert_eq!(
            (status, report["files"]["copied"].as_u64()),
            (0, Some(0)),
            "{follows}: {said} {report:#}"
        );
        fs::remove_file(server.path("here/dir/up")).unwrap();
        symlink("../here", server.path("here/dir/up")).unwrap();
        assert_eq!(server.copy(&format!("here {to}")).0, 1, "{follows}");
        assert_eq!(fs::read_link(server.path("files/to/dir/up")).unwrap(), Path::new("../here"));
        if !follows {
            let (status, _, said) = server.copy(&format!("{to} back"));
            assert_eq!(status, 1, "{said}");
            let now = fs::read_link(server.path("back/dir/up")).unwrap();
            assert_eq!(now, Path::new("../here"));
            for (name, text) in [LINKS[0], LINKS[2], LINKS[3]] {
                assert_eq!(fs::read_link(server.path("back").join(name)).unwrap(), Path::new(text), "{name}");
            }
        }
    }
}

#[test]
fn a_mirror_deletes_links_and_nothing_behind_them() {
    let through = "delete_through_symlinks = true";
    let shown = "follow_symlinks = false";
    for (follows, side) in [(through, "smb"), ("", "smb"), (shown, "smb"), ("", "nfs"), ("", "local")] {
        let server = start_with(follows);
        for path in ["here/linked/one", "here/deep/linked/below/one"] {
            server.program.write(path, "1");
        }
        for path in ["kept", "below/kept", "one"] {
            server.program.write(&format!("files/elsewhere/{path}"), "1");
        }
        fs::create_dir_all(server.path("files/to/deep")).unwrap();
        symlink("../elsewhere", server.path("files/to/linked")).unwrap();
        symlink("../../elsewhere", server.path("files/to/deep/linked")).unwrap();
        symlink("../elsewhere", server.path("files/to/extra")).unwrap();
        symlink("../elsewhere/kept", server.path("files/to/file")).unwrap();
        fs::create_dir_all(server.path("files/to/gone/below")).unwrap();
        symlink("../../../elsewhere", server.path("files/to/gone/below/link")).unwrap();
        let to = match side {
            "smb" => server.smb("to"),
            "nfs" => server.nfs("to"),
            _ => server.path("files/to").display().to_string(),
        };
        let (_, report, said) = server.copy(&format!("here {to} --mirror"));
        for path in ["kept", "below/kept", "one"] {
            let there = server.path("files/elsewhere").join(path);
            assert!(there.exists(), "{follows} {side}: {path}: {said} {report:#}");
        }
        for link in ["extra", "file", "gone"] {
            let gone = fs::symlink_metadata(server.path("files/to").join(link)).is_err();
            assert!(gone, "{follows} {side}: {link}: {said} {report:#}");
        }
    }
}

#[test]
fn names_of_one_file_stay_one_file_at_servers() {
    let server = CopyTestServer::start();
    server.program.write("here/one", "1");
    server.program.write("here/large", &"0123456789abcdef".repeat(100_000));
    fs::create_dir(server.path("here/deep")).unwrap();
    for name in ["one", "large"] {
        fs::hard_link(server.path("here").join(name), server.path("here/deep").join(name)).unwrap();
    }
    for to in [server.smb("smb"), server.nfs("nfs")] {
        let (status, report, said) = server.copy(&format!("here {to} -H"));
        assert_eq!((status, said.as_str()), (1, ""), "{report:#}");
        let below = server.path("files").join(&to[..3]);
        for name in ["one", "large"] {
            let node = |path: PathBuf| path.metadata().unwrap().ino();
            assert_eq!(node(below.join(name)), node(below.join("deep").join(name)), "{to}: {name}");
        }
        assert_eq!((names(&below), names(&below.join("deep")).len()), (names(&server.path("here")), 2));
        assert_eq!(server.copy(&format!("here {to} -H")).0, 0, "{to}");
    }
    let (status, report, _) = server.copy(&format!("{} back", server.nfs("nfs")));
    assert_eq!((status, &report["not_kept"]["hard links"]), (1, &4.into()), "{report:#}");
}

#[test]
fn bits_beside_permissions_go_over_nfs_and_are_counted_for_a_share() {
    let server = CopyTestServer::start();
    fs::create_dir(server.path("here/shared")).unwrap();
    fs::set_permissions(server.path("here/shared"), fs::Permissions::from_mode(0o1777)).unwrap();
    let (status, report, said) = server.copy(&format!("here {}", server.nfs("nfs")));
    assert_eq!((status, said.as_str()), (0, ""), "{report:#}");
    let mode = server.path("files/nfs/shared").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o1777);
    let (_, report, _) = server.copy(&format!("here {}", server.smb("smb")));
    assert_eq!(report["not_kept"]["setuid, setgid and sticky bits"], 1, "{report:#}");
}
