//! HTTP beside AMQP: health, metrics that say what happened, files of a directory and of no other, and clients that mean
//! harm.

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use support::amqp::*;
use support::http::{connect, get, request, Metrics};
use support::raw::Raw;
use support::router::{free_port, Router};

/// A router with an HTTP listener, and that one's port.
fn start(attributes: &str, sections: &str) -> (Router, u16) {
    let port = free_port();
    let listener = format!("listener {{\n    host: 127.0.0.1\n    port: {port}\n    {attributes}\n}}\n{sections}");
    (Router::start(&listener), port)
}

/// A directory that goes with the test.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("ringway-http-{}-{name}", std::process::id()));
        std::fs::create_dir_all(path.join("root/below")).unwrap();
        std::fs::write(path.join("secret.txt"), "secret").unwrap();
        std::fs::write(path.join("root/index.html"), "<p>front</p>").unwrap();
        std::fs::write(path.join("root/style.css"), "p {}").unwrap();
        std::fs::write(path.join("root/code.js"), "1").unwrap();
        std::fs::write(path.join("root/picture.svg"), "<svg/>").unwrap();
        std::fs::write(path.join("root/below/index.html"), "<p>below</p>").unwrap();
        std::fs::write(path.join("root/with space.txt"), "spaced").unwrap();
        Directory(path)
    }

    fn root(&self) -> String {
        self.0.join("root").display().to_string()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn health_and_what_else_there_is() {
    let (_router, port) = start("http: yes", "");
    let health = get(port, "/healthz");
    assert_eq!((health.status, health.text()), (200, "OK\n"));
    assert_eq!(health.header("content-type"), "text/plain; charset=utf-8");
    let head = request(port, "HEAD /healthz", "");
    assert_eq!((head.status, head.body.len(), head.header("content-length")), (200, 0, "3"));
    assert_eq!(get(port, "/healthz?verbose=1").status, 200);
    assert_eq!(get(port, "/metrics").header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    let front = get(port, "/");
    assert_eq!((front.status, front.text().lines().nth(1)), (200, Some("/healthz")));
    assert_eq!(get(port, "/nothing").status, 404);
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "BREW"] {
        let answer = request(port, &format!("{method} /healthz"), "");
        assert_eq!((answer.status, answer.header("allow")), (405, "GET, HEAD"), "{method}");
    }
}

#[test]
fn what_is_switched_off_is_not_there() {
    let (_router, port) = start("http: yes\n    healthz: no", "");
    assert_eq!((get(port, "/healthz").status, get(port, "/metrics").status), (404, 200));
    let (_router, port) = start("http: yes\n    metrics: no", "");
    assert_eq!((get(port, "/healthz").status, get(port, "/metrics").status), (200, 404));
}

/// Skupper-router 587.
#[test]
fn case_10_only_the_configured_host_is_bound() {
    let (_router, port) = start("http: yes", "");
    assert_eq!(get(port, "/healthz").status, 200);
    // All of 127.0.0.0/8 is this machine, and nobody listens there.
    assert!(TcpStream::connect(("127.0.0.2", port)).is_err());
}

#[test]
fn several_requests_on_one_connection() {
    let (_router, port) = start("http: yes", "");
    let mut stream = connect(port);
    stream.write_all("GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n".repeat(3).as_bytes()).unwrap();
    let mut text = String::new();
    while text.matches("OK\n").count() < 3 {
        let mut bytes = [0; 1024];
        let count = stream.read(&mut bytes).unwrap();
        assert!(count > 0, "{text}");
        text.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
    }
    assert_eq!(text.matches("HTTP/1.1 200 OK").count(), 3);
}

#[test]
fn files_of_the_directory_and_no_others() {
    let directory = Directory::new("files");
    let (_router, port) = start(&format!("httpRootDir: {}", directory.root()), "");
    for (path, text, kind) in [
        ("/", "<p>front</p>", "text/html"),
        ("/index.html", "<p>front</p>", "text/html"),
        ("/style.css?v=2", "p {}", "text/css"),
        ("/code.js", "1", "text/javascript"),
        ("/picture.svg", "<svg/>", "image/svg+xml"),
        ("/below/", "<p>below</p>", "text/html"),
        ("/with%20space.txt", "spaced", "text/plain"),
    ] {
        let answer = get(port, path);
        assert_eq!((answer.status, answer.text()), (200, text), "{path}");
        assert!(answer.header("content-type").starts_with(kind), "{path}: {}", answer.header("content-type"));
        let head = request(port, &format!("HEAD {path}"), "");
        assert_eq!((head.status, head.body.len()), (200, 0), "{path}");
        assert_eq!(head.header("content-length"), text.len().to_string(), "{path}");
    }
    for path in [
        "/none.html",
        "/../secret.txt",
        "/%2e%2e/secret.txt",
        "/..%2fsecret.txt",
        "/below/../../secret.txt",
        "/below/%2e%2e/%2e%2e/secret.txt",
        "/below\\..\\..\\secret.txt",
        "//etc/passwd",
        "/%2fetc%2fpasswd",
        "/%00",
        "/index.html%00.txt",
    ] {
        let answer = get(port, path);
        assert!(matches!(answer.status, 400 | 404), "{path}: {}", answer.status);
        assert!(!String::from_utf8_lossy(&answer.body).contains("secret"), "{path}");
    }
    // Beside the files, not instead of them.
    assert_eq!((get(port, "/healthz").text(), get(port, "/metrics").status), ("OK\n", 200));
}

#[test]
fn a_large_file_comes_whole_and_costs_no_memory() {
    let directory = Directory::new("large");
    let bytes: Vec<u8> = (0..40_000_000u32).map(|at| (at % 251) as u8).collect();
    std::fs::write(directory.0.join("root/large.bin"), &bytes).unwrap();
    let (router, port) = start(&format!("httpRootDir: {}", directory.root()), "");
    let before = router.memory_kib("VmRSS");
    router.reset_peak_memory();
    assert!(get(port, "/large.bin").body == bytes);
    let peak = router.memory_kib("VmHWM");
    assert!(peak < before + 8 * 1024, "{before} KiB before, {peak} KiB at the peak");
}

#[test]
fn a_file_that_never_opens_does_not_keep_the_router_from_its_end() {
    let directory = Directory::new("pipe");
    let pipe = std::ffi::CString::new(format!("{}/pipe", directory.root())).unwrap();
    // SAFETY: a path that ends with its zero byte.
    assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) }, 0);
    let (mut router, port) = start(&format!("httpRootDir: {}", directory.root()), "");
    let mut stream = connect(port);
    stream.write_all(b"GET /pipe HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    // Opening a pipe waits for its writer, in a thread of control's runtime.
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(get(port, "/healthz").status, 200);
    router.stop();
}

/// Sends messages of which the consumer accepts some, rejects some and releases some; some settled.
fn traffic(router: &Router) -> (Raw, Raw) {
    let mut consumer = Raw::session(router, "consumer");
    consumer.attach_consumer(0, "shown \"so\"", 100);
    let mut producer = Raw::session(router, "producer");
    let sender = producer.attach_sender(0, "shown \"so\"");
    producer.wait_for_limit(&sender, 0);
    for id in 0..6 {
        producer.wait_for_limit(&sender, id);
        producer.send(&transfer_frame(0, id, &data_message(b"0123456789")));
        let (first, _) = consumer.receive_delivery();
        match id {
            0..=2 => consumer.settle(&first, accepted()),
            3 => consumer.settle(&first, released()),
            // Two are left unsettled.
            _ => {}
        }
        if id <= 3 {
            producer.expect_outcome(id);
        }
    }
    (consumer, producer)
}

#[test]
fn metrics_say_what_happened() {
    let (router, port) = start("http: yes", "address {\n    prefix: shown \"so\"\n    alertCountUp: 2\n}\n");
    let parsed = Metrics::parse(get(port, "/metrics").text());
    assert_eq!(parsed.value("qdr_deliveries_ingress_total"), 0.0);
    let _clients = traffic(&router);
    // What is shown is at most a second old.
    std::thread::sleep(Duration::from_millis(1100));
    let text = get(port, "/metrics");
    let metrics = Metrics::parse(text.text());
    let started = "process_start_time_seconds";
    assert_eq!(metrics.value(started), parsed.value(started));
    for (name, value) in [
        ("connections", 2),
        ("links", 2),
        ("addresses", 1),
        ("routers", 0),
        ("link_routes", 0),
        ("auto_links", 0),
        ("deliveries_stuck", 0),
        ("links_blocked", 0),
        ("presettled_deliveries", 0),
        ("dropped_presettled_deliveries", 0),
        ("accepted_deliveries", 3),
        ("released_deliveries", 1),
        ("rejected_deliveries", 0),
        ("modified_deliveries", 0),
        ("deliveries_ingress", 6),
        ("deliveries_egress", 6),
        ("deliveries_transit", 0),
        ("deliveries_ingress_route_container", 0),
        ("deliveries_egress_route_container", 0),
        ("deliveries_delayed_1sec", 0),
        ("deliveries_delayed_10sec", 0),
        ("deliveries_redirected_to_fallback", 0),
    ] {
        let value_shown = metrics.value(&format!("qdr_{name}_total"));
        if name == "addresses" {
            // The router's own addresses count as well.
            assert!(value_shown >= f64::from(value), "{name}");
        } else {
            assert_eq!(value_shown, f64::from(value), "{name}");
        }
    }
    let address = |name: &str, more: &str| {
        metrics.value(&format!("ringway_address_{name}{{address=\"shown \\\"so\\\"\"{more}}}"))
    };
    assert_eq!((address("ingress_total", ""), address("egress_total", "")), (6.0, 6.0));
    assert_eq!((address("accepted_total", ""), address("released_total", "")), (3.0, 1.0));
    assert_eq!((address("senders", ""), address("consumers", "")), (1.0, 1.0));
    let size = data_message(b"0123456789").len() as f64;
    assert_eq!((address("depth_messages", ""), address("depth_bytes", "")), (2.0, 2.0 * size));
    assert_eq!(address("out_capacity", ""), 100.0);
    assert_eq!(address("above_threshold", ",unit=\"messages\""), 1.0);
    assert_eq!(address("threshold_edges_total", ",unit=\"messages\",edge=\"increasing\""), 1.0);
    assert_eq!(address("settle_seconds_count", ""), 4.0);
    let (p50, p999) =
        (address("settle_seconds", ",quantile=\"0.5\""), address("settle_seconds", ",quantile=\"0.999\""));
    assert!(p50 > 0.0 && p50 <= p999 && p999 < 1.0, "{p50} {p999}");
    assert_eq!(metrics.value("ringway_settle_seconds_count"), 4.0);
    assert!(metrics.value("process_resident_memory_bytes") > 1e6);
    assert!(metrics.value("ringway_build_info{version=\"0.1.0\"}") == 1.0);
}

#[test]
fn long_names_take_no_more_than_their_part() {
    let (router, port) = start("http: yes", "");
    let mut client = Raw::session(&router, "client");
    for number in 0..400 {
        client.attach_receiver(number, &format!("{number:05}{}", "\"x".repeat(1000)));
    }
    client.attach_receiver(400, "00000");
    let answer = get(port, "/metrics");
    assert!(answer.body.len() < 10_000_000, "{} bytes", answer.body.len());
    let metrics = Metrics::parse(answer.text());
    let shown = metrics.samples.keys().filter(|name| name.starts_with("ringway_address_consumers{")).count();
    assert_eq!(metrics.value("ringway_address_consumers{address=\"00000\"}"), 1.0);
    // With $management.
    assert_eq!(metrics.value("ringway_addresses_left_out"), (402 - shown) as f64);
    assert!(shown > 100, "{shown}");
}

#[test]
fn what_stays_is_shown_as_delayed_stuck_and_blocked() {
    let (router, port) = start("http: yes", "");
    let mut consumer = Raw::session(&router, "consumer");
    consumer.attach_consumer(0, "slow", 2);
    let mut producer = Raw::session(&router, "producer");
    let sender = producer.attach_sender(0, "slow");
    for id in 0..2 {
        producer.wait_for_limit(&sender, id);
        producer.send(&transfer_frame(0, id, &data_message(b"slow")));
    }
    let first = consumer.receive_delivery().0;
    let second = consumer.receive_delivery().0;
    std::thread::sleep(Duration::from_millis(1500));
    consumer.settle(&first, accepted());
    producer.expect_outcome(0);
    let deadline = Instant::now() + Duration::from_secs(14);
    let shown = |name: &str| Metrics::parse(get(port, "/metrics").text()).value(&format!("qdr_{name}_total"));
    while shown("deliveries_stuck") == 0.0 {
        assert!(Instant::now() < deadline, "never stuck");
        std::thread::sleep(Duration::from_millis(300));
    }
    consumer.settle(&second, accepted());
    producer.expect_outcome(1);
    std::thread::sleep(Duration::from_millis(1100));
    let counted = ["delayed_1sec", "delayed_10sec", "stuck"].map(|name| shown(&format!("deliveries_{name}")));
    assert_eq!(counted, [1.0, 1.0, 1.0]);
    // The consumer gave no credit for more, and so its sender may have none.
    assert!(shown("links_blocked") >= 1.0);
}

#[test]
fn a_bad_request_gets_an_answer_or_an_end() {
    let (_router, port) = start("http: yes", "");
    for (bytes, status) in [
        (b"AMQP\x00\x01\x00\x00".to_vec(), "400"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(), "400"),
        (b"GET\r\n\r\n".to_vec(), "400"),
        (format!("GET /{} HTTP/1.1\r\nHost: h\r\n\r\n", "x".repeat(100_000)).into_bytes(), "4"),
        (format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(1000)).into_bytes(), "431"),
        (b"GET / HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 7\r\n\r\n".to_vec(), "400"),
    ] {
        let mut stream = connect(port);
        let _ = stream.write_all(&bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let text = String::from_utf8_lossy(&answer);
        // It may end while it is still being written to: then there may be no answer to be seen.
        assert!(text.is_empty() || text.starts_with(&format!("HTTP/1.1 {status}")), "{text}");
    }
    let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                   Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: amqp\r\n";
    assert_eq!(request(port, "GET /", upgrade).status, 501);
    assert_eq!(get(port, "/healthz").text(), "OK\n");
}

#[test]
fn slow_and_many_clients_keep_nobody_out() {
    let (router, port) = start("http: yes", "");
    let before = router.memory_kib("VmRSS");
    let mut held = Vec::new();
    for at in 0..400 {
        let mut stream = connect(port);
        // Heads that never end, and answers that nobody takes.
        let text =
            if at % 2 == 0 { "GET /healthz HTTP/1.1\r\nHost: h\r\nX: " } else { "GET /metrics HTTP/1.1\r\n\r\n" };
        let _ = stream.write_all(text.as_bytes());
        held.push(stream);
    }
    let began = Instant::now();
    assert_eq!(get(port, "/healthz").text(), "OK\n");
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert!(router.descriptors() < 300, "{} descriptors", router.descriptors());
    assert!(router.memory_kib("VmRSS") < before + 16 * 1024);
    // AMQP goes on meanwhile.
    let clients = traffic(&router);
    drop(clients);
    // A head that comes a byte at a time has its time, and no more.
    let mut slow = connect(port);
    let began = Instant::now();
    while slow.write_all(b"G").is_ok() && began.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(200));
    }
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
}

#[test]
fn an_address_of_http_speaks_no_amqp_and_the_other_way_round() {
    let (router, port) = start("http: yes", "");
    let mut stream = connect(router.port);
    stream.write_all(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert_eq!(&answer[..4], b"AMQP");
    assert_eq!(get(port, "/healthz").status, 200);
}
