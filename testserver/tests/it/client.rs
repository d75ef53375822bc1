//! A server on a thread, and a blocking client for it.

use std::io::{Read, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use testserver::{Config, InjectedTimes, ServeError, Server, StopHandle, Style};

/// A server that runs on a thread until it is dropped.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    stop: StopHandle,
    thread: Option<JoinHandle<Result<Vec<InjectedTimes>, ServeError>>>,
}

impl Running {
    pub(crate) fn start(config: Config) -> Self {
        let server = Server::bind(config).expect("a free port of the loopback interface");
        Self {
            address: server.local_address(),
            stop: server.stop_handle(),
            thread: Some(thread::spawn(move || server.run())),
        }
    }

    pub(crate) fn connect(&self) -> Client {
        let stream = TcpStream::connect(self.address).expect("the server listens");
        stream
            .set_read_timeout(Some(PATIENCE))
            .expect("a positive limit");
        Client { stream }
    }

    /// Stops the server and returns what `run` returned.
    pub(crate) fn stop(mut self) -> Result<Vec<InjectedTimes>, ServeError> {
        self.stop.stop();
        let thread = self.thread.take().expect("stopped once");
        thread.join().expect("the server does not panic")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.stop();
        if let Some(thread) = self.thread.take() {
            let _outcome = thread.join();
        }
    }
}

/// A configuration for each style, and for each way to wait, to read and to cut a response.
pub(crate) fn every_way() -> Vec<Config> {
    let of_styles = Style::ALL.map(|style| style.name().to_owned());
    let others = [
        "sendfile,poller=epoll-edge",
        "sendfile,poller=io-uring",
        "mmap,poller=poll,split=3",
        "memory,poller=select",
        "pread,poller=io-uring,read=eagain,split=2",
        "write-parts,poller=epoll-edge,read=eagain,split=5",
        "sendfile-uncorked,max-events=1",
    ];
    let specs = of_styles.into_iter().chain(others.map(str::to_owned));
    specs
        .map(|spec| Config::parse(&spec).expect("a valid spec"))
        .collect()
}

/// One connection.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
}

/// A response, as it came.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Client {
    pub(crate) fn send(&mut self, bytes: &str) {
        self.stream
            .write_all(bytes.as_bytes())
            .expect("the server reads");
    }

    /// Reads one response with a body as long as its head says.
    pub(crate) fn response(&mut self) -> Response {
        read_response(&mut self.stream)
    }

    /// Reads a response without a body, whatever length its head says.
    pub(crate) fn head(&mut self) -> (u16, String, usize) {
        read_head(&mut self.stream)
    }

    pub(crate) fn stop_sending(&mut self) {
        self.stream
            .shutdown(Shutdown::Write)
            .expect("the connection is open");
    }

    /// Checks that the server ends the connection, in good order and without another byte.
    pub(crate) fn expect_end(&mut self) {
        let mut rest = Vec::new();
        self.stream
            .read_to_end(&mut rest)
            .expect("an orderly end, not a reset");
        assert!(rest.is_empty(), "{}", String::from_utf8_lossy(&rest));
    }
}

/// Reads one response with a body as long as its head says.
pub(crate) fn read_response(stream: &mut impl Read) -> Response {
    let (status, head, length) = read_head(stream);
    let mut body = vec![0; length];
    stream.read_exact(&mut body).expect("a whole body");
    Response { status, head, body }
}

/// Reads a response without a body, whatever length its head says.
pub(crate) fn read_head(stream: &mut impl Read) -> (u16, String, usize) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).expect("a whole head");
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).expect("heads are text");
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|code| code.parse().ok())
        .expect("a status line");
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("Content-Length: "))
        .and_then(|length| length.parse().ok())
        .expect("every response says its length");
    (status, head, length)
}

/// A limit on any single read, so that a defect fails the test rather than hanging it.
const PATIENCE: Duration = Duration::from_secs(20);

/// A plain request for `/`.
pub(crate) const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
