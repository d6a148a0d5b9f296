//! Instruction counts: named scenarios of the pure rooms, each run N times, to be counted from outside.
//!
//! `perf/instructions` runs a scenario under callgrind with N and with 2 N and prints the difference an operation, so
//! what start and set-up cost drops out. A scenario is a function of N in its room's file here; what it sets up must
//! not depend on N. One operation is named in its comment.

mod credit;
mod dispatch;
mod engine;
mod router;
mod wire;
#[allow(dead_code)]
mod wire_samples;

/// A scenario: its name, `room/what`, and what to run N times.
pub type Scenario = (&'static str, fn(u64));

const ROOMS: &[&[Scenario]] =
    &[wire::SCENARIOS, engine::SCENARIOS, dispatch::SCENARIOS, router::SCENARIOS, credit::SCENARIOS];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let scenarios = || ROOMS.iter().copied().flatten();
    match arguments.as_slice() {
        [] => scenarios().for_each(|(name, _)| println!("{name}")),
        [name, count] => {
            let Some((_, run)) = scenarios().find(|(known, _)| known == name) else {
                eprintln!("no scenario {name}");
                std::process::exit(2);
            };
            let Ok(count) = count.parse() else {
                eprintln!("{count} is no number of operations");
                std::process::exit(2);
            };
            run(count);
        }
        _ => {
            eprintln!("usage: instructions [NAME COUNT]");
            std::process::exit(2);
        }
    }
}
