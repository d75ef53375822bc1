//! Screens and keys, on a terminal in memory.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use recording::{
    Abi, CallTime, Detail, Group, GroupBy, GroupCall, Lost, ProfileSlice, SliceCall, SliceWait,
    Window,
};
use reports::slices::SliceOrder;

use super::super::keys::Key;
use super::super::model::{About, Answer, Model, Page};
use super::*;

/// A second in which two processes served 1,000 requests.
fn slice() -> ProfileSlice {
    let split = |on_cpu_ns, off_cpu_ns| {
        Some(CallTime {
            on_cpu_ns,
            off_cpu_ns,
            run_queue_ns: 0,
            sleeps: None,
        })
    };
    let call = |name: &str, count, errors, on_ns: u64, off_ns: u64| SliceCall {
        abi: Abi::X86_64,
        name: name.into(),
        on: None,
        count,
        errors,
        bytes: None,
        ns_total: Some(count * (on_ns + off_ns)),
        split: split(count * on_ns, count * off_ns),
    };
    let group = |id, comm: &str, count| Group {
        id: Some(id),
        pid: Some(id),
        comm: Some(comm.into()),
        calls: vec![GroupCall {
            abi: Abi::X86_64,
            name: "recvfrom".into(),
            on: None,
            count,
            errors: 0,
            bytes: None,
            ns_total: Some(count * 2_000),
            split: split(count * 2_000, 0),
        }],
        outside: split(1_000_000, 0),
    };
    ProfileSlice {
        window: Window {
            start_ns: 3_000_000_000,
            end_ns: 4_000_000_000,
        },
        calls: vec![
            call("epoll_wait", 500, 0, 1_000, 1_500_000),
            call("recvfrom", 2_000, 1_000, 2_000, 0),
            call("writev", 1_000, 0, 20_000, 0),
        ],
        waits: vec![SliceWait {
            abi: Abi::X86_64,
            name: "epoll_wait".into(),
            wakes: 500,
            events: 1_000,
            timeouts: 0,
        }],
        groups: vec![
            group(12, "nginx", 700),
            group(13, "\u{1b}]0;pwned\u{7}\u{202e}漢字", 1_300),
        ],
        threads: None,
        network: None,
        lost: Lost::default(),
    }
}

fn model(by: Option<GroupBy>) -> Model {
    let mut model = Model::new(About {
        target: "unit nginx".into(),
        detail: Detail::Sched,
        by,
        can_return: true,
    });
    model.count_processes(2);
    model.take(slice());
    model
}

fn press(model: &mut Model, keys: &[Key]) {
    for &key in keys {
        assert_eq!(model.press(key), Answer::Stay, "{key:?}");
    }
}

fn type_text(model: &mut Model, text: &str) {
    for character in text.chars() {
        press(model, &[Key::Char(character)]);
    }
}

/// What a terminal of this size shows, without the blanks at the ends of its lines.
fn screen(model: &mut Model, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal
        .draw(|frame| draw(model, frame.area(), frame.buffer_mut()))
        .unwrap();
    let text = to_text(terminal.backend().buffer());
    text.lines().map(str::to_owned).collect()
}

fn names(model: &Model) -> Vec<String> {
    model.rows().into_iter().map(|row| row.name).collect()
}

/// The calls on a screen of 80 by 24, busiest first.
#[test]
fn calls_at_80_by_24() {
    let shown = screen(&mut model(None), 80, 24);
    assert_eq!(shown.len(), 24);
    assert_eq!(
        shown[..7],
        [
            " unit nginx 2 processes  1 s  sched",
            " 3,500 calls/s  1,000 errors/s",
            " call                           calls/s errors/s  inside  on CPU off CPU ev/wake",
            " writev                           1,000        0  20.0us  20.0us     0ns       -",
            " recvfrom                         2,000    1,000  2.00us  2.00us     0ns       -",
            " epoll_wait                       500.0        0  1.50ms  1.00us  1.50ms    2.00",
            "",
        ]
    );
    assert_eq!(
        shown[23],
        " q quit  s sort: busiest  / filter  p pause  ? help"
    );
}

/// A narrow screen keeps names and leaves figures out from the right, never half a figure.
#[test]
fn narrow_screens_leave_figures_out() {
    let shown = screen(&mut model(None), 40, 6);
    assert_eq!(
        shown[2..5],
        [
            " call                   calls/s errors/s",
            " writev                   1,000        0",
            " recvfrom                 2,000    1,000",
        ]
    );
    let shown = screen(&mut model(None), 12, 6);
    assert_eq!(shown[2..4], [" call", " writev"]);
}

/// Groups are told by number and name; a name cannot steer the terminal, nor shift the columns.
#[test]
fn hostile_names_are_cleaned() {
    let mut model = model(Some(GroupBy::Process));
    let shown = screen(&mut model, 80, 24);
    assert_eq!(
        shown[2..5],
        [
            " process                        calls/s errors/s  inside  on CPU off CPU ev/wake",
            " 13 \\x1b]0;pwned\\x07\\u{202e}      1,300        0  2.00us  2.77us     0ns       -",
            " 12 nginx                         700.0        0  2.00us  3.43us     0ns       -",
        ]
    );
    let all: String = shown.concat() + &text(&model);
    assert!(!all.chars().any(|c| c.is_control() && c != '\n'));
}

/// Every size, none included, is drawn without harm, on every page and with the help.
#[test]
fn every_size() {
    for by in [None, Some(GroupBy::Thread)] {
        let mut model = model(by);
        model.about.target = "漢字".repeat(40);
        for keys in [&[][..], &[Key::Char('?')], &[Key::Escape, Key::Char('/')]] {
            press(&mut model, keys);
            for (width, height) in [(0, 0), (1, 1), (0, 9), (9, 0), (2, 2), (3, 4), (500, 1)] {
                let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
                draw(&mut model, buffer.area, &mut buffer);
                assert_eq!(buffer.area, Rect::new(0, 0, width, height));
                // A terminal that has become smaller than what was asked for.
                draw(&mut model, Rect::new(0, 0, 80, 24), &mut buffer);
            }
        }
    }
}

/// `s` goes through the orders and comes back, `S` the other way; the first row is theirs.
#[test]
fn sort_keys() {
    let mut model = model(None);
    let mut first = Vec::new();
    for _ in SliceOrder::ALL {
        press(&mut model, &[Key::Char('s')]);
        first.push((model.order.word(), names(&model)[0].clone()));
    }
    assert_eq!(
        first,
        [
            ("calls/s", "recvfrom"),
            ("errors/s", "recvfrom"),
            ("time inside", "epoll_wait"),
            ("events/wake", "epoll_wait"),
            ("name", "epoll_wait"),
            ("busiest", "writev"),
        ]
        .map(|(order, name)| (order, name.to_owned()))
    );
    press(&mut model, &[Key::Char('S')]);
    assert_eq!(model.order, SliceOrder::Name);
}

/// What is typed after `/` filters as it is typed, `q` included; Enter keeps it, Esc clears it.
#[test]
fn filter() {
    let mut model = model(None);
    press(&mut model, &[Key::Char('/')]);
    type_text(&mut model, "EV");
    assert_eq!(names(&model), ["writev"]);
    let shown = screen(&mut model, 80, 24);
    assert_eq!(shown[23], " filter: EV_   Enter keeps it, Esc clears it");
    type_text(&mut model, "q");
    assert!(names(&model).is_empty());
    let shown = screen(&mut model, 80, 24);
    assert_eq!(shown[3], " nothing matches the filter; Esc clears it");
    press(&mut model, &[Key::Backspace, Key::Enter]);
    assert!(!model.is_typing);
    assert_eq!(names(&model), ["writev"]);
    assert!(screen(&mut model, 80, 24)[0].ends_with("filter: EV"));
    press(&mut model, &[Key::Escape]);
    assert_eq!(names(&model).len(), 3);
}

/// While it is paused the screen stays, and then shows the latest.
#[test]
fn pause() {
    let mut model = model(None);
    press(&mut model, &[Key::Char('p')]);
    let before = screen(&mut model, 80, 24);
    assert!(before[0].ends_with("PAUSED"), "{}", before[0]);
    let mut later = slice();
    later.calls.truncate(1);
    later.window.start_ns += 1_000_000_000;
    later.window.end_ns += 1_000_000_000;
    model.take(later.clone());
    assert_eq!(screen(&mut model, 80, 24), before);
    press(&mut model, &[Key::Char(' ')]);
    model.take(later);
    assert_eq!(names(&model), ["epoll_wait"]);
    assert!(screen(&mut model, 80, 24)[0].contains("  2 s  "));
}

/// The help lies over the screen and goes with any key, which does nothing else.
#[test]
fn help_overlay() {
    let mut model = model(None);
    press(&mut model, &[Key::Char('?')]);
    let shown = screen(&mut model, 80, 24).concat();
    assert!(shown.contains("help: any key closes") && shown.contains("--by process"));
    press(&mut model, &[Key::Char('q')]);
    assert!(!model.has_help);
    assert_eq!(model.press(Key::Char('q')), Answer::Leave);
}

/// Into a process and back: its own calls, and the mark stays on a row.
#[test]
fn groups_open() {
    let mut model = model(Some(GroupBy::Process));
    press(&mut model, &[Key::Down, Key::Down, Key::End]);
    assert_eq!(model.marked, 1);
    press(&mut model, &[Key::Enter]);
    assert_eq!(model.page, Page::Group("12 nginx".into()));
    assert_eq!(names(&model), ["recvfrom"]);
    assert!(screen(&mut model, 80, 24)[0].ends_with("in 12 nginx"));
    press(&mut model, &[Key::Escape]);
    assert_eq!(model.page, Page::Groups);
    press(&mut model, &[Key::Char('g')]);
    assert_eq!(names(&model).len(), 3);
    press(&mut model, &[Key::Tab]);
    assert_eq!(model.page, Page::Groups);
}

/// Ctrl-C ends, also while something is typed.
#[test]
fn interrupt_key() {
    let mut model = model(None);
    press(&mut model, &[Key::Char('/')]);
    assert_eq!(model.press(Key::Interrupt), Answer::Leave);
}

/// With more rows than lines the marked one is always in view, by whole screens too.
#[test]
fn long_lists_scroll() {
    let mut model = model(None);
    let mut many = slice();
    let call = many.calls[1].clone();
    many.calls = (0..100)
        .map(|number| SliceCall {
            name: format!("call_{number:02}"),
            ..call.clone()
        })
        .collect();
    model.take(many);
    screen(&mut model, 80, 24);
    // Two lines above, the heading, and the keys.
    assert_eq!(model.page_rows, 20);
    press(&mut model, &[Key::PageDown, Key::Down]);
    assert_eq!(model.marked, 21);
    let shown = screen(&mut model, 80, 24);
    assert!(shown.iter().any(|line| line.starts_with(" call_21 ")));
    press(&mut model, &[Key::Home, Key::Up]);
    assert_eq!(model.marked, 0);
}

/// What is left on the terminal has the figures of the last screen and none of its keys.
#[test]
fn text_that_is_left() {
    let mut model = model(None);
    let shown = screen(&mut model, 80, 24);
    let text = text(&model);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines, shown[..6]);
}

/// Before the first slice, and without a process, the screen says so.
#[test]
fn nothing_yet() {
    let mut model = Model::new(About {
        target: "port 80".into(),
        detail: Detail::Times,
        by: None,
        can_return: true,
    });
    let shown = screen(&mut model, 80, 24);
    assert_eq!(
        shown[..2],
        [
            " port 80 no process: waiting for it to come back  0 s  times",
            " the first figures are being counted"
        ]
    );
    assert_eq!(names(&model), Vec::<String>::new());
}
