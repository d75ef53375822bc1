//! HTTP/2 in clear and over TLS, with the client of the h2 crate.

use bytes::Bytes;
use h2::client::SendRequest;
use http::{HeaderMap, Method, Request, header};
use rustls::pki_types::ServerName;
use testserver::{Body, Config};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::client::Running;
use crate::secure::Trust;

/// Specs of all styles; half of them are encrypted.
const SPECS: [&str; 6] = [
    "memory,h2=1",
    "open-read,h2=1",
    "pread,h2=1,workers=2",
    "memory,tls=1,h2=1",
    "open-read,tls=1,h2=1,max-events=1",
    "pread,tls=1,h2=1,accept=shared,workers=2",
];

/// A response, as it came.
struct Response {
    status: u16,
    headers: HeaderMap,
    body: Vec<u8>,
}

/// Checks a connection to a server of each spec, with a body of so many bytes.
fn of_each(body_bytes: u64, more: &str, check: impl AsyncFn(SendRequest<Bytes>)) {
    let trust = Trust::new();
    for spec in SPECS {
        let config = Config::parse(&format!("{spec}{more}")).expect("a valid spec");
        let tls = config.tls;
        let running = Running::start(Config {
            body: Body::Generated(body_bytes),
            certificate: Some(trust.files.clone()),
            ..config
        });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let socket = TcpStream::connect(running.address)
                .await
                .expect("the server listens");
            if tls {
                let connector = TlsConnector::from(trust.client(&[b"h2", b"http/1.1"]));
                let name = ServerName::try_from("localhost").expect("a valid name");
                let stream = connector.connect(name, socket).await.expect("a handshake");
                assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
                check(hands_shaken(stream).await).await;
            } else {
                check(hands_shaken(socket).await).await;
            }
        });
        drop(runtime);
        running.stop().expect("a clean end");
    }
}

async fn hands_shaken<S>(stream: S) -> SendRequest<Bytes>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (client, connection) = h2::client::handshake(stream).await.expect("a preface");
    tokio::spawn(connection);
    client
}

/// One exchange, with a body of the request where there is one.
async fn exchange(
    client: &SendRequest<Bytes>,
    (method, path): (Method, &str),
    body: &'static [u8],
) -> Response {
    let request = Request::builder()
        .method(method)
        .uri(format!("https://localhost{path}"))
        .body(())
        .expect("a valid request");
    let mut client = client.clone().ready().await.expect("an open connection");
    let (response, mut stream) = client
        .send_request(request, body.is_empty())
        .expect("a stream");
    if !body.is_empty() {
        stream
            .send_data(Bytes::from_static(body), true)
            .expect("an open stream");
    }
    let (head, mut incoming) = response.await.expect("a response").into_parts();
    let mut body = Vec::new();
    while let Some(chunk) = incoming.data().await {
        let chunk = chunk.expect("a whole body");
        body.extend_from_slice(&chunk);
        incoming
            .flow_control()
            .release_capacity(chunk.len())
            .expect("as much as was received");
    }
    Response {
        status: head.status.as_u16(),
        headers: head.headers,
        body,
    }
}

/// Paths, methods and bodies are answered as over HTTP/1.1, with the same headers.
#[test]
fn answers_as_http1_does() {
    of_each(20, "", async |client| {
        for (method, path, sent, status, body) in [
            (Method::GET, "/", "", 200, "000000000000000\n0000"),
            (Method::GET, "/body?n=1", "", 200, "000000000000000\n0000"),
            (Method::HEAD, "/", "", 200, ""),
            (Method::GET, "/missing", "", 404, "404 Not Found\n"),
            (Method::DELETE, "/", "", 405, "405 Method Not Allowed\n"),
            (Method::POST, "/", "x=1", 413, "413 Content Too Large\n"),
        ] {
            let response = exchange(&client, (method, path), sent.as_bytes()).await;
            assert_eq!(response.status, status, "{path}");
            assert_eq!(response.body, body.as_bytes(), "{path}");
            let text = |name| {
                response
                    .headers
                    .get(name)
                    .and_then(|value| value.to_str().ok())
            };
            assert_eq!(text(header::SERVER), Some("whyfast-testserver"));
            assert_eq!(text(header::DATE), None);
            assert_eq!(text(header::CONTENT_ENCODING), None);
            let allow = (status == 405).then_some("GET, HEAD");
            assert_eq!(text(header::ALLOW), allow);
            let expected = if status == 200 { 20 } else { body.len() };
            assert_eq!(
                text(header::CONTENT_LENGTH),
                Some(expected.to_string().as_str())
            );
        }
    });
}

/// Streams of one connection are answered side by side, each whole, though the windows of the client
/// take far less than all of them.
#[test]
fn answers_many_streams_at_once() {
    const BODY_BYTES: usize = 200_000;
    of_each(BODY_BYTES as u64, "", async |client| {
        let mut tasks = tokio::task::JoinSet::new();
        for _stream in 0..20 {
            let client = client.clone();
            tasks.spawn(async move { exchange(&client, (Method::GET, "/"), b"").await });
        }
        let responses = tasks.join_all().await;
        assert!(
            responses
                .iter()
                .all(|response| response.body.len() == BODY_BYTES)
        );
    });
}

/// One of three requests fails, and the bodies of the others are compressed and say so.
#[test]
fn knobs_hold_over_http2() {
    of_each(
        5_000,
        ",error-every=3,gzip=1,getppid=1,open=1",
        async |client| {
            let mut failed = 0;
            for _request in 0..6 {
                let response = exchange(&client, (Method::GET, "/"), b"").await;
                if response.status == 500 {
                    failed += 1;
                    continue;
                }
                assert_eq!(response.headers[header::CONTENT_ENCODING], "gzip");
                // RFC 1952, section 2.3.1.
                assert!(response.body.starts_with(&[0x1f, 0x8b]));
            }
            assert_eq!(failed, 2);
        },
    );
}
