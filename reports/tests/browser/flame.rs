//! Flame graphs in a browser.

use recording::{Frame, FrameSide, Recording, Stack, StackClock, StackSet, Stacks};
use reports::{Footer, html};
use serde_json::json;

use crate::devtools::Browser;
use crate::{PROFILE, browser, complaints};

/// A frame is picked and widened with the keyboard: what is around it fills the picture, what is beside it goes,
/// and everything comes back.
#[test]
fn flame_graphs_can_be_asked() {
    let Some(mut browser) = browser("flame_graphs_can_be_asked") else {
        return;
    };
    browser.open(&html::profile(&sampled(), &Footer::default()));
    browser.value("document.querySelector('.flames').focus()");
    // Up to the threads, to the outermost function, to its widest callee; then as wide as the picture.
    for key in ["ArrowUp", "ArrowUp", "ArrowUp", "Enter"] {
        press(&mut browser, key);
    }
    let told = browser.value("document.querySelector('.flame-told').textContent");
    assert!(
        told.as_str().unwrap().starts_with("send (server): "),
        "{told}"
    );
    let widths = "[...document.querySelector('.flame').children].map((frame) => \
                  frame.hasAttribute('hidden') ? '' : frame.getAttribute('width'))";
    let full = "100.000%";
    // All, threads, main, parse, send, writev.
    assert_eq!(
        browser.value(widths),
        json!([full, full, full, "", full, "50.000%"])
    );
    press(&mut browser, "Escape");
    assert_eq!(
        browser.value(widths),
        json!([full, full, full, "20.000%", "80.000%", "40.000%"])
    );
    assert_eq!(complaints(&browser), Vec::<String>::new());
}

fn press(browser: &mut Browser, key: &str) {
    for kind in ["keyDown", "keyUp"] {
        browser.call(
            "Input.dispatchKeyEvent",
            &json!({"type": kind, "key": key, "code": key}),
        );
    }
}

/// A profile with stacks: `main` calls `parse` in 20 and `send` in 80 of 100 samples, half of the latter in the
/// kernel.
pub(crate) fn sampled() -> Recording {
    let mut recording = Recording::parse(PROFILE.as_bytes()).unwrap();
    let frame = |name: &str, side| Frame {
        name: Some(name.to_owned()),
        module: Some("server".to_owned()),
        offset: None,
        side,
    };
    let stack = |frames: &[u32], count: u64| Stack {
        comm: "server".to_owned(),
        frames: frames.to_vec(),
        count,
        ns: count * 10_000_000,
        ends_early: false,
    };
    let of = |stacks: Vec<Stack>| StackSet {
        stacks,
        lost: 1,
        lost_ns: None,
    };
    let profile = recording.rounds[0].profile.as_mut().unwrap();
    profile.stacks = Some(Stacks {
        clock: StackClock::CpuClock,
        hz: 100,
        frames: vec![
            frame("main", FrameSide::User),
            frame("parse", FrameSide::User),
            frame("send", FrameSide::User),
            frame("writev", FrameSide::Kernel),
        ],
        on_cpu: of(vec![
            stack(&[0, 2, 3], 40),
            stack(&[0, 2], 40),
            stack(&[0, 1], 20),
        ]),
        off_cpu: Some(of(vec![stack(&[0, 3], 5)])),
        modules: Vec::new(),
    });
    recording
}
