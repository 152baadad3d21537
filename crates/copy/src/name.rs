//! Names: the names that a side can hold, temporary names, paths, and patterns.

use std::path::Path;

use aws_lc_rs::digest::{SHA256, digest};
pub(crate) use client::join;

/// The suffix of a temporary name. Nobody takes such a file for a complete one.
const PART: &str = ".trunkline-part";
/// The longest name that every side holds, in bytes.
const LONGEST: usize = 255;

/// Fails if `name` would lead to another place on this host or a server.
pub(crate) fn check(name: &str) -> Result<(), String> {
    match name {
        "" | "." | ".." => Err(format!("{name:?} is no name of a file")),
        _ if name.contains(['/', '\0']) => Err(format!("{name:?} has a character that no path can hold")),
        _ => Ok(()),
    }
}

/// Fails if `name` cannot be a name on a share, where `:` leads to a stream and `\` into a directory.
pub(crate) fn check_for_smb(name: &str) -> Result<(), String> {
    let wrong = |c: &char| matches!(c, '\\' | ':' | '*' | '?' | '"' | '<' | '>' | '|') || (*c as u32) < 32;
    if let Some(c) = name.chars().find(wrong) {
        return Err(format!("a share cannot hold a name with {c:?} in it; rename the file"));
    }
    if name.ends_with(['.', ' ']) {
        return Err("a share cannot hold a name that ends with a dot or a blank; rename the file".to_owned());
    }
    if name.encode_utf16().count() > LONGEST {
        return Err(format!("a share holds names of at most {LONGEST} characters; rename the file"));
    }
    Ok(())
}

/// The temporary name of `name`. The same `of` gives the same name, so a copy finds the file of a broken
/// copy, and nothing else.
pub(crate) fn part(name: &str, of: &[u8]) -> String {
    let hash = digest(&SHA256, &[name.as_bytes(), &[0], of].concat());
    let hash: String = hash.as_ref()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    let mut end = name.len().min(LONGEST - 2 - PART.len() - hash.len());
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    format!(".{}.{hash}{PART}", &name[..end])
}

/// Whether `name` is a temporary name made by [`part`].
pub(crate) fn is_part(name: &str) -> bool {
    let hash = name.strip_suffix(PART).and_then(|rest| rest.rsplit_once('.'));
    name.starts_with('.')
        && hash.is_some_and(|(_, hash)| hash.len() == 16 && hash.bytes().all(|c| c.is_ascii_hexdigit()))
}

/// A pattern. `*` stands for any characters but `/`, `**` for any characters at all, and `?` for one. A
/// pattern with a `/` matches the path from the source on, one without matches the name alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(String);

impl std::str::FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Pattern, String> {
        match text.trim_end_matches('/') {
            "" => Err("an empty pattern; write for example *.tmp, or cache/**".to_owned()),
            text => Ok(Pattern(text.to_owned())),
        }
    }
}

impl Pattern {
    /// The pattern in lower case. It matches paths in lower case as this one matches them without regard to
    /// case.
    pub(crate) fn folded(&self) -> Pattern {
        Pattern(self.0.to_lowercase())
    }

    /// Whether it matches `path`.
    pub(crate) fn fits(&self, path: &str) -> bool {
        match self.0.strip_prefix('/') {
            Some(anchored) => fits(anchored.as_bytes(), path.as_bytes()),
            None if self.0.contains('/') => fits(self.0.as_bytes(), path.as_bytes()),
            None => fits(self.0.as_bytes(), path.rsplit('/').next().unwrap_or(path).as_bytes()),
        }
    }
}

/// Whether `pattern` matches all of `text`.
fn fits(pattern: &[u8], text: &[u8]) -> bool {
    // The beginnings of the text that the pattern matches so far.
    let mut reached = vec![false; text.len() + 1];
    reached[0] = true;
    let mut at = 0;
    while at < pattern.len() {
        let any = pattern[at..].starts_with(b"**");
        let mut next = vec![false; text.len() + 1];
        if pattern[at] == b'*' {
            let mut on = false;
            for position in 0..=text.len() {
                on = reached[position] || (on && (any || text[position - 1] != b'/'));
                next[position] = on;
            }
        } else {
            for position in 0..text.len() {
                let one = pattern[at] == text[position] || (pattern[at] == b'?' && text[position] != b'/');
                next[position + 1] = reached[position] && one;
            }
        }
        reached = next;
        at += if any { 2 } else { 1 };
    }
    reached[text.len()]
}

/// Splits `path` into its directory and its name.
pub(crate) fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

/// Cuts the last name off the path `root` and returns it, if there is one.
pub(crate) fn step_up(root: &mut String) -> Option<String> {
    let (above, name) = split(root);
    let (above, name) = (above.to_owned(), name.to_owned());
    *root = above;
    (!name.is_empty()).then_some(name)
}

/// The last part of a path of this host, as text.
pub(crate) fn last_part(path: &Path) -> Option<String> {
    path.file_name().and_then(|name| name.to_str()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_know_names_paths_and_trees() {
        let fits = |pattern: &str, path: &str| pattern.parse::<Pattern>().unwrap().fits(path);
        let folded = "cAche".parse::<Pattern>().unwrap().folded();
        assert!(folded.fits(&"a/CaChe".to_lowercase()) && !fits("cache", "Cache"));
        assert!(fits("*.tmp", "a/b/c.tmp") && !fits("*.tmp", "a/b/c.tmp2") && fits("b?", "a/b1"));
        assert!(fits("a/*.c", "a/x.c") && !fits("a/*.c", "a/b/x.c") && fits("a/**.c", "a/b/x.c"));
        assert!(fits("/x", "x") && !fits("/x", "a/x") && fits("x", "a/x") && fits("cache/", "a/cache"));
        assert!("/".parse::<Pattern>().is_err());
    }

    #[test]
    fn a_part_is_known_by_its_name_and_belongs_to_one_file() {
        let part = super::part("film.mkv", b"17");
        assert!(
            is_part(&part)
                && part != super::part("film.mkv", b"18")
                && part == super::part("film.mkv", b"17")
        );
        assert!(!is_part("film.mkv") && !is_part(".x.trunkline-part"));
        let long = super::part(&"ü".repeat(127), b"");
        assert!(long.len() <= LONGEST && is_part(&long), "{long}");
    }

    #[test]
    fn names_that_would_lead_elsewhere_are_refused() {
        assert!(["", ".", "..", "a/b", "a\0"].iter().all(|name| check(name).is_err()));
        assert!(["a\\b", "a:b", "a*", "a.", "a "].iter().all(|name| check_for_smb(name).is_err()));
        assert!(check("a..b").is_ok() && check_for_smb("a..b").is_ok());
    }
}
