"""Every field of what several homes release is checked by whoever has the published folder alone."""

import json
from pathlib import Path

import numpy as np
import pytest

from concord.artifacts.schemas import canonical_json
from concord.tasks.verify.folder import PublishedSession
from concord.tasks.verify.published import verify_published
from tests.support.edited import LAST_MODEL, MODEL, missed, rewritten
from tests.support.several import Several, all_rounds

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("tracking")]


def test_an_edit_of_any_field_is_found(tmp_path: Path) -> None:
    folder = Path(all_rounds(Several(tmp_path / "world"))["certificate"]).parent
    assert [check for check in verify_published(folder) if not check.ok] == []
    *_, file, table = PublishedSession.at(folder).certificate.leading.files
    assert {*missed(folder, file.path)} <= MODEL | LAST_MODEL
    assert missed(folder, table.path) == []
    content = json.loads((folder.parent / file.path).read_bytes())
    for name in ("weights", "intercept"):
        model = {**content["decoded"], name: (1.5 * np.array(content["decoded"][name]) + 0.5).tolist()}
        rewritten(folder, file.path, canonical_json({**content, "decoded": model}).encode())
        (check,) = (each for each in verify_published(folder) if each.name.endswith(": student"))
        assert (check.ok, check.detail) == (
            False,
            f"the {name} of the student are not those of the last released model",
        )
