//! The screen as a buffer of cells: the same for a terminal, for the text that is left at the end, and for
//! tests. Nothing here can fail, however small the area is.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{
    Block, Cell, Clear, Paragraph, Row, StatefulWidget, Table, TableState, Widget as _,
};
use recording::{Detail, GroupBy};
use reports::clean;
use reports::slices::{self, SLICE_COLUMNS, SliceRow};

use super::model::{Model, Page};

/// Draws the whole screen, and tells the model how many rows have room.
pub(super) fn draw(model: &mut Model, area: Rect, buffer: &mut Buffer) {
    let area = area.intersection(buffer.area);
    if area.is_empty() {
        return;
    }
    let [title, sums, rows, bottom] = lines(area);
    model.page_rows = usize::from(rows.height.saturating_sub(1)).max(1);
    head(model, title, sums, buffer);
    table(model, true, rows, buffer);
    if model.is_typing {
        let typed = format!(
            " filter: {}_   Enter keeps it, Esc clears it",
            clean(&model.filter)
        );
        Line::from(typed).render(bottom, buffer);
    } else {
        Line::styled(keys_line(model), Modifier::REVERSED).render(bottom, buffer);
    }
    if model.has_help {
        help(model, area, buffer);
    }
}

/// What the last screen showed, as text of 80 columns: all rows, and no keys.
pub(super) fn text(model: &Model) -> String {
    let rows = u16::try_from(model.rows().len()).unwrap_or(u16::MAX);
    let height = rows.saturating_add(3).min(TEXT_LINES);
    let area = Rect::new(0, 0, TEXT_COLUMNS, height);
    let mut buffer = Buffer::empty(area);
    let [title, sums, rows, _bottom] =
        lines(Rect::new(0, 0, TEXT_COLUMNS, height.saturating_add(1)));
    head(model, title, sums, &mut buffer);
    table(model, false, rows, &mut buffer);
    to_text(&buffer)
}

fn lines(area: Rect) -> [Rect; 4] {
    let one = Constraint::Length(1);
    Layout::vertical([one, one, Constraint::Min(0), one]).areas(area)
}

fn head(model: &Model, title: Rect, sums: Rect, buffer: &mut Buffer) {
    let mut words = vec![Span::styled(
        format!(" {} ", clean(&model.about.target)),
        Modifier::BOLD,
    )];
    words.push(Span::from(match model.processes {
        0 if model.about.can_return => "no process: waiting for it to come back".into(),
        1 => "1 process".into(),
        processes => format!("{processes} processes"),
    }));
    words.push(Span::from(format!(
        "  {:.0} s  {}",
        model.shown_s(),
        detail_word(model.about.detail)
    )));
    if model.is_paused {
        words.push(Span::styled("  PAUSED", Modifier::BOLD));
    }
    if let Page::Group(name) = &model.page {
        words.push(Span::from(format!("  in {name}")));
    }
    if !model.filter.is_empty() && !model.is_typing {
        words.push(Span::from(format!("  filter: {}", clean(&model.filter))));
    }
    // Where an area is outside of the buffer nothing is drawn.
    Line::from(words).render(title.intersection(buffer.area), buffer);
    let line = model.slice.as_ref().map_or_else(
        || " the first figures are being counted".to_owned(),
        |slice| {
            let [calls, errors, ..] = slices::sum(slice).cells();
            let lost = match slice.lost.total() {
                0 => String::new(),
                lost => format!("  {lost} LOST"),
            };
            format!(" {calls} calls/s  {errors} errors/s{lost}")
        },
    );
    Line::from(line).render(sums.intersection(buffer.area), buffer);
}

fn table(model: &Model, is_marked: bool, area: Rect, buffer: &mut Buffer) {
    let area = area.intersection(buffer.area);
    if area.is_empty() {
        return;
    }
    let shown = columns(area.width);
    let cells = |name: String, figures: [String; 6]| {
        let figures = figures.into_iter().take(shown);
        let figures = figures.map(|figure| Cell::from(Text::from(figure).right_aligned()));
        Row::new(std::iter::once(Cell::from(name)).chain(figures))
    };
    let heading = cells(
        format!(" {}", heading(model)),
        SLICE_COLUMNS.map(Into::into),
    );
    let rows = model.rows();
    let count = rows.len();
    let rows = rows
        .into_iter()
        .map(|row: SliceRow| cells(format!(" {}", row.name), row.cells()));
    let widths = std::iter::once(Constraint::Fill(1))
        .chain(WIDTHS.into_iter().take(shown).map(Constraint::Length));
    let table = Table::new(rows, widths)
        .header(heading.style(Modifier::BOLD))
        .row_highlight_style(Modifier::REVERSED);
    let mut state = TableState::default();
    if is_marked && count > 0 {
        state.select(Some(model.marked));
    }
    StatefulWidget::render(table, area, buffer, &mut state);
    if count == 0 && model.slice.is_some() && area.height > 1 {
        let below = Rect {
            y: area.y + 1,
            height: 1,
            ..area
        };
        let why = if model.filter.is_empty() {
            " nothing was called"
        } else {
            " nothing matches the filter; Esc clears it"
        };
        Line::from(why).render(below, buffer);
    }
}

/// How many figures have room beside a name that can be read.
fn columns(width: u16) -> usize {
    let mut left = width.saturating_sub(NAME_AT_LEAST);
    let fits = |&&column: &&u16| {
        let fits = left > column;
        left = left.saturating_sub(column + 1);
        fits
    };
    WIDTHS.iter().take_while(fits).count()
}

fn heading(model: &Model) -> &'static str {
    match (&model.page, model.about.by) {
        (Page::Groups, Some(GroupBy::Process)) => "process",
        (Page::Groups, Some(GroupBy::Thread)) => "thread",
        (Page::Groups, _) => "threads",
        (Page::Calls | Page::Group(_), _) => "call",
    }
}

fn keys_line(model: &Model) -> String {
    let order = model.order.word();
    let pause = if model.is_paused { "go on" } else { "pause" };
    let page = match model.page {
        _ if model.about.by.is_none() => "",
        Page::Calls => "g groups  ",
        Page::Groups => "g calls  Enter opens  ",
        Page::Group(_) => "Esc back  ",
    };
    format!(" q quit  s sort: {order}  / filter  p {pause}  {page}? help ")
}

fn help(model: &Model, area: Rect, buffer: &mut Buffer) {
    let mut lines: Vec<String> = HELP.iter().map(|line| (*line).to_owned()).collect();
    if model.about.detail < Detail::Sched {
        lines.push("on and off CPU: start with --detail sched".into());
    }
    if model.about.by.is_none() {
        lines.push("groups: start with --by process, thread or comm".into());
    }
    let width = HELP_COLUMNS.min(area.width);
    let height = u16::try_from(lines.len() + 2)
        .unwrap_or(u16::MAX)
        .min(area.height);
    let window = Rect::new(
        area.x + (area.width - width) / 2,
        area.y + (area.height - height) / 2,
        width,
        height,
    );
    Clear.render(window, buffer);
    let lines: Vec<Line<'_>> = lines.into_iter().map(Line::from).collect();
    Paragraph::new(lines)
        .block(Block::bordered().title(" help: any key closes "))
        .style(Style::default())
        .render(window, buffer);
}

fn detail_word(detail: Detail) -> &'static str {
    match detail {
        Detail::Floor => "floor",
        Detail::Counts => "counts",
        Detail::Times => "times",
        Detail::Sched => "sched",
        Detail::Stacks => "stacks",
    }
}

/// The lines of a buffer without the blanks at their ends.
fn to_text(buffer: &Buffer) -> String {
    let mut text = String::new();
    for y in buffer.area.rows().map(|row| row.y) {
        let mut line = String::new();
        let mut x = 0;
        while x < buffer.area.width {
            let symbol = buffer[(x, y)].symbol();
            line.push_str(symbol);
            // What is wider than a cell covers the next ones.
            x += u16::try_from(Span::from(symbol).width().max(1)).unwrap_or(1);
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Columns of the figures: the last ones are left out where there is no room.
const WIDTHS: [u16; 6] = [9, 8, 7, 7, 7, 7];
const NAME_AT_LEAST: u16 = 16;
const TEXT_COLUMNS: u16 = 80;
const TEXT_LINES: u16 = 40;
const HELP_COLUMNS: u16 = 62;
const HELP: [&str; 14] = [
    "q, Ctrl-C   end, and print the report of the whole window",
    "s, S        sort by the next, the last figure",
    "/           type a filter: part of a name",
    "p, blank    pause the screen; the measurement goes on",
    "g, Tab      calls, or processes or threads (--by)",
    "Enter, Esc  into a process or thread, and back",
    "arrows      move the mark; PgUp, PgDn, Home, End too",
    "",
    "calls/s, errors/s   per second, since the last refresh",
    "inside              mean time from entry to return",
    "on CPU, off CPU     of it, running and asleep; of a process",
    "                    or thread per call, outside of calls too",
    "ev/wake             events per return of a waiting call",
    "-                   not measured, or without a meaning",
];

#[cfg(test)]
mod tests;
