"""Prints the operations of the newest release of the Python SDK: the content of src/control/service/system/sdk-operations.json.

usage: .cob/python/venv/bin/python test/data/python/operations.py .cob/python/<newest>/kernel >src/control/service/system/sdk-operations.json
"""

import ast
import json
import sys
from pathlib import Path

METHODS = {"get": "GET", "get_api_list": "GET", "post": "POST", "put": "PUT", "patch": "PATCH", "delete": "DELETE"}
root = Path(sys.argv[1])


def path_of(call):
    """The path of a request: a text, or the template of one. Other calls have none."""
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr.lstrip("_") not in METHODS or not call.args:
        return None
    first = call.args[0]
    if isinstance(first, ast.Call) and getattr(first.func, "id", None) == "path_template":
        first = first.args[0]
    return first.value if isinstance(first, ast.Constant) and str(first.value).startswith("/") else None


def operations():
    for file in sorted((root / "resources").rglob("*.py")):
        group = list(file.relative_to(root / "resources").with_suffix("").parts)
        # The SDK puts a group that has sub-groups into a folder of the same name.
        group = group[:-1] if len(group) > 1 and group[-1] == group[-2] else group
        for made in ast.parse(file.read_text()).body:
            if not isinstance(made, ast.ClassDef) or not made.name.endswith("Resource") or made.name.startswith("Async"):
                continue
            for method in made.body:
                for call in ast.walk(method):
                    path = path_of(call)
                    if path is not None:
                        yield ".".join([*group, method.name]), METHODS[call.func.attr.lstrip("_")], path


release = (root / "_version.py").read_text().split('__version__ = "')[1].split('"')[0]
found = sorted({(path, method, name) for name, method, path in operations()})
lines = ",\n".join("    { " + json.dumps({"name": name, "method": method, "path": path})[1:-1] + " }" for path, method, name in found)
print(f'{{\n  "release": "{release}",\n  "operations": [\n{lines}\n  ]\n}}')
