"""Concord: a classifier learned from sensitive labelled data, with an (ε, δ) guarantee an auditor can check.

    import concord

    done = concord.run("plan.toml")
    concord.load_student(done.session).predict(rows)

Offers `run`, `refresh`, `ask` and `load_student`; `init`, `plan`, `verify`, `budget`, `predict` and `export`, which do
what the commands do; `ConcordClassifier` and `ConcordRegressor`, in scikit-learn's manner; and the packages
`concord.flows` (what runs), `concord.tasks` (the work) and `concord.artifacts` (types and stores). They are the folders
of those names at the root of the repository, to which this one links. Nothing is imported until it is asked for.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from concord.flows.api import (
        ask,
        budget,
        export,
        init,
        load_student,
        plan,
        predict,
        refresh,
        run,
        verify,
    )
    from concord.flows.classifier import ConcordClassifier, ConcordRegressor

__all__ = [
    "ConcordClassifier",
    "ConcordRegressor",
    "__version__",
    "ask",
    "budget",
    "export",
    "init",
    "load_student",
    "plan",
    "predict",
    "refresh",
    "run",
    "verify",
]

__version__ = "2.0.0"
"""Of the package, and of what ledger and certificates say they were written by."""


def __getattr__(name: str) -> Any:
    """What `__all__` names, imported when it is first used: `import concord` is quick."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.flows.{'classifier' if name.startswith('Concord') else 'api'}"), name)


def __dir__() -> list[str]:
    """What `concord.<TAB>` shows."""
    return [*__all__, "artifacts", "flows", "tasks"]
