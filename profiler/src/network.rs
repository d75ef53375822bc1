//! The target's listening sockets: who they are, how many connections wait at them, and what their
//! network namespaces count.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::MetadataExt as _;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use profiler_common::{BelowEvents, PortWord, port_bit};
use recording::{ListenQueue, Network, NetworkNamespace, NotMeasured};

use crate::listen_limit;
use crate::processes;
use crate::source::{TCP_RESET_RECEIVED, TCP_RESET_SENT, TCP_RETRANSMIT};

/// The listening sockets of the target, watched during a window.
#[derive(Debug, Default)]
pub(crate) struct Listeners {
    namespaces: Vec<Namespace>,
    sockets: BTreeMap<u64, Socket>,
}

/// A network namespace that processes of the target live in.
#[derive(Debug)]
struct Namespace {
    /// Inode of `/proc/PID/ns/net`; `None` where it may not be read.
    id: Option<u64>,
    /// Processes that show its tables.
    pids: Vec<u32>,
    /// When the window began.
    counters: Option<NamespaceCounters>,
    /// At the last slice.
    last: Option<NamespaceCounters>,
}

/// A listening socket of the target.
#[derive(Debug)]
struct Socket {
    namespace: Option<u64>,
    port: u16,
    deepest: u64,
    limit: Option<u64>,
}

/// `TcpExt` of `/proc/PID/net/netstat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct NamespaceCounters {
    listen_overflows: u64,
    listen_drops: u64,
    tcp_timeouts: u64,
}

/// What the programs in the kernel counted on the target's ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TcpCounters {
    retransmits: u64,
    resets_sent: u64,
    resets_received: u64,
}

impl TcpCounters {
    pub(crate) fn copy(events: &BelowEvents) -> Self {
        let read = |counter: &AtomicU64| counter.load(Relaxed);
        Self {
            retransmits: read(&events.tcp_retransmits),
            resets_sent: read(&events.tcp_resets_sent),
            resets_received: read(&events.tcp_resets_received),
        }
    }

    /// Fills in what was counted after `from`, but for what a kernel has no tracepoint for.
    pub(crate) fn fill(&self, network: &mut Network, from: &Self, missing: &[String]) {
        let unless = |tracepoint: &str, count: u64| {
            (!missing.iter().any(|missing| missing == tracepoint)).then_some(count)
        };
        let retransmits = self.retransmits - from.retransmits;
        network.retransmits = unless(TCP_RETRANSMIT, retransmits);
        network.resets_sent = unless(TCP_RESET_SENT, self.resets_sent - from.resets_sent);
        network.resets_received = unless(
            TCP_RESET_RECEIVED,
            self.resets_received - from.resets_received,
        );
    }
}

impl Listeners {
    /// The listening sockets that these processes hold at this moment.
    pub(crate) fn find(pids: &BTreeSet<u32>) -> Self {
        let mut namespaces: BTreeMap<Option<u64>, Vec<u32>> = BTreeMap::new();
        for &pid in pids {
            namespaces.entry(namespace(pid)).or_default().push(pid);
        }
        let held: BTreeSet<u64> = pids
            .iter()
            .flat_map(|&pid| processes::sockets(pid))
            .collect();
        let mut found = Self::default();
        for (id, pids) in namespaces {
            let namespace = Namespace {
                id,
                pids,
                counters: None,
                last: None,
            };
            for queue in namespace.queues() {
                if held.contains(&queue.inode) {
                    let socket = Socket {
                        namespace: id,
                        port: queue.port,
                        deepest: queue.waiting,
                        limit: None,
                    };
                    found.sockets.insert(queue.inode, socket);
                }
            }
            found.namespaces.push(namespace);
        }
        found.ask_for_limits();
        found
    }

    /// Makes the bit set that of their ports.
    pub(crate) fn mark_ports(&self, words: &[PortWord]) {
        let mut bits: BTreeMap<u32, u64> = BTreeMap::new();
        for socket in self.sockets.values() {
            let (word, bit) = port_bit(socket.port);
            *bits.entry(word).or_default() |= bit;
        }
        for (index, word) in (0..).zip(words) {
            let bits = bits.get(&index).copied().unwrap_or(0);
            word.0.store(bits, Relaxed);
        }
    }

    /// The window begins.
    pub(crate) fn begin_window(&mut self) {
        for namespace in &mut self.namespaces {
            namespace.counters = namespace.read_counters();
        }
    }

    /// The first slice begins, where the window began without these.
    pub(crate) fn begin_slices(&mut self) {
        for namespace in &mut self.namespaces {
            namespace.last = namespace.read_counters();
        }
    }

    /// What the namespaces counted since the last time, or since the window began; `None` where one of them
    /// cannot be read any more, or none is known.
    pub(crate) fn since_last(&mut self) -> Option<Vec<NetworkNamespace>> {
        let since = |namespace: &mut Namespace| {
            let now = namespace.read_counters()?;
            let from = namespace.last.replace(now).or(namespace.counters)?;
            Some(now.since(from, namespace.id))
        };
        let since: Option<Vec<_>> = self.namespaces.iter_mut().map(since).collect();
        since.filter(|namespaces| !namespaces.is_empty())
    }

    /// Looks how many connections wait now.
    pub(crate) fn look(&mut self) {
        for namespace in &self.namespaces {
            // A namespace without a listener of the target has nothing to be seen.
            let is_used = |socket: &Socket| socket.namespace == namespace.id;
            if !self.sockets.values().any(is_used) {
                continue;
            }
            for queue in namespace.queues() {
                if let Some(socket) = self.sockets.get_mut(&queue.inode) {
                    socket.deepest = socket.deepest.max(queue.waiting);
                }
            }
        }
    }

    /// The window ends: what was seen, without what the programs in the kernel counted, and what
    /// could not be read.
    pub(crate) fn end_window(&mut self) -> (Network, Vec<NotMeasured>) {
        self.look();
        let mut network = Network {
            listeners: self.queues(),
            ..Network::default()
        };
        let mut unread = 0;
        for namespace in &self.namespaces {
            match namespace.counters.zip(namespace.read_counters()) {
                Some((from, to)) => network.namespaces.push(to.since(from, namespace.id)),
                None => unread += 1,
            }
        }
        let not_measured = (unread > 0).then(|| NotMeasured {
            what: "listen overflows and drops".into(),
            why: format!(
                "/proc/PID/net/netstat could not be read at both edges of the window for {unread} of the {} \
                 network namespaces of the target",
                self.namespaces.len()
            ),
            remedy: None,
        });
        (network, not_measured.into_iter().collect())
    }

    fn queues(&self) -> Vec<ListenQueue> {
        let mut queues: BTreeMap<(Option<u64>, u16), ListenQueue> = BTreeMap::new();
        for socket in self.sockets.values() {
            let queue = queues
                .entry((socket.namespace, socket.port))
                .or_insert(ListenQueue {
                    namespace: socket.namespace,
                    port: socket.port,
                    sockets: 0,
                    deepest: 0,
                    limit: socket.limit,
                });
            queue.sockets += 1;
            queue.deepest = queue.deepest.max(socket.deepest);
            queue.limit = queue.limit.zip(socket.limit).map(|(a, b)| a.min(b));
        }
        queues.into_values().collect()
    }

    /// The kernel tells the limits of its caller's namespace only.
    fn ask_for_limits(&mut self) {
        let own = namespace(std::process::id());
        let is_own = |socket: &Socket| own.is_some() && socket.namespace == own;
        if !self.sockets.values().any(is_own) {
            return;
        }
        let limits = listen_limit::by_inode().unwrap_or_default();
        for (inode, socket) in &mut self.sockets {
            if is_own(socket) {
                socket.limit = limits.get(inode).copied();
            }
        }
    }
}

impl Namespace {
    /// The listening sockets of the namespace, of all programs.
    fn queues(&self) -> Vec<Queue> {
        let tables = ["tcp", "tcp6"].into_iter();
        tables
            .filter_map(|table| self.open(table))
            .flat_map(|file| {
                let lines = BufReader::new(file)
                    .lines()
                    .skip(1)
                    .map_while(std::io::Result::ok);
                // Listening sockets come first: the connections, which may be many, are not read.
                lines
                    .map_while(|line| Queue::parse(&line))
                    .collect::<Vec<_>>()
            })
            .collect()
    }

    fn read_counters(&self) -> Option<NamespaceCounters> {
        let text = std::io::read_to_string(self.open("netstat")?).ok()?;
        NamespaceCounters::parse(&text)
    }

    /// A table of the namespace, by the first of the processes that still shows it.
    fn open(&self, table: &str) -> Option<std::fs::File> {
        let mut alive = self.pids.iter().filter(|&&pid| namespace(pid) == self.id);
        alive.find_map(|pid| std::fs::File::open(format!("/proc/{pid}/net/{table}")).ok())
    }
}

/// A listening socket as `/proc/net/tcp` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Queue {
    port: u16,
    waiting: u64,
    inode: u64,
}

impl Queue {
    /// `sl local remote state tx:rx timer:when retransmits uid timeout inode ...`; `None` for a
    /// socket that does not listen.
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace().skip(1);
        let port = words.next()?.rsplit(':').next()?;
        let state = words.nth(1)?;
        let waiting = words.next()?.split(':').nth(1)?;
        let inode = words.nth(4)?;
        (state == LISTENING).then_some(Self {
            port: u16::from_str_radix(port, 16).ok()?,
            waiting: u64::from_str_radix(waiting, 16).ok()?,
            inode: inode.parse().ok()?,
        })
    }
}

impl NamespaceCounters {
    /// Pairs of lines, names and values, each after the name of their group.
    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines().filter(|line| line.starts_with("TcpExt:"));
        let (names, values) = (lines.next()?, lines.next()?);
        let counters: BTreeMap<&str, &str> = names
            .split_ascii_whitespace()
            .zip(values.split_ascii_whitespace())
            .collect();
        let counter = |name: &str| counters.get(name)?.parse().ok();
        Some(Self {
            listen_overflows: counter("ListenOverflows")?,
            listen_drops: counter("ListenDrops")?,
            tcp_timeouts: counter("TCPTimeouts")?,
        })
    }

    fn since(self, from: Self, namespace: Option<u64>) -> NetworkNamespace {
        NetworkNamespace {
            namespace,
            listen_overflows: self.listen_overflows.saturating_sub(from.listen_overflows),
            listen_drops: self.listen_drops.saturating_sub(from.listen_drops),
            tcp_timeouts: self.tcp_timeouts.saturating_sub(from.tcp_timeouts),
        }
    }
}

fn namespace(pid: u32) -> Option<u64> {
    let link = std::fs::metadata(format!("/proc/{pid}/ns/net"));
    Some(link.ok()?.ino())
}

/// `TCP_LISTEN` of `include/net/tcp_states.h`.
const LISTENING: &str = "0A";

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use proptest::prelude::*;

    use super::*;

    /// A listening socket is read, a connection and a line that is cut short are not.
    #[test]
    fn parses_listening_sockets() {
        let line = "   0: 00000000:07E8 00000000:0000 0A 00000000:0000000B 00:00000000 00000000     0        \
                    0 1681 1 00000000d372e5c5 100 0 0 10 0";
        let expected = Queue {
            port: 2024,
            waiting: 11,
            inode: 1681,
        };
        assert_eq!(Queue::parse(line), Some(expected));
        assert_eq!(Queue::parse(&line.replace(" 0A ", " 01 ")), None);
        assert_eq!(Queue::parse("   0: 00000000:07E8 00000000:0000 0A"), None);
        assert_eq!(Queue::parse(""), None);
    }

    /// The counters are found by name, whatever else is there; a table without them is none.
    #[test]
    fn parses_counters() {
        let text = "TcpExt: TW ListenOverflows ListenDrops TCPTimeouts X\nTcpExt: 9 1 2 3 4\n\
                    IpExt: A\nIpExt: 5\n";
        let expected = NamespaceCounters {
            listen_overflows: 1,
            listen_drops: 2,
            tcp_timeouts: 3,
        };
        assert_eq!(NamespaceCounters::parse(text), Some(expected));
        assert_eq!(NamespaceCounters::parse("TcpExt: TW\nTcpExt: 9\n"), None);
        assert_eq!(NamespaceCounters::parse(""), None);
    }

    /// Connections that wait at a listener of ours are seen with its limit, and its port is marked.
    #[test]
    fn sees_waiting_connections() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut listeners = Listeners::find(&BTreeSet::from([std::process::id()]));
        listeners.begin_window();
        let waiting: Vec<TcpStream> = (0..3)
            .map(|_| TcpStream::connect(address).unwrap())
            .collect();
        let (network, not_measured) = listeners.end_window();
        drop(waiting);
        assert_eq!(not_measured, []);
        assert_eq!(network.namespaces.len(), 1);
        let queue = network
            .listeners
            .iter()
            .find(|queue| queue.port == address.port())
            .unwrap();
        assert_eq!((queue.sockets, queue.deepest), (1, 3));
        // The standard library asks for 4,096, net.core.somaxconn may be less, and a kernel may lack
        // inet_diag.
        match listen_limit::by_inode() {
            Ok(_) => assert!(queue.limit.is_some_and(|limit| (3..=4096).contains(&limit))),
            Err(_) => assert_eq!(queue.limit, None),
        }
        let words: Vec<PortWord> = (0..profiler_common::PORT_WORDS)
            .map(|_| PortWord::default())
            .collect();
        listeners.mark_ports(&words);
        let (word, bit) = port_bit(address.port());
        let marked = words[word as usize].0.load(Relaxed);
        assert_eq!(marked & bit, bit);
        Listeners::default().mark_ports(&words);
        let marked = words[word as usize].0.load(Relaxed);
        assert_eq!(marked, 0);
    }

    proptest! {
        /// No text makes the parsers panic.
        #[test]
        fn any_text_parses(text: String) {
            let _queue = Queue::parse(&text);
            let _counters = NamespaceCounters::parse(&format!("TcpExt: {text}\nTcpExt: {text}"));
        }
    }
}
