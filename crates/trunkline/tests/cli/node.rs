//! A node of a virtual server whose start fails.

use rustix::fs::{CWD, FileType, Mode, mknodat};
use testkit::program::ProgramDir;

/// A file that hangs when it is opened stands for storage that does not answer.
#[test]
fn a_node_whose_start_hangs_ends_and_does_not_give_the_tenure_back() {
    let program = ProgramDir::new();
    program.write(
        "t.toml",
        "[server]\nstate_dir = \"state\"\nsmb_port = 0\nlisten = [\"127.0.0.1\"]\ndiscovery = false\n\
         [node]\ntenure = \"flock\"\nname = \"a\"\nrun_dir = \"run\"\nstart_timeout_s = 1\n\
         [[user]]\nname = \"ann\"\npassword_file = \"pipe\"\n\
         [share.docs]\npath = \"docs\"\nusers = { ann = \"full\" }\n",
    );
    program.write("docs/file", "");
    mknodat(CWD, program.path().join("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    let done = program.run("node serve --config t.toml").code(1);
    let output = done.get_output();
    let said = String::from_utf8_lossy(&[&*output.stdout, &*output.stderr].concat()).into_owned();
    assert!(said.contains("did not start within 1 s") && said.contains("start_timeout_s"), "{said}");
    // The next owner must fence this one, and other nodes may try first.
    let record = std::fs::read_to_string(program.path().join("state.tenure.json")).unwrap();
    assert!(record.contains("\"owner\":{\"node\":\"a\""), "{record}");
    assert!(program.path().join("run/node-trunkline.failed").exists());
}
