//! KERB_VALIDATION_INFO (MS-PAC 2.5): the user, and the user's groups.

use volume::security::Sid;

use super::ndr::NdrReader;
use super::{GroupAttributes, GroupSource, MAX_GROUPS, PacError, PacGroup};

/// The flag of UserFlags for ExtraSids.
const HAS_EXTRA_SIDS: u32 = 0x0000_0020;
/// The flag of UserFlags for ResourceGroupIds.
const HAS_RESOURCE_GROUPS: u32 = 0x0000_0200;

/// The fields that are of use.
pub(super) struct ValidationInfo {
    pub(super) kick_off: u64,
    pub(super) effective_name: String,
    pub(super) full_name: String,
    pub(super) domain_name: String,
    pub(super) domain: Sid,
    pub(super) user_account_control: u32,
    user_id: u32,
    primary_group_id: u32,
    groups: Vec<(u32, GroupAttributes)>,
    extra: Vec<(Sid, GroupAttributes)>,
    resource: Vec<(Sid, GroupAttributes)>,
}

impl ValidationInfo {
    /// Reads the structure.
    pub(super) fn parse(bytes: &[u8]) -> Result<ValidationInfo, PacError> {
        let bad = PacError::Malformed { structure: "KERB_VALIDATION_INFO" };
        let info = NdrReader::new(bytes).and_then(|mut from| read(&mut from)).ok_or(bad)?;
        if info.groups.len() + info.extra.len() + info.resource.len() > MAX_GROUPS {
            return Err(PacError::TooLarge { limit: MAX_GROUPS, of: "groups" });
        }
        Ok(info)
    }

    /// The user's SID, the primary group's, and those of all groups.
    pub(super) fn sids(&self) -> Result<(Sid, Sid, Vec<PacGroup>), PacError> {
        let bad = || PacError::Malformed { structure: "KERB_VALIDATION_INFO" };
        let account = |rid| self.domain.child(rid).ok_or_else(bad);
        // A user without a RID has the first of the extra SIDs, which is no group then.
        let (user, extra) = match (self.user_id, self.extra.split_first()) {
            (0, Some(((user, _), rest))) => (*user, rest),
            (0, None) => return Err(bad()),
            (rid, _) => (account(rid)?, &self.extra[..]),
        };
        let mut groups = Vec::with_capacity(self.groups.len() + extra.len() + self.resource.len());
        for &(rid, attributes) in &self.groups {
            groups.push(PacGroup { sid: account(rid)?, attributes, source: GroupSource::Account });
        }
        let of = |source| move |&(sid, attributes): &(Sid, _)| PacGroup { sid, attributes, source };
        groups.extend(extra.iter().map(of(GroupSource::Extra)));
        groups.extend(self.resource.iter().map(of(GroupSource::Resource)));
        Ok((user, account(self.primary_group_id)?, groups))
    }
}

/// Reads the fixed part, and then what its pointers lead to, in their order (C706 14.3.12.3).
fn read(from: &mut NdrReader<'_>) -> Option<ValidationInfo> {
    let [_logon, _logoff, kick_off, _set, _can_change, _must_change] = times(from)?;
    let (effective_name, full_name) = (from.string_pointer()?, from.string_pointer()?);
    // LogonScript, ProfilePath, HomeDirectory, HomeDirectoryDrive
    let unused = [(); 4].map(|()| from.string_pointer());
    let (_logon_count, _bad_password_count) = (from.u16()?, from.u16()?);
    let (user_id, primary_group_id) = (from.u32()?, from.u32()?);
    let (group_count, has_groups) = (from.u32()?, from.pointer()?);
    let flags = from.u32()?;
    // UserSessionKey
    from.skip(16)?;
    let (server, domain_name) = (from.string_pointer()?, from.string_pointer()?);
    let has_domain = from.pointer()?;
    // Reserved1
    from.skip(8)?;
    let user_account_control = from.u32()?;
    // SubAuthStatus, LastSuccessfulILogon, LastFailedILogon, FailedILogonCount, Reserved3
    from.skip(4 + 8 + 8 + 4 + 4)?;
    let (extra_count, has_extra) = (from.u32()?, from.pointer()?);
    let has_resource_domain = from.pointer()?;
    let (resource_count, has_resource) = (from.u32()?, from.pointer()?);

    let (effective_name, full_name) = (from.string(effective_name)?, from.string(full_name)?);
    for pointer in unused {
        from.string(pointer?)?;
    }
    let groups = from.memberships(has_groups, group_count)?;
    from.string(server)?;
    let domain_name = from.string(domain_name)?;
    let domain = if has_domain { from.sid()? } else { return None };
    let extra = extra_sids(from, has_extra, extra_count)?;
    let resource_domain = if has_resource_domain { Some(from.sid()?) } else { None };
    let resource = from.memberships(has_resource, resource_count)?;
    let resource = match resource_domain {
        Some(domain) => {
            { resource.into_iter().map(|(rid, attributes)| Some((domain.child(rid)?, attributes))) }
                .collect::<Option<Vec<_>>>()?
        }
        None if resource.is_empty() => Vec::new(),
        None => return None,
    };
    Some(ValidationInfo {
        kick_off,
        effective_name,
        full_name,
        domain_name,
        domain,
        user_account_control,
        user_id,
        primary_group_id,
        groups,
        // A list without its flag does not count (MS-PAC 2.5 UserFlags).
        extra: if flags & HAS_EXTRA_SIDS != 0 { extra } else { Vec::new() },
        resource: if flags & HAS_RESOURCE_GROUPS != 0 { resource } else { Vec::new() },
    })
}

fn times(from: &mut NdrReader<'_>) -> Option<[u64; 6]> {
    let mut times = [0; 6];
    for time in &mut times {
        *time = from.file_time()?;
    }
    Some(times)
}

/// An array of KERB_SID_AND_ATTRIBUTES (MS-PAC 2.2.1): the pointers first, then the SIDs.
fn extra_sids(from: &mut NdrReader<'_>, is_there: bool, count: u32) -> Option<Vec<(Sid, GroupAttributes)>> {
    if !is_there {
        return (count == 0).then(Vec::new);
    }
    let entries = from.array(count, 8)?;
    let mut attributes = Vec::with_capacity(entries);
    for _ in 0..entries {
        if !from.pointer()? {
            return None;
        }
        attributes.push(GroupAttributes(from.u32()?));
    }
    attributes.into_iter().map(|attributes| Some((from.sid()?, attributes))).collect()
}
