#!/usr/bin/python3
"""Three messages from a sender to a receiver, through the router; then a request and its reply.

    examples/hello.py [HOST:PORT]

It needs Debian's python3-qpid-proton. Sender and receiver meet at an address that nobody declared: the router
has no queues, so the sender may send once the receiver takes messages, and "accepted" is the receiver's word.
"""

import sys

from proton import Message
from proton.handlers import MessagingHandler
from proton.reactor import Container


class Hello(MessagingHandler):
    def __init__(self, url):
        super().__init__()
        self.url = url
        self.to_send = ["one", "two", "three"]
        self.outcomes = 0

    def on_start(self, event):
        connection = event.container.connect(self.url)
        event.container.create_receiver(connection, "greetings")
        self.sender = event.container.create_sender(connection, "greetings")
        self.replies = event.container.create_receiver(connection, None, dynamic=True)
        self.requests = event.container.create_receiver(connection, "service")

    def on_sendable(self, event):
        while event.sender == self.sender and self.to_send and event.sender.credit:
            event.sender.send(Message(body=self.to_send.pop(0)))

    def on_message(self, event):
        link, message = event.receiver, event.message
        if link == self.requests:
            print(f"service: asked {message.body!r}")
            self.send_to(event, message.reply_to, Message(body=message.body.upper(), correlation_id=message.id))
        elif link == self.replies:
            print(f"client: the reply is {message.body!r}")
            event.connection.close()
        else:
            print(f"receiver: {message.body!r}")

    def on_accepted(self, event):
        if event.link == self.sender:
            self.outcomes += 1
            print(f"sender: message {self.outcomes} was accepted")
            if self.outcomes == 3:
                reply_to = self.replies.remote_source.address
                self.send_to(event, "service", Message(id=1, body="hello", reply_to=reply_to))

    @staticmethod
    def send_to(event, address, message):
        event.container.create_sender(event.connection, address).send(message)

    def on_transport_error(self, event):
        sys.exit(f"no router at {self.url}: {event.transport.condition.description}")


Container(Hello(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:5672")).run()
