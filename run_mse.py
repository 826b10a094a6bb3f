"""Measure how far policy-gradient estimates are from the true gradient of a model."""

from mse_lab.__main__ import start

if __name__ == "__main__":
    start()
else:
    from mse_lab.commands.cli import main as main
