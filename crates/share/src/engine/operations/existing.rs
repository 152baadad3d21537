//! Opening what exists: may the caller, do the others allow it, and what is done to it then.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use volume::security::Rights;
use volume::{Failure, Name, Node, NodeKind, OpenHow, Stat};
use wire::Now;

use crate::caching::grants::{Deadlines, Need};
use crate::engine::Share;
use crate::engine::finding::followed::acts_on_name;
use crate::engine::operations::changed_data::StreamChange;
use crate::engine::operations::extended;
use crate::engine::operations::reserved::{Attempt, Ready, Reserved, Target, how_for_rights, settable};
use crate::engine::parts::file::{Deletion, File, Member, State, Stream, counted, looks_only, only_looks};
use crate::engine::parts::names::same_folded;
use crate::engine::services::facts::Facts;
use crate::engine::values::effects::Effects;
use crate::engine::values::record::Record;
use crate::info::extended_size;
use crate::{
    Attributes, Caller, ChangeFilter, ChangeKind, Disposition, OpenRequest, Options, Outcome, Refusal, Step,
};

/// How often a request is decided about because what the caller may changes under it; then it begins anew.
const MAX_DECISIONS: usize = 3;

/// What a request does to what exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    Open,
    /// Cut to nothing.
    Overwrite,
    /// Replaced.
    Supersede,
    /// A stream that does not exist yet is made.
    MakeStream,
}

/// A decision about an existing file, made before others are looked at.
struct Plan {
    effect: Effect,
    /// The stream's real name.
    stream: Option<Name>,
    /// The stream, when it exists.
    data: Option<Arc<dyn Node>>,
    /// Up to where the stream has data or storage, once it is replaced.
    extent: u64,
    /// What the open may do.
    granted: Rights,
    /// What it does now: also what replacing needs.
    uses: Rights,
    /// How many names the file has.
    names: u32,
}

impl Plan {
    /// Whether what was reserved for an earlier plan serves for this one, too.
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

/// A stream by its real name, and its data when it exists.
type FoundStream = (Option<Name>, Option<Arc<dyn Node>>);

/// How a reservation ended.
enum Tried {
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
        target: Target,
    ) -> Result<Attempt, Refusal> {
        let is_itself = request.options.contains(Options::OPEN_LINK) || acts_on_name(request);
        if let Err(why) = check_kind(request, &target) {
            if !is_itself {
                self.stop_at_reparse(target.node.as_ref(), 0)?;
            }
            return Err(why);
        }
        let file = self.open_files().enter(target.node.id(), target.node.kind());
        let result = self.plan_and_reserve(caller, request, &target, &file);
        let (facts, plan, reserved) = match result {
            Ok((facts, plan, Tried::Reserved(reserved))) => (facts, plan, reserved),
            Ok((.., Tried::Wait(ticket))) => return Ok(Attempt::Wait(ticket)),
            Ok((.., Tried::Again)) => return Ok(Attempt::Again),
            Err(Refusal::Gone) => {
                // Its event is still on the way.
                if let Some((parent, name)) = &target.place {
                    parent.forget_name(name);
                }
                // What was found before is looked up again by who found it.
                let is_again = target.is_from_memory && !target.may_be_gone;
                return if is_again { Ok(Attempt::Again) } else { Err(Refusal::Gone) };
            }
            Err(why) => return Err(why),
        };
        let (file, id) = (file.into_open(), reserved.id);
        let finished = self.finish_existing(caller, request, &target, facts, plan, reserved);
        if finished.is_err() {
            self.abandon(&file, id);
        }
        finished
    }

    /// Decides, and enters the open among the others. What was changed between both was done before anybody had to ask this open to
    /// give way, so that it is judged and shown as it is now.
    fn plan_and_reserve(
        &self,
        caller: &Caller<'_>,
        request: &OpenRequest<'_>,
        target: &Target,
        file: &Arc<File>,
    ) -> Result<(Facts, Plan, Tried), Refusal> {
        let mut changes = self.changes_of(file);
        let seen = target.seen.filter(|_| self.is_unchanged(file, target.since));
        let (mut facts, mut plan) = self.decide(caller, request, target, file, seen)?;
        for _ in 0..MAX_DECISIONS {
            let reserved = match self.reserve(caller, request, target, file, &plan)? {
                Tried::Reserved(reserved) => reserved,
                other => return Ok((facts, plan, other)),
            };
            if !self.is_still_there(target, file) {
                self.abandon(file, reserved.id);
                break;
            }
            let before = std::mem::replace(&mut changes, self.changes_of(file));
            if changes == before {
                return Ok((facts, plan, Tried::Reserved(reserved)));
            }
            let decided = self.decide(caller, request, target, file, None);
            let (facts_now, mut plan_now) = decided.inspect_err(|_| self.abandon(file, reserved.id))?;
            if plan_now.suits(&plan, &reserved) {
                return Ok((facts_now, plan_now, Tried::Reserved(reserved)));
            }
            self.abandon(file, reserved.id);
            // However far it grows meanwhile.
            plan_now.extent = if plan_now.extent > plan.extent { u64::MAX } else { plan_now.extent };
            (facts, plan) = (facts_now, plan_now);
        }
        Ok((facts, plan, Tried::Again))
    }

    /// Reads what the decision needs, and makes it.
    fn decide(
        &self,
        caller: &Caller<'_>,
        request: &OpenRequest<'_>,
        target: &Target,
        file: &Arc<File>,
        seen: Option<Stat>,
    ) -> Result<(Facts, Plan), Refusal> {
        let facts = self.facts(file, target.node.as_ref(), target.place.as_ref(), seen)?;
        if facts.stat.links == 0 {
            // Who comes by a name does not get a file that has none, whoever else has it open.
            let is_gone = target.may_be_gone && !file.has_members();
            if is_gone || target.is_from_memory {
                return Err(Refusal::Gone);
            }
        }
        let is_itself = request.options.contains(Options::OPEN_LINK) || acts_on_name(request);
        if facts.record.has_reparse && !is_itself {
            self.stop_at_reparse(target.node.as_ref(), 0)?;
        }
        let plan = self.plan(caller, request, target, &facts)?;
        Ok((facts, plan))
    }

    /// Whether the name that was looked up leads to the file, now that the open stands among the others: who takes the name away
    /// from now on finds it there. Without that an open of a file that has lost this name would count under it, and what is made
    /// by that name next would go when such an open is deleted.
    fn is_still_there(&self, target: &Target, file: &File) -> bool {
        let Some((parent, name)) = &target.place else { return true };
        // Who is changing the name just now may not have seen that it is being opened.
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

    /// Decides what is to be done and whether the caller may.
    fn plan(
        &self,
        caller: &Caller<'_>,
        request: &OpenRequest<'_>,
        target: &Target,
        facts: &Facts,
    ) -> Result<Plan, Refusal> {
        let (stream, data) = match request.stream {
            None => (None, None),
            Some(asked) => self.find_stream(target.node.as_ref(), asked, request.options)?,
        };
        let effect = effect_of(request, data.is_some())?;
        if effect != Effect::Open || request.options.contains(Options::DELETE_ON_CLOSE) {
            self.check_writable()?;
        }
        let bits = facts.record.bits(&facts.stat);
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
        let parent = target.place.as_ref().map(|(parent, _)| parent);
        let security = facts.security.as_ref();
        let asked = self.rights_on(caller, security, parent, request.access | needs, request.options)?;
        let wants_maximum = request.access.contains(Rights::MAXIMUM_ALLOWED);
        let granted = if wants_maximum { asked } else { request.access.mapped() };
        let is_file = facts.stat.kind != NodeKind::Directory;
        // Permission bits that decide by themselves were looked at with the rights.
        let is_only_shown =
            facts.record.attributes.is_none() && request.options.contains(Options::MODE_DECIDES);
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
            if !granted.contains(Rights::DELETE) || facts.stat.fixed {
                return Err(Refusal::AccessDenied);
            }
            if let (None, Some(place)) = (&stream, &target.place) {
                self.check_removal(caller, place)?;
            }
        }
        let unwritable = match is_file && is_read_only {
            // The right that means nothing for a file goes too.
            true => writes | Rights::DELETE_CHILD,
            false => Rights::empty(),
        };
        let granted = granted - (unwritable - named);
        let extent = match (effect, &data) {
            _ if request.caching.is_none() => 0,
            (Effect::Open, None) => extent_of(&facts.stat),
            (Effect::Open, Some(data)) => extent_of(&data.stat()?),
            (Effect::Overwrite | Effect::Supersede | Effect::MakeStream, _) => 0,
        };
        // The names of a directory's children count as names of its own for the host.
        let names = if is_file { facts.stat.links } else { 1 };
        Ok(Plan { effect, stream, data, extent, granted, uses: granted | needs, names })
    }

    /// The stream that a name leads to, and what it is really called.
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

    /// Enters the open among the others, if they allow it.
    fn reserve(
        &self,
        caller: &Caller<'_>,
        request: &OpenRequest<'_>,
        target: &Target,
        file: &Arc<File>,
        plan: &Plan,
    ) -> Result<Tried, Refusal> {
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
        target: &Target,
        file: &Arc<File>,
        plan: &Plan,
        state: &mut State,
        effects: &mut Effects,
    ) -> Result<Tried, Refusal> {
        let link = match &target.place {
            Some((parent, name)) => Some(state.enter_link(parent, name)),
            // What was found by its address counts under a name that others have it open by.
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
        let (asker, caching) = self.asking(caller, request, &stream);
        if let Some(need) = self.in_the_way(request, plan, state, &stream, &asker)? {
            let entry = state.stream(&stream);
            let is_open_need = !matches!(need, Need::CloseKept);
            if self.require(file, entry, &asker, need, caller.cause(), effects) {
                return match self.park(caller, file, state, Refusal::SharingConflict) {
                    Step::Wait(ticket) => Ok(Tried::Wait(ticket)),
                    Step::Done(()) | Step::Refused(_) => Err(Refusal::SharingConflict),
                };
            }
            if !is_open_need && !state.shares(&stream, plan.uses, request.deny) {
                if !state.shares_but_for_absent(&stream, plan.uses, request.deny) {
                    return Err(Refusal::SharingConflict);
                }
                // Whoever has it open comes back, or their time ends.
                return match self.park(caller, file, state, Refusal::SharingConflict) {
                    Step::Wait(ticket) => Ok(Tried::Wait(ticket)),
                    Step::Done(()) | Step::Refused(_) => Err(Refusal::SharingConflict),
                };
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
            asker,
            delete_on_close: Deletion::on_close(id, request.options),
            open: std::sync::Weak::new(),
        });
        let grant = caching.map(|caching| {
            let caching = self.moderated(caching, file, caller.now);
            self.grant(file, state, &stream, &asker, &caching, plan.extent)
        });
        self.note_goes(&asker, &stream, request.options);
        let file = Arc::clone(file);
        let given = stream.given();
        Ok(Tried::Reserved(Reserved { id, file, stream, link, asker, granted: plan.granted, grant, given }))
    }

    /// What the request needs of those who hold caching rights; none when nothing is in the way.
    ///
    /// # Errors
    /// [`Refusal::SharingConflict`] when nobody's giving way would help.
    fn in_the_way(
        &self,
        request: &OpenRequest<'_>,
        plan: &Plan,
        state: &mut State,
        stream: &Arc<Stream>,
        asker: &crate::caching::grants::Asker,
    ) -> Result<Option<Need>, Refusal> {
        let replaces = matches!(plan.effect, Effect::Overwrite | Effect::Supersede);
        let looks = looks_only(request.access - Rights::READ_CONTROL);
        let open_need = match (replaces, looks) {
            (true, _) => Need::Replace,
            // Whoever only keeps the file open is asked to close when the name is marked, not now.
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
            // Who must not make anybody wait learns it by asking a copy.
            if need.is_some() && !may_break {
                let mut trial = grants.clone();
                if trial
                    .require(volume::NodeId { device: 0, inode: 0 }, asker, open_need, Deadlines::default())
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
        // The topmost right of a single open goes before sharing decides.
        // MS-FSA 2.1.5.1.2
        if grants.has_unkeyed_handle(asker) && !breaks_nothing {
            return Ok(Some(open_need));
        }
        Ok(Some(Need::CloseKept))
    }

    /// Does to the file what the request says, and hands the open out.
    fn finish_existing(
        &self,
        caller: &Caller<'_>,
        request: &OpenRequest<'_>,
        target: &Target,
        facts: Facts,
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
        let mut facts = facts;
        match plan.effect {
            Effect::Open => {}
            Effect::MakeStream => {
                self.tell_stream(&reserved, ChangeKind::StreamAdded, ChangeFilter::STREAM_NAME);
                self.move_times(&reserved.file, node.as_ref(), StreamChange::Made, caller.now)?;
                facts.record = self.record_at(&reserved.file, node.as_ref())?;
                facts.stat = node.stat()?;
            }
            Effect::Overwrite | Effect::Supersede => {
                let replaced = self.replace(request, caller.now, &reserved, &node, &data, &mut facts.record);
                let Reserved { file, stream, asker, given, .. } = &reserved;
                self.catch_up(file, stream, asker, Need::Replace, *given, caller.cause());
                replaced?;
                if let Some(link) = &reserved.link {
                    self.entries_changed(&link.place().0, &reserved.asker, caller.cause());
                }
                facts.stat = node.stat()?;
            }
        }
        if request.allocation > 0 && plan.effect != Effect::Open {
            data.allocate(0..request.allocation)?;
            self.own_changed(&reserved.file);
            facts.stat = node.stat()?;
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
            &facts.stat,
            &facts.record,
            reserved.stream.figures(data.as_ref())?,
        );
        Ok(self.hand_out(caller, request, reserved, Ready { node, data, outcome, info }))
    }

    /// Throws the contents away, and what else goes with them.
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
            self.tell_stream(reserved, ChangeKind::StreamModified, what);
            self.move_times(&reserved.file, node.as_ref(), StreamChange::Data, now)?;
            *record = self.record_at(&reserved.file, node.as_ref())?;
            return Ok(());
        }
        self.lend_no_rights(&reserved.file, node.as_ref())?;
        let beside = reserved.file.beside.lock();
        // Somebody may have stored another one since it was read.
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
            self.tell(link, None, ChangeKind::Modified, what);
        }
        Ok(())
    }

    /// Removes named streams that nobody has open.
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

/// Up to where there is data or storage.
fn extent_of(stat: &volume::Stat) -> u64 {
    stat.size.max(stat.allocated)
}

/// Whether a record must stay although its attribute bits say nothing.
fn record_is_needed(record: &Record) -> bool {
    record.attributes.is_some()
}

/// Whether what was found is of the kind that was asked for.
// MS-FSA 2.1.5.1
fn check_kind(request: &OpenRequest<'_>, target: &Target) -> Result<(), Refusal> {
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
        return Err(if target.place.is_none() { Refusal::AccessDenied } else { Refusal::Exists });
    }
    Ok(())
}

/// What the disposition means for what was found.
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

/// Rights that replacing needs beside those asked for.
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
