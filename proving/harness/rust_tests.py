"""The Rust tests that suites run. `make test` has built them before, and says in TEST_PROGRAMS which programs they are. The suites start these
themselves: cargo would wait there for the lints, which run beside the suites and lock the same directory."""

import json
import os
from pathlib import Path


def words(kind: str, name: str, *arguments: str, profile: str = "{profile}") -> list[str]:
    """Return the words that run the tests of one cargo target: `kind` is "test" or "bin", and `arguments` go to the test program. `profile`
    is cargo's, for tests that are not built yet."""
    listed = os.environ.get("TEST_PROGRAMS")
    built = json.loads(Path(listed).read_text()).get(f"{kind} {name}") if listed else None
    if built:
        program, folder = built
        return ["env", f"--chdir={folder}", program, *arguments]
    # The features of dependencies follow from the packages that are selected. For one package most crates would be compiled once more.
    return ["cargo", "test", "-q", "--profile", profile, "--workspace", f"--{kind}", name, "--", *arguments]
