//! Application instances. A newer instance on another machine replaces an older one, and the server closes
//! the older one's Open of the same file (MS-SMB2 3.3.5.9.13).

use smb_wire::NtStatus;
use volume::security::Rights;

use super::Create;
use crate::exchange::{Request, Stop};
use crate::path::ParsedPath;

/// Closes the Opens of an earlier instance. Fails if the other instance is not earlier.
// MS-SMB2 3.3.5.9.13
pub(super) fn take_over(create: Create<'_>, request: &Request<'_>, target: &ParsedPath) -> Result<(), Stop> {
    let Some(instance) = create.contexts.instance else { return Ok(()) };
    let (session, server) = (create.session, &create.connection.server);
    server.restore_instance(instance.id)?;
    let forced = Err(Stop::Fail(NtStatus::FILE_FORCED_CLOSED));
    for volatile in server.index.by_application(instance.id) {
        let Some(open) = server.opens.get(volatile).map(|open| open.share()) else { continue };
        let (Some((engine, file)), Some(record)) = (open.file(), open.create_record.get()) else { continue };
        if record.client == session.client
            || !create.tree.leads_to(engine)
            || !target.is_path_of(create.identity, engine, file)
        {
            continue;
        }
        match (record.instance.and_then(|record| record.version), instance.version) {
            (Some(older), Some(newer)) if older >= newer => return forced,
            (Some(_), None) => return forced,
            _ => {}
        }
        let caller = request.caller(create.identity, session.client, None);
        // GENERIC_READ
        if !engine.maximal_for(&caller, file).is_ok_and(|rights| rights.contains(Rights::FOR_READ)) {
            continue;
        }
        let id = open.id.persistent;
        tracing::info!(open = id, "an open was closed: another instance of its application takes its place");
        // MS-SMB2 3.3.4.17
        if let Some(Err(why)) = server.force_close(&open, request.cause()) {
            tracing::warn!(%why, "an open of an earlier instance was closed with an error");
        }
    }
    Ok(())
}
