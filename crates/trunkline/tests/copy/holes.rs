//! Holes of sparse files, between all kinds of sources and targets.

use std::os::unix::fs::{FileExt, MetadataExt};

use smb_wire::fscc::FileAttributes;

use super::lost_connections::{runtime, tree};
use super::*;

const MIB: u64 = 1024 * 1024;
/// The size of the file. It ends with a hole that is not a multiple of a piece.
const SIZE: u64 = 40 * MIB + 5;
/// The maximum of bytes that may be transferred or stored: one piece for each of the two extents with data,
/// and overhead.
const LITTLE: u64 = 4 * MIB;

fn plant(path: &Path) -> Vec<u8> {
    let file = fs::File::create(path).unwrap();
    file.write_all_at(b"in the middle", 20 * MIB + 5).unwrap();
    file.write_all_at(b"further on", 31 * MIB).unwrap();
    file.set_len(SIZE).unwrap();
    fs::read(path).unwrap()
}

/// One connection to each server. On a slow host a copy also tries several, and its report then lists only
/// those that it kept.
const ONE: &str = "--channels 1";

/// The bytes that the connections to one side have carried.
fn carried(report: &Value, side: &str) -> u64 {
    report["channels"][side].as_array().unwrap().iter().map(|it| it["bytes"].as_u64().unwrap()).sum()
}

/// Whether the share reports `path` as sparse, with no more stored data than a file with holes has.
fn is_sparse(server: &CopyTestServer, path: &str) -> bool {
    let info = runtime().block_on(async { tree(&server.smb("")).await.stat(path).await.unwrap() });
    let is_marked = info.file_attributes & FileAttributes::SPARSE_FILE.bits() != 0;
    is_marked && info.allocation_size < LITTLE
}

#[test]
fn holes_stay_holes_from_everywhere_to_everywhere_and_are_not_moved() {
    let server = CopyTestServer::start();
    let content = plant(&server.path("here/disk"));
    let from =
        [("local", "here".to_owned()), ("smb", server.smb("local-smb")), ("nfs", server.nfs("local-smb"))];
    for (source, from) in from {
        for target in ["smb", "nfs", "local"] {
            let name = format!("{source}-{target}");
            let (to, made) = match target {
                "smb" => (server.smb(&name), format!("files/{name}/disk")),
                "nfs" => (server.nfs(&name), format!("files/{name}/disk")),
                _ => (name.clone(), format!("{name}/disk")),
            };
            let (status, report, said) = server.copy(&format!("{from} {to} {ONE}"));
            assert_eq!((status, said.as_str()), (1, ""), "{name}");
            assert_eq!(report["bytes"]["copied"], SIZE, "{name}");
            let path = server.path(&made);
            assert!(fs::read(&path).unwrap() == content, "{name}");
            let stored = path.metadata().unwrap().blocks() * 512;
            assert!(stored < LITTLE, "{name}: {stored}");
            let moved = ["source", "target"].map(|side| carried(&report, side));
            assert!(moved.iter().all(|bytes| *bytes < LITTLE), "{name}: {moved:?}");
            assert!(target != "smb" || is_sparse(&server, &format!("{name}/disk")), "{name}");
        }
    }
}

#[test]
fn holes_are_read_back_and_a_file_without_any_is_not_marked() {
    let server = CopyTestServer::start();
    plant(&server.path("here/disk"));
    server.program.write("here/film", &"0123456789abcdef".repeat(200_000));
    for to in [server.smb("smb"), server.nfs("nfs")] {
        let (status, report, said) = server.copy(&format!("here {to} --verify {ONE}"));
        assert_eq!((status, said.as_str()), (1, ""), "{to}");
        assert!(carried(&report, "target") > SIZE, "{report:#}");
    }
    assert!(is_sparse(&server, "smb/disk") && !is_sparse(&server, "smb/film"));
}
