"""Flower as a `Network`: a coordinator on this machine, and the ServerApp that carries for it."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Mapping
from pathlib import Path

from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_public_key,
    load_ssh_public_key,
)

from sordino.core.errors import SordinoError
from sordino.core.files import sha256
from sordino.federation import wire
from sordino.federation.flower.programs import Link
from sordino.federation.operator.folder import Card

_START_SECONDS = 180.0
_MARGIN_SECONDS = 30.0


def key_hash(text: str) -> str:
    """The identity of a node: a hash of its public key, however that is written."""
    data = text.encode()
    key = load_ssh_public_key(data) if text.startswith("ecdsa-") else load_pem_public_key(data)
    return sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))


class Relay:
    """Carries messages through a SuperLink.

    The ServerApp may die at any time: another one is started, and what was not answered is sent again.
    """

    def __init__(self, link: Link, cards: Mapping[str, Card], folder: Path) -> None:
        self._link = link
        self._names = {key_hash(card.node_key): name for name, card in cards.items()}
        self._path = folder / "relay.sock"
        self._path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(self._path))
        self._path.chmod(0o600)
        self._listener.listen(1)
        self._relay: socket.socket | None = None
        self._run: str | None = None

    def online(self) -> set[str]:
        """The enrolled sites whose nodes are connected."""
        return set(self._nodes())

    def exchange(self, asked: Mapping[str, bytes], seconds: float) -> dict[str, bytes]:
        """Sends and collects; starts over for what is missing if the ServerApp dies."""
        deadline = time.monotonic() + seconds
        answers: dict[str, bytes] = {}
        while set(answers) < set(asked) and time.monotonic() < deadline:
            missing = {name: data for name, data in asked.items() if name not in answers}
            try:
                nodes = self._nodes()
                self._collect(
                    {nodes[name]: name for name in missing if name in nodes}, missing, deadline, answers
                )
                break
            except (OSError, ValueError):
                self._hang_up()
                time.sleep(1.0)
        return answers

    def close(self) -> None:
        """Ends the ServerApp and removes the socket."""
        with contextlib.suppress(OSError):
            if self._relay is not None:
                wire.send(self._relay, json.dumps({"do": "end"}).encode())
        self._hang_up()
        self._listener.close()
        self._path.unlink(missing_ok=True)

    def _collect(
        self, there: dict[str, str], asked: Mapping[str, bytes], deadline: float, answers: dict[str, bytes]
    ) -> None:
        if not there:
            return
        relay = self._connected()
        seconds = max(deadline - time.monotonic(), 1.0)
        request = {"do": "exchange", "to": list(there), "seconds": seconds}
        relay.settimeout(seconds + _MARGIN_SECONDS)
        wire.send(relay, json.dumps(request).encode(), *(asked[name] for name in there.values()))
        while "done" not in (said := json.loads(wire.receive(relay))):
            answers[there[said["from"]]] = wire.receive(relay)

    def _nodes(self) -> dict[str, str]:
        """The node of each enrolled site that is connected."""
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                relay = self._connected()
                wire.send(relay, json.dumps({"do": "nodes"}).encode())
                listed: list[list[str]] = json.loads(wire.receive(relay))
                known = ((self._names.get(key_hash(key)), node) for node, key in listed if key)
                return {name: node for name, node in known if name is not None}
            except (OSError, ValueError):
                self._hang_up()
                if time.monotonic() > deadline:
                    raise

    def _connected(self) -> socket.socket:
        """The ServerApp's connection; a new one is started as often as it takes."""
        deadline = time.monotonic() + _START_SECONDS
        while self._relay is None:
            try:
                if self._run is not None:
                    self._link.stop_relay(self._run)
                self._run = self._link.start_relay(self._path)
                self._listener.settimeout(_MARGIN_SECONDS)
                self._relay, _ = self._listener.accept()
                self._relay.settimeout(_MARGIN_SECONDS)
            except (SordinoError, TimeoutError, OSError) as error:
                if time.monotonic() > deadline:
                    raise SordinoError(
                        f"the SuperLink cannot be reached ({error}); is `sordino federation serve` running?"
                    ) from error
                time.sleep(2.0)
        return self._relay

    def _hang_up(self) -> None:
        if self._relay is not None:
            self._relay.close()
            self._relay = None
