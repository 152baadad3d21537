"""Count what a script has printed in the guest: one case for each `PASS name` and `FAIL name: why`."""

LIMIT_S = 420


def count(tally, name, ran, server, lacks):
    """Add the cases of one mount. `ran` is what `guest.run` gave, whether the server was alive then, and its log; `server` has
    ended since. `lacks` says which cases may fail and why, and is empty where none may."""
    (status, lines), alive, log = ran
    if server.complaint:
        tally.add("fail", f"{name}: the server's end", server.complaint)
    for line in lines:
        word, _, rest = line.partition(" ")
        label, _, detail = rest.partition(": ")
        if word == "FAIL" and label in lacks:
            tally.add("skip", f"{name}: {label}", lacks[label])
        elif word in ("PASS", "FAIL"):
            tally.add(word.lower(), f"{name}: {label}", detail)
        else:
            print(f"        guest: {line}")
    if not alive:
        tally.add("fail", f"{name}: server", f"it ended: {log[-400:]}")
    if status in (124, 125):
        why = f"the guest did not end within {LIMIT_S} s" if status == 124 else "the guest ended without running the job"
        tally.add("fail", f"{name}: guest", why)
