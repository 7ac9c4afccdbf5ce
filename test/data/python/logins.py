# Drives a login to its end with a release of the published Python SDK: follows its states and submits the values that it asks for.
import json
import sys

from kernel import Kernel

connection, values = sys.argv[1], json.loads(sys.argv[2])
client = Kernel(max_retries=0)
begun = client.auth.connections.login(connection)
assert begun.id == connection and begun.hosted_url and begun.handoff_code, begun

states = []
answered = None
for event in client.auth.connections.follow(connection, timeout=90):
    if event.event != "managed_auth_state":
        continue
    states.append(f"{event.flow_status} {event.flow_step}")
    if event.flow_step == "AWAITING_INPUT":
        names = [field.name for field in event.discovered_fields]
        if names != answered:
            answered = names
            taken = client.auth.connections.submit(connection, fields={name: values[name] for name in names})
            assert taken.accepted, taken

assert states[-1] == "SUCCESS COMPLETED", states
assert any(state.endswith("AWAITING_INPUT") for state in states), states
shown = client.auth.connections.retrieve(connection)
assert shown.status == "AUTHENTICATED" and shown.flow_status == "SUCCESS", shown
items = list(client.auth.connections.timeline(connection))
assert [(item.type, item.status) for item in items] == [("login", "SUCCESS")], items
print("\n".join(states))
