//! The project's own checks: `cargo xtask layers`, `tidy`, `names`, `prose`, `circles` and `semantics`.
//!
//! Start with [`layers`] (dependencies between crates), [`tidy`] (the form of a source file), [`names`] (the
//! number of types with the same name), [`prose`] (the language of docs), [`circles`] (files that import one
//! another in a circle) and [`semantics`] (the tests that SEMANTICS.md names). They read sources through
//! [`source`], which distinguishes code from comments and literals. Each check returns all its findings as
//! lines `path:line: finding`. One finding is enough for exit status 1. [`simulate`] runs the server in a
//! simulated network on a failing disk.

mod circles;
mod layers;
mod modules;
mod names;
mod prose;
mod semantics;
mod simulate;
mod source;
mod tidy;
mod words;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask layers | tidy | names | prose [--print] | circles [--print] | \
                     semantics | all | simulate [--seed FIRST] [--count N] [--log]";

fn main() -> ExitCode {
    let root = workspace_root();
    let wanted = std::env::args().nth(1).unwrap_or_else(|| "all".to_owned());
    if wanted == "simulate" {
        return simulate::run(&root, std::env::args().skip(2));
    }
    if std::env::args().nth(2).as_deref() == Some("--print") {
        let printed = match wanted.as_str() {
            "circles" => circles::print(&root),
            "prose" => prose::print(&root),
            _ => Err(USAGE.to_owned()),
        };
        return printed.map_or_else(|why| fail(&why), |()| ExitCode::SUCCESS);
    }
    let findings = match wanted.as_str() {
        "layers" => layers::check(&root),
        "tidy" => tidy::check(&root),
        "circles" => circles::check(&root),
        "names" => names::check(&root),
        "prose" => prose::check(&root),
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

/// The workspace in which cargo runs this program, or else the one from which it was built.
fn workspace_root() -> PathBuf {
    let manifest =
        std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&manifest).parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}
