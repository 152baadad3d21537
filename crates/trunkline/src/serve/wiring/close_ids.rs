//! The ids by which an administrator closes opens and locks, and the closing itself.
//!
//! An id names one open or the locks of one owner for good: no later state of any client has it. SMB closes
//! an open as an administrator closes a file on Windows (MS-SMB2 3.3.4.17). NFS revokes the state (RFC 8881
//! 8.5).

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use admin::open_files::{ClosedState, FileInUse};
use nfs::state::stateid::LockingState;
use smb_wire::FileId;

use super::exports::Servers;
use super::report::shown;

/// The state of a client that an administrator can close.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseId {
    /// An open of SMB.
    Smb(FileId),
    /// An open or the locks of an owner of NFS: the client ID, and the part of the stateid that stays.
    Nfs(u64, [u8; 12]),
}

impl CloseId {
    /// The id of an NFS state.
    pub fn of_state(state: &LockingState) -> CloseId {
        CloseId::Nfs(state.client, state.id().other)
    }
}

impl fmt::Display for CloseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CloseId::Smb(id) => write!(f, "smb-{:x}-{:x}", id.persistent, id.volatile),
            CloseId::Nfs(client, other) => {
                write!(f, "nfs-{client:x}-")?;
                other.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }
    }
}

impl FromStr for CloseId {
    type Err = ();

    fn from_str(text: &str) -> Result<CloseId, ()> {
        let number = |text: &str| u64::from_str_radix(text, 16).map_err(drop);
        let parts: Vec<&str> = text.split('-').collect();
        match parts[..] {
            ["smb", persistent, volatile] => {
                Ok(CloseId::Smb(FileId { persistent: number(persistent)?, volatile: number(volatile)? }))
            }
            ["nfs", client, other] if other.len() == 24 && other.is_ascii() => {
                let other = u128::from_str_radix(other, 16).map_err(drop)?.to_be_bytes();
                let (_, other) = other.split_last_chunk::<12>().ok_or(())?;
                Ok(CloseId::Nfs(number(client)?, *other))
            }
            _ => Err(()),
        }
    }
}

/// Closes the state of this id. None when there is no such state any more.
pub fn close(server: &smb::Server, nfs: &Servers, id: CloseId) -> Option<ClosedState> {
    match id {
        CloseId::Smb(id) => close_smb(server, id),
        CloseId::Nfs(client, other) => {
            let mut servers = nfs.list().iter();
            servers.find_map(|(_, server)| revoke(server, client, &other))
        }
    }
}

fn close_smb(server: &smb::Server, id: FileId) -> Option<ClosedState> {
    let open = server.opens.get(id.volatile).map(|open| open.share())?;
    let (engine, file) = open.file()?;
    let in_use = FileInUse {
        protocol: "smb".to_owned(),
        share: engine.name(),
        path: shown(&engine.path_of(file), file.stream().as_ref()),
        user: file.identity().name.clone(),
    };
    let closed = ClosedState { file: in_use, opens: 1, ..ClosedState::default() };
    server.close_by_administrator(id, net::now()).then_some(closed)
}

fn revoke(server: &Arc<nfs::Server>, client: u64, other: &[u8; 12]) -> Option<ClosedState> {
    let state = server.live_state(client, other)?;
    let holding = state.holding();
    let file = FileInUse {
        protocol: "nfs".to_owned(),
        share: state.export.name.clone(),
        path: shown(&state.export.engine.path_of(&holding.open), None),
        user: holding.open.identity().name.clone(),
    };
    let revoked = server.revoke(client, other, net::now())?;
    let (opens, lock_owners, delegations) = (revoked.opens, revoked.lock_owners, revoked.delegations);
    Some(ClosedState { file, opens, lock_owners, delegations })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_they_were_written() {
        let smb = CloseId::Smb(FileId { persistent: u64::MAX, volatile: 0x1_0000_0003 });
        let nfs = CloseId::Nfs(7, [0xff, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
        assert_eq!(nfs.to_string(), "nfs-7-ff0102030405060708090a0b");
        for id in [smb, nfs] {
            assert_eq!(id.to_string().parse(), Ok(id));
        }
        for bad in ["", "smb-1", "smb-1-2-3", "smb-x-1", "nfs-7-ff", "nfs-7-é102030405060708090a0b"] {
            assert_eq!(bad.parse::<CloseId>(), Err(()), "{bad}");
        }
    }
}
