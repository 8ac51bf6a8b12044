"""What users would take instead of Concord, on the same rows: one peer, one ε, one seed, in an environment of its own.

    .venv-bench/bin/python tests/benchmarks/peers.py INPUTS.npz PEER EPSILON SEED PROBABILITIES.npy

`tests/benchmarks/accuracy.py` calls it. It knows nothing of Concord: what Concord learned from public rows (bins,
vocabularies, ranges) reaches a peer as arrays, so that a peer pays for none of it. Settings that a library leaves open
were tried on Adult's evaluation rows and the best ones taken, in the peers' favour.

dp_ebm       boosted bins (interpret), as it comes: numbers within public bounds, words by their public codes
dp_logistic  objective perturbation (diffprivlib): pure ε, rows of public norm √F, δ not used
dp_sgd       logistic regression by DP-SGD (Opacus): add or remove a row; the number of rows is taken as public
dp_sgd_best  the best of several learning rates, chosen by the labels that evaluate: nobody who pays for it can do that
dp_sgd_list  the same on standardised numbers, at most FARTHEST either way, in place of their codes
mst, aim     synthetic rows (dpmm), from which a logistic regression learns: the codes' domain is public
"""

import math
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Inputs = Mapping[str, NDArray[Any]]
Rows = Callable[["Inputs", str], NDArray[np.float32]]
"""What Concord's public encoding makes of a case; `private_` and `test_` before:

codes      (rows, F) codes of each field from 0, of `sizes` (F,) codes
numbers    (rows, numbers) standardised and clipped to the public range, which is `bounds` (numbers, 2)
labels     (rows,) class indices
is_number  (F,) which fields are numbers; `classes` and `delta` are those of the case
"""
STEPS_A_PASS, PASSES = 32, 20
RATES = ((0.3, 1.0), (math.inf, 4.0))
"""Of DP-SGD: 32 batches a pass, twenty passes, and the learning rate up to an ε."""
RATES_TRIED = (0.06, 0.25, 1.0, 4.0)
"""Learning rates of which the best is taken in hindsight."""
FARTHEST = 3.0
"""Of dp_sgd_list: largest standardised number, either way, as where numbers are joined."""
STRENGTH = 100.0
"""Of dp_logistic: C is this times ε over the number of rows."""


def one_hot(inputs: Inputs, part: str) -> NDArray[np.float32]:
    """Rows of zeros and F ones."""
    starts = np.concatenate([[0], np.cumsum(inputs["sizes"])])
    codes = inputs[f"{part}_codes"] + starts[:-1]
    rows = np.zeros((len(codes), starts[-1]), dtype=np.float32)
    np.put_along_axis(rows, codes, 1, axis=1)
    return rows


def listed(inputs: Inputs, part: str) -> NDArray[np.float32]:
    """Rows of numbers and, for words, of zeros and ones."""
    words = ~inputs["is_number"]
    coded = {**inputs, "sizes": inputs["sizes"][words], f"{part}_codes": inputs[f"{part}_codes"][:, words]}
    numbers = np.clip(inputs[f"{part}_numbers"], -FARTHEST, FARTHEST).astype(np.float32)
    return np.hstack([numbers, one_hot(coded, part)])


def dp_ebm(inputs: Inputs, epsilon: float, seed: int) -> Floats:
    """Two classes alone."""
    from interpret.privacy import DPExplainableBoostingClassifier

    words = np.flatnonzero(~inputs["is_number"])
    numbers = inputs["bounds"].shape[0]

    def rows(part: str) -> Any:
        return np.hstack([inputs[f"{part}_numbers"], inputs[f"{part}_codes"][:, words]])

    learner = DPExplainableBoostingClassifier(
        feature_types=["continuous"] * numbers + ["nominal"] * len(words),
        privacy_bounds={at: (float(low), float(high)) for at, (low, high) in enumerate(inputs["bounds"])},
        epsilon=epsilon,
        delta=float(inputs["delta"]),
        n_jobs=1,
        random_state=seed,
    )
    return np.asarray(learner.fit(rows("private"), inputs["private_labels"]).predict_proba(rows("test")))


def dp_logistic(inputs: Inputs, epsilon: float, seed: int) -> Floats:
    """Class against rest, as the library does."""
    from diffprivlib.models import LogisticRegression

    norm = math.sqrt(len(inputs["sizes"]))
    rows, labels = one_hot(inputs, "private"), inputs["private_labels"]
    strength = STRENGTH * epsilon / len(labels)
    learner = LogisticRegression(epsilon=epsilon, data_norm=norm, C=strength, max_iter=1000, random_state=seed)
    learner.fit(rows, labels)
    return np.asarray(learner.predict_proba(one_hot(inputs, "test")))


def dp_sgd_best(inputs: Inputs, epsilon: float, seed: int, rows_of: Rows = one_hot) -> Floats:
    """The learning rate of RATES_TRIED that is right on the most rows that evaluate."""
    found = [dp_sgd(inputs, epsilon, seed, rate, rows_of) for rate in RATES_TRIED]
    return max(found, key=lambda each: float(np.mean(each.argmax(axis=1) == inputs["test_labels"])))


def dp_sgd(inputs: Inputs, epsilon: float, seed: int, rate: float | None = None, rows_of: Rows = one_hot) -> Floats:
    """One linear layer; the mean of the weights of the last pass counts."""
    import torch
    from opacus import PrivacyEngine
    from torch.utils.data import DataLoader, TensorDataset

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    X, y = torch.from_numpy(rows_of(inputs, "private")), torch.from_numpy(inputs["private_labels"])
    model = torch.nn.Linear(X.shape[1], int(inputs["classes"]))
    torch.nn.init.zeros_(model.weight)
    torch.nn.init.zeros_(model.bias)
    rate = rate or next(usual for most, usual in RATES if epsilon <= most)
    batches = DataLoader(TensorDataset(X, y), batch_size=-(-len(X) // STEPS_A_PASS), shuffle=True)
    made = PrivacyEngine().make_private_with_epsilon(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=rate),
        data_loader=batches,
        epochs=PASSES,
        target_epsilon=epsilon,
        target_delta=float(inputs["delta"]),
        max_grad_norm=1.0,
    )
    module, optimizer, loader = made[:3]
    mean = torch.zeros(X.shape[1] + 1, int(inputs["classes"]))
    for step in range(PASSES):
        for rows, labels in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(module(rows), labels).backward()
            optimizer.step()
            if step == PASSES - 1:
                mean += torch.vstack([model.weight.T, model.bias[None]]).detach()
    mean /= STEPS_A_PASS
    logits = torch.from_numpy(rows_of(inputs, "test")) @ mean[:-1] + mean[-1]
    return np.asarray(torch.softmax(logits, dim=1), dtype=np.float64)


def synthetic(inputs: Inputs, epsilon: float, seed: int, pipeline: str) -> Floats:
    """As many synthetic rows as private ones (a number taken as public), and a logistic regression on them."""
    import pandas as pd
    from dpmm import pipelines
    from sklearn.linear_model import LogisticRegression

    fields = [f"field {at}" for at in range(len(inputs["sizes"]))]
    table = pd.DataFrame(inputs["private_codes"], columns=fields).assign(label=inputs["private_labels"])
    domain = {**dict(zip(fields, map(int, inputs["sizes"]), strict=True)), "label": int(inputs["classes"])}
    made = getattr(pipelines, pipeline)(
        epsilon=epsilon, delta=float(inputs["delta"]), disable_processing=True, max_model_size=80, n_jobs=1
    )
    made.fit(table, domain=domain, random_state=seed)
    rows = made.generate(n_records=len(table), random_state=seed)
    drawn = {**inputs, "drawn_codes": rows[fields].to_numpy()}
    learner = LogisticRegression(max_iter=300).fit(one_hot(drawn, "drawn"), rows["label"])
    found = np.zeros((len(inputs["test_codes"]), int(inputs["classes"])))
    found[:, learner.classes_.astype(int)] = learner.predict_proba(one_hot(inputs, "test"))
    return found


PEERS: Mapping[str, Callable[[Inputs, float, int], Floats]] = {
    "dp_ebm": dp_ebm,
    "dp_logistic": dp_logistic,
    "dp_sgd": dp_sgd,
    "dp_sgd_best": dp_sgd_best,
    "dp_sgd_list": lambda inputs, epsilon, seed: dp_sgd_best(inputs, epsilon, seed, listed),
    "mst": lambda inputs, epsilon, seed: synthetic(inputs, epsilon, seed, "MSTPipeline"),
    "aim": lambda inputs, epsilon, seed: synthetic(inputs, epsilon, seed, "AIMPipeline"),
}


if __name__ == "__main__":
    path, peer, asked, number, written = sys.argv[1:]
    np.save(written, PEERS[peer](dict(np.load(path)), float(asked), int(number)))
