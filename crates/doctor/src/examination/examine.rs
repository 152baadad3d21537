//! The examination of one server, layer by layer. Results stay in the [`TargetMeasurements`] whatever
//! happens later. The [`Examination`] knows everything that was created on the server, so it is removed
//! however the examination ends.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use admin::Transactions;
use client::remote::RemoteSession;
use client::smb::Credentials;
use client::{Scheme, Url, join, nfs};
use smb_wire::ioctl::interfaces::{InterfaceCapability, NetworkInterfaceInfo};

use super::bench;
use crate::args::{Args, MeasurementBudget};
use crate::cleanup::CreatedNames;
use crate::examination::{Examination, accounts_of, cut, ends};
use crate::measurements::{
    Cause, Connections, Interface, Protocol, Scope, Stage, Stopped, TargetMeasurements, Transport, median,
};
use crate::ping::{self, Attempt};
use crate::protocol::ClientOptions;
use crate::route::{self, find};
use crate::tcp::TcpInfo;
use crate::{cleanup, packets, protocol, server_account};

/// The longest time for a log-off.
const LOG_OFF: Duration = Duration::from_millis(700);
/// Round trips to delete the test files and log off, with a new session if the old one is stuck.
const CLEANUP_TRIPS: u32 = 16;
/// The most addresses of a name that are tried, and the longest time for each.
const ADDRESSES_TRIED: usize = 8;
const CONNECT_PATIENCE: Duration = Duration::from_secs(3);
/// The longest time for an address that is only probed.
const PROBE: Duration = Duration::from_millis(900);
/// A path with a shorter connect is short: more connects cost little there, and the delay of a busy host
/// is a larger part.
const SHORT_WAY: Duration = Duration::from_millis(20);

impl<'a> Examination<'a> {
    pub(crate) fn new(
        target: &'a Url,
        text: String,
        args: &'a Args,
        course: &'a MeasurementBudget,
        password: &str,
    ) -> Examination<'a> {
        let how = match target.scheme {
            Scheme::Nfs => ClientOptions::Nfs(nfs::Options {
                patience: course.stall,
                connect_timeout: course.stall,
                slots: 128,
                ..nfs::Options::of_caller(args.uid, args.gid)
            }),
            _ => {
                let domain = target.domain.clone();
                let by_password = || Credentials { domain, ..Credentials::new(&target.user, password) };
                let who = args.tickets.credentials().unwrap_or_else(by_password);
                let options = client::smb::Options {
                    require_signing: false,
                    connect_timeout: course.stall,
                    credits: 1024,
                    ..client::smb::Options::default()
                };
                ClientOptions::Smb { options, who }
            }
        };
        let begun = Instant::now();
        Examination {
            target,
            args,
            course,
            how,
            measurements: TargetMeasurements { target: text, ..TargetMeasurements::default() },
            sessions: Vec::new(),
            scratch: None,
            made: CreatedNames::default(),
            existing: None,
            written: 0,
            sizes: None,
            addresses: Vec::new(),
            begun,
            until: begun + course.limit,
        }
    }

    /// Examines all layers that can be reached in time.
    pub(crate) async fn examine(&mut self) {
        let mut ended = tokio::time::timeout_at(self.until.into(), self.reach()).await;
        self.reserve();
        if matches!(ended, Ok(Ok(()))) {
            ended = tokio::time::timeout_at(self.until.into(), self.meet()).await;
            self.reserve();
        }
        if matches!(ended, Ok(Ok(()))) {
            ended = tokio::time::timeout_at(self.until.into(), self.layers()).await;
        }
        let took = self.until - self.begun;
        let stopped = ended.unwrap_or_else(|_| Err(cut(&self.measurements, Cause::Other, took))).err();
        self.measurements.stopped = stopped.map(|it| self.by_the_path(it));
    }

    /// The meaning of a silence on a path that loses large packets: the server is not at fault.
    fn by_the_path(&self, stopped: Stopped) -> Stopped {
        let loses = self
            .measurements
            .transport
            .as_ref()
            .and_then(|it| it.packets)
            .is_some_and(|it| it.lost.is_some());
        let is_silent = stopped.stalled || stopped.cause == Cause::Silent;
        if loses && is_silent { Stopped { cause: Cause::LargePackets, ..stopped } } else { stopped }
    }

    /// Layers 1 and 2.
    pub(crate) async fn reach(&mut self) -> Result<(), Stopped> {
        self.measurements.route = Some(find(&self.target.host, self.target.port, self.course.stall).await?);
        self.transport().await
    }

    /// Layer 3.
    async fn meet(&mut self) -> Result<(), Stopped> {
        let (stall, address) = (self.course.stall, self.destination());
        let (session, agreed) = protocol::open(&self.how, self.target, address, stall).await?;
        self.measurements.protocol = Some(agreed);
        self.sessions.push(session);
        self.first_words().await
    }

    /// Layers 4 to 7.
    async fn layers(&mut self) -> Result<(), Stopped> {
        self.connections().await?;
        let before = self.transactions_before().await;
        let worked = self.work().await;
        self.record_transactions_since(before).await;
        self.note_end();
        worked
    }

    /// Layers 5 to 7.
    async fn work(&mut self) -> Result<(), Stopped> {
        bench::data(self).await?;
        bench::names(self).await?;
        bench::again(self).await
    }

    /// The server's own counts so far, if it is to be asked.
    async fn transactions_before(&mut self) -> Option<Transactions> {
        let source = self.args.server.clone()?;
        let asked = server_account::transactions(source, self.course.stall).await;
        asked.map_err(|why| self.measurements.left_out.push(format!("the server's own account: {why}"))).ok()
    }

    /// Records the transactions on this share since `before`.
    async fn record_transactions_since(&mut self, before: Option<Transactions>) {
        let (Some(before), Some(source)) = (before, self.args.server.clone()) else { return };
        match server_account::transactions(source, self.course.stall).await {
            Ok(now) => {
                self.measurements.told = server_account::transactions_between(&before, &now, self.target)
            }
            Err(why) => self.measurements.left_out.push(format!("the server's own account: {why}")),
        }
    }

    /// The address of the server.
    pub(crate) fn destination(&self) -> SocketAddr {
        let route = self.measurements.route.as_ref();
        route.map_or_else(|| SocketAddr::from(([0; 4], 0)), crate::measurements::Route::destination)
    }

    /// The remaining time.
    pub(crate) fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// Finds the address that answers, and measures its connects.
    async fn transport(&mut self) -> Result<(), Stopped> {
        let Some(route) = &mut self.measurements.route else { return Ok(()) };
        // A name with many addresses of a dead host must not take all the time: that would say nothing
        // about the host.
        let tried = route.addresses.len().clamp(1, ADDRESSES_TRIED);
        let patience = self.course.stall.min(CONNECT_PATIENCE).min(self.course.limit / 2 / tried as u32);
        let (mut ends, mut connects) = (Vec::new(), self.course.connects);
        for at in 0..route.addresses.len().min(ADDRESSES_TRIED) {
            let to = SocketAddr::new(route.addresses[at].address, route.port);
            let attempt = ping::once(to, patience).await;
            route.addresses[at].reachable = Some(matches!(attempt, Attempt::Took(_)));
            route.addresses[at].refused = is_refused(&attempt);
            if let Attempt::Took(took) = attempt {
                connects *= if took < SHORT_WAY { 2 } else { 1 };
                route.go_by(to.ip());
                ends.clear();
                break;
            }
            ends.push((to, attempt));
        }
        if !ends.is_empty() {
            return Err(unreachable(&ends, patience));
        }
        crate::private_addresses::probe(route).await;
        let to = route.destination();
        let connect = ping::series(to, connects, Duration::from_millis(10), self.course.limit / 8).await;
        let sysctl = |name: &str| std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).ok();
        let largest = |name: &str| sysctl(name)?.split_whitespace().nth(2)?.parse::<u64>().ok();
        self.measurements.transport = Some(Transport {
            connect,
            // By default half of a receive buffer is the kernel's own (tcp_adv_win_scale).
            receive_window: largest("tcp_rmem").map(|it| it / 2),
            send_window: largest("tcp_wmem"),
            congestion_control: sysctl("tcp_congestion_control").map(|it| it.trim().to_owned()),
            ..Transport::default()
        });
        if !route.is_here() {
            let probed = tokio::time::timeout(self.course.limit / 3, packets::probe(to)).await;
            let packets = probed.unwrap_or_default();
            self.measurements.transport.get_or_insert_default().packets = packets;
        }
        Ok(())
    }

    /// Requests that cost the server nothing, one after the other.
    async fn first_words(&mut self) -> Result<(), Stopped> {
        let until = Instant::now() + self.course.limit / 10;
        let mut times = Vec::new();
        while times.len() < self.course.connects as usize && Instant::now() < until {
            let begun = Instant::now();
            let echo = tokio::time::timeout(self.course.stall, self.sessions[0].echo()).await;
            let silent = |_| Stopped {
                stage: Stage::Share,
                why: format!("no answer to an echo within {} s", self.course.stall.as_secs_f64()),
                stalled: true,
                cause: Cause::Silent,
            };
            echo.map_err(silent)?.map_err(|why| protocol::stopped(Stage::Share, &why))?;
            times.push(begun.elapsed().as_secs_f64() * 1000.0);
        }
        match &mut self.measurements.protocol {
            Some(Protocol::Smb(smb)) => smb.echo_ms = times,
            Some(Protocol::Nfs(nfs)) => nfs.echo_ms = times,
            _ => {}
        }
        Ok(())
    }

    /// Layer 4: as many connections as the server accepts, and the reasons against others.
    async fn connections(&mut self) -> Result<(), Stopped> {
        let asked = self.course.connections.last().copied().unwrap_or(1);
        let client_off = self.args.one_connection;
        let mut connections = Connections { asked, client_off, ..Connections::default() };
        let offered = match (&self.sessions[0], &self.measurements.protocol) {
            (RemoteSession::Smb { .. }, Some(Protocol::Smb(smb))) => {
                smb.capabilities.contains(&"Multichannel")
            }
            _ => true,
        };
        connections.offered = offered;
        if let (RemoteSession::Smb { session, .. }, true) = (&self.sessions[0], offered) {
            let asking = async {
                let tree = session.connect("IPC$").await?;
                let interfaces = tree.interfaces().await;
                tree.disconnect().await?;
                interfaces
            };
            match tokio::time::timeout(self.course.stall, asking).await {
                Ok(Ok(list)) => connections.interfaces = self.probed(&list).await,
                Ok(Err(why)) => {
                    connections.failure = Some(format!("the server does not tell its addresses: {why}"))
                }
                Err(_) => {
                    connections.failure = Some("the server did not tell its addresses in time".to_owned())
                }
            }
        }
        let begun = Instant::now();
        let found =
            if client_off { Ok(1) } else { self.plan_addresses(asked, &connections.interfaces).await };
        let possible = found.unwrap_or_else(|why| {
            connections.failure.get_or_insert(why);
            1
        });
        let widening = self.sessions[0].widen(possible as usize, &self.addresses);
        let widened = tokio::time::timeout(self.course.stall * 2, widening).await;
        let (got, failure) = match widened {
            Ok((got, failure)) => (got, failure.map(|why| why.to_string())),
            Err(_) => {
                let got = self.sessions[0].channels().len();
                (got, Some("a further connection was not answered in time".to_owned()))
            }
        };
        connections.got = got as u32;
        connections.opened_in_ms = (got > 1).then(|| begun.elapsed().as_secs_f64() * 1000.0);
        connections.failure = failure.or(connections.failure.take()).or_else(|| {
            let text = "the server offers no address that would take more of them".to_owned();
            (connections.got < asked && !client_off).then_some(text)
        });
        let peers: Vec<IpAddr> = self.sessions[0].channels().iter().map(|it| it.peer.ip()).collect();
        let own = self.measurements.route.as_ref().and_then(|it| it.source);
        connections.client_index = own.and_then(route::interface_index);
        judge(&mut connections.interfaces, &peers, own, connections.got);
        // Runs begin with one connection.
        self.sessions[0].narrow(1);
        connections.separate_sessions = connections.got == 1 && asked > 1;
        self.measurements.connections = Some(connections);
        Ok(())
    }

    /// Decides the addresses of further connections: those that a client would use of the server's offer,
    /// without those that cannot be reached. Returns how many connections are possible, or why that is
    /// unknown.
    async fn plan_addresses(&mut self, asked: u32, interfaces: &[Interface]) -> Result<u32, String> {
        let RemoteSession::Smb { session, .. } = &self.sessions[0] else { return Ok(asked) };
        let planning = tokio::time::timeout(self.course.stall, session.addresses(asked as usize)).await;
        let planned = planning.map_err(|_| "the server did not tell its addresses in time".to_owned())?;
        let mut planned = planned.map_err(|why| format!("the server does not tell its addresses: {why}"))?;
        let is_whole = planned.len() as u32 + 1 >= asked;
        let lost = |it: &SocketAddr| {
            interfaces.iter().any(|other| other.address == it.ip() && other.reachable == Some(false))
        };
        planned.retain(|it| !lost(it));
        self.addresses = planned;
        Ok(match self.addresses.len() as u32 {
            0 => 1,
            _ if is_whole => asked,
            some => some + 1,
        })
    }

    /// Probes all offered addresses at once.
    async fn probed(&self, list: &[NetworkInterfaceInfo]) -> Vec<Interface> {
        let port = self.target.port;
        let mut probes = tokio::task::JoinSet::new();
        for (at, it) in list.iter().enumerate().take(64) {
            let to = SocketAddr::new(it.address, port);
            if route::scope(it.address) != Scope::LinkLocal && !it.address.is_unspecified() {
                probes.spawn(async move { (at, ping::once(to, PROBE).await) });
            }
        }
        let mut interfaces: Vec<Interface> = list
            .iter()
            .map(|it| Interface {
                address: it.address,
                index: it.if_index,
                mbit: it.link_speed / 1_000_000,
                rss: it.capability.contains(InterfaceCapability::RSS_CAPABLE),
                rdma: it.capability.contains(InterfaceCapability::RDMA_CAPABLE),
                selected: false,
                reachable: None,
                reason: None,
            })
            .collect();
        while let Some(done) = probes.join_next().await {
            if let Ok((at, attempt)) = done {
                interfaces[at].reachable = Some(matches!(attempt, Attempt::Took(_)));
                interfaces[at].reason = why_not(&attempt);
            }
        }
        interfaces
    }

    /// Opens `count` connections for the next run. Returns how many there are.
    pub(crate) async fn open_connections(&mut self, count: u32) -> Result<u32, Stopped> {
        let separate = self.measurements.connections.as_ref().is_some_and(|it| it.separate_sessions);
        if !separate {
            let widening = self.sessions[0].widen(count as usize, &self.addresses);
            let widened = tokio::time::timeout(self.course.stall * 2, widening).await;
            // Connections that were opened before the time was over exist nevertheless.
            return Ok(widened.map_or_else(|_| self.sessions[0].channels().len(), |(got, _)| got) as u32);
        }
        let address = self.destination();
        while (self.sessions.len() as u32) < count {
            let opened = protocol::open(&self.how, self.target, address, self.course.stall).await;
            match opened {
                Ok((session, _)) => self.sessions.push(session),
                Err(_) => break,
            }
        }
        Ok(self.sessions.len() as u32)
    }

    /// Returns to one connection.
    pub(crate) async fn close_extra_connections(&mut self) {
        self.sessions[0].narrow(1);
        for session in self.sessions.drain(1..) {
            log_off(session, LOG_OFF).await;
        }
    }

    /// The kernel's counters of all connections.
    pub(crate) fn accounts(&self) -> Vec<(SocketAddr, SocketAddr, TcpInfo)> {
        let ours: Vec<_> = self.sessions.iter().flat_map(ends).collect();
        accounts_of(&ours)
    }

    fn note_end(&mut self) {
        let first = self.accounts().into_iter().next().map(|(_, _, info)| info);
        if let (Some(route), Some(info)) = (&mut self.measurements.route, &first) {
            route.path_mtu = Some(info.path_mtu).filter(|it| *it > 0);
        }
        if let Some(transport) = &mut self.measurements.transport {
            transport.first_connection = first;
        }
        if let (Some(Protocol::Smb(smb)), Some(RemoteSession::Smb { connection, .. })) =
            (&mut self.measurements.protocol, self.sessions.first())
        {
            smb.credits = connection.credits();
            smb.protection_ns_per_mib = protocol::protection_ns(connection, smb);
        }
    }

    /// The round trip to the server itself, as far as it is known.
    fn trip(&self) -> Duration {
        let connect = self.measurements.transport.as_ref().and_then(|it| it.connect.median());
        let echo = match &self.measurements.protocol {
            Some(Protocol::Smb(smb)) => median(&smb.echo_ms),
            Some(Protocol::Nfs(nfs)) => median(&nfs.echo_ms),
            _ => None,
        };
        Duration::from_secs_f64(connect.into_iter().chain(echo).fold(0.0, f64::max) / 1000.0)
    }

    /// Reserves more time for the end if the server is so far away that it needs it.
    fn reserve(&mut self) {
        let more = (self.trip() * CLEANUP_TRIPS).saturating_sub(self.course.cleanup);
        self.until = self.begun + self.course.limit - more.min(self.course.limit / 2);
    }

    /// The longest time for the end from now on: as long as the course allows, and no longer than is
    /// useful.
    pub(crate) fn cleanup_time(&self) -> Duration {
        let end = self.begun + self.course.limit + self.course.cleanup;
        let of_use = (LOG_OFF * 10).max(self.trip() * CLEANUP_TRIPS);
        end.saturating_duration_since(Instant::now()).min(of_use)
    }

    /// Deletes the test files on the server and logs off, within a short time whatever the server does.
    pub(crate) async fn clear(&mut self) {
        self.note_end();
        let until = Instant::now() + self.cleanup_time();
        if let Some(scratch) = self.scratch.take()
            && !self.cleared(&scratch, until).await
        {
            self.measurements.left_behind = Some(join(&self.target.path, &scratch));
        }
        self.close_all(patience(LOG_OFF, until)).await;
    }

    async fn cleared(&mut self, scratch: &str, until: Instant) -> bool {
        let directory = &self.target.path;
        if self.measurements.stopped.is_some() {
            // Operations under way may have files open. These are closed with their session.
            self.close_all(patience(LOG_OFF / 2, until)).await;
        }
        if let Some(session) = self.sessions.first() {
            let half = Instant::now() + patience(self.course.limit, until) / 2;
            if cleanup::clear(session, directory, scratch, &self.made, half).await {
                return true;
            }
        }
        // A stuck session is no reason to leave files behind.
        let opening = protocol::open(
            &self.how,
            self.target,
            self.destination(),
            LOG_OFF.max(self.trip() * CLEANUP_TRIPS / 2),
        );
        let Ok(Ok((session, _))) = tokio::time::timeout_at(until.into(), opening).await else { return false };
        let is_cleared = cleanup::clear(&session, directory, scratch, &self.made, until).await;
        self.sessions.push(session);
        is_cleared
    }

    /// Ends all sessions at once.
    async fn close_all(&mut self, patience: Duration) {
        let log_offs = self.sessions.drain(..).map(|session| log_off(session, patience));
        let mut closing: tokio::task::JoinSet<()> = log_offs.collect();
        while closing.join_next().await.is_some() {}
    }
}

/// Logs off, if the server responds in time.
async fn log_off(session: RemoteSession, patience: Duration) {
    // A server that is gone needs no log-off.
    let _ = tokio::time::timeout(patience, session.close()).await;
}

/// The time `most`, but not beyond `until`.
fn patience(most: Duration, until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now()).min(most)
}

fn is_refused(attempt: &Attempt) -> bool {
    matches!(attempt, Attempt::Failed(why) if why.kind() == std::io::ErrorKind::ConnectionRefused)
}

/// No address accepted a connection. One that refused says most: its host is up.
fn unreachable(ends: &[(SocketAddr, Attempt)], patience: Duration) -> Stopped {
    let text = |(to, attempt): &(SocketAddr, Attempt)| match attempt {
        Attempt::Failed(why) => format!("{to}: {why}"),
        _ => format!("{to}: no answer within {} s", patience.as_secs_f64()),
    };
    let why: Vec<String> = ends.iter().map(text).collect();
    let is_closed = ends.iter().any(|(_, attempt)| is_refused(attempt));
    let stalled = !is_closed && ends.iter().any(|(_, attempt)| matches!(attempt, Attempt::Late));
    let cause = if is_closed { Cause::Closed } else { Cause::Unreachable };
    Stopped { stage: Stage::Connect, why: why.join("; "), stalled, cause }
}

/// The reason why a probed address cannot be used.
fn why_not(attempt: &Attempt) -> Option<String> {
    match attempt {
        Attempt::Took(_) => None,
        Attempt::Failed(why) => Some(format!("unreachable: {why}")),
        Attempt::Late => Some(format!(
            "unreachable: no connection within {} s; clients that try it wait",
            PROBE.as_secs_f64()
        )),
    }
}

/// Sets for each offered address whether it is used, or the reason why not.
fn judge(interfaces: &mut [Interface], peers: &[IpAddr], own: Option<IpAddr>, got: u32) {
    let best = interfaces.iter().map(|it| (it.rss, it.mbit)).max();
    let used: Vec<u32> =
        interfaces.iter().filter(|it| peers.contains(&it.address)).map(|it| it.index).collect();
    for it in interfaces {
        it.selected = peers.contains(&it.address);
        let same_family = own.is_none_or(|own| own.is_ipv4() == it.address.is_ipv4());
        it.reason = match (it.selected, it.reachable) {
            (true, _) => None,
            _ if route::scope(it.address) == Scope::LinkLocal => {
                Some("link-local: it needs the name of our own interface".to_owned())
            }
            _ if it.address.is_loopback() && !peers.iter().any(IpAddr::is_loopback) => {
                Some("loopback: it would lead to this host and not to the server".to_owned())
            }
            (_, Some(false)) => it.reason.take(),
            _ if used.contains(&it.index) && !same_family => {
                Some("another address of an interface that is used, of the other family".to_owned())
            }
            _ if used.contains(&it.index) => Some("another address of an interface that is used".to_owned()),
            _ if Some((it.rss, it.mbit)) < best => {
                Some("slower than another interface, or without receive side scaling".to_owned())
            }
            _ if got <= 1 => Some("the session took no further connection".to_owned()),
            _ => Some("the connections that were asked for went to other interfaces".to_owned()),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(index: u32, address: &str, mbit: u64, reachable: bool) -> Interface {
        let address = address.parse().unwrap();
        let (rss, rdma, selected) = (true, false, false);
        let reason = if reachable { None } else { why_not(&Attempt::Late) };
        Interface { address, index, mbit, rss, rdma, selected, reachable: Some(reachable), reason }
    }

    #[test]
    fn who_refuses_is_told_from_who_does_not_answer() {
        let refused = Attempt::Failed(std::io::ErrorKind::ConnectionRefused.into());
        assert_eq!(why_not(&refused).unwrap(), "unreachable: connection refused");
        assert!(why_not(&Attempt::Late).unwrap().contains("within 0.9 s"));
        assert_eq!(why_not(&Attempt::Took(PROBE)), None);
    }

    #[test]
    fn a_host_that_refuses_is_there_whatever_its_other_addresses_do() {
        let address = |last: u8| SocketAddr::from(([10, 0, 0, last], 445));
        let refused = || Attempt::Failed(std::io::ErrorKind::ConnectionRefused.into());
        let stopped = unreachable(&[(address(1), refused()), (address(2), Attempt::Late)], PROBE);
        assert_eq!((stopped.stage, stopped.cause, stopped.stalled), (Stage::Connect, Cause::Closed, false));
        assert_eq!(stopped.why, "10.0.0.1:445: connection refused; 10.0.0.2:445: no answer within 0.9 s");
        let dead = unreachable(&[(address(2), Attempt::Late)], PROBE);
        assert_eq!((dead.cause, dead.stalled), (Cause::Unreachable, true));
    }

    #[test]
    fn each_address_that_is_not_used_has_its_reason() {
        let mut list = [
            interface(2, "10.0.0.1", 10_000, true),
            interface(2, "fd00::1", 10_000, true),
            interface(3, "203.0.113.9", 10_000, false),
            interface(4, "10.0.1.1", 1000, true),
            interface(5, "fe80::1", 10_000, false),
            interface(6, "127.0.0.1", 10_000, true),
            interface(7, "10.0.2.1", 10_000, true),
        ];
        let peers: Vec<IpAddr> = vec![[10, 0, 0, 1].into(); 4];
        judge(&mut list, &peers, Some([10, 0, 0, 9].into()), 4);
        let says: Vec<String> = list.iter().map(|it| it.reason.clone().unwrap_or_default()).collect();
        assert!(list[0].selected && says[0].is_empty());
        for (at, wanted) in [
            (1, "other family"),
            (2, "unreachable"),
            (3, "slower"),
            (4, "link-local"),
            (5, "loopback"),
            (6, "went to other"),
        ] {
            assert!(!list[at].selected && says[at].contains(wanted), "{}: {}", list[at].address, says[at]);
        }
    }
}
