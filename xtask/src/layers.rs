//! The layers of the crates, and the words and calls that some crates must not use.
//!
//! [`TABLE`] is the only table of the layers. A crate may depend only on crates of a lower layer. A crate
//! that is missing in the table is a finding, and so is an entry without a crate.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::source::{Source, line_of, rust_files, words};
use crate::words::find;

/// The directory of each crate below `crates/`, with its layer.
const TABLE: &[(&str, u8)] = &[
    ("wire", 0),
    ("smb-wire", 1),
    ("nfs-wire", 1),
    ("volume", 1),
    ("metering", 1),
    ("tenure", 1),
    ("volume-posix", 2),
    ("auth", 2),
    ("kerberos", 2),
    ("identity", 3),
    ("share", 2),
    ("smb", 3),
    ("nfs", 3),
    ("net", 4),
    ("client", 4),
    ("load", 5),
    ("copy", 5),
    ("admin", 5),
    ("doctor", 6),
    ("trunkline", 7),
    ("testkit", 8),
];

/// The engine, its limits and counters, and the storage trait serve every protocol, so they must not use the
/// words of one.
const NEUTRAL: &[&str] = &["share", "volume", "metering"];
const PROTOCOL_WORDS: &[&str] =
    &["smb", "nfs", "ntstatus", "stateid", "fileid", "oplock", "lease", "delegation", "filehandle", "xdr"];

/// In these crates, the caller passes the time and the bytes.
const SANS_IO: &[&str] =
    &["wire", "smb-wire", "nfs-wire", "volume", "metering", "tenure", "auth", "share", "smb", "nfs"];
const SANS_IO_CALLS: &[&str] = &[
    "Instant::now",
    "SystemTime::now",
    "TcpStream",
    "TcpListener",
    "UdpSocket",
    "UnixStream",
    "UnixListener",
    "UnixDatagram",
    "thread::sleep",
    "tokio::",
    "mio::",
    "socket2::",
];
const SANS_IO_CRATES: &[&str] = &["tokio", "mio", "socket2", "async-std", "smol"];

/// Crates that may use `unsafe`. Single files of other crates are in `xtask/allowed-unsafe.toml`.
const UNSAFE: &[&str] = &["volume-posix", "net", "auth"];

/// All findings about the workspace at `root`.
pub fn check(root: &Path) -> Result<Vec<String>, String> {
    let mut found = dependencies(&metadata(root)?, TABLE)?;
    let allowed = allowed_unsafe(root)?;
    let mut used = BTreeSet::new();
    for top in ["crates", "proving", "xtask"] {
        for file in rust_files(&root.join(top))? {
            let source = Source::read(root, &file)?;
            let allowed_here = allowed.contains(&source.path);
            let unsafe_found = unsafe_code(&source, allowed_here);
            if allowed_here && words(&source.bare).any(|(_, word)| word == "unsafe") {
                used.insert(source.path.clone());
            }
            found.extend(unsafe_found);
            found.extend(knowledge(&source));
        }
    }
    found.extend(allowed.difference(&used).map(|path| {
        format!("xtask/allowed-unsafe.toml: {path} says no `unsafe` any more: take the entry out")
    }));
    Ok(found)
}

fn metadata(root: &Path) -> Result<serde_json::Value, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let out = Command::new(cargo)
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .current_dir(root)
        .output()
        .map_err(|e| format!("cargo metadata: {e}"))?;
    if !out.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&out.stderr)));
    }
    serde_json::from_slice(&out.stdout).map_err(|e| format!("cargo metadata: {e}"))
}

/// Checks the normal and build dependencies in the output of `cargo metadata` against `table`.
fn dependencies(metadata: &serde_json::Value, table: &[(&str, u8)]) -> Result<Vec<String>, String> {
    let packages = metadata["packages"].as_array().ok_or("cargo metadata: no packages")?;
    let layer = |name: &str| table.iter().find(|(known, _)| *known == name).map(|(_, layer)| *layer);
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for package in packages {
        let manifest = package["manifest_path"].as_str().unwrap_or_default();
        let Some(own) = crate_directory(manifest) else {
            continue;
        };
        seen.insert(own);
        let Some(own_layer) = layer(own) else {
            found.push(format!("crates/{own}/Cargo.toml: not in the table of layers (xtask/src/layers.rs)"));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            if dependency["kind"].as_str() == Some("dev") {
                continue;
            }
            let name = dependency["name"].as_str().unwrap_or_default();
            if SANS_IO.contains(&own) && SANS_IO_CRATES.contains(&name) {
                found.push(format!(
                    "crates/{own}/Cargo.toml: depends on {name}, and must do no input or output"
                ));
            }
            let path = dependency["path"].as_str().map(|path| format!("{path}/Cargo.toml"));
            let Some(path) = path else { continue };
            match crate_directory(&path).map(|other| (other, layer(other))) {
                Some((_, Some(below))) if below < own_layer => {}
                Some((other, Some(below))) => found.push(format!(
                    "crates/{own}/Cargo.toml: layer {own_layer} depends on {other} of layer {below}; only \
                     lower layers may be used"
                )),
                _ => found.push(format!(
                    "crates/{own}/Cargo.toml: depends on {path}, which is outside the \
                                         layers"
                )),
            }
        }
    }
    let missing = table.iter().filter(|(name, _)| !seen.contains(name));
    found.extend(
        missing.map(|(name, _)| format!("crates/{name}: in the table of layers, but there is no such crate")),
    );
    Ok(found)
}

/// `x` of `.../crates/x/Cargo.toml`.
fn crate_directory(manifest: &str) -> Option<&str> {
    let mut parts = manifest.rsplit('/');
    let (_, name, parent) = (parts.next()?, parts.next()?, parts.next()?);
    (parent == "crates").then_some(name)
}

/// The crate of a source file.
fn crate_of(source: &Source) -> &str {
    source.path.strip_prefix("crates/").and_then(|rest| rest.split('/').next()).unwrap_or_default()
}

/// Finds words and calls that the crate of `source` must not use.
fn knowledge(source: &Source) -> Vec<String> {
    let own = crate_of(source);
    let mut found = Vec::new();
    if NEUTRAL.contains(&own) {
        for hit in find(&source.code, PROTOCOL_WORDS) {
            let location = format!("{}:{}", source.path, hit.line);
            found.push(format!(
                "{location}: `{}` holds `{}`; {own} serves every protocol",
                hit.identifier, hit.word
            ));
        }
        for hit in find(&source.code, &["credit"]) {
            let line = source.code.lines().nth(hit.line - 1).unwrap_or_default().to_lowercase();
            if !line.contains("burst") {
                let location = format!("{}:{}", source.path, hit.line);
                found
                    .push(format!("{location}: `{}`: only burst credits are known in {own}", hit.identifier));
            }
        }
    }
    if SANS_IO.contains(&own) {
        for call in SANS_IO_CALLS {
            for (at, _) in source.bare.match_indices(call) {
                if !source.bare[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
                    let line = line_of(&source.bare, at);
                    found.push(format!(
                        "{}:{line}: `{call}`: {own} takes time and bytes as arguments",
                        source.path
                    ));
                }
            }
        }
    }
    found
}

/// Finds `unsafe` where it is not allowed, and blocks without a reason.
fn unsafe_code(source: &Source, allowed_here: bool) -> Vec<String> {
    let mut found = Vec::new();
    let allowed = allowed_here || UNSAFE.contains(&crate_of(source));
    for (at, word) in words(&source.bare) {
        if word != "unsafe" {
            continue;
        }
        let line = line_of(&source.bare, at);
        let next = source.bare[at + word.len()..].trim_start();
        if !allowed {
            found.push(format!("{}:{line}: `unsafe` outside {}", source.path, UNSAFE.join(", ")));
        } else if (next.starts_with('{') || next.starts_with("impl")) && !has_reason(&source.text, line) {
            found.push(format!("{}:{line}: `unsafe` without a SAFETY comment above it", source.path));
        }
    }
    found
}

/// Whether `line`, or a comment above its statement, contains SAFETY.
fn has_reason(text: &str, line: usize) -> bool {
    let lines: Vec<&str> = text.lines().collect();
    let above = lines[..line.min(lines.len())].iter().rev();
    for (distance, text) in above.enumerate() {
        if text.contains("SAFETY") {
            return true;
        }
        let comment = text.trim_start().starts_with("//");
        if distance > 3 && !comment {
            return false;
        }
    }
    false
}

fn allowed_unsafe(root: &Path) -> Result<BTreeSet<String>, String> {
    let path = root.join("xtask/allowed-unsafe.toml");
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let table: toml::Table = text.parse().map_err(|e| format!("{}: {e}", path.display()))?;
    let files = table.get("files").and_then(toml::Value::as_table).cloned().unwrap_or_default();
    files
        .into_iter()
        .map(|(file, reason)| match reason.as_str() {
            Some(reason) if !reason.trim().is_empty() => Ok(file),
            _ => Err(format!("xtask/allowed-unsafe.toml: {file} has no reason")),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source::new(path.to_owned(), text.to_owned())
    }

    fn package(name: &str, needs: &[(&str, Option<&str>)]) -> serde_json::Value {
        let dependencies: Vec<_> = needs
            .iter()
            .map(|(need, kind)| {
                let path = (!need.contains("tokio")).then(|| format!("/w/crates/{need}"));
                serde_json::json!({"name": need, "kind": kind, "path": path})
            })
            .collect();
        let manifest = format!("/w/crates/{name}/Cargo.toml");
        serde_json::json!({"manifest_path": manifest, "dependencies": dependencies})
    }

    #[test]
    fn this_workspace_holds_its_layers() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let found = dependencies(&metadata(root).unwrap(), TABLE).unwrap();
        assert!(found.is_empty(), "{found:#?}");
    }

    #[test]
    fn a_dependency_upwards_or_sideways_is_found() {
        let table = &[("wire", 0), ("share", 2), ("auth", 2)];
        let good = serde_json::json!({"packages": [
            package("wire", &[]), package("auth", &[("wire", None)]),
            package("share", &[("auth", Some("dev"))])]});
        assert_eq!(dependencies(&good, table), Ok(Vec::new()));
        let bad = serde_json::json!({"packages": [
            package("wire", &[("share", None)]), package("auth", &[("share", None)]),
            package("share", &[("tokio", None), ("load", None)])]});
        let found = dependencies(&bad, table).unwrap();
        assert_eq!(found.len(), 4, "{found:#?}");
        assert!(found[0].contains("layer 0 depends on share of layer 2"));
        assert!(found[1].contains("layer 2 depends on share of layer 2"));
        assert!(found[2].contains("tokio") && found[3].contains("outside the layers"));
    }

    #[test]
    fn a_crate_missing_from_the_table_or_from_the_tree_is_found() {
        let tree = serde_json::json!({"packages": [package("new", &[])]});
        let found = dependencies(&tree, &[("old", 1)]).unwrap();
        assert!(found[0].contains("crates/new") && found[1].contains("crates/old"));
    }

    #[test]
    fn a_protocol_word_in_the_engine_is_found_in_code_and_not_in_comments() {
        let text =
            "//! Leases of SMB.\nfn f() {} // oplock\nstruct LeaseKey;\nconst A: &str = \"user.smb\";\n";
        assert_eq!(knowledge(&source("crates/share/src/x.rs", text)).len(), 2);
        assert!(knowledge(&source("crates/smb/src/x.rs", text)).is_empty());
        let credits = "fn burst_credits() {}\nfn credits() {}\n";
        let found = knowledge(&source("crates/share/src/x.rs", credits));
        assert!(found.len() == 1 && found[0].starts_with("crates/share/src/x.rs:2"), "{found:?}");
    }

    #[test]
    fn clocks_and_sockets_are_found_in_sans_io_crates_only() {
        let text = "fn f() { Instant::now(); SystemTime::now(); UdpSocket::bind(a); tokio::spawn(b); }\n";
        assert_eq!(knowledge(&source("crates/smb/src/x.rs", text)).len(), 4);
        assert!(knowledge(&source("crates/net/src/x.rs", text)).is_empty());
    }

    #[test]
    fn unsafe_needs_its_place_and_its_reason() {
        let bad = "fn f() { unsafe { g() } }\n";
        let good = "fn f() {\n    // SAFETY: g has no preconditions.\n    unsafe { g() }\n}\n";
        assert_eq!(unsafe_code(&source("crates/smb/src/x.rs", good), false).len(), 1);
        assert_eq!(unsafe_code(&source("crates/net/src/x.rs", bad), false).len(), 1);
        assert!(unsafe_code(&source("crates/net/src/x.rs", good), false).is_empty());
        assert!(unsafe_code(&source("crates/smb/src/x.rs", good), true).is_empty());
        assert!(
            unsafe_code(&source("crates/smb/src/x.rs", "// unsafe\nconst A: &str = \"unsafe\";"), false)
                .is_empty()
        );
    }
}
