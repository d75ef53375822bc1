//! The table of what a request costs, in system calls.
//!
//! The documentation, `whyfast list` and the tests all take their figures from here.

use crate::{Config, Polling, Reading, Style};

/// How often a request makes one system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallCount {
    /// The name of the call, as the kernel has it.
    pub name: &'static str,
    /// Calls per request, failing ones included.
    pub per_request: u32,
    /// Of them, those that fail with `EAGAIN`.
    pub failing: u32,
}

/// Every system call of one request in lock-step, in the order in which they are made first.
pub(crate) fn per_request(config: &Config) -> Vec<CallCount> {
    let mut table = Table(Vec::new());
    let injections = &config.injections;
    table.add(wait_call(config.polling), 1);
    if config.style != Style::Ring {
        table.add("recvfrom", 1);
    }
    // hyper, h2 and tokio never read on after a read that did not fill its room.
    if config.reading == Reading::UntilEagain && !config.http2 {
        table.add_failing("recvfrom");
    }
    table.add("getppid", injections.getppid);
    for name in ["openat", "fstat", "close"] {
        table.add(name, injections.open);
    }
    table.add("fstat", injections.fstat);
    let sleeps = u32::from(injections.sleep_us > 0) + u32::from(injections.lock_us > 0);
    table.add("clock_nanosleep", sleeps);
    match (config.http2, config.tls) {
        (true, _) => table.add_http2_response(config.style),
        (false, true) => table.add_encrypted_response(config.style, injections.split.max(1)),
        (false, false) => table.add_response(config.style, injections.split.max(1)),
    }
    table.0
}

struct Table(Vec<CallCount>);

impl Table {
    fn row(&mut self, name: &'static str) -> &mut CallCount {
        let found = self.0.iter().position(|row| row.name == name);
        let index = found.unwrap_or_else(|| {
            self.0.push(CallCount {
                name,
                per_request: 0,
                failing: 0,
            });
            self.0.len() - 1
        });
        &mut self.0[index]
    }

    fn add(&mut self, name: &'static str, per_request: u32) {
        if per_request > 0 {
            self.row(name).per_request += per_request;
        }
    }

    fn add_failing(&mut self, name: &'static str) {
        let row = self.row(name);
        row.per_request += 1;
        row.failing += 1;
    }

    /// Over TLS every write is one `writev` of records.
    fn add_encrypted_response(&mut self, style: Style, pieces: u32) {
        match style {
            Style::WriteParts => self.add("writev", pieces + 1),
            other => self.add_response(other, pieces),
        }
    }

    /// Over HTTP/2 the file is read before the response begins, which h2 writes in one piece.
    fn add_http2_response(&mut self, style: Style) {
        let reading: &[&'static str] = match style {
            Style::OpenRead => &["openat", "fstat", "read", "close"],
            Style::Pread => &["pread64"],
            _ => &[],
        };
        for name in reading.iter().chain(&["writev"]) {
            self.add(name, 1);
        }
    }

    /// What the style does once it knows what to answer; its first write is cut into pieces.
    fn add_response(&mut self, style: Style, pieces: u32) {
        match style {
            Style::Memory => self.add("writev", pieces),
            Style::Mmap => {
                self.add("mmap", 1);
                self.add("writev", pieces);
                self.add("munmap", 1);
            }
            Style::OpenRead => {
                for name in ["openat", "fstat", "read"] {
                    self.add(name, 1);
                }
                self.add("writev", pieces);
                self.add("close", 1);
            }
            Style::Pread => {
                self.add("pread64", 1);
                self.add("writev", pieces);
            }
            // Sending and receiving are in the call that waits.
            Style::Ring => {}
            Style::Sendfile => {
                self.add("setsockopt", 2);
                self.add("writev", pieces);
                self.add("sendfile", 1);
            }
            Style::SendfileUncorked => {
                self.add("writev", pieces);
                self.add("sendfile", 1);
            }
            Style::WriteParts => self.add("write", pieces + 1),
        }
    }
}

/// Newer architectures lack the older calls; there it is the one with a signal mask, without one.
fn wait_call(polling: Polling) -> &'static str {
    let older = cfg!(target_arch = "x86_64");
    match polling {
        Polling::Epoll | Polling::EpollEdge if older => "epoll_wait",
        Polling::Epoll | Polling::EpollEdge => "epoll_pwait",
        Polling::IoUring => "io_uring_enter",
        Polling::Poll if older => "poll",
        Polling::Poll => "ppoll",
        Polling::Select if older => "select",
        Polling::Select => "pselect6",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of a spec as text: name, count, and of them failing ones.
    fn table(spec: &str) -> String {
        let rows = Config::parse(spec)
            .expect("a valid spec")
            .calls_per_request();
        let text = |row: &CallCount| match row.failing {
            0 => format!("{} {}", row.per_request, row.name),
            failing => format!("{} {} ({failing} fail)", row.per_request, row.name),
        };
        rows.iter().map(text).collect::<Vec<_>>().join(", ")
    }

    /// Every name in the tables is a call of this machine, and stands there once.
    #[test]
    fn tables_name_real_calls_once() {
        let abi = recording::Abi::of_machine(std::env::consts::ARCH).expect("a supported machine");
        for style in Style::ALL.into_iter().filter(|style| *style != Style::Ring) {
            for polling in ["epoll", "epoll-edge", "io-uring", "poll", "select"] {
                let spec = format!("{style},poller={polling},getppid=1,open=2,lock-us=1");
                let rows = Config::parse(&spec)
                    .expect("a valid spec")
                    .calls_per_request();
                for (index, row) in rows.iter().enumerate() {
                    let name = row.name;
                    assert!(recording::number(abi, name).is_some(), "{spec}: {name}");
                    assert!(
                        row.failing < row.per_request,
                        "{spec}: {name} never succeeds"
                    );
                    assert!(rows[..index].iter().all(|other| other.name != name));
                }
            }
        }
    }

    /// What is injected is added to the rows of the style, or makes rows of its own.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn injections_add_to_the_rows_of_the_style() {
        assert_eq!(
            table("sendfile,getppid=3,fstat=2,spin-us=9,split=4"),
            "1 epoll_wait, 1 recvfrom, 3 getppid, 2 fstat, 2 setsockopt, 4 writev, 1 sendfile"
        );
        assert_eq!(
            table("open-read,open=2,sleep-us=5,lock-us=7"),
            "1 epoll_wait, 2 recvfrom (1 fail), 3 openat, 3 fstat, 3 close, 2 clock_nanosleep, \
             1 read, 1 writev"
        );
        assert_eq!(table("ring,getppid=2"), "1 io_uring_enter, 2 getppid");
        assert_eq!(
            table("write-parts,tls=1,split=3"),
            "1 epoll_wait, 1 recvfrom, 4 writev"
        );
        assert_eq!(
            table("open-read,h2=1,tls=1,getppid=1"),
            "1 epoll_wait, 1 recvfrom, 1 getppid, 1 openat, 1 fstat, 1 read, 1 close, 1 writev"
        );
        assert_eq!(
            table("write-parts,poller=poll,read=eagain,split=2"),
            "1 poll, 2 recvfrom (1 fail), 3 write"
        );
    }
}
