//! Running one call as another user of the host, so that the host's own rules hold and what is made
//! belongs to them.
//!
//! Linux keeps these credentials for each thread. They are changed only inside [`Acting`], which gives
//! them back when it is dropped and ends the process when it cannot: a thread left as somebody else
//! would act for the wrong person later.

use volume::{Actor, Result};

use crate::errno::failure;
use crate::sys::credentials;

/// What this process is, and whether it may act as others.
#[derive(Debug)]
pub(crate) struct Myself {
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
    is_root: bool,
}

/// As long as it lives, the thread is somebody else for the file system.
pub(crate) struct Acting<'a> {
    myself: &'a Myself,
    /// The guard must be dropped where it was made.
    _not_send: std::marker::PhantomData<*const ()>,
}

impl Myself {
    pub(crate) fn find() -> rustix::io::Result<Myself> {
        let uid = credentials::user();
        Ok(Myself { uid, gid: credentials::group(), groups: credentials::groups()?, is_root: uid == 0 })
    }

    /// Whom the host takes the thread for while it acts as `actor`.
    pub(crate) fn uid_as(&self, actor: Option<&Actor>) -> u32 {
        actor.filter(|_| self.is_root).map_or(self.uid, |actor| actor.uid)
    }

    /// Becomes `actor` until what is returned is dropped. Nothing is changed when there is no actor,
    /// when it is what the process already is, or when the process may not act as others.
    ///
    /// # Errors
    /// [`volume::Failure::Denied`] when the host does not let a root process become this user.
    pub(crate) fn act(&self, actor: Option<&Actor>) -> Result<Option<Acting<'_>>> {
        let Some(actor) = actor else { return Ok(None) };
        if !self.is_root || (actor.uid == self.uid && actor.gid == self.gid) {
            return Ok(None);
        }
        // From here on a failure drops the guard, which gives back whatever was taken.
        let acting = Acting { myself: self, _not_send: std::marker::PhantomData };
        credentials::set_groups(&actor.groups).map_err(failure)?;
        // The group first: without the user's privilege it could not be set any more.
        if !credentials::set_group(actor.gid) || !credentials::set_user(actor.uid) {
            return Err(failure(credentials::REFUSED));
        }
        Ok(Some(acting))
    }
}

impl Drop for Acting<'_> {
    fn drop(&mut self) {
        // The user first: with it comes the privilege to set the rest.
        let is_back = credentials::set_user(self.myself.uid)
            && credentials::set_group(self.myself.gid)
            && credentials::set_groups(&self.myself.groups).is_ok();
        if !is_back {
            tracing::error!("could not give the host credentials of a thread back; ending the process");
            std::process::abort();
        }
    }
}
