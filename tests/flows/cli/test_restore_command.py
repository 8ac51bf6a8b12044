"""A home goes on from a backup: open sessions end at their whole charge, and the record and certificates say so."""

import shutil
import subprocess
from pathlib import Path

from tests.support.console import concord
from tests.support.pages import blocks, page
from tests.support.published import SESSION, session, world
from tests.world import RESTORED, Ledger, StableVoting, caveats

GUIDE = page("deployments/guides/backup.md")
STABLE = StableVoting.calibrate(epsilon=1.0, delta=1e-5, cutoff=20)


def test_a_home_goes_on_from_a_backup_at_the_whole_charge(tmp_path: Path) -> None:
    """As the guide copies it."""
    small = world(tmp_path / ".concord")
    session(small, STABLE, small.truth)
    (copied,) = (block for block in blocks("sh", page=GUIDE) if block.startswith("concord verify\n"))
    copied = copied.removeprefix("concord verify\n")
    subprocess.run(["bash", "-ec", copied.replace("../", "")], cwd=tmp_path, check=True)
    shutil.rmtree(small.home)
    (backup,) = tmp_path.glob("backup-*")
    (backup / "home").rename(small.home)
    ledger = Ledger.of(small.home)
    reserved, domain = ledger.session(SESSION).reserved, ledger.domains()[0]
    status, _, error = concord("restore", "--reason", "the disk died", "--home", str(small.home))
    assert status == 0, error
    ended = ledger.session(SESSION)
    assert (ended.status, ended.charge) == ("closed", reserved)
    assert ledger.total(domain.name) == reserved
    assert RESTORED in caveats(domain, [ended], ledger)
    assert concord("verify", SESSION, "--home", str(small.home))[0] == 0


def test_a_home_without_a_domain_has_nothing_to_restore(tmp_path: Path) -> None:
    status, _, error = concord("restore", "--reason", "none", "--home", str(world(tmp_path / "home").home))
    assert (status, "nothing is to be restored" in error) == (2, True), error
