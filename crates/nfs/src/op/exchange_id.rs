//! EXCHANGE_ID (RFC 8881 18.35).

use nfs_wire::NfsStat;
use nfs_wire::op::OpNum;
use nfs_wire::op::exchange_id::{Args, ExchangeFlags, ResOk, ServerOwner, StateProtectArgs, StateProtectRes};
use nfs_wire::types::Identity;

use crate::compound::{OpResult, Run};
use crate::state::client::ExchangeIdRequest;

/// The flags that a client may send.
const TAKEN: ExchangeFlags = ExchangeFlags::SUPP_MOVED_REFER
    .union(ExchangeFlags::SUPP_MOVED_MIGR)
    .union(ExchangeFlags::SUPP_FENCE_OPS)
    .union(ExchangeFlags::BIND_PRINC_STATEID)
    .union(ExchangeFlags::USE_NON_PNFS)
    .union(ExchangeFlags::USE_PNFS_MDS)
    .union(ExchangeFlags::USE_PNFS_DS)
    .union(ExchangeFlags::UPD_CONFIRMED_REC_A);

/// Finds or creates the record of a client.
///
/// # Errors
/// See [`crate::state::clients::Clients::exchange_id`].
pub fn run(run: &mut Run, args: &Args<'_>) -> OpResult {
    // RFC 7862 4.8: version 4.1 does not have this flag.
    let is_later = run.minor < 2 && args.flags.contains(ExchangeFlags::SUPP_FENCE_OPS);
    if !TAKEN.contains(args.flags) || is_later {
        return Err(NfsStat::Inval.into());
    }
    match args.state_protect {
        StateProtectArgs::None => {}
        // RFC 8881 18.35.3: it needs a machine credential of RPCSEC_GSS.
        StateProtectArgs::MachCred(_) => return Err(NfsStat::Inval.into()),
        StateProtectArgs::Ssv(_) => return Err(NfsStat::EncrAlgUnsupp.into()),
    }
    let introduction = ExchangeIdRequest {
        owner: args.clientowner.ownerid.0,
        verifier: args.clientowner.verifier,
        principal: run.credentials.principal(),
        address: run.connection.peer.remote.ip().to_canonical(),
        update: args.flags.contains(ExchangeFlags::UPD_CONFIRMED_REC_A),
        now: run.now,
    };
    let introduce = || run.server.clients.exchange_id(&introduction, &run.server.grace);
    let (client, gone) = match introduce() {
        // The table is full, but the lease of some clients has expired.
        Err(NfsStat::Delay) if run.server.end_expired(run.now) => introduce(),
        other => other,
    }?;
    for client in gone {
        run.server.end_client(&client, run.now);
    }
    let mut flags = ExchangeFlags::USE_NON_PNFS;
    flags.set(ExchangeFlags::CONFIRMED_R, client.is_confirmed());
    let sequenceid = client.creating.lock().sequence.wrapping_add(1);
    let server = std::sync::Arc::clone(&run.server);
    let name = Identity(&server.config().name);
    run.reply(
        OpNum::ExchangeId,
        ResOk {
            clientid: client.id,
            sequenceid,
            flags,
            state_protect: StateProtectRes::None,
            server_owner: ServerOwner { minor_id: 0, major_id: name },
            server_scope: name,
            server_impl_id: None,
        },
    )
}
