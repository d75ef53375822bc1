//! HTML reports in a real browser, headless Chromium: nothing is complained about, nothing is asked of a
//! network, everything has a name, and the verdict that the page computes is the program's.
//!
//! Without a browser the tests say so and add lines to the file that `WHYFAST_SKIP_LOG` names.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod devtools;
mod flame;

use std::collections::BTreeSet;
use std::io::Write as _;

use recording::{Probes, Recording, Round, RoundRole, Setting, VerdictWord, Warning};
use reports::{Footer, analyse, html};
use serde_json::{Value, json};

use devtools::Browser;

/// At every width and in both colour schemes: no message, no request, no text beyond the edge, and a
/// name for everything that can be reached or is a picture.
#[test]
fn pages_are_quiet_and_named() {
    let Some(mut browser) = browser("pages_are_quiet_and_named") else {
        return;
    };
    for page in pages() {
        for (scheme, width) in [("light", 1280), ("dark", 400)] {
            look(&mut browser, scheme, width);
            browser.open(&page);
            assert_eq!(complaints(&browser), Vec::<String>::new());
            assert_eq!(requests(&browser), Vec::<String>::new());
            let beyond =
                "document.documentElement.scrollWidth - document.documentElement.clientWidth";
            assert_eq!(browser.value(beyond), json!(0), "{scheme} {width}");
            assert_eq!(unnamed(&mut browser), Vec::<String>::new());
        }
    }
}

/// Rounds left out and another margin give what the program gives for the same rounds: every ratio and
/// interval, the word, and the sentence where one arm leads or both are equivalent.
#[test]
fn the_page_computes_what_the_program_does() {
    let Some(mut browser) = browser("the_page_computes_what_the_program_does") else {
        return;
    };
    let mut words = BTreeSet::new();
    // As recorded; the arm that needs less CPU time clearly faster; the other one clearly faster.
    for recording in [
        real(),
        with_speeds(9_000, 15_000),
        with_speeds(15_000, 9_000),
    ] {
        browser.open(&page(&recording));
        assert_eq!(browser.value(HIDDEN), json!(true));
        let cases: [(&[u32], f64); 4] = [
            (&[2], 0.02),
            (&[0, 3], 0.02),
            (&[1], 0.99),
            (&[0, 1, 2], 0.001),
        ];
        for (pairs, margin) in cases {
            let mut recording = recording.clone();
            recording.scenario.as_mut().unwrap().margin = margin;
            let orders = leave_out(&mut recording, pairs);
            analyse(&mut recording);
            set(&mut browser, &orders, margin);
            words.insert(compare_verdicts(&mut browser, &recording));
        }
        browser.value("document.getElementById('reset').click()");
        browser.value("new Promise((done) => setTimeout(done))");
        assert_eq!(browser.value(HIDDEN), json!(true));
    }
    assert_eq!(complaints(&browser), Vec::<String>::new());
    let expected = ["equivalent", "faster", "inconclusive", "mixed"];
    assert!(
        expected.iter().all(|word| words.contains(*word)),
        "{words:?}"
    );
}

/// Holds what the page shows against a verdict; returns the word of both.
fn compare_verdicts(browser: &mut Browser, recording: &Recording) -> String {
    let shown = browser.value("document.getElementById('recomputed').dataset.word");
    let verdict = recording.verdict.as_ref().unwrap();
    assert_eq!(shown, serde_json::to_value(verdict.word).unwrap());
    for row in recording.comparisons.iter().filter(|row| row.a != row.b) {
        let figures = computed(browser, &row.metric);
        close(&figures["ratio"], row.ratio);
        let (low, high) = row.interval.unwrap();
        close(&figures["interval"][0], low);
        close(&figures["interval"][1], high);
        assert_eq!(figures["pairs"], json!(row.pairs));
    }
    let text = browser.value("document.getElementById('recomputed-text').textContent");
    let told = text.as_str().unwrap();
    if verdict.word != VerdictWord::Inconclusive {
        assert!(told.starts_with(&verdict.text), "{told} | {}", verdict.text);
    }
    if verdict.text.contains('[') {
        assert!(
            told.contains(&interval_in(&verdict.text)),
            "{told} | {}",
            verdict.text
        );
    }
    shown.as_str().unwrap().to_owned()
}

/// Takes main rounds of the first arm out of every statistic; returns their places in the run.
fn leave_out(recording: &mut Recording, pairs: &[u32]) -> Vec<u32> {
    let first = recording.arms[0].name.clone();
    let rounds = recording.rounds.iter_mut();
    let doubted =
        rounds.filter(|round| is_main(round) && round.arm == first && pairs.contains(&round.pair));
    doubted
        .map(|round| {
            round.excluded = Some("a reader doubts it".to_owned());
            round.order
        })
        .collect()
}

fn is_main(round: &Round) -> bool {
    round.role == RoundRole::Main && round.probes == Probes::Off
}

/// The recorded comparison with other throughputs, in requests per second; all else is as it was.
fn with_speeds(first: u64, second: u64) -> Recording {
    let mut recording = real();
    let name = recording.arms[0].name.clone();
    for round in recording.rounds.iter_mut().filter(|round| is_main(round)) {
        let load = round.load.as_mut().unwrap();
        let rps = if round.arm == name { first } else { second } + 100 * u64::from(round.pair % 3);
        load.ledger.ok = rps * load.window.length_ns() / 1_000_000_000;
    }
    analyse(&mut recording);
    recording
}

/// A round is picked with the selector, and a bar opens to its evidence.
#[test]
fn charts_can_be_asked() {
    let Some(mut browser) = browser("charts_can_be_asked") else {
        return;
    };
    browser.open(&page(&real()));
    let shown =
        "[...document.querySelectorAll('.multiple')].filter((figure) => !figure.hidden).length";
    let all = browser.value(shown).as_u64().unwrap();
    assert!(all > 1, "{all}");
    browser.value(
        "(() => { const pick = document.getElementById('round-pick'); pick.selectedIndex = 2; \
         pick.dispatchEvent(new Event('change')); })()",
    );
    assert_eq!(browser.value(shown), json!(1));
    let visible = "document.querySelector('.waterfall details .behind table').checkVisibility()";
    assert_eq!(browser.value(visible), json!(false));
    browser.value("document.querySelector('.waterfall summary').focus()");
    for kind in ["keyDown", "keyUp"] {
        let key = json!({"type": kind, "key": "Enter", "code": "Enter", "text": "\r", "windowsVirtualKeyCode": 13});
        browser.call("Input.dispatchKeyEvent", &key);
    }
    assert_eq!(
        browser.value(visible),
        json!(true),
        "opens with the keyboard"
    );
}

/// What is saved from the page is the recording.
#[test]
fn the_recording_can_be_saved() {
    let Some(mut browser) = browser("the_recording_can_be_saved") else {
        return;
    };
    let recording = real();
    browser.open(&page(&recording));
    let folder = browser.folder().to_owned();
    let allow = json!({"behavior": "allow", "downloadPath": folder, "eventsEnabled": true});
    browser.call("Page.setDownloadBehavior", &allow);
    browser.value("document.getElementById('save').click()");
    loop {
        let event = browser.wait_for("Page.downloadProgress");
        if event["state"] == "completed" {
            break;
        }
        assert_ne!(event["state"], "canceled");
        browser.events.clear();
    }
    let saved = std::fs::read_dir(&folder).unwrap().find_map(|entry| {
        let path = entry.unwrap().path();
        let json = path
            .extension()
            .is_some_and(|extension| extension == "json");
        json.then(|| std::fs::read(path).unwrap())
    });
    assert!(Recording::parse(&saved.unwrap()).unwrap() == recording);
}

/// Without scripts everything that is said is there: the verdict, gates, figures, rounds, all pictures.
#[test]
fn pages_work_without_scripts() {
    let Some(mut browser) = browser("pages_work_without_scripts") else {
        return;
    };
    let recording = real();
    browser.call(
        "Emulation.setScriptExecutionDisabled",
        &json!({"value": true}),
    );
    browser.open(&page(&recording));
    assert_eq!(complaints(&browser), Vec::<String>::new());
    let text = browser.value("document.querySelector('main').textContent");
    let text = text.as_str().unwrap();
    let verdict = &recording.verdict.as_ref().unwrap().text;
    assert!(text.contains(&interval_in(verdict)), "{text}");
    for gate in &recording.gates {
        assert!(text.contains(&gate.id), "{} is missing", gate.id);
    }
    let hidden =
        "[...document.querySelectorAll('.multiple')].filter((figure) => figure.hidden).length";
    assert_eq!(browser.value(hidden), json!(0));
}

/// Names, headers, settings and warnings with markup in them stay text: nothing runs, nothing is added to
/// the page, nothing is fetched.
#[test]
fn hostile_text_does_nothing() {
    let Some(mut browser) = browser("hostile_text_does_nothing") else {
        return;
    };
    let plain = elements(&mut browser, &real());
    let mut recording = real();
    let old = recording.arms[1].name.clone();
    for round in recording.rounds.iter_mut().filter(|round| round.arm == old) {
        HOSTILE.clone_into(&mut round.arm);
    }
    let arm = &mut recording.arms[1];
    HOSTILE.clone_into(&mut arm.name);
    arm.version = Some(HOSTILE.to_owned());
    for Setting { key: _, value } in &mut arm.settings {
        HOSTILE.clone_into(value);
    }
    for file in &mut arm.config {
        file.text = format!("{HOSTILE}\n").repeat(file.text.lines().count());
    }
    for (_, value) in &mut arm.response.as_mut().unwrap().headers {
        HOSTILE.clone_into(value);
    }
    recording.warnings.push(Warning {
        code: "hostile".to_owned(),
        text: HOSTILE.to_owned(),
    });
    HOSTILE.clone_into(&mut recording.host.hostname);
    recording.command.push(HOSTILE.to_owned());
    analyse(&mut recording);
    let hostile = elements(&mut browser, &recording);
    assert_eq!(browser.value("typeof window.ran"), json!("undefined"));
    assert_eq!(requests(&browser), Vec::<String>::new());
    assert_eq!(complaints(&browser), Vec::<String>::new());
    for kind in [
        "SCRIPT", "STYLE", "LINK", "IMG", "IFRAME", "BASE", "META", "A", "FORM",
    ] {
        assert_eq!(hostile[kind], plain[kind], "{kind}");
    }
    // And when the script puts it into the page.
    set(&mut browser, &[recording.rounds[0].order], 0.05);
    assert_eq!(browser.value("typeof window.ran"), json!("undefined"));
    assert_eq!(
        browser.value("document.querySelectorAll('#recomputed img, #recomputed script').length"),
        json!(0)
    );
}

fn browser(test: &str) -> Option<Browser> {
    let browser = Browser::start();
    if browser.is_none() {
        let line = format!("{test}\tneeds chromium\n");
        match std::env::var_os("WHYFAST_SKIP_LOG") {
            Some(path) => {
                let log = std::fs::OpenOptions::new()
                    .append(true)
                    .create(true)
                    .open(path);
                log.unwrap().write_all(line.as_bytes()).unwrap();
            }
            None => std::io::stdout()
                .write_all(format!("SKIPPED {line}").as_bytes())
                .unwrap(),
        }
    }
    browser
}

/// The recorded comparison, analysed.
fn real() -> Recording {
    let mut recording = Recording::parse(REAL.as_bytes()).unwrap();
    analyse(&mut recording);
    recording
}

fn page(recording: &Recording) -> String {
    html::compare(recording, &Footer::default())
}

/// A page of every kind.
fn pages() -> Vec<String> {
    let mut lock_step = Recording::parse(LOCK_STEP.as_bytes()).unwrap();
    analyse(&mut lock_step);
    let profile = Recording::parse(PROFILE.as_bytes()).unwrap();
    let mut load = real();
    load.kind = recording::RecordingKind::Load;
    vec![
        page(&real()),
        page(&lock_step),
        html::profile(&profile, &Footer::default()),
        html::load(&load, &Footer::default()),
        html::profile(&flame::sampled(), &Footer::default()),
        html::table("doctor", "a machine", ["check", "found"], &[["a", "b"]]),
    ]
}

fn look(browser: &mut Browser, scheme: &str, width: u32) {
    let size = json!({"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": false});
    browser.call("Emulation.setDeviceMetricsOverride", &size);
    let media = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
    browser.call("Emulation.setEmulatedMedia", &media);
}

/// Everything on the console, every exception, and whatever the policy refused.
fn complaints(browser: &Browser) -> Vec<String> {
    let told = [
        "Runtime.consoleAPICalled",
        "Runtime.exceptionThrown",
        "Log.entryAdded",
    ];
    let events = browser.events.iter();
    events
        .filter(|event| told.iter().any(|name| event["method"] == *name))
        .map(Value::to_string)
        .collect()
}

/// Requests for anything but the file itself and what is written in it.
fn requests(browser: &Browser) -> Vec<String> {
    let events = browser.events.iter();
    events
        .filter(|event| event["method"] == "Network.requestWillBeSent")
        .map(|event| {
            event["params"]["request"]["url"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .filter(|url| !url.ends_with("/report.html") && !url.starts_with("data:"))
        .collect()
}

/// Whatever can be reached or is a picture and has no name for those who do not see it.
fn unnamed(browser: &mut Browser) -> Vec<String> {
    let tree = browser.call("Accessibility.getFullAXTree", &json!({}));
    let roles = [
        "button",
        "checkbox",
        "combobox",
        "image",
        "img",
        "link",
        "region",
        "spinbutton",
        "table",
        "textbox",
        "DisclosureTriangle",
        "figure",
    ];
    let nodes = tree["nodes"].as_array().unwrap();
    assert!(nodes.len() > 20, "{} nodes", nodes.len());
    nodes
        .iter()
        .filter(|node| node["ignored"] == json!(false))
        .filter(|node| roles.iter().any(|role| node["role"]["value"] == *role))
        .filter(|node| {
            node["name"]["value"]
                .as_str()
                .is_none_or(|name| name.trim().is_empty())
        })
        .map(|node| format!("{} {}", node["role"]["value"], node["backendDOMNodeId"]))
        .collect()
}

/// Leaves rounds out and sets the margin, as a reader does.
fn set(browser: &mut Browser, orders: &[u32], margin: f64) {
    let script = format!(
        "(() => {{ const out = {orders:?}; \
         for (const box of document.querySelectorAll('#rounds-table input')) {{ \
           box.checked = !out.includes(Number(box.value)); }} \
         const margin = document.getElementById('margin'); margin.value = '{}'; \
         margin.dispatchEvent(new Event('input', {{bubbles: true}})); }})()",
        margin * 100.0
    );
    browser.value(&script);
}

/// What the page computed of a metric: the table has it with all its digits.
fn computed(browser: &mut Browser, metric: &str) -> Value {
    let script = format!(
        "(() => {{ const row = document.querySelector('#recomputed-table tr[data-metric={metric}]'); \
         return JSON.parse(row.dataset.figures); }})()"
    );
    browser.value(&script)
}

/// The interval and the level of a verdict, as printed.
fn interval_in(text: &str) -> String {
    let from = text.find('[').unwrap();
    let to = text[from..].find(']').unwrap();
    text[from..=from + to].to_owned()
}

fn close(shown: &Value, expected: f64) {
    let shown = shown.as_f64().unwrap();
    assert!((shown / expected - 1.0).abs() < 1e-12, "{shown} {expected}");
}

/// How many elements of each kind the page of a recording has.
fn elements(browser: &mut Browser, recording: &Recording) -> Value {
    browser.open(&page(recording));
    browser.value(
        "(() => { const counts = {}; for (const element of document.querySelectorAll('*')) { \
         counts[element.tagName] = (counts[element.tagName] ?? 0) + 1; } return counts; })()",
    )
}

/// Whether the page shows no verdict of its own.
const HIDDEN: &str = "document.getElementById('recomputed').hidden";
/// Would set a variable in any of the ways in which text becomes markup.
const HOSTILE: &str = "</td></title></script><script>window.ran=1</script><img src=x onerror='window.ran=1'>\
                       \" onload=\"window.ran=1\"><a href=javascript:window.ran=1>x</a><!--";
const REAL: &str = include_str!("../fixtures/compare-nginx-h2o.json");
const LOCK_STEP: &str = include_str!("../fixtures/lock-step-nginx-h2o.json");
const PROFILE: &str = include_str!("../fixtures/profile-sh-cat.json");
