//! Where fields are in the structures of the running kernel, from its BTF.
//!
//! Rust objects carry no field relocations, so the few offsets that the programs need are looked up
//! here and handed to them. A reader of what it needs: structures, their members, and the sizes
//! behind typedefs; nothing is relocated and nothing is written. The blob is not trusted: every
//! access is checked and every walk is bounded.
//!
//! Format: Documentation/bpf/btf.rst of the kernel.

use std::collections::HashMap;

/// Why an offset could not be found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BtfError {
    /// Not BTF, or cut short.
    #[error("malformed BTF at byte {offset}: {what}")]
    Malformed {
        /// Where.
        offset: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// The kernel has no such field.
    #[error("the kernel's BTF has no field {path} of {size} bytes")]
    NoField {
        /// `struct.field.field`.
        path: String,
        /// The size that it should have.
        size: u32,
    },
}

/// The type information of a kernel.
#[derive(Debug)]
pub(crate) struct Btf<'a> {
    types: &'a [u8],
    strings: &'a [u8],
    /// Start of each type in `types`; id 0 is `void` and has none.
    starts: Vec<u32>,
    /// Structures and type definitions by name: to look through all types for each would take longer
    /// than all the rest.
    named: HashMap<&'a [u8], Vec<u32>>,
}

impl<'a> Btf<'a> {
    /// Reads the header and finds where each type begins.
    pub(crate) fn parse(blob: &'a [u8]) -> Result<Self, BtfError> {
        if half(blob, 0) != Some(MAGIC) {
            return Err(BtfError::Malformed {
                offset: 0,
                what: "no BTF magic of this byte order",
            });
        }
        let types = section(blob, 8)?;
        let strings = section(blob, 16)?;
        let mut starts = Vec::new();
        let mut at = 0;
        while at < types.len() {
            let length = type_length(types, at).ok_or(BtfError::Malformed {
                offset: at,
                what: "a type is cut short or of an unknown kind",
            })?;
            starts.push(u32::try_from(at).unwrap_or(u32::MAX));
            at += length;
        }
        let mut btf = Self {
            types,
            strings,
            starts,
            named: HashMap::new(),
        };
        for id in (1..=btf.starts.len()).filter_map(|id| u32::try_from(id).ok()) {
            if let Some(header) = btf.header(id)
                && matches!(header.kind(), KIND_STRUCT | KIND_TYPEDEF)
            {
                let name = btf.string(header.name);
                btf.named.entry(name).or_default().push(id);
            }
        }
        Ok(btf)
    }

    /// Offset in bytes of a field, followed through embedded structures: `["thread_info",
    /// "status"]`. The field must have `size` bytes.
    pub(crate) fn field_offset(
        &self,
        structure: &str,
        path: &[&str],
        size: u32,
    ) -> Result<u32, BtfError> {
        self.of_kind(KIND_STRUCT, structure)
            .find_map(|id| self.walk(id, path, size))
            .ok_or_else(|| BtfError::NoField {
                path: format!("{structure}.{}", path.join(".")),
                size,
            })
    }

    /// Whether there is a type definition of this name.
    pub(crate) fn has_typedef(&self, name: &str) -> bool {
        self.of_kind(KIND_TYPEDEF, name).next().is_some()
    }

    /// How many arguments a tracepoint hands to its programs; `None` where there is no such tracepoint.
    pub(crate) fn tracepoint_arguments(&self, name: &str) -> Option<u32> {
        let name = format!("btf_trace_{name}");
        let id = self.of_kind(KIND_TYPEDEF, &name).next()?;
        let pointer = self.header(self.resolve(id)?)?;
        if pointer.kind() != KIND_PTR {
            return None;
        }
        let function = self.header(self.resolve(pointer.size_or_type)?)?;
        // The first one is the kernel's own.
        (function.kind() == KIND_FUNC_PROTO)
            .then(|| function.vlen().checked_sub(1))
            .flatten()
    }

    fn walk(&self, structure: u32, path: &[&str], size: u32) -> Option<u32> {
        let (name, rest) = path.split_first()?;
        let (offset, member) = self.member(structure, name, MAX_DEPTH)?;
        let member = self.resolve(member)?;
        if rest.is_empty() {
            return (self.size_of(member)? == size).then_some(offset);
        }
        offset.checked_add(self.walk(member, rest, size)?)
    }

    fn of_kind(&self, kind: u32, name: &str) -> impl Iterator<Item = u32> {
        let ids = self.named.get(name.as_bytes()).into_iter().flatten();
        ids.copied()
            .filter(move |&id| self.header(id).is_some_and(|header| header.kind() == kind))
    }

    /// Offset in bytes and type of a member, looked for in anonymous members too.
    fn member(&self, structure: u32, wanted: &str, depth: u32) -> Option<(u32, u32)> {
        let header = self.header(structure)?;
        if !matches!(header.kind(), KIND_STRUCT | KIND_UNION) || depth == 0 {
            return None;
        }
        for index in 0..header.vlen() {
            let at = header.end + index as usize * MEMBER_BYTES;
            let name = self.string(word(self.types, at)?);
            let member = word(self.types, at + 4)?;
            let bits = word(self.types, at + 8)?;
            // With the flag, the upper byte is the width of a bit field.
            let bits = if header.flag() {
                bits & 0x00ff_ffff
            } else {
                bits
            };
            if name.is_empty() {
                let inner = self
                    .resolve(member)
                    .and_then(|member| self.member(member, wanted, depth - 1));
                if let Some((offset, found)) = inner {
                    return Some((offset.checked_add(bits / 8)?, found));
                }
            } else if name == wanted.as_bytes() {
                return (bits % 8 == 0).then_some((bits / 8, member));
            }
        }
        None
    }

    /// The type behind typedefs and qualifiers.
    fn resolve(&self, mut id: u32) -> Option<u32> {
        for _ in 0..MAX_DEPTH {
            let header = self.header(id)?;
            match header.kind() {
                KIND_TYPEDEF | KIND_VOLATILE | KIND_CONST | KIND_RESTRICT | KIND_TYPE_TAG => {
                    id = header.size_or_type;
                }
                _ => return Some(id),
            }
        }
        None
    }

    fn size_of(&self, id: u32) -> Option<u32> {
        let header = self.header(id)?;
        match header.kind() {
            KIND_INT | KIND_STRUCT | KIND_UNION | KIND_ENUM | KIND_FLOAT | KIND_ENUM64 => {
                Some(header.size_or_type)
            }
            KIND_PTR => Some(8),
            _ => None,
        }
    }

    fn header(&self, id: u32) -> Option<TypeHeader> {
        let index = usize::try_from(id.checked_sub(1)?).ok()?;
        TypeHeader::read(self.types, *self.starts.get(index)? as usize)
    }

    fn string(&self, offset: u32) -> &'a [u8] {
        let rest = self.strings.get(offset as usize..).unwrap_or_default();
        rest.split(|&byte| byte == 0).next().unwrap_or_default()
    }
}

/// `struct btf_type`.
struct TypeHeader {
    name: u32,
    info: u32,
    size_or_type: u32,
    /// First byte after it.
    end: usize,
}

impl TypeHeader {
    fn read(types: &[u8], at: usize) -> Option<Self> {
        Some(Self {
            name: word(types, at)?,
            info: word(types, at + 4)?,
            size_or_type: word(types, at + 8)?,
            end: at + TYPE_BYTES,
        })
    }

    fn kind(&self) -> u32 {
        (self.info >> 24) & 0x1f
    }

    fn vlen(&self) -> u32 {
        self.info & 0xffff
    }

    fn flag(&self) -> bool {
        self.info >> 31 == 1
    }
}

/// Bytes of the type at `at`; `None` when it does not fit or its kind is unknown.
fn type_length(types: &[u8], at: usize) -> Option<usize> {
    let header = TypeHeader::read(types, at)?;
    let vlen = header.vlen() as usize;
    let extra = match header.kind() {
        KIND_PTR | KIND_FWD | KIND_TYPEDEF | KIND_VOLATILE | KIND_CONST | KIND_RESTRICT
        | KIND_FUNC | KIND_FLOAT | KIND_TYPE_TAG => 0,
        KIND_INT | KIND_VAR | KIND_DECL_TAG => 4,
        KIND_ARRAY => 12,
        KIND_STRUCT | KIND_UNION | KIND_DATASEC | KIND_ENUM64 => 12 * vlen,
        KIND_ENUM | KIND_FUNC_PROTO => 8 * vlen,
        _ => return None,
    };
    let length = TYPE_BYTES + extra;
    (at.checked_add(length)? <= types.len()).then_some(length)
}

/// A section named by offset and length at `at` in the header.
fn section(blob: &[u8], at: usize) -> Result<&[u8], BtfError> {
    let bounds = || {
        let header = word(blob, 4)? as usize;
        let start = header.checked_add(word(blob, at)? as usize)?;
        let end = start.checked_add(word(blob, at + 4)? as usize)?;
        blob.get(start..end)
    };
    bounds().ok_or(BtfError::Malformed {
        offset: at,
        what: "a section lies outside of the blob",
    })
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at.checked_add(2)?)?;
    Some(u16::from_ne_bytes(bytes.try_into().ok()?))
}

const MAGIC: u16 = 0xeb9f;
const TYPE_BYTES: usize = 12;
const MEMBER_BYTES: usize = 12;
/// Typedefs and anonymous members nest a few deep in the kernel; a cycle ends here.
const MAX_DEPTH: u32 = 32;

const KIND_INT: u32 = 1;
const KIND_PTR: u32 = 2;
const KIND_ARRAY: u32 = 3;
const KIND_STRUCT: u32 = 4;
const KIND_UNION: u32 = 5;
const KIND_ENUM: u32 = 6;
const KIND_FWD: u32 = 7;
const KIND_TYPEDEF: u32 = 8;
const KIND_VOLATILE: u32 = 9;
const KIND_CONST: u32 = 10;
const KIND_RESTRICT: u32 = 11;
const KIND_FUNC: u32 = 12;
const KIND_FUNC_PROTO: u32 = 13;
const KIND_VAR: u32 = 14;
const KIND_DATASEC: u32 = 15;
const KIND_FLOAT: u32 = 16;
const KIND_DECL_TAG: u32 = 17;
const KIND_TYPE_TAG: u32 = 18;
const KIND_ENUM64: u32 = 19;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A blob with `struct task { int pid; struct { int tgid; } ; u32 status; }`, where `u32` is a
    /// typedef of `int`, in which `tgid` is at bit 64 and `status` at bit 96; and with a tracepoint
    /// `fork` of two arguments.
    fn blob() -> Vec<u8> {
        let strings = b"\0int\0task\0pid\0tgid\0status\0u32\0btf_trace_fork\0";
        let name = |wanted: &str| {
            let at = strings
                .windows(wanted.len() + 2)
                .position(|window| {
                    window[0] == 0
                        && window[1..=wanted.len()] == *wanted.as_bytes()
                        && window[wanted.len() + 1] == 0
                })
                .expect("a name of the table");
            u32::try_from(at + 1).unwrap()
        };
        let words = [
            // 1: int
            [name("int"), KIND_INT << 24, 4].as_slice(),
            &[32],
            // 2: typedef u32
            &[name("u32"), KIND_TYPEDEF << 24, 1],
            // 3: anonymous struct
            &[0, KIND_STRUCT << 24 | 1, 4],
            &[name("tgid"), 1, 0],
            // 4: struct task
            &[name("task"), KIND_STRUCT << 24 | 3, 16],
            &[name("pid"), 1, 0],
            &[0, 3, 64],
            &[name("status"), 2, 96],
            // 5: pointer to a function of three integers
            &[0, KIND_PTR << 24, 6],
            &[0, KIND_FUNC_PROTO << 24 | 3, 0],
            &[0, 1, 0, 1, 0, 1],
            // 7: typedef btf_trace_fork
            &[name("btf_trace_fork"), KIND_TYPEDEF << 24, 5],
        ]
        .concat();
        let types: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let lengths = [types.len(), strings.len()].map(|length| u32::try_from(length).unwrap());
        let mut blob = MAGIC.to_ne_bytes().to_vec();
        blob.extend([1, 0]);
        for word in [24, 0, lengths[0], lengths[0], lengths[1]] {
            blob.extend(word.to_ne_bytes());
        }
        blob.extend(types);
        blob.extend(strings);
        blob
    }

    /// Plain members, members of anonymous structures and typedefs are found.
    #[test]
    fn finds_fields() {
        let blob = blob();
        let btf = Btf::parse(&blob).unwrap();
        assert_eq!(btf.field_offset("task", &["pid"], 4), Ok(0));
        assert_eq!(btf.field_offset("task", &["tgid"], 4), Ok(8));
        assert_eq!(btf.field_offset("task", &["status"], 4), Ok(12));
    }

    /// A missing field, a missing structure and a field of another size are named.
    #[test]
    fn says_what_is_missing() {
        let blob = blob();
        let btf = Btf::parse(&blob).unwrap();
        for (structure, field, size) in
            [("task", "comm", 4), ("sock", "pid", 4), ("task", "pid", 8)]
        {
            let error = btf.field_offset(structure, &[field], size).unwrap_err();
            assert!(error.to_string().contains(&format!("{structure}.{field}")));
        }
    }

    /// Arguments of a tracepoint are counted; other types are none.
    #[test]
    fn counts_arguments_of_tracepoints() {
        let blob = blob();
        let btf = Btf::parse(&blob).unwrap();
        assert_eq!(btf.tracepoint_arguments("fork"), Some(2));
        assert_eq!(btf.tracepoint_arguments("exec"), None);
    }

    /// Something that is not BTF is refused.
    #[test]
    fn refuses_other_bytes() {
        assert!(Btf::parse(b"").is_err());
        assert!(Btf::parse(b"\x7fELF and so on, long enough for a header").is_err());
    }

    proptest! {
        /// No damage makes the reader panic or run away.
        #[test]
        fn survives_damage(at in 0_usize..300, byte: u8, cut in 0_usize..300) {
            let mut blob = blob();
            let length = blob.len();
            blob[at % length] = byte;
            blob.truncate(length - cut % length);
            if let Ok(btf) = Btf::parse(&blob) {
                let _found = btf.field_offset("task", &["status"], 4);
                let _found = btf.field_offset("task", &["tgid", "tgid"], 4);
                let _found = btf.tracepoint_arguments("fork");
            }
        }
    }
}
