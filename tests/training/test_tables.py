"""Training on .csv files: columns encoded and standardised on the rows for training, and what is wrong with a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from marks import rows
from sklearn.preprocessing import LabelEncoder, OneHotEncoder, StandardScaler
from small_runs import run

from dslc.data import Encoding, read_table
from dslc.data.rows import parts_of
from dslc.data.table import Table
from dslc.run_errors import RunError

FLOWERS = """
model flowers(x: f32[N, D], classes = 3) -> logits: [N, classes]:
    logits = x |> dense(classes)

train flowers(x, kind: i32[N] < classes, epochs = 40, batch = 16):
    logits = flowers(x)
    minimize cross_entropy(logits, kind)
    metric accuracy = accuracy(logits, kind)
    using adam(lr = 0.05)
"""


def flowers(folder: Path, count: int = 60) -> tuple[Path, Path, dict[str, Any]]:
    """A spec, a table for it whose classes follow from its columns, and the columns."""
    spec, data = folder / "flowers.dsl", folder / "flowers.csv"
    spec.write_text(FLOWERS, encoding="utf-8")
    rng = np.random.default_rng(1)
    length, hue = 40 + 10 * rng.normal(size=count), rng.choice(["blue", "red"], count)
    kind = np.where(length > 45, "rose", np.where(hue == "red", "tulip", "iris"))
    lines = ["length,hue,kind", *(f'{a:.4f},{b},"{c}"' for a, b, c in zip(length, hue, kind, strict=True))]
    data.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return spec, data, {"length": np.round(length, 4), "hue": hue, "kind": kind}


def test_columns_are_encoded_as_scikit_learn_does(tmp_path: Path) -> None:
    _, data, columns = flowers(tmp_path)
    table = read_table(data)
    kept, _ = parts_of(60, 0.25, 3)
    encoding = Encoding.fit(table, "kind", kept)
    scaler = StandardScaler().fit(columns["length"][kept, None])
    hues = OneHotEncoder(sparse_output=False).fit_transform(columns["hue"][:, None])
    expected = np.concatenate([scaler.transform(columns["length"][:, None]), hues], axis=1)
    np.testing.assert_allclose(encoding.features(table), expected, rtol=1e-6, atol=1e-7)
    assert encoding.features(table).dtype == np.float32
    assert encoding.names == ["length", "hue=blue", "hue=red"]
    labels = LabelEncoder().fit(columns["kind"])
    assert list(encoding.classes) == list(labels.classes_) == ["iris", "rose", "tulip"]
    assert encoding.target_of(table).tolist() == labels.transform(columns["kind"]).tolist()


@pytest.mark.parametrize("value", [0.3, 7.7, 1e6 + 0.1])
def test_a_column_of_equal_numbers_has_no_deviation(value: float) -> None:
    """Their standard deviation by the formula is what rounding leaves, and nothing to divide other rows by."""
    column = np.full(10, value)
    encoding = Encoding.fit(Table(Path("t.csv"), {"a": column}))
    found = encoding.features(Table(Path("t.csv"), {"a": np.array([value, value + 1])}))
    expected = StandardScaler().fit(column[:, None]).transform([[value], [value + 1]])
    np.testing.assert_allclose(found, expected, atol=1e-7)


@rows("X4.4")
def test_a_table_is_trained_on_and_new_rows_are_classified(tmp_path: Path) -> None:
    spec, data, columns = flowers(tmp_path)
    folder = tmp_path / "run"
    done = run(
        "train", spec, "--data", data, "--target", "kind", "--validation", 0.25, "-o", folder, "--json", "--backend",
        "numpy", "--test", data,
    )  # fmt: skip
    report = json.loads(done.stdout)
    assert report["rows"] == 45 and report["history"][-1]["training"]["accuracy"] > 0.95
    assert report["history"][-1]["training"]["loss"] < report["history"][0]["training"]["loss"]
    about = json.loads((folder / "encoding.json").read_text())
    kept, _ = parts_of(60, 0.25, 0)
    assert about["columns"][0]["mean"] == pytest.approx(columns["length"][kept].mean())
    assert about["columns"][0]["deviation"] == pytest.approx(columns["length"][kept].std())
    # new rows, with the columns in another order and without the target
    new = tmp_path / "new.csv"
    new.write_text("hue,length\nred,52.5\nblue,30\nred,30\n", encoding="utf-8")
    out = tmp_path / "y.npz"
    done = run(
        "run", spec, "--weights", folder / "weights.safetensors", "--inputs", new, "-o", out, "--backend", "numpy",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    found = np.load(out)["logits"].argmax(1)
    assert [about["classes"][k] for k in found] == ["rose", "iris", "tulip"]
    # the rows of the test are encoded as those for training
    every = run(
        "run", spec, "--set", "D=3", "--weights", folder / "weights.safetensors", "--inputs", data, "-o", out,
        "--backend", "numpy",
    )  # fmt: skip
    assert every.exit_code == 0
    right = np.load(out)["logits"].argmax(1) == LabelEncoder().fit_transform(columns["kind"])
    assert report["test"]["accuracy"] == pytest.approx(right.mean())


def test_columns_go_to_inputs_of_their_names(tmp_path: Path) -> None:
    spec, data = tmp_path / "named.dsl", tmp_path / "named.csv"
    spec.write_text(
        "model named(area: f32[N], rooms: i32[N] < 5) -> price: [N]:\n"
        "    param a: [] ~ zeros\n    param b: [5] ~ zeros\n"
        "    price[n] = a * area[n] + b[rooms[n]]\n"
        "train named(area, rooms, worth: f32[N, 1]):\n"
        "    p = named(area, rooms)\n    minimize mean[n]((p[n] - worth[n, 0])^2)\n    using sgd(lr = 0.1)\n",
        encoding="utf-8",
    )
    data.write_text("rooms,worth,area,seller\n1,2.5,1.5,Ann\n4,3,2,Bob\n", encoding="utf-8")
    options = ("train", spec, "--data", data, "--target", "worth", "--backend", "numpy", "--steps", 1)
    assert run(*options, "-o", tmp_path / "run").exit_code == 0
    with np.load(tmp_path / "run/checkpoint.npz") as file:
        about = json.loads(file["about"].tobytes())
        found = file["params/b"]
    assert about["data"]["area"][0] == [2] and about["data"]["worth"][0] == [2, 1]
    assert found[1] == pytest.approx(0.1 * 2.5) and found[4] == pytest.approx(0.1 * 3) and found[0] == 0


def test_without_the_command_a_table_is_arrays(tmp_path: Path) -> None:
    _, data, _ = flowers(tmp_path)
    table = read_table(data)
    encoding = Encoding.fit(table, target="kind", drop=["hue"])
    assert encoding.features(table).shape == (60, 1)
    assert Encoding.from_json(json.loads(json.dumps(encoding.to_json()))) == encoding


@pytest.mark.parametrize(
    ("text", "options", "told", "help"),
    [
        ("", (), "flowers.csv is empty", "first line"),
        ("length,hue,kind\n", (), "has no rows", "at least one row"),
        ("1,2,3\n4,5,6\n", (), ":1: expected names of columns, found numbers", "line of names"),
        ("length,,kind\n1,red,a\n", (), ":1: column 2 has no name", "give it one"),
        ("length,length,kind\n1,2,a\n", (), ":1: two columns are called `length`", "rename"),
        ("length,hue,kind\n1,red,a\n2,red\n", (), ":3: expected 3 cells, as in the first line, found 2", "quotes"),
        ('length,hue,kind\n1,"red,a\n', (), "unexpected end of data", "double quotes"),
        ("length,hue,kind\n1,red,a\n2,red,b\nn/a,red,c\n", (), ":4: expected a finite number in column", "--drop"),
        ("length,hue,kind\n1,red,a\nNA,red,b\n?,red,c\n", (), ":3: expected a finite number in column", "fill it"),
        ("length;hue;kind\n1;red;a\n", (), ":1: expected commas between the names of columns, found semicolons", "1.5"),
        ("length,hue,kind\n1,red,a\n2,red,b\n1e999,red,c\n", (), "found `1e999`", "correct this one"),
        ("length,hue,kind\n1,red,a\n\n2,,b\n", (), ":4: the cell of column `hue` is empty", "--drop hue"),
        ("length,hue,sort\n1,red,a\n", (), "has no column `kind`", "it has `length`, `hue`, `sort`"),
        ("length,hue,kinds\n1,red,a\n", (), "has no column `kind`", "did you mean `kinds`?"),
        ("kind\na\n", (), "has no columns for features", "first line"),
        ("length,kind\n1,0\n2,1.5\n", (), "expected whole numbers in `kind`, found float64", "declared i32[N] < 3"),
        ("length,kind\n1,0\n2,7\n", (), "expected whole numbers from 0 to 2 in `kind`, found 7", "start from 0"),
        ("length,kind\n1,a\n2,b\n3,c\n4,d\n", (), "found 3", "start from 0"),
        ("length,hue,kind\n1,red,a\n", ("--drop", "hues"), "has no column `hues`", "did you mean `hue`?"),
        ("length,hue,kind\n1,red,a\n", ("--set", "D=5"), "has 2 features, and `x` takes 5", "length, hue=red"),
    ],
)  # fmt: skip
def test_a_mistake_is_named(text: str, options: tuple[object, ...], told: str, help: str, tmp_path: Path) -> None:
    spec, data, _ = flowers(tmp_path)
    data.write_text(text, encoding="utf-8")
    done = run(
        "train", spec, "--data", data, "--target", "kind", "-o", tmp_path / "run", "--backend", "numpy", *options
    )
    assert done.exit_code == 1 and told in done.stderr, done.stderr
    assert help in done.stderr.partition("= help: ")[2]
    assert not (tmp_path / "run").exists()


def test_what_is_missing_among_texts_is_a_category(tmp_path: Path) -> None:
    data = tmp_path / "roads.csv"
    data.write_text("kind,length\nNA,1\nmud,2\nNA,3\n", encoding="utf-8")
    assert Encoding.fit(read_table(data)).names == ["kind=NA", "kind=mud", "length"]


def test_other_faults_of_tables_are_named(tmp_path: Path) -> None:
    spec, data, _ = flowers(tmp_path)

    def told(*options: object) -> str:
        done = run("train", spec, "--backend", "numpy", "-o", tmp_path / "run", *options)
        assert done.exit_code == 1
        return done.stderr

    unnamed = tmp_path / "unnamed.csv"
    unnamed.write_text("length,hue,sort\n1,red,iris\n", encoding="utf-8")
    message = told("--data", unnamed)
    assert "no column of" in message and "name the column with --target, or call one `kind`" in message
    assert "there is no file" in told("--data", tmp_path / "none.csv", "--target", "kind")
    np.savez(tmp_path / "d.npz", x=np.ones((3, 2)), kind=np.zeros(3, int))
    assert "--target names a column of a .csv file" in told("--data", tmp_path / "d.npz", "--target", "kind")
    (tmp_path / "latin.csv").write_bytes("length,kind\n1,café\n".encode("latin-1"))
    assert "is not text in UTF-8" in told("--data", tmp_path / "latin.csv", "--target", "kind")
    names = tmp_path / "names.csv"
    names.write_text("name,kind\n" + "".join(f"n{k},a\n" for k in range(150)), encoding="utf-8")
    assert "`name` has 150 different texts in 150 rows" in told("--data", names, "--target", "kind")
    other = tmp_path / "other.csv"
    other.write_text("length,hue,kind\n1,green,iris\n", encoding="utf-8")
    message = told("--data", data, "--target", "kind", "--test", other)
    assert "other.csv:2: column `hue` has `green`, which did not occur in training" in message
    other.write_text("length,hue,kind\nlong,red,iris\n", encoding="utf-8")
    assert "expected numbers in column `length`, as in training" in told(
        "--data", data, "--target", "kind", "--test", other
    )


def test_a_table_needs_the_encoding_of_its_training(tmp_path: Path) -> None:
    spec, data, _ = flowers(tmp_path)
    folder = tmp_path / "run"
    done = run("train", spec, "--data", data, "--target", "kind", "--steps", 1, "-o", folder, "--backend", "numpy")
    assert done.exit_code == 0
    options = (
        "run", spec, "--set", "D=3", "--weights", folder / "weights.safetensors", "--inputs", data,
        "-o", tmp_path / "y.npz", "--backend", "numpy",
    )  # fmt: skip
    (folder / "encoding.json").write_text('{"kind": "table"}')
    assert "encoding.json cannot be used" in run(*options).stderr
    (folder / "encoding.json").unlink()
    assert "is a table, and the weights were not trained on one" in run(*options).stderr


def test_read_table_raises_what_the_command_shows(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n1,2\n3\n", encoding="utf-8")
    with pytest.raises(RunError, match=r"t\.csv:3: expected 2 cells"):
        read_table(tmp_path / "t.csv")
