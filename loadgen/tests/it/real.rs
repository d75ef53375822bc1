//! Servers that people use, started in a folder of their own with a log of every request.

use std::fs;
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use loadgen::{Config, HttpVersion, Stop};
use tempfile::TempDir;

/// How a server is started.
pub(crate) struct Kind {
    pub(crate) program: &'static str,
    /// Its arguments; it runs in its folder, where its configuration is the file `config`.
    pub(crate) arguments: &'static [&'static str],
    /// Makes the configuration.
    pub(crate) write: fn(&Place) -> String,
    /// The file that has a line per request.
    pub(crate) log: &'static str,
}

/// Where a server works: its folder and its ports, all of them free a moment ago.
pub(crate) struct Place {
    pub(crate) folder: TempDir,
    pub(crate) clear: u16,
    pub(crate) tls: u16,
    /// For HTTP/2 in clear, where a server wants a port for that.
    pub(crate) h2c: u16,
}

impl Place {
    /// A folder with a certificate and a file of one byte.
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let key = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (certificate, secret) = (key.cert.pem(), key.signing_key.serialize_pem());
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("cert.pem", &certificate);
        write("key.pem", &secret);
        write("both.pem", &format!("{certificate}{secret}"));
        write("file", "x");
        // When somebody takes one before the server does, the server ends.
        let listeners = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let [clear, tls, h2c] = listeners.map(|free| free.local_addr().unwrap().port());
        Self {
            folder,
            clear,
            tls,
            h2c,
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// A running server; it ends when it is dropped, and with the thread of the test.
pub(crate) struct Real {
    child: Child,
    pub(crate) place: Place,
    pub(crate) log: &'static str,
    /// Whether HTTP/2 in clear has a port of its own.
    h2c_apart: bool,
}

impl Drop for Real {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _status = self.child.wait();
    }
}

impl Real {
    /// Starts a server; `None` where it is not installed.
    pub(crate) fn start(test: &str, kind: &Kind) -> Option<Self> {
        let Some(program) = find(kind.program) else {
            skip(test, &format!("{} is not installed", kind.program));
            return None;
        };
        for _ in 0..ATTEMPTS {
            let mut real = Self::attempt(&program, kind);
            if real.comes_up() {
                return Some(real);
            }
        }
        panic!("{} does not start", kind.program);
    }

    fn attempt(program: &Path, kind: &Kind) -> Self {
        let place = Place::new();
        let config = (kind.write)(&place);
        let h2c_apart = config.contains(&place.h2c.to_string());
        fs::write(place.path("config"), config).unwrap();
        let file = |name: &str| fs::File::create(place.path(name)).unwrap();
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL"])
            .arg(program)
            .args(kind.arguments)
            .current_dir(place.folder.path())
            .env("HOME", place.folder.path())
            .env("XDG_CONFIG_HOME", place.folder.path())
            .env("XDG_DATA_HOME", place.folder.path())
            .stdin(Stdio::null())
            .stdout(file("output"))
            .stderr(file("complaints"))
            .spawn()
            .unwrap();
        Self {
            child,
            place,
            log: kind.log,
            h2c_apart,
        }
    }

    /// Waits until its ports answer; `false` when the server has ended instead.
    fn comes_up(&mut self) -> bool {
        let begun = Instant::now();
        let Place {
            clear, tls, h2c, ..
        } = self.place;
        let ports = [clear, tls, if self.h2c_apart { h2c } else { clear }];
        for port in ports {
            while TcpStream::connect(("127.0.0.1", port)).is_err() {
                let output = fs::read_to_string(self.place.path("complaints")).unwrap();
                if self.child.try_wait().unwrap().is_some() {
                    let line = format!("ended at once: {output}\n");
                    std::io::stdout().write_all(line.as_bytes()).unwrap();
                    return false;
                }
                assert!(begun.elapsed() < Duration::from_mins(1), "{output}");
                // sleeps: only a server that can be connected to is there.
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        true
    }

    /// A load on a file, over TLS or in clear.
    pub(crate) fn config(&self, tls: bool, http: HttpVersion) -> Config {
        let (scheme, port) = if tls {
            ("https", self.place.tls)
        } else if self.h2c_apart && http != HttpVersion::Http1 {
            ("http", self.place.h2c)
        } else {
            ("http", self.place.clear)
        };
        let mut config = Config::new(format!("{scheme}://localhost:{port}/file"));
        config.tls.ca_file = Some(self.place.path("cert.pem"));
        config.http = http;
        config.depth = if http == HttpVersion::Http1 { 1 } else { 8 };
        config.connections = 4;
        config.stop = Stop::Requests(400);
        config
    }

    /// Waits until the log of the server has so many lines, and for no more.
    pub(crate) fn has_logged(&self, lines: usize) {
        let path = self.place.path(self.log);
        let begun = Instant::now();
        loop {
            let found = fs::read_to_string(&path)
                .unwrap_or_default()
                .lines()
                .count();
            if found == lines {
                return;
            }
            assert!(found < lines, "{found} requests in the log, not {lines}");
            let late = begun.elapsed() > Duration::from_mins(1);
            assert!(!late, "{found} requests in the log, not {lines}");
            // sleeps: a log is written after the reply.
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn skip(test: &str, why: &str) {
    let line = format!("{test}\t{why}\n");
    match std::env::var_os("WHYFAST_SKIP_LOG") {
        Some(path) => {
            let log = fs::OpenOptions::new().append(true).create(true).open(path);
            log.unwrap().write_all(line.as_bytes()).unwrap();
        }
        None => std::io::stdout()
            .write_all(format!("SKIPPED {line}").as_bytes())
            .unwrap(),
    }
}

/// A program of the system; those of administrators are not in everybody's `PATH`.
fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    let mut files = folders.map(|folder| folder.join(program));
    files.find(|file| file.is_file())
}

/// A line of a configuration that keeps a server from changing its user.
pub(crate) fn only_for_root(line: &str) -> &str {
    if rustix::process::geteuid().is_root() {
        line
    } else {
        ""
    }
}

/// How often another set of ports is tried.
const ATTEMPTS: u32 = 5;
