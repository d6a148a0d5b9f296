//! Scenarios with fe2o3-amqp; see ../../README.md.
//!
//! It settles every message with a disposition of its own. Its API doesn't say how many credits a drain gave
//! back, so it has no `drain` scenario.

use fe2o3_amqp::connection::{Connection, ConnectionHandle};
use fe2o3_amqp::link::delivery::Delivery;
use fe2o3_amqp::link::receiver::CreditMode;
use fe2o3_amqp::sasl_profile::SaslProfile;
use fe2o3_amqp::session::{Session, SessionHandle};
use fe2o3_amqp::{Receiver, Sender};
use fe2o3_amqp_types::definitions::{self, ErrorCondition, Fields, ReceiverSettleMode, SenderSettleMode};
use fe2o3_amqp_types::messaging::{Body, Message, MessageId, Modified, Outcome, Properties, Source, Target};
use fe2o3_amqp_types::primitives::{Binary, Symbol, Value};
use std::time::Duration;

type Failure = Box<dyn std::error::Error + Send + Sync>;
type Verdict = Result<String, Failure>;

const LIMIT: Duration = Duration::from_secs(60);

fn body_of(i: u64) -> Vec<u8> {
    let size = match i % 50 {
        0 => 65_536,
        1 => 20_000,
        2 => 0,
        _ => (i * 37) % 1024,
    };
    (0..size).map(|j| (i + j) as u8).collect()
}

fn message_of(i: u64) -> Message<Body<Value>> {
    let properties = Properties::builder().message_id(MessageId::Ulong(i)).build();
    let body: Body<Value> = Body::Data(vec![fe2o3_amqp_types::messaging::Data(Binary::from(body_of(i)))].into());
    Message { properties: Some(properties), ..Message::from(body) }
}

fn check(condition: bool, why: impl Fn() -> String) -> Result<(), Failure> {
    if condition {
        Ok(())
    } else {
        Err(why().into())
    }
}

/// A named thing failed.
fn named<E: std::fmt::Debug>(what: &'static str) -> impl Fn(E) -> Failure {
    move |error| format!("{what}: {error:?}").into()
}

struct Peer {
    connection: ConnectionHandle<()>,
    session: SessionHandle<()>,
    address: String,
}

impl Peer {
    async fn open(host_and_port: &str, address: &str) -> Result<Peer, Failure> {
        let mut connection = Connection::builder()
            .container_id("fe2o3")
            .sasl_profile(SaslProfile::Anonymous)
            .max_frame_size(4096u32)
            .idle_time_out(20_000u32)
            .open(&format!("amqp://{host_and_port}")[..])
            .await
            .map_err(named("open"))?;
        let session = Session::begin(&mut connection).await.map_err(named("begin"))?;
        Ok(Peer { connection, session, address: address.into() })
    }

    async fn receiver(&mut self, settles: ReceiverSettleMode, accepts: bool) -> Result<Receiver, Failure> {
        Receiver::builder()
            .name("receiver")
            .source(self.address.clone())
            .receiver_settle_mode(settles)
            .auto_accept(accepts)
            .credit_mode(CreditMode::Auto(100))
            .attach(&mut self.session)
            .await
            .map_err(named("attach of the receiver"))
    }

    async fn sender(&mut self, mode: SenderSettleMode, settles: ReceiverSettleMode) -> Result<Sender, Failure> {
        Sender::builder()
            .name("sender")
            .target(self.address.clone())
            .sender_settle_mode(mode)
            .receiver_settle_mode(settles)
            .attach(&mut self.session)
            .await
            .map_err(named("attach of the sender"))
    }

    async fn close(mut self) -> Result<(), Failure> {
        self.session.end().await.map_err(named("end"))?;
        self.connection.close().await.map_err(named("close"))
    }
}

fn check_message(delivery: &Delivery<Body<Value>>, i: u64) -> Result<(), Failure> {
    let id = delivery.message().properties.as_ref().and_then(|properties| properties.message_id.clone());
    check(id == Some(MessageId::Ulong(i)), || format!("message {id:?} instead of {i}"))?;
    let Body::Data(sections) = delivery.body() else { return Err("the body is no data section".into()) };
    let body: Vec<u8> = sections.iter().flat_map(|section| section.0.to_vec()).collect();
    check(body == body_of(i), || format!("the body of message {i} is wrong"))
}

async fn receive(receiver: &mut Receiver) -> Result<Delivery<Body<Value>>, Failure> {
    receiver.recv().await.map_err(named("receive"))
}

/// Sends and receives `count` messages; all must be accepted.
async fn transfer(mut peer: Peer, count: u64, mode: SenderSettleMode, settles: ReceiverSettleMode) -> Verdict {
    let mut receiver = peer.receiver(settles.clone(), false).await?;
    let mut sender = peer.sender(mode.clone(), settles).await?;
    let is_settled = mode == SenderSettleMode::Settled;
    let sending = tokio::spawn(async move {
        let mut outcomes = Vec::new();
        for i in 0..count {
            outcomes.push(sender.send_batchable(message_of(i)).await.map_err(named("send"))?);
        }
        for (i, outcome) in outcomes.into_iter().enumerate() {
            let outcome = outcome.await.map_err(named("outcome"))?;
            check(matches!(outcome, Outcome::Accepted(_)), || format!("outcome of {i}: {outcome:?}"))?;
        }
        sender.close().await.map_err(named("close of the sender"))
    });
    for i in 0..count {
        let delivery = receive(&mut receiver).await?;
        check_message(&delivery, i)?;
        if !is_settled {
            receiver.accept(&delivery).await.map_err(named("accept"))?;
        }
        // Credit follows dispositions in this library; settled deliveries have none.
        if is_settled && i % 50 == 49 {
            receiver.set_credit(100).await.map_err(named("credit"))?;
        }
    }
    sending.await.map_err(named("the sender"))??;
    receiver.close().await.map_err(named("close of the receiver"))?;
    peer.close().await?;
    Ok(format!("{count} messages"))
}

fn info() -> Fields {
    let mut info = Fields::new();
    info.insert(Symbol::from("hue"), Value::Int(121));
    info.insert(Symbol::from("who"), Value::String("me".into()));
    info
}

fn annotations() -> Fields {
    let mut annotations = Fields::new();
    annotations.insert(Symbol::from("x-opt-why"), Value::String("busy".into()));
    annotations.insert(Symbol::from("x-opt-times"), Value::Int(3));
    annotations
}

fn modified(failed: bool, undeliverable: Option<bool>, annotations: Option<Fields>) -> Modified {
    Modified { delivery_failed: Some(failed), undeliverable_here: undeliverable, message_annotations: annotations }
}

/// Each outcome comes back to the sender with all its fields.
async fn outcomes(mut peer: Peer) -> Verdict {
    let mut receiver = peer.receiver(ReceiverSettleMode::First, false).await?;
    let mut sender = peer.sender(SenderSettleMode::Unsettled, ReceiverSettleMode::First).await?;
    let mut heard = Vec::new();
    for i in 0..5 {
        heard.push(sender.send_batchable(message_of(3 + i)).await.map_err(named("send"))?);
    }
    let error = definitions::Error {
        condition: ErrorCondition::Custom(Symbol::from("app:bad-colour")),
        description: Some("not green enough".into()),
        info: Some(Box::new(info())),
    };
    for i in 0..5 {
        let delivery = receive(&mut receiver).await?;
        check_message(&delivery, 3 + i)?;
        let answer = match i {
            0 => receiver.accept(&delivery).await,
            1 => receiver.reject(&delivery, error.clone()).await,
            2 => receiver.release(&delivery).await,
            3 => receiver.modify(&delivery, modified(true, Some(true), Some(annotations()))).await,
            _ => receiver.modify(&delivery, modified(true, None, None)).await,
        };
        answer.map_err(named("disposition"))?;
    }
    for (i, outcome) in heard.into_iter().enumerate() {
        let outcome = outcome.await.map_err(named("outcome"))?;
        let is_right = match (i, &outcome) {
            (0, Outcome::Accepted(_)) | (2, Outcome::Released(_)) => true,
            (1, Outcome::Rejected(rejected)) => rejected.error.as_ref() == Some(&error),
            (3, Outcome::Modified(state)) => *state == modified(true, Some(true), Some(annotations())),
            (4, Outcome::Modified(state)) => {
                state.delivery_failed == Some(true)
                    && state.undeliverable_here != Some(true)
                    && state.message_annotations.is_none()
            }
            _ => false,
        };
        check(is_right, || format!("outcome {i} is {outcome:?}"))?;
    }
    sender.close().await.map_err(named("close of the sender"))?;
    receiver.close().await.map_err(named("close of the receiver"))?;
    peer.close().await?;
    Ok("five outcomes with their fields".into())
}

/// A server answers over an anonymous sender; the client's replies come to a dynamic address.
async fn request(mut peer: Peer) -> Verdict {
    const COUNT: u64 = 100;
    let mut server = peer.receiver(ReceiverSettleMode::First, true).await?;
    let mut answers = Sender::builder()
        .name("answers")
        .target(Target { address: None, ..Target::default() })
        .attach(&mut peer.session)
        .await
        .map_err(named("attach of the anonymous sender"))?;
    let mut inbox = Receiver::builder()
        .name("inbox")
        .source(Source::builder().dynamic(true).build())
        .auto_accept(true)
        .attach(&mut peer.session)
        .await
        .map_err(named("attach of the dynamic receiver"))?;
    let reply_to = inbox.source().as_ref().and_then(|source| source.address.clone());
    let reply_to = reply_to.ok_or("a dynamic source without an address")?;
    let mut requests = peer.sender(SenderSettleMode::Unsettled, ReceiverSettleMode::First).await?;
    let serving = tokio::spawn(async move {
        for _ in 0..COUNT {
            let question: Delivery<String> = server.recv().await.map_err(named("receive of a request"))?;
            let asked = question.message().properties.clone().ok_or("a request without properties")?;
            let properties = Properties::builder()
                .to(asked.reply_to.ok_or("a request without reply-to")?)
                .correlation_id(asked.message_id.ok_or("a request without message-id")?)
                .build();
            let reply = Message::builder().properties(properties).value(question.body().to_uppercase()).build();
            let outcome = answers.send(reply).await.map_err(named("reply"))?;
            check(matches!(outcome, Outcome::Accepted(_)), || format!("the reply's outcome is {outcome:?}"))?;
        }
        Ok::<_, Failure>((server, answers))
    });
    for i in 0..COUNT {
        let properties = Properties::builder().message_id(MessageId::Ulong(i)).reply_to(reply_to.clone()).build();
        let question = Message::builder().properties(properties).value(String::from("question")).build();
        let outcome = requests.send_batchable(question).await.map_err(named("request"))?;
        let reply: Delivery<String> = inbox.recv().await.map_err(named("receive of a reply"))?;
        let id = reply.message().properties.as_ref().and_then(|properties| properties.correlation_id.clone());
        check(id == Some(MessageId::Ulong(i)), || format!("reply {id:?} instead of {i}"))?;
        check(reply.body() == "QUESTION", || format!("the reply is {}", reply.body()))?;
        let outcome = outcome.await.map_err(named("the request's outcome"))?;
        check(matches!(outcome, Outcome::Accepted(_)), || format!("the request's outcome is {outcome:?}"))?;
    }
    let (server, answers) = serving.await.map_err(named("the server"))??;
    answers.close().await.map_err(named("close of the anonymous sender"))?;
    server.close().await.map_err(named("close of the server"))?;
    requests.close().await.map_err(named("close of the requests"))?;
    inbox.close().await.map_err(named("close of the inbox"))?;
    peer.close().await?;
    Ok(format!("{COUNT} replies"))
}

async fn run(scenario: &str, peer: Peer) -> Verdict {
    use ReceiverSettleMode::{First, Second};
    match scenario {
        "transfer" => transfer(peer, 10_000, SenderSettleMode::Unsettled, First).await,
        "presettled" => transfer(peer, 1_000, SenderSettleMode::Settled, First).await,
        // Not more than the router's credit: in this mode the library's sender never settles deliveries whose ids are
        // consecutive, so none comes back.
        "second" => transfer(peer, 200, SenderSettleMode::Unsettled, Second).await,
        "outcomes" => outcomes(peer).await,
        "request" => request(peer).await,
        other => Err(format!("no scenario {other}").into()),
    }
}

#[tokio::main]
async fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [scenario, host, port, address] = &words[..] else {
        println!("FAIL usage: fe2o3-client SCENARIO HOST PORT ADDRESS");
        std::process::exit(2);
    };
    let verdict = tokio::time::timeout(LIMIT, async {
        let peer = Peer::open(&format!("{host}:{port}"), address).await?;
        run(scenario, peer).await
    });
    match verdict.await {
        Ok(Ok(how)) => println!("PASS {how}"),
        Ok(Err(why)) => fail(&why.to_string()),
        Err(_) => fail("time is over"),
    }
}

fn fail(why: &str) {
    println!("FAIL {why}");
    std::process::exit(1);
}
