//! Writing the log: `2022-03-03 19:08:13.608655 +0100 MODULE (level) text`, the form that tools match.
//!
//! Only the control thread writes, so a slow terminal or disk stops no message. Modules that have no `log`
//! section go as DEFAULT does; DEFAULT, where it has none: info and worse, to stderr.
//!
//! No logging crate: they have five levels and global sinks; seven levels, an output a module and one writing thread are
//! less code here than around one. Times are chrono's.

use crate::config::{Config, LogConfig, LogOutput};
use crate::log::{Level, Levels, Module};
use chrono::{DateTime, Local, Utc};
use std::fmt::{self, Write as _};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::panic::Location;
use std::time::SystemTime;

const TIME_FORMAT: &str = "%Y-%m-%d %H:%M:%S%.6f %z";

pub struct Log {
    sinks: Vec<(LogOutput, Sink)>,
    /// By module's number.
    modules: [Settings; Module::ALL.len()],
    time_format: String,
    is_utc: bool,
    /// A line is put together here and written at once, so that lines of several processes don't mix.
    line: String,
}

#[derive(Clone, Copy)]
struct Settings {
    levels: Levels,
    timestamp: bool,
    source: bool,
    sink: usize,
}

enum Sink {
    Stdout,
    Stderr,
    File(File),
    /// Keeps what is written, for tests.
    #[cfg(test)]
    Memory(Vec<u8>),
}

/// A log file that can't be opened.
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
        let mut log = Log {
            sinks: vec![(LogOutput::Stderr, Sink::Stderr)],
            modules: [Settings { levels: Levels::from(Level::Info), timestamp: true, source: false, sink: 0 };
                Module::ALL.len()],
            time_format: router.timestamp_format.clone().unwrap_or_else(|| TIME_FORMAT.to_string()),
            is_utc: router.timestamps_in_utc,
            line: String::new(),
        };
        // DEFAULT first: the others start from it.
        if let Some(section) = config.logs.iter().find(|section| section.module == Module::Default) {
            let settings = log.settings(section)?;
            log.modules = [settings; Module::ALL.len()];
        }
        for section in config.logs.iter().filter(|section| section.module != Module::Default) {
            log.modules[section.module as usize] = log.settings(section)?;
        }
        Ok(log)
    }

    /// The DEFAULT's settings with what `section` says in their place.
    fn settings(&mut self, section: &LogConfig) -> Result<Settings, LogError> {
        let base = self.modules[Module::Default as usize];
        Ok(Settings {
            levels: section.enable.unwrap_or(base.levels),
            timestamp: section.include_timestamp.unwrap_or(base.timestamp),
            source: section.include_source.unwrap_or(base.source),
            sink: match &section.output {
                Some(output) => self.sink(output, section.line)?,
                None => base.sink,
            },
        })
    }

    fn sink(&mut self, output: &LogOutput, line: usize) -> Result<usize, LogError> {
        if let Some(known) = self.sinks.iter().position(|(known, _)| known == output) {
            return Ok(known);
        }
        let sink = match output {
            LogOutput::Stdout => Sink::Stdout,
            LogOutput::Stderr => Sink::Stderr,
            LogOutput::File(path) => match OpenOptions::new().append(true).create(true).open(path) {
                Ok(file) => Sink::File(file),
                Err(error) => return Err(LogError { line, path: path.clone(), error }),
            },
        };
        self.sinks.push((output.clone(), sink));
        Ok(self.sinks.len() - 1)
    }

    #[inline]
    pub fn is_enabled(&self, module: Module, level: Level) -> bool {
        self.modules[module as usize].levels.contains(level)
    }

    /// Writes a line, if its module and level are enabled. A line that can't be written is lost: a full disk is no
    /// reason for a router to end.
    #[track_caller]
    pub fn write(&mut self, module: Module, level: Level, text: fmt::Arguments<'_>) {
        if self.is_enabled(module, level) {
            self.write_at(module, level, text, SystemTime::now(), Location::caller());
        }
    }

    fn write_at(
        &mut self,
        module: Module,
        level: Level,
        text: fmt::Arguments<'_>,
        at: SystemTime,
        place: &Location<'_>,
    ) {
        let settings = self.modules[module as usize];
        let mut line = std::mem::take(&mut self.line);
        line.clear();
        if settings.timestamp {
            let _ = match self.is_utc {
                true => write!(line, "{} ", DateTime::<Utc>::from(at).format(&self.time_format)),
                false => write!(line, "{} ", DateTime::<Local>::from(at).format(&self.time_format)),
            };
        }
        let begin = line.len();
        let _ = write!(line, "{} ({}) {text}", module.name(), level.name());
        if settings.source {
            let _ = write!(line, " ({}:{})", place.file(), place.line());
        }
        one_line(&mut line, begin);
        line.push('\n');
        let _ = match &mut self.sinks[settings.sink].1 {
            Sink::Stdout => io::stdout().write_all(line.as_bytes()),
            Sink::Stderr => io::stderr().write_all(line.as_bytes()),
            Sink::File(file) => file.write_all(line.as_bytes()),
            #[cfg(test)]
            Sink::Memory(bytes) => bytes.write_all(line.as_bytes()),
        };
        self.line = line;
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
    use std::time::Duration;

    fn log(sections: &str) -> Log {
        let config = crate::config::load(&format!("listener {{\n}}\n{sections}"), "test.conf").unwrap();
        let mut log = Log::open(&config).unwrap();
        for (_, sink) in log.sinks.iter_mut() {
            *sink = Sink::Memory(Vec::new());
        }
        log
    }

    fn written(log: &Log, sink: usize) -> String {
        match &log.sinks[sink].1 {
            Sink::Memory(bytes) => String::from_utf8(bytes.clone()).unwrap(),
            _ => panic!("not in memory"),
        }
    }

    #[test]
    fn the_form_of_a_line() {
        let mut log = log("router {\n timestampsInUTC: yes\n}\n");
        let at = SystemTime::UNIX_EPOCH + Duration::from_micros(1_646_330_893_608_655);
        let place = Location::caller();
        log.write_at(Module::Server, Level::Notice, format_args!("Operational"), at, place);
        log.write_at(Module::Server, Level::Info, format_args!("a\nb\u{1b}[1m"), at, place);
        assert_eq!(
            written(&log, 0),
            "2022-03-03 18:08:13.608655 +0000 SERVER (notice) Operational\n\
             2022-03-03 18:08:13.608655 +0000 SERVER (info) a\\nb\\u{1b}[1m\n"
        );
    }

    #[test]
    fn levels_and_outputs_by_module() {
        let mut log = log("log {\n module: DEFAULT\n enable: warning+\n timestamp: no\n}\n\
                           log {\n module: SERVER\n enable: debug, notice\n output: stdout\n source: yes\n}\n");
        for level in [Level::Debug, Level::Info, Level::Notice, Level::Error] {
            log.write(Module::Server, level, format_args!("server"));
            log.write(Module::Router, level, format_args!("router"));
        }
        assert_eq!(written(&log, 0), "ROUTER (error) router\n");
        let server = written(&log, 1);
        let lines: Vec<&str> = server.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].starts_with("SERVER (debug) server (src/control/log.rs:"), "{server}");
        assert!(lines[1].starts_with("SERVER (notice) server (src/control/log.rs:"), "{server}");
    }

    #[test]
    fn an_unwritable_file_names_itself() {
        let text = "listener {\n}\nlog {\n module: DEFAULT\n output: /nonexistent/a.log\n}\n";
        let error = Log::open(&crate::config::load(text, "test.conf").unwrap()).err().unwrap();
        assert_eq!(error.line, 3);
        assert!(error.to_string().starts_with("log: /nonexistent/a.log can't be opened for writing: No such file"));
    }
}
