//! Moves a removed file into the recycle folder of its share. `recycle_folders` has the folders, and
//! `recycle_purge` removes the files for good when their time is over or their room is needed.
//!
//! The move is one rename inside the volume, to a name that was free. So a crash leaves the file at its old
//! name or in the recycle folder. If the move is impossible, the file is removed for good: a removal never
//! fails because of the recycle folder.

use std::sync::Arc;

use volume::{Failure, Name, NodeKind, Stat};
use wire::Now;

use crate::engine::Share;
use crate::engine::parts::file::HardLinkedName;
use crate::engine::parts::names::directory::{Directory, KnownName, change_both};
use crate::engine::parts::recycle_bin::{FinalRemoval, NameReport};
use crate::engine::services::recycle_folders::{MAX_VERSIONS, NoFolder, reason_of};
use crate::engine::values::recycle::{RecycleRules, versioned};
use crate::{ChangeFilter, ChangeKind, Identity, Open, Refusal};

/// How often a move begins anew because names change during it, or because room was made for it.
const MAX_ATTEMPTS: usize = 4;

/// The removal of a name, as a client asked for it.
#[derive(Clone, Copy)]
pub(super) struct Removal<'a> {
    pub open: &'a Open,
    pub link: &'a Arc<HardLinkedName>,
    pub identity: &'a Identity,
    pub now: Now,
}

/// One attempt to move a file.
enum MoveAttempt {
    /// The file is in the recycle folder, or its name is gone anyway.
    Done,
    /// Names have changed.
    Again,
    /// It is impossible.
    Impossible(FinalRemoval),
}

impl Share {
    /// Moves a file that is to be removed into the recycle folder. False: it is still there, and to be
    /// removed for good. The caller reports the changes in `told`.
    pub(super) fn recycle(
        &self,
        rules: &RecycleRules,
        removal: Removal<'_>,
        told: &mut Vec<NameReport>,
    ) -> bool {
        let (parent, name) = removal.link.parent_and_name();
        let stat = removal.open.node.stat();
        if self.is_in_recycle_folder(rules, &parent) {
            // That one was meant.
            self.recycle_bin().count_gone(stat.map_or(0, |stat| stat.allocated), false);
            return false;
        }
        let impossible = match stat {
            Ok(stat) => match self.reason_to_remove(rules, &name, &stat) {
                Some(why) => why,
                None => match self.move_to_recycle_folder(rules, removal, &stat, told) {
                    Ok(()) => return true,
                    Err(why) => why,
                },
            },
            Err(_) => FinalRemoval::Failed,
        };
        if self.recycle_bin().count_removed(impossible) {
            self.tell_final_removal(rules, impossible);
        }
        false
    }

    fn reason_to_remove(&self, rules: &RecycleRules, name: &Name, stat: &Stat) -> Option<FinalRemoval> {
        if stat.kind != NodeKind::File {
            Some(FinalRemoval::Special)
        } else if stat.links > 1 {
            Some(FinalRemoval::Linked)
        } else if rules.excludes(name) {
            Some(FinalRemoval::Excluded)
        } else if stat.allocated > rules.largest_file.min(rules.most_bytes) {
            Some(FinalRemoval::TooLarge)
        } else if stat.id.device != self.root().id.device {
            Some(FinalRemoval::OtherFileSystem)
        } else {
            None
        }
    }

    fn move_to_recycle_folder(
        &self,
        rules: &RecycleRules,
        removal: Removal<'_>,
        stat: &Stat,
        told: &mut Vec<NameReport>,
    ) -> Result<(), FinalRemoval> {
        let mut why = FinalRemoval::Failed;
        for _ in 0..MAX_ATTEMPTS {
            let (parent, _) = removal.link.parent_and_name();
            let folder = self.recycle_folder_for(rules, removal.identity, &parent, removal.now, told);
            let attempt = match folder {
                Ok(folder) => self.move_into(&folder, removal, told),
                // The purge has removed an empty folder in between.
                Err(NoFolder::Refused(Refusal::Gone | Refusal::NotFound)) => MoveAttempt::Again,
                Err(no_folder) => MoveAttempt::Impossible(no_folder.reason()),
            };
            match attempt {
                MoveAttempt::Done => {
                    self.recycle_bin().count_kept(stat.allocated, rules.most_bytes);
                    return Ok(());
                }
                MoveAttempt::Again => {}
                MoveAttempt::Impossible(FinalRemoval::NoSpace) if self.purge_for_room(removal.now, told) => {
                    why = FinalRemoval::NoSpace;
                }
                MoveAttempt::Impossible(why) => return Err(why),
            }
        }
        Err(why)
    }

    /// Moves the file to the first name in `folder` that is free.
    fn move_into(
        &self,
        folder: &Arc<Directory>,
        removal: Removal<'_>,
        told: &mut Vec<NameReport>,
    ) -> MoveAttempt {
        let (parent, name) = removal.link.parent_and_name();
        for version in 0..=MAX_VERSIONS {
            let to_name = match version {
                0 => name.clone(),
                version => versioned(&name, removal.now.wall_ns, version),
            };
            let (old, new) = (parent.entry(&name), folder.entry(&to_name));
            let locks = change_both(old, new);
            if !removal.link.is_at(parent.id, &name) {
                return MoveAttempt::Again;
            }
            if removal.open.file.state.lock().link(removal.link).is_some_and(|entry| entry.removed) {
                return MoveAttempt::Done;
            }
            match self.move_to_name(&parent, &name, folder, &to_name, removal.identity) {
                Ok(()) => {}
                Err(Failure::Exists) => continue,
                // Either the file or the folder is gone.
                Err(Failure::NotFound | Failure::Stale) => return MoveAttempt::Again,
                Err(failure) => return MoveAttempt::Impossible(reason_of(&failure.into())),
            }
            parent.removed(&name);
            folder.added(&to_name);
            drop(locks);
            let what = ChangeFilter::FILE_NAME;
            let (directory, kind) = (Arc::clone(&parent), ChangeKind::Removed);
            told.push(NameReport { directory, name, kind, what });
            let (directory, kind) = (Arc::clone(folder), ChangeKind::Added);
            told.push(NameReport { directory, name: to_name, kind, what });
            return MoveAttempt::Done;
        }
        MoveAttempt::Impossible(FinalRemoval::Failed)
    }

    fn move_to_name(
        &self,
        parent: &Arc<Directory>,
        name: &Name,
        folder: &Arc<Directory>,
        to_name: &Name,
        identity: &Identity,
    ) -> volume::Result<()> {
        let is_exact = self.settings().case_sensitive || self.volume().properties().folds_case;
        if !is_exact
            && let Ok(KnownName::Names(spellings)) = self.directories().known(folder, to_name)
            && !spellings.is_empty()
        {
            return Err(Failure::Exists);
        }
        // The user needs the right to remove the file. The folder is the server's matter.
        parent.node.check_removal(name, identity.actor.as_ref())?;
        parent.node.rename(name, folder.node.as_ref(), to_name, false, None)
    }

    /// Tells the operator once for each reason that removals are final although files are kept.
    #[cold]
    fn tell_final_removal(&self, rules: &RecycleRules, why: FinalRemoval) {
        let (share, folder) = (self.name(), rules.folder.display());
        match why {
            FinalRemoval::ForeignFolder => tracing::warn!(
                share, %folder,
                "removed files are not kept: the recycle folder, or the folder of a user in it, is none that \
                 this server has made; rename it, and the server makes a new one"
            ),
            FinalRemoval::NoSpace => tracing::warn!(
                share, %folder,
                "removed files are not kept while no space is left for a folder in the recycle folder"
            ),
            FinalRemoval::OtherFileSystem => tracing::warn!(
                share, %folder,
                "files on another file system below the share are removed for good: the recycle folder is \
                 not on it"
            ),
            FinalRemoval::Failed => tracing::warn!(
                share, %folder,
                "a removed file could not be moved into the recycle folder and was removed for good"
            ),
            // By the rules.
            _ => tracing::debug!(share, %folder, reason = why.word(), "a file was removed for good"),
        }
    }
}
