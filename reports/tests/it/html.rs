//! Pages for the browser: their size, their policy, and that no text of others becomes markup. What a
//! browser makes of them is tested in `tests/browser`.

use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use recording::{Recording, Warning};
use reports::{Footer, analyse, html};
use sha2::{Digest as _, Sha256};

use crate::fixture::{comparison, h2o, load_recording, nginx, profile, profile_recording};
use crate::flame;

/// Every kind of recording has a page that says what the other formats say, the recording inside.
#[test]
fn pages_carry_their_recording() {
    let mut compared = comparison(&[nginx(), h2o()], 8);
    analyse(&mut compared);
    let page = html::compare(&compared, &Footer::default());
    assert!(page.contains("nginx 1.332 times as fast as h2o  [1.326, 1.338] 99% CI, 8 pairs"));
    assert!(inside(&page) == compared);
    let profiled = profile_recording(profile(&nginx(), 100_000.0));
    let page = html::profile(&profiled, &Footer::default());
    assert!(page.contains("312,500 calls/s") && inside(&page) == profiled);
    let loaded = load_recording();
    let page = html::load(&loaded, &Footer::default());
    assert!(page.contains("69,400 req/s") && inside(&page) == loaded);
}

/// The policy names the hashes of the one style and the one script that are there, and allows nothing else.
#[test]
fn the_policy_fits_the_page() {
    let page = html::load(&load_recording(), &Footer::default());
    let text_of = |open: &str, close: &str| {
        let from = page.find(open).unwrap() + open.len();
        &page[from..from + page[from..].find(close).unwrap()]
    };
    let hash = |text: &str| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)));
    let policy = text_of("Content-Security-Policy\" content=\"", "\"");
    assert_eq!(
        policy,
        format!(
            "default-src 'none'; script-src {}; style-src {}; img-src data:; base-uri 'none'; form-action 'none'",
            hash(text_of("<script>", "</script>")),
            hash(text_of("<style>", "</style>"))
        )
    );
    assert!(
        !page.contains(" style=\"")
            && !page.contains("javascript:")
            && !page.contains("http-equiv=\"refresh")
    );
}

/// Two arms and twenty pairs of a real comparison stay below 1.5 MB, also with rounds of ten seconds; what
/// had to be left out of the copy inside is said, and the verdict follows from what is left.
#[test]
fn twenty_pairs_fit_into_a_mail() {
    let mut recording = Recording::parse(REAL.as_bytes()).unwrap();
    let original = recording.rounds.clone();
    let pairs = original.iter().map(|round| round.pair).max().unwrap() + 1;
    for copy in 1..20_u32.div_ceil(pairs) {
        recording
            .rounds
            .extend(original.iter().cloned().map(|mut round| {
                round.pair += copy * pairs;
                round.order += copy * u32::try_from(original.len()).unwrap();
                round
            }));
    }
    recording.rounds.retain(|round| round.pair < 20);
    analyse(&mut recording);
    assert_eq!(recording.comparisons[0].pairs, 20);
    let page = html::compare(&recording, &Footer::default());
    assert!(page.len() <= 1_500_000, "{} bytes", page.len());
    for (round, seed) in recording.rounds.iter_mut().zip(1_u32..) {
        let load = round.load.as_mut().unwrap();
        // Ten seconds in milliseconds, as unlike each other as figures of a run are.
        let mut state = seed;
        let mut draw = |_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            60 + (state >> 27)
        };
        load.timeline.completed = (0..10_000).map(&mut draw).collect();
    }
    analyse(&mut recording);
    let page = html::compare(&recording, &Footer::default());
    assert!(page.len() <= 1_500_000, "{} bytes", page.len());
    assert!(page.contains("Not in that copy: "));
    let mut copy = inside(&page);
    assert_eq!(copy.not_measured.len(), recording.not_measured.len() + 1);
    analyse(&mut copy);
    assert_eq!(copy.verdict, recording.verdict);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever names, headers, paths, settings and messages hold, the page has the same elements and the
    /// same attributes as with harmless ones.
    #[test]
    fn text_never_becomes_markup(text in prop_oneof![
        "(?s).{0,40}",
        "[<>&\"'/!=a-z -]{0,60}",
        "</(script|style|td|title|svg|pre)><(script|img src=x onerror|iframe|base)=?>",
        "<!--|-->|]]>|\\\\u003c",
    ]) {
        let harmless = skeleton(&page_with("harmless"));
        prop_assert_eq!(skeleton(&page_with(&text)), harmless);
    }
}

/// A page with a text in every place that others fill.
fn page_with(text: &str) -> String {
    let mut recording = comparison(&[nginx(), h2o()], 3);
    let own = |what: &str| format!("{what} {text}");
    for round in &mut recording.rounds {
        round.arm = own(&round.arm);
        let load = round.load.as_mut().unwrap();
        load.url = own(&load.url);
        load.ended_early = Some(own("ended"));
        if let Some(profile) = &mut round.profile {
            for call in &mut profile.calls {
                call.name = own(&call.name);
            }
            let mut stacks = flame::small();
            for frame in &mut stacks.frames {
                frame.name = frame.name.as_deref().map(own);
                frame.module = frame.module.as_deref().map(own);
            }
            for stack in &mut stacks.on_cpu.stacks {
                stack.comm = own(&stack.comm);
            }
            stacks.modules[0].name = own("module");
            profile.stacks = Some(stacks);
        }
    }
    recording.rounds[5].failed = Some(own("failed"));
    for arm in &mut recording.arms {
        arm.name = own(&arm.name);
        arm.spec = own(&arm.spec);
        arm.version = Some(own("1.0"));
        arm.command = vec![own("run")];
        for setting in &mut arm.settings {
            setting.key = own(&setting.key);
            setting.value = own(&setting.value);
        }
        for file in &mut arm.config {
            // A line break would make a line more, which is an element more in a diff.
            let line = text.replace(['\r', '\n'], " ");
            file.text = format!("listen {line};\nroot {line};\n");
        }
        for (name, value) in &mut arm.response.as_mut().unwrap().headers {
            *value = own(&*name);
        }
    }
    recording.host.hostname = own("host");
    recording.host.kernel = own("kernel");
    recording.command = vec![own("whyfast")];
    recording.warnings = vec![Warning {
        code: "w".to_owned(),
        text: own("warning"),
    }];
    recording.scenario.as_mut().unwrap().name = own("scenario");
    analyse(&mut recording);
    let end = Footer {
        saved: Vec::new(),
        reproduce: Some(own("whyfast compare")),
    };
    html::compare(&recording, &end)
}

/// The tags of a page with the names of their attributes, as a parser that knows of quotes and of raw text
/// sees them; where text can be between the quotes, only that there is some.
fn skeleton(page: &str) -> Vec<String> {
    let mut tags = Vec::new();
    let mut rest = page;
    while let Some(at) = rest.find('<') {
        let tag = &rest[at..];
        let mut quoted = false;
        let end = tag
            .char_indices()
            .find(|(_, character)| {
                quoted ^= *character == '"';
                *character == '>' && !quoted
            })
            .map_or(tag.len(), |(end, _)| end + 1);
        let outside: Vec<&str> = tag[..end].split('"').step_by(2).collect();
        tags.push(outside.join("\"\""));
        rest = &tag[end..];
        for raw in ["script", "style"] {
            if tag.starts_with(&format!("<{raw}")) {
                rest = &rest[rest.find(&format!("</{raw}")).unwrap()..];
            }
        }
    }
    tags
}

/// The recording in a page, as a reader without a browser gets it out.
fn inside(page: &str) -> Recording {
    let open = "<script id=\"recording\" type=\"text/plain\"";
    let from = page.find(open).unwrap();
    let text = &page[from..from + page[from..].find("</script>").unwrap()];
    let packed = STANDARD
        .decode(&text[text.find('>').unwrap() + 1..])
        .unwrap();
    let mut json = Vec::new();
    flate2::read::GzDecoder::new(packed.as_slice())
        .read_to_end(&mut json)
        .unwrap();
    Recording::parse(&json).unwrap()
}

const REAL: &str = include_str!("../fixtures/compare-nginx-h2o.json");
