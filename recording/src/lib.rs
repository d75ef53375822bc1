//! The data model of a whyfast run: what was measured, in which units, and how it is stored.
//!
//! Pure: it opens no file, no socket and no process, and reads no clock. The halves of a
//! measurement (load and profile) meet only as the types of this crate, in a [`Recording`] or as
//! lines of [`wire`].
//!
//! Two rules hold in every type here. A value that was not measured is `None` (JSON `null`), never
//! zero, and [`NotMeasured`] says why. Every time is in nanoseconds of `CLOCK_MONOTONIC`, the clock
//! of `bpf_ktime_get_ns`, unless the name says otherwise.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod autopsy;
mod below;
mod budget;
mod compare;
mod diff;
mod errno;
pub mod exit_code;
mod finding;
mod fingerprint;
mod hex;
mod histogram;
mod hop;
mod host;
mod load;
mod measures;
mod profile;
mod published;
mod requests;
mod round;
mod schema;
mod series;
mod stacks;
mod syscall;
mod thread_time;
mod tls_time;
mod tracer;
mod transport;
mod why;
pub mod wire;

pub use autopsy::{
    AUTOPSY_SCHEMA, Autopsy, ExaminedRatio, ExaminedServer, ForeignCall, ForeignCalls, ForeignLoad,
    Statement, StatementKind, Unread,
};
pub use below::{
    Hardware, HardwareCount, HardwareThread, IoUring, ListenQueue, Network, NetworkNamespace,
    UringOperation, uring_operation_name,
};
pub use budget::{
    BUDGET_SCHEMA, BudgetCheck, BudgetOutcome, CallBudget, CallChange, LimitCheck, LimitStatus,
    SectionCheck,
};
pub use compare::{
    Arm, ArmKind, Comparison, ConfigFile, Estimate, Gate, GateStatus, Protocol, ResponseShape,
    Scenario, ScenarioTls, Setting, Unfair, Verdict, VerdictWord,
};
pub use diff::{
    CallDiff, DIFF_SCHEMA, Denominator, DiffFigures, DiffSide, DiffTimes, DiffWord, FamilyDiff,
    FunctionDiff, FunctionTime, StackTime, SyscallDiff,
};
pub use errno::errno_name;
pub use finding::{Confidence, Finding, FindingNumber};
pub use fingerprint::{Fact, FactWeight, Fingerprint, ServerFingerprint};
pub use hex::hex;
pub use histogram::{HistogramError, LatencyHistogram, Log2Histogram};
pub use hop::{Hop, HopProcesses};
pub use host::{Host, Tool};
pub use load::{
    ConnectionCounts, CpuTime, Failure, FailureClass, Ledger, Load, LoadPhase, LoadPlan, LoadSlice,
    Timeline, Traffic, Violation,
};
pub use measures::{
    Arrivals, ClassResult, LimitedBy, Limiter, LoadMeasures, LoadShape, Phases, RateStage,
    ScheduleKept, Search, Spread, Trial, Unfinished,
};
pub use profile::{
    CallRow, Detail, InFlightCall, Lost, LostClass, OwnCost, Profile, ProfileSlice,
    ProfiledProcess, SliceCall, SliceWait, TimeStats, WaitRow,
};
pub use published::{Published, PublishedChange, PublishedFigure};
pub use requests::{RequestCount, RequestSource};
pub use round::{
    MachineCpu, Probes, ProcessCpu, Round, RoundRole, ServerCount, ServerCpu, ThreadCpu,
};
pub use schema::{
    NotMeasured, Partial, Recording, RecordingKind, SCHEMA, SchemaError, Warning, Window,
    json_schema,
};
pub use series::{SeriesLine, SeriesTotal};
pub use stacks::{Frame, FrameSide, Module, Stack, StackClock, StackSet, Stacks};
pub use syscall::{Abi, Family, family, name, number};
pub use thread_time::{
    Calibration, CallObject, CallTime, CpuView, Group, GroupBy, GroupCall, IdleLabel, ThreadTime,
};
pub use tls_time::{TlsFunction, TlsLibrary, TlsPurpose, TlsTime};
pub use tracer::{Tracer, TracerLook};
pub use transport::{Http2Report, HttpVersion, TlsNegotiated, TlsPlan, TlsReport};
pub use why::{
    ArmLimit, ArmLimiter, Attribution, Bar, BarKind, Evidence, IdleCause, Prediction, Receipt,
};
