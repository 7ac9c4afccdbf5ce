"""Calls everything that credential providers have, with one release of the published Python SDK.

usage: credential_providers.py <token of a store of the type "file" with an item "Site">
The SDK checks every answer against its own models (strict), but its types know one type of provider only. Exits with 0 if everything succeeded.
"""

import sys

import kernel

client = kernel.Kernel(max_retries=0)
providers = client.credential_providers
made = providers.create(name="py", provider_type="file", token=sys.argv[1], cache_ttl_seconds=60)
try:
    assert made.enabled is True and made.priority == 0 and not hasattr(made, "token"), made
    assert providers.retrieve(made.id).to_dict() == made.to_dict()
    listed = [provider.id for provider in providers.list(query="py", limit=1)]
    assert made.id in listed, listed
    tried = providers.test(made.id)
    assert tried.success is True and [vault.name for vault in tried.vaults] == ["File"], tried
    items = providers.list_items(made.id).items
    assert [(item.path, item.title, item.vault_name, item.urls) for item in items] == [
        ("File/Site", "Site", "File", ["site.test"])
    ], items
    changed = providers.update(made.id, name="py 2", priority=-1, enabled=False)
    assert (changed.name, changed.priority, changed.enabled) == ("py 2", -1, False), changed
    try:
        providers.create(name="PY 2", provider_type="file", token=sys.argv[1])
        raise AssertionError("a name is taken twice")
    except kernel.ConflictError:
        pass
    assert providers.update(made.id, token='{"file":"missing.json"}').id == made.id
    failed = providers.test(made.id)
    assert failed.success is False and failed.vaults == [] and failed.error, failed
    # Create a provider of the type that the SDK knows, and check every answer against the SDK's models.
    strict = kernel.Kernel(max_retries=0, _strict_response_validation=True).credential_providers
    own = strict.create(name="one", provider_type="onepassword", token="no token")
    try:
        assert strict.retrieve(own.id).provider_type == "onepassword"
        assert strict.update(own.id, cache_ttl_seconds=0).name == "one"
        assert strict.test(own.id).success is False
    finally:
        strict.delete(own.id)
finally:
    providers.delete(made.id)
try:
    providers.retrieve(made.id)
    raise AssertionError("a deleted provider is found")
except kernel.NotFoundError:
    pass
