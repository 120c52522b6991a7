"""The only file that knows Flower (tried with 1.41): bytes from the operator to the agents, and back.

Neither end imports PyTorch or Sordino. The ServerApp asks the operator's coordinator what to carry; the ClientApp
hands what it got to the site's agent. Whatever fails is told by a word, never by the text of an exception.
"""

from __future__ import annotations

import json
import socket
import time

from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from sordino_app import wire

AGENT_SECONDS = 3600.0
POLL_SECONDS = 0.2
RETRY_SECONDS = 2.0
TRIES = 6

client = ClientApp()
server = ServerApp()


def pack(data: bytes) -> ArrayRecord:
    """Bytes as Flower carries them well: an array, which it cuts into pieces."""
    return ArrayRecord({"bytes": Array(dtype="uint8", shape=(len(data),), stype="bytes", data=data)})


@client.train("relay")
def relay(message: Message, context: Context) -> Message:
    """One instruction to the agent, its answer back."""
    content = RecordDict()
    try:
        request = message.content["payload"]["bytes"].data
        answer = wire.ask(str(context.node_config["agent"]), request, AGENT_SECONDS)
        content["payload"] = pack(answer)
        content["said"] = ConfigRecord({"status": "ok"})
    except Exception:  # its text could name what lies on this machine
        content["said"] = ConfigRecord({"status": "unreachable"})
    return Message(content, reply_to=message)


@server.main()
def main(grid: Grid, context: Context) -> None:
    """Does what the coordinator asks until it hangs up."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as coordinator:
        coordinator.connect(str(context.run_config["socket"]))
        while True:
            request = json.loads(wire.receive(coordinator))
            if request["do"] == "end":
                return
            if request["do"] == "nodes":
                nodes = [[str(node.node_id), _text(node.public_key)] for node in grid.get_nodes()]
                wire.send(coordinator, json.dumps(nodes).encode())
            else:
                payloads = [wire.receive(coordinator) for _ in request["to"]]
                _exchange(grid, coordinator, request, payloads)


def _exchange(grid: Grid, coordinator: socket.socket, request: dict, payloads: list[bytes]) -> None:
    """Sends each payload to its node; answers go back as they come, then the word `done`.

    A node whose answer fails gets the same again while it is connected: an agent answers a repeat alike.
    """
    payload_of = dict(zip(request["to"], payloads, strict=True))
    deadline = time.monotonic() + float(request["seconds"])
    tries = dict.fromkeys(payload_of, 0)
    waiting: dict[str, str] = {}
    again = list(payload_of)
    while (again or waiting) and time.monotonic() < deadline:
        for node in again:
            tries[node] += 1
        waiting |= _pushed(grid, {node: payload_of[node] for node in again}, deadline - time.monotonic())
        failed: list[str] = []
        for reply in grid.pull_messages(list(waiting)) if waiting else ():
            node = waiting.pop(reply.metadata.reply_to_message_id, None)
            if node is None:
                continue
            if reply.has_error() or "payload" not in reply.content:
                failed.append(node)
                continue
            wire.send(coordinator, json.dumps({"from": node}).encode())
            wire.send(coordinator, reply.content["payload"]["bytes"].data)
        time.sleep(RETRY_SECONDS if failed else POLL_SECONDS)
        here = {str(node.node_id) for node in grid.get_nodes()} if failed else set()
        again = [node for node in failed if node in here and tries[node] < TRIES]
    wire.send(coordinator, json.dumps({"done": True}).encode())


def _pushed(grid: Grid, payloads: dict[str, bytes], seconds: float) -> dict[str, str]:
    """Sends payloads; the node of each message."""
    messages = [
        Message(
            RecordDict({"payload": pack(payload)}),
            dst_node_id=int(node),
            message_type="train.relay",
            ttl=max(seconds, 1.0),
        )
        for node, payload in payloads.items()
    ]
    sent = grid.push_messages(messages) if messages else ()
    return {message_id: node for node, message_id in zip(payloads, sent, strict=True) if message_id}


def _text(key: bytes | str) -> str:
    return key.decode() if isinstance(key, bytes) else str(key)
