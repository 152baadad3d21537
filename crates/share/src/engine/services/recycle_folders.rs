//! The folders of the recycle folder: its own, one for each user, and in that the path of the removed file.
//!
//! A folder gets its name when it is complete: its owner, its access list and its attributes are set before.
//! The recycle folder is accepted only if its descriptor has the owner that the server gives it, which no
//! client can set. The folder of a user is accepted only if its descriptor has that user as its owner.

use std::sync::Arc;

use volume::security::{Ace, AceFlags, Acl, Control, Descriptor, Rights, Sid, well_known};
use volume::{Failure, Name, Node, NodeKind, OpenHow, Stat};
use wire::Now;

use crate::engine::Share;
use crate::engine::parts::names::directory::Directory;
use crate::engine::parts::names::same_folded;
use crate::engine::parts::recycle_bin::{FinalRemoval, NameReport};
use crate::engine::values::host_lists::shown_now;
use crate::engine::values::record::Record;
use crate::engine::values::recycle::{RecycleRules, versioned};
use crate::{Attributes, ChangeFilter, ChangeKind, Identity, Open, Refusal};

/// The most versions of one name in a directory of the recycle folder.
pub(super) const MAX_VERSIONS: u32 = 100;
/// Permission bits of the recycle folder: users of the host pass through and do not list it.
const SHARED: u32 = 0o711;
/// The name of a folder that is not complete yet. Another server that makes one at the same moment uses the
/// same name with a number behind it. No client may make, move or remove it.
const IN_THE_MAKING: &str = ".recycle-new-folder";
/// The most folders that servers make in one directory at the same moment.
const MOST_MAKERS: usize = 8;
/// A folder that is not complete after this time was left behind by a server that was killed.
const MAKING_SECONDS: i64 = 600;
/// Permission bits of the folder of a user, and of those in it.
const PRIVATE: u32 = 0o700;

/// The reason why a folder cannot be used.
pub(super) enum NoFolder {
    /// It is none that this server has made for this purpose.
    Foreign,
    /// The host's error.
    Refused(Refusal),
}

impl<E: Into<Refusal>> From<E> for NoFolder {
    fn from(why: E) -> NoFolder {
        NoFolder::Refused(why.into())
    }
}

impl NoFolder {
    /// The reason why a file is removed for good.
    pub(super) fn reason(&self) -> FinalRemoval {
        match self {
            NoFolder::Foreign => FinalRemoval::ForeignFolder,
            NoFolder::Refused(why) => reason_of(why),
        }
    }
}

/// The reason why a file is removed for good after the host has refused a call with `why`.
pub(super) fn reason_of(why: &Refusal) -> FinalRemoval {
    match why {
        Refusal::NoSpace => FinalRemoval::NoSpace,
        Refusal::CrossVolume => FinalRemoval::OtherFileSystem,
        _ => FinalRemoval::Failed,
    }
}

/// The properties of a new folder.
struct NewFolder {
    mode: u32,
    /// User and group of the host; none: the server's own.
    owner: Option<(u32, u32)>,
    descriptor: Descriptor,
    attributes: Option<Attributes>,
}

impl NewFolder {
    /// The recycle folder of a share: anybody passes, and only administrators change it.
    fn shared() -> NewFolder {
        let everybody =
            Ace::allow(well_known::EVERYONE, Rights::FOR_READ | Rights::FOR_EXECUTE, AceFlags::empty());
        NewFolder {
            mode: SHARED,
            owner: None,
            descriptor: descriptor(well_known::ADMINISTRATORS, Some(everybody)),
            attributes: Some(Attributes::HIDDEN),
        }
    }

    /// The folder of a user, or one in it.
    fn private(identity: &Identity) -> NewFolder {
        let whole = AceFlags::OBJECT_INHERIT | AceFlags::CONTAINER_INHERIT;
        let own = Ace::allow(identity.sid, Rights::ALL, whole);
        let mut descriptor = descriptor(identity.sid, Some(own));
        // Whatever the list of a file says, others do not come to it through the folder.
        descriptor.guard_path();
        NewFolder { mode: PRIVATE, owner: Some((identity.uid, identity.gid)), descriptor, attributes: None }
    }
}

fn descriptor(owner: Sid, entry: Option<Ace>) -> Descriptor {
    let whole = AceFlags::OBJECT_INHERIT | AceFlags::CONTAINER_INHERIT;
    let administrators = Ace::allow(well_known::ADMINISTRATORS, Rights::ALL, whole);
    let list = Acl::new(entry.into_iter().chain([administrators]).collect());
    let mut made = Descriptor::new(owner, well_known::ADMINISTRATORS, list);
    made.control |= Control::DACL_PROTECTED;
    made
}

impl Share {
    /// Whether a name is the recycle folder, or the folder of a user in it. No client may make, move or
    /// remove these.
    pub(crate) fn is_recycle_name(&self, parent: &Arc<Directory>, name: &Name) -> bool {
        let settings = self.settings();
        let Some(rules) = &settings.recycle else { return false };
        let bytes = name.as_bytes();
        let is_folder = parent.id == self.root().id
            && (same_folded(bytes, rules.folder.as_bytes()) || is_in_the_making(bytes));
        is_folder || self.is_recycle_folder_by(rules, parent)
    }

    /// Refuses a change of a name that belongs to the recycle folder itself.
    ///
    /// # Errors
    /// [`Refusal::AccessDenied`].
    pub(crate) fn check_not_recycle_name(&self, parent: &Arc<Directory>, name: &Name) -> Result<(), Refusal> {
        if self.is_recycle_name(parent, name) { Err(Refusal::AccessDenied) } else { Ok(()) }
    }

    /// Refuses to make the recycle folder itself, or the folder of a user, something else.
    ///
    /// # Errors
    /// [`Refusal::AccessDenied`].
    pub(crate) fn check_not_recycle_folder(&self, open: &Open) -> Result<(), Refusal> {
        let place = open.link.as_ref().map(|link| link.parent_and_name());
        place.map_or(Ok(()), |(parent, name)| self.check_not_recycle_name(&parent, &name))
    }

    /// Whether a directory is the recycle folder.
    pub(crate) fn is_recycle_folder(&self, directory: &Directory) -> bool {
        self.settings().recycle.as_ref().is_some_and(|rules| self.is_recycle_folder_by(rules, directory))
    }

    fn is_recycle_folder_by(&self, rules: &RecycleRules, directory: &Directory) -> bool {
        directory.parent_and_name().is_some_and(|(above, name)| {
            above.id == self.root().id && same_folded(name.as_bytes(), rules.folder.as_bytes())
        })
    }

    /// Whether a directory is the recycle folder or lies in it.
    pub(super) fn is_in_recycle_folder(&self, rules: &RecycleRules, directory: &Arc<Directory>) -> bool {
        let first = directory.ancestors().pop().map(|(_, name)| name);
        first.is_some_and(|name| same_folded(name.as_bytes(), rules.folder.as_bytes()))
    }

    /// The recycle folder, if there is one.
    ///
    /// # Errors
    /// [`NoFolder`].
    pub(super) fn find_recycle_folder(&self, rules: &RecycleRules) -> Result<Arc<Directory>, NoFolder> {
        self.folder_owned_by(self.root(), &rules.folder, &well_known::ADMINISTRATORS)
    }

    /// The directory in the recycle folder for a file that a user removes from `parent`. Missing ones are
    /// made.
    ///
    /// # Errors
    /// [`NoFolder`].
    pub(super) fn recycle_folder_for(
        &self,
        rules: &RecycleRules,
        identity: &Identity,
        parent: &Arc<Directory>,
        now: Now,
        told: &mut Vec<NameReport>,
    ) -> Result<Arc<Directory>, NoFolder> {
        let shared = match self.find_recycle_folder(rules) {
            Err(NoFolder::Refused(Refusal::NotFound)) => {
                self.make_folder(self.root(), &rules.folder, &NewFolder::shared(), now, told)?;
                self.find_recycle_folder(rules)?
            }
            other => other?,
        };
        let new = NewFolder::private(identity);
        let name = self.folder_name(identity).ok_or(NoFolder::Foreign)?;
        let mut at = match self.folder_owned_by(&shared, &name, &identity.sid) {
            Err(NoFolder::Refused(Refusal::NotFound)) => {
                self.make_folder(&shared, &name, &new, now, told)?;
                self.folder_owned_by(&shared, &name, &identity.sid)?
            }
            other => other?,
        };
        for name in parent.path() {
            at = self.folder_in(&at, &name, &new, now, told)?;
        }
        Ok(at)
    }

    /// The name of a user's folder. It is the same however the user has connected.
    fn folder_name(&self, identity: &Identity) -> Option<Name> {
        let named = self.settings().accounts.user_name(&identity.sid);
        let named = named.and_then(|name| Name::new(name.to_lowercase().as_bytes()).ok());
        let number = || format!("uid-{}", identity.uid);
        named.or_else(|| Name::new(number().as_bytes()).ok())
    }

    /// A directory that is there and whose stored descriptor has this owner.
    fn folder_owned_by(
        &self,
        parent: &Arc<Directory>,
        name: &Name,
        owner: &Sid,
    ) -> Result<Arc<Directory>, NoFolder> {
        let folder = self.existing_folder(parent, name)?.ok_or(NoFolder::Foreign)?;
        let security = self.directory_security(&folder)?;
        let is_ours = security.is_stored && security.descriptor.owner == Some(*owner);
        if is_ours { Ok(folder) } else { Err(NoFolder::Foreign) }
    }

    /// A directory in the folder of a user. It is made if there is none. If another object has the name, the
    /// directory gets a version of it.
    fn folder_in(
        &self,
        parent: &Arc<Directory>,
        name: &Name,
        new: &NewFolder,
        now: Now,
        told: &mut Vec<NameReport>,
    ) -> Result<Arc<Directory>, NoFolder> {
        for version in 0..=MAX_VERSIONS {
            let name = match version {
                0 => name.clone(),
                version => versioned(name, now.wall_ns, version),
            };
            let mut found = self.existing_folder(parent, &name);
            if found.as_ref().is_err_and(|why| *why == Refusal::NotFound) {
                self.make_folder(parent, &name, new, now, told)?;
                found = self.existing_folder(parent, &name);
            }
            if let Some(folder) = found? {
                return Ok(folder);
            }
        }
        Err(NoFolder::Foreign)
    }

    /// The directory of this name; none if another object has the name. A link is not followed.
    pub(super) fn existing_folder(
        &self,
        parent: &Arc<Directory>,
        name: &Name,
    ) -> Result<Option<Arc<Directory>>, Refusal> {
        if parent.settle(name)
            && let Some((_, known)) = parent.child(name, true)
            && parent.holds(name, known.id)
        {
            self.directories().touch(&known);
            return Ok(Some(known));
        }
        let generation = parent.generation();
        let node = parent.node.lookup(name, OpenHow::Attributes)?;
        if node.kind() != NodeKind::Directory {
            return Ok(None);
        }
        Ok(Some(self.directories().enter(parent, (name, name), node, Some(generation))))
    }

    /// Makes a folder under another name, and gives it its own when it is complete. It is no error if
    /// another thread was quicker.
    fn make_folder(
        &self,
        parent: &Arc<Directory>,
        name: &Name,
        new: &NewFolder,
        now: Now,
        told: &mut Vec<NameReport>,
    ) -> Result<(), NoFolder> {
        self.remove_left_behind(parent, now);
        let names = names_in_the_making();
        let locked: Vec<&Name> = names.iter().chain([name]).collect();
        let changing = parent.change(&locked);
        let (first, node) = create_first(parent, &names, new.mode)?;
        let made = self.complete_folder(node.as_ref(), new).and_then(|()| {
            match parent.node.rename(first, parent.node.as_ref(), name, false, None) {
                Err(Failure::Exists) => Ok(false),
                moved => Ok(moved.map(|()| true)?),
            }
        });
        if !matches!(made, Ok(true)) {
            let _not_even_made = parent.node.remove(first, true, None);
        }
        let is_new = made?;
        parent.added(name);
        drop(changing);
        if is_new {
            told.push(NameReport {
                directory: Arc::clone(parent),
                name: name.clone(),
                kind: ChangeKind::Added,
                what: ChangeFilter::DIR_NAME,
                purged: None,
            });
        }
        Ok(())
    }
    /// Removes the folders that servers have left behind in a directory before they were complete.
    pub(super) fn remove_left_behind(&self, parent: &Arc<Directory>, now: Now) {
        for name in names_in_the_making() {
            let is_old = |stat: Stat| stat.kind == NodeKind::Directory && is_left_behind(&stat, now);
            if !parent.node.stat_name(&name).is_ok_and(is_old) {
                continue;
            }
            let changing = parent.change(&[&name]);
            if parent.node.remove(&name, true, None).is_ok() {
                parent.removed(&name);
            }
            drop(changing);
        }
    }

    /// Gives a new folder its owner, its access list and its attributes.
    fn complete_folder(&self, node: &dyn Node, new: &NewFolder) -> Result<(), Refusal> {
        if let Some((uid, gid)) = new.owner {
            match node.set_owner(Some(uid), Some(gid)) {
                // A server without root owns all files itself.
                Ok(()) | Err(Failure::Denied) => {}
                Err(why) => return Err(why.into()),
            }
        }
        let bytes = new.descriptor.encode().map_err(|_| Refusal::Invalid)?;
        self.put_descriptor(node, Some(&bytes))?;
        let mut record = Record::load(node)?;
        (record.has_descriptor, record.attributes) = (true, new.attributes);
        let mode = volume::security::computed_mode(&new.descriptor);
        record.shown = Some(shown_now(node, &node.stat()?, &record, mode)?);
        self.put_record(node, &record)
    }
}

/// The names of folders that are not complete.
fn names_in_the_making() -> Vec<Name> {
    let numbered = (1..MOST_MAKERS).map(|number| format!("{IN_THE_MAKING}-{number}"));
    let all = std::iter::once(IN_THE_MAKING.to_owned()).chain(numbered);
    all.filter_map(|name| Name::new(name.as_bytes()).ok()).collect()
}

/// Whether a folder of this name is not complete.
pub(super) fn is_in_the_making(name: &[u8]) -> bool {
    let is_as_long = (IN_THE_MAKING.len()..=IN_THE_MAKING.len() + 2).contains(&name.len());
    is_as_long && names_in_the_making().iter().any(|own| same_folded(name, own.as_bytes()))
}

/// Whether a folder that is not complete was left behind by a server that was killed.
pub(super) fn is_left_behind(stat: &Stat, now: Now) -> bool {
    now.wall_ns.div_euclid(1_000_000_000) - stat.changed.secs >= MAKING_SECONDS
}

/// Creates a folder under the first of these names that is free.
fn create_first<'a>(
    parent: &Directory,
    names: &'a [Name],
    mode: u32,
) -> Result<(&'a Name, Arc<dyn Node>), Refusal> {
    for name in names {
        match parent.node.create_directory(name, mode, None) {
            Err(Failure::Exists) => {}
            made => return Ok((name, made?)),
        }
    }
    Err(Refusal::Busy)
}
