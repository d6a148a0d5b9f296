//! The tools: subcommands of the program, or names that it is called by.

use super::failure::Failure;
use super::load::{self, LoadArguments};
use super::manage::{self, ManageArguments};
use super::stat::{self, StatArguments};
use super::top::{self, TopArguments};
use clap::Subcommand;
use std::ffi::OsString;
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::ExitCode;

#[derive(Subcommand, Debug)]
pub enum Tool {
    Stat(Box<StatArguments>),
    Manage(Box<ManageArguments>),
    Top(Box<TopArguments>),
    Load(Box<LoadArguments>),
}

/// Names that the program may be called by (as a link of that name), so that scripts go on working.
const NAMES: [(&str, &str); 2] = [("qdstat", "stat"), ("qdmanage", "manage")];

/// The arguments, with the tool's name among them where the program was called by a name that stands for it.
pub fn with_tool(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let name = arguments.first().and_then(|path| Path::new(path).file_name());
    let tool = NAMES.iter().find(|(called, _)| name.is_some_and(|name| name == *called));
    if let Some((_, tool)) = tool {
        arguments.insert(1, (*tool).into());
    }
    arguments
}

/// Exit code 1: the router said no, or there was no answer.
pub fn run(tool: Tool) -> ExitCode {
    let text = match tool {
        Tool::Stat(arguments) => stat::run(&arguments),
        Tool::Manage(arguments) => manage::run(&arguments),
        Tool::Top(arguments) => top::run(&arguments),
        Tool::Load(arguments) => load::run(&arguments),
    };
    match text.and_then(|text| print(&text)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

/// A reader that has read enough is no failure.
fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stands_for_a_tool() {
        let with = |line: &[&str]| with_tool(line.iter().map(OsString::from).collect());
        assert_eq!(with(&["/usr/bin/qdstat", "-a"]), ["/usr/bin/qdstat", "stat", "-a"]);
        assert_eq!(with(&["qdmanage"]), ["qdmanage", "manage"]);
        assert_eq!(with(&["ringway", "stat"]), ["ringway", "stat"]);
        assert!(with(&[]).is_empty());
    }
}
