"""Howdah in Django: the checklist of what Django documents, and the sample project in a browser.

Django is configured once for a process, so these tests run in processes of their own.
"""
