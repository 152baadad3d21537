//! The charge of a share's limits for a READ or a WRITE. After any end of the request, the share, the file
//! and the account have their earlier amounts less the transferred bytes.

use std::sync::Arc;
use std::time::Duration;

use share::FileNumber;
use share::limits::{AccountProvision, Alarm, Limits, MeteredWork, Provision, ShareLimits, Throughput};
use smb_wire::create::Access;
use smb_wire::fscc::FileInfoClass;
use smb_wire::query_info::{self, InfoType};
use smb_wire::{FileId, Header, NtStatus, SmbCommand, cancel, logoff, read, write};
use testkit::smb::client::OpenFile;
use testkit::smb::peer::whole;
use testkit::smb::{Dial, Peer, SmbTestServer};
use volume::faulty::VolumeCall;
use volume::{Failure, Name, Node, OpenHow, Volume};
use volume_posix::PosixVolume;

/// Bytes a second at each gate. Half of the amount of a twentieth of a second is available.
const RATE: u64 = 50_000_000;
/// Operations a second. Those of a twentieth of a second can run at once.
const OPERATIONS: u64 = 1000;
/// The content of the file.
const SIZE: usize = 600_000;

/// The test itself advances the time.
struct ManualAlarm;

impl Alarm for ManualAlarm {
    fn set(&self, _at_ns: u64) {}
}

/// A client with a file on a share with limits.
struct LimitedFile {
    world: SmbTestServer,
    limits: Arc<Limits>,
    share: ShareLimits,
    number: FileNumber,
    client: Peer,
    file: FileId,
}

/// An end of a request on the connection.
type RequestEnd = fn(&mut LimitedFile);

fn plain() -> Dial {
    // Signed data is always copied.
    Dial { requires_signing: false, ..Dial::default() }
}

/// The file on the host.
fn on_disk(world: &SmbTestServer) -> Arc<dyn Node> {
    let volume = PosixVolume::open(&world.root(), &world.outside()).expect("it can be served");
    let (root, name) = (volume.root().expect("the root"), Name::new(b"file").expect("a name"));
    root.lookup(&name, OpenHow::Read).expect("the file")
}

/// The file's number on a volume in memory, or on the host.
fn number_of(world: &SmbTestServer, is_on_disk: bool, client: &mut Peer) -> FileNumber {
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

impl LimitedFile {
    fn new(world: SmbTestServer) -> LimitedFile {
        LimitedFile::on(world, false, Access::FILE_ALL)
    }

    fn on(world: SmbTestServer, is_on_disk: bool, access: Access) -> LimitedFile {
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
        let limits = Limits::new(Some(account), Arc::new(ManualAlarm), now);
        let share = limits.set_share(1, provision, Some(0), now);
        world.engine.set_limits(Some(share.clone()));
        let scene = LimitedFile { world, limits, share, number, client, file };
        scene.share.charge(scene.work(RATE / 40), now).used_up();
        assert_eq!(scene.left(), [(RATE / 40) as i64; 3]);
        scene
    }

    fn work(&self, len: u64) -> MeteredWork {
        MeteredWork::Read { file: self.number, len }
    }

    /// The remaining bytes of the file, the share and the account.
    fn left(&self) -> Vec<i64> {
        self.share.bytes_left(self.work(0), self.world.clock.time())
    }

    /// Runs `end` and checks that this many bytes were transferred.
    #[track_caller]
    fn costs(mut self, transferred: usize, end: impl FnOnce(&mut LimitedFile)) {
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

    /// Lets no operation pass for a millisecond.
    fn shut(&self) {
        let now = self.world.clock.time();
        (0..OPERATIONS / 20).for_each(|_| self.share.charge(self.work(0), now).used_up());
    }

    /// Advances the time and resumes the requests that are due.
    fn pass(&self) {
        self.world.clock.advance(Duration::from_millis(2));
        self.limits.release(self.world.clock.time());
    }

    fn ask_read(&mut self, offset: u64, length: u32, minimum_count: u32) -> u64 {
        let header = self.client.header_for(SmbCommand::Read, length as usize);
        let asked = read::Request { minimum_count, ..read::Request::new(self.file, offset, length) };
        self.client.send(whole(&header, |out| asked.write(out)))
    }

    fn ask_write(&mut self, len: usize) -> u64 {
        let header = self.client.header_for(SmbCommand::Write, len);
        let (file, data) = (self.file, vec![8; len]);
        self.client.send(whole(&header, |out| write::Request::new(file, 0, &data).write(out)))
    }

    /// Checks the status of the only reply.
    #[track_caller]
    fn ends(&mut self, id: u64, status: NtStatus) {
        assert_eq!(self.client.answer(id).expect("an answer").status(), status);
        assert!(self.client.answer(id).is_none(), "only one answer");
    }

    /// Sends a READ that is throttled.
    #[track_caller]
    fn hold_read(&mut self, length: u32) -> u64 {
        self.shut();
        let id = self.ask_read(0, length, 0);
        assert!(self.client.answer(id).is_none());
        assert_eq!(self.held(), 1);
        id
    }

    /// Sends a READ of data that is not in memory. Its work is not started.
    #[track_caller]
    fn work_read(&mut self, length: u32) -> u64 {
        self.client.holds_jobs = true;
        let id = self.ask_read(0, length, 0);
        assert!(self.client.answer(id).is_none());
        assert_eq!(self.client.held_jobs(), 1);
        id
    }

    /// Loses the connection.
    fn hang_up(&mut self) {
        let other = self.world.peer();
        std::mem::replace(&mut self.client, other).hang_up();
    }

    fn log_off(&mut self) {
        let status = self.client.status(SmbCommand::Logoff, |out| logoff::Request.write(out));
        assert_eq!(status, NtStatus::SUCCESS);
    }

    /// Connects the same client again, which ends the session.
    fn come_anew(&self) -> Peer {
        self.world.dial(&Dial { previous_session_id: self.client.session_id, ..plain() })
    }

    fn cancel(&mut self, id: u64) {
        let mut header = Header::request(SmbCommand::Cancel, id);
        header.set_session_id(self.client.session_id);
        self.client.send(whole(&header, |out| cancel::Request.write(out)));
    }
}

#[test]
fn what_is_served_at_once_costs_what_it_transfers() {
    LimitedFile::new(SmbTestServer::in_memory()).costs(65_536, |scene| {
        let id = scene.ask_read(0, 65_536, 0);
        scene.ends(id, NtStatus::SUCCESS);
    });
    LimitedFile::new(SmbTestServer::in_memory()).costs(1000, |scene| {
        let id = scene.ask_read(SIZE as u64 - 1000, 65_536, 1000);
        scene.ends(id, NtStatus::SUCCESS);
    });
}

#[test]
fn what_is_not_copied_costs_what_it_transfers() {
    for (length, there) in [(524_288, 524_288), (1 << 20, SIZE)] {
        let world = SmbTestServer::on_disk();
        let config = share::Config::clone(&world.engine.config());
        world.engine.configure(share::Config { send_file: wire::SendFile::Always, ..config });
        LimitedFile::on(world, true, Access::FILE_ALL).costs(there, |scene| {
            let id = scene.ask_read(0, length, 0);
            scene.ends(id, NtStatus::SUCCESS);
            // The host reports pages in memory since Linux 6.5.
            let tells = on_disk(&scene.world).range(0, SIZE).expect("it may be read").is_some();
            assert_eq!(scene.client.uncopied, usize::from(tells));
        });
    }
}

#[test]
fn what_is_refused_at_once_costs_nothing() {
    let beyond: RequestEnd = |scene| {
        let id = scene.ask_read(SIZE as u64, 65_536, 0);
        scene.ends(id, NtStatus::END_OF_FILE);
    };
    let too_little: RequestEnd = |scene| {
        let id = scene.ask_read(SIZE as u64 - 1000, 65_536, 1001);
        scene.ends(id, NtStatus::END_OF_FILE);
    };
    for end in [beyond, too_little] {
        LimitedFile::new(SmbTestServer::in_memory()).costs(0, end);
        LimitedFile::new(SmbTestServer::cold()).costs(0, end);
    }
    // FILE_WRITE_DATA only, and FILE_READ_DATA only (MS-SMB2 2.2.13.1.1).
    for length in [65_536, 524_288] {
        LimitedFile::on(SmbTestServer::in_memory(), false, Access::from_bits_retain(2)).costs(0, |scene| {
            let id = scene.ask_read(0, length, 0);
            scene.ends(id, NtStatus::ACCESS_DENIED);
        });
    }
    LimitedFile::on(SmbTestServer::in_memory(), false, Access::from_bits_retain(1)).costs(0, |scene| {
        let id = scene.ask_write(65_536);
        scene.ends(id, NtStatus::ACCESS_DENIED);
    });
}

#[test]
fn what_is_read_on_the_pool_costs_what_it_transfers() {
    for (offset, there) in [(0, 65_536), (SIZE - 1000, 1000)] {
        LimitedFile::new(SmbTestServer::cold()).costs(there, |scene| {
            let id = scene.ask_read(offset as u64, 65_536, 0);
            scene.ends(id, NtStatus::SUCCESS);
        });
    }
    let (world, plan) = SmbTestServer::faulty();
    plan.always(VolumeCall::ReadCached, Some(Failure::WouldBlock));
    let scene = LimitedFile::new(world);
    plan.always(VolumeCall::Read, Some(Failure::Io));
    scene.costs(0, |scene| {
        let id = scene.ask_read(0, 65_536, 0);
        assert!(scene.client.answer(id).expect("an answer").status().is_error());
    });
}

#[test]
fn what_found_nothing_in_memory_and_is_never_done_costs_nothing() {
    // The pool drops its jobs, before or after the end of the connection.
    LimitedFile::new(SmbTestServer::cold()).costs(0, |scene| {
        scene.work_read(65_536);
        drop(scene.client.take_jobs());
    });
    LimitedFile::new(SmbTestServer::cold()).costs(0, |scene| {
        scene.work_read(65_536);
        let jobs = scene.client.take_jobs();
        scene.hang_up();
        drop(jobs);
    });
    // So many requests wait already that this one must not.
    LimitedFile::new(SmbTestServer::cold()).costs(0, |scene| {
        scene.world.engine.set_limits(None);
        scene.client.holds_jobs = true;
        let mut asked = 0;
        while asked < smb::limits::MAX_WAITING {
            scene.ask_read(0, 10, 0);
            asked += 1;
            if asked % 16 == 0 {
                // Its replies bring more credits.
                scene.client.status(SmbCommand::Echo, |out| smb_wire::echo::Request.write(out));
            }
        }
        scene.world.engine.set_limits(Some(scene.share.clone()));
        let id = scene.ask_read(0, 65_536, 0);
        scene.ends(id, NtStatus::INSUFFICIENT_RESOURCES);
    });
}

#[test]
fn what_found_nothing_in_memory_and_is_then_refused_costs_nothing() {
    // The client is gone, and so are its Opens.
    LimitedFile::new(SmbTestServer::cold()).costs(0, |scene| {
        scene.work_read(65_536);
        let jobs = scene.client.take_jobs();
        scene.hang_up();
        jobs();
    });
    let log_off: RequestEnd = LimitedFile::log_off;
    let from_elsewhere: RequestEnd = |scene| drop(scene.come_anew());
    for end in [log_off, from_elsewhere] {
        LimitedFile::new(SmbTestServer::cold()).costs(0, |scene| {
            let id = scene.work_read(65_536);
            end(scene);
            scene.client.run_jobs();
            scene.ends(id, NtStatus::FILE_CLOSED);
        });
    }
}

#[test]
fn what_was_held_costs_what_it_transfers() {
    for world in [SmbTestServer::in_memory(), SmbTestServer::cold()] {
        LimitedFile::new(world).costs(65_536, |scene| {
            let id = scene.hold_read(65_536);
            scene.pass();
            scene.ends(id, NtStatus::SUCCESS);
        });
    }
    LimitedFile::new(SmbTestServer::in_memory()).costs(SIZE, |scene| {
        let id = scene.hold_read(1 << 20);
        scene.pass();
        scene.ends(id, NtStatus::SUCCESS);
    });
    LimitedFile::on(SmbTestServer::in_memory(), false, Access::from_bits_retain(2)).costs(0, |scene| {
        let id = scene.hold_read(65_536);
        scene.pass();
        scene.ends(id, NtStatus::ACCESS_DENIED);
    });
}

#[test]
fn what_was_held_and_then_found_nothing_in_memory_and_is_never_done_costs_nothing() {
    LimitedFile::new(SmbTestServer::cold()).costs(0, |scene| {
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
    LimitedFile::new(SmbTestServer::in_memory()).costs(0, |scene| {
        let id = scene.hold_read(65_536);
        scene.cancel(id);
        scene.ends(id, NtStatus::CANCELLED);
    });
    LimitedFile::new(SmbTestServer::in_memory()).costs(0, |scene| {
        scene.hold_read(65_536);
        scene.hang_up();
    });
    // Its time has come, but it is not resumed.
    LimitedFile::new(SmbTestServer::in_memory()).costs(0, |scene| {
        let id = scene.hold_read(65_536);
        scene.client.holds_events = true;
        scene.pass();
        scene.cancel(id);
        scene.ends(id, NtStatus::CANCELLED);
    });
    LimitedFile::new(SmbTestServer::in_memory()).costs(0, |scene| {
        scene.hold_read(65_536);
        scene.client.holds_events = true;
        scene.pass();
        scene.hang_up();
    });
}

#[test]
fn what_was_held_when_its_session_ended_costs_nothing() {
    let log_off: RequestEnd = LimitedFile::log_off;
    let from_elsewhere: RequestEnd = |scene| drop(scene.come_anew());
    for end in [log_off, from_elsewhere] {
        LimitedFile::new(SmbTestServer::in_memory()).costs(0, |scene| {
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
    LimitedFile::new(SmbTestServer::in_memory()).costs(SIZE, |scene| {
        let id = scene.hold_read(1 << 20);
        scene.world.engine.set_limits(None);
        scene.pass();
        assert_eq!(scene.client.answer(id).expect("an answer").data().len(), SIZE);
    });
}

#[test]
fn a_write_costs_what_was_written_whoever_hears_of_it() {
    LimitedFile::new(SmbTestServer::in_memory()).costs(65_536, |scene| {
        let id = scene.ask_write(65_536);
        scene.ends(id, NtStatus::SUCCESS);
    });
    for (is_taken_back, is_lost) in [(false, false), (true, false), (false, true)] {
        LimitedFile::new(SmbTestServer::in_memory()).costs(65_536, |scene| {
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
