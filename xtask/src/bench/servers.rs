//! The server under load: nginx with one worker and one byte, or the built-in server.

use std::ffi::OsStr;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Stdio;
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
    child: Guarded,
    /// The file to serve, and the configuration of nginx; removed after it has ended.
    _folder: TempDir,
}

impl Server {
    /// nginx where it is installed, else the built-in server.
    pub(crate) fn start(setting: &Setting) -> Result<Self> {
        let folder = tempfile::tempdir().context("failed to make a temporary folder")?;
        fs::write(folder.path().join("body"), "0").context("failed to write the file to serve")?;
        match command::find("nginx", &["/usr/sbin".into()]) {
            Some(nginx) => Self::start_nginx(setting, &nginx, folder),
            None => Self::start_built_in(setting, folder),
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.pid()
    }

    fn start_nginx(setting: &Setting, nginx: &Path, folder: TempDir) -> Result<Self> {
        // The port is free when it is asked for, and may be taken before nginx has it.
        for _attempt in 0..5 {
            let port = free_port()?;
            let config = folder.path().join("nginx.conf");
            fs::write(&config, nginx_config(folder.path(), port))
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
                return Ok(Self {
                    name: "nginx",
                    url: format!("http://127.0.0.1:{port}/body"),
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

/// One process without a log, as bare as the file deserves.
fn nginx_config(folder: &Path, port: u16) -> String {
    let folder = folder.display();
    format!(
        "daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log stderr crit;
events {{ worker_connections 1024; }}
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
        listen 127.0.0.1:{port};
        root {folder};
    }}
}}
"
    )
}
