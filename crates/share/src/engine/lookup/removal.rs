//! The reasons that keep a name from being removed. They are checked before the name is marked for deletion:
//! when the last open is closed it is too late to tell the client.

use std::ops::ControlFlow;
use std::sync::Arc;

use volume::Name;

use crate::engine::Share;
use crate::engine::parts::names::directory::Directory;
use crate::{Caller, Open, Refusal};

impl Share {
    /// Refuses a removal that the host would refuse when the last open is closed. The host is asked if the
    /// permission bits of the directory leave a doubt.
    pub(crate) fn check_removal(
        &self,
        caller: &Caller<'_>,
        (parent, name): &(Arc<Directory>, Name),
    ) -> Result<(), Refusal> {
        // Like the root of a share.
        if self.is_home(caller.identity, parent, name) {
            return Err(Refusal::CannotDelete);
        }
        self.check_not_recycle_name(parent, name)?;
        // chattr(1): not even root removes a name from such a directory.
        if self.directory_security(parent)?.is_fixed {
            return Err(Refusal::AccessDenied);
        }
        let who = caller.identity;
        // They act with the server's own privilege, which no directory restricts.
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

/// Refuses a directory that is not empty.
pub(crate) fn check_empty(open: &Open) -> Result<(), Refusal> {
    let mut is_empty = true;
    open.node.entries(0, &mut |_| {
        is_empty = false;
        ControlFlow::Break(())
    })?;
    if is_empty { Ok(()) } else { Err(Refusal::NotEmpty) }
}
