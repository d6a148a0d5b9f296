//! The picture: two lines about the router, the views, the table, the keys.

use super::app::App;
use super::format::{fit, seconds, short};
use super::table::{columns, Cell, Column};
use super::View;
use crate::cli::stat::table::{bytes, get, text};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph};
use ratatui::Frame;

const STRONG: Style = Style::new().add_modifier(Modifier::BOLD);
const QUIET: Style = Style::new().fg(Color::DarkGray);
const ALARM: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
const HEADING: Style = Style::new().fg(Color::Black).bg(Color::Gray);
const SELECTED: Style = Style::new().add_modifier(Modifier::REVERSED);

const KEYS: &str = "q quit  Tab view  ←→ sort  r reverse  / filter  ⏎ its links  p pause  ? help";

const HELP: &[(&str, &str)] = &[
    ("1 2 3, Tab", "addresses, connections, links"),
    ("← →", "sort by another column"),
    ("r", "reverse the order"),
    ("/", "filter: words that a row's texts have; Esc clears"),
    ("↑ ↓ PgUp PgDn", "select a row"),
    ("Enter", "links of the selected address or connection"),
    ("p, space", "pause, go on"),
    ("+ -", "ask the router more often, less often"),
    ("q", "quit"),
    ("", ""),
    ("SEND, RECV", "links of senders, of consumers"),
    ("DEPTH, WAIT", "messages in the router; waiting for a consumer"),
    ("CREDIT, SHARE", "what the consumers take; a sender's share of it"),
    ("P50, P99", "time until settled: half, 99 % were faster"),
    ("!", "a threshold of the address is exceeded"),
];

/// `clock`: the time of day, as it is shown.
pub fn draw(frame: &mut Frame<'_>, app: &mut App, clock: &str) {
    let rows = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(1),
    ]);
    let [router, figures, views, table, keys] = rows.areas(frame.area());
    frame.render_widget(router_line(app, clock, router.width), router);
    frame.render_widget(figures_line(app, figures.width), figures);
    frame.render_widget(views_line(app, views.width), views);
    draw_table(frame, app, table);
    frame.render_widget(keys_line(app), keys);
    if app.shows_help {
        draw_help(frame);
    }
}

fn length(spans: &[Span<'_>]) -> usize {
    spans.iter().map(Span::width).sum()
}

/// Words at a line's left end and at its right end. Of the left ones the last are left out where there is no room.
fn ends(mut left: Vec<Span<'static>>, right: Vec<Span<'static>>, width: u16) -> Line<'static> {
    let width = usize::from(width);
    let room = width.saturating_sub(length(&right) + 1);
    while length(&left) > room && left.pop().is_some() {}
    left.push(Span::raw(" ".repeat(width.saturating_sub(length(&left) + length(&right)))));
    left.extend(right);
    Line::from(left)
}

fn router_line(app: &App, clock: &str, width: u16) -> Line<'static> {
    let known = |name: &str| text(get(&app.router, name));
    let mut left = vec![Span::styled("ringway top", STRONG)];
    if !app.router.is_empty() {
        let up = get(&app.router, "uptimeSeconds").as_u64().unwrap_or_default();
        left.push(Span::styled(format!("  {}", fit(&known("id"), 24)), STRONG));
        left.push(Span::raw(format!("  up {}", seconds(up))));
        // What is in RAM; of a router that doesn't say, all that is mapped.
        let memory = ["residentMemory", "memoryUsage"].map(|name| get(&app.router, name));
        if let Some(memory) = memory.into_iter().find(|memory| !memory.is_null()) {
            left.push(Span::raw(format!("  {}", bytes(memory))));
        }
        left.push(Span::raw(format!("  {} {}", known("mode"), known("version"))));
    }
    let pace = match app.is_paused {
        true => Span::styled("paused", ALARM),
        false => Span::raw(format!("every {} s", app.pace.as_secs_f64())),
    };
    ends(left, vec![pace, Span::raw(format!("  {clock}"))], width)
}

fn figures_line(app: &App, width: u16) -> Line<'static> {
    if let Some(trouble) = &app.trouble {
        return Line::styled(fit(trouble, width.into()), ALARM);
    }
    let rate = |rate: Option<f64>| rate.map_or("-".to_owned(), short);
    let [incoming, outgoing] = app.router_rates();
    let mut left = vec![
        Span::raw("in "),
        Span::styled(format!("{}/s", rate(incoming)), STRONG),
        Span::raw("  out "),
        Span::styled(format!("{}/s", rate(outgoing)), STRONG),
    ];
    let counts = [("delayed", "deliveriesDelayed1Sec"), ("stuck", "deliveriesStuck"), ("blocked", "linksBlocked")];
    for (name, attribute) in counts {
        let Some(count) = get(&app.router, attribute).as_f64() else { continue };
        let style = if count > 0.0 && name != "delayed" { ALARM } else { Style::new() };
        left.push(Span::styled(format!("  {name} {}", short(count)), style));
    }
    let room = usize::from(width).saturating_sub(length(&left) + 2);
    ends(left, vec![Span::styled(bars(app, room.min(30)), Style::new().fg(Color::Cyan))], width)
}

/// The latest throughput as bars, the newest at the right.
fn bars(app: &App, width: usize) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let largest = app.history.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let bar = |rate: &f64| BARS[((rate / largest * 7.0).round() as usize).min(7)];
    app.history.iter().skip(app.history.len().saturating_sub(width)).map(bar).collect()
}

fn views_line(app: &App, width: u16) -> Line<'static> {
    let mut left = Vec::new();
    for (index, view) in View::ALL.iter().enumerate() {
        let count = get(&app.router, view.count_attribute()).as_f64();
        let count = count.map_or(String::new(), |count| format!(" {}", short(count)));
        let style = if *view == app.view { STRONG.add_modifier(Modifier::UNDERLINED) } else { QUIET };
        left.push(Span::styled(format!("{} {}{count}", index + 1, view.name()), style));
        left.push(Span::raw("   "));
    }
    let filter = fit(&app.shape().filter, 24);
    let right = match (app.is_typing, filter.is_empty()) {
        (true, _) => vec![Span::raw("/"), Span::styled(format!("{filter}▏"), STRONG)],
        (false, true) => Vec::new(),
        (false, false) => {
            let shown = format!("{} of {} with ", app.rows.len(), app.total());
            vec![Span::raw(shown), Span::styled(filter, STRONG)]
        }
    };
    ends(left, right, width)
}

fn keys_line(app: &App) -> Line<'static> {
    match app.is_typing {
        true => Line::styled("type what rows should have;  ⏎ keep it  Esc show all", QUIET),
        false => Line::styled(KEYS, QUIET),
    }
}

/// The columns that a width has place for: their places in a row, and their widths here.
fn fitting(view: View, width: u16) -> Vec<(usize, Column, usize)> {
    let shown = columns(view).iter().enumerate().filter(|(_, column)| column.from_width <= width);
    let shown: Vec<(usize, Column)> = shown.map(|(index, column)| (index, *column)).collect();
    let used: u16 = shown.iter().map(|(_, column)| column.width + 1).sum();
    let left = (width + 1).saturating_sub(used);
    let wide = |column: &Column| usize::from(if column.width == 0 { left } else { column.width });
    shown.into_iter().map(|(index, column)| (index, column, wide(&column))).collect()
}

/// In the width of a column, behind the gap that sets it off from the one before.
fn padded(gap: &str, text: &str, width: usize, is_number: bool) -> String {
    let text = fit(text, width);
    match is_number {
        true => format!("{gap}{text:>width$}"),
        false => format!("{gap}{text:<width$}"),
    }
}

fn gap(place: usize) -> &'static str {
    if place == 0 {
        ""
    } else {
        " "
    }
}

/// The column that rows are sorted by has an arrow: beside its heading, or before it where that fills the column.
fn headings(columns: &[(usize, Column, usize)], sort: usize, is_descending: bool) -> Line<'static> {
    let arrow = if is_descending { "▼" } else { "▲" };
    let heading = |(place, (index, column, width)): (usize, &(usize, Column, usize))| {
        let (name, is_number) = (column.heading, column.is_number);
        if *index != sort {
            return Span::raw(padded(gap(place), name, *width, is_number));
        }
        let text = match (name.len() < *width, is_number) {
            (true, true) => padded(gap(place), &format!("{arrow}{name}"), *width, true),
            (true, false) => padded(gap(place), &format!("{name}{arrow}"), *width, false),
            (false, _) => padded(arrow, name, *width, is_number),
        };
        Span::styled(text, STRONG)
    };
    Line::from(columns.iter().enumerate().map(heading).collect::<Vec<_>>()).style(HEADING)
}

fn draw_table(frame: &mut Frame<'_>, app: &mut App, area: Rect) {
    let columns = fitting(app.view, area.width);
    let height = usize::from(area.height).saturating_sub(1);
    let shape = app.shape_mut();
    // The selected row stays in sight.
    shape.first = shape.first.min(shape.selected).max((shape.selected + 1).saturating_sub(height));
    let (first, selected) = (shape.first, shape.selected);
    let mut lines = vec![headings(&columns, shape.sort, shape.is_descending)];
    for (index, row) in app.rows.iter().enumerate().skip(first).take(height) {
        let cells = columns.iter().enumerate().map(|(place, (index, column, width))| {
            let cell = &row.cells[*index];
            let style = if matches!(cell, Cell::None) { QUIET } else { Style::new() };
            Span::styled(padded(gap(place), cell.shown(), *width, column.is_number), style)
        });
        let style = if row.is_alarming { ALARM } else { Style::new() };
        let style = if index == selected { style.patch(SELECTED) } else { style };
        lines.push(Line::from(cells.collect::<Vec<_>>()).style(style));
    }
    if app.rows.is_empty() {
        let why = match (app.has_sample(), app.total()) {
            (false, _) => "asking the router …",
            (true, 0) => "none",
            (true, _) => "nothing passes the filter; Esc shows all",
        };
        lines.push(Line::styled(why, QUIET));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

fn draw_help(frame: &mut Frame<'_>) {
    let area = frame.area();
    let (width, height) = (66.min(area.width), (HELP.len() as u16 + 2).min(area.height));
    let area = Rect::new((area.width - width) / 2, (area.height - height) / 2, width, height);
    let line = |(key, what): &(&'static str, &'static str)| {
        Line::from(vec![Span::styled(format!(" {key:<15}"), STRONG), Span::raw(*what)])
    };
    let text: Vec<Line<'_>> = HELP.iter().map(line).collect();
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(text).block(Block::bordered().title(" keys and columns ")), area);
}
