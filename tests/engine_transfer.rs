//! Transfers: ids, tags, continuation, splitting, windows, streams, aborts, reads of any size.

mod support;

use ringway::engine::{Event, LinkAnswer, Sent, Settings};
use ringway::limits::{COPY_BYTES_MAX, OUTPUT_MARK_BYTES};
use ringway::payload::{Payload, Pool, Range};
use ringway::wire::performative::{Begin, Flow, Open, Performative, Transfer};
use support::client::first;
use support::pair::{delivery_of, names, transfers, Pair};

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n * 31 + n / 251) as u8).collect()
}

#[test]
fn golden_transfer_and_disposition() {
    let (mut pair, link) = Pair::with_receiver(Settings::default(), 10);
    let delivery = pair.next_delivery();
    pair.engine.send(link, delivery, 0, false, true, Payload::copied(b"\x00\x53\x75\xa0\x01x"));
    let out = pair.engine.poll_transmit().unwrap().to_vec();
    // transfer [handle 0, delivery-id 0, tag 00000000, format 0], then the data section
    let transfer = b"\x00\x00\x00\x1d\x02\x00\x00\x00\x00\x53\x14\xc0\x0a\x04\x43\x43\xa0\x04\x00\x00\x00\x00\x43\x00\x53\x75\xa0\x01x";
    assert_eq!(out, transfer);

    let (mut pair, _) = Pair::with_sender(Settings::default(), 10);
    for id in 0..3 {
        pair.client.send(0, 0, id, b"x");
    }
    let bytes = pair.client.take_output();
    pair.engine.handle_input(Range::copied(&bytes), pair.now);
    pair.drain_events();
    for event in pair.events() {
        let Event::Transfer(transfer) = event else { panic!() };
        pair.accept_incoming(transfer.wire);
    }
    // disposition [receiver, 0, 2, settled, accepted]
    let out = pair.engine.poll_transmit().unwrap().to_vec();
    let disposition = b"\x00\x00\x00\x17\x02\x00\x00\x00\x00\x53\x15\xc0\x0a\x05\x41\x43\x52\x02\x41\x00\x53\x24\x45";
    assert_eq!(out, disposition);
}

#[test]
fn case_32_tags_of_0_to_32_bytes_and_no_other() {
    let (mut pair, _) = Pair::with_sender(Settings::default(), 40);
    for len in 0..=32u32 {
        pair.client.transfer(0, first(0, len, &vec![9; len as usize]), b"x");
    }
    pair.pump();
    assert_eq!(pair.events().len(), 33);
    let long = [9; 33];
    let bad = [
        first(0, 40, &long),
        Transfer { delivery_tag: None, ..first(0, 40, b"") },
        Transfer { delivery_id: None, ..first(0, 40, b"t") },
    ];
    for transfer in bad {
        let (mut pair, _) = Pair::with_sender(Settings::default(), 40);
        pair.client.transfer(0, transfer, b"x");
        pair.pump();
        assert_eq!(pair.client.briefs(), ["detach amqp:invalid-field"]);
        assert_eq!(names(&pair.events), ["link-ended"]);
    }
}

#[test]
fn case_33_continuation_frames_omit_repeat_or_contradict() {
    let begin = Transfer { more: true, ..first(0, 0, b"tag") };
    let good = [
        Transfer::default(),
        first(0, 0, b"tag"),
        Transfer { delivery_id: Some(0), ..Transfer::default() },
        Transfer { delivery_tag: Some(b"tag"), ..Transfer::default() },
        Transfer { message_format: Some(0), ..Transfer::default() },
    ];
    for last in good {
        let (mut pair, _) = Pair::with_sender(Settings::default(), 10);
        pair.client.transfer(0, begin, b"ab");
        pair.client.transfer(0, Transfer { more: true, ..last }, b"cd");
        pair.client.transfer(0, last, b"ef");
        pair.pump();
        assert_eq!(names(&pair.events), ["transfer", "transfer-more", "transfer-more"]);
        assert_eq!(pair.received_payload(), b"abcdef");
        let Event::TransferMore { wire, token, more: false, settled: false, .. } = pair.events[2] else { panic!() };
        assert_eq!(token, Some(delivery_of(wire)));
        assert_eq!(pair.engine.unsettled_count(), (1, 0));
    }
    let bad =
        [first(0, 1, b"tag"), first(0, 0, b"tAg"), first(0, 0, b"ta"), Transfer { message_format: Some(1), ..begin }];
    for last in bad {
        let (mut pair, _) = Pair::with_sender(Settings::default(), 10);
        pair.client.transfer(0, begin, b"ab");
        pair.client.transfer(0, last, b"ef");
        pair.pump();
        assert_eq!(names(&pair.events), ["transfer", "link-ended"]);
        assert_eq!(pair.client.briefs(), ["detach amqp:invalid-field"]);
        assert_eq!(pair.engine.unsettled_count(), (0, 0));
    }
}

#[test]
fn payload_is_counted_however_its_frames_come() {
    // A state as long as this isn't all in what is made contiguous of a frame that straddles reads.
    let state = [&b"\x00\x53\x23\xd0\x00\x00\x02\x61\x00\x00\x00\x01\xb0\x00\x00\x02\x58"[..], &[7; 600]].concat();
    let payload = bytes(15_000);
    for first_read in [100, 700, 3_000] {
        for read_bytes in [100, 1_500, 64 * 1024] {
            let (mut pair, _) = Pair::with_sender(Settings::default(), 10);
            let memory = pair.engine.settings().memory.clone();
            let before = memory.used();
            for number in 0..50 {
                let transfer = if number == 0 { first(0, 0, b"tag") } else { Transfer::default() };
                pair.client.transfer(0, Transfer { more: true, state: Some(&state), ..transfer }, &payload);
                let frame = pair.client.take_output();
                let (head, rest) = frame.split_at(first_read);
                pair.read(head);
                rest.chunks(read_bytes).for_each(|read| pair.read(read));
            }
            assert_eq!(pair.received_payload(), payload.repeat(50));
            let counted = memory.used() - before;
            assert!(counted >= 50 * payload.len(), "{counted} bytes in reads of {first_read} and {read_bytes}");
            pair.events.clear();
        }
    }
}

#[test]
fn deliveries_of_two_links_interleave() {
    let (mut pair, _) = Pair::with_sender(Settings::default(), 10);
    pair.add_sender(1, "second", 10);
    pair.events.clear();
    pair.client.transfer(0, Transfer { more: true, ..first(0, 0, b"a") }, b"a1");
    pair.client.transfer(0, Transfer { more: true, ..first(1, 1, b"b") }, b"b1");
    pair.client.transfer(0, Transfer::default(), b"a2");
    pair.client.transfer(0, Transfer { handle: 1, ..Transfer::default() }, b"b2");
    pair.pump();
    assert_eq!(names(&pair.events), ["transfer", "transfer", "transfer-more", "transfer-more"]);
    assert_eq!(pair.received_payload(), b"a1b1a2b2");
}

#[test]
fn a_delivery_id_in_use_is_an_error() {
    let (mut pair, _) = Pair::with_sender(Settings::default(), 10);
    pair.client.send(0, 0, 5, b"x");
    pair.client.send(0, 0, 5, b"y");
    pair.pump();
    assert_eq!(pair.client.briefs(), ["end amqp:invalid-field"]);
}

#[test]
fn credit_is_exact() {
    let (mut pair, link) = Pair::with_sender(Settings::default(), 3);
    for id in 0..3 {
        pair.client.send(0, 0, id, b"x");
    }
    pair.pump();
    assert_eq!(names(&pair.events()), ["transfer"; 3]);
    pair.engine.grant(link, 1, false);
    pair.pump();
    pair.client.frames();
    pair.client.send(0, 0, 3, b"x");
    pair.client.send(0, 0, 4, b"x");
    pair.pump();
    assert_eq!(names(&pair.events), ["transfer", "link-ended"]);
    assert_eq!(pair.client.briefs(), ["detach amqp:link:transfer-limit-exceeded"]);
}

#[test]
fn an_aborted_delivery_is_told_and_forgotten() {
    let (mut pair, link) = Pair::with_sender(Settings::default(), 2);
    pair.client.transfer(0, Transfer { more: true, ..first(0, 0, b"t") }, b"half");
    pair.client.transfer(0, Transfer { aborted: true, ..Transfer::default() }, b"");
    pair.pump();
    assert_eq!(names(&pair.events), ["transfer", "transfer-aborted"]);
    assert_eq!(pair.engine.unsettled_count(), (0, 0));
    // In its first frame: nobody hears of it, its credit comes back.
    pair.client.transfer(0, Transfer { aborted: true, ..first(0, 1, b"t") }, b"");
    pair.pump();
    assert_eq!(pair.events.len(), 2);
    let frame = pair.client.frames().pop().unwrap();
    let Performative::Flow(flow) = frame.performative() else { panic!() };
    assert_eq!((flow.delivery_count, flow.link_credit), (Some(2), Some(1)));
    // The link goes on.
    pair.engine.grant(link, 1, false);
    pair.client.send(0, 0, 2, b"x");
    pair.pump();
    assert_eq!(names(&pair.events[2..]), ["transfer"]);
}

#[test]
fn what_was_settled_while_it_arrived_is_heard_of_to_its_end() {
    let (mut pair, _) = Pair::with_sender(Settings::default(), 2);
    pair.client.transfer(0, Transfer { more: true, ..first(0, 0, b"t") }, b"half");
    pair.pump();
    let Event::Transfer(transfer) = pair.events.pop().unwrap() else { panic!() };
    pair.engine.dispose_incoming(transfer.wire, Some(ringway::outcome::State::RELEASED), true);
    pair.client.transfer(0, Transfer { more: true, ..Transfer::default() }, b"more");
    pair.client.transfer(0, Transfer::default(), b"last");
    pair.client.send(0, 0, 1, b"next");
    pair.pump();
    assert_eq!(names(&pair.events), ["transfer-more", "transfer-more", "transfer"]);
    assert!(matches!(pair.events[1], Event::TransferMore { more: false, .. }));
    assert_eq!(pair.client.briefs(), ["disposition"]);
    assert_eq!(pair.engine.unsettled_count(), (1, 0));
}

#[test]
fn presettled_deliveries_are_not_remembered() {
    let (mut pair, _) = Pair::with_sender(Settings::default(), 10);
    pair.client.transfer(0, Transfer { settled: Some(true), ..first(0, 0, b"t") }, b"x");
    pair.client.transfer(0, Transfer { settled: Some(true), more: true, ..first(0, 1, b"t") }, b"y");
    pair.client.transfer(0, Transfer::default(), b"z");
    pair.pump();
    assert!(matches!(&pair.events[0], Event::Transfer(transfer) if transfer.settled));
    assert!(matches!(&pair.events[2], Event::TransferMore { settled: true, token: Some(_), .. }));
    assert_eq!(pair.engine.unsettled_count(), (0, 0));
}

#[test]
fn case_36_payloads_pass_unmodified() {
    for payload in [
        &b""[..],
        b"\x00\x53\x75\xa0\x00",
        b"\x00\x53\x77\x40",
        b"\x00\x53\x73\xd0\x00\x00\x00\x05\x00\x00\x00\x01\x40",
    ] {
        let (mut pair, _) = Pair::with_sender(Settings::default(), 10);
        pair.client.send(0, 0, 0, payload);
        pair.pump();
        let Some(Event::Transfer(transfer)) = pair.events.pop() else { panic!() };
        assert_eq!(transfer.payload.to_vec(), payload);
        pair.accept_incoming(transfer.wire);
        pair.pump();
        assert_eq!(pair.client.briefs(), ["disposition"]);

        let (mut pair, link) = Pair::with_receiver(Settings::default(), 10);
        let delivery = pair.next_delivery();
        let sent = pair.engine.send(link, delivery, 0, false, true, transfer.payload);
        assert_eq!(sent, Sent::Whole { room: true });
        pair.pump();
        assert_eq!(pair.client.next().unwrap().payload(), payload);
    }
}

#[test]
fn case_35_splits_at_the_peers_frame_size_and_session_window() {
    let mut pair = Pair::new();
    pair.client.header();
    pair.client.open(Open { container_id: "c", max_frame_size: 512, ..Open::default() });
    pair.client.begin_with(0, Begin { incoming_window: 3, ..Begin::default() });
    pair.client.attach_receiver(0, 0, "r", "a");
    let flow = Flow { incoming_window: 3, ..support::client::wide_open(0, 100) };
    pair.client.flow(0, Flow { handle: Some(0), ..flow });
    pair.pump();
    let link = pair.attached();
    pair.client.frames();
    pair.events.clear();
    let (mut frames_in, mut got, mut sent_bytes) = (0u32, Vec::new(), 0);
    let message = bytes(5_000);
    let window = |frames_in: u32| Flow {
        incoming_window: 3,
        next_incoming_id: Some(frames_in),
        echo: true,
        delivery_count: None,
        link_credit: None,
        ..support::client::wide_open(0, 0)
    };
    for message_number in 0..3u32 {
        pair.client.flow(0, window(frames_in));
        pair.pump();
        pair.client.frames();
        let delivery = pair.next_delivery();
        assert_eq!(pair.engine.send(link, delivery, 0, false, true, Payload::copied(&message)), Sent::Partly);
        let mut complete = false;
        pair.pump();
        while !complete {
            let frames = pair.client.frames();
            let sent = transfers(&frames);
            assert!(sent.len() <= 3, "{} frames", sent.len());
            for frame in &sent {
                let Performative::Transfer(transfer) = frame.performative() else { panic!() };
                assert_eq!(transfer.delivery_id, Some(message_number));
                assert!(frame.size == 512 || (frame.size < 512 && !transfer.more), "{} bytes", frame.size);
                got.extend_from_slice(frame.payload());
            }
            frames_in += sent.len() as u32;
            for event in pair.events() {
                let Event::PayloadSent { delivery: d, bytes, complete: c, .. } = event else { panic!("{event:?}") };
                assert_eq!(d, delivery);
                sent_bytes += bytes;
                complete |= c;
            }
            // The ids that were used are the frames that were sent.
            for frame in frames.iter().filter(|frame| frame.brief() == "flow") {
                let Performative::Flow(flow) = frame.performative() else { panic!() };
                assert!(flow.next_outgoing_id <= frames_in && flow.next_outgoing_id + 3 >= frames_in);
            }
            pair.client.flow(0, window(frames_in));
            pair.pump();
        }
        assert_eq!(got, message.repeat(message_number as usize + 1));
        assert_eq!(sent_bytes, got.len());
        pair.client.frames();
    }
}

#[test]
fn a_message_that_just_fits_is_one_frame() {
    for len in 400..520 {
        let mut pair = Pair::new();
        pair.client.header();
        pair.client.open(Open { container_id: "c", max_frame_size: 512, ..Open::default() });
        pair.client.begin(0);
        pair.client.attach_receiver(0, 0, "r", "a");
        pair.client.credit(0, 0, 0, 10);
        pair.pump();
        let link = pair.attached();
        pair.client.frames();
        let delivery = pair.next_delivery();
        pair.engine.send(link, delivery, 0, false, true, Payload::copied(&bytes(len)));
        pair.pump();
        let frames = pair.client.frames();
        let head = frames[0].size - frames[0].payload().len();
        assert_eq!(frames.len(), if len + head <= 512 { 1 } else { 2 }, "{len} bytes behind {head}");
        assert!(frames.iter().all(|frame| frame.size <= 512));
    }
}

#[test]
fn a_large_payload_leaves_as_the_range_that_came() {
    let (mut pair, link) = Pair::with_receiver(Settings::default(), 10);
    let (small, large) = (bytes(COPY_BYTES_MAX - 1), bytes(COPY_BYTES_MAX));
    for payload in [&small, &large] {
        let delivery = pair.next_delivery();
        pair.engine.send(link, delivery, 0, true, true, Payload::copied(payload));
    }
    let transmit = pair.engine.poll_transmit().unwrap();
    assert_eq!(transmit.ranges().len(), 1);
    assert_eq!(transmit.ranges()[0].1.len(), large.len());
    pair.client.feed(&transmit.to_vec());
    let frames = pair.client.frames();
    assert_eq!((frames[0].payload(), frames[1].payload()), (&small[..], &large[..]));
}

#[test]
fn a_stream_goes_out_as_it_comes() {
    let (mut pair, link) = Pair::with_receiver(Settings::default(), 10);
    let delivery = pair.next_delivery();
    assert_eq!(pair.engine.send(link, delivery, 7, false, false, Payload::copied(b"one")), Sent::Partly);
    pair.pump();
    assert!(matches!(pair.events[..], [Event::PayloadSent { bytes: 3, complete: false, .. }]));
    pair.engine.send_more(link, delivery, false, Payload::copied(b"two!"));
    pair.engine.send_more(link, delivery, true, Payload::copied(b"three"));
    pair.pump();
    let frames = pair.client.frames();
    let sent: Vec<_> = frames
        .iter()
        .map(|frame| match frame.performative() {
            Performative::Transfer(transfer) => (transfer.more, transfer.delivery_tag.is_some(), frame.payload()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(sent, [(true, true, &b"one"[..]), (true, false, b"two!"), (false, false, b"three")]);
    assert!(matches!(pair.events[1], Event::PayloadSent { bytes: 9, complete: true, .. }));
    // The link is free again.
    let delivery = pair.next_delivery();
    let sent = pair.engine.send(link, delivery, 0, false, true, Payload::copied(b"next"));
    assert_eq!(sent, Sent::Whole { room: true });
}

#[test]
fn a_stream_is_given_up() {
    let (mut pair, link) = Pair::with_receiver(Settings::default(), 10);
    let delivery = pair.next_delivery();
    pair.engine.send(link, delivery, 0, false, false, Payload::copied(b"one"));
    assert_eq!(pair.engine.send_abort(link, delivery), Sent::Whole { room: true });
    pair.pump();
    let frames = pair.client.frames();
    assert!(matches!(frames[1].performative(), Performative::Transfer(Transfer { aborted: true, more: false, .. })));
    assert!(frames[1].payload().is_empty());
    let delivery = pair.next_delivery();
    let sent = pair.engine.send(link, delivery, 0, false, true, Payload::copied(b"next"));
    assert_eq!(sent, Sent::Whole { room: true });
}

#[test]
fn a_held_delivery_that_never_began_is_given_up_without_a_word() {
    let (mut pair, link) = Pair::with_receiver(Settings::default(), 0);
    let delivery = pair.next_delivery();
    assert_eq!(pair.engine.send(link, delivery, 0, false, true, Payload::copied(b"one")), Sent::Partly);
    assert_eq!(pair.engine.send_abort(link, delivery), Sent::Whole { room: true });
    pair.pump();
    pair.client.credit(0, 0, 0, 5);
    pair.pump();
    assert!(pair.client.frames().is_empty());
    assert!(matches!(pair.events[..], [Event::Credit { delivery_count: 0, limit: 5, .. }]));
}

/// What went out since an event of its credit was due has used some of that when it is told.
#[test]
fn credit_is_told_as_it_is_by_then() {
    let (mut pair, link) = Pair::with_receiver(Settings::default(), 1_000);
    let send = |pair: &mut Pair, payload: &[u8]| {
        let delivery = pair.next_delivery();
        (delivery, pair.engine.send(link, delivery, 0, true, true, Payload::copied(payload)))
    };
    let mut sent = 1;
    while send(&mut pair, &bytes(10_000)).1 == (Sent::Whole { room: true }) {
        sent += 1;
    }
    // It waits for room, and is given up.
    let (held, waits) = send(&mut pair, b"held");
    assert_eq!(waits, Sent::Partly);
    assert_eq!(pair.engine.send_abort(link, held), Sent::Whole { room: false });
    pair.transmit();
    for _ in 0..3 {
        assert_eq!(send(&mut pair, b"next").1, Sent::Whole { room: true });
        sent += 1;
    }
    pair.pump();
    assert_eq!(names(&pair.events), ["credit", "session-writable"]);
    let Event::Credit { delivery_count, limit, .. } = pair.events[0] else { panic!() };
    assert_eq!((delivery_count, limit), (sent, 1_000));
    assert_eq!(transfers(&pair.client.frames()).len(), sent as usize);
}

/// The same of credit that came before its link's attach was answered.
#[test]
fn credit_that_was_pipelined_is_told_as_it_is_by_then() {
    let mut pair = Pair::opened(Settings::default());
    pair.accepts = false;
    pair.client.attach_receiver(0, 0, "receiver", "a");
    pair.client.credit(0, 0, 0, 5);
    pair.pump();
    assert_eq!(names(&pair.events), ["attached"]);
    let (link, token) = (pair.attached(), pair.token());
    pair.engine.accept_link(link, token, LinkAnswer::default());
    let delivery = pair.next_delivery();
    let sent = pair.engine.send(link, delivery, 0, false, true, Payload::copied(b"one"));
    assert_eq!(sent, Sent::Whole { room: true });
    pair.pump();
    assert!(matches!(pair.events[1..], [Event::Credit { delivery_count: 1, limit: 5, .. }]));
    assert_eq!(pair.client.briefs(), ["attach", "transfer"]);
}

#[test]
fn a_delivery_that_crosses_a_reduction_of_credit_is_held() {
    let (mut pair, link) = Pair::with_receiver(Settings::default(), 0);
    let delivery = pair.next_delivery();
    assert_eq!(pair.engine.send(link, delivery, 0, false, true, Payload::copied(b"one")), Sent::Partly);
    pair.pump();
    assert!(pair.client.frames().is_empty());
    pair.client.credit(0, 0, 0, 2);
    pair.pump();
    // Counted as routing counts: it gave one.
    assert!(matches!(pair.events[0], Event::Credit { delivery_count: 1, limit: 2, .. }));
    assert!(matches!(pair.events[1], Event::PayloadSent { bytes: 3, complete: true, .. }));
    assert_eq!(pair.client.briefs(), ["transfer"]);
}

#[test]
fn output_above_its_mark_holds_and_tells_when_there_is_room() {
    let (mut pair, link) = Pair::with_receiver(Settings::default(), 1_000);
    let payload = Payload::copied(&bytes(10_000));
    let mut sent = 0;
    loop {
        let delivery = pair.next_delivery();
        sent += 1;
        match pair.engine.send(link, delivery, 0, true, true, payload.clone()) {
            Sent::Whole { room: true } => {}
            Sent::Whole { room: false } => break,
            Sent::Partly => panic!("there was room"),
        }
    }
    assert!(pair.engine.is_output_above_mark());
    assert!(pair.engine.output_len() < OUTPUT_MARK_BYTES + 20_000);
    let delivery = pair.next_delivery();
    assert_eq!(pair.engine.send(link, delivery, 0, true, true, payload.clone()), Sent::Partly);
    assert!(pair.engine.poll_event().is_none());
    pair.pump();
    assert_eq!(pair.client.frames().len(), sent + 1);
    assert_eq!(names(&pair.events), ["payload-sent", "session-writable"]);
}

#[test]
fn two_links_share_a_narrow_window() {
    let (mut pair, one) = Pair::with_receiver(Settings::default(), 10);
    pair.client.attach_receiver(0, 1, "second", "a");
    pair.client.credit(0, 1, 0, 10);
    let flow = support::client::wide_open(0, 0);
    let window = |n: u32, id: u32| Flow {
        incoming_window: n,
        next_incoming_id: Some(id),
        delivery_count: None,
        link_credit: None,
        ..flow
    };
    pair.client.flow(0, window(0, 0));
    pair.pump();
    let two = pair.attached();
    pair.client.frames();
    pair.events.clear();
    let payload = Payload::copied(&bytes(100_000));
    for link in [one, two] {
        let delivery = pair.next_delivery();
        assert_eq!(pair.engine.send(link, delivery, 0, true, false, payload.clone()), Sent::Partly);
    }
    pair.client.frames();
    let mut handles = Vec::new();
    // The client takes any frame size, so a frame a link; more payload comes as the first leaves.
    for n in 0..4 {
        pair.client.flow(0, window(1, n));
        pair.pump();
        for frame in pair.client.frames() {
            let Performative::Transfer(transfer) = frame.performative() else { panic!("{frame:?}") };
            handles.push(transfer.handle);
            let link = [one, two][transfer.handle as usize];
            let Some(Event::PayloadSent { delivery, .. }) = pair.events.pop() else { panic!() };
            pair.engine.send_more(link, delivery, false, payload.clone());
        }
    }
    assert_eq!(handles, [0, 1, 0, 1]);
}

/// What waits for a peer's window is bound by its bytes, in however many pieces it came.
#[test]
fn streams_in_tiny_pieces_that_wait_to_be_sent_are_joined() {
    let (mut pair, one) = Pair::with_receiver(Settings::default(), 10);
    pair.client.attach_receiver(0, 1, "other", "a");
    pair.client.flow(0, Flow { handle: Some(1), link_credit: Some(10), ..window(0) });
    pair.pump();
    let two = pair.attached();
    pair.client.frames();
    let deliveries = [one, two].map(|link| (link, pair.next_delivery()));
    let pool = Pool::new(8, 0);
    let piece = |byte: usize| {
        let chunk = pool.take();
        // SAFETY: a fresh chunk with place for the byte, and no other range on it.
        let range = unsafe {
            chunk.data().write(byte as u8);
            chunk.range(0, 1)
        };
        Payload::from(range)
    };
    for (link, delivery) in deliveries {
        assert_eq!(pair.engine.send(link, delivery, 0, true, false, piece(0)), Sent::Partly);
    }
    for byte in 1..20_000 {
        for (link, delivery) in deliveries {
            assert_eq!(pair.engine.send_more(link, delivery, byte == 19_999, piece(byte)), Sent::Partly);
        }
    }
    assert!(pool.in_use() < 100, "{} pieces are held", pool.in_use());
    pair.client.flow(0, window(1_000));
    pair.pump();
    let mut got = [Vec::new(), Vec::new()];
    for frame in pair.client.frames() {
        let Performative::Transfer(transfer) = frame.performative() else { panic!("{frame:?}") };
        got[transfer.handle as usize].extend_from_slice(frame.payload());
    }
    let expected: Vec<u8> = (0..20_000).map(|byte| byte as u8).collect();
    assert!(got.iter().all(|got| *got == expected));
}

fn window(frames: u32) -> Flow<'static> {
    Flow { next_incoming_id: Some(0), incoming_window: frames, outgoing_window: 2_048, ..Flow::default() }
}

fn large_deliveries(read_bytes: usize, sizes: &[usize]) {
    let (mut pair, _) = Pair::with_sender(Settings::default(), 100);
    pair.read_bytes = read_bytes;
    let mut expected = Vec::new();
    for (id, &len) in sizes.iter().enumerate() {
        let message = bytes(len);
        let mut parts = message.chunks(16_000).peekable();
        let mut transfer = first(0, id as u32, b"t");
        while let Some(part) = parts.next() {
            transfer.more = parts.peek().is_some();
            pair.client.transfer(0, transfer, part);
            transfer = Transfer::default();
        }
        expected.extend(message);
    }
    pair.pump();
    assert_eq!(pair.received_payload(), expected);
    let last = sizes.len();
    assert!(matches!(pair.events.last(), Some(Event::TransferMore { more: false, .. } | Event::Transfer(_))), "{last}");
    if read_bytes < 20 {
        // Shorter than any frame.
        assert_eq!(pair.chunks_in_use(), 0, "small reads keep no chunk");
    }
    pair.events.clear();
    assert_eq!(pair.chunks_in_use(), 0);
}

#[test]
fn frames_straddle_reads_of_any_size() {
    let sizes = [1, 15_999, 16_000, 16_001, 70_000, 3, 2_047, 2_048, 40_000];
    for read_bytes in [1, 7, 511, 512, 513, 2_047, 2_048, 5_000, 16_383, 65_536] {
        large_deliveries(read_bytes, &sizes);
    }
}

#[test]
fn large_pieces_of_a_straddling_frame_are_not_copied() {
    let (mut pair, _) = Pair::with_sender(Settings::default(), 10);
    pair.read_bytes = 6_000;
    pair.client.send(0, 0, 0, &bytes(16_000));
    pair.pump();
    let Some(Event::Transfer(transfer)) = pair.events.pop() else { panic!() };
    let lengths: Vec<usize> = transfer.payload.ranges().iter().map(Range::len).collect();
    assert_eq!(lengths.len(), 3);
    assert_eq!(pair.chunks_in_use(), 3);
    assert_eq!(transfer.payload.to_vec(), bytes(16_000));
}

#[test]
fn case_34_a_stopped_stream_holds_no_more_than_the_window() {
    // 100 MB to a receiver that doesn't take it: the sender is stopped by the session's window.
    let settings = Settings { session_incoming_bytes: 1 << 20, ..Settings::default() };
    let (mut pair, _) = Pair::with_sender(settings, 10);
    let part = bytes(16_000);
    let mut window = 64u32;
    pair.client.transfer(0, Transfer { more: true, ..first(0, 0, b"t") }, &part);
    window -= 1;
    while window > 0 {
        pair.client.transfer(0, Transfer { more: true, ..Transfer::default() }, &part);
        window -= 1;
    }
    pair.pump();
    // What is left of it is less than two frames.
    for frame in pair.client.frames() {
        assert!(matches!(frame.performative(), Performative::Flow(Flow { incoming_window: 0..=1, .. })));
    }
    let held = pair.received_payload().len();
    assert!(held <= 1 << 20);
    // The receiver is replaced and takes it: the window opens.
    let Event::Transfer(transfer) = &pair.events[0] else { panic!() };
    let session = transfer.wire.session;
    pair.engine.payload_released(session, held / 2);
    pair.pump();
    let frame = pair.client.frames().pop().unwrap();
    let Performative::Flow(flow) = frame.performative() else { panic!() };
    assert!(flow.incoming_window >= 31, "{}", flow.incoming_window);
    pair.engine.payload_released(session, held / 2);
    pair.pump();
}

#[test]
fn thousands_of_messages_while_serials_wrap() {
    let settings = Settings { initial_serial: u32::MAX - 1_000, ..Settings::default() };
    let (mut pair, link) = Pair::with_receiver(settings, 0);
    let (mut next, count) = (u32::MAX - 1_000, 5_000u32);
    let (mut sent, mut settled) = (0u32, 0u32);
    while settled < count {
        pair.client
            .flow(0, Flow { handle: Some(0), next_incoming_id: Some(next), ..support::client::wide_open(next, 100) });
        pair.pump();
        assert!(matches!(pair.events.pop(), Some(Event::Credit { .. })));
        for _ in 0..100 {
            let delivery = ringway::ids::DeliveryId { index: sent, generation: 9 };
            let result = pair.engine.send(link, delivery, 0, false, true, Payload::copied(&sent.to_be_bytes()));
            assert_eq!(result, Sent::Whole { room: true });
            sent += 1;
        }
        let over = ringway::ids::DeliveryId { index: u32::MAX, generation: 9 };
        assert_eq!(pair.engine.send(link, over, 0, false, true, Payload::copied(b"over")), Sent::Partly);
        pair.engine.send_abort(link, over);
        pair.pump();
        let first = next;
        for frame in pair.client.frames() {
            let Performative::Transfer(transfer) = frame.performative() else { continue };
            assert_eq!(transfer.delivery_id, Some(next));
            next = next.wrapping_add(1);
        }
        assert_eq!(next.wrapping_sub(first), 100);
        pair.client.accept(0, first, Some(next.wrapping_sub(1)));
        pair.pump();
        for event in pair.events() {
            let Event::ReceiverDisposition { delivery, settled: true, .. } = event else { panic!("{event:?}") };
            assert_eq!(delivery.index, settled);
            settled += 1;
        }
    }
    assert_eq!(pair.engine.unsettled_count(), (0, 0));
}

#[test]
fn thousands_of_messages_come_in_while_the_peers_serials_wrap() {
    let mut pair = Pair::new();
    pair.client.header_and_open();
    let start = u32::MAX - 700;
    pair.client.begin_with(0, Begin { next_outgoing_id: start, incoming_window: 100, ..Begin::default() });
    let attach =
        ringway::wire::performative::Attach { name: "s", initial_delivery_count: Some(start), ..Default::default() };
    pair.client.attach(0, attach);
    pair.pump();
    let link = pair.attached();
    pair.events.clear();
    pair.client.frames();
    let mut id = start;
    for _ in 0..50 {
        pair.engine.grant(link, 100, false);
        pair.pump();
        let frame = pair.client.frames().pop().unwrap();
        let Performative::Flow(flow) = frame.performative() else { panic!("{frame:?}") };
        assert_eq!((flow.delivery_count, flow.link_credit, flow.next_incoming_id), (Some(id), Some(100), Some(id)));
        let first = id;
        for _ in 0..100 {
            pair.client.send(0, 0, id, b"message");
            id = id.wrapping_add(1);
        }
        pair.pump();
        let events = pair.events();
        assert_eq!(events.len(), 100);
        for event in events {
            let Event::Transfer(transfer) = event else { panic!() };
            pair.engine.payload_released(transfer.wire.session, transfer.payload.len());
            pair.accept_incoming(transfer.wire);
        }
        pair.pump();
        let frame = pair.client.next().unwrap();
        let Performative::Disposition(disposition) = frame.performative() else { panic!("{frame:?}") };
        assert_eq!((disposition.first, disposition.last), (first, Some(id.wrapping_sub(1))));
    }
    assert_eq!(pair.engine.unsettled_count(), (0, 0));
}
