"""The campaign of planted faults: `dppipe audit` on correct and on faulty code, many times.

    python tests/audit/campaign.py --results audit_campaign.jsonl     (make audit-campaign)

Each audit is one line of the results, so a campaign that was stopped goes on where it ended. At the
end, or with --summary, it prints how often each fault was found, and by which probes.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from typer.testing import CliRunner

from dppipe.audit.counts import lower_bound, upper_bound
from dppipe.cli.app import app
from tests.audit import campaign_faults as faults

SPEC = Path(__file__).with_name("campaign_spec.yaml")
ADAPTIVE = ("clipping={kind: adaptive, max_grad_norm: 1.0}",)


@dataclass(frozen=True)
class Case:
    """A fault, and how it is audited."""

    name: str
    plant: Callable[[int], AbstractContextManager[None]]
    audits: int = 20
    overrides: tuple[str, ...] = ()
    transcript: bool = False


CASES = [
    Case("none", faults.none, audits=40, transcript=True),
    Case("none, without transcript", faults.none, audits=60),
    Case("none, adaptive clipping", faults.none, overrides=ADAPTIVE),
    Case("noise halved", faults.noise_halved),
    Case("noise missing on one tensor", faults.noise_missing_on_one_tensor),
    Case("noise reused between steps", faults.noise_reused_between_steps),
    *[Case(f"{name} not clipped", faults.unclipped(name)) for name in faults.TENSORS],
    Case("bound on the mean", faults.bound_on_the_mean),
    Case("count noise halved", faults.count_noise_halved, overrides=ADAPTIVE),
    Case("shuffled, charged as Poisson", faults.shuffled_batches, transcript=True),
    Case("one record twice as often", faults.one_record_twice_as_often, transcript=True),
]


def audit_once(case: Case, number: int) -> dict[str, object]:
    """Run the command once with the fault planted; return what it said."""
    words = ["audit", str(SPEC), "--json"]
    for override in case.overrides:
        words += ["--set", override]
    started = time.monotonic()
    left_out = nullcontext() if case.transcript else faults.without_transcript()
    with tempfile.TemporaryDirectory() as folder, case.plant(number), left_out:
        result = CliRunner().invoke(app, [*words, "--out", folder])
    if result.exit_code not in (0, 4):
        raise RuntimeError(f"{case.name}: exit code {result.exit_code}\n{result.output}")
    report = json.loads(result.stdout)
    return {
        "fault": case.name,
        "audit": number,
        "exit_code": result.exit_code,
        "verdict": report["verdict"],
        "p_value": report["p_value"],
        "rejected_by": [probe["probe"] for probe in report["probes"] if probe["rejected"]],
        "p_values": {probe["probe"]: probe["p_value"] for probe in report["probes"]},
        "seconds": round(time.monotonic() - started, 2),
    }


def read(results: Path) -> list[dict[str, object]]:
    """Return the audits so far; a last line that a crash cut off is dropped."""
    found = []
    for line in results.read_text().splitlines() if results.exists() else []:
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def run(results: Path, *, rounds: int | None) -> None:
    """Make the audits that are missing, one of each case in turn."""
    done = Counter(str(one["fault"]) for one in read(results))
    most = max(case.audits for case in CASES)
    for number in range(most if rounds is None else rounds):
        for case in CASES:
            if number < case.audits and done[case.name] <= number:
                found = audit_once(case, number)
                with results.open("a") as file:
                    file.write(json.dumps(found) + "\n")
                print(f"{case.name} {number + 1}/{case.audits}: {found['verdict']}", flush=True)


def summary(results: Path) -> str:
    """Return a table: how often each fault was found, with a 95 % interval, and by which probe."""
    lines = [
        "| fault | audits | found | 95 % interval | by | seconds each |",
        "|---|---|---|---|---|---|",
    ]
    audits = read(results)
    for case in CASES:
        own = [one for one in audits if one["fault"] == case.name]
        if not own:
            continue
        hits = [one for one in own if one["exit_code"] == 4]
        probes = Counter(name for one in hits for name in one["rejected_by"])
        by = ", ".join(f"{name} {count}" for name, count in probes.most_common())
        low = lower_bound(len(hits), len(own), error=0.025)
        high = upper_bound(len(hits), len(own), error=0.025)
        seconds = sum(float(one["seconds"]) for one in own) / len(own)
        rate = f"{len(hits) / len(own):.2f}"
        lines.append(
            f"| {case.name} | {len(own)} | {rate} | {low:.2f} to {high:.2f} | {by} | {seconds:.1f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=Path("audit_campaign.jsonl"))
    parser.add_argument("--rounds", type=int, help="audits of each case at most")
    parser.add_argument("--summary", action="store_true", help="only print the table")
    chosen = parser.parse_args()
    if not chosen.summary:
        run(chosen.results, rounds=chosen.rounds)
    print(summary(chosen.results))
