"""Fill a new Active Directory with users and groups, in one transaction. Runs with the Python of Samba.

    populate.py SMB.CONF < SPECIFICATION

The specification is JSON: `users` and `groups` as in active_directory.py. A user without a password cannot log on. The controller must not run yet.
"""

import json
import sys
from typing import Any


def attributes(entry: dict[str, Any]) -> dict[str, list[str]]:
    """Return the additional attributes of an entry."""
    return {name: value if isinstance(value, list) else [str(value)] for name, value in entry.items()}


def main() -> None:
    """Make what the specification says."""
    import ldb  # type: ignore[import-not-found]
    from samba.auth import system_session  # type: ignore[import-not-found]
    from samba.param import LoadParm  # type: ignore[import-not-found]
    from samba.samdb import SamDB  # type: ignore[import-not-found]

    settings = LoadParm()
    settings.load(sys.argv[1])
    base = SamDB(url=settings.private_path("sam.ldb"), session_info=system_session(), lp=settings)
    wanted = json.load(sys.stdin)
    base.transaction_start()
    # Passwords may be short-lived and simple here.
    base.set_minPwdAge("0")
    users = f"CN=Users,{base.domain_dn()}"

    def change(name: str, values: dict[str, list[str]]) -> None:
        message = ldb.Message(ldb.Dn(base, f"CN={name},{users}"))
        for key, value in values.items():
            message[key] = ldb.MessageElement(value, ldb.FLAG_MOD_REPLACE, key)
        if values:
            base.modify(message)

    for name, entry in wanted["users"].items():
        if "password" in entry:
            base.newuser(name, entry["password"])
        else:
            # NORMAL_ACCOUNT and PASSWD_NOTREQD: keys of passwords take most of the time of a new user.
            base.add({"dn": f"CN={name},{users}", "objectClass": "user", "sAMAccountName": name, "userAccountControl": "544"})
        change(name, attributes(entry.get("attributes", {})))
    # Groups may have each other as members, which are added when all are there.
    later = {}
    for name, entry in wanted["groups"].items():
        members = [f"CN={member},{users}" for member in entry.get("members", [])]
        if not set(entry.get("members", [])) <= wanted["users"].keys():
            later[name], members = members, []
        base.add({"dn": f"CN={name},{users}", "objectClass": "group", "sAMAccountName": name, **({"member": members} if members else {}),
                  **attributes(entry.get("attributes", {}))})
    for name, members in later.items():
        change(name, {"member": members})
    # What samba_spnupdate would add later, on a running controller.
    controller = f"{settings.get('netbios name')}".lower()
    host, realm = f"{controller}.{wanted['realm']}", wanted["realm"]
    message = ldb.Message(ldb.Dn(base, f"CN={controller.upper()},OU=Domain Controllers,{base.domain_dn()}"))
    names = [f"ldap/{host}", f"ldap/{controller.upper()}", f"ldap/{host}/{realm}", f"GC/{host}/{realm}", f"RestrictedKrbHost/{host}"]
    message["servicePrincipalName"] = ldb.MessageElement(names, ldb.FLAG_MOD_ADD, "servicePrincipalName")
    base.modify(message)
    if suffixes := wanted.get("upn_suffixes"):
        message = ldb.Message(ldb.Dn(base, f"CN=Partitions,{base.get_config_basedn()}"))
        message["uPNSuffixes"] = ldb.MessageElement(suffixes, ldb.FLAG_MOD_REPLACE, "uPNSuffixes")
        base.modify(message)
    base.transaction_commit()


if __name__ == "__main__":
    main()
