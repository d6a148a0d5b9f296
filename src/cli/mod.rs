//! The command line: arguments, reading the configuration, what is said to whoever started the router; and the tools that
//! ask a running one: `stat`, `manage`, `top`. And `load`, which makes load on any peer.
//!
//! Owns: the options, exit codes (0: an orderly end, 1: everything else), the words on the terminal. The tools own their
//! connection, which blocks: each does one thing at a time, over management alone.
//! Doesn't: run the router; `control` does.
//! Driven by: `main`.

mod agent;
mod connect;
mod daemon;
mod failure;
mod load;
mod manage;
mod serve;
mod stat;
mod tools;
mod top;

use crate::config::{LogOutput, Unsupported};
use crate::control;
use clap::{ArgAction, Parser};
use daemon::{Side, Starter};
use std::path::PathBuf;
use std::process::ExitCode;

/// An AMQP 1.0 message router on io_uring, in place of qdrouterd.
#[derive(Parser, Debug)]
#[command(name = "ringway", version, disable_version_flag = true, args_override_self = true)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
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
    /// Carry messages with so many threads, a core each, whatever the configuration says (workerThreads); at most one for each
    /// core that the process may use
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    shards: Option<u16>,
    /// Latency mode, whatever the configuration says (busyPollMicroseconds): a thread without anything to do looks for more so
    /// long before it sleeps. It costs a core as long as messages come more often than that
    #[arg(long, value_name = "MICROSECONDS", value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    busy_poll: Option<u32>,
    /// For debugging and measuring: connections stay on the shard that accepted them, messages cross instead
    #[arg(long, hide = true)]
    debug_no_moves: bool,
    /// Accepted for qdrouterd's sake; nothing is read from there
    #[arg(short = 'I', long = "include", value_name = "DIR")]
    include: Option<PathBuf>,
    /// Go to the background; this process ends when the router serves
    #[arg(short = 'd', long = "daemon")]
    daemon: bool,
    /// With -d: write the daemon's process id there
    #[arg(short = 'P', long = "pidfile", value_name = "FILE")]
    pid_file: Option<PathBuf>,
    /// With -d: run as this user
    #[arg(short = 'U', long = "user", value_name = "USER")]
    user: Option<String>,
    /// Accepted for qdrouterd's sake, without effect
    #[arg(short = 'T', long = "test-hooks", hide = true)]
    test_hooks: bool,
    /// Print the version
    #[arg(short = 'v', long = "version", action = ArgAction::Version)]
    version: Option<bool>,
    #[command(subcommand)]
    tool: Option<tools::Tool>,
}

impl Arguments {
    fn options(&self) -> control::Options {
        control::Options { shards: self.shards, busy_poll_microseconds: self.busy_poll, moves: !self.debug_no_moves }
    }
}

/// Runs the program with the process's arguments.
pub fn run() -> ExitCode {
    let arguments = match Arguments::try_parse_from(tools::with_tool(std::env::args_os().collect())) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version come this way too, and are no error.
            let _ = error.print();
            return if error.use_stderr() { ExitCode::FAILURE } else { ExitCode::SUCCESS };
        }
    };
    if let Some(tool) = arguments.tool {
        return tools::run(tool);
    }
    let unsupported = if arguments.allow_unsupported { Unsupported::Allowed } else { Unsupported::Refused };
    match &arguments.check {
        Some(file) => exit(serve::check(file, unsupported)),
        None if arguments.daemon => start_daemon(arguments, unsupported),
        None => {
            for (option, is_given) in [("-P", arguments.pid_file.is_some()), ("-U", arguments.user.is_some())] {
                if is_given {
                    eprintln!("ringway: {option} has no effect without -d");
                }
            }
            let is_default = arguments.config.is_none();
            let result = serve::serve(arguments.config.as_deref(), unsupported, arguments.options(), |places| {
                if is_default {
                    serve::say_how_to_try(places);
                }
            });
            exit_served(result)
        }
    }
}

/// Says what went wrong, if anything did.
fn exit(result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("{text}");
            ExitCode::FAILURE
        }
    }
}

/// The same of a router, whose signals end nothing any more: it doesn't wait for somebody to read it.
fn exit_served(result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            control::log::say(&LogOutput::Stderr, &format!("{text}\n"));
            ExitCode::FAILURE
        }
    }
}

/// Serves in the background; whoever started it hears how that began.
fn start_daemon(arguments: Arguments, unsupported: Unsupported) -> ExitCode {
    let options = arguments.options();
    // The daemon's directory is another.
    let file = match arguments.config.map(std::path::absolute).transpose() {
        Ok(file) => file,
        Err(error) => return exit(Err(format!("ringway: {error}"))),
    };
    let starter = match daemon::start(arguments.pid_file.as_deref(), arguments.user.as_deref()) {
        Ok(Side::Starter(result)) => return exit(result),
        Ok(Side::Daemon(starter)) => std::cell::Cell::new(Some(starter)),
        Err(error) => return exit(Err(format!("ringway: the daemon can't be started: {error}"))),
    };
    let result = serve::serve(file.as_deref(), unsupported, options, |_| {
        starter.take().map(Starter::serves);
    });
    match (result, starter.take()) {
        (Ok(()), _) => ExitCode::SUCCESS,
        // It served; the log has the rest.
        (Err(_), None) => ExitCode::FAILURE,
        (Err(text), Some(starter)) => {
            starter.fails(&text);
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_consistent() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
    }
}
