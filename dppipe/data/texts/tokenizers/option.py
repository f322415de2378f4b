"""The type of a `tokenizer` option: one of the kinds of tokenizers."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import WrapValidator
from pydantic.functional_validators import ModelWrapValidatorHandler

from dppipe.data.texts.tokenizers.base import Tokenizer
from dppipe.data.texts.tokenizers.characters import Bytes, Characters
from dppipe.data.texts.tokenizers.huggingface import HuggingFace
from dppipe.data.texts.tokenizers.vocabulary import Vocabulary
from dppipe.data.texts.tokenizers.words import Words
from dppipe.spec.messages.suggestions import suggest_name

KINDS: dict[str, type[Tokenizer]] = {
    "bytes": Bytes,
    "characters": Characters,
    "huggingface": HuggingFace,
    "vocabulary": Vocabulary,
    "words": Words,
}


def _chosen(value: Any, handler: ModelWrapValidatorHandler[Any]) -> Any:
    # A plain union would report the errors of all its members; here only the chosen one reports.
    if isinstance(value, Tokenizer):
        return value
    data = {"kind": value} if isinstance(value, str) else value
    kind = data.get("kind") if isinstance(data, dict) else None
    if kind not in KINDS:
        guess = suggest_name(str(kind), list(KINDS)) if kind is not None else ""
        raise ValueError(
            f"expected a block with kind: {', '.join(KINDS)}, got {kind or value!r}.{guess}"
        )
    needed = [name for name, field in KINDS[kind].model_fields.items() if field.is_required()]
    if needed and isinstance(value, str):
        raise ValueError(
            f"expected a block with kind and {' and '.join(needed)}, got {value!r} alone. Write "
            f"{{kind: {value}, ...}}."
        )
    return KINDS[kind].from_data(data)


AnyTokenizer = Annotated[
    Bytes | Characters | HuggingFace | Vocabulary | Words,
    WrapValidator(
        _chosen, json_schema_input_type=Bytes | Characters | HuggingFace | Vocabulary | Words
    ),
]
"""`{kind: words, ...}`, or the name of a kind that needs no option."""
