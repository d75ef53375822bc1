//! Limits of this machine that a load with many connections meets, looked at before anything is started.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;

use recording::{Scenario, Warning, exit_code};
use rustix::process::{Resource, getrlimit};

use crate::failure::Failure;

/// What the machine allows; `None` where it does not say, which limits nothing here.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MachineLimits {
    /// Open files of a process at most.
    open_files: Option<u64>,
    /// First and last port that the kernel gives to a connection.
    ports: Option<(u64, u64)>,
    /// Whether ports that wait for late segments are used again (`net.ipv4.tcp_tw_reuse`).
    port_reuse: Option<u64>,
    /// Connections that wait until a server takes them, at most.
    queue: Option<u64>,
    memory_available_bytes: Option<u64>,
}

/// What follows for a load.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Room {
    /// Addresses that the client connects from, where one has too few ports; empty leaves the choice to
    /// the kernel.
    pub(crate) sources: Vec<Ipv4Addr>,
    pub(crate) warnings: Vec<Warning>,
}

impl MachineLimits {
    /// Reads what holds for this process and its children.
    pub(crate) fn read() -> Self {
        let setting = |name: &str| fs::read_to_string(Path::new("/proc/sys/net").join(name)).ok();
        let number = |name: &str| setting(name)?.trim().parse().ok();
        let ports = || -> Option<(u64, u64)> {
            let text = setting("ipv4/ip_local_port_range")?;
            let mut words = text.split_whitespace().map(str::parse);
            Some((words.next()?.ok()?, words.next()?.ok()?))
        };
        Self {
            open_files: getrlimit(Resource::Nofile).maximum,
            ports: ports(),
            port_reuse: number("ipv4/tcp_tw_reuse"),
            queue: number("core/somaxconn"),
            memory_available_bytes: available_memory(),
        }
    }

    /// Makes room for a load within these limits, or says which of them stops it.
    pub(crate) fn room(&self, scenario: &Scenario) -> anyhow::Result<Room> {
        let connections = u64::from(scenario.connections);
        let stopped = |text: String| Err(Failure::with_code(exit_code::CANNOT_MEASURE, text));
        let files = connections + SPARE_FILES;
        if let Some(limit) = self.open_files.filter(|&limit| limit < files) {
            return stopped(format!(
                "{connections} connections need {files} open files, and this process may have {limit} (the \
                 hard limit RLIMIT_NOFILE): run it from a root shell after `ulimit -n {files}`, or ask for \
                 fewer connections with -c"
            ));
        }
        let each = if scenario.tls.is_some() {
            SECURED_BYTES
        } else {
            CLEAR_BYTES
        };
        let bytes = connections * each;
        if let Some(available) = self.memory_available_bytes.filter(|&have| have < bytes) {
            return stopped(format!(
                "{connections} connections take about {} MB of memory at both ends, and {} MB are \
                 available: ask for fewer with -c",
                bytes >> 20,
                available >> 20
            ));
        }
        let mut room = Room::default();
        if let Some((first, last)) = self.ports {
            let per_source = (last + 1).saturating_sub(first) * PORTS_USED_PERCENT / 100;
            let sources = self.needed_ports(scenario).div_ceil(per_source.max(1));
            if sources > u64::from(SOURCES_MAX) {
                return stopped(format!(
                    "{connections} connections need more ports than {SOURCES_MAX} addresses have \
                     (net.ipv4.ip_local_port_range is {first} to {last}): widen it with `sysctl -w \
                     net.ipv4.ip_local_port_range=\"1024 65535\"`, or ask for fewer with -c"
                ));
            }
            if sources > 1 {
                let last = u8::try_from(sources).unwrap_or(SOURCES_MAX);
                room.sources = (1..=last).map(|n| Ipv4Addr::new(127, 0, 0, n)).collect();
            }
        }
        room.warnings.extend(self.short_queue(connections));
        Ok(room)
    }

    /// Ports that are in use at the same time.
    fn needed_ports(&self, scenario: &Scenario) -> u64 {
        let connections = u64::from(scenario.connections);
        let reconnects = scenario.requests_per_connection.is_some();
        if reconnects && self.port_reuse == Some(0) {
            connections + WAITING_PORTS
        } else {
            connections
        }
    }

    fn short_queue(&self, connections: u64) -> Option<Warning> {
        let queue = self.queue.filter(|&queue| queue < connections)?;
        Some(Warning {
            code: "short_queue".to_owned(),
            text: format!(
                "{connections} connections are opened at once, and a listening socket holds {queue} until \
                 the server takes them (net.core.somaxconn): the others wait a second or more before \
                 the window, which they do not change; `sysctl -w net.core.somaxconn={connections}` makes \
                 room, where the server asks for a queue that long"
            ),
        })
    }
}

/// Bytes that can be used without swapping, as the kernel estimates.
fn available_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

/// Open files of a client or a server besides connections.
const SPARE_FILES: u64 = 64;

/// Memory of one connection, client, kernel and server: two sockets and the buffers of both ends, and
/// where it is encrypted what the TLS libraries keep (about 50 KB each).
const CLEAR_BYTES: u64 = 40 << 10;
const SECURED_BYTES: u64 = 160 << 10;

/// Share of an address's ports that is planned with: others use some, and the search for a free one gets
/// slow near the end.
const PORTS_USED_PERCENT: u64 = 80;

/// Addresses of loopback that are used at most.
const SOURCES_MAX: u8 = 250;

/// Ports that closed connections keep for a minute where they are not used again: a minute of 5,000 new
/// connections per second.
const WAITING_PORTS: u64 = 300_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::scenario::tests::stored;

    const WIDE: MachineLimits = MachineLimits {
        open_files: Some(20_000),
        ports: Some((32_768, 60_999)),
        port_reuse: Some(2),
        queue: Some(4096),
        memory_available_bytes: Some(8 << 30),
    };

    fn refusal(limits: MachineLimits, scenario: &Scenario) -> String {
        let error = limits.room(scenario).unwrap_err();
        assert_eq!(
            crate::failure::exit_code_of(&error),
            exit_code::CANNOT_MEASURE
        );
        error.to_string()
    }

    /// Ten thousand connections fit a machine with Debian's settings; only the queue is worth a word.
    #[test]
    fn ten_thousand_connections_fit() {
        let mut scenario = stored(&["--connections", "10000"]);
        let room = WIDE.room(&scenario).unwrap();
        assert_eq!(room.sources, Vec::<Ipv4Addr>::new());
        assert_eq!(room.warnings.len(), 1);
        assert!(room.warnings[0].text.contains("somaxconn=10000"));
        scenario.connections = 4096;
        assert_eq!(WIDE.room(&scenario).unwrap(), Room::default());
    }

    /// The limit that stops a load is named with what lifts it.
    #[test]
    fn the_limit_that_stops_is_named() {
        let scenario = stored(&["--connections", "10000"]);
        let few_files = MachineLimits {
            open_files: Some(4096),
            ..WIDE
        };
        let said = refusal(few_files, &scenario);
        assert!(
            said.contains("ulimit -n 10064") && said.contains("4096"),
            "{said}"
        );
        let little_memory = MachineLimits {
            memory_available_bytes: Some(100 << 20),
            ..WIDE
        };
        assert!(refusal(little_memory, &scenario).contains("390 MB"));
        let few_ports = MachineLimits {
            ports: Some((60_000, 60_020)),
            ..WIDE
        };
        assert!(refusal(few_ports, &scenario).contains("ip_local_port_range"));
        // What is not known limits nothing.
        assert_eq!(
            MachineLimits::default().room(&scenario).unwrap(),
            Room::default()
        );
    }

    /// Where one address has too few ports, so many of loopback's are used as have enough.
    #[test]
    fn more_addresses_bring_more_ports() {
        let few_ports = MachineLimits {
            ports: Some((50_000, 54_999)),
            ..WIDE
        };
        let scenario = stored(&["--connections", "10000"]);
        // Five thousand ports, of which 4,000 are planned with.
        let wanted = [1, 2, 3].map(|n| Ipv4Addr::new(127, 0, 0, n));
        assert_eq!(few_ports.room(&scenario).unwrap().sources, wanted);
        let no_reuse = MachineLimits {
            port_reuse: Some(0),
            ..WIDE
        };
        let scenario = stored(&["--requests-per-connection", "1"]);
        assert!(no_reuse.room(&scenario).unwrap().sources.len() > 10);
        assert!(WIDE.room(&scenario).unwrap().sources.is_empty());
    }
}
