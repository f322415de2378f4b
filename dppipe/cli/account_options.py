"""The options of `dppipe account`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dppipe.cli.completion import complete_accountants, complete_samplers
from dppipe.privacy.support import ACCOUNTANTS

_TEXTBOOK = "Textbook exercises"
_SINGLE = "Single mechanisms, without a sampler"

Deltas = Annotated[
    list[str] | None,
    typer.Option(
        help="The delta of the claim; several, or separated by commas, give a table.",
        metavar="<float>",
    ),
]
SampleRate = Annotated[
    float | None, typer.Option(help="The chance of each record to be in a step's batch.")
]
NoiseMultiplier = Annotated[
    float | None, typer.Option(help="Noise over the bound of one record; else worked out.")
]
Steps = Annotated[
    int | None, typer.Option(help="The number of steps; else the most that fit is worked out.")
]
Epsilon = Annotated[
    float | None, typer.Option(help="The budget; without it epsilon is worked out.")
]
AccountantKind = Annotated[
    str,
    typer.Option(
        help=f"{', '.join(ACCOUNTANTS)}, or all of them.", autocompletion=complete_accountants
    ),
]
SamplerKind = Annotated[
    str | None,
    typer.Option(
        help="The kind of sampler.",
        show_default="poisson; full_batch at rate 1",
        autocompletion=complete_samplers,
    ),
]
RelationName = Annotated[
    str | None,
    typer.Option(help="What neighbours differ in.", show_default="the sampler's own"),
]
Mechanism = Annotated[
    str,
    typer.Option(
        help="The noise: gaussian or laplace. Without a sampler, a single mechanism: these, "
        "randomized_response, exponential, permute_and_flip or epsilon_delta."
    ),
]
Records = Annotated[
    int | None, typer.Option(help="The number of records, where the sampler needs it.")
]
BatchSize = Annotated[
    float | None, typer.Option(help="The expected batch size, instead of the sample rate.")
]
MaxBatchSize = Annotated[int | None, typer.Option(help="The largest batch of truncated_poisson.")]
Curve = Annotated[int, typer.Option(min=0, help="Show epsilon after so many parts of the steps.")]
Plot = Annotated[
    Path | None,
    typer.Option(help="Write the curve as a picture; needs the extra dppipe[plot]."),
]
StepEpsilon = Annotated[
    float | None,
    typer.Option(
        help="Compose mechanisms of this epsilon by each theorem.", rich_help_panel=_TEXTBOOK
    ),
]
StepDelta = Annotated[
    float, typer.Option(help="The delta of each such mechanism.", rich_help_panel=_TEXTBOOK)
]
SecondOpinionToo = Annotated[
    bool, typer.Option("--second-opinion", help="Ask dp_accounting's own PLD too.")
]
TruthProbability = Annotated[
    float | None,
    typer.Option(
        help="Of randomized_response: the chance that an answer is true.", rich_help_panel=_SINGLE
    ),
]
Buckets = Annotated[
    int, typer.Option(help="Of randomized_response: how many answers.", rich_help_panel=_SINGLE)
]
Scores = Annotated[
    str | None,
    typer.Option(
        help="Of selections: scores of candidates in units of their sensitivity, by commas.",
        rich_help_panel=_SINGLE,
        metavar="<float,...>",
    ),
]
Group = Annotated[
    int | None,
    typer.Option(help="Show the cost for a group of so many.", rich_help_panel=_SINGLE),
]
SelectBest = Annotated[
    float | None,
    typer.Option(
        help="Show the cost of the best of so many runs on average; with --noise-multiplier, and "
        "--sample-rate and --steps of one run.",
        rich_help_panel=_SINGLE,
        metavar="<mean>",
    ),
]
Repetitions = Annotated[
    str,
    typer.Option(
        help="Of --select-best: how the number of runs is drawn, truncated_negative_binomial or "
        "poisson.",
        rich_help_panel=_SINGLE,
    ),
]
Shape = Annotated[
    float | None,
    typer.Option(
        help="Of truncated_negative_binomial: 0 (if not given) costs least, 1 is geometric.",
        rich_help_panel=_SINGLE,
    ),
]
Disjoint = Annotated[
    str | None,
    typer.Option(
        help="The epsilons of mechanisms on disjoint parts of the records, by commas.",
        rich_help_panel=_SINGLE,
        metavar="<float,...>",
    ),
]
