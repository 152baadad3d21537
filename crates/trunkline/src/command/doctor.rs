//! `trunkline doctor`: examines one server or two, and says why they are slow. `trunkline advise`: gives
//! recommendations for a workload.

use std::process::ExitCode;

use doctor::{AdviseArgs, Args, Error};

use crate::command::page::Page;
use crate::password;

/// Runs the command. The exit status is 0 when the examination was complete, whatever it found.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let page = args.html.as_deref().map(Page::begin).transpose()?;
    let ask =
        |user: &str| password::ask_once(user).map_err(|why| Error::host("asking for the password", why));
    let report = doctor::run(args, &ask)?;
    if let Some(page) = page {
        let command: Vec<String> =
            ["trunkline".to_owned()].into_iter().chain(std::env::args().skip(1)).collect();
        page.end(&doctor::html(&report, &command.join(" ")))?;
    }
    if args.json {
        println!("{:#}", report.json());
    } else {
        print!("{report}");
    }
    Ok(ExitCode::from(report.status()))
}

/// `trunkline advise`.
pub fn advise(args: &AdviseArgs) -> anyhow::Result<()> {
    let advice = doctor::advise(args)?;
    if args.json {
        println!("{:#}", advice.json());
    } else {
        print!("{advice}");
    }
    Ok(())
}
