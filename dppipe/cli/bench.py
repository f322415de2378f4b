"""`dppipe bench`: what a private step costs next to an ordinary one."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dppipe.cli.options import AsJson, Overrides, Plugins
from dppipe.cli.printing.wrapping import fill, fit_terminal
from dppipe.errors import UsageError

if TYPE_CHECKING:
    from dppipe.bench.compare import Comparison
    from dppipe.bench.measure import Times

SpecPaths = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="SPEC...",
        help="Specs whose own models are benchmarked; files of one are joined: base.yaml+more.yaml",
    ),
]
Reference = Annotated[
    str | None,
    typer.Option("--reference", metavar="LETTERS", help="Reference workloads, such as abcde."),
]
Rounds = Annotated[int, typer.Option("--rounds", min=2, help="Samples of every contender.")]
Threads = Annotated[
    int | None, typer.Option("--threads", min=1, help="Threads of torch; all cores if not given.")
]
Out = Annotated[
    Path | None, typer.Option("--out", metavar="DIR", help="Where bench.json and bench.svg go.")
]


def bench(
    specs: SpecPaths = None,
    overrides: Overrides = None,
    plugins: Plugins = None,
    reference: Reference = None,
    rounds: Rounds = 15,
    threads: Threads = None,
    out: Out = None,
    opacus: Annotated[bool, typer.Option(help="Compare with Opacus where it is installed.")] = True,
    as_json: AsJson = False,
) -> None:
    """Time a private step against the same model's ordinary step.

    Opacus is timed too, where it is installed.
    """
    from dppipe.bench.chart import draw_chart
    from dppipe.bench.compare import compare, machine, workload_of

    given: dict[str, Any] = {
        "overrides": list(overrides or ()),
        "plugins": str(plugins) if plugins else None,
    }
    subjects: list[dict[str, Any]] = [{"spec": str(path), **given} for path in specs or ()]
    subjects += [{"workload": letter} for letter in reference or ""]
    if not subjects:
        raise UsageError(
            "bench: expected a spec or --reference with workloads, got neither. Try: "
            "dppipe bench --reference abcde"
        )
    for subject in subjects:
        workload_of(subject)  # a mistake in the last is reported before the first is timed
    found = []
    for subject in subjects:
        comparison = compare(
            subject,
            rounds=rounds,
            threads=threads or os.cpu_count() or 1,
            opacus=opacus,
            tell=_tell,
        )
        found.append(comparison)
        if not as_json:
            typer.echo(comparison_text(comparison))
    data = {"machine": machine(), "comparisons": [comparison.to_data() for comparison in found]}
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / "bench.json").write_text(json.dumps(data, indent=2) + "\n")
        (out / "bench.svg").write_text(draw_chart(found))
    typer.echo(json.dumps(data, indent=2) if as_json else _closing(found, out))


def _tell(line: str) -> None:
    """Say on the error stream what takes the time now."""
    typer.echo(fit_terminal(line, stream=sys.stderr), err=True)


def comparison_text(comparison: Comparison) -> str:
    """Lay the figures of one subject out for a person."""
    threads = f"{comparison.threads} thread{'s' if comparison.threads > 1 else ''}"
    lines = [
        f"{comparison.name}: {comparison.title}, {threads}",
        f"  {'step':<18} {'ms':>9} {'ratio':>7} {'quartiles':>15} {'MB':>7}",
    ]
    return "\n".join(
        [*lines, *(_line(times) for times in (comparison.plain, *comparison.contenders)), ""]
    )


def _line(times: Times) -> str:
    if times.failed is not None:
        return fill(
            f"doesn't run: {times.failed}", first=f"  {times.contender:<18} ", rest=" " * 21
        )
    memory = "" if times.megabytes is None else f"{times.megabytes:.0f}"
    spread = f"[{times.low:.2f}, {times.high:.2f}]"
    return (
        f"  {times.contender:<18} {times.milliseconds:>9.1f} {times.ratio:>7.2f} {spread:>15} "
        f"{memory:>7}"
    )


def _closing(found: list[Comparison], out: Path | None) -> str:
    from dppipe.bench.compare import geometric_mean

    ratios = [comparison.private.ratio for comparison in found if comparison.private.failed is None]
    lines = []
    if len(ratios) > 1:
        lines.append(
            f"dppipe: {geometric_mean(ratios):.2f} as geometric mean, {max(ratios):.2f} at worst"
        )
    if out is not None:
        lines.append(f"written: {out / 'bench.json'}, {out / 'bench.svg'}")
    return "\n".join(lines)
