//! The identifiers that linkers give to programs, libraries and kernels.

use std::fs::File;
use std::io;
use std::path::Path;

use object::elf::FileHeader64;
use object::read::elf::NoteIterator;
use object::{NativeEndian, Object as _, ReadCache};
use recording::hex;

/// The build id of a program or library; `None` where its linker gave it none.
pub(crate) fn of_file(path: &Path) -> io::Result<Option<String>> {
    let cache = ReadCache::new(File::open(path)?);
    let file = object::File::parse(&cache).map_err(io::Error::other)?;
    let id = file.build_id().map_err(io::Error::other)?;
    Ok(id.map(hex))
}

/// The build id among notes, as `/sys/kernel/notes` has them.
pub(crate) fn of_notes(notes: &[u8]) -> Option<String> {
    let mut notes =
        NoteIterator::<FileHeader64<NativeEndian>>::new(NativeEndian, NOTE_ALIGNMENT, notes)
            .ok()?;
    while let Some(note) = notes.next().ok()? {
        let is_id = note.name() == object::elf::ELF_NOTE_GNU
            && note.n_type(NativeEndian) == object::elf::NT_GNU_BUILD_ID;
        if is_id {
            return Some(hex(note.desc()));
        }
    }
    None
}

const NOTE_ALIGNMENT: u64 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    /// The id is the description of the note of its type, other notes are passed over (the layout is
    /// that of gABI, "Note Section").
    #[test]
    fn id_is_found_among_notes() {
        let note = |kind: u32, description: &[u8]| {
            let mut bytes = Vec::new();
            for word in [4, u32::try_from(description.len()).unwrap(), kind] {
                bytes.extend(word.to_ne_bytes());
            }
            bytes.extend(b"GNU\0");
            bytes.extend(description);
            bytes
        };
        let notes = [note(1, &[0; 16]), note(3, &[0xde, 0xad, 0xbe, 0xef])].concat();
        assert_eq!(of_notes(&notes).unwrap(), "deadbeef");
        assert_eq!(of_notes(&notes[..28]), None);
        assert_eq!(of_notes(b"nonsense"), None);
    }

    /// A file that is no program is an error, not a program without an id.
    #[test]
    fn other_files_are_refused() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        assert!(of_file(&file).is_err());
        assert_eq!(
            of_file(Path::new("/no/such/file")).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }
}
