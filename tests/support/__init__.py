"""Builders and worlds that tests share. No test imports a test."""
