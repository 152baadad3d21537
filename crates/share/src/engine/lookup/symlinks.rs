//! The symbolic links that may be created. Programs of the host follow them, so they are restricted.

use std::sync::Arc;

use volume::{Name, NodeKind};

use crate::engine::Share;
use crate::engine::lookup::walk::below;
use crate::engine::parts::names::directory::Directory;
use crate::engine::values::config::Symlinks;
use crate::{Identity, Open, Refusal};

impl Share {
    /// Refuses a link with this text in a directory.
    ///
    /// # Errors
    /// [`Refusal::AccessDenied`].
    pub(crate) fn check_link(
        &self,
        identity: &Identity,
        parent: &Arc<Directory>,
        text: &[u8],
    ) -> Result<(), Refusal> {
        let may = match self.settings().symlinks {
            Symlinks::All => true,
            Symlinks::Inside => self.stays_inside(identity, parent, text),
            Symlinks::None => false,
        };
        if may { Ok(()) } else { Err(Refusal::AccessDenied) }
    }

    /// Refuses to give an existing link a name in another directory from which its text would leave the
    /// share.
    ///
    /// # Errors
    /// [`Refusal::AccessDenied`]; the volume's error.
    pub(crate) fn check_link_moves(
        &self,
        identity: &Identity,
        open: &Open,
        to: &Arc<Directory>,
    ) -> Result<(), Refusal> {
        if open.file.kind != NodeKind::Link || self.settings().symlinks != Symlinks::Inside {
            return Ok(());
        }
        self.check_link(identity, to, &open.node.link_text()?)
    }

    /// Whether a link's text stays in the share, and in the user's home, whatever the names in it lead to.
    /// Each name leads into the share itself, so only a text that climbs at its beginning can leave it.
    fn stays_inside(&self, identity: &Identity, parent: &Arc<Directory>, text: &[u8]) -> bool {
        let is_absolute = text.first() == Some(&b'/');
        let home = identity.home.as_ref();
        let (below, depth) = match is_absolute {
            true => {
                let inside = self.settings().inside(text);
                (inside.and_then(|inside| home.map_or(Some(inside), |home| below(inside, home))), 0)
            }
            false => (Some(text), parent.ancestors().len().saturating_sub(usize::from(home.is_some()))),
        };
        let Some(below) = below else { return false };
        let parts = below.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".");
        let mut parts = parts.peekable();
        let mut climbs = 0;
        while parts.next_if(|part| *part == b"..").is_some() {
            climbs += 1;
        }
        climbs <= depth && parts.all(|part| part != b".." && Name::new(part).is_ok())
    }
}
