"""Write the generated pages."""

from __future__ import annotations

from docs.generate.pages import PAGES, ROOT


def main() -> None:
    for name, make in PAGES.items():
        (ROOT / name).write_text(make(), encoding="utf-8")


if __name__ == "__main__":
    main()
