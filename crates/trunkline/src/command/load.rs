//! `trunkline load`: loads a server, this one or another, and reports what it did.

use anyhow::Context;
use load::{Args, Plan};

use crate::password;

/// Does what was asked.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let password = match args.password()? {
        Some(password) => password,
        None => password::ask_once(args.user())?,
    };
    let plans = Plan::all(args, &password)?;
    let reports = plans.into_iter().map(load::run).collect::<Result<Vec<_>, _>>()?;
    if let Some(file) = &args.html {
        let command: Vec<String> = std::env::args().collect();
        std::fs::write(file, load::html(&reports, &command.join(" ")))
            .with_context(|| format!("--html {}: the page cannot be written", file.display()))?;
    }
    if args.json {
        println!("{:#}", load::json(&reports));
    } else {
        reports.iter().for_each(|report| print!("{report}"));
    }
    Ok(())
}
