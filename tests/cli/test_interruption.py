"""Commands that clean up are interrupted once: surely, and not while they do so. Each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from tests.cli.runner import default_signals


def said_by(program: str) -> list[str]:
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
        preexec_fn=default_signals,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    return ended.stdout.split()


@pytest.mark.parametrize("swallow", ["Finalized()", "weakref.finalize(Plain(), signal.raise_signal, signal.SIGINT)"])
def test_an_interruption_that_a_finalizer_or_a_callback_swallows_comes_again(swallow: str) -> None:
    """Such as that of a WeakSet, of which Python and the driver have many."""
    program = f"""
        import signal, threading, weakref
        from howdah.cli.process.interruption import interrupted_once

        class Plain: ...

        class Finalized:
            def __del__(self): signal.raise_signal(signal.SIGINT)

        try:
            with interrupted_once():
                {swallow}
                threading.Event().wait(30)
        except KeyboardInterrupt:
            print("interrupted")
    """
    assert said_by(program) == ["interrupted"]


def test_other_unraisable_exceptions_still_reach_the_hook() -> None:
    program = """
        import sys
        from howdah.cli.process.interruption import interrupted_once

        class Holder:
            def __del__(self): raise ValueError

        def tell(lost): print(lost.exc_type.__name__)

        sys.unraisablehook = tell
        with interrupted_once():
            holder = Holder()
            del holder
        assert sys.unraisablehook is tell
    """
    assert said_by(program) == ["ValueError"]


def test_an_interrupted_process_is_not_interrupted_again_before_it_ends() -> None:
    program = """
        import signal
        from howdah.cli.process.interruption import interrupted_once

        try:
            with interrupted_once():
                try:
                    signal.raise_signal(signal.SIGTERM)
                finally:
                    signal.raise_signal(signal.SIGINT)
                    print("cleaned")
        except KeyboardInterrupt:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.raise_signal(number)
            print("ended")
    """
    assert said_by(program) == ["cleaned", "ended"]


def test_without_an_interruption_the_signal_handlers_are_restored() -> None:
    program = """
        import signal
        from howdah.cli.process.interruption import interrupted_once

        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        heard = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
        with interrupted_once():
            signal.raise_signal(signal.SIGHUP)
        assert heard == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
        print("restored")
    """
    assert said_by(program) == ["restored"]
