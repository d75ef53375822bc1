//! Reads the fingerprint: what a result depends on besides the code of the servers. What cannot be read
//! is a fact without a value, with the reason.

mod build_id;
mod machine;
mod server;

use std::io::ErrorKind;
use std::path::Path;

use recording::{Fact, FactWeight};

pub(crate) use machine::machine;
pub(crate) use server::{processes, server};

/// A fact from a text of the kernel.
fn fact(key: &str, weight: FactWeight, path: &Path) -> Fact {
    match read(path) {
        Ok(text) => Fact::known(key, weight, text),
        Err(why) => Fact::unknown(key, weight, why),
    }
}

/// A text of the kernel on one line, or why there is none.
fn read(path: &Path) -> Result<String, String> {
    match std::fs::read(path) {
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes);
            let words: Vec<&str> = text.split_whitespace().collect();
            Ok(words.join(" "))
        }
        Err(error) => Err(unreadable(path, &error)),
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> String {
    let path = path.display();
    match error.kind() {
        ErrorKind::NotFound => format!("there is no {path} here"),
        ErrorKind::PermissionDenied => format!("{path} may be read by root alone"),
        _ => format!("{path}: {error}"),
    }
}
