"""`sordino federation`: sites, operators, and runs over a network."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from contextlib import closing
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Literal, cast

import typer

from sordino.cli.output import to_json
from sordino.core.errors import UsageError
from sordino.experiment.recipe import Recipe
from sordino.federation import keys, templates
from sordino.federation.flower.programs import NODE, environment, supernode
from sordino.federation.flower.relay import Relay
from sordino.federation.flower.supervise import Program, supervise
from sordino.federation.operator.folder import Card, OperatorFolder
from sordino.federation.operator.run import FederatedRun, federate
from sordino.federation.site import owner, service
from sordino.federation.site.agent import Agent
from sordino.federation.site.config import SiteConfig
from sordino.federation.site.exposure import check_exposure
from sordino.federation.site.log import read_log

app = typer.Typer(
    help="Sites that enforce their own budgets, and an operator, over a network.", no_args_is_help=True
)

Json = Annotated[bool, typer.Option("--json", help="For machines.")]
SiteFile = Annotated[Path, typer.Argument(help="The site's file.", metavar="SITE.toml")]
Folder = Annotated[Path, typer.Argument(help="An operator's folder.", metavar="OPERATOR")]
Insecure = Annotated[bool, typer.Option("--insecure", help="Agent and SuperNode as one user: demos only.")]


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(help="A new folder.")],
    site: Annotated[str | None, typer.Option(help="A site of this name, instead of an operator.")] = None,
) -> None:
    """Write a commented operator.toml, or with --site a site.toml.

    Example: sordino federation init clinic-a --site clinic-a
    """
    typer.echo(f"wrote {templates.write_folder(folder, site)}")


@app.command()
def certs(operator: Folder) -> None:
    """Make the certificate authority and the server's certificate; sites need certs/ca.crt.

    Example: sordino federation certs lab
    """
    held = OperatorFolder.read(operator)
    keys.make_certificates(held.path / "certs", held.superlink.names)
    keys.make_secret(held.path / "superexec.secret")
    typer.echo(f"wrote {held.path / 'certs'}; give every site {held.path / 'certs' / 'ca.crt'}")


@app.command("keys")
def make_keys(site: SiteFile) -> None:
    """Make a site's keys, once, and its card for the operator and the other sites.

    Example: sordino federation keys clinic-a/site.toml
    """
    config = SiteConfig.read(site)
    owner.make_keys(config)
    typer.echo(f"wrote {config.home / 'card.json'}: give it to the operator and to the other owners")


@app.command()
def enrol(
    place: Annotated[Path, typer.Argument(help="An operator's folder or a site.toml.", metavar="WHERE")],
    card: Annotated[Path, typer.Argument(help="The card of a site.", metavar="CARD")],
) -> None:
    """Let a site in: at an operator, whose SuperLink must run; or as a peer whom an owner accepts.

    Example: sordino federation enrol lab clinic-a/card.json
    """
    held = Card.read(card)
    if place.is_file():
        owner.accept(SiteConfig.read(place), held)
        typer.echo(f"{place}: '{held.site}' counts as a real site")
        return
    operator = OperatorFolder.read(place)
    operator.enrol(held)
    typer.echo(f"{place}: '{held.site}' is enrolled")


@app.command()
def serve(
    place: Annotated[Path, typer.Argument(help="An operator's or a SuperNode's folder.", metavar="FOLDER")],
    superlink: Annotated[str | None, typer.Option(help="For a site: the operator's host:port.")] = None,
    authority: Annotated[Path | None, typer.Option(help="For a site: the operator's ca.crt.")] = None,
    port: Annotated[int, typer.Option(help="For a site: a free port on loopback.")] = 18100,
    proxy: Annotated[str | None, typer.Option(help="For a site: its way out, http://HOST:PORT.")] = None,
) -> None:
    """Run the operator's SuperLink, or as its own user a site's SuperNode, and keep it running.

    Example: sordino federation serve clinic-a/node --superlink lab.example:9443 --authority ca.crt
    """
    if place.is_file():
        raise UsageError(
            f"{place} is for the agent; the SuperNode has a folder of its own: {place.parent / 'node'}"
        )
    if (place / NODE).exists():
        if superlink is None or authority is None:
            raise UsageError("a site's SuperNode needs --superlink HOST:PORT and --authority ca.crt")
        folder = place.resolve()
        supervise([Program("supernode", *supernode(folder, superlink, authority, port, proxy))], folder)
        return
    held = OperatorFolder.read(place)
    link, around = held.link, environment(held.path / "flower")
    link.connect()
    programs = (("superlink", link.superlink()), ("superexec", link.superexec()), ("guard", link.guard()))
    supervise([Program(name, command, around) for name, command in programs], held.path / "logs")


@app.command()
def site(
    file: SiteFile,
    check: Annotated[bool, typer.Option("--check", help="Try everything but the network.")] = False,
    insecure: Insecure = False,
    pause: Annotated[bool, typer.Option("--pause", help="Refuse everything until --resume.")] = False,
    kill: Annotated[bool, typer.Option("--kill", help="As --pause, and destroy all stored answers.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Answer again.")] = False,
    approve: Annotated[str | None, typer.Option(help="Allow a run that waits.", metavar="RUN")] = None,
    deny: Annotated[str | None, typer.Option(help="Refuse a run that waits.", metavar="RUN")] = None,
    why: Annotated[str, typer.Option(help="For the log.")] = "",
    as_json: Json = False,
) -> None:
    """Run a site's agent, or with an option do one thing to a site.

    Example: sordino federation site clinic-a/site.toml --check
    """
    config = SiteConfig.read(file)
    wanted = [name for name, on in (("paused", pause), ("killed", kill), ("running", resume)) if on]
    if len(wanted) + check + (approve is not None) + (deny is not None) > 1:
        raise UsageError("give one of --check, --pause, --kill, --resume, --approve and --deny")
    if check:
        _show(owner.check(config, insecure=insecure), as_json)
    elif wanted:
        owner.switch(config, cast(Literal["running", "paused", "killed"], wanted[0]), why)
        typer.echo(f"{config.site} is {wanted[0]}")
    elif approve is not None or deny is not None:
        owner.decide(config, approve or deny or "", "approved" if approve is not None else "denied")
        typer.echo(f"{config.site}: run '{approve or deny}' is {'approved' if approve else 'denied'}")
    else:
        _serve_agent(config, insecure=insecure)


@app.command()
def run(
    operator: Folder,
    recipe: Annotated[Path | None, typer.Argument(help="The recipe, as for `sordino run`.")] = None,
    purpose: Annotated[str, typer.Option(help="As the sites' owners allow it.")] = "",
    out: Annotated[Path | None, typer.Option(help="The run's folder; must be new or empty.")] = None,
    resume: Annotated[Path | None, typer.Option(help="Go on with the run in this folder.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override a key, e.g. method.rounds=20."),
    ] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Where data sets are; default SORDINO_DATA.")] = None,
    as_json: Json = False,
) -> None:
    """Train what a recipe says at the enrolled sites, each within its own budget.

    Example: sordino federation run lab recipe.toml --purpose readmission --out runs/first
    """
    held = OperatorFolder.read(operator)
    if (resume is None) == (recipe is None):
        raise UsageError("give a recipe for a new run, or --resume FOLDER to go on with one")
    if resume is not None:
        going = FederatedRun.existing(resume)
        read = Recipe.read(resume / "recipe.toml")
    else:
        assert recipe is not None
        read = Recipe.read(recipe, settings)
        going = FederatedRun.start(out or Path("runs") / read.settings.name, read, purpose)
    with closing(Relay(held.link, held.cards(), going.folder)) as network:
        summary = federate(read, going, held.cards(), network, held.patience, data_dir)
    _show(summary, as_json)


@app.command()
def stop(site: SiteFile, run: Annotated[str, typer.Argument(help="The run's name.", metavar="RUN")]) -> None:
    """End a run at a site: nothing more is released in it, and what was stored for repeats is destroyed.

    Example: sordino federation stop clinic-a/site.toml digits-4f0c
    """
    config = SiteConfig.read(site)
    owner.stop(config, run)
    typer.echo(f"{config.site}: run '{run}' is over")


@app.command()
def status(
    place: Annotated[Path, typer.Argument(help="An operator's folder or a site.toml.", metavar="WHERE")],
    as_json: Json = False,
) -> None:
    """What a site has spent and answers, or which sites an operator knows.

    Example: sordino federation status clinic-a/site.toml
    """
    if place.is_file():
        config = SiteConfig.read(place)
        _show({**owner.status(config), "waiting": owner.waiting(config)}, as_json)
        return
    cards = OperatorFolder.read(place).cards()
    _show(
        {
            name: {"unit": card.unit, "units": sum(t.units for t in card.tiers)}
            for name, card in cards.items()
        },
        as_json,
    )


@app.command()
def log(site: SiteFile, as_json: Json = False) -> None:
    """What was asked of a site and what became of it, refusals by name.

    Example: sordino federation log clinic-a/site.toml
    """
    lines = read_log(SiteConfig.read(site).folder / "log.jsonl")
    if as_json:
        to_json(lines)
        return
    for line in lines:
        facts = " ".join(f"{key}={value}" for key, value in line.items() if key not in ("time", "event"))
        typer.echo(f"{line['time']} {line['event']} {facts}")


def _serve_agent(config: SiteConfig, *, insecure: bool) -> None:
    caller = service.caller(config, insecure=insecure)
    if not insecure:
        check_exposure(config, caller)
    else:
        print(
            "sordino: --insecure: whatever the SuperNode runs can read this site's data; for demonstrations only",
            file=sys.stderr,
        )
    with closing(Agent(config)) as agent:
        door = service.Service(
            config.socket, config.agent, caller, agent.answer, lambda: agent.vault.state()[0]
        )

        def ask(number: int, frame: FrameType | None) -> None:
            threading.Thread(target=door.stop).start()

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, ask)
        agent.log.note("started", site=config.site, user=os.geteuid(), insecure=insecure)
        print(f"sordino: {config.site} answers at {config.socket}", file=sys.stderr, flush=True)
        door.serve()


def _show(facts: dict[str, Any], as_json: bool) -> None:
    if as_json:
        to_json(facts)
        return
    for key, value in facts.items():
        typer.echo(f"{key:>18}  {json.dumps(value) if isinstance(value, (dict, list)) else value}")
