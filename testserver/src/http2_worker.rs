//! The loop of one thread for HTTP/2: hyper and h2 on a runtime of tokio.
//!
//! Which calls wait, read and write is theirs to decide; the file and the costs that are added are
//! those of the other workers.

use std::convert::Infallible;
use std::io;
use std::net::TcpListener as Listener;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http2::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustix::io::Errno;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::request::is_served;
use crate::response::Status;
use crate::serving::{Serving, open};
use crate::timing::InjectionTimes;
use crate::{Config, ServeError, Style, syscall, worker};

/// What ALPN calls HTTP/2 over TLS (RFC 9113, section 3.2).
pub(crate) const ALPN: &[u8] = b"h2";

/// One thread's runtime, listening socket and connections.
pub(crate) struct Http2Worker {
    runtime: Runtime,
    listener: OwnedFd,
    stop: OwnedFd,
    tls: Option<TlsAcceptor>,
    pages: Arc<Pages>,
}

/// What all connections of a worker answer from.
struct Pages {
    /// Used by one thread alone, so that waiting for it is never necessary and costs no call.
    serving: Mutex<Serving>,
    /// The file, where it is answered from memory.
    contents: Option<Bytes>,
}

impl Http2Worker {
    pub(crate) fn new(
        config: &Config,
        listener: &OwnedFd,
        stop: BorrowedFd<'_>,
        serving: Serving,
    ) -> Result<Self, ServeError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .max_io_events_per_tick(config.max_events())
            .build()
            .map_err(ServeError::os("epoll_create1"))?;
        let duplicate =
            |descriptor: BorrowedFd<'_>| descriptor.try_clone_to_owned().map_err(duplicated);
        Ok(Self {
            runtime,
            listener: duplicate(listener.as_fd())?,
            stop: duplicate(stop)?,
            tls: serving.tls.clone().map(TlsAcceptor::from),
            pages: Arc::new(Pages {
                contents: serving.body.contents.clone().map(Bytes::from),
                serving: Mutex::new(serving),
            }),
        })
    }

    /// Serves until the stop descriptor is ready; returns the times of injections, where taken.
    pub(crate) fn run(self) -> Result<Option<InjectionTimes>, ServeError> {
        let (tls, pages) = (self.tls, Arc::clone(&self.pages));
        self.runtime
            .block_on(accept_all(self.listener, self.stop, tls, pages))?;
        // Ends what is left of the connections.
        drop(self.runtime);
        let mut serving = self
            .pages
            .serving
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        Ok(serving.times.take())
    }
}

impl Pages {
    /// The response to a request, in the calls of the style.
    fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let mut serving = self.serving.lock().unwrap_or_else(PoisonError::into_inner);
        serving.inject_all();
        let status = match *request.method() {
            _ if !request.body().is_end_stream() => Status::ContentTooLarge,
            Method::GET | Method::HEAD if serves(&serving, request.uri().path()) => Status::Ok,
            Method::GET | Method::HEAD => Status::NotFound,
            _ => Status::MethodNotAllowed,
        };
        let head_only = *request.method() == Method::HEAD;
        if status != Status::Ok {
            return of_status(status, head_only);
        }
        if serving.fails_on_purpose() {
            return of_status(Status::InternalError, head_only);
        }
        let Ok(body) = self.read(&mut serving) else {
            return of_status(Status::InternalError, head_only);
        };
        let encoding = serving
            .is_compressed
            .then_some((header::CONTENT_ENCODING, HeaderValue::from_static("gzip")));
        response(Status::Ok, body, head_only, encoding)
    }

    fn read(&self, serving: &mut Serving) -> rustix::io::Result<Bytes> {
        if let Some(contents) = &self.contents {
            return Ok(contents.clone());
        }
        if serving.style == Style::OpenRead {
            let file = open(&serving.body)?;
            let read = serving.read_whole(&file);
            syscall::close(file);
            read?;
        } else {
            serving.read_kept()?;
        }
        Ok(Bytes::copy_from_slice(&serving.contents))
    }
}

fn serves(serving: &Serving, path: &str) -> bool {
    is_served(path, &serving.body.url_path)
}

/// Takes connections until the stop descriptor is ready.
async fn accept_all(
    listener: OwnedFd,
    stop: OwnedFd,
    tls: Option<TlsAcceptor>,
    pages: Arc<Pages>,
) -> Result<(), ServeError> {
    let registered = ServeError::os::<io::Error>("epoll_ctl");
    let listener = TcpListener::from_std(Listener::from(listener)).map_err(registered)?;
    let registered = ServeError::os::<io::Error>("epoll_ctl");
    let stop = syscall::watch_readable(stop).map_err(registered)?;
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            biased;
            _ready = stop.readable() => return Ok(()),
            accepted = listener.accept() => accepted,
            Some(_ended) = connections.join_next() => continue,
        };
        match accepted {
            Ok((socket, _peer)) => {
                connections.spawn(serve(socket, tls.clone(), Arc::clone(&pages)));
            }
            Err(error) => {
                let error = Errno::from_io_error(&error).unwrap_or(Errno::IO);
                if worker::ends_with_a_connection(error) {
                    worker::check_connections(error, !connections.is_empty())?;
                    // Until then every try would fail.
                    tokio::select! {
                        _ready = stop.readable() => return Ok(()),
                        _ended = connections.join_next() => {}
                    }
                } else if worker::is_fatal(error) {
                    return Err(ServeError::os("accept4")(error));
                }
            }
        }
    }
}

/// One connection to its end. How it ends is its client's business.
async fn serve(socket: TcpStream, tls: Option<TlsAcceptor>, pages: Arc<Pages>) {
    match tls {
        None => exchange(socket, pages).await,
        Some(tls) => {
            let Ok(stream) = tls.accept(socket).await else {
                return;
            };
            // A client that does not ask for HTTP/2 would not understand it.
            if stream.get_ref().1.alpn_protocol() == Some(ALPN) {
                exchange(stream, pages).await;
            }
        }
    }
}

async fn exchange(stream: impl AsyncRead + AsyncWrite + Unpin, pages: Arc<Pages>) {
    let service = service_fn(move |request| {
        let response = pages.answer(&request);
        std::future::ready(Ok::<_, Infallible>(response))
    });
    let served = Builder::new(TokioExecutor::new())
        // Responses never change, and no clock is read.
        .auto_date_header(false)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    // A client may end a connection as it likes.
    drop(served);
}

/// A response that says nothing but its status.
fn of_status(status: Status, head_only: bool) -> Response<Full<Bytes>> {
    let text = Bytes::from(format!("{}\n", status.line()));
    let allow = (status == Status::MethodNotAllowed)
        .then_some((header::ALLOW, HeaderValue::from_static("GET, HEAD")));
    response(status, text, head_only, allow)
}

/// The headers are those of HTTP/1.1.
fn response(
    status: Status,
    body: Bytes,
    head_only: bool,
    more: Option<(HeaderName, HeaderValue)>,
) -> Response<Full<Bytes>> {
    let length = body.len();
    let mut response = Response::new(Full::new(if head_only { Bytes::new() } else { body }));
    *response.status_mut() =
        StatusCode::from_u16(status.code()).expect("statuses are those of HTTP");
    let headers = response.headers_mut();
    headers.insert(
        header::SERVER,
        HeaderValue::from_static(crate::response::SERVER),
    );
    let content_type = HeaderValue::from_static(status.content_type());
    headers.insert(header::CONTENT_TYPE, content_type);
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    headers.extend(more);
    response
}

fn duplicated(source: io::Error) -> ServeError {
    ServeError::os("fcntl")(source)
}
