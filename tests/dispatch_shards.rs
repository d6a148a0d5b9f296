//! Several shards' dispatch side by side, with lanes that are as quick or as stuck as a test wants: links elsewhere,
//! connections that move, and what crosses.

mod support;

use ringway::dispatch::{Rows, Table};
use ringway::wire::performative::{Attach, Disposition, Flow, Performative, Role, Transfer};
use ringway::wire::terminus::Source;
use std::time::Duration;
use support::client::{first, source, target, wide_open, Client};
use support::mesh::{message, message_to, owned_by, Connection, Mesh};

/// What transfers brought, by handle.
fn received(client: &mut Client) -> Vec<(u32, u64)> {
    let number = |payload: &[u8]| u64::from_be_bytes(payload[payload.len() - 8..].try_into().unwrap());
    let frames = client.frames();
    let transfers = frames.iter().filter_map(|frame| match frame.performative() {
        Performative::Transfer(transfer) => Some((transfer.handle, number(frame.payload()))),
        _ => None,
    });
    transfers.collect()
}

fn granted(client: &mut Client) -> u32 {
    let frames = client.frames();
    let credit = frames.iter().rev().find_map(|frame| match frame.performative() {
        Performative::Flow(Flow { handle: Some(_), link_credit, .. }) => link_credit,
        _ => None,
    });
    credit.unwrap_or(0)
}

/// The address that the router gave to a dynamic source.
fn dynamic_address(client: &mut Client) -> String {
    let frames = client.frames();
    let address = frames.iter().find_map(|frame| match frame.performative() {
        Performative::Attach(Attach { source: Some(source), .. }) => {
            Source::decode(source).unwrap().address.map(str::to_owned)
        }
        _ => None,
    });
    address.expect("a dynamic address")
}

/// Deliveries that were accepted.
fn accepted(client: &mut Client) -> u32 {
    let frames = client.frames();
    let count = frames.iter().map(|frame| match frame.performative() {
        Performative::Disposition(said) if said.role.is_receiver() && said.settled => {
            assert_eq!(said.state, Some(&ringway::wire::state::ACCEPTED[..]));
            said.last.unwrap_or(said.first) - said.first + 1
        }
        _ => 0,
    });
    count.sum()
}

fn attach_anonymous(client: &mut Client, handle: u32) {
    let (source, target) = (source(None), target(None));
    let attach = Attach { name: "anonymous", handle, role: Role::Sender, ..Attach::default() };
    client
        .attach(0, Attach { source: Some(&source), target: Some(&target), initial_delivery_count: Some(0), ..attach });
}

fn attach_dynamic(client: &mut Client, handle: u32) {
    let mut dynamic = Vec::new();
    Source { dynamic: true, ..Source::default() }.encode(&mut dynamic);
    let attach = Attach { name: "dynamic", handle, role: Role::Receiver, ..Attach::default() };
    client.attach(0, Attach { source: Some(&dynamic), target: Some(&target(None)), ..attach });
}

/// Lanes are stuck, and by flows of this connection's receiver its shard has so much for the receiver's that it rests.
fn crowd(mesh: &mut Mesh, noisy: usize) {
    mesh.room = 0;
    for round in 0..200 {
        for credit in 0..1000 {
            mesh.client(noisy).credit(0, 0, 0, 1 + (round + credit) % 50);
        }
        mesh.pump();
        if mesh.client(noisy).has_output() {
            return;
        }
    }
    panic!("it is read for ever");
}

/// Lanes have room again, and all that waited for it comes.
fn relieve(mesh: &mut Mesh) {
    mesh.room = usize::MAX;
    for _ in 0..50 {
        mesh.pump();
    }
}

/// A connection's socket breaks.
fn break_off(mesh: &mut Mesh, index: usize) {
    let Connection { shard, id, .. } = mesh.connections.remove(index);
    mesh.shards[shard].end_of_stream(id, mesh.now);
    mesh.shards[shard].closed(id, mesh.now);
}

/// A connection lives where its address is, whoever accepted it, and then nothing crosses.
#[test]
fn one_address_is_one_shard() {
    let mut mesh = Mesh::new(4);
    let address = owned_by(2, 4, "queue");
    let (producer, consumer) = (mesh.connect(0), mesh.connect(3));
    mesh.client(producer).attach_sender(0, 0, "s", &address);
    mesh.client(consumer).attach_receiver(0, 0, "r", &address);
    mesh.client(consumer).credit(0, 0, 0, 1000);
    mesh.pump();
    assert_eq!([producer, consumer].map(|index| mesh.connections[index].shard), [2, 2]);
    let notes = mesh.notes();
    let (mut sent, mut got) = (0, 0);
    while got < 2000 {
        for _ in 0..8 {
            mesh.client(producer).send(0, 0, sent, &message(u64::from(sent)));
            sent += 1;
        }
        mesh.pump();
        for (_, number) in received(mesh.client(consumer)) {
            assert_eq!(number, got);
            mesh.client(consumer).accept(0, got as u32, None);
            got += 1;
        }
        mesh.client(consumer).credit(0, 0, got as u32, 1000);
        mesh.pump();
    }
    assert_eq!(accepted(mesh.client(producer)), 2000);
    assert_eq!(mesh.notes(), notes);
    mesh.end();
}

/// All that a client says before it has heard anything, and it is moved in the middle: wherever the read ends that brings
/// the attach which decides, it hears what it would on one shard.
#[test]
fn a_client_that_pipelines_everything_moves_at_any_byte() {
    let script = |address: &str| {
        let mut client = Client::default();
        client.header_and_open();
        client.begin(0);
        attach_anonymous(&mut client, 2);
        client.attach_receiver(0, 0, "r", address);
        client.credit(0, 0, 0, 10);
        client.attach_sender(0, 1, "s", address);
        client.flow(0, Flow { echo: true, ..wide_open(0, 0) });
        client.take_output()
    };
    let (address, elsewhere) = (owned_by(1, 3, "queue"), owned_by(2, 3, "queue"));
    let run = |shards: u16, cut: usize| {
        let mut mesh = Mesh::new(shards);
        let index = mesh.accept(0);
        let bytes = script(&address);
        for part in [&bytes[..cut], &bytes[cut..]] {
            mesh.client(index).raw(part);
            mesh.read(64 * 1024);
            for shard in 0..mesh.shards.len() {
                mesh.turn(shard);
            }
            if part.len() == cut && cut % 2 == 0 {
                mesh.move_on();
            }
        }
        mesh.pump();
        // It has credit on its own address, and for others.
        mesh.client(index).send(0, 1, 0, &message(7));
        mesh.client(index).send(0, 2, 1, &message_to(&address, 8));
        mesh.client(index).send(0, 2, 2, &message_to(&elsewhere, 9));
        mesh.pump();
        mesh.client(index).accept(0, 0, Some(1));
        mesh.pump();
        let mut heard: Vec<String> = mesh.client(index).briefs();
        // Flows are told when they are, the rest in order.
        heard.retain(|frame| frame != "flow");
        assert_eq!(mesh.connections[index].shard, usize::from(shards > 1));
        mesh.end();
        heard
    };
    let length = script(&address).len();
    let alone = run(1, length);
    assert!(alone.iter().filter(|frame| *frame == "transfer").count() == 2, "{alone:?}");
    for cut in 0..=length {
        assert_eq!(run(3, cut), alone, "at {cut}");
    }
}

/// One connection, links to addresses of all shards, both ways.
#[test]
fn links_to_sixteen_addresses() {
    for shards in [2, 4] {
        let mut mesh = Mesh::new(shards);
        let (producer, consumer) = (mesh.connect(0), mesh.connect(1));
        let addresses: Vec<String> = (0..16).map(|number| format!("queue.{number}")).collect();
        for (handle, address) in addresses.iter().enumerate() {
            let (handle, name) = (handle as u32, format!("link.{handle}"));
            mesh.client(producer).attach_sender(0, handle, &name, address);
            mesh.client(consumer).attach_receiver(0, handle, &name, address);
            mesh.client(consumer).credit(0, handle, 0, 100);
        }
        mesh.pump();
        mesh.client(producer).frames();
        let (mut delivery_id, mut got) = (0, vec![Vec::new(); 16]);
        for round in 0..50 {
            for handle in 0..16 {
                mesh.client(producer).send(0, handle, delivery_id, &message(round));
                delivery_id += 1;
            }
            mesh.pump();
            for (handle, number) in received(mesh.client(consumer)) {
                got[handle as usize].push(number);
            }
            mesh.client(consumer).accept(0, 0, Some(delivery_id));
            mesh.pump();
        }
        assert_eq!(accepted(mesh.client(producer)), 50 * 16);
        for (handle, numbers) in got.iter().enumerate() {
            assert_eq!(*numbers, (0..50).collect::<Vec<_>>(), "link {handle} of {shards} shards");
        }
        mesh.end();
    }
}

/// An anonymous sender to a thousand addresses; its credit comes back whole.
#[test]
fn an_anonymous_sender_to_a_thousand_addresses() {
    let mut mesh = Mesh::new(4);
    let consumers: Vec<usize> = (0..4).map(|shard| mesh.connect(shard)).collect();
    for number in 0..1000 {
        let consumer = consumers[number % 4];
        let (handle, name) = ((number / 4) as u32, format!("link.{number}"));
        mesh.client(consumer).attach_receiver(0, handle, &name, &format!("queue.{number}"));
        mesh.client(consumer).credit(0, handle, 0, 10);
    }
    mesh.pump();
    consumers.iter().for_each(|consumer| drop(mesh.client(*consumer).frames()));
    let producer = mesh.connect(0);
    attach_anonymous(mesh.client(producer), 0);
    mesh.pump();
    assert_eq!(granted(mesh.client(producer)), 250);
    let (mut sent, mut outcomes, mut got) = (0u64, 0, vec![0; 4]);
    for _ in 0..20 {
        for _ in 0..200 {
            let to = format!("queue.{}", sent % 1000);
            mesh.client(producer).send(0, 0, sent as u32, &message_to(&to, sent));
            sent += 1;
        }
        mesh.pump();
        for (place, consumer) in consumers.iter().enumerate() {
            got[place] += received(mesh.client(*consumer)).len() as u32;
            mesh.client(*consumer).accept(0, 0, Some(got[place]));
        }
        mesh.pump();
        outcomes += accepted(mesh.client(producer));
    }
    assert_eq!((outcomes, got.iter().sum::<u32>()), (4000, 4000));
    // To nobody: each comes back.
    for _ in 0..250 {
        mesh.client(producer).send(0, 0, sent as u32, &message_to(&format!("nobody.{sent}"), sent));
        sent += 1;
    }
    mesh.pump();
    assert_eq!(granted(mesh.client(producer)), 250);
    mesh.end();
}

/// A message that waits on another shard holds its part of an anonymous sender's credit.
#[test]
fn an_anonymous_senders_credit_is_held_by_what_waits_elsewhere() {
    let mut mesh = Mesh::new(2);
    let address = owned_by(1, 2, "queue");
    let (consumer, producer) = (mesh.connect(1), mesh.connect(0));
    mesh.client(consumer).attach_receiver(0, 0, "r", &address);
    attach_anonymous(mesh.client(producer), 0);
    mesh.pump();
    assert_eq!(granted(mesh.client(producer)), 250);
    for number in 0..250 {
        mesh.client(producer).send(0, 0, number, &message_to(&address, u64::from(number)));
    }
    mesh.pump();
    assert_eq!(granted(mesh.client(producer)), 0);
    mesh.client(consumer).credit(0, 0, 0, 100);
    mesh.pump();
    assert_eq!(granted(mesh.client(producer)), 100);
    assert_eq!(received(mesh.client(consumer)).len(), 100);
    mesh.end();
}

/// A settled delivery that its consumer's shard refuses for its size is over at the address's by then, and its id another's.
#[test]
fn what_is_too_large_for_a_consumer_elsewhere_costs_no_other_delivery() {
    let mut mesh = Mesh::new(2).stay();
    let address = owned_by(0, 2, "queue");
    let (consumer, producer) = (mesh.connect(1), mesh.connect(0));
    let (from, to) = (source(Some(&address)), target(None));
    let (source, target) = (Some(&from[..]), Some(&to[..]));
    let attach = Attach { name: "small", role: Role::Receiver, source, target, ..Attach::default() };
    mesh.client(consumer).attach(0, Attach { max_message_size: Some(100), ..attach });
    mesh.client(consumer).credit(0, 0, 0, 10);
    mesh.client(producer).attach_sender(0, 0, "s", &address);
    mesh.pump();
    mesh.client(consumer).frames();
    for number in (0..20).step_by(2) {
        let settled = Transfer { settled: Some(true), ..first(0, number, b"large") };
        mesh.client(producer).transfer(0, settled, &[0x75; 200]);
        mesh.client(producer).send(0, 0, number + 1, &message(u64::from(number)));
        mesh.pump();
    }
    assert_eq!(received(mesh.client(consumer)).len(), 10);
    mesh.client(consumer).accept(0, 0, Some(9));
    mesh.pump();
    assert_eq!(accepted(mesh.client(producer)), 10);
    mesh.end();
}

#[test]
fn multicast_reaches_every_shard_and_has_one_outcome() {
    let mut mesh = Mesh::new(4).stay();
    let consumers: Vec<usize> = (0..4).map(|shard| mesh.connect(shard)).collect();
    for consumer in &consumers {
        mesh.client(*consumer).attach_receiver(0, 0, "r", "multicast/news");
        mesh.client(*consumer).credit(0, 0, 0, 100);
    }
    let producer = mesh.connect(0);
    mesh.client(producer).attach_sender(0, 0, "s", "multicast/news");
    mesh.pump();
    mesh.client(producer).frames();
    for round in 0..5 {
        let numbers = round * 4..round * 4 + 4;
        for number in numbers.clone() {
            mesh.client(producer).send(0, 0, number, &message(u64::from(number)));
        }
        mesh.pump();
        for consumer in &consumers {
            assert_eq!(accepted(mesh.client(producer)), 0);
            let got: Vec<u32> = received(mesh.client(*consumer)).iter().map(|(_, number)| *number as u32).collect();
            assert_eq!(got, numbers.clone().collect::<Vec<_>>());
            mesh.client(*consumer).accept(0, 0, Some(19));
            mesh.pump();
        }
        assert_eq!(accepted(mesh.client(producer)), 4);
    }
    mesh.end();
}

/// A dynamic receiver and an anonymous sender that a connection has when it moves work on.
#[test]
fn links_that_a_connection_has_when_it_moves_live_on() {
    let mut mesh = Mesh::new(2);
    let (address, other) = (owned_by(1, 2, "service"), owned_by(1, 2, "other"));
    let client = mesh.connect(0);
    attach_dynamic(mesh.client(client), 0);
    attach_anonymous(mesh.client(client), 1);
    mesh.client(client).credit(0, 0, 0, 10);
    mesh.pump();
    let reply_to = dynamic_address(mesh.client(client));
    mesh.client(client).attach_sender(0, 2, "s", &address);
    mesh.pump();
    assert_eq!(mesh.connections[client].shard, 1);
    // Who answers sends to the dynamic address from both shards.
    for (count, shard) in [0, 1].into_iter().enumerate() {
        let service = mesh.connect(shard);
        attach_anonymous(mesh.client(service), 0);
        mesh.pump();
        mesh.client(service).send(0, 0, 0, &message_to(&reply_to, count as u64));
        mesh.pump();
        assert_eq!(received(mesh.client(client)), [(0, count as u64)]);
        mesh.client(client).accept(0, count as u32, None);
        mesh.pump();
        assert_eq!(accepted(mesh.client(service)), 1);
    }
    // Its drain is answered, and its own sender reaches both shards.
    mesh.client(client).flow(0, Flow { handle: Some(0), drain: true, ..wide_open(2, 8) });
    mesh.pump();
    mesh.sleep(Duration::from_millis(60));
    let drained = mesh.client(client).frames().iter().any(|frame| match frame.performative() {
        Performative::Flow(flow) => flow.handle == Some(0) && flow.drain && flow.link_credit == Some(0),
        _ => false,
    });
    assert!(drained);
    let consumer = mesh.connect(0);
    mesh.client(consumer).attach_receiver(0, 0, "a", &other);
    mesh.client(consumer).attach_receiver(0, 1, "b", &owned_by(0, 2, "other"));
    for handle in [0, 1] {
        mesh.client(consumer).credit(0, handle, 0, 10);
    }
    mesh.pump();
    mesh.client(consumer).frames();
    mesh.client(client).send(0, 1, 0, &message_to(&other, 1));
    mesh.client(client).send(0, 1, 1, &message_to(&owned_by(0, 2, "other"), 2));
    mesh.pump();
    let mut got = received(mesh.client(consumer));
    got.sort_unstable();
    assert_eq!(got, [(0, 1), (1, 2)]);
    mesh.end();
}

/// A session takes nothing when its connection moves: what it takes again afterwards comes from where its link stayed.
#[test]
fn a_session_that_is_shut_when_its_connection_moves_opens_again() {
    let mut mesh = Mesh::new(2);
    let client = mesh.connect(0);
    attach_dynamic(mesh.client(client), 0);
    mesh.client(client).flow(0, Flow { handle: Some(0), incoming_window: 1, ..wide_open(0, 10) });
    mesh.pump();
    let reply_to = dynamic_address(mesh.client(client));
    let service = mesh.connect(0);
    attach_anonymous(mesh.client(service), 0);
    mesh.pump();
    mesh.client(service).send(0, 0, 0, &message_to(&reply_to, 0));
    mesh.pump();
    assert_eq!(received(mesh.client(client)), [(0, 0)]);
    mesh.client(client).accept(0, 0, None);
    mesh.client(client).attach_sender(0, 1, "s", &owned_by(1, 2, "service"));
    mesh.pump();
    assert_eq!(mesh.connections[client].shard, 1);
    for number in 1..4 {
        mesh.client(service).send(0, 0, number, &message_to(&reply_to, u64::from(number)));
    }
    mesh.pump();
    assert_eq!(received(mesh.client(client)), []);
    mesh.client(client).flow(0, Flow { delivery_count: None, link_credit: None, ..wide_open(0, 0) });
    mesh.pump();
    assert_eq!(received(mesh.client(client)), [(0, 1), (0, 2), (0, 3)]);
    mesh.client(client).accept(0, 1, Some(3));
    mesh.pump();
    assert_eq!(accepted(mesh.client(service)), 4);
    mesh.end();
}

/// What was on its way to links that ended waits for nobody: their session takes as much as before.
#[test]
fn what_is_on_its_way_to_a_link_that_ended_waits_no_longer() {
    let mut mesh = Mesh::new(2).stay();
    let address = owned_by(0, 2, "queue");
    let (producer, consumer) = (mesh.connect(0), mesh.connect(1));
    mesh.client(producer).attach_sender(0, 0, "s", &address);
    let large = |number: u32| [vec![0x75; 8192], message(u64::from(number))].concat();
    let attach = |client: &mut Client| {
        client.attach_receiver(0, 0, "r", &address);
        client.credit(0, 0, 0, 1000);
    };
    attach(mesh.client(consumer));
    mesh.pump();
    let mut sent = 0;
    for round in 0..10 {
        for _ in 0..10 {
            mesh.client(producer).send(0, 0, sent, &large(sent));
            sent += 1;
        }
        // The next link is of the same session, or of one with the same number.
        match round % 2 {
            0 => mesh.client(consumer).detach(0, 0, true),
            _ => mesh.client(consumer).end(0),
        }
        mesh.pump();
        assert_eq!(received(mesh.client(consumer)), []);
        if round % 2 == 1 {
            mesh.client(consumer).begin(0);
        }
        attach(mesh.client(consumer));
        mesh.pump();
    }
    mesh.client(producer).frames();
    for got in (0..60).step_by(10) {
        for number in sent + got..sent + got + 10 {
            mesh.client(producer).send(0, 0, number, &large(number));
        }
        mesh.pump();
        assert_eq!(received(mesh.client(consumer)).len(), 10, "after {got}");
        mesh.client(consumer).accept(0, got, Some(got + 9));
        mesh.pump();
        assert_eq!(accepted(mesh.client(producer)), 10);
    }
    mesh.end();
}

/// An operator sees a link where its address is, and detaches it there, wherever its connection lives.
#[test]
fn a_link_elsewhere_is_detached_by_its_owner() {
    let mut mesh = Mesh::new(2).stay();
    let address = owned_by(0, 2, "queue");
    let (producer, consumer) = (mesh.connect(0), mesh.connect(1));
    mesh.client(producer).attach_sender(0, 0, "s", &address);
    mesh.client(consumer).attach_receiver(0, 0, "r", &address);
    mesh.pump();
    let now = mesh.now;
    let Rows::Links(rows) = mesh.shards[0].page(Table::Links, 0, now).rows else { panic!("rows of links") };
    for (index, name) in [(producer, "s"), (consumer, "r")] {
        let link = rows.iter().find(|row| row.name == name).expect("its row").routing.id;
        mesh.client(index).frames();
        assert!(mesh.shards[0].detach_link(link), "{name}");
        mesh.pump();
        let frames = mesh.client(index).frames();
        let is_forced = frames.iter().any(|frame| match frame.performative() {
            Performative::Detach(detach) => detach.error.is_some_and(|error| error.condition == "amqp:detach-forced"),
            _ => false,
        });
        assert!(is_forced, "{name}");
        mesh.client(index).detach(0, 0, true);
        mesh.pump();
        assert!(!mesh.shards[0].detach_link(link), "{name} is gone");
    }
    mesh.end();
}

/// A consumer elsewhere that is gone: what it had was perhaps processed; what waited goes to the next.
#[test]
fn a_lost_connection_elsewhere_ends_its_deliveries() {
    let mut mesh = Mesh::new(2).stay();
    let address = owned_by(0, 2, "queue");
    let (producer, consumer) = (mesh.connect(0), mesh.connect(1));
    mesh.client(producer).attach_sender(0, 0, "s", &address);
    mesh.client(consumer).attach_receiver(0, 0, "r", &address);
    mesh.client(consumer).credit(0, 0, 0, 3);
    mesh.pump();
    mesh.client(producer).frames();
    for number in 0..4 {
        mesh.client(producer).send(0, 0, number, &message(u64::from(number)));
    }
    mesh.pump();
    assert_eq!(received(mesh.client(consumer)).len(), 3);
    break_off(&mut mesh, consumer);
    mesh.pump();
    let frames = mesh.client(producer).frames();
    let told: Vec<(u32, u32, Option<u8>)> = frames
        .iter()
        .filter_map(|frame| match frame.performative() {
            Performative::Disposition(said) if said.settled => {
                Some((said.first, said.last.unwrap_or(said.first), said.state.map(|state| state[2])))
            }
            _ => None,
        })
        .collect();
    // Modified, then released.
    assert_eq!(told, [(0, 2, Some(0x27)), (3, 3, Some(0x26))]);
    mesh.end();
}

/// A peer that says much about a link elsewhere, while the lane is stuck: it rests, and nothing piles up.
#[test]
fn a_stuck_lane_makes_who_fills_it_rest() {
    let mut mesh = Mesh::new(2).stay();
    let (there, here) = (owned_by(1, 2, "queue"), owned_by(0, 2, "queue"));
    let (noisy, calm) = (mesh.connect(0), mesh.connect(0));
    mesh.client(noisy).attach_receiver(0, 0, "r", &there);
    mesh.client(calm).attach_receiver(0, 0, "r", &here);
    mesh.client(calm).attach_sender(0, 1, "s", &here);
    mesh.client(calm).credit(0, 0, 0, 100);
    mesh.pump();
    mesh.client(calm).frames();
    let before = mesh.notes();
    crowd(&mut mesh, noisy);
    assert!(mesh.notes() - before < 10_000, "{} notes", mesh.notes() - before);
    mesh.client(calm).send(0, 1, 0, &message(1));
    mesh.pump();
    assert_eq!(received(mesh.client(calm)), [(0, 1)]);
    // The lane has room again, and it goes on.
    relieve(&mut mesh);
    assert!(!mesh.client(noisy).has_output());
    mesh.end();
}

/// A connection that rests for a crowded shard has said more than was acted on when its socket breaks: all of it is heard, and
/// on no shard anything of it is left.
#[test]
fn a_connection_that_ends_while_it_rests_is_over_on_every_shard() {
    let mut mesh = Mesh::new(2).stay();
    let (address, noise) = (owned_by(1, 2, "queue"), owned_by(1, 2, "noise"));
    let (noisy, producer, heir) = (mesh.connect(0), mesh.connect(1), mesh.connect(1));
    mesh.client(noisy).attach_receiver(0, 0, "r", &noise);
    mesh.client(producer).attach_sender(0, 0, "s", &address);
    mesh.pump();
    let known = |mesh: &Mesh| {
        let routers = mesh.shards.iter().map(|shard| shard.router());
        routers.map(|router| (router.connections_len(), router.links_len())).collect::<Vec<_>>()
    };
    let before = known(&mesh);
    let doomed = mesh.connect(0);
    mesh.client(doomed).attach_sender(0, 0, "s", &address);
    mesh.client(doomed).attach_receiver(0, 1, "r", &address);
    mesh.client(doomed).credit(0, 1, 0, 100);
    mesh.pump();
    assert_eq!(known(&mesh), [(before[0].0 + 1, before[0].1), (before[1].0, before[1].1 + 2)]);
    let credit = granted(mesh.client(doomed));
    crowd(&mut mesh, noisy);
    let notes = mesh.notes();
    for number in 0..credit {
        mesh.client(doomed).send(0, 0, number, &message(u64::from(number)));
    }
    mesh.read(64 * 1024);
    assert_eq!(mesh.notes() - notes, 1, "it rests behind its first transfer");
    break_off(&mut mesh, doomed);
    assert_eq!(mesh.notes() - notes, u64::from(credit) + 1, "the others are told of, and its end");
    relieve(&mut mesh);
    assert_eq!(known(&mesh), before);
    // What comes now goes to who is there.
    mesh.client(heir).attach_receiver(0, 0, "r", &address);
    mesh.client(heir).credit(0, 0, 0, 100);
    mesh.pump();
    for number in 0..4 {
        mesh.client(producer).send(0, 0, number, &message(100 + u64::from(number)));
    }
    mesh.pump();
    assert_eq!(received(mesh.client(heir)), [(0, 100), (0, 101), (0, 102), (0, 103)]);
    mesh.end();
}

/// The attach that would make a connection move is behind what was acted on when its socket breaks: it goes nowhere, and the
/// links that would have stayed here end with it.
#[test]
fn a_connection_that_ends_with_an_attach_unheard_moves_nowhere() {
    let mut mesh = Mesh::new(2);
    let client = mesh.connect(0);
    attach_dynamic(mesh.client(client), 0);
    mesh.pump();
    // More than its share of events, in one read.
    for credit in 0..20_000 {
        mesh.client(client).credit(0, 0, 0, 1 + credit % 50);
    }
    mesh.client(client).attach_sender(0, 1, "s", &owned_by(1, 2, "queue"));
    mesh.read(usize::MAX);
    let Connection { shard, id, .. } = mesh.connections[client];
    assert!(!mesh.shards[shard].wants_input(id), "it has had its share");
    assert_eq!(mesh.shards[shard].poll_move(), None, "the attach is behind that");
    break_off(&mut mesh, client);
    mesh.pump();
    mesh.end();
}

/// Deliveries that were accepted, and up to which delivery-count the client may send, where a flow says so.
fn heard(client: &mut Client, limit: &mut u32) -> u32 {
    let mut count = 0;
    for frame in client.frames() {
        match frame.performative() {
            Performative::Disposition(said) if said.settled => {
                count += said.last.unwrap_or(said.first) - said.first + 1
            }
            Performative::Flow(Flow { delivery_count: Some(used), link_credit: Some(credit), .. }) => {
                *limit = used + credit
            }
            _ => {}
        }
    }
    count
}

/// What a sender says of what it sent is found by its number, whoever owns the address, and however much there is.
#[test]
fn a_sender_settles_its_deliveries_elsewhere() {
    const COUNT: u32 = 50_000;
    let mut mesh = Mesh::new(2).stay();
    let address = owned_by(0, 2, "queue");
    let (producer, consumer) = (mesh.connect(1), mesh.connect(0));
    mesh.client(consumer).attach_receiver(0, 0, "r", &address);
    mesh.client(consumer).credit(0, 0, 0, 2 * COUNT);
    mesh.client(producer).attach_sender(0, 0, "s", &address);
    mesh.pump();
    let mut limit = 0;
    let send = |mesh: &mut Mesh, limit: &mut u32, numbers: std::ops::Range<u32>| {
        for number in numbers {
            if number >= *limit {
                mesh.pump();
                heard(mesh.client(producer), limit);
                assert!(number < *limit, "it is given more credit");
            }
            mesh.client(producer).send(0, 0, number, b"x");
        }
        mesh.pump();
    };
    let settle = |mesh: &mut Mesh, first: u32, last: u32| {
        let role = Role::Sender;
        let disposition = Disposition { role, first, last: Some(last), settled: true, ..Disposition::default() };
        mesh.client(producer).disposition(0, disposition);
        mesh.pump();
    };
    // Of which of them the producer is told still.
    let told = |mesh: &mut Mesh, limit: &mut u32, first: u32, last: u32| {
        mesh.client(consumer).accept(0, first, Some(last));
        mesh.pump();
        heard(mesh.client(producer), limit)
    };
    send(&mut mesh, &mut limit, 0..10);
    settle(&mut mesh, 3, 5);
    settle(&mut mesh, 2, 6);
    assert_eq!(told(&mut mesh, &mut limit, 0, 7), 3);
    // What came since, and what is over.
    send(&mut mesh, &mut limit, 10..20);
    settle(&mut mesh, 0, 15);
    assert_eq!(told(&mut mesh, &mut limit, 8, 19), 4);
    send(&mut mesh, &mut limit, 20..COUNT);
    let begun = std::time::Instant::now();
    settle(&mut mesh, 0, COUNT - 2);
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    assert_eq!(told(&mut mesh, &mut limit, 20, COUNT - 1), 1);
    mesh.end();
}
