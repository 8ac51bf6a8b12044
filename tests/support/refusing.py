"""The beginning of a program that cannot import Concord, nor what only Concord needs."""

REFUSE = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("concord", "flows", "tasks", "artifacts", "polars", "prefect", "opendp"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Refuse())
"""
