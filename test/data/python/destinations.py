"""Calls everything that destinations of telemetry have, with one release of the published Python SDK, and lets a browser export to one.

Prints the id of the browser, and its destination.
"""

import sys

from kernel import ConflictError, Kernel, NotFoundError

endpoint = sys.argv[1]
client = Kernel(max_retries=0, _strict_response_validation=True)
destinations = client.telemetry.destinations

made = destinations.create(name="Python", endpoint=endpoint, description="ours", headers={"x-api-key": "one", "x-other": "two"})
assert made.headers == {"X-Api-Key": "", "X-Other": ""}, made
assert (made.consecutive_failures, made.last_error, made.last_export_at) == (0, None, None), made
for name in (made.id, "python"):
    assert destinations.retrieve(name).to_dict() == made.to_dict()
other = destinations.create(name="other", endpoint=endpoint)
assert [each.id for each in destinations.list(limit=1)] == [other.id, made.id]
assert [each.id for each in destinations.list(name="PYTHON")] == [made.id]
changed = destinations.update(made.id, headers={"X-API-KEY": "three", "x-other": None})
assert (changed.name, changed.headers) == ("Python", {"X-Api-Key": ""}), changed
destinations.delete("other")
try:
    destinations.retrieve(other.id)
    raise AssertionError("it was deleted")
except NotFoundError:
    pass

telemetry = {"enabled": True, "browser": {"console": {"enabled": True}}, "export": {"otlp": {"destination": {"name": "Python"}}}}
browser = client.browsers.create(telemetry=telemetry, timeout_seconds=600)
assert browser.telemetry.export.otlp.to_dict() == {"enabled": True, "destination": made.id}, browser.telemetry
assert browser.telemetry.storage.enabled is True
try:
    destinations.delete(made.id)
    raise AssertionError("a browser uses it")
except ConflictError:
    pass
print(browser.session_id, made.id)
