//! The options of `trunkline link`.

use std::ffi::OsString;
use std::time::Duration;

use client::written::size;

use super::path::Shape;
use crate::units::{duration, rate, share};

/// The path and the command behind it. Rates hold in each direction.
#[derive(Debug, Clone, clap::Args)]
pub struct LinkArgs {
    /// Round-trip time, half of it in each direction, for example 23ms
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "0")]
    pub rtt: Duration,
    /// Bits a second of the line, for example 1Gbit [default: no limit]
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub rate: Option<u64>,
    /// Bits a second of each TCP connection or UDP flow, for example 200Mbit [default: no limit]
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub flow_rate: Option<u64>,
    /// Part of the packets that are lost in each direction, for example 0.1%
    #[arg(long, value_name = "PART", value_parser = share, default_value = "0%")]
    pub loss: f64,
    /// Bytes of the largest packet
    #[arg(
        long, value_name = "BYTES", default_value_t = 1500,
        value_parser = clap::value_parser!(u16).range(1280..=65_520)
    )]
    pub mtu: u16,
    /// Bytes above which a packet vanishes without notice, as behind a tunnel whose router's messages are
    /// lost (RFC 2923 2.1)
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(68..))]
    pub black_hole: Option<u16>,
    /// Bytes that may wait at each rate; further packets are dropped [default: the bytes that the rate
    /// carries in a round trip, at least 64 packets]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub queue: Option<u64>,
    /// Congestion control of TCP on both ends, such as cubic [default: that of this host]
    #[arg(long, value_name = "NAME")]
    pub congestion_control: Option<String>,
    /// Seed that decides which packets are lost: the same seed and the same packets give the same losses
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Needs no root, and works for this server alone: connections of the command to {host}:{port} go
    /// there, limited to --rate and --flow-rate and by nothing else
    #[arg(
        long, value_name = "HOST:PORT",
        conflicts_with_all = ["rtt", "loss", "mtu", "black_hole", "queue", "congestion_control", "seed"]
    )]
    pub proxy: Option<String>,
    /// Command to run; {host} stands for the address at which it reaches the servers of this machine,
    /// also in the variable TRUNKLINE_LINK_HOST; with --proxy {port} stands for the port, also in
    /// TRUNKLINE_LINK_PORT
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

impl LinkArgs {
    /// The properties of each direction.
    pub(super) fn shape(&self) -> Shape {
        let queue = |rate: Option<u64>| {
            let trip = u128::from(rate.unwrap_or(0)) / 8 * self.rtt.as_nanos() / 1_000_000_000;
            let default = u64::try_from(trip).unwrap_or(u64::MAX).max(64 * u64::from(self.mtu));
            self.queue.unwrap_or(default)
        };
        Shape {
            delay_ns: u64::try_from(self.rtt.as_nanos() / 2).unwrap_or(u64::MAX),
            rate: self.rate,
            flow_rate: self.flow_rate,
            loss: self.loss,
            largest: self.black_hole,
            queue: queue(self.rate),
            flow_queue: queue(self.flow_rate),
        }
    }
}
