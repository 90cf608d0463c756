#!/usr/bin/env python3
"""A sender of QUIC by aioquic: the server sends zeros for as long as the client listens.

    quic_aio.py serve ADDRESS PORT reno|cubic CERTIFICATE KEY
    quic_aio.py fetch ADDRESS PORT SECONDS

Used by senders.py, beside it.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from aioquic.asyncio import QuicConnectionProtocol, connect, serve
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import QuicEvent, StreamDataReceived

WINDOW = 64 << 20
"""The receiver must not be the limit."""
BUFFER = 1 << 20
"""So much waits in the sender's stream; it is filled up again each 20 ms."""


def configuration(**more: Any) -> QuicConfiguration:
    return QuicConfiguration(
        alpn_protocols=["zeros"], max_data=WINDOW, max_stream_data=WINDOW, **more
    )


class Sender(QuicConnectionProtocol):
    """Keeps the first stream of its connection full."""

    filling: asyncio.Task[None] | None = None

    def quic_event_received(self, event: QuicEvent) -> None:
        if isinstance(event, StreamDataReceived) and self.filling is None:
            self.filling = asyncio.ensure_future(self._fill(event.stream_id))

    async def _fill(self, stream: int) -> None:
        sender = self._quic._streams[stream].sender  # its length has no public name
        while self._quic._close_event is None:
            missing = BUFFER - len(sender._buffer)
            if missing > 0:
                self._quic.send_stream_data(stream, bytes(missing))
                self.transmit()
            await asyncio.sleep(0.02)


async def send(address: str, port: int, algorithm: str, certificate: str, key: str) -> None:
    config = configuration(is_client=False, congestion_control_algorithm=algorithm)
    config.load_cert_chain(certificate, key)
    await serve(address, port, configuration=config, create_protocol=Sender)
    await asyncio.Event().wait()


async def fetch(address: str, port: int, seconds: float) -> None:
    config = configuration(is_client=True, verify_mode=0)
    async with connect(address, port, configuration=config) as client:
        _, writer = await client.create_stream()
        writer.write(b"send")
        await asyncio.sleep(seconds)


def main() -> None:
    mode, address, port, *rest = sys.argv[1:]
    if mode == "serve":
        asyncio.run(send(address, int(port), *rest))
    else:
        asyncio.run(fetch(address, int(port), float(rest[0])))


if __name__ == "__main__":
    main()
