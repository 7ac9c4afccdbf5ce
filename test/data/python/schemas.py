"""Prints the schemas of answers in the newest release of the Python SDK: the content of test/data/newest.json.

usage: PYTHONPATH=.cob/python/<newest> .cob/python/venv/bin/python test/data/python/schemas.py >test/data/newest.json
"""

import json
import sys

import kernel
import kernel.types
import kernel.types.browsers
import kernel.types.browsers.fs
from pydantic import TypeAdapter

# The groups that Cob implements.
GROUPS = ("App", "Browser", "Computer", "Deployment", "FFile", "FList", "Invocation", "Playwright", "Process", "Replay", "Watch")

definitions = {}
for module in (kernel.types, kernel.types.browsers, kernel.types.browsers.fs):
    for name in sorted(dir(module)):
        if not (name.endswith("Response") and name.startswith(GROUPS)):
            continue
        schema = TypeAdapter(getattr(module, name)).json_schema(ref_template="newest#/$defs/{model}", mode="validation")
        definitions.update(schema.pop("$defs", {}))
        definitions[name] = schema
json.dump({"$id": "newest", "x-release": kernel.__version__, "$defs": definitions}, sys.stdout, indent=1, sort_keys=True)
print()
