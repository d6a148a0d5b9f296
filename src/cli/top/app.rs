//! What is shown, as far as keys change it: the view, its order, filter and selection; and the latest sample.

use super::sample::{Rates, Sample};
use super::table::{column, columns, passes, rows, sort, Row};
use super::View;
use crate::cli::agent::Entity;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::collections::VecDeque;
use std::time::Duration;

/// Samples whose throughput is remembered.
const HISTORY: usize = 60;
/// Rows that a page key goes.
const PAGE: usize = 10;
/// How often the router may be asked.
const PACES: [Duration; 6] = [
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(10),
];

/// What a view looks like.
#[derive(Clone, Debug)]
pub struct Shape {
    pub sort: usize,
    pub is_descending: bool,
    pub filter: String,
    /// Of the rows that are shown.
    pub selected: usize,
    /// The first row on the screen.
    pub first: usize,
}

/// What a key asks of the driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    None,
    /// Another view, or another pace: ask now.
    Ask,
    Quit,
}

pub struct App {
    pub view: View,
    shapes: [Shape; 3],
    pub pace: Duration,
    pub is_paused: bool,
    /// A filter is being typed.
    pub is_typing: bool,
    pub shows_help: bool,
    /// Why there is nothing new.
    pub trouble: Option<String>,
    pub router: Entity,
    rates: Rates,
    /// Rows of the latest sample; empty until the view's first one.
    all: Vec<Row>,
    /// Those that pass the filter, in order.
    pub rows: Vec<Row>,
    /// Deliveries into the router, a second.
    pub history: VecDeque<f64>,
    /// The view of the latest sample, where it is the one that is shown.
    sampled: Option<View>,
}

impl App {
    pub fn new(pace: Duration) -> App {
        let shape = |view, heading| Shape {
            sort: column(view, heading),
            is_descending: true,
            filter: String::new(),
            selected: 0,
            first: 0,
        };
        App {
            view: View::Addresses,
            shapes: [shape(View::Addresses, "IN/S"), shape(View::Connections, "IN/S"), shape(View::Links, "MSG/S")],
            pace,
            is_paused: false,
            is_typing: false,
            shows_help: false,
            trouble: None,
            router: Entity::new(),
            rates: Rates::default(),
            all: Vec::new(),
            rows: Vec::new(),
            history: VecDeque::new(),
            sampled: None,
        }
    }

    pub fn shape(&self) -> &Shape {
        &self.shapes[self.view as usize]
    }

    pub fn shape_mut(&mut self) -> &mut Shape {
        &mut self.shapes[self.view as usize]
    }

    pub fn router_rates(&self) -> [Option<f64>; 2] {
        self.rates.of_router()
    }

    /// Whether the view's first sample is here.
    pub fn has_sample(&self) -> bool {
        self.sampled.is_some()
    }

    /// Rows before the filter.
    pub fn total(&self) -> usize {
        self.all.len()
    }

    /// A sample came, so many seconds after the one before. One of another view came too late.
    pub fn take(&mut self, sample: Sample, seconds: f64) {
        if sample.view != self.view {
            return;
        }
        if self.sampled.replace(sample.view).is_none() {
            self.rates = Rates::default();
        }
        self.trouble = None;
        self.rates.take(&sample, seconds);
        if let [Some(rate), _] = self.rates.of_router() {
            self.history.push_back(rate);
            if self.history.len() > HISTORY {
                self.history.pop_front();
            }
        }
        self.all = rows(&sample, &self.rates);
        self.router = sample.router;
        self.arrange();
    }

    /// Filters and sorts anew.
    fn arrange(&mut self) {
        let (view, shape) = (self.view, &self.shapes[self.view as usize]);
        self.rows = self.all.iter().filter(|row| passes(row, &shape.filter, view)).cloned().collect();
        sort(&mut self.rows, shape.sort, shape.is_descending);
        self.select(self.shape().selected);
    }

    fn select(&mut self, row: usize) {
        let last = self.rows.len().saturating_sub(1);
        self.shape_mut().selected = row.min(last);
    }

    fn switch(&mut self, view: View) -> Action {
        if view == self.view {
            return Action::None;
        }
        self.view = view;
        self.sampled = None;
        self.all.clear();
        self.arrange();
        Action::Ask
    }

    pub fn key(&mut self, key: KeyEvent) -> Action {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return Action::Quit;
        }
        if self.is_typing {
            self.typed(key.code);
            return Action::None;
        }
        if std::mem::take(&mut self.shows_help) {
            return Action::None;
        }
        match key.code {
            KeyCode::Char('q') => Action::Quit,
            KeyCode::Char('p' | ' ') => {
                self.is_paused = !self.is_paused;
                Action::Ask
            }
            KeyCode::Char('1' | 'a') => self.switch(View::Addresses),
            KeyCode::Char('2' | 'c') => self.switch(View::Connections),
            KeyCode::Char('3' | 'l') => self.switch(View::Links),
            KeyCode::Tab => self.switch(self.view.next()),
            KeyCode::BackTab => self.switch(self.view.next().next()),
            KeyCode::Char('+') => self.change_pace(-1),
            KeyCode::Char('-') => self.change_pace(1),
            KeyCode::Enter => self.open_links(),
            code => {
                self.arranged(code);
                Action::None
            }
        }
    }

    /// Keys that only change what is shown of the sample at hand.
    fn arranged(&mut self, code: KeyCode) {
        let selected = self.shape().selected;
        match code {
            KeyCode::Char('?' | 'h') => self.shows_help = true,
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Esc => {
                self.shape_mut().filter.clear();
                self.arrange();
            }
            KeyCode::Char('r') => {
                let shape = self.shape_mut();
                shape.is_descending = !shape.is_descending;
                self.arrange();
            }
            KeyCode::Right | KeyCode::Char('>') => self.sort_by(1),
            KeyCode::Left | KeyCode::Char('<') => self.sort_by(-1),
            KeyCode::Down | KeyCode::Char('j') => self.select(selected + 1),
            KeyCode::Up | KeyCode::Char('k') => self.select(selected.saturating_sub(1)),
            KeyCode::PageDown => self.select(selected + PAGE),
            KeyCode::PageUp => self.select(selected.saturating_sub(PAGE)),
            KeyCode::Home | KeyCode::Char('g') => self.select(0),
            KeyCode::End | KeyCode::Char('G') => self.select(usize::MAX),
            _ => {}
        }
    }

    fn typed(&mut self, code: KeyCode) {
        let filter = &mut self.shapes[self.view as usize].filter;
        match code {
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                filter.clear();
                self.is_typing = false;
            }
            KeyCode::Backspace => drop(filter.pop()),
            KeyCode::Char(letter) => filter.push(letter),
            _ => {}
        }
        self.arrange();
    }

    /// The column that many places to the right; numbers begin with the largest.
    fn sort_by(&mut self, places: isize) {
        let all = columns(self.view);
        let shape = self.shape_mut();
        shape.sort = shape.sort.saturating_add_signed(places).min(all.len() - 1);
        shape.is_descending = all[shape.sort].is_number;
        self.arrange();
    }

    fn change_pace(&mut self, places: isize) -> Action {
        let now = PACES.iter().position(|pace| *pace >= self.pace).unwrap_or(PACES.len() - 1);
        self.pace = PACES[now.saturating_add_signed(places).min(PACES.len() - 1)];
        Action::Ask
    }

    /// The links of the selected address or connection.
    fn open_links(&mut self) -> Action {
        let Some(row) = self.rows.get(self.shape().selected).filter(|_| self.view != View::Links) else {
            return Action::None;
        };
        self.shapes[View::Links as usize].filter = row.links.clone();
        self.switch(View::Links)
    }
}

#[cfg(test)]
#[path = "app_tests.rs"]
mod tests;
