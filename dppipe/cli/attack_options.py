"""Options of `dppipe attack` that belong to one kind of attack."""

from __future__ import annotations

from typing import Annotated

import typer

_INVERSION = "inversion"
_GRADIENTS = "gradients"

ClassNumber = Annotated[
    int | None,
    typer.Option(
        "--class",
        metavar="N",
        help="inversion: the class to invert, from 0; all of them unless given.",
        rich_help_panel=_INVERSION,
    ),
]
Prior = Annotated[
    str | None,
    typer.Option(
        "--prior",
        metavar="NAME",
        help="inversion: what the attacker expects of an input: none, tv (smooth images) or "
        "generator (what a generator draws).",
        rich_help_panel=_INVERSION,
    ),
]
ColumnName = Annotated[
    str | None,
    typer.Option(
        "--column",
        metavar="NAME",
        help="inversion: the column of a table that the attacker doesn't know; a number, from 0, "
        "where columns have no names.",
        rich_help_panel=_INVERSION,
    ),
]
GeneratorPath = Annotated[
    str | None,
    typer.Option(
        "--generator",
        metavar="CLASS",
        help="inversion: your own generator, package.module.Class; a small one is trained unless "
        "given.",
        rich_help_panel=_INVERSION,
    ),
]
RecordNumber = Annotated[
    int | None,
    typer.Option(
        "--record",
        metavar="N",
        help="gradients: a training record, from 0, in place of a made-up one; needs --nonprivate.",
        rich_help_panel=_GRADIENTS,
    ),
]
Steps = Annotated[
    int | None,
    typer.Option(
        "--steps",
        metavar="N",
        help="gradients: steps of a search from each start; 300 for distance and 2000 for cosine "
        "unless given.",
        rich_help_panel=_GRADIENTS,
    ),
]
Starts = Annotated[
    int | None,
    typer.Option(
        "--starts",
        metavar="N",
        help="gradients: from how many starts a search is made; 4 unless given.",
        rich_help_panel=_GRADIENTS,
    ),
]
