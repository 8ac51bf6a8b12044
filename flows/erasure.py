"""An erasure, and what it cannot undo."""

from pathlib import Path
from typing import Any

from rich.console import Console

from artifacts.recorded import Records
from tasks.erasing import erase
from tasks.release import Door

out = Console(highlight=False, markup=False)


def erased(home: Path, domain: str, unit: str | None) -> dict[str, Any]:
    """Erase a unit, or every unit, of a domain; and what its sessions have published. Raises as `tasks.erasing`."""
    door = Door.of(home)
    now = erase(door, domain, unit)
    records = Records.of(home)
    published = [
        {"session": session.id, "labels": session.answered, "models": records.models(session.id)}
        for session in door.ledger.sessions(domain)
    ]
    return {"domain": domain, "erased_now": now, "left_out": unit is not None, "published": published}


def show_erasure(told: dict[str, Any]) -> None:
    """What is gone, what is beyond recall, and what is left to the owner of the table."""
    said = "the vault keeps nothing more of its table" if told["erased_now"] else "nothing of its table was left"
    out.print(f"domain {told['domain']}: {said}; its sessions are closed, charged whole and forgotten", soft_wrap=True)
    for one in told["published"]:
        models = ", ".join(one["models"]) or "no model"
        out.print(f"published and beyond recall: session {one['session']}, {one['labels']} labels, {models}")
    if told["left_out"]:
        out.print("from now on the unit is left out wherever the domain's table names it", soft_wrap=True)
    out.print(
        "left to do: remove what was erased from the table itself, name its new state in [data] version, and ask for a "
        "--new-session, which costs again",
        soft_wrap=True,
    )
