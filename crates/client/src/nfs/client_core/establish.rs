//! Creates the client ID and the session, creates them again when the server has lost them, and destroys them
//! (RFC 8881 2.4 and 2.10). Opens under a lost client ID are reclaimed under the next one (`reclaim`).

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, PoisonError};

use nfs_wire::NfsStat;
use nfs_wire::compound::CallWriter;
use nfs_wire::op::backchannel_ctl::SecParms;
use nfs_wire::op::create_session::{self, ChannelAttrs, SessionFlags};
use nfs_wire::op::destroy::{ClientIdArgs, SessionArgs};
use nfs_wire::op::exchange_id::{self, ClientOwner, ExchangeFlags, StateProtectArgs};
use nfs_wire::op::{Args, OpNum};
use nfs_wire::rpc::AuthSys;
use nfs_wire::types::Identity;
use nfs_wire::xdr::List;

use super::{ClientCore, ServerIdentity};
use crate::Error;
use crate::error::Result;
use crate::nfs::callback::{BACK_SLOTS, CB_PROGRAM};
use crate::nfs::compound_reply::{CompoundReply, result_of};
use crate::nfs::link::Operations;
use crate::nfs::session::{ClientIdState, Loss, NfsSession};
use crate::nfs::slots::Slots;
use crate::retry::Backoff;

/// The most bytes of the headers around the data of a READ or WRITE.
const HEADERS: u32 = 4096;
/// The longest reply to keep in the reply cache. It suffices for changes, whose replies carry no data.
const CACHED: u32 = 2048;
/// The most times that a server may lose a client ID or session while it is created.
const ATTEMPTS: usize = 4;
/// The operations of a COMPOUND to ask for.
pub(crate) const OPERATIONS: u32 = 32;

impl ClientCore {
    /// Sends one operation outside of any session, over one connection after the other. It may be carried out
    /// twice.
    async fn bare(&self, operation: &Args<'_>) -> Result<CompoundReply> {
        let push = |writer: &mut CallWriter| {
            writer.push(operation);
        };
        let operations = Operations { step: operation.number().name(), ..Operations::of(&push) };
        let mut patience = Backoff::new(self.options.patience);
        loop {
            let (_, message) = self.deliver(operations).await?;
            let answer = CompoundReply::read(message)?;
            match (answer.status == NfsStat::Delay).then(|| patience.next()).flatten() {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return Ok(answer),
            }
        }
    }

    /// Creates a session of the client ID `known`, or of a new one if there is none or the server has lost
    /// it. All opens are reclaimed in it.
    pub(crate) async fn establish(&self, known: &mut Option<ClientIdState>) -> Result<Arc<NfsSession>> {
        for _ in 0..ATTEMPTS {
            let client = match *known {
                Some(client) => client,
                None => *known.insert(self.exchange_id().await?),
            };
            let session = match self.create_session(client).await {
                Ok(session) => Arc::new(session),
                Err(Error::Refused { status: NfsStat::StaleClientId | NfsStat::SeqMisordered, .. }) => {
                    *known = None;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let known = known.insert(ClientIdState { sequence: client.sequence.wrapping_add(1), ..client });
            if !client.has_reclaimed {
                match self.reclaim(&session).await {
                    Ok(()) => known.has_reclaimed = true,
                    // The server has restarted once more.
                    Err(Error::Refused { operation: OpNum::Sequence, status }) if is_gone(status) => continue,
                    Err(error) => {
                        // Otherwise each further request would create another session.
                        if !error.is_loss() {
                            let args = Args::DestroySession(SessionArgs { sessionid: session.id });
                            let _gone = self.bare(&args).await;
                        }
                        match error {
                            Error::Refused { operation: OpNum::Sequence, .. } => continue,
                            error => return Err(error),
                        }
                    }
                }
            }
            return Ok(session);
        }
        Err(Error::Protocol("a client ID that is stale as soon as it is made"))
    }

    // RFC 8881 18.35
    async fn exchange_id(&self) -> Result<ClientIdState> {
        let args = exchange_id::Args {
            clientowner: ClientOwner { verifier: self.verifier, ownerid: Identity(&self.owner) },
            flags: ExchangeFlags::empty(),
            state_protect: StateProtectArgs::None,
            client_impl_id: None,
        };
        let answer = self.bare(&Args::ExchangeId(args)).await?;
        let client: exchange_id::ResOk<'_> = result_of!(answer.results(), ExchangeId)?;
        let about = ServerIdentity {
            owner: client.server_owner.major_id.0.to_vec(),
            minor_owner: client.server_owner.minor_id,
            scope: client.server_scope.0.to_vec(),
            software: client.server_impl_id.map(|it| String::from_utf8_lossy(it.name).into_owned()),
        };
        let scope = about.scope.clone();
        let before =
            std::mem::replace(&mut *self.about.lock().unwrap_or_else(PoisonError::into_inner), about);
        // A confirmed client ID is one that the server knows with all its state.
        if !client.flags.contains(ExchangeFlags::CONFIRMED_R) {
            self.begin_instance();
        }
        // RFC 8881 2.10.4: in another scope the filehandles may belong to other files.
        if before.scope != scope {
            self.opens.unclaimed().iter().for_each(|open| open.lose(NfsStat::Stale));
        }
        Ok(ClientIdState { client_id: client.clientid, sequence: client.sequenceid, has_reclaimed: false })
    }

    // RFC 8881 18.36
    async fn create_session(&self, client: ClientIdState) -> Result<NfsSession> {
        let io = self.options.max_io.saturating_add(HEADERS);
        let fore = ChannelAttrs {
            headerpadsize: 0,
            maxrequestsize: io,
            maxresponsesize: io,
            maxresponsesize_cached: CACHED,
            maxoperations: OPERATIONS,
            maxrequests: self.options.slots.max(1),
            rdma_ird: None,
        };
        let back = ChannelAttrs {
            maxrequestsize: HEADERS,
            maxresponsesize: HEADERS,
            maxoperations: 8,
            maxrequests: BACK_SLOTS,
            ..fore
        };
        let wants_back_channel = self.options.delegations;
        let sys = [SecParms::Sys(AuthSys::new(&self.caller.machine_name, 0, 0, &[]))];
        let flags = if wants_back_channel { SessionFlags::CONN_BACK_CHAN } else { SessionFlags::empty() };
        let args = create_session::Args {
            clientid: client.client_id,
            sequence: client.sequence,
            flags,
            fore_chan_attrs: fore,
            back_chan_attrs: back,
            cb_program: CB_PROGRAM,
            sec_parms: List::of(&sys),
        };
        let answer = self.bare(&Args::CreateSession(args)).await?;
        let made: create_session::ResOk = result_of!(answer.results(), CreateSession)?;
        let room = |size: u32| size.min(io).saturating_sub(HEADERS).max(512);
        let granted = made.fore_chan_attrs;
        Ok(NfsSession {
            id: made.sessionid,
            client_id: client.client_id,
            instance: self.opens.instance(),
            is_reclaimed: AtomicBool::new(false),
            slots: Slots::new(granted.maxrequests.min(fore.maxrequests)),
            has_back_channel: made.flags.contains(SessionFlags::CONN_BACK_CHAN),
            room: (room(granted.maxrequestsize), room(granted.maxresponsesize)),
            operations: granted.maxoperations.min(OPERATIONS) as usize,
        })
    }

    /// Replaces the session `lost`, unless another task has done so.
    pub(crate) async fn recover(&self, lost: &Arc<NfsSession>, why: Loss) -> Result<()> {
        let mut known = self.known.lock().await;
        if !Arc::ptr_eq(&self.session()?, lost) {
            return Ok(());
        }
        if let (Loss::State, Some(known)) = (why, known.as_mut()) {
            self.begin_instance();
            known.has_reclaimed = false;
        }
        match why {
            Loss::Session(NfsStat::StaleClientId) => *known = None,
            Loss::Session(status) if is_gone(status) => {}
            Loss::Session(_) | Loss::State => {
                // The server still has it. It may also be gone by now, or cannot be reached over this
                // connection.
                let args = Args::DestroySession(SessionArgs { sessionid: lost.id });
                let _gone = self.bare(&args).await?;
            }
        }
        let session = self.establish(&mut known).await?;
        if let Some(responder) = &self.responder {
            responder.begin_session();
        }
        self.set_session(Some(session));
        lost.slots.close();
        Ok(())
    }

    /// Destroys the session and the client ID on the server. It is no error if the server no longer has them.
    pub(crate) async fn destroy(&self) -> Result<()> {
        let Ok(session) = self.session() else { return Ok(()) };
        self.set_session(None);
        let destroyed = self.destroy_session(&session).await;
        session.slots.close();
        match destroyed {
            // Gone already, or destroyed by this request when its first reply was lost.
            Err(Error::Refused { status: NfsStat::BadSession | NfsStat::DeadSession, .. }) => {}
            done => done?,
        }
        // RFC 8881 18.50
        let args = Args::DestroyClientId(ClientIdArgs { clientid: session.client_id });
        let answer = self.bare(&args).await?;
        match result_of!(answer.results(), DestroyClientId) {
            Err(Error::Refused { status: NfsStat::StaleClientId, .. }) => Ok(()),
            done => done,
        }
    }

    /// Destroys a session with a SEQUENCE in front, because the connection may not be bound yet (RFC 8881
    /// 18.37.3).
    async fn destroy_session(&self, session: &Arc<NfsSession>) -> Result<()> {
        let args = Args::DestroySession(SessionArgs { sessionid: session.id });
        let answer = self.ask_in(session, &[args]).await?;
        result_of!(answer.results(), DestroySession)
    }
}

/// Whether this status of a session means that the server no longer has it.
fn is_gone(status: NfsStat) -> bool {
    matches!(status, NfsStat::BadSession | NfsStat::DeadSession | NfsStat::StaleClientId)
}
