//! Accepting when descriptors run out: who waits in the backlog is served as soon as others have gone.
//!
//! A process of its own, since the limit is the process's.

use ringway::wire::PROTOCOL_HEADER_AMQP;
use ringway::{engine, routing, shard};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

fn set_descriptor_limit(limit: u64) {
    let mut known = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: valid pointers to an rlimit.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &mut known), 0);
        known.rlim_cur = limit;
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &known), 0);
    }
}

fn wait_for(handle: &shard::ShardHandle, what: &str, mut is_it: impl FnMut(&shard::Report) -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        match handle.mailbox.reports().poll() {
            Some(report) if is_it(&report) => return,
            Some(_) => {}
            None => {
                assert!(Instant::now() < deadline, "{what} was not reported");
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

/// One test: the limit is the process's.
#[test]
fn who_waits_is_served_when_others_have_gone() {
    for shards in [1, 2] {
        who_waits_is_served(shards);
        set_descriptor_limit(1000);
    }
}

fn who_waits_is_served(shards: usize) {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    // They wait in the backlog: our own end of each has its descriptor already.
    let mut clients: Vec<TcpStream> = (0..60).map(|_| TcpStream::connect(address).unwrap()).collect();
    let open = std::fs::read_dir("/proc/self/fd").unwrap().count() as u64;
    // Room for the shard's own few and some of the connections.
    set_descriptor_limit(open + 20 + 10 * shards as u64);

    let listener = shard::Listener {
        number: 7,
        socket: Arc::new(socket),
        link_capacity: 1,
        engine: Arc::new(engine::Settings::default()),
    };
    let settings = shard::ShardSettings {
        cores: vec![None; shards],
        router: routing::RouterSettings::default(),
        busy_poll: Duration::ZERO,
        stop_deadline: Duration::from_millis(200),
        trace: false,
        moves: true,
    };
    let handles = shard::spawn(settings, vec![listener]).unwrap();
    wait_for(&handles[0], "EMFILE", |report| {
        matches!(report, shard::Report::AcceptPaused { listener: 7, errno: libc::EMFILE })
    });

    // The first in the backlog were accepted; they go, and the last get their turn.
    let mut last = clients.split_off(40);
    drop(clients);
    for client in &mut last {
        client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        client.write_all(&PROTOCOL_HEADER_AMQP).unwrap();
        let mut header = [0; 8];
        client.read_exact(&mut header).unwrap();
        assert_eq!(header, PROTOCOL_HEADER_AMQP);
    }
    set_descriptor_limit(open + 500);
    handles.iter().for_each(|handle| assert!(handle.mailbox.order(shard::Order::Stop).is_ok()));
    handles.into_iter().for_each(|handle| handle.thread.join().unwrap().unwrap());
}
