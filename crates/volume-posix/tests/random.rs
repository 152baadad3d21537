//! Random sequences of calls on a directory of the host and on the volume in memory. Every result must be
//! the same, and so must the final state. `PROPTEST_CASES` sets the number of sequences. A sequence that
//! failed once is kept as a case of the conformance suite.

mod common;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use proptest::prelude::*;
use volume::memory::MemoryVolume;
use volume::{Failure, Name, Node, Note, OpenHow, Patience, Volume};

/// One call. An index selects a node among the open ones, and a name among a few.
#[derive(Debug, Clone)]
enum Op {
    CreateFile { at: usize, name: u8, mode: u32 },
    CreateDirectory { at: usize, name: u8 },
    CreateLink { at: usize, name: u8, text: Vec<u8> },
    Lookup { at: usize, name: u8, how: u8 },
    OpenAgain { node: usize, how: u8 },
    Remove { at: usize, name: u8, directory: bool },
    Rename { at: usize, name: u8, to: usize, to_name: u8, replace: bool },
    AddName { at: usize, name: u8, node: usize },
    Write { node: usize, at: u32, len: u16, byte: u8 },
    Read { node: usize, at: u32, len: u16 },
    SetSize { node: usize, size: u32 },
    Punch { node: usize, at: u32, len: u16 },
    Copy { node: usize, at: u32, to: usize, to_at: u32, len: u16 },
    SetMode { node: usize, mode: u32 },
    SetNote { node: usize, note: u8, len: Option<u32> },
    SetAttribute { node: usize, name: u8, len: Option<u8> },
    OpenStream { node: usize, name: u8, create: bool, exclusive: bool },
    RemoveStream { node: usize, name: u8 },
    RenameStream { node: usize, from: u8, to: u8, replace: bool },
}

fn ops() -> impl Strategy<Value = Op> {
    let (n, name, at) = (0..64_usize, 0..5_u8, 0..300_000_u32);
    let (len, yes) = (any::<u16>(), any::<bool>());
    prop_oneof![
        4 => (n.clone(), name.clone(), 0o400..0o1000_u32)
            .prop_map(|(at, name, mode)| Op::CreateFile { at, name, mode: mode | 0o600 }),
        3 => (n.clone(), name.clone()).prop_map(|(at, name)| Op::CreateDirectory { at, name }),
        1 => (n.clone(), name.clone(), prop::collection::vec(any::<u8>(), 0..9))
            .prop_map(|(at, name, text)| Op::CreateLink { at, name, text }),
        3 => (n.clone(), name.clone(), 0..3_u8).prop_map(|(at, name, how)| Op::Lookup { at, name, how }),
        1 => (n.clone(), 0..3_u8).prop_map(|(node, how)| Op::OpenAgain { node, how }),
        3 => (n.clone(), name.clone(), yes)
            .prop_map(|(at, name, directory)| Op::Remove { at, name, directory }),
        4 => (n.clone(), name.clone(), n.clone(), name.clone(), yes)
            .prop_map(|(at, name, to, to_name, replace)| Op::Rename { at, name, to, to_name, replace }),
        2 => (n.clone(), name.clone(), n.clone()).prop_map(|(at, name, node)| Op::AddName { at, name, node }),
        3 => (n.clone(), at.clone(), len, any::<u8>())
            .prop_map(|(node, at, len, byte)| Op::Write { node, at, len, byte }),
        2 => (n.clone(), at.clone(), len).prop_map(|(node, at, len)| Op::Read { node, at, len }),
        1 => (n.clone(), at.clone()).prop_map(|(node, size)| Op::SetSize { node, size }),
        1 => (n.clone(), at.clone(), len).prop_map(|(node, at, len)| Op::Punch { node, at, len }),
        2 => (n.clone(), at.clone(), n.clone(), at, len)
            .prop_map(|(node, at, to, to_at, len)| Op::Copy { node, at, to, to_at, len }),
        1 => (n.clone(), 0..0o1000_u32).prop_map(|(node, mode)| Op::SetMode { node, mode: mode | 0o700 }),
        2 => (n.clone(), 0..4_u8, prop::option::of(0..90_000_u32))
            .prop_map(|(node, note, len)| Op::SetNote { node, note, len }),
        1 => (n.clone(), name.clone(), prop::option::of(any::<u8>()))
            .prop_map(|(node, name, len)| Op::SetAttribute { node, name, len }),
        2 => (n.clone(), name.clone(), yes, yes)
            .prop_map(|(node, name, create, exclusive)| Op::OpenStream { node, name, create, exclusive }),
        1 => (n.clone(), name.clone()).prop_map(|(node, name)| Op::RemoveStream { node, name }),
        1 => (n, name.clone(), name, yes)
            .prop_map(|(node, from, to, replace)| Op::RenameStream { node, from, to, replace }),
    ]
}

fn name(number: u8) -> Name {
    Name::new(&[b'a' + number]).unwrap()
}

fn how(number: u8) -> OpenHow {
    [OpenHow::Attributes, OpenHow::Read, OpenHow::ReadWrite][usize::from(number)]
}

fn note(number: u8) -> Note {
    [Note::Attributes, Note::Descriptor, Note::ObjectId, Note::Reparse][usize::from(number)]
}

/// A volume and the nodes that are open on it.
struct VolumeUnderTest {
    nodes: Vec<Arc<dyn Node>>,
}

impl VolumeUnderTest {
    fn node(&self, index: usize) -> &Arc<dyn Node> {
        &self.nodes[index % self.nodes.len()]
    }

    /// Keeps a node that was opened, and describes it.
    fn keep(&mut self, opened: volume::Result<Arc<dyn Node>>) -> volume::Result<String> {
        let node = opened?;
        // Two names of one file must lead to the same file on both volumes.
        let same = self.nodes.iter().position(|other| other.id() == node.id());
        let told = format!("{same:?} {}", describe(&*node)?);
        self.nodes.push(node);
        Ok(told)
    }

    fn run(&mut self, op: &Op) -> volume::Result<String> {
        let done = |()| String::new();
        match op.clone() {
            Op::CreateFile { at, name: n, mode } => {
                let made = self.node(at).create_file(&name(n), mode, None);
                self.keep(made)
            }
            Op::CreateDirectory { at, name: n } => {
                let made = self.node(at).create_directory(&name(n), 0o755, None);
                self.keep(made)
            }
            Op::CreateLink { at, name: n, text } => {
                let made = self.node(at).create_link(&name(n), &text, None);
                self.keep(made)
            }
            Op::Lookup { at, name: n, how: h } => {
                let opened = self.node(at).lookup(&name(n), how(h));
                self.keep(opened)
            }
            Op::OpenAgain { node, how: h } => {
                let opened = self.node(node).open_again(how(h));
                self.keep(opened)
            }
            Op::Remove { at, name: n, directory } => {
                self.node(at).remove(&name(n), directory, None).map(done)
            }
            Op::Rename { at, name: n, to, to_name, replace } => {
                self.node(at).rename(&name(n), &**self.node(to), &name(to_name), replace, None).map(done)
            }
            Op::AddName { at, name: n, node } => {
                self.node(at).add_name(&name(n), &**self.node(node), None).map(done)
            }
            Op::Write { node, at, len, byte } => {
                self.node(node).write(at.into(), &vec![byte; len.into()]).map(done)
            }
            Op::Read { node, at, len } => {
                let mut out = Vec::new();
                let got = self.node(node).read(at.into(), len.into(), &mut out, Patience::Block)?;
                Ok(format!("{got} {out:?}"))
            }
            Op::SetSize { node, size } => self.node(node).set_size(size.into()).map(done),
            Op::Punch { node, at, len } => {
                self.node(node).punch(at.into()..u64::from(at) + u64::from(len)).map(done)
            }
            Op::Copy { node, at, to, to_at, len } => {
                let copied =
                    self.node(node).copy_range(at.into(), &**self.node(to), to_at.into(), len.into());
                copied.map(|len| len.to_string())
            }
            Op::SetMode { node, mode } => self.node(node).set_mode(mode).map(done),
            Op::SetNote { node, note: n, len } => {
                self.set_note(node, note(n), len.map(|len| vec![n; len as usize]))
            }
            Op::SetAttribute { node, name: n, len } => {
                self.set_attribute(node, &name(n), len.map(|len| vec![n; len.into()]))
            }
            Op::OpenStream { .. } | Op::RemoveStream { .. } | Op::RenameStream { .. } => {
                self.run_on_stream(op)
            }
        }
    }

    fn set_note(&self, node: usize, note: Note, value: Option<Vec<u8>>) -> volume::Result<String> {
        let node = self.node(node);
        if node.stat()?.links > 0 {
            node.set_note(note, value.as_deref())?;
        }
        Ok(String::new())
    }

    fn set_attribute(&self, node: usize, name: &Name, value: Option<Vec<u8>>) -> volume::Result<String> {
        let node = self.node(node);
        match node.set_attribute(name.as_bytes(), value.as_deref()) {
            // The notes of a file without a name cannot make room for attributes.
            Err(Failure::NoSpace) if node.stat()?.links == 0 => {}
            other => other?,
        }
        Ok(String::new())
    }

    fn run_on_stream(&mut self, op: &Op) -> volume::Result<String> {
        let done = |()| String::new();
        match op.clone() {
            Op::OpenStream { node, name: n, create, exclusive } => {
                let opened = self.node(node).open_stream(&name(n), create, exclusive);
                self.keep(opened)
            }
            Op::RemoveStream { node, name: n } => self.node(node).remove_stream(&name(n)).map(done),
            Op::RenameStream { node, from, to, replace } => {
                self.node(node).rename_stream(&name(from), &name(to), replace).map(done)
            }
            other => unreachable!("{other:?} is no call about streams"),
        }
    }
}

/// The description of a node. Both volumes must give the same.
fn describe(node: &dyn Node) -> volume::Result<String> {
    let stat = node.stat()?;
    // The size and link count of a directory depend on the file system.
    let size = if stat.kind == volume::NodeKind::Directory { 0 } else { stat.size };
    let links = if stat.kind == volume::NodeKind::Directory { 0 } else { stat.links };
    let mode = stat.mode & 0o777;
    if stat.links == 0 {
        // Streams are removed with the last name, and notes may be.
        return Ok(format!("{:?} {:?} {size} {mode:o} gone", node.kind(), node.how()));
    }
    let mut all = format!("{:?} {:?} {size} {links} {mode:o}", node.kind(), node.how());
    for number in 0..4 {
        all += &format!(" {:?}", node.note(note(number))?.map(|v| v.len()));
    }
    let attributes: BTreeMap<_, _> = node.attributes()?.into_iter().collect();
    let streams: BTreeMap<_, _> = node.streams()?.into_iter().map(|s| (s.name, s.size)).collect();
    Ok(format!("{all} {attributes:?} {streams:?}"))
}

/// Everything below a directory.
fn tree(directory: &dyn Node, path: &str, all: &mut BTreeMap<String, String>) {
    let mut names = Vec::new();
    let mut take = |entry: volume::DirEntry| {
        names.push(entry.name);
        ControlFlow::Continue(())
    };
    directory.entries(0, &mut take).unwrap();
    for name in names {
        let path = format!("{path}/{}", name.display());
        let node = directory.lookup(&name, OpenHow::Read).unwrap();
        let mut told = describe(&*node).unwrap();
        match node.kind() {
            volume::NodeKind::Directory => tree(&*node, &path, all),
            volume::NodeKind::Link => told += &format!("{:?}", node.link_text().unwrap()),
            _ => {
                let mut out = Vec::new();
                node.read(0, 1 << 20, &mut out, Patience::Block).unwrap();
                told += &format!("{out:?}");
            }
        }
        assert!(all.insert(path.clone(), told).is_none(), "{path} is there twice");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_directory_of_the_host_answers_like_the_reference(ops in prop::collection::vec(ops(), 1..80)) {
        let (host, _place) = common::fresh();
        let memory = MemoryVolume::new(1);
        let mut reference = VolumeUnderTest { nodes: vec![memory.root().unwrap()] };
        let mut real = VolumeUnderTest { nodes: vec![host.root().unwrap()] };
        if !common::is_root() {
            host.root().unwrap().set_mode(0o755).unwrap();
        }
        for (number, op) in ops.iter().enumerate() {
            let expected = reference.run(op);
            let seen = real.run(op);
            prop_assert!(
                expected == seen,
                "call {number}, {op:?}:\n  expected {expected:?}\n  seen     {seen:?}"
            );
        }
        let (mut expected, mut seen) = (BTreeMap::new(), BTreeMap::new());
        tree(&*memory.root().unwrap(), "", &mut expected);
        tree(&*host.root().unwrap(), "", &mut seen);
        prop_assert!(expected == seen, "expected {expected:?}\nseen {seen:?}");
    }
}
