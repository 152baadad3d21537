//! What a client wants to set of an object (RFC 8881 5.5, 18.30).

use nfs_wire::attr::{Attr, AttrError, AttrNum, Bitmap, Fattr};
use nfs_wire::types::SetTime;
use nfs_wire::{Malformed, NfsStat};
use share::engine::AccountMapping;
use share::{Item, Options};
use volume::Time;

use super::acl::{self, Given};
use super::time::time_of;
use super::{MAX_FILE, supported};
use crate::config::Export;

/// A time that a client wants to set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// The server's present time.
    Now,
    /// This time.
    At(Time),
}

/// Times that a client has kept (RFC 9754 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Delegated {
    /// Last read.
    pub accessed: Option<Time>,
    /// Last change of data.
    pub modified: Option<Time>,
}

impl Delegated {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Delegated::default()
    }
}

/// What a client wants to set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wanted {
    /// Length in bytes.
    pub size: Option<u64>,
    /// Permission bits.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Last read.
    pub accessed: Option<When>,
    /// Last change of data.
    pub modified: Option<When>,
    /// The same as kept by who has a delegation that says so.
    pub delegated: Delegated,
    /// The access list.
    pub list: Option<Given>,
    /// Bits that a new file's mode loses unless it inherits a list.
    pub umask: Option<u32>,
    /// All of these.
    pub mask: Bitmap,
}

impl Wanted {
    /// Reads what is to be set.
    ///
    /// # Errors
    /// NFS4ERR_ATTRNOTSUPP, NFS4ERR_INVAL for what can only be read, NFS4ERR_BADOWNER, NFS4ERR_BADXDR.
    pub fn read(given: &Fattr<'_>, minor: u32, accounts: &dyn AccountMapping) -> Result<Wanted, NfsStat> {
        let mut wanted = Wanted::default();
        let supported = supported(minor);
        if given.mask.beyond() || !given.mask.without(&supported).is_empty() {
            return Err(NfsStat::AttrNotSupp);
        }
        for attribute in given.iter() {
            let attribute = attribute.map_err(|error| match error {
                AttrError::Unknown(_) => NfsStat::AttrNotSupp,
                AttrError::Malformed(Malformed { .. }) => NfsStat::BadXdr,
            })?;
            wanted.mask.insert(attribute.number().get());
            match attribute {
                Attr::Size(size) if size <= MAX_FILE => wanted.size = Some(size),
                Attr::Size(_) => return Err(NfsStat::FBig),
                Attr::Mode(mode) if mode <= 0o7777 => wanted.mode = Some(mode),
                Attr::Owner(who) => wanted.uid = Some(acl::user(who, accounts)?),
                Attr::OwnerGroup(who) => wanted.gid = Some(acl::group(who, accounts)?),
                Attr::Acl(aces) => wanted.list = Some(Given::read(&aces, None)?),
                Attr::Dacl(list) => wanted.list = Some(Given::read(&list.aces, Some(list.flag))?),
                Attr::ModeUmask(given) if given.mode <= 0o7777 && given.umask <= 0o777 => {
                    (wanted.mode, wanted.umask) = (Some(given.mode), Some(given.umask));
                }
                Attr::TimeAccessSet(when) => wanted.accessed = Some(when_of(when)?),
                Attr::TimeModifySet(when) => wanted.modified = Some(when_of(when)?),
                Attr::TimeDelegAccess(time) => wanted.delegated.accessed = Some(time_of(time)?),
                Attr::TimeDelegModify(time) => wanted.delegated.modified = Some(time_of(time)?),
                _ => return Err(NfsStat::Inval),
            }
        }
        // RFC 8275 4.2; RFC 8881 6.2.1: one list is told of twice.
        let both = |a: AttrNum, b: AttrNum| wanted.mask.has(a.get()) && wanted.mask.has(b.get());
        // One time cannot be two.
        let twice = both(AttrNum::TimeAccessSet, AttrNum::TimeDelegAccess)
            || both(AttrNum::TimeModifySet, AttrNum::TimeDelegModify);
        if both(AttrNum::Mode, AttrNum::ModeUmask) || both(AttrNum::Acl, AttrNum::Dacl) || twice {
            return Err(NfsStat::Inval);
        }
        Ok(wanted)
    }

    /// The same for something that is made, of which nobody has kept the times.
    ///
    /// # Errors
    /// As [`Wanted::read`]; NFS4ERR_INVAL.
    pub fn read_for_new(
        given: &Fattr<'_>,
        minor: u32,
        accounts: &dyn AccountMapping,
    ) -> Result<Wanted, NfsStat> {
        let wanted = Wanted::read(given, minor, accounts)?;
        if wanted.delegated.is_empty() { Ok(wanted) } else { Err(NfsStat::Inval) }
    }

    /// The permission bits of something new below a directory, and how they count. A mode alone is applied to what is
    /// inherited; the maker's mask counts where nothing is, and what comes with it else only takes from that. Without a
    /// mode it is `default`, or none where a list is inherited.
    // RFC 8881 6.4.3, RFC 8275 4.2
    #[must_use]
    pub fn mode_below(&self, export: &Export, above: &Item, default: u32) -> (Option<u32>, Options) {
        let inherits = || {
            let above = export.engine.item_descriptor(above);
            above.is_ok_and(|(descriptor, _)| descriptor.dacl.is_some_and(|list| list.is_inheritable()))
        };
        match (self.mode, self.umask) {
            (Some(mode), None) => (Some(mode), Options::empty()),
            (Some(mode), Some(_)) if inherits() => (Some(mode), Options::MODE_LIMITS),
            (Some(mode), Some(umask)) => (Some(mode & !umask), Options::empty()),
            (None, _) => ((!inherits()).then_some(default), Options::empty()),
        }
    }
}

fn when_of(when: SetTime) -> Result<When, NfsStat> {
    match when {
        SetTime::Server => Ok(When::Now),
        SetTime::Client(time) => time_of(time).map(When::At),
    }
}

#[cfg(test)]
mod tests {
    use nfs_wire::types::FileType;
    use share::engine::NoAccounts;

    use super::*;

    #[test]
    fn what_can_only_be_read_is_not_set() {
        let read = |attributes: &[Attr<'_>]| {
            let mut room = Vec::new();
            Wanted::read(&Fattr::of(attributes, &mut room), 1, &NoAccounts)
        };
        assert_eq!(
            read(&[Attr::Size(5), Attr::Mode(0o640)]).map(|w| (w.size, w.mode)),
            Ok((Some(5), Some(0o640)))
        );
        assert_eq!(read(&[Attr::Type(FileType::Reg)]), Err(NfsStat::Inval));
        assert_eq!(read(&[Attr::Hidden(true)]), Err(NfsStat::AttrNotSupp));
        assert_eq!(read(&[Attr::Mode(0o10000)]), Err(NfsStat::Inval));
        assert_eq!(read(&[Attr::Size(u64::MAX)]), Err(NfsStat::FBig));
    }
}
