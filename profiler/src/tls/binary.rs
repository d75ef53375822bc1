//! What a file says about TLS: functions that can be probed, and traces of libraries that are part of it.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use memchr::memmem;
use object::{Object as _, ObjectSection as _, ObjectSegment as _, ObjectSymbol as _, ReadCache};
use profiler_common::TLS_FUNCTIONS;

use crate::source::Probed;

/// The functions of the table that the file defines.
pub(super) fn functions(path: &Path) -> io::Result<Vec<Probed>> {
    let cache = ReadCache::new(File::open(path)?);
    let file = object::File::parse(&cache).map_err(io::Error::other)?;
    let mut found: Vec<Probed> = Vec::new();
    for symbol in file.dynamic_symbols().chain(file.symbols()) {
        if !symbol.is_definition() || symbol.kind() != object::SymbolKind::Text {
            continue;
        }
        let Ok(name) = symbol.name() else { continue };
        let Some(cookie) = (0..).zip(TLS_FUNCTIONS).find_map(|(cookie, function)| {
            // A symbol may carry its version.
            let is_it = name.split('@').next() == Some(function);
            is_it.then_some(cookie)
        }) else {
            continue;
        };
        let Some(file_offset) = file_offset(&file, symbol.address()) else {
            continue;
        };
        if found.iter().all(|known| known.cookie != cookie) {
            found.push(Probed {
                cookie,
                file_offset,
            });
        }
    }
    found.sort_by_key(|function| function.cookie);
    Ok(found)
}

/// Whether the file was made by Go's linker.
pub(super) fn is_go(path: &Path) -> bool {
    let Ok(file) = File::open(path) else {
        return false;
    };
    let cache = ReadCache::new(file);
    object::File::parse(&cache).is_ok_and(|file| {
        let mut sections = file.sections();
        sections.any(|section| section.name() == Ok(".go.buildinfo"))
    })
}

/// The TLS library that text in the file names: `OpenSSL 3.0.15`, `BoringSSL`, `rustls 0.23.46`.
pub(super) fn named_library(path: &Path) -> io::Result<Option<String>> {
    let mut file = File::open(path)?;
    let mut bytes = Vec::new();
    loop {
        let read = file.by_ref().take(CHUNK_BYTES).read_to_end(&mut bytes)?;
        if let Some(name) = name_in(&bytes) {
            return Ok(Some(name));
        }
        if read == 0 {
            return Ok(None);
        }
        // A name may lie across the edge of two parts.
        bytes.drain(..bytes.len().saturating_sub(MOST_NAME));
    }
}

fn name_in(bytes: &[u8]) -> Option<String> {
    for (marker, name) in [
        ("OpenSSL ", "OpenSSL"),
        ("LibreSSL ", "LibreSSL"),
        ("rustls-", "rustls"),
    ] {
        for at in memmem::find_iter(bytes, marker) {
            let rest = &bytes[at + marker.len()..];
            let rest = &rest[..rest.len().min(MOST_NAME)];
            if let Some(version) = version(rest) {
                // What is made to be compatible says whose it is.
                let after = String::from_utf8_lossy(&rest[version.len()..]);
                return Some(match after.strip_prefix(" (compatible; ") {
                    Some(own) => own.split(')').next().unwrap_or(name).to_owned(),
                    None => format!("{name} {version}"),
                });
            }
        }
    }
    let is_there = |marker| memmem::find(bytes, marker).is_some();
    if is_there(b"ptls_handshake") || is_there(b"picotls/") {
        return Some("picotls".to_owned());
    }
    None
}

/// `3.0.15 3 Sep 2024` begins with a version, `error` does not.
fn version(text: &[u8]) -> Option<String> {
    let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'.';
    let version: String = text
        .iter()
        .take_while(is_part)
        .map(|&byte| char::from(byte))
        .collect();
    let starts = version
        .split('.')
        .take(2)
        .filter(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()));
    (starts.count() == 2).then_some(version)
}

fn file_offset<'a>(file: &object::File<'a, &'a ReadCache<File>>, address: u64) -> Option<u64> {
    file.segments().find_map(|segment| {
        let (offset, bytes) = segment.file_range();
        let inside = address.checked_sub(segment.address())?;
        (inside < bytes).then(|| offset + inside)
    })
}

/// Read at once.
const CHUNK_BYTES: u64 = 1 << 20;
/// Longer than any name with its version and what it is compatible to.
const MOST_NAME: usize = 80;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Version texts as the libraries have them (what `openssl version` prints, and
    /// `OPENSSL_VERSION_TEXT` of the forks' headers), and text that is none.
    #[test]
    fn names_libraries() {
        for (text, name) in [
            ("\0OpenSSL 3.0.15 3 Sep 2024\0", Some("OpenSSL 3.0.15")),
            ("\0OpenSSL 1.1.1w  11 Sep 2023\0", Some("OpenSSL 1.1.1w")),
            ("OpenSSL 1.1.1 (compatible; BoringSSL)", Some("BoringSSL")),
            (
                "OpenSSL 1.1.1 (compatible; AWS-LC 1.50.0)",
                Some("AWS-LC 1.50.0"),
            ),
            ("LibreSSL 3.8.2", Some("LibreSSL 3.8.2")),
            ("src/rustls-0.23.46/src/conn.rs", Some("rustls 0.23.46")),
            ("deps/picotls/lib/picotls.c", Some("picotls")),
            ("an OpenSSL error; rustls-native-certs", None),
        ] {
            assert_eq!(name_in(text.as_bytes()).as_deref(), name, "{text}");
        }
    }

    /// A name across the edge of two parts of a file is found.
    #[test]
    fn finds_a_name_across_an_edge() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("library");
        let mut bytes = vec![0; usize::try_from(CHUNK_BYTES).unwrap() - 10];
        bytes.extend(b"OpenSSL 3.0.15 3 Sep 2024\0");
        std::fs::write(&path, bytes).unwrap();
        assert_eq!(
            named_library(&path).unwrap().as_deref(),
            Some("OpenSSL 3.0.15")
        );
    }

    proptest! {
        /// No bytes make the search panic.
        #[test]
        fn any_bytes_are_searched(bytes: Vec<u8>) {
            let _name = name_in(&[b"OpenSSL ", bytes.as_slice()].concat());
        }
    }
}
