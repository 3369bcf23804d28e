"""The dashboard: pages, a live stream and a JSON API about one queue, as an ASGI app.

::

    from howdah.web import app, Password

    dashboard = app(queue, authenticate=Password(operator="…"), hosts=["jobs.example.com"])

``howdah web`` serves it alone. It needs ``pip install 'howdah[web]'``.
"""

from howdah.web.access import Authenticate, Password, ProxyHeader, Role, Visitor
from howdah.web.app import Dashboard, app
from howdah.web.server import serve

__all__ = ["Authenticate", "Dashboard", "Password", "ProxyHeader", "Role", "Visitor", "app", "serve"]
