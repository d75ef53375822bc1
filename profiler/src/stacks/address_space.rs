//! What code a process has mapped, as `/proc/PID/maps` told it last: one that has ended can no longer be
//! asked.

use std::collections::BTreeMap;
use std::path::PathBuf;

use procfs::process::{MMPermissions, MMapPath, MemoryMap, Process};

/// Code of a process by its addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct AddressSpace(BTreeMap<u64, Region>);

/// A mapping that may be executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Region {
    pub(super) start: u64,
    pub(super) end: u64,
    /// Where it begins in its file.
    pub(super) offset: u64,
    pub(super) content: Content,
}

/// What is mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// A file, with the path that the process opened it by.
    File { key: FileKey, path: PathBuf },
    /// Code of the kernel for programs.
    Vdso,
    /// Memory that the program wrote.
    Anonymous,
}

/// Device, major and minor, and inode.
pub(super) type FileKey = (i32, i32, u64);

impl AddressSpace {
    /// Of a process; `None` where it has ended, or is hidden.
    pub(super) fn of(pid: u32) -> Option<Self> {
        let process = Process::new(i32::try_from(pid).ok()?).ok()?;
        let maps = process.maps().ok()?;
        Some(Self::from_maps(maps))
    }

    fn from_maps(maps: impl IntoIterator<Item = MemoryMap>) -> Self {
        let code = maps
            .into_iter()
            .filter(|map| map.perms.contains(MMPermissions::EXECUTE));
        Self(
            code.take(MOST_REGIONS)
                .map(|map| (map.address.0, Region::from(map)))
                .collect(),
        )
    }

    /// What an address is in.
    pub(super) fn find(&self, address: u64) -> Option<&Region> {
        let (_, region) = self.0.range(..=address).next_back()?;
        (address < region.end).then_some(region)
    }

    pub(super) fn regions(&self) -> impl Iterator<Item = &Region> {
        self.0.values()
    }

    /// With what is mapped by now; what is no longer mapped is kept, for stacks that were taken before.
    pub(super) fn update(&mut self, now: Self) {
        for (start, region) in now.0 {
            self.0
                .retain(|&before, old| before >= region.end || old.end <= start);
            self.0.insert(start, region);
        }
    }
}

impl From<MemoryMap> for Region {
    fn from(map: MemoryMap) -> Self {
        let content = match map.pathname {
            MMapPath::Path(path) if map.inode != 0 => Content::File {
                key: (map.dev.0, map.dev.1, map.inode),
                path,
            },
            MMapPath::Vdso => Content::Vdso,
            _ => Content::Anonymous,
        };
        Self {
            start: map.address.0,
            end: map.address.1,
            offset: map.offset,
            content,
        }
    }
}

/// A process that maps more is one that wants to be expensive.
const MOST_REGIONS: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;
    use procfs::FromBufRead as _;
    use procfs::process::MemoryMaps;

    fn space(text: &str) -> AddressSpace {
        AddressSpace::from_maps(MemoryMaps::from_buf_read(text.as_bytes()).unwrap())
    }

    /// Lines as the kernel prints them: code is found by its addresses, data is not.
    #[test]
    fn finds_code() {
        let space = space(
            "55d0c0a00000-55d0c0a10000 r--p 00000000 fe:00 131 /usr/sbin/nginx\n\
             55d0c0a10000-55d0c0b00000 r-xp 00010000 fe:00 131 /usr/sbin/nginx\n\
             7f0000000000-7f0000001000 rwxp 00000000 00:00 0 \n\
             7ffc00000000-7ffc00002000 r-xp 00000000 00:00 0 [vdso]\n",
        );
        let region = space.find(0x55d0_c0a1_0010).unwrap();
        assert_eq!(region.offset, 0x10000);
        assert!(
            matches!(&region.content, Content::File { key: (0xfe, 0, 131), path }
            if path.ends_with("nginx"))
        );
        assert_eq!(space.find(0x55d0_c0a0_0010), None);
        assert_eq!(
            space.find(0x7f00_0000_0fff).unwrap().content,
            Content::Anonymous
        );
        assert_eq!(space.find(0x7ffc_0000_0000).unwrap().content, Content::Vdso);
        assert_eq!(space.find(0x7ffc_0000_2000), None);
    }

    /// What was unmapped stays known until something else is mapped there.
    #[test]
    fn keeps_what_was() {
        let mut all =
            space("1000-2000 r-xp 00000000 fe:00 1 /a\n3000-5000 r-xp 00000000 fe:00 2 /b\n");
        all.update(space("4000-6000 r-xp 00000000 fe:00 3 /c\n"));
        assert!(all.find(0x1000).is_some());
        assert_eq!(all.find(0x3000), None);
        assert!(matches!(
            &all.find(0x4000).unwrap().content,
            Content::File { key: (_, _, 3), .. }
        ));
    }
}
