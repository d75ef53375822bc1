//! Binding, running and stopping a server.

use std::fmt;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::thread;

use rustix::event::EventfdFlags;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use crate::body::BodyFile;
use crate::connection::Serving;
use crate::response::Heads;
use crate::spin::Spin;
use crate::worker::Worker;
use crate::{Config, ServeError};

/// A server that listens, and answers once it runs.
pub struct Server {
    config: Config,
    body: BodyFile,
    listeners: Vec<OwnedFd>,
    local_address: SocketAddr,
    spin: Spin,
    stop: StopHandle,
}

impl Server {
    /// Opens or generates the file, listens, and calibrates what is injected.
    pub fn bind(config: Config) -> Result<Self, ServeError> {
        let mut body = BodyFile::new(&config.body)?;
        if !config.style.opens_path() {
            body.forget_path()?;
        }
        let bind_error = |source: Errno| ServeError::Bind {
            address: config.address,
            source: source.into(),
        };
        let workers = config.workers.get();
        let share_port = workers > 1;
        let first = listen(config.address, share_port).map_err(bind_error)?;
        let local_address = rustix::net::getsockname(&first)
            .and_then(SocketAddr::try_from)
            .map_err(bind_error)?;
        let mut listeners = vec![first];
        for _worker in 1..workers {
            listeners.push(listen(local_address, share_port).map_err(bind_error)?);
        }
        Ok(Self {
            body,
            listeners,
            local_address,
            spin: Spin::calibrated(config.injections.spin_us),
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
    pub fn run(self) -> Result<(), ServeError> {
        let (first, others) = self
            .listeners
            .split_first()
            .expect("the number of workers is not zero");
        thread::scope(|scope| {
            let mut threads = Vec::with_capacity(others.len());
            let mut outcome = Ok(());
            for listener in others {
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
        })
    }

    /// One worker; when it ends, for whatever reason, so do the others.
    fn work(&self, listener: &OwnedFd) -> Result<(), ServeError> {
        let stop_others = StopOnDrop(&self.stop);
        let serving = Serving {
            style: self.config.style,
            body: &self.body,
            spin: self.spin,
            getppid: self.config.injections.getppid,
            heads: Heads::new(self.body.length),
            contents: Vec::new(),
        };
        let outcome = Worker::new(listener, self.stop.descriptor.as_fd(), serving)?.run();
        drop(stop_others);
        outcome
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

/// Connections that may wait to be taken; the kernel lowers it to `net.core.somaxconn`.
const BACKLOG: i32 = 4096;
