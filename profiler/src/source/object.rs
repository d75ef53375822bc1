//! The embedded object of this architecture, and which version of the shared types it was built
//! from.

use std::fmt::Write as _;
use std::sync::LazyLock;

use profiler_common::{ABI_MAGIC, ABI_VERSION};
use sha2::{Digest as _, Sha256};

use crate::ProfilerError;

/// The object; `None` where this build has none.
pub(crate) fn object() -> Option<&'static [u8]> {
    OBJECT
}

/// SHA-256 of the embedded object, hexadecimal; `None` where this build has none.
pub fn bpf_object_sha256() -> Option<&'static str> {
    static SHA256: LazyLock<Option<String>> = LazyLock::new(|| {
        OBJECT.map(|object| {
            let mut hex = String::new();
            for byte in Sha256::digest(object) {
                write!(hex, "{byte:02x}").expect("writing to a string cannot fail");
            }
            hex
        })
    });
    SHA256.as_deref()
}

/// Refuses an object that was built from other shared types.
pub(crate) fn check_abi(object: &[u8]) -> Result<(), ProfilerError> {
    let found = abi_version(object);
    if found == Some(ABI_VERSION) {
        return Ok(());
    }
    Err(ProfilerError::ObjectVersion {
        found,
        expected: ABI_VERSION,
    })
}

fn abi_version(object: &[u8]) -> Option<u32> {
    let at = object
        .windows(ABI_MAGIC.len())
        .position(|window| window == ABI_MAGIC)?;
    let version = object.get(at + ABI_MAGIC.len()..)?.first_chunk()?;
    // The target is bpfel: little-endian.
    Some(u32::from_le_bytes(*version))
}

#[cfg(target_arch = "x86_64")]
const OBJECT: Option<&[u8]> = {
    /// Aligned for the ELF parser, which reads headers in place.
    #[repr(C, align(16))]
    struct Aligned<T: ?Sized>(T);
    static ALIGNED: &Aligned<[u8]> = &Aligned(*include_bytes!(
        "../../../profiler-ebpf/dist/profiler.x86_64.bpf.o"
    ));
    Some(&ALIGNED.0)
};

#[cfg(not(target_arch = "x86_64"))]
const OBJECT: Option<&[u8]> = None;

#[cfg(test)]
mod tests {
    use super::*;

    /// The committed object was built from the shared types of this checkout.
    #[test]
    fn embedded_object_has_our_version() {
        if let Some(object) = object() {
            assert_eq!(abi_version(object), Some(ABI_VERSION));
            assert_eq!(bpf_object_sha256().unwrap().len(), 64);
        }
    }

    /// An object of another version, or without a stamp, is refused with both numbers.
    #[test]
    fn refuses_other_versions() {
        let mut object = b"....".to_vec();
        assert!(check_abi(&object).is_err());
        object.extend(ABI_MAGIC);
        object.extend(99_u32.to_le_bytes());
        let error = check_abi(&object).unwrap_err().to_string();
        assert!(error.contains("99"), "{error}");
    }
}
