"""Checks of arguments, and values as the database stores them."""
