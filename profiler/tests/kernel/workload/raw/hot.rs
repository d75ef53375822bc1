//! Functions in assembly, and code that is made at run time.

/// Calls `kernel_workload_three` and `kernel_workload_one` in turn.
pub(crate) fn hot_turns(turns: u64) {
    // SAFETY: the function keeps the registers that the ABI asks for, and touches no memory but the stack.
    unsafe { kernel_workload_turns(turns) };
}

/// Memory that can be executed.
pub(crate) struct Code(std::ptr::NonNull<u8>);

impl Code {
    /// A loop of a few million instructions, between the two that keep the frame pointer.
    pub(crate) fn of_hot_loop() -> Self {
        let protection = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a fresh mapping, of no memory of ours.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), PAGE, protection, flags, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED, "memory to execute");
        let start = std::ptr::NonNull::new(start.cast::<u8>()).expect("not at zero");
        // SAFETY: the mapping is longer than the code.
        unsafe {
            start
                .copy_from_nonoverlapping(std::ptr::NonNull::from(HOT_LOOP).cast(), HOT_LOOP.len());
        };
        Self(start)
    }

    /// Where it is, and how long.
    pub(crate) fn place(&self) -> (usize, usize) {
        (self.0.addr().get(), HOT_LOOP.len())
    }

    pub(crate) fn run(&self) {
        // SAFETY: the code is a function of this type, which touches no memory but the stack.
        let function: extern "C" fn() = unsafe { std::mem::transmute(self.0) };
        function();
    }
}

/// `push rbp; mov rbp, rsp; mov ecx, 3000000; again: dec ecx; jnz again; pop rbp; ret`.
const HOT_LOOP: &[u8] = &[
    0x55, 0x48, 0x89, 0xe5, 0xb9, 0xc0, 0xc6, 0x2d, 0x00, 0xff, 0xc9, 0x75, 0xfc, 0x5d, 0xc3,
];
const PAGE: usize = 4096;

unsafe extern "C" {
    fn kernel_workload_turns(turns: u64);
}

std::arch::global_asm!(
    ".globl kernel_workload_turns",
    ".type kernel_workload_turns, @function",
    "kernel_workload_turns:",
    "push rbp",
    "mov rbp, rsp",
    "push rbx",
    "push rbx",
    "mov rbx, rdi",
    "2:",
    "call kernel_workload_three",
    "call kernel_workload_one",
    "dec rbx",
    "jnz 2b",
    "pop rbx",
    "pop rbx",
    "pop rbp",
    "ret",
    ".size kernel_workload_turns, . - kernel_workload_turns",
    ".type kernel_workload_three, @function",
    "kernel_workload_three:",
    "push rbp",
    "mov rbp, rsp",
    "mov ecx, 90000",
    "2:",
    "dec ecx",
    "jnz 2b",
    "pop rbp",
    "ret",
    ".size kernel_workload_three, . - kernel_workload_three",
    ".type kernel_workload_one, @function",
    "kernel_workload_one:",
    "push rbp",
    "mov rbp, rsp",
    "mov ecx, 30000",
    "2:",
    "dec ecx",
    "jnz 2b",
    "pop rbp",
    "ret",
    ".size kernel_workload_one, . - kernel_workload_one",
);
