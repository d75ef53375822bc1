//! `whyfast profile --live`: what happens in the target, on the whole screen, as it happens.
//!
//! `model` is what is shown and what keys change, `view` lays it out in a buffer of cells, `keys` makes keys
//! of bytes: all three without a terminal. `screen` has the terminal.

mod keys;
mod model;
mod screen;
mod view;

use std::time::Duration;

use profiler::Session;
use recording::ProfileSlice;

use self::model::{Answer, Model};
use self::screen::Screen;
use crate::output::{Output, note};
use crate::verbs::profile::{End, Leave, Onlooker};

pub(crate) use self::model::About;
pub(crate) use self::screen::require_terminal;

/// A screen that is shown to a user.
#[derive(Debug)]
pub(crate) struct Live {
    model: Model,
    refresh: Duration,
    /// Whether something has changed since it was drawn.
    is_stale: bool,
    /// Last: it gives the terminal back when it is dropped.
    screen: Screen,
}

impl Live {
    /// Takes the terminal.
    pub(crate) fn begin(about: About, refresh: Duration) -> anyhow::Result<Self> {
        Ok(Self {
            model: Model::new(about),
            refresh,
            is_stale: true,
            screen: Screen::take()?,
        })
    }

    /// Gives the terminal back, says why it ended, and leaves the last figures there as text.
    pub(crate) fn end(self, end: &End, as_text: bool) -> anyhow::Result<()> {
        let Self { model, screen, .. } = self;
        drop(screen);
        if end.left == Some(Leave::Gone) {
            note("the terminal is gone: ended");
            return Ok(());
        }
        if end.target_gone {
            note("every process of the target has ended");
        }
        let last = view::text(&model);
        if as_text {
            Output::Stdout.write(&last)
        } else {
            note(last.trim_end());
            Ok(())
        }
    }
}

impl Onlooker for Live {
    fn interval(&self) -> Option<Duration> {
        Some(self.refresh)
    }

    fn show(&mut self, slice: ProfileSlice) -> anyhow::Result<()> {
        self.model.take(slice);
        self.is_stale = true;
        Ok(())
    }

    fn attend(&mut self, session: &Session) -> anyhow::Result<Option<Leave>> {
        let Ok(keys) = self.screen.keys() else {
            return Ok(Some(Leave::Gone));
        };
        self.is_stale |= !keys.is_empty();
        for key in keys {
            if self.model.press(key) == Answer::Leave {
                return Ok(Some(Leave::Asked));
            }
        }
        self.is_stale |= self.model.count_processes(session.pids().len());
        if self.is_stale || self.screen.is_resized() {
            // Whatever keeps it from being drawn, nobody sees it any more.
            if self.screen.draw(&mut self.model).is_err() {
                return Ok(Some(Leave::Gone));
            }
            self.is_stale = false;
        }
        Ok(None)
    }
}
