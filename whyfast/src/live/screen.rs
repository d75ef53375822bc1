//! The terminal: taken, drawn on, asked for keys, and given back however this ends.

use std::io::{self, IsTerminal as _, Stdout};
use std::mem::ManuallyDrop;

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::layout::Size;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::keys::{Key, Keys};
use super::model::Model;
use super::view;
use crate::failure::Failure;

/// The terminal, with the screen before it put aside. Dropping it gives it back; a panic does so as well,
/// before it prints anything.
#[derive(Debug)]
pub(super) struct Screen {
    /// Never dropped: it would complain on stderr, and panic where that is gone with the terminal.
    terminal: ManuallyDrop<Terminal<CrosstermBackend<Stdout>>>,
    keys: Keys,
    drawn: Option<Size>,
}

/// Whether there is a terminal to show something on, and to be asked on.
pub(crate) fn require_terminal() -> anyhow::Result<()> {
    for (name, is_terminal) in [
        ("stdin", io::stdin().is_terminal()),
        ("stdout", io::stdout().is_terminal()),
    ] {
        if !is_terminal {
            return Err(Failure::usage(format!(
                "--live shows a screen that follows keys, and {name} is not a terminal; leave --live out, or \
                 write slices as they are taken with --interval 1s --format jsonl"
            )));
        }
    }
    Ok(())
}

impl Screen {
    /// Takes the terminal.
    pub(super) fn take() -> io::Result<Self> {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back();
            before(panic);
        }));
        let take = || {
            enable_raw_mode()?;
            execute!(io::stdout(), EnterAlternateScreen)?;
            Terminal::new(CrosstermBackend::new(io::stdout()))
        };
        let terminal = take().inspect_err(|_failed| give_back())?;
        Ok(Self {
            terminal: ManuallyDrop::new(terminal),
            keys: Keys::default(),
            drawn: None,
        })
    }

    /// The keys that were pressed. Fails where the terminal is gone: it never waits.
    pub(super) fn keys(&mut self) -> io::Result<Vec<Key>> {
        let stdin = io::stdin();
        let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        match poll(&mut fds, Some(&now)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready = fds[0].revents();
        if ready.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if !ready.contains(PollFlags::IN) {
            return Ok(self.keys.feed(&[]));
        }
        let mut bytes = [0; 256];
        match rustix::io::read(&stdin, &mut bytes) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(length) => Ok(self.keys.feed(&bytes[..length])),
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether it has another size than when it was drawn.
    pub(super) fn is_resized(&self) -> bool {
        self.terminal.size().ok() != self.drawn
    }

    /// Draws all that has changed.
    pub(super) fn draw(&mut self, model: &mut Model) -> io::Result<()> {
        self.drawn = Some(self.terminal.size()?);
        self.terminal.draw(|frame| {
            let area = frame.area();
            view::draw(model, area, frame.buffer_mut());
        })?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// As it was. A terminal that is gone need not be given back.
fn give_back() {
    drop(disable_raw_mode());
    drop(execute!(io::stdout(), LeaveAlternateScreen, Show));
}
