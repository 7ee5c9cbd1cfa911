"""Names are for people: another name for a value changes nothing in a module but that name."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from dslc.compiler import compile_files, compile_text

SPEC = """
layer block(x: [N, E]) -> y: [N, E]:
    param w_other: [E, E] ~ normal(0.1)
    inners[n, o] = tanh(x[n, e] * w_other[e, o])
    y[n, o] = inners[n, o] + x[n, o]

model deep(x: [N, T, 8]) -> y: [N]:
    h[n, e] = mean[t](x[n, t, e])
    for l in 0..4:
        h = block(h)
    scan t:
        s[n, t, e] = 0.5 * s[n, t-1, e] + tanh(x[n, t, e] * h[n, e])
    start s = 0
    y[n] = sum[t, e](s[n, t, e])

train deep(x, z: [N]):
    y = deep(x)
    loss = mean[n]((y[n] - z[n])^2)
    minimize loss
    using adam(lr = 0.001)
"""


@pytest.mark.parametrize("backend", ["numpy", "triton"])
def test_names_that_mean_something_to_the_compiler_elsewhere_change_nothing_else(tmp_path: Path, backend: str) -> None:
    def module(other: str, inners: str) -> str:
        path = tmp_path / "deep.dsl"
        path.write_text(SPEC.replace("w_other", other).replace("inners", inners), encoding="utf-8")
        return compile_text(path, backend)

    plain = module("w_other", "inners")
    assert "w_other" in plain and "inners" in plain
    assert module("w_slope", "layers") == plain.replace("w_other", "w_slope").replace("inners", "layers")


#: a name, but for those that mean something in the language
WORD = re.compile(
    r"\b(?!(?:layer|param|model|train|for|in|scan|start|minimize|using|normal|tanh|mean|sum|adam|lr)\b)[A-Za-z_]\w*"
)


def renamed(spec: str) -> str:
    """A spec in which everything has another name, in the same alphabetical order, which sums of sizes follow."""
    names = {name: f"n{k:02}" for k, name in enumerate(sorted(set(WORD.findall(spec))))}
    return WORD.sub(lambda found: names[found[0]], spec)


def without_names(text: str) -> list[str]:
    """What is left of a module: of Python its syntax, so that it does not count where lines are broken."""
    if text.startswith("//"):
        text = re.sub(r"/\*.*?\*/|//[^\n]*|\"[^\"\n]*\"", " ", text, flags=re.S)
        return re.findall(r"_|[^\sA-Za-z_]+", re.sub(r"[A-Za-z_]\w*", "_", text))
    tree = ast.parse(text)
    for node in ast.walk(tree):
        for field in ("id", "arg", "attr", "name", "value"):
            if isinstance(getattr(node, field, None), str):
                setattr(node, field, "_")
    return ast.unparse(tree).splitlines()


@pytest.mark.parametrize("backend", ["numpy", "c", "triton"])
def test_modules_are_the_same_but_for_names_where_everything_is_renamed(tmp_path: Path, backend: str) -> None:
    def module(folder: str, spec: str) -> str:
        path = tmp_path / folder / "deep.dsl"
        path.parent.mkdir()
        path.write_text(spec, encoding="utf-8")
        return compile_files(path, backend)["deep.c"] if backend == "c" else compile_text(path, backend)

    other = renamed(SPEC)
    assert "w_other" not in other and "inners" not in other and "deep" not in other
    assert without_names(module("renamed", other)) == without_names(module("plain", SPEC))
