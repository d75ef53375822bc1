//! Slices that are written as they are taken, by a thread of its own: whoever reads them slowly does not
//! hold up the measurement, and is told so.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::time::Duration;

use anyhow::Context as _;
use recording::{Profile, ProfileSlice, SeriesLine, SeriesTotal, exit_code};
use reports::csv::series as csv;

use super::watch::{Leave, Onlooker};
use crate::args_profile::ProfileFormat;
use crate::failure::Failure;
use crate::output::note;
use crate::signals::Interrupt;

/// A series that is being written.
#[derive(Debug)]
pub(super) struct Series {
    format: SeriesFormat,
    interval: Duration,
    texts: Option<Sender<String>>,
    /// Texts that were not written yet.
    waiting: Arc<AtomicUsize>,
    /// How the writing ended.
    written: Receiver<io::Result<()>>,
    /// Of the first slice.
    start_ns: Option<u64>,
    slices: u64,
    late: u64,
    /// Whether nobody reads any more.
    is_gone: bool,
}

/// A format of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SeriesFormat {
    Jsonl,
    Csv,
}

impl SeriesFormat {
    /// `None` where the format is not one of a series.
    pub(super) fn of(format: ProfileFormat) -> Option<Self> {
        match format {
            ProfileFormat::Jsonl => Some(Self::Jsonl),
            ProfileFormat::Csv => Some(Self::Csv),
            ProfileFormat::Text
            | ProfileFormat::Json
            | ProfileFormat::Markdown
            | ProfileFormat::Html
            | ProfileFormat::Prometheus
            | ProfileFormat::Svg
            | ProfileFormat::Folded
            | ProfileFormat::FoldedOffCpu => None,
        }
    }
}

impl Series {
    /// Begins to write. Privileges have been given up: the thread is born without any.
    pub(super) fn begin(
        format: SeriesFormat,
        interval: Duration,
        stream: Box<dyn Write + Send>,
    ) -> Self {
        let (texts, to_write) = channel();
        let (done, written) = channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let left = Arc::clone(&waiting);
        std::thread::spawn(move || {
            // Whoever asked may have given up.
            drop(done.send(write_all(stream, &to_write, &left)));
        });
        let series = Self {
            format,
            interval,
            texts: Some(texts),
            waiting,
            written,
            start_ns: None,
            slices: 0,
            late: 0,
            is_gone: false,
        };
        if format == SeriesFormat::Csv {
            series.send(csv::HEADER.to_owned());
        }
        series
    }

    /// Writes the last slice and the total, and waits until they are read.
    pub(super) fn end(
        mut self,
        profile: &mut Profile,
        interrupt: &Interrupt,
    ) -> anyhow::Result<()> {
        for slice in std::mem::take(&mut profile.slices) {
            self.add(slice);
        }
        let total = SeriesTotal::of(profile, self.slices, self.late);
        self.start_ns.get_or_insert(profile.window.start_ns);
        let total = SeriesLine::Total(Box::new(total));
        self.send(self.text(&total));
        if self.is_gone {
            note(&format!(
                "nobody reads the slices any more: ended after {} of them",
                self.slices
            ));
            return Ok(());
        }
        drop(self.texts.take());
        self.wait(interrupt)
    }

    fn wait(&self, interrupt: &Interrupt) -> anyhow::Result<()> {
        let was_interrupted = interrupt.is_set();
        let mut is_said = false;
        loop {
            match self.written.recv_timeout(PATIENCE) {
                Ok(Err(error)) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
                Ok(written) => return written.context(FAILED_TO_WRITE),
                Err(RecvTimeoutError::Disconnected) => anyhow::bail!(FAILED_TO_WRITE),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if interrupt.is_set() && !was_interrupted {
                return Err(Failure::with_code(
                    exit_code::INTERRUPTED,
                    "interrupted while nobody read the last slices: the series is not complete",
                ));
            }
            if !is_said {
                note(
                    "the measurement is over, and its last slices wait to be read; Ctrl-C gives up",
                );
                is_said = true;
            }
        }
    }

    fn add(&mut self, slice: ProfileSlice) {
        self.start_ns.get_or_insert(slice.window.start_ns);
        self.slices += 1;
        self.send(self.text(&SeriesLine::Slice(slice)));
    }

    fn text(&self, line: &SeriesLine) -> String {
        match self.format {
            SeriesFormat::Jsonl => line.to_line(),
            SeriesFormat::Csv => csv::lines(line, self.start_ns.unwrap_or(0)),
        }
    }

    fn send(&self, text: String) {
        if let Some(texts) = &self.texts {
            self.waiting.fetch_add(1, Ordering::Relaxed);
            // That nobody takes it is told by `written`.
            drop(texts.send(text));
        }
    }
}

impl Onlooker for Series {
    fn interval(&self) -> Option<Duration> {
        Some(self.interval)
    }

    fn is_ready(&mut self) -> bool {
        let is_ready = self.waiting.load(Ordering::Relaxed) < WAITING_AT_MOST;
        if !is_ready {
            if self.late == 0 {
                note(
                    "whoever reads the slices is behind: the next ones are longer, until they are read; \
                     nothing is left out",
                );
            }
            self.late += 1;
        }
        is_ready
    }

    fn show(&mut self, slice: ProfileSlice) -> anyhow::Result<()> {
        self.add(slice);
        Ok(())
    }

    fn attend(&mut self, _session: &profiler::Session) -> anyhow::Result<Option<Leave>> {
        match self.written.try_recv() {
            Err(TryRecvError::Empty) => Ok(None),
            Ok(Err(error)) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(error).context(FAILED_TO_WRITE)
            }
            // The thread ends by itself only when nobody reads.
            Ok(_) | Err(TryRecvError::Disconnected) => {
                self.is_gone = true;
                Ok(Some(Leave::Gone))
            }
        }
    }
}

fn write_all(
    mut stream: Box<dyn Write + Send>,
    texts: &Receiver<String>,
    waiting: &AtomicUsize,
) -> io::Result<()> {
    for text in texts {
        stream.write_all(text.as_bytes())?;
        stream.flush()?;
        waiting.fetch_sub(1, Ordering::Relaxed);
    }
    Ok(())
}

const FAILED_TO_WRITE: &str = "failed to write the slices";
/// Texts that wait to be written before slices are put off.
const WAITING_AT_MOST: usize = 16;
/// How long the last ones may take to be read before it is said that they wait.
const PATIENCE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::sync::mpsc::SyncSender;

    use recording::{Detail, Lost, Window};

    use super::*;

    /// A stream that takes a text only when it is told to.
    #[derive(Debug)]
    struct Slow {
        turns: Receiver<()>,
        texts: SyncSender<Vec<u8>>,
    }

    impl Write for Slow {
        fn write(&mut self, text: &[u8]) -> io::Result<usize> {
            self.turns
                .recv()
                .map_err(|_gone| io::ErrorKind::BrokenPipe)?;
            self.texts.send(text.to_vec()).map_err(io::Error::other)?;
            Ok(text.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn slice(number: u64) -> ProfileSlice {
        ProfileSlice {
            window: Window {
                start_ns: number,
                end_ns: number + 1,
            },
            calls: Vec::new(),
            waits: Vec::new(),
            groups: Vec::new(),
            threads: None,
            network: None,
            lost: Lost::default(),
        }
    }

    /// While nobody reads, so many slices wait and no more are taken; that is counted, and in the
    /// total. When they are read, all of them come in their order.
    #[test]
    fn slow_reader_puts_slices_off() {
        let (turn, turns) = channel();
        let (texts, taken) = std::sync::mpsc::sync_channel(1_000);
        let slow = Slow { turns, texts };
        let interval = Duration::from_millis(100);
        let mut series = Series::begin(SeriesFormat::Jsonl, interval, Box::new(slow));
        let mut shown = 0;
        for number in 0..100 {
            if series.is_ready() {
                series.show(slice(number)).unwrap();
                shown += 1;
            }
        }
        assert_eq!(shown, WAITING_AT_MOST as u64);
        assert_eq!(series.late, 100 - shown);
        for _ in 0..=shown {
            turn.send(()).unwrap();
        }
        let window = Window {
            start_ns: 0,
            end_ns: 100,
        };
        let mut profile = Profile::empty(Detail::Counts, window);
        series.end(&mut profile, &Interrupt::default()).unwrap();
        let lines: Vec<SeriesLine> = taken
            .iter()
            .map(|text| serde_json::from_slice(&text).unwrap())
            .collect();
        let expected: Vec<SeriesLine> = (0..shown)
            .map(|number| SeriesLine::Slice(slice(number)))
            .collect();
        assert_eq!(lines[..lines.len() - 1], expected);
        let Some(SeriesLine::Total(total)) = lines.last() else {
            panic!("the last line is no total")
        };
        assert_eq!((total.slices, total.late), (shown, 100 - shown));
    }

    /// A reader that goes away ends the series, and is no error.
    #[test]
    fn reader_that_is_gone() {
        let (turn, turns) = channel();
        drop(turn);
        let (texts, _taken) = std::sync::mpsc::sync_channel(1);
        let slow = Slow { turns, texts };
        let mut series = Series::begin(SeriesFormat::Csv, Duration::from_secs(1), Box::new(slow));
        // The thread ends with the header.
        let gone = series.written.recv().unwrap();
        assert_eq!(gone.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        series.show(slice(0)).unwrap();
        series.is_gone = true;
        let window = slice(0).window;
        let mut profile = Profile::empty(Detail::Counts, window);
        series.end(&mut profile, &Interrupt::default()).unwrap();
    }
}
