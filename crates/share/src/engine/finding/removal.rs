//! What keeps a name from being removed, asked before it is marked to go: when the last open is closed it is too late to tell.

use std::ops::ControlFlow;
use std::sync::Arc;

use volume::Name;

use crate::engine::Share;
use crate::engine::parts::names::directory::Directory;
use crate::{Caller, Open, Refusal};

impl Share {
    /// Refuses what the host would refuse when the last open is closed: then it is too late to tell. The host is asked where
    /// the directory's permission bits leave a doubt.
    pub(crate) fn check_removal(
        &self,
        caller: &Caller<'_>,
        (parent, name): &(Arc<Directory>, Name),
    ) -> Result<(), Refusal> {
        // chattr(1): not even root removes a name from such a directory.
        if self.directory_security(parent)?.is_fixed {
            return Err(Refusal::AccessDenied);
        }
        let who = caller.identity;
        // They act with the server's own privilege, which no directory binds.
        if who.unbound || who.administrator {
            return Ok(());
        }
        let actor = who.actor.as_ref();
        if let Some(actor) = actor
            && self.directory_security(parent)?.lets_remove(actor)
        {
            return Ok(());
        }
        Ok(parent.node.check_removal(name, actor)?)
    }
}

/// Refuses for a directory that holds something.
pub(crate) fn check_empty(open: &Open) -> Result<(), Refusal> {
    let mut is_empty = true;
    open.node.entries(0, &mut |_| {
        is_empty = false;
        ControlFlow::Break(())
    })?;
    if is_empty { Ok(()) } else { Err(Refusal::NotEmpty) }
}
