//! Markdown reports, as snapshots, and their limits.

use recording::{CallRow, Warning};
use reports::{Footer, analyse, markdown};

use crate::fixture::{comparison, h2o, load_recording, nginx, profile, profile_recording};

/// The comparison for a pull request.
#[test]
#[expect(clippy::too_many_lines, reason = "the report as a whole")]
fn compare_layout() {
    let mut recording = comparison(&[nginx(), h2o()], 8);
    analyse(&mut recording);
    let end = Footer {
        saved: vec!["run/recording.json".to_owned()],
        reproduce: Some("whyfast compare nginx h2o".to_owned()),
    };
    insta::assert_snapshot!(markdown::compare(&recording, &end), @r"
    ### nginx vs h2o

    - **VERDICT**: nginx 1.332 times as fast as h2o  \[1.326, 1.338\] 99% CI, 8 pairs  margin 2%  indicative\: no A/A control
    - **busy**: nginx\: server 98% of 1 CPU, client 58%, limited by the server's CPU; h2o\: server 97% of 1 CPU, client 58%, limiter not known

    static-1b  HTTP/1.1  keep-alive  64 connections  CPUs server 0 client 1  kernel 6.18.0 x86\_64  2 CPUs, Example CPU  kvm

    8 pairs, 2.00 s windows, 0.50 s warm-up, whyfast 0.1.0, 2023-11-14  nginx 1.0 (sha256 abababababab), h2o 1.0 (sha256 abababababab)

    |  | nginx | h2o | nginx/h2o | 99% CI |
    | --- | ---: | ---: | ---: | ---: |
    | req/s | 68,938 | 51,753 | 1.332 | \[1.326, 1.338\] |
    | server CPU us/req | 14.1 | 18.7 | 0.758 | \[0.756, 0.760\] |
    | p50 latency | 906us | 1.22ms | 0.744 | \[0.740, 0.747\] |
    | p99 latency | 2.45ms | 3.29ms | 0.744 | \[0.741, 0.747\] |
    | syscalls/req | 6.250 | 7.520 | 0.831 | counted |

    - **gates**: ok 10/14  not measured\: G8 server and client count, G10 A/A control, G13 other tracers
    - WARN G14 tuning parity\: file cache on&#124;off; make them equal, or read the result with that in mind

    WHY  +4.82 us per request from nginx (14.5) to h2o (19.3)

    | cause |  | us/req | 95% CI | share | figures |
    | --- | --- | ---: | ---: | ---: | --- |
    | outside of calls | +============== | +4.29 | \[+4.18, +4.41\] | 89.1% | 9.21 -&gt; 13.4 us of CPU |
    | send\: calls | -========= | -2.91 | \[-2.93, -2.89\] | -60.4% | 2.000 -&gt; 1.000 per request, writev, sendfile |
    | open\: calls | +====== | +1.96 | \[+1.95, +1.97\] | 40.7% | 0.000 -&gt; 1.000 per request, openat |
    | send\: cost per call | +===== | +1.47 | \[+1.46, +1.48\] | 30.5% | 2.35 -&gt; 3.30 us each, writev, sendfile |
    | effect of probes beyond their cost | -==== | -1.17 | \[-1.24, -1.11\] | -24.2% | -1.46 -&gt; -2.59 us of CPU |
    | stat\: calls | +== | +0.639 | \[+0.635, +0.643\] | 13.3% | 0.000 -&gt; 1.000 per request, newfstatat |
    | receive\: calls | +== | +0.603 | \[+0.599, +0.607\] | 12.5% | 2.000 -&gt; 3.000 per request, read, recvfrom |
    | socket options\: calls | -== | -0.495 | \[-0.498, -0.492\] | -10.3% | 2.000 -&gt; 0.000 per request, setsockopt |
    | close\: calls | += | +0.392 | \[+0.389, +0.394\] | 8.1% | 0.000 -&gt; 1.000 per request, close |
    | CPUs not used, reason unknown | += | +0.165 | \[+0.139, +0.190\] | 3.4% | 2.5% -&gt; 3.4% of the CPUs |
    | others (1) |  | -0.129 | - | -2.7% | receive\: cost per call |

    - **receipt**: 8 pairs, bars add up within 2e-16; lost 0
    - not measured\: CPU time of user code, faults and interrupts, of calls that sleep, and why CPUs were idle; entry and exit of the kernel, and the cost of the probes (--detail sched)

    | arm | finding | cost | how sure | likely cause | what to change | but |
    | --- | --- | --- | --- | --- | --- | --- |
    | h2o | 1.000 opens of a file per request, 2.000 calls with stat and close (file-opened-per-request) | 2.52 us/req | likely | no cache of open files | no setting is known that keeps files open between requests; serve small files from memory (a mruby handler), or from a cache in front | the cost is wall time inside the calls |
    | nginx | 1.000 of 2.000 reads per request end in EAGAIN (reads-ending-in-eagain) | 0.305 us/req | likely | with edge-triggered events a socket is read until EAGAIN; a read that returns less than it had room for says the same | no setting is known; the server would have to stop at a short read | the cost takes each failed read for as cheap as the shortest read, since it finds nothing; the cost is wall time inside the calls |
    | h2o | 1.000 of 3.000 reads per request end in EAGAIN (reads-ending-in-eagain) | 0.280 us/req | likely | with edge-triggered events a socket is read until EAGAIN; a read that returns less than it had room for says the same | no setting is known; the server would have to stop at a short read | the cost takes each failed read for as cheap as the shortest read, since it finds nothing; the cost is wall time inside the calls |
    | nginx | 2.000 setsockopt per request around a sendfile of 1 B (cork-around-tiny-sendfile) | 0.240 us/req | likely | the socket is corked before and uncorked after each response, so that head and body leave in one packet; a small body fits into one writev with the head | set \`tcp\_nopush off\`, or \`sendfile off\` where files are small | which option is set was not seen; the cost is that of calls that only set one, since the one that uncorks also sends, and sending stays; the cost is wall time inside the calls |

    SYSCALLS PER REQUEST  n and us per request, ours included, by difference in time; 16 probed rounds

    | call | nginx n | us | err | B/call | h2o n | us | err | B/call | diff us |
    | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
    | `openat` | - | - |  |  | 1.000 | 1.90 |  |  | -1.90 |
    | `sendfile` | 1.000 | 1.80 |  | 1 B | - | - |  |  | +1.80 |
    | `read` | - | - |  |  | 3.000 | 1.68 | 1.000 | 48 B | -1.68 |
    | `recvfrom` | 2.000 | 1.22 | 1.000 | 94 B | - | - |  |  | +1.22 |
    | `newfstatat` | - | - |  |  | 1.000 | 0.620 |  |  | -0.620 |
    | `setsockopt` | 2.000 | 0.480 |  |  | - | - |  |  | +0.480 |
    | `writev` | 1.000 | 2.90 |  | 238 B | 1.000 | 3.30 |  | 231 B | -0.400 |
    | `close` | - | - |  |  | 1.000 | 0.380 |  |  | -0.380 |
    | `epoll_ctl` | - | - |  |  | 0.020 | 0.006 |  |  | -0.006 |
    | `epoll_wait` | 0.250 | wait |  |  | 0.500 | wait |  |  | - |
    | `all` | 6.250 | 6.40 | 1.000 |  | 7.520 | 7.89 | 1.000 |  | -1.49 |
    | outside calls |  | 8.98 |  |  |  | 12.8 |  |  | -3.87 |
    | server CPU |  | 15.4 |  |  |  | 20.7 |  |  | -5.36 |

    - **note**: wait\: time inside is sleep, in no sum and no difference; see waits
    - **note**: outside calls\: user code, interrupts, unseen; inside is wall time\: preempted calls count whole
    - **note**: the call that sends includes the client's share of loopback delivery (docs/method.md)
    - **waits**: nginx epoll\_wait 0.250 wakes/req, 4.000 events/wake (median 4 to 7), 24 empty, 0.750 us/req inside
    - **waits**: h2o epoll\_wait 0.500 wakes/req, 2.000 events/wake (median 4 to 7), 24 empty, 1.50 us/req inside

    - **probes**: throughput with/without\: nginx 0.920, CPU 14.1 -&gt; 15.4 us/req; h2o 0.900, CPU 18.7 -&gt; 20.7 us/req
    - **headers**: nginx&#124;h2o\: Server nginx&#124;h2o

    | setting | nginx | h2o |
    | --- | --- | --- |
    | file cache | on | off |

    <details><summary>all gates</summary>

    | gate | status | measured | limit | what to change |
    | --- | --- | --- | --- | --- |
    | G1 response equality | ok | body 1 B equal; nginx&#124;h2o\: headers differ\: Server nginx&#124;h2o | same statuses, body hash, encoding and framing; body length within 1%; head within 64 B | - |
    | G2 TLS parity | ok | in clear on every arm | same version, cipher suite, group, certificate key and ALPN; resumed share within 5 points | - |
    | G3 protocol parity | ok | HTTP/1.1, 64 connections | same version of HTTP, connections, pipelining and streams in flight | - |
    | G4 keep-alive parity | ok | nginx\: 2,117,974 requests, no connection closed; h2o\: 1,573,453 requests, no connection closed | requests per connection within 5%, or more than 1000 on both | - |
    | G5 errors | ok | nginx 0 (0%), h2o 0 (0%) | at most 0.01% of requests fail | - |
    | G6 client saturation | ok | nginx\: server 98%, client 58%; h2o\: server 97%, client 58% | server CPUs at least 97% busy; else the busiest client thread below 90%, and below 5% waiting or no 3% more with half as many connections more | - |
    | G7 Little's law | ok | nginx 102%, h2o 103% of connections times depth | throughput times mean latency at most 5% above the requests that can be in flight, and what the longest latency can bring over the edge of a window | - |
    | G8 server and client count | not measured | nginx\: what some of its calls write to was not seen | responses by server and client within 0.1% and those in flight | profile it (as root, with sudo), so that what it sends is counted |
    | G9 quiet machine | ok | load average 0.12 at the start, 2 CPUs | other work at most 1% of the server's CPUs; unknown, load average at most half of the CPUs and 0.5 more | - |
    | G10 A/A control | not measured | no A/A rounds were run\: the verdict is indicative | the 99% interval of A/A contains 1, its half-width at most twice the margin | - |
    | G11 probe cost | ok | nginx 0.920, h2o 0.900 | throughput with probes at least 0.85 of without, at detail times | - |
    | G12 lost events | ok | lost nothing | at most 0.001% of events, else counts are hidden | - |
    | G13 other tracers | not measured | this version of whyfast did not look | none attached while servers were measured | - |
    | G14 tuning parity | WARN | file cache on&#124;off | declared settings equal | make them equal, or read the result with that in mind |

    </details>

    <details><summary>nginx.conf of nginx, template</summary>

    ```
    listen {port};
    root {dir};
    ```

    </details>

    <details><summary>h2o.conf of h2o, template</summary>

    ```
    listen {port};
    root {dir};
    ```

    </details>

    Saved: `run/recording.json`

    Repeat:

    ```
    whyfast compare nginx h2o
    ```
    ");
}

/// A profile, and a load.
#[test]
fn profile_and_load_layout() {
    let recording = profile_recording(profile(&nginx(), 100_000.0));
    insta::assert_snapshot!(markdown::profile(&recording, &Footer::default()), @r"
    ### profile of nginx

    - **window**: 2.000 s, detail times (wall clock inside each call), copying the counters took 41.0us
    - **rate**: 312,500 calls/s, 50,000 errors/s
    - **errors**: recvfrom EAGAIN 100,000
    - **waits**: epoll\_wait 25,000 wakes, 4.000 events per wake (median 4 to 7), 3 without an event (1 that did not wait), 0 interrupted, 75.0ms inside
    - **open**: in flight at end, not counted\: epoll\_wait 1 time (longest 12.0us in pid 4242 tid 4242)
    - **cpu**: of the target\: 1.98s, 99% of one CPU
    - **our cost**: 1,250,000 program runs on the target's calls; reader 1.20ms CPU, maps 3.40 MB, attached in 45.0ms
    - **lost**: nothing
    - **target**: 1 process, 1 thread, children followed\: nginx 4242

    | call | calls | errors | time | us/call |
    | --- | ---: | ---: | ---: | ---: |
    | `writev` | 100,000 |  | 290ms | 2.90 |
    | `sendfile` | 100,000 |  | 180ms | 1.80 |
    | `recvfrom` | 200,000 | 100,000 | 122ms | 0.610 |
    | `epoll_wait` | 25,000 |  | 75.0ms | 3.00 |
    | `setsockopt` | 200,000 |  | 48.0ms | 0.240 |

    <details><summary>per second</summary>

    | call | calls/s | errors/s | bytes/s | B/call | min | p50 in | p99 in | max |
    | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
    | `writev` | 50,000 |  | 11.9 MB | 238 B | 1.45us | 2.05us-4.10us | 2.05us-4.10us | 58.0us |
    | `sendfile` | 50,000 |  | 50.0 kB | 1 B | 900ns | 1.02us-2.05us | 1.02us-2.05us | 36.0us |
    | `recvfrom` | 100,000 | 50,000 | 4.70 MB | 94 B | 305ns | 512ns-1.02us | 512ns-1.02us | 12.2us |
    | `epoll_wait` | 12,500 |  |  |  | 1.50us | 2.05us-4.10us | 2.05us-4.10us | 60.0us |
    | `setsockopt` | 100,000 |  |  |  | 120ns | 128ns-256ns | 128ns-256ns | 4.80us |

    </details>

    kernel 6.18.0 x86\_64  2 CPUs, Example CPU  kvm
    ");
    insta::assert_snapshot!(markdown::load(&load_recording(), &Footer::default()), @r"
    ### load GET http\://127.0.0.1\:8080/file  64 connections, 1 thread, 2.00s

    - **requests**: 138,800 ok, 69,400 req/s over 2.000 s; 0 failed (0%)
    - **ledger**: 138,800 sent + 64 carried in = 138,800 ok + 0 failed + 64 unfinished
    - **latency**: p50 900us  p75 1.08ms  p90 1.21ms  p99 2.43ms  max 3.02ms  mean 943us  (first byte written to last byte read); p99.9 needs 10,000 values, has 2,000
    - **statuses**: 200 138,800
    - **conns**: 64 asked, 64 open at start, 0 established; closed\: none
    - **traffic**: 13.0 MB sent, 33.2 MB received (33.0 MB heads, 139 kB bodies), 16.6 MB/s
    - **client**: busiest thread 58% busy, 10.8 us CPU per request (4.10 user, 6.70 kernel)
    - **slices**: 2\: 69,400 to 69,400 req/s, p99 1.80ms to 1.80ms

    | latency | value |
    | --- | ---: |
    | p50 | 900us |
    | p75 | 1.08ms |
    | p90 | 1.21ms |
    | p99 | 2.43ms |

    <details><summary>slices</summary>

    | from | req/s | failed | p50 | p99 | max |
    | --- | ---: | ---: | ---: | ---: | ---: |
    | 0.000 s | 69,400 | 0 | 900us | 1.80ms | 2.70ms |
    | 1.000 s | 69,400 | 0 | 900us | 1.80ms | 2.70ms |

    </details>

    kernel 6.18.0 x86\_64  2 CPUs, Example CPU  kvm
    ");
}

/// Thousands of calls and endless files still fit, and what is missing is counted.
#[test]
fn long_reports_are_cut() {
    let mut profile = profile(&nginx(), 100_000.0);
    let template: CallRow = profile.calls[0].clone();
    profile.calls = (0..5000)
        .map(|nr| CallRow {
            nr,
            name: format!("syscall_{nr:#x}"),
            ..template.clone()
        })
        .collect();
    let text = markdown::profile(&profile_recording(profile), &Footer::default());
    assert!(text.chars().count() <= markdown::CHARACTERS_LIMIT);
    assert!(text.contains("rows omitted, the recording has them"));

    let mut recording = comparison(&[nginx(), h2o()], 3);
    recording.arms[0].config[0].text = "line of a file\n".repeat(20_000);
    analyse(&mut recording);
    let text = markdown::compare(&recording, &Footer::default());
    assert!(text.chars().count() <= markdown::CHARACTERS_LIMIT);
    assert!(text.contains("times as fast as h2o"));
    assert_eq!(
        text.matches("<details>").count(),
        text.matches("</details>").count()
    );
}

/// Hundreds of arms with long names, each with its verdict, waterfall and configuration: the limit holds,
/// the first verdicts stay, and every cut says how much is gone.
#[test]
fn reports_of_many_arms_are_cut() {
    let servers: Vec<_> = (0..200)
        .map(|index| {
            let name = format!("server-{index:03}-{}", "n".repeat(60));
            let base = if index % 2 == 0 { nginx() } else { h2o() };
            crate::server::Server {
                name: name.leak(),
                ..base
            }
        })
        .collect();
    let mut recording = comparison(&servers, 2);
    for (index, arm) in recording.arms.iter_mut().enumerate() {
        arm.config[0].text = format!("setting {index};\n").repeat(30);
    }
    recording.warnings = (0..500)
        .map(|index| Warning {
            code: "w".to_owned(),
            text: format!("{index} {}", "w".repeat(350)),
        })
        .collect();
    analyse(&mut recording);
    let text = markdown::compare(&recording, &Footer::default());
    assert!(
        text.chars().count() <= markdown::CHARACTERS_LIMIT,
        "{}",
        text.chars().count()
    );
    let verdict = text.find("server-000").unwrap();
    assert!(
        verdict < 2000 && text.contains("**VERDICT**"),
        "{}",
        &text[..500]
    );
    assert!(text.contains("omitted, the recording has them"));
    assert_eq!(
        text.matches("<details>").count(),
        text.matches("</details>").count()
    );
}
