"""Drives a session through the MCP server with the official Python client: url of the server, revision of the protocol, page, key in MCP_KEY."""

import asyncio
import base64
import json
import os
import sys

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

URL, MODE, PAGE = sys.argv[1:]
LIMIT_SECONDS = 60


def said(result) -> str:
    assert not result.is_error, result.content
    return result.content[-1].text


async def drive(client: Client) -> None:
    names = {tool.name for tool in (await client.list_tools()).tools}
    assert {"manage_browsers", "computer_action", "execute_playwright_code"} <= names, names
    made = await client.call_tool("manage_browsers", {"action": "create", "headless": True, "start_url": PAGE, "timeout_seconds": 600})
    session = json.loads(said(made))["browser"]["session_id"]
    try:
        loaded = "await page.waitForFunction(() => window.record && document.readyState === 'complete')"
        assert json.loads(said(await client.call_tool("execute_playwright_code", {"session_id": session, "code": loaded})))["success"]
        typed = [
            {"type": "click_mouse", "click_mouse": {"x": 300, "y": 40}},
            {"type": "type_text", "type_text": {"text": "from Python"}},
            {"type": "screenshot"},
        ]
        shown = await client.call_tool("computer_action", {"session_id": session, "actions": typed})
        assert not shown.is_error, shown.content
        picture = shown.content[-1]
        assert (picture.type, picture.mime_type) == ("image", "image/png"), picture
        assert base64.b64decode(picture.data).startswith(b"\x89PNG")
        code = "return await page.locator('#text').inputValue()"
        ran = json.loads(said(await client.call_tool("execute_playwright_code", {"session_id": session, "code": code})))
        assert ran["result"] == "from Python", ran
    finally:
        said(await client.call_tool("manage_browsers", {"action": "delete", "session_id": session}))
    gone = await client.call_tool("computer_action", {"session_id": session, "actions": [{"type": "screenshot"}]})
    assert gone.is_error and "[code: not_found]" in gone.content[0].text, gone
    read = await client.read_resource("kernel://orgs/defaultorganization00000/projects/Default/profiles")
    assert "items" in json.loads(read.contents[0].text), read
    prompt = await client.get_prompt("kernel-concepts", {"concept": "browsers"})
    assert "manage_browsers" in prompt.messages[0].content.text


async def main() -> None:
    headers = {"Authorization": f"Bearer {os.environ['MCP_KEY']}"}
    async with httpx2.AsyncClient(headers=headers, timeout=LIMIT_SECONDS) as http:
        async with Client(streamable_http_client(URL, http_client=http), mode=MODE) as client:
            await drive(client)
            print(client.protocol_version)


asyncio.run(asyncio.wait_for(main(), LIMIT_SECONDS))
