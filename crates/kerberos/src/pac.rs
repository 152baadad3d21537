//! The Privilege Attribute Certificate of a ticket (MS-PAC): the user's and groups' SIDs.
