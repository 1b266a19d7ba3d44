# SPDX-License-Identifier: BSD-3-Clause
"""Modules that stand for those which an engine's sources import and a test has not."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
from types import ModuleType
from typing import Any
from unittest import mock


class Stub(ModuleType):
    """A module that has every name: a mock where nothing is given."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return mock.MagicMock(name=f"{self.__name__}.{name}")


class Stubs(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Goes first in ``sys.meta_path``: modules by name, with what is looked at in them."""

    def __init__(self, stubs: dict[str, dict[str, Any]]) -> None:
        self.stubs = stubs

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        return importlib.machinery.ModuleSpec(name, self) if name in self.stubs else None

    def create_module(self, spec: Any) -> ModuleType:
        module = Stub(spec.name)
        vars(module).update(self.stubs[spec.name])
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is left to do."""
