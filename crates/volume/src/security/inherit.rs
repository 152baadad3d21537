//! The descriptor of a new object, and the result of setting parts of a stored descriptor.

use super::descriptor::{DACL_BITS, SACL_BITS};
use super::{Ace, AceFlags, AceKind, Acl, Control, Descriptor, Parts, Rights, Sid, Token, well_known};

/// Makes the descriptor of a new object.
///
/// `parent` is the descriptor of its directory, `creator` is the identity that creates it, and `explicit`
/// is the descriptor in the request. An explicit access list is used as it is. If the request asks for
/// inheritance too ([`Control::DACL_AUTO_INHERIT_REQ`], not protected), the inherited entries follow it.
/// Without an explicit list the inherited entries are the list. If there are none, the owner and the
/// machine get all rights.
// MS-DTYP 2.5.3.4.1
#[must_use]
pub fn inherit(
    parent: Option<&Descriptor>,
    creator: &Token,
    is_directory: bool,
    explicit: Option<&Descriptor>,
) -> Descriptor {
    let owner = explicit.and_then(|e| e.owner).unwrap_or(creator.owner);
    let group = explicit.and_then(|e| e.group).unwrap_or(creator.group);
    let made = NewObject { owner, group, is_directory };
    let (dacl, dacl_control) = made.list(parent, explicit, &DACL);
    let (sacl, sacl_control) = made.list(parent, explicit, &SACL);
    let (dacl, dacl_control) = if dacl_control.contains(Control::DACL_PRESENT) {
        (dacl, dacl_control)
    } else {
        (Some(default_list(owner)), Control::DACL_PRESENT)
    };
    let kept = explicit.map_or(Control::empty(), |e| e.control & Control::RM_CONTROL_VALID);
    Descriptor {
        control: dacl_control | sacl_control | kept,
        resource_manager: explicit.map_or(0, |e| e.resource_manager),
        owner: Some(owner),
        group: Some(group),
        sacl,
        dacl,
    }
}

/// Sets the given parts of a stored descriptor. Generic rights are mapped. Inheritance is marked only
/// when the request asks for it, as a file system does.
// MS-DTYP 2.4.6
pub fn amend(stored: &mut Descriptor, given: &Descriptor, parts: Parts) {
    let whole = parts.contains(Parts::BACKUP);
    if whole || parts.contains(Parts::OWNER) {
        stored.owner = given.owner.or(stored.owner);
        stored.control -= Control::OWNER_DEFAULTED;
    }
    if whole || parts.contains(Parts::GROUP) {
        stored.group = given.group.or(stored.group);
        stored.control -= Control::GROUP_DEFAULTED;
    }
    if whole || parts.contains(Parts::DACL) {
        stored.dacl = given.dacl.as_ref().map(mapped);
        let control = DACL.stored_control(given.control) | Control::DACL_PRESENT;
        stored.control = (stored.control - DACL_BITS) | control;
    }
    if whole || parts.contains(Parts::SACL) {
        stored.sacl = given.sacl.as_ref().map(mapped);
        let is_there = if given.sacl.is_some() { Control::SACL_PRESENT } else { Control::empty() };
        stored.control = (stored.control - SACL_BITS) | SACL.stored_control(given.control) | is_there;
    }
    for (part, bit, on) in [
        (Parts::PROTECTED_DACL, Control::DACL_PROTECTED, true),
        (Parts::UNPROTECTED_DACL, Control::DACL_PROTECTED, false),
        (Parts::PROTECTED_SACL, Control::SACL_PROTECTED, true),
        (Parts::UNPROTECTED_SACL, Control::SACL_PROTECTED, false),
    ] {
        if parts.contains(part) {
            stored.control.set(bit, on);
        }
    }
}

/// Changes the owner or group of a stored descriptor. Entries about the old owner then are about the new
/// one.
// RFC 8881 6.2.1.5
pub fn give_to(stored: &mut Descriptor, owner: Option<Sid>, group: Option<Sid>) {
    for (own, new) in [(&mut stored.owner, owner), (&mut stored.group, group)] {
        let Some(new) = new else { continue };
        let old = own.replace(new);
        let aces = stored.dacl.iter_mut().flat_map(|list| &mut list.aces);
        for ace in aces.filter(|ace| !ace.flags.contains(AceFlags::INHERIT_ONLY)) {
            if let (Some(rights), true) = (ace.rights(), ace.sid().copied() == old && old.is_some()) {
                *ace = ace.with(ace.flags, rights, new);
            }
        }
    }
}

/// The differences between the two lists of a descriptor.
struct ListBits {
    of: fn(&Descriptor) -> Option<&Acl>,
    present: Control,
    protected: Control,
    requested: Control,
    inherited: Control,
}

const DACL: ListBits = ListBits {
    of: |d| d.dacl.as_ref(),
    present: Control::DACL_PRESENT,
    protected: Control::DACL_PROTECTED,
    requested: Control::DACL_AUTO_INHERIT_REQ,
    inherited: Control::DACL_AUTO_INHERITED,
};
const SACL: ListBits = ListBits {
    of: |d| d.sacl.as_ref(),
    present: Control::SACL_PRESENT,
    protected: Control::SACL_PROTECTED,
    requested: Control::SACL_AUTO_INHERIT_REQ,
    inherited: Control::SACL_AUTO_INHERITED,
};

impl ListBits {
    /// The control bits that are stored when a list is set. The mark of inheritance is stored only
    /// together with the request for it, and the request itself never.
    fn stored_control(&self, given: Control) -> Control {
        let both = self.requested | self.inherited;
        let mark = if given.contains(both) { self.inherited } else { Control::empty() };
        (given & self.protected) | mark
    }
}

/// The object that is created.
struct NewObject {
    owner: Sid,
    group: Sid,
    is_directory: bool,
}

impl NewObject {
    /// One list of the new object, and the control bits that belong to it. Without the bit `present`
    /// there is no list.
    // MS-DTYP 2.5.3.4.2
    fn list(
        &self,
        parent: Option<&Descriptor>,
        explicit: Option<&Descriptor>,
        which: &ListBits,
    ) -> (Option<Acl>, Control) {
        let marks = parent.is_some_and(|p| p.control.contains(which.inherited));
        let passed = || parent.and_then(which.of).map(|list| self.passed_on(list, marks)).unwrap_or_default();
        if let Some(explicit) = explicit.filter(|e| e.control.contains(which.present)) {
            let control = which.present | which.stored_control(explicit.control);
            let Some(list) = (which.of)(explicit) else {
                return (None, control);
            };
            let is_protected = explicit.control.contains(which.protected);
            let merges = explicit.control.contains(which.requested) && !is_protected;
            let mut aces = self.asked_for(list, merges);
            if merges {
                aces.extend(passed());
                return (Some(Acl::new(aces)), control | which.inherited);
            }
            return (Some(Acl::new(aces)), control);
        }
        let aces = passed();
        if aces.is_empty() {
            return (None, Control::empty());
        }
        (Some(Acl::new(aces)), which.present | if marks { which.inherited } else { Control::empty() })
    }

    /// The entries that a directory's list passes on. They carry the mark of inheritance when the
    /// directory itself takes part in automatic inheritance.
    // MS-DTYP 2.5.3.4.4
    fn passed_on(&self, parent: &Acl, marks: bool) -> Vec<Ace> {
        let mark = if marks { AceFlags::INHERITED } else { AceFlags::empty() };
        let mut out = Vec::new();
        for ace in &parent.aces {
            let audit = ace.flags & (AceFlags::AUDIT_SUCCESS | AceFlags::AUDIT_FAILURE);
            let passes = ace.flags & (AceFlags::OBJECT_INHERIT | AceFlags::CONTAINER_INHERIT);
            let reaches = match self.is_directory {
                true => passes.contains(AceFlags::CONTAINER_INHERIT),
                false => passes.contains(AceFlags::OBJECT_INHERIT),
            };
            let goes_on =
                self.is_directory && !passes.is_empty() && !ace.flags.contains(AceFlags::NO_PROPAGATE);
            match (reaches, goes_on) {
                (false, false) => {}
                (true, false) => out.push(self.made_concrete(ace, audit | mark)),
                (false, true) => {
                    out.push(Ace { flags: audit | mark | passes | AceFlags::INHERIT_ONLY, ..ace.clone() })
                }
                (true, true) => self.in_force_and_passed_on(ace, audit | mark, passes, &mut out),
            }
        }
        out
    }

    /// Adds an entry that counts for a directory and for its future children. These are two entries when
    /// it must be made concrete for the directory, otherwise one.
    fn in_force_and_passed_on(&self, ace: &Ace, base: AceFlags, passes: AceFlags, out: &mut Vec<Ace>) {
        let here = self.made_concrete(ace, base);
        if here.kind == ace.kind {
            out.push(Ace { flags: base | passes, ..here });
        } else {
            out.push(here);
            out.push(Ace { flags: base | passes | AceFlags::INHERIT_ONLY, ..ace.clone() });
        }
    }

    /// The explicit list of the request. Its inherited entries are left out when the parent's entries are
    /// computed anew.
    // MS-DTYP 2.5.3.4.5
    // MS-DTYP 2.5.3.4.6
    fn asked_for(&self, list: &Acl, without_inherited: bool) -> Vec<Ace> {
        let mut out = Vec::new();
        for ace in &list.aces {
            if without_inherited && ace.flags.contains(AceFlags::INHERITED) {
                continue;
            }
            let passes =
                ace.flags & (AceFlags::OBJECT_INHERIT | AceFlags::CONTAINER_INHERIT | AceFlags::NO_PROPAGATE);
            if ace.flags.contains(AceFlags::INHERIT_ONLY) {
                out.push(ace.clone());
            } else if self.is_directory
                && passes.intersects(AceFlags::OBJECT_INHERIT | AceFlags::CONTAINER_INHERIT)
            {
                self.in_force_and_passed_on(ace, ace.flags - passes, passes, &mut out);
            } else {
                out.push(self.made_concrete(ace, ace.flags));
            }
        }
        out
    }

    /// The entry with Creator Owner and Creator Group replaced and generic rights mapped.
    // MS-DTYP 2.5.3.4.7
    fn made_concrete(&self, ace: &Ace, flags: AceFlags) -> Ace {
        let (Some(&sid), Some(rights)) = (ace.sid(), ace.rights()) else {
            return Ace { flags, ..ace.clone() };
        };
        let sid = match sid {
            well_known::CREATOR_OWNER => self.owner,
            well_known::CREATOR_GROUP => self.group,
            other => other,
        };
        ace.with(flags, rights.mapped(), sid)
    }
}

/// The list of an object that inherits nothing.
fn default_list(owner: Sid) -> Acl {
    let mut aces = vec![Ace::allow(owner, Rights::ALL, AceFlags::empty())];
    if owner != well_known::SYSTEM {
        aces.push(Ace::allow(well_known::SYSTEM, Rights::ALL, AceFlags::empty()));
    }
    Acl::new(aces)
}

/// The list with generic rights mapped in the entries that have an effect on the object itself.
fn mapped(list: &Acl) -> Acl {
    let one = |ace: &Ace| match (&ace.kind, ace.sid(), ace.rights()) {
        (AceKind::Other { .. }, ..) => ace.clone(),
        (_, Some(sid), Some(rights)) if !ace.flags.contains(AceFlags::INHERIT_ONLY) => {
            ace.with(ace.flags, rights.mapped(), *sid)
        }
        _ => ace.clone(),
    };
    Acl::new(list.aces.iter().map(one).collect())
}

#[cfg(test)]
mod tests;
