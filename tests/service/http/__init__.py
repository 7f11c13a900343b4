"""Tests of `apass/service/http`, mostly with real servers over loopback."""
