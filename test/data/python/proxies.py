"""Calls everything that proxies have, with one release of the published Python SDK.

usage: proxies.py <port of an HTTP proxy on this machine that accepts kim with the password "password"> <url of a page>
The SDK checks every answer against its own models (strict). Exits with 0 if everything succeeded.
"""

import sys

import kernel

PORT, PAGE = int(sys.argv[1]), sys.argv[2]

client = kernel.Kernel(max_retries=0, _strict_response_validation=True)
config = {"host": "127.0.0.1", "port": PORT, "username": "kim", "password": "password"}
made = client.proxies.create(type="custom", name="py", protocol="http", config=config, bypass_hosts=["example.com"])
assert made.config.username == "kim" and made.config.has_password is True, made
assert not hasattr(made.config, "password"), made
try:
    assert client.proxies.retrieve(made.id).to_dict() == made.to_dict()
    assert made.id in [proxy.id for proxy in client.proxies.list(query="py", limit=1)]
    assert client.proxies.update(made.id, name="py 2").name == "py 2"
    checked = client.proxies.check(made.id)
    assert checked.status == "available" and checked.ip_address == "203.0.113.7" and checked.last_checked, checked
    assert client.proxies.check(made.id, url=PAGE).status == "available"
finally:
    client.proxies.delete(made.id)
try:
    client.proxies.retrieve(made.id)
    raise AssertionError("a deleted proxy is found")
except kernel.NotFoundError:
    pass
