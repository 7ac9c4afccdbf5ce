"""Makes a KDBX 4 file with pykeepass (Debian: python3-pykeepass), which derives its key with Argon2.

Reads JSON on standard input: {file, password?, keyfile?, cipher?, entries?: [{title, username?, password?, url?, fields?: {}}]}
"""

import json
import os
import sys

import pykeepass

wanted = json.load(sys.stdin)
made = pykeepass.create_database(wanted["file"], password=wanted.get("password"), keyfile=wanted.get("keyfile"))
# Few passes, so that tests are quick.
made.kdbx.header.value.dynamic_header.kdf_parameters.data.dict["I"].value = 2
if wanted.get("cipher") == "chacha20":
    header = made.kdbx.header.value.dynamic_header
    header.cipher_id.data = "chacha20"
    header.encryption_iv.data = os.urandom(12)
for entry in wanted.get("entries", []):
    added = made.add_entry(
        made.root_group, entry["title"], entry.get("username", ""), entry.get("password", ""), url=entry.get("url")
    )
    for name, value in entry.get("fields", {}).items():
        added._set_string_field(name, value)  # also "otp", which the public method refuses
del made.kdbx.header.data  # it is built again, with the changed values
made.save()
