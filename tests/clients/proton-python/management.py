#!/usr/bin/python3
"""Management asked by a real client.

usage: management.py SCENARIO HOST PORT
Prints PASS, or FAIL and why; figures in front of PASS where a scenario has some."""
import itertools
import sys
import time
import traceback
import uuid

from proton import Endpoint, Message, Timeout, symbol
from proton.reactor import AtMostOnce
from proton.utils import BlockingConnection, LinkDetached, SyncRequestResponse

SCENARIO, HOST, PORT = sys.argv[1:4]
URL = '%s:%s' % (HOST, PORT)
PREFIX = 'org.apache.qpid.dispatch.'
ADDRESS = PREFIX + 'router.config.address'


def connect():
    return BlockingConnection(URL, timeout=20, allowed_mechs='ANONYMOUS')


class Node:
    def __init__(self, connection=None, address='$management'):
        self.connection = connection or connect()
        self.client = SyncRequestResponse(self.connection, address)

    def call(self, operation, body=None, **properties):
        properties['operation'] = operation
        request = Message(properties=properties)
        request.body = {} if body is None else body
        return self.client.call(request)

    def ok(self, operation, body=None, status=200, **properties):
        response = self.call(operation, body, **properties)
        said = (response.properties['statusCode'], response.properties['statusDescription'])
        assert said[0] == status, said
        return response.body

    def query(self, kind, names=None, **properties):
        body = self.ok('QUERY', {'attributeNames': names or []}, type='org.amqp.management', name='self',
                       entityType=PREFIX + kind, **properties)
        return [dict(zip(body['attributeNames'], row)) for row in body['results']]


def addresses():
    """The same node under all its addresses, with an anonymous sender, and replies to any address."""
    for address in ['$management', '_local/$management', '_topo/0/router.under.test/$management',
                    'amqp:/_topo/0/router.under.test/$management']:
        assert Node(address=address).query('router')[0]['id'] == 'router.under.test', address
    connection = connect()
    sender = connection.create_sender(None)
    replies = connection.create_receiver('replies', credit=10)
    for number, (address, correlation) in enumerate([
            ('$management', 'text'), ('$management', 7), ('_local/$management', uuid.uuid4()),
            ('$management', b'bytes'), ('_topo/0/router.under.test/$management', None)]):
        request = Message(address=address, reply_to='replies', correlation_id=correlation, id=number,
                          properties={'operation': 'GET-ANNOTATIONS'})
        sender.send(request)
        reply = replies.receive()
        assert reply.properties['statusCode'] == 200 and reply.properties['statusDescription'] == 'OK'
        # Without a correlation-id, the message's own id.
        assert reply.correlation_id == (number if correlation is None else correlation), reply.correlation_id
        assert reply.address == 'replies'


def bodies():
    """Requests of every encoding, bad ones included, each with its status; the node answers afterwards."""
    node = Node()
    connection = node.connection
    sender = connection.create_sender('$management', name='requests')
    receiver = connection.create_receiver(None, dynamic=True, credit=100)
    reply_to = receiver.link.remote_source.address

    def ask(body, properties, is_symbol=False):
        request = Message(reply_to=reply_to, correlation_id=1, properties=properties, inferred=is_symbol)
        request.body = body
        sender.send(request)
        reply = receiver.receive()
        return reply.properties['statusCode']

    query = {'operation': 'QUERY', 'entityType': PREFIX + 'router'}
    for body in [{}, None, [], {'attributeNames': []}, {'attributeNames': None}, {'attributeNames': ['id']},
                 {symbol('attributeNames'): [symbol('id')]}, 'text', 7]:
        assert ask(body, query) == 200, body
    assert ask({'attributeNames': 'id'}, query) == 400
    assert ask({'attributeNames': [1]}, query) == 400
    assert ask({'attributeNames': ['nosuch']}, query) == 404
    assert ask({}, {}) == 400
    assert ask({}, None) == 400
    assert ask({}, {'operation': 7}) == 400
    assert ask({}, {'operation': 'nosuch'}) == 501
    assert ask({}, {'operation': 'READ', 'type': 'nosuch', 'name': 'x'}) == 400
    assert ask({}, {'operation': 'READ', 'type': PREFIX + 'listener', 'name': 'x'}) == 404
    assert ask([1, 2], {'operation': 'CREATE', 'type': ADDRESS}) == 400
    assert ask({'nosuch': 1, 'prefix': 'x'}, {'operation': 'CREATE', 'type': ADDRESS}) == 400
    huge = {'key-%d' % number: 'x' * 100 for number in range(1000)}
    assert ask(huge, {'operation': 'CREATE', 'type': ADDRESS}) == 400
    # Longer than a request may be.
    try:
        ask({'prefix': 'x' * 1000000}, {'operation': 'CREATE', 'type': ADDRESS})
        assert False, 'it was taken'
    except Exception as error:
        assert 'REJECTED' in str(error), error
    # Nobody to answer: accepted, and forgotten.
    sender.send(Message(properties=query))
    sender.send(Message())
    assert node.query('router')[0]['addrCount'] > 0


def entities():
    """What is created is there, works, and goes again."""
    node = Node()
    made = node.ok('CREATE', {'prefix': 'shared', 'distribution': 'multicast'}, 201, type=ADDRESS, name='a')
    assert made['prefix'] == 'shared' and made['pattern'] is None and made['distribution'] == 'multicast', made
    assert node.ok('READ', type=ADDRESS, name='a')['distribution'] == 'multicast'
    connection = connect()
    receivers = [connection.create_receiver('shared/x', name=name, credit=10) for name in 'ab']
    sender = connection.create_sender('shared/x', name='s', options=AtMostOnce())
    sender.send(Message(body='for all'))
    assert [receiver.receive().body for receiver in receivers] == ['for all'] * 2
    assert [row['distribution'] for row in node.query('router.address') if row['key'] == 'M0shared/x'] == ['multicast']
    node.ok('DELETE', status=204, type=ADDRESS, name='a')
    assert node.call('READ', type=ADDRESS, name='a').properties['statusCode'] == 404
    connection.create_receiver('shared/y', credit=1)
    assert [row['distribution'] for row in node.query('router.address') if row['key'] == 'M0shared/y'] == ['balanced']

    # Below the range of outgoing connections' ports, and of the routers under test.
    port = str(int(PORT) - 12000)
    listener = {'type': PREFIX + 'listener', 'name': 'l9'}
    made = node.ok('CREATE', {'host': HOST, 'port': port, 'saslMechanisms': 'ANONYMOUS'}, 201, **listener)
    assert made['identity'] == 'listener/%s:%s:l9' % (HOST, port) and made['role'] == 'normal', made
    other = BlockingConnection('%s:%s' % (HOST, port), timeout=10, allowed_mechs='ANONYMOUS')
    there = Node(other)
    assert there.query('router')[0]['id'] == 'router.under.test'
    assert node.call('CREATE', {'host': HOST, 'port': port}, **dict(listener, name='l8')).properties['statusCode'] == 400
    node.ok('DELETE', status=204, **listener)
    # Its connections live on.
    assert there.query('router')[0]['id'] == 'router.under.test'
    try:
        BlockingConnection('%s:%s' % (HOST, port), timeout=5)
        raise AssertionError('a listener that was deleted takes connections')
    except AssertionError:
        raise
    except Exception:
        pass


def connections():
    """An operator closes a connection, traces another, detaches a link, sets an address's marks."""
    node = Node()
    victim = BlockingConnection(URL, timeout=10, properties={'who': 'victim', 'number': 6451}, allowed_mechs='ANONYMOUS')
    receiver = victim.create_receiver('watched', name='the link', credit=1)
    row = [row for row in node.query('connection') if row['properties'].get('number') == 6451][0]
    assert row['properties']['who'] == 'victim' and row['role'] == 'normal' and row['dir'] == 'in', row
    kind = PREFIX + 'connection'
    assert node.ok('READ', type=kind, identity=row['identity'])['container'] == row['container']
    changed = node.ok('UPDATE', {'enableProtocolTrace': True}, type=kind, identity=row['identity'])
    assert changed['enableProtocolTrace'] is True
    marks = node.ok('UPDATE', {'alertCountUp': 10}, type=PREFIX + 'router.address', identity='M0watched')
    assert (marks['alertCountUp'], marks['alertCountDown']) == (10, 5), marks
    wrong = node.call('UPDATE', {'alertCountDown': 10}, type=PREFIX + 'router.address', identity='M0watched')
    assert wrong.properties['statusCode'] == 400
    link = [link for link in node.query('router.link') if link['linkName'] == 'the link'][0]
    assert link['owningAddr'] == 'M0watched' and link['connectionId'] == row['identity'], link
    node.ok('UPDATE', {'adminStatus': 'deleted'}, type=PREFIX + 'router.link', identity=link['identity'])
    try:
        receiver.receive(timeout=10)
        raise AssertionError('a link that was detached goes on')
    except LinkDetached:
        pass
    lines = node.ok('GET-LOG')
    assert any(line[0] == 'PROTOCOL' for line in lines), lines[-10:]
    closed = node.ok('UPDATE', {'adminStatus': 'deleted'}, type=kind, identity=row['identity'])
    assert (closed['adminStatus'], closed['operStatus']) == ('deleted', 'closing'), closed
    try:
        victim.wait(lambda: victim.conn.state & Endpoint.REMOTE_CLOSED, timeout=10)
    except Exception as error:
        assert 'forced' in str(error) or 'closed' in str(error), error
    for _ in range(50):
        if not [one for one in node.query('connection') if one['identity'] == row['identity']]:
            break
        time.sleep(0.1)
    else:
        raise AssertionError('a connection that was closed is still there')
    assert node.call('UPDATE', {'adminStatus': 'deleted'}, type=kind, identity='99999').properties['statusCode'] == 400


def settled():
    """Requests that are sent settled are answered like others, and more of them than may be here at a time."""
    connection = connect()
    sender = connection.create_sender('$management', options=AtMostOnce())
    receiver = connection.create_receiver(None, dynamic=True, credit=100)
    for number in range(100):
        request = Message(reply_to=receiver.link.remote_source.address, correlation_id=number)
        request.properties = {'operation': 'GET-TYPES'}
        sender.send(request)
        assert receiver.receive(timeout=10).correlation_id == number


def marks():
    """Addresses that are there have the marks of the rule that is for them, as new ones would."""
    node = Node()
    names = ['orders.eu', 'orders.eu.fast', 'orders.eu.slow', 'other']
    receivers = [node.connection.create_receiver(name, credit=1) for name in names]

    def shown():
        rows = [node.ok('READ', type=PREFIX + 'router.address', identity='M0' + name) for name in names]
        return [(row['alertCountUp'], row['alertSizeUp']) for row in rows]

    none = (None, None)
    node.ok('UPDATE', {'alertCountUp': 7}, type=PREFIX + 'router.address', identity='M0other')
    node.ok('CREATE', {'pattern': 'orders.eu.fast', 'alertCountUp': 5}, status=201, type=ADDRESS)
    assert shown() == [none, (5, None), none, (7, None)], shown()
    node.ok('CREATE', {'prefix': 'orders', 'alertCountUp': 10, 'alertSizeUp': 1000}, status=201, type=ADDRESS)
    assert shown() == [(10, 1000), (5, None), (10, 1000), (7, None)], shown()
    node.ok('CREATE', {'pattern': 'orders.*', 'alertSizeUp': 500}, status=201, type=ADDRESS)
    assert shown() == [(None, 500), (5, None), (10, 1000), (7, None)], shown()
    node.ok('CREATE', {'pattern': 'orders.*.slow'}, status=201, type=ADDRESS)
    assert shown() == [(None, 500), (5, None), none, (7, None)], shown()
    for receiver in receivers:
        receiver.close()


def in_turn(connection, count):
    """Links to management, each closed before the next one comes."""
    for number in range(count):
        sender = connection.create_sender('$management', name='sender-%d' % number)
        yield sender
        sender.close()


def rejections(senders, reply_to):
    """How many of the requests, one on each of these links, are rejected."""
    rejected = 0
    for number, sender in enumerate(senders):
        try:
            sender.send(Message(reply_to=reply_to, correlation_id=number, properties={'operation': 'GET-TYPES'}))
        except Exception as error:
            assert 'SendException' in type(error).__name__, error
            rejected += 1
    return rejected


def slow():
    """A requester that doesn't take its answers has its requests rejected, and holds nobody else up."""
    connection = connect()
    sender = connection.create_sender('$management')
    receiver = connection.create_receiver(None, dynamic=True, credit=0)
    reply_to = receiver.link.remote_source.address
    rejected = rejections([sender] * 200, reply_to)
    assert rejected >= 100, rejected
    assert Node().query('router')[0]['id'] == 'router.under.test'
    # What was answered before is still there.
    receiver.flow(1000)
    for number in range(200 - rejected):
        assert receiver.receive(timeout=10).correlation_id == number
    sender.send(Message(reply_to=reply_to, correlation_id='again', properties={'operation': 'GET-TYPES'}))
    assert receiver.receive(timeout=10).correlation_id == 'again'
    # A new link for each request is the same requester; what credit is left takes the first answers.
    links = in_turn(connection, 500)
    assert rejections(itertools.islice(links, 200), reply_to) == 0
    receiver.link.drain(0)
    assert rejections(links, reply_to) >= 200


def many():
    """10 000 addresses are created in 10 s, and read in pages of 500."""
    node = Node()
    count = 10000
    sender = node.connection.create_sender('$management', name='requests')
    receiver = node.connection.create_receiver(None, dynamic=True, credit=1000)
    reply_to = receiver.link.remote_source.address
    begin = time.monotonic()
    sent = done = 0
    while done < count:
        while sent < count and sent - done < 500 and sender.link.credit > 0:
            request = Message(reply_to=reply_to, correlation_id=sent, properties={
                'operation': 'CREATE', 'type': ADDRESS, 'name': 'address-%d' % sent})
            request.body = {'pattern': 'many.%d' % sent, 'distribution': 'closest'}
            sender.link.send(request)
            sent += 1
        reply = receiver.receive(timeout=20)
        assert reply.properties['statusCode'] == 201, reply.properties
        receiver.link.flow(1)
        done += 1
    created = time.monotonic() - begin
    begin = time.monotonic()
    names, offset = set(), 0
    while True:
        rows = node.query('router.config.address', ['name', 'pattern', 'distribution'], offset=offset, count=500)
        names.update(row['name'] for row in rows)
        assert all(row['distribution'] == 'closest' for row in rows)
        if len(rows) < 500:
            break
        offset += 500
    assert len(names) == count, len(names)
    print('created in %.2f s, read in %.2f s' % (created, time.monotonic() - begin))
    assert created < 10, created


def large():
    """All of many rows at once: one message, and the same rows in pages."""
    node = Node()
    connection = connect()
    links = [connection.create_receiver('large.%d' % number, name=str(number), credit=0) for number in range(3000)]
    assert len(links) == 3000
    begin = time.monotonic()
    # Few columns: the client's library decodes at most 65 535 values of a message (PROTON-1846).
    rows = node.query('router.address', ['key', 'depthMessages'])
    print('%d addresses in %.2f s' % (len(rows), time.monotonic() - begin))
    whole = set(row['key'] for row in rows if row['key'].startswith('M0large.'))
    assert len(whole) == 3000
    paged, offset = [], 0
    while True:
        page = node.query('router.address', ['key'], offset=offset, count=500)
        paged += [row['key'] for row in page if row['key'].startswith('M0large.')]
        if len(page) < 500:
            break
        offset += 500
    assert len(paged) == 3000 and set(paged) == whole
    everything = node.ok('QUERY', {'attributeNames': ['type']}, type='org.amqp.management', name='self')
    kinds = [dict(zip(everything['attributeNames'], row))['type'] for row in everything['results']]
    router = node.query('router')[0]
    assert kinds.count(PREFIX + 'router.address') == router['addrCount']
    assert kinds.count(PREFIX + 'router.link') == router['linkCount']


if __name__ == '__main__':
    try:
        globals()[SCENARIO]()
        print('PASS')
    except (Exception, Timeout):
        traceback.print_exc()
        print('FAIL')
        sys.exit(1)
