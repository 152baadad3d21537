//! The conductor: tells agents what to do, lets them begin together, and merges what they measured.

use std::io::ErrorKind;
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use super::channel::{Channel, Side, failed};
use super::{Message, place};
use crate::args::Args;
use crate::report::Measured;
use crate::{Error, Plan, Report};

/// How long an agent may take to make what a load needs, or to do a fixed amount of work.
const LONG: Duration = Duration::from_secs(3600);

/// How long a connection may take.
const CONNECT_TIME: Duration = Duration::from_secs(10);

struct Agent {
    name: String,
    channel: Channel,
}

/// Does on all agents (`--agents`) what `words`, those behind `trunkline load`, say.
///
/// # Errors
/// What went wrong first, and at which agent. The others are left, and give up.
pub fn conduct(args: &Args, words: &[String], secret: &str) -> Result<Vec<Report>, Error> {
    if args.server_pid.is_some() {
        return Err(Error::Usage(
            "--server-pid does not go with --agents: they see other processes".to_owned(),
        ));
    }
    let plans = Plan::all(args, "")?;
    let mut agents = Vec::new();
    for name in &args.agents {
        agents.push(connect(name, secret)?);
    }
    for (agent, number) in agents.iter_mut().zip(1..) {
        let load = Message::Load { words: behind(words), number };
        agent.channel.send(&load).map_err(|why| failed(&agent.name, &why))?;
    }
    plans.into_iter().map(|plan| together(&mut agents, plan)).collect()
}

/// The words that agents are to hear: all but those that are the conductor's own.
fn behind(words: &[String]) -> Vec<String> {
    const OWN: [&str; 4] = ["--agents", "--secret-file", "--html", "--password-file"];
    let mut kept = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let is_own = |option: &&str| {
            word == *option || word.strip_prefix(*option).is_some_and(|rest| rest.starts_with('='))
        };
        match OWN.iter().any(is_own) {
            true if !word.contains('=') => drop(words.next()),
            true => {}
            false => kept.push(word.clone()),
        }
    }
    kept
}

fn connect(name: &str, secret: &str) -> Result<Agent, Error> {
    let place = place(name)?;
    let addresses = place.to_socket_addrs().map_err(|why| failed(name, &why))?;
    let mut last = std::io::Error::from(ErrorKind::NotFound);
    for address in addresses {
        match TcpStream::connect_timeout(&address, CONNECT_TIME) {
            Ok(stream) => {
                let channel =
                    Channel::open(stream, Side::Conductor, secret).map_err(|why| failed(name, &why))?;
                return Ok(Agent { name: name.to_owned(), channel });
            }
            Err(why) => last = why,
        }
    }
    let port = place.1;
    let text = format!("{last}; start there: trunkline load --agent 0.0.0.0:{port} --secret-file FILE");
    Err(Error::host(format!("agent {name}"), text))
}

impl Agent {
    fn hear(&mut self, time: Duration) -> Result<Message, Error> {
        match self.channel.receive(time).map_err(|why| failed(&self.name, &why))? {
            Message::Failed(why) => Err(Error::host(format!("agent {}", self.name), why)),
            message => Ok(message),
        }
    }

    fn strange(&self) -> Error {
        Error::Wrong(format!("agent {}: it is not where it should be in the order of things", self.name))
    }
}

/// One load on all of them.
fn together(agents: &mut [Agent], plan: Plan) -> Result<Report, Error> {
    for agent in agents.iter_mut() {
        if !matches!(agent.hear(LONG)?, Message::Ready) {
            return Err(agent.strange());
        }
    }
    for agent in agents.iter_mut() {
        agent.channel.send(&Message::Go).map_err(|why| failed(&agent.name, &why))?;
    }
    let time = plan.runtime.map_or(LONG, |runtime| plan.ramp + runtime + plan.cool_down) + LONG;
    let mut all: Vec<(String, Measured)> = Vec::new();
    for agent in agents.iter_mut() {
        match agent.hear(time)? {
            Message::Measured(measured) => all.push((agent.name.clone(), *measured)),
            _ => return Err(agent.strange()),
        }
    }
    Ok(Report::merged(&plan, all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_the_conductors_own_is_not_handed_on() {
        let words = "--agents a,b --bs 4k --secret-file=s -d5 --html x y --json";
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        assert_eq!(behind(&words), ["--bs", "4k", "-d5", "y", "--json"]);
    }
}
