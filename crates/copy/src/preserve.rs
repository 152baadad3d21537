//! The parts of a file that a copy keeps, by robocopy's letters and rsync's words.

use client::remote::Attributes;

use crate::tree::listing::lent;
use crate::tree::target_attributes::TargetAttributes;

/// The parts of each file and directory that a copy keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PreservedParts {
    /// The attributes (read-only and so on) or permission bits.
    pub attributes: bool,
    /// The time of the last change of its data.
    pub times: bool,
    /// The access list.
    pub lists: bool,
    /// The owner and group.
    pub owners: bool,
    /// The extended attributes.
    pub xattrs: bool,
    /// The named streams, which only shares have.
    pub streams: bool,
}

/// The letters of `--copy`.
const LETTERS: &str = "D data, A attributes and permission bits, T times, S access lists, O owners and \
    groups, E extended attributes; X leaves named streams out";

impl std::str::FromStr for PreservedParts {
    type Err = String;

    fn from_str(text: &str) -> Result<PreservedParts, String> {
        let mut keep = PreservedParts { streams: true, ..PreservedParts::default() };
        let mut data = false;
        for letter in text.chars() {
            match letter.to_ascii_uppercase() {
                'D' => data = true,
                'A' => keep.attributes = true,
                'T' => keep.times = true,
                'S' => keep.lists = true,
                'O' => keep.owners = true,
                'E' => keep.xattrs = true,
                'X' => keep.streams = false,
                'U' => return Err("lists of what is to be audited are not copied; leave U out".to_owned()),
                other => return Err(format!("{other} says nothing here; write of these: {LETTERS}")),
            }
        }
        match data {
            true => Ok(keep),
            false => Err("files without their data are not copied; write D as well".to_owned()),
        }
    }
}

impl PreservedParts {
    /// Whether any kept part needs requests of its own. Streams are only looked for.
    pub(crate) fn is_more(&self) -> bool {
        self.lists || self.owners || self.xattrs
    }

    /// The attributes of a copy of a file with `attributes`, if it gets the owner that is kept.
    pub(crate) fn like(&self, attributes: &Attributes) -> TargetAttributes {
        let lent = if self.owners { 0 } else { lent(attributes.kind) };
        TargetAttributes {
            modified: self.times.then_some(attributes.modified),
            mode: attributes.mode.filter(|_| self.attributes).map(|mode| mode & !lent),
            attributes: attributes.attributes.filter(|_| self.attributes),
            has_list: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_those_of_robocopy_and_a_wrong_one_is_told() {
        let keep = |text: &str| text.parse::<PreservedParts>();
        let all = PreservedParts {
            attributes: true,
            times: true,
            lists: true,
            owners: true,
            xattrs: true,
            streams: true,
        };
        assert_eq!(keep("DATSOE"), Ok(all));
        assert_eq!(keep("dx"), Ok(PreservedParts::default()));
        assert_eq!(keep("DAT").map(|keep| keep.is_more()), Ok(false));
        for (wrong, why) in [("DATU", "U out"), ("AT", "write D"), ("DQ", "Q says"), ("", "write D")] {
            let said = keep(wrong).unwrap_err();
            assert!(said.contains(why), "{wrong}: {said}");
        }
    }
}
