//! `trunkline load`: loads this or another server, and reports the results.

use load::agents::{self, Agent};
use load::null::{LoopArgs, Server, ServerArgs};
use load::{Args, Plan, Report};

use crate::command::page::Page;
use crate::password;

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if args.agent.is_some() {
        let agent = Agent::listen(args, agents::secret(args)?)?;
        println!("waiting at {} for clients with the secret", agent.address()?);
        return Ok(agent.serve()?);
    }
    let page = args.html.as_deref().map(Page::begin).transpose()?;
    let (reports, lost) = match args.agents.is_empty() {
        true => (here(args)?, Vec::new()),
        false => elsewhere(args)?,
    };
    if let Some(page) = page {
        let command: Vec<String> =
            ["trunkline".to_owned()].into_iter().chain(std::env::args().skip(1)).collect();
        page.end(&load::html(&reports, &command.join(" ")))?;
    }
    if args.json {
        println!("{:#}", load::json(&reports));
    } else {
        reports.iter().for_each(|report| print!("{report}"));
    }
    if !lost.is_empty() {
        let lost: Vec<String> = lost.iter().map(ToString::to_string).collect();
        let lost =
            format!("{}; the report covers the others, and the time before the failure", lost.join("; "));
        return Err(load::Error::Wrong(lost).into());
    }
    Ok(())
}

/// `trunkline null-server`, which prints the address on which it listens.
pub fn null_server(args: &ServerArgs) -> anyhow::Result<()> {
    let server = Server::start(args)?;
    println!("{}", server.address()?);
    Ok(server.serve()?)
}

/// `trunkline null-loop`, which prints one line of JSON.
pub fn null_loop(args: &LoopArgs) -> anyhow::Result<()> {
    println!("{}", load::null::plain(args)?);
    Ok(())
}

fn here(args: &Args) -> anyhow::Result<Vec<Report>> {
    // Mistakes in the options are reported before the program asks for a password.
    Plan::all(args, "")?;
    let password = match args.password()? {
        Some(password) => password,
        None => password::ask_once(args.user())?,
    };
    Ok(load::run_all(Plan::all(args, &password)?)?)
}

/// Runs the load on agents, each of which has the password itself. Also returns the errors of single agents.
fn elsewhere(args: &Args) -> anyhow::Result<(Vec<Report>, Vec<load::Error>)> {
    let words: Vec<String> = std::env::args().skip(2).collect();
    let conducted = agents::conduct(args, &words, &agents::secret(args)?)?;
    Ok((conducted.reports, conducted.lost))
}
