//! `trunkline link --proxy`: connections with limited rates, without root and for one server.
//!
//! Only the rate imitates a narrow path: this host completes each handshake at once, and loses nothing.
//! Data is forwarded when the rate allows it. The achieved rate is measured over the times in which there
//! was always data to forward.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::Error;

/// The wake-up delay on a busy host up to which the lost time is made up for.
const LATE: Duration = Duration::from_millis(20);
/// The shortest time that is measured.
const MEASURED: Duration = Duration::from_millis(50);
/// The data that is forwarded at once, as a time at the rate, within [`PARTS`].
const PART: Duration = Duration::from_millis(2);
const PARTS: std::ops::RangeInclusive<usize> = 1024..=64 * 1024;
/// The longest time to connect to the server.
const CONNECT_TIME: Duration = Duration::from_secs(10);

/// The use of a rate.
#[derive(Debug, Default)]
struct RateUsage {
    period: Option<BusyPeriod>,
    /// Bytes and time of all measured busy periods.
    kept: (u64, Duration),
    /// The time of all busy periods, measured or not.
    busy: Duration,
}

/// A busy period: a time in which there was always data to forward.
#[derive(Debug)]
struct BusyPeriod {
    begin: Instant,
    /// The time at which the rate allows everything that was taken.
    paid: Instant,
    /// The time of the last forwarded data, and all forwarded bytes.
    done: Instant,
    bytes: u64,
    /// Whether the data that was taken last must wait for the rate.
    waits: bool,
    /// The time of the last forwarded data that had to wait, and the bytes until then. Later data was
    /// delayed by another rate or by one of the ends.
    measured: (Instant, u64),
}

/// A limit of bits a second.
#[derive(Debug)]
struct Pace {
    rate: u64,
    usage: Mutex<RateUsage>,
}

impl Pace {
    fn new(rate: u64) -> Arc<Pace> {
        Arc::new(Pace { rate, usage: Mutex::default() })
    }

    fn usage(&self) -> MutexGuard<'_, RateUsage> {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes `bytes`, and returns the time at which they may be forwarded.
    fn take(&self, now: Instant, bytes: usize) -> Instant {
        let mut usage = self.usage();
        if usage.period.as_ref().is_some_and(|it| now > it.paid + LATE) {
            usage.end();
        }
        let anew =
            || BusyPeriod { begin: now, paid: now, done: now, bytes: 0, waits: false, measured: (now, 0) };
        let period = usage.period.get_or_insert_with(anew);
        period.paid += Duration::from_secs_f64(bytes as f64 * 8.0 / self.rate as f64);
        period.waits = period.paid > now;
        period.paid
    }

    /// Records that `bytes` were forwarded.
    fn record_forwarded(&self, now: Instant, bytes: usize) {
        if let Some(period) = &mut self.usage().period {
            period.bytes += bytes as u64;
            period.done = now;
            if period.waits {
                period.measured = (now, period.bytes);
            }
        }
    }

    /// The achieved rate in bits a second. `None` if there was never enough data.
    fn kept(&self) -> Option<f64> {
        let mut usage = self.usage();
        usage.end();
        let (bytes, time) = usage.kept;
        // A rate that is seldom the bottleneck appears as one when a busy host forwards everything at
        // once.
        (!time.is_zero() && time * 2 >= usage.busy).then(|| bytes as f64 * 8.0 / time.as_secs_f64())
    }
}

impl RateUsage {
    fn end(&mut self) {
        let Some(period) = self.period.take() else { return };
        let (until, bytes) = period.measured;
        self.busy += period.done - period.begin;
        let time = until - period.begin;
        if time >= MEASURED {
            self.kept = (self.kept.0 + bytes, self.kept.1 + time);
        }
    }
}

/// One direction of all connections.
#[derive(Debug, Default)]
struct Direction {
    flows: Mutex<Vec<Arc<Pace>>>,
    all: Option<Arc<Pace>>,
    bytes: AtomicU64,
}

impl Direction {
    fn new(rate: Option<u64>) -> Direction {
        Direction { all: rate.map(Pace::new), ..Direction::default() }
    }

    /// Forwards data from `from` until it ends or one side disconnects.
    fn carry(&self, mut from: TcpStream, mut to: TcpStream, flow_rate: Option<u64>) {
        let own = flow_rate.map(Pace::new);
        let paces: Vec<_> = own.iter().chain(&self.all).map(Arc::clone).collect();
        self.flows.lock().unwrap_or_else(PoisonError::into_inner).extend(own);
        let least = paces.iter().map(|it| it.rate).min().unwrap_or(u64::MAX);
        let part = (least as f64 / 8.0 * PART.as_secs_f64()) as usize;
        let mut part = vec![0; part.clamp(*PARTS.start(), *PARTS.end())];
        let mut step = || -> io::Result<usize> {
            let count = from.read(&mut part)?;
            let now = Instant::now();
            let due = paces.iter().map(|it| it.take(now, count)).max();
            if let Some(due) = due.filter(|due| *due > now) {
                thread::sleep(due - now);
            }
            to.write_all(&part[..count])?;
            paces.iter().for_each(|it| it.record_forwarded(Instant::now(), count));
            self.bytes.fetch_add(count as u64, Ordering::Relaxed);
            Ok(count)
        };
        let ended = loop {
            match step() {
                Ok(0) => break Ok(()),
                Ok(_) => {}
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                Err(why) => break Err(why),
            }
        };
        // An end of the data is passed on. A failure ends both directions.
        let _ = to.shutdown(if ended.is_ok() { Shutdown::Write } else { Shutdown::Both });
        if ended.is_err() {
            let _ = from.shutdown(Shutdown::Both);
        }
    }
}

/// The state that all connections of the proxy share.
#[derive(Debug)]
struct ProxyState {
    server: Vec<SocketAddr>,
    flow_rate: Option<u64>,
    there: Direction,
    back: Direction,
    connections: AtomicU64,
    /// The reason why a connection to the server failed.
    failure: Mutex<Option<String>>,
    is_over: AtomicBool,
}

/// A proxy for a server. It accepts connections until it is dropped.
#[derive(Debug)]
pub(super) struct Proxy {
    pub(super) address: SocketAddr,
    shared: Arc<ProxyState>,
}

impl Proxy {
    /// Listens on this host for connections to `server`, `HOST:PORT`. Rates are bits a second in each
    /// direction.
    pub(super) fn start(server: &str, rate: Option<u64>, flow_rate: Option<u64>) -> Result<Proxy, Error> {
        let wrong = |why: String| Error::Usage(format!("--proxy {server}: {why}"));
        let host_and_port = client::written::host_and_port(server, 445).map_err(wrong)?;
        let found = host_and_port.to_socket_addrs().map_err(|why| wrong(why.to_string()))?;
        let failed = |why: io::Error| Error::host("listening on 127.0.0.1", why);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let shared = Arc::new(ProxyState {
            server: found.collect(),
            flow_rate,
            there: Direction::new(rate),
            back: Direction::new(rate),
            connections: AtomicU64::new(0),
            failure: Mutex::default(),
            is_over: AtomicBool::new(false),
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if accepting.is_over.load(Ordering::Relaxed) {
                    return;
                }
                let shared = Arc::clone(&accepting);
                thread::spawn(move || shared.serve(stream));
            }
        });
        Ok(Proxy { address, shared })
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        // Wakes the accepting thread.
        let _ = TcpStream::connect(self.address);
    }
}

impl ProxyState {
    fn serve(&self, near: TcpStream) {
        if let Err(why) = self.forward(&near) {
            *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(why.to_string());
        }
    }

    fn forward(&self, near: &TcpStream) -> io::Result<()> {
        let mut far = Err(io::ErrorKind::AddrNotAvailable.into());
        for address in &self.server {
            far = TcpStream::connect_timeout(address, CONNECT_TIME);
            if far.is_ok() {
                break;
            }
        }
        let far = far?;
        near.set_nodelay(true)?;
        far.set_nodelay(true)?;
        self.connections.fetch_add(1, Ordering::Relaxed);
        let (from, to) = (near.try_clone()?, far.try_clone()?);
        let near = near.try_clone()?;
        thread::scope(|scope| {
            scope.spawn(|| self.there.carry(from, to, self.flow_rate));
            self.back.carry(far, near, self.flow_rate);
        });
        Ok(())
    }
}

/// Prints the achieved rates, and their differences from the requested ones.
impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shared = &self.shared;
        let connections = shared.connections.load(Ordering::Relaxed);
        for (name, direction) in [("there", &shared.there), ("back ", &shared.back)] {
            let carried = direction.bytes.load(Ordering::Relaxed) as f64 / 1e6;
            writeln!(f, "link: {name} {connections} connections, {carried:.1} MB")?;
            if let Some(rate) = shared.flow_rate {
                let flows = direction.flows.lock().unwrap_or_else(PoisonError::into_inner);
                let kept: Vec<f64> = flows.iter().filter_map(|it| it.kept()).collect();
                write_rates(f, name, "each", rate, kept)?;
            }
            if let Some(all) = &direction.all {
                write_rates(f, name, "all", all.rate, all.kept().into_iter().collect())?;
            }
        }
        match &*shared.failure.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(why) => writeln!(f, "link: a connection to the server could not be made: {why}"),
            None => Ok(()),
        }
    }
}

/// Prints the requested rate and the achieved rates.
fn write_rates(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    what: &str,
    rate: u64,
    mut kept: Vec<f64>,
) -> fmt::Result {
    kept.sort_unstable_by(f64::total_cmp);
    let asked = rate as f64 / 1e6;
    write!(f, "link: {name} {what}: {asked:.3} Mbit/s asked for, ")?;
    let off = |kept: f64| (kept / rate as f64 - 1.0) * 100.0;
    let middle = kept.get(kept.len() / 2);
    let (Some(least), Some(middle), Some(most)) = (kept.first(), middle, kept.last()) else {
        return writeln!(f, "too seldom the bottleneck to be measured");
    };
    let median = middle / 1e6;
    write!(f, "{median:.3} kept, off by {:+.2} %", off(*middle))?;
    match kept.len() {
        1 => writeln!(f),
        _ => writeln!(f, " (median; {:+.2} % to {:+.2} %)", off(*least), off(*most)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MBIT: u64 = 1_000_000;

    #[test]
    fn what_is_taken_is_due_when_the_rate_has_carried_it_and_lateness_is_made_up_for() {
        let (pace, begin) = (Pace::new(8 * MBIT), Instant::now());
        let ms = Duration::from_millis;
        assert_eq!(pace.take(begin, 10_000), begin + ms(10));
        // The data was forwarded late; the next part is not delayed for it.
        assert_eq!(pace.take(begin + ms(15), 10_000), begin + ms(20));
        // After an idle time nothing is made up for.
        assert_eq!(pace.take(begin + ms(100), 10_000), begin + ms(110));
    }

    #[test]
    fn what_was_kept_is_measured_where_there_was_always_something_to_carry() {
        let (pace, begin) = (Pace::new(8 * MBIT), Instant::now());
        let ms = Duration::from_millis;
        assert_eq!(pace.kept(), None);
        for at in 0..10 {
            pace.take(begin + ms(10 * at), 10_000);
            pace.record_forwarded(begin + ms(10 * (at + 1)), 10_000);
        }
        // A single packet, which is too short to measure.
        pace.take(begin + ms(5000), 10);
        pace.record_forwarded(begin + ms(5000), 10);
        let kept = pace.kept().expect("it is known");
        assert!((kept - 8e6).abs() < 1.0, "{kept}");
    }

    #[test]
    fn a_rate_that_held_up_nothing_says_nothing() {
        let (pace, begin) = (Pace::new(8 * MBIT), Instant::now());
        for at in 0..100 {
            let now = begin + Duration::from_micros(1100 * at);
            pace.take(now, 1000);
            pace.record_forwarded(now + Duration::from_micros(1100), 1000);
        }
        assert_eq!(pace.kept(), None);
    }

    /// A server that sends `length` bytes and waits for the end.
    fn server(length: usize) -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for mut stream in listener.incoming().map(Result::unwrap) {
                thread::spawn(move || {
                    stream.write_all(&vec![7; length]).unwrap();
                    stream.shutdown(Shutdown::Write).unwrap();
                    stream.read_to_end(&mut Vec::new()).unwrap()
                });
            }
        });
        address
    }

    fn fetch(address: SocketAddr) -> usize {
        let mut stream = TcpStream::connect(address).unwrap();
        let mut got = Vec::new();
        stream.read_to_end(&mut got).unwrap();
        assert!(got.iter().all(|byte| *byte == 7));
        got.len()
    }

    #[test]
    fn connections_are_no_quicker_than_asked_for_and_all_of_them_no_quicker_than_that() {
        // 100,000 bytes at 8 Mbit/s are 100 ms; two of them over one line of 8 Mbit/s are twice that.
        let to = server(100_000).to_string();
        for (rate, flow_rate, least) in [(None, Some(8 * MBIT), 95), (Some(8 * MBIT), None, 190)] {
            let proxy = Proxy::start(&to, rate, flow_rate).unwrap();
            let begin = Instant::now();
            let fetching = [(); 2].map(|()| {
                let address = proxy.address;
                thread::spawn(move || fetch(address))
            });
            assert_eq!(fetching.map(|it| it.join().unwrap()), [100_000; 2]);
            assert!(begin.elapsed() >= Duration::from_millis(least), "{:?}", begin.elapsed());
            let told = proxy.to_string();
            assert!(told.contains("link: back  2 connections, 0.2 MB\n"), "{told}");
            assert!(told.contains("8.000 Mbit/s asked for, ") && told.contains(" kept, off by "), "{told}");
        }
    }

    #[test]
    fn a_server_that_is_not_there_is_said_and_its_connection_ends() {
        let nobody = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        let proxy = Proxy::start(&nobody.to_string(), None, None).unwrap();
        assert_eq!(TcpStream::connect(proxy.address).unwrap().read(&mut [0]).unwrap_or(0), 0);
        let until = Instant::now() + Duration::from_secs(20);
        while !proxy.to_string().contains("could not be made") {
            assert!(Instant::now() < until, "{proxy}");
            thread::yield_now();
        }
        assert!(matches!(Proxy::start("", None, None), Err(Error::Usage(_))));
        assert!(matches!(Proxy::start("host:none", None, None), Err(Error::Usage(_))));
    }
}
