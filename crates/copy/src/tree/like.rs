//! What a copy is made like.

use client::remote::Kind;

use crate::beside::Given;
use crate::tree::facts::lent;

/// What a copy shall be like; what is none is left as it comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Like {
    /// When its data was changed, in nanoseconds since 1970.
    pub(crate) modified: Option<i128>,
    pub(crate) mode: Option<u32>,
    pub(crate) attributes: Option<u32>,
    /// Whether it has got an access list, which the nine permission bits of `mode` would spoil.
    pub(crate) has_list: bool,
}

impl Like {
    /// The permission bits with which something is made that has `usual` ones where it is to have none of its own. What has
    /// is nobody else's until it is whole.
    pub(crate) fn first_mode(&self, usual: u32) -> u32 {
        if self.mode.is_some() { usual & 0o700 } else { usual }
    }

    /// The same for one of `kind` that has been given what the other has beside its data. Without its owner it does not get
    /// the bits that lend the rights of that.
    pub(crate) fn beside(self, given: &Given, kind: Kind) -> Like {
        let lent = if given.owner { 0 } else { lent(kind) };
        Like { mode: self.mode.map(|mode| mode & !lent), has_list: given.list, ..self }
    }
}
