"""The agent's door: who is answered, when, and under which users it opens at all."""

from __future__ import annotations

import os
import pwd
import socket
import stat
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.unit.federation.sites import closed, opened, site, step, steps, terms

from sordino.accounting.accountants import PldAccountant, Spend
from sordino.core.errors import UsageError
from sordino.federation import messages, wire
from sordino.federation.site import service
from sordino.federation.site.config import Process
from sordino.federation.site.log import read_log

ROOT = os.geteuid() == 0
OTHER = next(user for user in pwd.getpwall() if user.pw_uid not in (0, os.geteuid()))


@contextmanager
def serving(path, answer, caller=None, **terms):
    door = service.Service(
        path / "agent.sock",
        Process(**terms),
        os.geteuid() if caller is None else caller,
        answer,
        lambda: "running",
    )
    thread = threading.Thread(target=door.serve)
    thread.start()
    try:
        yield str(path / "agent.sock")
    finally:
        door.stop()
        thread.join()


def test_the_caller_is_answered_and_may_ask_for_health(tmp_path):
    with serving(tmp_path, lambda data: data[::-1], pace_seconds=0.0) as door:
        assert wire.ask(door, b"abc", 5) == b"cba"
        assert wire.ask(door, service.HEALTH, 5).startswith(b"sordino ")
        assert stat.S_IMODE(Path(door).stat().st_mode) == 0o600
    assert not (tmp_path / "agent.sock").exists()


def test_another_user_is_not_answered(tmp_path):
    """The kernel says who is at the other end; what this process is does not help it."""
    asked = []
    with (
        serving(tmp_path, asked.append, caller=OTHER.pw_uid)
        if ROOT
        else serving_as_if(tmp_path, asked) as door,
        pytest.raises((ConnectionError, TimeoutError)),
    ):
        wire.ask(door, b"give me the data", 5)
    assert asked == []


def serving_as_if(path, asked):
    """Without root the group cannot be given away: the caller is another user all the same."""
    pytest.MonkeyPatch().setattr(os, "chown", lambda *_: None)
    return serving(path, asked.append, caller=OTHER.pw_uid)


def as_user(uid, gid, work, groups=()):
    """What `work` returns in a forked process of another user, or the name of what it raises."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.setgroups(groups)
            os.setgid(gid)
            os.setuid(uid)
            said = work()
        except BaseException as error:
            said = type(error).__name__.encode()
        os.write(write, said)
        os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with os.fdopen(read, "rb") as file:
        return file.read()


@pytest.mark.skipif(not ROOT, reason="only root can become another user")
def test_users_are_told_apart_by_the_kernel():
    """The SuperNode's user is answered, a third user does not even reach the socket."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        with serving(Path(folder), lambda data: data[::-1], caller=OTHER.pw_uid, pace_seconds=0.0) as door:
            assert as_user(OTHER.pw_uid, OTHER.pw_gid, lambda: wire.ask(door, b"abc", 5)) == b"cba"
            third = as_user(65000, 65000, lambda: wire.ask(door, b"abc", 5))
            assert third == b"PermissionError"
            assert as_user(65000, OTHER.pw_gid, lambda: wire.ask(door, b"abc", 5)) != b"cba"


@pytest.mark.skipif(not ROOT, reason="only root can become another user")
def test_a_caller_who_holds_the_door_keeps_the_owner_out_of_nothing():
    """Code of the operator opens connections and says nothing: health and the end of the agent do not wait."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        with serving(Path(folder), lambda data: data, caller=OTHER.pw_uid, pace_seconds=0.0) as door:
            held = [socket.socket(socket.AF_UNIX) for _ in range(3 * service._PLACES)]
            for one in held:
                as_user_of(one, door)
            assert wire.ask(door, service.HEALTH, 5).startswith(b"sordino ")
            assert as_user(OTHER.pw_uid, OTHER.pw_gid, lambda: wire.ask(door, b"abc", 5)) != b"abc"
            began = time.monotonic()
        assert time.monotonic() - began < 5
        for one in held:
            one.close()


def as_user_of(connection, door):
    """Connects as the other user, whom the kernel then names at the other end."""
    before = os.geteuid(), os.getegid()
    os.setegid(OTHER.pw_gid)
    os.seteuid(OTHER.pw_uid)
    try:
        connection.connect(door)
    finally:
        os.seteuid(before[0])
        os.setegid(before[1])


@pytest.mark.skipif(not ROOT, reason="only root can become another user")
@pytest.mark.parametrize("member", [True, False])
def test_an_agent_without_rights_shares_its_socket_with_the_supernodes_group_alone(member):
    """The agent as user 65000, with and without the group of the SuperNode's user."""

    def shared() -> bytes:
        with serving(Path(folder), lambda data: data, caller=OTHER.pw_uid) as door:
            found = Path(door).stat()
            return f"{found.st_uid} {found.st_gid} {stat.S_IMODE(found.st_mode):o}".encode()

    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o777)
        said = as_user(65000, 65000, shared, groups=[OTHER.pw_gid] if member else [])
    assert said == (f"65000 {OTHER.pw_gid} 660".encode() if member else b"UsageError")


def test_every_answer_leaves_at_the_same_beat(tmp_path):
    """A refusal at once and a training of 0.3 s are told apart by nothing."""
    naps = {b"refused": 0.0, b"trained": 0.3}

    def answer(data):
        time.sleep(naps[data])
        return data

    taken = {}
    with serving(tmp_path, answer, pace_seconds=0.6) as door:
        for data in naps:
            before = time.monotonic()
            wire.ask(door, data, 5)
            taken[data] = time.monotonic() - before
    assert all(0.59 <= seconds < 1.1 for seconds in taken.values())


def test_refusals_take_equally_long_whatever_their_reason(start, tmp_path, monkeypatch):
    """The policy says no at once, the accountant after a while: behind the door nobody can tell which it was."""
    agent = start()

    def spend(self, event, delta, relation):
        time.sleep(0.3)
        return Spend(99.0, delta, relation, "pld")

    monkeypatch.setattr(PldAccountant, "spend", spend)
    reasons = {
        "purpose": messages.encode(terms(purpose="other")),
        "budget": messages.encode(terms(local=steps(noise_multiplier=0.5))),
        "nonsense": b"SORD",
    }
    seconds = {beat: timed(tmp_path, agent.answer, reasons, beat) for beat in (0.0, 2.0)}
    assert seconds[0.0]["budget"] > 0.3 > seconds[0.0]["purpose"]  # without a beat it shows
    assert all(2.0 <= taken < 4.0 for taken in seconds[2.0].values())  # one beat, and the same


def timed(path, answer, asked, beat):
    taken = {}
    with serving(path, answer, pace_seconds=0.0, refusal_seconds=beat) as door:
        for name, data in asked.items():
            before = time.monotonic()
            assert messages.refuses(wire.ask(door, data, 20))
            taken[name] = time.monotonic() - before
    return taken


def test_an_owner_is_told_that_a_refusal_came_late(start, monkeypatch):
    agent = start(agent={"refusal_seconds": 0.01})
    monkeypatch.setattr(agent, "_check_switch", lambda: time.sleep(0.02))
    agent.answer(messages.encode(terms(purpose="other")))
    refused, late = read_log(agent.config.folder / "log.jsonl")[-2:]
    assert (refused["reason"], late["event"]) == ("purpose-not-allowed", "late")


def test_waits_are_multiples_of_the_beat():
    assert service.wait(0.0, 0.1, 0.5) == pytest.approx(0.4)
    assert service.wait(0.0, 1.2, 0.5) == pytest.approx(0.3)
    assert service.wait(0.0, 1.2, 0.0) == 0.0


@pytest.mark.parametrize(
    ("user", "message"),
    [
        (None, "agent.user is missing"),
        (pwd.getpwuid(os.geteuid()).pw_name, "own user or root"),
        ("root", "own user or root"),
        ("nobody-of-that-name", "no user of this machine"),
    ],
)
def test_the_agent_does_not_start_beside_the_code_of_the_operator(tmp_path, user, message):
    config = site(tmp_path, agent={"user": user})
    with pytest.raises(UsageError, match=message):
        service.caller(config, insecure=False)
    assert service.caller(config, insecure=True) == os.geteuid()


def test_another_user_is_the_caller(tmp_path):
    assert service.caller(site(tmp_path, agent={"user": OTHER.pw_name}), insecure=False) == OTHER.pw_uid


def test_an_agent_behind_its_door_serves_a_run(start, tmp_path):
    agent = start()
    with serving(tmp_path, agent.answer, pace_seconds=0.0) as door:

        class Far:
            def answer(self, data):
                return wire.ask(door, data, 20)

        opened(Far(), terms())
        assert len(step(Far(), terms())) == 10
        closed(Far(), terms())
        with pytest.raises((ConnectionError, OSError)):
            wire.ask(door, messages.encode(terms()) + b"x" * (1 << 29), 20)
