"""Both ends of a rogue operator's app. They do what the test at `socket` says, and know nothing of Sordino."""

import json
import os
import socket
import time

from flwr.app import Array, ArrayRecord, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

from rogue_app import acts, wire

client = ClientApp()
server = ServerApp()


def packed(value):
    data = json.dumps(value).encode()
    array = Array(dtype="uint8", shape=(len(data),), stype="bytes", data=data)
    return RecordDict({"order": ArrayRecord({"bytes": array})})


def unpacked(content):
    return json.loads(content["order"]["bytes"].data)


@client.train("act")
def act(message, context):
    """One act at a site, as the SuperNode's user."""
    order = unpacked(message.content)
    agent = str(context.node_config["agent"])
    done = getattr(acts, order["act"])(agent, **order["given"])
    return Message(packed({"user": os.geteuid(), "done": done}), reply_to=message)


@server.main()
def main(grid, context):
    """Orders from the test to the nodes, and what became of them."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as test:
        test.connect(str(context.run_config["socket"]))
        nodes = {str(node.name): node.node_id for node in grid.get_nodes()}
        wire.send(test, json.dumps(sorted(nodes)).encode())
        while True:
            orders = json.loads(wire.receive(test))
            if not orders:
                return
            sent = [
                Message(packed(order), dst_node_id=nodes[name], message_type="train.act", ttl=300.0)
                for name, order in orders.items()
            ]
            waiting = dict(zip(grid.push_messages(sent), orders, strict=True))
            done, deadline = {}, time.monotonic() + 300.0
            while waiting and time.monotonic() < deadline:
                for reply in grid.pull_messages(list(waiting)):
                    name = waiting.pop(reply.metadata.reply_to_message_id)
                    failed = reply.has_error()
                    done[name] = {"error": str(reply.error)} if failed else unpacked(reply.content)
                time.sleep(0.2)
            wire.send(test, json.dumps(done).encode())
