//! Stacks in every format: folded text, pictures, pages, tables, and two servers against each other.

use proptest::prelude::*;
use recording::{
    Detail, DiffWord, Frame, FrameSide, FunctionDiff, Module, Probes, Profile, Recording, Stack,
    StackClock, StackSet, StackTime, Stacks,
};
use reports::diff::{Operand, Options, diff};
use reports::flame::{Difference, NoStacks, Time, folded, svg};
use reports::{Footer, Style, analyse, html, markdown, text};

use crate::fixture::{comparison, h2o, nginx, profile, profile_recording};

/// A frame of the program, of the kernel, or without a name.
pub(crate) fn frame(name: &str, module: &str) -> Frame {
    Frame {
        name: (!name.is_empty()).then(|| name.to_owned()),
        module: Some(module.to_owned()),
        offset: name.is_empty().then_some(0x1234),
        side: match module {
            "[kernel]" => FrameSide::Kernel,
            "[jit]" => FrameSide::Jit,
            _ => FrameSide::User,
        },
    }
}

/// So many samples of 10 ms.
pub(crate) fn sampled(comm: &str, frames: &[u32], count: u64) -> Stack {
    Stack {
        comm: comm.to_owned(),
        frames: frames.to_vec(),
        count,
        ns: count * 10_000_000,
        ends_early: false,
    }
}

pub(crate) fn stacks(frames: Vec<Frame>, on_cpu: Vec<Stack>) -> Stacks {
    Stacks {
        clock: StackClock::CpuClock,
        hz: 100,
        frames,
        on_cpu: StackSet {
            stacks: on_cpu,
            lost: 0,
            lost_ns: None,
        },
        off_cpu: None,
        modules: vec![Module {
            name: "nginx".to_owned(),
            build_id: Some("c0ffee".to_owned()),
            names: Some("symbol table".to_owned()),
            share: 0.5,
        }],
    }
}

/// 200 samples of a server, 20 of which end early, 12.5 ms of waiting, and two samples lost.
pub(crate) fn small() -> Stacks {
    let frames = vec![
        frame("main", "nginx"),
        frame("ngx_process_events", "nginx"),
        frame("ngx_http_handler", "nginx"),
        frame("do_writev", "[kernel]"),
        frame("", "libz.so.1"),
        frame("do_epoll_wait", "[kernel]"),
    ];
    let mut early = sampled("nginx", &[4], 20);
    early.ends_early = true;
    let mut small = stacks(
        frames,
        vec![
            sampled("nginx", &[0, 1, 2, 3], 100),
            sampled("nginx", &[0, 1, 2], 60),
            sampled("nginx", &[0, 1, 5], 20),
            early,
        ],
    );
    small.on_cpu.lost = 2;
    small.off_cpu = Some(StackSet {
        stacks: vec![Stack {
            comm: "nginx".to_owned(),
            frames: vec![0, 1, 5],
            count: 7,
            ns: 12_500_400,
            ends_early: false,
        }],
        lost: 0,
        lost_ns: Some(0),
    });
    small
}

/// A profile of two seconds with stacks.
pub(crate) fn with(stacks: Stacks) -> Recording {
    let mut recording = profile_recording(Profile {
        detail: Detail::Stacks,
        stacks: Some(stacks),
        ..profile(&nginx(), 100_000.0)
    });
    recording.rounds[0].profile_requests = None;
    recording
}

/// Two servers under load, 100,000 requests in one probed round each, with stacks.
fn compared(a: Stacks, b: Stacks) -> Recording {
    let mut recording = comparison(&[nginx(), h2o()], 1);
    let probed = recording.rounds.iter_mut();
    let probed = probed.filter(|round| round.probes == Probes::On);
    for (round, stacks) in probed.zip([a, b]) {
        round.profile_requests = Some(100_000.0);
        round.profile.as_mut().unwrap().stacks = Some(stacks);
    }
    analyse(&mut recording);
    recording
}

fn functions(recording: &Recording) -> Vec<FunctionDiff> {
    let side = |arm| Operand {
        recording,
        arm,
        source: "run.json",
    };
    let options = Options {
        allowed: vec!["scenario".to_owned(), "G1".to_owned(), "G8".to_owned()],
        ..Options::default()
    };
    diff(side("nginx"), side("h2o"), &options)
        .unwrap()
        .functions
}

/// A line per stack in microseconds, the stack that ends early marked; waits apart.
#[test]
fn folded_text() {
    let recording = with(small());
    assert_eq!(
        folded(&recording, Time::OnCpu).unwrap(),
        "nginx;[ends early];[no name in libz.so.1] 200000\n\
         nginx;main;ngx_process_events;do_epoll_wait 200000\n\
         nginx;main;ngx_process_events;ngx_http_handler 600000\n\
         nginx;main;ngx_process_events;ngx_http_handler;do_writev 1000000\n"
    );
    assert_eq!(
        folded(&recording, Time::OffCpu).unwrap(),
        "nginx;main;ngx_process_events;do_epoll_wait 12500\n"
    );
}

/// Every stack of a comparison begins with its server.
#[test]
fn folded_text_of_several_servers() {
    let recording = compared(
        stacks(vec![frame("f", "a")], vec![sampled("x", &[0], 1)]),
        stacks(vec![frame("f", "b")], vec![sampled("y", &[0], 2)]),
    );
    assert_eq!(
        folded(&recording, Time::OnCpu).unwrap(),
        "nginx;x;f 10000\nh2o;y;f 20000\n"
    );
}

/// The picture of a small profile, in full.
#[test]
fn picture_of_a_small_profile() {
    let picture = svg(&with(small())).unwrap();
    insta::assert_snapshot!(picture.replace("><", ">\n<"));
}

/// What a recording lacks is named, with the remedy.
#[test]
fn recordings_without_stacks_say_so() {
    let without = profile_recording(profile(&nginx(), 1000.0));
    assert_eq!(svg(&without), Err(NoStacks::AtAll));
    assert!(NoStacks::AtAll.to_string().contains("--detail stacks"));
    let mut running = small();
    running.off_cpu = None;
    let running = with(running);
    assert!(svg(&running).is_ok());
    assert_eq!(folded(&running, Time::OffCpu), Err(NoStacks::OffCpu));
    let idle = with(stacks(Vec::new(), Vec::new()));
    assert_eq!(folded(&idle, Time::OnCpu), Err(NoStacks::Empty));
}

/// Text and Markdown name the hottest functions in a few lines, with what is uncertain about them.
#[test]
fn text_names_the_hottest_functions() {
    let recording = with(small());
    let text = text::profile(&recording, &Style::default(), &Footer::default());
    let from = text.find(" function, on CPU").unwrap();
    let section: Vec<&str> = text[from..].lines().take(5).collect();
    insta::assert_snapshot!(section.join("\n"), @"
     function, on CPU        in         us/s self  self    +-  us/s with callees
     do_writev               [kernel]     500,000   50%  6.9%            500,000
     ngx_http_handler        nginx        300,000   30%  6.7%            800,000
     [no name in libz.so.1]  libz.so.1    100,000   10%  4.9%            100,000
     do_epoll_wait           [kernel]     100,000   10%  4.9%            100,000
    ");
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| {
            ["stacks", "early", "LOST"]
                .iter()
                .any(|word| line.starts_with(word))
        })
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @"
    stacks   1,000,000 us per second in 200 samples, 100 per second of running, by the CPU clock: code with
    early    10% of this time is in stacks that end early, without their outermost functions: compiled without
    LOST     2 of 202 not stored, the kernel's table was full (of unknown time)
    ");
    let markdown = markdown::profile(&recording, &Footer::default());
    assert!(markdown.contains("do\\_writev"), "{markdown}");
}

/// Per request, by hand: 400 of 1000 samples against 100 of 1000 in 100,000 requests are 40 and 10 us; what only
/// one server has is gone or new; what differs by less than chance is not told apart, in either direction.
#[test]
fn functions_differ_by_more_than_chance() {
    let names = ["parse", "send", "compress", "log", "rare"];
    let frames = || -> Vec<Frame> { names.iter().map(|name| frame(name, "server")).collect() };
    let counted = |counts: [u64; 5]| {
        let of = |(index, count): (u32, u64)| sampled("x", &[index], count);
        let stacks_of = (0..5).zip(counts).filter(|(_, count)| *count > 0).map(of);
        stacks(frames(), stacks_of.collect())
    };
    let recording = compared(
        counted([400, 300, 295, 0, 5]),
        counted([100, 310, 0, 586, 4]),
    );
    let found = functions(&recording);
    let words: Vec<(&str, DiffWord)> = found
        .iter()
        .map(|function| (function.function.as_str(), function.change))
        .collect();
    assert_eq!(
        words,
        [
            ("log", DiffWord::New),
            ("parse", DiffWord::Changed),
            ("compress", DiffWord::Gone),
            ("send", DiffWord::NotDistinguishable),
            ("rare", DiffWord::NotDistinguishable),
        ]
    );
    let parse = &found[1];
    assert_eq!(parse.time, StackTime::OnCpu);
    let own = [parse.a, parse.b].map(|side| side.unwrap().own_ns);
    assert_eq!(format!("{own:?}"), "[40000.0, 10000.0]");
    // sqrt(0.4 * 0.6 / 1000) and sqrt(0.1 * 0.9 / 1000) of 100 us, together times 1.96: 3.56 us.
    assert!(
        (parse.error_ns - 3_560.0).abs() < 120.0,
        "{}",
        parse.error_ns
    );
    assert_eq!(found[0].a, None);
}

/// Two recordings against each other: text, Markdown and page name the functions and what only one has.
#[test]
fn differences_are_shown_everywhere() {
    let mut other = small();
    other.frames[3].name = Some("do_sendfile".to_owned());
    let recording = compared(small(), other);
    let side = |arm| Operand {
        recording: &recording,
        arm,
        source: "run.json",
    };
    let options = Options {
        allowed: vec!["G1".to_owned(), "G8".to_owned()],
        ..Options::default()
    };
    let found = diff(side("nginx"), side("h2o"), &options).unwrap();
    let difference = Difference::of(side("nginx"), side("h2o"), Some(found.per)).unwrap();
    let page = html::diff(&found, Some(&difference));
    for text in [
        text::diff(&found, &Style::default()),
        page.clone(),
        markdown::diff(&found).replace('\\', ""),
        html::compare(&recording, &Footer::default()),
    ] {
        assert!(
            text.contains("do_writev") && text.contains("do_sendfile"),
            "{text}"
        );
    }
    assert!(page.contains(
        "only in nginx: .. &gt; ngx_process_events &gt; ngx_http_handler &gt; do_writev  10.0 "
    ));
    assert!(page.contains("only in h2o: "));
    assert_eq!(page.matches("<svg class=\"flame\"").count(), 4);
    assert!(!html::diff(&found, None).contains("class=\"flame\""));
}

/// A server against itself has no difference, and no frame that only one side has.
#[test]
fn nothing_differs_from_itself() {
    let recording = compared(small(), small());
    let found = functions(&recording);
    let same = |function: &FunctionDiff| function.change == DiffWord::NotDistinguishable;
    assert!(!found.is_empty() && found.iter().all(same));
    let page = html::compare(&recording, &Footer::default());
    assert!(!page.contains("only in nginx") && !page.contains("only in h2o"));
}

/// A page has a graph for the time on the CPU and one for the time off it, each with a name, and says where
/// names came from.
#[test]
fn pages_have_flame_graphs() {
    let page = html::profile(&with(small()), &Footer::default());
    assert_eq!(
        page.matches("<svg class=\"flame\" role=\"img\" aria-label=\"Flame graph of ")
            .count(),
        2
    );
    assert!(page.contains(
        "<title>do_writev ([kernel]): 500000.000 µs per second, 50% ± 6.9% of the on-CPU time;"
    ));
    assert!(page.contains("symbol table"));
    let without = html::profile(
        &profile_recording(profile(&nginx(), 1000.0)),
        &Footer::default(),
    );
    assert!(!without.contains("class=\"flame\""));
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z;: ]{0,12}",
        "(?s).{0,20}",
        "[<>&\"'\\]/!-]{0,20}",
        Just("\u{fffe}\u{ffff}\u{1b}[31m\0\u{202e}".to_owned()),
        Just("</title></svg><script>alert(1)</script>".to_owned()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever names hold, a picture is well-formed XML with the same elements as with harmless ones, and every
    /// line of folded text is a stack of as many frames.
    #[test]
    fn names_never_become_markup(names in proptest::collection::vec(any_text(), 3)) {
        let named = |names: &[String]| {
            let mut stacks = small();
            for (index, name) in names.iter().enumerate() {
                stacks.frames[index].name = Some(format!("f{index}{name}"));
                stacks.frames[index].module = Some(format!("m{name}"));
            }
            for stack in &mut stacks.on_cpu.stacks {
                stack.comm = format!("c{}", names[0]);
            }
            let mut recording = with(stacks);
            recording.arms[0].name = format!("a{}", names[1]);
            recording.rounds[0].arm.clone_from(&recording.arms[0].name);
            recording
        };
        let recording = named(&names);
        let elements = |recording: &Recording| {
            let picture = svg(recording).unwrap();
            let document = roxmltree::Document::parse(&picture).unwrap();
            let elements = document.descendants().filter(roxmltree::Node::is_element);
            elements.map(|node| node.tag_name().name().to_owned()).collect::<Vec<_>>()
        };
        // Notes wrap with the length of names, so only frames and what could run are counted.
        let count = |elements: &[String], name: &str| elements.iter().filter(|e| *e == name).count();
        let (hostile, harmless) = (elements(&recording), elements(&named(&[const { String::new() }; 3])));
        for name in ["svg", "title", "rect", "script", "style", "a", "image"] {
            prop_assert_eq!(count(&hostile, name), count(&harmless, name), "{}", name);
        }
        let text = folded(&recording, Time::OnCpu).unwrap();
        prop_assert!(text.chars().all(|c| c == '\n' || !c.is_control()));
        let depths: Vec<usize> = text.lines().map(|line| line.split(';').count()).collect();
        prop_assert_eq!(depths, [3, 4, 4, 5]);
    }

    /// Folded text read again has every stack with its time, to half a microsecond a line and in sum.
    #[test]
    fn folded_text_can_be_read_again(
        recorded in proptest::collection::vec((proptest::collection::vec(0_u32..5, 1..5), 0_u64..5_000_000), 0..20)
    ) {
        let names = ["a", "b;c", "d e", "7", "\n"];
        let frames = names.iter().map(|name| frame(name, "m")).collect();
        let all: Vec<Stack> = recorded
            .iter()
            .map(|(frames, ns)| Stack { ns: *ns, ..sampled("x", frames, 1) })
            .collect();
        let mut expected = std::collections::BTreeMap::<Vec<u32>, u64>::new();
        for (frames, ns) in &recorded {
            *expected.entry(frames.clone()).or_default() += ns;
        }
        let total: u64 = expected.values().sum();
        let text = folded(&with(stacks(frames, all)), Time::OnCpu);
        if total == 0 {
            prop_assert_eq!(text, Err(NoStacks::Empty));
            return Ok(());
        }
        let text = text.unwrap();
        let written = ["a", "b\\x3bc", "d e", "7", "\\n"];
        let mut sum_us = 0;
        for line in text.lines() {
            let (path, us) = line.rsplit_once(' ').unwrap();
            let us: u64 = us.parse().unwrap();
            sum_us += us;
            let path = path.strip_prefix("x;").unwrap().split(';');
            let path: Vec<u32> = path
                .map(|name| u32::try_from(written.iter().position(|known| *known == name).unwrap()).unwrap())
                .collect();
            let ns = expected.remove(&path).unwrap();
            prop_assert!((us * 1000).abs_diff(ns) <= 1000, "{} {}", us, ns);
        }
        prop_assert!(expected.values().all(|ns| *ns < 1000));
        prop_assert!((sum_us * 1000).abs_diff(total) <= 500);
    }
}
