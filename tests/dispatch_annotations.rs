//! The routers' annotations through one shard and several: taken off, added, rejected, wherever a message's pieces part.

mod support;

use ringway::engine::Settings;
use ringway::wire::annotations::{INGRESS, TO, TRACE};
use ringway::wire::descriptor::MESSAGE_ANNOTATIONS;
use ringway::wire::encode;
use ringway::wire::performative::{Attach, Performative, Role, Transfer};
use ringway::wire::state;
use ringway::wire::value::code;
use support::client::{first, source, target, Client};
use support::mesh::{message, owned_by, Mesh};

const HEADER: &[u8] = b"\x00\x53\x70\xc0\x02\x01\x41";

#[derive(Clone, Copy)]
enum Entry {
    /// A client's own, of so many bytes.
    Own(usize),
    Ingress(&'static str),
    Trace(&'static [&'static str]),
    To(&'static str),
}
use Entry::{Ingress, Own, To, Trace};

fn annotations(entries: &[Entry]) -> Vec<u8> {
    let mut out = Vec::new();
    if entries.is_empty() {
        return out;
    }
    encode::descriptor(&mut out, MESSAGE_ANNOTATIONS);
    let map = encode::begin(&mut out);
    for entry in entries {
        match *entry {
            Own(bytes) => {
                encode::symbol(&mut out, "own");
                encode::string(&mut out, &"x".repeat(bytes));
            }
            Ingress(router) => {
                encode::symbol(&mut out, INGRESS);
                encode::string(&mut out, router);
            }
            Trace(routers) => {
                encode::symbol(&mut out, TRACE);
                let list = encode::begin(&mut out);
                routers.iter().for_each(|router| encode::string(&mut out, router));
                encode::finish(&mut out, list, code::LIST8, routers.len() as u32);
            }
            To(address) => {
                encode::symbol(&mut out, TO);
                encode::string(&mut out, address);
            }
        }
    }
    encode::finish(&mut out, map, code::MAP8, 2 * entries.len() as u32);
    out
}

fn annotated(entries: &[Entry], number: u64) -> Vec<u8> {
    [HEADER, &annotations(entries), &message(number)].concat()
}

/// A body of several frames.
fn long(entries: &[Entry]) -> Vec<u8> {
    let mut bytes = [HEADER, &annotations(entries), b"\x00\x53\x75\xb0\x00\x00\x80\x00"].concat();
    bytes.extend((0..0x8000u32).map(|number| number as u8));
    bytes
}

fn strip(incoming: bool, outgoing: bool) -> Settings {
    Settings { strip_incoming: incoming, strip_outgoing: outgoing, max_frame_size: 4096, ..Settings::default() }
}

/// The message that transfers brought.
fn received(client: &mut Client) -> Vec<u8> {
    let frames = client.frames();
    let pieces = frames.iter().filter(|frame| matches!(frame.performative(), Performative::Transfer(_)));
    pieces.flat_map(|frame| frame.payload().to_vec()).collect()
}

/// The states of a sender's deliveries.
fn states(client: &mut Client) -> Vec<Vec<u8>> {
    let frames = client.frames();
    let states = frames.iter().filter_map(|frame| match frame.performative() {
        Performative::Disposition(said) => Some(said.state.unwrap_or_default().to_vec()),
        _ => None,
    });
    states.collect()
}

struct Route {
    mesh: Mesh,
    producer: usize,
    consumer: usize,
    sent: u32,
}

impl Route {
    /// Of several shards each has something: the sender, the address, the consumer.
    fn new(shards: u16, from: Settings, to: Settings) -> Route {
        let mut mesh = Mesh::new(shards).stay();
        let address = owned_by(usize::from(shards / 2), shards, "queue");
        // Both listeners are known before anybody comes.
        mesh.listen(to.clone());
        mesh.listen(from);
        let producer = mesh.connect(0);
        mesh.listen(to);
        let consumer = mesh.connect(usize::from(shards - 1));
        mesh.client(consumer).attach_receiver(0, 0, "r", &address);
        mesh.client(consumer).credit(0, 0, 0, 1000);
        mesh.client(producer).attach_sender(0, 0, "s", &address);
        mesh.pump();
        mesh.client(producer).frames();
        mesh.client(consumer).frames();
        Route { mesh, producer, consumer, sent: 0 }
    }

    /// Sends a message in pieces of so many bytes, each of which is acted on before the next comes.
    fn send(&mut self, bytes: &[u8], piece: usize) {
        let pieces: Vec<&[u8]> = bytes.chunks(piece).collect();
        for (number, part) in pieces.iter().enumerate() {
            let tag = self.sent.to_be_bytes();
            let transfer = Transfer { more: number + 1 < pieces.len(), ..first(0, self.sent, &tag) };
            self.mesh.client(self.producer).transfer(0, transfer, part);
            if pieces.len() < 200 || number % 64 == 0 {
                self.mesh.pump();
            }
        }
        self.sent += 1;
        self.mesh.pump();
    }

    /// What the consumer gets of that.
    fn pass(&mut self, bytes: &[u8], piece: usize) -> Vec<u8> {
        self.send(bytes, piece);
        let got = received(self.mesh.client(self.consumer));
        self.mesh.client(self.consumer).accept(0, self.sent - 1, None);
        self.mesh.pump();
        assert_eq!(states(self.mesh.client(self.producer)), [state::ACCEPTED]);
        got
    }

    fn is_rejected(&mut self, bytes: &[u8], piece: usize) {
        self.send(bytes, piece);
        let states = states(self.mesh.client(self.producer));
        let [state] = &states[..] else { panic!("one outcome, not {states:?}") };
        let invalid = b"amqp:invalid-field";
        assert!(state[..3] == [0, 0x53, 0x25] && state.windows(invalid.len()).any(|window| window == invalid));
        assert!(received(self.mesh.client(self.consumer)).is_empty());
    }
}

/// Messages pass as expected, in pieces of any size, through one shard and several.
fn all_pass(strips: bool, cases: &[(&[Entry], &[Entry])]) {
    for shards in [1, 3] {
        let mut route = Route::new(shards, strip(strips, strips), strip(strips, strips));
        for (sent, expected) in cases {
            for piece in [usize::MAX, 1, 7, 64] {
                let got = route.pass(&annotated(sent, 9), piece);
                assert_eq!(got, annotated(expected, 9), "{shards} shards, pieces of {piece}");
            }
            assert_eq!(route.pass(&long(sent), 1000), long(expected));
        }
        route.mesh.end();
    }
}

/// All that a router said is taken off, what a client said stays, and messages without annotations pass as they are.
#[test]
fn by_default_no_routers_annotations_pass() {
    all_pass(
        true,
        &[
            (&[], &[]),
            (&[Own(5)], &[Own(5)]),
            (&[Ingress("0/A"), Trace(&["0/A"])], &[]),
            (&[Own(300), Ingress("0/A"), Trace(&["0/A", "0/B"]), To("there")], &[Own(300)]),
            // Not a thing that a router says, but it's ignored as well.
            (&[Own(1), Trace(&[])], &[Own(1)]),
        ],
    );
}

#[test]
fn a_router_says_that_a_message_came_through_it() {
    all_pass(
        false,
        &[
            (&[], &[Ingress("0/router"), Trace(&["0/router"])]),
            (&[Own(5)], &[Own(5), Ingress("0/router"), Trace(&["0/router"])]),
            (&[Ingress("0/A"), Trace(&["0/A"]), Own(400)], &[Own(400), Ingress("0/A"), Trace(&["0/A", "0/router"])]),
            (&[To("there")], &[To("there"), Ingress("0/router"), Trace(&["0/router"])]),
        ],
    );
}

#[test]
fn each_side_has_its_own_way() {
    let sent: &[Entry] = &[Own(3), Ingress("0/A"), Trace(&["0/A"])];
    for shards in [1, 3] {
        let mut in_only = Route::new(shards, strip(true, false), strip(true, false));
        let expected = annotated(&[Own(3), Ingress("0/router"), Trace(&["0/router"])], 4);
        assert_eq!(in_only.pass(&annotated(sent, 4), usize::MAX), expected);
        in_only.mesh.end();
        let mut out_only = Route::new(shards, strip(false, true), strip(false, true));
        assert_eq!(out_only.pass(&annotated(sent, 4), usize::MAX), annotated(&[Own(3)], 4));
        assert_eq!(out_only.pass(&long(sent), 1000), long(&[Own(3)]));
        out_only.mesh.end();
        // From a listener that hears them to one that doesn't tell them.
        let mut mixed = Route::new(shards, strip(false, false), strip(true, true));
        assert_eq!(mixed.pass(&annotated(sent, 4), usize::MAX), annotated(&[Own(3)], 4));
        mixed.mesh.end();
    }
}

#[test]
fn annotations_that_are_wrong_are_rejected_and_the_link_goes_on() {
    let mut wrong = annotated(&[Own(3), Ingress("0/A")], 1);
    // The ingress as a binary; a map that ends early.
    let at = wrong.windows(5).position(|window| window == b"\xa1\x030/A").unwrap();
    wrong[at] = 0xa0;
    let broken = [HEADER, b"\x00\x53\x72\xc1\x04\x02\xa3\x05a", &message(1)].concat();
    for shards in [1, 3] {
        for piece in [usize::MAX, 10] {
            let mut route = Route::new(shards, strip(false, false), strip(false, false));
            route.is_rejected(&wrong, piece);
            route.is_rejected(&broken, piece);
            let expected = annotated(&[Ingress("0/router"), Trace(&["0/router"])], 2);
            route.sent = 2;
            route.send(&annotated(&[], 2), piece);
            assert_eq!(received(route.mesh.client(route.consumer)), expected);
            route.mesh.end();
        }
        // Where they are ignored only the map itself can be wrong.
        let mut route = Route::new(shards, strip(true, true), strip(true, true));
        route.is_rejected(&broken, usize::MAX);
        route.send(&wrong, usize::MAX);
        assert_eq!(received(route.mesh.client(route.consumer)), annotated(&[Own(3)], 1));
        route.mesh.end();
    }
}

/// A message that is given up before its annotations were there takes nothing along but its credit.
#[test]
fn what_is_given_up_early_leaves_nothing() {
    for shards in [1, 3] {
        let mut route = Route::new(shards, strip(true, true), strip(true, true));
        for _ in 0..600 {
            let tag = route.sent.to_be_bytes();
            let begin = Transfer { more: true, ..first(0, route.sent, &tag) };
            let abort = Transfer { aborted: true, ..first(0, route.sent, &tag) };
            route.mesh.client(route.producer).transfer(0, begin, HEADER);
            route.mesh.pump();
            route.mesh.client(route.producer).transfer(0, abort, &[]);
            route.mesh.pump();
            route.sent += 1;
        }
        route.send(&annotated(&[], 3), usize::MAX);
        assert_eq!(received(route.mesh.client(route.consumer)), annotated(&[], 3));
        route.mesh.end();
    }
}

/// An anonymous sender's message goes where another router said, if that is heard.
#[test]
fn an_address_in_the_annotations_comes_before_the_properties() {
    for (hears, shards) in [(true, 1), (true, 3), (false, 1)] {
        let mut mesh = Mesh::new(shards).stay();
        mesh.listen(strip(!hears, true));
        let (producer, consumer) = (mesh.connect(0), mesh.connect(usize::from(shards - 1)));
        mesh.client(consumer).attach_receiver(0, 0, "r", "there");
        mesh.client(consumer).attach_receiver(0, 1, "q", "here");
        mesh.client(consumer).credit(0, 0, 0, 10);
        mesh.client(consumer).credit(0, 1, 0, 10);
        let (source, target) = (source(None), target(None));
        let attach = Attach { name: "anonymous", handle: 0, role: Role::Sender, ..Attach::default() };
        let attach = Attach { source: Some(&source), target: Some(&target), initial_delivery_count: Some(0), ..attach };
        mesh.client(producer).attach(0, attach);
        mesh.pump();
        mesh.client(consumer).frames();
        let body = support::mesh::message_to("here", 1);
        let bytes = [HEADER, &annotations(&[To("there")]), &body].concat();
        mesh.client(producer).send(0, 0, 0, &bytes);
        mesh.pump();
        let handles: Vec<u32> = mesh
            .client(consumer)
            .frames()
            .iter()
            .filter_map(|frame| match frame.performative() {
                Performative::Transfer(transfer) => Some(transfer.handle),
                _ => None,
            })
            .collect();
        assert_eq!(handles, [u32::from(!hears)]);
        mesh.end();
    }
}
