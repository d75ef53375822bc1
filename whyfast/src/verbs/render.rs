//! A recording in the format that was asked for, and the command line as it is stored.

use recording::{
    Arm, ArmKind, Load, Probes, Profile, Recording, RecordingKind, Round, RoundRole, ServerCpu,
    exit_code,
};
use reports::prometheus::Counters;
use reports::{Footer, Style, flame, html, markdown, text};

use crate::args::Format;
use crate::args_profile::ProfileFormat;
use crate::args_stored::ReportFormat;
use crate::failure::Failure;
use crate::machine;

/// A recording of any kind.
pub(crate) fn recording(
    recording: &Recording,
    format: Format,
    style: &Style,
    footer: &Footer,
) -> String {
    match format {
        Format::Html => match recording.kind {
            RecordingKind::Compare => html::compare(recording, footer),
            RecordingKind::Load => html::load(recording, footer),
            RecordingKind::Profile => html::profile(recording, footer),
        },
        Format::Json => recording.to_json(),
        Format::Markdown => match recording.kind {
            RecordingKind::Compare => markdown::compare(recording, footer),
            RecordingKind::Load => markdown::load(recording, footer),
            RecordingKind::Profile => markdown::profile(recording, footer),
        },
        Format::Text => match recording.kind {
            RecordingKind::Compare => text::compare(recording, style, footer),
            RecordingKind::Load => text::load(recording, style, footer),
            RecordingKind::Profile => text::profile(recording, style, footer),
        },
    }
}

/// A profile in the format that was asked for; `None` for a series, which was written as it was measured.
pub(crate) fn profile(
    recording: &Recording,
    format: ProfileFormat,
    style: &Style,
) -> anyhow::Result<Option<String>> {
    let format = match format {
        ProfileFormat::Text => ReportFormat::Text,
        ProfileFormat::Json => ReportFormat::Json,
        ProfileFormat::Markdown => ReportFormat::Markdown,
        ProfileFormat::Html => ReportFormat::Html,
        ProfileFormat::Prometheus => ReportFormat::Prometheus,
        ProfileFormat::Svg => ReportFormat::Svg,
        ProfileFormat::Folded => ReportFormat::Folded,
        ProfileFormat::FoldedOffCpu => ReportFormat::FoldedOffCpu,
        ProfileFormat::Jsonl | ProfileFormat::Csv => return Ok(None),
    };
    result(recording, format, style).map(Some)
}

/// A recording in a format that not every kind has.
pub(crate) fn result(
    recording: &Recording,
    format: ReportFormat,
    style: &Style,
) -> anyhow::Result<String> {
    let as_kind = |format| {
        Ok(self::recording(
            recording,
            format,
            style,
            &Footer::default(),
        ))
    };
    let of_kind: fn(&Recording) -> String = match (format, recording.kind) {
        (ReportFormat::Text, _) => return as_kind(Format::Text),
        (ReportFormat::Json, _) => return as_kind(Format::Json),
        (ReportFormat::Markdown, _) => return as_kind(Format::Markdown),
        (ReportFormat::Html, _) => return as_kind(Format::Html),
        (ReportFormat::Csv, RecordingKind::Load) => reports::csv::load,
        (ReportFormat::Csv, RecordingKind::Compare) => reports::csv::rounds,
        (ReportFormat::Csv | ReportFormat::CsvSyscalls, RecordingKind::Profile)
        | (ReportFormat::CsvSyscalls, RecordingKind::Compare) => reports::csv::syscalls,
        (ReportFormat::H2load, RecordingKind::Load) => reports::tools::h2load,
        (ReportFormat::Httperf, RecordingKind::Load) => reports::tools::httperf,
        (ReportFormat::Wrk, RecordingKind::Load) => reports::tools::wrk,
        (ReportFormat::Prometheus, RecordingKind::Profile) => prometheus,
        (ReportFormat::Prometheus, _) => {
            return Err(Failure::usage(
                "this format is for recordings of `whyfast profile`: ask for text, json, markdown or csv"
                    .to_owned(),
            ));
        }
        (ReportFormat::Svg, _) => return stacks(flame::svg(recording)),
        (ReportFormat::Folded, _) => return stacks(flame::folded(recording, flame::Time::OnCpu)),
        (ReportFormat::FoldedOffCpu, _) => {
            return stacks(flame::folded(recording, flame::Time::OffCpu));
        }
        (ReportFormat::CsvSyscalls, RecordingKind::Load) => {
            return Err(Failure::usage(
                "a load has no system calls: ask for csv, text, json or markdown".to_owned(),
            ));
        }
        (ReportFormat::H2load | ReportFormat::Httperf | ReportFormat::Wrk, _) => {
            return Err(Failure::usage(
                "this format is for recordings of `whyfast load`: ask for text, json, markdown or csv"
                    .to_owned(),
            ));
        }
    };
    Ok(of_kind(recording))
}

fn prometheus(recording: &Recording) -> String {
    let profile = recording
        .rounds
        .iter()
        .find_map(|round| round.profile.as_ref());
    let counters = profile.map(Counters::of).unwrap_or_default();
    counters.render(&recording.tool.version)
}

fn stacks(rendered: Result<String, flame::NoStacks>) -> anyhow::Result<String> {
    rendered.map_err(|error| {
        let code = match error {
            flame::NoStacks::AtAll | flame::NoStacks::OffCpu => exit_code::USAGE,
            flame::NoStacks::Empty => exit_code::CANNOT_MEASURE,
        };
        Failure::with_code(code, error.to_string())
    })
}

/// A recording of this run with nothing in it yet.
pub(crate) fn blank(kind: RecordingKind) -> Recording {
    Recording {
        created_unix_ns: machine::wall_unix_ns(),
        command: stored_command(),
        ..Recording::empty(kind, machine::tool(), machine::host())
    }
}

/// Makes a load the one round of a recording.
pub(crate) fn add_load(recording: &mut Recording, load: Load) {
    let mut round = add_arm(recording, &load.url, Probes::Off);
    round.window = Some(load.window);
    round.load = Some(load);
    recording.rounds.push(round);
}

/// Makes a profile the one round of a recording.
pub(crate) fn add_profile(recording: &mut Recording, target: &str, profile: Profile) {
    let mut round = add_arm(recording, target, Probes::On);
    round.window = Some(profile.window);
    round.server_cpu = profile.cpu_ns.map(|total_ns| ServerCpu {
        window: profile.window,
        total_ns,
        user_ns: None,
        system_ns: None,
        processes: u32::try_from(profile.processes.len()).unwrap_or(u32::MAX),
        by_process: Vec::new(),
        threads: Vec::new(),
    });
    round.profile = Some(profile);
    recording.rounds.push(round);
}

fn add_arm(recording: &mut Recording, name: &str, probes: Probes) -> Round {
    recording.arms.push(blank_arm(name, name, ArmKind::Live));
    blank_round(name, probes)
}

/// An arm of which nothing is known yet but its name.
pub(crate) fn blank_arm(name: &str, spec: &str, kind: ArmKind) -> Arm {
    Arm {
        name: name.to_owned(),
        kind,
        spec: spec.to_owned(),
        version: None,
        settings: Vec::new(),
        build: Vec::new(),
        config: Vec::new(),
        command: Vec::new(),
        binary_sha256: None,
        response: None,
        hops: Vec::new(),
    }
}

/// A round in which nothing was measured yet.
pub(crate) fn blank_round(arm: &str, probes: Probes) -> Round {
    Round {
        arm: arm.to_owned(),
        order: 0,
        pair: 0,
        probes,
        failed: None,
        window: None,
        load: None,
        server_cpu: None,
        profile: None,
        profile_requests: None,
        role: RoundRole::Main,
        excluded: None,
        machine_cpu: None,
        server_count: None,
        hops: Vec::new(),
    }
}

/// The command line without its secrets: values of URL queries and of headers that authenticate
/// are hashed.
pub(crate) fn stored_command() -> Vec<String> {
    let arguments = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned());
    redact(arguments)
}

fn redact(arguments: impl Iterator<Item = String>) -> Vec<String> {
    let mut is_header = false;
    arguments
        .map(|argument| {
            let header =
                std::mem::replace(&mut is_header, argument == "-H" || argument == "--header");
            if header {
                header_line(&argument)
            } else if let Some(line) = argument.strip_prefix("--header=") {
                format!("--header={}", header_line(line))
            } else if let Some(line) = argument.strip_prefix("-H") {
                format!("-H{}", header_line(line))
            } else if argument.contains("://") {
                loadgen::redact::url(&argument)
            } else {
                assignments(&argument)
            }
        })
        .collect()
}

/// `--password=VALUE`, `TOKEN=VALUE`, also inside a script: the value is hashed.
pub(crate) fn assignments(argument: &str) -> String {
    let words = argument.split_inclusive(char::is_whitespace).map(|word| {
        let trimmed = word.trim_end();
        match trimmed.split_once('=') {
            Some((name, value)) if !value.is_empty() => {
                let kept = loadgen::redact::header_value(name, value);
                format!("{name}={kept}{}", &word[trimmed.len()..])
            }
            _ => word.to_owned(),
        }
    });
    words.collect()
}

/// A command line that can be pasted into a shell.
pub(crate) fn shell_line(command: &[String]) -> String {
    let words: Vec<String> = command.iter().map(|word| shell_word(word)).collect();
    words.join(" ")
}

fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

fn header_line(line: &str) -> String {
    match line.split_once(':') {
        Some((name, value)) => {
            format!(
                "{name}: {}",
                loadgen::redact::header_value(name, value.trim_start())
            )
        }
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use recording::{Detail, Lost, LostClass, OwnCost, Window, exit_code};

    use super::*;

    /// Loss of every class is said in text, Markdown, HTML and JSON, and decides the exit code where counts may be
    /// too low; a run that lost nothing exits with 0. (What the kernel can be made to lose is forced in the kernel tier.)
    #[test]
    fn loss_of_every_class_is_said() {
        for class in LostClass::ALL {
            let mut lost = Lost::default();
            lost.add(class, 7);
            let lossy = profile_that_lost(lost);
            let render = |format| recording(&lossy, format, &Style::default(), &Footer::default());
            for format in [Format::Text, Format::Markdown, Format::Html] {
                let text = render(format);
                assert!(
                    text.replace('\n', " ").contains(class.describe()),
                    "{class:?}: {text}"
                );
            }
            let stored = Recording::parse(render(Format::Json).as_bytes()).unwrap();
            assert_eq!(
                stored.rounds[0]
                    .profile
                    .as_ref()
                    .unwrap()
                    .lost
                    .0
                    .get(&class),
                Some(&7)
            );
            let expected = match class {
                LostClass::MissedSwitches => exit_code::DONE,
                _ => exit_code::LIMIT_BROKEN,
            };
            let code = reports::exit_code(&lossy, &reports::Limits::default());
            assert_eq!(code, expected, "{class:?}");
        }
        let whole = profile_that_lost(Lost::default());
        assert_eq!(
            reports::exit_code(&whole, &reports::Limits::default()),
            exit_code::DONE
        );
    }

    fn profile_that_lost(lost: Lost) -> Recording {
        let mut recording = blank(RecordingKind::Profile);
        let window = Window {
            start_ns: 0,
            end_ns: 1_000_000_000,
        };
        let profile = Profile {
            lost,
            cost: OwnCost {
                target_events: 1000,
                ..OwnCost::default()
            },
            ..Profile::empty(Detail::Times, window)
        };
        add_profile(&mut recording, "pid 1", profile);
        recording
    }

    /// What a shell would take apart is quoted.
    #[test]
    fn command_lines_can_be_pasted() {
        let command = ["whyfast", "compare", "a=cmd:x {port}", "it's"].map(str::to_owned);
        assert_eq!(
            shell_line(&command),
            r"whyfast compare 'a=cmd:x {port}' 'it'\''s'"
        );
    }

    /// No secret of the command line is stored, however it was given.
    #[test]
    fn secrets_are_not_stored() {
        let given = [
            "whyfast",
            "load",
            "http://h/p?token=SECRET",
            "-H",
            "Authorization: SECRET",
            "-HCookie: SECRET",
            "--header=X-Api-Key: SECRET",
            "-H",
            "Accept: a",
            "--password=SECRET",
            "true --api-token=SECRET a=b",
        ];
        let stored = redact(given.iter().map(|&argument| argument.to_owned()));
        assert!(!stored.join(" ").contains("SECRET"), "{stored:?}");
        assert_eq!(stored[8], "Accept: a");
        assert_eq!(stored.len(), given.len());
    }
}
