#!/usr/bin/python3
"""A consumer that takes a fixed time for each message.

usage: paced.py amqp://HOST:PORT ADDRESS MICROSECONDS WINDOW SECONDS [SENDERS]
Ends when the message 'end' of each of SENDERS (1) has come, or after SECONDS. Prints a line of JSON: how many it took, in
how long, and whether each sender's numbers rose by one each and by more than none each."""
import json
import sys
import time

from proton.handlers import MessagingHandler
from proton.reactor import Container

URL, ADDRESS = sys.argv[1:3]
SERVICE, WINDOW, SECONDS = int(sys.argv[3]) / 1e6, int(sys.argv[4]), float(sys.argv[5])
SENDERS = int(sys.argv[6]) if len(sys.argv) > 6 else 1

# It makes up for this much at most: it isn't faster after it had nothing to do.
LAG_MAX = 0.1


class Paced(MessagingHandler):
    def __init__(self):
        super().__init__(prefetch=WINDOW)
        self.taken = 0
        self.ends = 0
        self.last = {}
        self.gapless = self.rising = True
        self.first_at = self.free_at = self.last_at = None

    def on_start(self, event):
        self.connection = event.container.connect(URL, reconnect=False, allowed_mechs='ANONYMOUS')
        event.container.create_receiver(self.connection, ADDRESS)
        self.timer = event.container.schedule(SECONDS, self)

    def on_timer_task(self, event):
        self.connection.close()

    def on_message(self, event):
        now = time.monotonic()
        if self.first_at is None:
            self.first_at = self.free_at = now
        # Absolute times, so that the client's own overhead, and what else the machine does, is part of the service time.
        self.free_at = max(self.free_at, now - LAG_MAX) + SERVICE
        if self.free_at > now:
            time.sleep(self.free_at - now)
        if event.message.body == 'end':
            self.ends += 1
            if self.ends == SENDERS:
                self.timer.cancel()
                self.connection.close()
            return
        sender, number = event.message.subject, event.message.body
        last = self.last.get(sender, -1)
        self.gapless &= number == last + 1
        self.rising &= number > last
        self.last[sender] = number
        self.taken += 1
        self.last_at = time.monotonic()


paced = Paced()
Container(paced).run()
seconds = paced.last_at - paced.first_at if paced.last_at else 0
print(json.dumps({'taken': paced.taken, 'seconds': seconds, 'gapless': paced.gapless, 'rising': paced.rising}))
