"""Count the cases that a script printed in the guest: `PASS name`, `FAIL name: why` and `SKIP name: why`."""

from proving.harness import server as servers
from proving.harness.tally import Tally
from proving.kernel_client import guest, kernels

LIMIT_S = 420


def count(tally: Tally, name: str, ran: tuple[guest.Ran, bool, str], server: servers.Server, lacks: dict[str, str]) -> None:
    """Add the cases of one mount. `ran` is the result of `guest.run`, whether the server was alive then, and its log.
    `server` has ended since. `lacks` gives the cases that may fail and the reasons, for every mount or for one (`mount:
    case`). It also includes the cases that the kernel itself fails."""
    said, alive, log = ran
    if server.complaint:
        tally.add("fail", f"{name}: the server's end", server.complaint)
    count_lines(tally, name, said, lacks)
    if not alive:
        tally.add("fail", f"{name}: server", f"it ended: {log[-400:]}")


def count_lines(tally: Tally, name: str, said: guest.Ran, lacks: dict[str, str]) -> None:
    """The same without a server. `said` is the result of `guest.run`."""
    lacks = kernels.GuestKernel.lacks() | lacks
    status, lines = said
    for line in lines:
        word, _, rest = line.partition(" ")
        label, _, detail = rest.partition(": ")
        excuse = lacks.get(label) or lacks.get(f"{name}: {label}")
        if word == "FAIL" and excuse:
            tally.add("skip", f"{name}: {label}", excuse)
        elif word in ("PASS", "FAIL", "SKIP"):
            tally.add(word.lower(), f"{name}: {label}", detail)
        else:
            print(f"        guest: {line}")
    if status in (124, 125):
        why = f"the guest did not end within {LIMIT_S} s" if status == 124 else "the guest ended without running the job"
        tally.add("fail", f"{name}: guest", why)
    elif status != (failed := sum(line.startswith("FAIL ") for line in lines)):
        tally.add("fail", f"{name}: job", f"it ended with {status} after {failed} failures")
