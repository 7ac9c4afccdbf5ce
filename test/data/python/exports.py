"""Calls everything that export destinations of the audit log have, with one release of the published Python SDK.

usage: exports.py
The service exports to a server that has the bucket "logs". The SDK checks every answer against its own models (strict). Exits with 0 if everything succeeded.
"""

import time

import kernel

client = kernel.Kernel(max_retries=0, _strict_response_validation=True)
destinations = client.audit_logs.export_destinations
place = {"bucket": "logs", "prefix": "python", "region": "eu-west-1", "role_arn": "", "type": "s3", "format": "jsonl.gz"}
made = destinations.create(**place, kms_key_id="alias/one")
try:
    assert made.status == "paused" and made.kms_key_id == "alias/one" and made.external_id, made
    assert {name: getattr(made, name) for name in place} == place, made
    assert destinations.retrieve(made.id).to_dict() == made.to_dict()
    other = destinations.create(**place)
    assert [each.id for each in destinations.list(limit=1)] == [other.id, made.id]
    destinations.delete(other.id)
    assert destinations.update(made.id, prefix="python/2", kms_key_id=None).kms_key_id == "alias/one"
    assert destinations.update(made.id, kms_key_id="").kms_key_id is None
    tested = destinations.test(made.id)
    assert tested.success and tested.stage == "complete" and tested.error is None, tested
    assert destinations.update(made.id, bucket="none").bucket == "none"
    tested = destinations.test(made.id)
    assert not tested.success and tested.stage == "put_object" and tested.error.code == "put_object_failed", tested
    assert destinations.update(made.id, bucket="logs", status="active").status == "active"
    until = time.monotonic() + 30
    while (now := destinations.retrieve(made.id)).last_success_at is None:
        assert time.monotonic() < until, now
        time.sleep(0.1)
    assert now.last_exported_cursor and now.consecutive_failures == 0, now
    assert destinations.update(made.id, status="paused").status == "paused"
finally:
    destinations.delete(made.id)
try:
    destinations.retrieve(made.id)
    raise AssertionError("a deleted destination is found")
except kernel.NotFoundError:
    pass
