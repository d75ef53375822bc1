//! `whyfast testserver`: the built-in server as a process.

use std::num::NonZeroU32;
use std::os::unix::net::UnixStream;

use anyhow::Context as _;
use recording::exit_code;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level::pipe;
use testserver::{Body, CertificateFiles, Config, InjectedTimes, Server, StopHandle};

use crate::args::TestserverArgs;
use crate::failure::Failure;
use crate::output::Output;

/// Serves until SIGTERM or SIGINT. The first line printed is the address.
pub(crate) fn testserver(args: &TestserverArgs) -> anyhow::Result<u8> {
    let mut config =
        Config::parse(&args.style).map_err(|error| Failure::usage(format!("--style: {error}")))?;
    config.address = args.listen;
    config.workers = config.workers.or(NonZeroU32::new(args.workers.into()));
    config.body = args
        .file
        .as_ref()
        .map_or(Body::Generated(1), |file| Body::File(file.clone()));
    config.time_injections = args.time_injections;
    let files = args.cert.clone().zip(args.key.clone());
    config.certificate = files.map(|(certificate, key)| CertificateFiles { certificate, key });
    let scheme = if config.tls { "https" } else { "http" };
    let server = Server::bind(config).context("failed to start the server")?;
    let stop = server.stop_handle();
    stop_on_signals(stop)?;
    let address = server.local_address();
    Output::Stdout.write(&format!("{scheme}://{address}{}\n", server.url_path()))?;
    let slices = server.run().context("the server failed")?;
    Output::Stdout.write(&slices.iter().map(line).collect::<String>())?;
    Ok(exit_code::DONE)
}

/// Stops the server when it is asked to end. The thread waits in `poll`, which is what idle threads do: a
/// profiler would take one that sleeps in a read for blocked by something.
fn stop_on_signals(stop: StopHandle) -> anyhow::Result<()> {
    let (reader, writer) = UnixStream::pair()?;
    for signal in [SIGTERM, SIGINT] {
        pipe::register(signal, writer.try_clone()?)?;
    }
    std::thread::spawn(move || {
        let mut wanted = [PollFd::new(&reader, PollFlags::IN)];
        while rustix::event::poll(&mut wanted, None) == Err(Errno::INTR) {}
        stop.stop();
    });
    Ok(())
}

/// `injected START_NS REQUESTS KNOB=NS...`
fn line(slice: &InjectedTimes) -> String {
    let means = slice.mean_ns.map(|(knob, ns)| format!("{knob}={ns:.1}"));
    let (start_ns, requests) = (slice.start_ns, slice.requests);
    format!("injected {start_ns} {requests} {}\n", means.join(" "))
}
