//! Starting the router on a configuration, or checking one.

use crate::config::{self, Config, ConfigError, LogOutput, Unsupported};
use crate::control::{self, ControlError};
use std::net::SocketAddr;
use std::path::Path;

/// What is wrong with a configuration.
struct Wrong {
    /// All of it, a line each.
    lines: String,
    /// The first thing, without its place.
    first: String,
}

impl From<ConfigError> for Wrong {
    fn from(error: ConfigError) -> Self {
        let first = error.problems.first().map(|problem| problem.what().to_string());
        Wrong { lines: everything(&error), first: first.unwrap_or_default() }
    }
}

/// Reads a file and checks all that can be checked without starting.
fn load(file: &Path, unsupported: Unsupported) -> Result<Config, Wrong> {
    let name = file.display().to_string();
    let unreadable = |error: std::io::Error| Wrong { lines: format!("{name}: {error}"), first: error.to_string() };
    let bytes = std::fs::read(file).map_err(unreadable)?;
    // Not UTF-8: a comment in another encoding does no harm, a value has to survive the checks as it is.
    let text = String::from_utf8_lossy(&bytes);
    let config = config::load_with(&text, &name, unsupported)?;
    match control::check(&config) {
        Ok(()) => Ok(config),
        Err((line, text)) => Err(Wrong { lines: format!("{name}:{line}: {text}"), first: text }),
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

/// Says whether a file is right.
pub fn check(file: &Path, unsupported: Unsupported) -> Result<(), String> {
    let config = load(file, unsupported).map_err(|wrong| wrong.lines)?;
    for warning in config.warnings.iter().chain(&config.unsupported) {
        println!("{warning} (warning)");
    }
    println!("OK");
    Ok(())
}

/// Serves until it is told to stop; without a file, on the built-in configuration. `listening` is called once, when it
/// serves.
pub fn serve(
    file: Option<&Path>,
    unsupported: Unsupported,
    options: control::Options,
    listening: impl FnOnce(&[SocketAddr]),
) -> Result<(), String> {
    let (config, name) = match file {
        None => {
            let config = config::load(config::DEFAULT, config::DEFAULT_NAME).map_err(Wrong::from);
            (config, config::DEFAULT_NAME.to_string())
        }
        Some(file) => (load(file, unsupported), file.display().to_string()),
    };
    // The last line is qdrouterd's, since scripts look for it.
    let cannot = |wrong: Wrong| {
        let Wrong { lines, first } = wrong;
        format!("{lines}\nringway: Exception: Cannot load configuration file {name}: {first}")
    };
    let config = config.map_err(cannot)?;
    control::run(&config, options, listening).map_err(|error| match error {
        ControlError::Configuration(line, text) => format!("{name}:{line}: {text}"),
        error => format!("ringway: {error}"),
    })
}

/// Tells whoever started the router without a configuration.
pub fn say_how_to_try(places: &[SocketAddr]) {
    control::log::say(&LogOutput::Stdout, &how_to_try(places));
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
}
