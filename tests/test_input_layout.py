"""What is public about inputs reaches the models: shapes, codes and token ids."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from dppipe.data import Csv, Synthetic
from dppipe.data.reading.made_up import made_up_examples
from dppipe.errors import SpecError
from dppipe.input_layout import InputLayout
from dppipe.models import Mlp, Model
from dppipe.privacy.release import PublicFacts

TABLE: dict[str, Any] = {
    "path": "t.csv",
    "records": 10,
    "categories": "codes",
    "numeric": [{"column": "a"}],
    "categorical": [
        {"column": "b", "values": ["x", "y"]},
        {"column": "c", "buckets": 5},
    ],
    "target": {"column": "t", "classes": ["no", "yes"]},
}


class Asked(Model, kind="asked_for_test"):
    """Needs the number of token ids."""

    def build_for(self, layout: InputLayout, outputs: int) -> nn.Module:
        if layout.vocabulary is None:
            raise self.unsuited(layout, needs="token ids", data="data of kind text")
        return nn.Embedding(layout.vocabulary, outputs)


def test_a_model_that_knows_shapes_alone_is_built_for_every_layout() -> None:
    built = Mlp(hidden=()).build_for(InputLayout((3,), {1: 4}), 2)
    assert [tuple(p.shape) for p in built.parameters()] == [(2, 3), (2,)]


def test_a_model_without_what_it_needs_says_which_data_has_it() -> None:
    with pytest.raises(SpecError, match="expected token ids as inputs of asked_for_test, got"):
        Asked().build_for(InputLayout((3,)), 2)
    with pytest.raises(SpecError, match="Take data of kind text, or another model"):
        Asked().build_for(Synthetic().input_layout, 2)


def test_codes_of_a_table_reach_the_layout_and_the_made_up_examples(tmp_path: Path) -> None:
    data = Csv.from_data({**TABLE, "path": str(tmp_path / "t.csv")})
    assert data.input_layout == InputLayout((3,), {1: 2, 2: 5})
    inputs, _ = data.synthetic(200)
    assert set(inputs[:, 1].tolist()) == {0, 1, 2}
    assert set(inputs[:, 2].tolist()) == {0, 1, 2, 3, 4, 5}
    one_hot = Csv.from_data({**TABLE, "path": "t.csv", "categories": "one_hot"})
    assert one_hot.input_layout.category_counts == {}


def test_made_up_token_ids_are_integers_below_their_number() -> None:
    inputs, _ = made_up_examples(Synthetic(), InputLayout((4,), vocabulary=3), count=50)
    assert inputs.dtype == torch.int64
    assert set(inputs.flatten().tolist()) == {0, 1, 2}  # 0 is padding


def test_the_layout_of_public_facts_is_that_of_the_data() -> None:
    facts = PublicFacts(
        records=1,
        unit="example",
        relation="zero_out",
        input_shape=(3,),
        outputs=1,
        task="binary",
        category_counts={0: 2},
    )
    assert facts.input_layout == InputLayout((3,), {0: 2})
