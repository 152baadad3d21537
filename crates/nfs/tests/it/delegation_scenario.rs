//! The set-up of tests about delegations and restarts: a file that its maker has closed, and another client.

use std::time::Duration;

use nfs_wire::NfsStat;
use nfs_wire::op::open::{self, ShareAccess};
use nfs_wire::op::{Args, Res, bind_conn_to_session};
use nfs_wire::types::StateId;
use testkit::nfs::*;

use crate::grace::{BOTH, NONE, READ, anew};

/// A server that records its clients. `client` can be called on `first`; `maker` uses `second`.
pub struct DelegationScenario {
    pub world: NfsTestServer,
    pub first: Wire,
    pub second: Wire,
    pub maker: Client,
    pub client: Client,
    pub handle: Vec<u8>,
}

impl DelegationScenario {
    pub fn new() -> DelegationScenario {
        let world = NfsTestServer::with_stable_storage();
        let (mut first, mut second) = (world.connect(), world.connect());
        let mut maker = Client::new(&mut second, b"maker", 1);
        let (handle, made) = maker.create(&mut second, b"file");
        maker.on(&mut second, &handle, &[closing(made)]).ok();
        let client = Client::new(&mut first, b"client", 1);
        bind_back(&mut first, &client);
        DelegationScenario { world, first, second, maker, client, handle }
    }

    /// The client opens the file by name and gets a READ delegation.
    pub fn with_a_delegation() -> DelegationScenario {
        let mut scene = DelegationScenario::new();
        let mut by_name = anew(READ | ShareAccess::WANT_READ_DELEG, NONE);
        if let Args::Open(args) = &mut by_name {
            args.claim = open::Claim::Null(b"file");
        }
        let given = scene.client.run(&mut scene.first, &[Args::PutRootFh, lookup(EXPORT), by_name]).ok();
        assert!(given_with(&given).1.is_some(), "{given:?}");
        scene
    }

    /// The client opens the file by handle and wants a READ delegation. Returns what
    /// [`given_with`] does.
    pub fn open_wanting(&mut self) -> (StateId, Option<StateId>) {
        let wants = anew(READ | ShareAccess::WANT_READ_DELEG, NONE);
        given_with(&self.client.on(&mut self.first, &self.handle, &[wants]).ok())
    }

    /// The maker opens the file for reading and writing. Returns the status.
    pub fn open_by_maker(&mut self) -> NfsStat {
        self.maker.on(&mut self.second, &self.handle, &[anew(BOTH, NONE)]).status()
    }

    /// The client does not return its delegation for a lease, and the maker opens the file.
    pub fn lose_delegation(&mut self) {
        assert_eq!(self.open_by_maker(), NfsStat::Delay);
        self.world.now = self.world.now.plus(Duration::from_secs(u64::from(LEASE_S) + 1));
        self.world.engine.tick(self.world.now);
        self.second.now = self.world.now;
        assert_eq!(self.open_by_maker(), NfsStat::Ok);
    }

    /// Restarts the server. Both clients resume on new connections.
    pub fn restart(mut self) -> DelegationScenario {
        self.world = self.world.restarted();
        self.resume();
        self
    }

    /// Connects both clients to the present server, with their old client IDs.
    pub fn resume(&mut self) {
        (self.first, self.second) = (self.world.connect(), self.world.connect());
        resume(&mut self.first, &mut self.client);
        bind_back(&mut self.first, &self.client);
        resume(&mut self.second, &mut self.maker);
    }
}

/// The stateids of the open and of the READ delegation that an OPEN gave.
pub fn given_with(answer: &ReceivedCompound) -> (StateId, Option<StateId>) {
    let Res::Open(Ok(open)) = answer.last() else { panic!("{answer:?}") };
    match open.delegation {
        open::Delegation::Read(read) => (open.stateid, Some(read.stateid)),
        _ => (open.stateid, None),
    }
}

/// Lets the server call the client on this connection too.
pub fn bind_back(wire: &mut Wire, client: &Client) {
    let bind = bind_conn_to_session::Args {
        sessid: client.session,
        dir: bind_conn_to_session::FromClient::BackOrBoth,
        use_conn_in_rdma_mode: false,
    };
    wire.call(1, &[Args::BindConnToSession(bind)]).ok();
}

/// Creates a session with the client ID from before a restart.
pub fn resume(wire: &mut Wire, client: &mut Client) {
    let begun = wire.call(1, &[begin_session(client.clientid, 5, CHANNEL)]).ok();
    let Res::CreateSession(Ok(session)) = begun.last() else { panic!("{begun:?}") };
    (client.session, client.sequences) = (session.sessionid, vec![0; 16]);
}
