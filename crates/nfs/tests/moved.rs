//! What a program of the host moves while clients have its filehandle.

mod common;

use std::path::PathBuf;
use std::sync::Arc;

use common::*;
use nfs_wire::NfsStat;
use nfs_wire::op::{Args, Res};
use volume_posix::PosixVolume;

/// A share on a directory of the host, beside which others lie.
struct Bench {
    place: tempfile::TempDir,
    world: World,
    wire: Wire,
    client: Client,
}

impl Bench {
    fn new() -> Bench {
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(place.path().join("files/above/moved/below")).unwrap();
        let volume = PosixVolume::open(&place.path().join("files"), &place.path().join("beside")).unwrap();
        let world = World::on(Arc::new(volume));
        let mut wire = world.connect();
        let client = Client::new(&mut wire, b"client", 1);
        Bench { place, world, wire, client }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.place.path().join("files").join(path)
    }

    /// A program of the host moves something: what this process does is no news to the server in it.
    fn moves(&self, from: PathBuf, to: PathBuf) {
        assert!(std::process::Command::new("mv").arg(from).arg(to).status().unwrap().success());
    }

    fn outside(&self) -> PathBuf {
        self.place.path().join("outside")
    }

    /// The handle of what a path leads to.
    fn handle(&mut self, path: &[&'static [u8]]) -> Vec<u8> {
        let names = path.iter().map(|name| lookup(name));
        let all: Vec<_> =
            [Args::PutRootFh, lookup(EXPORT)].into_iter().chain(names).chain([Args::GetFh]).collect();
        let answer = self.client.run(&mut self.wire, &all).ok();
        let Res::GetFh(Ok(handle)) = answer.last() else { panic!("{answer:?}") };
        handle.object.0.to_vec()
    }

    /// What a request is told that looks a name up below a handle, in a later batch of requests.
    fn looks(&mut self, handle: &[u8], name: &[u8]) -> NfsStat {
        self.wire.now.mono_ns += 1_000_000;
        self.client.on(&mut self.wire, handle, &[lookup(name)]).status()
    }
}

#[test]
fn a_directory_that_the_host_moves_out_of_the_share_is_stale_with_all_that_is_below() {
    let mut it = Bench::new();
    assert!(it.world.engine.volume().facts().tells_changes);
    let moved = it.handle(&[b"above", b"moved"]);
    let below = it.handle(&[b"above", b"moved", b"below"]);
    let above = it.handle(&[b"above"]);
    std::fs::write(it.at("above/moved/below/f"), "f").unwrap();
    assert_eq!(it.looks(&below, b"f"), NfsStat::Ok);
    // Within the share it is followed.
    it.moves(it.at("above/moved"), it.at("elsewhere"));
    assert_eq!([it.looks(&moved, b"below"), it.looks(&below, b"f")], [NfsStat::Ok; 2]);
    it.moves(it.at("elsewhere"), it.outside());
    assert_eq!(it.looks(&moved, b"below"), NfsStat::Stale);
    assert_eq!(it.looks(&below, b"f"), NfsStat::Stale);
    assert_eq!(it.looks(&above, b"moved"), NfsStat::NoEnt, "nothing else is");
    it.moves(it.outside(), it.at("above/back"));
    assert_eq!([it.looks(&moved, b"below"), it.looks(&below, b"f")], [NfsStat::Ok; 2]);
}
