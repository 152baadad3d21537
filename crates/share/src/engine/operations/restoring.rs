//! Making opens again that were recorded before a restart.
//!
//! Each is made as it was, under the id it had: the file is found by its path and must be the same one,
//! since a path may lead to another file by now. Nobody is asked for anything meanwhile, since nobody else
//! is there yet.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use volume::journal::Journal;
use volume::security::Rights;
use volume::{Name, Node, NodeKind, OpenHow};
use wire::Now;

use crate::caching::grants::{Asker, Grant};
use crate::engine::Share;
use crate::engine::finding::look_up::{Named, Search};
use crate::engine::operations::reserved::how_for_rights;
use crate::engine::parts::file::{Deletion, File, Link, Member, State, Stream, counted, only_looks};
use crate::engine::parts::lasting::Recorder;
use crate::engine::parts::names::directory::Directory;
use crate::lasting::ledger::{Entry, Ledger};
use crate::lasting::record::{Goes, Made, Record, Right};
use crate::open::Party;
use crate::ranked::{Mutex, Rank, RwLock};
use crate::{Deny, Identity, Open, Options, Refusal, Restored, Unreadable, WhoIs};

/// The host's user and group that own nothing.
const NOBODY: u32 = 65_534;

/// The file of an open, found again.
struct Found {
    place: Option<(Arc<Directory>, Name)>,
    node: Arc<dyn Node>,
}

impl Share {
    /// Records opens in `journal` from `now` on, which has `records`, and makes the opens again of which they
    /// tell. To be called once, before anybody uses the share; what comes back is to be left
    /// ([`Share::leave`]) or closed. An open whose file is gone or another one, or whose user is gone, is
    /// dropped with a line in the log.
    ///
    /// # Errors
    /// [`Unreadable`]; nothing was changed.
    pub fn keep_opens(
        &self,
        journal: Arc<dyn Journal>,
        records: &[Vec<u8>],
        who: WhoIs<'_>,
        now: Now,
    ) -> Result<Vec<Restored>, Unreadable> {
        let ledger = Ledger::read(records)?;
        let mut changes: Vec<_> =
            self.open_files().versions().begin(&ledger, now).map(Record::Ahead).into_iter().collect();
        let next = ledger.live.last_key_value().map_or(1, |(id, _)| id + 1);
        self.open_files().begin_ids_at(next);
        let is_doubtful = journal.lacks_some();
        let mut restored = Vec::new();
        for (id, entry) in &ledger.live {
            let right = entry.holder().and_then(|holder| ledger.rights.get(&holder)).copied();
            match self.restore(entry, right, who) {
                Ok(open) => {
                    let Made { keep_ns, note, address, .. } = &entry.made;
                    let (note, address) = (note.clone(), address.clone());
                    restored.push(Restored { open, keep_ns: *keep_ns, note, address, is_doubtful });
                }
                Err(why) => {
                    let path = shown(&entry.made);
                    if is_doubtful {
                        tracing::info!(share = %self.name(), %path, why, "an open from before the restart is gone; that it was closed may stand in a damaged record");
                    } else {
                        tracing::warn!(share = %self.name(), %path, why, "an open from before the restart is gone");
                    }
                    changes.push(Record::Closed { id: *id });
                }
            }
        }
        self.lasting().record_in(Recorder::new(journal, ledger, changes)?);
        Ok(restored)
    }

    fn restore(
        &self,
        entry: &Entry,
        right: Option<Right>,
        who: WhoIs<'_>,
    ) -> Result<Arc<Open>, &'static str> {
        let made = &entry.made;
        // Who claims it will say who they are.
        let identity = if made.address.is_empty() { who(&made.user) } else { Some(nobody(made.user)) };
        let identity = identity.ok_or("there is no such user any more")?;
        let found = self.find_again(made)?;
        let cannot = |_: volume::Failure| "its file cannot be opened";
        let granted = Rights::from_bits_retain(made.granted);
        let file = self.open_files().enter(found.node.id(), found.node.kind());
        let how = if made.stream.is_some() { OpenHow::Attributes } else { how_for_rights(granted) };
        let node = self.shared_node(&file, &found.node, how).map_err(|_| "its file cannot be opened")?;
        let data = match &made.stream {
            None => Arc::clone(&node),
            Some(name) => node.open_stream(name, false, false).map_err(cannot)?,
        };
        if right.is_some() && found.place.is_none() {
            // Nobody would say that a program of the host has changed it.
            self.directories().note_untold();
        }
        Ok(self.enter_again(&file, entry, right, Found { node, ..found }, data, identity))
    }

    /// Enters the open among the others of its file.
    fn enter_again(
        &self,
        file: &Arc<File>,
        entry: &Entry,
        right: Option<Right>,
        Found { place, node }: Found,
        data: Arc<dyn Node>,
        identity: Arc<Identity>,
    ) -> Arc<Open> {
        let made = &entry.made;
        let (whole, charge) =
            (!made.address.is_empty(), self.client_memory().charge_open(made.client, &identity));
        let asker = Asker { client: Some(made.client), key: made.key, parent: made.parent, whole };
        let options = Options::from_bits_retain(made.options);
        let (granted, deny) = (Rights::from_bits_retain(made.granted), Deny::from_bits_truncate(made.deny));
        // Its permission bits were not looked at.
        file.lends_rights.store(true, Ordering::Relaxed);
        let mut state = file.state.lock();
        let link = place.map(|(parent, name)| state.enter_link(&parent, &name));
        let stream = state.enter_stream(made.stream.as_ref());
        let open = Arc::new(Open {
            id: made.id,
            file: Arc::clone(file),
            stream: Arc::clone(&stream),
            data,
            node: node.into(),
            link: link.clone(),
            granted,
            deny,
            options,
            party: RwLock::new(Rank::Party, Party { client: made.client, identity, asker }),
            opened_at: made.opened_at,
            closed: AtomicBool::new(false),
            detached: AtomicBool::new(false),
            lasting: AtomicBool::new(true),
            claimed: AtomicBool::new(!made.address.is_empty()),
            own_times: AtomicU8::new(0),
            untold: AtomicU32::new(0),
            told_failures: AtomicU64::new(file.failed_syncs()),
            followed: OnceLock::new(),
            watch: Mutex::new(Rank::OpenWatch, None),
            charge: Mutex::new(Rank::OpenCharge, charge),
        });
        state.members.push(Member {
            id: made.id,
            stream: Arc::clone(&stream),
            link: link.clone(),
            access: counted(granted, options),
            looks: only_looks(granted, options),
            deny,
            asker,
            delete_on_close: Deletion::on_close(made.id, options),
            open: Arc::downgrade(&open),
        });
        mark(&mut state, made, link.as_ref(), &stream, asker);
        let entered = state.stream(&stream);
        entered.ranges.restore(self.client_memory(), open.payer(), entry.ranges.held());
        if let (Some(holder), Some(right)) = (entry.holder(), right) {
            let Right { state, epoch, counts, parent } = right;
            let grant = Grant { state, epoch: counts.then_some(epoch), parent, breaking: None, whole };
            entered.grants.restore(holder, grant);
            self.rights().keys().enter(holder, file, &stream);
            self.note_goes(&asker, &stream, options);
            if made.goes.is_some() {
                self.rights().keys().set_goes(&asker, &stream, true);
            }
        }
        entered.publish();
        drop(state);
        self.open_files().came();
        open
    }

    /// The file of an open, at one of the places where it was, if it is still the same.
    fn find_again(&self, made: &Made) -> Result<Found, &'static str> {
        if !made.address.is_empty() {
            let node = self.volume().find(&made.address).map_err(|_| "its file is gone")?;
            let is_same = node.kind() != NodeKind::Directory && node.id().inode == made.inode;
            if !is_same {
                return Err("another file has its address");
            }
            let named = made.paths.iter().filter_map(|path| self.find_path(path).ok().flatten());
            let place = named.filter(|found| found.node.id() == node.id()).find_map(|found| found.place);
            return Ok(Found { place, node });
        }
        let mut why = "its file is gone";
        for path in &made.paths {
            let Ok(Some(found)) = self.find_path(path) else { continue };
            let Ok(stat) = found.node.stat() else { continue };
            if stat.kind != NodeKind::Directory && stat.id.inode == made.inode && stat.born == made.born {
                return Ok(found);
            }
            why = "another file has its name";
        }
        Err(why)
    }

    /// What an exact path leads to, without following links.
    fn find_path(&self, path: &[Name]) -> Result<Option<Found>, Refusal> {
        let search = Search { exact: true, how: OpenHow::Attributes, rather_missing: false };
        let Some((last, above)) = path.split_last() else { return Ok(None) };
        let mut here = Arc::clone(self.root());
        for name in above {
            let generation = here.generation();
            let Some(Named { name: real, node, .. }) = self.look_up(&here, name, search)? else {
                return Ok(None);
            };
            if node.kind() != NodeKind::Directory {
                return Ok(None);
            }
            here = self.directories().enter(&here, (name, &real), node, Some(generation));
        }
        let found = self.look_up(&here, last, search)?;
        Ok(found.map(|found| Found { place: Some((here, found.name)), node: found.node }))
    }
}

/// Marks again what was marked to go.
fn mark(state: &mut State, made: &Made, link: Option<&Arc<Link>>, stream: &Arc<Stream>, asker: Asker) {
    let Some(goes) = made.goes else { return };
    if stream.is_named {
        state.stream(stream).delete = true;
    } else if let Some(entry) = link.and_then(|link| state.link(link)) {
        let how = match goes {
            Goes::WithLast => Deletion::WithLast,
            Goes::WithOpen => Deletion::WithOpen(made.id),
        };
        (entry.delete, entry.deleter) = (Some(how), asker);
    }
}

/// Somebody who may do nothing: whose an open is until it is claimed.
fn nobody(sid: volume::security::Sid) -> Arc<Identity> {
    Arc::new(Identity {
        name: String::new(),
        sid,
        groups: Vec::new(),
        uid: NOBODY,
        gid: NOBODY,
        host_groups: Vec::new(),
        actor: None,
        administrator: false,
        unbound: false,
        limit: Rights::empty(),
    })
}

/// A path for people.
fn shown(made: &Made) -> String {
    if !made.address.is_empty() {
        return format!("inode {}", made.inode);
    }
    let names = made.paths.last().map_or(&[][..], |path| path);
    names.iter().map(|name| name.display().into_owned()).collect::<Vec<_>>().join("/")
}
