//! Addresses that move between machines: network namespaces with kernels' own TCP, ARP and neighbour
//! discovery on a bridge. Needs root.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::process::Command;
use std::time::{Duration, Instant};

use net::floating_address::{FloatingAddress, FloatingAddressError, HardwareAddress, first_taken, tickle};
use rustix::thread::{CapabilitySet, LinkNameSpaceType, move_into_link_name_space};

/// The floating address of each family, and a second one of IPv4.
const FOUR: &str = "10.77.0.50/24";
const SIX: &str = "fd77::50/64";
/// The time for which other hosts are asked, more than on an idle machine.
const WITHIN: Duration = Duration::from_millis(500);
/// The time after which a client without a packet counts as one that has heard nothing.
const SILENCE: Duration = Duration::from_millis(700);
/// The lifetime of an address, longer than a test.
const STAY: Duration = Duration::from_secs(600);
/// The time for what is bound to happen.
const PATIENCE: Duration = Duration::from_secs(20);

/// Machines on one network: the client `c`, and the nodes `a` and `b`. Each is a network namespace.
struct Network(String);

impl Network {
    /// Makes the network. None without root.
    fn new(test: &str) -> Option<Network> {
        let network = Network(format!("address-{}-{test}", std::process::id()));
        if !rustix::process::geteuid().is_root() || !network.try_ip("s", None) {
            // Written directly, since the test harness captures the output of tests that pass.
            let _ = writeln!(std::io::stderr(), "SKIPPED floating_address {test}: it takes root");
            return None;
        }
        network.ip("s", "link add bridge type bridge");
        network.ip("s", "link set bridge up");
        for (number, machine) in ["c", "a", "b"].into_iter().enumerate() {
            assert!(network.try_ip(machine, None));
            let (there, host) = (network.name("s"), number + 1);
            network.ip(machine, &format!("link add eth0 type veth peer name to-{machine} netns {there}"));
            network.ip("s", &format!("link set to-{machine} master bridge up"));
            network.ip(machine, "link set lo up");
            network.ip(machine, "link set eth0 up");
            network.ip(machine, &format!("address add 10.77.0.{host}/24 dev eth0"));
            network.ip(machine, &format!("address add fd77::{host}/64 dev eth0 nodad"));
        }
        Some(network)
    }

    fn name(&self, machine: &str) -> String {
        format!("{}-{machine}", self.0)
    }

    /// Runs `ip` in a machine, or adds the machine.
    fn try_ip(&self, machine: &str, line: Option<&str>) -> bool {
        let name = self.name(machine);
        let mut command = Command::new("ip");
        match line {
            Some(line) => command.args(["-n", &name]).args(line.split_whitespace()),
            None => command.args(["netns", "add", &name]),
        };
        command.output().is_ok_and(|output| output.status.success())
    }

    fn ip(&self, machine: &str, line: &str) {
        assert!(self.try_ip(machine, Some(line)), "ip -n {} {line}", self.name(machine));
    }

    /// The output of `ip` in a machine.
    fn shown(&self, machine: &str, line: &str) -> String {
        let mut command = Command::new("ip");
        command.args(["-n", &self.name(machine)]).args(line.split_whitespace());
        String::from_utf8_lossy(&command.output().expect("iproute2").stdout).into_owned()
    }

    /// Does something on a machine: on a thread in its namespace.
    fn on<T: Send>(&self, machine: &str, work: impl FnOnce() -> T + Send) -> T {
        let namespace = File::open(format!("/run/netns/{}", self.name(machine))).expect("the namespace");
        std::thread::scope(|scope| {
            let there = move || {
                let kind = Some(LinkNameSpaceType::Network);
                move_into_link_name_space(namespace.as_fd(), kind).expect("setns");
                work()
            };
            scope.spawn(there).join().expect("no panic")
        })
    }

    /// Makes a connection from `c` to an address of a machine. Returns the listener and both ends.
    fn connect(&self, machine: &str, floating: &FloatingAddress) -> (TcpListener, TcpStream, TcpStream) {
        let listener = self.on(machine, || TcpListener::bind((floating.ip(), 0)).expect("bound"));
        let server = listener.local_addr().expect("bound");
        let mut client = self.on("c", || TcpStream::connect(server).expect("connected"));
        let (mut accepted, _) = listener.accept().expect("accepted");
        client.write_all(b"?").expect("sent");
        accepted.read_exact(&mut [0]).expect("received");
        accepted.write_all(b"!").expect("sent");
        client.read_exact(&mut [0]).expect("received");
        (listener, accepted, client)
    }

    /// The hardware address of a machine.
    fn hardware(&self, machine: &str) -> String {
        let shown = self.shown(machine, "-o link show dev eth0");
        let mut words = shown.split_whitespace().skip_while(|word| *word != "link/ether");
        words.nth(1).expect("a hardware address").to_owned()
    }

    /// The hardware address that the client has for an address.
    fn neighbour(&self, address: IpAddr) -> Option<String> {
        let shown = self.shown("c", &format!("neighbour show to {address}"));
        let mut words = shown.split_whitespace().skip_while(|word| *word != "lladdr");
        words.nth(1).map(str::to_owned)
    }

    fn has(&self, machine: &str, address: IpAddr) -> bool {
        !self.shown(machine, &format!("-o address show to {address}")).is_empty()
    }

    /// TCP connections on a machine with the local address, as the kernel lists them.
    fn connections(&self, machine: &str, address: IpAddr) -> usize {
        let hexadecimal = match address {
            IpAddr::V4(four) => format!("{:08X}", u32::from_ne_bytes(four.octets())),
            IpAddr::V6(six) => six
                .octets()
                .chunks(4)
                .map(|part| format!("{:08X}", u32::from_ne_bytes(part.try_into().expect("four bytes"))))
                .collect(),
        };
        let file = if address.is_ipv4() { "/proc/thread-self/net/tcp" } else { "/proc/thread-self/net/tcp6" };
        let listed = self.on(machine, || std::fs::read_to_string(file).expect("listed"));
        let of_it =
            |line: &&str| line.split_whitespace().nth(1).is_some_and(|at| at.starts_with(&hexadecimal));
        listed.lines().filter(of_it).count()
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for machine in ["c", "a", "b", "s"] {
            let _removed = Command::new("ip").args(["netns", "delete", &self.name(machine)]).output();
        }
    }
}

fn floating(text: &str) -> FloatingAddress {
    text.parse().expect("an address")
}

fn shown(found: Option<HardwareAddress>) -> Option<String> {
    found.map(|hardware| hardware.to_string())
}

fn ends(client: &TcpStream) -> (SocketAddr, SocketAddr) {
    (client.local_addr().expect("local"), client.peer_addr().expect("remote"))
}

/// The kind of error with which a read of the client ends within a time. None if the server has closed.
fn heard(client: &mut TcpStream, within: Duration) -> Option<ErrorKind> {
    client.set_read_timeout(Some(within)).expect("a timeout");
    match client.read(&mut [0; 16]) {
        Ok(0) => None,
        Ok(_) => panic!("the client received data"),
        Err(error) => Some(error.kind()),
    }
}

/// Waits for something that another host does.
fn wait_for(what: &str, mut is_done: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_done() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn an_address_is_added_and_removed_once() {
    let Some(network) = Network::new("once") else { return };
    for text in [FOUR, SIX, "10.77.0.51/32", "10.78.0.50/24%eth0"] {
        let floating = floating(text);
        network.on("a", || {
            assert!(!floating.remove().expect("nothing to remove"), "{text}");
            assert!(floating.add(STAY).expect("added") && !floating.add(STAY).expect("there"), "{text}");
        });
        assert!(network.has("a", floating.ip()), "{text}");
        // It may be bound at once, although nobody has looked for duplicates.
        network.on("a", || drop(TcpListener::bind((floating.ip(), 0)).expect("bound")));
        network.on("a", || {
            assert!(floating.remove().expect("removed") && !floating.remove().expect("gone"), "{text}");
            assert!(
                floating.add(STAY).expect("added again") && floating.remove().expect("removed"),
                "{text}"
            );
        });
        assert!(!network.has("a", floating.ip()), "{text}");
    }
    let rules = network.shown("a", "-6 rule show");
    assert!(rules.contains("from fd77::50 iif lo blackhole"), "{rules}");
    // This host makes no connections of its own from it.
    network.on("a", || floating(SIX).add(STAY).expect("added"));
    let deprecated = network.shown("a", "-6 -o address show dev eth0 deprecated");
    assert!(deprecated.contains("fd77::50/64") && !deprecated.contains("tentative"), "{deprecated}");
    assert!(!network.shown("a", "-6 rule show").contains("fd77::50"));
}

#[test]
fn an_address_that_the_host_has_lost_is_told() {
    let Some(network) = Network::new("lost") else { return };
    for text in [FOUR, SIX] {
        let floating = floating(text);
        network.on("a", || floating.add(STAY).expect("added"));
        network.on("a", || assert!(floating.keep_for(STAY).expect("prolonged"), "{text}"));
        network.ip("a", &format!("address delete {text} dev eth0"));
        network.on("a", || assert!(!floating.keep_for(STAY).expect("looked for"), "{text}"));
    }
}

/// For IPv6 a thread of the kernel makes the route, after the address.
#[test]
fn packets_arrive_as_soon_as_an_address_is_added() {
    let Some(network) = Network::new("soon") else { return };
    for (text, any) in [(FOUR, "0.0.0.0:0"), (SIX, "[::]:0")] {
        let floating = floating(text);
        network.on("a", || {
            let [sender, receiver] = [(); 2].map(|()| UdpSocket::bind(any).expect("bound"));
            receiver.set_read_timeout(Some(SILENCE)).expect("a timeout");
            let to = SocketAddr::new(floating.ip(), receiver.local_addr().expect("bound").port());
            for turn in 0..100 {
                floating.add(STAY).expect("added");
                sender.send_to(b"?", to).expect("sent");
                assert!(receiver.recv(&mut [0]).is_ok(), "{text}: turn {turn}");
                floating.remove().expect("removed");
            }
        });
    }
}

#[test]
fn an_address_that_the_host_has_for_itself_is_refused_and_stays() {
    let Some(network) = Network::new("own") else { return };
    for text in ["10.77.0.2/24", "10.77.0.2/24%eth0", "fd77::2/64"] {
        let floating = floating(text);
        for refused in [
            network.on("a", || floating.check_host(true).expect_err(text)),
            network.on("a", || floating.add(STAY).expect_err(text)),
        ] {
            assert!(refused.to_string().starts_with("eth0 of this host has"), "{refused}");
        }
        network.on("a", || assert!(!floating.remove().expect("it is not ours"), "{text}"));
        assert!(network.has("a", floating.ip()), "{text}");
    }
    // One with a lifetime may be the host's own too, such as by DHCP.
    for text in [FOUR, SIX] {
        let floating = floating(text);
        network.on("a", || {
            assert!(floating.check_host(false).is_ok() && floating.add(STAY).expect("added"), "{text}");
            assert!(floating.check_host(false).is_err() && floating.check_host(true).is_ok(), "{text}");
        });
    }
}

#[test]
fn what_stands_in_the_way_is_named() {
    let Some(network) = Network::new("named") else { return };
    network.ip("a", "link add eth1 type veth peer name eth2");
    network.ip("a", "address add 10.77.0.60/32 dev eth1 valid_lft 600 preferred_lft 600");
    let refused = |text: &str| {
        let floating = floating(text);
        network.on("a", || floating.add(STAY).expect_err(text).to_string())
    };
    assert!(refused("10.77.0.60/24%eth0").contains("eth1 of this host has 10.77.0.60"));
    assert!(refused("10.99.0.1/24").contains("no interface of this host"));
    assert!(refused("10.77.0.50/24%eth9").contains("no interface eth9"));
    network.on("a", || std::fs::write("/proc/sys/net/ipv6/conf/eth1/disable_ipv6", "1").expect("set"));
    assert!(refused("fd78::1/64%eth1").contains("net.ipv6.conf.eth1.disable_ipv6=0"));
    let down = network.on("a", || floating("10.77.0.61/24%eth1").is_taken(WITHIN).expect_err("it is down"));
    assert!(down.to_string().contains("eth1 is down"), "{down}");
    network.on("a", || {
        let mut sets = rustix::thread::capabilities(None).expect("capabilities");
        sets.effective.remove(CapabilitySet::NET_ADMIN | CapabilitySet::NET_RAW);
        // Only of this thread, which ends here.
        rustix::thread::set_capabilities(None, sets).expect("fewer capabilities");
        let floating = floating(FOUR);
        for refused in
            [floating.add(STAY).map(drop), floating.is_taken(WITHIN).map(drop), floating.announce()]
        {
            let refused = refused.expect_err("not permitted");
            assert!(matches!(refused, FloatingAddressError::NotPermitted { .. }), "{refused}");
        }
        let pair = ("10.77.0.1:9".parse().expect("a client"), "10.77.0.2:9".parse().expect("a server"));
        let refused = tickle(&[pair]).expect_err("not permitted").to_string();
        assert!(refused.contains("CAP_NET_RAW"), "{refused}");
    });
}

#[test]
fn other_ipv4_addresses_of_the_network_stay() {
    let Some(network) = Network::new("stay") else { return };
    let [first, second] = ["10.79.0.50/24%eth0", "10.79.0.51/24%eth0"].map(floating);
    network.on("a", || {
        first.add(STAY).expect("added");
        second.add(STAY).expect("added");
        first.remove().expect("removed");
    });
    assert!(!network.has("a", first.ip()) && network.has("a", second.ip()));
}

#[test]
fn another_host_that_has_the_address_is_found_in_time() {
    let Some(network) = Network::new("taken") else { return };
    for text in [FOUR, SIX] {
        let floating = floating(text);
        network.on("b", || {
            let start = Instant::now();
            assert_eq!(floating.is_taken(Duration::from_millis(200)).expect("asked"), None, "{text}");
            assert!(start.elapsed() >= Duration::from_millis(200), "{text}");
        });
        network.on("a", || floating.add(STAY).expect("added"));
        let found = network.on("b", || floating.is_taken(WITHIN).expect("asked"));
        assert_eq!(shown(found), Some(network.hardware("a")), "{text}");
        // The host itself is nobody else.
        assert_eq!(network.on("a", || floating.is_taken(WITHIN).expect("asked")), None, "{text}");
    }
}

#[test]
fn all_addresses_are_looked_for_in_the_time_of_one() {
    let Some(network) = Network::new("all") else { return };
    let addresses = [FOUR, SIX, "10.77.0.51/24", "fd77::51/64"].map(floating);
    network.on("b", || {
        let start = Instant::now();
        assert_eq!(first_taken(&addresses, WITHIN).expect("asked"), None);
        let took = start.elapsed();
        assert!(took >= WITHIN && took < 3 * WITHIN, "{took:?}");
        assert_eq!(first_taken(&[], WITHIN).expect("nothing to ask"), None);
    });
    for taken in addresses.iter().rev() {
        network.on("a", || taken.add(STAY).expect("added"));
        let (address, other) =
            network.on("b", || first_taken(&addresses, WITHIN)).expect("asked").expect("taken");
        assert_eq!((&address, shown(Some(other))), (taken, Some(network.hardware("a"))));
    }
}

#[test]
fn two_hosts_that_probe_at_the_same_time_find_each_other() {
    let Some(network) = Network::new("both") else { return };
    for text in [FOUR, SIX] {
        let floating = floating(text);
        let found = std::thread::scope(|scope| {
            let ask = |machine| network.on(machine, || floating.is_taken(WITHIN * 4).expect("asked"));
            let [a, b] = ["a", "b"].map(|machine| scope.spawn(move || ask(machine)));
            [shown(a.join().expect("asked")), shown(b.join().expect("asked"))]
        });
        // The first one to find the other stops probing, and the other one may have started later.
        assert!(found.contains(&Some(network.hardware("b"))) || found.contains(&Some(network.hardware("a"))));
    }
}

#[test]
fn a_client_hears_at_once_where_the_address_is() {
    let Some(network) = Network::new("announced") else { return };
    for text in [FOUR, SIX] {
        let floating = floating(text);
        network.on("a", || floating.add(STAY).expect("added"));
        let (_listener, _server, _client) = network.connect("a", &floating);
        assert_eq!(network.neighbour(floating.ip()), Some(network.hardware("a")), "{text}");
        network.on("a", || floating.remove().expect("removed"));
        network.on("b", || {
            floating.add(STAY).expect("added");
            floating.announce().expect("announced");
        });
        // The client sends nothing meanwhile.
        let there = Some(network.hardware("b"));
        wait_for(text, || network.neighbour(floating.ip()) == there);
    }
}

#[test]
fn clients_of_a_dead_machine_are_reset_at_once_and_only_those_on_record() {
    let Some(network) = Network::new("tickle") else { return };
    for text in [FOUR, SIX] {
        let floating = floating(text);
        network.on("a", || floating.add(STAY).expect("added"));
        let (_first, _one, mut recorded) = network.connect("a", &floating);
        let pair = ends(&recorded);
        let (_second, _other, mut unrecorded) = network.connect("a", &floating);
        // The machine is gone, and its connections with it.
        network.ip("s", "link set to-a down");
        let found = network.on("b", || floating.is_taken(Duration::from_millis(200)).expect("asked"));
        assert_eq!(found, None, "{text}");
        // The time of the reset, which arrives while the call still runs.
        let reset = std::thread::scope(|scope| {
            let reader = scope.spawn(|| (heard(&mut recorded, PATIENCE), Instant::now()));
            let start = network.on("b", || {
                floating.add(STAY).expect("added");
                floating.announce().expect("announced");
                let start = Instant::now();
                assert_eq!(tickle(&[pair]).expect("sent"), 1, "{text}");
                start
            });
            let (heard, at) = reader.join().expect("no panic");
            assert_eq!(heard, Some(ErrorKind::ConnectionReset), "{text}");
            at.saturating_duration_since(start)
        });
        // An idle machine takes less than a millisecond. By itself this client would wait for ever.
        assert!(reset < Duration::from_secs(2), "{text}: reset after {reset:?}");
        println!("{text}: reset after {reset:?}");
        // The client of this one has sent nothing, so it will not notice by itself.
        assert_eq!(heard(&mut unrecorded, SILENCE), Some(ErrorKind::WouldBlock), "{text}");
        network.ip("s", "link set to-a up");
        network.on("a", || floating.remove().expect("removed"));
    }
}

/// The kernel of the new owner keeps few of the packets while it looks for the client's hardware address.
#[test]
fn all_connections_of_one_client_are_reset() {
    const CONNECTIONS: usize = 1000;
    // Both ends of each connection are in this process.
    assert!(net::raise_descriptor_limit() > 3 * CONNECTIONS as u64, "too few descriptors");
    let Some(network) = Network::new("many") else { return };
    for text in [FOUR, SIX] {
        let floating = floating(text);
        network.on("a", || floating.add(STAY).expect("added"));
        let (listener, _server, client) = network.connect("a", &floating);
        let address = client.peer_addr().expect("remote");
        let mut clients = vec![client];
        let mut servers = Vec::new();
        for _ in 1..CONNECTIONS {
            clients.push(network.on("c", || TcpStream::connect(address).expect("connected")));
            servers.push(listener.accept().expect("accepted"));
        }
        let pairs: Vec<_> = clients.iter().map(ends).collect();
        network.ip("s", "link set to-a down");
        let start = network.on("b", || {
            floating.add(STAY).expect("added");
            floating.announce().expect("announced");
            let start = Instant::now();
            assert_eq!(tickle(&pairs).expect("sent"), CONNECTIONS, "{text}");
            start
        });
        for client in &mut clients {
            assert_eq!(heard(client, PATIENCE), Some(ErrorKind::ConnectionReset), "{text}");
        }
        println!("{text}: {CONNECTIONS} connections reset after {:?}", start.elapsed());
        network.ip("s", "link set to-a up");
        network.on("a", || floating.remove().expect("removed"));
        network.on("b", || floating.remove().expect("removed"));
    }
}

#[test]
fn a_connection_to_the_new_owner_is_not_harmed() {
    let Some(network) = Network::new("new") else { return };
    for text in [FOUR, SIX] {
        let floating = floating(text);
        network.on("a", || floating.add(STAY).expect("added"));
        let (_listener, mut server, mut client) = network.connect("a", &floating);
        network.on("a", || assert_eq!(tickle(&[ends(&client)]).expect("sent"), 1));
        assert_eq!(heard(&mut client, SILENCE), Some(ErrorKind::WouldBlock), "{text}");
        client.write_all(b"?").expect("sent");
        server.read_exact(&mut [0]).expect("received");
        server.write_all(b"!").expect("sent");
        client.read_exact(&mut [0]).expect("received");
    }
}

/// How the old owner ends its connection.
#[derive(Debug, Clone, Copy)]
enum Ending {
    Close,
    /// The kernel sends a reset for data that nobody has read.
    CloseUnread,
    /// Data that was on its way out.
    SendAndClose,
}

#[test]
fn a_client_hears_nothing_of_connections_that_end_after_the_address_is_gone() {
    let Some(network) = Network::new("silent") else { return };
    for text in [FOUR, SIX] {
        for ending in [Ending::Close, Ending::CloseUnread, Ending::SendAndClose] {
            let floating = floating(text);
            network.on("a", || {
                floating.add(STAY).expect("added");
                floating.announce().expect("announced");
            });
            let (listener, mut server, mut client) = network.connect("a", &floating);
            // Data that was not acknowledged in time may have it reset before the tickle.
            let pair = ends(&client);
            if matches!(ending, Ending::CloseUnread) {
                client.write_all(b"unread").expect("sent");
                wait_for("it arrives", || server.peek(&mut [0; 6]).is_ok_and(|count| count == 6));
            }
            network.on("a", || floating.remove().expect("removed"));
            if matches!(ending, Ending::SendAndClose) {
                // Whether the kernel takes it does not matter.
                let _taken = server.write(b"late");
            }
            drop((listener, server));
            assert_eq!(heard(&mut client, SILENCE), Some(ErrorKind::WouldBlock), "{text} {ending:?}");
            network.on("b", || {
                floating.add(STAY).expect("added");
                floating.announce().expect("announced");
                tickle(&[pair]).expect("sent");
            });
            assert_eq!(heard(&mut client, PATIENCE), Some(ErrorKind::ConnectionReset), "{text} {ending:?}");
            network.on("b", || floating.remove().expect("removed"));
        }
    }
}

#[test]
fn an_address_that_comes_back_finds_no_connection_of_its_earlier_stay() {
    let Some(network) = Network::new("back") else { return };
    for text in [FOUR, SIX] {
        let floating = floating(text);
        network.on("a", || floating.add(STAY).expect("added"));
        let (listener, server, mut client) = network.connect("a", &floating);
        network.on("a", || floating.remove().expect("removed"));
        drop((listener, server));
        // It waits there for the confirmation of its FIN, which was never sent. A test beside this one may
        // start a program, which has copies of both sockets for a moment.
        let end = Instant::now() + PATIENCE;
        while network.connections("a", floating.ip()) != 1 && Instant::now() < end {
            std::thread::yield_now();
        }
        assert_eq!(network.connections("a", floating.ip()), 1, "{text}");
        network.on("a", || {
            floating.add(STAY).expect("added");
            floating.announce().expect("announced");
        });
        assert_eq!(network.connections("a", floating.ip()), 0, "{text}");
        assert_eq!(heard(&mut client, SILENCE), Some(ErrorKind::WouldBlock), "{text}");
        network.on("a", || tickle(&[ends(&client)]).expect("sent"));
        assert_eq!(heard(&mut client, PATIENCE), Some(ErrorKind::ConnectionReset), "{text}");
    }
}
