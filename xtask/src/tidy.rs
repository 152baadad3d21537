//! The form of a source file: its beginning, its length and that of its functions, blanks, and unfinished
//! work.
//!
//! A file or function that is longer than allowed must be in `xtask/allowed-long.toml` with its exact length
//! and a reason. That list may only get shorter: [`LONG_LIST_CEILING`] is its length, and is lowered with it.

use std::collections::BTreeMap;
use std::path::Path;

use crate::source::{Source, functions, line_of, rust_files, words};

/// The maximum number of lines of a file.
const FILE_LINES: usize = 800;
/// The maximum number of lines of a function.
const FUNCTION_LINES: usize = 70;
/// The number of entries in `xtask/allowed-long.toml`. Never raise it.
const LONG_LIST_CEILING: usize = 0;

/// Macros that mark unfinished work, or a debugging session.
const UNFINISHED_MACROS: &[&str] = &["todo", "unimplemented", "dbg"];
/// The words of comments that mark unfinished work, written in two parts so that this file does not contain
/// them.
const UNFINISHED_WORDS: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

/// All findings about the workspace at `root`.
pub fn check(root: &Path) -> Result<Vec<String>, String> {
    let list = root.join("xtask/allowed-long.toml");
    let text = std::fs::read_to_string(&list).map_err(|e| format!("{}: {e}", list.display()))?;
    let mut allowed = LongList::parse(&text)?;
    let mut found = Vec::new();
    if allowed.len() != LONG_LIST_CEILING {
        found.push(format!(
            "xtask/allowed-long.toml: {} entries, LONG_LIST_CEILING is {LONG_LIST_CEILING}; the list may \
             only get shorter",
            allowed.len()
        ));
    }
    for top in ["crates", "proving", "xtask", "fuzz"] {
        for file in rust_files(&root.join(top))? {
            let source = Source::read(root, &file)?;
            found.extend(looks(&source));
            found.extend(allowed.lengths(&source));
        }
    }
    found.extend(allowed.unused());
    Ok(found)
}

/// The findings about the text of one file.
fn looks(source: &Source) -> Vec<String> {
    let path = &source.path;
    let mut found = Vec::new();
    if !source.text.starts_with("//!") {
        found.push(format!("{path}:1: does not begin with `//!`"));
    }
    if !source.text.ends_with('\n') {
        found.push(format!("{path}: does not end with a line end"));
    }
    for (number, line) in source.text.lines().enumerate() {
        if line.contains('\t') {
            found.push(format!("{path}:{}: a tab", number + 1));
        }
        if line.ends_with([' ', '\r']) {
            found.push(format!("{path}:{}: blanks at the end of the line", number + 1));
        }
    }
    for (at, word) in words(&source.bare) {
        if UNFINISHED_MACROS.contains(&word) && source.bare[at + word.len()..].starts_with('!') {
            found.push(format!("{path}:{}: `{word}!`", line_of(&source.bare, at)));
        }
    }
    for (at, word) in words(&source.text) {
        if UNFINISHED_WORDS.contains(&word) {
            found.push(format!("{path}:{}: unfinished work (`{word}`)", line_of(&source.text, at)));
        }
    }
    found
}

/// The allowed exceptions.
struct LongList {
    /// By path, or path and function: the allowed lines, and whether the entry was needed.
    entries: BTreeMap<String, (usize, bool)>,
}

impl LongList {
    fn parse(text: &str) -> Result<LongList, String> {
        let bad = |why: String| format!("xtask/allowed-long.toml: {why}");
        let table: toml::Table = text.parse().map_err(|e| bad(format!("{e}")))?;
        let mut entries = BTreeMap::new();
        for (section, content) in &table {
            if section != "files" && section != "functions" {
                return Err(bad(format!("[{section}] is not known; use [files] and [functions]")));
            }
            for (name, entry) in content.as_table().into_iter().flatten() {
                let reason = entry.get("reason").and_then(toml::Value::as_str).unwrap_or_default();
                let lines = entry.get("lines").and_then(toml::Value::as_integer);
                let lines = lines.and_then(|lines| usize::try_from(lines).ok());
                match lines {
                    Some(lines) if !reason.trim().is_empty() => entries.insert(name.clone(), (lines, false)),
                    _ => return Err(bad(format!("{name} needs `lines` and `reason`"))),
                };
            }
        }
        Ok(LongList { entries })
    }

    fn len(&self) -> usize {
        self.entries.len()
    }

    /// The findings about the lengths in `source`. It marks the entries that were needed.
    fn lengths(&mut self, source: &Source) -> Vec<String> {
        let lines = source.text.lines().count();
        let mut found = Vec::new();
        found.extend(self.judge(&source.path, &source.path, lines, FILE_LINES));
        for function in functions(&source.bare) {
            let key = format!("{}::{}", source.path, function.name);
            let location = format!("{}:{}: `{}`", source.path, function.line, function.name);
            found.extend(self.judge(&key, &location, function.lines, FUNCTION_LINES));
        }
        found
    }

    fn judge(&mut self, key: &str, location: &str, lines: usize, limit: usize) -> Option<String> {
        if lines <= limit {
            return None;
        }
        let Some((allowed, needed)) = self.entries.get_mut(key) else {
            return Some(format!("{location}: {lines} lines, at most {limit}"));
        };
        *needed = true;
        match lines.cmp(allowed) {
            std::cmp::Ordering::Equal => None,
            std::cmp::Ordering::Greater => Some(format!("{location}: grew from {allowed} to {lines} lines")),
            std::cmp::Ordering::Less => Some(format!(
                "{location}: {lines} lines now; lower its entry in xtask/allowed-long.toml from {allowed}"
            )),
        }
    }

    fn unused(&self) -> Vec<String> {
        let unused = self.entries.iter().filter(|(_, (_, needed))| !needed);
        unused
            .map(|(key, _)| format!("xtask/allowed-long.toml: {key} is not too long any more: take it out"))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source::new("crates/x/src/y.rs".to_owned(), text.to_owned())
    }

    fn long_function(lines: usize) -> String {
        format!("//! x\nfn long() {{\n{}}}\n", "    step();\n".repeat(lines - 2))
    }

    #[test]
    fn a_tidy_file_has_no_findings() {
        assert!(looks(&source("//! What it is for.\nfn f() {}\n")).is_empty());
    }

    #[test]
    fn each_bad_look_is_found() {
        let marker = UNFINISHED_WORDS[0];
        let bad = [
            "fn f() {}\n",
            "//! x\n\tf();\n",
            "//! x \n",
            "//! x\n// MARKER later\n",
            "//! x\nfn f() { dbg!(1); }\n",
            "//! x",
        ];
        for text in bad {
            let text = text.replace("MARKER", marker);
            assert_eq!(looks(&source(&text)).len(), 1, "{text:?}");
        }
    }

    #[test]
    fn what_is_too_long_needs_an_entry_of_its_exact_length() {
        let text = long_function(FUNCTION_LINES + 1);
        let entry = |lines: usize| {
            format!(
                "[functions]\n\"crates/x/src/y.rs::long\" = {{ lines = {lines}, reason = \"a table\" }}\n"
            )
        };
        let judge = |list: &str, text: &str| {
            let mut list = LongList::parse(list).unwrap();
            let mut found = list.lengths(&source(text));
            found.extend(list.unused());
            found
        };
        assert!(judge("", &text)[0].contains("71 lines, at most 70"));
        assert!(judge(&entry(71), &text).is_empty());
        assert!(judge(&entry(70), &text)[0].contains("grew from 70 to 71"));
        assert!(judge(&entry(72), &text)[0].contains("lower its entry"));
        assert!(judge(&entry(71), &long_function(FUNCTION_LINES))[0].contains("not too long any more"));
        assert!(
            judge("", &format!("//! x\n{}", "\n".repeat(FILE_LINES)))[0].contains("801 lines, at most 800")
        );
    }

    #[test]
    fn an_entry_without_a_reason_is_refused() {
        assert!(LongList::parse("[files]\n\"a.rs\" = { lines = 900, reason = \" \" }\n").is_err());
        assert!(LongList::parse("[other]\n").is_err());
    }
}
