//! Finds words in code in any spelling: `lease_key`, `LeaseKey` and `LEASE` all contain `lease`, but
//! `release` does not.

use crate::source::{line_of, words};

/// A forbidden word in the code.
#[derive(Debug, PartialEq, Eq)]
pub struct Hit {
    /// The line, from 1.
    pub line: usize,
    /// The identifier that contains it.
    pub identifier: String,
    /// The word.
    pub word: &'static str,
}

/// All identifiers of `code` that contain a word of `forbidden`: alone, in the plural, or as two parts.
pub fn find(code: &str, forbidden: &[&'static str]) -> Vec<Hit> {
    let mut hits = Vec::new();
    for (at, identifier) in words(code) {
        let parts = parts(identifier);
        let held = forbidden.iter().find(|word| holds(&parts, word));
        if let Some(word) = held {
            hits.push(Hit { line: line_of(code, at), identifier: identifier.to_owned(), word });
        }
    }
    hits
}

fn holds(parts: &[String], word: &str) -> bool {
    let same = |part: &str| part == word || part.strip_suffix('s') == Some(word);
    parts.iter().any(|part| same(part)) || parts.windows(2).any(|pair| same(&pair.concat()))
}

/// The parts of an identifier in lower case: `SmbFileId2` has `smb`, `file` and `id`.
pub fn parts(identifier: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    let chars: Vec<char> = identifier.chars().collect();
    let mut part = String::new();
    for (i, c) in chars.iter().enumerate() {
        let after_lower = i > 0 && !chars[i - 1].is_uppercase();
        let before_lower = chars.get(i + 1).is_some_and(|next| next.is_lowercase());
        let begins = c.is_uppercase() && (after_lower || before_lower);
        if (begins || !c.is_alphabetic()) && !part.is_empty() {
            parts.push(std::mem::take(&mut part));
        }
        if c.is_alphabetic() {
            part.extend(c.to_lowercase());
        }
    }
    if !part.is_empty() {
        parts.push(part);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_fall_into_parts() {
        assert_eq!(parts("SmbFileId2"), ["smb", "file", "id"]);
        assert_eq!(parts("NTStatus_x"), ["nt", "status", "x"]);
        assert_eq!(parts("STATUS"), ["status"]);
    }

    #[test]
    fn words_are_found_in_every_spelling_and_not_inside_others() {
        let code = "release(); let LeaseKey = oplocks; file_id; NtStatus; xdr2; please;";
        let found: Vec<_> = find(code, &["lease", "oplock", "fileid", "ntstatus", "xdr"])
            .into_iter()
            .map(|h| h.word)
            .collect();
        assert_eq!(found, ["lease", "oplock", "fileid", "ntstatus", "xdr"]);
    }
}
