"""Lists every snippet of README and docs with the test that runs it, or holds it against the real thing."""

from __future__ import annotations

from tests.docs.pages import PAGES, blocks_of, runner_of


def main() -> None:
    blocks = [block for page in PAGES for block in blocks_of(page)]
    for block in blocks:
        print(f"{block!s:56} {runner_of(block)}")
    print(f"{len(blocks)} snippets")


if __name__ == "__main__":
    main()
