//! One client over two connections at once: its changes to the states of one file happen one after the other.

use std::sync::Barrier;

use nfs_wire::NfsStat;
use nfs_wire::op::{Args, Res, bind_conn_to_session, delegation, open};
use nfs_wire::types::{Identity, StateId, StateOwner};
use testkit::nfs::*;

/// Number of attempts for each pair of requests.
const ROUNDS: usize = 300;

/// A connection of the client in a thread of its own, with a slot of its own.
struct RacingClient<'a> {
    wire: Wire,
    client: Client,
    slot: u32,
    start: &'a Barrier,
}

impl RacingClient<'_> {
    /// Sends the operations at the same time as the other side.
    fn run(&mut self, operations: &[Args<'_>]) -> ReceivedCompound {
        let all = [&[self.client.sequence(self.slot, false)][..], operations].concat();
        self.start.wait();
        self.wire.call(1, &all)
    }

    /// Opens the file and returns its stateid.
    fn open(&mut self) -> StateId {
        let open = opening(open::OpenHow::NoCreate, b"file");
        opened(&self.run(&[Args::PutRootFh, lookup(EXPORT), open]).ok()).0
    }
}

/// The open and the delegation in the reply to OPEN.
fn opened(answer: &ReceivedCompound) -> (StateId, Option<StateId>) {
    let Res::Open(Ok(opened)) = answer.last() else { panic!("{answer:?}") };
    let given = match opened.delegation {
        open::Delegation::Read(read) => Some(read.stateid),
        _ => None,
    };
    (opened.stateid, given)
}

/// The action of a thread with the filehandle and the open that was prepared.
type PairedAction<'a, T> = &'a (dyn Fn(&mut RacingClient<'_>, &[u8], Option<StateId>) -> T + Sync);

/// Runs two threads with connections of one client in every round, after the preparation. `judge` gets the
/// result of each thread in each round. Nothing is open in the end.
fn both<T: Send>(
    prepare: impl Fn(&mut Client, &mut Wire, &[u8]) -> Option<StateId>,
    acts: [PairedAction<'_, T>; 2],
    judge: impl Fn(&mut Client, &mut Wire, &[u8], [T; 2]),
) {
    let world = NfsTestServer::new();
    let mut wire = world.connect();
    let mut client = Client::new(&mut wire, b"client", 1);
    let bind = bind_conn_to_session::Args {
        sessid: client.session,
        dir: bind_conn_to_session::FromClient::BackOrBoth,
        use_conn_in_rdma_mode: false,
    };
    wire.call(1, &[Args::BindConnToSession(bind)]).ok();
    let (handle, open) = client.create(&mut wire, b"file");
    client.on(&mut wire, &handle, &[closing(open)]).ok();
    let start = Barrier::new(2);
    let mut sides = [1, 2].map(|slot| {
        let client = Client { sequences: client.sequences.clone(), ..client };
        RacingClient { wire: world.connect(), client, slot, start: &start }
    });
    for _ in 0..ROUNDS {
        let before = prepare(&mut client, &mut wire, &handle);
        let came = std::thread::scope(|scope| {
            let [one, two] = &mut sides;
            let handle = &handle;
            let other = scope.spawn(move || acts[1](two, handle, before));
            let first = acts[0](one, handle, before);
            [first, other.join().expect("the other side")]
        });
        judge(&mut client, &mut wire, &handle, came);
        assert_eq!(world.engine.open_count(), 0, "what is left open");
    }
}

fn open_before(client: &mut Client, wire: &mut Wire, _: &[u8]) -> Option<StateId> {
    let open = opening(open::OpenHow::NoCreate, b"file");
    let answer = client.run(wire, &[Args::PutRootFh, lookup(EXPORT), open]).ok();
    Some(opened(&answer).0)
}

// RFC 8881 18.16.3
#[test]
fn two_opens_of_one_owner_and_file_are_one_open() {
    let open = |side: &mut RacingClient<'_>, _: &[u8], _: Option<StateId>| side.open();
    both(
        |_, _, _| None,
        [&open, &open],
        |client, wire, handle, [one, two]| {
            assert_eq!(one.other, two.other);
            assert_eq!(one.seqid + two.seqid, 3);
            let last = if one.seqid > two.seqid { one } else { two };
            client.on(wire, handle, &[closing(last)]).ok();
        },
    );
}

// RFC 8881 9.10
#[test]
fn an_open_that_meets_a_close_is_open_afterwards() {
    let open = |side: &mut RacingClient<'_>, _: &[u8], _: Option<StateId>| (side.open(), NfsStat::Ok);
    let close = |side: &mut RacingClient<'_>, handle: &[u8], before: Option<StateId>| {
        let before = before.expect("it is open");
        (before, side.run(&[put(handle), closing(before)]).status())
    };
    both(open_before, [&open, &close], |client, wire, handle, [(new, _), (before, closed)]| {
        let wanted = if new.other == before.other { NfsStat::OldStateId } else { NfsStat::Ok };
        assert_eq!(closed, wanted);
        client.on(wire, handle, &[writing(new, 0, b"x"), closing(new)]).ok();
    });
}

#[test]
fn of_two_closes_one_closes() {
    let close = |side: &mut RacingClient<'_>, handle: &[u8], before: Option<StateId>| {
        side.run(&[put(handle), closing(before.expect("it is open"))]).status()
    };
    both(open_before, [&close, &close], |_, _, _, came| {
        let mut came = came.map(|status| status == NfsStat::Ok);
        came.sort_unstable();
        assert_eq!(came, [false, true]);
    });
}

// RFC 8881 10.4
#[test]
fn two_opens_get_one_delegation_which_is_the_one_that_is_recalled() {
    let delegated = |side: &mut RacingClient<'_>, _: &[u8], _: Option<StateId>| {
        let owner = if side.slot == 1 { &b"one"[..] } else { b"two" };
        let Args::Open(asked) = opening(open::OpenHow::NoCreate, b"file") else { unreachable!() };
        let owner = StateOwner { clientid: 0, owner: Identity(owner) };
        let share_access = open::ShareAccess::READ | open::ShareAccess::WANT_READ_DELEG;
        let open = Args::Open(open::Args { share_access, owner, ..asked });
        opened(&side.run(&[Args::PutRootFh, lookup(EXPORT), open]).ok())
    };
    both(
        |_, _, _| None,
        [&delegated, &delegated],
        |client, wire, handle, [(one, given), (two, also)]| {
            let given: Vec<_> = given.into_iter().chain(also).collect();
            let [given] = given[..] else { panic!("{given:?}") };
            let back = Args::DelegReturn(delegation::ReturnArgs { deleg_stateid: given });
            client.on(wire, handle, &[back, closing(one)]).ok();
            client.on(wire, handle, &[closing(two)]).ok();
        },
    );
}
