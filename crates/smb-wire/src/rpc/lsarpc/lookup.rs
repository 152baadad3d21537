//! The versions of LsarLookupSids and LsarLookupNames.

use super::{
    STATUS_INVALID_PARAMETER, STATUS_NONE_MAPPED, STATUS_SOME_NOT_MAPPED, STATUS_SUCCESS, policy_handle,
};
use crate::rpc::fault::Fault;
use crate::rpc::handles::Handles;
use crate::rpc::host::{Account, Host, NameUse, Resolved, ServerFacts};
use crate::rpc::ndr::{BadStub, StringHead, StubReader, Writer};
use crate::rpc::sid;

/// The version of an operation. The versions differ in the fields of each result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    /// The first.
    One,
    /// With flags.
    Two,
    /// With flags, and whole SIDs instead of their last parts.
    Three,
}

/// MS-LSAT 3.1.4.5 and 3.1.4.7: the most names in a call.
const MAX_NAMES: u32 = 1000;
/// MS-LSAT 2.2.17: the most SIDs in a call.
const MAX_SIDS: u32 = 20_480;
/// MS-LSAT 2.2.16 LsapLookupWksta: look everywhere. It is the only level of a server that is not a domain
/// controller.
const LOOKUP_WKSTA: u16 = 1;
/// The index for an account without a domain.
const NO_DOMAIN: u32 = u32::MAX;

/// The domains of the entries in a result.
#[derive(Default)]
struct Domains {
    list: Vec<(String, Vec<u8>)>,
}

impl Domains {
    fn index(&mut self, name: &str, domain_sid: &[u8]) -> u32 {
        let known = self.list.iter().position(|(_, sid)| sid == domain_sid);
        let index = known.unwrap_or_else(|| {
            self.list.push((name.to_string(), domain_sid.to_vec()));
            self.list.len() - 1
        });
        index as u32
    }

    /// Writes MS-LSAT 2.2.12 LSAPR_REFERENCED_DOMAIN_LIST, after its pointer.
    fn write(&self, out: &mut Writer) {
        let count = self.list.len() as u32;
        out.pointer();
        out.u32(count);
        if self.list.is_empty() {
            out.null();
            out.u32(0);
            return;
        }
        out.pointer();
        out.u32(count);
        out.u32(count);
        for (name, _) in &self.list {
            out.string_head(name);
            out.pointer();
        }
        for (name, sid) in &self.list {
            out.string_body(name);
            out.sid(sid);
        }
    }
}

/// The domain of an account. A domain has its own SID, any other account the SID without its last part.
fn domain_sid(kind: NameUse, sid: &[u8]) -> Vec<u8> {
    if kind == NameUse::Domain { sid.to_vec() } else { sid::domain_of(sid) }
}

/// The status for the number of found entries.
fn status(mapped: usize, asked: usize) -> u32 {
    match mapped {
        _ if mapped == asked => STATUS_SUCCESS,
        0 => STATUS_NONE_MAPPED,
        _ => STATUS_SOME_NOT_MAPPED,
    }
}

/// LsarLookupSids and LsarLookupSids2
pub(super) fn sids(
    args: &mut StubReader<'_>,
    out: &mut Writer,
    host: &dyn Host,
    handles: &Handles,
    version: Version,
) -> Result<(), Fault> {
    // MS-LSAT 3.1.4.10 and 3.1.4.11
    policy_handle(args, handles)?;
    let sids = read_sids(args)?;
    skip_translated(args)?;
    if args.u16()? != LOOKUP_WKSTA {
        nothing(out, STATUS_INVALID_PARAMETER);
        return Ok(());
    }
    let facts = host.facts();
    let mut domains = Domains::default();
    let names: Vec<(Account, u32)> =
        sids.iter().map(|sid| name_of(sid, host, &facts, &mut domains)).collect();
    let mapped = names.iter().filter(|(account, _)| account.kind != NameUse::Unknown).count();
    domains.write(out);
    out.u32(names.len() as u32);
    if names.is_empty() {
        out.null();
    } else {
        out.pointer();
        out.u32(names.len() as u32);
        for (account, domain) in &names {
            out.u16(account.kind as u16);
            out.string_head(&account.name);
            out.u32(*domain);
            if version != Version::One {
                out.u32(0);
            }
        }
        names.iter().for_each(|(account, _)| out.string_body(&account.name));
    }
    out.u32(mapped as u32);
    out.u32(status(mapped, names.len()));
    Ok(())
}

/// The account of a SID and the index of its domain. The name of an unknown one is its SID.
fn name_of(sid: &[u8], host: &dyn Host, facts: &ServerFacts, domains: &mut Domains) -> (Account, u32) {
    let own_domain = || {
        let is_own = sid == facts.account_domain_sid.as_slice();
        is_own.then(|| Account {
            domain: facts.name.clone(),
            name: facts.name.clone(),
            kind: NameUse::Domain,
        })
    };
    let found = sid::well_known_account(sid).or_else(own_domain).or_else(|| host.account_of_sid(sid));
    match found {
        Some(account) => {
            let index = domains.index(&account.domain, &domain_sid(account.kind, sid));
            (account, index)
        }
        None => {
            let unknown = Account { domain: String::new(), name: sid::to_text(sid), kind: NameUse::Unknown };
            (unknown, NO_DOMAIN)
        }
    }
}

/// Reads MS-LSAT 2.2.17 LSAPR_SID_ENUM_BUFFER.
fn read_sids<'a>(args: &mut StubReader<'a>) -> Result<Vec<&'a [u8]>, BadStub> {
    let entries = args.u32()?;
    if !args.pointer()? {
        return if entries == 0 { Ok(Vec::new()) } else { Err(BadStub) };
    }
    let count = args.u32()?;
    if entries > MAX_SIDS || count != entries || count as usize > args.remaining() / 4 {
        return Err(BadStub);
    }
    for _ in 0..count {
        if !args.pointer()? {
            return Err(BadStub);
        }
    }
    (0..count).map(|_| args.sid()).collect()
}

/// Skips the argument for the results. It is empty in a request.
fn skip_translated(args: &mut StubReader<'_>) -> Result<(), BadStub> {
    args.u32()?;
    if args.pointer()? { Err(BadStub) } else { Ok(()) }
}

/// Writes a result without entries.
fn nothing(out: &mut Writer, status: u32) {
    out.null();
    out.u32(0);
    out.null();
    out.u32(0);
    out.u32(status);
}

/// LsarLookupNames, LsarLookupNames2 and LsarLookupNames3
pub(super) fn names(
    args: &mut StubReader<'_>,
    out: &mut Writer,
    host: &dyn Host,
    handles: &Handles,
    version: Version,
) -> Result<(), Fault> {
    // MS-LSAT 3.1.4.6, 3.1.4.7 and 3.1.4.8
    policy_handle(args, handles)?;
    let asked = read_names(args)?;
    skip_translated(args)?;
    if args.u16()? != LOOKUP_WKSTA {
        nothing(out, STATUS_INVALID_PARAMETER);
        return Ok(());
    }
    let facts = host.facts();
    let mut domains = Domains::default();
    let found: Vec<Option<(Resolved, u32)>> = asked
        .iter()
        .map(|name| {
            let resolved = sid_of(name, host, &facts)?;
            let index = domains.index(&resolved.domain, &domain_sid(resolved.kind, &resolved.sid));
            Some((resolved, index))
        })
        .collect();
    let mapped = found.iter().flatten().count();
    domains.write(out);
    out.u32(found.len() as u32);
    if found.is_empty() {
        out.null();
    } else {
        out.pointer();
        out.u32(found.len() as u32);
        found.iter().for_each(|entry| write_translated_sid(entry.as_ref(), version, out));
        if version == Version::Three {
            found.iter().flatten().for_each(|(resolved, _)| out.sid(&resolved.sid));
        }
    }
    out.u32(mapped as u32);
    out.u32(status(mapped, found.len()));
    Ok(())
}

/// Writes MS-LSAT 2.2.15, 2.2.23 and 2.2.25: the fixed part of one result.
fn write_translated_sid(entry: Option<&(Resolved, u32)>, version: Version, out: &mut Writer) {
    let (kind, domain) = entry.map_or((NameUse::Unknown, NO_DOMAIN), |(found, domain)| (found.kind, *domain));
    out.u16(kind as u16);
    match (version, entry) {
        (Version::Three, Some(_)) => out.pointer(),
        (Version::Three, None) => out.null(),
        (_, Some((found, _))) if found.kind != NameUse::Domain => {
            out.u32(sid::subauthorities(&found.sid).next_back().unwrap_or(0));
        }
        (_, Some(_)) => out.u32(u32::MAX),
        (_, None) => out.u32(0),
    }
    out.u32(domain);
    if version != Version::One {
        out.u32(0);
    }
}

/// The SID of a name: `DOMAIN\name`, `name@domain`, or only `name`, which may also be the server's name.
fn sid_of(name: &str, host: &dyn Host, facts: &ServerFacts) -> Option<Resolved> {
    let (domain, account) = match (name.split_once('\\'), name.rsplit_once('@')) {
        (Some((domain, account)), _) => (Some(domain), account),
        (None, Some((account, domain))) => (Some(domain), account),
        (None, None) => (None, name),
    };
    let is_server = |text: &str| text.eq_ignore_ascii_case(&facts.name);
    let is_own = match domain {
        Some(domain) => account.is_empty() && is_server(domain),
        None => is_server(account),
    };
    let own_domain = || {
        let sid = facts.account_domain_sid.clone();
        is_own.then(|| Resolved { sid, domain: facts.name.clone(), kind: NameUse::Domain })
    };
    sid::well_known_sid(domain, account).or_else(own_domain).or_else(|| host.sid_of_account(domain, account))
}

/// Reads the names of a call: their number, then an array of strings.
fn read_names(args: &mut StubReader<'_>) -> Result<Vec<String>, BadStub> {
    let entries = args.u32()?;
    let count = args.u32()?;
    if entries > MAX_NAMES || count != entries || count as usize > args.remaining() / 8 {
        return Err(BadStub);
    }
    let heads: Vec<StringHead> = (0..count).map(|_| args.string_head()).collect::<Result<_, _>>()?;
    heads.into_iter().map(|head| Ok(args.string_body(head)?.to_string_lossy())).collect()
}
