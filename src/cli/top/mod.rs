//! `ringway top`: a router's addresses, connections and links, live on the whole screen.
//!
//! A thread asks the router over management, one sample after another; the terminal's thread draws what came and reads keys,
//! so that a slow router never stops them. `app` holds what keys change, `table` makes rows of a sample, `draw` the picture;
//! none of them knows the terminal or the connection.

mod app;
mod draw;
mod format;
mod sample;
mod table;

use super::agent::{Agent, Target};
use super::connect::ConnectOptions;
use super::failure::Failure;
use app::{Action, App};
use chrono::Local;
use clap::{ArgAction, Args};
use crossterm::event::{self, Event, KeyEventKind};
use ratatui::backend::TestBackend;
use ratatui::Terminal;
use sample::Sample;
use std::io::IsTerminal;
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// How long keys are waited for before the next picture.
const KEY_PATIENCE: Duration = Duration::from_millis(100);
/// After trouble the router is asked anew after this.
const AGAIN: Duration = Duration::from_secs(2);
/// The picture's size where there is no terminal.
const SIZE_DEFAULT: (u16, u16) = (80, 24);

/// Shows a router's addresses, connections and links, live
#[derive(Args, Debug)]
#[command(version, disable_version_flag = true, args_override_self = true, infer_long_args = true)]
pub struct TopArguments {
    /// Seconds between two pictures
    #[arg(short = 'i', long, value_name = "SECS", default_value_t = 1.0)]
    interval: f64,
    /// Print one picture, of the first interval, and end
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    target: Target,
    /// Print the version
    #[arg(long, action = ArgAction::Version)]
    version: Option<bool>,
    #[command(flatten)]
    connect: ConnectOptions,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum View {
    #[default]
    Addresses,
    Connections,
    Links,
}

impl View {
    const ALL: [View; 3] = [View::Addresses, View::Connections, View::Links];

    fn name(self) -> &'static str {
        match self {
            View::Addresses => "Addresses",
            View::Connections => "Connections",
            View::Links => "Links",
        }
    }

    /// The router's attribute that counts them.
    fn count_attribute(self) -> &'static str {
        match self {
            View::Addresses => "addrCount",
            View::Connections => "connectionCount",
            View::Links => "linkCount",
        }
    }

    fn next(self) -> View {
        View::ALL[(self as usize + 1) % View::ALL.len()]
    }
}

/// What the asking thread is to do from now on.
#[derive(Clone, Copy, Debug)]
struct Wish {
    view: View,
    pace: Duration,
    is_paused: bool,
}

/// What it heard: a sample and how many seconds after the one before it, or why not.
type Heard = Result<(Sample, f64), Failure>;

/// The text to print when it is over.
pub fn run(arguments: &TopArguments) -> Result<String, Failure> {
    let pace = Duration::try_from_secs_f64(arguments.interval).ok().filter(|pace| !pace.is_zero());
    let pace =
        pace.ok_or_else(|| Failure::new(format!("--interval: {} is no time between pictures", arguments.interval)))?;
    // Whether there is a router is seen while the terminal is still the shell's.
    let agent = Agent::open(&arguments.connect, &arguments.target)?;
    if arguments.once {
        return once(agent, pace);
    }
    if !std::io::stdout().is_terminal() {
        return Err(Failure::new("top needs a terminal; 'ringway top --once' prints one picture"));
    }
    agent.close();
    live(arguments, pace)?;
    Ok(String::new())
}

/// One picture, as text.
fn once(mut agent: Agent, pace: Duration) -> Result<String, Failure> {
    let mut app = App::new(pace);
    app.take(Sample::take(&mut agent, app.view)?, 0.0);
    let before = Instant::now();
    std::thread::sleep(pace);
    app.take(Sample::take(&mut agent, app.view)?, before.elapsed().as_secs_f64());
    agent.close();
    let (width, height) = if std::io::stdout().is_terminal() { crossterm::terminal::size()? } else { SIZE_DEFAULT };
    Ok(picture(&mut app, width, height, &clock()))
}

/// What the screen would show, line by line.
fn picture(app: &mut App, width: u16, height: u16, clock: &str) -> String {
    let Ok(mut terminal) = Terminal::new(TestBackend::new(width, height));
    let Ok(_) = terminal.draw(|frame| draw::draw(frame, app, clock));
    let buffer = terminal.backend().buffer();
    let line = |y: u16| -> String { (0..width).map(|x| buffer[(x, y)].symbol()).collect() };
    (0..height).map(|y| format!("{}\n", line(y).trim_end())).collect()
}

fn clock() -> String {
    Local::now().format("%H:%M:%S").to_string()
}

fn live(arguments: &TopArguments, pace: Duration) -> Result<(), Failure> {
    let (wish, wishes) = channel();
    let (hear, heard) = channel();
    let (connect, target) = (arguments.connect.clone(), arguments.target.clone());
    // It ends when nobody wishes any more. A connection stays on the thread that opened it.
    std::thread::spawn(move || ask(&connect, &target, &wishes, &hear));
    let mut terminal = ratatui::try_init()?;
    let result = show(&mut terminal, App::new(pace), &wish, &heard);
    ratatui::try_restore()?;
    result
}

/// Draws and reads keys until somebody quits.
fn show(
    terminal: &mut ratatui::DefaultTerminal,
    mut app: App,
    wish: &Sender<Wish>,
    heard: &Receiver<Heard>,
) -> Result<(), Failure> {
    let wishes = |app: &App| Wish { view: app.view, pace: app.pace, is_paused: app.is_paused };
    // That thread never ends before this one stops wishing.
    let _ = wish.send(wishes(&app));
    loop {
        for said in heard.try_iter() {
            match said {
                Ok((sample, seconds)) => app.take(sample, seconds),
                Err(failure) => app.trouble = Some(failure.to_string()),
            }
        }
        terminal.draw(|frame| draw::draw(frame, &mut app, &clock()))?;
        if !event::poll(KEY_PATIENCE)? {
            continue;
        }
        let Event::Key(key) = event::read()? else { continue };
        if key.kind == KeyEventKind::Release {
            continue;
        }
        match app.key(key) {
            Action::Quit => return Ok(()),
            Action::Ask => drop(wish.send(wishes(&app))),
            Action::None => {}
        }
    }
}

/// Asks for sample after sample, as it is wished, over a new connection where one broke.
fn ask(connect: &ConnectOptions, target: &Target, wishes: &Receiver<Wish>, hear: &Sender<Heard>) {
    let mut agent = None;
    let Ok(mut wish) = wishes.recv() else { return };
    let mut before: Option<Instant> = None;
    loop {
        let pause = match one(&mut agent, connect, target, wish, &mut before) {
            Ok(sample) => {
                if let Some(sample) = sample {
                    let _ = hear.send(Ok(sample));
                }
                wish.pace
            }
            Err(failure) => {
                agent = None;
                let _ = hear.send(Err(failure));
                AGAIN
            }
        };
        match wishes.recv_timeout(pause) {
            Ok(next) => wish = next,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// One sample; while paused only a sign of life.
fn one(
    agent: &mut Option<Agent>,
    connect: &ConnectOptions,
    target: &Target,
    wish: Wish,
    before: &mut Option<Instant>,
) -> Result<Option<(Sample, f64)>, Failure> {
    let mut connected = match agent.take() {
        Some(agent) => agent,
        None => Agent::open(connect, target)?,
    };
    let mut heard = None;
    if wish.is_paused {
        connected.breathe()?;
    } else {
        let sample = Sample::take(&mut connected, wish.view)?;
        let seconds = before.replace(Instant::now()).map_or(0.0, |before| before.elapsed().as_secs_f64());
        heard = Some((sample, seconds));
    }
    *agent = Some(connected);
    Ok(heard)
}
