"""Encodings: one with a column of every kind, and one of three columns, such as a picture."""

from tests.world import Column, Empty, Encoding, Hashed, OneHot, Passed, Scaled, Spelling

PLAIN = Scaled(kind="numeric", name="plain", mean=0.1, scale=3, fill=-0.7, low=-1e30, high=1e30, missing=True)
VOCABULARY = (
    *("a", "0", "-0.5", "Rome", "1970-01-01", "1.5", "0.00001", "0.000015", "1e-7", "7.5", "1e+19", "true", "-1"),
    *("9.223372036854776e+18", "5e-324", "1.00", "ff", "", "6e-8", "0.1", "1970-01-01 00:00:00.000", "a\x00"),
)
COLUMNS: tuple[Column, ...] = (
    *(PLAIN.model_copy(update={"name": name, "missing": False, "mean": mean}) for name, mean in (("b", 1), ("c", 2))),
    *(PLAIN, PLAIN.model_copy(update={"name": "log", "log": True})),
    PLAIN.model_copy(update={"name": "narrow", "low": -0.5, "high": 0.7, "missing": False, "mean": 1 / 3}),
    PLAIN.model_copy(update={"name": "truth", "kind": "boolean"}),
    PLAIN.model_copy(update={"name": "date", "kind": "date", "low": -1e9, "high": 1e9}),
    *(
        PLAIN.model_copy(
            update={"name": f"{kind} spelled", "kind": kind, "low": -1e9, "high": 1e9, "spelling": spelling}
        )
        for kind, spelling in {
            "numeric": Spelling(absent=(0.0, -0.5, 1.5, 9.0)),
            "boolean": Spelling(absent=("x", "1"), true=("a", "1.5", "x"), false=("0", "true")),
            "date": Spelling(absent=(0.0, 18262.5), dates="%d.%m.%Y"),
        }.items()
    ),
    PLAIN.model_copy(update={"name": "moment spelled", "kind": "date", "spelling": Spelling(dates="%m/%d/%Y %H:%M")}),
    OneHot(
        name="hashed spelled",
        vocabulary=tuple(f"bucket {at} of 5" for at in range(1, 6)),
        missing=True,
        hashed=True,
        spelling=Spelling(absent=("a", "0", "1970-01-01", "true")),
    ),
    OneHot(name="word", vocabulary=VOCABULARY, missing=True),
    OneHot(name="known", vocabulary=VOCABULARY[:4], missing=False),
    OneHot(name="hashed", vocabulary=tuple(f"bucket {at} of 5" for at in range(1, 6)), missing=True, hashed=True),
    Empty(name="nothing"),
    Passed(name="bytes", element="uint8", size=2),
    Passed(name="wave", element="float32", size=2),
    Hashed(name="text", size=16),
)
EVERY = Encoding(columns=COLUMNS, label="label", classes=("a", "0", "true"))
"""Every kind of column, read in every way."""
THREE = Encoding(
    columns=(
        Scaled(kind="numeric", name="size", mean=0, scale=1, fill=0, low=-1, high=1, missing=False),
        OneHot(name="shade", vocabulary=("dark", "light"), missing=False),
        Passed(name="image", element="uint8", size=4),
    ),
    label="kind",
    classes=("no", "yes"),
)
