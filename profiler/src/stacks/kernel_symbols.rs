//! Functions of the kernel by their addresses. Read at attach: the kernel shows addresses only to those
//! who may read its log.

use std::fs::File;
use std::io::{self, BufRead, BufReader};

/// Functions in the order of their addresses; none where the kernel hides them.
#[derive(Debug, Default)]
pub(crate) struct KernelSymbols {
    /// Address, and where its name begins.
    starts: Vec<(u64, u32)>,
    /// All names, each ended by a line feed.
    names: String,
}

impl KernelSymbols {
    /// Those of the running kernel.
    pub(crate) fn read() -> io::Result<Self> {
        Ok(Self::parse(BufReader::new(File::open(KALLSYMS)?)))
    }

    fn parse(mut lines: impl BufRead) -> Self {
        let mut symbols = Self::default();
        let mut line = String::new();
        loop {
            line.clear();
            // What is no text ends the list.
            if !matches!(lines.read_line(&mut line), Ok(length) if length > 0) {
                break;
            }
            symbols.take(&line);
        }
        symbols.starts.sort_unstable();
        symbols
    }

    /// `ffffffff81000000 T name [module]`.
    fn take(&mut self, line: &str) {
        let mut words = line.split_ascii_whitespace();
        let (Some(address), Some(kind), Some(name)) = (words.next(), words.next(), words.next())
        else {
            return;
        };
        let Ok(address) = u64::from_str_radix(address, 16) else {
            return;
        };
        let is_code = matches!(kind, "t" | "T" | "w" | "W");
        if let Ok(at) = u32::try_from(self.names.len())
            && is_code
            && address != 0
        {
            self.starts.push((address, at));
            self.names.push_str(name);
            self.names.push('\n');
        }
    }

    /// The function that an address is in.
    pub(crate) fn find(&self, address: u64) -> Option<&str> {
        let behind = self.starts.partition_point(|&(start, _)| start <= address);
        let (_, at) = self.starts.get(behind.checked_sub(1)?)?;
        self.names[*at as usize..].lines().next()
    }

    /// Whether the kernel shows none.
    pub(crate) fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }
}

const KALLSYMS: &str = "/proc/kallsyms";

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines as Linux 6.18 prints them: code is found from its first byte to the next function, data and
    /// hidden addresses are not.
    #[test]
    fn finds_functions() {
        let text = "ffffffffc0201000 t helper\t[nf_tables]\n\
                    ffffffff81000000 T startup_64\n\
                    ffffffff81000040 D data\n\
                    ffffffff81000100 t do_one_initcall\n\
                    0000000000000000 T hidden\n\
                    nonsense\n";
        let symbols = KernelSymbols::parse(text.as_bytes());
        assert_eq!(symbols.find(0xffff_ffff_8100_0000), Some("startup_64"));
        assert_eq!(symbols.find(0xffff_ffff_8100_00ff), Some("startup_64"));
        assert_eq!(symbols.find(0xffff_ffff_8100_0100), Some("do_one_initcall"));
        assert_eq!(symbols.find(0xffff_ffff_c020_1004), Some("helper"));
        assert_eq!(symbols.find(0xffff_ffff_80ff_ffff), None);
        assert!(KernelSymbols::parse(&b"0000000000000000 T hidden\n"[..]).is_empty());
    }
}
