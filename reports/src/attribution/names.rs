//! What a cause is called: its kind and identifier in a recording, its title in reports.

use recording::BarKind;

use super::identity::Cause;
use super::side::Term;

pub(super) fn kind(cause: Cause) -> BarKind {
    match cause {
        Cause::Count(_) => BarKind::SyscallCount,
        Cause::Unit(_) => BarKind::SyscallUnit,
        Cause::Cpus => BarKind::Cpus,
        Cause::Idle(_) => BarKind::Idle,
        Cause::Demand(term) => match term {
            Term::Calls(_) => BarKind::SyscallCount,
            Term::Demand => BarKind::Demand,
            Term::EntryExit => BarKind::EntryExit,
            Term::Faults => BarKind::Faults,
            Term::Irq => BarKind::Irq,
            Term::OutsideCalls => BarKind::OutsideCalls,
            Term::Probes => BarKind::Probes,
            Term::Softirq => BarKind::Softirq,
            Term::Switches => BarKind::Switches,
            Term::Unexplained => BarKind::Unexplained,
            Term::User => BarKind::User,
        },
    }
}

pub(super) fn cause_id(cause: Cause) -> String {
    match cause {
        Cause::Count(group) => format!("{}.count", group.id()),
        Cause::Unit(group) => format!("{}.unit", group.id()),
        Cause::Demand(term) => term_id(term).to_owned(),
        Cause::Cpus => "cpus".to_owned(),
        Cause::Idle(label) => label.cause().to_owned(),
    }
}

pub(super) fn term_id(term: Term) -> &'static str {
    match term {
        Term::Calls(group) => group.id(),
        Term::Demand => "demand",
        Term::EntryExit => "entry_exit",
        Term::Faults => "faults",
        Term::Irq => "irq",
        Term::OutsideCalls => "outside_calls",
        Term::Probes => "probes",
        Term::Softirq => "softirq",
        Term::Switches => "switches",
        Term::Unexplained => "unexplained",
        Term::User => "user",
    }
}

pub(super) fn title(cause: Cause) -> String {
    match cause {
        Cause::Count(group) => format!("{}: calls", group.title()),
        Cause::Unit(group) => format!("{}: cost per call", group.title()),
        Cause::Cpus => "number of CPUs".to_owned(),
        Cause::Idle(label) => label.title().to_owned(),
        Cause::Demand(term) => term_title(term).to_owned(),
    }
}

pub(super) fn term_title(term: Term) -> &'static str {
    match term {
        Term::Calls(group) => group.title(),
        Term::Demand => "CPU time",
        Term::EntryExit => "entry and exit of the kernel",
        Term::Faults => "page faults (estimate)",
        Term::Irq => "interrupts",
        Term::OutsideCalls => "outside of calls",
        Term::Probes => "effect of probes beyond their cost",
        Term::Softirq => "soft interrupts (network stack)",
        Term::Switches => "from wake-up to CPU",
        Term::Unexplained => "unexplained",
        Term::User => "user code",
    }
}
