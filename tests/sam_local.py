#!/usr/bin/env python3
"""Lets functions in containers use the stack of a laptop, until it is stopped: see docs/guides/sam-local.md.

    . groupage-data/env
    python3 tests/sam_local.py [ADDRESS]

It does what SAM does not:

- SAM gives a function only those variables that its template declares. `target/sam/local.yaml` is the built template
  with the variables of the two endpoints, and `target/sam/env.json` has the values of all.
- A container does not reach this machine's loopback, where the stack listens. The stack's two ports are forwarded from
  ADDRESS, Docker's bridge (172.17.0.1), which containers reach and the network does not. The key is still asked for.
- A function calls nothing on this machine unless it is allowed to. Here it may call `localhost`.
- No role sends a message here. So everybody who has the stack's key may say what on AWS only the functions' roles may.
- The stack answers only requests for `127.0.0.1` or `localhost`. So containers know ADDRESS by the name `localhost`.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from urllib.parse import urlsplit

BUILT = Path(__file__).resolve().parents[1] / "target/sam"
ENDPOINTS = ["AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL_SQS"]
VARIABLES = "      Variables:\n        GROUPAGE_TASK_TABLE:"


def write_files(environment: dict[str, str]) -> None:
    template = (BUILT / "template.yaml").read_text()
    assert template.count(VARIABLES) == 1, "the template's variables are not where they are expected"
    declared = VARIABLES.replace("\n", "".join(["\n", *(f'        {name}: ""\n' for name in ENDPOINTS)]))
    (BUILT / "local.yaml").write_text(template.replace(VARIABLES, declared))
    values = {
        name: value.replace("//127.0.0.1:", "//localhost:")
        for name, value in environment.items()
        if name in ENDPOINTS or name.startswith("GROUPAGE_") and name.endswith(("_TABLE", "_QUEUE"))
    }
    # No role sends here: the stack's messages come from everybody who has the stack's key.
    values |= {"GROUPAGE_PRIVATE_HOSTS": "localhost", "GROUPAGE_OWN_SENDERS": "*", "GROUPAGE_TRUSTED_SENDERS": "*"}
    (BUILT / "env.json").write_text(json.dumps({"Parameters": values}))


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass  # The other side has gone: so does this one.
    finally:
        writer.close()


async def forward(address: str, ports: list[int]) -> None:
    for port in ports:

        async def connect(reader, writer, port=port):
            there = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.gather(copy(reader, there[1]), copy(there[0], writer))

        await asyncio.start_server(connect, address, port)
    print(f"containers reach the stack at {address}; stop with Ctrl-C", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    missing = [name for name in ENDPOINTS if name not in os.environ]
    if missing:
        sys.exit(f"{', '.join(missing)} not set: start `groupage local --no-steps`, then `. groupage-data/env`")
    write_files(dict(os.environ))
    try:
        asyncio.run(forward(*(sys.argv[1:2] or ["172.17.0.1"]), [urlsplit(os.environ[name]).port for name in ENDPOINTS]))
    except KeyboardInterrupt:
        pass
