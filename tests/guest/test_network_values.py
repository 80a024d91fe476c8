"""TCP and UDP over the loopback interface, seen through what is inlined into tcp_v4_rcv and its neighbours.

Packets are received in whatever process is interrupted, so nothing is filtered by process: the guest has no other
traffic, and every hit must be one of ours.
"""

from __future__ import annotations

import socket
import struct
from collections import Counter
from typing import Any

import pytest

from tests.guest.tracing import VMLINUX, end, tracing

FUNCTIONS = ("__inet_lookup_skb", "__inet_lookup", "inet_lookup_listener", "tcp_filter", "__udp4_lib_lookup_skb")
VALUES = "sport,dport,saddr,daddr,sk->__sk_common.skc_num,sk->__sk_common.skc_dport"
LOOPBACK = struct.unpack("=I", socket.inet_aton("127.0.0.1"))[0]


def exchange(server: socket.socket, port: int) -> None:
    """A connection from ``port`` that the server's end closes first, so that this end is in TIME-WAIT afterwards."""
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        client.bind(("127.0.0.1", port))
        client.connect(server.getsockname())
        accepted, _ = server.accept()
        with accepted:
            client.sendall(b"question")
            assert accepted.recv(100) == b"question"
            accepted.sendall(b"answer")
            assert client.recv(100) == b"answer"
        assert client.recv(100) == b""


def ports(hit: dict[str, Any]) -> tuple[int | None, int | None]:
    """Source and destination of a packet, as far as the hit has them."""
    values = hit["args"]
    source, destination = values.get("sport"), values.get("dport")
    return source and socket.ntohs(source), destination and socket.ntohs(destination)


def check_loopback(*options: str) -> None:
    """Trace two connections and some datagrams; hold ports and addresses against what the sockets say."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(type=socket.SOCK_DGRAM) as receiver,
        socket.socket(type=socket.SOCK_DGRAM) as sender,
    ):
        there, here = server.getsockname()[1], 41234
        receiver.bind(("127.0.0.1", 0))
        sender.bind(("127.0.0.1", 0))
        arguments = (*FUNCTIONS, "--args", VALUES, "--inline-only", "-k", VMLINUX, *options)
        with tracing(*arguments) as trace:
            # the second connection finds what is left of the first one
            exchange(server, here)
            exchange(server, here)
            for _ in range(3):
                sender.sendto(b"datagram", receiver.getsockname())
                receiver.recv(100)
            hits = end(trace)
        datagram = sender.getsockname()[1], receiver.getsockname()[1]
    by_function: dict[str, list[dict[str, Any]]] = {function: [] for function in FUNCTIONS}
    for hit in hits:
        if hit["symbol"] in ("tcp_v4_rcv", "__udp4_lib_rcv"):
            by_function[hit["function"]].append(hit)
    both_ways = {(here, there), (there, here)}
    packets = Counter(ports(hit) for hit in by_function["__inet_lookup_skb"])
    assert set(packets) == both_ways
    # connecting, what was said, and the end: at least three packets of each side in each connection
    assert min(packets.values()) >= 6
    looked_up = [ports(hit) for hit in by_function["__inet_lookup"]]
    assert looked_up
    assert {source for source, _ in looked_up} <= {here, there}
    assert all(destination is None or (source, destination) in both_ways for source, destination in looked_up)
    assert [ports(hit) for hit in by_function["inet_lookup_listener"]] == [(here, there)]
    lookups = (*by_function["__inet_lookup"], *by_function["inet_lookup_listener"])
    assert {hit["args"][name] for hit in lookups for name in ("saddr", "daddr") if name in hit["args"]} == {LOOPBACK}
    filtered = [hit["args"] for hit in by_function["tcp_filter"] if len(hit["args"]) == 2]
    assert filtered
    for values in filtered:
        pair = values["sk->__sk_common.skc_num"], socket.ntohs(values["sk->__sk_common.skc_dport"])
        assert pair in both_ways | {(there, 0)}
    assert [ports(hit) for hit in by_function["__udp4_lib_lookup_skb"]] == [datagram] * 3
    shown = sum(len(hit["args"]) for found in by_function.values() for hit in found)
    print(f"{shown} values in {len(hits)} hits; {dict(packets)}")


@pytest.mark.guest(kaslr=(True, False), timeout=400)
def test_ports_and_addresses_of_packets_are_those_of_the_sockets() -> None:
    check_loopback()


@pytest.mark.guest(root="bcc", timeout=400)
def test_ports_and_addresses_by_bpf_programs_are_those_of_the_sockets() -> None:
    check_loopback("--backend", "bcc")
