// SPDX-License-Identifier: (MIT OR Apache-2.0) AND (MIT OR GPL-2.0-only)
//! What a descriptor is: remembered, or looked up in the tables of the process.

use profiler_common::{
    DESCRIPTOR_LIMIT, EVENTFD, FILE, OBJECTS, OTHER, PIPE, SOCKET, descriptor_index,
    descriptor_key, remembered,
};

use crate::{
    kernel::{Object, Task, add, load, store},
    maps::{
        DENTRY_NAME, DESCRIPTORS, EVENTS, FILE_DENTRY, FILE_INODE, INODE_MODE, INODE_SB, LOOK_UP,
        SB_MAGIC,
    },
};

/// The object behind a descriptor of the running thread; [`OBJECTS`] where it has none.
#[inline(always)]
pub(crate) fn object(tgid: u32, fd: u64) -> u32 {
    match recall(tgid, fd) {
        Some(object) => object,
        // A constant to the verifier, which never sees the helper where it is forbidden.
        None if LOOK_UP.load() != 0 => look_up(tgid, fd),
        None => OBJECTS,
    }
}

/// The object behind a descriptor of another thread, which is asleep and keeps it open.
#[inline(always)]
pub(crate) fn object_of(task: Task, tgid: u32, fd: u64) -> u32 {
    if LOOK_UP.load() == 0 {
        return OBJECTS;
    }
    let Some(object) = task.file(fd).and_then(kind_of_file) else {
        return OBJECTS;
    };
    remember(tgid, fd, object);
    object
}

/// The object, if it is remembered.
#[inline(always)]
pub(crate) fn recall(tgid: u32, fd: u64) -> Option<u32> {
    let entry = DESCRIPTORS.get(descriptor_index(tgid, fd))?;
    remembered(load(&entry.0), key(tgid, fd)?)
}

/// Remembers the object of a new descriptor; [`OBJECTS`]: looks it up.
#[inline(always)]
pub(crate) fn learn(tgid: u32, fd: u64, object: u32) {
    if object >= OBJECTS {
        if LOOK_UP.load() != 0 {
            look_up(tgid, fd);
        }
    } else {
        remember(tgid, fd, object);
    }
}

/// The descriptor was closed.
#[inline(always)]
pub(crate) fn forget(tgid: u32, fd: u64) {
    if let (Some(entry), Some(key)) = (DESCRIPTORS.get(descriptor_index(tgid, fd)), key(tgid, fd))
        && remembered(load(&entry.0), key).is_some()
    {
        store(&entry.0, 0);
    }
}

/// Many descriptors changed at once.
#[inline(always)]
pub(crate) fn forget_all() {
    add(EVENTS.get(0).map(|events| &events.descriptor_epoch), 1);
}

#[inline(always)]
fn key(tgid: u32, fd: u64) -> Option<u64> {
    if fd >= DESCRIPTOR_LIMIT {
        return None;
    }
    let epoch = load(&EVENTS.get(0)?.descriptor_epoch);
    Some(descriptor_key(tgid, fd, epoch))
}

#[inline(always)]
fn remember(tgid: u32, fd: u64, object: u32) {
    if let (Some(entry), Some(key)) = (DESCRIPTORS.get(descriptor_index(tgid, fd)), key(tgid, fd)) {
        store(&entry.0, key | u64::from(object));
    }
}

/// A function of its own, so that it costs the ordinary path nothing.
#[inline(never)]
fn look_up(tgid: u32, fd: u64) -> u32 {
    let Some(object) = Task::current().file(fd).and_then(kind_of_file) else {
        return OBJECTS;
    };
    remember(tgid, fd, object);
    object
}

/// By the file system that made it, else by its mode.
#[inline(always)]
fn kind_of_file(file: Object) -> Option<u32> {
    let inode = file.follow(&FILE_INODE)?;
    let magic: u64 = inode.follow(&INODE_SB)?.copy(&SB_MAGIC)?;
    Some(match magic {
        SOCKFS_MAGIC => SOCKET,
        PIPEFS_MAGIC => PIPE,
        // All files of this file system share one inode; what tells them apart is the name.
        ANON_INODE_FS_MAGIC => {
            let name = file.follow(&FILE_DENTRY)?.follow(&DENTRY_NAME)?;
            let beginning: u64 = name.copy_at(0)?;
            if beginning == u64::from_le_bytes(*b"[eventfd") {
                EVENTFD
            } else {
                OTHER
            }
        }
        _ => match inode.copy::<u16>(&INODE_MODE)? & S_IFMT {
            S_IFREG | S_IFDIR | S_IFBLK => FILE,
            S_IFIFO => PIPE,
            S_IFSOCK => SOCKET,
            _ => OTHER,
        },
    })
}

/// include/uapi/linux/magic.h.
const SOCKFS_MAGIC: u64 = 0x534f_434b;
const PIPEFS_MAGIC: u64 = 0x5049_5045;
const ANON_INODE_FS_MAGIC: u64 = 0x0904_1934;
/// include/uapi/linux/stat.h.
const S_IFMT: u16 = 0o170_000;
const S_IFSOCK: u16 = 0o140_000;
const S_IFREG: u16 = 0o100_000;
const S_IFBLK: u16 = 0o060_000;
const S_IFDIR: u16 = 0o040_000;
const S_IFIFO: u16 = 0o010_000;
