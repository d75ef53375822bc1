//! Servers of HTTP/2: the `h2` crate as an independent judge, and scripts that say frame by frame
//! what the crate would never say.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread::JoinHandle;

use bytes::Bytes;
use h2::server::{self, SendResponse};
use http::{HeaderMap, Request, Response};
use tokio::sync::oneshot;

/// What the judge saw.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) accepts: AtomicU64,
    pub(crate) requests: AtomicU64,
    pub(crate) body_bytes: AtomicU64,
    /// Errors of connections: what the judge found wrong with the client.
    pub(crate) errors: AtomicU64,
}

/// How the judge answers a request.
#[derive(Clone, Default)]
pub(crate) struct Answer {
    pub(crate) fields: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) trailers: Option<HeaderMap>,
}

/// A server on the `h2` crate; it ends when it is dropped.
pub(crate) struct Judge {
    port: u16,
    pub(crate) seen: Arc<Seen>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Judge {
    /// Serves every request with one answer, with the settings of `builder`.
    pub(crate) fn start(builder: &server::Builder, answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        listener.set_nonblocking(true).unwrap();
        let seen = Arc::new(Seen::default());
        let (stop, stopped) = oneshot::channel();
        let (builder, shared) = (builder.clone(), Arc::clone(&seen));
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async move {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                let accepting = async {
                    loop {
                        let (stream, _) = listener.accept().await.unwrap();
                        shared.accepts.fetch_add(1, SeqCst);
                        let (builder, seen) = (builder.clone(), Arc::clone(&shared));
                        let answer = answer.clone();
                        tokio::spawn(async move {
                            if serve(stream, &builder, &seen, answer).await.is_err() {
                                seen.errors.fetch_add(1, SeqCst);
                            }
                        });
                    }
                };
                tokio::select! {
                    () = accepting => {}
                    _ = stopped => {}
                }
            });
        });
        Self {
            port,
            seen,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// A URL of this server.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/path?secret=value", self.port)
    }
}

impl Drop for Judge {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ended = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

async fn serve(
    stream: tokio::net::TcpStream,
    builder: &server::Builder,
    seen: &Arc<Seen>,
    answer: Answer,
) -> Result<(), h2::Error> {
    let mut connection = builder.handshake::<_, Bytes>(stream).await?;
    while let Some(request) = connection.accept().await {
        let (request, respond) = request?;
        let (seen, answer) = (Arc::clone(seen), answer.clone());
        tokio::spawn(async move {
            // A client that goes away in the middle is the business of the test.
            let _gone = respond_to(request, respond, &seen, answer).await;
        });
    }
    Ok(())
}

async fn respond_to(
    request: Request<h2::RecvStream>,
    mut respond: SendResponse<Bytes>,
    seen: &Seen,
    answer: Answer,
) -> Result<(), h2::Error> {
    let is_head = request.method() == http::Method::HEAD;
    let mut body = request.into_body();
    while let Some(data) = body.data().await {
        let data = data?;
        seen.body_bytes.fetch_add(data.len() as u64, SeqCst);
        body.flow_control().release_capacity(data.len())?;
    }
    seen.requests.fetch_add(1, SeqCst);
    let mut response = Response::new(());
    *response.headers_mut() = answer.fields;
    let body = if is_head { Bytes::new() } else { answer.body };
    let is_empty = body.is_empty() && answer.trailers.is_none();
    let mut stream = respond.send_response(response, is_empty)?;
    if !is_empty {
        stream.send_data(body, answer.trailers.is_none())?;
        if let Some(trailers) = answer.trailers {
            stream.send_trailers(trailers)?;
        }
    }
    Ok(())
}

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

/// One connection in the hands of a script.
pub(crate) struct Peer {
    pub(crate) stream: TcpStream,
}

impl Peer {
    /// Reads the preface and sends settings.
    pub(crate) fn greet(stream: TcpStream, settings: &[(u16, u32)]) -> Option<Self> {
        let mut peer = Self { stream };
        let mut preface = [0; 24];
        peer.stream.read_exact(&mut preface).ok()?;
        assert_eq!(&preface[..], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        peer.settings(settings);
        Some(peer)
    }

    /// Sends settings.
    pub(crate) fn settings(&mut self, settings: &[(u16, u32)]) {
        let mut payload = Vec::new();
        for (name, value) in settings {
            payload.extend_from_slice(&name.to_be_bytes());
            payload.extend_from_slice(&value.to_be_bytes());
        }
        self.send(SETTINGS, 0, 0, &payload);
    }

    /// The next frame; `None` when the client has gone.
    pub(crate) fn read(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head).ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        self.stream.read_exact(&mut payload).ok()?;
        Some(Frame {
            kind: head[3],
            flags: head[4],
            stream: u32::from_be_bytes([head[5], head[6], head[7], head[8]]),
            payload,
        })
    }

    /// The stream of the next request; `None` when the client has gone.
    pub(crate) fn request(&mut self) -> Option<u32> {
        loop {
            let frame = self.read()?;
            if frame.kind == HEADERS {
                return Some(frame.stream);
            }
        }
    }

    /// Reads until the client has gone, and returns what it said.
    pub(crate) fn drain(&mut self) -> Vec<Frame> {
        std::iter::from_fn(|| self.read()).collect()
    }

    /// Sends a frame; a client that has gone is the business of the test.
    pub(crate) fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        self.raw(&frame(kind, flags, stream, payload));
    }

    /// Sends bytes.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        let _gone = self.stream.write_all(bytes);
    }

    /// Answers with status 200 and no body.
    pub(crate) fn ok(&mut self, stream: u32) {
        self.send(HEADERS, END_STREAM | END_HEADERS, stream, &[0x88]);
    }
}

/// The bytes of a frame.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = vec![length[1], length[2], length[3], kind, flags];
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// A server that plays a script on every connection; it ends when it is dropped.
pub(crate) struct Scripted {
    address: std::net::SocketAddr,
    pub(crate) accepts: Arc<AtomicU64>,
    stop: Arc<AtomicU64>,
    acceptor: Option<JoinHandle<()>>,
}

impl Scripted {
    /// `script` gets each connection with its number, from 0.
    pub(crate) fn start(script: impl Fn(TcpStream, u64) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let accepts = Arc::new(AtomicU64::new(0));
        let stop = Arc::new(AtomicU64::new(0));
        let (counter, stopping, script) =
            (Arc::clone(&accepts), Arc::clone(&stop), Arc::new(script));
        let acceptor = std::thread::spawn(move || {
            let mut threads = Vec::new();
            loop {
                let (stream, _) = listener.accept().unwrap();
                if stopping.load(SeqCst) > 0 {
                    break;
                }
                stream.set_nodelay(true).unwrap();
                let number = counter.fetch_add(1, SeqCst);
                let script = Arc::clone(&script);
                threads.push(std::thread::spawn(move || script(stream, number)));
            }
            for thread in threads {
                thread.join().unwrap();
            }
        });
        Self {
            address,
            accepts,
            stop,
            acceptor: Some(acceptor),
        }
    }

    /// A URL of this server.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/path?secret=value", self.address)
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.stop.store(1, SeqCst);
        let _wake = TcpStream::connect(self.address);
        if let Some(acceptor) = self.acceptor.take() {
            let result = acceptor.join();
            if !std::thread::panicking() {
                result.unwrap();
            }
        }
    }
}
