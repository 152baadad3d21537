//! TEST_STATEID (RFC 8881 18.48).

use nfs_wire::NfsStat;
use nfs_wire::op::OpNum;
use nfs_wire::op::stateid::{TestArgs, TestResOk};
use nfs_wire::xdr::List;

use crate::compound::{OpResult, Run};

/// Tests whether stateids are valid.
///
/// # Errors
/// None of its own.
pub fn run(run: &mut Run, args: &TestArgs<'_>) -> OpResult {
    let client = run.session()?.client.id;
    let test = |id| match run.server.state(client, &id) {
        Ok(_) => NfsStat::Ok,
        Err(status) => status,
    };
    let codes: Vec<NfsStat> = args.stateids.iter().map(test).collect();
    run.reply(OpNum::TestStateId, TestResOk { status_codes: List::of(&codes) })
}
