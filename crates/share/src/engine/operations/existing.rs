//! Opening an existing object: whether the caller may, whether the others permit it, and the change that the
//! request makes then.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use volume::security::Rights;
use volume::{Failure, Name, Node, NodeKind, OpenHow, Stat};
use wire::Now;

use crate::caching::grants::{Deadlines, Need};
use crate::engine::Share;
use crate::engine::lookup::followed::acts_on_name;
use crate::engine::operations::data_changes::StreamChange;
use crate::engine::operations::extended;
use crate::engine::operations::reservation::{
    Attempt, OpenCandidate, Ready, Reserved, how_for_rights, settable,
};
use crate::engine::parts::file::{
    Deletion, File, FileState, Member, Stream, counted, looks_only, only_looks,
};
use crate::engine::parts::names::same_folded;
use crate::engine::services::properties::FileProperties;
use crate::engine::values::effects::Effects;
use crate::engine::values::record::Record;
use crate::info::extended_size;
use crate::{
    Attributes, CallResult, Caller, ChangeFilter, ChangeKind, Disposition, OpenRequest, Options, Outcome,
    Refusal,
};

/// How often a request is decided anew because the caller's rights change meanwhile. Then the request starts
/// again.
const MAX_DECISIONS: usize = 3;

/// The effect of a request on an existing object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    Open,
    /// The data is cut to nothing.
    Overwrite,
    /// The object is replaced.
    Supersede,
    /// A stream that does not exist yet is created.
    MakeStream,
}

/// A decision about an existing file, made before others are looked at.
struct Plan {
    effect: Effect,
    /// The stream's real name.
    stream: Option<Name>,
    /// The stream, if it exists.
    data: Option<Arc<dyn Node>>,
    /// The end of the stream's data or storage, if it is replaced.
    extent: u64,
    /// The rights of the open.
    granted: Rights,
    /// The access that the request uses now, including the access that replacing needs.
    uses: Rights,
    /// The number of names of the file.
    names: u32,
}

impl Plan {
    /// Whether a reservation for an earlier plan serves for this one too.
    fn suits(&self, earlier: &Plan, reserved: &Reserved) -> bool {
        let mut state = reserved.file.state.lock();
        state.names = self.names;
        // Byte ranges that were behind the end keep others from caching once they are not.
        let is_in_the_way =
            self.extent > earlier.extent && state.stream(&reserved.stream).ranges.begins_before(self.extent);
        (self.effect, &self.stream, self.granted, self.uses)
            == (earlier.effect, &earlier.stream, earlier.granted, earlier.uses)
            && !is_in_the_way
    }
}

/// A stream by its real name, and its data if it exists.
type FoundStream = (Option<Name>, Option<Arc<dyn Node>>);

/// The result of a reservation.
enum ReserveResult {
    Reserved(Reserved),
    Wait(crate::Ticket),
    Again,
}

impl Share {
    /// Opens an existing file, directory or link, or a stream of one.
    // MS-FSA 2.1.5.1.2
    pub(crate) fn open_existing(
        &self,
        caller: &Caller<'_>,
        request: &OpenRequest<'_>,
        target: OpenCandidate,
    ) -> Result<Attempt, Refusal> {
        let is_itself = request.options.contains(Options::OPEN_LINK) || acts_on_name(request);
        if let Err(why) = check_kind(request, &target) {
            if !is_itself {
                self.stop_at_reparse(target.node.as_ref(), 0)?;
            }
            return Err(why);
        }
        self.restore_file(target.node.id())?;
        if !self.is_restored_below(request, &target)? {
            return Err(Refusal::HostKeeps);
        }
        let file = self.open_files().enter(target.node.id(), target.node.kind());
        let result = self.plan_and_reserve(caller, request, &target, &file);
        let (properties, plan, reserved) = match result {
            Ok((properties, plan, ReserveResult::Reserved(reserved))) => (properties, plan, reserved),
            Ok((.., ReserveResult::Wait(ticket))) => return Ok(Attempt::Wait(ticket)),
            Ok((.., ReserveResult::Again)) => return Ok(Attempt::Again),
            Err(Refusal::Gone) => {
                // Its event is still on the way.
                if let Some((parent, name)) = &target.parent_and_name {
                    parent.forget_name(name);
                }
                // The caller that found the item looks it up again.
                let is_again = target.is_from_memory && !target.may_be_gone;
                return if is_again { Ok(Attempt::Again) } else { Err(Refusal::Gone) };
            }
            Err(why) => return Err(why),
        };
        let (file, id) = (file.into_open(), reserved.id);
        let finished = self.finish_existing(caller, request, &target, properties, plan, reserved);
        if finished.is_err() {
            self.abandon(&file, id);
        }
        finished
    }

    /// If the close of this open removes a directory, restores the opens below it. Names of theirs that are
    /// to go would keep the directory. Returns false if that takes too long for this request.
    ///
    /// # Errors
    /// As [`Share::restore_below`].
    fn is_restored_below(&self, request: &OpenRequest<'_>, target: &OpenCandidate) -> Result<bool, Refusal> {
        let is_removed =
            target.node.kind() == NodeKind::Directory && request.options.contains(Options::DELETE_ON_CLOSE);
        match target.parent_and_name.as_ref().filter(|_| is_removed) {
            Some((parent, name)) => self.restore_below(|| parent.path_to(name)),
            None => Ok(true),
        }
    }

    /// Decides, and enters the open among the others. A change between both steps was made before others had
    /// to ask this open to yield. So the open is judged and shown with the values of now.
    fn plan_and_reserve(
        &self,
        caller: &Caller<'_>,
        request: &OpenRequest<'_>,
        target: &OpenCandidate,
        file: &Arc<File>,
    ) -> Result<(FileProperties, Plan, ReserveResult), Refusal> {
        let mut changes = self.change_counters(file);
        let seen = target.seen.filter(|_| self.is_unchanged(file, target.since));
        let (mut properties, mut plan) = self.decide(caller, request, target, file, seen)?;
        for _ in 0..MAX_DECISIONS {
            let reserved = match self.reserve(caller, request, target, file, &plan)? {
                ReserveResult::Reserved(reserved) => reserved,
                other => return Ok((properties, plan, other)),
            };
            if !self.is_still_there(target, file) {
                self.abandon(file, reserved.id);
                break;
            }
            let before = std::mem::replace(&mut changes, self.change_counters(file));
            if changes == before {
                return Ok((properties, plan, ReserveResult::Reserved(reserved)));
            }
            let decided = self.decide(caller, request, target, file, None);
            let (properties_now, mut plan_now) = decided.inspect_err(|_| self.abandon(file, reserved.id))?;
            if plan_now.suits(&plan, &reserved) {
                return Ok((properties_now, plan_now, ReserveResult::Reserved(reserved)));
            }
            self.abandon(file, reserved.id);
            // However far it grows meanwhile.
            plan_now.extent = if plan_now.extent > plan.extent { u64::MAX } else { plan_now.extent };
            (properties, plan) = (properties_now, plan_now);
        }
        Ok((properties, plan, ReserveResult::Again))
    }

    /// Reads the values that the decision needs, and decides.
    fn decide(
        &self,
        caller: &Caller<'_>,
        request: &OpenRequest<'_>,
        target: &OpenCandidate,
        file: &Arc<File>,
        seen: Option<Stat>,
    ) -> Result<(FileProperties, Plan), Refusal> {
        let properties =
            self.properties(file, target.node.as_ref(), target.parent_and_name.as_ref(), seen)?;
        if properties.stat.links == 0 {
            // A client that comes by a name does not get a file without names, even if others have it open.
            let is_gone = target.may_be_gone && !file.has_members();
            if is_gone || target.is_from_memory {
                return Err(Refusal::Gone);
            }
        }
        let is_itself = request.options.contains(Options::OPEN_LINK) || acts_on_name(request);
        if properties.record.has_reparse && !is_itself {
            self.stop_at_reparse(target.node.as_ref(), 0)?;
        }
        let plan = self.plan(caller, request, target, &properties)?;
        Ok((properties, plan))
    }

    /// Whether the looked-up name still leads to the file, now that the open is entered among the others. A
    /// request that removes the name from now on finds the open. Without this check the open of a file that
    /// has lost this name would count under it. An object that is created under the name next would then be
    /// removed with such an open.
    fn is_still_there(&self, target: &OpenCandidate, file: &File) -> bool {
        let Some((parent, name)) = &target.parent_and_name else { return true };
        // A request that is changing the name just now may not have seen this open.
        let is_settled = parent.settle(name);
        if is_settled && self.cache().names_gone() == target.since.names_gone {
            return true;
        }
        let leads_there = parent.holds(name, file.id);
        if !leads_there {
            parent.forget_name(name);
        }
        leads_there
    }

    /// Decides the effect, and whether the caller may have it.
    fn plan(
        &self,
        caller: &Caller<'_>,
        request: &OpenRequest<'_>,
        target: &OpenCandidate,
        properties: &FileProperties,
    ) -> Result<Plan, Refusal> {
        let (stream, data) = match request.stream {
            None => (None, None),
            Some(asked) => self.find_stream(target.node.as_ref(), asked, request.options)?,
        };
        let effect = effect_of(request, data.is_some())?;
        if effect != Effect::Open || request.options.contains(Options::DELETE_ON_CLOSE) {
            self.check_writable()?;
        }
        let bits = properties.record.bits(&properties.stat);
        let replaces = matches!(effect, Effect::Overwrite | Effect::Supersede);
        if replaces && stream.is_none() {
            // MS-FSA 2.1.5.1.2
            for bit in [Attributes::HIDDEN, Attributes::SYSTEM] {
                if bits.contains(bit) && !request.attributes.contains(bit) {
                    return Err(Refusal::AccessDenied);
                }
            }
        }
        let needs = needs_of(effect, stream.is_some());
        let parent = target.parent_and_name.as_ref().map(|(parent, _)| parent);
        let security = properties.security.as_ref();
        let asked = self.rights_on(caller, security, parent, request.access | needs, request.options)?;
        let wants_maximum = request.access.contains(Rights::MAXIMUM_ALLOWED);
        let granted = if wants_maximum { asked } else { request.access.mapped() };
        let is_file = properties.stat.kind != NodeKind::Directory;
        // Permission bits that decide by themselves were checked with the rights.
        let is_only_shown =
            properties.record.attributes.is_none() && request.options.contains(Options::MODE_DECIDES);
        let is_read_only = bits.contains(Attributes::READ_ONLY) && !is_only_shown;
        let writes = Rights::WRITE_DATA | Rights::APPEND_DATA;
        let named = (request.access.mapped() - Rights::MAXIMUM_ALLOWED) | needs;
        // MS-FSA 2.1.5.1.2.1
        if is_file && is_read_only && named.intersects(writes) {
            return Err(Refusal::AccessDenied);
        }
        if request.options.contains(Options::DELETE_ON_CLOSE) {
            if is_read_only {
                return Err(Refusal::CannotDelete);
            }
            if !granted.contains(Rights::DELETE) || properties.stat.fixed {
                return Err(Refusal::AccessDenied);
            }
            if let (None, Some(parent_and_name)) = (&stream, &target.parent_and_name) {
                self.check_removal(caller, parent_and_name)?;
            }
        }
        let unwritable = match is_file && is_read_only {
            // The right that means nothing for a file is removed too.
            true => writes | Rights::DELETE_CHILD,
            false => Rights::empty(),
        };
        let granted = granted - (unwritable - named);
        let extent = match (effect, &data) {
            _ if request.caching.is_none() => 0,
            (Effect::Open, None) => extent_of(&properties.stat),
            (Effect::Open, Some(data)) => extent_of(&data.stat()?),
            (Effect::Overwrite | Effect::Supersede | Effect::MakeStream, _) => 0,
        };
        // The host counts the names of a directory's children as names of its own.
        let names = if is_file { properties.stat.links } else { 1 };
        Ok(Plan { effect, stream, data, extent, granted, uses: granted | needs, names })
    }

    /// The stream that a name leads to, and its real name.
    fn find_stream(&self, node: &dyn Node, asked: &Name, options: Options) -> Result<FoundStream, Refusal> {
        let mut real = asked.clone();
        let found = match node.open_stream(asked, false, false) {
            Ok(data) => Some(data),
            Err(Failure::NotFound) if !self.is_exact(options) => {
                let all = node.streams()?;
                let fits = all.into_iter().find(|s| same_folded(s.name.as_bytes(), asked.as_bytes()));
                match fits {
                    Some(info) => {
                        real = info.name;
                        Some(node.open_stream(&real, false, false)?)
                    }
                    None => None,
                }
            }
            Err(Failure::NotFound) => None,
            Err(failure) => return Err(failure.into()),
        };
        Ok((Some(real), found))
    }

    /// Enters the open among the others, if they permit it.
    fn reserve(
        &self,
        caller: &Caller<'_>,
        request: &OpenRequest<'_>,
        target: &OpenCandidate,
        file: &Arc<File>,
        plan: &Plan,
    ) -> Result<ReserveResult, Refusal> {
        let mut effects = Effects::default();
        let mut state = file.state.lock();
        let tried = self.reserve_locked(caller, request, target, file, plan, &mut state, &mut effects);
        drop(state);
        self.settle(effects);
        tried
    }

    #[allow(clippy::too_many_arguments)]
    fn reserve_locked(
        &self,
        caller: &Caller<'_>,
        request: &OpenRequest<'_>,
        target: &OpenCandidate,
        file: &Arc<File>,
        plan: &Plan,
        state: &mut FileState,
        effects: &mut Effects,
    ) -> Result<ReserveResult, Refusal> {
        let link = match &target.parent_and_name {
            Some((parent, name)) => Some(state.enter_link(parent, name)),
            // An object that was found by its address counts under a name by which others have it open.
            None => state.links.iter().find(|entry| !entry.removed).map(|entry| Arc::clone(&entry.link)),
        };
        state.names = plan.names;
        let stream = state.enter_stream(plan.stream.as_ref());
        if state.is_deleted(link.as_ref()) || state.stream(&stream).delete {
            return Err(Refusal::DeletePending);
        }
        if let Some(caching) = &request.caching {
            self.check_key(caller.client, caching, Some(&stream))?;
        }
        if request.options.contains(Options::NOT_BESIDE_ABSENT)
            && state.is_kept_from(caller.client, looks_only(request.access), &stream)
        {
            return Err(Refusal::OwnerAway);
        }
        let (requester, caching) = self.asking(caller, request, &stream);
        if let Some(need) = self.conflicting_need(request, plan, state, &stream, &requester)? {
            let entry = state.stream(&stream);
            let is_open_need = !matches!(need, Need::CloseKept);
            if self.require(file, entry, &requester, need, caller.cause(), effects) {
                return self.park_open(caller, file, state);
            }
            if !is_open_need && !state.shares(&stream, plan.uses, request.deny) {
                if !state.shares_but_for_absent(&stream, plan.uses, request.deny) {
                    return Err(Refusal::SharingConflict);
                }
                // The client that has it open comes back, or its time ends.
                return self.park_open(caller, file, state);
            }
        }
        let id = self.open_files().next_id();
        state.members.push(Member {
            id,
            stream: Arc::clone(&stream),
            link: link.clone(),
            access: counted(plan.granted, request.options),
            looks: only_looks(plan.granted, request.options),
            deny: request.deny,
            requester,
            delete_on_close: Deletion::on_close(id, request.options),
            open: std::sync::Weak::new(),
        });
        let grant = caching.map(|caching| {
            let caching = self.moderated(caching, file, caller.now);
            self.grant(file, state, &stream, &requester, &caching, plan.extent)
        });
        self.note_goes(&requester, &stream, request.options);
        let (file, granted, given) = (Arc::clone(file), plan.granted, stream.given());
        Ok(ReserveResult::Reserved(Reserved { id, file, stream, link, requester, granted, grant, given }))
    }

    /// Lets a request to open wait until the opens of the file change, or refuses it if it cannot wait.
    fn park_open(
        &self,
        caller: &Caller<'_>,
        file: &Arc<File>,
        state: &mut FileState,
    ) -> Result<ReserveResult, Refusal> {
        match self.park(caller, file, state, Refusal::SharingConflict) {
            CallResult::Wait(ticket) => Ok(ReserveResult::Wait(ticket)),
            CallResult::Done(()) | CallResult::Refused(_) => Err(Refusal::SharingConflict),
        }
    }

    /// The access that the request needs from holders of caching rights; none if nothing conflicts.
    ///
    /// # Errors
    /// [`Refusal::SharingConflict`] if no release would help.
    fn conflicting_need(
        &self,
        request: &OpenRequest<'_>,
        plan: &Plan,
        state: &mut FileState,
        stream: &Arc<Stream>,
        requester: &crate::caching::grants::Requester,
    ) -> Result<Option<Need>, Refusal> {
        let replaces = matches!(plan.effect, Effect::Overwrite | Effect::Supersede);
        let looks = looks_only(request.access - Rights::READ_CONTROL);
        let open_need = match (replaces, looks) {
            (true, _) => Need::Replace,
            // A holder that only keeps the file open is asked to close when the name is marked, not now.
            // MS-FSA 2.1.5.1.2
            (false, _) if request.options.contains(Options::DELETE_ON_CLOSE) => Need::Delete,
            (false, true) => Need::Look,
            (false, false) if plan.uses.intersects(Rights::WRITE_DATA | Rights::APPEND_DATA) => {
                Need::OpenToWrite
            }
            (false, false) => Need::Open,
        };
        let breaks_nothing = looks_only(request.access) && !replaces;
        let counts = counted(plan.uses, request.options);
        let shares = counts.is_empty() || state.shares(stream, plan.uses, request.deny);
        let may_break = !request.options.contains(Options::NO_WAIT_FOR_BREAK);
        let grants = &state.stream(stream).grants;
        if shares {
            let need = (!breaks_nothing && !grants.is_empty()).then_some(open_need);
            // A request that must not make others wait is tried on a copy.
            if need.is_some() && !may_break {
                let mut trial = grants.clone();
                if trial
                    .require(
                        volume::NodeId { device: 0, inode: 0 },
                        requester,
                        open_need,
                        Deadlines::default(),
                    )
                    .wait
                {
                    return Err(Refusal::SharingConflict);
                }
            }
            return Ok(need);
        }
        if !may_break {
            return Err(Refusal::SharingConflict);
        }
        // The topmost right of a single open is broken before sharing decides.
        // MS-FSA 2.1.5.1.2
        if grants.has_unkeyed_handle(requester) && !breaks_nothing {
            return Ok(Some(open_need));
        }
        Ok(Some(Need::CloseKept))
    }

    /// Makes the requested change to the file, and returns the open.
    fn finish_existing(
        &self,
        caller: &Caller<'_>,
        request: &OpenRequest<'_>,
        target: &OpenCandidate,
        properties: FileProperties,
        plan: Plan,
        reserved: Reserved,
    ) -> Result<Attempt, Refusal> {
        let replaces = matches!(plan.effect, Effect::Overwrite | Effect::Supersede);
        let how = match (&plan.stream, replaces) {
            (Some(_), _) => OpenHow::Attributes,
            (None, true) => OpenHow::ReadWrite,
            (None, false) => how_for_rights(plan.uses),
        };
        let node = self.shared_node(&reserved.file, &target.node, how)?;
        let data = match (&plan.stream, plan.data) {
            (None, _) => Arc::clone(&node),
            (Some(_), Some(data)) => data,
            (Some(name), None) => node.open_stream(name, true, false)?,
        };
        let mut properties = properties;
        match plan.effect {
            Effect::Open => {}
            Effect::MakeStream => {
                self.report_stream(&reserved, ChangeKind::StreamAdded, ChangeFilter::STREAM_NAME);
                self.move_times(&reserved.file, node.as_ref(), StreamChange::Made, caller.now)?;
                properties.record = self.record_at(&reserved.file, node.as_ref())?;
                properties.stat = node.stat()?;
            }
            Effect::Overwrite | Effect::Supersede => {
                let replaced =
                    self.replace(request, caller.now, &reserved, &node, &data, &mut properties.record);
                let Reserved { file, stream, requester, given, .. } = &reserved;
                self.catch_up(file, stream, requester, Need::Replace, *given, caller.cause());
                replaced?;
                if let Some(link) = &reserved.link {
                    self.entries_changed(&link.parent_and_name().0, &reserved.requester, caller.cause());
                }
                properties.stat = node.stat()?;
            }
        }
        if request.allocation > 0 && plan.effect != Effect::Open {
            data.allocate(0..request.allocation)?;
            self.own_changed(&reserved.file);
            properties.stat = node.stat()?;
        }
        let outcome = match plan.effect {
            Effect::Open => Outcome::Opened,
            Effect::MakeStream => Outcome::Created,
            Effect::Overwrite => Outcome::Overwritten,
            Effect::Supersede => Outcome::Superseded,
        };
        let info = self.info_of(
            &reserved.file,
            reserved.link.as_ref(),
            &properties.stat,
            &properties.record,
            reserved.stream.figures(data.as_ref())?,
        );
        Ok(self.complete_open(caller, request, reserved, Ready { node, data, outcome, info }))
    }

    /// Discards the contents and everything that belongs to them.
    // MS-FSA 2.1.5.1.2
    fn replace(
        &self,
        request: &OpenRequest<'_>,
        now: Now,
        reserved: &Reserved,
        node: &Arc<dyn Node>,
        data: &Arc<dyn Node>,
        record: &mut Record,
    ) -> Result<(), Refusal> {
        data.set_size(0)?;
        reserved.file.changes.fetch_add(1, Ordering::SeqCst);
        if reserved.stream.is_named {
            let what = ChangeFilter::STREAM_SIZE | ChangeFilter::STREAM_WRITE;
            self.report_stream(reserved, ChangeKind::StreamModified, what);
            self.move_times(&reserved.file, node.as_ref(), StreamChange::Data, now)?;
            *record = self.record_at(&reserved.file, node.as_ref())?;
            return Ok(());
        }
        self.clear_set_id_bits(&reserved.file, node.as_ref())?;
        let beside = reserved.file.beside.lock();
        // Another request may have stored a record since this one was read.
        if let Some(stored) = reserved.file.record() {
            *record = stored;
        }
        let attributes = settable(request.attributes) | Attributes::ARCHIVE;
        let mut new = Record { attributes: Some(attributes), ..*record };
        let had_extended = record.extended_size > 0;
        if had_extended || !request.extended.is_empty() {
            for (name, _) in node.attributes()? {
                node.set_attribute(&name, None)?;
            }
            for (name, value) in request.extended {
                extended::set(node.as_ref(), name, value)?;
            }
            new.extended_size = extended_size(request.extended);
        }
        self.remove_unused_streams(&reserved.file, node.as_ref())?;
        let plain = Record { attributes: None, ..new };
        if plain.attributes != record.attributes
            && attributes == Attributes::ARCHIVE
            && !record_is_needed(record)
        {
            new = plain;
        }
        if new != *record {
            self.put_record(node.as_ref(), &new)?;
        }
        *record = new;
        let mut state = reserved.file.state.lock();
        state.record = Some(new);
        state.extended_size = None;
        drop((state, beside));
        if let Some(link) = &reserved.link {
            let what = ChangeFilter::SIZE | ChangeFilter::LAST_WRITE | ChangeFilter::ATTRIBUTES;
            self.report(link, None, ChangeKind::Modified, what);
        }
        Ok(())
    }

    /// Removes named streams that are not open.
    fn remove_unused_streams(&self, file: &Arc<File>, node: &dyn Node) -> Result<(), Refusal> {
        if !self.settings().streams {
            return Ok(());
        }
        for info in node.streams()? {
            let is_open = file.any_member(|m| m.stream.name().as_ref() == Some(&info.name));
            if !is_open {
                node.remove_stream(&info.name)?;
            }
        }
        Ok(())
    }
}

/// The end of data or storage.
fn extent_of(stat: &volume::Stat) -> u64 {
    stat.size.max(stat.allocated)
}

/// Whether a record must stay although its attribute bits say nothing.
fn record_is_needed(record: &Record) -> bool {
    record.attributes.is_some()
}

/// Whether the target is of the requested kind.
// MS-FSA 2.1.5.1
fn check_kind(request: &OpenRequest<'_>, target: &OpenCandidate) -> Result<(), Refusal> {
    let is_directory = target.node.kind() == NodeKind::Directory;
    let opens_directory = is_directory && request.stream.is_none();
    if request.options.contains(Options::DIRECTORY) && !is_directory {
        return Err(match request.disposition {
            Disposition::Create => Refusal::Exists,
            _ => Refusal::NotADirectory,
        });
    }
    if opens_directory && request.options.contains(Options::NOT_DIRECTORY) {
        return Err(Refusal::IsADirectory);
    }
    if opens_directory && !matches!(request.disposition, Disposition::Open | Disposition::OpenOrCreate) {
        return Err(if target.parent_and_name.is_none() { Refusal::AccessDenied } else { Refusal::Exists });
    }
    Ok(())
}

/// The effect of the disposition on an existing target.
fn effect_of(request: &OpenRequest<'_>, stream_exists: bool) -> Result<Effect, Refusal> {
    let exists = request.stream.is_none() || stream_exists;
    match (request.disposition, exists) {
        (Disposition::Create, true) => Err(Refusal::Exists),
        (Disposition::Open | Disposition::OpenOrCreate, true) => Ok(Effect::Open),
        (Disposition::Overwrite | Disposition::OverwriteOrCreate, true) => Ok(Effect::Overwrite),
        (Disposition::Supersede, true) => Ok(Effect::Supersede),
        (Disposition::Open | Disposition::Overwrite, false) => Err(Refusal::NotFound),
        (_, false) => Ok(Effect::MakeStream),
    }
}

/// Rights that replacing needs beside the requested ones.
// MS-FSA 2.1.5.1.2
fn needs_of(effect: Effect, is_stream: bool) -> Rights {
    let whole = if is_stream { Rights::empty() } else { Rights::WRITE_EA | Rights::WRITE_ATTRIBUTES };
    match effect {
        Effect::Open => Rights::empty(),
        Effect::Overwrite => whole | Rights::WRITE_DATA,
        Effect::Supersede => whole | Rights::DELETE,
        Effect::MakeStream => Rights::WRITE_DATA,
    }
}
