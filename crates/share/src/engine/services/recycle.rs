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
use crate::ranked::MutexGuard;
use crate::{ChangeFilter, ChangeKind, Identity, Open, Refusal};

/// How often a move begins anew because names change during it, or because room was made for it.
const MAX_ATTEMPTS: usize = 4;
/// The storage that a new folder needs, in bytes.
const FOLDER_BYTES: u64 = 4096;

/// The removal of a name, as a client asked for it.
#[derive(Clone, Copy)]
pub(super) struct Removal<'a> {
    pub open: &'a Open,
    pub link: &'a Arc<HardLinkedName>,
    pub identity: &'a Identity,
    /// Whether the file has other names, and keeps them ([`Share::link_removal`]).
    pub has_other_names: bool,
    pub now: Now,
}

/// The name that a removed file has in the recycle folder.
pub(super) struct RecycledName {
    pub folder: Arc<Directory>,
    pub name: Name,
}

/// The end of a removal in a share that keeps removed files.
pub(super) enum RecycleResult {
    /// The file is in the recycle folder.
    Kept(RecycledName),
    /// Another request has removed the name meanwhile, or replaced it.
    Gone,
    /// The name is there, and is to be removed for good.
    Final,
}

/// One attempt to move a file.
enum MoveAttempt {
    Done(RecycledName),
    /// The name is gone.
    Gone,
    /// Names have changed.
    Again,
    /// It is impossible.
    Impossible(FinalRemoval),
}

impl Share {
    /// Moves a file that is to be removed into the recycle folder. The caller reports the changes in `told`.
    pub(super) fn recycle(
        &self,
        rules: &RecycleRules,
        removal: Removal<'_>,
        told: &mut Vec<NameReport>,
    ) -> RecycleResult {
        let (parent, name) = removal.link.parent_and_name();
        let stat = removal.open.node.stat();
        if self.is_in_recycle_folder(rules, &parent) {
            // That one was meant.
            self.recycle_bin().count_gone(stat.map_or(0, |stat| stat.allocated), false);
            return RecycleResult::Final;
        }
        let impossible = match stat {
            Ok(stat) => match self.reason_to_remove(rules, removal, &name, &stat) {
                Some(why) => why,
                None => match self.move_to_recycle_folder(rules, removal, &stat, told) {
                    Ok(result) => return result,
                    Err(why) => why,
                },
            },
            Err(_) => FinalRemoval::Failed,
        };
        if self.recycle_bin().count_removed(impossible) {
            self.tell_final_removal(rules, impossible);
        }
        RecycleResult::Final
    }

    /// The right to remove one of several names of a file for good; none if the file has one name. The number
    /// of names stays while this is held, as far as clients are concerned. Otherwise two clients that remove
    /// the last two names at the same moment would each see another name, and the data would be lost.
    pub(super) fn link_removal(&self, open: &Open) -> Option<MutexGuard<'_, ()>> {
        let has_several = || open.node.stat().is_ok_and(|stat| stat.links > 1);
        if self.settings().recycle.is_none() || !has_several() {
            return None;
        }
        let turn = self.recycle_bin().link_removal(open.file.id);
        has_several().then_some(turn)
    }

    /// A client has moved a name. A file that it has taken out of the recycle folder is no longer counted.
    pub(crate) fn note_recycled_moved(&self, open: &Open, from: &Arc<Directory>, to: &Arc<Directory>) {
        let settings = self.settings();
        let Some(rules) = settings.recycle.as_deref() else { return };
        let is_kept = |directory| self.is_in_recycle_folder(rules, directory);
        match (is_kept(from), is_kept(to)) {
            (true, false) if !open.is_directory() => {
                self.recycle_bin().count_gone(open.node.stat().map_or(0, |stat| stat.allocated), false);
            }
            (true, _) | (_, true) => self.recycle_bin().note_new(),
            (false, false) => {}
        }
    }

    fn reason_to_remove(
        &self,
        rules: &RecycleRules,
        removal: Removal<'_>,
        name: &Name,
        stat: &Stat,
    ) -> Option<FinalRemoval> {
        if stat.kind != NodeKind::File {
            Some(FinalRemoval::Special)
        } else if removal.has_other_names {
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
    ) -> Result<RecycleResult, FinalRemoval> {
        let (mut why, mut made_room) = (FinalRemoval::Failed, 0);
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
                MoveAttempt::Done(kept) => {
                    self.recycle_bin().count_kept(stat.allocated, rules.most_bytes);
                    return Ok(RecycleResult::Kept(kept));
                }
                MoveAttempt::Gone => return Ok(RecycleResult::Gone),
                MoveAttempt::Again => {}
                MoveAttempt::Impossible(FinalRemoval::NoSpace)
                    if self.purge_for_room(FOLDER_BYTES, made_room, removal.now, told) =>
                {
                    (why, made_room) = (FinalRemoval::NoSpace, made_room + 1);
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
                return MoveAttempt::Gone;
            }
            match self.move_to_name(&parent, &name, folder, &to_name, removal.identity) {
                Ok(()) => {}
                Err(Failure::Exists) => continue,
                // The host has removed the file, or the purge the folder.
                Err(Failure::NotFound | Failure::Stale) => match parent.node.stat_name(&name) {
                    Err(Failure::NotFound) => return MoveAttempt::Gone,
                    _ => return MoveAttempt::Again,
                },
                Err(failure) => return MoveAttempt::Impossible(reason_of(&failure.into())),
            }
            parent.removed(&name);
            folder.added(&to_name);
            drop(locks);
            let report = |directory: &Arc<Directory>, name: &Name, kind| NameReport {
                directory: Arc::clone(directory),
                name: name.clone(),
                kind,
                what: ChangeFilter::FILE_NAME,
                purged: None,
            };
            told.push(report(&parent, &name, ChangeKind::Removed));
            told.push(report(folder, &to_name, ChangeKind::Added));
            return MoveAttempt::Done(RecycledName { folder: Arc::clone(folder), name: to_name });
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
