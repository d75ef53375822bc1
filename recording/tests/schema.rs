//! The committed JSON Schema, and recordings of every schema version that must still load.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::fs;
use std::path::Path;

use recording::{Recording, SCHEMA, SchemaError, json_schema};
use serde_json::Value;

/// The schema in the repository is the one of the types; `WHYFAST_BLESS=1` rewrites the file.
#[test]
fn committed_schema_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("schema/whyfast-1.1.schema.json");
    let current = json_schema();
    if std::env::var_os("WHYFAST_BLESS").is_some_and(|value| value == "1") {
        fs::write(&path, &current).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == current,
        "recording/schema/whyfast-1.1.schema.json is not the schema of the types; if the change \
         only adds, rewrite it with: WHYFAST_BLESS=1 cargo test -p recording --test schema"
    );
}

/// The name of the committed file follows the version that is written.
#[test]
fn schema_file_is_named_after_the_version() {
    assert_eq!(SCHEMA, "whyfast/1.1");
}

/// Recordings of every schema load, are valid, and lose nothing when written again; what was added
/// since is "not measured" in them.
#[test]
fn recordings_of_every_schema_still_load() {
    let validator = validator();
    for json in FIXTURES_1_0.iter().chain(&FIXTURES_1_1) {
        let value: Value = serde_json::from_str(json).unwrap();
        let errors: Vec<String> = validator
            .iter_errors(&value)
            .map(|error| error.to_string())
            .collect();
        assert!(errors.is_empty(), "{errors:?}");
        let recording = Recording::parse(json.as_bytes()).unwrap();
        let again: Value = serde_json::from_str(&recording.to_json()).unwrap();
        assert_contains(&again, &value);
    }
}

/// A reader of this version ignores what a later minor version adds.
#[test]
fn unknown_members_are_ignored() {
    let mut value: Value = serde_json::from_str(FIXTURES_1_0[0]).unwrap();
    value["schema"] = "whyfast/1.7".into();
    value["rounds"][0]["weather"] = "rain".into();
    let recording = Recording::parse(value.to_string().as_bytes()).unwrap();
    assert_eq!(recording.schema, "whyfast/1.7");
}

/// The table of schemas in the documentation has what is written now, with the version that writes it.
#[test]
fn documentation_has_every_schema() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/recordings.md");
    let text = fs::read_to_string(path).unwrap();
    let row = format!("| `{SCHEMA}` | {} |", env!("CARGO_PKG_VERSION"));
    assert!(text.contains(&row), "docs/recordings.md lacks {row}");
    assert!(text.contains("| `whyfast/1.0` |"));
}

/// What is upgraded has the schema of today; that a newer version had more is said.
#[test]
fn upgrades_say_what_they_leave_out() {
    let old = Recording::parse(FIXTURES_1_0[0].as_bytes()).unwrap();
    let warnings = old.warnings.clone();
    let upgraded = old.upgraded();
    assert_eq!(
        (upgraded.schema.as_str(), &upgraded.warnings),
        (SCHEMA, &warnings)
    );
    assert_eq!(upgraded.clone().upgraded(), upgraded);
    let newer = Recording {
        schema: "whyfast/1.77".to_owned(),
        ..upgraded
    };
    let upgraded = newer.upgraded();
    assert_eq!(upgraded.schema, SCHEMA);
    assert!(
        upgraded
            .warnings
            .last()
            .unwrap()
            .text
            .contains("whyfast/1.77")
    );
}

/// A file that was cut off anywhere is refused, and says that it ends too early.
#[test]
fn cut_off_files_are_refused() {
    let json = FIXTURES_1_0[2];
    for at in (0..json.trim_end().len()).step_by(97) {
        let error = Recording::parse(&json.as_bytes()[..at]).unwrap_err();
        assert!(
            matches!(error, SchemaError::Truncated { .. }),
            "{at}: {error}"
        );
    }
}

/// Another major version and other JSON are refused with what was found.
#[test]
fn foreign_files_are_refused() {
    let mut value: Value = serde_json::from_str(FIXTURES_1_0[0]).unwrap();
    value["schema"] = "whyfast/2.0".into();
    let error = Recording::parse(value.to_string().as_bytes()).unwrap_err();
    assert!(matches!(&error, SchemaError::TooNew { found } if found == "whyfast/2.0"));
    let error = Recording::parse(b"{\"schema\": \"h2load\"}").unwrap_err();
    assert!(matches!(&error, SchemaError::Name { found } if found == "h2load"));
    assert!(matches!(
        Recording::parse(b"wrk 4.1").unwrap_err(),
        SchemaError::Json(_)
    ));
}

/// The schema has teeth: a wrong type, a missing member and an unknown word are invalid.
#[test]
fn schema_rejects_what_the_types_reject() {
    let validator = validator();
    let breaks: [fn(&mut Value); 3] = [
        |value| value["rounds"][0]["pair"] = "first".into(),
        |value| drop(value.as_object_mut().unwrap().remove("tool")),
        |value| value["rounds"][0]["probes"] = "maybe".into(),
    ];
    for change in breaks {
        let mut value: Value = serde_json::from_str(FIXTURES_1_0[0]).unwrap();
        change(&mut value);
        assert!(!validator.is_valid(&value));
        assert!(Recording::parse(value.to_string().as_bytes()).is_err());
    }
}

/// Everything that was in the file is in what is written again; later versions may add members.
fn assert_contains(again: &Value, value: &Value) {
    match (again, value) {
        (Value::Object(again), Value::Object(value)) => {
            for (name, value) in value {
                let again = again.get(name);
                assert_contains(again.unwrap_or_else(|| panic!("{name} was lost")), value);
            }
        }
        (Value::Array(again), Value::Array(value)) => {
            assert_eq!(again.len(), value.len());
            again
                .iter()
                .zip(value)
                .for_each(|(again, value)| assert_contains(again, value));
        }
        _ => assert_eq!(again, value, "a member was changed"),
    }
}

fn validator() -> jsonschema::Validator {
    let schema: Value = serde_json::from_str(&json_schema()).unwrap();
    jsonschema::validator_for(&schema).unwrap()
}

/// One recording per verb, written by schema 1.0. Never edited: a new version adds its own.
const FIXTURES_1_0: [&str; 3] = [
    include_str!("fixtures/compare-1.0.json"),
    include_str!("fixtures/load-1.0.json"),
    include_str!("fixtures/profile-1.0.json"),
];

/// The same, written by schema 1.1.
const FIXTURES_1_1: [&str; 3] = [
    include_str!("fixtures/compare-1.1.json"),
    include_str!("fixtures/load-1.1.json"),
    include_str!("fixtures/profile-1.1.json"),
];
