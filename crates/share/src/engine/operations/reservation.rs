//! An open between its reservation among the others and the moment when the client gets it.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64};
use std::sync::{Arc, OnceLock};

use volume::security::Rights;
use volume::{Name, Node, OpenHow, Stat, Time};

use crate::caching::grants::{Grant, Requester};
use crate::engine::Share;
use crate::engine::parts::file::{File, HardLinkedName, Stream};
use crate::engine::parts::names::directory::Directory;
use crate::engine::services::freshness::LookupCounters;
use crate::open::{AuditedUse, OpenParty};
use crate::ranked::{Mutex, Rank, RwLock};
use crate::{
    Attributes, Caller, ChangeFilter, ChangeKind, Info, Open, OpenRequest, OpenResult, Options, Outcome,
    Refusal, Ticket,
};

/// The result of one attempt to open.
pub(crate) enum Attempt {
    Done(Box<OpenResult>),
    Wait(Ticket),
    /// The objects are no longer as they were found.
    Again,
}

/// The object to open.
pub(crate) struct OpenCandidate {
    /// The directory and the name in it; none for the root.
    pub parent_and_name: Option<(Arc<Directory>, Name)>,
    pub node: Arc<dyn Node>,
    /// It was found before, and may have lost its last name since.
    pub may_be_gone: bool,
    /// The stat that the volume returned for this very request.
    pub seen: Option<Stat>,
    /// It was found in the cache of names.
    pub is_from_memory: bool,
    /// The state of the cache before the lookup of its name.
    pub since: LookupCounters,
}

impl OpenCandidate {
    pub fn of(
        parent_and_name: Option<(Arc<Directory>, Name)>,
        node: Arc<dyn Node>,
        may_be_gone: bool,
    ) -> OpenCandidate {
        OpenCandidate {
            parent_and_name,
            node,
            may_be_gone,
            seen: None,
            is_from_memory: false,
            since: LookupCounters::default(),
        }
    }

    /// An object that was found before this request and may be gone.
    pub fn found_before(
        parent_and_name: Option<(Arc<Directory>, Name)>,
        node: Arc<dyn Node>,
    ) -> OpenCandidate {
        OpenCandidate::of(parent_and_name, node, true)
    }
}

/// The remaining parts of a reserved open that is complete.
pub(crate) struct Ready {
    pub node: Arc<dyn Node>,
    /// The node with the data: the file or one of its streams.
    pub data: Arc<dyn Node>,
    pub outcome: Outcome,
    pub info: Info,
}

/// An open that others already see, before the client gets it.
pub(crate) struct Reserved {
    pub id: u64,
    pub file: Arc<File>,
    pub stream: Arc<Stream>,
    pub link: Option<Arc<HardLinkedName>>,
    pub requester: Requester,
    pub granted: Rights,
    pub grant: Option<Grant>,
    /// [`Stream::given`] when the open was entered.
    pub given: u64,
}

impl Share {
    /// The node that opens of a file share, opened for more access if needed.
    pub(crate) fn shared_node(
        &self,
        file: &Arc<File>,
        found: &Arc<dyn Node>,
        how: OpenHow,
    ) -> Result<Arc<dyn Node>, Refusal> {
        if let Some(kept) = file.node_for(how) {
            return Ok(kept);
        }
        let enough = if found.how() >= how || file.is_directory && found.how() >= OpenHow::Read {
            Arc::clone(found)
        } else {
            found.open_again(how)?
        };
        Ok(file.share_node(enough))
    }

    /// Returns a reserved open to the client.
    pub(crate) fn complete_open(
        &self,
        caller: &Caller<'_>,
        request: &OpenRequest<'_>,
        reserved: Reserved,
        Ready { node, data, outcome, info }: Ready,
    ) -> Attempt {
        let told_failures = AtomicU64::new(reserved.file.failed_syncs());
        let open = Arc::new(Open {
            id: reserved.id,
            file: reserved.file,
            stream: reserved.stream,
            data,
            node: node.into(),
            link: reserved.link,
            granted: reserved.granted,
            deny: request.deny,
            options: if request.step_of.is_some() {
                request.options | Options::STEP
            } else {
                request.options
            },
            party: RwLock::new(
                Rank::Party,
                OpenParty {
                    client: caller.client,
                    identity: Arc::clone(caller.identity),
                    requester: reserved.requester,
                    details: caller.details.cloned(),
                },
            ),
            opened_at: Time::from_wall_ns(caller.now.wall_ns),
            closed: AtomicBool::new(false),
            detached: AtomicBool::new(false),
            persistent: AtomicBool::new(false),
            claimed: AtomicBool::new(false),
            fixed_times: AtomicU8::new(0),
            unreported: AtomicU32::new(0),
            told_failures,
            followed: OnceLock::new(),
            watch: Mutex::new(Rank::OpenWatch, None),
            charge: Mutex::new(
                Rank::OpenCharge,
                self.client_memory().charge_open(caller.client, caller.identity),
            ),
            audited: AuditedUse::default(),
        });
        let mut state = open.file.state.lock();
        if let Some(member) = state.members.iter_mut().find(|m| m.id == open.id) {
            member.open = Arc::downgrade(&open);
        }
        drop(state);
        self.open_files().count_opened();
        self.descriptors().fairness().opened(caller.client, caller.now);
        Attempt::Done(Box::new(OpenResult { open, outcome, info, granted: reserved.grant }))
    }

    /// Reports a change of the stream that is being opened.
    pub(crate) fn report_stream(&self, reserved: &Reserved, kind: ChangeKind, what: ChangeFilter) {
        if let Some(link) = &reserved.link {
            self.report(link, reserved.stream.name(), kind, what);
        }
    }
}

/// The access for which a node must be open so that these rights can be used.
pub(crate) fn how_for_rights(granted: Rights) -> OpenHow {
    if granted.intersects(Rights::WRITE_DATA | Rights::APPEND_DATA) {
        OpenHow::ReadWrite
    } else if granted.intersects(Rights::READ_DATA | Rights::EXECUTE) {
        OpenHow::Read
    } else {
        OpenHow::Attributes
    }
}

/// The attribute bits that a client may give a new file.
// MS-FSA 2.1.5.1.1
pub(crate) fn settable(attributes: Attributes) -> Attributes {
    attributes
        & (Attributes::READ_ONLY
            | Attributes::HIDDEN
            | Attributes::SYSTEM
            | Attributes::ARCHIVE
            | Attributes::TEMPORARY
            | Attributes::OFFLINE
            | Attributes::NOT_INDEXED)
}
