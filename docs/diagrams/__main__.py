"""Draw all of them."""

from __future__ import annotations

from pathlib import Path

from docs.diagrams import DRAWINGS


def main() -> None:
    for name, draw in DRAWINGS.items():
        (Path(__file__).parent / f"{name}.svg").write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main()
