//! `whyfast testserver`: the built-in server as a process.

use std::num::NonZeroU32;

use anyhow::Context as _;
use recording::exit_code;
use testserver::{Body, Config, Server};

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
    let server = Server::bind(config).context("failed to start the server")?;
    if args.measure_injections {
        let cost = server
            .measure_injections()
            .context("failed to measure what is injected")?;
        let text = format!("wall_ns {:.1}\ncpu_ns {:.1}\n", cost.wall_ns, cost.cpu_ns);
        Output::Stdout.write(&text)?;
        return Ok(exit_code::DONE);
    }
    let stop = server.stop_handle();
    let mut signals = signal_hook::iterator::Signals::new([
        signal_hook::consts::SIGTERM,
        signal_hook::consts::SIGINT,
    ])?;
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            stop.stop();
        }
    });
    let address = server.local_address();
    Output::Stdout.write(&format!("http://{address}{}\n", server.url_path()))?;
    if let Some(ns) = server.run().context("the server failed")? {
        Output::Stdout.write(&format!("injected_ns {ns:.1}\n"))?;
    }
    Ok(exit_code::DONE)
}
