//! Copies within one server, which it carries out itself. The tests count the bytes on the network.

use testkit::proxy::Proxy;

use super::*;

const MIB: usize = 1024 * 1024;
/// The part of the copied bytes that may go over the network: 1 MiB of 1 GiB.
const SHARE: usize = 1024;

/// An address behind a proxy that counts bytes, and the proxy.
async fn behind(url: &str) -> (String, Proxy) {
    let (before, rest) = url.split_once("127.0.0.1:").unwrap();
    let (port, path) = rest.split_once('/').unwrap();
    let proxy = Proxy::start(format!("127.0.0.1:{port}").parse().unwrap()).await;
    (format!("{before}{}/{path}", proxy.address), proxy)
}

fn content(length: usize) -> Vec<u8> {
    (0..length).map(|at| ((at % 251) as u8).wrapping_add((at / MIB) as u8)).collect()
}

#[test]
fn a_copy_between_two_places_of_a_server_does_not_come_to_this_host() {
    let server = CopyTestServer::start();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let large = content(200 * MIB + 12_345);
    fs::create_dir_all(server.path("files/from/deep")).unwrap();
    fs::write(server.path("files/from/deep/large"), &large).unwrap();
    for (url, name) in [(server.smb(""), "smb"), (server.nfs(""), "nfs")] {
        let (url, proxy) = runtime.block_on(behind(&url));
        let url = url.trim_end_matches('/');
        let before = proxy.bytes();
        let line = format!("{url}/from {url}/{name} --channels 1");
        let (status, report, said) = server.copy(&line);
        assert_eq!((status, said.as_str()), (1, ""), "{name}: {report:#}");
        assert!(fs::read(server.path("files").join(name).join("deep/large")).unwrap() == large, "{name}");
        assert_eq!(report["bytes_copied_by_server"].as_u64(), Some(large.len() as u64), "{name}");
        let carried = (proxy.bytes() - before) as usize;
        assert!(carried < large.len() / SHARE, "{name}: {carried} bytes went over the network");
        let known = |path: PathBuf| path.metadata().unwrap().modified().unwrap();
        let [from, to] = ["from", name].map(|root| known(server.path("files").join(root).join("deep/large")));
        assert!(
            from.duration_since(to).unwrap_or_default() < Duration::from_nanos(100),
            "{name}: {from:?} {to:?} {report:#}"
        );
        assert_eq!(server.copy(&line).0, 0, "{name}");
    }
}

#[test]
fn what_a_server_copies_by_itself_is_whole_in_all_sizes_and_between_shares() {
    let server = CopyTestServer::start();
    let config = fs::read_to_string(server.path("trunkline.toml")).unwrap();
    let share = config.split_once("[share.files]").unwrap().1.replace("\"files\"", "\"other\"");
    let CopyTestServer { server: running, program } = server;
    drop(running);
    fs::create_dir(program.path().join("other")).unwrap();
    program.write("trunkline.toml", &format!("{config}[share.other]{share}"));
    let server = CopyTestServer { server: Server::start(&program), program };
    let sizes = [0, 1, 65_535, 65_536, MIB - 1, MIB, MIB + 1, 16 * MIB, 17 * MIB + 3];
    for size in sizes {
        fs::create_dir_all(server.path("files/from")).unwrap();
        fs::write(server.path(&format!("files/from/{size}")), content(size)).unwrap();
    }
    let hole = fs::File::create(server.path("files/from/hole")).unwrap();
    hole.set_len(24 * MIB as u64).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&hole, b"data", 20 * MIB as u64).unwrap();
    for url in [server.smb(""), server.nfs("")] {
        let other = url.replace("/files/", "/other/");
        let (url, other) = (url.trim_end_matches('/'), other.trim_end_matches('/'));
        for to in [format!("{url}/to"), format!("{other}/to")] {
            let (status, report, said) = server.copy(&format!("{url}/from {to} --verify"));
            assert_eq!((status, said.as_str()), (1, ""), "{to}: {report:#}");
            let root = if to.contains("/other/") { "other/to" } else { "files/to" };
            for size in sizes {
                let made = fs::read(server.path(root).join(size.to_string())).unwrap();
                assert!(made == content(size), "{to}: {size}");
            }
            let made = fs::read(server.path(root).join("hole")).unwrap();
            assert!(made == fs::read(server.path("files/from/hole")).unwrap(), "{to}");
            fs::remove_dir_all(server.path(root)).unwrap();
        }
    }
}

/// A second server with the identity of `server`, like a machine that was created from the same image.
fn twin_of(server: &CopyTestServer) -> CopyTestServer {
    let program = ProgramDir::new();
    let mut copy = std::process::Command::new("cp");
    assert!(copy.arg("-a").arg(server.path("state")).arg(program.path()).status().unwrap().success());
    CopyTestServer::start_at(program)
}

#[test]
fn a_server_of_the_same_identity_is_not_taken_for_that_of_the_source() {
    let server = CopyTestServer::start();
    let twin = twin_of(&server);
    let large = content(4 * MIB);
    for (server, bytes) in [(&server, &large), (&twin, &vec![7; large.len()])] {
        fs::create_dir_all(server.path("files/from")).unwrap();
        let file = fs::File::create(server.path("files/from/large")).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, bytes, 0).unwrap();
        // The two files have the same size and time.
        file.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(1_000_000_000)).unwrap();
    }
    for (from, to) in [(server.smb("from"), twin.smb("smb")), (server.nfs("from"), twin.nfs("nfs"))] {
        let (status, report, said) = twin.copy(&format!("{from} {to}"));
        assert_eq!((status, said.as_str()), (1, ""), "{to}: {report:#}");
        assert_eq!(report["bytes_copied_by_server"].as_u64().unwrap_or(0), 0, "{to}: {report:#}");
        let made = fs::read(twin.path("files").join(&to[..3]).join("large")).unwrap();
        assert!(made == large, "{to}: it is that of the other server");
    }
}
