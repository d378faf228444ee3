"""`python -m tests.attack --help` says how to run it."""

import itertools
import logging
import random
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import date
from importlib.metadata import version
from pathlib import Path

import click

import gles_delegate as gd
from tests.attack.compare import Finding
from tests.attack.parts import PARTS, Part


@click.command()
@click.argument("names", metavar="[PART]...", nargs=-1, type=click.Choice(list(PARTS)))
@click.option("--minutes", default=2.0, show_default=True, help="For all parts together.")
@click.option("--count", type=int, help="Cases of each part, instead of minutes.")
@click.option("--seed", default=0, show_default=True, help="Of the first case.")
@click.option("--keep", type=Path, help="A folder for the models that are found, minimised.")
@click.option("--report", type=Path, help="A page whose table gets the figures of this run.")
def main(
    names: tuple[str, ...],
    minutes: float,
    count: int | None,
    seed: int,
    keep: Path | None,
    report: Path | None,
) -> None:
    """Attack the delegate in separate processes, by default with every part."""
    chosen = {name: PARTS[name] for name in names or PARTS}
    shares = sum(part.share for part in chosen.values()) or 1
    findings: list[str] = []
    for name, part in chosen.items():
        of_part: list[Finding] = []

        def tell(finding: Finding, name: str = name, of_part: list[Finding] = of_part) -> None:
            of_part.append(finding)
            click.echo(f"{name}: {finding}")
            if keep:
                finding.trial.keep(keep, name)

        counts = part.run(_seeds(part, seed, count, 60 * minutes * part.share / shares), tell)
        click.echo(f"{counts.total()} {part.what}, {len(of_part)} findings")
        for ending, times in sorted((+counts).items()):
            click.echo(f"{times:8} {ending}")
        findings += [f"{name}: {finding}" for finding in of_part]
        if report:
            _write_row(report, part, counts, len(of_part))
    if findings:  # again, after the messages of LiteRT and of drivers
        raise SystemExit("\n".join(["", *findings]))


def _seeds(part: Part, first: int, count: int | None, seconds: float) -> Iterator[int]:
    """At most `count` seeds, until the time ends; each case at most once."""
    order: Iterable[int] = itertools.count(first)
    if part.cases:
        number = part.cases()
        order = random.Random(first).sample(range(number), number)
    end = time.monotonic() + seconds
    for done, seed in enumerate(order):
        if done == count or (count is None and time.monotonic() > end):
            return
        yield seed


def _write_row(page: Path, part: Part, counts: Counter[str], findings: int) -> None:
    """Replace the figures of the part's last run."""
    endings = "; ".join(f"{_spaced(n)} {kind}" for kind, n in (+counts).most_common())
    device = gd.list_devices()[0]
    systems = f"{device.renderer}, {device.version}, LiteRT {version('ai-edge-litert')}"
    cells = (part.what, _spaced(counts.total()), endings, findings, f"{date.today()}, {systems}")
    row = f"| {' | '.join(map(str, cells))} |"
    old = re.compile(rf"^\| {re.escape(part.what)} \|.*$", re.MULTILINE)
    text = page.read_text("utf-8")
    if not old.search(text):
        raise click.ClickException(f"{page}: expected a row of {part.what!r}, found none")
    page.write_text(old.sub(lambda _: row, text), "utf-8")


def _spaced(number: int) -> str:
    return f"{number:,}".replace(",", "\u202f")


if __name__ == "__main__":
    logging.disable()
    main()
