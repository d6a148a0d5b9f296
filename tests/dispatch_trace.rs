//! The frame trace at dispatch: of all connections, or of one of them.

mod support;

use ringway::dispatch::{Dispatch, Report};
use ringway::engine::Settings;
use ringway::ids::{ConnectionId, ShardId};
use ringway::payload::Range;
use ringway::routing::RouterSettings;
use ringway::time::Time;
use std::sync::Arc;
use support::client::Client;

/// Has connection `index` begin a session; gives the numbers of the connections whose frames are reported meanwhile.
fn begin(dispatch: &mut Dispatch, index: u32, client: &mut Client, channel: u16) -> Vec<u64> {
    client.begin(channel);
    let id = ConnectionId { index, generation: 0 };
    dispatch.received(id, Range::copied(&client.take_output()), Time::ZERO);
    let mut touched = Vec::new();
    dispatch.run(Time::ZERO, &mut touched);
    for id in touched {
        if let Some(transmit) = dispatch.poll_transmit(id) {
            dispatch.transmitted(transmit);
        }
    }
    let reports = std::iter::from_fn(|| dispatch.poll_report());
    reports
        .filter_map(|report| match report {
            Report::Trace { connection, line } if line.contains("@begin") => Some(connection),
            _ => None,
        })
        .collect()
}

#[test]
fn one_connection_is_traced_and_the_others_are_not() {
    let mut dispatch = Dispatch::new(RouterSettings::default(), ShardId(0), 1, false, Time::ZERO);
    let settings = Arc::new(Settings::default());
    let mut clients: Vec<Client> = (0..2)
        .map(|index| {
            dispatch.accepted(ConnectionId { index, generation: 0 }, &settings, 250, Time::ZERO);
            let mut client = Client::default();
            client.header_and_open();
            client
        })
        .collect();
    let [first, second] = &mut clients[..] else { panic!("two") };
    assert_eq!(begin(&mut dispatch, 0, first, 0), [0u64; 0]);
    assert!(!dispatch.set_connection_trace(3, true), "there is no such connection");
    assert!(dispatch.set_connection_trace(2, true));
    assert_eq!(begin(&mut dispatch, 0, first, 1), [0u64; 0]);
    assert_eq!(begin(&mut dispatch, 1, second, 0), [2, 2], "the peer's begin and the router's");
    dispatch.set_trace(true);
    assert_eq!(begin(&mut dispatch, 0, first, 2), [1, 1]);
    assert!(dispatch.set_connection_trace(1, false));
    assert_eq!(begin(&mut dispatch, 0, first, 3), [0u64; 0]);
    assert_eq!(begin(&mut dispatch, 1, second, 1), [2, 2]);
    dispatch.set_trace(false);
    assert_eq!(begin(&mut dispatch, 1, second, 2), [0u64; 0]);
}
