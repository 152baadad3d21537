//! What the limits of a share charge for a READ or a WRITE: however it ends, the share, the file and the account have what they
//! had before, less the bytes that were transferred.

use std::sync::Arc;
use std::time::Duration;

use share::FileNumber;
use share::limits::{AccountProvision, Alarm, Limits, MeteredWork, Provision, ShareLimits, Throughput};
use smb_wire::create::Access;
use smb_wire::fscc::FileInfoClass;
use smb_wire::query_info::{self, InfoType};
use smb_wire::{Command, FileId, Header, NtStatus, cancel, logoff, read, write};
use testkit::smb::client::OpenFile;
use testkit::smb::peer::whole;
use testkit::smb::{Dial, Peer, World};
use volume::faulty::Call;
use volume::{Failure, Name, Node, OpenHow, Volume};
use volume_posix::PosixVolume;

/// Bytes a second at each gate, of which half of what a twentieth of a second brings is there.
const RATE: u64 = 50_000_000;
/// Operations a second, of which a twentieth of a second's can be done at once.
const OPERATIONS: u64 = 1000;
/// The content of the file.
const SIZE: usize = 600_000;

/// The test itself lets time pass.
struct Quiet;

impl Alarm for Quiet {
    fn set(&self, _at_ns: u64) {}
}

/// A client with a file on a share with limits.
struct Scene {
    world: World,
    limits: Arc<Limits>,
    share: ShareLimits,
    number: FileNumber,
    client: Peer,
    file: FileId,
}

/// How a request may end on the scene's connection.
type End = fn(&mut Scene);

fn plain() -> Dial {
    // What is signed is copied anyhow.
    Dial { requires_signing: false, ..Dial::default() }
}

/// The file as the host has it.
fn on_disk(world: &World) -> Arc<dyn Node> {
    let volume = PosixVolume::open(&world.root(), &world.outside()).expect("it can be served");
    let (root, name) = (volume.root().expect("the root"), Name::new(b"file").expect("a name"));
    root.lookup(&name, OpenHow::Read).expect("the file")
}

/// The file's number on a volume in memory, or on the host.
fn number_of(world: &World, is_on_disk: bool, client: &mut Peer) -> FileNumber {
    if is_on_disk {
        let node = on_disk(world).stat().expect("the file").id;
        return FileNumber { device: node.device, inode: node.inode };
    }
    let file = client.open("file");
    let answer = client.query_info(file, InfoType::File, FileInfoClass::INTERNAL.0, 0);
    assert_eq!(client.close(file), NtStatus::SUCCESS);
    let inode = query_info::Response::parse(&answer.message).expect("a QUERY_INFO response").output_buffer;
    FileNumber { device: 1, inode: u64::from_le_bytes(inode.try_into().expect("a number")) }
}

impl Scene {
    fn new(world: World) -> Scene {
        Scene::on(world, false, Access::FILE_ALL)
    }

    fn on(world: World, is_on_disk: bool, access: Access) -> Scene {
        let mut client = world.dial(&plain());
        client.make("file", &vec![7; SIZE]);
        let number = number_of(&world, is_on_disk, &mut client);
        let file = client.create(&OpenFile { access, ..OpenFile::named("file") }).file_id();
        let now = world.clock.time();
        let throughput = Throughput::Together(RATE);
        let account = AccountProvision { operations: OPERATIONS, throughput };
        let provision = Provision {
            operations: OPERATIONS,
            burst: OPERATIONS,
            burst_credits: 0,
            throughput,
            metadata: 1000,
            file_operations: 1 << 30,
            file_bytes: RATE,
            file_size: 4 << 40,
        };
        let limits = Limits::new(Some(account), Arc::new(Quiet), now);
        let share = limits.set_share(1, provision, Some(0), now);
        world.engine.set_limits(Some(share.clone()));
        let scene = Scene { world, limits, share, number, client, file };
        scene.share.charge(scene.work(RATE / 40), now).used_up();
        assert_eq!(scene.left(), [(RATE / 40) as i64; 3]);
        scene
    }

    fn work(&self, len: u64) -> MeteredWork {
        MeteredWork::Read { file: self.number, len }
    }

    /// Bytes that are left to the file, the share and the account.
    fn left(&self) -> Vec<i64> {
        self.share.bytes_left(self.work(0), self.world.clock.time())
    }

    /// Lets `end` happen, after which so many bytes were transferred.
    #[track_caller]
    fn costs(mut self, transferred: usize, end: impl FnOnce(&mut Scene)) {
        let (before, began) = (self.left(), self.world.clock.time().mono_ns);
        end(&mut self);
        let passed_ns = self.world.clock.time().mono_ns - began;
        let came = (RATE / 1_000_000 * passed_ns / 1000) as i64;
        let expected: Vec<i64> = before.iter().map(|left| left + came - transferred as i64).collect();
        assert_eq!(self.left(), expected, "of the file, the share and the account");
        assert_eq!(self.held(), 0);
    }

    fn held(&self) -> usize {
        self.share.state(self.world.clock.time()).expect("the share").held
    }

    /// No operation passes for a millisecond.
    fn shut(&self) {
        let now = self.world.clock.time();
        (0..OPERATIONS / 20).for_each(|_| self.share.charge(self.work(0), now).used_up());
    }

    /// Lets time pass, and those go on whose time has come.
    fn pass(&self) {
        self.world.clock.advance(Duration::from_millis(2));
        self.limits.release(self.world.clock.time());
    }

    fn ask_read(&mut self, offset: u64, length: u32, minimum_count: u32) -> u64 {
        let header = self.client.header_for(Command::Read, length as usize);
        let asked = read::Request { minimum_count, ..read::Request::new(self.file, offset, length) };
        self.client.send(whole(&header, |out| asked.write(out)))
    }

    fn ask_write(&mut self, len: usize) -> u64 {
        let header = self.client.header_for(Command::Write, len);
        let (file, data) = (self.file, vec![8; len]);
        self.client.send(whole(&header, |out| write::Request::new(file, 0, &data).write(out)))
    }

    /// The status of the answer, of which there is only one.
    #[track_caller]
    fn ends(&mut self, id: u64, status: NtStatus) {
        assert_eq!(self.client.answer(id).expect("an answer").status(), status);
        assert!(self.client.answer(id).is_none(), "only one answer");
    }

    /// Asks for a READ that is held.
    #[track_caller]
    fn hold_read(&mut self, length: u32) -> u64 {
        self.shut();
        let id = self.ask_read(0, length, 0);
        assert!(self.client.answer(id).is_none());
        assert_eq!(self.held(), 1);
        id
    }

    /// Asks for a READ that finds nothing in memory, and whose work is not begun.
    #[track_caller]
    fn work_read(&mut self, length: u32) -> u64 {
        self.client.holds_jobs = true;
        let id = self.ask_read(0, length, 0);
        assert!(self.client.answer(id).is_none());
        assert_eq!(self.client.held_jobs(), 1);
        id
    }

    /// The connection is lost.
    fn hang_up(&mut self) {
        let other = self.world.peer();
        std::mem::replace(&mut self.client, other).hang_up();
    }

    fn log_off(&mut self) {
        let status = self.client.status(Command::Logoff, |out| logoff::Request.write(out));
        assert_eq!(status, NtStatus::SUCCESS);
    }

    /// The same client comes anew and ends the session from elsewhere.
    fn come_anew(&self) -> Peer {
        self.world.dial(&Dial { previous_session_id: self.client.session_id, ..plain() })
    }

    fn cancel(&mut self, id: u64) {
        let mut header = Header::request(Command::Cancel, id);
        header.set_session_id(self.client.session_id);
        self.client.send(whole(&header, |out| cancel::Request.write(out)));
    }
}

#[test]
fn what_is_served_at_once_costs_what_it_transfers() {
    Scene::new(World::in_memory()).costs(65_536, |scene| {
        let id = scene.ask_read(0, 65_536, 0);
        scene.ends(id, NtStatus::SUCCESS);
    });
    Scene::new(World::in_memory()).costs(1000, |scene| {
        let id = scene.ask_read(SIZE as u64 - 1000, 65_536, 1000);
        scene.ends(id, NtStatus::SUCCESS);
    });
}

#[test]
fn what_is_not_copied_costs_what_it_transfers() {
    for (length, there) in [(524_288, 524_288), (1 << 20, SIZE)] {
        let world = World::on_disk();
        let config = share::Config::clone(&world.engine.config());
        world.engine.configure(share::Config { send_file: wire::SendFile::Always, ..config });
        Scene::on(world, true, Access::FILE_ALL).costs(there, |scene| {
            let id = scene.ask_read(0, length, 0);
            scene.ends(id, NtStatus::SUCCESS);
            // The host tells what is in memory from Linux 6.5 on.
            let tells = on_disk(&scene.world).range(0, SIZE).expect("it may be read").is_some();
            assert_eq!(scene.client.uncopied, usize::from(tells));
        });
    }
}

#[test]
fn what_is_refused_at_once_costs_nothing() {
    let beyond: End = |scene| {
        let id = scene.ask_read(SIZE as u64, 65_536, 0);
        scene.ends(id, NtStatus::END_OF_FILE);
    };
    let too_little: End = |scene| {
        let id = scene.ask_read(SIZE as u64 - 1000, 65_536, 1001);
        scene.ends(id, NtStatus::END_OF_FILE);
    };
    for end in [beyond, too_little] {
        Scene::new(World::in_memory()).costs(0, end);
        Scene::new(World::cold()).costs(0, end);
    }
    // FILE_WRITE_DATA alone, and FILE_READ_DATA alone (MS-SMB2 2.2.13.1.1).
    for length in [65_536, 524_288] {
        Scene::on(World::in_memory(), false, Access::from_bits_retain(2)).costs(0, |scene| {
            let id = scene.ask_read(0, length, 0);
            scene.ends(id, NtStatus::ACCESS_DENIED);
        });
    }
    Scene::on(World::in_memory(), false, Access::from_bits_retain(1)).costs(0, |scene| {
        let id = scene.ask_write(65_536);
        scene.ends(id, NtStatus::ACCESS_DENIED);
    });
}

#[test]
fn what_is_read_on_the_pool_costs_what_it_transfers() {
    for (offset, there) in [(0, 65_536), (SIZE - 1000, 1000)] {
        Scene::new(World::cold()).costs(there, |scene| {
            let id = scene.ask_read(offset as u64, 65_536, 0);
            scene.ends(id, NtStatus::SUCCESS);
        });
    }
    let (world, plan) = World::faulty();
    plan.always(Call::ReadCached, Some(Failure::WouldBlock));
    let scene = Scene::new(world);
    plan.always(Call::Read, Some(Failure::Io));
    scene.costs(0, |scene| {
        let id = scene.ask_read(0, 65_536, 0);
        assert!(scene.client.answer(id).expect("an answer").status().is_error());
    });
}

#[test]
fn what_found_nothing_in_memory_and_is_never_done_costs_nothing() {
    // The pool drops its jobs, before or after the connection is gone.
    Scene::new(World::cold()).costs(0, |scene| {
        scene.work_read(65_536);
        drop(scene.client.take_jobs());
    });
    Scene::new(World::cold()).costs(0, |scene| {
        scene.work_read(65_536);
        let jobs = scene.client.take_jobs();
        scene.hang_up();
        drop(jobs);
    });
    // So much waits already that it must not.
    Scene::new(World::cold()).costs(0, |scene| {
        scene.world.engine.set_limits(None);
        scene.client.holds_jobs = true;
        let mut asked = 0;
        while asked < smb::limits::MAX_WAITING {
            scene.ask_read(0, 10, 0);
            asked += 1;
            if asked % 16 == 0 {
                // Its answers bring further credits.
                scene.client.status(Command::Echo, |out| smb_wire::echo::Request.write(out));
            }
        }
        scene.world.engine.set_limits(Some(scene.share.clone()));
        let id = scene.ask_read(0, 65_536, 0);
        scene.ends(id, NtStatus::INSUFFICIENT_RESOURCES);
    });
}

#[test]
fn what_found_nothing_in_memory_and_is_then_refused_costs_nothing() {
    // The client is gone, and its Opens with it.
    Scene::new(World::cold()).costs(0, |scene| {
        scene.work_read(65_536);
        let jobs = scene.client.take_jobs();
        scene.hang_up();
        jobs();
    });
    let log_off: End = Scene::log_off;
    let from_elsewhere: End = |scene| drop(scene.come_anew());
    for end in [log_off, from_elsewhere] {
        Scene::new(World::cold()).costs(0, |scene| {
            let id = scene.work_read(65_536);
            end(scene);
            scene.client.run_jobs();
            scene.ends(id, NtStatus::FILE_CLOSED);
        });
    }
}

#[test]
fn what_was_held_costs_what_it_transfers() {
    for world in [World::in_memory(), World::cold()] {
        Scene::new(world).costs(65_536, |scene| {
            let id = scene.hold_read(65_536);
            scene.pass();
            scene.ends(id, NtStatus::SUCCESS);
        });
    }
    Scene::new(World::in_memory()).costs(SIZE, |scene| {
        let id = scene.hold_read(1 << 20);
        scene.pass();
        scene.ends(id, NtStatus::SUCCESS);
    });
    Scene::on(World::in_memory(), false, Access::from_bits_retain(2)).costs(0, |scene| {
        let id = scene.hold_read(65_536);
        scene.pass();
        scene.ends(id, NtStatus::ACCESS_DENIED);
    });
}

#[test]
fn what_was_held_and_then_found_nothing_in_memory_and_is_never_done_costs_nothing() {
    Scene::new(World::cold()).costs(0, |scene| {
        scene.client.holds_jobs = true;
        scene.hold_read(65_536);
        scene.pass();
        scene.client.turn();
        assert_eq!(scene.client.held_jobs(), 1);
        drop(scene.client.take_jobs());
    });
}

#[test]
fn what_is_taken_back_while_it_is_held_costs_nothing() {
    Scene::new(World::in_memory()).costs(0, |scene| {
        let id = scene.hold_read(65_536);
        scene.cancel(id);
        scene.ends(id, NtStatus::CANCELLED);
    });
    Scene::new(World::in_memory()).costs(0, |scene| {
        scene.hold_read(65_536);
        scene.hang_up();
    });
    // Its time has come, and nobody comes to it.
    Scene::new(World::in_memory()).costs(0, |scene| {
        let id = scene.hold_read(65_536);
        scene.client.holds_events = true;
        scene.pass();
        scene.cancel(id);
        scene.ends(id, NtStatus::CANCELLED);
    });
    Scene::new(World::in_memory()).costs(0, |scene| {
        scene.hold_read(65_536);
        scene.client.holds_events = true;
        scene.pass();
        scene.hang_up();
    });
}

#[test]
fn what_was_held_when_its_session_ended_costs_nothing() {
    let log_off: End = Scene::log_off;
    let from_elsewhere: End = |scene| drop(scene.come_anew());
    for end in [log_off, from_elsewhere] {
        Scene::new(World::in_memory()).costs(0, |scene| {
            let id = scene.hold_read(65_536);
            end(scene);
            scene.pass();
            let answer = scene.client.answer(id).expect("an answer");
            assert!(answer.status().is_error(), "{:?}", answer.status());
        });
    }
}

#[test]
fn what_was_held_by_limits_that_were_lifted_costs_them_what_it_transfers() {
    Scene::new(World::in_memory()).costs(SIZE, |scene| {
        let id = scene.hold_read(1 << 20);
        scene.world.engine.set_limits(None);
        scene.pass();
        assert_eq!(scene.client.answer(id).expect("an answer").data().len(), SIZE);
    });
}

#[test]
fn a_write_costs_what_was_written_whoever_hears_of_it() {
    Scene::new(World::in_memory()).costs(65_536, |scene| {
        let id = scene.ask_write(65_536);
        scene.ends(id, NtStatus::SUCCESS);
    });
    for (is_taken_back, is_lost) in [(false, false), (true, false), (false, true)] {
        Scene::new(World::in_memory()).costs(65_536, |scene| {
            scene.shut();
            let id = scene.ask_write(65_536);
            assert!(scene.client.answer(id).is_none());
            assert_eq!(scene.held(), 1);
            if is_taken_back {
                scene.cancel(id);
            }
            if is_lost {
                return scene.hang_up();
            }
            scene.pass();
            scene.ends(id, NtStatus::SUCCESS);
        });
    }
}
