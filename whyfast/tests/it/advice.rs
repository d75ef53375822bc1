//! What findings advise, put into configurations that the installed servers have to accept.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};

use reports::findings::advice;

use crate::skip;

/// Words of a configuration in an advice, and a configuration with them. `PORT` and `DIR` are replaced.
struct Snippet {
    server: &'static str,
    words: &'static str,
    config: &'static str,
}

/// Every word of a configuration that a finding advises is one that the server knows.
#[test]
fn servers_accept_what_is_advised() {
    let known: BTreeSet<(&str, &str)> = SNIPPETS.iter().map(|s| (s.server, s.words)).collect();
    for (rule, server, change) in advice() {
        for words in change.split('`').skip(1).step_by(2) {
            assert!(
                known.contains(&(server, words)),
                "{rule}: no configuration of {server} tries `{words}`"
            );
        }
    }
    for Snippet {
        server,
        words,
        config,
    } in SNIPPETS
    {
        match judge(server, config) {
            Verdict::Accepted => {}
            Verdict::Refused(said) => panic!("{server} refuses `{words}`: {said}"),
            Verdict::NotInstalled => {
                skip("servers_accept_what_is_advised", &format!("needs {server}"));
            }
        }
    }
}

/// What nobody knows is refused, so that the check above can fail.
#[test]
fn servers_refuse_what_they_do_not_know() {
    for (server, config) in [
        ("caddy", "example.com {\n  no_such_thing on\n}\n"),
        ("h2o", "no-such-thing: ON\n"),
        ("haproxy", "global\n  no-such-thing on\n"),
        ("nginx", "events {}\nno_such_thing on;\n"),
        ("node", "cluster.noSuchThing();\n"),
    ] {
        match judge(server, config) {
            Verdict::Accepted => panic!("{server} accepts {config:?}"),
            Verdict::Refused(_) => {}
            Verdict::NotInstalled => {
                skip(
                    "servers_refuse_what_they_do_not_know",
                    &format!("needs {server}"),
                );
            }
        }
    }
}

/// What a server thinks of a configuration.
enum Verdict {
    Accepted,
    Refused(String),
    NotInstalled,
}

fn judge(server: &str, config: &str) -> Verdict {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let config = config
        .replace("PORT", &port.to_string())
        .replace("DIR", dir);
    let path = folder.path().join("config");
    fs::write(&path, whole(server, &config, dir)).unwrap();
    let output = command(server, &path, dir)
        .current_dir(dir)
        .env("HOME", dir)
        .env("PATH", SERVER_PATH)
        .stdin(Stdio::null())
        .output();
    match output {
        Err(error) if error.kind() == ErrorKind::NotFound => Verdict::NotInstalled,
        Err(error) => panic!("{server}: {error}"),
        Ok(output) if output.status.success() => Verdict::Accepted,
        Ok(output) => {
            let said = [output.stdout, output.stderr].concat();
            Verdict::Refused(String::from_utf8_lossy(&said).into_owned())
        }
    }
}

/// Where packages put servers.
const SERVER_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The configuration with what each server needs besides.
fn whole(server: &str, config: &str, dir: &str) -> String {
    match server {
        "nginx" => format!("pid {dir}/pid;\n{config}"),
        "haproxy" => format!(
            "{config}\nfrontend whole\n  mode http\n  timeout client 1s\n  bind 127.0.0.1:1\n"
        ),
        "h2o" => format!(
            "{config}\nlisten:\n  host: 127.0.0.1\n  port: 1\nhosts:\n  default:\n    paths:\n      /:\n        \
             file.dir: {dir}\n"
        ),
        "node" => format!(
            "const cluster = require('cluster'), crypto = require('crypto'), http = require('http');\n\
             const server = http.createServer(), res = new http.ServerResponse({{}});\n{config}"
        ),
        _ => config.to_owned(),
    }
}

fn command(server: &str, config: &Path, dir: &str) -> Command {
    let mut command = Command::new(server);
    match server {
        "caddy" => command.args(["adapt", "--adapter", "caddyfile", "--config"]),
        "h2o" => command.args(["-t", "-c"]),
        "haproxy" => command.args(["-c", "-f"]),
        "nginx" => command.args(["-t", "-q", "-p", dir, "-e", "stderr", "-c"]),
        _ => &mut command,
    };
    command.arg(config);
    command
}

const fn nginx(words: &'static str, config: &'static str) -> Snippet {
    Snippet {
        server: "nginx",
        words,
        config,
    }
}

const fn haproxy(words: &'static str, config: &'static str) -> Snippet {
    Snippet {
        server: "haproxy",
        words,
        config,
    }
}

const fn node(words: &'static str, config: &'static str) -> Snippet {
    Snippet {
        server: "node",
        words,
        config,
    }
}

const fn h2o(words: &'static str, config: &'static str) -> Snippet {
    Snippet {
        server: "h2o",
        words,
        config,
    }
}

const SNIPPETS: &[Snippet] = &[
    Snippet {
        server: "caddy",
        words: "log",
        config: "localhost {\n  log\n}\n",
    },
    Snippet {
        server: "caddy",
        words: "log { output discard }",
        config: "localhost {\n  log {\n    output discard\n  }\n}\n",
    },
    h2o("access-log", "access-log: DIR/log"),
    h2o("num-threads", "num-threads: 2"),
    h2o(
        "ssl-session-resumption: {mode: all}",
        "ssl-session-resumption: {mode: all}",
    ),
    haproxy("backlog 4096", "defaults\n  backlog 4096\n"),
    haproxy(
        "bind ... shards by-thread",
        "frontend f\n  mode http\n  timeout client 1s\n  bind 127.0.0.1:PORT shards by-thread\n",
    ),
    haproxy(
        "expose-experimental-directives",
        "global\n  expose-experimental-directives\n",
    ),
    haproxy(
        "http-request return ... file",
        "frontend f\n  mode http\n  timeout client 1s\n  bind 127.0.0.1:PORT\n  http-request return \
         content-type text/plain file /etc/hostname\n",
    ),
    haproxy(
        "http-reuse always",
        "defaults\n  mode http\n  http-reuse always\n",
    ),
    haproxy(
        "log ring@requests local0",
        "global\n  log ring@requests local0\nring requests\n  size 32768\n",
    ),
    haproxy("nbthread", "global\n  nbthread 1\n"),
    haproxy("no-memory-trimming", "global\n  no-memory-trimming\n"),
    haproxy("noepoll", "global\n  noepoll\n"),
    haproxy(
        "option http-no-delay",
        "defaults\n  mode http\n  option http-no-delay\n",
    ),
    haproxy(
        "timeout http-keep-alive",
        "defaults\n  timeout http-keep-alive 60s\n",
    ),
    haproxy(
        "tune.fd.edge-triggered on",
        "global\n  expose-experimental-directives\n  tune.fd.edge-triggered on\n",
    ),
    haproxy(
        "tune.listener.multi-queue on",
        "global\n  tune.listener.multi-queue on\n",
    ),
    haproxy("tune.maxpollevents", "global\n  tune.maxpollevents 200\n"),
    haproxy("tune.recv_enough", "global\n  tune.recv_enough 16\n"),
    haproxy(
        "tune.ssl.cachesize",
        "global\n  tune.ssl.cachesize 100000\n",
    ),
    haproxy("tune.ssl.lifetime", "global\n  tune.ssl.lifetime 3600\n"),
    haproxy(
        "unique-id-format",
        "defaults\n  mode http\n  unique-id-format %[uuid()]\n",
    ),
    haproxy(
        "unique-id-format %{+X}o%ci:%cp_%Ts_%rt",
        "defaults\n  mode http\n  unique-id-format %{+X}o%ci:%cp_%Ts_%rt\n",
    ),
    nginx("accept_mutex on", "events { accept_mutex on; }\n"),
    nginx(
        "access_log ... buffer=64k flush=5s",
        "events {}\nhttp { access_log DIR/log combined buffer=64k flush=5s; }\n",
    ),
    nginx("access_log off", "events {}\nhttp { access_log off; }\n"),
    nginx("aio threads", "events {}\nhttp { aio threads; }\n"),
    nginx("epoll_events", "events { epoll_events 512; }\n"),
    nginx(
        "keepalive",
        "events {}\nhttp { upstream u { server 127.0.0.1:PORT; keepalive 16; } }\n",
    ),
    nginx(
        "keepalive_requests",
        "events {}\nhttp { keepalive_requests 100000; }\n",
    ),
    nginx(
        "listen ... backlog=4096",
        "events {}\nhttp { server { listen 127.0.0.1:PORT backlog=4096; } }\n",
    ),
    nginx(
        "listen ... reuseport",
        "events {}\nhttp { server { listen 127.0.0.1:PORT reuseport; } }\n",
    ),
    nginx(
        "open_file_cache max=1000 inactive=60s; open_file_cache_valid 60s;",
        "events {}\nhttp { open_file_cache max=1000 inactive=60s; open_file_cache_valid 60s; }\n",
    ),
    nginx(
        "output_buffers",
        "events {}\nhttp { output_buffers 2 64k; }\n",
    ),
    nginx(
        "postpone_output",
        "events {}\nhttp { postpone_output 1460; }\n",
    ),
    nginx("sendfile off", "events {}\nhttp { sendfile off; }\n"),
    nginx(
        "ssl_session_cache shared:SSL:10m; ssl_session_tickets on;",
        "events {}\nhttp { ssl_session_cache shared:SSL:10m; ssl_session_tickets on; }\n",
    ),
    nginx("tcp_nopush off", "events {}\nhttp { tcp_nopush off; }\n"),
    nginx("tcp_nopush on", "events {}\nhttp { tcp_nopush on; }\n"),
    nginx("use epoll;", "events { use epoll; }\n"),
    nginx("worker_processes", "worker_processes 2;\nevents {}\n"),
    node(
        "backlog",
        "server.listen({host: '127.0.0.1', port: 0, backlog: 4096}, () => server.close());",
    ),
    node(
        "cluster.schedulingPolicy = cluster.SCHED_RR",
        "cluster.schedulingPolicy = cluster.SCHED_RR;",
    ),
    node("res.cork()", "res.cork();"),
    node("res.end(body)", "res.end('body');"),
    node("res.uncork()", "res.cork(); res.uncork();"),
    node(
        "server.keepAliveTimeout",
        "if (server.keepAliveTimeout === undefined) throw new Error('unknown');",
    ),
    node(
        "ticketKeys",
        "require('tls').createServer({ticketKeys: crypto.randomBytes(48)});",
    ),
];
