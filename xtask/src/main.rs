//! The project's own checks: `cargo xtask layers`, `cargo xtask tidy`, `cargo xtask circles` and `cargo xtask semantics`.
//!
//! Start with [`layers`] (which crate may know what), [`tidy`] (how a source file looks), [`circles`] (which files import one
//! another in a circle) and [`semantics`] (the tests that SEMANTICS.md names). The first two read sources through [`source`], which tells code from comments and literals. Each check returns all its
//! findings as lines `path:line: what is wrong`; one finding is enough for exit status 1. [`simulate`] runs the server in a
//! simulated network over a failing disk.

mod circles;
mod layers;
mod modules;
mod semantics;
mod simulate;
mod source;
mod tidy;
mod words;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask layers | tidy | circles [--print] | semantics | all | simulate [--seed FIRST] [--count N] [--log]";

fn main() -> ExitCode {
    let root = workspace_root();
    let wanted = std::env::args().nth(1).unwrap_or_else(|| "all".to_owned());
    if wanted == "simulate" {
        return simulate::run(&root, std::env::args().skip(2));
    }
    if wanted == "circles" && std::env::args().nth(2).as_deref() == Some("--print") {
        return match circles::print(&root) {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => fail(&why),
        };
    }
    let findings = match wanted.as_str() {
        "layers" => layers::check(&root),
        "tidy" => tidy::check(&root),
        "circles" => circles::check(&root),
        "semantics" => semantics::check(&root),
        "all" => layers::check(&root).and_then(|mut found| {
            found.extend(tidy::check(&root)?);
            found.extend(circles::check(&root)?);
            found.extend(semantics::check(&root)?);
            Ok(found)
        }),
        _ => Err(USAGE.to_owned()),
    };
    match findings {
        Ok(found) if found.is_empty() => {
            println!("{wanted}: ok");
            ExitCode::SUCCESS
        }
        Ok(found) => {
            for line in &found {
                eprintln!("{line}");
            }
            eprintln!("{wanted}: {} finding(s)", found.len());
            ExitCode::FAILURE
        }
        Err(why) => fail(&why),
    }
}

fn fail(why: &str) -> ExitCode {
    eprintln!("{why}");
    ExitCode::from(2)
}

/// The workspace this program was built from.
fn workspace_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}
