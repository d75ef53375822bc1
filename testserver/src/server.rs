//! Binding, running and stopping a server.

use std::fmt;
use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroU64};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::event::EventfdFlags;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use rustix::thread::CpuSet;
use rustls::ServerConfig;

use crate::body::BodyFile;
use crate::http2_worker::{self, Http2Worker};
use crate::response::{Dress, Heads};
use crate::ring_worker::RingWorker;
use crate::serving::Serving;
use crate::spin::Spin;
use crate::timing::{AllTimes, InjectedTimes, InjectionTimes};
use crate::tls;
use crate::worker::Worker;
use crate::{Accepting, Config, ServeError, Style};

/// A server that listens, and answers once it runs.
pub struct Server {
    config: Config,
    body: Arc<BodyFile>,
    tls: Option<Arc<ServerConfig>>,
    listeners: Vec<OwnedFd>,
    local_address: SocketAddr,
    /// The CPUs to use, where not all of them.
    cpus: Option<CpuSet>,
    spin: Spin,
    lock: Arc<Mutex<()>>,
    times: AllTimes,
    stop: StopHandle,
}

impl Server {
    /// Opens or generates the file, listens, and calibrates what is injected.
    pub fn bind(config: Config) -> Result<Self, ServeError> {
        config.check()?;
        let mut body = BodyFile::new(&config.body)?;
        if config.gzip {
            body = body.compressed()?;
        }
        if config.style.keeps_contents() {
            body.keep_contents()?;
        }
        if !config.opens_path() {
            body.forget_path()?;
        }
        let protocol = if config.http2 {
            http2_worker::ALPN
        } else {
            HTTP1_ALPN
        };
        let files = config.certificate.as_ref();
        let tls = config
            .tls
            .then(|| tls::settings(files, &[protocol]))
            .transpose()?;
        let cpus = config.cpus.map(chosen_cpus).transpose()?;
        let bind_error = |source: Errno| ServeError::Bind {
            address: config.address,
            source: source.into(),
        };
        let listeners_wanted = match config.accepting {
            Accepting::ReusePort => config.workers.map_or(1, NonZeroU32::get),
            Accepting::Exclusive | Accepting::Shared => 1,
        };
        let share_port = listeners_wanted > 1;
        let first = listen(config.address, share_port).map_err(bind_error)?;
        let local_address = rustix::net::getsockname(&first)
            .and_then(SocketAddr::try_from)
            .map_err(bind_error)?;
        let mut listeners = vec![first];
        for _listener in 1..listeners_wanted {
            listeners.push(listen(local_address, share_port).map_err(bind_error)?);
        }
        Ok(Self {
            body: Arc::new(body),
            tls,
            listeners,
            local_address,
            cpus,
            spin: Spin::calibrated(config.injections.spin_us),
            lock: Arc::default(),
            times: AllTimes::default(),
            stop: StopHandle::new()?,
            config,
        })
    }

    /// Where it listens, with the port that was taken.
    pub fn local_address(&self) -> SocketAddr {
        self.local_address
    }

    /// The path of the file besides `/`.
    pub fn url_path(&self) -> &str {
        &self.body.url_path
    }

    /// What ends [`Server::run`].
    pub fn stop_handle(&self) -> StopHandle {
        self.stop.clone()
    }

    /// Serves until it is stopped: on the calling thread, and on one more thread per further worker.
    /// Open connections are closed at the end.
    ///
    /// `SIGPIPE` has to be ignored, as it is in Rust programs unless they change it: a client that
    /// goes away during a response would otherwise end the process.
    ///
    /// Returns what the injections of requests took, slice by slice, where
    /// [`Config::time_injections`] asked for it.
    pub fn run(self) -> Result<Vec<InjectedTimes>, ServeError> {
        self.settle_thread()?;
        let workers = self.config.workers.map_or(1, NonZeroU32::get);
        // Each has its own listening socket, or all share the only one.
        let mut listeners = self.listeners.iter().cycle();
        let first = listeners.next().expect("a server has a listening socket");
        thread::scope(|scope| {
            let mut threads = Vec::new();
            let mut outcome = Ok(());
            for (listener, _worker) in listeners.zip(1..workers) {
                let spawned = thread::Builder::new()
                    .name("testserver".to_owned())
                    .spawn_scoped(scope, || self.work(listener));
                match spawned {
                    Ok(thread) => threads.push(thread),
                    Err(source) => {
                        outcome = Err(ServeError::os("clone3")(source));
                        self.stop.stop();
                        break;
                    }
                }
            }
            outcome = outcome.and(self.work(first));
            for thread in threads {
                let joined = thread.join();
                outcome = outcome.and(joined.unwrap_or(Err(ServeError::WorkerPanicked)));
            }
            outcome
        })?;
        Ok(self.times.slices())
    }

    /// The CPUs and the timer of this thread; threads that it makes afterwards inherit both.
    fn settle_thread(&self) -> Result<(), ServeError> {
        if let Some(cpus) = &self.cpus {
            rustix::thread::sched_setaffinity(None, cpus)
                .map_err(ServeError::os("sched_setaffinity"))?;
        }
        rustix::thread::set_current_timer_slack(Some(TIMER_SLACK_NS))
            .map_err(ServeError::os("prctl"))
    }

    fn serving(&self) -> Serving {
        let dress = Dress {
            gzip: self.config.gzip,
            head_bytes: self.config.head_bytes,
        };
        Serving {
            style: self.config.style,
            reading: self.config.reading,
            injections: self.config.injections,
            body: Arc::clone(&self.body),
            spin: self.spin,
            lock: Arc::clone(&self.lock),
            heads: Heads::new(self.body.length, dress),
            is_compressed: self.config.gzip,
            tls: self.tls.clone(),
            contents: Vec::new(),
            since_error: 0,
            times: self.config.time_injections.then(InjectionTimes::default),
        }
    }

    /// One worker; when it ends, for whatever reason, so do the others.
    fn work(&self, listener: &OwnedFd) -> Result<(), ServeError> {
        let stop_others = StopOnDrop(&self.stop);
        let stop = self.stop.descriptor.as_fd();
        let times = if self.config.http2 {
            Http2Worker::new(&self.config, listener, stop, self.serving())?.run()
        } else if self.config.style == Style::Ring {
            RingWorker::new(&self.config, listener, stop, self.serving())?.run()
        } else {
            Worker::new(&self.config, listener, stop, self.serving())?.run()
        };
        drop(stop_others);
        if let Some(times) = times? {
            self.times.merge(times);
        }
        Ok(())
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Server")
            .field("config", &self.config)
            .field("local_address", &self.local_address)
            .finish_non_exhaustive()
    }
}

/// Ends a running server, from any thread.
#[derive(Clone, Debug)]
pub struct StopHandle {
    descriptor: Arc<OwnedFd>,
}

impl StopHandle {
    fn new() -> Result<Self, ServeError> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let descriptor = rustix::event::eventfd(0, flags).map_err(ServeError::os("eventfd2"))?;
        Ok(Self {
            descriptor: Arc::new(descriptor),
        })
    }

    /// Ends the server soon; stopping it again does nothing.
    pub fn stop(&self) {
        // The only possible failure is a counter at its limit, which is as good as another one.
        let _full = rustix::io::write(&self.descriptor, &1_u64.to_ne_bytes());
    }
}

struct StopOnDrop<'a>(&'a StopHandle);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// The first CPUs of those that this process may use.
fn chosen_cpus(wanted: NonZeroU32) -> Result<CpuSet, ServeError> {
    let allowed =
        rustix::thread::sched_getaffinity(None).map_err(ServeError::os("sched_getaffinity"))?;
    if allowed.count() < wanted.get() {
        return Err(ServeError::Cpus {
            wanted: wanted.get(),
            allowed: allowed.count(),
        });
    }
    let mut chosen = CpuSet::new();
    for cpu in (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)) {
        if chosen.count() == wanted.get() {
            break;
        }
        chosen.set(cpu);
    }
    Ok(chosen)
}

fn listen(address: SocketAddr, share_port: bool) -> rustix::io::Result<OwnedFd> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if share_port {
        sockopt::set_socket_reuseport(&socket, true)?;
    }
    // Inherited by every connection. Without it the last, partial segment of a response would wait
    // for the acknowledgement of the one before (Nagle), up to 40 ms.
    sockopt::set_tcp_nodelay(&socket, true)?;
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// What ALPN calls HTTP/1.1 (RFC 7301, section 6).
const HTTP1_ALPN: &[u8] = b"http/1.1";
/// Connections that may wait to be taken; the kernel lowers it to `net.core.somaxconn`.
const BACKLOG: i32 = 4096;
/// Sleeps end as near to their time as the kernel can; its default is 50 us later.
const TIMER_SLACK_NS: NonZeroU64 = NonZeroU64::MIN;

#[cfg(test)]
mod tests {
    use super::*;

    /// One CPU of those that are allowed is chosen, and all of them where as many are wanted.
    #[test]
    fn chooses_of_the_allowed_cpus() {
        let allowed = rustix::thread::sched_getaffinity(None).expect("it is known");
        let one = chosen_cpus(NonZeroU32::MIN).expect("there is one");
        assert_eq!(one.count(), 1);
        assert!((0..CpuSet::MAX_CPU).all(|cpu| !one.is_set(cpu) || allowed.is_set(cpu)));
        let wanted = NonZeroU32::new(allowed.count()).expect("there is one");
        assert_eq!(chosen_cpus(wanted).expect("there are as many"), allowed);
    }
}
