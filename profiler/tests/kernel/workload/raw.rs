//! System calls that have no safe wrapper, or that a wrapper would add others to.

mod descriptors;
mod hot;
mod waits;

pub(crate) use descriptors::*;
pub(crate) use hot::*;
pub(crate) use waits::*;

use std::ffi::CString;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::Pid;

/// Number of `getppid`.
pub(crate) const GETPPID: u64 = libc::SYS_getppid as u64;

/// A barrier that makes no system call.
pub(crate) struct SpinBarrier {
    parties: u64,
    arrived: AtomicU64,
}

impl SpinBarrier {
    pub(crate) fn new(parties: u64) -> Self {
        Self {
            parties,
            arrived: AtomicU64::new(0),
        }
    }

    /// Waits for all parties, as often as it is used.
    pub(crate) fn wait(&self) {
        let ticket = self.arrived.fetch_add(1, Ordering::SeqCst);
        let wanted = (ticket / self.parties + 1) * self.parties;
        while self.arrived.load(Ordering::SeqCst) < wanted {
            std::hint::spin_loop();
        }
    }
}

/// Any call with one argument.
pub(crate) fn call(nr: u64, argument: u64) {
    let nr = i64::try_from(nr).expect("a call number");
    // SAFETY: the tests pass numbers of calls that take no pointer, or that do not exist.
    unsafe { libc::syscall(nr, argument) };
}

/// The call, always.
pub(crate) fn getpid() {
    call(libc::SYS_getpid as u64, 0);
}

/// `getpid` (20) by the gate of 32-bit programs.
#[cfg(target_arch = "x86_64")]
pub(crate) fn int80_getpid() {
    let result: i64;
    // SAFETY: the call takes no argument; the gate clobbers r8 to r11 on some kernels.
    unsafe {
        std::arch::asm!(
            "int 0x80",
            inlateout("rax") 20_i64 => result,
            out("r8") _, out("r9") _, out("r10") _, out("r11") _,
        );
    }
    assert!(result > 0, "this kernel has no 32-bit calls");
}

/// Other architectures have no such gate in 64-bit programs.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn int80_getpid() {
    panic!("no gate of 32-bit programs on this architecture");
}

/// A child that runs this and ends.
pub(crate) fn fork_child(body: impl FnOnce()) -> Pid {
    // SAFETY: the child of a workload with threads takes no lock.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork failed");
    if pid == 0 {
        body();
        exit_group();
    }
    Pid::from_raw(pid).expect("a parent gets the id of its child")
}

/// Waits for a signal, for ever.
pub(crate) fn pause() {
    // SAFETY: the call takes no argument.
    unsafe { libc::pause() };
}

/// A child with a given process id; whether that was free.
pub(crate) fn fork_child_with_pid(pid: i32, body: impl FnOnce()) -> bool {
    let ids = [pid];
    // SAFETY: all zeros is a valid `clone_args`.
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.exit_signal = libc::SIGCHLD as u64;
    args.set_tid = ids.as_ptr().addr() as u64;
    args.set_tid_size = 1;
    // SAFETY: without a stack of its own the child goes on here, like that of fork.
    let made = unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of_val(&args)) };
    if made == 0 {
        body();
        exit_group();
    }
    made > 0
}

/// Gets the signal KILL when the parent ends.
pub(crate) fn end_with_parent() {
    // SAFETY: takes numbers.
    let result = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) };
    assert_eq!(result, 0);
}

/// Names the thread.
pub(crate) fn take_name(name: &std::ffi::CStr) {
    // SAFETY: a string that ends with zero.
    let result = unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr(), 0, 0, 0) };
    assert_eq!(result, 0);
}

/// The id of the thread.
pub(crate) fn gettid() -> i32 {
    // SAFETY: takes nothing.
    unsafe { libc::gettid() }
}

/// Asks to run before everybody else.
pub(crate) fn hurry() {
    // SAFETY: takes numbers.
    let result = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) };
    assert_eq!(result, 0, "the kernel tests run as root");
}

/// Waits for any child.
pub(crate) fn wait_child() {
    // SAFETY: a null status is allowed.
    let pid = unsafe { libc::wait4(-1, std::ptr::null_mut(), 0, std::ptr::null_mut()) };
    assert!(pid > 0, "a child ends");
}

/// Ends the running thread, and nothing of what it is in.
pub(crate) fn exit_thread() -> ! {
    // SAFETY: nobody joins the thread, and nothing of it is used any more.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
    unreachable!("the thread has ended")
}

/// Ends the process with this one call.
pub(crate) fn exit_group() -> ! {
    // SAFETY: the call takes a number and does not return.
    unsafe { libc::_exit(0) }
}

/// A handler for SIGUSR1 that does nothing, with interrupted calls restarted.
pub(crate) fn on_signal_do_nothing() {
    extern "C" fn nothing(_signal: libc::c_int) {}
    // SAFETY: all zeros is a valid `sigaction`; the handler touches nothing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as usize;
        action.sa_flags = libc::SA_RESTART;
        let result = libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut());
        assert_eq!(result, 0);
    }
}

/// `kill` to ourselves, with no call beside it.
pub(crate) fn raise() {
    // SAFETY: the signal has a handler.
    unsafe {
        libc::kill(
            i32::try_from(std::process::id()).expect("a pid"),
            libc::SIGUSR1,
        )
    };
}

/// SIGSTOP to ourselves, with no call after it.
pub(crate) fn stop() {
    // SAFETY: a stop has no effect on memory.
    unsafe {
        libc::kill(
            i32::try_from(std::process::id()).expect("a pid"),
            libc::SIGSTOP,
        )
    };
}

/// Replaces the program.
pub(crate) fn exec(command: &[&str]) -> ! {
    let owned: Vec<CString> = command
        .iter()
        .map(|arg| CString::new(*arg).expect("no zero byte"))
        .collect();
    let mut args: Vec<*const libc::c_char> = owned.iter().map(|arg| arg.as_ptr()).collect();
    args.push(std::ptr::null());
    // SAFETY: a list of C strings that ends with null.
    unsafe { libc::execv(args[0], args.as_ptr()) };
    panic!(
        "cannot run {command:?}: {}",
        std::io::Error::last_os_error()
    );
}

/// A seccomp filter that refuses `getppid` with EPERM when its first argument is 1.
pub(crate) fn refuse_getppid_of_one() {
    let statement = |code: u32, k: u32| libc::sock_filter {
        code: u16::try_from(code).expect("an opcode"),
        jt: 0,
        jf: 0,
        k,
    };
    let jump = |k: u32, jf: u8| libc::sock_filter {
        jf,
        ..statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, k)
    };
    let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let filter = [
        statement(load, 0),
        jump(u32::try_from(GETPPID).expect("a call number"), 3),
        statement(load, 16),
        jump(1, 1),
        statement(libc::BPF_RET, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        statement(libc::BPF_RET, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: 6,
        filter: filter.as_ptr().cast_mut(),
    };
    // SAFETY: the program lives until the kernel has copied it.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let result = libc::prctl(
            libc::PR_SET_SECCOMP,
            libc::SECCOMP_MODE_FILTER,
            &raw const program,
        );
        assert_eq!(result, 0, "this kernel has no seccomp filters");
    }
}

/// Lets the connection end with a reset.
pub(crate) fn reset_at_close(socket: &impl AsRawFd) {
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    set_option(socket, libc::SO_LINGER, &linger);
}

/// Drops every segment that arrives at a socket.
pub(crate) fn become_deaf(socket: &impl AsRawFd) {
    let drop_all = [libc::sock_filter {
        code: u16::try_from(libc::BPF_RET | libc::BPF_K).expect("an opcode"),
        jt: 0,
        jf: 0,
        k: 0,
    }];
    let program = libc::sock_fprog {
        len: 1,
        filter: drop_all.as_ptr().cast_mut(),
    };
    set_option(socket, libc::SO_ATTACH_FILTER, &program);
}

/// Takes [`become_deaf`] back.
pub(crate) fn hear_again(socket: &impl AsRawFd) {
    set_option(socket, libc::SO_DETACH_FILTER, &0);
}

/// Segments that a connection has sent again.
pub(crate) fn retransmits(socket: &impl AsRawFd) -> u32 {
    // SAFETY: all zeros is a valid `tcp_info`.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut length = length_of(&info);
    // SAFETY: the place is as long as we say.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut length,
        )
    };
    assert_eq!(result, 0, "a TCP socket");
    info.tcpi_total_retrans
}

fn set_option<T>(socket: &impl AsRawFd, option: libc::c_int, value: &T) {
    // SAFETY: the value is as long as we say; the kernel copies what it points at.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            std::ptr::from_ref(value).cast(),
            length_of(value),
        )
    };
    assert_eq!(result, 0, "a socket option");
}

fn length_of<T>(value: &T) -> libc::socklen_t {
    libc::socklen_t::try_from(size_of_val(value)).expect("a short value")
}

/// Moves into a network namespace of its own, in which only the loopback is up.
pub(crate) fn own_network() {
    // SAFETY: the workload has one thread and no socket yet.
    let result = unsafe { libc::unshare(libc::CLONE_NEWNET) };
    assert_eq!(result, 0, "the tests run as root");
    // SAFETY: all zeros is a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (place, letter) in request.ifr_name.iter_mut().zip(c"lo".to_bytes()) {
        *place = letter.cast_signed();
    }
    request.ifr_ifru.ifru_flags = libc::c_short::try_from(libc::IFF_UP).expect("a short flag");
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").expect("a socket");
    // SAFETY: the request lives until the call returns.
    let result = unsafe {
        libc::ioctl(
            socket.as_raw_fd(),
            libc::SIOCSIFFLAGS,
            std::ptr::from_ref(&request),
        )
    };
    assert_eq!(result, 0, "the loopback is there");
}

/// A call with arguments that none takes.
pub(crate) fn call_with_nonsense(nr: u64) {
    let nr = i64::try_from(nr).expect("a call number");
    let nothing = -1_i64;
    // SAFETY: addresses and lengths that no process can have: the kernel refuses them.
    unsafe { libc::syscall(nr, nothing, nothing, nothing, nothing, nothing, nothing) };
}
