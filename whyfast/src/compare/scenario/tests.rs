//! Scenarios from their files and the command line to what is run.

use clap::Parser as _;
use recording::Scenario;

use super::*;
use crate::args::{Cli, CompareArgs, Verb};
use crate::compare::arms;
use crate::compare::plan::{Plan, plan};
use crate::machine::split_cpus;

/// The arguments of `whyfast compare`.
fn arguments(words: &[&str]) -> Box<CompareArgs> {
    let cli = Cli::try_parse_from([&["whyfast", "compare"], words].concat()).unwrap();
    match cli.verb {
        Verb::Compare(args) => args,
        _ => panic!("not compare"),
    }
}

/// The plan for two arms on two CPUs.
fn planned(words: &[&str]) -> anyhow::Result<Plan> {
    let args = arguments(words);
    let chosen = choose(&args.scenario)?;
    plan(&args, &chosen, 2, &split_cpus(&[vec![0], vec![1]]))
}

/// The scenario of the recording.
pub(crate) fn stored(words: &[&str]) -> Scenario {
    planned(words).unwrap().scenario
}

/// A scenario of a file of the user's own.
fn of_file(text: &str) -> anyhow::Result<Plan> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    fs::write(&path, text).unwrap();
    planned(&["--scenario", path.to_str().unwrap()])
}

fn refusal(result: anyhow::Result<Plan>) -> String {
    let error = result.unwrap_err();
    assert_eq!(
        crate::failure::exit_code_of(&error),
        recording::exit_code::USAGE,
        "{error}"
    );
    format!("{error:#}")
}

/// Every built-in scenario can be run in each of its sizes, as it is and as it was published, and its
/// arms are arms; an unknown name names them.
#[test]
fn built_in_scenarios_are_complete() {
    for name in names() {
        for flags in [
            &[][..],
            &["--full"],
            &["--as-published"],
            &["--full", "--as-published"],
            &["--publish"],
            &["--lock-step", "100"],
        ] {
            let words = [&["--scenario", name], flags].concat();
            let plan = planned(&words).unwrap_or_else(|error| panic!("{words:?}: {error:#}"));
            assert_eq!(plan.scenario.name, name);
            let chosen = choose(&arguments(&words).scenario).unwrap();
            assert!(chosen.arms.len() >= 2, "{name}");
            let all = [chosen.arms, chosen.optional_arms].concat();
            assert!(arms::parse_all(&all, 2).is_ok(), "{name}");
        }
    }
    assert!(refusal(planned(&["--scenario", "x"])).contains("cache-hello, h2-tls13-page"));
}

/// The sizes that were published: 200 clients and 25,000 requests of caddy against nginx, 10,000
/// connections of wrk, 10,000 requests of httperf, 10 seconds with 50 connections of sslbench.
#[test]
fn full_sizes_are_those_of_the_publications() {
    let full = |name| stored(&["--scenario", name, "--full"]);
    let page = full("h2-tls13-page");
    assert_eq!((page.connections, page.requests), (200, Some(25_000)));
    assert_eq!(
        (page.protocol, page.body_bytes),
        (Protocol::Http2, Some(6552))
    );
    assert_eq!((page.duration_ns, page.warmup_requests), (None, Some(1000)));
    let accepts = ("Accept-Encoding".to_owned(), "gzip".to_owned());
    assert_eq!(page.request_headers, [accepts]);
    let tls = page.tls.unwrap();
    assert_eq!(
        (&*tls.key, tls.version.as_deref()),
        ("rsa-2048", Some("1.3"))
    );
    let file = full("static-1b");
    assert_eq!((file.connections, file.body_bytes), (10_000, Some(1)));
    assert_eq!((file.duration_ns, &file.tls), (Some(10_000_000_000), &None));
    let new = full("tls-new-connections");
    assert_eq!((new.connections, new.requests), (1, Some(10_000)));
    assert_eq!(
        (new.requests_per_connection, new.body_bytes),
        (Some(1), Some(18_605))
    );
    let few = full("tls-terminator-keepalive");
    assert_eq!(
        (few.connections, few.duration_ns),
        (50, Some(10_000_000_000))
    );
    let cache = full("cache-hello");
    assert_eq!((cache.connections, cache.body_bytes), (1000, Some(12)));
}

/// What a publication did unfairly is in the recording where the load is as published, and nowhere else.
#[test]
fn as_published_says_what_was_unfair() {
    for name in names() {
        let fair = stored(&["--scenario", name]);
        assert!(!fair.as_published && fair.unfair.is_empty(), "{name}");
        let published = stored(&["--scenario", name, "--as-published"]);
        assert!(
            published.as_published && !published.unfair.is_empty(),
            "{name}"
        );
        let ciphers = |scenario: &Scenario| scenario.tls.as_ref().map(|tls| tls.ciphers.len());
        let pinned = ciphers(&fair);
        assert_eq!(ciphers(&published), pinned.map(|_| 0), "{name}");
        assert_ne!(pinned, Some(0), "{name}");
    }
}

/// The command line changes a scenario in the words of `load`; an end by time replaces one by count and
/// the other way round.
#[test]
fn the_command_line_comes_last() {
    let page = stored(&[
        "--scenario",
        "h2-tls13-page",
        "--full",
        "-c",
        "7",
        "-m",
        "3",
        "-d",
        "2s",
        "-H",
        "A: b",
        "--tls-key",
        "p-256",
        "--ciphers",
        "X,Y",
        "--groups",
        "Z",
        "--resumption",
        "resume",
    ]);
    assert_eq!((page.connections, page.streams), (7, Some(3)));
    assert_eq!(
        (page.requests, page.duration_ns),
        (None, Some(2_000_000_000))
    );
    assert_eq!(page.request_headers, [("A".to_owned(), "b".to_owned())]);
    let tls = page.tls.unwrap();
    assert_eq!((&*tls.key, tls.version.as_deref()), ("p-256", Some("1.3")));
    assert_eq!(
        (&*tls.ciphers.join(" "), &*tls.groups.join(" ")),
        ("X Y", "Z")
    );
    assert!(tls.resumption);
    let file = stored(&["-n", "500", "--requests-per-connection", "2"]);
    assert_eq!((file.requests, file.duration_ns), (Some(500), None));
    assert_eq!(
        (file.requests_per_connection, file.warmup_requests),
        (Some(2), Some(50))
    );
    let secured = stored(&["--tls-key", "rsa-2048"]);
    assert_eq!(secured.tls.unwrap().key, "rsa-2048");
}

/// Requests one at a time have one stream on one connection, whatever the scenario says.
#[test]
fn lock_step_is_one_at_a_time() {
    let scenario = stored(&["--scenario", "cache-hello", "--lock-step", "50"]);
    assert_eq!((scenario.connections, scenario.streams), (1, None));
    assert_eq!(
        (scenario.lock_step_requests, scenario.requests),
        (Some(50), None)
    );
    assert_eq!(scenario.duration_ns, None);
}

/// Values of headers that authenticate are sent as they are, and stored as hashes.
#[test]
fn secrets_are_not_stored() {
    let plan = planned(&["-H", "Authorization: Bearer x"]).unwrap();
    assert_eq!(plan.request_headers[0].1, "Bearer x");
    assert!(plan.scenario.request_headers[0].1.starts_with("sha256:"));
}

/// An indication takes at most 72 seconds in its rounds, with however many arms up to six.
#[test]
fn indications_are_short() {
    let args = arguments(&["--scenario", "static-1b"]);
    let chosen = choose(&args.scenario).unwrap();
    let cpus = split_cpus(&[vec![0], vec![1]]);
    for arms in 1..=4 {
        let scenario = plan(&args, &chosen, arms, &cpus).unwrap().scenario;
        let round_ns = scenario.duration_ns.unwrap() + scenario.warmup_ns + 700_000_000;
        let rounds = 2 * arms as u64 * u64::from(scenario.pairs);
        assert!(rounds * round_ns <= 72_000_000_000, "{arms} arms");
    }
}

/// A file of one's own may say everything that built-in ones say, and needs to say little.
#[test]
fn files_are_read() {
    let plan = of_file("summary = \"s\"\nbody_bytes = 3\nconnections = 2").unwrap();
    assert_eq!(
        (&*plan.scenario.name, &*plan.scenario.path),
        ("mine", "/3b")
    );
    assert_eq!(plan.scenario.client_threads, 1);
    assert!(plan.null_server && plan.key.is_none());
    let text = "summary = \"s\"\nprotocol = \"http2\"\npath = \"/a/b.html\"\nbody = \"page\"\n\
                body_bytes = 300\nconnections = 2\nduration = \"1s\"\ntimeout = \"3s\"\n\
                [tls]\nkey = \"p-256\"";
    let plan = of_file(text).unwrap();
    assert_eq!((plan.body, plan.key), (BodyKind::Page, Some(KeyKind::P256)));
    assert_eq!(plan.timeout, Some(Duration::from_secs(3)));
    assert!(!plan.null_server);
}

/// With few connections it is asked whether more of them would bring more, since they may be the limit.
#[test]
fn few_connections_are_tried_with_more() {
    for (connections, more) in [(1, Some(2)), (7, Some(11)), (8, None), (64, None)] {
        let text = format!("summary = \"s\"\nbody_bytes = 3\nconnections = {connections}");
        let plan = of_file(&text).unwrap();
        assert_eq!(plan.schedule.more_connections, more, "{connections}");
    }
    let counted =
        of_file("summary = \"s\"\nbody_bytes = 3\nconnections = 1\nrequests = 400").unwrap();
    assert_eq!(counted.schedule.more_connections, None);
}

/// What makes no sense is named.
#[test]
fn nonsense_is_named() {
    let least = "summary = \"s\"\nbody_bytes = 3\nconnections = 2\n";
    for (line, wanted) in [
        ("bodybytes = 1", "bodybytes"),
        ("requests = 5\nduration = \"1s\"", "two ends"),
        ("duration = \"x\"", "\"x\""),
        ("path = \"/../x\"", "names no file"),
        ("path = \"x\"", "names no file"),
        ("path = \"/\"", "names no file"),
        ("path = \"/a?b\"", "names no file"),
        ("pairs = 0", "pairs must be"),
        ("client_threads = 3", "3 threads for 2"),
        ("request_headers = [\"x\"]", "Name: value"),
        ("[tls]\nkey = \"rsa-1024\"", "rsa-1024"),
        ("[tls]\nversion = \"1.1\"", "1.1"),
        ("[full]\nbody_bytes = 1", "body_bytes"),
        ("[[full.unfair]]\nwhat = \"x\"", "as_published"),
    ] {
        let said = refusal(of_file(&format!("{least}{line}")));
        assert!(said.contains(wanted), "{line}: {said}");
    }
    let too_much = refusal(of_file(
        "summary = \"s\"\nbody_bytes = 2000000000\nconnections = 2",
    ));
    assert!(too_much.contains("at most 1073741824"), "{too_much}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    fs::write(&path, least).unwrap();
    let mine = path.to_str().unwrap();
    let said = refusal(planned(&["--scenario", mine, "--as-published"]));
    assert!(said.contains("[as_published]"), "{said}");
    for (flags, wanted) in [
        (&["--ciphers", "x"][..], "in clear"),
        (&["-n", "5", "-d", "1s"], "two ends"),
        (&["-n", "5", "--warmup", "1s"], "a tenth"),
    ] {
        let said = refusal(planned(flags));
        assert!(said.contains(wanted), "{flags:?}: {said}");
    }
}

/// Figures of a publication stand in a file beside that of the scenario.
#[test]
fn figures_of_a_publication_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    let text = "summary = \"s\"\nbody_bytes = 3\nconnections = 2\npublished = \"figures.toml\"";
    fs::write(&path, text).unwrap();
    let words = ["--scenario", path.to_str().unwrap()];
    assert!(format!("{:#}", planned(&words).unwrap_err()).contains("figures.toml"));
    let figures = "title = \"t\"\nsource = \"s\"\ndate = \"d\"\nmachine = \"m\"\nchanges = []\n\
                   [[figures]]\nserver = \"nginx 1.15.9\"\nmetric = \"throughput_rps\"\n\
                   values = [5299.41]\nprinted = \"5299.41 req/s\"";
    fs::write(folder.path().join("figures.toml"), figures).unwrap();
    let published = planned(&words).unwrap().scenario.published.unwrap();
    assert_eq!(published.figures[0].values, [5299.41]);
}
