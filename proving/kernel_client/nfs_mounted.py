"""The share of mounted.py, mounted over NFS by Linux's client."""

from proving.kernel_client import guest, mounted


def missing() -> str:
    """Return the missing requirement of a mount over NFS here, if any."""
    return guest.missing(("mount.nfs", "nfs-common"))


class NfsMounted(mounted.Mounted):
    """The same server, guest and workers; the options of the mount are those of mount.nfs."""

    def __init__(self, kind: str, options: str) -> None:
        super().__init__(kind, "nfs", 1, options)

    def mount(self, where: str, options: str) -> None:
        """Mount the share once more."""
        words = f"port={self.server.port},{options}"
        if refused := self.ask("mount_nfs", where=where, source=f"{guest.SERVER_ADDRESS}:/files", options=words):
            raise mounted.RunFailed(f"mount: {refused}")

    def explain(self) -> None:
        """Print information that helps to find a cause."""
        print("        server: " + self.server.log(40).replace("\n", "\n                "))
        print(f"        the server {'runs' if self.server.alive() else 'has ended'}; its connections: {self.cutter.connections()}")
        print(f"        open at the server: {self.opens_in_words()}")
        for request, arguments in (("ports", {}), ("transports", {"where": "/mnt/a"}), ("stacks", {}), ("last_words", {})):
            try:
                print(f"        {request}: {self.guest.ask(20, do=request, **arguments)}", flush=True)
            except guest.GuestEnded:
                return
