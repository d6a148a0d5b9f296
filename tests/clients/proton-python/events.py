#!/usr/bin/python3
"""A backlog made by a consumer that stops settling, and what a receiver of threshold events hears of it.

usage: events.py amqp://HOST:PORT ADDRESS UP
The address alerts at UP messages, and has recovered at 0. Prints each event as a line of JSON: first the ones of a
subscriber that was there all the time, then the one that a late subscriber hears first."""
import json
import sys

from proton import Delivery, Message
from proton.handlers import MessagingHandler
from proton.reactor import Container

URL, ADDRESS, UP = sys.argv[1], sys.argv[2], int(sys.argv[3])
EVENTS = '$events.threshold'


class Backlog(MessagingHandler):
    def __init__(self):
        super().__init__(prefetch=0, auto_accept=False, auto_settle=False)
        self.held = []
        self.sent = 0
        self.late = None
        self.failed = None

    def on_start(self, event):
        self.container = event.container
        self.connection = event.container.connect(URL, reconnect=False, allowed_mechs='ANONYMOUS')
        self.early = event.container.create_receiver(self.connection, EVENTS)
        self.early.flow(10)
        self.timer = event.container.schedule(20, self)

    def on_timer_task(self, event):
        self.end('timeout')

    def on_link_opened(self, event):
        if event.link == self.early:
            self.consumer = self.container.create_receiver(self.connection, ADDRESS)
            self.consumer.flow(UP)
        elif event.link == self.consumer:
            self.sender = self.container.create_sender(self.connection, ADDRESS)

    def on_sendable(self, event):
        while event.sender.credit and self.sent < UP:
            event.sender.send(Message(body=self.sent))
            self.sent += 1

    def on_message(self, event):
        if event.receiver == self.consumer:
            self.held.append(event.delivery)
            return
        body = event.message.body
        print(json.dumps(dict(body, subject=event.message.subject, late=event.receiver == self.late,
                              timestamp=int(body['timestamp']))), flush=True)
        event.delivery.update(Delivery.ACCEPTED)
        event.delivery.settle()
        if body['event'] == 'threshold-crossed-increasing' and event.receiver == self.early:
            # It backed up: somebody comes to look.
            self.late = self.container.create_receiver(self.connection, EVENTS, name='late')
            self.late.flow(10)
        elif event.receiver == self.late and body.get('replayed'):
            # The consumer goes on.
            for delivery in self.held:
                delivery.update(Delivery.ACCEPTED)
                delivery.settle()
            self.held = []
        elif event.receiver == self.late:
            self.end(None)

    def on_transport_error(self, event):
        self.end(str(event.transport.condition))

    def on_link_error(self, event):
        self.end(str(event.link.remote_condition))

    def end(self, failed):
        self.failed = failed
        self.timer.cancel()
        self.connection.close()


backlog = Backlog()
Container(backlog).run()
if backlog.failed:
    print('FAIL', backlog.failed)
    sys.exit(1)
