//! The program as those who start it see it: exit codes, what it says and where, signals.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn ringway(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ringway")).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A file of its own, gone with the value.
struct File(PathBuf);

impl File {
    fn new(name: &str, text: &str) -> File {
        let path = std::env::temp_dir().join(format!("ringway-cli-{}-{name}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        File(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A router on a port that the kernel chose, its log read up to the line that says it is up.
struct Started {
    child: Child,
    port: u16,
    /// What it had written when it was up.
    log: String,
    log_file: File,
}

impl Started {
    fn new(name: &str, sections: &str) -> Started {
        let log_file = File::new(&format!("{name}.log"), "");
        let text = format!(
            "listener {{\n host: 127.0.0.1\n port: 0\n}}\nlog {{\n module: DEFAULT\n outputFile: {}\n}}\n{sections}",
            log_file.path()
        );
        let configuration = File::new(&format!("{name}.conf"), &text);
        let mut child = Command::new(env!("CARGO_BIN_EXE_ringway"))
            .args(["--allow-unsupported", "-I", "/usr/lib/qpid-dispatch", "-c", configuration.path()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let text = std::fs::read_to_string(&log_file.0).unwrap();
            if let Some((_, port)) = text.lines().find(|l| l.contains("Operational")).and(text.split_once("127.0.0.1:"))
            {
                let port = port.lines().next().and_then(|port| port.parse().ok()).unwrap();
                return Started { child, port, log: text, log_file };
            }
            assert!(child.try_wait().unwrap().is_none() && Instant::now() < deadline, "not started:\n{text}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Runs the README's example through it.
    fn hello(&self) -> Output {
        let program = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/hello.py");
        Command::new(program).arg(format!("127.0.0.1:{}", self.port)).output().unwrap()
    }

    /// A peer that has opened its connection.
    fn opened(&self, name: &str) -> TcpStream {
        let mut peer = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        peer.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let length = name.len() as u8;
        let open = [&[0x00, 0x53, 0x10, 0xc0, 3 + length, 1, 0xa1, length], name.as_bytes()].concat();
        peer.write_all(b"AMQP\x00\x01\x00\x00").unwrap();
        peer.write_all(&[&[0, 0, 0, 8 + open.len() as u8, 2, 0, 0, 0], &open[..]].concat()).unwrap();
        peer.read_exact(&mut [0; 16]).unwrap();
        peer
    }

    fn signal(&self, signal: i32) {
        // SAFETY: the child is ours and was not waited for.
        unsafe { libc::kill(self.child.id() as i32, signal) };
    }

    fn exit_code(&mut self, patience: Duration) -> Option<i32> {
        let deadline = Instant::now() + patience;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("still running after {patience:?}");
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn version_and_help_are_no_errors() {
    let version = ringway(&["-v"]);
    assert_eq!(
        (version.status.code(), stdout(&version)),
        (Some(0), format!("ringway {}\n", env!("CARGO_PKG_VERSION")))
    );
    let help = ringway(&["-h"]);
    assert_eq!(help.status.code(), Some(0));
    assert!(stdout(&help).contains("Usage: ringway") && stdout(&help).contains("--check <FILE>"));
}

#[test]
fn stray_arguments_show_the_usage_and_exit_1() {
    for arguments in [&["stray"][..], &["-x"], &["-c"], &["--check", "a", "-c", "b"]] {
        let output = ringway(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(
            stderr(&output).contains("Usage: ringway") || stderr(&output).contains("--help"),
            "{}",
            stderr(&output)
        );
    }
}

#[test]
fn check_says_ok_or_every_error_with_its_line() {
    let good = File::new("good.conf", "listener {\n port: 5672\n maxFrameSize: 1\n}\n");
    let output = ringway(&["--check", good.path()]);
    assert_eq!(output.status.code(), Some(0));
    let warning = format!("{}:3: listener: maxFrameSize: 1 is below AMQP's least, 512 is used (warning)", good.path());
    assert_eq!(stdout(&output), format!("{warning}\nOK\n"));

    let bad = File::new("bad.conf", "listener {\n prot: 5672\n}\nsslProfile {\n password: b#c\n}\n");
    let output = ringway(&["--check", bad.path()]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stdout(&output), "");
    let path = bad.path();
    assert_eq!(
        stderr(&output),
        format!(
            "{path}:2: listener: unknown attribute 'prot'; did you mean 'port'?\n\
             {path}:4: sslProfile: not served by this version (TLS): take it out, or start with --allow-unsupported, \
             then it is left out\n\
             {path}:4: sslProfile: 'name' is needed: others refer to it\n\
             {path}:5: sslProfile: '#' starts a comment, so the value of 'password' ends in front of it (warning)\n"
        )
    );

    let json = File::new("good.json", "[[\"listener\", {\"port\": 5672}]]");
    assert_eq!(stdout(&ringway(&["--check", json.path()])), "OK\n");
    let missing = ringway(&["--check", "/nonexistent/router.conf"]);
    assert_eq!(missing.status.code(), Some(1));
    assert_eq!(stderr(&missing), "/nonexistent/router.conf: No such file or directory (os error 2)\n");
}

#[test]
fn a_bad_configuration_does_not_start() {
    let bad = File::new("start.conf", "listener {\n port: 5x\n role: edge\n}\n");
    let output = ringway(&["-c", bad.path()]);
    assert_eq!(output.status.code(), Some(1));
    let path = bad.path();
    let ends = [
        format!("{path}:2: listener: port: expected a number from 0 to 65535, amqp or amqps, found '5x'\n"),
        format!(
            "\nringway: Exception: Cannot load configuration file {path}: port: expected a number from 0 to 65535, \
                 amqp or amqps, found '5x'\n"
        ),
    ];
    let text = stderr(&output);
    assert!(text.starts_with(&ends[0]) && text.ends_with(&ends[1]), "{text}");
    let missing = ringway(&["-c", "/nonexistent/router.conf"]);
    assert!(stderr(&missing).ends_with(
        "ringway: Exception: Cannot load configuration file /nonexistent/router.conf: No such file or directory (os error 2)\n"
    ));
}

#[test]
fn with_leave_it_starts_without_what_is_not_served_and_says_so() {
    let file = File::new("allow.conf", "listener {\n port: 0\n}\nconnector {\n name: b\n}\n");
    let output = ringway(&["--allow-unsupported", "--check", file.path()]);
    assert_eq!(output.status.code(), Some(0));
    let text = "connector 'b': not served by this version (connections that the router makes): it isn't made";
    assert_eq!(stdout(&output), format!("{}:4: {text} (warning)\nOK\n", file.path()));
    let router = Started::new("allowed", "connector {\n name: b\n}\n");
    let lines: Vec<_> = router.log.lines().filter(|line| line.contains("AGENT (warning)")).collect();
    assert!(lines.len() == 1 && lines[0].ends_with(&format!(":9: {text}")), "{}", router.log);
}

#[test]
fn a_port_in_use_is_named_with_its_listener() {
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = holder.local_addr().unwrap().port();
    let file = File::new("used.conf", &format!("router {{\n}}\nlistener {{\n host: 127.0.0.1\n port: {port}\n}}\n"));
    let output = ringway(&["-c", file.path()]);
    assert_eq!(output.status.code(), Some(1));
    let expected = format!("{}:3: listener: can't listen on 127.0.0.1:{port}: the address is in use", file.path());
    assert!(stderr(&output).contains(&expected), "{}", stderr(&output));
}

#[test]
fn a_log_file_that_cannot_be_written_is_named() {
    let file =
        File::new("log.conf", "listener {\n port: 0\n}\nlog {\n module: DEFAULT\n output: /nonexistent/log\n}\n");
    let output = ringway(&["-c", file.path()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains(":4: log: /nonexistent/log can't be opened"), "{}", stderr(&output));
}

/// Cores that this process, and so the router, may use.
fn cores() -> i32 {
    // SAFETY: a set of this function's own, of the size that is told.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, std::mem::size_of::<libc::cpu_set_t>(), &mut set);
        libc::CPU_COUNT(&set)
    }
}

#[test]
fn it_says_that_it_is_up_in_words_that_tools_match() {
    let mut router = Started::new("up", "router {\n id: A.B\n}\n");
    let lines: Vec<&str> = router.log.lines().map(|line| line.splitn(4, ' ').nth(3).unwrap()).collect();
    let expected = [
        "SERVER (info) Container Name: A.B".to_string(),
        "ROUTER (info) Router started in Standalone mode".to_string(),
        format!("ROUTER (info) Version: ringway {}", env!("CARGO_PKG_VERSION")),
        format!("SERVER (notice) Listening on 127.0.0.1:{}", router.port),
        format!("SERVER (notice) Operational, {} Threads Running (process ID {})", cores(), router.child.id()),
    ];
    assert_eq!(lines, expected);
    router.signal(libc::SIGTERM);
    assert_eq!(router.exit_code(Duration::from_secs(10)), Some(0));
    let mut said = String::new();
    router.child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(said, "", "with a configuration the log has it all");
}

#[test]
fn a_port_that_the_kernel_chose_is_found_by_the_listeners_name() {
    let router = Started::new("named", "listener {\n name: extra\n host: ::1\n port: 0\n}\n");
    let line = router.log.lines().find(|line| line.contains("Listening on [::1]:")).unwrap();
    assert!(line.ends_with(" (extra)"), "{line}");
}

#[test]
fn each_signal_ends_it_in_order() {
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGQUIT] {
        let mut router = Started::new(&format!("signal-{signal}"), "");
        // A peer that says nothing and reads nothing must not hold it up.
        let _peer = TcpStream::connect(("127.0.0.1", router.port)).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        router.signal(signal);
        assert_eq!(router.exit_code(Duration::from_secs(10)), Some(0));
        let refused = TcpStream::connect(("127.0.0.1", router.port));
        assert!(refused.is_err(), "nobody listens any more");
    }
}

/// Starts a daemon; gives what who started it saw.
fn daemon(name: &str, arguments: &[&str], configuration: &str) -> Output {
    let file = File::new(&format!("{name}.conf"), configuration);
    // A path of its directory: the daemon's is another.
    let (directory, file) = (file.0.parent().unwrap(), file.0.file_name().unwrap());
    Command::new(env!("CARGO_BIN_EXE_ringway"))
        .args(["-d", "-c", file.to_str().unwrap()])
        .args(arguments)
        .current_dir(directory)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

#[test]
fn a_daemon_serves_when_the_command_ends() {
    let (pid_file, log_file) = (File::new("daemon.pid", ""), File::new("daemon.log", ""));
    let log = format!("log {{\n module: DEFAULT\n outputFile: {}\n}}\n", log_file.path());
    let configuration = format!("listener {{\n host: 127.0.0.1\n port: 0\n}}\n{log}");
    // A user that there is on every machine, where we may become another.
    // SAFETY: no arguments.
    let is_root = unsafe { libc::geteuid() } == 0;
    let mut arguments = vec!["-P", pid_file.path()];
    if is_root {
        std::fs::set_permissions(&log_file.0, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
        arguments.extend(["-U", "nobody"]);
    }
    let output = daemon("daemon", &arguments, &configuration);
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
    let pid: i32 = std::fs::read_to_string(&pid_file.0).unwrap().trim_end().parse().unwrap();
    let log = std::fs::read_to_string(&log_file.0).unwrap();
    let operational = log.lines().find(|line| line.contains("SERVER (notice) Operational, ")).unwrap();
    assert!(operational.ends_with(&format!("(process ID {pid})")), "{log}");
    let (_, port) = log.split_once("Listening on 127.0.0.1:").unwrap();
    TcpStream::connect(("127.0.0.1", port.lines().next().unwrap().parse().unwrap())).unwrap();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let uid = status.lines().find(|line| line.starts_with("Uid:")).unwrap();
    assert!(!is_root || !uid.contains("\t0"), "it has given up its rights: {uid}");
    // SAFETY: the daemon just wrote that this is its process.
    unsafe { libc::kill(pid, libc::SIGTERM) };
    let deadline = Instant::now() + Duration::from_secs(10);
    while std::path::Path::new(&format!("/proc/{pid}/exe")).exists() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(std::fs::read_to_string(&log_file.0).unwrap().contains("SERVER (notice) Stopped"));
}

#[test]
fn a_daemon_that_does_not_start_says_why() {
    let output = daemon("bad-daemon", &[], "listener {\n prot: 1\n}\n");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains(":2: listener: unknown attribute 'prot'"), "{}", stderr(&output));
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let used = format!("listener {{\n host: 127.0.0.1\n port: {}\n}}\n", holder.local_addr().unwrap().port());
    let output = daemon("used-daemon", &[], &used);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("the address is in use"), "{}", stderr(&output));
    for (arguments, text) in [
        (["-U", "no-such-user"], "there is no user 'no-such-user'"),
        (["-P", "/nonexistent/pid"], "the pid file /nonexistent/pid can't be written: No such file"),
    ] {
        let output = daemon("lost-daemon", &arguments, "listener {\n port: 0\n}\n");
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).starts_with(text), "{}", stderr(&output));
    }
}

#[test]
fn log_files_can_be_turned_over() {
    let mut router = Started::new("turned", "");
    let moved = router.log_file.0.with_extension("1");
    std::fs::rename(&router.log_file.0, &moved).unwrap();
    router.signal(libc::SIGHUP);
    let deadline = Instant::now() + Duration::from_secs(10);
    while !router.log_file.0.exists() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    std::fs::remove_file(moved).unwrap();
    router.signal(libc::SIGTERM);
    assert_eq!(router.exit_code(Duration::from_secs(10)), Some(0));
    let log = std::fs::read_to_string(&router.log_file.0).unwrap();
    assert!(log.contains("SERVER (notice) Stopping on SIGTERM") && !log.contains("Operational"), "{log}");
}

/// A router whose log goes to a pipe. It was read until the router was up, then a crowd came and went that it has to tell of: what
/// it writes is more than the pipe takes.
fn unread(name: &str) -> (Started, BufReader<ChildStderr>) {
    let configuration = File::new(
        &format!("{name}.conf"),
        "listener {\n host: 127.0.0.1\n port: 0\n}\nlistener {\n host: 127.0.0.1\n port: 0\n http: yes\n}\n\
         log {\n module: DEFAULT\n enable: trace+\n output: stderr\n}\n",
    );
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringway"));
    command.args(["-c", configuration.path()]).stdin(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut pipe = BufReader::new(child.stderr.take().unwrap());
    let mut log = String::new();
    while !log.contains("Operational") {
        assert!(pipe.read_line(&mut log).unwrap() > 0, "not started:\n{log}");
    }
    let port = log.split_once("Listening on 127.0.0.1:").unwrap().1.lines().next().unwrap().parse().unwrap();
    let router = Started { child, port, log, log_file: File::new(&format!("{name}.log"), "") };
    (0..CROWD).for_each(|_| drop(router.opened(&"x".repeat(200))));
    (router, pipe)
}

/// Each connection is worth a kilobyte of the log.
const CROWD: usize = 400;

impl Started {
    /// What `/healthz` says.
    fn health(&self) -> String {
        let port = self.log.split_once("Listening for HTTP on 127.0.0.1:").unwrap().1.lines().next().unwrap();
        let mut stream = TcpStream::connect(("127.0.0.1", port.parse().unwrap())).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("control answers");
        answer
    }
}

#[test]
fn a_log_that_nobody_reads_holds_nothing_up() {
    for code in [0, 128 + libc::SIGTERM] {
        let (mut router, mut pipe) = unread(&format!("unread-{code}"));
        assert!(router.health().starts_with("HTTP/1.1 200 "), "{}", router.health());
        // It doesn't close: the orderly end waits for it, for 2 s.
        let _peer = router.opened("x");
        router.signal(libc::SIGTERM);
        if code != 0 {
            std::thread::sleep(Duration::from_millis(300));
            router.signal(libc::SIGTERM);
        }
        assert_eq!(router.exit_code(Duration::from_secs(8)), Some(code));
        let mut rest = String::new();
        pipe.read_to_string(&mut rest).unwrap();
        assert!(rest.len() > 60_000 && !rest.contains("Stopping on SIGTERM"), "the pipe was full: {}", rest.len());
    }
}

#[test]
fn an_error_that_nobody_reads_ends_it_all_the_same() {
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = holder.local_addr().unwrap().port();
    let file = File::new("unheard.conf", &format!("listener {{\n host: 127.0.0.1\n port: {port}\n}}\n"));
    let (_reader, mut pipe) = std::io::pipe().unwrap();
    pipe.write_all(&[b'\n'; 65536]).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringway"));
    let child = command.args(["-c", file.path()]).stdin(Stdio::null()).stderr(pipe).spawn().unwrap();
    let mut router = Started { child, port, log: String::new(), log_file: File::new("unheard.log", "") };
    assert_eq!(router.exit_code(Duration::from_secs(8)), Some(1));
}

#[test]
fn a_log_that_is_read_late_has_every_line() {
    let (mut router, mut pipe) = unread("late");
    let reader = std::thread::spawn(move || {
        let mut rest = String::new();
        pipe.read_to_string(&mut rest).unwrap();
        rest
    });
    router.signal(libc::SIGTERM);
    assert_eq!(router.exit_code(Duration::from_secs(10)), Some(0));
    let rest = reader.join().unwrap();
    assert_eq!(rest.matches("Connection Opened: ").count(), CROWD);
    assert!(rest.lines().last().unwrap().ends_with("SERVER (notice) Stopped"), "{rest}");
}

/// The block of the README that begins with this command, without it.
fn readme_block(command: &str) -> String {
    let readme = include_str!("../README.md");
    let block = readme.split("```").find(|block| block.contains(command)).expect("the command is in the README");
    block.split_once(command).unwrap().1.trim_start().to_string()
}

#[test]
fn the_readmes_example_prints_what_the_readme_says() {
    let router = Started::new("example", "");
    let output = router.hello();
    assert_eq!((stdout(&output), stderr(&output)), (readme_block("$ examples/hello.py"), String::new()));
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let mut router = Started::new("twice", "");
    // It neither reads nor closes: the orderly end waits for it.
    let _peer = router.opened("x");
    router.signal(libc::SIGTERM);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(router.child.try_wait().unwrap(), None, "it waits for the peer's close");
    router.signal(libc::SIGTERM);
    assert_eq!(router.exit_code(Duration::from_millis(500)), Some(128 + libc::SIGTERM));
}

/// Starts the router where io_uring_setup answers with an error, as a container's seccomp profile does it.
fn without_io_uring(errno: i32) -> Output {
    let statement = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    // The system call's number is the first word of what the filter sees.
    let mut filter = [
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, libc::SYS_io_uring_setup as u32),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | errno as u32),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let file = File::new(&format!("ring-{errno}.conf"), "listener {\n host: 127.0.0.1\n port: 0\n}\n");
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringway"));
    command.args(["-c", file.path()]).stdin(Stdio::null());
    // SAFETY: two system calls, nothing allocated, between fork and exec.
    unsafe {
        command.pre_exec(move || {
            let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
            let is_set = libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program) == 0;
            is_set.then_some(()).ok_or_else(std::io::Error::last_os_error)
        });
    }
    command.output().unwrap()
}

#[test]
fn without_io_uring_it_says_what_to_enable() {
    for (errno, what) in [
        (libc::EPERM, "kernel.io_uring_disabled=0"),
        (libc::ENOSYS, "Linux 6.1 or later is needed"),
        (libc::EINVAL, "Linux 6.1 or later is needed"),
    ] {
        let output = without_io_uring(errno);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(stderr(&output).contains(what), "{output:?}");
    }
}

#[test]
fn connections_and_links_are_logged_and_frames_on_demand() {
    let plain = "address {\n prefix: greetings\n alertCountUp: 1\n}\n";
    let traced = format!("{plain}log {{\n module: PROTOCOL\n enable: trace+\n}}\n");
    for (name, sections) in [("log", plain), ("trace", &traced)] {
        let mut router = Started::new(name, sections);
        assert!(router.hello().status.success());
        router.signal(libc::SIGTERM);
        assert_eq!(router.exit_code(Duration::from_secs(10)), Some(0));
        let log = std::fs::read_to_string(&router.log_file.0).unwrap();
        let has = |parts: &[&str]| log.lines().any(|line| parts.iter().all(|part| line.contains(part)));
        assert!(
            has(&["ROUTER_CORE (info) [C", "] Connection Opened: dir=in host=127.0.0.1:", "auth=ANONYMOUS"]),
            "{log}"
        );
        assert!(has(&["ROUTER_CORE (info) [C", "][L", "] Link attached: dir=out source={greetings}"]), "{log}");
        assert!(has(&["ROUTER_CORE (info) [C", "][L", "] Link attached: dir=in", "target={greetings}"]), "{log}");
        assert!(has(&["[C", "][L", "] Link detached"]), "{log}");
        let marks = "address=greetings unit=messages threshold=";
        assert!(has(&["ROUTER (notice) threshold-crossed-increasing: ", marks, "=1 "]), "{log}");
        assert!(has(&["ROUTER (notice) threshold-crossed-decreasing: ", marks, "=0 "]), "{log}");
        let is_traced = sections == traced;
        assert_eq!(has(&["PROTOCOL (trace) [C", "]:[0]: <- @open(16) [container-id="]), is_traced, "{log}");
        assert_eq!(has(&["PROTOCOL (trace) [C", "]:[0]: -> @transfer(20) [handle="]), is_traced, "{log}");
    }
}

#[test]
fn it_starts_fast() {
    let begin = Instant::now();
    let _router = Started::new("fast", "");
    // 100 ms is the aim; a busy machine gets more.
    assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
}
