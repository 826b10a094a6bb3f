"""The command line as `python -m mse_lab`."""

from mse_lab.cli import start

if __name__ == "__main__":
    start()
