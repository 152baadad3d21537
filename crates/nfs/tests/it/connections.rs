//! Many connections of one session, and requests whose connection or thread is lost.

use nfs_wire::NfsStat;
use nfs_wire::op::sequence::StatusFlags;
use nfs_wire::op::{Args, Res, bind_conn_to_session, commit, create_session, destroy, names, open, read};
use nfs_wire::types::SessionId;
use testkit::nfs::*;

const COMMIT: Args<'static> = Args::Commit(commit::Args { offset: 0, count: 0 });

fn bind(sessid: SessionId, dir: bind_conn_to_session::FromClient) -> Args<'static> {
    Args::BindConnToSession(bind_conn_to_session::Args { sessid, dir, use_conn_in_rdma_mode: false })
}

// RFC 8881 2.10.6.1.3
#[test]
fn what_ends_in_a_panic_is_told_to_its_retry_and_not_done_again() {
    let world = NfsTestServer::new();
    let (mut wire, mut other) = (world.connect(), world.connect());
    let mut client = Client::new(&mut wire, b"client", 1);
    let (file, _) = client.create(&mut wire, b"file");
    for cachethis in [false, true] {
        let request = [client.sequence(3, cachethis), put(&file), COMMIT, Args::GetFh];
        wire.begin(1, &request);
        assert_eq!(other.call(1, &request).status(), NfsStat::Delay, "it is being done");
        wire.give_up(true);
        let told = other.call(1, &request);
        assert_eq!((told.status(), told.results().len()), (NfsStat::ServerFault, 3));
        assert_eq!(other.call(1, &request), told, "and the same once more");
        let next = [client.sequence(3, false), put(&file), COMMIT];
        other.call(1, &next).ok();
    }
}

#[test]
fn what_was_never_begun_because_its_connection_was_lost_can_be_asked_for_again() {
    let world = NfsTestServer::new();
    let (mut wire, mut other) = (world.connect(), world.connect());
    let mut client = Client::new(&mut wire, b"client", 1);
    let make = open::OpenHow::Create(open::CreateHow::Guarded(Default::default()));
    let head = [client.sequence(3, false), Args::PutRootFh, lookup(EXPORT), opening(make, b"file")];
    let request = [&head[..], &[COMMIT]].concat();
    wire.begin(1, &request);
    wire.give_up(false);
    wire.lose();
    let told = other.call(1, &request);
    assert_eq!(told.status(), NfsStat::Delay);
    let results = told.results();
    assert!(
        matches!(results[3], Res::Open(Ok(_))) && results.len() == 5,
        "what was done is told: {results:?}"
    );
}

// RFC 8881 2.10.6.1.3, 18.46.3: Linux sends its present slots when it repeats a request
#[test]
fn a_retry_may_name_another_highest_slot_and_is_a_retry_nevertheless() {
    let world = NfsTestServer::new();
    let (mut wire, mut other) = (world.connect(), world.connect());
    let mut client = Client::new(&mut wire, b"client", 1);
    let Args::Sequence(first) = client.sequence(3, true) else { unreachable!() };
    let make = open::OpenHow::Create(open::CreateHow::Guarded(Default::default()));
    let rest = [Args::PutRootFh, lookup(EXPORT), opening(make, b"once")];
    let answer = wire.call(1, &[&[Args::Sequence(first)][..], &rest].concat()).ok();
    let later = nfs_wire::op::sequence::Args { highest_slotid: 9, ..first };
    assert_eq!(other.call(1, &[&[Args::Sequence(later)][..], &rest].concat()), answer);
}

// RFC 8881 18.37.3
#[test]
fn a_session_ends_when_the_requests_of_others_have() {
    let world = NfsTestServer::new();
    let (mut wire, mut other) = (world.connect(), world.connect());
    let mut client = Client::new(&mut wire, b"client", 1);
    let (file, _) = client.create(&mut wire, b"file");
    wire.begin(1, &[client.sequence(5, false), put(&file), COMMIT]);
    let end = Args::DestroySession(destroy::SessionArgs { sessionid: client.session });
    assert_eq!(other.call(1, &[end]).status(), NfsStat::Delay);
    assert_eq!(
        other.call(1, &[client.sequence(6, false), end]).status(),
        NfsStat::Delay,
        "its own does not count"
    );
    assert_eq!(wire.work().len(), 1, "the request is answered");
    other.call(1, &[end]).ok();
    assert_eq!(wire.call(1, &[client.sequence(5, false)]).status(), NfsStat::BadSession);
}

// RFC 8881 18.34.3
#[test]
fn binding_stands_alone_and_names_a_session_that_is_there() {
    use bind_conn_to_session::{FromClient, FromServer};
    let world = NfsTestServer::new();
    let (mut wire, mut other) = (world.connect(), world.connect());
    let mut client = Client::new(&mut wire, b"client", 1);
    let asked = bind(client.session, FromClient::Back);
    assert_eq!(other.call(1, &[client.sequence(0, false), asked]).status(), NfsStat::NotOnlyOp);
    assert_eq!(other.call(1, &[asked, Args::PutRootFh]).status(), NfsStat::NotOnlyOp);
    assert_eq!(other.call(1, &[bind([9; 16], FromClient::Back)]).status(), NfsStat::BadSession);
    let wanted = [
        (FromClient::Fore, FromServer::Fore),
        (FromClient::Back, FromServer::Back),
        (FromClient::ForeOrBoth, FromServer::Both),
        (FromClient::BackOrBoth, FromServer::Both),
    ];
    for (dir, got) in wanted {
        let answer = world.connect().call(1, &[bind(client.session, dir)]).ok();
        let Res::BindConnToSession(Ok(bound)) = answer.last() else { panic!("{answer:?}") };
        assert_eq!((bound.dir, bound.sessid), (got, client.session));
    }
    let strange = bind(client.session, FromClient::Unknown(5));
    assert_ne!(other.call(1, &[strange]).status(), NfsStat::Ok);
}

// RFC 8881 2.10.3.1, 18.46.3
#[test]
fn a_connection_that_is_bound_by_its_first_request_carries_no_callbacks() {
    let world = NfsTestServer::new();
    let (mut wire, mut other) = (world.connect(), world.connect());
    let mut client = Client::new(&mut wire, b"client", 1);
    let flags = |answer: ReceivedCompound| match answer.results()[0] {
        Res::Sequence(Ok(sequence)) => sequence.status_flags,
        other => panic!("{other:?}"),
    };
    let down = StatusFlags::CB_PATH_DOWN_SESSION | StatusFlags::CB_PATH_DOWN;
    assert_eq!(flags(other.call(1, &[client.sequence(0, false)]).ok()), down);
    wire.call(1, &[bind(client.session, bind_conn_to_session::FromClient::BackOrBoth)]).ok();
    assert_eq!(flags(other.call(1, &[client.sequence(0, false)]).ok()), StatusFlags::empty());
    wire.lose();
    assert_eq!(
        flags(other.call(1, &[client.sequence(0, false)]).ok()),
        down,
        "the back channel is lost with it"
    );
}

#[test]
fn sixteen_connections_and_every_slot_of_a_session_are_used_at_once() {
    let world = NfsTestServer::new();
    let mut wires: Vec<_> = (0..16).map(|_| world.connect()).collect();
    let mut client = Client::new(&mut wires[0], b"client", 1);
    let (file, stateid) = client.create(&mut wires[0], b"file");
    let slots = client.sequences.len();
    // All of them wait for the device at the same time.
    let requests: Vec<_> = (0..slots as u32)
        .map(|slot| {
            let data = if slot % 2 == 0 { b"even----" } else { b"odd-----" };
            [client.sequence(slot, true), put(&file), writing(stateid, u64::from(slot) * 8, data), COMMIT]
        })
        .collect();
    for (at, request) in requests.iter().enumerate() {
        wires[at % 16].begin(1, request);
    }
    let session = world.server.session(&client.session).expect("the session");
    assert_eq!(session.busy_slots(), slots);
    assert_eq!(session.connections().len(), 16);
    let answers: usize = wires.iter_mut().map(|wire| wire.work().len()).sum();
    assert_eq!((answers, session.busy_slots()), (slots, 0));
    // Every retry is on the connection after the request's. It gets the stored reply and writes nothing.
    let empty = writing(stateid, 0, &[0; 8 * 16]);
    client.on(&mut wires[3], &file, &[empty]).ok();
    for (at, request) in requests.iter().enumerate().skip(1) {
        wires[(at + 1) % 16].call(1, request).ok();
    }
    let answer = client.on(&mut wires[5], &file, &[reading(stateid, 0, 128)]).ok();
    assert_eq!(answer.last(), Res::Read(Ok(read::ResOk { eof: slots == 16, data: &[0; 128] })));
}

#[test]
fn connections_of_one_client_are_told_to_be_spread() {
    let world = NfsTestServer::new();
    let (mut first, mut second, mut other) = (world.connect(), world.connect(), world.connect());
    let mut client = Client::new(&mut first, b"client", 1);
    second.call(1, &[client.sequence(0, false)]).ok();
    Client::new(&mut other, b"somebody else", 1);
    assert!(first.placement().is_some() && first.placement() == second.placement());
    assert_ne!(first.placement(), other.placement());
}

#[test]
fn one_connection_more_than_a_client_may_have_takes_the_place_of_the_most_silent() {
    let mut world = NfsTestServer::new();
    let mut wires: Vec<_> = (0..CONNECTIONS).map(|_| world.connect()).collect();
    let mut client = Client::new(&mut wires[0], b"client", 1);
    for wire in &mut wires {
        wire.call(1, &[client.sequence(0, false)]).ok();
    }
    world.pass(5);
    // All connections but one send something again.
    for (at, wire) in wires.iter_mut().enumerate().filter(|(at, _)| *at != 7) {
        wire.now = world.now.plus(std::time::Duration::from_millis(at as u64));
        wire.call(1, &[client.sequence(0, false)]).ok();
    }
    let mut more = world.connect();
    more.now = world.now;
    more.call(1, &[client.sequence(0, false)]).ok();
    wires.iter_mut().for_each(Wire::collect);
    let closed: Vec<_> = (0..CONNECTIONS).filter(|at| wires[*at].is_closed()).collect();
    assert_eq!(closed, [7]);
    let known = world.server.clients.get(client.clientid).expect("the client");
    assert_eq!((known.connections().len(), known.crowded_out()), (CONNECTIONS, 1));
    // Connections of another client do not count.
    let mut other = world.connect();
    Client::new(&mut other, b"somebody else", 1);
    assert_eq!(known.crowded_out(), 1);
}

// RFC 8881 18.36.4
#[test]
fn slots_are_granted_as_long_as_there_is_memory_for_their_replies() {
    let world = NfsTestServer::with_memory(200_000);
    let mut wire = world.connect();
    let mut granted = Vec::new();
    let refused = loop {
        let name = format!("client {}", granted.len());
        let introduced = wire.call(1, &[introduce(name.as_bytes())]).ok();
        let Res::ExchangeId(Ok(known)) = introduced.last() else { panic!("{introduced:?}") };
        let asked = create_session::ChannelAttrs { maxrequests: 64, ..CHANNEL };
        let begun = wire.call(1, &[begin_session(known.clientid, known.sequenceid, asked)]);
        match begun.last() {
            Res::CreateSession(Ok(session)) => granted.push(session.fore_chan_attrs.maxrequests),
            _ => break begun.status(),
        }
        assert!(granted.len() < 100, "it ends");
    };
    assert_eq!(refused, NfsStat::NoSpc);
    assert!(granted[0] < 64 && granted.is_sorted_by(|one, next| one >= next), "{granted:?}");
    assert!(granted.iter().sum::<u32>() <= 200_000 / 4096);
}

#[test]
fn what_a_client_has_come_to_is_known() {
    let world = NfsTestServer::new();
    let mut wire = world.connect();
    let mut client = Client::new(&mut wire, b"client", 1);
    let known = world.server.clients.get(client.clientid).expect("the client");
    assert_eq!(known.used_exports(), [0; 0]);
    let remove = Args::Remove(names::RemoveArgs { target: b"nothing" });
    assert_eq!(client.run(&mut wire, &[Args::PutRootFh, lookup(EXPORT), remove]).status(), NfsStat::NoEnt);
    assert_eq!(known.used_exports(), [1]);
}
