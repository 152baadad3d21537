//! Creates the path, runs the command behind it, and reports the path's properties.

use std::ffi::{OsStr, OsString};
use std::net::IpAddr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::ExitStatus;
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use tokio::signal::unix::{SignalKind, signal};

use super::args::LinkArgs;
use super::ends::LinkDevices;
use super::forward::forward;
use super::probe::Target;
use super::proxy::Proxy;
use super::report::LinkReport;
use crate::Error;

/// Runs the command behind the path and returns its exit status. The report goes to standard error.
///
/// # Errors
/// If the process is not root and there is no proxy, if the path cannot be created, or if there is no
/// such command.
pub fn run(args: &LinkArgs) -> Result<ExitStatus, Error> {
    if let Some(server) = &args.proxy {
        return behind_proxy(args, server);
    }
    if !rustix::process::geteuid().is_root() {
        return Err(Error::Usage(
            "trunkline link creates network devices, which needs root: run it with sudo, or with --proxy \
             HOST:PORT if only rates matter"
                .to_owned(),
        ));
    }
    let ends = LinkDevices::make(args.mtu, args.congestion_control.as_deref())?;
    let target = Target::listen(ends.host())?;
    let (until, over) = rustix::pipe::pipe().map_err(|why| Error::host("make a pipe", why))?;
    let (shape, seed) = (args.shape(), args.seed);
    let (outcome, there, back) = thread::scope(|scope| {
        let there = scope.spawn(|| forward(&ends.near, &ends.far, shape, seed, &until));
        let back = scope.spawn(|| forward(&ends.far, &ends.near, shape, !seed, &until));
        // The work behind the path has a thread of its own, because a namespace belongs to a thread.
        let behind = scope.spawn(|| {
            ends.enter()?;
            let connects = target.connect(args.rtt)?;
            Ok((execute(&args.command, &ForwardedAddress { host: ends.host(), port: None })?, connects))
        });
        let outcome = join(behind);
        drop(over);
        (outcome, join(there), join(back))
    });
    let (status, connects) = outcome?;
    let report = LinkReport { rtt: args.rtt, connects, there: there?, back: back?, missed: ends.missed() };
    eprint!("{report}");
    Ok(status)
}

/// Runs the command with a proxy for its connections to `server`.
fn behind_proxy(args: &LinkArgs, server: &str) -> Result<ExitStatus, Error> {
    if args.rate.is_none() && args.flow_rate.is_none() {
        return Err(Error::Usage(
            "--proxy holds connections to a rate: give --rate, --flow-rate or both".to_owned(),
        ));
    }
    let proxy = Proxy::start(server, args.rate, args.flow_rate)?;
    let address = ForwardedAddress { host: proxy.address.ip(), port: Some(proxy.address.port()) };
    let status = execute(&args.command, &address)?;
    eprint!("{proxy}");
    Ok(status)
}

/// The address at which the command finds the servers.
struct ForwardedAddress {
    host: IpAddr,
    port: Option<u16>,
}

fn join<T>(thread: thread::ScopedJoinHandle<'_, Result<T, Error>>) -> Result<T, Error> {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Runs the command to its end, even if this process gets signals meanwhile, so that everything is
/// cleaned up. The first signal that asks us to end is passed on to the command. A second one kills it.
fn execute(command: &[OsString], address: &ForwardedAddress) -> Result<ExitStatus, Error> {
    let words: Vec<OsString> = command.iter().map(|word| address.put_into(word)).collect();
    let [program, arguments @ ..] = words.as_slice() else {
        return Err(Error::Usage("there is no command to run".to_owned()));
    };
    let doing = || format!("run {}", program.display());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|why| Error::host("make a runtime", why))?;
    runtime.block_on(async {
        let failed = |why: std::io::Error| Error::host(doing(), why);
        // From here on the signal does not end this process. The terminal sends it to the command too.
        let _interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
        let mut child = tokio::process::Command::new(program)
            .args(arguments)
            .env("TRUNKLINE_LINK_HOST", address.host.to_string())
            .envs(address.port.map(|port| ("TRUNKLINE_LINK_PORT", port.to_string())))
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let id = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let passing_on = tokio::spawn(async move {
            for with in [Signal::TERM, Signal::KILL] {
                terminate.recv().await;
                if let Some(id) = id {
                    let _ = kill_process(id, with);
                }
            }
        });
        let ended = child.wait().await.map_err(failed);
        passing_on.abort();
        ended
    })
}

impl ForwardedAddress {
    /// A word of the command with `{host}` replaced by the address, and `{port}` by the port if there is
    /// one.
    fn put_into(&self, word: &OsStr) -> OsString {
        let word = replace(word, b"{host}", &self.host.to_string());
        self.port.iter().fold(word, |word, port| replace(&word, b"{port}", &port.to_string()))
    }
}

fn replace(word: &OsStr, placeholder: &[u8], by: &str) -> OsString {
    let (mut rest, mut put) = (word.as_bytes(), Vec::new());
    while let Some(at) = rest.windows(placeholder.len()).position(|part| part == placeholder) {
        put.extend_from_slice(&rest[..at]);
        put.extend_from_slice(by.as_bytes());
        rest = &rest[at + placeholder.len()..];
    }
    put.extend_from_slice(rest);
    OsString::from_vec(put)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_put_wherever_it_is_named() {
        let address = ForwardedAddress { host: IpAddr::from([198, 18, 0, 1]), port: None };
        let put = |word: &str| address.put_into(OsStr::new(word));
        assert_eq!(put("smb://me@{host}/share"), "smb://me@198.18.0.1/share");
        assert_eq!(put("{host}{host}"), "198.18.0.1198.18.0.1");
        assert_eq!(put("{hos}t {"), "{hos}t {");
        assert_eq!(put("${port}"), "${port}");
    }

    /// The exit status of `line` behind a proxy.
    fn run_line(line: &[&str]) -> Result<ExitStatus, Error> {
        #[derive(clap::Parser)]
        struct LinkCli {
            #[command(flatten)]
            args: LinkArgs,
        }
        let words = ["link", "--proxy", "127.0.0.1:9"].iter().chain(line);
        let cli =
            <LinkCli as clap::Parser>::try_parse_from(words).map_err(|why| Error::Usage(why.to_string()))?;
        run(&cli.args)
    }

    #[test]
    fn a_command_behind_a_proxy_is_told_its_port_and_needs_no_root() {
        let test =
            "test {host}:{port} = $TRUNKLINE_LINK_HOST:$TRUNKLINE_LINK_PORT && test {port} -gt 0 && exit 7";
        let status = run_line(&["--flow-rate", "1Mbit", "--", "sh", "-c", test]).unwrap();
        assert_eq!(status.code(), Some(7));
    }

    #[test]
    fn a_proxy_needs_a_rate_and_is_no_long_path() {
        for line in [&["--", "true"][..], &["--rate", "1Mbit", "--rtt", "1ms", "--", "true"]] {
            assert!(matches!(run_line(line), Err(Error::Usage(_))), "{line:?}");
        }
    }
}
