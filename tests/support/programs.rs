//! Programs in `tests/clients`, written with other people's client libraries: built on demand into
//! `target/clients`, run with a time limit, judged by their exit code.
//!
//! Every program is called as `PROGRAM SCENARIO HOST PORT ADDRESS` and prints one line, PASS or FAIL and why.

use super::router::Router;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Client {
    ProtonPython,
    ProtonCpp,
    /// Speaks AMQP with no SASL layer.
    ProtonC,
    Rhea,
    Fe2o3,
}

/// How long a scenario may run.
const SCENARIO_LIMIT: Duration = Duration::from_secs(90);
/// How long a build may take, with what it downloads.
const BUILD_LIMIT: Duration = Duration::from_secs(400);

impl Client {
    /// Runs a scenario and fails with the program's words when it does.
    pub fn run(self, scenario: &str, router: &Router, address: &str) {
        let mut command = self.command();
        command.args([scenario, "127.0.0.1", &router.port.to_string(), address]);
        run_to_end(&mut command, SCENARIO_LIMIT);
    }

    fn command(self) -> Command {
        let source = |path: &str| sources().join(path);
        match self {
            Client::ProtonPython => {
                let mut command = Command::new("/usr/bin/python3");
                command.arg(source("proton-python/client.py"));
                command
            }
            Client::ProtonCpp => Command::new(proton_cpp()),
            Client::ProtonC => Command::new(proton_c(&source("proton-c/client.c"), "client")),
            Client::Rhea => {
                let mut command = Command::new("node");
                command.arg(rhea().join("client.js"));
                command
            }
            Client::Fe2o3 => Command::new(fe2o3()),
        }
    }
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients")
}

fn built() -> PathBuf {
    let path = Path::new(env!("CARGO_BIN_EXE_ringway")).ancestors().nth(2).expect("target").join("clients");
    std::fs::create_dir_all(&path).expect("target/clients");
    path
}

fn proton_cpp() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        compile("g++ -std=c++17", &sources().join("proton-cpp/client.cpp"), "proton-cpp", "-lqpid-proton-cpp")
    })
}

/// Compiles a program on Proton C's proactor.
pub fn proton_c(source: &Path, name: &str) -> PathBuf {
    static BUILD: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _one_at_a_time = BUILD.lock();
    compile("gcc -std=gnu11", source, &format!("proton-c-{name}"), "-lqpid-proton")
}

/// Compiles one file, unless that was done since the file changed.
fn compile(compiler: &str, source: &Path, name: &str, library: &str) -> PathBuf {
    let program = built().join(name);
    if is_newer(&program, source) {
        return program;
    }
    // Parallel test processes must not see half a program.
    let half = built().join(format!("{name}.{}", std::process::id()));
    let mut words = compiler.split(' ');
    let mut command = Command::new(words.next().expect("a compiler"));
    command.args(words).args(["-O1", "-Wall", "-o"]).arg(&half).arg(source).arg(library);
    run_to_end(&mut command, BUILD_LIMIT);
    std::fs::rename(half, &program).expect("the program gets its name");
    program
}

/// Installs rhea beside a copy of the client.
fn rhea() -> &'static Path {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| {
        let directory = built().join("rhea");
        std::fs::create_dir_all(&directory).expect("a directory for rhea");
        let package = directory.join("package.json");
        let is_installed =
            directory.join("node_modules/rhea").is_dir() && is_newer(&package, &sources().join("rhea/package.json"));
        for file in ["client.js", "package.json", ".npmrc"] {
            std::fs::copy(sources().join("rhea").join(file), directory.join(file)).expect("rhea's client is there");
        }
        if !is_installed {
            let mut command = Command::new("npm");
            command.args(["install", "--no-audit", "--no-fund", "--omit=dev"]).current_dir(&directory);
            run_to_end(&mut command, BUILD_LIMIT);
        }
        directory
    })
}

fn fe2o3() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let target = built().join("fe2o3");
        let mut command = Command::new(env!("CARGO"));
        command.args(["build", "--quiet", "--manifest-path"]).arg(sources().join("fe2o3/Cargo.toml"));
        command.arg("--target-dir").arg(&target);
        // What cargo tells a test about its own package isn't this one's.
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("CARGO_PKG_") || name == "RUSTFLAGS") {
            command.env_remove(name);
        }
        run_to_end(&mut command, BUILD_LIMIT);
        target.join("debug/fe2o3-client")
    })
}

fn is_newer(made: &Path, source: &Path) -> bool {
    let time = |path: &Path| std::fs::metadata(path).and_then(|data| data.modified()).ok();
    matches!((time(made), time(source)), (Some(made), Some(source)) if made > source)
}

/// Runs a command to its end, kills it at the limit, fails with its output when it fails.
pub fn run_to_end(command: &mut Command, limit: Duration) {
    Running::start(command).finish(limit);
}

/// A program that runs beside the test.
pub struct Running {
    child: std::process::Child,
    output: PathBuf,
    what: String,
}

impl Running {
    pub fn start(command: &mut Command) -> Running {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let output = std::env::temp_dir().join(format!("ringway-client-{}-{number}", std::process::id()));
        let file = std::fs::File::create(&output).expect("a file for the output");
        let what = format!("{command:?}");
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone().expect("one file for both"))
            .stderr(file)
            .spawn()
            .unwrap_or_else(|error| panic!("{what} can't be started ({error}); is it installed?"));
        Running { child, output, what }
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("it can be waited for").is_none()
    }

    /// Its output; fails unless it ends well within `limit`.
    pub fn finish(mut self, limit: Duration) -> String {
        let deadline = Instant::now() + limit;
        let status = loop {
            match self.child.try_wait().expect("it can be waited for") {
                Some(status) => break Some(status),
                None if Instant::now() > deadline => break None,
                None => std::thread::sleep(Duration::from_millis(10)),
            }
        };
        let output = std::fs::read(&self.output).unwrap_or_default();
        let output = String::from_utf8_lossy(&output).into_owned();
        match status {
            Some(status) if status.success() => output,
            Some(status) => panic!("{} ended with {status}\n{output}", self.what),
            None => panic!("{} didn't end within {limit:?}\n{output}", self.what),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.output);
    }
}
