"""Replaces the package `kernel` in tests without PyPI. Has only its registry, with the peculiarities of 0.93.0."""

from dataclasses import dataclass


@dataclass
class KernelContext:
    invocation_id: str


class _Action:
    def __init__(self, name, handler):
        self.name, self.handler = name, handler


class App:
    def __init__(self, name):
        self.name, self._actions = name, {}
        app_registry._apps[name] = self

    def action(self, name):
        def decorate(function):
            count = function.__code__.co_argcount

            # Like the published package: a plain wrapper, also around async functions.
            def handler(context, payload=None, *missing):
                if not isinstance(context, KernelContext):
                    raise TypeError("the context must be a KernelContext")
                return function(context) if count == 1 else function(context, payload)

            self._actions[name] = _Action(name, handler)
            return function

        return decorate

    def get_actions(self):
        return list(self._actions.values())

    def get_action(self, name):
        return self._actions.get(name)


class _Registry:
    def __init__(self):
        self._apps = {}

    def get_apps(self):
        return list(self._apps.values())

    def export_json(self):
        raise TypeError("as in the package")

    export_registry = export_json


app_registry = _Registry()
