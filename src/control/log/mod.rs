//! Writing the log: `2022-03-03 19:08:13.608655 +0100 MODULE (level) text`, the form that tools match.
//!
//! Owns: what each module writes and where, at the start and changed at run time; the latest lines, and how many there
//! were of each level, for management.
//! Only the control thread has a log, and each output has a thread that writes (`writer`): one that takes nothing stops
//! neither messages nor control nor another output. Control opens files, and waits for outputs in `flush` and `close` alone.
//! What a module doesn't say is as DEFAULT has it; what DEFAULT doesn't say: info and worse, with the time, to stderr.
//!
//! No logging crate: they have five levels and global sinks; seven levels, an output a module and a thread an output are
//! less code here than around one. Times are chrono's, syslog the C library's.

mod sink;
mod writer;

use crate::config::{Config, LogConfig, LogLevels, LogOutput};
use crate::log::{Level, Levels, Module};
use chrono::{DateTime, Local, Utc};
use sink::Sink;
use std::collections::VecDeque;
use std::fmt::{self, Write as _};
use std::io;
use std::panic::Location;
use std::time::{Duration, Instant, SystemTime};
use writer::Writer;

const TIME_FORMAT: &str = "%Y-%m-%d %H:%M:%S%.6f %z";

/// The latest lines that are kept for management to show.
const RECENT_MAX: usize = 1000;

/// So much of such a line's text.
const RECENT_BYTES_MAX: usize = 2048;

/// How long outputs may take to write what was handed to them.
const PATIENCE: Duration = Duration::from_secs(1);

const MODULES: usize = Module::ALL.len();
const LEVELS: usize = Level::ALL.len();

pub struct Log {
    /// Open outputs, each of which some module has.
    outputs: Vec<(LogOutput, Writer)>,
    /// What each module says of itself, by its number.
    settings: [ModuleSettings; MODULES],
    /// What that comes to, with DEFAULT's in the gaps.
    resolved: [Resolved; MODULES],
    /// Lines of each module and level so far, written or not.
    counts: [[u64; LEVELS]; MODULES],
    recent: VecDeque<Entry>,
    time_format: String,
    is_utc: bool,
    /// A line is put together here and written at once, so that lines of several processes don't mix.
    line: String,
}

/// What a module says of itself. None: as DEFAULT has it.
#[derive(Clone, Default, Debug, PartialEq)]
pub struct ModuleSettings {
    pub levels: Option<Levels>,
    pub include_timestamp: Option<bool>,
    pub include_source: Option<bool>,
    pub output: Option<LogOutput>,
}

/// A line that was written, without its time's and source's text.
#[derive(Clone, Debug)]
pub struct Entry {
    pub module: Module,
    pub level: Level,
    pub text: Box<str>,
    pub file: &'static str,
    pub line: u32,
    pub at: SystemTime,
}

#[derive(Clone, Copy)]
struct Resolved {
    levels: Levels,
    timestamp: bool,
    source: bool,
    /// Its place among the open outputs.
    output: Option<usize>,
}

/// An output that can't be opened.
#[derive(Debug)]
pub struct LogError {
    /// The `log` section's line.
    pub line: usize,
    pub path: String,
    pub error: io::Error,
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "log: {} can't be opened for writing: {}", self.path, self.error)
    }
}

impl Log {
    pub fn open(config: &Config) -> Result<Log, LogError> {
        let router = &config.router;
        let all = Resolved { levels: Levels::from(Level::Info), timestamp: true, source: false, output: None };
        let mut log = Log {
            outputs: vec![open(&LogOutput::Stderr, 0)?],
            settings: Default::default(),
            resolved: [all; MODULES],
            counts: [[0; LEVELS]; MODULES],
            recent: VecDeque::new(),
            time_format: router.timestamp_format.clone().unwrap_or_else(|| TIME_FORMAT.to_string()),
            is_utc: router.timestamps_in_utc,
            line: String::new(),
        };
        for section in &config.logs {
            log.update(section)?;
        }
        log.resolve();
        Ok(log)
    }

    /// Changes what `section` says of its module; the rest stays. On an error nothing has changed. Some: frames are to
    /// be traced from now on, or not any more, and the shards have to be told.
    pub fn update(&mut self, section: &LogConfig) -> Result<Option<bool>, LogError> {
        let was_traced = self.traces_frames();
        if let Some(output) = &section.output {
            if !self.outputs.iter().any(|(known, _)| known == output) {
                self.outputs.push(open(output, section.line)?);
            }
        }
        let settings = &mut self.settings[section.module as usize];
        match section.enable {
            None => {}
            Some(LogLevels::Default) => settings.levels = None,
            Some(LogLevels::Levels(levels)) => settings.levels = Some(levels),
        }
        settings.include_timestamp = section.include_timestamp.or(settings.include_timestamp);
        settings.include_source = section.include_source.or(settings.include_source);
        if section.output.is_some() {
            settings.output = section.output.clone();
        }
        self.resolve();
        let is_traced = self.traces_frames();
        Ok((is_traced != was_traced).then_some(is_traced))
    }

    /// Whether the frames of all connections are written.
    pub fn traces_frames(&self) -> bool {
        self.is_enabled(Module::Protocol, Level::Trace)
    }

    /// Works out what each module does, and closes outputs that none has any more.
    fn resolve(&mut self) {
        let default = &self.settings[Module::Default as usize];
        let output_of = |settings: &ModuleSettings| {
            settings.output.as_ref().or(default.output.as_ref()).unwrap_or(&LogOutput::Stderr).clone()
        };
        // DEFAULT has no output until it has one for good, so stderr is open where it is meant without being named.
        let wanted: Vec<LogOutput> = self.settings.iter().map(output_of).collect();
        self.outputs.retain(|(known, _)| wanted.contains(known));
        for ((resolved, settings), output) in self.resolved.iter_mut().zip(&self.settings).zip(&wanted) {
            let timestamp = settings.include_timestamp.or(default.include_timestamp).unwrap_or(true);
            *resolved = Resolved {
                levels: settings.levels.or(default.levels).unwrap_or(Levels::from(Level::Info)),
                // syslog has its own.
                timestamp: timestamp && *output != LogOutput::Syslog,
                source: settings.include_source.or(default.include_source).unwrap_or(false),
                output: self.outputs.iter().position(|(known, _)| known == output),
            };
        }
    }

    /// What a module says of itself.
    pub fn settings(&self, module: Module) -> &ModuleSettings {
        &self.settings[module as usize]
    }

    /// Opens the files anew, by their names: what turns logs over has moved the old ones away. Gives those that can't
    /// be opened; their lines go where they went.
    pub fn reopen(&mut self) -> Vec<LogError> {
        let mut errors = Vec::new();
        for (output, writer) in self.outputs.iter().filter(|(output, _)| matches!(output, LogOutput::File(_))) {
            match Sink::open(output) {
                Ok(sink) => writer.turn_to(sink),
                Err(error) => errors.push(LogError { line: 0, path: output.to_string(), error }),
            }
        }
        errors
    }

    /// Waits until the outputs have written everything, a second at most.
    pub fn flush(&self) {
        let deadline = Instant::now() + PATIENCE;
        for (_, writer) in &self.outputs {
            writer.flush(deadline);
        }
    }

    /// The end of the log: what was written is written out, as by `flush`; what comes now is not.
    pub fn close(&mut self) {
        self.flush();
        self.outputs.clear();
    }

    #[inline]
    pub fn is_enabled(&self, module: Module, level: Level) -> bool {
        self.resolved[module as usize].levels.contains(level)
    }

    /// How many lines of a module there were, by level, written or not.
    pub fn counts(&self, module: Module) -> &[u64; LEVELS] {
        &self.counts[module as usize]
    }

    /// The same of all modules.
    pub fn all_counts(&self) -> Vec<(Module, [u64; LEVELS])> {
        Module::ALL.iter().map(|(module, _)| (*module, *self.counts(*module))).collect()
    }

    /// The latest lines that were written, the oldest first.
    pub fn recent(&self) -> impl DoubleEndedIterator<Item = &Entry> + ExactSizeIterator {
        self.recent.iter()
    }

    /// Writes a line, if its module and level are enabled.
    #[track_caller]
    pub fn write(&mut self, module: Module, level: Level, text: fmt::Arguments<'_>) {
        self.counts[module as usize][level as usize] += 1;
        if self.is_enabled(module, level) {
            self.write_at(module, level, text, SystemTime::now(), Location::caller());
        }
    }

    /// Writes a line that was asked for apart, whatever its module's levels.
    #[track_caller]
    pub fn write_always(&mut self, module: Module, level: Level, text: fmt::Arguments<'_>) {
        self.counts[module as usize][level as usize] += 1;
        self.write_at(module, level, text, SystemTime::now(), Location::caller());
    }

    fn write_at(
        &mut self,
        module: Module,
        level: Level,
        text: fmt::Arguments<'_>,
        at: SystemTime,
        place: &'static Location<'static>,
    ) {
        let settings = self.resolved[module as usize];
        let mut line = std::mem::take(&mut self.line);
        line.clear();
        if settings.timestamp {
            let _ = match self.is_utc {
                true => write!(line, "{} ", DateTime::<Utc>::from(at).format(&self.time_format)),
                false => write!(line, "{} ", DateTime::<Local>::from(at).format(&self.time_format)),
            };
        }
        let stamp = line.len();
        let _ = write!(line, "{} ({}) ", module.name(), level.name());
        let begin = line.len();
        let _ = line.write_fmt(text);
        one_line(&mut line, begin);
        self.remember(module, level, &line[begin..], at, place);
        if settings.source {
            let _ = write!(line, " ({}:{})", place.file(), place.line());
        }
        line.push('\n');
        if let Some((_, writer)) = settings.output.and_then(|place| self.outputs.get(place)) {
            writer.write(level, &line, &line[..stamp]);
        }
        self.line = line;
    }

    fn remember(
        &mut self,
        module: Module,
        level: Level,
        text: &str,
        at: SystemTime,
        place: &'static Location<'static>,
    ) {
        if self.recent.len() >= RECENT_MAX {
            self.recent.pop_front();
        }
        let mut end = text.len().min(RECENT_BYTES_MAX);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let (file, line) = (place.file(), place.line());
        self.recent.push_back(Entry { module, level, text: text[..end].into(), file, line, at });
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.close();
    }
}

/// Opens an output, for the `log` section of that line.
fn open(output: &LogOutput, line: usize) -> Result<(LogOutput, Writer), LogError> {
    match Sink::open(output).and_then(Writer::start) {
        Ok(writer) => Ok((output.clone(), writer)),
        Err(error) => Err(LogError { line, path: output.to_string(), error }),
    }
}

/// Says a text there apart from the log, and waits as long as for it: whoever doesn't read doesn't hold up the process.
pub fn say(output: &LogOutput, text: &str) {
    if let Ok((_, writer)) = open(output, 0) {
        writer.write(Level::Info, text, "");
        writer.flush(Instant::now() + PATIENCE);
    } else if let Ok(mut sink) = Sink::open(output) {
        sink.write(Level::Info, text);
    }
}

/// Peers' words come into the log: a line break or an escape of theirs must not make lines or colours of its own.
fn one_line(line: &mut String, begin: usize) {
    if line[begin..].chars().any(char::is_control) {
        let escaped: String = line[begin..]
            .chars()
            .map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() })
            .collect();
        line.truncate(begin);
        line.push_str(&escaped);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use std::io::{BufRead, BufReader, Read};
    use std::sync::{Arc, Mutex};

    fn configured(sections: &str) -> Config {
        crate::config::load(&format!("listener {{\n}}\n{sections}"), "test.conf").unwrap()
    }

    /// A log whose outputs are kept in memory.
    struct Kept {
        log: Log,
        /// By the outputs' names.
        texts: HashMap<String, Arc<Mutex<String>>>,
    }

    impl std::ops::Deref for Kept {
        type Target = Log;

        fn deref(&self) -> &Log {
            &self.log
        }
    }

    impl std::ops::DerefMut for Kept {
        fn deref_mut(&mut self) -> &mut Log {
            &mut self.log
        }
    }

    impl Kept {
        fn keep(&mut self) {
            for (output, writer) in &self.log.outputs {
                writer.turn_to(Sink::Memory(self.texts.entry(output.to_string()).or_default().clone()));
            }
        }

        fn written(&self, output: LogOutput) -> String {
            self.log.flush();
            self.texts[&output.to_string()].lock().unwrap().clone()
        }
    }

    fn log(sections: &str) -> Kept {
        let mut log = Kept { log: Log::open(&configured(sections)).unwrap(), texts: HashMap::new() };
        log.keep();
        log
    }

    /// Changes the log as a `log` section would.
    fn update(log: &mut Kept, section: &str) -> Option<bool> {
        let config = configured(&format!("log {{\n{section}\n}}\n"));
        let traced = log.update(&config.logs[0]).unwrap();
        log.keep();
        traced
    }

    #[test]
    fn the_form_of_a_line() {
        let at = SystemTime::UNIX_EPOCH + Duration::from_micros(1_646_330_893_608_655);
        let place = Location::caller();
        for (format, time) in [
            ("", "2022-03-03 18:08:13.608655 +0000"),
            (" timestampFormat: %H:%M:%S\n", "18:08:13"),
            (" timestampFormat: %s.%%06lu\n", "1646330893.608655"),
        ] {
            let mut log = log(&format!("router {{\n timestampsInUTC: yes\n{format}}}\n"));
            log.write_at(Module::Server, Level::Notice, format_args!("Operational"), at, place);
            log.write_at(Module::Server, Level::Info, format_args!("a\nb\u{1b}[1m"), at, place);
            let expected = format!(
                "{time} SERVER (notice) Operational\n\
                 {time} SERVER (info) a\\nb\\u{{1b}}[1m\n"
            );
            assert_eq!(log.written(LogOutput::Stderr), expected);
        }
    }

    #[test]
    fn levels_and_outputs_by_module() {
        let mut log = log("log {\n module: DEFAULT\n enable: warning+\n timestamp: no\n}\n\
                           log {\n module: SERVER\n enable: debug, notice\n output: stdout\n source: yes\n}\n");
        for level in [Level::Debug, Level::Info, Level::Notice, Level::Error] {
            log.write(Module::Server, level, format_args!("server"));
            log.write(Module::Router, level, format_args!("router"));
        }
        assert_eq!(log.written(LogOutput::Stderr), "ROUTER (error) router\n");
        let server = log.written(LogOutput::Stdout);
        let lines: Vec<&str> = server.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].starts_with("SERVER (debug) server (src/control/log/mod.rs:"), "{server}");
        assert!(lines[1].starts_with("SERVER (notice) server (src/control/log/mod.rs:"), "{server}");
        assert_eq!(log.counts(Module::Server), &[0, 1, 1, 1, 0, 1, 0]);
    }

    #[test]
    fn a_module_that_says_nothing_follows_default_at_run_time() {
        let mut log = log("log {\n module: DEFAULT\n timestamp: no\n}\nlog {\n module: ROUTER\n enable: error+\n}\n");
        log.write(Module::Server, Level::Debug, format_args!("1"));
        assert_eq!(update(&mut log, "module: DEFAULT\nenable: trace+"), Some(true));
        log.write(Module::Server, Level::Debug, format_args!("2"));
        log.write(Module::Router, Level::Debug, format_args!("3"));
        update(&mut log, "module: ROUTER\nenable: default");
        log.write(Module::Router, Level::Debug, format_args!("4"));
        assert_eq!(update(&mut log, "module: DEFAULT\nenable: none"), Some(false));
        log.write(Module::Router, Level::Critical, format_args!("5"));
        log.write_always(Module::Protocol, Level::Trace, format_args!("6"));
        let expected = "SERVER (debug) 2\nROUTER (debug) 4\nPROTOCOL (trace) 6\n";
        assert_eq!(log.written(LogOutput::Stderr), expected);
        let texts: Vec<&str> = log.recent().map(|entry| &*entry.text).collect();
        assert_eq!(texts, ["2", "4", "6"]);
    }

    #[test]
    fn an_output_is_shared_and_closed_when_nobody_has_it() {
        let mut log = log("log {\n module: SERVER\n output: stdout\n}\nlog {\n module: ROUTER\n output: stdout\n}\n");
        assert_eq!(log.outputs.len(), 2);
        update(&mut log, "module: SERVER\noutput: stderr");
        assert_eq!(log.outputs.len(), 2);
        update(&mut log, "module: ROUTER\noutput: stderr");
        assert_eq!(log.outputs.len(), 1);
        assert_eq!(log.settings(Module::Router).output, Some(LogOutput::Stderr));
    }

    #[test]
    fn the_latest_lines_are_kept_and_no_more() {
        let mut log = log("");
        let long = "é".repeat(RECENT_BYTES_MAX);
        for number in 0..RECENT_MAX + 5 {
            log.write(Module::Agent, Level::Info, format_args!("{number} {long}"));
        }
        assert_eq!(log.recent().len(), RECENT_MAX);
        let first = log.recent().next().unwrap();
        assert!(first.text.starts_with("5 é") && first.text.len() <= RECENT_BYTES_MAX);
    }

    #[test]
    fn an_output_that_takes_nothing_holds_nothing_up_and_says_what_it_lacks() {
        let mut log = log("router {\n timestampFormat: then\n}\nlog {\n module: ROUTER\n output: stdout\n}\n");
        let (reader, writer) = std::io::pipe().unwrap();
        let (_, stalled) = log.outputs.iter().find(|(output, _)| *output == LogOutput::Stderr).unwrap();
        stalled.turn_to(Sink::File(std::os::fd::OwnedFd::from(writer).into()));
        let long = "x".repeat(4000);
        for number in 0..2000 {
            log.write(Module::Server, Level::Info, format_args!("{number} {long}"));
        }
        log.write(Module::Router, Level::Info, format_args!("another output"));
        log.flush();
        assert_eq!(*log.texts["stdout"].lock().unwrap(), "then ROUTER (info) another output\n");

        let mut reader = BufReader::new(reader);
        let mut lines = Vec::new();
        while !lines.last().is_some_and(|line: &String| line.contains("Lines left out here: ")) {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            lines.push(line);
        }
        log.write(Module::Server, Level::Info, format_args!("afterwards"));
        log.close();
        let notice = lines.pop().unwrap();
        assert!(lines.iter().enumerate().all(|(number, line)| line.contains(&format!(" {number} x"))));
        assert!((1000..1100).contains(&lines.len()), "4 MiB and a pipe: {}", lines.len());
        assert_eq!(notice, format!("then ERROR (warning) Lines left out here: {}\n", 2000 - lines.len()));
        let mut rest = String::new();
        reader.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "then SERVER (info) afterwards\n");
        assert_eq!(log.recent().len(), RECENT_MAX);
    }

    #[test]
    fn files_are_opened_anew() {
        let path = std::env::temp_dir().join(format!("ringway-log-{}", std::process::id()));
        let moved = path.with_extension("1");
        let text = format!("log {{\n module: DEFAULT\n timestamp: no\n output: {}\n}}\n", path.display());
        let mut log = Log::open(&configured(&text)).unwrap();
        log.write(Module::Agent, Level::Info, format_args!("old"));
        std::fs::rename(&path, &moved).unwrap();
        log.write(Module::Agent, Level::Info, format_args!("still old"));
        assert!(log.reopen().is_empty());
        log.write(Module::Agent, Level::Info, format_args!("new"));
        log.flush();
        assert_eq!(std::fs::read_to_string(&moved).unwrap(), "AGENT (info) old\nAGENT (info) still old\n");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "AGENT (info) new\n");
        std::fs::remove_file(path).unwrap();
        std::fs::remove_file(moved).unwrap();
    }

    #[test]
    fn an_unwritable_file_names_itself_and_changes_nothing() {
        let text = "listener {\n}\nlog {\n module: DEFAULT\n output: /nonexistent/a.log\n}\n";
        let config = crate::config::load(text, "test.conf").unwrap();
        let error = Log::open(&config).err().unwrap();
        assert_eq!(error.line, 3);
        assert!(error.to_string().starts_with("log: /nonexistent/a.log can't be opened for writing: No such file"));
        let mut log = log("");
        assert!(log.update(&config.logs[0]).is_err());
        assert_eq!(*log.settings(Module::Default), ModuleSettings::default());
    }
}
