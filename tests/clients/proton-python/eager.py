#!/usr/bin/python3
"""A sender that sends as fast as it may.

usage: eager.py amqp://HOST:PORT ADDRESS SECONDS
After SECONDS it sends a message that says 'end', waits for all outcomes, and prints a line of JSON: how many it sent and
how many of them were accepted, 'end' included."""
import json
import sys
import uuid

from proton import Message
from proton.handlers import MessagingHandler
from proton.reactor import Container

URL, ADDRESS, SECONDS = sys.argv[1], sys.argv[2], float(sys.argv[3])
PATIENCE = 15
NAME = str(uuid.uuid4())


class Eager(MessagingHandler):
    def __init__(self):
        super().__init__()
        self.sent = self.accepted = self.settled = 0
        self.is_over = self.is_sent = False

    def on_start(self, event):
        self.container = event.container
        self.connection = event.container.connect(URL, reconnect=False, allowed_mechs='ANONYMOUS')
        self.sender = event.container.create_sender(self.connection, ADDRESS)
        event.container.schedule(SECONDS, self)

    def on_timer_task(self, event):
        if self.is_over:
            self.connection.close()
            return
        self.is_over = True
        self.timer = self.container.schedule(PATIENCE, self)
        self.on_sendable(event)

    def on_sendable(self, event):
        while self.sender.credit and not self.is_sent:
            self.sender.send(Message(body='end' if self.is_over else self.sent, subject=NAME))
            self.sent += 1
            self.is_sent = self.is_over

    def on_accepted(self, event):
        self.accepted += 1

    def on_settled(self, event):
        self.settled += 1
        if self.is_sent and self.settled == self.sent:
            self.timer.cancel()
            self.connection.close()


eager = Eager()
Container(eager).run()
print(json.dumps({'sent': eager.sent, 'accepted': eager.accepted}))
