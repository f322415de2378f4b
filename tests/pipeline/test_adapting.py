"""Public weights, frozen parameters and adapters.

What is trained is what the options say, in whole runs too.
"""

from __future__ import annotations

import pickle
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import save_file
from torch import nn
from typer.testing import CliRunner

import dppipe
from dppipe.cli.app import app
from dppipe.clipping import Flat
from dppipe.engine import clipped_sum
from dppipe.errors import UsageError
from dppipe.input_layout import InputLayout
from dppipe.models import ClassPathModel, Cnn, Mlp
from dppipe.pipeline.adapters import LowRankLinear
from dppipe.pipeline.adapting import finish, make_network

SPEC = """
version: 1
name: small
seed: 7
data:      {kind: synthetic, size: 400, features: 6, classes: 3, holdout: public}
model:     {kind: mlp, hidden: [5]}
optimizer: {kind: adamw, lr: 0.05, weight_decay: 0.1}
sampler:   {kind: poisson, sample_rate: 0.1}
noise:     {kind: constant, noise_multiplier: 1.0}
accountant: rdp
budget:    {epsilon: 20.0, delta: 1.0e-5}
train:     {steps: 4}
"""


def mlp(**options: Any) -> nn.Module:
    torch.manual_seed(0)
    return make_network(Mlp.from_data({"hidden": [5], **options}), InputLayout((6,)), outputs=3)


def trained(network: nn.Module) -> set[str]:
    return {name for name, parameter in network.named_parameters() if parameter.requires_grad}


def run(folder: Path, model: str, *, exit_code: int = 0) -> str:
    """Run the small spec with this model into `folder`, and give what was printed."""
    folder.mkdir()
    (folder / "spec.yaml").write_text(SPEC)
    words = [
        "run",
        str(folder / "spec.yaml"),
        "--run-dir",
        str(folder / "run"),
        "--set",
        f"model={model}",
    ]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == exit_code, result.output
    return result.output


def weights_of(folder: Path) -> dict[str, torch.Tensor]:
    return torch.load(folder / "run" / "checkpoints" / "final.ckpt", weights_only=True)


def test_without_options_a_network_is_as_it_was_built() -> None:
    network = mlp()
    assert trained(network) == {"1.weight", "1.bias", "3.weight", "3.bias"}
    torch.manual_seed(0)
    built = Mlp.from_data({"hidden": [5]}).build((6,), 3)
    assert all(
        torch.equal(a, b) for a, b in zip(network.parameters(), built.parameters(), strict=True)
    )


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        (["3.*"], {"3.weight", "3.bias"}),
        (["*.bias"], {"1.bias", "3.bias"}),
        (["1.weight", "3.b*"], {"1.weight", "3.bias"}),
        (["*"], {"1.weight", "1.bias", "3.weight", "3.bias"}),
    ],
)
def test_patterns_train_what_they_match_and_freeze_the_rest(
    patterns: list[str], names: set[str]
) -> None:
    assert trained(mlp(trainable=patterns)) == names


def test_a_tied_parameter_is_trained_by_any_of_its_names() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)
            self.second.weight = self.first.weight

    network = finish(Tied(), Mlp.from_data({"trainable": ["second.weight"]}))
    assert trained(network) == {"first.weight"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"trainable": ["3.*", "head.*"]},
            r"model\.trainable: expected .* match some parameter, got 'head\.\*', .*'1\.weight'",
        ),
        (
            {"lora": {"targets": ["2"]}},
            r"model\.lora\.targets: expected .* match some linear layer, got '2', .* none of '1', "
            r"'3'",
        ),
    ],
)
def test_a_pattern_that_matches_nothing_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        mlp(**options)


@pytest.mark.parametrize(
    "options",
    [
        {"trainable": []},
        {"lora": {"rank": 0}},
        {"lora": {"alpha": 0}},
        {"lora": {"targets": []}},
        {"lora": {"r": 4}},
    ],
)
def test_options_without_a_meaning_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Mlp.from_data(options)


def test_adapters_start_as_nothing_and_then_add_the_stated_product() -> None:
    plain, network = mlp(), mlp(lora={"rank": 2, "alpha": 6, "targets": ["1"]})
    assert trained(network) == {"1.down.weight", "1.up.weight"}
    layer = network[1]
    assert isinstance(layer, LowRankLinear)
    assert (layer.down.weight.shape, layer.up.weight.shape) == ((2, 6), (5, 2))
    inputs = torch.randn(4, 6)
    assert torch.equal(network[:2](inputs), plain[:2](inputs))
    nn.init.normal_(layer.up.weight)
    merged = layer.weight + 6 / 2 * layer.up.weight @ layer.down.weight
    torch.testing.assert_close(layer(inputs), nn.functional.linear(inputs, merged, layer.bias))


def test_by_default_every_linear_layer_has_an_adapter_of_scale_one() -> None:
    network = make_network(
        Cnn.from_data({"lora": {"rank": 3}}), InputLayout((1, 28, 28)), outputs=10
    )
    assert trained(network) == {"7.down.weight", "7.up.weight", "9.down.weight", "9.up.weight"}
    assert {layer.scale for layer in network.modules() if isinstance(layer, LowRankLinear)} == {1.0}


def test_trainable_names_what_is_trained_beside_adapters() -> None:
    assert trained(mlp(lora={"targets": ["1"]}, trainable=["3.*"])) == {
        "1.down.weight",
        "1.up.weight",
        "3.weight",
        "3.bias",
    }


def test_a_layer_that_is_the_network_or_stands_twice_gets_one_adapter() -> None:
    init_args = {"in_features": 4, "out_features": 2}
    model = ClassPathModel.from_data(
        {"class_path": "torch.nn.Linear", "init_args": init_args, "lora": {"rank": 1}}
    )
    alone = make_network(model, InputLayout((4,)), outputs=2)
    assert trained(alone) == {"down.weight", "up.weight"}
    layer = nn.Linear(3, 3)
    twice = finish(
        nn.Sequential(layer, nn.Tanh(), layer), Mlp.from_data({"lora": {"targets": ["2"]}})
    )
    assert isinstance(twice[0], LowRankLinear)
    assert twice[0] is twice[2]


def test_layers_whose_weights_are_read_past_them_get_no_adapter() -> None:
    """In evaluation torch's encoder layer and attention would use the plain weight alone."""
    encoder = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    network = finish(nn.Sequential(encoder, nn.Linear(8, 2)), Mlp.from_data({"lora": {}}))
    assert trained(network) == {"1.down.weight", "1.up.weight"}
    with pytest.raises(
        UsageError, match=r"got '0\.linear1': .*read the weights of .*'0\.linear1'.* past them"
    ):
        finish(
            nn.Sequential(nn.TransformerEncoderLayer(8, 2, 16), nn.Linear(8, 2)),
            Mlp.from_data({"lora": {"targets": ["0.linear1"]}}),
        )


@pytest.mark.parametrize(
    "options",
    [{"trainable": ["1.bias", "3.weight"]}, {"lora": {"rank": 2}, "trainable": ["3.bias"]}],
)
def test_the_engine_sums_the_gradients_of_what_is_trained_alone(options: dict[str, Any]) -> None:
    network = mlp(**options).double()
    for parameter in network.parameters():
        nn.init.normal_(parameter)
    inputs = torch.randn(5, 6, dtype=torch.float64)

    def losses(model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
        return model(batch).square().mean(1)

    found = clipped_sum(network, losses, inputs, Flat(max_grad_norm=1.0)).sums
    assert set(found) == trained(network)
    parameters = {
        name: parameter for name, parameter in network.named_parameters() if parameter.requires_grad
    }
    expected = {name: torch.zeros_like(parameter) for name, parameter in parameters.items()}
    for row in inputs:
        gradients = torch.autograd.grad(losses(network, row[None]).sum(), list(parameters.values()))
        norm = torch.cat([gradient.flatten() for gradient in gradients]).norm()
        for name, gradient in zip(parameters, gradients, strict=True):
            expected[name] += gradient * min(1.0, 1.0 / norm)
    for name, total in expected.items():
        torch.testing.assert_close(found[name], total, rtol=1e-9, atol=1e-9)


def test_a_private_run_leaves_frozen_weights_as_they_were_bit_for_bit(tmp_path: Path) -> None:
    torch.save(mlp().state_dict(), tmp_path / "public.pt")
    run(
        tmp_path / "a",
        f'{{kind: mlp, hidden: [5], pretrained: {tmp_path / "public.pt"}, trainable: ["3.*"]}}',
    )
    found, before = weights_of(tmp_path / "a"), mlp().state_dict()
    assert {name for name in before if not torch.equal(before[name], found[name])} == {
        "3.weight",
        "3.bias",
    }
    assert (
        "started from weights that are taken as public"
        in (tmp_path / "a" / "run" / "privacy.md").read_text()
    )


def test_a_run_with_adapters_trains_them_alone_and_comes_back_with_equal_outputs(
    tmp_path: Path,
) -> None:
    """The file of public weights is gone by then: a finished run needs nothing from outside."""
    torch.save(mlp().state_dict(), tmp_path / "public.pt")
    run(
        tmp_path / "a",
        f"{{kind: mlp, hidden: [5], pretrained: {tmp_path / 'public.pt'}, lora: {{rank: 2}}}}",
    )
    (tmp_path / "public.pt").unlink()
    found, before = weights_of(tmp_path / "a"), mlp().state_dict()
    assert set(found) - set(before) == {
        "1.down.weight",
        "1.up.weight",
        "3.down.weight",
        "3.up.weight",
    }
    assert all(torch.equal(before[name], found[name]) for name in before)
    assert all(found[name].any() for name in ("1.up.weight", "3.up.weight"))
    inputs = torch.randn(4, 6)
    hidden = torch.tanh(_merged(inputs, found, "1"))
    torch.testing.assert_close(
        dppipe.load_model(tmp_path / "a" / "run")(inputs), _merged(hidden, found, "3")
    )


def _merged(inputs: torch.Tensor, found: dict[str, torch.Tensor], layer: str) -> torch.Tensor:
    weight = found[f"{layer}.weight"] + found[f"{layer}.up.weight"] @ found[f"{layer}.down.weight"]
    return nn.functional.linear(inputs, weight, found[f"{layer}.bias"])


def test_a_finished_runs_final_weights_are_public_weights_of_the_next(tmp_path: Path) -> None:
    run(tmp_path / "a", "{kind: mlp, hidden: [5]}")
    final = tmp_path / "a" / "run" / "checkpoints" / "final.ckpt"
    network = mlp(pretrained=str(final))
    assert all(
        torch.equal(value, network.state_dict()[name])
        for name, value in weights_of(tmp_path / "a").items()
    )
    assert "taken as public" not in (tmp_path / "a" / "run" / "privacy.md").read_text()


def test_a_fresh_head_is_left_as_it_was_built(tmp_path: Path) -> None:
    torch.manual_seed(3)
    public = Mlp.from_data({"hidden": [5]}).build((6,), 11).state_dict()  # of other classes
    torch.save(public, tmp_path / "public.pt")
    found, built = (
        mlp(pretrained=str(tmp_path / "public.pt"), fresh=["3.*"]).state_dict(),
        mlp().state_dict(),
    )
    assert all(torch.equal(found[name], public[name]) for name in ("1.weight", "1.bias"))
    assert all(torch.equal(found[name], built[name]) for name in ("3.weight", "3.bias"))
    with pytest.raises(
        UsageError,
        match=r"model\.fresh: expected patterns that each match some parameter, got 'head\.\*'",
    ):
        mlp(pretrained=str(tmp_path / "public.pt"), fresh=["3.*", "head.*"])
    with pytest.raises(ValidationError, match="expected fresh beside pretrained only"):
        Mlp.from_data({"fresh": ["3.*"]})


def changed(**changes: Any) -> dict[str, Any]:
    weights = {
        **mlp().state_dict(),
        **{name.replace("_", "."): value for name, value in changes.items()},
    }
    return {name: value for name, value in weights.items() if value is not None}


@pytest.mark.parametrize(
    ("saved", "message"),
    [
        (
            changed(**{"3_bias": None}),
            r"expected the model's own names in .*, got a file without '3\.bias'",
        ),
        (changed(**{"head_bias": torch.zeros(3)}), r"got a file with 'head\.bias'"),
        (
            changed(**{"3_bias": torch.zeros(7)}),
            r"expected the model's own shapes in .*, got others at '3\.bias'",
        ),
        (
            changed(**{"3_bias": torch.tensor([0.0, torch.nan, 0.0])}),
            r"expected finite numbers in .*, got others at '3\.bias'",
        ),
        (changed(**{"3_bias": 1.5}), r"contains something other than named tensors"),
        ([1, 2], r"contains something other than named tensors"),
        (types.SimpleNamespace(), r"can't be read as one \(UnpicklingError\)"),
    ],
)
def test_weights_that_do_not_fit_are_refused_by_name(
    tmp_path: Path, saved: Any, message: str
) -> None:
    torch.save(saved, tmp_path / "public.pt")
    with pytest.raises(UsageError, match=r"^model\.pretrained: " + f".*{message}"):
        mlp(pretrained=str(tmp_path / "public.pt"))


def test_files_that_are_no_weights_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match=r"model\.pretrained: .*which isn't there"):
        mlp(pretrained=str(tmp_path / "none.pt"))
    for name in ("text.pt", "text.safetensors"):
        (tmp_path / name).write_text("not weights")
    with pytest.raises(UsageError, match=r"model\.pretrained: .*can't be read as one"):
        mlp(pretrained=str(tmp_path / "text.pt"))
    monkeypatch.setitem(sys.modules, "safetensors.torch", None)
    with pytest.raises(
        UsageError, match=r"model\.pretrained: .*needs safetensors\. Install dppipe\[safetensors\]"
    ):
        mlp(pretrained=str(tmp_path / "text.safetensors"))


class _Malicious:
    """Runs a program when it is unpickled the ordinary way."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return Path.touch, (self.mark,)


@pytest.mark.parametrize("name", ["saved.pt", "raw.pt", "raw.safetensors"])
def test_a_file_that_would_run_something_runs_nothing(tmp_path: Path, name: str) -> None:
    mark, file = tmp_path / "was run", tmp_path / name
    malicious = {"1.weight": _Malicious(mark)}
    if name == "saved.pt":
        torch.save(malicious, file)
    else:
        file.write_bytes(pickle.dumps(malicious))
    with pytest.raises(UsageError, match=r"model\.pretrained: "):
        mlp(pretrained=str(file))
    assert not mark.exists()
    if name == "raw.pt":
        pickle.loads(file.read_bytes())
        assert mark.exists()


def test_safetensors_are_read(tmp_path: Path) -> None:
    torch.manual_seed(3)
    weights = Mlp.from_data({"hidden": [5]}).build((6,), 3).state_dict()
    save_file(weights, tmp_path / "public.safetensors")
    found = mlp(pretrained=str(tmp_path / "public.safetensors")).state_dict()
    assert all(torch.equal(value, found[name]) for name, value in weights.items())


def test_a_run_with_a_wrong_option_ends_with_its_place_and_spends_nothing(tmp_path: Path) -> None:
    said = run(tmp_path / "a", '{kind: mlp, trainable: ["head.*"]}', exit_code=2)
    assert "model.trainable" in said
    assert not (tmp_path / "a" / "run" / "ledger.jsonl").exists()
