"""A ledger as bytes: one charge a line, each line chained to the one before.

`dppipe.runs.ledger` writes it. The canonical line of a charge is compact JSON (no spaces, ASCII,
keys in a fixed order, floats by their shortest exact decimal). `prev` is the SHA-256 of the
previous line's bytes without newline, of plan.json's bytes for the first. `hash` is the SHA-256 of
the line's own bytes with `,"hash":"..."` cut out, so of `{"row":...,"prev":"..."}`. Every line ends
with one newline. A line is accepted only if encoding what was read gives the very same bytes: so
every changed byte is found. Rows of version 1, which have no `version`, are read and verified, and
never written. Read next: `ledger_reading.py`, which reads a whole file.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any, get_args

from dppipe.errors import PrivacyRefusal
from dppipe.privacy.budget import Relation
from dppipe.privacy.charges import STEP_FACTS, VERSION, Charge
from dppipe.privacy.events.plain import event_from_data, event_to_data

LONGEST_LINE = 1 << 16
"""No row is as long as this, in bytes."""


def digest(data: bytes) -> str:
    """Return the lower-case hex SHA-256."""
    return hashlib.sha256(data).hexdigest()


def encode_row(
    charge: Charge, *, row: int, prev: str, torn: str = "", event: dict[str, Any] | None = None
) -> bytes:
    """Return a row's canonical line without its newline.

    `event` is the event's plain data, where it is known already.
    """
    if charge.relation not in get_args(Relation):
        raise PrivacyRefusal(
            f"ledger: relation: expected one of {', '.join(get_args(Relation))}, got "
            f"{charge.relation!r}."
        )
    data = _content(charge, row=row, event=event_to_data(charge.event) if event is None else event)
    if charge.covered_by is not None:
        data["covered_by"] = str(charge.covered_by)
    if torn:
        data["torn"] = torn
    data["prev"] = prev
    body = json.dumps(data, separators=(",", ":"), allow_nan=False).encode()
    line = body[:-1] + b',"hash":"' + digest(body).encode() + b'"}'
    if len(line) >= LONGEST_LINE:
        raise PrivacyRefusal(
            f"ledger: row {row}: expected less than {LONGEST_LINE} bytes, got {len(line)}. "
            "Shorten its names."
        )
    return line


def _content(charge: Charge, *, row: int, event: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a row but for the chain's."""
    start: dict[str, Any] = {"row": row}
    if charge.version > 1:
        start["version"] = int(charge.version)
    facts: dict[str, Any] = {}
    if charge.what == "step" or charge.version == 1:
        step, own = _step_facts(charge.facts)
        start |= {"step": step, "event": event, **own}
    else:
        start |= {"what": str(charge.what), "event": event}
        facts = {"facts": _plain_facts(charge.facts)}
    return start | {
        "relation": str(charge.relation),
        "unit": str(charge.unit),
        "count": _whole("count", charge.count),
        "epsilon": 0.0 if charge.epsilon == 0 else _positive("epsilon", charge.epsilon),
        **facts,
    }


def _step_facts(facts: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
    """Return the number of a step, and its other facts."""
    lacking = [name for name in STEP_FACTS if name not in facts]
    if lacking or len(facts) > len(STEP_FACTS):
        raise PrivacyRefusal(
            f"ledger: expected the facts {', '.join(STEP_FACTS)} of a step, got "
            f"{', '.join(facts)}. Nothing was charged or released."
        )
    own: dict[str, Any] = {
        "mechanism": str(facts["mechanism"]),
        "sampler": str(facts["sampler"]),
        "sample_rate": _positive("sample_rate", facts["sample_rate"]),
        "noise_multiplier": _positive("noise_multiplier", facts["noise_multiplier"]),
        "max_grad_norm": _positive("max_grad_norm", facts["max_grad_norm"]),
    }
    return _whole("step", facts["step"]), own


def _plain_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of a release that isn't a step; each is a finite number or a text."""
    plain: dict[str, Any] = {}
    for name, value in facts.items():
        if isinstance(value, str):
            plain[str(name)] = value
        elif isinstance(value, Integral) and not isinstance(value, bool):
            plain[str(name)] = int(value)
        elif isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value):
            plain[str(name)] = float(value)
        else:
            raise PrivacyRefusal(
                f"ledger: facts.{name}: expected a finite number or a text, got {value!r}. "
                "Nothing was charged or released."
            )
    return plain


def decode_row(line: bytes, *, row: int, prev: str) -> Charge:
    """Read a line back; it must be exactly this row's canonical line.

    Anything else is a ValueError that says what is wrong.
    """
    try:
        data = json.loads(line)
        charge = _charge(data)
        again = encode_row(charge, row=row, prev=prev, torn=data.get("torn", ""))
    except (
        ValueError,
        TypeError,
        LookupError,
        AttributeError,
        ArithmeticError,
        RecursionError,
        PrivacyRefusal,
    ) as error:
        raise ValueError("it is not a row of a ledger") from error
    if again == line:
        return charge
    if data.get("prev") != prev:
        raise ValueError(
            "prev is not the hash of what stands before it: a row was taken out or put in"
        )
    raise ValueError("its content is not what its hash names")


def _charge(data: Mapping[str, Any]) -> Charge:
    """Return the charge that a row states."""
    version = data.get("version", 1)
    if version not in (1, VERSION):
        raise ValueError(f"a row of version {version}")
    what = data.get("what", "step")
    facts = data["facts"] if "what" in data else {name: data[name] for name in STEP_FACTS}
    if version == 1 and facts["step"] == 0:
        what = "statistics"  # version 1 charged them as a step before the first
    return Charge(
        what=what,
        event=event_from_data(data["event"]),
        relation=data["relation"],
        unit=data["unit"],
        count=data["count"],
        epsilon=data["epsilon"],
        facts=facts,
        covered_by=data.get("covered_by"),
        version=version,
    )


def _positive(name: str, value: Any) -> float:
    if (
        isinstance(value, bool)
        or not isinstance(value, Real)
        or not math.isfinite(value)
        or value <= 0
    ):
        raise PrivacyRefusal(
            f"ledger: {name}: expected a finite number > 0, got {value!r}. Nothing was charged or "
            "released."
        )
    return float(value)


def _whole(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 0:
        raise PrivacyRefusal(
            f"ledger: {name}: expected an integer >= 0, got {value!r}. Nothing was charged "
            "or released."
        )
    return int(value)
