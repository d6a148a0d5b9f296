//! The router under test: a process of its own, on a port of its own, in a directory of its own.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How many shards a router has where its test doesn't say; 1 where the environment doesn't, either.
const SHARDS: &str = "RINGWAY_TEST_SHARDS";

/// One anonymous listener; all addresses balanced.
pub const PLAIN: &str = "";

/// Logs only what is wrong, for clients that come and go by the thousand.
pub const QUIET: &str = "log {\n    module: DEFAULT\n    enable: warning+\n}\n";

/// One prefix a distribution.
pub const DISTRIBUTIONS: &str = "\
address {\n    prefix: multicast\n    distribution: multicast\n}\n\
address {\n    prefix: closest\n    distribution: closest\n}\n\
address {\n    prefix: balanced\n    distribution: balanced\n}\n\
address {\n    prefix: unavailable\n    distribution: unavailable\n}\n";

/// The program under test; `RINGWAY_TEST_PROGRAM` has another build of it tested.
pub fn program() -> PathBuf {
    std::env::var_os("RINGWAY_TEST_PROGRAM").map_or_else(|| env!("CARGO_BIN_EXE_ringway").into(), PathBuf::from)
}

pub struct Router {
    child: Child,
    pub port: u16,
    directory: PathBuf,
    stopped: bool,
}

/// A port that nobody listens on. Below the range from which the kernel takes ports for outgoing connections, so
/// that no client of a parallel test gets it between the look and the router's bind.
pub fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let start = std::process::id().wrapping_mul(97);
    loop {
        let number = start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = 20_000 + (number % 12_000) as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

impl Router {
    /// One listener with default values, and what else `sections` say.
    pub fn start(sections: &str) -> Router {
        Router::start_with("", sections)
    }

    /// `listener`: more attributes for the listener, one a line.
    pub fn start_with(listener: &str, sections: &str) -> Router {
        Router::start_of(listener, "", sections)
    }

    /// `router`: more attributes for the router, one a line.
    pub fn start_of(listener: &str, router: &str, sections: &str) -> Router {
        let shards = std::env::var(SHARDS).unwrap_or_else(|_| "1".to_string());
        Router::start_all(listener, router, sections, &["--shards", &shards])
    }

    /// With so many shards, whatever the environment says.
    pub fn start_shards(shards: u16, sections: &str) -> Router {
        Router::start_as("", sections, &["--shards", &shards.to_string()])
    }

    /// `arguments`: more of the command line.
    pub fn start_as(listener: &str, sections: &str, arguments: &[&str]) -> Router {
        Router::start_all(listener, "", sections, arguments)
    }

    fn start_all(listener: &str, router: &str, sections: &str, arguments: &[&str]) -> Router {
        let port = free_port();
        let directory = std::env::temp_dir().join(format!("ringway-test-{}-{port}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory for the router");
        let authentication = if listener.contains("authenticatePeer") { "" } else { "    authenticatePeer: no\n" };
        let configuration = format!(
            "router {{\n    mode: standalone\n    id: router.under.test\n{router}\n}}\n\
             listener {{\n    host: 127.0.0.1\n    port: {port}\n    saslMechanisms: ANONYMOUS\n\
             {authentication}{listener}\n}}\n{sections}\n"
        );
        let file = directory.join("router.conf");
        std::fs::write(&file, configuration).expect("the configuration can be written");
        let log = std::fs::File::create(directory.join("log")).expect("a log file");
        let mut child = Command::new(program())
            .arg("-c")
            .arg(&file)
            .args(arguments)
            .current_dir(&directory)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("the log for both"))
            .stderr(log)
            .spawn()
            .expect("the router's program starts");
        wait_until_it_listens(&mut child, port, &directory);
        Router { child, port, directory, stopped: false }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn terminate(&self) {
        // SAFETY: the child is ours and was not waited for.
        unsafe { libc::kill(self.child.id() as i32, libc::SIGTERM) };
    }

    /// Waits for the end of the process.
    pub fn wait(&mut self, patience: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + patience;
        loop {
            match self.child.try_wait().expect("the router can be waited for") {
                Some(status) => {
                    self.stopped = true;
                    return Some(status);
                }
                None if Instant::now() > deadline => return None,
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    /// SIGTERM, then exit 0 soon.
    pub fn stop(&mut self) {
        self.terminate();
        let status = self.wait(Duration::from_secs(10));
        match status {
            Some(status) => assert!(status.success(), "the router ended with {status}\n{}", self.log()),
            None => panic!("the router didn't stop within 10 s of SIGTERM\n{}", self.log()),
        }
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("the router can be waited for").is_none()
    }

    /// What it wrote, the last part.
    pub fn log(&self) -> String {
        log_of(&self.directory)
    }

    /// A figure of /proc/PID/status in KiB, such as VmHWM or VmRSS.
    pub fn memory_kib(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("the router runs");
        let line = status.lines().find(|line| line.starts_with(name)).expect("a figure of memory");
        line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number of KiB")
    }

    /// Makes VmHWM start again from what is resident now.
    pub fn reset_peak_memory(&self) {
        std::fs::write(format!("/proc/{}/clear_refs", self.pid()), "5").expect("the peak can be reset");
    }

    /// CPU time used so far, user and system.
    pub fn cpu_time(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).expect("the router runs");
        let (_, behind_name) = stat.rsplit_once(')').expect("a name in brackets");
        let field = |number: usize| -> u64 {
            behind_name.split_whitespace().nth(number).and_then(|text| text.parse().ok()).expect("a tick count")
        };
        // utime and stime are fields 14 and 15, 12 and 13 behind the name's; a tick is 10 ms on Linux.
        Duration::from_millis((field(11) + field(12)) * 10)
    }

    /// Whether there are cores enough to give the router one of its own.
    pub fn has_core_apart(&self) -> bool {
        std::thread::available_parallelism().is_ok_and(|cores| cores.get() > 1)
    }

    /// All of the router runs on one core, and this process, with what it starts, on the others.
    pub fn run_on_core(&self, core: usize) {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid())).expect("the router runs");
        for task in tasks.flatten() {
            let task: i32 = task.file_name().to_string_lossy().parse().expect("a thread's number");
            set_cores(task, |other| other == core);
        }
        set_cores(0, |other| other != core);
    }

    /// The router's own general figures, by the name that its tool shows.
    pub fn general_figures(&self) -> std::collections::BTreeMap<String, u64> {
        let output = Command::new(program())
            .args(["stat", "--general", "--bus", &self.address()])
            .output()
            .expect("the tool runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let figure = |line: &str| {
            let (name, value) = line.trim().rsplit_once("  ")?;
            Some((name.trim().to_string(), value.trim().parse().ok()?))
        };
        text.lines().filter_map(figure).collect()
    }

    /// Open file descriptors of a router at rest. (One that has just started still opens some.)
    pub fn descriptors_at_rest(&self) -> usize {
        let mut counts = [0; 5];
        while counts.iter().any(|count| *count != counts[0] || *count == 0) {
            counts.rotate_left(1);
            counts[4] = self.descriptors();
            std::thread::sleep(Duration::from_millis(50));
        }
        counts[0]
    }

    /// Open file descriptors.
    pub fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.pid())).expect("the router runs").count()
    }
}

/// The cores that a thread (0: this one, and what it starts) may run on, of those that it may run on now.
fn set_cores(thread: i32, may: impl Fn(usize) -> bool) {
    // SAFETY: the kernel fills, and then reads, a set of the size it is told.
    unsafe {
        let size = std::mem::size_of::<libc::cpu_set_t>();
        let mut all: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size, &mut all);
        let mut some: libc::cpu_set_t = std::mem::zeroed();
        (0..libc::CPU_SETSIZE as usize).filter(|core| libc::CPU_ISSET(*core, &all) && may(*core)).for_each(|core| {
            libc::CPU_SET(core, &mut some);
        });
        assert_eq!(libc::sched_setaffinity(thread, size, &some), 0, "{}", std::io::Error::last_os_error());
    }
}

fn wait_until_it_listens(child: &mut Child, port: u16, directory: &std::path::Path) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !answers(port) {
        if let Some(status) = child.try_wait().expect("the router can be waited for") {
            panic!("the router ended with {status} at its start\n{}", log_of(directory));
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            panic!("the router doesn't listen on port {port}\n{}", log_of(directory));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether it serves: a header gets a header. (A socket that listens isn't enough: its connections may wait.)
fn answers(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return false };
    let _ = stream.set_read_timeout(Some(Duration::from_secs(10)));
    let mut header = [0; 8];
    stream.write_all(b"AMQP\x00\x01\x00\x00").is_ok() && stream.read_exact(&mut header).is_ok()
}

fn log_of(directory: &std::path::Path) -> String {
    let mut text = String::new();
    if let Ok(mut file) = std::fs::File::open(directory.join("log")) {
        let _ = file.read_to_string(&mut text);
    }
    let lines: Vec<&str> = text.lines().collect();
    format!("── the router's log ──\n{}", lines[lines.len().saturating_sub(60)..].join("\n"))
}

impl Drop for Router {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let ended = self.child.try_wait().ok().flatten();
            let _ = self.child.kill();
            let _ = self.child.wait();
            eprintln!("{}{}", self.log(), ended.map(|status| format!("\nit ended with {status}")).unwrap_or_default());
        } else if !self.stopped {
            self.stop();
        }
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
