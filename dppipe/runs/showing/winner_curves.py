"""The curves of a search's winner, written when the search has ended.

They are made of the winner's plan and ledger, both of which are released. No run writes curves
while a search goes on: the times in them would tell which run has won, and how many there were.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from dppipe.privacy.ledger_reading import read_ledger
from dppipe.runs.directory import RunDirectory, write_whole

if TYPE_CHECKING:
    from dppipe.privacy.charges import Charge

_OF_A_STEP = ("noise_multiplier", "max_grad_norm", "sample_rate")
"""The facts of a step that curves show, as those of any run do."""
_OF_ONE_RUN = "tune/epsilon_of_one_run"
"""The name of the run's own cost. What the search costs is `privacy/epsilon` of its own curves."""


def write_winner_curves(winner: RunDirectory, *, score: tuple[str, float], moment: int) -> None:
    """Write a file for TensorBoard beside the winner's plan and ledger.

    Guarantee: its bytes and its name follow from what the search has released, and from the time of
    its beginning; every point has that time.

    Args:
        winner: The directory with the winner's plan and ledger.
        score: The name and value of the winner's score, which is shown at the last point.
        moment: When the search began, in seconds.
    """
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.record_writer import RecordWriter

    rows = read_ledger(winner.ledger, plan=winner.plan.read_bytes()).charges
    points = [_facts(row) for row in rows]
    if points:
        points[-1][score[0]] = score[1]
    file = io.BytesIO()
    writer = RecordWriter(file)
    writer.write(Event(wall_time=moment, file_version="brain.Event:2").SerializeToString())
    for number, (row, facts) in enumerate(zip(rows, points, strict=True), start=1):
        values = [Summary.Value(tag=name, simple_value=value) for name, value in facts.items()]
        event = Event(wall_time=moment, step=row.step or number, summary=Summary(value=values))
        writer.write(event.SerializeToString())
    write_whole(winner.path / f"events.out.tfevents.{moment}.winner", file.getvalue())


def _facts(row: Charge) -> dict[str, float]:
    found = {_OF_ONE_RUN: row.epsilon}
    if row.step:
        for name in _OF_A_STEP:
            found[f"privacy/{name}"] = float(row.facts[name])
    return found
