"""The dashboard: pages, a live stream and a JSON API about one queue, as an ASGI app.

::

    from howdah.web import app, Password

    dashboard = app(queue, authenticate=Password(operator="…"), hosts=["jobs.example.com"])

``howdah web`` serves it alone. It needs ``pip install 'howdah[web]'``.
"""

try:
    from howdah.web.access import Authenticate, Password, ProxyHeader, Role, Visitor
    from howdah.web.app import Dashboard, app
    from howdah.web.server import serve
except ModuleNotFoundError as error:
    _missing = (error.name or "").partition(".")[0]
    if _missing in ("", "howdah"):
        raise
    raise ModuleNotFoundError(
        f"howdah.web needs more packages ({_missing}): pip install 'howdah[web]'", name=_missing
    ) from None

__all__ = ["Authenticate", "Dashboard", "Password", "ProxyHeader", "Role", "Visitor", "app", "serve"]
