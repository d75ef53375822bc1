//! Names of error numbers, as strace prints them.

use std::borrow::Cow;

use syscalls::Errno;

/// The name of an error number (`EAGAIN`), the kernel-internal restart codes included; a number
/// without a name is `errno_N`.
pub fn errno_name(errno: u16) -> Cow<'static, str> {
    match errno {
        // include/linux/errno.h: never seen by the program, seen by tracers.
        512 => "ERESTARTSYS".into(),
        513 => "ERESTARTNOINTR".into(),
        514 => "ERESTARTNOHAND".into(),
        515 => "ENOIOCTLCMD".into(),
        516 => "ERESTART_RESTARTBLOCK".into(),
        _ => Errno::new(errno.into())
            .name()
            .map_or_else(|| format!("errno_{errno}").into(), Cow::Borrowed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values from include/uapi/asm-generic/errno-base.h and include/linux/errno.h.
    #[test]
    fn names_known_numbers() {
        for (errno, name) in [
            (2, "ENOENT"),
            (4, "EINTR"),
            (11, "EAGAIN"),
            (115, "EINPROGRESS"),
        ] {
            assert_eq!(errno_name(errno), name);
        }
        assert_eq!(errno_name(512), "ERESTARTSYS");
        assert_eq!(errno_name(4000), "errno_4000");
    }
}
