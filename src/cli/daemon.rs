//! Going to the background, as a System V daemon does.
//!
//! The process forks twice; the one that was started waits until the router serves, or until it says why not, and ends with
//! that. Before the router starts the daemon has left its session, its terminal, its directory, and, where a user is
//! given, its rights.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::Path;

/// What the daemon says when it serves.
const SERVES: &[u8] = b"ok";

/// Who goes on from here.
pub enum Side {
    /// The process that was started. Err: what the daemon said.
    Starter(Result<(), String>),
    Daemon(Starter),
}

/// The daemon's line to who started it.
pub struct Starter(File);

impl Starter {
    /// The router serves.
    pub fn serves(mut self) {
        let _ = self.0.write_all(SERVES);
    }

    /// The router doesn't start.
    pub fn fails(mut self, text: &str) {
        let _ = self.0.write_all(text.as_bytes());
    }
}

/// Goes to the background. No thread may have been started yet.
///
/// # Errors
/// The process can't be forked.
pub fn start(pid_file: Option<&Path>, user: Option<&str>) -> io::Result<Side> {
    let (reader, writer) = pipe()?;
    if fork()? {
        drop(writer);
        return Ok(Side::Starter(wait(reader)));
    }
    drop(reader);
    let starter = Starter(writer);
    // SAFETY: no arguments, and its only error is that the session is its own already.
    unsafe { libc::setsid() };
    match fork() {
        // Gone without a destructor: what there is to tidy up is the starter's and the daemon's.
        // SAFETY: it ends the process.
        Ok(true) => unsafe { libc::_exit(0) },
        Ok(false) => {}
        Err(error) => refuse(starter, &format!("the daemon can't be forked: {error}")),
    }
    match settle(pid_file, user) {
        Ok(()) => Ok(Side::Daemon(starter)),
        Err(text) => refuse(starter, &text),
    }
}

fn refuse(starter: Starter, text: &str) -> ! {
    starter.fails(text);
    std::process::exit(1);
}

/// The end of the daemon's start, as the one hears it who started it.
fn wait(mut reader: File) -> Result<(), String> {
    let mut said = Vec::new();
    reader.read_to_end(&mut said).map_err(|error| format!("the daemon can't be heard: {error}"))?;
    match &said[..] {
        SERVES => Ok(()),
        [] => Err("the daemon ended without a word".to_string()),
        text => Err(String::from_utf8_lossy(text).into_owned()),
    }
}

/// The daemon's surroundings.
fn settle(pid_file: Option<&Path>, user: Option<&str>) -> Result<(), String> {
    let null = File::options().read(true).write(true).open("/dev/null");
    let null = null.map_err(|error| format!("/dev/null can't be opened: {error}"))?;
    for standard in 0..=2 {
        // SAFETY: two descriptors that are open.
        unsafe { libc::dup2(null.as_raw_fd(), standard) };
    }
    if let Some(path) = pid_file {
        std::fs::write(path, format!("{}\n", std::process::id()))
            .map_err(|error| format!("the pid file {} can't be written: {error}", path.display()))?;
    }
    std::env::set_current_dir("/").map_err(|error| format!("/ can't be the directory: {error}"))?;
    match user {
        Some(user) => become_user(user),
        None => Ok(()),
    }
}

/// Gives up all rights but those of a user.
fn become_user(name: &str) -> Result<(), String> {
    let c_name = CString::new(name).map_err(|_| format!("there is no user '{name}'"))?;
    // SAFETY: a string with its end; what it gives lives until the next such call, and this is the only thread.
    let (uid, gid) = unsafe {
        match libc::getpwnam(c_name.as_ptr()).as_ref() {
            Some(entry) => (entry.pw_uid, entry.pw_gid),
            None => return Err(format!("there is no user '{name}'")),
        }
    };
    let check = |result: libc::c_int| match result {
        0 => Ok(()),
        _ => Err(format!("can't become the user '{name}': {}", io::Error::last_os_error())),
    };
    // The groups while there is still the right to.
    // SAFETY: a string with its end, and numbers.
    unsafe {
        check(libc::initgroups(c_name.as_ptr(), gid))?;
        check(libc::setgid(gid))?;
        check(libc::setuid(uid))
    }
}

/// Whether this is the process that was there before.
fn fork() -> io::Result<bool> {
    // SAFETY: there is one thread, so what it copies is whole.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(false),
        _ => Ok(true),
    }
}

fn pipe() -> io::Result<(File, File)> {
    let mut ends = [0; 2];
    // SAFETY: room for two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just made, nobody else has them.
    Ok(unsafe { (File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1])) })
}
