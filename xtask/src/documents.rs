//! The source files that the documents name: each exists.
//!
//! A document names a file in backticks, with as much of its path as tells it apart: `exchange/mod.rs`,
//! `smb/exchange/mod.rs` and `crates/smb/src/exchange/mod.rs` are the same file. Start with [`check`].

use std::path::Path;

use crate::source::rust_files;

/// Folders with documents.
const FOLDERS: &[&str] = &[".", "docs", "docs/decisions"];
/// Folders with source files.
const SOURCES: &[&str] = &["crates", "proving", "xtask", "fuzz"];

/// All findings about the workspace at `root`.
pub fn check(root: &Path) -> Result<Vec<String>, String> {
    let mut files = Vec::new();
    for top in SOURCES {
        for file in rust_files(&root.join(top))? {
            let relative = file.strip_prefix(root).unwrap_or(&file);
            files.push(relative.to_string_lossy().into_owned());
        }
    }
    let mut found = Vec::new();
    for folder in FOLDERS {
        let folder = root.join(folder);
        let entries = std::fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        for path in entries.flatten().map(|entry| entry.path()) {
            if path.extension().is_none_or(|extension| extension != "md") {
                continue;
            }
            let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
            let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            found.extend(
                missing(&text, &files)
                    .map(|(line, file)| format!("{name}:{line}: no source file is called `{file}`")),
            );
        }
    }
    found.sort();
    Ok(found)
}

/// Names of source files in `text` that fit none of `files`, each with its line, from 1.
fn missing<'a>(text: &'a str, files: &'a [String]) -> impl Iterator<Item = (usize, &'a str)> {
    text.lines().enumerate().flat_map(move |(number, line)| {
        let named = line.split('`').skip(1).step_by(2).filter_map(source_file);
        named.filter(|name| !files.iter().any(|file| fits(file, name))).map(move |name| (number + 1, name))
    })
}

/// The file that a span of code names, when it names one.
fn source_file(span: &str) -> Option<&str> {
    let name = span.split([':', ' ']).next()?;
    let is_path =
        name.ends_with(".rs") && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c));
    is_path.then_some(name)
}

/// Whether `name` is the end of a file's path, with or without `src`.
fn fits(file: &str, name: &str) -> bool {
    let is_end = |path: &str| path == name || path.strip_suffix(name).is_some_and(|rest| rest.ends_with('/'));
    is_end(file) || is_end(&file.replacen("/src/", "/", 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_by_any_end_of_its_path() {
        let files = ["crates/smb/src/exchange/mod.rs".to_owned(), "xtask/src/tidy.rs".to_owned()];
        let text = "`mod.rs` `exchange/mod.rs` `smb/exchange/mod.rs`\n`crates/smb/src/exchange/mod.rs` `tidy.rs: check`";
        assert_eq!(missing(text, &files).count(), 0);
        let wrong: Vec<_> = missing("a `change/mod.rs`\nb `nfs/exchange/mod.rs: f` `*.rs`", &files).collect();
        assert_eq!(wrong, [(1, "change/mod.rs"), (2, "nfs/exchange/mod.rs")]);
    }
}
