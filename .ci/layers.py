"""Checks the arrows between the crates: who may depend on whom, and which package stays below which crate."""
import json
import subprocess
import sys

# A crate of the workspace, and the crates of the workspace that it may use.
MAY_USE = {
    "octopus-core": set(),
    "octopus-codec": {"octopus-core"},
    "octopus-kafka": {"octopus-core"},
    "octopus-auth": {"octopus-core"},
    "octopus-server": {"octopus-core", "octopus-codec", "octopus-kafka", "octopus-auth"},
    "octopus-benches": {"octopus-core", "octopus-codec", "octopus-kafka", "octopus-auth", "octopus-server"},
    "octopus-fuzz": {"octopus-core", "octopus-codec", "octopus-kafka", "octopus-server"},
}
# A package, and the crates that may have it anywhere below them.
MAY_HAVE = {
    "hyper": {"octopus-server", "octopus-benches", "octopus-fuzz"},
    "http": {"octopus-server", "octopus-benches", "octopus-fuzz"},
    "http-body": {"octopus-server", "octopus-benches", "octopus-fuzz"},
    "http-body-util": {"octopus-server", "octopus-benches", "octopus-fuzz"},
    "hyper-util": {"octopus-server", "octopus-benches", "octopus-fuzz"},
    "kafka-protocol": {"octopus-kafka", "octopus-server", "octopus-benches", "octopus-fuzz"},
    "tokio": {"octopus-kafka", "octopus-server", "octopus-benches", "octopus-fuzz"},
    "serde_json": {"octopus-auth", "octopus-server", "octopus-benches", "octopus-fuzz"},
}
# A package that a crate must not name in its own manifest, though it may have it through another.
NOT_DIRECT = {"octopus-server": {"kafka-protocol"}}


def main():
    command = ["cargo", "metadata", "--format-version", "1", "--locked"]
    metadata = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    names = {package["id"]: package["name"] for package in metadata["packages"]}
    uses = {  # what each package is built with, its tests left out
        node["id"]: [
            dep["pkg"] for dep in node["deps"] if any(kind["kind"] != "dev" for kind in dep["dep_kinds"])
        ]
        for node in metadata["resolve"]["nodes"]
    }
    faults = []
    for member in metadata["workspace_members"]:
        crate = names[member]
        direct = {names[dep] for dep in uses[member]}
        if crate not in MAY_USE:
            faults.append(f"{crate} has no place in the layers")
            continue
        for dep in sorted(direct & MAY_USE.keys() - MAY_USE[crate]):
            faults.append(f"{crate} must not use {dep}")
        for dep in sorted(direct & NOT_DIRECT.get(crate, set())):
            faults.append(f"{crate} must not name {dep}")
        below, open_ids = set(), [member]
        while open_ids:
            for dep in uses[open_ids.pop()]:
                if dep not in below:
                    below.add(dep)
                    open_ids.append(dep)
        for package, crates in MAY_HAVE.items():
            if crate not in crates and package in {names[dep] for dep in below}:
                faults.append(f"{crate} must not have {package} below it")
    for fault in faults:
        print(fault)
    sys.exit(bool(faults))


main()
