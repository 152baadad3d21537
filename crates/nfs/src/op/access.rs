//! ACCESS (RFC 8881 18.1).

use std::sync::Arc;

use nfs_wire::op::OpNum;
use nfs_wire::op::access::{AccessBits, Args, ResOk};
use share::{Identity, Info, Item};
use volume::NodeKind;
use volume::security::Rights;

use crate::compound::{OpResult, Run, Stop};
use crate::config::Export;

/// Answers which of the requested accesses the user has.
///
/// # Errors
/// NFS4ERR_STALE, or the status of the engine's error.
pub fn run(run: &mut Run, args: &Args) -> OpResult {
    let Some((export, item)) = run.current_item()? else {
        let told = AccessBits::READ | AccessBits::LOOKUP;
        let supported = told | AccessBits::MODIFY | AccessBits::EXTEND | AccessBits::DELETE;
        return run
            .reply(OpNum::Access, ResOk { supported: args.access & supported, access: args.access & told });
    };
    let mut access = granted(run, &export, &item)?;
    if export.read_only {
        access -= AccessBits::MODIFY | AccessBits::EXTEND | AccessBits::DELETE | AccessBits::XAWRITE;
    }
    let supported = supported_for(item.kind(), run.minor) & args.access;
    if !supported.is_empty() && (access & supported).is_empty() {
        run.ask_now(&export, |engine, caller| {
            engine.note_no_access(caller, &item, rights_of(supported));
            Ok(())
        })?;
    }
    run.reply(OpNum::Access, ResOk { supported, access: access & supported })
}

/// The accesses that the user has to an item.
///
/// # Errors
/// The status of the engine's error.
pub fn granted(run: &Run, export: &Arc<Export>, item: &Item) -> Result<AccessBits, Stop> {
    let info = export.engine.item_info(item)?;
    let rights = run.ask_now(export, |engine, caller| engine.item_rights(caller, item))?;
    let runs = run.ask_now(export, |engine, caller| engine.may_execute(caller, item))?;
    Ok(bits_of(rights, &info, &run.identity(export), runs))
}

/// The accesses that the server can report for an object of this kind.
// RFC 8276 8.5
fn supported_for(kind: NodeKind, minor: u32) -> AccessBits {
    let mut all = AccessBits::READ | AccessBits::MODIFY | AccessBits::EXTEND;
    // No other object has extended attributes here (`xattr::subject`). A client that hears that it may list
    // them would ask.
    if minor >= 2 && matches!(kind, NodeKind::File | NodeKind::Directory) {
        all |= AccessBits::XAREAD | AccessBits::XAWRITE | AccessBits::XALIST;
    }
    match kind {
        NodeKind::Directory => all | AccessBits::LOOKUP | AccessBits::DELETE,
        _ => all | AccessBits::EXECUTE,
    }
}

/// The rights that a client asks for.
fn rights_of(asked: AccessBits) -> Rights {
    let mut out = Rights::empty();
    out.set(Rights::READ_DATA, asked.contains(AccessBits::READ));
    out.set(Rights::WRITE_DATA, asked.contains(AccessBits::MODIFY));
    out.set(Rights::APPEND_DATA, asked.contains(AccessBits::EXTEND));
    out.set(Rights::EXECUTE, asked.intersects(AccessBits::EXECUTE | AccessBits::LOOKUP));
    out.set(Rights::DELETE_CHILD, asked.contains(AccessBits::DELETE));
    out
}

fn bits_of(rights: Rights, info: &Info, identity: &Identity, runs: bool) -> AccessBits {
    let mut out = AccessBits::empty();
    out.set(AccessBits::READ, rights.contains(Rights::READ_DATA));
    out.set(AccessBits::MODIFY, rights.contains(Rights::WRITE_DATA));
    out.set(AccessBits::EXTEND, rights.contains(Rights::APPEND_DATA));
    out.set(AccessBits::XAREAD | AccessBits::XALIST, rights.contains(Rights::READ_EA));
    out.set(AccessBits::XAWRITE, rights.contains(Rights::WRITE_EA));
    if info.kind == NodeKind::Directory {
        out.set(AccessBits::LOOKUP, rights.contains(Rights::TRAVERSE));
        let deletes = rights.contains(Rights::DELETE_CHILD) || identity.unbound;
        out.set(AccessBits::DELETE, deletes);
    } else {
        out.set(AccessBits::EXECUTE, rights.contains(Rights::EXECUTE) && runs);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    // RFC 8276 8.5
    #[test]
    fn only_files_and_directories_have_extended_attributes_to_list() {
        let extended = AccessBits::XAREAD | AccessBits::XAWRITE | AccessBits::XALIST;
        for kind in [NodeKind::File, NodeKind::Directory] {
            assert!(supported_for(kind, 2).contains(extended), "{kind:?}");
            assert!(!supported_for(kind, 1).intersects(extended), "{kind:?}");
        }
        for kind in
            [NodeKind::Link, NodeKind::Pipe, NodeKind::Socket, NodeKind::BlockDevice, NodeKind::CharDevice]
        {
            assert!(!supported_for(kind, 2).intersects(extended), "{kind:?}");
        }
    }
}
