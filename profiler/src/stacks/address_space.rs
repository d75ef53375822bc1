//! What code a process has mapped, as `/proc/PID/maps` told it last: one that has ended can no longer be
//! asked.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

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
    File { key: FileKey, path: Arc<Path> },
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

    /// Whether there is code that no file has.
    pub(super) fn has_anonymous(&self) -> bool {
        let mut contents = self.0.values().map(|region| &region.content);
        contents.any(|content| *content == Content::Anonymous)
    }

    /// With what is mapped by now; what is no longer mapped is kept, for stacks that were taken before.
    pub(super) fn update(&mut self, now: Self) {
        for region in now.0.into_values() {
            self.put(region);
        }
    }

    /// With a mapping that takes the place of what was there.
    pub(super) fn put(&mut self, region: Region) {
        let before = self.0.range(..region.start).next_back();
        let covered = before
            .into_iter()
            .chain(self.0.range(region.start..region.end));
        let covered: Vec<u64> = covered
            .filter(|(_, old)| old.end > region.start)
            .map(|(&start, _)| start)
            .collect();
        for start in covered {
            let Some(old) = self.0.remove(&start) else {
                continue;
            };
            let behind = old.behind(region.end);
            if old.start < region.start {
                let end = region.start;
                self.0.insert(old.start, Region { end, ..old });
            }
            self.0.extend(behind.map(|rest| (rest.start, rest)));
        }
        if self.0.len() < MOST_REGIONS && region.start < region.end {
            self.0.insert(region.start, region);
        }
    }
}

impl Region {
    /// The part that lies behind an address.
    fn behind(&self, start: u64) -> Option<Self> {
        let begun = start.checked_sub(self.start)?;
        (start < self.end).then(|| Self {
            start,
            offset: self.offset.wrapping_add(begun),
            ..self.clone()
        })
    }
}

impl From<MemoryMap> for Region {
    fn from(map: MemoryMap) -> Self {
        let content = match map.pathname {
            MMapPath::Path(path) if map.inode != 0 => Content::File {
                key: (map.dev.0, map.dev.1, map.inode),
                path: path.into(),
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
    use proptest::collection;
    use proptest::prelude::*;

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
        assert!(matches!(
            &all.find(0x3fff).unwrap().content,
            Content::File { key: (_, _, 2), .. }
        ));
        assert!(matches!(
            &all.find(0x4000).unwrap().content,
            Content::File { key: (_, _, 3), .. }
        ));
    }

    /// Of a mapping in the middle of another, both ends of the other stay, each at its place in the file.
    #[test]
    fn a_part_takes_the_place_of_a_part() {
        let mut all = space("1000-9000 r-xp 00010000 fe:00 1 /a\n");
        all.update(space("3000-5000 r-xp 00000000 00:00 0 \n"));
        let at = |address: u64| {
            let region = all.find(address).unwrap();
            (region.start, region.end, region.offset)
        };
        assert_eq!(at(0x2fff), (0x1000, 0x3000, 0x10000));
        assert_eq!(at(0x3000), (0x3000, 0x5000, 0));
        assert_eq!(at(0x5000), (0x5000, 0x9000, 0x14000));
        assert!(all.has_anonymous());
    }

    proptest! {
        /// Whatever is mapped over whatever, each address is in what was mapped there last, at the same place of
        /// its file as if nothing else had ever been mapped.
        #[test]
        fn the_last_mapping_counts(maps in collection::vec((0_u64..64, 0_u64..24), 1..24)) {
            let mut all = AddressSpace::default();
            for (inode, &(start, length)) in (1..).zip(&maps) {
                all.put(Region {
                    start,
                    end: start + length,
                    offset: 1_000 * inode,
                    content: Content::File { key: (0, 0, inode), path: Path::new("/a").into() },
                });
            }
            for address in 0..100 {
                let last = (1_u64..).zip(&maps).collect::<Vec<_>>().into_iter().rfind(|(_, (start, length))| {
                    (*start..start + length).contains(&address)
                });
                let found = all.find(address).map(|region| match region.content {
                    Content::File { key: (_, _, inode), .. } => {
                        (inode, region.offset + address - region.start)
                    }
                    _ => unreachable!("only files were mapped"),
                });
                let expected = last.map(|(inode, (start, _))| (inode, 1_000 * inode + address - start));
                prop_assert_eq!(found, expected);
            }
        }
    }
}
