//! The directory listing of an Open: the pattern of names, and the position in the directory.

use smb_wire::fscc::names::{Syntax, fold_units, plain_end, to_wire_units};
use smb_wire::fscc::wildcard::Pattern;
use smb_wire::{NtStatus, Utf16, utf16};
use volume::Name;

use crate::info::names::name;

/// The position in the listing of an Open (MS-FSA 2.1.1.6 QueryPattern and QueryLastEntry).
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// The pattern of the first request. `None` before that.
    pub pattern: Option<NamePattern>,
    /// How many of `.` and `..` were sent.
    pub dots: usize,
    /// The position after the last sent entry.
    pub cookie: u64,
    /// Whether the listing is complete.
    pub is_done: bool,
    /// A request that has tried many names without a match, by its connection and number, and whether it was
    /// the first one. It continues here.
    pub under_way: Option<((u64, u64), bool)>,
}

/// A pattern in the form that is matched against names of the host.
#[derive(Debug)]
pub(crate) struct NamePattern {
    pattern: Pattern,
    /// The only name that the pattern can match.
    exact: Option<Name>,
    syntax: Syntax,
    /// A buffer for a name in wire form, kept for the next one.
    units: Vec<u16>,
}

impl NamePattern {
    /// Parses the pattern `text`. An empty text matches all names.
    ///
    /// # Errors
    /// STATUS_OBJECT_NAME_INVALID if the text cannot be a name even with wildcards in it.
    // MS-FSA 2.1.5.6.3
    pub fn new(text: Utf16<'_>, syntax: Syntax, folds: bool) -> Result<NamePattern, NtStatus> {
        let all = utf16::encode("*");
        let text = if text.is_empty() { Utf16::new(&all).unwrap_or_default() } else { text };
        let invalid = NtStatus::OBJECT_NAME_INVALID;
        if text.units().any(|unit| is_forbidden(unit, syntax)) {
            return Err(invalid);
        }
        let folds = folds && syntax == Syntax::Windows;
        let Ok(pattern) = Pattern::new(text, folds) else { return Err(invalid) };
        let is_dots = text == "." || text == "..";
        let exact = if pattern.has_wildcards() || is_dots { None } else { Some(name(text, syntax)?) };
        Ok(NamePattern { pattern, exact, syntax, units: Vec::new() })
    }

    /// The only name that the pattern can match, if there is just one.
    pub fn exact(&self) -> Option<&Name> {
        self.exact.as_ref()
    }

    /// Whether the pattern matches this name of the host. It may match the listed name, or the name with its
    /// original final dot or space.
    // MS-FSA 2.1.4.4
    pub fn selects(&mut self, name: &[u8]) -> bool {
        if self.pattern.selects_all() {
            return true;
        }
        self.units.clear();
        to_wire_units(name, self.syntax, &mut self.units);
        if self.pattern.is_folded() {
            fold_units(&mut self.units);
        }
        if self.pattern.matches(&self.units) {
            return true;
        }
        let Some(last) = self.units.last_mut().filter(|_| self.syntax == Syntax::Windows) else {
            return false;
        };
        let Some(plain) = plain_end(*last) else { return false };
        *last = plain;
        self.pattern.matches(&self.units)
    }

    /// Whether the pattern matches `.` or `..`. Wildcards cannot tell the two apart, as on Windows: the
    /// second one has a dot that looks like the one before an extension.
    pub fn selects_dots(&mut self, name: &[u8]) -> bool {
        let looks_like: &[u8] = if self.pattern.has_wildcards() { b"." } else { name };
        self.selects(looks_like)
    }
}

// MS-FSCC 2.1.5.2, except the wildcards
fn is_forbidden(unit: u16, syntax: Syntax) -> bool {
    match (u8::try_from(unit), syntax) {
        (Err(_), _) => false,
        (Ok(byte), Syntax::Posix) => matches!(byte, 0 | b'/'),
        (Ok(byte), Syntax::Windows) => byte < 0x20 || b"\\/:|".contains(&byte),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(text: &str, syntax: Syntax, folds: bool) -> Result<NamePattern, NtStatus> {
        let bytes = utf16::encode(text);
        NamePattern::new(Utf16::new(&bytes).unwrap(), syntax, folds)
    }

    #[test]
    fn nothing_asks_for_everything_and_dots() {
        for text in ["", "*", "*.*", "<"] {
            let mut wanted = wanted(text, Syntax::Windows, true).unwrap();
            assert!(wanted.exact().is_none());
            assert!(wanted.selects_dots(b".") && wanted.selects_dots(b".."), "{text}");
            assert!(wanted.selects(b"abc"), "{text}");
        }
    }

    #[test]
    fn names_are_compared_as_the_client_sees_them() {
        // A colon of the host is U+F022 on the wire, so a question mark matches it.
        assert!(wanted("a?b", Syntax::Windows, true).unwrap().selects(b"A:B"));
        assert!(wanted("\u{e9}*", Syntax::Windows, true).unwrap().selects("\u{c9}t\u{c9}".as_bytes()));
        assert!(!wanted("a*", Syntax::Windows, false).unwrap().selects(b"ABC"));
        assert!(!wanted("a*", Syntax::Posix, true).unwrap().selects(b"ABC"));
        assert!(!wanted("x*", Syntax::Windows, true).unwrap().selects_dots(b"."));
    }

    #[test]
    fn a_last_dot_or_space_is_selected_as_itself_and_as_it_is_listed() {
        let selects = |text: &str, name: &[u8]| wanted(text, Syntax::Windows, true).unwrap().selects(name);
        for text in ["x*.", "*.", "?.", "x.*", "<.", "*\u{f029}", "x?", "*\""] {
            assert!(selects(text, b"x."), "{text}");
        }
        assert!(selects("* ", b"x ") && selects("?\u{f028}", b"x "));
        assert!(!selects("*.", b"x ") && !selects("* ", b"x.") && !selects("?.", b"x"));
        // Characters inside a name are not mapped.
        assert!(!selects("*\u{f029}y", b"x.y"));
        assert!(wanted("*.", Syntax::Posix, true).unwrap().selects(b"x."));
        assert!(!wanted("*\u{f029}", Syntax::Posix, true).unwrap().selects(b"x."));
    }

    #[test]
    fn a_name_without_wildcards_is_looked_up() {
        let exact = wanted("Readme.TXT", Syntax::Windows, true).unwrap();
        assert_eq!(exact.exact(), Some(&Name::new(b"Readme.TXT").unwrap()));
        let mut dot = wanted("..", Syntax::Windows, true).unwrap();
        assert!(dot.exact().is_none() && dot.selects_dots(b"..") && !dot.selects_dots(b"."));
    }

    #[test]
    fn what_can_be_no_name_is_refused() {
        for text in ["a\\b", "a/*", "*:x", "a|b", "\u{1}"] {
            let refused = wanted(text, Syntax::Windows, true).err();
            assert_eq!(refused, Some(NtStatus::OBJECT_NAME_INVALID), "{text:?}");
        }
        assert!(wanted("a\\b|c", Syntax::Posix, true).is_ok());
        assert!(wanted("a/b", Syntax::Posix, true).is_err());
    }
}
