#!/usr/bin/env python3
"""Writes proton_types.txt: values and messages as qpid-proton encodes them, for tests/wire_golden.rs.

Needs Debian's python3-qpid-proton. One line each: a name that the test knows, and the bytes in hex.
"""

import uuid

from proton import Array, Data, Described, Message, UNDESCRIBED, symbol, timestamp, char, byte, ubyte, short, ushort, int32, uint, float32, decimal32, decimal64, decimal128, ulong

ID = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")
VALUES = {
    "null": None,
    "true": True,
    "false": False,
    "ubyte-255": ubyte(255),
    "byte-minus-128": byte(-128),
    "ushort-65535": ushort(65535),
    "short-minus-2": short(-2),
    "uint-0": uint(0),
    "uint-255": uint(255),
    "uint-256": uint(256),
    "uint-max": uint(4294967295),
    "int-minus-1": int32(-1),
    "int-127": int32(127),
    "int-minus-129": int32(-129),
    "ulong-0": ulong(0),
    "ulong-255": ulong(255),
    "ulong-max": ulong(18446744073709551615),
    "long-minus-128": -128,
    "long-min": -9223372036854775808,
    "float-1.5": float32(1.5),
    "double-minus-0.1": -0.1,
    "decimal32": decimal32(0x01020304),
    "decimal64": decimal64(0x0102030405060708),
    "decimal128": decimal128(bytes(range(16))),
    "char-A": char("A"),
    "char-emoji": char("\U0001f600"),
    "timestamp": timestamp(1311704463521),
    "timestamp-minus-1": timestamp(-1),
    "uuid": ID,
    "binary-empty": b"",
    "binary-255": b"b" * 255,
    "binary-256": b"b" * 256,
    "string-empty": "",
    "string-utf8": "grüß dich",
    "string-256": "s" * 256,
    "symbol": symbol("amqp:link:stolen"),
    "symbol-256": symbol("y" * 256),
    "list-empty": [],
    "list": [uint(1), "two", None, [True]],
    "list-300-nulls": [None] * 300,
    "map": {symbol("a"): uint(1), "b": {uint(2): b"c"}},
    "array-int": Array(UNDESCRIBED, Data.INT, 1, -2, 300),
    "array-boolean": Array(UNDESCRIBED, Data.BOOL, True, False),
    "array-symbol": Array(UNDESCRIBED, Data.SYMBOL, symbol("one"), symbol("three")),
    "array-string-described": Array(symbol("d"), Data.STRING, "x", "yz"),
    "array-of-lists": Array(UNDESCRIBED, Data.LIST, [uint(1)], []),
    "described": Described(ulong(0x28), ["q"]),
    "described-symbol": Described(symbol("x:y"), "z"),
    "described-twice": Described(ulong(300), Described(symbol("in"), True)),
}


def encoded(value):
    data = Data()
    if isinstance(value, Array):
        data.put_py_array(value)
    else:
        data.put_object(value)
    return data.encode()


def messages():
    yield "message-plain", Message(body="hello")
    yield "message-full", Message(
        body=b"binary", inferred=True, id=ID, user_id=b"user", address="queue", subject="subject",
        reply_to="reply/1", correlation_id=ulong(7), content_type=symbol("text/plain"), content_encoding=symbol("gzip"),
        expiry_time=2.5, creation_time=1.5, group_id="group", group_sequence=3, reply_to_group_id="back", durable=True,
        priority=7, ttl=5.0, first_acquirer=True, delivery_count=2, properties={"p": 1, "q": True},
        annotations={symbol("x-opt-b"): 4}, instructions={symbol("x-opt-i"): "d"})
    yield "message-sequence", Message(body=[1, 2], inferred=True, address="amqp:/q")


def main():
    with open("proton_types.txt", "w") as out:
        for name, value in VALUES.items():
            out.write(f"{name} {encoded(value).hex()}\n")
        for name, message in messages():
            out.write(f"{name} {message.encode().hex()}\n")


if __name__ == "__main__":
    main()
