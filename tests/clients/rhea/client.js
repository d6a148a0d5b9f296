// Scenarios with rhea; see ../README.md.
//
// rhea's outgoing-window starts at 0xffffffff and counts down, and it cuts messages by the peer's frame size.
'use strict';

const rhea = require('rhea');

const PATTERN = Buffer.alloc(256 * 257, Buffer.from(Array.from({ length: 256 }, (_, i) => i)));
const LIMIT_MILLISECONDS = 60000;

function bodyOf(i) {
    const special = { 0: 65536, 1: 20000, 2: 0 }[i % 50];
    const size = special === undefined ? (i * 37) % 1024 : special;
    return PATTERN.subarray(i % 256, (i % 256) + size);
}

function messageOf(i) {
    return { message_id: i, body: rhea.message.data_section(bodyOf(i)) };
}

const [name, host, port, address] = process.argv.slice(2);
const container = rhea.create_container({ id: 'rhea-' + name });
let progress = () => '';
let isOver = false;

function finish(ok, text) {
    if (isOver) return;
    isOver = true;
    console.log(`${ok ? 'PASS' : 'FAIL'} ${text}`);
    connection.close();
    setTimeout(() => process.exit(ok ? 0 : 1), 100);
}

function fail(why) {
    finish(false, `${why} ${progress()}`);
}

function check(condition, why) {
    if (!condition) fail(why);
}

const connection = container.connect({
    host, port: Number(port), username: 'anonymous', reconnect: false, max_frame_size: 4096, idle_time_out: 20000,
});
setTimeout(() => fail('time is over:'), LIMIT_MILLISECONDS).unref();
for (const event of ['connection_error', 'session_error', 'sender_error', 'receiver_error']) {
    container.on(event, (context) => {
        const of = context.receiver || context.sender || context.session || context.connection;
        fail(`${event} ${of.error && (of.error.condition + ' ' + of.error.description)}`);
    });
}
container.on('disconnected', (context) => fail(`disconnected ${context.error || ''}`));

// Sends `count` messages to a receiver; `modes` are the links' settle modes.
function transfer(count, modes) {
    const isSettled = modes.snd_settle_mode === 1;
    let sent = 0, received = 0, accepted = 0, settled = 0;
    progress = () => `sent ${sent} received ${received} accepted ${accepted} settled ${settled}`;
    const look = () => {
        const wanted = isSettled ? 0 : count;
        if (received === count && accepted === wanted && settled === wanted) finish(true, progress());
    };
    container.once('connection_open', () => {
        connection.open_receiver({ source: { address }, credit_window: 100, ...modes });
    });
    container.once('receiver_open', () => connection.open_sender({ target: { address }, ...modes }));
    container.on('sendable', (context) => {
        while (context.sender.sendable() && sent < count) context.sender.send(messageOf(sent++));
    });
    container.on('message', (context) => {
        const { message_id: id, body } = context.message;
        check(id === received, `message ${id} instead of ${received}`);
        check(body.typecode === 0x75, 'the body is no data section');
        check(bodyOf(received).equals(body.content), `the body of message ${received} is wrong`);
        check(Boolean(context.delivery.remote_settled) === isSettled, `settled is ${context.delivery.remote_settled}`);
        received++;
        look();
    });
    container.on('accepted', () => { accepted++; look(); });
    container.on('settled', () => { settled++; look(); });
    for (const other of ['rejected', 'released', 'modified']) container.on(other, () => fail(other));
}

// The receiver answers, the sender settles, and only then the receiver settles.
function second() {
    const count = 500;
    let sent = 0, received = 0, accepted = 0, settled = 0;
    progress = () => `sent ${sent} received ${received} accepted ${accepted} settled ${settled}`;
    const look = () => { if (settled === count && accepted === count) finish(true, progress()); };
    const modes = { snd_settle_mode: 0, rcv_settle_mode: 1 };
    container.once('connection_open', () => {
        connection.open_receiver({ source: { address }, credit_window: 50, autoaccept: false, autosettle: false, ...modes });
    });
    container.once('receiver_open', () => {
        connection.open_sender({ target: { address }, autosettle: false, ...modes });
    });
    container.on('sendable', (context) => {
        while (context.sender.sendable() && sent < count) context.sender.send(messageOf(sent++));
    });
    container.on('message', (context) => {
        received++;
        context.delivery.update(false, rhea.message.accepted().described());
    });
    container.on('accepted', (context) => {
        check(!context.delivery.remote_settled, 'the receiver settled first');
        accepted++;
        context.delivery.update(true);
        look();
    });
    container.on('settled', (context) => {
        if (!context.receiver) return;
        settled++;
        context.delivery.update(true);
        look();
    });
}

// One message at a time: rhea tells several outcomes of one turn as if they were the first.
function outcomes() {
    let sent = 0, answered = 0;
    const heard = [];
    progress = () => `sent ${sent} answered ${answered} heard ${JSON.stringify(heard.map(([event]) => event))}`;
    container.once('connection_open', () => {
        connection.open_receiver({ source: { address }, credit_window: 10, autoaccept: false });
    });
    let sender = null;
    container.once('receiver_open', () => {
        sender = connection.open_sender({ target: { address }, treat_modified_as_released: false });
    });
    const sendNext = () => sender.send(messageOf(3 + sent++));
    container.on('sendable', () => { if (sent === 0) sendNext(); });
    const answers = [
        (delivery) => delivery.accept(),
        (delivery) => delivery.reject({
            condition: 'app:bad-colour', description: 'not green enough', info: { hue: 121, who: 'me' },
        }),
        (delivery) => delivery.release(),
        (delivery) => delivery.modified({
            delivery_failed: true, undeliverable_here: true,
            message_annotations: { 'x-opt-why': 'busy', 'x-opt-times': 3 },
        }),
        (delivery) => delivery.modified({ delivery_failed: true }),
    ];
    container.on('message', (context) => answers[answered++](context.delivery));
    const hear = (event) => container.on(event, (context) => {
        heard.push([event, context.delivery.remote_state]);
        if (heard.length === 5) judge();
        else sendNext();
    });
    ['accepted', 'rejected', 'released', 'modified'].forEach(hear);
    const judge = () => {
        const events = heard.map(([event]) => event).join();
        check(events === 'accepted,rejected,released,modified,modified', `the outcomes were ${events}`);
        const error = heard[1][1].error;
        check(error && error.condition === 'app:bad-colour' && error.description === 'not green enough'
            && error.info && error.info.hue === 121 && error.info.who === 'me', `rejected: ${JSON.stringify(error)}`);
        const modified = heard[3][1], annotations = modified.message_annotations;
        check(modified.delivery_failed === true && modified.undeliverable_here === true && annotations
            && annotations['x-opt-why'] === 'busy' && annotations['x-opt-times'] === 3,
            `modified: ${JSON.stringify(modified)}`);
        const plain = heard[4][1];
        check(plain.delivery_failed === true && !plain.undeliverable_here, `modified: ${JSON.stringify(plain)}`);
        finish(true, 'five outcomes with their fields');
    };
}

function request() {
    const count = 100;
    let asked = 0, replies = 0, requests = null, replyTo = null, answers = null;
    progress = () => `replies ${replies}`;
    const ask = () => requests.send({ message_id: asked++, reply_to: replyTo, body: 'question' });
    container.once('connection_open', () => {
        answers = connection.open_sender({ target: {} });
        connection.open_receiver({ source: { address }, name: 'server' });
        connection.open_receiver({ source: { dynamic: true }, name: 'inbox' });
    });
    container.on('receiver_open', (context) => {
        if (context.receiver.name !== 'inbox') return;
        replyTo = context.receiver.source.address;
        check(Boolean(replyTo), 'a dynamic source without an address');
        requests = connection.open_sender({ target: { address } });
    });
    container.on('sendable', (context) => {
        if (context.sender === requests && asked === 0) ask();
    });
    container.on('message', (context) => {
        const message = context.message;
        if (context.receiver.name === 'server') {
            answers.send({ to: message.reply_to, correlation_id: message.message_id, body: message.body.toUpperCase() });
            return;
        }
        check(message.correlation_id === replies, `reply ${message.correlation_id} instead of ${replies}`);
        check(message.body === 'QUESTION', `body ${message.body}`);
        replies++;
        if (replies === count) finish(true, progress());
        else ask();
    });
    for (const other of ['rejected', 'released', 'modified']) container.on(other, () => fail(other));
}

function drain() {
    let step = 'drain 7', sent = 0, received = 0, receiver = null, sender = null;
    progress = () => `${step} sent ${sent} received ${received}`;
    const drainNow = (credit) => {
        receiver.add_credit(credit);
        receiver.drain_credit();
    };
    const sendUpTo = (count) => {
        while (sender && sender.sendable() && sent < count) sender.send(messageOf(sent++));
    };
    container.once('connection_open', () => {
        receiver = connection.open_receiver({ source: { address }, credit_window: 0 });
    });
    container.once('receiver_open', () => drainNow(7));
    container.on('receiver_drained', () => {
        check(receiver.credit === 0, `${receiver.credit} credits are left`);
        if (step === 'drain 7') {
            step = 'five messages';
            receiver.drain = false;
            receiver.add_credit(5);
            sender = connection.open_sender({ target: { address } });
        } else if (step === 'drain 4') {
            step = 'one more';
            receiver.drain = false;
            receiver.add_credit(1);
            sendUpTo(6);
        }
    });
    container.on('sendable', () => sendUpTo(step === 'one more' ? 6 : 5));
    container.on('message', (context) => {
        check(context.message.message_id === received, `message ${context.message.message_id}`);
        received++;
        if (received === 5) {
            step = 'drain 4';
            drainNow(4);
        } else if (received === 6) {
            finish(true, 'drained twice');
        }
    });
}

const scenarios = {
    transfer: () => transfer(10000, { snd_settle_mode: 0 }),
    presettled: () => transfer(1000, { snd_settle_mode: 1 }),
    second, outcomes, request, drain,
};
scenarios[name]();
