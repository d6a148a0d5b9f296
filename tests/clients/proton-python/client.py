#!/usr/bin/python3
"""Scenarios with python-proton (Debian's python3-qpid-proton); see ../README.md.

python-proton gives a sender and a receiver of one address the same link name, and closes the connection without
detaching: both are left as they are, since a router must live with them.
"""

import sys

from proton import Condition, Delivery, Link, Message, symbol
from proton.handlers import MessagingHandler
from proton.reactor import AtLeastOnce, AtMostOnce, Container, LinkOption

PATTERN = bytes(range(256)) * 257


def body_of(i):
    size = {0: 65536, 1: 20000, 2: 0}.get(i % 50, i * 37 % 1024)
    return PATTERN[i % 256:i % 256 + size]


def message_of(i):
    # Inferred: bytes become a data section.
    return Message(id=i, body=body_of(i), inferred=True)


class ReceiverSettlesSecond(LinkOption):
    def apply(self, link):
        link.snd_settle_mode = Link.SND_UNSETTLED
        link.rcv_settle_mode = Link.RCV_SECOND


class Scenario(MessagingHandler):
    """One connection; ends by `passed` or `failed`."""

    max_seconds = 60

    def __init__(self, url, address, **options):
        super().__init__(**options)
        self.url, self.address = url, address
        self.verdict = None

    def on_start(self, event):
        self.container = event.container
        self.connection = event.container.connect(
            self.url, reconnect=False, allowed_mechs="ANONYMOUS", max_frame_size=4096)
        self.timer = event.container.schedule(self.max_seconds, self)
        self.began()

    def on_timer_task(self, event):
        self.failed("time is over: %s" % self.progress())

    def progress(self):
        return vars(self)

    def passed(self, how):
        self.finish(True, how)

    def failed(self, why):
        self.finish(False, why)

    def finish(self, ok, text):
        if self.verdict is None:
            self.verdict = (ok, text)
            self.timer.cancel()
            self.connection.close()

    def check(self, condition, why, *values):
        if not condition:
            self.failed(why % values)

    def on_transport_error(self, event):
        self.failed("transport: %s" % event.transport.condition)

    def on_connection_error(self, event):
        self.failed("connection: %s" % event.connection.remote_condition)

    def on_session_error(self, event):
        self.failed("session: %s" % event.session.remote_condition)

    def on_link_error(self, event):
        self.failed("link %s: %s" % (event.link.name, event.link.remote_condition))

    def on_disconnected(self, event):
        self.failed("the connection was lost")


class Transfer(Scenario):
    """`count` messages from a sender to a receiver, the links made with `option`."""

    def __init__(self, url, address, count, option):
        super().__init__(url, address, prefetch=100)
        self.count, self.option = count, option
        self.settles_at_once = isinstance(option, AtMostOnce)
        self.sender = None
        self.sent = self.received = self.accepted = self.settled = 0

    def progress(self):
        return "sent %d received %d accepted %d settled %d" % (self.sent, self.received, self.accepted, self.settled)

    def began(self):
        self.receiver = self.container.create_receiver(self.connection, self.address, options=self.option)

    def on_link_opened(self, event):
        if event.link == self.receiver and self.sender is None:
            self.sender = self.container.create_sender(self.connection, self.address, options=self.option)

    def on_sendable(self, event):
        while event.sender.credit and self.sent < self.count:
            event.sender.send(message_of(self.sent))
            self.sent += 1

    def on_message(self, event):
        i = self.received
        self.check(event.message.id == i, "message %s instead of %d", event.message.id, i)
        self.check(bytes(event.message.body) == body_of(i), "the body of message %d is wrong", i)
        self.check(event.delivery.settled == self.settles_at_once, "message %d: settled is %s", i,
                   event.delivery.settled)
        self.received += 1
        self.look()

    def on_accepted(self, event):
        self.accepted += 1

    def on_rejected(self, event):
        self.failed("rejected: %s" % event.delivery.remote.condition)

    def on_released(self, event):
        self.failed("released or modified: %s" % event.delivery.remote_state)

    def on_settled(self, event):
        if event.delivery.link == self.sender:
            self.settled += 1
        self.look()

    def look(self):
        wanted = 0 if self.settles_at_once else self.count
        if self.received == self.count and (self.accepted, self.settled) == (wanted, wanted):
            self.passed(self.progress())


class SettleSecond(Scenario):
    """The receiver answers, the sender settles, and only then the receiver settles."""

    COUNT = 500

    def __init__(self, url, address):
        super().__init__(url, address, prefetch=50, auto_accept=False, auto_settle=False)
        self.sender = None
        self.sent = self.answered = self.accepted = self.settled = 0

    def began(self):
        self.receiver = self.container.create_receiver(
            self.connection, self.address, options=ReceiverSettlesSecond())

    def on_link_opened(self, event):
        if event.link == self.receiver:
            self.check(event.link.remote_rcv_settle_mode == Link.RCV_SECOND, "mode second was not granted")
            self.sender = self.container.create_sender(
                self.connection, self.address, options=ReceiverSettlesSecond())

    def on_sendable(self, event):
        while event.sender.credit and self.sent < self.COUNT:
            event.sender.send(message_of(self.sent))
            self.sent += 1

    def on_message(self, event):
        event.delivery.update(Delivery.ACCEPTED)
        self.answered += 1

    def on_accepted(self, event):
        self.check(not event.delivery.settled, "the receiver settled first")
        self.accepted += 1
        event.delivery.settle()

    def on_settled(self, event):
        # Of the receiver's deliveries: the sender settled.
        if event.delivery.link == self.receiver:
            self.settled += 1
            event.delivery.settle()
        if self.settled == self.COUNT:
            self.check(self.accepted == self.COUNT, "%d were accepted", self.accepted)
            self.passed("%d settled in three steps" % self.settled)


class Outcomes(Scenario):
    """Each outcome with all its fields comes back to the sender.

    One message at a time: Proton tells the outcomes of several in any order.
    """

    def __init__(self, url, address):
        super().__init__(url, address, prefetch=10, auto_accept=False)
        self.sender = None
        self.sent, self.answered, self.heard = 0, 0, []

    def began(self):
        self.receiver = self.container.create_receiver(self.connection, self.address)

    def on_link_opened(self, event):
        if event.link == self.receiver and self.sender is None:
            self.sender = self.container.create_sender(self.connection, self.address)

    def on_sendable(self, event):
        if self.sent == 0:
            self.send_next()

    def send_next(self):
        self.sender.send(message_of(self.sent + 3))
        self.sent += 1

    def on_message(self, event):
        delivery, local = event.delivery, event.delivery.local
        if self.answered == 0:
            delivery.update(Delivery.ACCEPTED)
        elif self.answered == 1:
            local.condition = Condition("app:bad-colour", "not green enough", {symbol("hue"): 121, symbol("who"): "me"})
            delivery.update(Delivery.REJECTED)
        elif self.answered == 2:
            delivery.update(Delivery.RELEASED)
        elif self.answered == 3:
            local.failed, local.undeliverable = True, True
            local.annotations = {symbol("x-opt-why"): "busy", symbol("x-opt-times"): 3}
            delivery.update(Delivery.MODIFIED)
        else:
            local.failed = True
            delivery.update(Delivery.MODIFIED)
        delivery.settle()
        self.answered += 1

    def hear(self, event):
        number, remote = len(self.heard), event.delivery.remote
        self.heard.append(event.delivery.remote_state)
        if number == 1:
            condition = remote.condition
            if condition is None:
                return self.failed("%s without its error" % event.delivery.remote_state)
            self.check(condition.name == "app:bad-colour" and condition.description == "not green enough",
                       "rejected: %s", condition)
            self.check(dict(condition.info or {}) == {"hue": 121, "who": "me"}, "info: %r", condition.info)
        elif number == 3:
            self.check(remote.failed and remote.undeliverable, "modified: %s %s", remote.failed, remote.undeliverable)
            self.check(dict(remote.annotations or {}) == {"x-opt-why": "busy", "x-opt-times": 3},
                       "annotations: %r", remote.annotations)
        elif number == 4:
            self.check(remote.failed and not remote.undeliverable, "modified: %s %s", remote.failed,
                       remote.undeliverable)
        if len(self.heard) == 5:
            wanted = [Delivery.ACCEPTED, Delivery.REJECTED, Delivery.RELEASED, Delivery.MODIFIED, Delivery.MODIFIED]
            self.check(self.heard == wanted, "states: %s", self.heard)
            self.passed("five outcomes with their fields")
        else:
            self.send_next()

    on_accepted = on_rejected = on_released = hear


class Request(Scenario):
    """A server answers over an anonymous sender; the client's replies come to a dynamic address."""

    COUNT = 100

    def __init__(self, url, address):
        super().__init__(url, address, prefetch=20)
        self.asked = self.replies = 0
        self.requests = None

    def began(self):
        self.server = self.container.create_receiver(self.connection, self.address)
        self.answers = self.container.create_sender(self.connection, None)

    def on_link_opened(self, event):
        if event.link == self.server:
            self.inbox = self.container.create_receiver(self.connection, None, dynamic=True)
        elif event.link.is_receiver:
            self.check(event.link.remote_source.dynamic, "the source isn't dynamic")
            self.reply_to = event.link.remote_source.address
            self.check(bool(self.reply_to), "a dynamic source without an address")
            self.requests = self.container.create_sender(self.connection, self.address)

    def on_sendable(self, event):
        if event.sender == self.requests and self.asked == 0:
            self.ask()

    def ask(self):
        self.requests.send(Message(id=self.asked, reply_to=self.reply_to, body="question"))
        self.asked += 1

    def on_message(self, event):
        message = event.message
        if event.receiver == self.server:
            self.answers.send(Message(address=message.reply_to, correlation_id=message.id, body=message.body.upper()))
            return
        self.check(message.correlation_id == self.replies, "reply %s instead of %d", message.correlation_id,
                   self.replies)
        self.check(message.body == "QUESTION", "body %r", message.body)
        self.replies += 1
        if self.replies == self.COUNT:
            self.passed("%d replies" % self.replies)
        else:
            self.ask()

    def on_released(self, event):
        self.failed("released on %s" % event.link.name)

    def on_rejected(self, event):
        self.failed("rejected on %s: %s" % (event.link.name, event.delivery.remote.condition))


class Drain(Scenario):
    """Credit that can't be used comes back on demand, exactly."""

    def __init__(self, url, address):
        super().__init__(url, address, prefetch=0)
        self.sender = None
        self.step, self.received, self.sent = "drain 7", 0, 0

    def began(self):
        self.receiver = self.container.create_receiver(self.connection, self.address)

    def on_link_opened(self, event):
        if event.link == self.receiver:
            self.receiver.drain(7)

    def on_link_flow(self, event):
        if event.link == self.sender:
            return self.on_sendable(event)
        if event.link != self.receiver or self.receiver.draining():
            return
        returned = self.receiver.drained()
        if self.step == "drain 7" and returned:
            self.check(returned == 7, "%d credits of 7 came back", returned)
            self.step = "five messages"
            self.sender = self.container.create_sender(self.connection, self.address)
            self.receiver.drain_mode = False
            self.receiver.flow(5)
        elif self.step == "drain 4" and returned:
            self.check(returned == 4, "%d credits of 4 came back", returned)
            self.step = "one more"
            self.receiver.drain_mode = False
            self.receiver.flow(1)
            self.send(6)

    def on_sendable(self, event):
        if self.step == "five messages":
            self.send(5)
        elif self.step == "one more":
            self.send(6)

    def send(self, up_to):
        while self.sent < up_to and self.sender.credit:
            self.sender.send(message_of(self.sent))
            self.sent += 1

    def on_message(self, event):
        self.check(event.message.id == self.received, "message %s", event.message.id)
        self.received += 1
        if self.received == 5:
            self.step = "drain 4"
            self.receiver.drain(4)
        elif self.received == 6:
            self.passed("drained twice")


SCENARIOS = {
    "transfer": lambda url, address: Transfer(url, address, 10000, AtLeastOnce()),
    "presettled": lambda url, address: Transfer(url, address, 1000, AtMostOnce()),
    "second": SettleSecond,
    "outcomes": Outcomes,
    "request": Request,
    "drain": Drain,
}


def main():
    name, host, port, address = sys.argv[1:]
    scenario = SCENARIOS[name]("amqp://%s:%s" % (host, port), address)
    Container(scenario).run()
    ok, text = scenario.verdict or (False, "it ended without a verdict")
    print("PASS" if ok else "FAIL", text)
    sys.exit(not ok)


main()
