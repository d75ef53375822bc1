//! What is shown, and what keys change about it. Pure.

use recording::{Detail, GroupBy, ProfileSlice};
use reports::slices::{self, SliceOrder, SliceRow};

use super::keys::Key;

/// What is known before the first slice.
#[derive(Clone, Debug)]
pub(crate) struct About {
    /// The target, in the words of the command line.
    pub(crate) target: String,
    /// How much is probed.
    pub(crate) detail: Detail,
    /// What groups are, where there are any.
    pub(crate) by: Option<GroupBy>,
    /// Whether a target that has ended is awaited.
    pub(crate) can_return: bool,
}

/// The state of the screen.
#[derive(Clone, Debug)]
pub(super) struct Model {
    pub(super) about: About,
    /// The slice that is shown.
    pub(super) slice: Option<ProfileSlice>,
    /// When the first slice began, ns.
    start_ns: Option<u64>,
    /// Processes of the target that are alive.
    pub(super) processes: usize,
    pub(super) page: Page,
    pub(super) order: SliceOrder,
    pub(super) filter: String,
    /// Whether keys go to the filter.
    pub(super) is_typing: bool,
    pub(super) is_paused: bool,
    pub(super) has_help: bool,
    /// The row that is marked.
    pub(super) marked: usize,
    /// Rows of a screen, as it was drawn last.
    pub(super) page_rows: usize,
}

/// What the rows are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Page {
    /// The calls of the whole target.
    Calls,
    /// Processes, threads, or names of threads.
    Groups,
    /// The calls of one of them, by its name.
    Group(String),
}

/// What follows from a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Stay,
    Leave,
}

impl Model {
    /// Nothing to show yet. Where there are groups, they come first.
    pub(super) fn new(about: About) -> Self {
        Self {
            page: if about.by.is_some() {
                Page::Groups
            } else {
                Page::Calls
            },
            about,
            slice: None,
            start_ns: None,
            processes: 0,
            order: SliceOrder::default(),
            filter: String::new(),
            is_typing: false,
            is_paused: false,
            has_help: false,
            marked: 0,
            page_rows: 1,
        }
    }

    /// A slice that was taken. While the screen is paused it is measured and not shown.
    pub(super) fn take(&mut self, slice: ProfileSlice) {
        self.start_ns.get_or_insert(slice.window.start_ns);
        if !self.is_paused {
            self.slice = Some(slice);
            self.keep_mark();
        }
    }

    /// How many processes are alive; whether that is another number.
    pub(super) fn count_processes(&mut self, processes: usize) -> bool {
        std::mem::replace(&mut self.processes, processes) != processes
    }

    /// A key was pressed.
    pub(super) fn press(&mut self, key: Key) -> Answer {
        if key == Key::Interrupt {
            return Answer::Leave;
        }
        if self.is_typing {
            self.type_filter(key);
        } else if self.has_help {
            self.has_help = false;
        } else if key == Key::Char('q') {
            return Answer::Leave;
        } else {
            self.command(key);
        }
        self.keep_mark();
        Answer::Stay
    }

    /// The rows that are shown, in their order.
    pub(super) fn rows(&self) -> Vec<SliceRow> {
        let Some(slice) = &self.slice else {
            return Vec::new();
        };
        let mut rows = match &self.page {
            Page::Calls => slices::calls(slice),
            Page::Groups => slices::groups(slice),
            Page::Group(name) => slices::calls_of_group(slice, name),
        };
        let filter = self.filter.to_lowercase();
        rows.retain(|row| row.name.to_lowercase().contains(&filter));
        self.order.sort(&mut rows);
        rows
    }

    /// When the slice that is shown ended, since the start, s.
    pub(super) fn shown_s(&self) -> f64 {
        let shown = self.slice.as_ref().zip(self.start_ns);
        shown.map_or(0.0, |(slice, start_ns)| {
            slice.window.end_ns.saturating_sub(start_ns) as f64 / 1e9
        })
    }

    fn command(&mut self, key: Key) {
        match key {
            Key::Char('?' | 'h') => self.has_help = true,
            Key::Char('p' | ' ') => self.is_paused = !self.is_paused,
            Key::Char('/') => self.is_typing = true,
            Key::Char('s') => self.order = self.neighbour(1),
            Key::Char('S') => self.order = self.neighbour(SliceOrder::ALL.len() - 1),
            Key::Char('g') | Key::Tab => self.turn_page(),
            Key::Enter => self.enter(),
            Key::Escape => self.step_back(),
            Key::Up => self.marked = self.marked.saturating_sub(1),
            Key::Down => self.marked += 1,
            Key::PageUp => self.marked = self.marked.saturating_sub(self.page_rows),
            Key::PageDown => self.marked = self.marked.saturating_add(self.page_rows),
            Key::Home => self.marked = 0,
            Key::End => self.marked = usize::MAX,
            Key::Char(_) | Key::Backspace | Key::Interrupt => {}
        }
    }

    fn type_filter(&mut self, key: Key) {
        match key {
            Key::Char(character) if self.filter.chars().count() < FILTER_LENGTH => {
                self.filter.push(character);
            }
            Key::Backspace => drop(self.filter.pop()),
            Key::Enter => self.is_typing = false,
            Key::Escape => {
                self.is_typing = false;
                self.filter.clear();
            }
            _ => {}
        }
    }

    /// The order that is so many places after this one.
    fn neighbour(&self, places: usize) -> SliceOrder {
        let all = SliceOrder::ALL;
        let at = all.iter().position(|&order| order == self.order);
        all[(at.unwrap_or(0) + places) % all.len()]
    }

    fn turn_page(&mut self) {
        let page = match self.page {
            Page::Calls if self.about.by.is_some() => Page::Groups,
            Page::Calls | Page::Groups | Page::Group(_) => Page::Calls,
        };
        self.go_to(page);
    }

    fn enter(&mut self) {
        if self.page == Page::Groups
            && let Some(row) = self.rows().into_iter().nth(self.marked)
        {
            self.go_to(Page::Group(row.name));
        }
    }

    /// Out of a group, else without the filter.
    fn step_back(&mut self) {
        if let Page::Group(_) = self.page {
            self.go_to(Page::Groups);
        } else {
            self.filter.clear();
        }
    }

    /// Another page has other names and other rows.
    fn go_to(&mut self, page: Page) {
        if page != self.page {
            self.page = page;
            self.filter.clear();
            self.marked = 0;
        }
    }

    /// Keeps the mark on a row.
    fn keep_mark(&mut self) {
        self.marked = self.marked.min(self.rows().len().saturating_sub(1));
    }
}

const FILTER_LENGTH: usize = 64;
