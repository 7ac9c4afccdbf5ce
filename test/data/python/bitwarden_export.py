"""Seals a text as Bitwarden does for a password-protected export, with programs of Debian that the service does not use (pycryptodomex, argon2-cffi).

Reads JSON on standard input: {text, password, kdf: "pbkdf2" | "argon2id"}; prints the export.
"""

import base64
import hashlib
import hmac
import json
import os
import sys
import uuid

from argon2.low_level import Type, hash_secret_raw
from Cryptodome.Cipher import AES
from Cryptodome.Util.Padding import pad

wanted = json.load(sys.stdin)
password = wanted["password"].encode()
salt = base64.b64encode(os.urandom(16)).decode()
if wanted["kdf"] == "pbkdf2":
    settings = {"kdfType": 0, "kdfIterations": 100_000}
    key = hashlib.pbkdf2_hmac("sha256", password, salt.encode(), 100_000)
else:
    settings = {"kdfType": 1, "kdfIterations": 3, "kdfMemory": 16, "kdfParallelism": 4}
    hashed = hashlib.sha256(salt.encode()).digest()
    key = hash_secret_raw(password, hashed, time_cost=3, memory_cost=16 * 1024, parallelism=4, hash_len=32, type=Type.ID)


def expand(info):
    return hmac.new(key, info + b"\x01", hashlib.sha256).digest()


def seal(text):
    iv = os.urandom(16)
    sealed = AES.new(expand(b"enc"), AES.MODE_CBC, iv).encrypt(pad(text.encode(), 16))
    mac = hmac.new(expand(b"mac"), iv + sealed, hashlib.sha256).digest()
    return "2." + "|".join(base64.b64encode(part).decode() for part in (iv, sealed, mac))


validation = seal(str(uuid.uuid4()))
sealed = {"encrypted": True, "passwordProtected": True, "salt": salt, **settings}
print(json.dumps({**sealed, "encKeyValidation_DO_NOT_EDIT": validation, "data": seal(wanted["text"])}))
