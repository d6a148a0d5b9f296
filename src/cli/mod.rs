//! The command line: arguments, reading the configuration, what is said to whoever started the router.
//!
//! Owns: the options, exit codes (0: an orderly end, 1: everything else), the words on the terminal.
//! Doesn't: run the router; `control` does.
//! Driven by: `main`.

use crate::config::{self, Config, ConfigError, Unsupported};
use crate::control::{self, ControlError};
use clap::{ArgAction, Parser};
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

/// An AMQP 1.0 message router on io_uring, in place of qdrouterd.
#[derive(Parser, Debug)]
#[command(name = "ringway", version, disable_version_flag = true, args_override_self = true)]
struct Arguments {
    /// Start on this configuration (qdrouterd.conf syntax, or JSON where its name ends in .json); without one the
    /// router serves anybody on 127.0.0.1:5672
    #[arg(short = 'c', long = "config", alias = "conf", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Check a configuration, say what is wrong with it, and exit
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    check: Option<PathBuf>,
    /// Start without what the configuration asks for and this version doesn't serve, and warn of each such thing
    #[arg(long)]
    allow_unsupported: bool,
    /// Accepted for qdrouterd's sake; nothing is read from there
    #[arg(short = 'I', long = "include", value_name = "DIR")]
    include: Option<PathBuf>,
    /// Print the version
    #[arg(short = 'v', long = "version", action = ArgAction::Version)]
    version: Option<bool>,
}

/// Runs the program with the process's arguments.
pub fn run() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version come this way too, and are no error.
            let _ = error.print();
            return if error.use_stderr() { ExitCode::FAILURE } else { ExitCode::SUCCESS };
        }
    };
    let unsupported = if arguments.allow_unsupported { Unsupported::Allowed } else { Unsupported::Refused };
    match arguments.check {
        Some(file) => check(&file, unsupported),
        None => serve(arguments.config, unsupported),
    }
}

/// Reads a file and checks all that can be checked without starting.
fn load(file: &PathBuf, unsupported: Unsupported) -> Result<Config, String> {
    let name = file.display().to_string();
    let bytes = std::fs::read(file).map_err(|error| format!("{name}: {error}"))?;
    // Not UTF-8: a comment in another encoding does no harm, a value has to survive the checks as it is.
    let text = String::from_utf8_lossy(&bytes);
    let config = config::load_with(&text, &name, unsupported).map_err(|error| everything(&error))?;
    match control::check(&config) {
        Ok(()) => Ok(config),
        Err((line, text)) => Err(format!("{name}:{line}: {text}")),
    }
}

/// Errors and warnings in the order of their lines: what is only suspicious may explain what is wrong.
fn everything(error: &ConfigError) -> String {
    let problems = error.problems.iter().map(|problem| (problem.line, problem.to_string()));
    let warnings = error.warnings.iter().map(|warning| (warning.line, format!("{warning} (warning)")));
    let mut lines: Vec<(usize, String)> = problems.chain(warnings).collect();
    lines.sort_by_key(|(line, _)| *line);
    lines.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join("\n")
}

fn check(file: &PathBuf, unsupported: Unsupported) -> ExitCode {
    match load(file, unsupported) {
        Ok(config) => {
            for warning in config.warnings.iter().chain(&config.unsupported) {
                println!("{warning} (warning)");
            }
            println!("OK");
            ExitCode::SUCCESS
        }
        Err(text) => {
            eprintln!("{text}");
            ExitCode::FAILURE
        }
    }
}

fn serve(file: Option<PathBuf>, unsupported: Unsupported) -> ExitCode {
    let (config, name) = match &file {
        None => (config::load(config::DEFAULT, config::DEFAULT_NAME).map_err(|error| everything(&error)), None),
        Some(file) => (load(file, unsupported), Some(file.display().to_string())),
    };
    let name = name.unwrap_or_else(|| config::DEFAULT_NAME.to_string());
    let config = match config {
        Ok(config) => config,
        Err(text) => {
            eprintln!("{text}\nCannot load configuration file {name}: see above");
            return ExitCode::FAILURE;
        }
    };
    let welcome = |places: &[SocketAddr]| {
        if file.is_none() {
            // Nobody may be there to read it: no reason to end.
            let _ = std::io::stdout().write_all(how_to_try(places).as_bytes());
        }
    };
    match control::run(&config, welcome) {
        Ok(()) => ExitCode::SUCCESS,
        Err(ControlError::Configuration(line, text)) => {
            eprintln!("{name}:{line}: {text}");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("ringway: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What somebody who started the router without a configuration wants to know.
fn how_to_try(places: &[SocketAddr]) -> String {
    let places: Vec<String> = places.iter().map(SocketAddr::to_string).collect();
    format!(
        "ringway {} listens on {} for AMQP 1.0, SASL ANONYMOUS or none.\n\
         Try it from another terminal: examples/hello.py (it needs Debian's python3-qpid-proton).\n\
         Stop it with Ctrl-C. A configuration of your own: ringway -c FILE\n",
        env!("CARGO_PKG_VERSION"),
        places.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_shows_what_is_said_at_the_start() {
        let said = how_to_try(&["127.0.0.1:5672".parse().unwrap()]);
        assert!(include_str!("../../README.md").contains(&said), "{said}");
    }

    #[test]
    fn options_are_consistent() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
    }
}
