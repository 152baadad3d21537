//! The number of metadata calls that operations make to the volume, with and without remembered names and
//! files. This is their cost if each such call goes to a distant store.

use std::sync::Arc;

use nfs_wire::attr::{AttrNum, Bitmap, Fattr};
use nfs_wire::op::names::RemoveArgs;
use nfs_wire::op::open::{Claim, CreateHow, OpenHow, ShareAccess, ShareDeny};
use nfs_wire::op::{Args, Res, getattr, open, readdir};
use nfs_wire::types::{ChangeInfo, Identity, StateId, StateOwner};
use testkit::nfs::*;
use volume::Time;
use volume::faulty::FaultPlan;

/// A client that counts the calls of its COMPOUNDs.
struct CallCounter {
    plan: Arc<FaultPlan>,
    wire: Wire,
    client: Client,
    directory: Vec<u8>,
}

impl CallCounter {
    fn begin(remembers: bool) -> CallCounter {
        let (world, plan) = NfsTestServer::counted();
        // As on a host: a change is too recent to be trusted.
        world.memory.set_clock(Time::from_wall_ns(world.now.wall_ns));
        world.engine.set_metadata_caching(remembers);
        let mut wire = world.connect();
        let mut client = Client::new(&mut wire, b"client", 1);
        let answer = client.run(&mut wire, &[Args::PutRootFh, lookup(EXPORT), Args::GetFh]).ok();
        let Res::GetFh(Ok(handle)) = answer.last() else { panic!("{answer:?}") };
        CallCounter { plan, wire, client, directory: handle.object.0.to_vec() }
    }

    fn count(&mut self, handle: &[u8], operations: &[Args<'_>]) -> (u64, ReceivedCompound) {
        let before = self.plan.metadata_calls();
        let answer = self.client.on(&mut self.wire, handle, operations).ok();
        (self.plan.metadata_calls() - before, answer)
    }

    /// Opens a name and asks for its filehandle and attributes, as clients do; writes if it may; and closes
    /// it. Returns the calls of opening and of closing.
    fn open_and_close(&mut self, share_access: ShareAccess, openhow: OpenHow<'_>, name: &str) -> (u64, u64) {
        let wanted = Bitmap::of(&[AttrNum::Change.get(), AttrNum::Size.get(), AttrNum::Mode.get()]);
        let open = Args::Open(open::Args {
            seqid: 0,
            share_access,
            share_deny: ShareDeny::empty(),
            owner: StateOwner { clientid: 0, owner: Identity(b"owner") },
            openhow,
            claim: Claim::Null(name.as_bytes()),
        });
        let operations = [open, Args::GetFh, Args::GetAttr(getattr::Args { attr_request: wanted })];
        let directory = self.directory.clone();
        let (opening, answer) = self.count(&directory, &operations);
        let results = answer.results();
        let (Res::Open(Ok(open)), Res::GetFh(Ok(handle))) = (results[2], results[3]) else {
            panic!("{results:?}")
        };
        let (file, stateid): (Vec<u8>, StateId) = (handle.object.0.to_vec(), open.stateid);
        if share_access.contains(ShareAccess::WRITE) {
            assert_eq!(self.count(&file, &[writing(stateid, 0, b"text")]).0, 0, "data");
        }
        (opening, self.count(&file, &[closing(stateid)]).0)
    }

    fn create(&mut self, name: &str) -> (u64, u64) {
        let how = OpenHow::Create(CreateHow::Guarded(Fattr::default()));
        self.open_and_close(ShareAccess::WRITE, how, name)
    }

    fn open(&mut self, name: &str) -> (u64, u64) {
        self.open_and_close(ShareAccess::READ, OpenHow::NoCreate, name)
    }

    fn remove(&mut self, name: &str) -> (u64, ChangeInfo) {
        let directory = self.directory.clone();
        let (calls, answer) = self.count(&directory, &[Args::Remove(RemoveArgs { target: name.as_bytes() })]);
        let Res::Remove(Ok(removed)) = answer.last() else { panic!("{answer:?}") };
        (calls, removed.cinfo)
    }
}

#[test]
fn what_is_remembered_saves_calls() {
    // Creating, closing, opening, closing and removing a file. What was remembered of the file is freed with
    // its removal. Without remembering, it is freed with each close.
    for (remembers, expected) in [(true, [5, 1, 2, 0, 4]), (false, [9, 1, 6, 1, 7])] {
        let mut it = CallCounter::begin(remembers);
        let _first = it.create("first");
        let (made, closed) = it.create("one");
        let _found = it.open("one");
        let (opened, closed_again) = it.open("one");
        let removed = it.remove("one").0;
        assert_eq!([made, closed, opened, closed_again, removed], expected, "remembers: {remembers}");
    }
}

#[test]
fn what_was_just_made_is_removed_with_what_is_known_of_it() {
    for (remembers, expected) in [(true, 3), (false, 7)] {
        let mut it = CallCounter::begin(remembers);
        let names: Vec<String> = (0..3).map(|n| format!("f{n}")).collect();
        for name in &names {
            it.create(name);
        }
        let mut versions = Vec::new();
        for name in &names {
            let (calls, cinfo) = it.remove(name);
            assert_eq!(calls, expected, "remembers: {remembers}");
            assert!(!cinfo.atomic && cinfo.before < cinfo.after, "{cinfo:?}");
            versions.push((cinfo.before, cinfo.after));
        }
        // Nobody else has changed anything.
        assert!(versions.windows(2).all(|two| two[0].1 == two[1].0), "{versions:?}");
    }
}

#[test]
fn where_new_names_are_made_all_the_time_they_are_not_looked_for_any_more() {
    let mut it = CallCounter::begin(true);
    let counts: Vec<u64> = (0..40).map(|n| it.create(&format!("f{n}")).0).collect();
    assert_eq!((counts[5], counts[39]), (5, 4), "{counts:?}");
    // One scan is all it took.
    assert_eq!(it.plan.count(volume::faulty::VolumeCall::Entries), 1);
}

/// Lists the directory with these attributes. Returns the calls, the names, and the attributes of the first
/// entry.
fn list(it: &mut CallCounter, attr_request: Bitmap) -> (u64, Vec<String>, Vec<String>) {
    let list =
        readdir::Args { cookie: 0, cookieverf: [0; 8], dircount: 65536, maxcount: 65536, attr_request };
    let directory = it.directory.clone();
    let (calls, answer) = it.count(&directory, &[Args::ReadDir(list)]);
    let Res::ReadDir(Ok(found)) = answer.last() else { panic!("{answer:?}") };
    assert!(found.eof);
    let (mut names, mut told) = (Vec::new(), Vec::new());
    for entry in found.entries.iter() {
        names.push(String::from_utf8(entry.name.to_vec()).expect("text"));
        if told.is_empty() {
            told = entry.attrs.iter().map(|attr| format!("{:?}", attr.expect("an attribute"))).collect();
        }
    }
    (calls, names, told)
}

#[test]
fn a_list_of_names_asks_for_no_file_and_the_second_time_for_nothing() {
    const FILES: u64 = 200;
    let wanted =
        |numbers: &[AttrNum]| Bitmap::of(&numbers.iter().map(|number| number.get()).collect::<Vec<_>>());
    let plain = [AttrNum::RdattrError, AttrNum::MountedOnFileid];
    for (remembers, expected) in [(true, [0, 0, 2 * FILES]), (false, [1, 1, 1 + 2 * FILES])] {
        let mut it = CallCounter::begin(remembers);
        for n in 0..FILES {
            it.create(&format!("f{n}"));
        }
        // The calls for opening the directory are the same each time.
        let (opened, ..) = list(&mut it, Bitmap::EMPTY);
        let opened = opened - 1;
        let all = [wanted(&plain), wanted(&[AttrNum::Type]), wanted(&[AttrNum::Size])].map(|attributes| {
            let (calls, names, _) = list(&mut it, attributes);
            assert_eq!(names.len() as u64, FILES);
            calls - opened
        });
        assert_eq!(all, expected, "remembers: {remembers}");
        // The listing holds the same as GETATTR of each file.
        let (_, _, told) = list(&mut it, wanted(&[AttrNum::Type, AttrNum::MountedOnFileid]));
        let (_, _, with_size) =
            list(&mut it, wanted(&[AttrNum::Type, AttrNum::Size, AttrNum::MountedOnFileid]));
        assert_eq!((told.len(), &told[..]), (2, &[with_size[0].clone(), with_size[2].clone()][..]));
    }
}
