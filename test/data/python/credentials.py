"""Calls everything that credentials have, with one release of the published Python SDK.

usage: credentials.py <a secret value>
The SDK checks every answer against its own models (strict). Exits with 0 if everything succeeded.
"""

import re
import sys

import kernel

SECRET = sys.argv[1]
BASE32 = "JBSWY3DPEHPK3PXP"
HAS_SETTINGS = tuple(int(part) for part in kernel.__version__.split(".")[:2]) >= (0, 131)

client = kernel.Kernel(max_retries=0, _strict_response_validation=True)
settings = {"totp_algorithm": "SHA256", "totp_digits": 8, "totp_period": 60} if HAS_SETTINGS else {}
digits = settings.get("totp_digits", 6)
made = client.credentials.create(
    name="py", domain="site.test", values={"username": "kim", "password": SECRET}, sso_provider="google", totp_secret=BASE32, **settings
)
assert sorted(made.value_keys) == ["password", "username"] and made.has_values and made.has_totp_secret, made
assert re.fullmatch(r"\d{%d}" % digits, made.totp_code) and made.totp_code_expires_at > made.created_at, made
try:
    read = client.credentials.retrieve("py")
    assert read.id == made.id and read.sso_provider == "google" and read.totp_code is None, read
    if HAS_SETTINGS:
        assert (read.totp_algorithm, read.totp_digits, read.totp_period) == ("SHA256", 8, 60), read
    listed = [one for one in client.credentials.list(query="PY", domain="Site.test", limit=1) if one.id == made.id]
    assert len(listed) == 1 and listed[0].value_keys is None, listed
    code = client.credentials.totp_code(made.id)
    assert re.fullmatch(r"\d{%d}" % digits, code.code) and code.expires_at > made.created_at, code
    changed = client.credentials.update("py", name="py 2", remove_value_keys=["username"], values={"email": SECRET}, sso_provider=None, totp_secret="")
    assert sorted(changed.value_keys) == ["email", "password"] and changed.sso_provider is None and not changed.has_totp_secret, changed
    assert SECRET not in str(read.to_dict()) + str(changed.to_dict()) + str(listed)
    try:
        client.credentials.totp_code("py 2")
        raise AssertionError("a code without a secret")
    except kernel.BadRequestError:
        pass
finally:
    client.credentials.delete(made.id)
try:
    client.credentials.retrieve(made.id)
    raise AssertionError("a deleted credential is found")
except kernel.NotFoundError:
    pass
