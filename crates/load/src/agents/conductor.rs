//! The conductor: sends loads to agents, starts them together, and merges their results.

use std::io::{self, ErrorKind};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use super::connection::{AgentConnection, MessageSender, PeerRole, failed};
use super::{Message, host_and_port};
use crate::args::Args;
use crate::{Error, Plan, Report};

/// The longest time for an agent to create files, to do a fixed amount of work, or to remove its files.
const LONG: Duration = Duration::from_secs(3600);

/// The longest time to connect.
const CONNECT_TIME: Duration = Duration::from_secs(10);

/// The number of `Alive` messages in the time that an agent may be silent. One late message then does no
/// harm.
const BEATS: u32 = 4;

/// The extra time for the last results, as a multiple of the time that an agent may be silent.
const SLACK: u32 = 4;

/// The results of a load from several machines.
#[derive(Debug)]
pub struct MergedResults {
    /// One report for each load. If an agent was lost, the last report has the results of the others.
    pub reports: Vec<Report>,
    /// The errors, with the names of the agents. No load starts after an error.
    pub lost: Vec<Error>,
}

/// Runs the command line `words` (those behind `trunkline load`) on all agents (`--agents`).
///
/// # Errors
/// The first error before the measurement, with the name of the agent. The other agents are disconnected,
/// and stop.
pub fn conduct(args: &Args, words: &[String], secret: &str) -> Result<MergedResults, Error> {
    if args.server_pid.is_some() {
        return Err(Error::Usage(
            "--server-pid does not go with --agents: they see other processes".to_owned(),
        ));
    }
    let plans = Plan::all(args, "")?;
    let silence = args.agent_timeout;
    let mut connections = Vec::new();
    for name in &args.agents {
        connections.push(connect(name, secret, silence)?);
    }
    for ((connection, name), number) in connections.iter().zip(&args.agents).zip(1..) {
        let load = Message::Load { words: agent_words(words), number, beat: silence / BEATS };
        connection.send(&load).map_err(|why| failed(name, &why, silence))?;
    }
    AgentGroup::of(&args.agents, connections, silence)?.run_loads(plans)
}

/// The words for the agents: all but the conductor's own options.
fn agent_words(words: &[String]) -> Vec<String> {
    const OWN: [&str; 5] = ["--agents", "--agent-timeout", "--secret-file", "--html", "--password-file"];
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

fn connect(name: &str, secret: &str, silence: Duration) -> Result<AgentConnection, Error> {
    let host_and_port = host_and_port(name)?;
    let failed = |why: io::Error| failed(name, &why, silence);
    let addresses = host_and_port.to_socket_addrs().map_err(failed)?;
    let mut last = io::Error::from(ErrorKind::NotFound);
    for address in addresses {
        match TcpStream::connect_timeout(&address, CONNECT_TIME) {
            Ok(stream) => return AgentConnection::open(stream, PeerRole::Conductor, secret).map_err(failed),
            Err(why) => last = why,
        }
    }
    let port = host_and_port.1;
    let text = format!("{last}; start there: trunkline load --agent 0.0.0.0:{port} --secret-file FILE");
    Err(Error::host(format!("agent {name}"), text))
}

/// The effect of a lost agent on a wait for all agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AgentLoss {
    /// The wait ends.
    Ends,
    /// The wait for the others continues.
    Continues,
}

/// All agents. One thread receives from each, so that a silent agent is noticed whatever the others do.
struct AgentGroup {
    agents: Vec<Agent>,
    /// The received messages, each with the number of its agent.
    received: mpsc::Receiver<(usize, io::Result<Message>)>,
    silence: Duration,
    /// The errors, the first one first.
    lost: Vec<Error>,
}

struct Agent {
    name: String,
    sender: MessageSender,
    end: TcpStream,
    is_lost: bool,
}

impl Drop for Agent {
    fn drop(&mut self) {
        // An agent that has disconnected already needs no shutdown. The receiving thread ends with the
        // connection.
        let _ = self.end.shutdown(Shutdown::Both);
    }
}

impl AgentGroup {
    fn of(
        names: &[String],
        connections: Vec<AgentConnection>,
        silence: Duration,
    ) -> Result<AgentGroup, Error> {
        let (sender, received) = mpsc::channel();
        let mut agents = Vec::new();
        for (number, (mut connection, name)) in connections.into_iter().zip(names).enumerate() {
            let end = connection.end().map_err(|why| failed(name, &why, silence))?;
            agents.push(Agent { name: name.clone(), sender: connection.sender(), end, is_lost: false });
            let sender = sender.clone();
            thread::spawn(move || {
                loop {
                    let heard = connection.receive(silence);
                    // After its last message an agent may disconnect.
                    let is_end = matches!(heard, Err(_) | Ok(Message::Done | Message::Failed(_)));
                    let is_new = !matches!(heard, Ok(Message::Alive));
                    if is_new && sender.send((number, heard)).is_err() || is_end {
                        return;
                    }
                }
            });
        }
        Ok(AgentGroup { agents, received, silence, lost: Vec::new() })
    }

    /// Runs one load after the other, until an agent is lost.
    fn run_loads(mut self, plans: Vec<Plan>) -> Result<MergedResults, Error> {
        let (mut reports, mut left) = (Vec::new(), plans.len());
        self.receive_from_all(LONG, AgentLoss::Ends, |message| {
            matches!(message, Message::Ready).then_some(())
        });
        for plan in plans {
            if !self.lost.is_empty() {
                break;
            }
            left -= 1;
            reports.extend(self.run_load(&plan, left == 0));
        }
        match reports.is_empty() {
            true => Err(self.lost.swap_remove(0)),
            false => Ok(MergedResults { reports, lost: self.lost }),
        }
    }

    /// Runs one load on all agents, which are ready. `None` if no agent has results. Afterwards the
    /// agents are ready for the next load, unless this was the last.
    fn run_load(&mut self, plan: &Plan, is_last: bool) -> Option<Report> {
        let slack = self.silence * SLACK;
        let time = plan.runtime.map_or(LONG, |runtime| plan.ramp + runtime + plan.cool_down + slack);
        self.send_to_all(&Message::Go);
        let measured = self.receive_from_all(time, AgentLoss::Continues, |message| match message {
            Message::Measured(measured) => Some(*measured),
            _ => None,
        });
        let (mut all, mut missing) = (Vec::new(), Vec::new());
        for (agent, measured) in self.agents.iter().zip(measured) {
            match measured {
                Some(measured) => all.push((agent.name.clone(), measured)),
                None => missing.push(agent.name.clone()),
            }
        }
        let is_last = is_last || !self.lost.is_empty();
        self.send_to_all(&Message::Clear { is_last });
        if is_last {
            self.receive_from_all(LONG, AgentLoss::Continues, |message| {
                matches!(message, Message::Done).then_some(())
            });
        } else {
            self.receive_from_all(LONG, AgentLoss::Ends, |message| {
                matches!(message, Message::Ready).then_some(())
            });
        }
        (!all.is_empty()).then(|| Report::merged(plan, all, missing))
    }

    fn send_to_all(&mut self, message: &Message) {
        for number in 0..self.agents.len() {
            let agent = &self.agents[number];
            if agent.is_lost {
                continue;
            }
            if let Err(why) = agent.sender.send(message) {
                let why = failed(&agent.name, &why, self.silence);
                self.mark_lost(number, why);
            }
        }
    }

    /// The values that `take` extracts from the next message of each agent, in the order of the agents.
    /// An agent without such a message within `time` is lost.
    fn receive_from_all<T>(
        &mut self,
        time: Duration,
        loss: AgentLoss,
        take: impl Fn(Message) -> Option<T>,
    ) -> Vec<Option<T>> {
        let until = Instant::now() + time;
        let mut heard: Vec<Option<T>> = self.agents.iter().map(|_| None).collect();
        loop {
            let is_awaited = |number: &usize| heard[*number].is_none() && !self.agents[*number].is_lost;
            let awaited: Vec<usize> = (0..heard.len()).filter(is_awaited).collect();
            if awaited.is_empty() || loss == AgentLoss::Ends && !self.lost.is_empty() {
                return heard;
            }
            let Ok((number, said)) =
                self.received.recv_timeout(until.saturating_duration_since(Instant::now()))
            else {
                for number in awaited {
                    let why = format!("it is there, but was not done after {} s", time.as_secs_f64());
                    self.mark_lost(number, Error::host(self.name(number), why));
                }
                return heard;
            };
            match said {
                // A late message of an agent that was given up.
                _ if self.agents[number].is_lost => {}
                Err(why) => self.mark_lost(number, failed(&self.agents[number].name, &why, self.silence)),
                Ok(Message::Failed(why)) => self.mark_lost(number, Error::host(self.name(number), why)),
                Ok(message) => match take(message) {
                    found @ Some(_) if heard[number].is_none() => heard[number] = found,
                    _ => {
                        let why = "it sent an unexpected message";
                        self.mark_lost(number, Error::Wrong(format!("{}: {why}", self.name(number))));
                    }
                },
            }
        }
    }

    fn name(&self, number: usize) -> String {
        format!("agent {}", self.agents[number].name)
    }

    fn mark_lost(&mut self, number: usize, why: Error) {
        self.agents[number].is_lost = true;
        self.lost.push(why);
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use clap::Parser;

    use super::super::agent::Heartbeat;
    use super::*;

    const SECRET: &str = "a secret of enough length";

    #[derive(Debug, Parser)]
    struct ConductorCli {
        #[command(flatten)]
        args: Args,
    }

    /// The behaviour of an agent of a test after it has received the load.
    type AgentScript = fn(AgentConnection, Heartbeat);

    /// Starts an agent that runs `part`, and returns its address.
    fn agent(part: AgentScript) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        thread::spawn(move || {
            let mut connection =
                AgentConnection::open(listener.accept().unwrap().0, PeerRole::Agent, SECRET).unwrap();
            let Message::Load { beat, .. } = hear(&mut connection) else { panic!("it is told nothing") };
            let heart = Heartbeat::start(connection.sender(), beat);
            part(connection, heart);
        });
        address
    }

    fn hear(connection: &mut AgentConnection) -> Message {
        connection.receive(CONNECT_TIME).unwrap()
    }

    /// Sends nothing more, but keeps the connection as long as the other side does.
    fn be_silent(mut connection: AgentConnection, heart: Heartbeat) {
        drop(heart);
        while connection.receive(LONG).is_ok() {}
    }

    /// Sends `Alive` messages and never finishes.
    fn be_busy(mut connection: AgentConnection, _heart: Heartbeat) {
        while connection.receive(LONG).is_ok() {}
    }

    /// Reports that it is ready, and waits for the start.
    fn begin(connection: &mut AgentConnection) {
        connection.send(&Message::Ready).unwrap();
        assert!(matches!(hear(connection), Message::Go));
    }

    /// Does what it is told.
    fn measure(mut connection: AgentConnection, _heart: Heartbeat) {
        loop {
            begin(&mut connection);
            connection.send(&Message::Measured(Box::default())).unwrap();
            match hear(&mut connection) {
                Message::Clear { is_last: true } => break,
                message => assert!(matches!(message, Message::Clear { is_last: false })),
            }
        }
        connection.send(&Message::Done).unwrap();
    }

    fn conducted(parts: &[AgentScript], line: &str) -> (Vec<String>, Result<MergedResults, Error>) {
        let agents: Vec<String> = parts.iter().map(|part| agent(*part)).collect();
        let line = format!("load / {line} --agents {}", agents.join(","));
        let args = ConductorCli::parse_from(line.split(' ')).args;
        let conducted = conduct(&args, &[], SECRET);
        (agents, conducted)
    }

    #[test]
    fn the_others_are_reported_without_an_agent_that_falls_silent() {
        let silent: AgentScript = |mut connection, heart| {
            begin(&mut connection);
            be_silent(connection, heart);
        };
        for (of, parts) in [[silent, measure as AgentScript], [measure, silent]].iter().enumerate() {
            let (agents, conducted) = conducted(parts, "--runtime 60 --agent-timeout 1 --rw read,write");
            let MergedResults { reports, lost } = conducted.unwrap();
            let (lost, [report]) = (lost[0].to_string(), reports.as_slice()) else {
                panic!("nothing is measured after a loss")
            };
            assert!(
                lost.starts_with(&format!("agent {}: it has said nothing for 1 s", agents[of])),
                "{lost}"
            );
            let title = report.to_string().lines().next().unwrap().to_owned();
            assert!(title.ends_with(&format!("; INCOMPLETE: without {}", agents[of])), "{title}");
            assert_eq!(report.json()["jobs"][0]["trunkline"]["missing_clients"][0], agents[of]);
        }
    }

    #[test]
    fn an_agent_that_is_there_and_never_done_is_given_up() {
        let busy: AgentScript = |mut connection, heart| {
            begin(&mut connection);
            be_busy(connection, heart);
        };
        let (agents, conducted) =
            conducted(&[measure, busy], "--runtime 100ms --ramp_time 100ms --agent-timeout 500ms");
        let MergedResults { reports, lost } = conducted.unwrap();
        // The time of the load, and four times the time that it may be silent.
        let why = format!("agent {}: it is there, but was not done after 2.2 s", agents[1]);
        assert_eq!((reports.len(), lost[0].to_string()), (1, why));
    }

    #[test]
    fn a_loss_before_the_begin_ends_all() {
        let (agents, conducted) = conducted(&[be_busy, be_silent], "--runtime 60 --agent-timeout 1");
        let why = conducted.unwrap_err().to_string();
        assert!(why.starts_with(&format!("agent {}: it has said nothing", agents[1])), "{why}");
    }

    #[test]
    fn a_loss_while_they_clear_away_takes_nothing_from_what_was_measured() {
        let silent: AgentScript = |mut connection, heart| {
            begin(&mut connection);
            connection.send(&Message::Measured(Box::default())).unwrap();
            be_silent(connection, heart);
        };
        let (agents, conducted) = conducted(&[silent, measure], "--runtime 60 --agent-timeout 1");
        let MergedResults { reports, lost } = conducted.unwrap();
        assert_eq!(reports[0].json()["jobs"][0]["trunkline"]["missing_clients"], serde_json::json!([]));
        assert!(lost[0].to_string().contains(&agents[0]));
    }

    #[test]
    fn what_is_the_conductors_own_is_not_handed_on() {
        let words = "--agents a,b --bs 4k --secret-file=s -d5 --html x y --json --agent-timeout 5";
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        assert_eq!(agent_words(&words), ["--bs", "4k", "-d5", "y", "--json"]);
    }
}
