//! The limit on open files, in a process of its own because the limit holds for all of it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use loadgen::{Config, LoadError, Stop, run};
use recording::exit_code;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

fn limit(soft: u64, hard: u64) {
    let limit = Rlimit {
        current: Some(soft),
        maximum: Some(hard),
    };
    setrlimit(Resource::Nofile, limit).unwrap();
}

/// The soft limit is raised as needed; a hard limit that is too low is named before anything is
/// opened.
#[test]
fn limit_is_raised_or_named() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut config = Config::new(format!("http://127.0.0.1:{port}/"));
    config.connections = 100;
    config.stop = Stop::Duration(std::time::Duration::from_millis(20));

    limit(64, 400);
    // Nobody accepts, but the kernel completes the connections that fit into the backlog.
    let load = run(&config, &mut ()).unwrap();
    assert_eq!(load.connections.open_at_start, 100);
    assert!(getrlimit(Resource::Nofile).current.unwrap() > 100);
    let said = &load.warnings[0];
    assert_eq!(said.code, "file_limit_raised");
    assert!(said.text.contains("from 64 to"), "{}", said.text);

    limit(64, 64);
    let error = run(&config, &mut ()).unwrap_err();
    assert!(
        matches!(
            error,
            LoadError::FileLimit {
                connections: 100,
                hard: 64,
                ..
            }
        ),
        "{error}"
    );
    assert!(error.to_string().contains("RLIMIT_NOFILE"), "{error}");
    assert_eq!(error.exit_code(), exit_code::CANNOT_MEASURE);
}
