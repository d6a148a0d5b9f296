//! Where lines of the log go: a file, the terminal, syslog. Whoever writes there may have to wait; see `writer`.

use crate::config::LogOutput;
use crate::log::Level;
use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixDatagram;
#[cfg(test)]
use std::sync::{Arc, Mutex};

const SYSLOG_SOCKET: &str = "/dev/log";

pub(super) enum Sink {
    Stdout,
    Stderr,
    File(File),
    /// The C library's syslog(3): it connects, connects again, and puts time and name in front.
    Syslog,
    /// Keeps what is written, for tests.
    #[cfg(test)]
    Memory(Arc<Mutex<String>>),
}

impl Sink {
    pub fn open(output: &LogOutput) -> io::Result<Sink> {
        Ok(match output {
            LogOutput::Stdout => Sink::Stdout,
            LogOutput::Stderr => Sink::Stderr,
            // Nothing waits for a pipe's reader: without one opening fails (ENXIO), behind a slow one lines are lost.
            LogOutput::File(path) => {
                Sink::File(OpenOptions::new().append(true).create(true).custom_flags(libc::O_NONBLOCK).open(path)?)
            }
            LogOutput::Syslog => Sink::Syslog,
        })
    }

    /// What comes before the first line, and may have to wait, too.
    pub fn begin(&self) {
        if let Sink::Syslog = self {
            open_syslog();
        }
    }

    /// Writes a whole line, its end included. A line that can't be written is lost: a full disk is no reason for a
    /// router to end.
    pub fn write(&mut self, level: Level, line: &str) {
        let _ = match self {
            Sink::Stdout => io::stdout().write_all(line.as_bytes()),
            Sink::Stderr => io::stderr().write_all(line.as_bytes()),
            Sink::File(file) => file.write_all(line.as_bytes()),
            Sink::Syslog => {
                syslog(level, line.trim_end_matches('\n'));
                Ok(())
            }
            #[cfg(test)]
            Sink::Memory(text) => {
                text.lock().unwrap().push_str(line);
                Ok(())
            }
        };
    }
}

fn open_syslog() {
    // SAFETY: the name is a constant that lives as long as the process.
    unsafe { libc::openlog(c"ringway".as_ptr(), libc::LOG_PID, libc::LOG_DAEMON) };
    // syslog(3) says nothing where nobody listens. It may start later, so this is no error.
    let is_there = UnixDatagram::unbound().and_then(|socket| socket.connect(SYSLOG_SOCKET));
    if let Err(error) = is_there {
        let _ = writeln!(
            io::stderr(),
            "ringway: log: syslog isn't there ({SYSLOG_SOCKET}: {error}); what goes to it is lost until it is"
        );
    }
}

fn syslog(level: Level, text: &str) {
    let priority = match level {
        // syslog has no trace.
        Level::Trace | Level::Debug => libc::LOG_DEBUG,
        Level::Info => libc::LOG_INFO,
        Level::Notice => libc::LOG_NOTICE,
        Level::Warning => libc::LOG_WARNING,
        Level::Error => libc::LOG_ERR,
        Level::Critical => libc::LOG_CRIT,
    };
    // A line has no control characters in it, so no zero byte either.
    if let Ok(text) = CString::new(text) {
        // SAFETY: a format of one string, and the string.
        unsafe { libc::syslog(priority, c"%s".as_ptr(), text.as_ptr()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_that_nobody_reads_holds_nothing_up() {
        let path = std::env::temp_dir().join(format!("ringway-log-{}.fifo", std::process::id()));
        let path = path.to_str().unwrap().to_owned();
        let name = CString::new(path.as_str()).unwrap();
        // SAFETY: a path that ends with its zero byte.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        let output = LogOutput::File(path.clone());

        let error = Sink::open(&output).err().expect("opened without a reader");
        assert_eq!(error.raw_os_error(), Some(libc::ENXIO));

        // A reader that reads nothing: the pipe takes 64 KiB, the rest is lost.
        let reader = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&path).unwrap();
        let mut sink = Sink::open(&output).unwrap();
        for _ in 0..100 {
            sink.write(Level::Info, &"x".repeat(4096));
        }
        drop(reader);
        std::fs::remove_file(path).unwrap();
    }
}
