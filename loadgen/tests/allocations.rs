//! In the steady state nothing is allocated: ten times as many requests allocate as often, and need
//! no more memory.
//!
//! A test binary of its own, because the allocator counts for the whole process.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use loadgen::{Check, Config, Control, HttpVersion, RequestSpec, Stage, Stop, Think, Warmup, run};
use recording::{Arrivals, LoadPhase};
use sha2::{Digest as _, Sha256};

/// Counts what the system allocator is asked for.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
/// Bytes that are allocated now, and the most that ever were.
static LIVE: AtomicI64 = AtomicI64::new(0);
static PEAK: AtomicI64 = AtomicI64::new(0);
/// What is counted belongs to one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// Waits for the other test to end, however it ends.
fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// So many bytes more, or fewer.
fn change_live(by: i64) {
    let live = LIVE.fetch_add(by, Ordering::Relaxed) + by;
    PEAK.fetch_max(live, Ordering::Relaxed);
}

/// A size, which no layout has above that of the address space.
fn bytes(size: usize) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}

// SAFETY: every call is handed to the system allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        change_live(bytes(layout.size()));
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        change_live(-bytes(layout.size()));
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        change_live(bytes(size) - bytes(layout.size()));
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A server that allocates nothing per request, with a head that is new each time, cut in two.
fn serve() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            std::thread::spawn(move || {
                stream.set_nodelay(true).unwrap();
                let mut request = [0; 4096];
                let mut response =
                    *b"HTTP/1.1 200 OK\r\nX-Number: 0000000000\r\nContent-Length: 2\r\n\r\nok";
                let place = response.iter().position(|&byte| byte == b'0').unwrap();
                let place = response[place + 3..]
                    .iter()
                    .position(|&b| b == b'0')
                    .unwrap()
                    + place
                    + 3;
                let mut number = 0_u64;
                // Requests come one at a time and are small: one read is one request.
                while stream.read(&mut request).is_ok_and(|count| count > 0) {
                    number += 1;
                    let mut rest = number;
                    for digit in response[place..place + 10].iter_mut().rev() {
                        *digit = b'0' + (rest % 10) as u8;
                        rest /= 10;
                    }
                    let (first, second) = response.split_at(30);
                    if stream.write_all(first).is_err() || stream.write_all(second).is_err() {
                        break;
                    }
                }
            });
        }
    });
    port
}

/// Takes the count when the window begins and when it ends.
#[derive(Default)]
struct Watch {
    at: Vec<u64>,
}

impl Control for Watch {
    fn phase(&mut self, phase: LoadPhase, _at_ns: u64, _barrier: bool) {
        if phase != LoadPhase::Warmup {
            self.at.push(ALLOCATIONS.load(Ordering::SeqCst));
        }
    }
}

/// A server of HTTP/2 that allocates nothing per request either.
fn serve_http2() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            std::thread::spawn(move || serve_frames(stream));
        }
    });
    port
}

/// Answers every HEADERS frame with a status, a date that changes, and a body.
fn serve_frames(mut stream: std::net::TcpStream) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    stream.read_exact(&mut [0; 24]).ok()?;
    stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).ok()?;
    let mut response = *b"\0\0\x08\x01\x04\0\0\0\0\x88\x0f\x12\x040000\0\0\x02\0\x01\0\0\0\0ok";
    let mut payload = [0; 1 << 14];
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).ok()?;
        let length = usize::from(head[1]) << 8 | usize::from(head[2]);
        stream.read_exact(&mut payload[..length]).ok()?;
        if head[3] == 1 {
            response[5..9].copy_from_slice(&head[5..]);
            response[22..26].copy_from_slice(&head[5..]);
            response[13 + usize::from(head[8] & 3)] ^= 1;
            stream.write_all(&response).ok()?;
        }
    }
}

/// What makes a load another one.
type Change<'a> = &'a dyn Fn(&mut Config);

/// Allocations in the window of a load of so many requests.
fn allocations(port: u16, requests: u64, shape: Change<'_>) -> u64 {
    let mut config = Config::new(format!("http://127.0.0.1:{port}/"));
    config.connections = 4;
    config.threads = 2;
    config.warmup = Warmup::Requests(200);
    config.stop = Stop::Requests(requests);
    shape(&mut config);
    let mut watch = Watch {
        at: Vec::with_capacity(2),
    };
    let load = run(&config, &mut watch).unwrap();
    assert_eq!(load.ledger.ok, requests);
    watch.at[1] - watch.at[0]
}

/// Several requests that vary, whose bodies are checked.
fn mixed(config: &mut Config) {
    let request = |name: &str, weight| RequestSpec {
        name: name.to_owned(),
        weight,
        path: Some("/{seq}?r={random}".to_owned()),
        ..RequestSpec::default()
    };
    config.requests = vec![request("a", 3), request("b", 1)];
    config.placeholders = true;
    config.check = Check {
        length: Some(2),
        sha256: Some(Sha256::digest(b"ok").into()),
    };
}

/// The number of allocations in the window does not depend on the number of requests: in a closed
/// loop, at a rate, with think time, with requests that differ, over HTTP/1.1 and HTTP/2.
#[test]
fn requests_allocate_nothing() {
    let _alone = alone();
    let at_a_rate = |config: &mut Config| {
        config.shape.arrivals = Arrivals::Poisson;
        config.shape.rates = vec![Stage::constant(20_000.0)];
    };
    let thinking = |config: &mut Config| {
        config.shape.think = Some(Think {
            mean: Duration::from_micros(50),
            random: true,
        });
    };
    let shapes: [(&str, Change<'_>); 4] = [
        ("closed loop", &|_| ()),
        ("rate", &at_a_rate),
        ("think time", &thinking),
        ("mix", &mixed),
    ];
    let http2 = |config: &mut Config| {
        config.http = HttpVersion::Http2;
        config.depth = 4;
    };
    let versions: [(u16, Change<'_>); 2] = [(serve(), &|_| ()), (serve_http2(), &http2)];
    for (name, shape, (port, version)) in shapes
        .into_iter()
        .flat_map(|(name, shape)| versions.map(|version| (name, shape, version)))
    {
        let both = |config: &mut Config| {
            version(config);
            shape(config);
        };
        let few = allocations(port, 1_000, &both);
        let many = allocations(port, 10_000, &both);
        // Streams that carry their first hashed body after the warm-up make a hasher each.
        assert!(
            many <= few + 20 + STREAMS,
            "{name}: {few} allocations for 1000 requests, {many} for 10000"
        );
    }
}

/// The most bytes that a load of so many requests held beyond what was there before.
fn peak(port: u16, requests: u64) -> i64 {
    let mut config = Config::new(format!("http://127.0.0.1:{port}/"));
    config.connections = 4;
    config.threads = 2;
    config.stop = Stop::Requests(requests);
    let before = LIVE.load(Ordering::SeqCst);
    PEAK.store(before, Ordering::SeqCst);
    let load = run(&config, &mut ()).unwrap();
    assert_eq!(load.ledger.ok, requests);
    PEAK.load(Ordering::SeqCst) - before
}

/// The results take the same room for a thousand requests and for a hundred and fifty times as many:
/// less than four bytes for each that came on top. (How the threads of a run meet makes some
/// difference, which several short runs show.)
#[test]
fn memory_does_not_grow_with_requests() {
    let _alone = alone();
    let port = serve();
    let few = (0..5).map(|_| peak(port, 1_000)).max().unwrap();
    let many = peak(port, 150_000);
    assert!(
        many - few < 4 * 149_000,
        "{few} bytes for 1000 requests, {many} for 150000"
    );
}

/// Streams of all connections together, where there are any.
const STREAMS: u64 = 4 * 4;
