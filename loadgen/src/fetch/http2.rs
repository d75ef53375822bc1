//! One request over HTTP/2, with the codec of another project: what a server answers is seen with other
//! eyes than those of the load, which keep only status and lengths.

use std::net::TcpStream;

use h2::client::Builder;
use http::{HeaderMap, Request};
use recording::{HttpVersion, TlsNegotiated};
use rustls::ClientConnection;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;

use super::{BODY_BYTES_MAX, FetchError, Fetched};
use crate::config::Config;
use crate::http1::Framing;
use crate::plan::alpn;
use crate::request::http2_fields;
use crate::target::Target;
use crate::tls::{Settings, negotiated};

/// Asks on a connection that is established, and reads the whole response.
pub(super) fn fetch(
    socket: TcpStream,
    config: &Config,
    target: &Target,
) -> Result<Fetched, FetchError> {
    let run = |reason| FetchError::Io {
        what: "preparing the connection",
        reason,
    };
    socket.set_nonblocking(true).map_err(run)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(run)?;
    let request = request(config, target)?;
    runtime.block_on(async {
        let exchange = async {
            let socket = tokio::net::TcpStream::from_std(socket).map_err(run)?;
            if !target.is_tls {
                return exchange(socket, request).await;
            }
            let settings = Settings::new(&config.tls, &target.host, alpn(HttpVersion::Http2))?;
            let connector = TlsConnector::from(settings.client_config());
            let stream = connector
                .connect(settings.server_name(), socket)
                .await
                .map_err(|reason| FetchError::Io {
                    what: "the TLS handshake",
                    reason,
                })?;
            let facts: &ClientConnection = stream.get_ref().1;
            let tls = negotiated(facts);
            check_alpn(&tls)?;
            let fetched = exchange(stream, request).await?;
            Ok(Fetched {
                tls: Some(tls),
                ..fetched
            })
        };
        let late = |_elapsed| FetchError::Timeout;
        tokio::time::timeout(super::TIMEOUT, exchange)
            .await
            .map_err(late)?
    })
}

fn check_alpn(tls: &TlsNegotiated) -> Result<(), FetchError> {
    match tls.alpn.as_deref() {
        Some("h2") => Ok(()),
        other => Err(FetchError::NotHttp2 {
            chosen: other.unwrap_or("none").to_owned(),
        }),
    }
}

/// The request of the load, without a body.
fn request(config: &Config, target: &Target) -> Result<Request<()>, FetchError> {
    let fields = http2_fields(config, target)?;
    let pseudo = |wanted: &str| {
        let mut fields = fields.iter();
        let found = fields.find(|(name, _)| name == wanted);
        found.map_or("", |(_, value)| value)
    };
    let uri = format!(
        "{}://{}{}",
        pseudo(":scheme"),
        pseudo(":authority"),
        pseudo(":path")
    );
    let mut request = Request::builder().method(pseudo(":method")).uri(uri);
    for (name, value) in fields.iter().filter(|(name, _)| !name.starts_with(':')) {
        request = request.header(name, value);
    }
    request.body(()).map_err(FetchError::Request)
}

async fn exchange<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    request: Request<()>,
) -> Result<Fetched, FetchError> {
    let (client, connection) = Builder::new()
        .handshake::<_, &[u8]>(stream)
        .await
        .map_err(FetchError::Http2)?;
    let response = async {
        let mut client = client.ready().await?;
        let (response, _no_body) = client.send_request(request, true)?;
        let (head, mut body) = response.await?.into_parts();
        let mut bytes = Vec::new();
        while let Some(chunk) = body.data().await {
            let chunk = chunk?;
            body.flow_control().release_capacity(chunk.len())?;
            bytes.extend_from_slice(&chunk);
            if bytes.len() > BODY_BYTES_MAX {
                break;
            }
        }
        Ok((head, bytes))
    };
    let (head, body) = tokio::select! {
        biased;
        response = response => response.map_err(FetchError::Http2)?,
        ended = connection => return Err(match ended {
            Ok(()) => FetchError::Closed("before it answered"),
            Err(error) => FetchError::Http2(error),
        }),
    };
    if body.len() > BODY_BYTES_MAX {
        return Err(FetchError::BodyTooLarge);
    }
    let status = head.status.as_u16();
    let headers = lines(&head.headers);
    let length = head.headers.get("content-length");
    let length = length.and_then(|length| length.to_str().ok()?.parse().ok());
    Ok(Fetched {
        status,
        raw_head: as_http1(status, &headers),
        headers,
        wire_body: body.clone(),
        framing: match length {
            Some(length) => Framing::ContentLength(length),
            None if body.is_empty() => Framing::None,
            None => Framing::EndStream,
        },
        body,
        interim_responses: 0,
        reusable: true,
        tls: None,
    })
}

fn lines(headers: &HeaderMap) -> Vec<(String, String)> {
    let line = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        (name.as_str().to_owned(), value)
    };
    headers.iter().map(line).collect()
}

/// The head in the form that HTTP/1.1 would give it.
fn as_http1(status: u16, headers: &[(String, String)]) -> Vec<u8> {
    let mut head = format!("HTTP/2 {status}\r\n");
    for (name, value) in headers {
        for part in [name, ": ", value, "\r\n"] {
            head.push_str(part);
        }
    }
    head.push_str("\r\n");
    head.into_bytes()
}
