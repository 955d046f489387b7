"""The result of a soak, as text for people and as JSON for programs."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass
class Report:
    seconds: float
    seed: int
    problems: list[str] = field(default_factory=list)
    workloads: dict[str, dict[str, object]] = field(default_factory=dict)
    servers: dict[str, object] = field(default_factory=dict)
    pauses: dict[str, dict[str, object]] = field(default_factory=dict)
    disturbances: list[str] = field(default_factory=list)

    def text(self) -> str:
        lines = [f"Soak of {self.seconds:.0f} s with seed {self.seed}: {'FAILED' if self.problems else 'passed'}", ""]
        lines += [f"  problem: {each}" for each in self.problems]
        tables = (("workloads", self.workloads), ("servers", self.servers), ("pauses of the event loop", self.pauses))
        for title, rows in tables:
            lines += ["", title]
            for name, figures in rows.items():
                places = figures.get("places", []) if isinstance(figures, dict) else []
                lines += [f"  {name:20} {_shown(figures)}", *(f"    {place}" for place in places)]
        return "\n".join(lines)

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "soak.txt").write_text(self.text() + "\n")
        (folder / "soak.json").write_text(json.dumps(asdict(self), indent=1) + "\n")


def _shown(figures: object) -> str:
    if not isinstance(figures, dict):
        return str(figures)
    return ", ".join(f"{name} {value}" for name, value in figures.items() if name != "places")
