//! Runs one call as another user of the host. The host's own rules then apply, and new files belong to
//! that user.
//!
//! Linux keeps these credentials for each thread. They are changed only inside [`ActingThread`], which
//! restores them when it is dropped. If it cannot, it ends the process: a thread with the credentials of
//! another user would act for the wrong user later.

use volume::{Actor, Result};

use crate::errno::failure;
use crate::sys::credentials;

/// The credentials of this process, and whether it may act as other users.
#[derive(Debug)]
pub(crate) struct ProcessIdentity {
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
    is_root: bool,
}

/// While it exists, the thread acts as another user for the file system.
pub(crate) struct ActingThread<'a> {
    process: &'a ProcessIdentity,
    /// The guard must be dropped on the thread that created it.
    _not_send: std::marker::PhantomData<*const ()>,
}

impl ProcessIdentity {
    pub(crate) fn find() -> rustix::io::Result<ProcessIdentity> {
        let uid = credentials::user();
        Ok(ProcessIdentity {
            uid,
            gid: credentials::group(),
            groups: credentials::groups()?,
            is_root: uid == 0,
        })
    }

    /// The user that the host sees in the thread while it acts as `actor`.
    pub(crate) fn uid_as(&self, actor: Option<&Actor>) -> u32 {
        actor.filter(|_| self.is_root).map_or(self.uid, |actor| actor.uid)
    }

    /// Acts as `actor` until the result is dropped. Nothing is changed without an actor, when the process
    /// is that user already, or when the process may not act as others.
    ///
    /// # Errors
    /// [`volume::Failure::Denied`] when the host does not let a root process become this user.
    pub(crate) fn act(&self, actor: Option<&Actor>) -> Result<Option<ActingThread<'_>>> {
        let Some(actor) = actor else { return Ok(None) };
        if !self.is_root || (actor.uid == self.uid && actor.gid == self.gid) {
            return Ok(None);
        }
        // After this point a failure drops the guard, which restores everything that was changed.
        let acting = ActingThread { process: self, _not_send: std::marker::PhantomData };
        credentials::set_groups(&actor.groups).map_err(failure)?;
        // The group is set first: without the user's privilege it could not be set any more.
        if !credentials::set_group(actor.gid) || !credentials::set_user(actor.uid) {
            return Err(failure(credentials::REFUSED));
        }
        Ok(Some(acting))
    }
}

impl Drop for ActingThread<'_> {
    fn drop(&mut self) {
        // The user is restored first, because the privilege to restore the rest comes with it.
        let is_back = credentials::set_user(self.process.uid)
            && credentials::set_group(self.process.gid)
            && credentials::set_groups(&self.process.groups).is_ok();
        if !is_back {
            tracing::error!("could not give the host credentials of a thread back; ending the process");
            std::process::abort();
        }
    }
}
