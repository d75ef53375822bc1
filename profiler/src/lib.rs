//! Finds a target, reads what the eBPF programs counted for it, and makes that the profile half of
//! a recording.
//!
//! ```no_run
//! use profiler::{Config, Session, Target};
//! use recording::Detail;
//! use rustix::thread::CapabilitySet;
//!
//! # fn main() -> Result<(), profiler::ProfilerError> {
//! let mut session = Session::attach(Config::new([Target::Port(443)], Detail::Counts))?;
//! session.drop_privileges(CapabilitySet::empty())?;
//! session.open(false)?;
//! std::thread::sleep(std::time::Duration::from_secs(10));
//! let profile = session.close(false)?;
//! println!("{} system calls", profile.calls.iter().map(|call| call.count).sum::<u64>());
//! # Ok(())
//! # }
//! ```
//!
//! Nothing is streamed: the programs add to arrays in the kernel, which are mapped into this process
//! and copied at the edges of a window. Dropping the [`Session`], or the end of the process however
//! it comes, detaches everything.
//!
//! Rendering, the command line and how halves of a measurement talk are not here.

#![warn(missing_docs)]
#![deny(unsafe_code)]

mod below;
mod btf;
mod calibration;
mod cgroup;
mod closed_window;
mod config;
mod cpus;
mod delta;
mod error;
mod first_states;
mod groups;
mod hardware;
mod in_flight;
mod listen_limit;
mod network;
mod privileges;
mod processes;
mod session;
mod slices;
mod snapshot;
mod source;
mod stacks;
mod states;
#[expect(unsafe_code, reason = "the one module that needs it")]
mod sys;
mod target;
mod tls;
mod tracers;
mod tracked;
mod unit;
mod uring;

pub use btf::BtfError;
pub use config::{Config, Hook, Limits};
pub use error::{InnerProcess, PortOwner, ProfilerError};
pub use session::{Session, can_measure};
pub use source::{bpf_object_sha256, loaded_programs};
pub use sys::process_cpu_ns;
pub use target::Target;
pub use tracers::look_for_tracers;
