//! Extended attributes.

use std::sync::Arc;

use volume::security::Rights;
use volume::{Failure, Node};

use crate::engine::Share;
use crate::engine::parts::names::same_folded;
use crate::engine::services::audit::AuditedStep;
use crate::engine::values::record::Record;
use crate::info::extended_size;
use crate::ranked::MutexGuard;
use crate::{AuditDetail, AuditedOperation, CallResult, Caller, ChangeFilter, ChangeKind, Open, Refusal};

/// Extended attributes by name.
pub type Extended = Vec<(Vec<u8>, Vec<u8>)>;

/// Longest list form in bytes.
const MAX_SIZE: u32 = 0xffff;

impl Share {
    /// All extended attributes, by name.
    ///
    /// # Errors
    /// [`Refusal::AccessDenied`]; the volume's error.
    // MS-FSA 2.1.5.12.12
    pub fn extended(&self, open: &Open) -> Result<Extended, Refusal> {
        if !open.granted.contains(Rights::READ_EA) {
            return Err(Refusal::AccessDenied);
        }
        Ok(open.node.attributes()?)
    }

    /// Sets extended attributes; an empty value removes one. Names are compared without regard to case. Waits
    /// for holders that cache them.
    // MS-FSA 2.1.5.15.6
    pub fn set_extended(
        &self,
        caller: &Caller<'_>,
        open: &Arc<Open>,
        changes: &[(Vec<u8>, Vec<u8>)],
    ) -> CallResult<()> {
        let may = self.check_extended(open);
        let set = self.after_attributes(caller, open, may, || self.amend_extended(open, changes));
        let first = changes.first().map_or(&b""[..], |(name, _)| name);
        self.audited(caller, open, change_of(first), set)
    }

    fn check_extended(&self, open: &Open) -> Result<(), Refusal> {
        if !open.granted.contains(Rights::WRITE_EA) {
            return Err(Refusal::AccessDenied);
        }
        self.check_writable()
    }

    fn amend_extended(&self, open: &Arc<Open>, changes: &[(Vec<u8>, Vec<u8>)]) -> Result<(), Refusal> {
        let beside = open.file.beside.lock();
        let mut all = open.node.attributes()?;
        for (name, value) in changes {
            check_name(name)?;
            let known = all.iter().position(|(known, _)| same_folded(known, name));
            match (known, value.is_empty()) {
                (Some(at), true) => drop(all.remove(at)),
                (Some(at), false) => all[at].1.clone_from(value),
                (None, false) => all.push((name.clone(), value.clone())),
                (None, true) => {}
            }
        }
        self.store_extended(open, &all, beside)
    }

    /// One extended attribute, by its exact name.
    ///
    /// # Errors
    /// [`Refusal::AccessDenied`], [`Refusal::NoSuchAttribute`]; the volume's error.
    pub fn attribute(&self, open: &Open, name: &[u8]) -> Result<Vec<u8>, Refusal> {
        let found = self.extended(open)?.into_iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value).ok_or(Refusal::NoSuchAttribute)
    }

    /// Sets one extended attribute by its exact name, or removes it (with `None`). `present` requires that it
    /// exists before, or that it does not. Waits for holders that cache it.
    pub fn set_attribute(
        &self,
        caller: &Caller<'_>,
        open: &Arc<Open>,
        name: &[u8],
        value: Option<&[u8]>,
        present: Option<bool>,
    ) -> CallResult<()> {
        let may = self.check_extended(open);
        let set =
            self.after_attributes(caller, open, may, || self.amend_attribute(open, name, value, present));
        self.audited(caller, open, change_of(name), set)
    }

    fn amend_attribute(
        &self,
        open: &Arc<Open>,
        name: &[u8],
        value: Option<&[u8]>,
        present: Option<bool>,
    ) -> Result<(), Refusal> {
        let beside = open.file.beside.lock();
        let mut all = open.node.attributes()?;
        let size_before = extended_size(&all);
        let known = all.iter().position(|(known, _)| known == name);
        match (known, present) {
            (None, Some(true)) => return Err(Refusal::NoSuchAttribute),
            (Some(_), Some(false)) => return Err(Refusal::Exists),
            _ => {}
        }
        match (known, value) {
            (Some(at), None) => drop(all.remove(at)),
            (Some(at), Some(value)) => all[at].1 = value.to_vec(),
            (None, Some(value)) => all.push((name.to_vec(), value.to_vec())),
            (None, None) => {}
        }
        // Too large means too large by itself (RFC 8276 8.4.2).
        if value.is_some_and(|value| extended_size(&[(name.to_vec(), value.to_vec())]) > MAX_SIZE) {
            return Err(Refusal::AttributesTooLarge);
        }
        // A program of the host may have set more than the limit. A change that makes the size smaller is
        // then allowed.
        let size = extended_size(&all);
        if size > MAX_SIZE && size > size_before {
            return Err(Refusal::NoSpace);
        }
        self.keep_extended(open, &all, beside)
    }

    /// Makes `all` the extended attributes of the file, and notifies watches.
    fn store_extended(
        &self,
        open: &Arc<Open>,
        all: &Extended,
        beside: MutexGuard<'_, ()>,
    ) -> Result<(), Refusal> {
        if extended_size(all) > MAX_SIZE {
            return Err(Refusal::AttributesTooLarge);
        }
        self.keep_extended(open, all, beside)
    }

    /// As `store_extended`, without a check of the size.
    fn keep_extended(
        &self,
        open: &Arc<Open>,
        all: &Extended,
        beside: MutexGuard<'_, ()>,
    ) -> Result<(), Refusal> {
        let before = open.node.attributes()?;
        if let Err(why) = replace(open.node.as_ref(), &before, all) {
            // As far as the host permits: a refused request shall have changed nothing.
            let _ = open.node.attributes().map(|now| replace(open.node.as_ref(), &now, &before));
            return Err(why);
        }
        let record = self.record_of(open)?;
        self.store_record(open, Record { extended_size: extended_size(all), ..record })?;
        open.file.note_extended_size(extended_size(all));
        drop(beside);
        if let Some(link) = &open.link {
            self.report(link, None, ChangeKind::Modified, ChangeFilter::EA);
        }
        Ok(())
    }
}

/// A change of an extended attribute, for the audit.
fn change_of(name: &[u8]) -> AuditedStep<'_> {
    AuditedStep::with(AuditedOperation::SetExtended, AuditDetail::Attribute(name))
}

/// Removes attributes that only `before` has, and sets those that are new in `all`.
fn replace(node: &dyn Node, before: &Extended, all: &Extended) -> Result<(), Refusal> {
    for (name, _) in before.iter().filter(|(name, _)| !all.iter().any(|(kept, _)| kept == name)) {
        node.set_attribute(name, None)?;
    }
    for (name, value) in all.iter().filter(|pair| !before.contains(pair)) {
        set(node, name, value)?;
    }
    Ok(())
}

/// Sets one extended attribute. If the attributes fill their room on the host, it is [`Refusal::NoSpace`].
/// Only an attribute that no file can have is too large.
pub(crate) fn set(node: &dyn Node, name: &[u8], value: &[u8]) -> Result<(), Refusal> {
    node.set_attribute(name, Some(value)).map_err(|failure| match failure {
        Failure::TooLarge => Refusal::AttributesTooLarge,
        other => other.into(),
    })
}

// MS-FSCC 2.4.15
fn check_name(name: &[u8]) -> Result<(), Refusal> {
    let is_bad = |b: &u8| *b < 0x20 || b"\"*+,/:;<=>?[\\]|".contains(b);
    if name.is_empty() || name.len() > 254 || name.iter().any(is_bad) {
        return Err(Refusal::BadAttributeName);
    }
    Ok(())
}
