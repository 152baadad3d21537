//! Names whose files a program of the host has replaced, before the server has heard of it.

use nfs_wire::attr::Fattr;
use nfs_wire::op::names::RemoveArgs;
use nfs_wire::op::open::{CreateHow, OpenHow};
use nfs_wire::op::{Args, Res};
use nfs_wire::types::StateId;
use testkit::nfs::*;
use volume::{Failure, Name, Volume};

struct ReplacedNames {
    world: NfsTestServer,
    wire: Wire,
    client: Client,
    directory: Vec<u8>,
}

impl ReplacedNames {
    fn new() -> ReplacedNames {
        let world = NfsTestServer::new();
        let mut wire = world.connect();
        let mut client = Client::new(&mut wire, b"client", 1);
        let answer = client.run(&mut wire, &[Args::PutRootFh, lookup(EXPORT), Args::GetFh]).ok();
        let Res::GetFh(Ok(handle)) = answer.last() else { panic!("{answer:?}") };
        let directory = handle.object.0.to_vec();
        ReplacedNames { world, wire, client, directory }
    }

    /// Opens `a` and returns its filehandle.
    fn open(&mut self, how: OpenHow<'_>) -> Vec<u8> {
        let directory = self.directory.clone();
        let answer = self.client.on(&mut self.wire, &directory, &[opening(how, b"a"), Args::GetFh]).ok();
        let results = answer.results();
        let (Res::Open(Ok(open)), Res::GetFh(Ok(handle))) = (results[2], results[3]) else {
            panic!("{results:?}")
        };
        let (file, stateid): (Vec<u8>, StateId) = (handle.object.0.to_vec(), open.stateid);
        self.client.on(&mut self.wire, &file, &[closing(stateid)]).ok();
        file
    }

    fn replace(&self) {
        let (root, [tmp, a]) = (self.world.memory.root().unwrap(), ["tmp", "a"].map(name));
        root.create_file(&tmp, 0o666, None).unwrap();
        root.rename(&tmp, root.as_ref(), &a, true, None).unwrap();
    }
}

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

#[test]
fn they_are_opened_and_removed_all_the_same() {
    let mut it = ReplacedNames::new();
    let unchecked = || OpenHow::Create(CreateHow::Unchecked(Fattr::default()));
    let mut last = it.open(unchecked());
    for how in [OpenHow::NoCreate, unchecked()] {
        // It is remembered since it was found by its name.
        assert_eq!(it.open(OpenHow::NoCreate), last);
        it.replace();
        let file = it.open(how);
        assert_ne!(file, last);
        last = file;
    }
    assert_eq!(it.open(OpenHow::NoCreate), last);
    it.replace();
    let directory = it.directory.clone();
    it.client.on(&mut it.wire, &directory, &[Args::Remove(RemoveArgs { target: b"a" })]).ok();
    let gone = it.world.memory.root().unwrap().lookup(&name("a"), volume::OpenHow::Attributes);
    assert_eq!(gone.err(), Some(Failure::NotFound));
}
