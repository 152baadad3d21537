//! Reads keytab files: which principals have keys of which version, type and age. The keys themselves are
//! skipped.
//!
//! The format is version 2 of MIT's (the page "Keytab file format" of its documentation).

use std::path::{Path, PathBuf};

use super::enctype;

/// The reason why a keytab cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum KeytabError {
    /// The host's error.
    #[error("{}: {}", .0.display(), crate::config::file_error(.0, .1))]
    Host(PathBuf, std::io::Error),
    /// It is no keytab, or it is cut.
    #[error("{}: it is not a keytab, or it is damaged", .0.display())]
    Damaged(PathBuf),
}

/// One key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeytabEntry {
    /// The principal without its realm, such as `cifs/files.corp.example`.
    pub principal: String,
    /// The realm.
    pub realm: String,
    /// The version of the key.
    pub kvno: u32,
    /// The encryption type, by its number (RFC 3961).
    pub enctype: i32,
    /// When it was written, in seconds since 1970.
    pub written: u32,
}

/// The keys of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Keytab {
    /// All keys, in their order.
    pub entries: Vec<KeytabEntry>,
}

impl Keytab {
    /// Reads a file.
    ///
    /// # Errors
    /// [`KeytabError`]
    pub fn read(path: &Path) -> Result<Keytab, KeytabError> {
        let bytes = std::fs::read(path).map_err(|error| KeytabError::Host(path.to_owned(), error))?;
        Keytab::parse(&bytes).ok_or_else(|| KeytabError::Damaged(path.to_owned()))
    }

    /// The keys of a keytab. None if the bytes are not a whole keytab of version 2.
    pub fn parse(bytes: &[u8]) -> Option<Keytab> {
        Some(Keytab { entries: records(bytes)?.into_iter().map(|record| record.entry).collect() })
    }

    /// The keys of a realm.
    pub fn of_realm(&self, realm: &str) -> Keytab {
        let entries = self.entries.iter().filter(|entry| entry.realm == realm).cloned().collect();
        Keytab { entries }
    }

    /// The realms that have keys.
    pub fn realms(&self) -> Vec<&str> {
        let mut realms: Vec<&str> = self.entries.iter().map(|entry| entry.realm.as_str()).collect();
        realms.sort_unstable();
        realms.dedup();
        realms
    }

    /// The realm of this name, as the keytab writes it. The case of its letters counts in Kerberos, but
    /// people forget it.
    pub fn spelling_of(&self, realm: &str) -> Option<&str> {
        let mut like = self.realms().into_iter().filter(|found| found.eq_ignore_ascii_case(realm));
        let first = like.next()?;
        match like.next() {
            None => Some(first),
            // Several realms differ by the case alone.
            Some(_) => self.realms().into_iter().find(|found| *found == realm),
        }
    }

    /// The keys of the version that the machine account has now. Names that it has lost have only older ones.
    pub fn current(&self) -> Keytab {
        let Some(account) = self.machine_account() else { return self.clone() };
        // An account that was made anew counts its versions from the start.
        let now = self.of(account).into_iter().max_by_key(|key| (key.written, key.kvno)).map(|key| key.kvno);
        let entries = self.entries.iter().filter(|entry| Some(entry.kvno) == now).cloned().collect();
        Keytab { entries }
    }

    /// The names in lower case for which there is a key of `cifs/NAME`.
    pub fn server_names(&self) -> Vec<String> {
        let mut names = Vec::new();
        for entry in &self.entries {
            let name =
                entry.principal.split_once('/').filter(|(service, _)| service.eq_ignore_ascii_case("cifs"));
            let name = name.map(|(_, name)| name.to_lowercase());
            names.extend(name.filter(|name| !names.contains(name)));
        }
        names
    }

    /// The machine account, such as `FILES$`.
    pub fn machine_account(&self) -> Option<&str> {
        self.entries.iter().map(|entry| entry.principal.as_str()).find(|name| name.ends_with('$'))
    }

    /// The keys of a principal, without regard to case.
    pub fn of(&self, principal: &str) -> Vec<&KeytabEntry> {
        self.entries.iter().filter(|entry| entry.principal.eq_ignore_ascii_case(principal)).collect()
    }

    /// The names of the encryption types of a principal's newest keys.
    pub fn enctypes_of(&self, principal: &str) -> Vec<String> {
        let keys = self.of(principal);
        let newest = keys.iter().map(|entry| entry.kvno).max();
        let keys = keys.iter().filter(|entry| Some(entry.kvno) == newest);
        keys.map(|entry| enctype::name(entry.enctype)).collect()
    }
}

/// A cursor over bytes in network order.
struct KeytabReader<'a>(&'a [u8]);

impl<'a> KeytabReader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    fn text(&mut self) -> Option<String> {
        let length = self.u16()?;
        Some(String::from_utf8_lossy(self.take(length.into())?).into_owned())
    }
}

/// The first bytes of a keytab of version 2.
const VERSION: [u8; 2] = [5, 2];

/// A key of a keytab as it is in the file.
struct KeytabRecord<'a> {
    entry: KeytabEntry,
    key: &'a [u8],
    /// The whole record.
    bytes: &'a [u8],
}

/// The keys of a keytab. None if the bytes are not a whole keytab of version 2.
fn records(bytes: &[u8]) -> Option<Vec<KeytabRecord<'_>>> {
    let mut file = KeytabReader(bytes.strip_prefix(&VERSION)?);
    let mut records = Vec::new();
    while !file.0.is_empty() {
        let whole = file.0;
        let size = file.u32()?.cast_signed();
        let record = file.take(usize::try_from(size.unsigned_abs()).ok()?)?;
        match size {
            0 => break,
            // A deleted key left a hole.
            ..0 => {}
            _ => {
                let (entry, key) = entry(KeytabReader(record))?;
                records.push(KeytabRecord { entry, key, bytes: &whole[..whole.len() - file.0.len()] });
            }
        }
    }
    Some(records)
}

/// How long a key stays after a newer one has replaced it. A ticket of the old key was made before that, and
/// can be renewed for 7 days by the default of Active Directory.
const FORMER_KEYS_S: u32 = 8 * 86_400;

/// A new keytab with the keys of the former one that it lacks and that were replaced a short time ago. None
/// if it lacks none of these, or if one of the two is damaged. The former keys come first.
///
/// MIT's library takes the key of the highest version for the newest one. So keys of an account that was made
/// anew since, whose versions are higher, are left out. Tickets of theirs are of no use any more.
pub fn with_former(former: &[u8], new: &[u8], now_s: u32) -> Option<Vec<u8>> {
    let (former, present) = (records(former)?, records(new)?);
    let is_same = |one: &KeytabEntry, other: &KeytabEntry| {
        (one.principal == other.principal && one.realm == other.realm)
            && (one.kvno, one.enctype) == (other.kvno, other.enctype)
    };
    let all = || former.iter().chain(&present).map(|record| &record.entry);
    // An account that was made anew counts its versions from the start.
    let replaces = |next: &KeytabEntry, key: &KeytabEntry| {
        (next.principal == key.principal && next.realm == key.realm && next.kvno != key.kvno)
            && (next.written > key.written || next.written == key.written && next.kvno > key.kvno)
    };
    let is_wanted = |key: &KeytabEntry| {
        let replaced = all().filter(|next| replaces(next, key)).map(|next| next.written).min();
        let of = present.iter().map(|record| &record.entry);
        let of = of.filter(|there| there.principal == key.principal && there.realm == key.realm);
        // A principal without any key there was taken away.
        of.map(|there| there.kvno).max().is_some_and(|newest| key.kvno < newest)
            && !present.iter().any(|record| is_same(&record.entry, key))
            && replaced.is_some_and(|at| now_s.saturating_sub(at) < FORMER_KEYS_S)
    };
    let missing: Vec<&[u8]> =
        former.iter().filter(|record| is_wanted(&record.entry)).map(|record| record.bytes).collect();
    (!missing.is_empty()).then(|| [&VERSION[..], &missing.concat(), &new[VERSION.len()..]].concat())
}

/// The version of keys of a realm that the former keytab lacks. They are newer by the version, or by the time
/// for an account that was made anew: its key may even have a version of before. Each principal counts its
/// own versions.
pub fn added_version(former: &[u8], new: &[u8], realm: &str) -> Option<u32> {
    let of_realm = |bytes| {
        let mut records = records(bytes).unwrap_or_default();
        records.retain(|record| record.entry.realm == realm);
        records
    };
    let (former, new) = (of_realm(former), of_realm(new));
    let last_written = former.iter().map(|record| record.entry.written).max();
    let is_new = |record: &&KeytabRecord<'_>| {
        let entry = &record.entry;
        let of = || former.iter().filter(|it| it.entry.principal.eq_ignore_ascii_case(&entry.principal));
        let is_there = of()
            .any(|it| (it.entry.kvno, it.entry.enctype, it.key) == (entry.kvno, entry.enctype, record.key));
        let is_newer = of().all(|it| it.entry.kvno < entry.kvno) || Some(entry.written) > last_written;
        !is_there && is_newer
    };
    new.iter().filter(is_new).map(|record| record.entry.kvno).max()
}

/// A key, and its bytes.
fn entry(mut record: KeytabReader<'_>) -> Option<(KeytabEntry, &[u8])> {
    let count = record.u16()?;
    let realm = record.text()?;
    let components: Vec<String> = (0..count).map(|_| record.text()).collect::<Option<_>>()?;
    let _name_type = record.u32()?;
    let written = record.u32()?;
    let short = record.u8()?;
    let enctype = i32::from(record.u16()?.cast_signed());
    let length = record.u16()?;
    let key = record.take(length.into())?;
    // Older writers leave the long version out.
    let kvno = record.u32().filter(|long| *long != 0).unwrap_or(short.into());
    Some((KeytabEntry { principal: components.join("/"), realm, kvno, enctype, written }, key))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(principal: &[&str], kvno: u32, is_long: bool) -> Vec<u8> {
        let text =
            |text: &str| [&u16::try_from(text.len()).unwrap().to_be_bytes()[..], text.as_bytes()].concat();
        let mut body = u16::try_from(principal.len()).unwrap().to_be_bytes().to_vec();
        body.extend(text("R.EXAMPLE"));
        principal.iter().for_each(|part| body.extend(text(part)));
        body.extend([0, 0, 0, 1, 0, 0, 0, 9]);
        body.push(kvno.to_be_bytes()[3]);
        body.extend([0, 18, 0, 4, 1, 2, 3, 4]);
        if is_long {
            body.extend(kvno.to_be_bytes());
        }
        [&u32::try_from(body.len()).unwrap().to_be_bytes()[..], &body].concat()
    }

    #[test]
    fn keys_are_listed_and_holes_skipped() {
        let hole = [&(-3_i32).to_be_bytes()[..], &[7; 3]].concat();
        let bytes = [
            &[5, 2][..],
            &record(&["cifs", "Files.r.example"], 300, true),
            &hole,
            &record(&["FILES$"], 2, false),
            &record(&["cifs", "FILES.R.EXAMPLE"], 301, true),
        ]
        .concat();
        let keytab = Keytab::parse(&bytes).unwrap();
        let kvnos: Vec<u32> = keytab.entries.iter().map(|entry| entry.kvno).collect();
        assert_eq!(kvnos, [300, 2, 301]);
        assert_eq!(keytab.server_names(), ["files.r.example"]);
        assert_eq!(keytab.machine_account(), Some("FILES$"));
        assert_eq!((keytab.entries[0].written, keytab.entries[0].enctype), (9, 18));
        assert_eq!(keytab.enctypes_of("cifs/files.r.example"), ["aes256-cts-hmac-sha1-96"]);
        assert!(keytab.of_realm("OTHER").entries.is_empty());
        assert_eq!(keytab.spelling_of("r.example"), Some("R.EXAMPLE"));
        assert_eq!(keytab.spelling_of("OTHER"), None);
    }

    #[test]
    fn a_name_that_the_account_has_lost_has_no_current_key() {
        let keys = |names: &[&str], kvno: u32| {
            let of = |name: &&str| record(&name.split('/').collect::<Vec<_>>(), kvno, true);
            names.iter().flat_map(of).collect::<Vec<u8>>()
        };
        let (before, now) =
            (keys(&["FILES$", "cifs/files", "cifs/nas"], 2), keys(&["FILES$", "cifs/files"], 3));
        let keytab = Keytab::parse(&[&[5, 2][..], &before, &now].concat()).unwrap();
        assert_eq!(keytab.server_names(), ["files", "nas"]);
        assert_eq!(keytab.current().server_names(), ["files"]);
        let brought =
            Keytab::parse(&[&[5, 2][..], &keys(&["cifs/a"], 2), &keys(&["cifs/b"], 3)].concat()).unwrap();
        assert_eq!(brought.current().server_names(), ["a", "b"], "each service counts alone");
    }

    #[test]
    fn a_cut_file_is_refused_and_nothing_panics() {
        let whole = [&[5, 2][..], &record(&["cifs", "a"], 1, true), &record(&["b"], 2, true)].concat();
        let ends: Vec<usize> =
            (0..=whole.len()).filter(|end| Keytab::parse(&whole[..*end]).is_some()).collect();
        // The ends of the header and of each record.
        assert_eq!(ends.len(), 3, "{ends:?}");
        for at in 0..whole.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] ^= flip;
                let _ = Keytab::parse(&bytes);
            }
        }
    }
}
