"""The coins of an audit: which canaries are in the training. `audit/coins.json`.

They are fair and independent, from a secret stream of their own, and are never drawn again. Until
the run has ended they are secret: who knows them needs no scores to guess.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dppipe.errors import PrivacyRefusal
from dppipe.randomness.draws import integers
from dppipe.randomness.keystream import Keystream
from dppipe.randomness.streams import stream_key
from dppipe.runs.directory import RunDirectory, replacing

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, repr=False)
class Coins:
    """One fair coin for each canary.

    Guarantee: coins are independent of each other, of the sampler, of the noise and of every
    record, as their key is of no other stream.
    """

    present: NDArray[np.bool_]
    """`[m]`: whether a canary is in the training; under `replace_one`, which of two it is."""
    salt: str

    @property
    def commitment(self) -> str:
        """The SHA-256 of salt and coins; without the salt it says nothing about the coins."""
        return hashlib.sha256(f"{self.salt} {self._text}".encode()).hexdigest()

    @property
    def _text(self) -> str:
        return "".join("1" if coin else "0" for coin in self.present.tolist())

    def save(self, run: RunDirectory) -> None:
        """Write the coins, durably, for this user's eyes only."""
        data = json.dumps({"salt": self.salt, "coins": self._text}).encode() + b"\n"
        with replacing(run.audit_coins) as temporary:
            temporary.touch(mode=0o600)
            temporary.write_bytes(data)


def draw_coins(number: int) -> Coins:
    """Draw the coins of a new audit from a secret stream of their own."""
    drawn = integers(Keystream(stream_key("audit")), 2, size=number)
    return Coins(drawn == 1, secrets.token_hex(32))


def read_coins(run: RunDirectory, *, commitment: str, number: int) -> Coins:
    """Read the coins of a run; refuse others than those that its audit's plan has committed to."""
    try:
        found = json.loads(run.audit_coins.read_bytes())
        present = np.array([{"0": False, "1": True}[coin] for coin in found["coins"]])
        coins = Coins(present, str(found["salt"]))
    except (OSError, ValueError, KeyError, TypeError):
        coins = None
    if coins is None or coins.commitment != commitment or len(coins.present) != number:
        raise PrivacyRefusal(
            f"{run.audit_coins}: expected the coins that the audit began with, got others or none. "
            "Coins are never drawn twice. Put the file back, or start a new audit."
        )
    return coins
