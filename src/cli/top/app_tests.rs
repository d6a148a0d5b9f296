//! Pictures in 80 × 24, and what keys make of them.

use super::super::{picture, sample::Sample};
use super::*;
use serde_json::{json, Value};

fn entities(list: Value) -> Vec<Entity> {
    list.as_array().unwrap().iter().map(|entity| entity.as_object().unwrap().clone()).collect()
}

/// A router after so many seconds.
fn router(seconds: u64) -> Entity {
    let router = json!({
        "id": "QDR.A", "mode": "standalone", "version": "0.1.0", "uptimeSeconds": 3700 + seconds,
        "memoryUsage": 41_943_040, "addrCount": 7, "connectionCount": 3, "linkCount": 4,
        "deliveriesIngress": 1_000_000 + 21_500 * seconds, "deliveriesEgress": 2_000_000 + 43_000 * seconds,
        "deliveriesDelayed1Sec": 12, "deliveriesStuck": 1, "linksBlocked": 0,
    });
    router.as_object().unwrap().clone()
}

fn address(name: &str, distribution: &str, rate: u64, seconds: u64, figures: [u64; 6], is_above: bool) -> Value {
    let [senders, receivers, depth, waiting, capacity, p50] = figures;
    json!({
        "name": name, "distribution": distribution, "subscriberCount": receivers,
        "deliveriesIngress": 500 + rate * seconds, "deliveriesEgress": 500 + rate * seconds,
        "depthMessages": depth, "depthBytes": depth * 100, "waitingCount": waiting, "localInLinks": senders,
        "localOutCapacity": capacity, "targetInCredit": capacity / senders.max(1), "aboveCountThreshold": is_above,
        "aboveSizeThreshold": false, super::super::table::P50: p50, super::super::table::P99: 14 * p50,
    })
}

fn addresses(seconds: u64) -> Sample {
    let entities = entities(json!([
        address("M0orders.europe.incoming.priority", "balanced", 9_400, seconds, [12, 4, 230, 0, 400, 310], false),
        address("M0orders.returns", "balanced", 4, seconds, [3, 1, 1_250, 1_000, 250, 2_400_000], true),
        address("M0telemetry/rack-17", "multicast", 12_000, seconds, [1, 150, 88_000, 0, 15_000, 780], false),
        address("M1queue", "closest", 0, seconds, [0, 1, 0, 0, 10, 0], false),
        address("Ltemp.T0jpk_8V69TVJiU", "closest", 0, seconds, [0, 1, 0, 0, 10, 0], false),
    ]));
    Sample { view: View::Addresses, router: router(seconds), entities, links: Vec::new() }
}

fn links(seconds: u64) -> Sample {
    let link = |id: &str, connection: &str, direction: &str, address: &str, rate: u64, blocked: u64| {
        json!({
            "identity": id, "linkName": format!("link-{id}"), "linkDir": direction, "connectionId": connection,
            "owningAddr": address, "deliveryCount": rate * seconds, "unsettledCount": 17, "undeliveredCount": 3,
            "creditAvailable": 250, "creditWindow": 30, "zeroCreditSeconds": blocked, "deliveriesStuck": 0,
            "acceptedCount": 5, "releasedCount": 0,
        })
    };
    let entities = entities(json!([
        link("9", "3", "in", "M0orders.returns", 4, 0),
        link("11", "3", "out", "M0orders.returns", 2, 95),
        link("12", "10", "in", "M0telemetry/rack-17", 12_000, 0),
    ]));
    Sample { view: View::Links, router: router(seconds), entities, links: Vec::new() }
}

fn connections(seconds: u64) -> Sample {
    let connection = |id: &str, container: &str, up: u64| {
        json!({
            "identity": id, "container": container, "host": "192.168.100.23:43210", "role": "normal", "dir": "in",
            "user": "anonymous", "uptimeSeconds": up, "lastDlvSeconds": null,
        })
    };
    let connected =
        json!([connection("3", "order-service-7f9c", 90), connection("10", "b59a6a5e-8d1c-4a5c-9d31", 90_000)]);
    Sample {
        view: View::Connections,
        router: router(seconds),
        entities: entities(connected),
        links: links(seconds).entities,
    }
}

/// An application that took two samples of a view, two seconds apart.
fn app(samples: fn(u64) -> Sample) -> App {
    let mut app = App::new(Duration::from_secs(1));
    app.view = samples(0).view;
    app.take(samples(0), 0.0);
    app.take(samples(2), 2.0);
    app
}

fn picture_of(app: &mut App) -> String {
    picture(app, 80, 24, "06:53:10")
}

fn press(app: &mut App, code: KeyCode) -> Action {
    app.key(KeyEvent::from(code))
}

fn first_column(app: &App) -> Vec<String> {
    app.rows.iter().map(|row| row.cells[0].shown().to_owned()).collect()
}

/// The first lines of a picture, and the last.
fn assert_picture(app: &mut App, first: &str) {
    let picture = picture_of(app);
    assert!(picture.starts_with(first), "{picture}\n{first}");
    assert_eq!(picture.lines().count(), 24);
    assert_eq!(
        picture.lines().last(),
        Some("q quit  Tab view  ←→ sort  r reverse  / filter  ⏎ its links  p pause  ? help")
    );
    assert!(picture.lines().all(|line| line.chars().count() <= 80));
}

#[test]
fn addresses_read_well() {
    let picture = "\
ringway top  QDR.A  up 1h01  40.0 MiB  standalone 0.1.0      every 1 s  06:53:10
in 21.5k/s  out 43.0k/s  delayed 12  stuck 1  blocked 0                        █
1 Addresses 7   2 Connections 3   3 Links 4
ADDRESS                   ▼IN/S OUT/S SEND RECV DEPTH  WAIT CREDIT   P50   P99 !
telemetry/rack-17         12.0k 12.0k    1  150 88.0k     0  15.0k 780us  11ms
orders.europ…ing.priority 9.40k 9.40k   12    4   230     0    400 310us 4.3ms
orders.returns                4     4    3    1 1.25k 1.00k    250  2.4s 33.6s !
queue :1                      0     0    0    1     0     0     10   0us   0us
temp.T0jpk_8…VJiU (local)     0     0    0    1     0     0     10   0us   0us
\n\n";
    assert_picture(&mut app(addresses), picture);
}

#[test]
fn connections_read_well() {
    let picture = "\
ringway top  QDR.A  up 1h01  40.0 MiB  standalone 0.1.0      every 1 s  06:53:10
in 21.5k/s  out 43.0k/s  delayed 12  stuck 1  blocked 0                        █
1 Addresses 7   2 Connections 3   3 Links 4
   ID CONTAINER                HOST                  DIR LINKS ▼IN/S OUT/S    UP
   10 b59a6a5e-8d1c-4a5c-9d31  192.168.100.23:43210  in      1 12.0k     0  1d01
    3 order-service-7f9c       192.168.100.23:43210  in      2     4     2    1m
\n\n";
    assert_picture(&mut app(connections), picture);
}

#[test]
fn links_read_well() {
    let picture = "\
ringway top  QDR.A  up 1h01  40.0 MiB  standalone 0.1.0      every 1 s  06:53:10
in 21.5k/s  out 43.0k/s  delayed 12  stuck 1  blocked 0                        █
1 Addresses 7   2 Connections 3   3 Links 4
   ID DIR  CONN ADDRESS                  ▼MSG/S UNSETT UNDEL CREDIT BLOCKD STUCK
   12 in     10 telemetry/rack-17         12.0k     17     3    250      -     0
    9 in      3 orders.returns                4     17     3    250      -     0
   11 out     3 orders.returns                2     17     3    250     1m     0
\n\n";
    let mut app = app(links);
    assert_picture(&mut app, picture);
    assert_eq!(app.rows.iter().map(|row| row.is_alarming).collect::<Vec<_>>(), [false, false, true]);
}

#[test]
fn a_wide_terminal_shows_more() {
    let picture = picture(&mut app(addresses), 120, 12, "06:53:10");
    let heading = picture.lines().nth(3).unwrap();
    let names: Vec<&str> = heading.split_whitespace().collect();
    assert_eq!(names[..3], ["ADDRESS", "DISTRIB", "▼IN/S"]);
    assert!(names.contains(&"BYTES") && names.contains(&"SHARE"));
    assert!(picture.contains("orders.europe.incoming.priority            balanced"));
}

#[test]
fn any_size_is_drawn() {
    for (width, height) in [(1, 1), (5, 3), (20, 5), (79, 24), (300, 100)] {
        let mut app = app(addresses);
        picture(&mut app, width, height, "06:53:10");
        press(&mut app, KeyCode::Char('?'));
        picture(&mut app, width, height, "06:53:10");
    }
}

#[test]
fn the_first_sample_has_no_rates() {
    let mut app = App::new(Duration::from_secs(1));
    assert!(picture_of(&mut app).contains("asking the router …"));
    app.take(addresses(0), 0.0);
    assert!(picture_of(&mut app).contains("in -/s  out -/s"));
    assert_eq!(app.rows[0].cells[2], super::super::table::Cell::None);
}

#[test]
fn trouble_is_told_until_the_next_sample() {
    let mut app = app(addresses);
    app.trouble = Some("Connection refused (os error 111)".to_owned());
    assert_eq!(picture_of(&mut app).lines().nth(1), Some("Connection refused (os error 111)"));
    app.take(addresses(3), 1.0);
    assert!(picture_of(&mut app).contains("in 21.5k/s"));
}

#[test]
fn keys_change_the_order() {
    let mut app = app(addresses);
    for _ in 0..4 {
        press(&mut app, KeyCode::Right);
    }
    // By depth.
    assert_eq!(first_column(&app)[..3], ["telemetry/rack-17", "orders.returns", "orders.europe.incoming.priority"]);
    press(&mut app, KeyCode::Char('r'));
    assert_eq!(first_column(&app)[0], "queue :1");
    for _ in 0..20 {
        press(&mut app, KeyCode::Left);
    }
    assert_eq!(first_column(&app)[0], "orders.europe.incoming.priority");
    assert!(picture_of(&mut app).contains("ADDRESS▲"));
    for _ in 0..99 {
        press(&mut app, KeyCode::Right);
    }
    picture_of(&mut app);
}

#[test]
fn a_filter_is_typed() {
    let mut app = app(addresses);
    for letter in "/ORDERS ret".chars() {
        press(&mut app, KeyCode::Char(letter));
    }
    assert_eq!(first_column(&app), ["orders.returns"]);
    let shown = picture_of(&mut app);
    assert!(shown.contains("/ORDERS ret▏") && shown.contains("type what rows should have"), "{shown}");
    press(&mut app, KeyCode::Enter);
    assert!(picture_of(&mut app).contains("1 of 5 with ORDERS ret"));
    // It stays with the next sample.
    app.take(addresses(3), 1.0);
    assert_eq!(app.rows.len(), 1);
    press(&mut app, KeyCode::Esc);
    assert_eq!(app.rows.len(), 5);
    for letter in "/nobody".chars() {
        press(&mut app, KeyCode::Char(letter));
    }
    assert!(picture_of(&mut app).contains("nothing passes the filter"));
}

#[test]
fn views_are_switched_and_led_to() {
    let mut app = app(addresses);
    assert_eq!(press(&mut app, KeyCode::Tab), Action::Ask);
    assert_eq!((app.view, app.rows.len()), (View::Connections, 0));
    // What was under way for the view before is too late.
    app.take(addresses(3), 1.0);
    assert!(picture_of(&mut app).contains("asking the router …"));
    app.take(connections(3), 1.0);
    app.take(connections(4), 1.0);
    press(&mut app, KeyCode::Down);
    assert_eq!(press(&mut app, KeyCode::Enter), Action::Ask);
    assert_eq!((app.view, app.shape().filter.as_str()), (View::Links, "conn=3"));
    app.take(links(5), 1.0);
    assert_eq!(first_column(&app), ["9", "11"]);
    assert_eq!(press(&mut app, KeyCode::Enter), Action::None);
    assert_eq!(press(&mut app, KeyCode::Char('3')), Action::None);
    assert_eq!(press(&mut app, KeyCode::BackTab), Action::Ask);
    assert_eq!(app.view, View::Connections);
}

#[test]
fn the_selected_row_stays_in_sight() {
    let mut app = app(addresses);
    press(&mut app, KeyCode::End);
    assert_eq!(app.shape().selected, 4);
    assert!(picture(&mut app, 80, 7, "").contains("temp.T0jpk"));
    press(&mut app, KeyCode::Home);
    assert!(picture(&mut app, 80, 7, "").contains("telemetry"));
}

#[test]
fn it_pauses_slows_down_and_quits() {
    let mut app = app(addresses);
    assert_eq!(press(&mut app, KeyCode::Char('p')), Action::Ask);
    assert!(app.is_paused && picture_of(&mut app).contains("paused  06:53:10"));
    press(&mut app, KeyCode::Char(' '));
    assert_eq!(press(&mut app, KeyCode::Char('-')), Action::Ask);
    assert_eq!(app.pace, Duration::from_secs(2));
    for _ in 0..9 {
        press(&mut app, KeyCode::Char('+'));
    }
    assert_eq!(app.pace, Duration::from_millis(250));
    assert_eq!(press(&mut app, KeyCode::Char('q')), Action::Quit);
    assert_eq!(app.key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)), Action::Quit);
    assert_eq!(press(&mut app, KeyCode::Char('?')), Action::None);
    let shown = picture_of(&mut app);
    assert!(shown.contains("keys and columns") && shown.contains("a threshold of the address is exceeded"));
    // Any key closes it, and does nothing else.
    assert_eq!(press(&mut app, KeyCode::Char('q')), Action::None);
    assert!(!picture_of(&mut app).contains("keys and columns"));
}
