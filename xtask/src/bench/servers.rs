//! The server under load: nginx with one worker and one byte, or the built-in server.

use std::ffi::OsStr;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use tempfile::TempDir;

use super::Setting;
use crate::built_in::BuiltIn;
use crate::command::{self, Guarded};
use crate::cpus;

/// A server that runs until this goes away.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) name: &'static str,
    pub(crate) url: String,
    /// The same at several addresses; empty for the built-in server.
    pub(crate) addresses: Vec<String>,
    /// The same over TLS, where that was asked for and could be had.
    pub(crate) secure: Option<Secure>,
    child: Guarded,
    /// The file to serve, and the configuration of nginx; removed after it has ended.
    _folder: TempDir,
}

/// A server over TLS: HTTP/1.1 and HTTP/2, one suite and one group, and no session is resumed.
#[derive(Debug)]
pub(crate) struct Secure {
    pub(crate) url: String,
    /// The certificate, its own authority.
    pub(crate) certificate: PathBuf,
}

impl Server {
    /// nginx where it is installed, else the built-in server.
    pub(crate) fn start(setting: &Setting) -> Result<Self> {
        Self::start_with(setting, |_| Ok(false))
    }

    /// The same, with TLS where openssl can make a certificate.
    pub(crate) fn start_for_load(setting: &Setting) -> Result<Self> {
        Self::start_with(setting, |folder| match command::find("openssl", &[]) {
            None => Ok(false),
            Some(openssl) => make_certificate(&openssl, folder).map(|()| true),
        })
    }

    fn start_with(setting: &Setting, certify: impl FnOnce(&Path) -> Result<bool>) -> Result<Self> {
        let folder = tempfile::tempdir().context("failed to make a temporary folder")?;
        fs::write(folder.path().join("body"), "0").context("failed to write the file to serve")?;
        match command::find("nginx", &["/usr/sbin".into()]) {
            Some(nginx) => {
                let is_certified = certify(folder.path())?;
                Self::start_nginx(setting, &nginx, folder, is_certified)
            }
            None => Self::start_built_in(setting, folder),
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.pid()
    }

    fn start_nginx(
        setting: &Setting,
        nginx: &Path,
        folder: TempDir,
        is_certified: bool,
    ) -> Result<Self> {
        // A port is free when it is asked for, and may be taken before nginx has it.
        for _attempt in 0..5 {
            let port = free_port()?;
            let secure_port = is_certified.then(free_port).transpose()?;
            let config = folder.path().join("nginx.conf");
            fs::write(&config, nginx_config(folder.path(), port, secure_port))
                .context("failed to write the configuration of nginx")?;
            let mut command = cpus::pinned(setting.server_cpu, nginx);
            command
                .arg("-c")
                .arg(&config)
                .arg("-p")
                .arg(folder.path())
                .args(["-e", "stderr"])
                .stdin(Stdio::null());
            let mut child = Guarded::spawn(&mut command)?;
            if answers(&mut child, port)? {
                let url = |address| format!("http://{address}:{port}/body");
                return Ok(Self {
                    name: "nginx",
                    url: url(ADDRESSES[0]),
                    addresses: ADDRESSES.map(url).into(),
                    secure: secure_port.map(|port| Secure {
                        url: format!("https://{}:{port}/body", ADDRESSES[0]),
                        certificate: folder.path().join(CERTIFICATE),
                    }),
                    child,
                    _folder: folder,
                });
            }
        }
        bail!("nginx does not start; what it said stands above");
    }

    fn start_built_in(setting: &Setting, folder: TempDir) -> Result<Self> {
        let file = folder.path().join("body");
        let more = [OsStr::new("--file"), file.as_os_str()];
        let server = BuiltIn::start(&setting.whyfast, setting.server_cpu, "sendfile", &more)?;
        Ok(Self {
            name: "testserver",
            url: server.url,
            addresses: Vec::new(),
            secure: None,
            child: server.child,
            _folder: folder,
        })
    }
}

fn free_port() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context("no free port")?;
    Ok(listener.local_addr()?.port())
}

/// Whether the child answers before it ends; waits for at most some seconds.
fn answers(child: &mut Guarded, port: u16) -> Result<bool> {
    let start = Instant::now();
    while child.child.try_wait()?.is_none() {
        if TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return Ok(true);
        }
        ensure!(
            start.elapsed() < Duration::from_secs(10),
            "nginx does not answer on port {port}"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(false)
}

/// A certificate for the addresses of the server, and its key.
fn make_certificate(openssl: &Path, folder: &Path) -> Result<()> {
    let names = ADDRESSES.map(|address| format!("IP:{address}")).join(",");
    let mut command = Command::new(openssl);
    command
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt"])
        .args(["ec_paramgen_curve:P-256", "-nodes", "-days", "2"])
        .args(["-subj", "/CN=localhost", "-addext"])
        .arg(format!("subjectAltName={names}"))
        .arg("-keyout")
        .arg(folder.join(KEY))
        .arg("-out")
        .arg(folder.join(CERTIFICATE));
    command::output(&mut command).map(drop)
}

/// One process without a log, as bare as the file deserves.
fn nginx_config(folder: &Path, port: u16, secure_port: Option<u16>) -> String {
    let folder = folder.display();
    let listen = ADDRESSES.map(|address| format!("listen {address}:{port} backlog=4096; "));
    let listen = listen.concat();
    let secure = secure_port.map_or_else(String::new, |port| {
        format!(
            "server {{
        listen {}:{port} ssl http2 backlog=4096;
        ssl_certificate {folder}/{CERTIFICATE};
        ssl_certificate_key {folder}/{KEY};
        ssl_protocols TLSv1.3;
        ssl_ecdh_curve X25519;
        ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256;
        ssl_session_cache off;
        ssl_session_tickets off;
        root {folder};
    }}",
            ADDRESSES[0]
        )
    });
    format!(
        "daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log stderr crit;
events {{ worker_connections 11000; }}
http {{
    access_log off;
    default_type application/octet-stream;
    sendfile on;
    keepalive_requests 1000000000;
    client_body_temp_path {folder}/client;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    open_file_cache max=16 inactive=1h;
    open_file_cache_valid 1h;
    server {{
        {listen}
        root {folder};
    }}
    {secure}
}}
"
    )
}

/// Addresses of the loopback device. Connections to each have ports of their own.
const ADDRESSES: [&str; 4] = ["127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4"];
const CERTIFICATE: &str = "certificate.pem";
const KEY: &str = "key.pem";
