//! One access list and one mode, set and read over both protocols.

use nfs_wire::xdr::List;
use smb_wire::query_info;
use volume::security::{Ace, AceFlags, AceKind, Acl, Descriptor, Rights, Sid, well_known};

use super::*;

/// Owner, group and list (MS-DTYP 2.4.7).
const WHO_MAY: u32 = 7;

fn descriptor_of(client: &mut Peer, name: &str) -> Descriptor {
    let id = client.open(name);
    let answer = client.call(SmbCommand::QueryInfo, |out| {
        query_info::Request {
            info_type: InfoType::Security,
            file_info_class: 0,
            output_buffer_length: 4096,
            additional_information: WHO_MAY,
            flags: query_info::QueryInfoFlags::empty(),
            file_id: id,
            input_buffer: &[],
        }
        .write(out);
    });
    assert_eq!(answer.status(), NtStatus::SUCCESS);
    let told = query_info::Response::parse(&answer.message).expect("a response");
    let descriptor = Descriptor::parse(told.output_buffer).expect("a descriptor");
    assert_eq!(client.close(id), NtStatus::SUCCESS);
    descriptor
}

fn ace(who: &[u8], mask: attr::AceMask, flag: attr::AceFlags) -> attr::Ace<'_> {
    attr::Ace { ace_type: attr::AceType::Allowed, flag, access_mask: mask, who }
}

// RFC 8881 6.2, 6.4
#[test]
fn a_list_set_over_nfs_is_the_descriptor_that_smb_shows_and_the_mode_follows() {
    let mut both = Both::new();
    both.smb.make("file", b"text");
    let (reads, all) =
        (attr::AceMask::READ_DATA | attr::AceMask::READ_ACL, attr::AceMask::from_bits_retain(0x1f_01ff));
    let none = attr::AceFlags::empty();
    let deny = attr::Ace { ace_type: attr::AceType::Denied, ..ace(b"1003", attr::AceMask::WRITE_DATA, none) };
    let aces = [
        deny,
        ace(b"OWNER@", all, none),
        ace(b"1002", reads, none),
        ace(b"55", reads, attr::AceFlags::IDENTIFIER_GROUP),
        ace(b"EVERYONE@", attr::AceMask::READ_ATTRIBUTES, none),
    ];
    assert_eq!(both.set("file", &[Attr::Acl(List::of(&aces))]), NfsStat::Ok);
    let shown = descriptor_of(&mut both.smb, "file");
    let owner = shown.owner.expect("an owner");
    let reading = Rights::READ_DATA | Rights::READ_CONTROL;
    let wanted = [
        Ace::deny(Sid::unix_user(1003), Rights::WRITE_DATA, AceFlags::empty()),
        Ace::allow(owner, Rights::ALL, AceFlags::empty()),
        Ace::allow(Sid::unix_user(1002), reading, AceFlags::empty()),
        Ace::allow(Sid::unix_group(55), reading, AceFlags::empty()),
        Ace::allow(well_known::EVERYONE, Rights::READ_ATTRIBUTES, AceFlags::empty()),
    ];
    assert_eq!(shown.dacl.expect("a list").aces, wanted);
    // As it was set it is read, and the mode says what of it a mode can say.
    both.attributes("file", &[AttrNum::Acl, AttrNum::Aclsupport, AttrNum::Mode], |told| {
        let [Attr::Acl(list), Attr::Aclsupport(support), Attr::Mode(mode)] = told else { panic!("{told:?}") };
        assert_eq!(list.iter().collect::<Vec<_>>(), aces);
        assert_eq!((*support, *mode), (3, 0o700), "RFC 8881 6.3.2: the right to run is x");
    });
    // A mode is applied to the list: whoever is named keeps what the bits of the group leave.
    let reader_of = |both: &mut Both| {
        let shown = descriptor_of(&mut both.smb, "file").dacl.expect("a list");
        shown.aces.into_iter().find(|ace| ace.sid() == Some(&Sid::unix_user(1002)))
    };
    for (mode, left) in [(0o640, reading), (0o600, Rights::READ_CONTROL)] {
        assert_eq!(both.set("file", &[Attr::Mode(mode)]), NfsStat::Ok);
        let kept = Ace::allow(Sid::unix_user(1002), left, AceFlags::empty());
        assert_eq!(reader_of(&mut both), Some(kept), "{mode:o}");
        both.attributes("file", &[AttrNum::Mode], |told| assert_eq!(told, [Attr::Mode(mode)]));
    }
}

#[test]
fn a_list_that_cannot_be_kept_is_refused_and_changes_nothing() {
    let mut both = Both::new();
    both.smb.make("file", b"text");
    let before = descriptor_of(&mut both.smb, "file");
    let one = ace(b"OWNER@", attr::AceMask::READ_DATA, attr::AceFlags::empty());
    for (entry, status) in [
        (attr::Ace { ace_type: attr::AceType::Audit, ..one }, NfsStat::AttrNotSupp),
        (attr::Ace { ace_type: attr::AceType::Alarm, ..one }, NfsStat::AttrNotSupp),
        (attr::Ace { ace_type: attr::AceType::Unknown(9), ..one }, NfsStat::Inval),
        (attr::Ace { who: b"somebody@elsewhere", ..one }, NfsStat::BadOwner),
        (attr::Ace { who: b"", ..one }, NfsStat::BadOwner),
        (attr::Ace { who: b"S-1-x", ..one }, NfsStat::BadOwner),
        (attr::Ace { access_mask: attr::AceMask::WRITE_RETENTION, ..one }, NfsStat::AttrNotSupp),
        (attr::Ace { access_mask: attr::AceMask::from_bits_retain(1 << 30), ..one }, NfsStat::Inval),
    ] {
        assert_eq!(both.set("file", &[Attr::Acl(List::of(&[entry]))]), status, "{entry:?}");
    }
    let many = vec![one; 513];
    assert_eq!(both.set("file", &[Attr::Acl(List::of(&many))]), NfsStat::FBig);
    let audit = attr::Acl41 { flag: attr::AclFlags::empty(), aces: List::EMPTY };
    assert_eq!(both.set("file", &[Attr::Sacl(audit)]), NfsStat::AttrNotSupp);
    assert_eq!(descriptor_of(&mut both.smb, "file"), before);
}

#[test]
fn what_a_directory_hands_down_is_the_same_over_nfs() {
    let mut both = Both::new();
    let id = both.smb.create(&OpenFile::directory("d")).file_id();
    both.smb.close(id);
    let flags = attr::AceFlags::FILE_INHERIT | attr::AceFlags::DIRECTORY_INHERIT;
    let all = attr::AceMask::from_bits_retain(0x1f_01ff);
    let aces = [ace(b"OWNER@", all, flags), ace(b"1002", attr::AceMask::READ_DATA, flags)];
    let list = attr::Acl41 { flag: attr::AclFlags::PROTECTED, aces: List::of(&aces) };
    assert_eq!(both.set("d", &[Attr::Dacl(list)]), NfsStat::Ok);
    let shown = descriptor_of(&mut both.smb, "d");
    assert!(shown.control.contains(volume::security::Control::DACL_PROTECTED));
    let kinds: Vec<_> =
        shown.dacl.expect("a list").aces.into_iter().map(|ace| (ace.kind, ace.flags)).collect();
    let both_kinds = AceFlags::OBJECT_INHERIT | AceFlags::CONTAINER_INHERIT;
    let owner = shown.owner.expect("an owner");
    assert_eq!(
        kinds,
        [
            (AceKind::Allow(Rights::ALL, owner), AceFlags::empty()),
            (AceKind::Allow(Rights::ALL, well_known::CREATOR_OWNER), both_kinds | AceFlags::INHERIT_ONLY),
            (AceKind::Allow(Rights::READ_DATA, Sid::unix_user(1002)), both_kinds),
        ]
    );
    both.attributes("d", &[AttrNum::Dacl], |told| {
        let [Attr::Dacl(list)] = told else { panic!("{told:?}") };
        assert_eq!(list.flag, attr::AclFlags::PROTECTED);
        assert!(list.aces.iter().all(|ace| matches!(ace.who, b"OWNER@" | b"1002")));
    });
}

#[test]
fn a_descriptor_set_over_smb_is_the_list_that_nfs_shows() {
    let mut both = Both::new();
    both.smb.make("file", b"text");
    let id = both.smb.open("file");
    let stranger: Sid = "S-1-5-21-9-9-9-1234".parse().expect("an identifier");
    let list = Acl::new(vec![
        Ace::deny(stranger, Rights::DELETE, AceFlags::empty()),
        Ace::allow(Sid::unix_user(1002), Rights::GENERIC_READ, AceFlags::empty()),
        Ace::allow(well_known::EVERYONE, Rights::READ_DATA, AceFlags::INHERITED),
    ]);
    let mut given = Descriptor::new(well_known::NULL, well_known::NULL, list);
    (given.owner, given.group) = (None, None);
    let bytes = given.encode().expect("a descriptor");
    let before = both.change("file");
    let done = both.smb.status(SmbCommand::SetInfo, |out| {
        set_info::Request {
            info_type: InfoType::Security,
            file_info_class: 0,
            additional_information: 4,
            file_id: id,
            buffer: &bytes,
        }
        .write(out);
    });
    assert_eq!(done, NtStatus::SUCCESS);
    assert!(both.change("file") > before);
    both.attributes("file", &[AttrNum::Acl], |told| {
        let [Attr::Acl(list)] = told else { panic!("{told:?}") };
        let all: Vec<_> =
            list.iter().map(|ace| (ace.who.to_vec(), ace.access_mask.bits(), ace.flag)).collect();
        assert_eq!(
            all,
            [
                (stranger.to_string().into_bytes(), Rights::DELETE.bits(), attr::AceFlags::empty()),
                (b"1002".to_vec(), Rights::FOR_READ.bits(), attr::AceFlags::empty()),
                (b"EVERYONE@".to_vec(), Rights::READ_DATA.bits(), attr::AceFlags::INHERITED),
            ]
        );
    });
    // What was read can be set again, somebody whom nobody knows included.
    let again = [
        attr::Ace {
            ace_type: attr::AceType::Denied,
            ..ace(b"S-1-5-21-9-9-9-1234", attr::AceMask::DELETE, attr::AceFlags::empty())
        },
        ace(b"1002", attr::AceMask::READ_DATA, attr::AceFlags::empty()),
    ];
    assert_eq!(both.set("file", &[Attr::Acl(List::of(&again))]), NfsStat::Ok);
    let first = descriptor_of(&mut both.smb, "file").dacl.expect("a list").aces[0].clone();
    assert_eq!(first, Ace::deny(stranger, Rights::DELETE, AceFlags::empty()));
}
